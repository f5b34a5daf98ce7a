#!/usr/bin/python3
"""Draws results of bench/run as SVG: bench/plot.py RESULTS.json FOLDER

One file for throughput, ping and CPU time each: bars are medians, thin lines reach from the lowest
to the highest. Needs nothing but Python.
"""
import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ORDER = ("null", "weft", "wireguard-go", "OpenVPN", "strongSwan libipsec")
COLOURS = ("#1b6ca8", "#e07b39")
OURS = ("#12876f", "#7cc6a4")
WIDTH, LEFT, RIGHT, BAR, GAP, TOP, BOTTOM = 720, 150, 60, 14, 12, 64, 34
TESTS = "1 stream", "8 streams"
PLOTS = {  # file: (title, figure)
    "throughput": ("TCP through the tunnel, Gbit/s", "gbit"),
    "ping": ("Ping p99 while it is saturated, ms", "ping_p99_ms"),
    "cpu": ("CPU-seconds of the machine for a Gbit", "machine_cpu_s_per_gbit"),
}
STYLE = """
text{font:13px system-ui,sans-serif;fill:#444}
.title{font-size:16px;font-weight:600}.small{font-size:11px}
@media(prefers-color-scheme:dark){text{fill:#ccc}.grid{stroke:#555}.spread{stroke:#eee}}
.grid{stroke:#ddd}.spread{stroke:#222;stroke-width:1.2}
"""


def ticks(high):
    """From 0 to high or a little more, in steps of 1, 2 or 5 of a power of ten."""
    rough = high / 6
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [i * step for i in range(math.ceil(high / step) + 1)]


def short(value):
    return f"{value:.3g}"


def draw(title, note, names, series):
    """series: {label: {name: {median, min, max}}}; the SVG."""
    marks = ticks(max(one["max"] for of in series.values() for one in of.values()))

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / marks[-1]

    row = BAR * len(series) + GAP
    height = TOP + row * len(names) + BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
           f"<style>{STYLE}</style>", f'<text class="title" x="12" y="22">{escape(title)}</text>']
    at = LEFT
    for i, label in enumerate(series):
        out += [f'<rect x="{at}" y="34" width="12" height="12" fill="{COLOURS[i]}"/>',
                f'<rect x="{at + 14}" y="34" width="12" height="12" fill="{OURS[i]}"/>',
                f'<text x="{at + 32}" y="45">{escape(label)}</text>']
        at += 130
    for mark in marks:
        out += [f'<line class="grid" x1="{x(mark):.1f}" y1="{TOP - 6}" x2="{x(mark):.1f}" '
                f'y2="{height - BOTTOM}"/>',
                f'<text class="small" text-anchor="middle" x="{x(mark):.1f}" '
                f'y="{height - BOTTOM + 14}">{short(mark)}</text>']
    for n, name in enumerate(names):
        y = TOP + n * row
        out.append(f'<text text-anchor="end" x="{LEFT - 10}" '
                   f'y="{y + BAR * len(series) / 2 + 5}">{escape(name)}</text>')
        for i, of in enumerate(series.values()):
            if name in of:
                out += bar(x, y + i * BAR, of[name], (OURS if name == "weft" else COLOURS)[i])
    out += [f'<text class="small" x="12" y="{height - 4}">{escape(note)}</text>', "</svg>"]
    return "\n".join(out) + "\n"


def bar(x, y, one, colour):
    middle = y + BAR / 2 - 0.5
    return [f'<rect x="{LEFT}" y="{y:.1f}" width="{max(1.0, x(one["median"]) - LEFT):.1f}" '
            f'height="{BAR - 2}" fill="{colour}"/>',
            f'<line class="spread" x1="{x(one["min"]):.1f}" y1="{middle:.1f}" '
            f'x2="{x(one["max"]):.1f}" y2="{middle:.1f}"/>',
            f'<text class="small" x="{x(one["max"]) + 5:.1f}" y="{y + BAR - 4:.1f}">'
            f'{short(one["median"])}</text>']


def plots(found):
    """{name: SVG} of what the results have."""
    facts = found["facts"]
    note = (f"{facts['cpu']}, {facts['cores']} cores for both ends and the load; weft "
            f"{facts['commit']}; null: no cryptography, the ceiling")
    rows = next((g["rows"] for g in found["groups"] if g["name"] == "peers"), [])
    drawn = {}
    for name, (title, key) in PLOTS.items():
        series = {test: {row["subject"]: row[key] for row in rows
                         if row["test"] == test and key in row and row["subject"] in ORDER}
                  for test in TESTS}
        series = {test: of for test, of in series.items() if of}
        names = [one for one in ORDER if any(one in of for of in series.values())]
        if names:
            drawn[name] = draw(title, note, names, series)
    return drawn


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in plots(json.loads(Path(sys.argv[1]).read_text())).items():
        (folder / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()
