"""What a host does to its daemons: it stops them, and has no room for them."""
import re
import resource
import signal
import time
from pathlib import Path

import pytest

from lab import Mesh, Ping, UdpStream, is_sanitized, registry_node, wait_ping, wait_until


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


def test_few_descriptors_to_start(lab):
    """It starts, or ends at once with one line that says why; and leaves nothing."""
    node = Mesh(lab, 2).nodes[0]
    before = node.ns.snapshot()
    started = []
    for limit in range(4, 34):
        node.start(wait=None, wrap=("prlimit", f"--nofile={limit}"))
        wait_until(lambda: not node.process.running or " is up, " in node.process.log(), 3.0,
                   f"a start or an end with {limit} descriptors")
        started.append(node.process.running)
        node.process.stop()
        bad = [line for line in node.process.log().splitlines() if "weftd: warning: " not in line
               and not re.search(r"weftd: (version .* is up, |stopped$)", line)]
        assert all("Too many open files" in line for line in bad)
        assert started[-1] or (len(bad) == 1 and node.process.exit_code == 1)
    assert started[-1] and not started[0]
    assert before.diff(node.ns.snapshot()) == []
    assert not node.socket.exists()


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


def grown(mesh, nodes):
    """The mesh's registry with that many more nodes in it, which have no endpoint."""
    entries = mesh.registry()
    entries[0]["nodes"] += [registry_node(f"more{i}") for i in range(nodes)]
    return entries


def test_no_memory_for_a_registry(mesh):
    """A reload for which there is no memory is refused in one line; with memory it is done."""
    if is_sanitized():
        pytest.skip("a sanitizer's own memory has no limit")
    node = mesh.nodes[0]
    limits = resource.prlimit(node.process.pid, resource.RLIMIT_AS)
    size = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[0])
    room = size * resource.getpagesize() + (8 << 20)
    resource.prlimit(node.process.pid, resource.RLIMIT_AS, (room, limits[1]))
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        node.write_registry(grown(mesh, 5000))
        refused = node.tool("reload", check=False)
        assert refused.returncode == 1
        assert refused.stderr.splitlines() == [f"weft: {node.registry_path}: out of memory"]
        mesh.nodes[1].tool("rekey", "n1")
        running.wait_received(50)
        resource.prlimit(node.process.pid, resource.RLIMIT_AS, limits)
        node.reload()
    assert running.result.lost == 0
    mesh.wait_one_pair()


def test_no_memory_to_start(lab):
    """One line, and no crash."""
    if is_sanitized():
        pytest.skip("a sanitizer's own memory has no limit")
    mesh = Mesh(lab, 2)
    node = mesh.nodes[0]
    node.write_registry(grown(mesh, 20000))
    node.start(wait=None, wrap=("prlimit", f"--as={40 << 20}"))
    assert node.process.wait(10.0) == 1
    line, = node.process.log().splitlines()
    assert line.endswith(f"{node.registry_path}: out of memory")


def test_no_room_for_the_control_socket(lab):
    """The disk is full at the start: one line."""
    node = Mesh(lab, 2).nodes[0]
    folder = node.dir / "full"
    folder.mkdir()
    node.configure({**node.config, "control": {"socket": str(folder / "sock")}})
    node.start(wait=None, wrap=("unshare", "-m", "sh", "-ec", (
        f"mount -t tmpfs -o nr_inodes=1 none {folder}\nexec \"$0\" \"$@\"")))
    assert node.process.wait(10.0) == 1
    line = node.process.log().splitlines()[-1]
    assert line == f"weftd: control socket {folder}/sock: No space left on device"


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
