"""The kernel's seg6 on a host without weft, behind strongSwan: as waypoint, exit and head end.

   n1 (weft) ===== n3 (weft)      n2: two charons with kernel-libipsec, since one of them has one
      \\\\            //           peer with selectors 0/0; ipsec0 leads to n1 and ipsec1 to n3
       ===== n2 =====
             |
           server (198.51.100.9, 2001:db8:4::9)

SIDs of n2 are fd00:5:2::x; weft knows them by srv6.sids or as they are. Where it says so the LAN is
behind a virtual machine at n2 instead, which has a VRF for it and the SID fd00:5:9::1.
"""
import re

import pytest

from lab import (Mesh, StrongSwan, UdpStream, VirtualMachine, ping, tcp_transfer, wait_ping,
                 wait_until)


COUNT = 200
KERNEL = 2
FAMILIES = ("ip4", "ip6")
SERVER = {"ip4": "198.51.100.9", "ip6": "2001:db8:4::9"}
LAN = {"ip4": "198.51.100.0/24", "ip6": "2001:db8:4::/64"}
DT46 = "fd00:5:9::1"
END, DX4, DX6, DT6 = (f"fd00:5:2::{i}" for i in (2, 4, 6, 7))
SERVER_HAS = "198.51.100.9/24 2001:db8:4::9/64"
CONTROL = 60  # packets of Babel, probes and a TCP session's acknowledgements among those counted


def locator(i):
    return f"fd00:5:{i}::/64"


def packets_errors(route):
    """The counters of a SID, out of ip(8)'s words about its route."""
    return tuple(int(n) for n in re.search(r"packets (\d+) bytes \d+ errors (\d+)",
                                           route).groups())


