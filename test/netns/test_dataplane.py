"""What bursts, merges and narrow paths do to packets: nothing."""
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import Mesh, Ping, ping, registry, registry_node, tcp_transfer, wait_until

OFFLOADS = ("tun_gso", "udp_gso", "udp_gro")
SWITCHES = ("udp_gso", "udp_gro", "tun_tso", "tun_uso", "merge_tcp", "merge_udp")
BURST = """
import json, socket, sys
verb, address = sys.argv[1:]
six = ":" in address
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
SIZE, EACH, SHORT, BURSTS = (1352 if six else 1372), 32, 77, 20

def datagram(number, size):
    return (b"%08d" % number + bytes(i * number & 255 for i in range(size)))[:size]

def burst(number):
    return [datagram(number * EACH + i, SIZE if i < EACH - 1 else SHORT) for i in range(EACH)]

if verb == "receive":
    sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
    sock.bind((address, 7200))
    want = [one for number in range(BURSTS) for one in burst(number)]
    sock.settimeout(10)
    print("ready", flush=True)
    got = []
    try:
        while len(got) < len(want):
            got.append(sock.recv(65536))
            sock.settimeout(2)
    except TimeoutError:
        pass
    print(json.dumps({"got": len(got), "want": len(want), "damaged": len(set(got) - set(want)),
                      "in_order": got == want}), flush=True)
else:
    sock.connect((address, 7200))
    sock.setsockopt(socket.SOL_UDP, 103, SIZE)       # UDP_SEGMENT
    for number in range(BURSTS):
        sock.send(b"".join(burst(number)))
"""


def burst(sender, receiver, address):
    """Bursts of UDP from sender to receiver: {"got", "want", "damaged", "in_order"}"""
    sink = receiver.start(sys.executable, "-c", BURST, "receive", address, name="burst")
    sink.wait_log("^ready$")
    sender.run(sys.executable, "-c", BURST, "send", address)
    return json.loads(sink.wait_log(r"^\{.*\}$", 15.0)[0])


STREAM = """
import socket, sys, time
verb, address = sys.argv[1:]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SIZE, EACH, PAUSE = 1300, 24, 0.004

if verb == "receive":
    sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
    sock.bind((address, 7300))
    print("ready", flush=True)
    got, tell = 0, time.monotonic()
    while True:
        sock.recv(65536)
        got += 1
        if time.monotonic() > tell:
            print("got", got, flush=True)
            tell = time.monotonic() + 0.01
else:
    sock.connect((address, 7300))
    sock.setsockopt(socket.SOL_UDP, 103, SIZE)       # UDP_SEGMENT
    sent, tell = 0, time.monotonic()
    while True:
        sock.send(bytes(SIZE * EACH))
        sent += EACH
        if time.monotonic() > tell:
            print("sent", sent, flush=True)
            tell = time.monotonic() + 0.01
        time.sleep(PAUSE)
"""


class Stream:
    """Bursts of UDP without end, each one superpacket on its way into the tunnel."""

    def __init__(self, sender, receiver, address):
        self.receiver = receiver.start(sys.executable, "-c", STREAM, "receive", address)
        self.receiver.wait_log("^ready$")
        self.sender = sender.start(sys.executable, "-c", STREAM, "send", address)

    @staticmethod
    def _last(process):
        numbers = re.findall(r"^(?:got|sent) (\d+)$", process.log(), re.MULTILINE)
        return int(numbers[-1]) if numbers else 0

    def share(self, datagrams=4000):
        """Of that many datagrams and more, sent from now on, the share that came."""
        sent, got = self._last(self.sender), self._last(self.receiver)
        wait_until(lambda: self._last(self.sender) >= sent + datagrams, 30.0, "datagrams")
        return (self._last(self.receiver) - got) / (self._last(self.sender) - sent)

    def stop(self):
        self.sender.stop()
        self.receiver.stop()


def lose_superpackets(ns):
    """Of what the sender's kernel had as one send, nine of ten are lost before the tunnel's end;
    what was sent alone passes. The wire hands superpackets over whole."""
    ns.run("nft", "-f", "-", stdin=(
        "table inet broken { chain in { type filter hook prerouting priority -500;\n"
        "udp dport 13000 meta length > 1500 numgen random mod 10 < 9 counter drop\n}\n}\n"))


