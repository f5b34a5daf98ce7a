"""What another program takes away from the kernel's rules and routes comes back."""
import signal
import time

import pytest

from lab import Failed, Mesh, ping, wait_ping, wait_until

RESTORED = "another program took away"
# what flushing does, as `ip` and network managers do it
FLUSHES = {
    "rules": "ip rule flush; ip rule add priority 32766 lookup main\n"
             "ip rule add priority 32767 lookup default\n"
             "ip -6 rule flush; ip -6 rule add priority 32766 lookup main",
    "own rules": "ip rule flush protocol 157; ip -6 rule flush protocol 157",
    "routes": "ip route flush table 252; ip -6 route flush table 252",
    "addresses": "ip addr flush dev weft0",
    "interface": "ip link set weft0 down",
}
# the same keys, another's routes in their place; and the same rules, another's table
REPLACES = {
    "routes": "ip route replace unreachable {four} table 252\n"
              "ip -6 route replace unreachable {six} table 252 metric 1024",
    "kind": "ip route change blackhole {four} table 252 proto 157",
    "source": "ip route change {four} dev weft0 table 252 proto 157 mtu 700",
    "rules": "ip rule del priority 5201; ip rule add priority 5201 lookup 99",
}
MANY = """
import subprocess
subprocess.run(["ip", "-b", "-"], check=True, text=True, input="".join(
    f"route {verb} 172.16.{i >> 8}.{i & 255}/32 dev eth0 proto 99 table {table}\\n"
    for table in (99, 1000) for verb in ("add", "del") for i in range(2500)))
"""


@pytest.fixture
def mesh(lab):
    made = Mesh(lab, 2).start()
    made.wait_reach()
    return made


@pytest.mark.parametrize("what", FLUSHES)
def test_what_is_flushed_is_back_within_two_seconds(mesh, what):
    ns, node = mesh.spaces[0], mesh.nodes[0]
    before = ns.snapshot()
    ns.sh(FLUSHES[what])
    wait_until(lambda: node.process.log().count(RESTORED) == 1, 2.0, "the loss to be told")
    wait_until(lambda: not [line for line in before.diff(ns.snapshot())
                            if line.startswith("-route") or line.startswith("-rule")], 2.0,
               "all to be back")
    for family in ("ip4", "ip6"):
        wait_ping(ns, mesh.inner(2, family), timeout=2.0)
    node.stop()
    assert "weft0" not in repr(ns.snapshot())


@pytest.mark.parametrize("what", REPLACES)
def test_what_is_replaced_is_back_within_two_seconds(mesh, what):
    """By a program that puts its own there"""
    ns, node = mesh.spaces[0], mesh.nodes[0]
    before = ns.snapshot()
    ns.sh(REPLACES[what].format(four=mesh.inner(2), six=mesh.inner(2, "ip6")))
    wait_until(lambda: not [line for line in before.diff(ns.snapshot())
                            if line.startswith("-route") or line.startswith("-rule")], 2.0,
               "all to be back")
    wait_until(lambda: node.process.log().count(RESTORED) == 1, 2.0, "it to be told")
    for family in ("ip4", "ip6"):
        wait_ping(ns, mesh.inner(2, family), timeout=2.0)
    if what == "rules":  # the other's stays its own
        assert "lookup 99" in ns.ip("rule")
        ns.ip("rule del priority 5201 lookup 99")
    node.stop()
    assert mesh.inner(2) not in ns.ip("route show table 252", check=False)


def test_ipv6_that_is_switched_off_for_a_while(mesh):
    """No event tells that the kernel takes it again; until then status says what is wrong."""
    ns, node = mesh.spaces[0], mesh.nodes[0]
    before = ns.snapshot()

    def told():
        return [line for line in node.status()["warnings"] if "disable_ipv6" in line]
    ns.sysctl("net.ipv6.conf.weft0.disable_ipv6", 1)
    wait_until(told, 5.0, "status to say so")
    ns.sysctl("net.ipv6.conf.weft0.disable_ipv6", 0)
    wait_until(lambda: not told(), 10.0, "status to say it no more")
    wait_until(lambda: not [line for line in before.diff(ns.snapshot()) if "ff00::" not in line],
               5.0, "all to be back")
    wait_ping(ns, mesh.inner(2, "ip6"), timeout=5.0)
    assert node.process.log().count("disable_ipv6=1") == 1


