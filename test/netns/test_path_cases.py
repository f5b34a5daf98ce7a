"""What is on the way between two nodes, and what hosts behind them see of it."""
import json
import re
import sys
import time

import pytest
from test_dataplane import narrow_in_the_middle

from lab import ping, tcp_transfer, wait_ping, wait_until
from lab.core import Failed

HEADERS = {"ip4": 28, "ip6": 48}
TUN = 1400
HOST = {"ip4": "10.71.0.2", "ip6": "fd71::2"}  # behind n1, whose own address ends in 1
SERVER = {"ip4": "10.72.0.2", "ip6": "fd72::2"}  # behind n2
NO_ICMP = """table inet mute { chain out { type filter hook output priority 0;
icmp type destination-unreachable counter drop
icmpv6 type packet-too-big counter drop
}
}
"""
SYN_LARGER = """table inet syn { chain in { type filter hook input priority 0;
meta nfproto ipv4 tcp flags & syn == syn tcp option maxseg size > %d counter
meta nfproto ipv6 tcp flags & syn == syn tcp option maxseg size > %d counter
tcp flags & syn == syn counter
}
}
"""

NOT_ECT, ECT1, ECT0, CE = range(4)
DSCP = 46 << 2
MARK = """table inet marks
delete table inet marks
table inet marks { chain way { type filter hook forward priority 0;
ip dscp ef counter
ip6 dscp ef counter
ip ecn %(which)s ip ecn set ce
ip6 ecn %(which)s ip6 ecn set ce
}
}
"""
# a datagram of each TOS in turn, and what TOS each came with
TOS = """
import json, socket, sys, time
verb, address, *values = sys.argv[1:]
six = ":" in address
level, set_tos, ask = (
    (socket.IPPROTO_IPV6, socket.IPV6_TCLASS, socket.IPV6_RECVTCLASS) if six
    else (socket.IPPROTO_IP, socket.IP_TOS, 13))  # IP_RECVTOS
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
if verb == "receive":
    sock.setsockopt(level, ask, 1)
    sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE
    sock.bind((address, 7400))
    sock.settimeout(3)
    print("ready", flush=True)
    got = {}
    while b"end" != (one := sock.recvmsg(2000, 100))[0][:3]:
        (_, _, tos), = one[1]
        number = int(one[0][:6])
        assert number not in got
        got[number] = tos[0]
    print(json.dumps(sorted(got.items())), flush=True)
else:
    values = [int(value) for value in values]
    for number in range(40 * len(values)):
        sock.setsockopt(level, set_tos, values[number % len(values)])
        sock.sendto(b"%06d" % number + bytes(1000), (address, 7400))
        time.sleep(0.02 if number % 20 == 19 else 0)  # a burst that the TUN's queue has room for
    sock.setsockopt(level, set_tos, 2)
    for _ in range(3):
        sock.sendto(b"end", (address, 7400))
"""


def fits_in(path, underlay):
    """The largest packet inside: ESP takes 32 bytes, padding to 4 with 2 among it."""
    return (path - HEADERS[underlay] - 32) // 4 * 4 - 2


