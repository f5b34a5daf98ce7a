"""What is on the way between two nodes, and what hosts behind them see of it: dataplane.md."""
import re
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
    """Case 5: a router's wire falls to 1300 under traffic of a LAN's host, and says so or not. The
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
