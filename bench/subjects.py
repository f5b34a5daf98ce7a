"""What bench/run measures: a subject has two spaces a and b, the address of b to be reached from a,
and the daemons whose time and memory count."""
import os
import re
from pathlib import Path

from ends import (LibipsecEnd, NullEnd, OpenVpnEnd, PlainEnd, PlainOffEnd, WeftEnd, WireGuardGoEnd)
from lab import Failed, Iperf, Mesh, wait_ping, wait_until


def cpu_of(process):
    """User and system time of a process, its threads and its children that ended."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_of_machine():
    """Time that the cores of this machine were not idle, of all programs and the kernel."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, words[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def memory_mb(process):
    """The highest RSS, with huge pages: transparent ones are in it, others are added."""
    said = Path(f"/proc/{process.pid}/status").read_text()
    kb = (re.search(rf"^{key}:\s+(\d+)", said, re.MULTILINE) for key in ("VmHWM", "HugetlbPages"))
    return sum(int(found[1]) for found in kb if found) / 1024


class Server:
    """An iperf3 that serves. One that ended, as it may when a client is cut off, is replaced."""

    def __init__(self, near, space, address):
        self.near, self.space, self.address = near, space, address
        self.iperf = Iperf(near, space, address)

    def ready(self):
        if not self.iperf.server.running:
            self.iperf = Iperf(self.near, self.space, self.address)

    def stop(self):
        self.iperf.server.stop()


class Subject:
    """name, a, b, address, daemons; version: what it is, for people."""
    version = ""

    def start(self):
        """Waits until packets pass, and starts what TCP and UDP are sent to."""
        wait_ping(self.a, self.address, timeout=20.0)
        self.server = Server(self.a, self.b, self.address)

    def ready(self):
        """Before each run."""
        self.server.ready()

    def cpu(self):
        """{whose: seconds so far}"""
        for daemon in self.daemons:
            if not daemon.running:
                raise Failed(f"{daemon.argv[-1]} ended with {daemon.exit_code}")
        found = {"daemon": sum(map(cpu_of, self.daemons))} if self.daemons else {}
        return found | {"machine": cpu_of_machine()}

    def memory(self):
        return max(map(memory_mb, self.daemons)) if self.daemons else None

    def close(self):
        pass


class Pair(Subject):
    """Two ends of a tunnel in namespaces joined by a wire of their own."""

    def __init__(self, lab, name, kind, family="ip4", **more):
        self.name = name
        label = re.sub(r"\W+", "", name)[:20]
        spaces = self.a, self.b = lab.ns(f"{label}-a"), lab.ns(f"{label}-b")
        outers = ("fd00::1", "fd00::2") if family == "ip6" else ("10.0.0.1", "10.0.0.2")
        bits = 64 if family == "ip6" else 24
        lab.veth(*spaces, *(f"{outer}/{bits}" for outer in outers))
        self.ends = [kind(space, i, outers[i - 1], outers[2 - i], **more)
                     for i, space in enumerate(spaces, 1)]
        offers = [end.offer() for end in self.ends]
        for i in (1, 0):
            self.ends[i].join(offers[1 - i])
        self.ends[0].finish()
        self.address = self.ends[1].address
        self.daemons = [daemon for end in self.ends for daemon in end.daemons]
        self.version = self.ends[0].version()
        self.nodes = [end.node for end in self.ends if hasattr(end, "node")]


class Line(Subject):
    """n weft nodes in a row on one switch, the way found by Babel alone: the last is reached
    through all between. policies: of the first."""

    def __init__(self, lab, name, n=2, policies=()):
        self.name = name
        mesh = Mesh(lab, n, label=re.sub(r"\W+", "", name)[:10] + "-")
        remarks = mesh.registry({i: {"srv6": f"fd00:5:{i}::/64"} for i in mesh.numbers()})
        for i in mesh.numbers():
            mesh.reconfigure(
                i, registry=remarks, static_routes=[],
                peers={"include": [f"n{j}" for j in (i - 1, i + 1) if 1 <= j <= n]},
                policies=[dict(p) for p in policies if i == 1])
        mesh.start()
        self.a, self.b = mesh.spaces[0], mesh.spaces[-1]
        self.address = mesh.inner(n)
        self.daemons = [node.process for node in mesh.nodes]
        head = mesh.nodes[0]
        self.version = f"{n} nodes, {head.status()['crypto']}"
        wait_until(lambda: all(p["state"] == "active" for p in head.ask("policies")["policies"])
                   and any(r["selected"] for r in
                           head.ask("routes", f"{self.address}/32")["routes"]), 60.0,
                   "the way along the line")


BY_SIDS = ({"name": "bench", "destination": "10.66.0.4/32", "via": ["n2", "n3"], "exit": "n4"},)
# name: (kind, its arguments)
SUBJECTS = {
    "veth": (Pair, {"kind": PlainEnd}),
    "veth without offloads": (Pair, {"kind": PlainOffEnd}),
    "null": (Pair, {"kind": NullEnd}),
    "weft": (Pair, {"kind": WeftEnd}),
    "wireguard-go": (Pair, {"kind": WireGuardGoEnd}),
    "OpenVPN": (Pair, {"kind": OpenVpnEnd}),
    "strongSwan libipsec": (Pair, {"kind": LibipsecEnd}),
    "weft by OpenSSL": (Pair, {"kind": WeftEnd, "config": {"plane": {"crypto": "openssl"}}}),
    "weft by IPsec-MB": (Pair, {"kind": WeftEnd, "config": {"plane": {"crypto": "ipsec-mb"}}}),
    "weft with 2 threads": (Pair, {"kind": WeftEnd, "config": {"plane": {"threads": 2}}}),
    "weft with a helper": (Pair, {"kind": WeftEnd, "config": {"plane": {"helpers": 1}}}),
    "weft without AQM": (Pair, {"kind": WeftEnd, "config": {"plane": {"aqm": "off"}}}),
    "weft over IPv6": (Pair, {"kind": WeftEnd, "family": "ip6"}),
    "wireguard-go over IPv6": (Pair, {"kind": WireGuardGoEnd, "family": "ip6"}),
    **{f"weft without {name}": (Pair, {"kind": WeftEnd, "config":
                                       {"plane": {"offload": {name: "off"}}}})
       for name in ("tun_gso", "udp_gso", "udp_gro")},
    "direct": (Line, {"n": 2}),
    "relay": (Line, {"n": 3}),
    "chain": (Line, {"n": 4}),
    "chain by SIDs": (Line, {"n": 4, "policies": BY_SIDS}),
}


def make(lab, name):
    kind, arguments = SUBJECTS[name]
    return kind(lab, name, **arguments)
