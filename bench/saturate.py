"""A tunnel that is kept full for long: whether it ever stands still, and whether it grows."""
import re
import time
from pathlib import Path

from lab import Failed
from measure import TESTS, Load
from subjects import make

TEST = "8 streams, both ways"
WARM_S = 5.0  # from the load's beginning; a tenth of the run where that is more
EVERY_S = 0.1
SLICE_S = 1.0  # of the figures of throughput


def rss_kb(process):
    """What a process has in memory now, with huge pages: transparent ones are in it."""
    said = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    kb = (re.search(rf"^{key}:\s+(\d+)", said, re.MULTILINE) for key in ("VmRSS", "HugetlbPages"))
    return sum(int(found[1]) for found in kb if found)


def delivered(process, device):
    """Bytes that a daemon has given to its TUN, as the kernel counts them."""
    said = Path(f"/proc/{process.pid}/net/dev").read_text(encoding="ascii")
    return int(re.search(rf"^\s*{re.escape(device)}:\s*(\d+)", said, re.MULTILINE)[1])


def slope(points):
    """Of the line through (time, value) that fits best, per unit of time."""
    n = len(points)
    mean_t, mean_v = (sum(point[i] for point in points) / n for i in (0, 1))
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    return sum((t - mean_t) * (v - mean_v) for t, v in points) / spread if spread else 0.0


def longest_stall(times, counts):
    """The longest time in which a counter did not move, seen from its samples."""
    longest, since = 0.0, times[0]
    for i in range(1, len(times)):
        if counts[i] != counts[i - 1]:
            longest, since = max(longest, times[i - 1] - since), times[i]
    return max(longest, times[-1] - since)


def slices(times, counts, span=SLICE_S):
    """Gbit/s of each span of time."""
    found, first = [], 0
    for i, now in enumerate(times):
        if now - times[first] >= span:
            found.append((counts[i] - counts[first]) * 8e-9 / (now - times[first]))
            first = i
    return found


def sampled(ends, load, seconds, say):
    """Looks at the ends (process, its TUN) until the time is up: times, and what each has
    delivered and taken of memory at each of them."""
    times, bytes_of, rss_of = [], [[] for _ in ends], [[] for _ in ends]
    begin, due, told = time.monotonic(), 0.0, 0.0
    while (now := time.monotonic() - begin) < seconds:
        if not load.process.running:
            raise Failed(f"the load ended after {now:.0f} s: {load.process.log()[-500:]}")
        times.append(now)
        for (process, device), counts, rss in zip(ends, bytes_of, rss_of):
            counts.append(delivered(process, device))
            rss.append(rss_kb(process))
        if now - told >= 30:
            told = now
            say(f"{now:.0f} s: RSS {', '.join(str(rss[-1]) for rss in rss_of)} kB")
        due = max(due + EVERY_S, now)
        time.sleep(max(0.0, begin + due - time.monotonic()))
    return times, bytes_of, rss_of


def figures(times, counts, rss, warm):
    """Of one end. warm: seconds after which memory is to grow no more."""
    rates = slices(times, counts)
    steady = [(t / 60, kb) for t, kb in zip(times, rss) if t >= warm]
    return {"gbit": (counts[-1] - counts[0]) * 8e-9 / (times[-1] - times[0]),
            "slowest_second_gbit": min(rates), "fastest_second_gbit": max(rates),
            "longest_stall_ms": longest_stall(times, counts) * 1e3,
            "rss_warm_kb": steady[0][1], "rss_last_kb": steady[-1][1],
            "rss_grown_kb": max(kb for _, kb in steady) - steady[0][1],
            "rss_slope_kb_per_minute": slope(steady)}


def saturate(lab, name, seconds, test=None, say=print):
    """Fills a tunnel of weft for so long: {"a": figures of the near end, "b": of the far, ...}"""
    pair = make(lab, name)
    pair.start()
    ends = [(node.process, node.status()["tun"]["name"]) for node in pair.nodes]
    before = [node.drops() for node in pair.nodes]
    warm = max(WARM_S, seconds / 10)
    load = Load(pair.a, pair.address, TESTS[test or TEST], int(warm + seconds) + 30)
    try:
        times, bytes_of, rss_of = sampled(ends, load, warm + seconds, say)
    finally:
        load.process.kill()
    found = {"subject": name, "version": pair.version, "test": test or TEST, "seconds": seconds,
             "warm_seconds": warm, "dropped": {}}
    for label, counts, rss in zip("ab", bytes_of, rss_of):
        found[label] = figures(times, counts, rss, warm)
    for label, node, old in zip("ab", pair.nodes, before):
        found["dropped"][label] = {key: count - old[key] for key, count in node.drops().items()
                                   if count != old[key]}
    return found


HEAD = """\
{subject} ({version}), {test}: {seconds} s after {warm_seconds:.0f} s to warm up

| end | Gbit/s delivered | slowest and fastest second | longest stall, ms | RSS warm, kB | last | \
most above warm | slope, kB a minute |
|---|---|---|---|---|---|---|---|"""
ROW = ("| {end} | {gbit:.2f} | {slowest_second_gbit:.2f}, {fastest_second_gbit:.2f} | "
       "{longest_stall_ms:.0f} | {rss_warm_kb} | {rss_last_kb} | {rss_grown_kb} | "
       "{rss_slope_kb_per_minute:.1f} |")


def markdown(found):
    lines = [HEAD.format(**found), *(ROW.format(end=end, **found[end]) for end in "ab")]
    for end, dropped in found["dropped"].items():
        said = ", ".join(f"{reason} {count}" for reason, count in dropped.items()) or "nothing"
        lines.append(f"\nDropped by {end}: {said}.")
    return "\n".join(lines) + "\n"
