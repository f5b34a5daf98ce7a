"""The Babel room on a wire, with BIRD or babeld in the middle of a line of three.

   a (weft's room) ---- m (BIRD 2.20 or babeld 1.12) ---- b (weft's room)
"""
import json
import shutil
import time

import pytest

from lab import build_folder, Failed, PeerRoot, peer_root, wait_until

DRIVER = build_folder() / "test/interop/babel_driver"
PLAIN = "2001:db8:b::/48"
KINDS = [(PLAIN, ""), ("10.11.0.0/16", ""), ("2001:db8:c::/48", "2001:db8:5::/48"), ("::/0", "")]
COST = 96
CONVERGED_S = 30.0
RTT_US = 50_000
KEY = "thirty-two bytes, known to both."
BIRD = """
router id 192.0.2.77;
ipv6 sadr table sadr6;
protocol device { scan time 5; }
protocol babel {
  ipv4 { import all; export all; };
  ipv6 sadr { table sadr6; import all; export all; };
  interface "eth*" {
    type %(type)s; rxcost 96; hello interval 1 s; update interval 4 s;
    rtt cost %(rtt_cost)d; rtt min 10 ms; rtt max 120 ms;
    %(auth)s
  };
}
"""


def lateness_us():
    """How late this machine wakes a process now, which a foreign daemon's stamps suffer from."""
    worst = 0
    for _ in range(20):
        begin = time.monotonic()
        time.sleep(0.01)
        worst = max(worst, time.monotonic() - begin - 0.01)
    return worst * 1e6


class Speaker:
    """Our room in a namespace."""

    def __init__(self, ns, number, *words):
        self.state_file = ns.lab.dir / f"{ns.label}-state.json"
        self.process = ns.start(DRIVER, self.state_file, number, *words, name="babel")

    def state(self):
        if not self.process.running:
            raise Failed(f"the driver ended: {self.process.log()}")
        try:
            return json.loads(self.state_file.read_text())
        except FileNotFoundError:
            raise Failed("no state yet") from None

    def route(self, prefix, source=""):
        return next((route for route in self.state()["routes"]
                     if (route["prefix"], route["source"]) == (prefix, source)
                     and route["selected"]), None)

    def wait_route(self, prefix, source="", metric=None):
        def found():
            route = self.route(prefix, source)
            return route if route and metric in (None, route["metric"]) else None
        return wait_until(found, CONVERGED_S, f"a route to {prefix} from {source or 'any'}")


class Bird:
    def __init__(self, ns, kind="tunnel", rtt_cost=0, auth=""):
        self.root = PeerRoot(ns, peer_root("forky"), "bird")
        (self.root.dir / "bird.conf").write_text(
            BIRD % {"type": kind, "rtt_cost": rtt_cost, "auth": auth})
        self.process = self.root.start("bird", "-f", "-c", "/mnt/bird.conf", "-s", "/run/bird.ctl",
                                       name="bird")

    def ask(self, *words):
        return self.root.run("birdc", "-s", "/run/bird.ctl", *words).stdout


class Babeld:
    def __init__(self, ns, devices, options="", keys=""):
        conf = ns.lab.dir / "babeld.conf"
        lines = [keys] if keys else []
        settings = f"type wired rxcost 96 hello-interval 1 update-interval 4 {options}"
        lines += [f"interface {dev} {settings}" for dev in devices]
        conf.write_text("\n".join(lines + ["redistribute local deny", ""]))
        self.process = ns.start(
            "babeld", "-c", conf, "-S", ns.lab.dir / "babeld.state", "-I",
            ns.lab.dir / "babeld.pid", "-L", "/dev/stderr", *devices, name="babeld")


@pytest.fixture
def line(lab):
    """Namespaces a, m, b and the wires between them."""
    spaces = [lab.ns(label, forward=label == "m") for label in "amb"]
    lab.veth(spaces[0], spaces[1])
    lab.veth(spaces[1], spaces[2])
    return spaces


