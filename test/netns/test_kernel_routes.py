"""The kernel's routes and the mesh's: redistributed, refused, or by rules."""
import re

import pytest

from lab import Mesh, Ping, wait_ping, wait_until
from lab.mesh import PORT
from test_routing import LEARNED_S, change, in_table, routed, routes, wait_kernel

FOLLOWED_S = 5.0
RESTORED = "another program took away"


def stub(lab, ns, addresses):
    """A network beside the mesh, as the device lan1."""
    dev, _ = lab.veth(ns, lab.ns("stub"))
    ns.up(dev, False)
    ns.ip(f"link set {dev} name lan1")
    ns.up("lan1")
    ns.addr(addresses, "lan1")


def wait_gone(mesh, i, *prefixes):
    wait_until(lambda: not set(prefixes) & set(in_table(mesh, i)), FOLLOWED_S,
               f"{prefixes} to leave n{i}")


def test_routes_of_others_are_redistributed(lab):
    """A table's routes of a protocol are announced, followed as they come and go, and nothing else;
    what Babel brought does not go back."""
    picks = [{"table": "main", "protocol": "bird"}, {"table": 100000, "protocol": 200,
                                                     "metric": 500}]
    mesh = routed(lab, 2, config={1: {"routing": {
        "redistribute": picks, "export": [{"prefix": "10.54.0.0/16", "action": "reject"}]}}})
    one, two = mesh.spaces
    stub(lab, one, "192.0.2.1/24")
    for route in ("10.50.0.0/16 via 192.0.2.2 proto bird",
                  "10.51.0.0/16 via 192.0.2.2 proto static",
                  "10.52.0.0/16 dev lan1 proto 200 table 100000",
                  "10.53.0.0/16 dev lan1 proto bird table 100001",
                  "10.54.0.0/16 dev lan1 proto bird", "default dev lan1 proto bird metric 9000",
                  f"{mesh.outer(2)}/32 dev eth0 proto bird", "blackhole 10.55.0.0/16 proto bird"):
        one.ip(f"route add {route}")
    one.ip("-6 route add fd50::/32 dev lan1 proto bird")
    one.addr("10.50.0.1/32", "lo")
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 2, ["10.50.0.0/16", "10.52.0.0/16", "fd50::/32"])
    wait_ping(two, "10.50.0.1")
    assert set(in_table(mesh, 2)) == {"10.50.0.0/16", "10.52.0.0/16", "fd50::/32", mesh.inner(1),
                                      mesh.inner(1, "ip6")}
    plain, dear = routes(mesh, 2, "10.50.0.0/16")[0], routes(mesh, 2, "10.52.0.0/16")[0]
    assert dear["metric"] >= plain["metric"] + 500 - 40  # beside what the same link varies by
    # into the TUN, as another daemon exports what it took from the mesh's table
    one.ip(f"route add 10.56.0.0/16 dev weft0 src {mesh.inner(1)} proto bird")
    one.ip("route add 10.57.0.0/16 dev lan1 proto bird")
    wait_kernel(mesh, 2, ["10.57.0.0/16"], timeout=FOLLOWED_S)
    assert "10.56.0.0/16" not in in_table(mesh, 2)
    one.ip("route del 10.57.0.0/16")
    wait_gone(mesh, 2, "10.57.0.0/16")
    one.up("lan1", False)  # the kernel tells of no IPv4 route that goes this way
    wait_gone(mesh, 2, "10.50.0.0/16", "10.52.0.0/16", "fd50::/32")
    change(mesh, 1, routing={"redistribute": [{"table": "main", "protocol": "static"}]})
    one.up("lan1")
    one.ip("route add 10.51.0.0/16 via 192.0.2.2 proto static")
    one.ip("route add 10.58.0.0/16 dev lan1 proto bird")
    wait_kernel(mesh, 2, ["10.51.0.0/16"], timeout=FOLLOWED_S)
    assert "10.58.0.0/16" not in in_table(mesh, 2)


