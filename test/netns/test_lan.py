"""A host keeps its LAN, and its kernel is afterwards as it was before."""
import sys

import pytest

from lab import Mesh, TcpSession, ping, wait_ping, wait_until

LAN4, LAN6 = "10.1.2", "fd02:"  # their last part is added
FOREIGN = """
ip route add 198.51.100.0/24 dev lan0 proto static
ip route add 203.0.113.0/24 dev lan0 table 252 proto 99
ip -6 route add 2001:db8:9::/48 dev lan0 table 253 proto static
ip rule add priority 5100 from 192.0.2.0/24 lookup 99
ip rule add priority 5200 fwmark 0x80000/0xff0000 lookup main
ip -6 rule add priority 5203 from 2001:db8:8::/48 lookup 99
nft add table inet other
nft add chain inet other in '{ type filter hook input priority 0; policy accept; }'
"""
MESH_ROUTES = [{"prefix": prefix, "node": "n2"} for prefix in (
    "0.0.0.0/0", "::/0", "10.0.0.0/8", "fd00::/8")]
# what firewalls do in place of rp_filter
FIREWALL = """table inet firewall { chain in { type filter hook prerouting priority -300;
fib saddr . iif oif missing counter drop
}
}
"""
UDP_TO = """
import socket, sys
sock = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
sock.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
"""


class Home:
    """A mesh of two, and a neighbour of n1 on a LAN of n1's own that knows nothing of it."""

    def __init__(self, lab, **config):
        self.mesh = Mesh(lab, 2)
        self.host, self.neighbour = self.mesh.spaces[0], lab.ns("neighbour")
        self.devices = lab.lan({self.host: f"{LAN4}.1/24 {LAN6}:1/64",
                                self.neighbour: f"{LAN4}.2/24 {LAN6}:2/64"}, label="home")
        self.node = self.mesh.reconfigure(1, **config)
        self.exit = self.mesh.nodes[1]

    def lan_works(self):
        for address in (f"{LAN4}.1", f"{LAN6}:1"):
            ping(self.neighbour, address, count=1)
        for address in (f"{LAN4}.2", f"{LAN6}:2"):
            ping(self.host, address, count=1)


@pytest.fixture
def home(lab):
    return Home(lab)


def foreign(home):
    """State of others in n1's kernel, some of it in our tables and at our priorities."""
    script = FOREIGN.replace("lan0", home.devices[home.host])
    home.host.sh(script)


def test_stop_leaves_the_kernel_as_it_was(home):
    foreign(home)
    before = home.host.snapshot()
    home.mesh.start()
    home.mesh.wait_reach()
    assert before != home.host.snapshot()
    # nothing of others is touched while it runs
    assert not [line for line in before.diff(home.host.snapshot()) if line.startswith("-")]
    home.node.stop()
    assert before.diff(home.host.snapshot()) == []


def test_kill_start_stop_leaves_the_kernel_as_it_was(home):
    foreign(home)
    before = home.host.snapshot()
    home.mesh.start()
    home.mesh.wait_reach()
    running = home.host.snapshot()
    home.node.kill()
    home.node.start()
    home.mesh.wait_reach()
    assert running.diff(home.host.snapshot()) == []
    home.node.stop()
    assert before.diff(home.host.snapshot()) == []


def test_kill_and_start_without_what_it_had(home):
    """What a killed predecessor left is taken away also when the new configuration has less."""
    before = home.host.snapshot()
    home.mesh.reconfigure(1, static_routes=MESH_ROUTES)
    home.mesh.start()
    home.mesh.wait_up()
    home.node.kill()
    home.mesh.reconfigure(1, static_routes=[]).start()
    assert not [line for line in before.diff(home.host.snapshot())
                if line.startswith("+route") and '"dst": "10.0.0.0/8"' in line]
    home.node.stop()
    assert before.diff(home.host.snapshot()) == []


@pytest.mark.parametrize("lan", ["ip4", "ip6"])
def test_a_session_over_the_lan_survives_all(home, lan):
    before = home.host.snapshot()
    session = TcpSession(home.neighbour, home.host, f"{LAN4}.1" if lan == "ip4" else f"{LAN6}:1")
    session.exchange()
    home.mesh.start()
    home.mesh.wait_reach()
    session.exchange()
    # now everything goes through the mesh, and prefixes of the mesh cover the LAN
    home.mesh.reconfigure(1, static_routes=MESH_ROUTES).reload()
    wait_ping(home.host, home.mesh.inner(2))
    session.exchange()
    home.lan_works()
    home.node.kill()
    session.exchange()
    home.node.start()
    home.mesh.wait_up()
    session.exchange()
    home.lan_works()
    home.node.stop()
    session.exchange()
    assert before.diff(home.host.snapshot()) == []


def test_a_network_that_comes_later_is_protected_too(home):
    """A LAN that is plugged in while a mesh prefix covers it is the LAN's."""
    home.mesh.reconfigure(1, static_routes=MESH_ROUTES)
    before = home.host.snapshot()
    home.mesh.start()
    home.mesh.wait_up()
    host, other = home.devices[home.host], home.devices[home.neighbour]
    home.neighbour.addr("10.9.9.2/24 fd09::2/64", other)
    home.host.addr("10.9.9.1/24 fd09::1/64", host)
    for address in ("10.9.9.2", "fd09::2"):
        wait_ping(home.host, address, timeout=5.0)
    for address in ("10.9.9.1/24", "fd09::1/64"):
        home.host.ip(f"addr del {address} dev {host}")
    home.node.stop()
    assert before.diff(home.host.snapshot()) == []