def ends(line, *words):
    a = Speaker(line[0], 1, "dev", "eth0", *words, "prefix", "2001:db8:a::/48")
    kinds = [word for prefix, source in KINDS
             for word in ["prefix", prefix] + (["from", source] if source else [])]
    return a, Speaker(line[2], 2, "dev", "eth0", *words, *kinds)


def check_all(a, b):
    for prefix, source in KINDS:
        a.wait_route(prefix, source, metric=2 * COST)
    b.wait_route("2001:db8:a::/48", metric=2 * COST)
    # v4-via-v6: no interface has an IPv4 address (RFC 9229)
    assert a.route("10.11.0.0/16")["next_hop"].startswith("fe80::")


def test_every_kind_of_route_through_bird(line):
    a, b = ends(line)
    bird = Bird(line[1])
    check_all(a, b)
    table = bird.ask("show", "babel", "entries")
    assert PLAIN in table
    # what goes is known to be gone two hops away
    b.process.stop()
    wait_until(lambda: a.route(PLAIN) is None, CONVERGED_S, "the route to go")


@pytest.mark.parametrize("ours, theirs", [("sha256", "hmac sha256"), ("blake2s", "blake2s128")])
def test_macs_with_bird(line, ours, theirs):
    auth = f'authentication mac; password "{KEY}" {{ algorithm {theirs}; }};'
    a, b = ends(line, ours, KEY)
    Bird(line[1], auth=auth)
    check_all(a, b)


def test_bird_with_another_key_is_not_heard(line):
    auth = f'authentication mac; password "{KEY[::-1]}" {{ algorithm hmac sha256; }};'
    a, _ = ends(line, "sha256", KEY)
    Bird(line[1], auth=auth)
    wait_until(lambda: a.state()["drops"]["babel-not-authentic"] > 3, CONVERGED_S, "refusals")
    assert a.state()["neighbours"] == []


def test_round_trips_with_bird(lab):
    """RTT within 1 ms and cost within what 1 ms is worth, on a link of 50 ms; both directions."""
    a, m = lab.ns("a"), lab.ns("m")
    lab.emulated_link(a, m, delay_ms=25)
    ours = Speaker(a, 1, "dev", "eth0", "tunnel", "rtt_cost", "960", "prefix", PLAIN)
    bird = Bird(m, rtt_cost=960)

    def rtt():
        neighbours = ours.state()["neighbours"]
        return neighbours and neighbours[0]["rtt_us"] > 0 and neighbours[0]

    def right():
        """Now, or soon: a busy machine adds what the wire does not."""
        found = rtt()
        return found and abs(found["rtt_us"] - RTT_US) < 1000 and found

    def theirs():
        """The same, as BIRD prints it: the last column."""
        row = next(line.split() for line in bird.ask("show", "babel", "neighbors").splitlines()
                   if line.startswith("fe80::"))
        return abs(float(row[-1]) * 1000 - RTT_US) < 1000 + lateness_us()
    mine = wait_until(right, 60.0, "a round trip of 50 ms")
    map_units = 960 * (mine["rtt_us"] - 10_000) / 110_000
    assert abs(mine["cost"] - (96 + map_units)) <= 960 * 1000 / 110_000 + 1
    wait_until(theirs, 60.0, "BIRD's round trip of 50 ms")


def test_every_kind_of_route_through_babeld(line):
    if not shutil.which("babeld"):
        pytest.skip("no babeld here")
    a, b = ends(line)
    Babeld(line[1], ("eth0", "eth1"))
    check_all(a, b)
    b.process.stop()
    wait_until(lambda: a.route(PLAIN) is None, CONVERGED_S, "the route to go")


@pytest.mark.parametrize("ours, theirs", [("sha256", "hmac-sha256"), ("blake2s", "blake2s128")])
def test_macs_with_babeld(line, ours, theirs):
    if not shutil.which("babeld"):
        pytest.skip("no babeld here")
    a, b = ends(line, ours, KEY)
    Babeld(line[1], ("eth0", "eth1"), options="key k",
           keys=f"key id k type {theirs} value {KEY.encode().hex()}")
    check_all(a, b)