@pytest.mark.parametrize("how", ["command", "configuration"])
def test_damaged_superpackets_are_seen_and_switched_off(lab, how):
    """Nine of ten sends by UDP_SEGMENT are lost. The peer's loss says so, its
    hellos come; the switch mends it while the traffic runs, and no link notices."""
    mesh = Mesh(lab, 2, link="veth").start()
    mesh.wait_reach()
    one, two = mesh.spaces
    for ns in (one, two):  # what joined them is not what is looked at
        for dev in ns.ip_json("link show type veth"):
            ns.run("ethtool", "-K", dev["ifname"], "gro", "off")
    node, far = mesh.nodes
    stream = Stream(one, two, mesh.inner(2))
    assert stream.share() > 0.9
    lose_superpackets(two)
    before, = far.links()
    assert stream.share() < 0.5
    link, = far.links()
    assert link["lost"] - before["lost"] > 1000 and node.links()[0]["segmented"] > 1000
    spis = link["ike"]["spi_i"], link["children"][0]["spi_in"]
    if how == "command":
        said = node.tool("offload", "udp_gso", "off").stdout
        assert "until the next start or a reload" in said
    else:
        mesh.reconfigure(1, plane={"offload": {"udp_gso": "off"}}).reload()
    assert node.status()["offload"]["udp_gso"] == {"state": "off", "by_command": how == "command"}
    assert stream.share() > 0.9
    before, segmented = far.links()[0], node.links()[0]["segmented"]
    assert stream.share() > 0.9
    link, = far.links()
    assert link["lost"] - before["lost"] < 1000 and link["loss_hellos"] == 0
    assert node.links()[0]["segmented"] == segmented
    stream.stop()
    assert (link["ike"]["spi_i"], link["children"][0]["spi_in"]) == spis
    if how == "command":
        assert "udp_gso off by command" in node.tool("status").stdout
        node.reload()  # which finds nothing changed
        assert node.status()["offload"]["udp_gso"]["by_command"]
        mesh.reconfigure(1, plane={"offload": {"udp_gso": "on", "merge_udp": "off"}}).reload()
        mesh.reconfigure(1, plane={"offload": {"udp_gso": "off"}}).reload()
        state = node.status()["offload"]
        assert state["udp_gso"] == {"state": "off", "by_command": False}
        assert state["merge_udp"] == {"state": "on", "by_command": False}
        node.tool("offload", "udp_gso", "on")
        assert node.status()["offload"]["udp_gso"]["state"] == "on"
        node.tool("offload", "udp_gso", "auto")
        assert node.status()["offload"]["udp_gso"] == {"state": "off", "by_command": False}


def test_every_switch_moves_without_a_loss(lab):
    """Each offload off and on, by reload and by command, under numbered datagrams
    and a TCP transfer: nothing is lost, no key changes, sums hold."""
    mesh = Mesh(lab, 2).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    before = [node.links()[0]["ike"]["spi_i"] for node in mesh.nodes]
    with ThreadPoolExecutor() as pool:
        transfer = pool.submit(tcp_transfer, one, two, mesh.inner(2), 400_000_000)
        with Ping(one, mesh.inner(2)) as running:
            running.wait_received(10)
            for name in SWITCHES:
                for node in mesh.nodes:
                    node.tool("offload", name, "off")
                    assert node.status()["offload"][name]["state"] == "off"
                for i in (1, 2):
                    mesh.reconfigure(i, plane={"offload": {name: "off"}}).reload()
                    mesh.reconfigure(i).reload()
                for node in mesh.nodes:
                    wait_until(lambda: node.status()["offload"][name] == {
                        "state": "on", "by_command": False}, 5.0, f"{name} to be on")
            running.wait_received(10)
        transfer.result()
    assert running.result.lost == 0, running.result
    assert [node.links()[0]["ike"]["spi_i"] for node in mesh.nodes] == before
    for ns in mesh.spaces:
        assert not any(checksum_errors(ns).values())
    for node in mesh.nodes:
        drops = node.drops()
        assert drops["tun-error"] == drops["truncated"] == drops["tx-error"] == 0


def checksum_errors(ns):
    return {name: int(value) for name, value in re.findall(
        r"^(\S*InCsumErrors)\s+(\d+)", ns.run("nstat", "-asz").stdout, re.MULTILINE)}