def behind(lab, mesh):
    """A host behind each node, on a wire of 1500."""
    spaces = []
    for i, net in ((1, 71), (2, 72)):
        ns = mesh.spaces[i - 1]
        ns.sh("echo 1 > /proc/sys/net/ipv4/ip_forward\n"
              "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        host = lab.ns(f"host{i}")
        lab.veth(ns, host, f"10.{net}.0.1/24 fd{net}::1/64", f"10.{net}.0.2/24 fd{net}::2/64")
        host.route("default", f"via 10.{net}.0.1")
        host.route("::/0", f"via fd{net}::1")
        other = 143 - net
        routes = mesh.nodes[i - 1].config["static_routes"] + [
            {"prefix": prefix, "node": f"n{3 - i}"}
            for prefix in (f"10.{other}.0.0/24", f"fd{other}::/64")]
        mesh.nodes[i - 1].configure({**mesh.nodes[i - 1].config, "static_routes": routes,
                                       "announce": [f"10.{net}.0.0/24", f"fd{net}::/64"]})
        spaces.append(host)
    return spaces


def told(host, address, size, count=3):
    """What a large packet that may not be fragmented is answered with: (source, MTU)."""
    done = host.run("ping", "-n", "-M", "do", "-c", count, "-i", 0.2, "-W", 0.5, "-s", size,
                    address, check=False)
    said = re.search(r"From (\S+?):? icmp_seq=\d+ (?:Frag needed and DF set \(mtu = |"
                     r"Packet too big: mtu=)(\d+)", done.stdout)
    if said is None:
        raise Failed(done.stdout + done.stderr)
    return said[1], int(said[2])


def larger_syns(ns):
    return [int(n) for n in re.findall(r"counter packets (\d+)",
                                       ns.run("nft", "list", "table", "inet", "syn").stdout)]


@pytest.mark.parametrize("icmp", ["allowed", "blocked"])
@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_hosts_behind_a_path_that_narrows(lab, underlay, icmp):
    """A router's wire falls to 1300 under traffic of a LAN's host, and says so or not. The
    host is told what fits by an address that it has a route to, never less than 1280 in IPv6; SYN
    and SYN-ACK are clamped. (With SRv6 added: test_mtu.py.)"""
    mesh = narrow_in_the_middle(lab, underlay, middle=1500)
    host, server = behind(lab, mesh)
    near, far = (ns for ns in lab.namespaces if ns.label in ("near", "far"))
    if icmp == "blocked":
        for ns in (near, far):
            ns.run("nft", "-f", "-", stdin=NO_ICMP)
    mesh.start()
    mesh.wait_reach()
    for family, address in SERVER.items():
        wait_ping(host, address)
    fits = fits_in(1300, underlay)
    for ns, dev in ((near, "eth1"), (far, "eth0")):
        ns.ip(f"link set {dev} mtu 1300")
    begun = time.monotonic()
    knocks = host.start("ping", "-n", "-q", "-M", "dont", "-i", 0.02, "-s", 1340, SERVER["ip4"],
                        name="knock")
    back = server.start("ping", "-n", "-q", "-M", "dont", "-i", 0.02, "-s", 1340, HOST["ip4"],
                        name="knock")
    wait_until(lambda: [n.links()[0]["mtu"] for n in mesh.nodes] == [fits] * 2, 15.0,
               f"both ends to know that {fits} bytes fit")
    took = time.monotonic() - begun
    knocks.stop()
    back.stop()
    print(f"\n{underlay}, {icmp}: {took:.2f} s")
    assert took < (3.0 if icmp == "allowed" else 10.0)  # 1 s, on a machine that is not busy
    for ns in (host, server):
        ns.run("nft", "-f", "-", stdin=SYN_LARGER % (fits - 40, fits - 60))
    for family, first in (("ip4", "10.71.0.1"), ("ip6", "fd71::1")):
        want = fits if family == "ip4" else max(fits, 1280)
        # n1's kernel knows the TUN, and weft the path
        assert told(host, SERVER[family], 1500 - HEADERS[family]) == (first, TUN)
        source, mtu = told(host, SERVER[family], TUN - HEADERS[family])
        assert mtu == want
        ping(host, source, count=1)
        # what has to be fragmented outside passes where the path takes fragments (decisions.md)
        if want == fits or (underlay, icmp) != ("ip6", "blocked"):
            ping(host, SERVER[family], size=want - HEADERS[family], options=("-M", "do"))
        tcp_transfer(host, server, SERVER[family], size=1_000_000)
        tcp_transfer(server, host, HOST[family], size=1_000_000)
    for ns in (host, server):  # as the server's side of one and the client's of the other
        *larger, all_of_them = larger_syns(ns)
        assert larger == [0, 0] and all_of_them >= 4


def tos_of(sender, receiver, address, values):
    """{TOS that was sent: (the TOS values of those which came, how many came)}"""
    sink = receiver.start(sys.executable, "-c", TOS, "receive", address, name="tos")
    sink.wait_log("^ready$")
    sender.run(sys.executable, "-c", TOS, "send", address, *values)
    got = json.loads(sink.wait_log(r"^\[.*\]$")[0])
    sink.wait()
    found = {value: [tos for number, tos in got if values[number % len(values)] == value]
             for value in values}
    return {value: (set(tos), len(tos)) for value, tos in found.items()}


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_marks_of_a_router_reach_the_inside(lab, underlay):
    """A router marks what is ECT as CE, then everything, in a burst of mixed TOS. ECT
    inside becomes CE, CE stays, Not-ECT stays as it was or is dropped and counted; the inner DSCP
    is never touched, the outer one is 0, or a copy when so configured; and each packet keeps what
    is its."""
    mesh = narrow_in_the_middle(lab, underlay, middle=1500)
    near, = (ns for ns in lab.namespaces if ns.label == "near")
    mesh.start()
    mesh.wait_reach()
    one, two = mesh.spaces
    sent = [DSCP | ecn for ecn in (NOT_ECT, ECT1, ECT0, CE)] + [NOT_ECT, ECT0]

    def became(tos):
        return tos | CE if tos & CE else tos
    for family in ("ip4", "ip6"):
        address = mesh.inner(2, family)
        found = tos_of(one, two, address, sent)
        assert found == {tos: ({tos}, 40) for tos in sent}
        near.run("nft", "-f", "-", stdin=MARK % {"which": "{ ect0, ect1 }"})
        found = tos_of(one, two, address, sent)
        assert found == {tos: ({became(tos)}, 40) for tos in sent}
        counted = re.findall(r"counter packets (\d+)",
                             near.run("nft", "list", "table", "inet", "marks").stdout)
        assert not any(map(int, counted))
        near.run("nft", "-f", "-", stdin=MARK % {"which": "!= ce"})  # a router that is broken
        before = mesh.nodes[1].drops()["ecn-ce-not-ect"]
        found = tos_of(one, two, address, sent)
        assert found == {tos: ({became(tos)}, 40) if tos & CE else (set(), 0)
                         for tos in sent}
        assert mesh.nodes[1].drops()["ecn-ce-not-ect"] - before >= 80
        near.run("nft", "delete", "table", "inet", "marks")
    head = mesh.nodes[0]
    head.configure(head.config | {"underlay": {"dscp": "copy"}})
    head.reload()
    near.run("nft", "-f", "-", stdin=MARK % {"which": "ce"})  # changes nothing, counts
    tos_of(one, two, mesh.inner(2, "ip6"), sent)
    counted = re.findall(r"counter packets (\d+)",
                         near.run("nft", "list", "table", "inet", "marks").stdout)
    assert max(map(int, counted)) > 0, "the outer DSCP is not the inner one"
