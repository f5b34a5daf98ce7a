"""The two-host mode: one end of each tunnel here, the other on another host, the load between them.

    far host:  bench/run --listen 192.0.2.2
    near host: bench/run --connect 192.0.2.2 --from 192.0.2.1 --token WORD

The far host prints WORD and does what the near one asks: make an end of a kind that it knows, serve
iperf3, tell its CPU time; it runs no command that comes from outside. Every line between them
carries an HMAC by the token. The lines are not secret: of keys only public ones pass, but for those
of the kernel's IPsec, which has no key exchange here and must carry nothing but the measurement.

Tunnel devices are made in the hosts' own network namespace, with addresses of 198.18.0.0/15, and
are gone afterwards. weft's node takes UDP 13000, the others the ports of bench/ends.py.
"""
import hashlib
import hmac
import json
import secrets
import socket
import subprocess
import sys

from ends import (KernelIpsecEnd, NullEnd, OpenVpnEnd, PlainEnd, WeftEnd, WireGuardGoEnd,
                  WireGuardKernelEnd)
from measure import TESTS, rows_of
from subjects import Server, Subject, cpu_of, cpu_of_machine
from lab import Ended, Failed, Lab, Namespace, wait_ping
from lab.core import run

PORT = 7340
SILENCE_S = 600.0
LINE_MAX = 65536
NAMES = {"no tunnel": PlainEnd, "null": NullEnd, "weft": WeftEnd, "wireguard-go": WireGuardGoEnd,
         "WireGuard of the kernel": WireGuardKernelEnd, "OpenVPN": OpenVpnEnd,
         "IPsec of the kernel": KernelIpsecEnd}
ENDS = {**NAMES, "weft by OpenSSL": WeftEnd}
PROBLEMS = (Failed, Ended, OSError, KeyError, TypeError, ValueError, subprocess.SubprocessError)


def add_arguments(parser):
    group = parser.add_argument_group("two hosts")
    group.add_argument("--listen", metavar="ADDRESS", help="be the far host, with this address")
    group.add_argument("--connect", metavar="ADDRESS", help="measure to the far host")
    group.add_argument("--from", dest="source", metavar="ADDRESS", help="the own address")
    group.add_argument("--token", help="the word that the far host prints, or that it shall take")
    group.add_argument("--port", type=int, default=PORT, help=f"of the control, TCP {PORT}")


class Host(Namespace):
    """The namespace that this program runs in, for what wants one of a lab."""

    def __init__(self, lab):
        super().__init__(lab, "host", "")

    def argv(self, command):
        return list(command)

    def ip(self, words, check=True):
        return run(["ip", *words.split()], check=check).stdout

    def ip_json(self, words):
        return json.loads(run(["ip", "-j", *words.split()]).stdout.strip() or "[]")


class Wire:
    """Lines of JSON with an HMAC each; a line cannot be sent back or again."""

    def __init__(self, sock, token, client):
        sock.settimeout(SILENCE_S)
        self.sock, self.file, self.token = sock, sock.makefile("rb"), token.encode()
        self.ways = (b"c", b"s") if client else (b"s", b"c")
        self.counts = [0, 0]
        if client:
            self.nonce = self.file.readline(LINE_MAX).strip()
        else:
            self.nonce = secrets.token_hex(16).encode()
            sock.sendall(self.nonce + b"\n")

    def _mac(self, way, text):
        number = self.counts[way]
        self.counts[way] += 1
        return hmac.new(self.token, b" ".join((self.ways[way], self.nonce, b"%d" % number, text)),
                        hashlib.sha256).hexdigest().encode()

    def send(self, value):
        text = json.dumps(value).encode()
        self.sock.sendall(self._mac(0, text) + b" " + text + b"\n")

    def receive(self):
        """The next value; None at the end."""
        line = self.file.readline(LINE_MAX)
        if not line:
            return None
        mac, _, text = line.rstrip(b"\n").partition(b" ")
        if not hmac.compare_digest(mac, self._mac(1, text)):
            raise Failed("a line that is not by the other end's token")
        return json.loads(text)

    def ask(self, verb, **more):
        self.send({"verb": verb, **more})
        said = self.receive()
        if said is None:
            raise Failed("the far host has gone")
        if "error" in said:
            raise Failed(f"far host: {said['error']}")
        return said