def test_an_mtu_without_ipv6_is_put_right(mesh):
    ns, node = mesh.spaces[0], mesh.nodes[0]
    before = ns.snapshot()
    ns.ip("link set weft0 mtu 500")
    wait_until(lambda: node.process.log().count(RESTORED) == 1, 5.0, "the loss to be told")
    wait_until(lambda: before.diff(ns.snapshot()) == [], 5.0, "all to be back")
    wait_ping(ns, mesh.inner(2, "ip6"), timeout=5.0)
    assert "the kernel has no IPv6" not in node.process.log()


def test_routes_taken_away_again_and_again(mesh):
    ns, node = mesh.spaces[0], mesh.nodes[0]
    begin = time.monotonic()
    for _ in range(30):
        ns.ip("route flush table 252", check=False)
        time.sleep(0.1)
    spent = time.monotonic() - begin
    wait_until(lambda: ns.ip("route show table 252", check=False), 2.0, "the routes to be back")
    # a line at once, then one each ten seconds for all of them
    assert 1 <= node.process.log().count(RESTORED) <= 1 + spent / 10
    wait_ping(ns, mesh.inner(2), timeout=2.0)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_ten_thousand_routes_of_others_cost_nothing(mesh):
    ns, node = mesh.spaces[0], mesh.nodes[0]
    before = cpu_seconds(node.process.pid)
    ns.run("python3", "-c", MANY)
    assert cpu_seconds(node.process.pid) - before < 0.5
    assert RESTORED not in node.process.log()
    wait_ping(ns, mesh.inner(2), timeout=2.0)


def ping_fails(ns, address):
    try:
        ping(ns, address, count=1, timeout=0.3)
    except Failed:
        return True
    return False


FOREIGN = """
import subprocess
subprocess.run(["ip", "-b", "-"], check=True, text=True, input="".join(
    f"route add 172.{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}/32 dev eth0 proto 99 table {table}\\n"
    for table in (252, 1000) for i in range(50000)))
"""


def test_events_that_are_lost_are_made_up_for(mesh):
    """100,000 foreign routes, half of them in the mesh's table, while the daemon cannot
    read; its own routes and rules go, and its interface went down meanwhile."""
    ns, node = mesh.spaces[0], mesh.nodes[0]
    before = ns.snapshot()
    node.process.signal(signal.SIGSTOP)
    try:
        ns.run("python3", "-c", FOREIGN)
        ns.sh("ip rule flush protocol 157; ip route flush table 252 proto 157\n"
              "ip link set eth0 down; ip link set eth0 up")
    finally:
        node.process.signal(signal.SIGCONT)
    wait_until(lambda: mesh.inner(2) in ns.ip("route show table 252 proto 157")
               and "lookup 252" in ns.ip("rule"), 2.0, "all to be back")
    wait_ping(ns, mesh.inner(2), timeout=5.0)
    spent = cpu_seconds(node.process.pid)
    time.sleep(2.0)  # the point: what it costs when nothing happens
    assert cpu_seconds(node.process.pid) - spent < 0.1
    ns.sh("ip route flush table 1000; ip route flush table 252 proto 99")
    wait_until(lambda: not [line for line in before.diff(ns.snapshot())
                            if line.startswith("-") and "157" in line], 5.0, "nothing to lack")
    wait_ping(ns, mesh.inner(2), timeout=2.0)
    assert node.process.log().count(RESTORED) == 1


def test_the_underlay_goes_down_and_comes_back(mesh):
    """The interface alone: the same links and keys carry on as soon as it is up."""
    ns, node = mesh.spaces[0], mesh.nodes[0]
    keys = [link["ike"]["spi_i"] for link in node.links("up")]
    ns.up("eth0", False)
    assert ping_fails(ns, mesh.inner(2))
    ns.up("eth0")
    wait_ping(ns, mesh.inner(2), timeout=5.0)
    assert [link["ike"]["spi_i"] for link in node.links("up")] == keys