PLANES = {"auto": {}, "two-threads": {"threads": 2}, "openssl": {"crypto": "openssl"},
          "one-helper": {"helpers": 1}, "two-threads-two-helpers": {"threads": 2, "helpers": 2},
          **{f"no-{name}": {"offload": {name: "off"}} for name in OFFLOADS}}


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES.keys())
def test_bursts_arrive_whole_and_sums_are_right(lab, plane):
    """Segments keep their size, the last one is short; all sums hold."""
    mesh = Mesh(lab, 2, config={"plane": plane}).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    for family in ("ip4", "ip6"):
        for sender, receiver, to in ((one, two, 2), (two, one, 1)):
            result = burst(sender, receiver, mesh.inner(to, family))
            assert result["got"] == result["want"] and result["damaged"] == 0, result
            assert result["in_order"]
    for node in mesh.nodes:
        tun = node.ns.ip_json(f"-s link show {node.status()['tun']['name']}")[0]
        assert tun["stats64"]["tx"]["dropped"] == 0
    for family in ("ip4", "ip6"):
        tcp_transfer(one, two, mesh.inner(2, family))
    for node in mesh.nodes:
        if plane.get("crypto") == "openssl":
            assert node.status()["crypto"].startswith("OpenSSL")
        errors = checksum_errors(node.ns)
        assert len(errors) >= 4 and not any(errors.values()), errors
        drops = node.drops()
        assert drops["unknown-spi"] < 10  # as an SA is made; each thread gets what is its
        assert drops["truncated"] == drops["not-authentic"] == drops["replay-duplicate"] == 0


def helpers_ran(node):
    """For how long each helper of a daemon did, in ns."""
    ran = {}
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("weft-helper"):
            ran[name] = int((task / "schedstat").read_text().split()[0])
    return ran


@pytest.mark.parametrize("helpers", [1, 2])
def test_helpers_keep_the_order_while_keys_change(lab, helpers):
    """One busy peer, whose packets helpers seal and open: SAs come and go meanwhile, and nothing is
    opened twice, or with the wrong key."""
    mesh = Mesh(lab, 2, config={"plane": {"helpers": helpers}}).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    for node in mesh.nodes:
        assert node.status()["helpers"] == helpers
        assert len(helpers_ran(node)) == helpers
    before = [sum(helpers_ran(node).values()) for node in mesh.nodes]
    with ThreadPoolExecutor() as pool:
        there = pool.submit(tcp_transfer, one, two, mesh.inner(2), 150_000_000)
        back = pool.submit(tcp_transfer, two, one, mesh.inner(1, "ip6"), 150_000_000, 7003)
        rekeys = 0
        while not (there.done() and back.done()):
            mesh.nodes[rekeys % 2].tool("rekey", f"n{2 - rekeys % 2}")
            rekeys += 1
        there.result()
        back.result()
    assert rekeys >= 2
    for node, slept in zip(mesh.nodes, before):
        assert sum(helpers_ran(node).values()) > slept  # one was called
        drops = node.drops()
        assert drops["not-authentic"] == drops["replay-duplicate"] == drops["replay-old"] == 0
        assert not any(checksum_errors(node.ns).values())


def narrow_in_the_middle(lab, family, middle=1400):
    """A mesh of two with two routers between them, whose link takes so many bytes."""
    mesh = Mesh(lab, 2)
    one, two = mesh.spaces
    near, far = lab.ns("near", forward=True), lab.ns("far", forward=True)
    for a, b, net, mtu in ((one, near, 1, 1500), (near, far, 2, middle), (far, two, 3, 1500)):
        lab.veth(a, b, f"10.{net}.0.1/24 fd0{net}::1/64", f"10.{net}.0.2/24 fd0{net}::2/64",
                 mtu=mtu)
    for ns, nets, gateway in ((one, (2, 3), "1{}2"), (near, (3,), "2{}2"), (far, (1,), "2{}1"),
                              (two, (1, 2), "3{}1")):
        for net in nets:
            ns.route(f"10.{net}.0.0/24", "via 10." + gateway.format(".0."))
            ns.route(f"fd0{net}::/64", "via fd0" + gateway.format("::"))
    addresses = ("10.1.0.1", "10.3.0.2") if family == "ip4" else ("fd01::1", "fd03::2")
    entries = registry(*((f"org{i}", mesh.keys[i - 1],
                          [registry_node(f"n{i}", ("0", address, 13000))])
                         for i, address in enumerate(addresses, 1)))
    for i in (1, 2):
        mesh.reconfigure(i, registry=entries, endpoints=[
            {"serial": "0", "family": family, "address": addresses[i - 1], "port": 13000}])
    return mesh


