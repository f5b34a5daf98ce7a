"""Traffic through a scenario, and what became of it."""
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

from .core import Failed, wait_until

TCP_END = Path(__file__).with_name("tcp_end.py")
PING_END = Path(__file__).with_name("ping_end.py")
UDP_END = Path(__file__).with_name("udp_end.py")


class PingResult:
    """Counts of a finished ping, and its holes.

    sent, received (distinct), lost, duplicates; gaps: [(first missing number, how many)];
    longest_silence_s: the longest time between two replies; rtt_ms: each reply's, in order;
    replies: {number: (time of the monotonic clock, RTT in ms)}.
    """

    def __init__(self, sent, replies, duplicates):
        self.sent = sent
        self.duplicates = duplicates
        self.replies = replies
        self.received = len(replies)
        self.lost = sent - self.received
        self.rtt_ms = [rtt for _, rtt in replies.values()]
        self.gaps = _gaps(sent, replies)
        times = sorted(when for when, _ in replies.values())
        self.longest_silence_s = max((b - a for a, b in zip(times, times[1:])), default=0.0)

    def __repr__(self):
        return (f"<ping sent {self.sent} received {self.received} duplicates {self.duplicates} "
                f"gaps {self.gaps} longest silence {self.longest_silence_s:.3f} s>")


def _gaps(sent, replies):
    gaps = []
    for number in range(1, sent + 1):
        if number in replies:
            continue
        if gaps and sum(gaps[-1]) == number:
            gaps[-1] = (gaps[-1][0], gaps[-1][1] + 1)
        else:
            gaps.append((number, 1))
    return gaps


