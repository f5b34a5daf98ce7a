"""Babel speakers: this tree's room on real sockets, BIRD 2 and babeld, and what each believes.

A table is {(prefix, source prefix or ""): metric} of the routes in use that others announced.
"""
import json
import re
import socket

from .core import Failed, wait_until
from .peers import PeerRoot, peer_root
from .traffic import ping_range
from .weft import build_folder

ANSWER_S = 10.0
ROUTE = re.compile(r"(?P<prefix>\S+/\d+)(?: from (?P<source>\S+/\d+))?\s+(?P<next_hop>\S+)\s+"
                   r"\S+\s+(?P<metric>\d+)\s+(?P<flags>[*+ ]*)\s+\d+\s")
BIRD_CONF = """
router id %(router_id)s;
ipv6 sadr table sadr6;
protocol device { scan time 1; }
protocol static { ipv4; %(v4)s }
protocol static { ipv6 sadr; %(v6)s }
%(kernel)s
protocol babel {
  ipv4 { import all; export where source ~ [ RTS_STATIC, RTS_BABEL ]; };
  ipv6 sadr { table sadr6; import all; export where source ~ [ RTS_STATIC, RTS_BABEL ]; };
  interface "%(interface)s" { %(settings)s };
}
"""
BIRD_KERNEL = """
protocol kernel { ipv4 { import none; export where source = RTS_BABEL; }; }
protocol kernel { ipv6 sadr { import none; export where source = RTS_BABEL; }; }
"""


def split_routes(prefixes):
    """((prefix, source), …) by family: ([IPv4], [IPv6])."""
    return ([one for one in prefixes if ":" not in one[0]],
            [one for one in prefixes if ":" in one[0]])


class Speaker:
    """Our room in a namespace; words are those of test/interop/babel_driver.c."""

    def __init__(self, ns, number, *words):
        self.state_file = ns.lab.dir / f"{ns.label}-state.json"
        self.process = ns.start(build_folder() / "test/interop/babel_driver", self.state_file,
                                number, *words, name="babel")

    def state(self):
        if not self.process.running:
            raise Failed(f"the driver ended: {self.process.log()}")
        try:
            return json.loads(self.state_file.read_text())
        except FileNotFoundError:
            raise Failed("no state yet") from None

    def route(self, prefix, source=""):
        return next((route for route in self.state()["routes"]
                     if (route["prefix"], route["source"]) == (prefix, source)
                     and route["selected"]), None)

    def wait_route(self, prefix, source="", metric=None, timeout=30.0):
        def found():
            route = self.route(prefix, source)
            return route if route and metric in (None, route["metric"]) else None
        return wait_until(found, timeout, f"a route to {prefix} from {source or 'any'}")

    def table(self):
        return {(route["prefix"], route["source"]): route["metric"]
                for route in self.state()["routes"] if route["selected"] and not route["own"]}


class Bird:
    """BIRD of Debian testing in a namespace.

    settings: those of its Babel interfaces, which `interface` is a pattern of; prefixes:
    ((prefix, source), …) to announce; kernel: whether the namespace's kernel gets its routes.
    """

    def __init__(self, ns, interface, settings, prefixes=(), router_id="192.0.2.77", kernel=False):
        self.root = PeerRoot(ns, peer_root("forky"), "bird")
        v4, v6 = split_routes(prefixes)
        self._words = {
            "router_id": router_id, "interface": interface,
            "kernel": BIRD_KERNEL if kernel else "",
            "v4": " ".join(f"route {prefix} blackhole;" for prefix, _ in v4),
            "v6": " ".join(f"route {prefix} from {source or '::/0'} blackhole;"
                           for prefix, source in v6)}
        self._write(settings)
        self.process = self.root.start("bird", "-f", "-c", "/mnt/bird.conf", "-s", "/run/bird.ctl",
                                       name="bird")

    def _write(self, settings):
        (self.root.dir / "bird.conf").write_text(
            BIRD_CONF % dict(self._words, settings=settings))

    def configure(self, settings):
        """Other settings for its interfaces, while it runs."""
        self._write(settings)
        assert "Reconfigured" in self.ask("configure")

    def ask(self, *words):
        return self.root.run("birdc", "-s", "/run/bird.ctl", *words).stdout

    def table(self):
        found = {}
        for line in self.ask("show", "babel", "routes").splitlines():
            match = ROUTE.match(line)
            if match and "*" in match["flags"]:
                source = "" if match["source"] == "::/0" else match["source"] or ""
                found[match["prefix"], source] = int(match["metric"])
        return found

    def neighbours(self):
        """As lists of columns: address, interface, metric, …, the round trip in ms last."""
        return [line.split() for line in self.ask("show", "babel", "neighbors").splitlines()
                if line.startswith("fe80::")]

    def round_trips(self):
        """In ms, of the neighbours that it has measured."""
        return [float(row[-1]) for row in self.neighbours() if re.fullmatch(r"[\d.]+", row[-1])
                and float(row[-1]) > 0]


