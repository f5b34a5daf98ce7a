"""The emulated link does to frames what it was told, and nothing else."""
import re

import pytest

from lab import Failed, Ping, ping, tcp_transfer

# A busy machine adds to an RTT, it never takes away; ping() gives the lowest of several.
RTT_SLACK_MS = 15.0


@pytest.fixture
def ends(lab):
    return lab.ns("a"), lab.ns("b")


def link(lab, ends, **settings):
    return lab.emulated_link(*ends, "10.1.0.1/24 fd01::1/64", "10.1.0.2/24 fd01::2/64", **settings)


def flood(a, count=400, interval=0.002, options=()):
    """Sends pings at a high rate; returns (received, duplicates)."""
    done = a.run("ping", "-n", "-c", count, "-i", interval, "-W", 0.5, *options, "10.1.0.2",
                 check=False)
    lines = [line for line in done.stdout.splitlines() if "icmp_seq=" in line]
    order = [int(line.split("icmp_seq=")[1].split()[0]) for line in lines]
    return order, sum("DUP!" in line for line in lines)


@pytest.mark.parametrize("address", ["10.1.0.2", "fd01::2"])
def test_delay_is_added_each_way_and_changes_live(lab, ends, address):
    a, _ = ends
    wire = link(lab, ends, delay_ms=10)
    ping(a, address, count=1)
    assert 20 <= ping(a, address, count=10) < 20 + RTT_SLACK_MS
    wire.set(delay_ms=75)
    assert 150 <= ping(a, address, count=5) < 150 + RTT_SLACK_MS
    wire.set("ab", delay_ms=0)
    assert 75 <= ping(a, address, count=5) < 75 + RTT_SLACK_MS


def test_a_perfect_wire_adds_nothing(lab, ends):
    a, b = ends
    wire = link(lab, ends)
    ping(a, "10.1.0.2", count=1)
    assert ping(a, "10.1.0.2", count=20, interval=0.01) < RTT_SLACK_MS
    assert tcp_transfer(a, b, "10.1.0.2", size=5_000_000) > 10e6
    counters = wire.show()
    # the first frames meet a device that is not up yet
    assert counters["ab"]["in"] == counters["ab"]["out"] + counters["ab"]["refused"]
    assert counters["ab"]["lost"] == counters["ab"]["full"] == counters["ab"]["too_big"] == 0


def test_loss_is_as_much_as_told(lab, ends):
    a, _ = ends
    wire = link(lab, ends)
    ping(a, "10.1.0.2", count=1)
    wire.set("ab", loss=0.2)
    order, _ = flood(a)
    # 400 draws of 0.2: five standard deviations are 40
    assert 280 <= len(order) <= 360
    assert wire.show()["ab"]["lost"] > 0
    assert wire.show()["ba"]["lost"] == 0


def test_loss_repeats_from_its_seed(lab):
    def survivors(label, seed):
        # only what the test sends may use up chances, so: no IPv6, and neighbours known
        a, b = lab.ns(f"a{label}"), lab.ns(f"b{label}")
        for ns in (a, b):
            ns.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
        wire = lab.emulated_link(a, b, seed=seed)
        for ns, dev, addr, other in ((a, wire.dev_a, 1, 2), (b, wire.dev_b, 2, 1)):
            ns.addr(f"10.1.0.{addr}/24", dev)
            ns.ip(f"link set {dev} address 02:00:00:00:00:0{addr}")
            ns.ip(f"neigh add 10.1.0.{other} lladdr 02:00:00:00:00:0{other} dev {dev}")
        assert wire.show()["ab"]["in"] == 0
        wire.set("ab", loss=0.5)
        return flood(a, count=100)[0]

    first, again, other = survivors("0", 7), survivors("1", 7), survivors("2", 8)
    assert first == again != other


def test_a_cut_wire_and_its_return(lab, ends):
    a, _ = ends
    wire = link(lab, ends)
    with Ping(a, "10.1.0.2") as running:
        running.wait_received(10)
        wire.cut()
        with pytest.raises(Failed):
            running.wait_received(5, timeout=0.4)
        wire.restore()
        running.wait_received(10)
    assert running.result.gaps[0][1] >= 30
    assert len(running.result.gaps) == 1


def test_frames_above_the_mtu_vanish(lab, ends):
    a, _ = ends
    wire = link(lab, ends, mtu=1280)
    ping(a, "10.1.0.2", size=1280 - 28, options=("-M", "do"))
    with pytest.raises(Failed):
        ping(a, "10.1.0.2", size=1280 - 27, timeout=0.3, options=("-M", "do"))
    assert wire.show()["ab"]["too_big"] == 3


def test_jitter_keeps_the_order_and_reordering_does_not(lab, ends):
    a, _ = ends
    wire = link(lab, ends)
    ping(a, "10.1.0.2", count=1)
    wire.set("ab", jitter_ms=10)
    order, _ = flood(a)
    assert order == sorted(order) and len(order) == 400
    wire.set("ab", jitter_ms=0, reorder=0.1, reorder_ms=20)
    order, _ = flood(a)
    assert order != sorted(order) and len(order) == 400
    assert wire.show()["ab"]["reordered"] > 10


def test_duplicates(lab, ends):
    a, _ = ends
    wire = link(lab, ends)
    ping(a, "10.1.0.2", count=1)
    wire.set("ba", duplicate=0.25)
    _, duplicates = flood(a)
    assert 50 <= duplicates <= 150
    assert wire.show()["ba"]["duplicated"] >= duplicates


def test_rate_and_queue_limit(lab, ends):
    a, b = ends
    wire = link(lab, ends, rate_mbit=20, queue_bytes=100_000)
    rate = tcp_transfer(a, b, "10.1.0.2", size=4_000_000)
    assert 8e6 < rate < 20e6
    # a burst of 150 kB against a queue of 100 kB, which is 40 ms at that rate
    wire.set("ba", rate_mbit=0)
    burst = a.run("ping", "-n", "-c", 100, "-l", 100, "-s", 1472, "-W", 1, "10.1.0.2", check=False)
    rtt_ms = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", burst.stdout)]
    assert 60 <= len(rtt_ms) <= 90
    assert wire.show()["ab"]["full"] >= 100 - len(rtt_ms)
    assert 25 < max(rtt_ms) < 40 + RTT_SLACK_MS


@pytest.mark.parametrize("family, address", [("-4", "10.1.0.2"), ("-6", "fd01::2")])
def test_ect_packets_are_marked_and_stay_valid(lab, ends, family, address):
    a, _ = ends
    wire = link(lab, ends, ce=1)
    ping(a, address, count=5, options=(family, "-Q", "0x02"))
    assert wire.show()["ab"]["marked"] == 5
    ping(a, address, count=5, options=(family, "-Q", "0x00"))
    assert wire.show()["ab"]["marked"] == 5


def test_a_wrong_setting_changes_nothing(lab, ends):
    wire = link(lab, ends, delay_ms=1)
    before = wire.show()["ab"]
    for wrong in ({"loss": 2}, {"delay_ms": "x"}, {"delay_ms": 5, "nonsense": 1}):
        with pytest.raises(Failed):
            wire.set(**wrong)
    assert {key: wire.show()["ab"][key] for key in ("delay_ms", "loss")} == {
        key: before[key] for key in ("delay_ms", "loss")}