def test_connected_networks_are_refused_unless_named(lab):
    mesh = routed(lab, 2, announce={2: ["10.77.0.0/24", "10.77.0.128/25", "10.76.0.0/15"]})
    one, two = mesh.spaces
    stub(lab, one, "10.77.0.1/24")
    two.addr("10.77.0.200/32 10.76.0.1/32", "lo")
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 1, ["10.76.0.0/15"])
    wait_ping(one, "10.76.0.1")

    def told():
        return [line for line in mesh.nodes[0].ask("status")["warnings"]
                if "org2/n2" in line and "routing.import" in line]

    wait_until(lambda: len(told()) == 2, LEARNED_S, "both to be told of")
    assert not routes(mesh, 1, "10.77.0.0/24") and not routes(mesh, 1, "10.77.0.128/25")
    assert "dev lan1" in one.ip("route get 10.77.0.200")
    # a rule for more than the network does not name it
    change(mesh, 1, routing={"import": [{"prefix": "10.0.0.0/8", "le": 32, "action": "accept"}]})
    wait_kernel(mesh, 1, ["10.76.0.0/15"])
    assert "dev lan1" in one.ip("route get 10.77.0.200")
    change(mesh, 1, routing={"import": [{"prefix": "10.77.0.0/24", "le": 32, "action": "accept"}]})
    wait_kernel(mesh, 1, ["10.77.0.0/24", "10.77.0.128/25"])
    assert "dev weft0" in one.ip("route get 10.77.0.200")
    wait_ping(one, "10.77.0.200")
    change(mesh, 1, routing={"import": []})
    wait_gone(mesh, 1, "10.77.0.0/24", "10.77.0.128/25")
    assert "dev lan1" in one.ip("route get 10.77.0.200")
    one.ip("addr del 10.77.0.1/24 dev lan1")
    wait_kernel(mesh, 1, ["10.77.0.0/24", "10.77.0.128/25"])
    wait_until(lambda: not told(), FOLLOWED_S, "nothing to be told of")
    one.addr("10.77.0.1/24", "lan1")
    wait_gone(mesh, 1, "10.77.0.0/24", "10.77.0.128/25")


def source_rules(ns):
    return [rule for rule in ns.ip_json("-4 rule show") if rule["src"] != "all"]


@pytest.mark.parametrize("killed", [False, True])
def test_ipv4_routes_with_a_source_go_by_rules(lab, killed):
    """The host's own packets and those of its LAN."""
    mesh = routed(lab, 2, announce={2: [{"prefix": "198.51.100.0/24", "source": "10.1.2.0/24"},
                                        {"prefix": "0.0.0.0/0", "source": "10.1.2.0/24"}],
                                    1: ["10.1.2.0/24"]},
                  config={1: {"routing": {
                      "import": [{"prefix": "0.0.0.0/0", "action": "accept"}]}}})
    one, two = mesh.spaces
    host = lab.ns("host")
    lab.veth(one, host, "10.1.2.1/24", "10.1.2.2/24")
    host.route("default", "via 10.1.2.1")
    two.addr("198.51.100.1/32 203.0.113.9/32", "lo")
    one.sysctl("net.ipv4.ip_forward", 1)
    before = one.snapshot()
    mesh.start()
    mesh.wait_up()
    wait_until(lambda: len(source_rules(one)) == 2, LEARNED_S, "the rules")
    assert all(rule["src"] == "10.1.2.0" and rule["srclen"] == 24 and rule["protocol"] == "157"
               for rule in source_rules(one))
    for far in ("198.51.100.1", "203.0.113.9"):
        assert "dev weft0" in one.ip(f"route get {far} from 10.1.2.1")
        assert "weft0" not in one.ip(f"route get {far}", check=False)
        wait_ping(host, far)
    assert all(route["installed"] for route in routes(mesh, 1, "198.51.100.0/24"))
    # the LAN and the underlay stay reached directly
    wait_ping(one, "10.1.2.2")
    assert "weft0" not in one.ip(f"route get {mesh.outer(2)} from 10.1.2.1")
    # what another program takes away is back
    one.ip("rule flush protocol 157")
    wait_until(lambda: len(source_rules(one)) == 2, 2.0, "the rules to be back")
    if killed:
        mesh.nodes[0].process.kill()
        assert source_rules(one)
        mesh.setup[1]["routing"] = {"import": []}
        mesh.reconfigure(1, **mesh.setup[1])
        mesh.nodes[0].start()
        wait_until(lambda: not [rule for rule in source_rules(one) if rule["priority"] == 5203],
                   5.0, "the leftovers to go")
    mesh.nodes[0].stop()
    assert not before.diff(one.snapshot())


# as Tailscale makes them, and wg-quick, which lets the kernel choose the place
TAILSCALE = "".join(
    f"ip -{family} rule {{0}} priority {rule}\n" for family in (4, 6) for rule in (
        "5210 fwmark 0x80000/0xff0000 lookup main", "5230 fwmark 0x80000/0xff0000 lookup default",
        "5250 fwmark 0x80000/0xff0000 unreachable", "5270 lookup 52"))
WG_QUICK = ("ip rule add not fwmark 0xca6c table 51820\n"
            "ip rule add table main suppress_prefixlength 0\n")
# as it stops: it takes more than its own
WG_QUICK_DOWN = """
while ip rule | grep -q "lookup 51820"; do ip rule del table 51820; done
while ip rule | grep -q "from all lookup main suppress_prefixlength 0"; do
    ip rule del table main suppress_prefixlength 0
done
"""


def rule_warnings(node):
    return [line for line in node.ask("status")["warnings"] if "of another program" in line
            or "another program has a rule" in line]


