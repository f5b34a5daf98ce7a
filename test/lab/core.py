"""Namespaces, the wires between them, the processes in them, and what the kernel holds there."""
import ctypes
import difflib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
POLL_S = 0.01
STOP_S = 5.0
TAIL_LINES = 40
TAIL_NOISE = re.compile(r"^(sent|got) \d+\b.*\n", re.MULTILINE)
# what a program built with a sanitizer says of itself
SANITIZER = re.compile(r"^.*((ERROR|WARNING): \w+Sanitizer|runtime error: )", re.MULTILINE)
# ctnetlink: IPCTNL_MSG_CT_DELETE without a tuple deletes all; the reply is an nlmsgerr
FLUSH_CONNTRACK = """
import socket, struct
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
sock.send(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 5, 1, 0, 0, 0, 0))
assert struct.unpack_from("=i", sock.recv(4096), 16) == (0,)
"""
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count()


class Failed(Exception):
    """A command, a wait or a daemon did not do what the scenario needs; says which and why."""


def wait_until(condition, timeout, what, every=POLL_S):
    """Calls condition() until it returns something true, and returns that.

    A condition that raises Failed is not met yet. After timeout seconds: Failed, naming `what`
    and the last answer.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            answer = condition()
        except Failed as why:
            answer = None
            last = str(why)
        else:
            last = repr(answer)
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise Failed(f"not within {timeout} s: {what} (last: {last[:2000]})")
        time.sleep(every)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A program that was started; its output goes to a file. Ended by pid, never by name."""

    def __init__(self, argv, log, env=None, stdin=subprocess.DEVNULL):
        self.argv = [str(word) for word in argv]
        self.log_path = Path(log)
        with open(self.log_path, "ab") as out:
            # The kernel kills it when the thread that started it ends: a test run that is
            # killed leaves nothing behind. So daemons are started from the main thread.
            self._popen = subprocess.Popen(
                self.argv, stdin=stdin, stdout=out, stderr=subprocess.STDOUT,
                env=dict(os.environ, **(env or {})), preexec_fn=_die_with_parent)
        self.pid = self._popen.pid
        self.stdin = self._popen.stdin

    @property
    def running(self):
        return self._popen.poll() is None

    @property
    def exit_code(self):
        """None while it runs; negative: the signal that ended it."""
        return self._popen.poll()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, pattern, timeout=10.0):
        """Waits for a line that matches; returns the match."""
        def found():
            match = re.search(pattern, self.log(), re.MULTILINE)
            if match is None and not self.running:
                raise Failed(f"{self.argv[0]} ended with {self.exit_code}")
            return match
        return wait_until(found, timeout, f"{pattern!r} in {self.log_path}")

    def signal(self, number):
        if self.running:
            self._popen.send_signal(number)

    def wait(self, timeout=STOP_S):
        """Waits for its end; returns the exit code."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {timeout} s: {' '.join(self.argv)}") from None

    def stop(self, timeout=STOP_S):
        """SIGTERM, and SIGKILL when it does not heed it; returns the exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self):
        """SIGKILL; returns the exit code."""
        self.signal(signal.SIGKILL)
        return self._popen.wait()


def run(argv, check=True, timeout=60.0, stdin=None):
    """Runs a command to its end; returns the CompletedProcess with text output."""
    argv = [str(word) for word in argv]
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True,
                              errors="replace", timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL if stdin is None else None)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {timeout} s: {' '.join(argv)}") from None
    if check and done.returncode != 0:
        raise Failed(f"exit {done.returncode}: {' '.join(argv)}\n{done.stdout}{done.stderr}")
    return done


class Snapshot:
    """Routes, rules, addresses and nftables rules of a namespace as text, for comparison."""

    def __init__(self, parts):
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, Snapshot) and self.parts == other.parts

    def __repr__(self):
        return "\n".join(self._lines())

    def _lines(self):
        return [f"{name}: {line}" for name, lines in self.parts.items() for line in lines]

    def diff(self, after):
        """The lines that went (-) and came (+), empty when nothing changed."""
        return [line for line in difflib.unified_diff(self._lines(), after._lines(), n=0,
                                                      lineterm="")
                if not line.startswith(("---", "+++", "@@"))]