class Kernel:
    """The three nodes and the server; nothing is started."""

    def __init__(self, lab, lan=True):
        self.mesh = mesh = Mesh(lab, 3, "ip4 ip6")
        self.host = mesh.spaces[KERNEL - 1]
        self.server = lab.ns("server")
        if lan:
            # as a head end the kernel tells nobody that an outer packet is too big, not even by a
            # route's mtu when it forwards: the LAN leaves room for the segments
            lab.veth(self.host, self.server, "198.51.100.1/24 2001:db8:4::1/64", SERVER_HAS,
                     mtu=1280)
            self.server_routes()
        for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            self.host.sysctl(key, 1)
        self.policies = {1: [], 3: []}
        self.charon = [StrongSwan(self.host, "forky", mesh.connection(KERNEL, peer, serial),
                                  port=13000 + serial, name=f"charon{serial}")
                       for serial, peer in enumerate((1, 3))]

    def server_routes(self):
        self.server.route("default", "via 198.51.100.1")
        self.server.route("default", "via 2001:db8:4::1")

    def registry(self, serial):
        """As the node has it that speaks to n2's endpoint of this serial."""
        entries = self.mesh.registry({1: {"srv6": locator(1)}, 3: {"srv6": locator(3)}})
        node = entries[KERNEL - 1]["nodes"][0]
        node["endpoints"] = [one for one in node["endpoints"]
                             if one["serial_number"] == str(serial)]
        return entries

    def configure(self, i, policies=(), **srv6):
        """Node 1 or 3 with static routes: to each other directly, to all of n2 over its link."""
        inner = self.mesh.inner
        far = 4 - i
        to = {far: [inner(far) + "/32", inner(far, "ip6") + "/128"],
              KERNEL: [inner(KERNEL) + "/32", inner(KERNEL, "ip6") + "/128", locator(KERNEL),
                       locator(9), *LAN.values()]}
        return self.mesh.reconfigure(
            i, registry=self.registry(i // 3), policies=list(policies),
            srv6={"sids": {"kernel": END, "dx4": DX4}, **srv6},
            static_routes=[{"prefix": prefix, "node": f"n{j}"}
                           for j, prefixes in to.items() for prefix in prefixes])

    def start(self, policies=()):
        """All up; n1 has the policies."""
        mesh, inner = self.mesh, self.mesh.inner
        for charon in self.charon:
            charon.start()
        for i, device in ((1, "ipsec0"), (3, "ipsec1")):
            for prefix in (inner(i) + "/32", inner(i, "ip6") + "/128", locator(i)):
                self.host.route(prefix, f"dev {device}")
        self.host.addr(f"{inner(KERNEL)}/32 {inner(KERNEL, 'ip6')}/128", "lo")
        self.nodes = {1: self.configure(1, policies), 3: self.configure(3)}
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_up(3, 20.0)
        for node in self.nodes.values():
            wait_until(lambda node=node: all(p["state"] == "active" for p in
                                             node.ask("policies")["policies"]), 10.0, "policies")
        return self

    def sid(self, address, action, device="ipsec0"):
        """A SID of the kernel's that counts."""
        self.host.route(f"{address}/128", f"encap seg6local action {action} count dev {device}")

    def passed(self, address):
        """(packets, errors) of a SID of the kernel's."""
        return packets_errors(self.host.ip(f"-s -6 route show {address}"))

    def counters(self):
        """{(node, peer, "rx" | "tx"): packets} of weft's links, a peer's links taken together."""
        found = {}
        for i, node in self.nodes.items():
            for link in node.links():
                for way in ("rx", "tx"):
                    key = (i, int(link["peer"]["name"][1:]), way)
                    found[key] = found.get(key, 0) + link[way]["packets"]
        return found

    def stream(self, a, b, address, want, sids=()):
        """COUNT datagrams arrive in order; those of the counters that `want` names rise by so many
        and all others by none, and so do the kernel's SIDs."""
        before, at_sids = self.counters(), {sid: self.passed(sid) for sid in sids}
        stream = UdpStream(a, b, address, COUNT)
        assert stream.finish() == COUNT and stream.in_order()
        after = self.counters()
        for key in after:
            times = want.get(key, 0)
            assert times * COUNT <= after[key] - before[key] <= times * COUNT + CONTROL, key
        for sid, (packets, errors) in at_sids.items():
            assert self.passed(sid) == (packets + COUNT, errors)


def policy(family, destination, **way):
    return {"name": family, "destination": destination, **way}


def bits(family):
    return 32 if family == "ip4" else 128


@pytest.mark.parametrize("way", [{"via": ["kernel"], "exit": "n3"}, {"via": [END], "exit": "n3"}],
                         ids=["name", "sid"])
def test_waypoint(lab, way):
    """n1, End of the kernel, n3; what comes back takes the direct link."""
    net = Kernel(lab)
    mesh, inner = net.mesh, net.mesh.inner
    net.start([policy(family, f"{inner(3, family)}/{bits(family)}", **way)
               for family in FAMILIES])
    net.sid(END, "End")
    a, c = mesh.spaces[0], mesh.spaces[2]
    for family in FAMILIES:
        wait_ping(a, inner(3, family))
        net.stream(a, c, inner(3, family),
                   {(1, 2, "tx"): 1, (3, 2, "rx"): 1}, [END])
        before = net.passed(END)[0]
        ping(a, inner(3, family), count=5)
        assert net.passed(END)[0] - before == 5
        tcp_transfer(a, c, inner(3, family), 1_000_000)
        assert net.passed(END)[0] - before > 5 + 100
    assert net.passed(END)[1] == 0


def test_exit(lab):
    """End.DX4, End.DX6 and End.DT6 with a table, over the direct link and past n3's End; the
    server's answers come by n2's plain routes."""
    net = Kernel(lab)
    mesh = net.mesh
    ways = {"direct": {}, "past n3": {"via": ["n3"]}}
    exits = {"ip4": "dx4", "ip6": DX6, "table": DT6}
    server = {**SERVER, "table": "fd00:77::9"}
    lan = {**LAN, "table": "fd00:77::/64"}
    net.start()
    net.sid(DX4, "End.DX4 nh4 0.0.0.0")
    net.sid(DX6, "End.DX6 nh6 ::")
    net.sid(DT6, "End.DT6 table 77")
    net.server.addr("fd00:77::9/128", "lo")
    # known to this table alone: n1 has no route to it either, and n2's main table has none
    net.host.route("fd00:77::/64", "via 2001:db8:4::9 table 77")
    a = mesh.spaces[0]
    for name, way in ways.items():
        net.configure(1, [policy(kind, lan[kind], exit=exits[kind], **way) for kind in exits])
        net.nodes[1].reload()
        past = name == "past n3"
        want = {(1, 3, "tx"): 1, (3, 1, "rx"): 1, (3, 2, "tx"): 1} if past else {(1, 2, "tx"): 1}
        for kind in exits:
            sid = {"dx4": DX4}.get(exits[kind], exits[kind])
            wait_ping(a, server[kind])
            net.stream(a, net.server, server[kind], want, [sid])
            before = net.passed(sid)[0]
            ping(a, server[kind], count=5)
            assert net.passed(sid)[0] - before == 5
            tcp_transfer(a, net.server, server[kind], 300_000)
            assert net.passed(sid)[0] - before > 5 + 100
            assert net.passed(sid)[1] == 0


HEADS = [("encap", ["fd00:5:1::2", "fd00:5:3::1"]), ("encap.red", ["fd00:5:1::2", "fd00:5:3::1"]),
         ("encap", ["fd00:5:3::1"]), ("encap.red", ["fd00:5:3::1"]),  # that is without an SRH
         ("encap", ["fd00:5:1::2", "fd00:5:3::2", "fd00:5:1::2", "fd00:5:3::1"])]
ONE_FAMILY = {"ip4": "fd00:5:3::4", "ip6": "fd00:5:3::3"}  # End.DT4, End.DT6


def test_head_end(lab):
    """What the kernel sends, weft takes: End at n1 (and n3), then End.DT46, End.DT4 or End.DT6 of
    n3; answers come by the plain link."""
    net = Kernel(lab)
    mesh, inner = net.mesh, net.mesh.inner
    net.start()
    net.host.ip("sr tunsrc set fd00:5:2::100")
    c = mesh.spaces[2]
    for mode, segments in HEADS + [("encap.red", [sid]) for sid in ONE_FAMILY.values()]:
        device = "ipsec0" if segments[0].startswith("fd00:5:1:") else "ipsec1"
        for family in FAMILIES:
            if segments[-1] in ONE_FAMILY.values() and segments != [ONE_FAMILY[family]]:
                continue
            net.host.ip(f"-{family[2]} route replace {inner(3, family)}/{bits(family)} encap seg6 "
                        f"mode {mode} segs {','.join(segments)} dev {device}")
            wait_ping(net.server, inner(3, family))
            hops = [int(sid.split(":")[2]) for sid in segments]
            want = {(hops[0], 2, "rx"): 1}
            for one, other in zip(hops, hops[1:]):
                want[one, other, "tx"] = want.get((one, other, "tx"), 0) + 1
                want[other, one, "rx"] = want.get((other, one, "rx"), 0) + 1
            net.stream(net.server, c, inner(3, family), want)
            ping(net.server, inner(3, family), count=5)
            tcp_transfer(net.server, c, inner(3, family), 300_000)
    # only what the exit may reach, and only from who may send
    c.addr("203.0.113.1/32", "lo")
    refused(net, "203.0.113.1", "mode encap.red segs fd00:5:3::1 dev ipsec1", 3, "exit-refused")
    net.host.ip("sr tunsrc set 2001:db8:bad::1")
    refused(net, inner(3), "mode encap segs fd00:5:3::1 dev ipsec1", 3, "srv6-source")
    refused(net, inner(3), "mode encap segs fd00:5:1::2,fd00:5:3::1 dev ipsec0", 1, "srv6-source")


def refused(net, destination, encap, i, reason):
    """A hundred datagrams are dropped by n1 or n3 for this reason; no link and no host gets any."""
    net.host.ip(f"route replace {destination}/32 encap seg6 {encap}")
    before, sent = net.nodes[i].drops().get(reason, 0), net.counters()
    stream = UdpStream(net.server, net.mesh.spaces[2], destination, 100)
    assert stream.finish() == 0
    assert net.nodes[i].drops()[reason] - before == 100
    for key, packets in net.counters().items():
        assert key[2] == "rx" or packets - sent[key] <= CONTROL, key


def test_hmac(lab):
    """The kernel's HMAC TLV is passed over, or what has one is dropped: as the waypoint is told."""
    net = Kernel(lab)
    net.start()
    net.host.ip("sr tunsrc set fd00:5:2::100")
    net.host.run("ip", "sr", "hmac", "set", "7", "sha256", stdin="secret\nsecret\n")
    destination = net.mesh.inner(3)
    encap = "mode encap segs fd00:5:1::2,fd00:5:3::1 hmac 7 dev ipsec0"
    net.host.ip(f"route replace {destination}/32 encap seg6 {encap}")
    wait_ping(net.server, destination)
    net.stream(net.server, net.mesh.spaces[2], destination,
               {(1, 2, "rx"): 1, (1, 3, "tx"): 1, (3, 1, "rx"): 1})
    net.configure(1, hmac="refuse")
    net.nodes[1].reload()
    refused(net, destination, encap, 1, "srv6-hmac")


def test_a_loop_ends(lab):
    """SIDs of n1 and n3 that lead to each other: the kernel that wrote them is told by the
    one at which the hop limit ends, from an address that it has a route to."""
    net = Kernel(lab)
    net.start()
    net.host.addr("fd00:5:2::100/128", "lo")
    net.host.ip("sr tunsrc set fd00:5:2::100")
    segments = ",".join(10 * ["fd00:5:1::2", "fd00:5:3::2"])
    net.host.ip(f"-6 route replace {net.mesh.inner(3, 'ip6')}/128 encap seg6 mode encap.red "
                f"segs {segments} dev ipsec0")
    errors = net.host.start("tcpdump", "-lnvi", "ipsec1", "icmp6 and ip6[40] == 3", name="errors")
    errors.wait_log("listening on")
    net.server.run("ping", "-6", "-n", "-c", 3, "-i", 0.3, "-W", 1, "-t", 9,
                   net.mesh.inner(3, "ip6"), check=False)
    # nine from the server, which the kernel copies and takes one of: n3 gets it with one
    wait_until(lambda: len(re.findall(
        r"fd66::3 > fd00:5:2::100: .*time exceeded in-transit", errors.log())) == 3, 5.0, "errors")
    assert {i: node.drops()["hop-limit"] for i, node in net.nodes.items()} == {1: 0, 3: 3}


ROUTER = {"ip4": "198.51.100.1", "ip6": "2001:db8:4::1"}
VRF = """ip link add red type vrf table 100
ip link set red up
echo 1 > /proc/sys/net/vrf/strict_mode
for f in ipv4/ip_forward ipv6/conf/all/forwarding; do echo 1 > /proc/sys/net/$f; done
for f in all default; do echo 0 > /proc/sys/net/ipv6/conf/$f/accept_dad; done
ip link set eth1 master red
for d in eth0 eth1; do ip link set $d up; done
for a in 192.168.9.2/24 fd00:9::2/64; do ip addr add $a dev eth0; done
for a in 198.51.100.1/24 2001:db8:4::1/64; do ip addr add $a dev eth1; done
for t in main 100; do ip route add fd00:5::/32 via fd00:9::1 dev eth0 table $t; done
ip sr tunsrc set fd00:5:9::100
ip -6 route add fd00:5:9::1/128 encap seg6local action End.DT46 vrftable 100 count dev red"""
BACK = {"routed": {"ip4": "via 192.168.9.1 dev eth0", "ip6": "via fd00:9::1 dev eth0"},
        "steered": dict.fromkeys(FAMILIES, "encap seg6 mode encap.red segs fd00:5:1::1 dev eth0")}


def with_vrf(lab):
    """n1 to n3 with a virtual machine behind n2, and the server in its VRF."""
    net = Kernel(lab, lan=False)
    vm = VirtualMachine(net.host, 2, ["vrf"]).start()
    vm.run(*VRF.splitlines())
    net.host.addr("192.168.9.1/24 fd00:9::1/64", "tap0")
    net.host.route(locator(9), "via fd00:9::2")
    net.host.ip(f"link set tap1 mtu 1280 netns {net.server.name}")
    net.server.up("tap1")
    net.server.addr(SERVER_HAS, "tap1")
    net.server_routes()
    net.start()
    net.sid(END, "End")
    return net, vm


def test_exit_into_a_vrf(lab):
    """End.DT46 of a kernel that has VRF, over a plain router and past its End: an address
    in the VRF and a host behind it; what comes back is routed, or steered by the VRF."""
    net, vm = with_vrf(lab)
    a = net.mesh.spaces[0]

    def passed():
        return packets_errors(vm.run(f"ip -s -6 route show {DT46}"))
    for way in ({}, {"via": [END]}):
        net.configure(1, [policy(family, LAN[family], exit=DT46, **way) for family in FAMILIES])
        net.nodes[1].reload()
        for family in FAMILIES:
            for back in BACK.values():
                vm.run(f"ip -{family[2]} route replace {net.mesh.inner(1, family)}/{bits(family)} "
                       f"{back[family]} table 100")
                wait_ping(a, ROUTER[family])
                wait_ping(a, SERVER[family])
            before = passed()[0]
            net.stream(a, net.server, SERVER[family], {(1, 2, "tx"): 1}, [END] if way else [])
            tcp_transfer(a, net.server, SERVER[family], 100_000)
            assert passed()[0] - before > COUNT + 5  # it takes segments together
    assert passed()[1] == 0
