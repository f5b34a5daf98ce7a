"""BIRD 2.20 behind strongSwan, on a host without weft: a leaf of a mesh of two.

   n3 (strongSwan 6.1, kernel-libipsec, BIRD) == 50 ms == n1 (weft) -- n2 (weft)
"""
import pytest

from lab import Failed, Mesh, PeerRoot, StrongSwan, peer_root, wait_ping, wait_until
from lab.babel import Meanwhile

RTT_MS = 50
LEARNED_S = 40.0
LEAF = ("10.13.0.0/16", "fd13::/48")
LEAF_HOST = ("10.13.0.1", "fd13::1")
ROUTED = {"static_routes": [], "babel": {"hello": "1s"}}
# the figures of weft's own map: 4 units a millisecond, 8 a hop
BIRD = """
router id 192.0.2.3;
protocol device { scan time 1; }
protocol static s4 { ipv4; route 10.13.0.0/16 blackhole; }
protocol static s6 { ipv6; route fd13::/48 blackhole; }
protocol kernel k4 { ipv4 { import none; export where source = RTS_BABEL; }; }
protocol kernel k6 { ipv6 { import none; export where source = RTS_BABEL; }; }
protocol babel mesh {
  ipv4 { import all; export where source ~ [ RTS_STATIC, RTS_BABEL ]; };
  ipv6 { import all; export where source ~ [ RTS_STATIC, RTS_BABEL ]; };
  interface "ipsec*" {
    type tunnel; rxcost 8; hello interval 1 s; update interval 4 s; rx buffer 2000;
    rtt cost 4096; rtt min 0 ms; rtt max 1024 ms;
  };
}
"""


class Leaf:
    """strongSwan and BIRD as node 3 of three; weft is n1 and n2, which it does not see."""

    def __init__(self, lab):
        self.mesh = mesh = Mesh(lab, 3, config=ROUTED)
        a, leaf = mesh.spaces[0], mesh.spaces[2]
        lab.emulated_link(a, leaf, "192.168.13.1/24", "192.168.13.3/24", delay_ms=RTT_MS / 2)
        a.route(mesh.outer(3), f"via 192.168.13.3 src {mesh.outer(1)}")
        leaf.route(mesh.outer(1), f"via 192.168.13.1 src {mesh.outer(3)}")
        mesh.reconfigure(1, **ROUTED)
        mesh.reconfigure(2, peers={"exclude": ["n3"]}, **ROUTED)
        self.peer = StrongSwan(leaf, "forky", mesh.connection(3, 1)).start()
        leaf.addr(" ".join(f"{host}/{bits}" for host, bits in zip(LEAF_HOST, (32, 128))), "lo")
        self.root = PeerRoot(leaf, peer_root("forky"), "bird")
        (self.root.dir / "bird.conf").write_text(BIRD)
        self.bird = self.root.start("bird", "-f", "-c", "/mnt/bird.conf", "-s", "/run/bird.ctl",
                                    name="bird")

    def start(self):
        for node in self.mesh.nodes[:2]:
            node.start()
        self.mesh.nodes[0].wait_up(2, 20.0)
        return self

    def ask(self, *words):
        return self.root.run("birdc", "-s", "/run/bird.ctl", *words).stdout

    def neighbours(self):
        """BIRD's, as lists of its columns: address, interface, metric, …, RTT in ms."""
        return [line.split() for line in self.ask("show", "babel", "neighbors").splitlines()
                if line.startswith("fe80::")]

    def kernel(self, family):
        """{destination: route} that BIRD put into the leaf's kernel."""
        routes = self.mesh.spaces[2].ip_json(f"{family} route show proto bird")
        return {route["dst"]: route for route in routes}


@pytest.fixture
def leaf(lab):
    return Leaf(lab).start()


def selected(node, prefix):
    for route in node.ask("routes", prefix)["routes"]:
        if route["prefix"] == prefix and route["selected"] and route["origin"] == "babel":
            return route
    raise Failed(f"{node.name} has no route to {prefix}")


def test_a_leaf_with_bird(leaf):
    """The neighbour, its round trip, routes both ways in both families, and pings by them."""
    mesh, inner = leaf.mesh, leaf.mesh.inner
    first, second = mesh.nodes[:2]

    def neighbour():
        return next((one for one in first.ask("neighbours")["neighbours"]
                     if one["peer"]["name"] == "n3" and one["txcost"] and one["rtt_ms"]), None)
    wait_until(neighbour, LEARNED_S, "BIRD as a neighbour")
    for node in (first, second):
        for prefix in LEAF:
            wait_until(lambda node=node, prefix=prefix: selected(node, prefix), LEARNED_S,
                       f"{node.name} to learn {prefix}")
    wait_until(lambda: {inner(1), inner(2)} <= set(leaf.kernel("-4"))
               and {inner(1, "ip6"), inner(2, "ip6")} <= set(leaf.kernel("-6")), LEARNED_S,
               "BIRD to learn the mesh's addresses")
    # there is no IPv4 address on the link: the next hop is IPv6 (RFC 9229)
    assert leaf.kernel("-4")[inner(1)]["via"]["family"] == "inet6"
    for far in (1, 2):
        for family, host in zip(("ip4", "ip6"), LEAF_HOST):
            wait_ping(mesh.spaces[far - 1], host)
            wait_ping(mesh.spaces[2], inner(far, family), options=("-I", host))
    # both ends measure what the wire has, and the metric is the map of it: 8 a hop, 4 units a ms
    within = Meanwhile(mesh.spaces[0], LEAF_HOST[1], RTT_MS)
    wait_until(lambda: within(neighbour()["rtt_ms"]), 60.0, "weft's round trip, 50 ms")
    wait_until(lambda: within(float(leaf.neighbours()[0][-1])), 60.0, "BIRD's round trip, 50 ms")
    wait_until(lambda: within((selected(first, LEAF[0])["metric"] - 8) / 4), 60.0,
               "the metric of the map")
    leaf.bird.stop()
    wait_until(lambda: not [route for prefix in LEAF
                            for route in second.ask("routes", prefix)["routes"]
                            if route["selected"]], LEARNED_S, "what BIRD announced to go")
