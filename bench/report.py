"""The results of bench/run as tables: of each test, and against what weft is to reach."""
from measure import FIGURES

RIVAL = "wireguard-go"


def text(figure, digits):
    if figure is None:
        return "-"
    if figure["n"] == 1:
        return f"{figure['median']:.{digits}f}"
    return f"{figure['median']:.{digits}f} ({figure['min']:.{digits}f}-{figure['max']:.{digits}f})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


class Results:
    """Looks figures up in what bench/run wrote as JSON."""

    def __init__(self, found):
        self.found = found
        self.groups = {group["name"]: group for group in found["groups"]}

    def median(self, group, subject, test, key):
        for row in self.groups.get(group, {"rows": []})["rows"]:
            if (row["subject"], row["test"]) == (subject, test) and key in row:
                return row[key]["median"]
        return None

    def ratio(self, group, subject, other, test, key):
        one, two = (self.median(group, name, test, key) for name in (subject, other))
        return one / two if one is not None and two else None

    def memory(self, group, subject):
        return self.groups.get(group, {}).get("memory_mb", {}).get(subject)

    def idle(self, subject="weft", peers=200):
        for one in self.found.get("idle", []):
            if (one["subject"], one["peers"]) == (subject, peers):
                return one
        return {}

    def together(self):
        """The tests of many peers at once: {test: {subject: row}}"""
        found = {}
        for row in self.groups.get("peers at once", {"rows": []})["rows"]:
            found.setdefault(row["test"], {})[row["subject"]] = row
        return found


def against_rival(results):
    """(what, figure, floor, aim, beyond, the more the better) of what is a ratio to the rival."""
    def ratio(test, key):
        return results.ratio("peers", "weft", RIVAL, test, key)
    rows = [(f"TCP, {test}", ratio(test, "gbit"), 4.5, 5.5, 6.5, True)
            for test in ("1 stream", "8 streams")]
    rows += [(f"TCP, {test}", ratio(test, "gbit"), 3.8, 4.5, 5.5, True)
             for test in ("1 stream, both ways", "8 streams, both ways")]
    rows += [(f"CPU-s a Gbit of {whose}, {test}", ratio(test, f"{key}_cpu_s_per_gbit"), *limits,
              False)
             for whose, key in (("the machine", "machine"), ("the daemons alone", "daemon"))
             for test, limits in (("1 stream", (0.23, 0.20, 0.16)),
                                  ("8 streams", (0.23, 0.20, 0.16)),
                                  ("1 Gbit/s offered", (0.30, 0.27, 0.22)))]
    rows += [("ping p99, 1 stream", ratio("1 stream", "ping_p99_ms"), 0.20, 0.15, 0.06, False),
             ("ping p99, 8 streams", ratio("8 streams", "ping_p99_ms"), 0.06, 0.04, 0.02, False),
             ("UDP of 64 bytes received", ratio("UDP of 64 bytes", "kpps"), 3, 3.5, 5, True)]
    return [(f"{what}, x {RIVAL}", *rest) for what, *rest in rows]


def alone(results):
    """As against_rival(), of what is held against something else."""
    one, many = results.memory("peers", "weft"), results.idle()
    each = None
    if one is not None and many:
        each = (many["idle_memory_mb"] - one) * 1024 / (many["peers"] - 1)
    rows = [(f"of the null forwarder, {test}",
             results.ratio("peers", "weft", "null", test, "gbit"), *limits, True)
            for test, limits in (("1 stream", (0.85, 0.90, 0.95)),
                                 ("8 streams", (0.72, 0.85, 0.95)))]
    rows += [("memory after load, 1 peer, MB", one, 32, 16, None, False),
             ("memory after load, 200 peers, MB", many.get("memory_mb"), 48, 24, None, False),
             ("200 idle peers, % of a core", many.get("core_percent"), 1, None, None, False),
             ("200 idle peers, kB each", each, 32, None, None, False)]
    for test, of in results.together().items():
        if "weft" not in of:
            continue
        if "UDP" in test:
            theirs = of.get(RIVAL, {}).get("lost_percent", {"median": 0})["median"]
            rows.append((f"{test}, % lost (floor: {RIVAL}'s)",
                         of["weft"]["lost_percent"]["median"], theirs, None, None, False))
        else:
            rows.append((f"{test}, fairness", of["weft"]["fairness"]["median"], 0.95, None, None,
                         True))
    rows.append(("relay, x direct, 1 stream",
                 results.ratio("lines", "relay", "direct", "1 stream", "gbit"), 0.45, None, None,
                 True))
    rekeyed = results.found.get("rekeys")
    rows.append(("packets lost or out of place by rekeys under load",
                 None if rekeyed is None else lost_by_rekeys(rekeyed), 0, None, None, False))
    return rows


# Why a packet is refused whose key is gone or not there yet, or that comes out of its order.
KEY_DROPS = ("unknown-spi", "replay-old", "replay-duplicate", "not-authentic", "no-sa",
             "sa-hard-limit", "link-down")


def lost_by_rekeys(rekeyed):
    """Packets that either node refused for reasons of keys and numbers in the run with rekeys."""
    return sum(count for key, count in rekeyed["with"]["counted"].items()
               if key.startswith("dropped by") and key.partition(": ")[2] in KEY_DROPS)


