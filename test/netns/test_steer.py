"""Four daemons: traffic of a LAN behind n1 to a LAN behind n4 goes n1, n2, n3, n2, n4 because a
policy says so, as counters at each node prove; what an exit takes out; what comes of a dead
waypoint; the kernel as it was."""
import sys
import time

import pytest

from lab import Mesh, TcpSession, tcp_transfer, wait_ping, wait_until

COUNT = 500
TCP_SIZE = 2_000_000
DIRECT = {"cost": 2000}  # of a link: no relay is worth it, however busy the machine is
CONTROL = 40  # packets of Babel and probes that may be among those of a link meanwhile
SERVER = {"ip4": "198.51.100.9", "ip6": "2001:db8:4::9"}
LONG_WAY = {"via": ["n2", "org3/n3", "n2"], "exit": "n4"}
UDP_RECEIVE = """
import socket, sys
address, count = sys.argv[1], int(sys.argv[2])
sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
sock.bind((address, 7777))
sock.settimeout(3)
print("ready", flush=True)
got = []
try:
    while len(got) < count:
        got.append(int(sock.recv(100)))
except TimeoutError:
    pass
print("got", len(got), "inorder" if got == sorted(got) else "reordered", flush=True)
"""
UDP_SEND = """
import socket, sys, time
address, count = sys.argv[1], int(sys.argv[2])
sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
for i in range(count):
    sock.sendto(str(i).encode(), (address, 7777))
    time.sleep(0.001)
"""


def policies(candidates, fallback="drop", prefixes=("198.51.100.0/24", "2001:db8:4::/64")):
    return [{"name": f"to-{i}", "source": source, "destination": destination,
             "candidates": candidates, "fallback": fallback}
            for i, (source, destination) in enumerate(
                zip(("10.1.0.0/24", "2001:db8:1::/64"), prefixes))]


class Steered:
    """client - n1 … n4 - server; n4's LAN is announced by nobody."""

    def __init__(self, lab, candidates=(LONG_WAY,), allow=True, **policy):
        self.mesh = Mesh(lab, 4)
        self.remarks = self.mesh.registry(
            {i: {"srv6": f"fd00:5:{i}::/64"} for i in self.mesh.numbers()})
        self.client, self.server = lab.ns("client"), lab.ns("server")
        lab.lan({self.mesh.spaces[0]: "10.1.0.1/24 2001:db8:1::1/64",
                 self.client: "10.1.0.2/24 2001:db8:1::2/64"}, label="left")
        lab.lan({self.mesh.spaces[3]: "198.51.100.1/24 2001:db8:4::1/64",
                 self.server: "198.51.100.9/24 2001:db8:4::9/64"}, label="right")
        for ns, near in ((self.client, ("10.1.0.1", "2001:db8:1::1")),
                         (self.server, ("198.51.100.1", "2001:db8:4::1"))):
            ns.ip(f"route add default via {near[0]}")
            ns.ip(f"-6 route add default via {near[1]}")
        for ns in (self.mesh.spaces[0], self.mesh.spaces[3]):
            ns.sysctl("net.ipv4.ip_forward", 1)
            ns.sysctl("net.ipv6.conf.all.forwarding", 1)
        for i in self.mesh.numbers():
            self.mesh.reconfigure(i, registry=self.remarks, babel=DIRECT)
        self.steer(candidates, reload=False, **policy)
        if allow:
            self.mesh.reconfigure(4, registry=self.remarks, babel=DIRECT, exit={
                "allow": ["198.51.100.0/24", "2001:db8:4::/64"]})
        self.head, self.exit = self.mesh.nodes[0], self.mesh.nodes[3]

    def steer(self, candidates, reload=True, **policy):
        node = self.mesh.reconfigure(
            1, registry=self.remarks, babel=DIRECT, announce=["10.1.0.0/24", "2001:db8:1::/64"],
            policies=policies(list(candidates), **policy) if candidates else [])
        if reload:
            node.reload()

    def start(self):
        self.mesh.start()
        self.mesh.wait_up()
        self.wait_state("active")
        # the way back, as the exit's kernel has it
        for family, prefix in (("-4", "10.1.0.0/24"), ("-6", "2001:db8:1::/64")):
            wait_until(lambda f=family, p=prefix: p in self.mesh.spaces[3].ip(
                f"{f} route show table 252"), 10, f"the exit to learn {prefix}")
        wait_until(self.is_direct, 20, "every locator to be one link away")
        return self

    def is_direct(self):
        return all(
            [r["via"]["peer"]["name"] for r in node.ask("routes", f"fd00:5:{j}::/64")["routes"]
             if r["selected"] and r["via"]] == [f"n{j}"]
            for i, node in enumerate(self.mesh.nodes, 1) for j in self.mesh.numbers() if i != j)

    def policy(self):
        return self.head.ask("policies")["policies"]

    def wait_state(self, state, candidate=None, timeout=10.0):
        def reached():
            return all(p["state"] == state and candidate in (None, p["candidate"])
                       for p in self.policy())
        wait_until(reached, timeout, f"the policies to be {state} {candidate}")

    def counters(self, i):
        """{peer: (received, sent)} of node i's links."""
        return {link["peer"]["name"]: (link["rx"]["packets"], link["tx"]["packets"])
                for link in self.mesh.nodes[i - 1].links()}

    def send(self, family, count=COUNT):
        """Sends datagrams from client to server; how many arrived, and whether in order."""
        receiver = self.server.start(sys.executable, "-c", UDP_RECEIVE, SERVER[family], count,
                                     name=f"udp-{family}")
        receiver.wait_log("^ready$")
        self.client.run(sys.executable, "-c", UDP_SEND, SERVER[family], count)
        receiver.wait_log("^got ", 10)
        _, got, order = receiver.log().split("\n")[1].split()
        return int(got), order


