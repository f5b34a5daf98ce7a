"""New keys while the tunnel is full: every packet that was sealed is opened, once and in order."""
import re
import time

import pytest
from test_dataplane import checksum_errors

from lab import Iperf, Mesh, wait_until

LOAD_S, REKEYS, PAUSE_S = 6, 12, 0.3
# each stream has a window that the queues on its way have room for: what is lost was lost by weft
WINDOW = "4096 65536 262144"
PLANES = {"one-thread": {}, "a-helper": {"helpers": 1}, "two-threads": {"threads": 2}}
EXPLAINED = {"multicast", "link-local", "punt-unexpected"}


def counted(node, names):
    said = node.ns.run("nstat", "-asz").stdout
    return {name: int(re.search(rf"^{name}\s+(\d+)", said, re.MULTILINE)[1]) for name in names}


def traffic(node, way):
    link, = node.links()
    return link[way]["packets"]


def missing(mesh):
    """(sealed there and not opened here, the other way round), when nothing is on its way."""
    one, two = mesh.nodes
    while True:
        sent = [traffic(node, "tx") for node in mesh.nodes]
        got = [traffic(two, "rx"), traffic(one, "rx")]
        if sent == [traffic(node, "tx") for node in mesh.nodes]:
            return [a - b for a, b in zip(sent, got)]


def rekeyed(mesh, turn, seen):
    """One end asks for new keys, each third time both do; waits until the first end has them."""
    def keys():
        link, = mesh.nodes[0].links()
        return ({("ike", link["ike"]["spi_i"], link["ike"]["spi_r"])} if link["ike"] else set()) | {
            ("child", child["spi_in"]) for child in link["children"]}
    before = keys()
    for node in mesh.nodes if turn % 3 == 2 else [mesh.nodes[turn % 2]]:
        node.tool("rekey", "n1" if node is mesh.nodes[1] else "n2")
    wait_until(lambda: not before & keys(), 20.0, "an IKE SA and a child in place of those before")
    seen |= before | keys()


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES.keys())
def test_keys_change_under_full_load_and_nothing_is_lost(lab, plane):
    """What one end sealed is what the other opened, over all SPIs: as neither end can open more of
    an SPI than was sealed, none has lost any. No packet was late for its window, came twice, or
    was of an SPI that is gone; and TCP saw all in order."""
    mesh = Mesh(lab, 2, config={"plane": {**plane, "aqm": "off"}})
    for ns in mesh.spaces:
        for which in ("wmem", "rmem"):
            ns.sysctl(f"net.ipv4.tcp_{which}", WINDOW)
    mesh.start()
    mesh.wait_reach()
    one, two = mesh.spaces
    drops = [node.drops() for node in mesh.nodes]
    wait_until(lambda: missing(mesh) == missing(mesh), 5.0, "the counters to stand")
    lost = missing(mesh)
    Iperf(one, two, mesh.inner(2))
    begun, before = time.monotonic(), [traffic(node, "tx") for node in mesh.nodes]
    load = one.start("iperf3", "-c", mesh.inner(2), "-P", 2, "--bidir", "-t", 60, name="load")
    wait_until(lambda: traffic(mesh.nodes[0], "tx") - before[0] > 50_000, 20.0, "a full tunnel")
    # from here on: a flow's beginning may come through another of the TUN's queues than the rest
    order = [counted(node, ["TcpExtTCPOFOQueue"]) for node in mesh.nodes]
    seen, turn = set(), 0
    while turn < REKEYS or time.monotonic() < begun + LOAD_S:
        rekeyed(mesh, turn, seen)
        turn += 1
        time.sleep(PAUSE_S)
        assert load.running, load.log()
    full = [traffic(node, "tx") - old for node, old in zip(mesh.nodes, before)]
    load.stop()
    wait_until(lambda: missing(mesh) == lost, 10.0, "all that was sealed to be opened")
    print(f"\n{turn} turns, {len(seen)} keys, {full} packets in {time.monotonic() - begun:.1f} s")
    assert len(seen) >= 2 * turn and min(full) > 10_000
    for node, old, was in zip(mesh.nodes, drops, order):
        now = {reason: count - old[reason] for reason, count in node.drops().items()}
        assert {reason for reason, count in now.items() if count} <= EXPLAINED, now
        late = counted(node, was)["TcpExtTCPOFOQueue"] - was["TcpExtTCPOFOQueue"]
        assert late == 0
        assert not any(checksum_errors(node.ns).values())
