"""NAT and roaming: who moves is followed, who only says so is not.

       n1 10.3.0.11 --+
                      +-- r 10.4.0.1, 10.4.0.7 -- n2 10.4.0.2
       n3 10.3.0.13 --+
"""
import re
import sys
import time

import pytest

from lab import Mesh, Ping, registry, registry_node, wait_ping, wait_until
from lab.mesh import PORT

PACE_S = 0.01  # between pings
SECOND = 100   # pings
# Prints each UDP payload that leaves for port 13000, in hex.
CAPTURE = f"""
import socket
wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
print("ready", flush=True)
while True:
    packet, come = wire.recvfrom(65536)
    if come[2] == socket.PACKET_OUTGOING and packet[0] >> 4 == 4 and packet[9] == 17 and \\
            packet[22:24] == ({PORT}).to_bytes(2):
        print("sent", packet[28:].hex(), flush=True)
"""
# Sends each line of its input, hex, to port 13000 of an address, from port 13000.
REPLAY = f"""
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", {PORT}))
for line in sys.stdin:
    sock.sendto(bytes.fromhex(line), (sys.argv[1], {PORT}))
"""


class Nat:
    """n1 and n3 behind one router, n2 with a public address; maps() says as what they appear."""

    INSIDE = {1: "10.3.0.11", 3: "10.3.0.13"}
    PUBLIC = "10.4.0.2"

    def __init__(self, lab):
        self.lab, self.router = lab, lab.ns("r", forward=True)
        self.mesh = Mesh(lab, 3, link=self.join)
        for i in (1, 2, 3):
            self.mesh.reconfigure(i, registry=self.registry(), endpoints=[
                {"serial": "0", "family": "ip4", "port": PORT}])

    def join(self, mesh):
        inside = {mesh.spaces[i - 1]: f"{address}/24" for i, address in self.INSIDE.items()}
        self.lab.lan({self.router: "10.3.0.1/24", **inside})
        self.lab.veth(self.router, mesh.spaces[1], "10.4.0.1/24 10.4.0.7/24",
                      f"{self.PUBLIC}/24")
        for ns in inside:
            ns.route("default", "via 10.3.0.1")

    def registry(self):
        return registry(*((f"org{i}", self.mesh.keys[i - 1], [registry_node(
            f"n{i}", (0, self.PUBLIC if i == 2 else None, PORT))]) for i in (1, 2, 3)))

    def maps(self, outside):
        """{node: "address:port"} from now on; what was is forgotten."""
        self.router.map_as({self.INSIDE[i]: seen for i, seen in outside.items()})

    def seen(self, i):
        """As what n2 knows node i: "address:port"."""
        link, = [link for link in self.mesh.nodes[1].links() if link["peer"]["name"] == f"n{i}"]
        return f"{link['remote']['address']}:{link['remote']['port']}"

    def start(self, outside):
        self.maps(outside)
        self.mesh.start()
        self.mesh.nodes[1].wait_up(2)
        for i in self.INSIDE:
            wait_ping(self.mesh.spaces[i - 1], self.mesh.inner(2))
            assert self.seen(i) == outside[i]
        return self


def test_a_mapping_that_changes_under_traffic(lab):
    """Another port, then another address; ESP and IKE go on as one."""
    nat = Nat(lab).start({1: "10.4.0.1:20001", 3: "10.4.0.1:20003"})
    one, node = nat.mesh.spaces[0], nat.mesh.nodes[1]
    for outside in ("10.4.0.1:20500", "10.4.0.7:30000"):
        with Ping(one, nat.mesh.inner(2), interval=PACE_S) as running:
            running.wait_received(20)
            nat.maps({1: outside, 3: "10.4.0.1:20003"})
            wait_until(lambda outside=outside: nat.seen(1) == outside, 5.0, "n2 to follow")
            running.wait_received(20)
        assert running.result.lost < SECOND
        with Ping(one, nat.mesh.inner(2), interval=PACE_S) as running:
            before = nat.mesh.pairs()
            for _ in range(2):
                node.tool("rekey", "n1")
            wait_until(lambda before=before: nat.mesh.pairs() != before, 5.0, "new keys")
            running.wait_received(50)
        assert running.result.lost == 0
        assert nat.seen(1) == outside