class Babeld:
    """The host's babeld in a namespace. settings: those of its interfaces; keys: a line that
    defines one; prefixes: ((prefix, source), …) to announce, as routes of the namespace's kernel.
    """

    def __init__(self, ns, devices, settings, keys="", prefixes=()):
        self.ns = ns
        self.devices = devices
        self.path = ns.lab.dir / f"{ns.label}-babeld"
        self._socket = self.path.with_suffix(".sock")
        self._keys, self._redistribute = [keys] if keys else [], ["redistribute local deny"]
        for prefix, source in prefixes:
            ns.route(prefix, f"{'from ' + source if source else ''} dev lo proto static")
            self._redistribute.insert(
                0, f"redistribute ip {prefix} eq {prefix.split('/')[1]} proto 4 allow")
        self._start(settings)

    def _start(self, settings):
        conf = self.path.with_suffix(".conf")
        lines = [f"local-path {self._socket}", *self._keys,
                 *(f"interface {dev} {settings}" for dev in self.devices), *self._redistribute]
        conf.write_text("".join(line + "\n" for line in lines))
        self.process = self.ns.start(
            "babeld", "-c", conf, "-S", self.path.with_suffix(".state"), "-I",
            self.path.with_suffix(".pid"), "-L", "/dev/stderr", *self.devices, name="babeld")

    def configure(self, settings):
        """Other settings for its interfaces: a new start, as the router that it was."""
        self.process.stop()
        self._start(settings)

    def ask(self, line):
        """A line to its control socket; the answer's lines, "ok" last."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(ANSWER_S)
            try:
                sock.connect(str(self._socket))
                stream = sock.makefile("rw")
                answers = []
                for words in (None, line):
                    if words:
                        stream.write(words + "\n")
                        stream.flush()
                    answers = []
                    while not answers or answers[-1].split(" ")[0] not in ("ok", "no", "bad"):
                        got = stream.readline()
                        if not got:
                            raise Failed(f"babeld closed: {answers}; {self.process.log()}")
                        answers.append(got.rstrip("\n"))
                return answers
            except OSError as why:
                raise Failed(f"babeld: {why}; {self.process.log()}") from None

    def _dump(self, what):
        """The words of each line "add WHAT …" of a dump."""
        return [line.split(" ") for line in self.ask("dump") if line.startswith(f"add {what} ")]

    @staticmethod
    def _word(words, name):
        return words[words.index(name) + 1]

    def table(self):
        found = {}
        for words in self._dump("route"):
            if self._word(words, "installed") == "yes":
                source = self._word(words, "from")
                source = "" if source in ("::/0", "0.0.0.0/0") else source
                found[self._word(words, "prefix"), source] = int(self._word(words, "metric"))
        return found

    def round_trips(self):
        return [float(self._word(words, "rtt")) for words in self._dump("neighbour")
                if "rtt" in words]


class Meanwhile:
    """Whether a round trip is within 1 ms of what pings over the same link take at this time.

    The wire has rtt_ms; what a busy machine adds to it, it adds to all that crosses the wire.
    """

    def __init__(self, space, host, rtt_ms):
        self.space, self.host, self.rtt_ms = space, host, rtt_ms

    def __call__(self, found_ms):
        low, high = ping_range(self.space, self.host, count=10)
        return self.rtt_ms - 1 < found_ms and low - 1 < found_ms < high + 1
