"""A Debian kernel of its own under qemu's software emulation, as a router on devices of the lab.

For what the kernel here may lack. It boots in some ten seconds from a file system in memory:
busybox, iproute2, and the modules and programs that it is told. Facts, never figures, come out of
it.
"""
import base64
import lzma
import re
import stat
import subprocess

from .core import Failed, wait_until
from .peers import PeerRoot, peer_root

BOOT_S = 300.0
RUN_S = 60.0
MEMORY_MB = 192
MODULES = ("virtio_net",)
CHUNK = 2000  # its terminal takes lines of 4095 bytes
INIT = """#!/bin/busybox sh
export PATH=/sbin:/bin
/bin/busybox --install -s /bin
ip() {{ /sbin/ip "$@"; }}
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mkdir -p /var
ln -s /run /var/run
for module in {modules}; do insmod /modules/$module; done
ip link set lo up
stty -F /dev/ttyS1 raw -echo
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo
echo @READY
while read -r line; do ( eval "$line" ); echo "@END $?"; done
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


class _Modules:
    """The modules of a kernel's folder, each with those that it needs, in the order to load."""

    def __init__(self, folder):
        self.paths = {path.name.partition(".")[0].replace("-", "_"): path
                      for path in folder.rglob("*.ko.xz")}
        self.data = {}

    def add(self, name):
        name = name.replace("-", "_")
        if name in self.data or name not in self.paths:
            return  # or it is built in
        data = lzma.decompress(self.paths[name].read_bytes())
        for needed in re.search(rb"\0depends=([^\0]*)\0", data)[1].decode().split(","):
            self.add(needed)
        self.data[name] = data


class VirtualMachine:
    """Devices tap0, tap1 … of the namespace are its eth0, eth1 …; run() is its shell.

    modules: further ones, by name. What is a part of its kernel, or not there, is passed over.
    programs: the peer root from which it has `ip` and `files`, paths of programs and of the
    libraries that they load by name; those that they are linked with come by themselves.
    said(): what its programs wrote to /dev/ttyS1.
    """

    def __init__(self, ns, devices=1, modules=(), programs="vm", files=(), memory_mb=MEMORY_MB):
        self.ns = ns
        self.root = PeerRoot(ns, peer_root("vm"), "vm")
        self.programs = self.root
        if programs != "vm":
            self.programs = PeerRoot(ns, peer_root(programs), "vm-programs")
        self.devices = [f"tap{i}" for i in range(devices)]
        self.modules = [*MODULES, *modules]
        self.files = ["/bin/ip", *files]
        self.memory_mb = memory_mb
        self.process = None

    def _archive(self):
        made = _Archive()
        for name in ("proc", "sys", "dev", "run", "sbin"):
            made.folder(name)
        made.file("bin/busybox", (self.root.root / "bin/busybox").read_bytes())
        root = self.programs.root
        libraries = self.programs.run("ldd", *self.files).stdout
        for path in sorted({*self.files, *re.findall(r"(/\S+) \(0x", libraries)}):
            name = "sbin/ip" if path == "/bin/ip" else path[1:]
            made.file(name, (root / path[1:]).resolve().read_bytes())
        folder, = (self.root.root / "usr/lib/modules").glob("*/kernel")
        modules = _Modules(folder)
        for name in self.modules:
            modules.add(name)
        for name, data in modules.data.items():
            made.file(f"modules/{name}.ko", data)
        names = " ".join(f"{name}.ko" for name in modules.data)
        made.file("init", INIT.format(modules=names).encode())
        return made.bytes()

    def start(self):
        """Makes the devices, boots, and waits for its shell."""
        (self.root.dir / "initrd").write_bytes(self._archive())
        kernel, = (self.root.root / "boot").glob("vmlinuz-*")
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", self.memory_mb,
                "-serial", "stdio", "-serial", "file:/mnt/said",
                "-kernel", f"/boot/{kernel.name}", "-initrd", "/mnt/initrd",
                "-append", "console=ttyS0 quiet mitigations=off nokaslr tsc=reliable "
                           "no_timer_check panic=-1"]
        for i, device in enumerate(self.devices):
            self.ns.ip(f"tuntap add dev {device} mode tap vnet_hdr")
            self.ns.up(device)
            argv += ["-netdev", f"tap,id=n{i},ifname={device},script=no,downscript=no", "-device",
                     f"virtio-net-pci,netdev=n{i},romfile=,mac=52:54:00:00:00:{i + 1:02x}"]
        self.process = self.root.start(*argv, name="qemu", stdin=subprocess.PIPE)
        wait_until(self._booted, BOOT_S, "the virtual machine to boot", every=0.1)
        if not self.process.running:
            raise Failed(f"the virtual machine ended: {self.process.log()[-2000:]}")
        return self

    def _booted(self):
        if self.process.running and "@READY\n" not in self.process.log():
            raise Failed(self.process.log()[-2000:])
        return True

    def run(self, *lines, timeout=RUN_S):
        """Runs shell lines of its own one after the other, each has to do; what they print."""
        return "".join(self.attempt(line, timeout=timeout).stdout for line in lines)

    def attempt(self, line, check=True, timeout=RUN_S):
        """Runs a shell line; the CompletedProcess."""
        before = len(self.process.log())
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        done = wait_until(lambda: re.search(r"(?s)(.*)@END (\d+)\n", self.process.log()[before:]),
                          timeout, f"the virtual machine to do {line!r}")
        if check and done[2] != "0":
            raise Failed(f"{line!r} in the virtual machine: {done[1]}")
        return subprocess.CompletedProcess(line, int(done[2]), done[1], "")

    def write(self, path, text):
        """A file of its own; the folder is made."""
        data = base64.b64encode(text.encode()).decode()
        self.run(f"mkdir -p {path.rpartition('/')[0]}", f": > {path}")
        for at in range(0, len(data), CHUNK):
            self.run(f"echo {data[at:at + CHUNK]} | base64 -d >> {path}")

    def said(self):
        return (self.root.dir / "said").read_text(errors="replace")