def verdict(value, floor, aim, beyond, more):
    if value is None:
        return "not measured"
    for name, limit in (("beyond", beyond), ("aim", aim), ("floor", floor)):
        if limit is not None and (value >= limit if more else value <= limit):
            return f"{name} reached"
    return "**below the floor**"


def floors(results):
    """The table of what weft is to reach, and what it did."""
    def number(value, more=True):
        return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    rows = []
    for what, value, floor, aim, beyond, more in against_rival(results) + alone(results):
        sign = ">=" if more else "<="
        rows.append((what, number(value), *(f"{sign} {number(x)}" if x is not None else "-"
                                            for x in (floor, aim, beyond)),
                     verdict(value, floor, aim, beyond, more)))
    return ["**What weft is to reach**", "",
            *table(("", "measured", "floor", "aim", "beyond", ""), rows)]


def test_table(results, group, test, rows):
    shown = [key for key in FIGURES if any(key in row for row in rows)]
    rate = next((key for key in ("kpps", "gbit") if key in shown), None)
    others = [name for name in (RIVAL, "null", "weft", "direct") if rate
              and any(row["subject"] == name for row in rows) and
              (name not in ("weft",) or group == "weft's variants")]
    head = ["", *(FIGURES[key][0] for key in shown), *(f"x {name}" for name in others)]
    body = []
    for row in rows:
        cells = [row["subject"], *(text(row.get(key), FIGURES[key][1]) for key in shown)]
        for other in others:
            value = results.ratio(group, row["subject"], other, test, rate)
            cells.append("-" if value is None else f"{value:.2f}")
        body.append(cells)
    return table(head, body)


def group_text(results, group):
    lines = ["", f"## {group['name']}"]
    if group["name"] == "peers at once":
        lines += ["", *together_table(group)]
    else:
        for test in dict.fromkeys(row["test"] for row in group["rows"]):
            of = [row for row in group["rows"] if row["test"] == test]
            lines += ["", f"**{test}**", "", *test_table(results, group["name"], test, of)]
    memory = [f"{name} {mb:.0f}" for name, mb in group.get("memory_mb", {}).items()]
    if memory:
        lines += ["", "Highest memory of a daemon (RSS with huge pages), MB: " + ", ".join(memory)]
    lines += [f"\nNot measured: {gap}" for gap in group.get("gaps", [])]
    return lines


def together_table(group):
    columns = (("gbit", "Gbit/s, all", 2), ("fairness", "Jain's index", 3),
               ("retransmits", "retransmits", 0), ("lost_percent", "lost, %", 2))
    return table(("test", "", *(heading for _, heading, _ in columns)), [
        (row["test"], row["subject"], *(text(row.get(key), digits) for key, _, digits in columns))
        for row in group["rows"]])


def rekeys_text(rekeyed):
    def cell(run, key, digits=2):
        return f"{run[key]:.{digits}f}" if key in run else "-"
    lines = ["", "## Rekeys under load", "", *table(
        ("1 stream", "keys used", "Gbit/s", "ping p99 ms", "what was counted beside it"),
        [(how, str(run["keys"]), cell(run, "gbit"), cell(run, "ping_p99_ms"),
          ", ".join(f"{key} {count}" for key, count in run["counted"].items()) or "nothing")
         for how, run in rekeyed.items()])]
    return lines


def idle_text(found):
    return ["", "## Idle peers", "", *table(
        ("", "peers", "% of a core", "memory MB", "memory after load MB"),
        [(one["subject"], str(one["peers"]), f"{one['core_percent']:.2f}",
          f"{one['idle_memory_mb']:.1f}",
          f"{one['memory_mb']:.1f}" if "memory_mb" in one else "-") for one in found])]


def markdown(found):
    f, results = found["facts"], Results(found)
    others = f["others_cores"]
    lines = [f"{f['cpu']}, {f['cores']} cores, {f['machine']}, Linux {f['kernel']}; "
             f"weft {f['commit']}; {f['rounds']} interleaved rounds of {f['seconds']} s"
             f"{', fewer where the time was up' if f['cut'] else ''}; TCP "
             f"{'cubic' if f['cubic'] else 'of the system'}; median (lowest-highest).",
             f"Cores that others kept busy between the rounds: {others['median']:.2f} "
             f"({others['min']:.2f}-{others['max']:.2f}) of {f['cores']}."
             if others else "",
             *[f"{name}: {version}." for name, version in found["versions"].items() if version]]
    if any(group["name"] == "peers" and {"weft", "null"} <= {r["subject"] for r in group["rows"]}
           for group in found["groups"]):
        lines += ["", *floors(results)]
    for group in found["groups"]:
        lines += group_text(results, group)
    if found.get("idle"):
        lines += idle_text(found["idle"])
    if found.get("rekeys"):
        lines += rekeys_text(found["rekeys"])
    for name, said in found.get("micro", {}).items():
        lines += ["", f"## {name}", "", *(f"\t{line}" for line in said.splitlines())]
    lines += [f"\nNot measured: {gap}" for gap in found.get("gaps", [])]
    return "\n".join(lines) + "\n"