def test_a_mapping_that_changes_while_idle(lab):
    """The first packet from behind the NAT makes it known, within 20 s."""
    nat = Nat(lab).start({1: "10.4.0.1:20001", 3: "10.4.0.1:20003"})
    nat.maps({1: "10.4.0.1:20500", 3: "10.4.0.1:20501"})
    # nothing is sent by hand through n3's
    wait_until(lambda: nat.seen(3) == "10.4.0.1:20501", 20.0, "n2 to learn n3's new port")
    wait_ping(nat.mesh.spaces[1], nat.mesh.inner(3))
    wait_ping(nat.mesh.spaces[0], nat.mesh.inner(2), timeout=1.0)


def test_two_peers_behind_one_address_swap_their_ports(lab):
    first, second = "10.4.0.1:20001", "10.4.0.1:20003"
    nat = Nat(lab).start({1: first, 3: second})
    with Ping(nat.mesh.spaces[0], nat.mesh.inner(2), interval=PACE_S) as one, \
            Ping(nat.mesh.spaces[2], nat.mesh.inner(2), interval=PACE_S) as three:
        one.wait_received(20)
        nat.maps({1: second, 3: first})
        wait_until(lambda: (nat.seen(1), nat.seen(3)) == (second, first), 5.0, "n2 to follow")
        one.wait_received(20)
        three.wait_received(20)
    assert one.result.lost < SECOND and three.result.lost < SECOND
    for link in nat.mesh.nodes[1].links():
        assert link["state"] == "up" and len(link["children"]) == 1


def test_the_addresses_of_both_ends_change(lab):
    """Neither end is told: one moves under traffic, then the other."""
    mesh = Mesh(lab, 2)
    for i in (1, 2):
        mesh.reconfigure(i, endpoints=[{"serial": "0", "family": "ip4", "port": PORT}])
    mesh.start()
    mesh.wait_up()
    wait_ping(mesh.spaces[0], mesh.inner(2))
    for i in (1, 2):
        ns, far = mesh.spaces[i - 1], mesh.nodes[2 - i]
        with Ping(ns, mesh.inner(3 - i), interval=PACE_S) as running:
            running.wait_received(20)
            ns.sysctl("net.ipv4.conf.all.promote_secondaries", 1)
            ns.addr(f"10.0.0.{i}1/24", "eth0")
            ns.ip(f"addr del {mesh.outer(i)}/24 dev eth0")
            wait_until(lambda far=far, i=i: far.links()[0]["remote"]["address"] == f"10.0.0.{i}1",
                       5.0, "the other end to follow")
            running.wait_received(20)
        assert running.result.lost < SECOND