class Namespace:
    """A network namespace of a lab. DAD and router advertisements are off in it."""

    def __init__(self, lab, label, name):
        self.lab = lab
        self.label = label
        self.name = name
        self._devices = itertools.count()

    def __repr__(self):
        return f"<namespace {self.name}>"

    def argv(self, command):
        """What runs `command` (a list) in here; it replaces itself, so its pid stays."""
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command, check=True, timeout=60.0, stdin=None):
        """Runs a command in here; returns its CompletedProcess, Failed when it fails."""
        return run(self.argv(command), check=check, timeout=timeout, stdin=stdin)

    def sh(self, script, **how):
        return self.run("sh", "-ec", script, **how)

    def ip(self, words, check=True):
        """ip(8) with its arguments in one string; returns what it printed."""
        return run(["ip", "-n", self.name, *words.split()], check=check).stdout

    def ip_json(self, words):
        text = run(["ip", "-n", self.name, "-j", *words.split()]).stdout.strip()
        return json.loads(text) if text else []

    def start(self, *command, name=None, env=None, stdin=subprocess.DEVNULL):
        """Starts a daemon in here; the lab ends it."""
        return self.lab.start(self.argv(command), f"{self.label}-{name or Path(command[0]).name}",
                              env=env, stdin=stdin)

    def sysctl(self, key, value):
        self.run("sysctl", "-qw", f"{key}={value}")

    def new_device(self):
        """A name for a wire's end: eth0, eth1, …"""
        return f"eth{next(self._devices)}"

    def addr(self, address, dev):
        """Adds an address with its prefix length; more than one, separated by spaces."""
        for one in address.split():
            nodad = " nodad" if ":" in one else ""
            self.ip(f"addr add {one} dev {dev}{nodad}")

    def route(self, prefix, words):
        """route("10.0.0.0/8", "via 10.1.0.1"); the family follows the prefix or the words."""
        family = "-6" if ":" in prefix + words else "-4"
        self.ip(f"{family} route add {prefix} {words}")

    def up(self, dev, up=True):
        self.ip(f"link set {dev} {'up' if up else 'down'}")

    def masquerade(self, dev):
        """What leaves by dev gets dev's address and a port of dev's choosing: a NAT router."""
        self.run("nft", "-f", "-", stdin=(
            "table inet nat { chain post { type nat hook postrouting priority srcnat;\n"
            f'oifname "{dev}" masquerade fully-random\n}}\n}}\n'))

    def map_as(self, seen):
        """{address: "address:port"}: as what the UDP of each inside address leaves, from now on;
        earlier mappings are forgotten, and so are the connections."""
        rules = "\n".join(f"ip saddr {inside} meta l4proto udp snat to {outside}"
                          for inside, outside in seen.items())
        self.run("nft", "-f", "-", stdin=(
            "table ip nat\ndelete table ip nat\ntable ip nat { chain post {\n"
            f"type nat hook postrouting priority srcnat;\n{rules}\n}}\n"
            # what is for nobody is forgotten, else its ports could not be given to anybody
            "chain in { type filter hook input priority filter; meta l4proto udp drop\n}\n}\n"))
        self.forget_nat()

    def forget_nat(self):
        """Forgets all connections, as a NAT router does that restarted: its ports change."""
        self.run(sys.executable, "-c", FLUSH_CONNTRACK)

    def snapshot(self):
        """What the kernel holds in here, in both families, without counters and ages."""
        parts = {}
        for family in ("-4", "-6"):
            routes = self.ip_json(f"{family} route show table all")
            parts[f"route{family}"] = sorted(_text(route, ("expires", "cacheinfo", "used", "age"))
                                             for route in routes)
            parts[f"rule{family}"] = [_text(rule) for rule in self.ip_json(f"{family} rule show")]
        parts["addr"] = sorted(
            _text(dict({key: found.get(key) for key in ("family", "local", "prefixlen", "scope")},
                       ifname=link["ifname"], mtu=link["mtu"]))
            for link in self.ip_json("addr show") for found in link.get("addr_info") or [{}])
        parts["nft"] = self.run("nft", "-s", "list", "ruleset").stdout.splitlines()
        return Snapshot(parts)


def _text(row, without=()):
    return json.dumps({key: row[key] for key in row if key not in without}, sort_keys=True)