# (node, peer): how many times each packet is received from and sent to it
LONG_WAY_LINKS = {(1, "n2"): (0, 1), (2, "n1"): (1, 0), (2, "n3"): (1, 1), (3, "n2"): (1, 1),
                  (2, "n4"): (0, 1), (4, "n2"): (1, 0), (1, "n3"): (0, 0), (3, "n4"): (0, 0)}
DIRECT_LINK = {(1, "n4"): (0, 0)}


def check_the_long_way(net, send, links):
    """What send() sends takes n1, n2, n3, n2, n4; how many packets were steered."""
    before = {i: net.counters(i) for i in (1, 2, 3, 4)}
    packets = sum(p["packets"] for p in net.policy())
    send()
    steered = sum(p["packets"] for p in net.policy()) - packets
    after = {i: net.counters(i) for i in (1, 2, 3, 4)}
    for (i, peer), times in links.items():
        for was, now, expected in zip(before[i][peer], after[i][peer], times):
            got = now - was
            assert expected * steered <= got <= expected * steered + CONTROL, (i, peer, got)
    return steered


def check_datagrams(net, family):
    def send():
        assert net.send(family) == (COUNT, "inorder")
    assert check_the_long_way(net, send, LONG_WAY_LINKS | DIRECT_LINK) == COUNT


def check_tcp(net, family):
    """The acknowledgements come by the direct link."""
    def send():
        tcp_transfer(net.client, net.server, SERVER[family], TCP_SIZE)

    def disorder():
        return net.server.run("nstat", "-asz", "TcpExtTCPOFOQueue").stdout.split()[-2]
    before = disorder()
    assert check_the_long_way(net, send, LONG_WAY_LINKS) > TCP_SIZE / 1400
    assert disorder() == before


@pytest.mark.parametrize("family", ["ip4", "ip6"])
def test_through_a_waypoint_twice(lab, family):
    net = Steered(lab).start()
    check_datagrams(net, family)
    check_tcp(net, family)
    told = net.head.ask("trace", "10.1.0.2", SERVER["ip4"])
    assert told["policy"] == "to-0" and len(told["segments"]) == 4 and told["verdict"] == "link"
    names = [hop["node"] and hop["node"]["name"] for hop in told["hops"]]
    assert names == ["n1", "n2", "n3", "n2", "n4", None], told["hops"]
    assert told["hops"][-1]["address"] == SERVER["ip4"]
    # and a session both ways, back by the plain route
    session = TcpSession(net.client, net.server, SERVER[family])
    for _ in range(5):
        session.exchange()


