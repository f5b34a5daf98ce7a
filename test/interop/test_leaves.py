"""BIRD 2.20 and babeld behind strongSwan 6.1, on hosts without weft: leaves of a mesh, and equals.

   n3 (strongSwan, BIRD) === 50 ms === n1 (weft) --- n2 (weft)
   n4 (strongSwan, babeld) = 50 ms ==='

Beside it the same tree twice on plain wires, once of four BIRDs and once of four babelds: what
those believe of each other is what is expected of the mesh. All sign their packets (RFC 8967).
"""
import pytest

from lab import Failed, Lab, Mesh, StrongSwan, wait_ping, wait_until
from lab.babel import Babeld, Bird, Meanwhile

CONVERGED_S = 60.0
RTT_MS = 50
HELLO_MS = 500
BIRD_LEAF, BABELD_LEAF = 3, 4
NODES, LEAVES = (1, 2, 3, 4), (BIRD_LEAF, BABELD_LEAF)
KEY = "thirty-two bytes, known to all.."
RXCOST, RTT_COST, UNITS_A_MS = 8, 4096, 4
# babeld takes no minimum of 0 and no cost of 0; of a cost of 1 nothing is left at 50 ms
RTT_MIN_MS, RTT_MAX_MS = 1, 1025
BEHIND = {i: [(f"10.1{i}.0.0/16", ""), (f"fd1{i}::/48", ""), (f"fd1{i}:1::/48", "fd50::/48")]
          for i in (2, 3, 4)}


def prefixes(i):
    """What node i announces: addresses, and networks behind it, one of them for one source."""
    own = [] if i in LEAVES else [(f"{Mesh.inner(i)}/32", ""), (f"{Mesh.inner(i, 'ip6')}/128", "")]
    return own + BEHIND.get(i, [])


def bird_settings(rtt_cost):
    # of type tunnel a cost of 0 would be the default's 96
    return (f"type wired; rxcost {RXCOST}; hello interval {HELLO_MS} ms; "
            f"update interval 2 s; "
            f"rx buffer 2000; rtt cost {rtt_cost}; rtt min {RTT_MIN_MS} ms; "
            f"rtt max {RTT_MAX_MS} ms; "
            f'authentication mac; password "{KEY}" {{ algorithm hmac sha256; }};')


def babeld_settings(rtt_cost):
    # it begins with twice the first sample: the decay is so quick that nobody waits for the rest
    return (f"type tunnel rxcost {RXCOST} hello-interval {HELLO_MS / 1000} update-interval 2 "
            "rtt-decay 128 "
            f"rtt-min {RTT_MIN_MS} rtt-max {RTT_MAX_MS} max-rtt-penalty {rtt_cost or 1} "
            "split-horizon true key k")


BABELD_KEY = f"key id k type hmac-sha256 value {KEY.encode().hex()}"


def weft_config(i, rtt_cost):
    announce = [{"prefix": prefix, **({"source": source} if source else {})}
                for prefix, source in BEHIND.get(i, [])]
    return {"static_routes": [], "announce": announce,
            "peers": {"exclude": [f"n{leaf}" for leaf in LEAVES] if i == 2 else []},
            "babel": {"hello": f"{HELLO_MS}ms", "cost": RXCOST,
                      "rtt": {"min": f"{RTT_MIN_MS}ms", "max": f"{RTT_MAX_MS}ms",
                              "cost": rtt_cost},
                      "mac_keys": [{"algorithm": "hmac-sha256", "key": KEY.encode().hex()}]}}


class Reference:
    """The tree of one daemon's kind."""

    def __init__(self, lab, kind):
        spaces = {i: lab.ns(f"{kind}{i}", forward=True) for i in NODES}
        lab.veth(spaces[1], spaces[2])
        for leaf in LEAVES:
            lab.emulated_link(spaces[1], spaces[leaf], delay_ms=RTT_MS / 2)
        if kind == "bird":
            self.settings = bird_settings
            self.speakers = {i: Bird(ns, "eth*", bird_settings(0), prefixes(i), f"192.0.2.{i}")
                             for i, ns in spaces.items()}
        else:
            self.settings = babeld_settings
            self.speakers = {
                i: Babeld(ns, [f"eth{k}" for k in range(3 if i == 1 else 1)], babeld_settings(0),
                          BABELD_KEY, prefixes(i))
                for i, ns in spaces.items()}

    def configure(self, rtt_cost):
        for speaker in self.speakers.values():
            speaker.configure(self.settings(rtt_cost))

    def table(self, i):
        return self.speakers[i].table()


