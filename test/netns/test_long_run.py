"""An hour and more of a link's life in a minute: new keys all the time, under traffic.

The simulator does the same with virtual time (test/sim/faults_test.c); here it is the real daemon:
its memory, its descriptors, its clock.
"""
import time
from pathlib import Path

from lab import Mesh, Ping, wait_ping, wait_until

# the shortest that a configuration may have: an IKE SA and a child are new each 5 s
SHORT = {"ike": {"lifetime": "5s", "child_lifetime": "5s"}}
WARM_S = 90.0  # at most
BY_TIME_S = 15.0  # in this time keys change as they do in a long life
BY_COMMAND_S = 25.0  # and in this time by command
TURN_S = 0.12  # so often: a link has 64 children at most, and a deleted one counts for 5 s
PAUSE_S = 0.05
RSS_KIB = 1024


class Watched:
    """The two ends of a link: which keys they have had, and what they take of the host."""

    def __init__(self, mesh):
        self.nodes = mesh.nodes
        self.seen = set()
        self.warm = [self._rss(node) for node in self.nodes]
        self.most = list(self.warm)
        self.files = [self._files(node) for node in self.nodes]

    @staticmethod
    def _rss(node):
        text = Path(f"/proc/{node.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    @staticmethod
    def _files(node):
        """Without that of a client which has its answer and is not closed yet."""
        def count():
            time.sleep(PAUSE_S)
            return len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))
        return min(count() for _ in range(4))

    def look(self):
        """What the first end has now: its IKE SA and its newest child, by their SPIs."""
        self.most = [max(most, self._rss(node)) for most, node in zip(self.most, self.nodes)]
        link, = self.nodes[0].links()
        keys = {("ike", link["ike"]["spi_i"], link["ike"]["spi_r"])} if link["ike"] else set()
        keys |= {("child", child["spi_in"], child["spi_out"]) for child in link["children"]}
        self.seen |= keys
        return keys

    def grown(self):
        return [most - warm for most, warm in zip(self.most, self.warm)]

    def judge(self):
        """No more memory and no more files than after the warm-up."""
        assert max(self.grown()) <= RSS_KIB, f"{self.warm} KiB became {self.most}"
        wait_until(lambda: [self._files(node) for node in self.nodes] == self.files, 5.0,
                   f"as many descriptors as before: {self.files}")


def by_time(watched):
    end = time.monotonic() + BY_TIME_S
    while time.monotonic() < end:
        watched.look()
        time.sleep(TURN_S)


def by_command(mesh, watched, seconds):
    """Each end in turn asks for new keys, and each tenth time both do. Returns how many times."""
    begin, turn = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        time.sleep(max(0.0, begin + turn * TURN_S - time.monotonic()))
        mesh.wait_one_pair(timeout=15.0)
        before = watched.look()
        for node in mesh.nodes if turn % 10 == 9 else [mesh.nodes[turn % 2]]:
            node.tool("rekey", "n1" if node is mesh.nodes[1] else "n2")
        wait_until(lambda: not before & watched.look(), 15.0, "an IKE SA and a child in place of "
                   "those before", every=PAUSE_S)
        turn += 1
    return turn


def warm_up(mesh):
    """Until memory is what it will be: the rings between threads are written once around."""
    end, grown = time.monotonic() + WARM_S, RSS_KIB
    while grown > RSS_KIB / 10 and time.monotonic() < end:
        watched = Watched(mesh)
        by_command(mesh, watched, 5.0)
        grown = max(watched.grown())


def test_keys_of_seconds_under_traffic(lab):
    """Hundreds of rekeys at 100 packets a second lose at most one, and leave nothing behind."""
    mesh = Mesh(lab, 2, config=SHORT)
    mesh.start()
    mesh.wait_up()
    wait_ping(mesh.spaces[0], mesh.inner(2))
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        warm_up(mesh)
        watched = Watched(mesh)
        by_time(watched)
        timed = len(watched.seen)
        assert timed >= 1.5 * BY_TIME_S / 5  # an IKE SA and a child, each once in 5 s or sooner
        turns = by_command(mesh, watched, BY_COMMAND_S)
        mesh.wait_one_pair(timeout=15.0)
        watched.judge()
    print(f"\n{len(watched.seen)} keys, {timed} of them by time; {running.result}; "
          f"KiB {watched.warm} -> {watched.most}, descriptors {watched.files}")
    assert turns >= BY_COMMAND_S  # one a second on the slowest of machines
    assert len(watched.seen) >= timed + 2 * turns
    assert running.result.lost <= 1
    assert running.result.duplicates == 0