class Lab:
    """Everything one scenario makes. Use as a context: what it made is gone afterwards."""

    def __init__(self, prefix=None):
        prefix = prefix or os.environ.get("WEFT_LAB_PREFIX", "weft")
        self.prefix = f"{prefix}-{os.getpid():x}-{next(_numbers)}"
        self.dir = Path(tempfile.mkdtemp(prefix=f"{self.prefix}-"))
        self.dir.chmod(0o755)  # a daemon that dropped its privileges reads its files here
        self.processes = []
        self.namespaces = []
        self._logs = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the processes, newest first, then the namespaces and the files."""
        problems = []
        for process in reversed(self.processes):
            process.stop(timeout=2.0)
            found = SANITIZER.search(process.log()) if process.log_path.exists() else None
            if found:
                problems.append(f"{process.log_path.name}: {process.log()[found.start():][:4000]}")
        for ns in self.namespaces:
            done = run(["ip", "netns", "del", ns.name], check=False)
            if done.returncode != 0:
                problems.append(done.stderr.strip())
        self.processes.clear()
        self.namespaces.clear()
        shutil.rmtree(self.dir, ignore_errors=True)
        if problems:
            raise Failed("at the end: " + "; ".join(problems))

    def log_tails(self):
        """(name, last lines) of each process's output."""
        return [(f"{process.log_path.name} (exit {process.exit_code})",
                 "\n".join(TAIL_NOISE.sub("", process.log()).splitlines()[-TAIL_LINES:]))
                for process in self.processes if process.log_path.exists()]

    def start(self, argv, name, env=None, stdin=subprocess.DEVNULL):
        """Starts a process on the host; Namespace.start starts one in a namespace."""
        log = self.dir / f"{next(self._logs):02d}-{name}.log"
        process = Process(argv, log, env=env, stdin=stdin)
        self.processes.append(process)
        return process

    def ns(self, label, forward=False):
        """A new namespace with lo up; forward: it routes, in both families."""
        ns = Namespace(self, label, f"{self.prefix}-{label}")
        run(["ip", "netns", "add", ns.name])
        self.namespaces.append(ns)
        route = int(forward)
        ns.sh("cd /proc/sys/net\n"
              "for d in all default; do echo 0 > ipv6/conf/$d/accept_dad\n"
              "echo 0 > ipv6/conf/$d/accept_ra; done\n"
              f"echo {route} > ipv6/conf/all/forwarding\necho {route} > ipv4/ip_forward\n"
              "echo 0 4294967294 > ipv4/ping_group_range")
        ns.up("lo")
        return ns

    def veth(self, a, b, addr_a="", addr_b="", mtu=1500):
        """A wire between two namespaces, both ends up; returns the names of its ends."""
        dev_a, dev_b = a.new_device(), b.new_device()
        run(["ip", "link", "add", dev_a, "netns", a.name, "mtu", mtu, "type", "veth",
             "peer", "name", dev_b, "netns", b.name, "mtu", mtu])
        # an address that comes before the carrier is not there for a second in IPv6
        for ns, dev in ((a, dev_a), (b, dev_b)):
            ns.up(dev)
        for ns, dev, address in ((a, dev_a, addr_a), (b, dev_b, addr_b)):
            wait_until(lambda: ns.ip_json(f"link show {dev}")[0]["operstate"] == "UP", 5.0,
                       f"the carrier of {dev} in {ns.label}")
            ns.addr(address, dev)
        return dev_a, dev_b

    def lan(self, ends, label="lan", mtu=1500):
        """A switch with {namespace: addresses} on it; returns {namespace: device}.

        The switch is a bridge in a namespace of its own, found as the last of lab.namespaces.
        """
        switch = self.ns(label)
        switch.ip(f"link add br0 mtu {mtu} type bridge")
        switch.up("br0")
        devices = {}
        for ns, addresses in ends.items():
            devices[ns], port = self.veth(ns, switch, addresses, mtu=mtu)
            switch.ip(f"link set {port} master br0")
        return devices

    def emulated_link(self, a, b, addr_a="", addr_b="", seed=1, **settings):
        """A wire through the link emulator; see EmulatedLink for the settings."""
        from .link import EmulatedLink
        return EmulatedLink(self, a, b, addr_a, addr_b, seed, settings)