def default_by_mesh(home):
    """n2 stands for the internet: 198.51.100.1 and 2001:db8::1 are its own."""
    tun = home.mesh.config(2)["tun"]
    home.mesh.reconfigure(2, tun=dict(tun, addresses=[
        *tun["addresses"], "198.51.100.1/32", "2001:db8::1/128"]))
    home.mesh.reconfigure(1, static_routes=MESH_ROUTES)
    home.mesh.start()
    home.mesh.wait_up()


def test_a_default_route_through_the_mesh(home):
    default_by_mesh(home)
    for address in ("198.51.100.1", "2001:db8::1"):
        wait_ping(home.host, address)
    home.lan_works()


def test_own_packets_never_enter_the_own_tunnel(home):
    """The default, and the peer's very endpoint, lead into the tunnel."""
    endpoint = home.mesh.outer(2)
    home.mesh.reconfigure(1, static_routes=[
        *MESH_ROUTES, {"prefix": f"{endpoint}/32", "node": "n2"},
        {"prefix": f"{home.mesh.outer(2, 'ip6')}/128", "node": "n2"}])
    home.mesh.start()
    home.mesh.wait_one_pair()
    wait_ping(home.host, home.mesh.inner(2))
    assert f"dev {home.node.status()['tun']['name']}" in home.host.ip(f"route get {endpoint}")
    # still so after a new handshake
    home.node.tool("down", "n2")
    home.node.tool("up", "n2")
    home.mesh.wait_one_pair(10.0)
    assert home.node.drops()["loop"] == 0
    # a stranger's packet to that endpoint would go round and round
    before = home.node.drops()["loop"]
    home.host.run(sys.executable, "-c", UDP_TO, endpoint, 13000)
    wait_until(lambda: home.node.drops()["loop"] > before, 5.0, "the loop to be counted")
    assert home.node.links("up")


def strict_reverse_path(ns):
    ns.sh("for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 > $f; done")


def test_strict_reverse_path_filter(home):
    """With the default through the TUN, what comes over the LAN is not dropped."""
    for ns in home.mesh.spaces:
        strict_reverse_path(ns)
        ns.run("nft", "-f", "-", stdin=FIREWALL)
    default_by_mesh(home)
    wait_ping(home.host, "198.51.100.1")
    wait_ping(home.mesh.spaces[1], home.mesh.inner(1))
    home.lan_works()


def test_strict_reverse_path_filter_that_must_drop_is_named(lab):
    """The peer is behind a router, where only the mark leads: a warning says it."""
    mesh = Mesh(lab, 2)
    one, router, two = mesh.spaces[0], lab.ns("r", forward=True), mesh.spaces[1]
    _, inside = lab.veth(router, one, "10.7.0.1/24", "10.7.0.2/24")
    lab.veth(router, two, "10.8.0.1/24", "10.8.0.2/24")
    one.route("default", "via 10.7.0.1")
    strict_reverse_path(one)
    node = mesh.reconfigure(1, static_routes=MESH_ROUTES,
                            endpoints=[{"serial": "0", "family": "ip4", "address": "10.7.0.2"}])
    node.start()
    told = "\n".join(node.status()["warnings"])
    assert "rp_filter" in told and inside in told
    assert "rp_filter" in node.process.log()


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_one_link_local_address_at_once(home, mode):
    """Whatever the kernel would make, the TUN has one address of ours, usable."""
    home.host.sysctl("net.ipv6.conf.default.addr_gen_mode", mode)
    home.node.start()
    tun = home.node.status()["tun"]["name"]
    found = [address for link in home.host.ip_json(f"-6 addr show dev {tun} scope link")
             for address in link.get("addr_info", ()) if address]
    assert len(found) == 1
    assert not found[0].get("tentative") and not found[0].get("dadfailed")


def test_ipv6_switched_off_is_named(home):
    for which in ("all", "default"):
        home.host.sysctl(f"net.ipv6.conf.{which}.disable_ipv6", 1)
    before = home.host.snapshot()
    home.node.start(wait=None)
    assert home.node.process.wait() == 1
    assert "disable_ipv6" in home.node.process.log()
    assert before.diff(home.host.snapshot()) == []
    assert not home.node.socket.exists()


@pytest.mark.parametrize("key", ["tun", "underlay"])
def test_tun_and_underlay_in_two_namespaces(lab, key):
    """The daemon is started on one side and names the other; both are afterwards as before."""
    mesh = Mesh(lab, 2)
    outside, inside = mesh.spaces[0], lab.ns("inside")
    node = mesh.nodes[0]
    if key == "tun":
        mesh.reconfigure(1, tun={**mesh.config(1)["tun"], "netns": inside.name})
    else:
        mesh.reconfigure(1, underlay={"netns": outside.name})
        node.ns = inside
    before = outside.snapshot(), inside.snapshot()
    mesh.start()
    mesh.wait_up()
    for family in ("ip4", "ip6"):
        wait_ping(inside, mesh.inner(2, family))
        wait_ping(mesh.spaces[1], mesh.inner(1, family))
    assert before[0].diff(outside.snapshot()) == []
    assert before[1].diff(inside.snapshot())
    node.stop()
    assert before[0].diff(outside.snapshot()) == []
    assert before[1].diff(inside.snapshot()) == []