@pytest.mark.parametrize("newest", [False, True], ids=["replayed", "diverted"])
def test_a_packet_from_elsewhere_moves_nothing(lab, newest):
    """n3, who is no peer of theirs, sends what n1 has sent to n2; what it diverted
    is new to n2, and still n3 is no way to n1."""
    mesh = Mesh(lab, 3)
    one, two, other = mesh.spaces
    capture = one.start(sys.executable, "-c", CAPTURE, name="capture")
    capture.wait_log("^ready$")
    for i in (1, 2):
        mesh.reconfigure(i, peers={"exclude": ["n3"]}).start()
    wait_ping(one, mesh.inner(2))
    # IKE is left out: it begins with four zero bytes
    if newest:
        two.run("nft", "-f", "-", stdin=(
            "table ip away { chain in { type filter hook input priority 0;\n"
            f"ip saddr {mesh.outer(1)} udp dport {PORT} drop\n}}\n}}\n"))
    one.run("ping", "-c", "5", "-i", "0.02", "-W", "0.1", mesh.inner(2), check=False)
    replies = mesh.nodes[1].drops()["replay-duplicate"]
    sent = [line.split()[1] for line in capture.log().splitlines() if line.startswith("sent")
            and not line.startswith("sent 00000000")]
    asked = other.start("tcpdump", "-n", "-l", "-i", "any", f"udp src port {PORT} and src host "
                        f"{mesh.outer(2)}", name="asked")
    other.run(sys.executable, "-c", REPLAY, mesh.outer(2), stdin="\n".join(sent[-5:]) + "\n")
    if newest:
        wait_until(lambda: mesh.outer(2) in asked.log(), 5.0, "n2 to ask n3 whether it is n1")
        two.run("nft", "delete", "table", "ip", "away")
    else:
        wait_until(lambda: mesh.nodes[1].drops()["replay-duplicate"] >= replies + 4, 5.0,
                   "the packets to be known as old")
    with Ping(two, mesh.inner(1), interval=PACE_S) as running:
        running.wait_received(150)
    assert running.result.lost == 0
    link, = [link for link in mesh.nodes[1].links() if link["peer"]["name"] == "n1"]
    assert link["remote"]["address"] == mesh.outer(1)


def test_started_before_there_is_an_address(lab):
    """No address, then one, then another while keys are agreed on."""
    mesh = Mesh(lab, 2)
    one, two = mesh.spaces
    for i in (1, 2):
        mesh.reconfigure(i, endpoints=[{"serial": "0", "family": "ip4", "port": PORT}])
    one.sysctl("net.ipv4.conf.all.promote_secondaries", 1)
    one.ip(f"addr del {mesh.outer(1)}/24 dev eth0")
    mesh.start()
    wait_until(lambda: mesh.nodes[0].links()[0]["state"] == "connecting", 5.0, "a try")
    one.addr("10.0.0.31/24", "eth0")
    wait_ping(one, mesh.inner(2), timeout=5.0)
    assert mesh.nodes[1].links()[0]["remote"]["address"] == "10.0.0.31"
    before = mesh.pairs()
    with Ping(one, mesh.inner(2), interval=PACE_S) as running:
        running.wait_received(10)
        one.addr("10.0.0.32/24", "eth0")
        # neither the question nor the answer has been seen when the address goes
        mesh.nodes[0].tool("rekey", "n2")
        one.ip("addr del 10.0.0.31/24 dev eth0")
        wait_until(lambda: mesh.nodes[1].links()[0]["remote"]["address"] == "10.0.0.32", 5.0,
                   "n2 to follow")
        wait_until(lambda: mesh.pairs() != before, 10.0, "new keys")
        running.wait_received(20)
    assert running.result.lost < SECOND
    mesh.wait_one_pair()
    # UDP it is at both ends, whatever either took for its address
    wait_ping(two, mesh.inner(1))


def test_one_family_of_two_is_dead(lab):
    """At the start, later, and then the other."""
    mesh = Mesh(lab, 2, underlay="ip4 ip6")
    one, two = mesh.spaces

    def block(family):
        word = {"ip4": "ip", "ip6": "ip6"}[family]
        two.run("nft", "-f", "-", stdin=(
            "table inet dead\ndelete table inet dead\ntable inet dead { chain in {\n"
            f"type filter hook input priority 0; {word} saddr {mesh.outer(1, family)} drop\n}}\n"
            f"chain out {{ type filter hook output priority 0; {word} daddr "
            f"{mesh.outer(1, family)} drop\n}}\n}}\n"))

    block("ip6")
    mesh.start()
    wait_ping(one, mesh.inner(2), timeout=5.0)
    for node in mesh.nodes:
        wait_until(lambda node=node: [n for n in node.ask("neighbours")["neighbours"]
                                      if n["txcost"]], 10.0, "the link to be used")
    block("ip4")
    wait_ping(one, mesh.inner(2), timeout=5.0)
    two.run("nft", "delete", "table", "inet", "dead")
    mesh.wait_up(timeout=30.0)
    with Ping(one, mesh.inner(2), interval=PACE_S) as running:
        running.wait_received(20)
        block("ip6")
        running.wait_received(20)
        wait_until(lambda: len(mesh.nodes[0].links("up")) == 1, 20.0, "the dead one to be noticed")
        running.wait_received(50)
    assert running.result.longest_silence_s < 3.0


