"""The foreign daemons: Debian roots that tools/peers built, entered beside a namespace."""
import os
import subprocess
from pathlib import Path

from .core import Failed, run, wait_until

REPO = Path(__file__).resolve().parents[2]
BUILD_S = 1800.0


def peer_root(name):
    """The path of a built root ("bookworm", "trixie", "forky"); builds it when it is missing."""
    done = run([REPO / "tools/peers", name], check=False, timeout=BUILD_S)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return Path(done.stdout.strip())


class PeerRoot:
    """A peer's root as a process in a namespace sees it, with mounts of its own.

    /run is empty and private, /dev is the host's (so /dev/net/tun is there), and `self.dir` on
    the host is /mnt inside. The root itself, shared by all tests, is not written to.
    """

    def __init__(self, ns, root, label):
        self.ns = ns
        self.root = Path(root)
        self.label = label
        self.dir = ns.lab.dir / f"{ns.label}-{label}"
        self.dir.mkdir()
        self.holder = ns.start(
            "unshare", "-m", "sh", "-ec",
            'mount --make-rprivate /; mount --bind /dev "$1/dev"; mount -t proc proc "$1/proc"\n'
            'mount -t tmpfs none "$1/run"; mount --bind "$2" "$1/mnt"\n'
            'exec chroot "$1" sleep infinity', "sh", self.root, self.dir, name=f"{label}-root")
        wait_until(self._entered, 5.0, f"{self.root} to be entered")

    def _entered(self):
        if not self.holder.running:
            raise Failed(f"cannot enter {self.root}: {self.holder.log()}")
        try:
            comm = Path(f"/proc/{self.holder.pid}/comm").read_text()
            return comm == "sleep\n" and os.readlink(f"/proc/{self.holder.pid}/root") != "/"
        except OSError:
            return False

    def argv(self, command):
        return ["nsenter", "-t", self.holder.pid, "-m", "-n", "-r", "-w", *command]

    def run(self, *command, check=True, timeout=60.0):
        return run(self.argv(command), check=check, timeout=timeout)

    def start(self, *command, name, env=None, stdin=subprocess.DEVNULL):
        return self.ns.lab.start(self.argv(command), f"{self.ns.label}-{name}", env=env,
                                 stdin=stdin)
