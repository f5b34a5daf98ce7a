"""The suite of measurements runs, finds a figure for each thing, and leaves nothing behind."""
import json
import os
import re
import subprocess
import sys

import pytest

from lab import build_folder
from lab.weft import REPO

BENCH = REPO / "bench/run"
sys.path.append(str(BENCH.parent))
import many  # noqa: E402
import report  # noqa: E402
import saturate  # noqa: E402


def results(argv, folder, timeout, name="results"):
    """What a run of the suite, which has to end well, wrote as JSON."""
    done = subprocess.run([*argv, "--out", folder], capture_output=True, text=True, check=False,
                          timeout=timeout, env=dict(os.environ, WEFT_BUILD=str(build_folder())))
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / f"{name}.json").read_text()), done.stdout


def group(found, name):
    one, = (group for group in found["groups"] if group["name"] == name)
    return one


def test_fairness():
    assert many.jain([3.0] * 16) == pytest.approx(1)
    assert many.jain([5.0, 0, 0, 0]) == pytest.approx(0.25)
    assert many.jain([0.0, 0.0]) == 0


@pytest.mark.parametrize("value, more, want", [
    (None, True, "not measured"), (2.9, True, "**below the floor**"), (3.0, True, "floor reached"),
    (3.6, True, "aim reached"), (5.0, True, "beyond reached"), (0.0, False, "beyond reached"),
    (3.2, False, "floor reached"), (6.0, False, "**below the floor**")])
def test_what_was_reached(value, more, want):
    limits = (3, 3.5, 5) if more else (5, 3, 1)
    assert report.verdict(value, *limits, more) == want


def test_drops_by_rekeys_are_told_from_a_full_queue():
    counted = {"dropped by a: unknown-spi": 2, "dropped by b: replay-old": 1,
               "dropped by a: tx-backpressure": 90, "missing, out": 45}
    assert report.lost_by_rekeys({"with": {"counted": counted}}) == 3


@pytest.mark.timeout(120)
def test_the_suite_finds_a_figure_for_each(tmp_path):
    prefix = f"benchtest{os.getpid()}"
    os.environ["WEFT_LAB_PREFIX"], before = prefix, os.environ.get("WEFT_LAB_PREFIX")
    try:
        found, said = results([sys.executable, BENCH, "--smoke"], tmp_path, 110)
    finally:
        os.environ.pop("WEFT_LAB_PREFIX")
        if before:
            os.environ["WEFT_LAB_PREFIX"] = before
    assert [g["gaps"] for g in found["groups"]] == [[]] * 2 and found["gaps"] == []
    rates = {(row["subject"], row["test"]): row.get("kpps", row["gbit"])["median"]
             for row in group(found, "peers")["rows"]}
    assert set(rates) == {(subject, test) for subject in ("null", "weft")
                          for test in ("1 stream", "UDP of 64 bytes")}
    assert all(rate > 0 for rate in rates.values())
    assert {row["subject"] for row in group(found, "peers at once")["rows"]} == {"weft"}
    assert found["rekeys"]["with"]["keys"] > found["rekeys"]["without"]["keys"]
    assert re.search(r"^\| of the null forwarder, 1 stream \| [\d.]+ \|", said, re.MULTILINE)
    assert "<svg" in (tmp_path / "throughput.svg").read_text()
    left = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert prefix not in left


@pytest.mark.timeout(90)
def test_two_hosts(lab, tmp_path):
    near, far = lab.ns("near"), lab.ns("far")
    lab.veth(near, far, "192.0.2.1/24", "192.0.2.2/24")
    before = near.snapshot(), far.snapshot()
    listening = far.start(sys.executable, BENCH, "--listen", "192.0.2.2", "--token", "word")
    listening.wait_log("--token word", 20.0)
    wrong = near.run(sys.executable, BENCH, "--connect", "192.0.2.2", "--from", "192.0.2.1",
                     "--token", "another", "--subjects", "null", check=False)
    assert wrong.returncode != 0 and "is the token the one" in wrong.stderr
    assert "not by the other end's token" in listening.log()
    found, _ = results(near.argv([
        sys.executable, BENCH, "--connect", "192.0.2.2", "--from", "192.0.2.1", "--token", "word",
        "--rounds", "1", "--seconds", "1", "--subjects", "no tunnel", "weft", "--tests",
        "1 stream"]), tmp_path, 60)
    hosts = group(found, "two hosts")
    assert hosts["gaps"] == []
    assert {row["subject"] for row in hosts["rows"]} == {"no tunnel", "weft"}
    assert all(row["gbit"]["median"] > 0 for row in hosts["rows"])
    assert (near.snapshot(), far.snapshot()) == before


def test_a_stall_and_growth_are_seen():
    times = [i / 10 for i in range(100)]
    steady = [i * 1000 for i in range(100)]
    halted = steady[:30] + [steady[30]] * 25 + steady[55:]
    assert saturate.longest_stall(times, steady) == 0
    assert saturate.longest_stall(times, halted) == pytest.approx(2.4)
    assert saturate.longest_stall(times, steady[:80] + [steady[80]] * 20) == pytest.approx(1.9)
    assert saturate.slope([(t, 7 + 3 * t) for t in times]) == pytest.approx(3)
    assert min(saturate.slices(times, halted)) == 0 < min(saturate.slices(times, steady))


@pytest.mark.timeout(90)
def test_a_full_tunnel_neither_stalls_nor_grows(tmp_path):
    """The short form of what doc/benchmarks.md tells of ten minutes."""
    found, said = results([sys.executable, BENCH, "--saturate", "8"], tmp_path, 80, "saturated")
    assert "| a |" in said and "| b |" in said
    for end in (found["a"], found["b"]):
        assert end["gbit"] > 0
        assert end["longest_stall_ms"] < 1000
        assert end["rss_grown_kb"] <= 1024
