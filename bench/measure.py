"""The tests of bench/run: one run of one test on one subject, and its figures."""
import json
import statistics
import time
from pathlib import Path

from lab import Failed, Ping

WARM_S = 1  # iperf3's -O: carried, not counted
EDGE_S = 0.25  # kept away from the beginning and the end of what is counted
GRACE_S = 20.0


def tcp(streams, *more):
    return ["-P", str(streams), *more]


def udp(size):
    return ["-u", "-b", "0", "-l", str(size)]


# name: iperf3's options; None: no load
TESTS = {
    "idle": None,
    **{f"{n} stream{'s' * (n > 1)}": tcp(n) for n in (1, 2, 4, 8)},
    **{f"{n} stream{'s' * (n > 1)}, back": tcp(n, "-R") for n in (1, 8)},
    **{f"{n} stream{'s' * (n > 1)}, both ways": tcp(n, "--bidir") for n in (1, 8)},
    "150 Mbit/s offered": tcp(1, "-b", "150M"),
    "1 Gbit/s offered": tcp(1, "-b", "1G"),
    **{f"UDP of {size} bytes": udp(size) for size in (64, 256, 576, 1372, 9000)},
}
FIGURES = {  # key: heading, digits
    "gbit": ("Gbit/s", 2),
    "kpps": ("kpps received", 1),
    "lost_percent": ("lost, %", 1),
    "retransmits": ("retransmits", 0),
    "daemon_cpu_s_per_gbit": ("daemons' CPU-s/Gbit", 3),
    "machine_cpu_s_per_gbit": ("machine's CPU-s/Gbit", 3),
    "far_daemon_cpu_s_per_gbit": ("far daemon's CPU-s/Gbit", 3),
    "far_machine_cpu_s_per_gbit": ("far machine's CPU-s/Gbit", 3),
    "daemon_cpu_us_per_packet": ("daemons' CPU-us/packet", 2),
    "machine_cpu_us_per_packet": ("machine's CPU-us/packet", 2),
    "ping_p50_ms": ("ping p50 ms", 2),
    "ping_p99_ms": ("ping p99 ms", 2),
}


def has_cubic():
    return "cubic" in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text()


class Load:
    """An iperf3 client that runs, from space to address."""

    def __init__(self, space, address, options, seconds, port=5201):
        self.udp = "-u" in options
        self.warm = 0 if self.udp else WARM_S
        words = list(options)
        if not self.udp:
            words += ["-O", WARM_S, *(["-C", "cubic"] if has_cubic() else [])]
        self.process = space.start("iperf3", "-J", "-c", address, "-p", port, "-t", seconds, *words,
                                   name="iperf3-client")

    def sleep(self, seconds):
        """Waits, unless it ends before."""
        end = time.monotonic() + seconds
        while self.process.running and (left := end - time.monotonic()) > 0:
            time.sleep(min(0.05, left))

    def result(self):
        """Waits for its end: {gbit, kpps, lost_percent, retransmits}, as the receiver saw them."""
        self.process.wait(GRACE_S)
        said = self.process.log()
        try:
            report = json.loads(said[said.index("{"):said.rindex("}") + 1])
        except ValueError:
            raise Failed(f"iperf3: {said[-500:]}") from None
        if "error" in report:
            raise Failed(f"iperf3: {report['error']}")
        return self._udp(report["end"]) if self.udp else self._tcp(report["end"])

    @staticmethod
    def _udp(end):
        total = end["sum"]
        if not total["packets"]:
            raise Failed("iperf3: nothing sent")
        got = total["packets"] - total["lost_packets"]
        return {"kpps": got / total["seconds"] / 1e3, "lost_percent": total["lost_percent"],
                "gbit": got * total["bytes"] / total["packets"] * 8 / total["seconds"] / 1e9}

    @staticmethod
    def _tcp(end):
        back = end.get("sum_received_bidir_reverse", {"bits_per_second": 0})
        return {"gbit": (end["sum_received"]["bits_per_second"] + back["bits_per_second"]) / 1e9,
                "retransmits": end["sum_sent"].get("retransmits", 0)
                + end.get("sum_sent_bidir_reverse", {}).get("retransmits", 0)}


def percentile(values, part):
    """Of sorted values."""
    return values[min(len(values) - 1, int(len(values) * part))]


def pings(ping, begin, end):
    """Of the replies between two times of the monotonic clock."""
    rtt = sorted(rtt for when, rtt in ping.result.replies.values() if begin <= when <= end)
    if not rtt:
        return {}
    return {"ping_p50_ms": percentile(rtt, 0.5), "ping_p99_ms": percentile(rtt, 0.99)}


def per_gbit(figures, before, after, took):
    """CPU time for each Gbit, or for each packet of UDP."""
    for whose, seconds in after.items():
        used = (seconds - before[whose]) / took
        if figures.get("kpps"):
            figures[f"{whose}_cpu_us_per_packet"] = used * 1e3 / figures["kpps"]
        elif figures.get("gbit"):
            figures[f"{whose}_cpu_s_per_gbit"] = used / figures["gbit"]


def loaded(subject, load, seconds, meanwhile):
    """Waits for a load's end: its figures, and from when to when they count."""
    load.sleep(load.warm + EDGE_S)
    begin, before = time.monotonic(), subject.cpu()
    meanwhile(load, seconds - 2 * EDGE_S)
    after, end = subject.cpu(), time.monotonic()
    figures = load.result()
    per_gbit(figures, before, after, end - begin)
    return figures, begin, end


def measure(subject, options, seconds, meanwhile=None):
    """One run. meanwhile(load, seconds): what to do in place of waiting, during what counts."""
    subject.ready()
    with Ping(subject.a, subject.address) as ping:
        ping.wait_received(1, timeout=5.0)
        if options is None:
            begin = time.monotonic()
            ping.wait_received(100 * seconds, timeout=seconds + GRACE_S)
            end, figures = time.monotonic(), {}
        else:
            load = Load(subject.a, subject.address, options, seconds)
            try:
                figures, begin, end = loaded(subject, load, seconds, meanwhile or Load.sleep)
            finally:
                load.process.kill()
    return figures | pings(ping, begin, end)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "n": len(values), "values": values}


def rows_of(runs):
    """A row for each (subject, test) of {(subject, test): [figures]}."""
    rows = []
    for (name, test), of in runs.items():
        row = {"subject": name, "test": test}
        for key in FIGURES:
            values = [run[key] for run in of if key in run]
            if values:
                row[key] = spread(values)
        rows.append(row)
    return rows
