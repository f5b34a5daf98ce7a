"""Nodes become a mesh: started at once, over either family, by way of others."""
import copy
import json
import re
import sys
import time

import pytest

from lab import Mesh, build_folder, ping, tcp_transfer, wait_ping, wait_until
from lab.core import run

COLD_START_S = 5.0
BYTES = 20_000_000
OFFLOADS = ("tun_gso", "udp_gso", "udp_gro")
# prints the traffic class with which each datagram came
ECN_SINK = """
import socket, sys
six = ":" in sys.argv[1]
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
if six:
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
else:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
sock.bind((sys.argv[1], 7100))
print("ready", flush=True)
while True:
    data, control, _, _ = sock.recvmsg(64, 64)
    print("got", data.decode(), control[0][2][0], flush=True)
"""
ECN_SOURCE = """
import socket, sys
six = ":" in sys.argv[1]
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
level = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if six else (socket.IPPROTO_IP, socket.IP_TOS)
for tos in range(4):
    sock.setsockopt(*level, tos)
    sock.sendto(str(tos).encode(), (sys.argv[1], 7100))
"""


@pytest.mark.parametrize("n, underlay", [
    (2, "ip4"), (2, "ip6"), (2, "ip4 ip6"), (3, "ip4 ip6"), (10, "ip4")])
def test_cold_start(lab, n, underlay):
    mesh = Mesh(lab, n, underlay)
    begin = time.monotonic()
    mesh.start()
    mesh.wait_one_pair(COLD_START_S - (time.monotonic() - begin))
    mesh.wait_reach()
    # and it stays so: nobody has a second pair on the way
    mesh.wait_one_pair(0.5)
    for family in ("ip4", "ip6"):
        tcp_transfer(mesh.spaces[0], mesh.spaces[-1], mesh.inner(n, family), size=1_000_000)
    for node in mesh.nodes:
        status = node.status()
        assert status["counts"]["links_up"] == status["counts"]["links"] == mesh.links_each()
        for link in status["links"]:
            assert link["ike"]["key_exchanges"] == ["X25519", "ML-KEM-768"]


def both_ways(mesh, size=BYTES):
    """TCP of both families in both directions arrives unchanged."""
    one, two = mesh.spaces
    for family in ("ip4", "ip6"):
        tcp_transfer(one, two, mesh.inner(2, family), size=size)
        tcp_transfer(two, one, mesh.inner(1, family), size=size)


@pytest.mark.parametrize("off", [(), *((name,) for name in OFFLOADS), OFFLOADS],
                         ids=lambda off: "+".join(off) or "none")
def test_large_transfers_whatever_is_offloaded(lab, off):
    mesh = Mesh(lab, 2, config={"plane": {"offload": {name: "off" for name in off}}}).start()
    mesh.wait_up()
    both_ways(mesh)


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_the_portable_back_end(lab, underlay):
    mesh = Mesh(lab, 2, underlay)
    for node in mesh.nodes:
        node.start(wait=None, env={"WEFT_OS": "portable"})
    for node in mesh.nodes:
        node.wait_answer()
    mesh.wait_one_pair()
    mesh.wait_reach()
    both_ways(mesh, 5_000_000)


def test_both_back_ends_meet(lab):
    mesh = Mesh(lab, 2)
    mesh.nodes[0].start(wait=None, env={"WEFT_OS": "portable"})
    mesh.nodes[1].start()
    mesh.nodes[0].wait_answer()
    mesh.wait_up()
    both_ways(mesh, 5_000_000)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def chain(lab, request):
    """n1 and n3 have no link with each other: n2 is between them. n2's TUN takes 1300 bytes. With
    two threads its links are one's each, and what passes through is handed over."""
    mesh = Mesh(lab, 3, config={"plane": {"threads": request.param}})
    through = {family: bits for family, bits in (("ip4", 32), ("ip6", 128))}
    for end, other in ((1, 3), (3, 1)):
        mesh.reconfigure(end, peers={"exclude": [f"n{other}"]}, static_routes=[
            {"prefix": f"{mesh.inner(j, family)}/{bits}", "node": "n2"}
            for j in (2, other) for family, bits in through.items()])
    mesh.reconfigure(2, tun=dict(mesh.config(2)["tun"], mtu=1300))
    mesh.start()
    for node, links in zip(mesh.nodes, (1, 2, 1)):
        node.wait_up(links)
    wait_ping(mesh.spaces[0], mesh.inner(3))
    return mesh