def mesh_rules(ns):
    """All of the mesh's, in order, without their priorities."""
    return [{key: value for key, value in rule.items() if key != "priority"}
            for rule in ns.ip_json("-4 rule show") if rule.get("protocol") == "157"]


def before_wg_quick(ns):
    """Whether all of the mesh's rules come before that of the other tunnel, in their order."""
    rules = ns.ip_json("-4 rule show")
    ours = [rule["priority"] for rule in rules if rule.get("protocol") == "157"]
    return len(ours) == 4 and not rule_among(rules, ours) and ours[-1] < min(
        rule["priority"] for rule in rules if rule.get("table") == "51820")


def rule_among(rules, ours):
    return [rule for rule in rules if ours[0] <= rule["priority"] <= ours[-1]
            and rule.get("protocol") != "157"]


@pytest.mark.parametrize("first", [(), ("wg",), ("tailscale",), ("wg", "tailscale")],
                         ids=lambda names: "-".join(names) or "mesh")
def test_rules_of_other_tunnels(lab, first):
    """Who starts first is the same in the end, for what is in the tunnels and for
    their own packets."""
    others = {"wg": WG_QUICK, "tailscale": TAILSCALE.format("add")}
    mesh = routed(lab, 2)
    one, node = mesh.spaces[0], mesh.nodes[0]
    stub(lab, one, "192.0.2.1/24")
    one.route("default", f"via {mesh.outer(2)}")
    one.ip("route add default dev lan1 table 51820")
    one.ip("route add 100.64.0.0/10 dev lan1 table 52")
    for name in first:
        one.sh(others.pop(name))
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 1, [mesh.inner(2)])
    for text in others.values():
        one.sh(text)
    wait_until(lambda: before_wg_quick(one), 2.0, "the rules to be in front")
    # a peer that is reached by the main table's default, others' networks, the rest
    for to, device in (("198.51.100.9 mark 0x51", "eth0"), (mesh.inner(2), "weft0"),
                       ("100.64.0.9 mark 0xca6c", "lan1"), ("198.51.100.9", "lan1")):
        assert f"dev {device}" in one.ip(f"route get {to}")
    node.rekey("n2")
    mesh.wait_one_pair()
    wait_ping(one, mesh.inner(2))
    assert not rule_warnings(node)
    assert RESTORED not in node.process.log()
    before = [rule for rule in one.ip_json("-4 rule show") if rule.get("protocol") != "157"]
    node.stop()
    assert one.ip_json("-4 rule show") == before


@pytest.mark.parametrize("killed", [False, True])
def test_a_tunnel_that_takes_all_comes_and_goes(lab, killed):
    """wg-quick, twice, while the mesh runs; a daemon that is killed meanwhile."""
    mesh = routed(lab, 2)
    one, node = mesh.spaces[0], mesh.nodes[0]
    stub(lab, one, "192.0.2.1/24")
    one.ip("route add default dev lan1 table 51820")
    alone = one.ip_json("-4 rule show")
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 1, [mesh.inner(2)])
    whole = one.ip_json("-4 rule show")
    for _ in range(2):
        one.sh(WG_QUICK)
        wait_until(lambda: before_wg_quick(one), 2.0, "the rules to be in front")
    wait_ping(one, mesh.inner(2))
    assert node.process.log().count("stand in front of it") == 2
    one.ip("rule add priority 5200 to 198.51.100.0/24 lookup 52")
    assert not rule_warnings(node)
    if killed:
        node.process.kill()
        one.sh(WG_QUICK_DOWN)
        node.start()
        node.wait_up(1)
    else:
        one.sh(WG_QUICK_DOWN)
    wait_until(lambda: len(rule_warnings(node)) == 1, 3.0, "the rule at 5200 to be told of")
    one.ip("rule del priority 5200 to 198.51.100.0/24 lookup 52")
    wait_until(lambda: one.ip_json("-4 rule show") == whole, 3.0, "all to be as before")
    wait_until(lambda: not rule_warnings(node), 3.0, "nothing to be told of")
    node.stop()
    assert one.ip_json("-4 rule show") == alone


def test_another_priority_by_a_reload(lab):
    mesh = routed(lab, 2).start()
    one, node = mesh.spaces[0], mesh.nodes[0]
    mesh.wait_up()
    wait_kernel(mesh, 1, [mesh.inner(2)])
    alone, before = one.ip("rule"), mesh_rules(one)
    with Ping(one, mesh.inner(2)) as running:
        running.wait_received(10)
        for priority in (300, 5200):
            change(mesh, 1, routing={"rule_priority": priority})
            wait_until(lambda first=priority: one.ip("rule").count(f"\n{first}:") == 1, 2.0,
                       "the rules to have moved")
            assert mesh_rules(one) == before
        running.wait_received(10)
    assert running.result.lost == 0
    assert one.ip("rule") == alone