class Ping:
    """A ping that runs, 100 packets a second unless told otherwise, until stop().

    As a context its result is there at the end:  with Ping(a, "10.0.0.2") as ping: ...
    assert ping.result.lost == 0
    """

    def __init__(self, ns, address, interval=0.01, size=56):
        self.result = None
        self.process = ns.start(sys.executable, PING_END, address, interval, size,
                                name=f"ping-{address}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _replies(self):
        replies, duplicates = {}, 0
        for number, rtt, when in re.findall(r"^got (\d+) ([\d.]+) ([\d.]+)$", self.process.log(),
                                            re.MULTILINE):
            if int(number) in replies:
                duplicates += 1
            else:
                replies[int(number)] = (float(when), float(rtt))
        return replies, duplicates

    def received(self):
        """How many replies there are so far."""
        return len(self._replies()[0])

    def wait_received(self, count, timeout=10.0):
        """Waits for `count` more replies than there are now."""
        want = self.received() + count
        wait_until(lambda: self.received() >= want, timeout, f"{count} more ping replies")

    def stop(self):
        """Ends the sending, waits a second for the last replies. Returns the PingResult."""
        if self.result is not None:
            return self.result
        self.process.signal(signal.SIGINT)
        self.process.wait()
        done = re.search(r"^done (\d+)$", self.process.log(), re.MULTILINE)
        if done is None:
            raise Failed(f"ping did not run: {self.process.log()[-2000:]}")
        self.result = PingResult(int(done[1]), *self._replies())
        return self.result


def ping_range(ns, address, count=3, interval=0.05, timeout=1.0, size=56, options=()):
    """Sends `count` pings, at least one of which must come back; returns the lowest and the
    highest RTT in ms."""
    done = ns.run("ping", "-n", "-q", "-c", count, "-i", interval, "-W", timeout, "-s", size,
                  *options, address, check=False)
    if done.returncode != 0:
        raise Failed(f"ping from {ns.label} to {address}: {done.stdout}{done.stderr}")
    low, high = re.search(r"= ([\d.]+)/[\d.]+/([\d.]+)", done.stdout).groups()
    return float(low), float(high)


def ping(ns, address, **how):
    """As ping_range; returns the lowest RTT in ms."""
    return ping_range(ns, address, **how)[0]


def wait_ping(ns, address, timeout=10.0, **how):
    """Waits until a ping comes back; returns its RTT in ms."""
    return wait_until(lambda: ping(ns, address, count=1, timeout=0.3, **how), timeout,
                      f"a ping from {ns.label} to {address}")


def tcp_serve(ns, address, port=7000):
    """Starts the far end for tcp_transfer and TcpSession in a namespace."""
    server = ns.start(sys.executable, TCP_END, "serve", address, port, name=f"tcp-{port}")
    server.wait_log("^ready$")
    return server


def tcp_transfer(a, b, address, size=10_000_000, port=7001, timeout=60.0):
    """Sends `size` random bytes from a to b at address and compares; returns bits a second."""
    server = tcp_serve(b, address, port)
    done = a.run(sys.executable, TCP_END, "send", address, port, size, size, check=False,
                 timeout=timeout)
    server.stop()
    if done.returncode != 0:
        raise Failed(f"TCP from {a.label} to {b.label}: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    return result["bytes"] * 8 / result["seconds"]


class TcpSession:
    """One TCP connection from a to b that stays open, as an SSH session does."""

    def __init__(self, a, b, address, port=7002):
        self.server = tcp_serve(b, address, port)
        self.client = a.start(sys.executable, TCP_END, "talk", address, port, name="tcp-session",
                              stdin=subprocess.PIPE)
        self._said = 0

    def exchange(self, timeout=5.0):
        """Says a line and waits until it has come back over the same connection."""
        self._said += 1
        word = f"line-{self._said}"
        try:
            self.client.stdin.write(word.encode() + b"\n")
            self.client.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"the TCP session broke: {self.client.log()}") from None
        self.client.wait_log(f"^{word}$", timeout)


class UdpStream:
    """Numbered datagrams from a to b at address, one each `interval` s; count 0: until stop().

    sent, got: [(number, time of the monotonic clock)] so far, in their order.
    """

    def __init__(self, a, b, address, count=0, interval=0.001, port=7100):
        self.receiver = b.start(sys.executable, UDP_END, "receive", address, port,
                                name=f"udp-{port}")
        self.receiver.wait_log("^ready$")
        self.sender = a.start(sys.executable, UDP_END, "send", address, port, count, interval,
                              name="udp-send")

    @staticmethod
    def _numbers(process, word):
        return [(int(number), float(when)) for number, when in
                re.findall(rf"^{word} (\d+) ([\d.]+)$", process.log(), re.MULTILINE)]

    @property
    def sent(self):
        return self._numbers(self.sender, "sent")

    @property
    def got(self):
        return self._numbers(self.receiver, "got")

    def missing(self):
        """[(number, time it was sent)] of what has not come."""
        there = {number for number, _ in self.got}
        return [(number, when) for number, when in self.sent if number not in there]

    def in_order(self):
        numbers = [number for number, _ in self.got]
        return numbers == sorted(set(numbers))

    def stop(self):
        """Ends the sending; what is on its way gets a second to arrive."""
        self.sender.signal(signal.SIGINT)
        return self.finish()

    def finish(self, timeout=60.0):
        """Waits until all is sent, and until all came or for a second. Returns how many came."""
        self.sender.wait_log("^done$", timeout)
        self.sender.wait()
        try:
            wait_until(lambda: not self.missing(), 1.0, "the last datagrams", every=0.1)
        except Failed:
            pass  # what is missing is for the scenario to judge
        self.receiver.stop()
        return len(self.got)


class Iperf:
    """An iperf3 server in b; run() measures from a to b, or back."""

    def __init__(self, a, b, address, port=5201):
        self.a, self.address, self.port = a, address, port
        self.server = b.start("iperf3", "-s", "-B", address, "-p", port, "--forceflush",
                              name=f"iperf3-{port}")
        self.server.wait_log("Server listening")

    def run(self, seconds=3, reverse=False, udp_mbit=None, options=()):
        """iperf3's own JSON "end" object, with `bits_per_second` as the receiver saw it."""
        argv = ["iperf3", "-J", "-c", self.address, "-p", self.port, "-t", seconds, *options]
        if reverse:
            argv.append("-R")
        if udp_mbit is not None:
            argv += ["-u", "-b", f"{udp_mbit}M"]
        done = self.a.run(*argv, check=False, timeout=seconds + 30)
        try:
            report = json.loads(done.stdout)
        except ValueError:
            raise Failed(f"iperf3: {done.stdout}{done.stderr}") from None
        if "error" in report:
            raise Failed(f"iperf3: {report['error']}")
        end = report["end"]
        received = end.get("sum_received") or end["sum"]
        return dict(end, bits_per_second=received["bits_per_second"])