class Tree:
    """The mesh with its leaves; table() as a Reference's."""

    def __init__(self, lab):
        self.mesh = mesh = Mesh(lab, len(NODES))
        middle = mesh.spaces[0]
        for leaf in LEAVES:
            space, net = mesh.spaces[leaf - 1], f"192.168.{leaf}"
            lab.emulated_link(middle, space, f"{net}.1/24", f"{net}.2/24", delay_ms=RTT_MS / 2)
            middle.route(mesh.outer(leaf), f"via {net}.2 src {mesh.outer(1)}")
            space.route(mesh.outer(1), f"via {net}.1 src {mesh.outer(leaf)}")
            StrongSwan(space, "forky", mesh.connection(leaf, 1)).start()
            space.addr(f"10.1{leaf}.0.1/32 fd1{leaf}::1/128", "lo")
        self.bird = Bird(mesh.spaces[BIRD_LEAF - 1], "ipsec*", bird_settings(0),
                         prefixes(BIRD_LEAF), "192.0.2.13", kernel=True)
        self.babeld = Babeld(mesh.spaces[BABELD_LEAF - 1], ["ipsec0"], babeld_settings(0),
                             BABELD_KEY, prefixes(BABELD_LEAF))
        for i in (1, 2):
            mesh.reconfigure(i, **weft_config(i, 0)).start()

    def configure(self, rtt_cost):
        self.bird.configure(bird_settings(rtt_cost))
        self.babeld.configure(babeld_settings(rtt_cost))
        for i in (1, 2):
            self.mesh.reconfigure(i, **weft_config(i, rtt_cost)).reload()

    def table(self, i):
        if i in LEAVES:
            return (self.bird if i == BIRD_LEAF else self.babeld).table()
        return {(route["prefix"], route["source"] or ""): route["metric"]
                for route in self.mesh.nodes[i - 1].ask("routes")["routes"]
                if route["selected"] and route["origin"] == "babel"}

    def kernel(self, leaf, family):
        """{(destination, source): route} that the leaf's daemon put into its kernel."""
        proto = "bird" if leaf == BIRD_LEAF else "babel"
        routes = self.mesh.spaces[leaf - 1].ip_json(f"{family} route show proto {proto}")
        return {(route["dst"], route.get("from", "")): route for route in routes}

    def round_trips(self, leaf):
        """In ms: weft's of the link to a leaf, and the leaf's."""
        ours = [one["rtt_ms"] for one in self.mesh.nodes[0].ask("neighbours")["neighbours"]
                if one["peer"]["name"] == f"n{leaf}"]
        return ours, (self.bird if leaf == BIRD_LEAF else self.babeld).round_trips()


@pytest.fixture(scope="module")
def lab():
    with Lab() as made:
        yield made


@pytest.fixture(scope="module")
def trees(lab):
    """(the mesh, {kind: the tree of that kind alone})."""
    references = {kind: Reference(lab, kind) for kind in ("bird", "babeld")}
    return Tree(lab), references


def wanted(i):
    """What node i has to learn."""
    return {one for other in NODES if other != i for one in prefixes(other)}


def origin(one):
    return next(node for node in NODES if one in prefixes(node))


def hops(i, one):
    return 1 if 1 in (i, origin(one)) else 2


def differences(expected, found):
    return {key: (expected.get(key), found.get(key)) for key in expected.keys() | found.keys()
            if expected.get(key) != found.get(key)}


