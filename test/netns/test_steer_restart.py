"""A waypoint that a path passes twice dies and comes back while the path is under load."""
import time
from collections import Counter

import pytest

from lab import UdpStream, wait_until
from test_steer import SERVER, Steered, check_datagrams

WAYPOINT, LIVING = 2, (1, 3, 4)
NOTICED_S, BACK_S = 2.0, 5.0
BUSY_S = 0.5  # what a busy machine adds to the first
INTERVAL_S = 0.002
# what nodes say to each other, errors about packets that are counted already among it, and what
# hosts say to everyone
CONTROL = ("babel-", "ike-", "punt-", "unknown-spi", "srv6-error", "link-local", "multicast")


def named(net, numbers):
    """What these nodes have dropped of data, by name."""
    return Counter({(i, reason): n for i in numbers
                    for reason, n in net.mesh.nodes[i - 1].drops().items()
                    if not reason.startswith(CONTROL)})


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_waypoint_restarts(lab, end):
    net = Steered(lab).start()
    waypoint = net.mesh.nodes[WAYPOINT - 1]
    streams = [UdpStream(net.client, net.server, address, interval=INTERVAL_S, port=7100 + i)
               for i, address in enumerate(SERVER.values())]
    wait_until(lambda: all(len(stream.got) > 300 for stream in streams), 20, "the streams to run")
    before = named(net, LIVING)
    ended = time.monotonic()
    if end == "killed":
        waypoint.kill()
    else:
        waypoint.stop()
    net.wait_state("fallback")
    dropped = sum(p["dropped"] for p in net.policy())
    wait_until(lambda: sum(p["dropped"] for p in net.policy()) > dropped + 200, 10, "drops")
    waypoint.start()
    back = time.monotonic()
    for node in net.mesh.nodes:
        node.wait_up(3, BACK_S)
    net.wait_state("active", timeout=BACK_S)
    wait_until(net.is_direct, BACK_S, "every locator to be one link away")
    assert time.monotonic() - back < BACK_S
    active = time.monotonic()
    wait_until(lambda: all(stream.got[-1][1] > active + 0.5 for stream in streams), 10,
               "what was sent since")
    for stream in streams:
        stream.stop()
        assert stream.in_order()
    missing = sorted(when for stream in streams for _, when in stream.missing())
    # what no living node has counted, n2 since its return among them, went to n2 before its loss
    # was noticed
    reasons = named(net, (*LIVING, WAYPOINT)) - before
    counted = reasons.total()
    assert 200 < counted <= len(missing), reasons
    uncounted = missing[:len(missing) - counted]
    late = [when - ended for when in uncounted if when > ended + NOTICED_S + BUSY_S]
    assert not late, (late[-1], reasons)
    assert missing[-1] < active
    for family in SERVER:
        check_datagrams(net, family)
