"""A wire between two namespaces that treats frames as told (test/linkem)."""
import json
import os
import socket
import tempfile
from pathlib import Path

from .core import Failed, run, wait_until

REPO = Path(__file__).resolve().parents[2]
SOURCES = sorted((REPO / "test/linkem").glob("*.c"))


def linkem_program(lab):
    """The emulator out of the build folder, or compiled for this lab where that has none."""
    built = Path(os.environ.get("WEFT_BUILD", REPO / "build")) / "test/linkem/linkem"
    newest = max(source.stat().st_mtime for source in SOURCES)
    if built.exists() and built.stat().st_mtime >= newest:
        return built
    program = lab.dir / "linkem"
    if not program.exists():
        run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-o", program, *SOURCES])
    return program


class EmulatedLink:
    """Joins namespaces a and b by a device in each; `dev_a`, `dev_b` are their names.

    Settings are those of struct linkem_settings (test/linkem/linkem.h): delay_ms, jitter_ms,
    loss, reorder, reorder_ms, duplicate, rate_mbit, queue_bytes, mtu, ce, ce_bytes. They hold for
    each direction. mtu is what passes the wire in silence; what the devices announce as theirs
    stays 1500, or the number given as dev_mtu.
    """

    def __init__(self, lab, a, b, addr_a="", addr_b="", seed=1, settings=None):
        settings = dict(settings or {})
        dev_mtu = settings.pop("dev_mtu", 1500)
        self.a, self.b = a, b
        self.dev_a, self.dev_b = a.new_device(), b.new_device()
        # a UNIX socket's name is short, and pytest's folders are not
        self._control = Path(tempfile.mkdtemp(dir=lab.dir)) / "s"
        self.process = lab.start(
            [linkem_program(lab), "--control", self._control, "--seed", seed,
             "--netns-a", f"/run/netns/{a.name}", "--tap-a", self.dev_a,
             "--netns-b", f"/run/netns/{b.name}", "--tap-b", self.dev_b],
            f"link-{a.label}-{b.label}")
        wait_until(self._listens, 5.0, "the link emulator to start")
        if settings:
            self.set(**settings)
        for ns, dev, address in ((a, self.dev_a, addr_a), (b, self.dev_b, addr_b)):
            ns.ip(f"link set {dev} mtu {dev_mtu} up")
            ns.addr(address, dev)

    def _listens(self):
        if not self.process.running:
            raise Failed(self.process.log())
        return self.show()

    def _ask(self, line):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5.0)
            try:
                sock.connect(str(self._control))
                sock.sendall(line.encode() + b"\n")
                reply = sock.makefile().readline()
            except OSError as why:
                raise Failed(f"link emulator: {why}; {self.process.log()}") from None
        if not reply or reply.startswith("error"):
            raise Failed(f"link emulator: {line}: {reply.strip()}")
        return reply

    def set(self, direction="both", **settings):
        """Changes settings now; direction: "ab" (from a to b), "ba" or "both"."""
        words = " ".join(f"{key}={value}" for key, value in settings.items())
        self._ask(f"set {direction} {words}")

    def cut(self, direction="both"):
        """Nothing passes any more; the devices stay up."""
        self.set(direction, loss=1)

    def restore(self, direction="both"):
        self.set(direction, loss=0)

    def show(self):
        """{"ab": {settings and counters}, "ba": {...}}"""
        return json.loads(self._ask("show"))