@pytest.mark.parametrize("family", ["ip4", "ip6"])
def test_transit_without_the_kernel(chain, family):
    one, two, three = chain.spaces
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        assert two.run("sysctl", "-n", key).stdout.strip() == "0"
    far = chain.inner(3, family)
    said = one.run("ping", "-n", "-c", 1, far).stdout
    assert re.search(r"ttl=63 ", said), said
    tcp_transfer(one, three, far)
    tcp_transfer(three, one, chain.inner(1, family))


@pytest.mark.parametrize("family", ["ip4", "ip6"])
def test_a_hop_tells_of_a_spent_hop_limit(chain, family):
    one = chain.spaces[0]
    done = one.run("ping", "-n", "-c", 1, "-t", 1, "-W", 2, chain.inner(3, family), check=False)
    assert re.search(rf"From {chain.inner(2, family)}.*(Time to live exceeded|Hop limit)",
                     done.stdout), done.stdout


@pytest.mark.parametrize("family, says", [
    ("ip4", r"From 10\.66\.0\.2 .*Frag needed and DF set \(mtu = 1300\)"),
    ("ip6", r"From fd66::2 .*Packet too big: mtu=1300")])
def test_a_hop_tells_of_a_narrower_link(chain, family, says):
    """What must not be fragmented is refused with the size that would pass."""
    one, far = chain.spaces[0], chain.inner(3, family)
    done = one.run("ping", "-n", "-M", "do", "-c", 1, "-W", 2, "-s", 1340, far, check=False)
    assert re.search(says, done.stdout), done.stdout
    # the kernel heeds it
    assert wait_ping(one, far, size=1340)


def test_what_may_be_fragmented_passes_a_narrower_link(chain):
    ping(chain.spaces[0], chain.inner(3), size=1340, options=("-M", "dont"))


def marks(mesh, family):
    """{traffic class sent from n1: as which it came to n2}"""
    one, two = mesh.spaces
    address = mesh.inner(2, family)
    sink = two.start(sys.executable, "-c", ECN_SINK, address, name=f"ecn-{family}")
    sink.wait_log("^ready$")
    one.run(sys.executable, "-c", ECN_SOURCE, address)
    wait_until(lambda: sink.log().count("got") == 4, 5.0, "all four datagrams")
    sink.stop()
    return {int(sent): int(got) for sent, got in re.findall(r"got (\d) (\d+)", sink.log())}


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_congestion_on_the_path_reaches_the_inner_packet(lab, underlay):
    """RFC 6040: the outer header says what the inner says, and CE comes back in."""
    mesh = Mesh(lab, 2, underlay, link={"ce": 0}).start()
    mesh.wait_reach()
    for family in ("ip4", "ip6"):
        assert marks(mesh, family) == {0: 0, 1: 1, 2: 2, 3: 3}
    mesh.wire.set("ab", ce=1)
    for family in ("ip4", "ip6"):
        assert marks(mesh, family) == {0: 0, 1: 3, 2: 3, 3: 3}


# ranet's files name no control socket: the usual one, in a /run of its own
OWN_RUN = 'mount -t tmpfs none /run; mkdir /run/weft; exec "$@"'


def test_ranets_three_files(lab):
    """Unchanged: they make the same links, and leave out a node of our name wherever it is."""
    mesh = Mesh(lab, 3)
    files = {name: lab.dir / f"ranet-{name}" for name in ("config", "registry")}
    entries = mesh.registry()
    namesake = copy.deepcopy(entries[0]["nodes"][0])
    namesake["endpoints"][0]["address"] = "10.0.0.99"
    entries[2]["nodes"].append(namesake)
    files["registry"].write_text(json.dumps(entries))
    files["config"].write_text(json.dumps({
        "organization": "org1", "common_name": "n1", "endpoints": [
            {"serial_number": "0", "address_family": "ip4", "address": None, "port": 13000},
            {"serial_number": "1", "address_family": "ip6", "port": 13000}]}))
    daemon = mesh.spaces[0].start(
        "unshare", "--mount", "sh", "-ec", OWN_RUN, "sh", build_folder() / "weftd",
        "--ranet-config", files["config"], "--ranet-registry", files["registry"],
        "--ranet-key", mesh.keys[0].path, name="ranet")
    for node in mesh.nodes[1:]:
        node.start()
    for node in mesh.nodes[1:]:
        node.wait_up(2)
    done = run(["nsenter", "-t", daemon.pid, "-m", "-n", build_folder() / "weft", "--json",
                "links"])
    assert {(link["peer"]["organization"], link["peer"]["name"], link["state"])
            for link in json.loads(done.stdout)["links"]} == {
                ("org2", "n2", "up"), ("org3", "n3", "up")}