def reassembled(ns, underlay):
    name = "IpReasmOKs" if underlay == "ip4" else "Ip6ReasmOKs"
    counters = ns.run("nstat", "-asz").stdout
    return int(re.search(rf"^{name}\s+(\d+)", counters, re.MULTILINE)[1])


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_a_path_narrower_than_its_ends_carries_all(lab, underlay):
    """What is inside is made to fit, so that the outer packet stays whole; before
    the path's MTU is known it may be fragmented."""
    mesh = narrow_in_the_middle(lab, underlay).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    if underlay == "ip4":
        ping(one, mesh.inner(2), size=1372, count=1, options=("-M", "dont"))
    fits = 1400 - (28 if underlay == "ip4" else 48) - 34
    wait_until(lambda: all(fits - 4 < n.links()[0]["mtu"] <= fits for n in mesh.nodes), 15.0,
               "the path's MTU to be known")
    before = reassembled(two, underlay)
    for family, header in (("ip4", 28), ("ip6", 48)):
        ping(one, mesh.inner(2, family), size=fits - 3 - header, options=("-M", "do"))
        tcp_transfer(one, two, mesh.inner(2, family), size=2_000_000)
    assert reassembled(two, underlay) == before


def test_a_tun_wider_than_the_link_is_told(lab):
    """DF=1 is answered with what fits, DF=0 is fragmented; TCP finds its way."""
    mesh = Mesh(lab, 2)
    for i in (1, 2):
        mesh.reconfigure(i, tun=dict(mesh.config(i)["tun"], mtu=1500))
    mesh.start()
    mesh.wait_reach()
    one, two = mesh.spaces
    link, = mesh.nodes[0].links()
    fits = link["mtu"]
    assert 1400 < fits < 1500
    ping(one, mesh.inner(2), size=1472, options=("-M", "dont"))
    for family, header, says in (("ip4", 28, rf"Frag needed and DF set \(mtu = {fits}\)"),
                                 ("ip6", 48, rf"Packet too big: mtu={fits}")):
        far = mesh.inner(2, family)
        done = one.run("ping", "-n", "-M", "do", "-c", 2, "-i", 0.2, "-W", 1, "-s", 1500 - header,
                       far, check=False)
        assert done.returncode == 1 and re.search(says, done.stdout + done.stderr), done
        ping(one, far, size=fits - header, options=("-M", "do"))
        tcp_transfer(one, two, far, size=5_000_000)
        tcp_transfer(two, one, mesh.inner(1, family), size=5_000_000)


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_only_small_packets_pass_where_fragments_do_not(lab, underlay):
    """A path that drops fragments takes what needs none, and the link stays."""
    mesh = Mesh(lab, 2, underlay, mtu=1400).start()
    mesh.wait_reach()
    match = "ip frag-off & 0x3fff != 0" if underlay == "ip4" else "exthdr frag exists"
    for ns in mesh.spaces:
        ns.run("nft", "-f", "-", stdin=(
            "table inet path { chain in { type filter hook prerouting priority -500;\n"
            f"{match} counter drop\n}}\n}}\n"))
    ping(mesh.spaces[0], mesh.inner(2), size=1200, options=("-M", "do"))
    done = mesh.spaces[0].run("ping", "-n", "-c", 2, "-i", 0.2, "-W", 0.5, "-s", 1372, "-M", "do",
                              mesh.inner(2), check=False)
    assert done.returncode == 1
    wait_until(lambda: len(mesh.nodes[0].links("up")) == 1, 5.0, "the link to be up")
    ping(mesh.spaces[0], mesh.inner(2), size=1200)


@pytest.mark.parametrize("checksums", [True, False], ids=["udpcsum", "noudpcsum"])
def test_vxlan_through_the_tunnel(lab, checksums):
    """VXLAN inside, with UDP checksums and with none (0, valid in IPv4): TCP in it
    arrives as it was sent, and so it does without UDP merging."""
    mesh = Mesh(lab, 2).start()
    mesh.wait_reach()
    for i, ns in enumerate(mesh.spaces, 1):
        ns.ip(f"link add vx0 type vxlan id 7 dstport 4789 local {mesh.inner(i)} "
              f"remote {mesh.inner(3 - i)} {'udpcsum' if checksums else 'noudpcsum'}")
        ns.ip("link set vx0 mtu 1300 up")
        ns.addr(f"10.77.0.{i}/24", "vx0")
    one, two = mesh.spaces
    ping(one, "10.77.0.2")
    tcp_transfer(one, two, "10.77.0.2", 30_000_000)
    for node in mesh.nodes:
        node.tool("offload", "merge_udp", "off")
    tcp_transfer(two, one, "10.77.0.1", 10_000_000)
    for node in mesh.nodes:
        assert not any(checksum_errors(node.ns).values())
