"""The path MTU of a link where nobody tells it: a wire that drops what is too large, in silence."""
import threading
import time

import pytest
from test_mtu import OVERHEAD, SIZE, VIA, full_speed, udp_arrives
from test_steer import SERVER, Steered

from lab import Mesh, ping, tcp_transfer, wait_until

HEADERS = {"ip4": 28, "ip6": 48}


def inner(path, family="ip4"):
    """The largest packet inside: ESP with AES-GCM takes 32 bytes, padding to 4 with 2 among it."""
    return min((path - HEADERS[family] - 32) // 4 * 4 - 2, 1400)


def at_full_speed(*which):
    """As full_speed(); once more, where a busy machine made a timer run."""
    try:
        full_speed(*which)
    except AssertionError:
        full_speed(*which)


def wait_mtu(mesh, fits, timeout=10.0):
    wait_until(lambda: [n.links("up")[0]["mtu"] for n in mesh.nodes] == [fits] * len(mesh.nodes),
               timeout, f"both ends of the link to know that {fits} bytes fit")


@pytest.mark.parametrize("underlay", ["ip4", "ip6"])
def test_a_silent_narrow_wire_is_used_at_full_size(lab, underlay):
    """Batches go on at the new size, inner senders are told."""
    fits = inner(1380, underlay)
    mesh = Mesh(lab, 2, underlay, link={"mtu": 1380}).start()
    mesh.wait_reach()
    wait_mtu(mesh, fits)
    one, two = mesh.spaces
    for family in ("ip4", "ip6"):
        at_full_speed(mesh, one, two, mesh.inner(2, family), fits)
        at_full_speed(mesh, two, one, mesh.inner(1, family), fits)
        header = 28 if family == "ip4" else 48
        ping(one, mesh.inner(2, family), size=fits - header, options=("-M", "do"))
    wire = mesh.wire.show()
    assert wire["ab"]["too_big"] < 200 and wire["ba"]["too_big"] < 200  # the probes alone
    assert all(node.drops()["tx-error"] == 0 for node in mesh.nodes)


def test_a_wire_that_narrows_under_a_transfer(lab):
    """The transfer goes on within seconds, at the size that fits now."""
    mesh = Mesh(lab, 2, link={"mtu": 1500, "rate_mbit": 40, "queue_bytes": 200000}).start()
    mesh.wait_reach()
    wait_mtu(mesh, 1400)
    one, two = mesh.spaces
    failed = []

    def transfer():
        try:
            tcp_transfer(one, two, mesh.inner(2), size=25_000_000)
        except Exception as why:  # told by the test's own thread
            failed.append(why)
    thread = threading.Thread(target=transfer)
    thread.start()
    wait_until(lambda: mesh.wire.show()["ab"]["bytes_out"] > 5_000_000, 10, "the transfer to run")
    mesh.wire.set(mtu=1400)
    begun = time.monotonic()
    wait_until(lambda: mesh.nodes[0].links("up")[0]["mtu"] == inner(1400), 15, "the sender to know")
    assert time.monotonic() - begun < 8  # five, and a machine that is busy
    thread.join(60)
    assert not thread.is_alive() and not failed, failed
    assert all(len(node.links("up")) == 1 for node in mesh.nodes)


def test_three_segments_over_a_silent_narrow_wire(lab):
    """Only the wire from n2 to n3 is narrow, and nobody says so."""
    net = Steered(lab, [VIA])
    two, three = net.mesh.spaces[1:3]
    lab.emulated_link(two, three, "10.9.0.2/24", "10.9.0.3/24", mtu=1450)
    two.ip("route add 10.0.0.3/32 via 10.9.0.3")
    three.ip("route add 10.0.0.2/32 via 10.9.0.2")
    net.start()

    def to_n3():
        link, = (x for x in net.mesh.nodes[1].links("up") if x["peer"]["name"] == "n3")
        return link["mtu"]
    wait_until(lambda: to_n3() == inner(1450), 20, "n2 to know that n3's link is narrow")
    fits = inner(1450) - OVERHEAD
    for family in SERVER:
        tcp_transfer(net.client, net.server, SERVER[family], size=SIZE)  # finds the size
        at_full_speed(net, net.client, net.server, SERVER[family], fits)
    udp_arrives(net, "ip4", 4000)
    udp_arrives(net, "ip6", 4000)
