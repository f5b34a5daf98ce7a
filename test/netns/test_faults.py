"""What a host does to its daemons: it stops them, and has no room for them."""
import resource
import signal
import time
from pathlib import Path

from lab import Mesh, Ping, UdpStream, wait_ping, wait_until


def descriptors(node):
    return len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))


def test_stopped_for_half_a_minute(mesh):
    """A stall is no wake-up: what is due is done, and the link is there again at once."""
    node, other = mesh.nodes
    # either end knows that the other answers echoes, though the first one may be lost
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        running.wait_received(50)
    node.process.signal(signal.SIGSTOP)
    wait_until(lambda: not other.links("up"), 10.0, "the other end to notice")
    time.sleep(30)  # what the daemon must sleep through
    node.process.signal(signal.SIGCONT)
    wait_ping(mesh.spaces[0], mesh.inner(2), timeout=5.0)
    mesh.wait_one_pair(timeout=15.0)
    for one in mesh.nodes:
        assert one.process.running


def test_no_descriptor_left(mesh):
    """Clients wait or are refused, traffic and keys go on; with room all is as before."""
    node = mesh.nodes[0]
    before = descriptors(node)
    limits = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (before, limits[1]))
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        for _ in range(5):
            assert node.tool("status", check=False, timeout=10.0).returncode == 1
        mesh.nodes[1].tool("rekey", "n1")
        running.wait_received(50)
        resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, limits)
        wait_until(lambda: node.tool("status", check=False).returncode == 0, 10.0,
                   "clients to be served again")
        node.reload()
    assert running.result.lost == 0
    mesh.wait_one_pair()
    wait_until(lambda: descriptors(node) == before, 5.0, "no more descriptors than before")


def test_a_log_that_takes_nothing(lab):
    """The disk is full: each line of the log fails."""
    mesh = Mesh(lab, 2)
    for node in mesh.nodes:
        node.start(wrap=("sh", "-c", 'exec "$0" "$@" >/dev/full 2>&1'))
    mesh.wait_up()
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        running.wait_received(10)
        mesh.nodes[0].reload()
        mesh.nodes[0].tool("log", "debug")
        mesh.nodes[0].tool("rekey", "n2")
        mesh.wait_one_pair()
    assert running.result.lost == 0


def test_no_buffer_space(mesh):
    """The device takes one packet at a time: what does not go is lost, and nothing else is."""
    one, two = mesh.spaces
    one.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "200kbit", "burst", "1600",
            "limit", "1600")
    stream = UdpStream(one, two, mesh.inner(2), 2000)
    got = stream.finish()
    assert got < 2000
    one.run("tc", "qdisc", "del", "dev", "eth0", "root")
    wait_ping(one, mesh.inner(2), timeout=10.0)
    mesh.wait_one_pair(timeout=15.0)
    with Ping(one, mesh.inner(2)) as running:
        running.wait_received(100)
    assert running.result.lost == 0
