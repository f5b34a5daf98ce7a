"""A Debian kernel of its own under qemu's software emulation, as a router on devices of the lab.

For what the kernel here may lack. It boots in some ten seconds from a file system in memory:
busybox, iproute2 and the modules that it is told. Facts, never figures, come out of it.
"""
import lzma
import re
import stat
import subprocess

from .core import Failed, wait_until
from .peers import PeerRoot, peer_root

BOOT_S = 90.0
MEMORY_MB = 192
MODULES = ("net/core/failover", "drivers/net/net_failover", "drivers/net/virtio_net")
INIT = """#!/bin/busybox sh
export PATH=/sbin:/bin
/bin/busybox --install -s /bin
ip() {{ /sbin/ip "$@"; }}
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
for module in {modules}; do insmod /modules/$module; done
ip link set lo up
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo
echo @READY
while read -r line; do eval "$line"; echo "@END $?"; done
poweroff -f
"""


def _entry(name, mode, data, number):
    """One of a cpio archive in the form "newc"."""
    words = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % word for word in words) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


class _Archive:
    def __init__(self):
        self.parts, self.seen = [], set()

    def _add(self, name, mode, data=b""):
        self.seen.add(name)
        self.parts.append(_entry(name, mode, data, len(self.seen)))

    def folder(self, name):
        if name and name not in self.seen:
            self.folder(name.rpartition("/")[0])
            self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name, data):
        self.folder(name.rpartition("/")[0])
        self._add(name, stat.S_IFREG | 0o755, data)

    def bytes(self):
        return b"".join(self.parts) + _entry("TRAILER!!!", 0, b"", 0)


class VirtualMachine:
    """Devices tap0, tap1 … of the namespace are its eth0, eth1 …; run() is its shell.

    modules: further ones, by their paths in the kernel's folder without ".ko.xz", in order.
    """

    def __init__(self, ns, devices=1, modules=()):
        self.ns = ns
        self.root = PeerRoot(ns, peer_root("vm"), "vm")
        self.devices = [f"tap{i}" for i in range(devices)]
        self.modules = [*MODULES, *modules]
        self.process = None

    def _archive(self):
        root = self.root.root
        made = _Archive()
        for name in ("proc", "sys", "dev", "run", "sbin"):
            made.folder(name)
        made.file("bin/busybox", (root / "bin/busybox").read_bytes())
        made.file("sbin/ip", (root / "bin/ip").read_bytes())
        libraries = self.root.run("ldd", "/bin/ip").stdout
        for path in sorted(set(re.findall(r"(/\S+) \(0x", libraries))):
            made.file(path[1:], (root / path[1:]).read_bytes())
        folder, = (root / "usr/lib/modules").glob("*/kernel")
        for module in self.modules:
            packed = (folder / f"{module}.ko.xz").read_bytes()
            made.file(f"modules/{module.rpartition('/')[2]}.ko", lzma.decompress(packed))
        names = " ".join(f"{module.rpartition('/')[2]}.ko" for module in self.modules)
        made.file("init", INIT.format(modules=names).encode())
        return made.bytes()

    def start(self):
        """Makes the devices, boots, and waits for its shell."""
        (self.root.dir / "initrd").write_bytes(self._archive())
        kernel, = (self.root.root / "boot").glob("vmlinuz-*")
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", MEMORY_MB,
                "-serial", "stdio", "-kernel", f"/boot/{kernel.name}", "-initrd", "/mnt/initrd",
                "-append", "console=ttyS0 quiet mitigations=off nokaslr tsc=reliable "
                           "no_timer_check panic=-1"]
        for i, device in enumerate(self.devices):
            self.ns.ip(f"tuntap add dev {device} mode tap vnet_hdr")
            self.ns.up(device)
            argv += ["-netdev", f"tap,id=n{i},ifname={device},script=no,downscript=no", "-device",
                     f"virtio-net-pci,netdev=n{i},romfile=,mac=52:54:00:00:00:{i + 1:02x}"]
        self.process = self.root.start(*argv, name="qemu", stdin=subprocess.PIPE)
        wait_until(lambda: not self.process.running or "@READY\n" in self.process.log(), BOOT_S,
                   "the virtual machine to boot")
        if not self.process.running:
            raise Failed(f"the virtual machine ended: {self.process.log()[-2000:]}")
        return self

    def run(self, *lines, timeout=20.0):
        """Runs shell lines of its own one after the other, each has to do; what they print."""
        return "".join(self._run(line, timeout) for line in lines)

    def _run(self, line, timeout):
        before = len(self.process.log())
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        done = wait_until(lambda: re.search(r"(?s)(.*)@END (\d+)\n", self.process.log()[before:]),
                          timeout, f"the virtual machine to do {line!r}")
        if done[2] != "0":
            raise Failed(f"{line!r} in the virtual machine: {done[1]}")
        return done[1]
