"""Which interfaces the tunnels may use, and what their MTU does to packets inside."""
import re
import sys

import pytest

from lab import Mesh, ping, registry, registry_node, tcp_transfer, wait_ping, wait_until
from lab.mesh import PORT

UDP_TO = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[3])):
    sock.sendto(b"x" * 64, (sys.argv[1], int(sys.argv[2])))
"""


class TwoLans:
    """A mesh of two; n1 and n2 are also neighbours on a second LAN that n1 may not use."""

    def __init__(self, lab, address="10.9.0.2"):
        self.mesh = Mesh(lab, 2)
        self.one, self.two = self.mesh.spaces
        self.other = lab.lan({self.one: "10.9.0.1/24", self.two: "10.9.0.2/24"}, label="other")
        self.device = self.other[self.one]
        self.node = self.configure(address, exclude=True)
        self.mesh.reconfigure(2, endpoints=[{"serial": "0", "family": "ip4", "port": PORT}])

    def configure(self, address, exclude):
        """n1 knows n2 by this address."""
        entries = registry(
            ("org1", self.mesh.keys[0], [registry_node("n1", ("0", "10.0.0.1", PORT))]),
            ("org2", self.mesh.keys[1], [registry_node("n2", ("0", address, PORT))]))
        underlay = {"exclude_interfaces": [self.device, "none9"]} if exclude else {}
        return self.mesh.reconfigure(
            1, registry=entries, underlay=underlay,
            endpoints=[{"serial": "0", "family": "ip4", "port": PORT}])

    def counted(self, ns, rule):
        ns.run("nft", "-f", "-", stdin=(
            "table inet watch { chain out { type filter hook output priority 0;\n"
            f"{rule} counter\n}}\n}}\n"))

    @staticmethod
    def count(ns):
        return int(re.search(r"packets (\d+)",
                             ns.run("nft", "list", "table", "inet", "watch").stdout)[1])


def test_a_link_through_an_excluded_interface_is_not_tried(lab):
    lans = TwoLans(lab)
    lans.counted(lans.one, f'oifname "{lans.device}" udp sport {PORT}')
    lans.mesh.nodes[1].configure(lans.mesh.config(2, registry=registry(
        ("org1", lans.mesh.keys[0], [registry_node("n1", ("0", None, PORT))]),
        ("org2", lans.mesh.keys[1], [registry_node("n2", ("0", None, PORT))])),
        endpoints=[{"serial": "0", "family": "ip4", "port": PORT}]))
    lans.mesh.start()
    link, = lans.node.links()
    assert link["state"] == "down"
    assert f"routed through {lans.device}, which the configuration excludes" in link["reason"]
    assert lans.count(lans.one) == 0
    # another way to the same address: it is tried at once, and works
    lans.one.route("10.9.0.2/32", "via 10.0.0.2")
    lans.node.wait_up(1, timeout=5.0)
    wait_ping(lans.one, lans.mesh.inner(2))
    assert lans.count(lans.one) == 0
    # and back
    lans.one.ip("route del 10.9.0.2/32")
    wait_until(lambda: lans.node.links("down"), 5.0, "the link to be given up")
    # the configuration allows it
    lans.configure("10.9.0.2", exclude=False)
    lans.node.reload()
    lans.node.wait_up(1, timeout=5.0)
    wait_ping(lans.one, lans.mesh.inner(2))
    assert lans.count(lans.one) > 0


def test_what_comes_by_an_excluded_interface_is_dropped(lab):
    lans = TwoLans(lab, "10.0.0.2")
    lans.mesh.start()
    lans.mesh.wait_up()
    assert lans.node.drops()["excluded-interface"] == 0
    for address, dropped in (("10.9.0.1", 20), ("10.0.0.1", 20)):
        lans.two.run(sys.executable, "-c", UDP_TO, address, PORT, 20)
        wait_until(lambda want=dropped: lans.node.drops()["excluded-interface"] == want, 2.0,
                   "the drops to be counted")
    ping(lans.one, lans.mesh.inner(2))


def test_an_address_of_an_excluded_interface_is_no_source(lab):
    """A packet to it by another way is taken, and answered from an address that may be used."""
    lans = TwoLans(lab, "10.0.0.2")
    lans.two.ip("route flush dev " + lans.other[lans.two])
    lans.two.route("10.9.0.1/32", "via 10.0.0.1")
    lans.counted(lans.one, "ip saddr 10.9.0.1 udp sport 13000")
    lans.mesh.reconfigure(2, registry=registry(
        ("org1", lans.mesh.keys[0], [registry_node("n1", ("0", "10.9.0.1", PORT))]),
        ("org2", lans.mesh.keys[1], [registry_node("n2", ("0", "10.0.0.2", PORT))])),
        endpoints=[{"serial": "0", "family": "ip4", "port": PORT}])
    lans.mesh.start()
    lans.mesh.wait_up()
    wait_ping(lans.two, lans.mesh.inner(1))
    assert lans.count(lans.one) == 0


def fragments(ns, name):
    found = re.search(rf"^{name}\s+(\d+)", ns.run("nstat", "-asz").stdout, re.MULTILINE)
    return int(found[1])


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_a_narrow_interface_is_told_to_inner_senders(lab, underlay):
    """Nothing is fragmented outside, and TCP of IPv4 finds its size."""
    mesh = Mesh(lab, 2, underlay, mtu=1280).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    link, = mesh.nodes[0].links()
    fits = link["mtu"]
    assert 1150 < fits < 1280 - (28 if underlay == "ip4" else 48)
    far = mesh.inner(2)
    done = one.run("ping", "-n", "-M", "do", "-c", 2, "-i", 0.2, "-W", 1, "-s", 1350, far,
                   check=False)
    assert done.returncode == 1
    assert re.search(rf"Frag needed and DF set \(mtu = {fits}\)", done.stdout + done.stderr)
    ping(one, far, size=fits - 28, options=("-M", "do"))
    tcp_transfer(one, two, far, size=3_000_000)
    tcp_transfer(two, one, mesh.inner(1), size=3_000_000)
    made = "IpFragCreates" if underlay == "ip4" else "Ip6FragCreates"
    assert fragments(one, made) == fragments(two, made) == 0
    # 1280 bytes of IPv6 must pass, in fragments
    ping(one, mesh.inner(2, "ip6"), size=1232, options=("-M", "do"))
    tcp_transfer(one, two, mesh.inner(2, "ip6"), size=1_000_000)
    assert fragments(one, made) > 0


def test_an_mtu_that_changes_is_found(lab):
    """Superpackets go on with the new size."""
    mesh = Mesh(lab, 2).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    assert mesh.nodes[0].links()[0]["mtu"] == 1400
    for ns in mesh.spaces:
        ns.ip("link set eth0 mtu 1300")
    for node in mesh.nodes:
        wait_until(lambda node=node: node.links()[0]["mtu"] < 1272, 3.0, "the MTU to be known")
    tcp_transfer(one, two, mesh.inner(2), size=3_000_000)
    assert fragments(one, "IpFragCreates") == 0
    for ns in mesh.spaces:
        ns.ip("link set eth0 mtu 1500")
    for node in mesh.nodes:
        wait_until(lambda node=node: node.links()[0]["mtu"] == 1400, 3.0, "the MTU to be known")