def check_equal(tree, references):
    for i in NODES:
        for kind, reference in references.items():
            wait_until(lambda: reference.table(i).keys() == wanted(i), CONVERGED_S,
                       f"{kind} {i} to learn {wanted(i)}", every=0.2)

            def equal():
                differ = differences(reference.table(i), tree.table(i))
                if differ:
                    raise Failed(f"{kind}'s and the mesh's: {differ}")
                return True
            wait_until(equal, CONVERGED_S, f"node {i} to believe what {kind} does", every=0.2)


def test_every_route_and_metric_without_round_trips(trees):
    tree, references = trees
    check_equal(tree, references)
    for leaf in LEAVES:
        assert tree.table(leaf) == {one: hops(leaf, one) * RXCOST for one in wanted(leaf)}
        # no IPv4 address is on the link: the next hop is IPv6 (RFC 9229)
        assert tree.kernel(leaf, "-4")["10.12.0.0/16", ""]["via"]["family"] == "inet6"
        assert {"fd12::/48", "fd12:1::/48"} == {
            dst for dst, source in tree.kernel(leaf, "-6") if dst.startswith("fd12")
            and source == ("fd50::/48" if dst == "fd12:1::/48" else "")}


def check_near(tree, references):
    """Within what a millisecond is worth, a link; and not less than what the wires cost.

    Each fact for itself: on a busy machine one moment's samples are late here, another's there.
    """
    missing = {(i, kind, one) for i in NODES for kind in references for one in wanted(i)}

    def come_to_agree():
        for i in NODES:
            ours = tree.table(i)
            for kind, reference in references.items():
                theirs = reference.table(i)
                missing.difference_update(
                    {(i, kind, one) for one in wanted(i)
                     if is_near(i, one, ours.get(one), theirs.get(one))})
        if missing:
            raise Failed(f"never near: {sorted(missing)}")
        return True
    wait_until(come_to_agree, CONVERGED_S, "the mesh and its likes to agree", every=0.2)


def is_near(i, one, ours, theirs):
    if ours is None or theirs is None:
        return False
    noise = hops(i, one) * UNITS_A_MS
    slow = len({i, origin(one)} & set(LEAVES))
    least = hops(i, one) * RXCOST + slow * (RTT_MS - RTT_MIN_MS) * UNITS_A_MS
    return abs(ours - theirs) <= noise and min(ours, theirs) >= least - noise


def behind(metric):
    """The round trip in ms of which this metric over a single link is made."""
    return RTT_MIN_MS + (metric - RXCOST) / UNITS_A_MS


def test_metrics_with_round_trips(trees):
    tree, references = trees
    for one in (tree, *references.values()):
        one.configure(RTT_COST)
    check_near(tree, references)
    for leaf in LEAVES:
        within = Meanwhile(tree.mesh.spaces[0], f"fd1{leaf}::1", RTT_MS)
        for end in (0, 1):
            wait_until(lambda: any(map(within, tree.round_trips(leaf)[end])), CONVERGED_S,
                       f"{'the leaf' if end else 'weft'} to know the round trip of n{leaf}")
        for i, one in ((1, prefixes(leaf)[0]), (leaf, prefixes(1)[0])):
            wait_until(lambda: within(behind(tree.table(i)[one])), CONVERGED_S,
                       f"the metric of {one} at {i} to be the map of it")


def test_packets_go_both_ways(trees):
    tree, _ = trees
    mesh = tree.mesh
    for leaf in LEAVES:
        for family, host in (("ip4", f"10.1{leaf}.0.1"), ("ip6", f"fd1{leaf}::1")):
            for far in (1, 2):
                wait_ping(mesh.spaces[far - 1], host)
                wait_ping(mesh.spaces[leaf - 1], mesh.inner(far, family), options=("-I", host))
            other = host.replace(f"1{leaf}", f"1{sum(LEAVES) - leaf}")
            wait_ping(mesh.spaces[leaf - 1], other, options=("-I", host))


def test_what_a_leaf_announced_goes_with_it(trees):
    tree, _ = trees
    for leaf, daemon in ((BIRD_LEAF, tree.bird), (BABELD_LEAF, tree.babeld)):
        daemon.process.stop()
        wait_until(lambda: not tree.table(2).keys() & set(prefixes(leaf)), CONVERGED_S,
                   f"the routes of {leaf} to go")