FORWARD_DROP = """
table ip filter {
    chain FORWARD { type filter hook forward priority 0; policy drop; }
    chain INPUT { type filter hook input priority 0; policy drop; accept; }
}
"""



def test_an_address_that_two_nodes_have_is_told(lab):
    mesh = routed(lab, 2)
    one = mesh.inner(1)
    mesh.nodes[1].configure({**mesh.config(2, static_routes=[]),
                             "tun": {"addresses": [f"{one}/32"]}})
    mesh.start()
    for mine, other in ((1, "org2/n2"), (2, "org1/n1")):
        wait_until(lambda m=mine, o=other: any(
            line.startswith(f"{one}/32, announced by {o},") and "tun.addresses" in line
            for line in mesh.nodes[m - 1].ask("status")["warnings"]), LEARNED_S, "it to be told")
    # and no more, when this node has given it up
    mesh.nodes[1].configure(mesh.config(2, static_routes=[]))
    mesh.nodes[1].reload()
    assert not [line for line in mesh.nodes[1].status()["warnings"] if "announced by" in line]


def test_a_firewall_that_drops_what_is_forwarded(lab):
    """As a container engine sets it; what goes from link to link is no matter of it."""
    mesh = routed(lab, announce={2: ["10.1.2.0/24"]},
                  config={1: {"peers": {"exclude": ["n3"]}}, 3: {"peers": {"exclude": ["n1"]}}})
    for ns in mesh.spaces:
        ns.run("nft", "-f", "-", stdin=FORWARD_DROP)
    mesh.start()
    for i, links in ((1, 1), (2, 2), (3, 1)):
        mesh.nodes[i - 1].wait_up(links)
    wait_ping(mesh.spaces[0], mesh.inner(3))

    def told(i):
        return [line for line in mesh.nodes[i - 1].ask("status")["warnings"] if "firewall" in line]

    # n2 has a LAN to forward for
    assert len(told(2)) == 1 and "chain FORWARD of table ip filter" in told(2)[0]
    assert not told(1)
    mesh.spaces[1].run("nft", "delete table ip filter")
    wait_until(lambda: not told(2), 3.0, "nothing to be told of")


ONLY_OURS = """
table inet strict {{
    chain in {{
        type filter hook input priority 0; policy drop;
        iifname {{ "lo", "weft0" }} accept
        udp dport {port} accept
        meta l4proto udp counter
    }}
    chain out {{
        type filter hook output priority 0; policy drop;
        oifname {{ "lo", "weft0" }} accept
        udp sport {port} udp dport {port} accept
        meta l4proto udp counter
    }}
}}
"""


def test_only_the_port_of_the_tunnels_is_open(lab):
    """Without connection tracking; first contact and rekeys from either end."""
    mesh = Mesh(lab, 2)
    one = mesh.spaces[0]
    one.run("nft", "-f", "-", stdin=ONLY_OURS.format(port=PORT))
    mesh.start()
    mesh.wait_up()
    with Ping(mesh.spaces[1], mesh.inner(1)) as running:
        running.wait_received(10)
        for node, peer in ((mesh.nodes[1], "n1"), (mesh.nodes[0], "n2")) * 2:
            node.rekey(peer)
            mesh.wait_one_pair()
        running.wait_received(10)
    assert running.result.lost == 0
    assert one.run("nft", "list", "table", "inet", "strict").stdout.count("packets 0 ") == 2


MANY = 50000
FILL = f"""
import subprocess
subprocess.run(["ip", "-b", "-"], check=True, text=True, input="".join(
    f"route add 172.16.{{i >> 8}}.{{i & 255}}/32 dev lan1 proto bird table 1000\\n"
    for i in range({MANY})).replace("172.16.", "172.16."))
"""


def test_many_routes_that_come_and_go_at_once(lab):
    """Nothing of the burst is lost on its way: what is lost is told again only with the next
    periodic update, or held until it expires, which is a minute or more."""
    mesh = routed(lab, 2, config={1: {"routing": {
        "redistribute": [{"table": 1000, "protocol": "bird"}]}}})
    one, two = mesh.spaces
    stub(lab, one, "192.0.2.1/24")
    mesh.start()
    mesh.wait_up()

    def there():
        return two.ip("route show table 252", check=False).count("172.16.")

    one.run("python3", "-c", FILL)
    wait_until(lambda: there() == MANY, 20.0, "all to be in the kernel")
    one.ip("route flush table 1000")
    wait_until(lambda: there() == 0, 20.0, "all to have left it")
    drops = mesh.nodes[1].drops()
    assert not drops.get("punt-limit") and not drops.get("punt-full")
    wait_ping(one, mesh.inner(2))
