"""The Babel room on a wire, with BIRD or babeld in the middle of a line of three.

   a (weft's room) ---- m (BIRD 2.20 or babeld 1.12) ---- b (weft's room)
"""
import pytest

from lab import wait_until
from lab.babel import Babeld, Bird, Meanwhile, Speaker

PLAIN = "2001:db8:b::/48"
KINDS = [(PLAIN, ""), ("10.11.0.0/16", ""), ("2001:db8:c::/48", "2001:db8:5::/48"), ("::/0", ""),
         ("::/0", "2001:db8:5::/48"), ("0.0.0.0/0", "")]
COST = 96
CONVERGED_S = 30.0
KEY = "thirty-two bytes, known to both."
MIDDLES = ("bird", "babeld")
# of the slow wire, and what all are told to make of it
RTT_MS, RTT_MIN_MS, RTT_MAX_MS, RTT_COST = 50, 10, 120, 960


def middle(kind, ns, rtt_cost=0, bird="", babeld="", keys=""):
    """The foreign router; bird, babeld: further settings for its interfaces."""
    if kind == "bird":
        return Bird(ns, "eth*", f"type tunnel; rxcost {COST}; hello interval 1 s; "
                    f"update interval 4 s; rtt cost {rtt_cost}; rtt min {RTT_MIN_MS} ms; "
                    f"rtt max {RTT_MAX_MS} ms; {bird}")
    rtt = f"enable-timestamps true max-rtt-penalty {rtt_cost}" if rtt_cost else ""
    return Babeld(ns, ("eth0", "eth1"), f"type wired rxcost {COST} hello-interval 1 "
                  f"update-interval 4 {rtt} {babeld}", keys)


def link_local(ns, dev):
    return ns.ip_json(f"-6 addr show dev {dev} scope link")[0]["addr_info"][0]["local"]


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


@pytest.mark.parametrize("kind", MIDDLES)
def test_every_kind_of_route_through_another(line, kind):
    a, b = ends(line)
    there = middle(kind, line[1])
    check_all(a, b)
    wait_until(lambda: there.table().keys() == {*KINDS, ("2001:db8:a::/48", "")}, CONVERGED_S,
               "the one in the middle to believe the same")
    # what goes is known to be gone two hops away
    b.process.stop()
    wait_until(lambda: a.route(PLAIN) is None, CONVERGED_S, "the route to go")


@pytest.mark.parametrize("kind", MIDDLES)
@pytest.mark.parametrize("ours, birds, babelds", [("sha256", "hmac sha256", "hmac-sha256"),
                                                  ("blake2s", "blake2s128", "blake2s128")])
def test_macs_with_another(line, kind, ours, birds, babelds):
    a, b = ends(line, ours, KEY)
    middle(kind, line[1], babeld="key k",
           bird=f'authentication mac; password "{KEY}" {{ algorithm {birds}; }};',
           keys=f"key id k type {babelds} value {KEY.encode().hex()}")
    check_all(a, b)


@pytest.mark.parametrize("kind", MIDDLES)
def test_another_key_is_not_heard(line, kind):
    a, _ = ends(line, "sha256", KEY)
    other = KEY[::-1]
    middle(kind, line[1], babeld="key k",
           bird=f'authentication mac; password "{other}" {{ algorithm hmac sha256; }};',
           keys=f"key id k type hmac-sha256 value {other.encode().hex()}")
    wait_until(lambda: a.state()["drops"]["babel-not-authentic"] > 3, CONVERGED_S, "refusals")
    assert a.state()["neighbours"] == []


def behind(metric):
    """The round trip in ms of which this metric over two links, one of them quick, is made."""
    return RTT_MIN_MS + (metric - 2 * COST) * (RTT_MAX_MS - RTT_MIN_MS) / RTT_COST


@pytest.mark.parametrize("kind", MIDDLES)
def test_round_trips_in_a_line(lab, kind):
    """RTT within 1 ms and metrics within what 1 ms is worth, on a link of 50 ms; both ways."""
    a, m, b = (lab.ns(label, forward=label == "m") for label in "amb")
    wire = lab.emulated_link(a, m, delay_ms=RTT_MS / 2)
    lab.veth(m, b)
    words = ("dev", "eth0", "tunnel", "rtt_cost", RTT_COST, "prefix")
    ours, far = Speaker(a, 1, *words, "2001:db8:a::/48"), Speaker(b, 2, *words, PLAIN)
    # babeld begins with twice the first sample: a quick decay forgets that
    there = middle(kind, m, RTT_COST, babeld="rtt-decay 128")
    within = Meanwhile(a, f"{link_local(m, wire.dev_b)}%{wire.dev_a}", RTT_MS)
    wait_until(lambda: any(within(one["rtt_us"] / 1000) for one in ours.state()["neighbours"]),
               60.0, "our round trip")
    wait_until(lambda: any(map(within, there.round_trips())), 60.0, "the other's round trip")
    for speaker, prefix in ((ours, PLAIN), (far, "2001:db8:a::/48")):
        def near():
            route = speaker.route(prefix)
            return route and within(behind(route["metric"]))
        wait_until(near, 60.0, f"the metric to {prefix} over both links")


def test_choosing_between_bird_and_another_way(lab):
    """The direct wire to BIRD goes from 10 to 150 ms and back, the way over r is 30 + 30 ms.

    Within 60 s, when hellos come every 4 s as is usual: fifteen of them. BIRD says what a round
    trip is made of with every third of its hellos, and three such samples make a change.
    """
    hello_ms, hellos = 1000, 15
    a, m, r = (lab.ns(label, forward=label == "r") for label in "amr")
    direct = lab.emulated_link(a, m, delay_ms=5)
    lab.emulated_link(a, r, delay_ms=15)
    lab.emulated_link(r, m, delay_ms=15)
    words = ("tunnel", "cost", 8, "hello_ms", hello_ms, "rtt_min_ms", 0, "rtt_max_ms", 1024,
             "rtt_cost", 4096)
    ours = Speaker(a, 1, "dev", "eth0", *words, "dev", "eth1", *words)
    Speaker(r, 2, "dev", "eth0", *words, "dev", "eth1", *words)
    Bird(m, "eth*", f"type tunnel; rxcost 8; hello interval {hello_ms} ms; rtt cost 4096; "
         "rtt min 0 ms; rtt max 1024 ms;", [(PLAIN, ""), ("10.11.0.0/16", "")])
    bird = link_local(m, "eth0")

    def goes(direct):
        return all(route and (route["neighbour"] == bird) == direct
                   for route in (ours.route(PLAIN), ours.route("10.11.0.0/16")))

    def settled():
        """A whole window of hellos heard from both, and the wires seen as they are."""
        found = {one["address"]: one for one in ours.state()["neighbours"]}
        return goes(True) and len(found) == 2 and 10_000 <= found[bird]["rtt_us"] < 20_000 \
            and all(one["reach"] >> 10 == 63 for one in found.values())
    wait_until(settled, 120.0, "the start on the direct wire")
    for delay_ms, there in ((75, False), (5, True)):
        direct.set(delay_ms=delay_ms)
        wait_until(lambda: goes(there), hellos * hello_ms / 1000,
                   f"both routes to go {'direct' if there else 'over r'}", every=0.1)
