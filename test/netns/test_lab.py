"""The lab itself: what the other scenarios stand on."""
import json
import subprocess

import pytest

from lab import Failed, Iperf, Lab, Ping, TcpSession, ping, ranet_dn, registry_node, tcp_transfer


@pytest.fixture
def pair(lab):
    """Two namespaces on one wire, with addresses of both families."""
    a, b = lab.ns("a"), lab.ns("b")
    lab.veth(a, b, "10.1.0.1/24 fd01::1/64", "10.1.0.2/24 fd01::2/64")
    return a, b


@pytest.mark.parametrize("address", ["10.1.0.2", "fd01::2"])
def test_two_namespaces_reach_each_other(pair, address):
    a, b = pair
    with Ping(a, address) as running:
        running.wait_received(20)
    assert running.result.lost == 0
    assert running.result.gaps == []
    assert running.result.received >= 20
    assert tcp_transfer(a, b, address, size=1_000_000) > 0


@pytest.mark.parametrize("address", ["10.1.0.2", "fd01::2"])
def test_a_wire_is_ready_at_once(pair, address):
    assert ping(pair[0], address, count=1) < 100


def test_ping_sees_what_is_missing(pair):
    a, b = pair
    with Ping(a, "10.1.0.2") as running:
        running.wait_received(10)
        b.ip("addr del 10.1.0.2/24 dev eth0")
        a.run("ping", "-c", 10, "-i", 0.02, "-W", 0.05, "10.1.0.2", check=False)
        b.ip("addr add 10.1.0.2/24 dev eth0")
        running.wait_received(10)
    assert running.result.lost >= 10
    assert len(running.result.gaps) == 1
    assert running.result.longest_silence_s > 0.15


def test_a_session_stays_one_connection(pair):
    a, b = pair
    session = TcpSession(a, b, "fd01::2")
    session.exchange()
    b.up("eth0", up=False)
    with pytest.raises(Failed):
        session.exchange(timeout=0.3)
    b.up("eth0")


def test_iperf_measures_both_ways(pair):
    a, b = pair
    iperf = Iperf(a, b, "10.1.0.2")
    assert iperf.run(seconds=1)["bits_per_second"] > 1e6
    assert iperf.run(seconds=1, reverse=True)["bits_per_second"] > 1e6


def test_a_switch_joins_three(lab):
    nodes = [lab.ns(name) for name in "abc"]
    lab.lan({ns: f"10.2.0.{i}/24" for i, ns in enumerate(nodes, 1)})
    ping(nodes[0], "10.2.0.2")
    ping(nodes[2], "10.2.0.2")


def test_a_router_forwards(lab):
    a, router, b = lab.ns("a"), lab.ns("r", forward=True), lab.ns("b")
    lab.veth(a, router, "10.3.0.2/24", "10.3.0.1/24")
    lab.veth(b, router, "10.4.0.2/24", "10.4.0.1/24")
    a.route("default", "via 10.3.0.1")
    b.route("default", "via 10.4.0.1")
    ping(a, "10.4.0.2")


def test_a_nat_router_hides_addresses_and_forgets(lab):
    a, router, b = lab.ns("a"), lab.ns("r", forward=True), lab.ns("b")
    lab.veth(a, router, "10.3.0.2/24", "10.3.0.1/24")
    outside, _ = lab.veth(router, b, "10.4.0.1/24", "10.4.0.2/24")
    a.route("default", "via 10.3.0.1")
    router.masquerade(outside)
    # b has no route to a: only the router's address can be answered
    ping(a, "10.4.0.2")
    session = TcpSession(a, b, "10.4.0.2")
    session.exchange()
    router.forget_nat()
    with pytest.raises(Failed):
        session.exchange(timeout=1.0)
    ping(a, "10.4.0.2")


@pytest.mark.parametrize("change, undo", [
    ("ip rule add from 10.9.0.0/16 lookup 77", "ip rule del from 10.9.0.0/16 lookup 77"),
    ("ip -6 rule add to fd09::/16 lookup 77", "ip -6 rule del to fd09::/16 lookup 77"),
    ("ip route add 10.9.0.0/16 dev eth0 table 77", "ip route del 10.9.0.0/16 table 77"),
    ("ip -6 route add fd09::/16 dev eth0", "ip -6 route del fd09::/16 dev eth0"),
    ("ip addr add 10.9.0.1/32 dev lo", "ip addr del 10.9.0.1/32 dev lo"),
    ("nft add table inet weft", "nft delete table inet weft"),
])
def test_snapshot_notices_a_change_and_its_end(pair, change, undo):
    a, _ = pair
    before = a.snapshot()
    assert before == a.snapshot()
    a.sh(change)
    assert before != a.snapshot()
    assert before.diff(a.snapshot())
    a.sh(undo)
    assert before.diff(a.snapshot()) == []
    assert before == a.snapshot()


def test_nothing_is_left_behind():
    with pytest.raises(ZeroDivisionError):
        with Lab() as lab:
            a, b = lab.ns("a"), lab.ns("b")
            lab.emulated_link(a, b, "10.1.0.1/24", "10.1.0.2/24")
            lab.veth(a, b)
            stubborn = a.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 9; done")
            stubborn.wait_log("ready")
            1 / 0
    names = subprocess.run(["ip", "-j", "netns"], capture_output=True, check=True).stdout
    assert not [ns for ns in json.loads(names or "[]") if ns["name"].startswith(lab.prefix)]
    assert not stubborn.running
    assert not lab.dir.exists()


def test_a_command_that_fails_says_why(lab):
    with pytest.raises(Failed, match="No such file"):
        lab.ns("a").run("cat", "/nonexistent")


def test_ranet_identity():
    assert ranet_dn("acme organization", "some server", "0") == (
        "303e311a3018060355040a0c1161636d65206f7267616e697a6174696f6e3114301206035504030c0b736f6d"
        "6520736572766572310a30080603550405130130")


def test_registry_node_is_what_ranet_reads():
    node = registry_node("n1", (0, "192.0.2.1", 13000), (1, "2001:db8::1", 13001), srv6="fd05::/64")
    assert node == {
        "common_name": "n1", "remarks": {"weft": {"srv6": "fd05::/64"}},
        "endpoints": [
            {"serial_number": "0", "address_family": "ip4", "address": "192.0.2.1", "port": 13000},
            {"serial_number": "1", "address_family": "ip6", "address": "2001:db8::1",
             "port": 13001}]}
