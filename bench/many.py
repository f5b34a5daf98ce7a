"""Many peers at once: a hub with n leaves on one switch, and what a rekey does under load."""
import re
import signal
import time

from ends import INNER_MTU
from measure import Load, measure, spread, tcp
from subjects import Server, Subject, cpu_of, memory_mb
from lab import Failed, Mesh, PeerRoot, peer_root, wait_ping, wait_until

TOGETHER = 10  # daemons started at once
UNUSED_S = 12  # after its last packet a link counts as used no more
LEAF_MB = 40  # what a leaf may take, for a look at what is free beforehand
UDP_EACH = ["-u", "-b", "20M", "-l", "1200"]


def free_mb():
    with open("/proc/meminfo", encoding="ascii") as said:
        return int(re.search(r"MemAvailable:\s+(\d+)", said.read())[1]) / 1024


class Star(Subject):
    """hub: the daemon that has all the peers; spaces: of the hub and the leaves; addresses: of the
    leaves, from the first."""

    def __init__(self, lab, leaves):
        if free_mb() < leaves * LEAF_MB + 1000:
            raise Failed(f"{leaves} leaves need {leaves * LEAF_MB} MB")
        self.leaves = leaves
        self.make(lab)
        for address in self.addresses:
            wait_ping(self.spaces[0], address, timeout=60.0)
        self.a, self.b, self.address = self.spaces[0], self.spaces[1], self.addresses[0]

    def end(self):
        """Tells all daemons to end, so that they do so together."""
        for daemon in self.daemons:
            daemon.signal(signal.SIGTERM)

    def serve(self, count):
        """Starts iperf3's servers of so many leaves."""
        self.servers = [Server(self.spaces[0], space, address) for space, address in
                        zip(self.spaces[1:count + 1], self.addresses)]


class WeftStar(Star):
    """Leaves that have a link with the hub alone."""
    name = "weft"

    def make(self, lab):
        mesh = Mesh(lab, self.leaves + 1, label=f"star{self.leaves}-")
        entries = mesh.registry()
        for i in mesh.numbers():
            own = {"registry": entries}
            if i > 1:
                own |= {"peers": {"include": ["n1"]},
                        "static_routes": [{"prefix": f"{mesh.inner(1)}/32", "node": "n1"}]}
            mesh.reconfigure(i, **own)
        for first in range(0, len(mesh.nodes), TOGETHER):
            some = mesh.nodes[first:first + TOGETHER]
            for node in some:
                node.start(wait=None)
            for node in some:
                node.wait_answer(60.0)
        wait_until(lambda: len(mesh.nodes[0].links("up")) == self.leaves, 120.0,
                   f"{self.leaves} links up", every=0.5)
        self.nodes, self.spaces = mesh.nodes, mesh.spaces
        self.hub = mesh.nodes[0].process
        self.daemons = [node.process for node in mesh.nodes]
        self.addresses = [mesh.inner(i) for i in range(2, self.leaves + 2)]


class WireGuardStar(Star):
    name = "wireguard-go"

    def make(self, lab):
        root = peer_root("trixie")
        numbers = range(1, self.leaves + 2)
        self.spaces = [lab.ns(f"wgstar{self.leaves}-{i}") for i in numbers]
        lab.lan({ns: f"10.0.0.{i}/24" for i, ns in zip(numbers, self.spaces)}, label="wglan")
        ends = [PeerRoot(ns, root, "wg") for ns in self.spaces]
        self.daemons = [end.start("wireguard-go", "-f", "wg0", name="wireguard-go") for end in ends]
        public = []
        for end in ends:
            public.append(end.run("sh", "-c", "wg genkey > /mnt/key; wg pubkey < /mnt/key")
                          .stdout.strip())
        for i, end in zip(numbers, ends):
            wait_until(lambda end=end: end.run("wg", "show", "wg0", check=False).returncode == 0,
                       20.0, "wireguard-go's device")
            peers = [word for j in numbers if (i == 1) != (j == 1) for word in (
                "peer", public[j - 1], "allowed-ips", f"10.66.0.{j}/32",
                "endpoint", f"10.0.0.{j}:51820")]
            end.run("wg", "set", "wg0", "listen-port", "51820", "private-key", "/mnt/key", *peers)
            end.run("ip", "addr", "add", f"10.66.0.{i}/24", "dev", "wg0")
            end.run("ip", "link", "set", "wg0", "mtu", INNER_MTU, "up")
        self.hub = self.daemons[0]
        self.addresses = [f"10.66.0.{i}" for i in numbers[1:]]