def test_the_next_candidate_while_a_waypoint_is_away(lab):
    net = Steered(lab, [{"via": ["n2"], "exit": "n4"}, {"via": ["n3"], "exit": "n4"}]).start()
    net.wait_state("active", 0)
    net.mesh.nodes[1].kill()
    net.wait_state("active", 1)
    assert net.send("ip4") == (COUNT, "inorder")
    net.mesh.nodes[1].start()
    net.wait_state("active", 0, 20)
    assert net.send("ip6") == (COUNT, "inorder")


def test_what_comes_of_packets_without_a_candidate(lab):
    net = Steered(lab, [{"via": ["n2"], "exit": "n4"}]).start()
    host = net.mesh.spaces[0]
    # a way out beside the mesh, and who takes it
    host.route("default", f"via {net.mesh.outer(3)}")
    host.sh("""nft add table ip watch
nft add chain ip watch out '{ type filter hook postrouting priority 0; }'
nft add rule ip watch out oifname != weft0 ip daddr 198.51.100.9 counter""")
    net.mesh.nodes[1].kill()
    net.wait_state("fallback")
    assert net.send("ip4", 50)[0] == 0
    assert "counter packets 0 " in host.sh("nft list table ip watch").stdout
    assert net.policy()[0]["dropped"] == 50
    assert net.head.drops()["policy-fallback"] == 50
    # direct: as if there were none, by the host's own way
    net.steer([{"via": ["n2"], "exit": "n4"}], fallback="direct")
    wait_until(lambda: "lookup 251" not in net.mesh.spaces[0].ip("rule"), 5, "the rule to go")
    assert net.send("ip4", 50)[0] == 0
    assert "counter packets 50 " in host.sh("nft list table ip watch").stdout
    assert net.policy()[0]["dropped"] == 50


def test_an_exit_that_dies(lab):
    """The next one is taken (within 3 s: test/sim); without one nothing leaves beside the mesh."""
    net = Steered(lab, [{"exit": "n4"}, {"exit": "n3"}]).start()
    head, server = net.mesh.spaces[0], SERVER["ip4"]
    head.route("default", f"via {net.mesh.outer(2)}")
    head.ip(f"-6 route add default via {net.mesh.outer(2, 'ip6')}")
    # what a packet beside the mesh would look like, also in fragments or in another header
    wire = head.start("tcpdump", "-l", "-n", "-i", "eth0", "-x", f"host {server} or host "
                      f"{SERVER['ip6']} or ip proto 4 or ip proto 41 or proto gre", name="tcpdump")
    wire.wait_log("listening on")
    pings = [net.client.start("ping", *options, "-n", "-i", "0.02", address, name=f"ping{i}")
             for i, (options, address) in enumerate(((("-4",), server), (("-6",), SERVER["ip6"])))]
    net.mesh.nodes[3].kill()
    net.wait_state("active", 1)
    net.mesh.nodes[2].kill()
    net.wait_state("fallback")
    dropped = net.head.drops()["policy-fallback"]
    wait_until(lambda: net.head.drops()["policy-fallback"] > dropped + 20, 10, "more to be dropped")
    # a reload and the end of the daemon's links are no holes either
    net.steer([{"exit": "n4"}])
    net.mesh.nodes[1].kill()
    dropped = net.head.drops()["policy-fallback"]
    wait_until(lambda: net.head.drops()["policy-fallback"] > dropped + 20, 10, "more to be dropped")
    # nor is that of the daemon itself
    net.head.kill()
    time.sleep(1.0)  # some fifty pings of each family
    assert " > " not in wire.log(), wire.log()
    net.head.start()
    time.sleep(0.5)
    assert " > " not in wire.log(), wire.log()
    # the wire is seen: without the policy they are on it
    net.steer(())
    wire.wait_log(" > ", 5)
    for process in pings:
        process.stop()