@pytest.mark.parametrize("second", ["none", "excluded", "other"])
def test_the_way_out_is_lost_for_a_while(lab, second):
    """n1 has the default route in the tunnel, and the one of eth0 goes, or eth0. The
    tunnel never goes through itself, nor by an uplink that is not to be used; and it comes back.
    """
    router = lab.ns("r", forward=True)
    # an uplink takes nothing that has the address of another
    router.sysctl("net.ipv4.conf.all.rp_filter", 1)

    def join(mesh):
        one, two = mesh.spaces
        for i in range(1 if second == "none" else 2):
            lab.veth(one, router, f"10.{5 + i}.0.1/24", f"10.{5 + i}.0.2/24")
        lab.veth(two, router, "10.4.0.2/24", "10.4.0.1/24")
        two.route("default", "via 10.4.0.1")
        one.route("default", "via 10.5.0.2 metric 10")
        if second != "none":
            one.route("default", "via 10.6.0.2 metric 20")

    mesh = Mesh(lab, 2, link=join)
    one, two = mesh.spaces
    node, far = mesh.nodes
    entries = registry(*((f"org{i}", mesh.keys[i - 1], [registry_node(f"n{i}", (0, address, PORT))])
                         for i, address in ((1, None), (2, "10.4.0.2"))))
    own = [{"serial": "0", "family": "ip4", "port": PORT}]
    mesh.reconfigure(2, registry=entries, endpoints=own)
    mesh.reconfigure(1, registry=entries, endpoints=own, static_routes=[
        {"prefix": f"{mesh.inner(2)}/32", "node": "n2"}, {"prefix": "0.0.0.0/0", "node": "n2"}],
        underlay={"exclude_interfaces": ["eth1"]} if second == "excluded" else {})
    wrong = "weft0" if second == "other" else '{"weft0", "eth1"}'
    one.run("nft", "-f", "-", stdin=(
        "table inet watch { chain out { type filter hook postrouting priority 0;\n"
        f"oifname {wrong} udp sport {PORT} counter\n}}\n}}\n"))

    def seen():
        return far.links()[0]["remote"]["address"]

    def astray():
        watched = one.run("nft", "list", "table", "inet", "watch").stdout
        return int(re.search(r"packets (\d+)", watched)[1])

    mesh.start()
    mesh.wait_up()
    wait_ping(one, mesh.inner(2))
    assert "dev weft0" in one.ip("route get 198.51.100.1")
    with Ping(one, mesh.inner(2), interval=PACE_S) as running:
        running.wait_received(20)
        if second == "other":
            one.up("eth0", False)
            wait_until(lambda: seen() == "10.6.0.1", 10.0, "the other uplink to be used")
            running.wait_received(20)
            one.up("eth0")
        else:
            one.ip("route del default via 10.5.0.2")
            wait_until(lambda: node.links("down"), 5.0, "the link to be given up")
            before = astray()
            time.sleep(3)  # it is not tried again
            assert node.links("down") and astray() == before
            # what left until the kernel had told of the change
            assert before < SECOND
        one.route("default", "via 10.5.0.2 metric 10")
        running.wait_received(20)
        wait_until(lambda: seen() == "10.5.0.1", 10.0, "the first uplink to be used again")
        running.wait_received(20)
    if second == "other":
        assert running.result.lost < SECOND and astray() == 0
    if second == "none":  # into the TUN, where they ended
        assert node.drops()["loop"] == astray()
