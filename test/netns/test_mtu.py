"""The path MTU of a steered path: senders behind the head end find it and go at it, also where a
waypoint alone knows of a narrow link, and where no ICMP passes."""
import re
import sys

import pytest
from test_steer import SERVER, Steered

from lab import tcp_transfer, wait_until

VIA = {"via": ["n2", "n3"], "exit": "n4"}
SIZE = 3_000_000
OVERHEAD = 40 + 8 + 2 * 16  # an IPv6 header, and a reduced SRH of three segments
NO_ICMP = """table inet deaf { chain in { type filter hook input priority 0;
icmp type destination-unreachable counter drop
icmpv6 type packet-too-big counter drop
}
}
"""
# datagrams of a size; IPv4: with or without the wish not to be fragmented
UDP = """
import socket, sys, time
address, size, dont = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
if family == socket.AF_INET:
    sock.setsockopt(socket.IPPROTO_IP, 10, dont)
for i in range(6):
    try:
        sock.sendto(bytes(size), (address, 7777))
    except OSError:
        pass
    time.sleep(0.05)
"""
UDP_COUNT = """
import socket, sys
address, size = sys.argv[1], int(sys.argv[2])
sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((address, 7777))
sock.settimeout(8)
print("ready", flush=True)
data = sock.recv(65535)
print("got", len(data) == size, flush=True)
"""


def counter(ns, name):
    found = re.search(rf"^{name}\s+(\d+)", ns.run("nstat", "-asz").stdout, re.MULTILINE)
    return int(found[1])


def full_speed(net, a, b, address, fits):
    """A transfer in packets of the whole size, that no timer had to help along."""
    header = 60 if ":" in address else 40  # and 12 bytes of timestamps
    segments, timeouts = counter(a, "TcpOutSegs"), counter(a, "TcpExtTCPTimeouts")
    tcp_transfer(a, b, address, size=SIZE)
    least = SIZE / (fits - header - 12)
    sent = counter(a, "TcpOutSegs") - segments
    assert least <= sent < 1.15 * least + 50
    assert counter(a, "TcpExtTCPTimeouts") - timeouts <= 1  # of a machine that was away


def udp_arrives(net, family, size, dont=0):
    receiver = net.server.start(sys.executable, "-c", UDP_COUNT, SERVER[family], size,
                                name=f"count-{family}-{size}")
    receiver.wait_log("^ready$")
    net.client.run(sys.executable, "-c", UDP, SERVER[family], size, dont)
    receiver.wait_log("^got True$", 10)


def deaf(*spaces):
    for ns in spaces:
        ns.run("nft", "-f", "-", stdin=NO_ICMP)


@pytest.mark.parametrize("icmp", ["allowed", "filtered"])
def test_three_segments_on_links_of_1500(lab, icmp):
    net = Steered(lab, [VIA]).start()
    if icmp == "filtered":
        deaf(net.client, net.server, *net.mesh.spaces)
    link, = (x for x in net.head.links("up") if x["peer"]["name"] == "n2")
    fits = link["mtu"] - OVERHEAD
    back = link["mtu"]
    for family, near in (("ip4", "10.1.0.2"), ("ip6", "2001:db8:1::2")):
        full_speed(net, net.client, net.server, SERVER[family], fits)
        full_speed(net, net.server, net.client, near, back)
    udp_arrives(net, "ip4", 4000)
    if icmp == "allowed":
        udp_arrives(net, "ip4", 1440, dont=1)
        udp_arrives(net, "ip6", 1440)
        for address in SERVER.values():
            net.client.run("ping", "-n", "-M", "do", "-c", 2, "-i", 0.2, "-W", 1, "-s", fits - 20,
                           address, check=False)
            assert f"mtu {fits}" in net.client.ip(f"route get {address}")
    else:
        udp_arrives(net, "ip6", 1280 - 48)
    assert net.head.drops()["srv6-error"] == 0


@pytest.mark.parametrize("icmp", ["allowed", "filtered"])
def test_a_narrow_link_behind_a_waypoint(lab, icmp):
    """Only n2 knows that its way to n3 is narrow; filtered: what the kernels of the mesh hear."""
    net = Steered(lab, [VIA])
    net.mesh.spaces[1].ip(f"route add {net.mesh.outer(3)} dev eth0 mtu 1450")
    net.start()
    if icmp == "filtered":
        deaf(*net.mesh.spaces)

    def to_n3():
        link, = (x for x in net.mesh.nodes[1].links("up") if x["peer"]["name"] == "n3")
        return link["mtu"]
    wait_until(lambda: to_n3() < 1400, 20, "n2 to know that n3's link is narrow")
    fits = to_n3() - OVERHEAD
    assert fits > 1280
    for family in SERVER:
        tcp_transfer(net.client, net.server, SERVER[family], size=SIZE)  # finds the size
        full_speed(net, net.client, net.server, SERVER[family], fits)
        # an answer's own sender cannot know, so the transfer found it by being told
        assert f"mtu {fits}" in net.client.ip(f"route get {SERVER[family]}")
    udp_arrives(net, "ip4", 4000)
    udp_arrives(net, "ip6", 4000)
    assert net.mesh.nodes[1].drops()["too-big"] >= 1
    assert net.head.drops()["srv6-error"] >= 1  # each was told to who sent what is in it