class Far:
    """What the far host does for one near one."""

    def __init__(self, lab, address):
        self.space, self.address = Host(lab), address
        self.ends, self.servers = {}, {}

    def answer(self, asked):
        verb = asked["verb"]
        if verb not in ("hello", "make", "join", "serve", "cpu", "close"):
            raise Failed(f"no verb {verb}")
        return getattr(self, verb)(asked)

    def hello(self, asked):
        return {"kinds": list(ENDS)}

    def make(self, asked):
        end = self.ends[asked["name"]] = make_end(asked["name"], self.space, 2, self.address,
                                                  asked["address"])
        return {"offer": end.offer()}

    def join(self, asked):
        end = self.ends[asked["name"]]
        end.join(asked["offer"])
        return {"address": end.address}

    def serve(self, asked):
        name = asked["name"]
        if name in self.servers:
            self.servers[name].ready()
        else:
            self.servers[name] = Server(self.space, self.space, self.ends[name].address)
        return {}

    def cpu(self, asked):
        end = self.ends[asked["name"]]
        found = {"machine": cpu_of_machine()}
        return found | ({"daemon": sum(map(cpu_of, end.daemons))} if end.daemons else {})

    def close(self, asked=None):
        names = [asked["name"]] if asked else list(self.ends)
        for name in names:
            close_end(self.ends.pop(name, None), self.servers.pop(name, None))
        return {}


def close_end(end, server=None):
    if server:
        server.stop()
    if end:
        for daemon in end.daemons:
            daemon.stop()
        end.close()


def make_end(name, space, number, outer, far):
    more = {"config": {"plane": {"crypto": "openssl"}}} if name == "weft by OpenSSL" else {}
    return ENDS[name](space, number, outer, far, **more)


def serve(wire, far):
    while (asked := wire.receive()) is not None:
        try:
            wire.send(far.answer(asked))
        except PROBLEMS as why:
            wire.send({"error": f"{type(why).__name__} {why}"[:2000]})


def listen(args):
    """The far host: serves near ones, one after another, until it is interrupted."""
    token = args.token or secrets.token_hex(8)
    family = socket.AF_INET6 if ":" in args.listen else socket.AF_INET
    with socket.create_server((args.listen, args.port), family=family) as server:
        print(f"on the other host: bench/run --connect {args.listen} --from ITS-ADDRESS "
              f"--port {args.port} --token {token}", flush=True)
        while True:
            sock, who = server.accept()
            with sock, Lab() as lab:
                far = Far(lab, args.listen)
                try:
                    serve(Wire(sock, token, client=False), far)
                except (Failed, OSError, ValueError) as why:
                    print(f"{who[0]}: {why}", file=sys.stderr, flush=True)
                finally:
                    far.close()


class HostPair(Subject):
    """An end here, and one on the far host."""

    def __init__(self, wire, space, name, source, address):
        self.name, self.wire = name, wire
        self.a = space
        self.end = make_end(name, space, 1, source, address)
        try:
            offer = wire.ask("make", name=name, address=source)["offer"]
            self.address = wire.ask("join", name=name, offer=self.end.offer())["address"]
            self.end.join(offer)
            self.end.finish()
            self.daemons, self.version = self.end.daemons, self.end.version()
            wait_ping(self.a, self.address, timeout=20.0)
            wire.ask("serve", name=name)
        except PROBLEMS:
            self.close()
            raise

    def ready(self):
        self.wire.ask("serve", name=self.name)

    def cpu(self):
        there = self.wire.ask("cpu", name=self.name)
        return super().cpu() | {f"far_{whose}": seconds for whose, seconds in there.items()}

    def close(self):
        close_end(self.end)
        self.wire.ask("close", name=self.name)


def connect(args, bench):
    """The near host: measures every kind that both have; the results as bench/run's."""
    if not (args.source and args.token):
        sys.exit("bench/run --connect ADDRESS also wants --from ADDRESS and --token WORD")
    names, tests = args.subjects or list(NAMES), args.tests or list(TESTS)
    gaps, runs, subjects = [], {}, {}
    with socket.create_connection((args.connect, args.port), timeout=10,
                                  source_address=(args.source, 0)) as sock, Lab() as lab:
        wire, space = Wire(sock, args.token, client=True), Host(lab)
        try:
            wire.ask("hello")
        except Failed as why:
            sys.exit(f"{args.connect}: {why}; is the token the one that it printed?")
        for name in names:
            made = bench.attempt(name, gaps, lambda n=name: HostPair(
                wire, space, n, args.source, args.connect))
            if made:
                subjects[name] = made
                bench.versions[name] = made.version
        wanted = {name: tests for name in subjects}
        try:
            for number in range(bench.rounds):
                bench.look_at_others()
                if not bench.round(number, [t for t in TESTS if t in tests], wanted, subjects,
                                   (runs, gaps)):
                    break
            memory = {name: one.memory() for name, one in subjects.items() if one.daemons}
        finally:
            for name, one in subjects.items():
                bench.attempt(f"the end of {name}", gaps, one.close)
    return {"groups": [{"name": "two hosts", "rows": rows_of(runs), "memory_mb": memory,
                        "gaps": list(dict.fromkeys(gaps))}],
            "facts": bench.facts(), "versions": bench.versions}
