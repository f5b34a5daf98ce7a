"""What may not pass by segments, with real daemons: dropped, counted by name, on no wire."""
import ipaddress
import re
import sys

from lab import wait_until
from test_steer import Steered

SIZE = 900  # of a payload: nothing else on these wires is as long
COUNT = 20
TIMES = 8
# argv: source or "", destination, routing header in hexadecimal or ""
SEND = """
import socket, sys
source, destination, header = sys.argv[1:4]
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
if source:
    sock.bind((source, 0))
if header:
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RTHDR, bytes.fromhex(header))
for _ in range(int(sys.argv[4])):
    sock.sendto(bytes(int(sys.argv[5])), (destination, 7000))
"""


class Wire:
    """Counts what a namespace sends by all its devices but the TUN that is longer than SIZE."""

    def __init__(self, ns):
        self.ns = ns
        ns.run("nft", "-f", "-", stdin=(
            "table inet long { chain out { type filter hook postrouting priority 0;\n"
            f'oifname != {{ "weft0", "lo" }} meta length > {SIZE} counter\n}}\n}}\n'))

    def count(self):
        return int(re.search(r"counter packets (\d+)",
                             self.ns.run("nft", "list", "table", "inet", "long").stdout)[1])


def send(ns, destination, source="", header=""):
    ns.run(sys.executable, "-c", SEND, source, destination, header, COUNT, SIZE)


def srh(*segments):
    """With all segments left, the first in the destination, as IPV6_RTHDR has it."""
    addresses = b"".join(ipaddress.ip_address(one).packed for one in reversed(segments))
    return (bytes([0, 2 * len(segments), 4, len(segments) - 1, len(segments) - 1, 0, 0, 0])
            + addresses).hex()


def test_what_may_not_pass(lab):
    net = Steered(lab, [{"exit": "n4"}], allow=False).start()
    client = net.client
    wires = {i: Wire(net.mesh.spaces[i - 1]) for i in net.mesh.numbers()}
    # none of these is the mesh's: to a SID from the LAN, with segments, to what the exit lacks
    client.sysctl("net.ipv6.conf.all.seg6_enabled", 1)
    refused = [(1, "srv6-from-tun", "fd00:5:3::2", ""),
               (1, "srv6-from-tun", "fd00:5:4::1", ""),
               (1, "srv6-from-tun", "fd00:5:4::4", ""),
               (1, "srv6-from-tun", net.mesh.inner(3, "ip6"),
                srh(net.mesh.inner(3, "ip6"), net.mesh.inner(4, "ip6"))),
               (4, "exit-refused", "2001:db8:4::9", "")]
    for i, reason, destination, header in refused:
        node = net.mesh.nodes[i - 1]
        dropped, before = node.drops()[reason], {j: wire.count() for j, wire in wires.items()}
        send(client, destination, header=header)
        wait_until(lambda: node.drops()[reason] - dropped == COUNT, 5.0,
                   f"{reason} of what is for {destination}")
        # to an exit they go by the one link, some at once, and no further
        for j, wire in wires.items():
            assert (wire.count() > before[j]) == (i == 4 and j == 1), (reason, destination, j)


def test_a_loop_of_segments_ends(lab):
    """SIDs of n2 and n3 that lead to each other: the hop limit ends it, and the head end
    tells the sender by RFC 2473 8.2. (srv6-error counts the errors that came back.)"""
    net = Steered(lab, [{"via": ["n2", "n3"] * TIMES, "exit": "n4"}])
    net.mesh.reconfigure(1, **{**net.mesh.nodes[0].config, "registry": net.remarks,
                               "srv6": {"compat": "linux"}})  # with the packet's own hop limit
    net.start()
    before = [node.drops() for node in net.mesh.nodes]
    done = net.client.run("ping", "-6", "-n", "-c", 3, "-i", 0.3, "-W", 2, "-t", TIMES,
                          "2001:db8:4::9", check=False)
    grew = [{reason: n - old.get(reason, 0) for reason, n in node.drops().items()}
            for node, old in zip(net.mesh.nodes, before)]
    # eight from the client, one less at n1, two less each round: n2 gets it with one
    assert [one["hop-limit"] for one in grew] == [0, 3, 0, 0]
    assert grew[0]["srv6-error"] == 3
    assert done.stdout.count("Destination unreachable: Address unreachable") == 3