class PlainStar(Star):
    """The switch alone, without tunnels: what TCP and the machine do by themselves."""
    name = "no tunnel"

    def make(self, lab):
        numbers = range(1, self.leaves + 2)
        self.spaces = [lab.ns(f"plain{self.leaves}-{i}") for i in numbers]
        lab.lan({ns: f"10.0.0.{i}/24" for i, ns in zip(numbers, self.spaces)}, label="plan")
        self.daemons, self.hub = [], None
        self.addresses = [f"10.0.0.{i}" for i in numbers[1:]]


STARS = {"no tunnel": PlainStar, "weft": WeftStar, "wireguard-go": WireGuardStar}


def jain(rates):
    """Jain's fairness index: 1 when all have the same, 1/n when one has all."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def at_once(star, options, seconds):
    """A load to each leaf that serves, all at the same time."""
    for server in star.servers:
        server.ready()
    loads = [Load(star.spaces[0], server.address, options, seconds) for server in star.servers]
    try:
        results = [load.result() for load in loads]
    finally:
        for load in loads:
            load.process.kill()
    rates = [result["gbit"] for result in results]
    found = {"gbit": sum(rates), "fairness": jain(rates)}
    for key in ("retransmits", "lost_percent"):
        values = [result[key] for result in results if key in result]
        if values:
            found[key] = sum(values) if key == "retransmits" else sum(values) / len(values)
    return found


def together(lab, name, peers, rounds, seconds):
    """So many peers at once: rows {subject, test, gbit, fairness, …}, the hub's memory in MB (None:
    it has no daemon), and what went wrong."""
    star = STARS[name](lab, peers)
    star.serve(peers)
    rows, gaps = [], []
    for test, options in ((f"{peers} peers, a stream to each", tcp(1)),
                          (f"{peers} peers, a stream from each", tcp(1, "-R")),
                          (f"{peers} peers, UDP of 20 Mbit/s to each", UDP_EACH)):
        runs = []
        for _ in range(rounds):
            try:
                runs.append(at_once(star, options, seconds))
            except Failed as why:
                gaps.append(f"{name}, {test}, a run: {why}")
        if runs:
            rows.append({"subject": name, "test": test,
                         **{key: spread([run[key] for run in runs]) for key in runs[0]}})
    memory = memory_mb(star.hub) if star.hub else None
    star.end()
    return rows, memory, gaps


def idle(lab, name, peers, seconds, gaps):
    """A hub with peers that say nothing but what the tunnels themselves do: what it takes."""
    star = STARS[name](lab, peers)
    time.sleep(max(seconds, UNUSED_S))  # what is new to all has been told by then
    empty = memory_mb(star.hub)
    before = cpu_of(star.hub)
    time.sleep(seconds)
    core = (cpu_of(star.hub) - before) / seconds
    found = {"peers": peers, "core_percent": core * 100, "idle_memory_mb": empty}
    try:
        star.serve(min(16, peers))
        at_once(star, tcp(1), 2)
        found["memory_mb"] = memory_mb(star.hub)
    except Failed as why:  # the hub has been measured before
        gaps.append(f"{name} with {peers} peers after load: {why}")
    star.end()
    return found


def counters(pair):
    """What two weft nodes and the far namespace's kernel count."""
    a, b = pair.nodes
    found = {}
    for way, one, other in (("out", a, b), ("back", b, a)):
        sent, got = (sum(link[key]["packets"] for link in node.links())
                     for node, key in ((one, "tx"), (other, "rx")))
        found[f"missing, {way}"] = sent - got
    for name, node in (("a", a), ("b", b)):
        found |= {f"dropped by {name}: {reason}": count for reason, count in node.drops().items()}
    kernel = pair.b.run("nstat", "-asz").stdout
    found |= {f"kernel of b: {key}": int(value) for key, value in re.findall(
        r"^(TcpExtTCPOFOQueue|UdpRcvbufErrors)\s+(\d+)", kernel, re.MULTILINE)}
    return found


def quiet(pair):
    """The counters when nothing is on its way."""
    time.sleep(0.3)
    return counters(pair)


def rekeys(pair, options, seconds, every=0.5):
    """A run with a rekey of the child every so often, and the same without: two results."""
    results = []
    for how in (None, every):
        keys, before = set(), quiet(pair)

        def meanwhile(load, span, how=how, keys=keys):
            end = time.monotonic() + span
            while time.monotonic() < end:
                keys |= {child["spi_out"] for link in pair.nodes[0].links()
                         for child in link["children"]}
                if how:
                    pair.nodes[0].tool("rekey", pair.nodes[1].config["node"]["name"])
                load.sleep(how or span)

        figures = measure(pair, options, seconds, meanwhile)
        after = quiet(pair)
        figures["keys"] = len(keys)
        figures["counted"] = {key: after[key] - before.get(key, 0) for key in after
                              if after[key] != before.get(key, 0)}
        results.append(figures)
    return results