def test_the_source_of_what_is_steered_answers(lab):
    """Beside the TUN's addresses, or a SID: errors come there, and pings."""
    net = Steered(lab)
    net.mesh.reconfigure(1, registry=net.remarks, babel=DIRECT, srv6={"source": "fd00:5:1::100"})
    net.mesh.reconfigure(2, registry=net.remarks, babel=DIRECT, srv6={"source": "fd00:5:2::1"})
    before = net.mesh.spaces[0].snapshot()
    net.mesh.start()
    net.mesh.wait_up()
    for i, source in ((1, "fd00:5:1::100"), (2, "fd00:5:2::1")):
        assert source in net.mesh.spaces[i - 1].ip("-6 addr show dev weft0")
    wait_ping(net.mesh.spaces[2], "fd00:5:1::100")
    net.head.stop()
    assert before.diff(net.mesh.spaces[0].snapshot()) == []


def test_an_exit_reaches_what_it_may(lab):
    net = Steered(lab, [{"exit": "n4"}], allow=False).start()
    assert net.send("ip4", 50)[0] == 0
    assert net.exit.drops()["exit-refused"] == 50
    net.mesh.reconfigure(4, registry=net.remarks, babel=DIRECT,
                         announce=["198.51.100.0/24"]).reload()
    assert net.send("ip4", 50)[0] == 50
    assert net.send("ip6", 50)[0] == 0


def test_a_reload_leaves_links_and_the_kernel_alone(lab):
    net = Steered(lab, candidates=())
    net.mesh.start()
    net.mesh.wait_up()
    wait_until(lambda: all(f"fd00:5:{i}::/64" in net.mesh.spaces[0].ip("-6 route show table 252")
                           for i in (2, 3, 4)), 10, "the kernel to have the locators' routes")
    before, pairs = net.mesh.spaces[0].snapshot(), net.mesh.pairs()
    net.steer([LONG_WAY])
    net.wait_state("active")
    assert net.send("ip4", 50)[0] == 50
    net.steer(())
    assert net.mesh.pairs() == pairs
    assert before.diff(net.mesh.spaces[0].snapshot()) == []
    assert net.policy() == []
    net.mesh.nodes[0].stop()


def test_the_longer_prefix_wins_between_policies_and_the_hosts_routes(lab):
    net = Steered(lab, [{"exit": "n4"}])
    host = net.mesh.spaces[0]
    before = host.snapshot()
    device = host.ip_json("route show 10.1.0.0/24")[0]["dev"]

    def leads(destination, source="10.1.0.2"):
        got = host.run("ip", "-j", "route", "get", destination, "from", source, "iif", device,
                       check=False).stdout
        return "weft0" if '"weft0"' in got else device if f'"{device}"' in got else None
    net.mesh.start()
    net.wait_state("active")
    # a route of the host that is as long as the policy's destination, and one that is shorter
    equal = {"198.51.100.0/24": "10.1.0.2", "198.51.0.0/16": "10.1.0.2",
             "2001:db8:4::/64": "2001:db8:1::2"}
    for prefix, gateway in equal.items():
        host.ip(f"route add {prefix} via {gateway}")
    for family in ("ip4", "ip6"):
        assert net.send(family, 20)[0] == 20
    # one that is longer is the host's own business
    host.ip("route add 198.51.100.128/25 via 10.1.0.2")
    assert leads("198.51.100.200") == device and leads("198.51.100.9") == "weft0"
    host.ip("route del 198.51.100.128/25")
    for prefix in equal:
        host.ip(f"route del {prefix}")
    # what covers the LAN leaves the LAN alone; what names a part of it does not
    net.steer([{"exit": "n4"}], prefixes=("10.0.0.0/8", "2001:db8::/32"))
    assert leads("10.1.0.7") == device and leads("10.7.0.1") == "weft0"
    net.steer([{"exit": "n4"}], prefixes=("10.1.0.128/25", "::/0"))
    assert leads("10.1.0.7") == device and leads("10.1.0.200") == "weft0"
    # none of it stays behind, wherever in order it stood
    net.head.kill()
    net.steer((), reload=False)
    net.head.start()
    net.head.stop()
    assert before.diff(host.snapshot()) == []


def test_no_sids_from_the_host(lab):
    """RFC 8754 5.1: a host does not send to SIDs."""
    net = Steered(lab).start()
    net.mesh.spaces[0].run("ping", "-6", "-c", 3, "-i", 0.2, "-W", 1, "fd00:5:3::2", check=False)
    assert net.head.drops()["srv6-from-tun"] == 3
    wait_ping(net.mesh.spaces[0], net.mesh.inner(3))
