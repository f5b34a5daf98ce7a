"""The tunnels that are measured, one class a kind, one object an end. An end lives in a "space": a
network namespace, or the host itself in the two-host mode.

The two ends of a tunnel meet in three steps, whoever carries the offers between them: each says
offer(), each is told the other's by join(), and end 1 is told finish(). Inner addresses are of
198.18.0.0/15, which RFC 2544 sets apart for measuring; the inner MTU is 1400 for all.
"""
import re
import secrets
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from lab import (Connection, Failed, Key, PeerRoot, StrongSwan, Weftd,  # noqa: E402
                 build_folder, peer_root, registry, registry_node, wait_until)

INNER_MTU = "1400"


class End:
    """number: 1 or 2; outer, far: underlay addresses here and there."""
    net = 0  # the third byte of the inner addresses

    def __init__(self, space, number, outer, far):
        self.space, self.number, self.outer, self.far = space, number, outer, far
        self.address, self.far_address = (f"198.18.{self.net}.{i}" for i in (number, 3 - number))
        self.daemons = []

    def offer(self):
        """What the other end has to know, for JSON."""
        return {}

    def join(self, offer):
        """Takes the other end's offer and starts."""

    def finish(self):
        """Of end 1, when both have joined."""

    def version(self):
        return ""

    def close(self):
        """Takes back what outlives the daemons, where the space is not a namespace."""


class PlainEnd(End):
    """No tunnel."""

    def __init__(self, space, number, outer, far):
        super().__init__(space, number, outer, far)
        self.address, self.far_address = outer, far


class PlainOffEnd(PlainEnd):
    """No tunnel, and a wire that has no offloads. Its device is changed: only for a namespace."""

    def join(self, offer):
        device, = (link["ifname"] for link in self.space.ip_json("addr show")
                   if any(a.get("local") == self.outer for a in link["addr_info"]))
        self.space.run("ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off",
                       "tx-udp-segmentation", "off")


class NullEnd(End):
    """A forwarder with all offloads and neither cryptography nor checksums: the ceiling."""
    net = 1

    def join(self, offer):
        subprocess.run(["ninja", "-C", build_folder(), "bench/null_forwarder"], check=True,
                       stdout=subprocess.DEVNULL)
        space = self.space
        process = space.start(build_folder() / "bench/null_forwarder", "null0", self.outer,
                              self.far, "5000", name="null_forwarder")
        process.wait_log("^ready$")
        # A frame and its headers must fit into one send.
        space.ip(f"link set null0 mtu {INNER_MTU} gso_max_size 60000 up")
        space.ip(f"addr add {self.address}/24 dev null0")
        self.daemons = [process]


class WeftEnd(End):
    """weft. config: further keys of its configuration."""
    net = 2
    port = 13000

    def __init__(self, space, number, outer, far, config=None):
        super().__init__(space, number, outer, far)
        self.config = config or {}
        self.key = Key(space.lab.dir, f"bench-{space.label}-{self.port}")
        self.node = None

    def offer(self):
        return {"public": self.key.public}

    def join(self, offer):
        keys = [self.key.public, offer["public"]]
        outers = [self.outer, self.far]
        if self.number == 2:
            keys, outers = keys[::-1], outers[::-1]
        me, other = self.number, 3 - self.number
        family = "ip6" if ":" in self.outer else "ip4"
        self.node = Weftd(self.space, {
            "node": {"organization": f"bench{me}", "name": f"n{me}", "key": self.key},
            "registry": registry(*(
                (f"bench{i}", SimpleNamespace(public=key),
                 [registry_node(f"n{i}", ("0", outer, self.port))])
                for i, (key, outer) in enumerate(zip(keys, outers), 1))),
            "endpoints": [{"serial": "0", "family": family, "address": self.outer,
                           "port": self.port}],
            "tun": {"addresses": [f"{self.address}/32"]},
            "static_routes": [{"prefix": f"{self.far_address}/32", "node": f"n{other}"}],
            **self.config}, name=f"bench-{self.space.label}-{me}").start(wait=20.0)
        self.daemons = [self.node.process]

    def finish(self):
        self.node.wait_up(1, 20.0)

    def version(self):
        status = self.node.status()
        return f"weft {status['version']}, {status['crypto']}, AQM {status['aqm']['state']}"


class WireGuardGoEnd(End):
    """wireguard-go of Debian 13, with its UDP offloads."""
    net, port, device = 3, 51820, "wgbench"

    def __init__(self, space, number, outer, far):
        super().__init__(space, number, outer, far)
        self.root = PeerRoot(space, peer_root("trixie"), f"{self.device}{number}")
        self.key = self.root.run("wg", "genkey").stdout.strip()
        self._write("key", self.key)

    def _write(self, name, text):
        (self.root.dir / name).write_text(text + "\n")

    def offer(self):
        return {"public": self.root.run("sh", "-c", "wg pubkey < /mnt/key").stdout.strip()}

    def make_device(self):
        self.daemons = [self.root.start("wireguard-go", "-f", self.device, name="wireguard-go")]
        wait_until(lambda: self.root.run("wg", "show", self.device, check=False).returncode == 0,
                   10.0, "wireguard-go's device")

    def join(self, offer):
        far = f"[{self.far}]" if ":" in self.far else self.far
        self.make_device()
        self.root.run("wg", "set", self.device, "listen-port", self.port, "private-key",
                      "/mnt/key", "peer", offer["public"], "allowed-ips",
                      f"{self.far_address}/32", "endpoint", f"{far}:{self.port}")
        self.space.ip(f"addr add {self.address}/24 dev {self.device}")
        self.space.ip(f"link set {self.device} mtu {INNER_MTU} up")

    def version(self):
        return "wireguard-go " + self.root.run(
            "dpkg-query", "-W", "-f", "${Version}", "wireguard-go").stdout


class WireGuardKernelEnd(WireGuardGoEnd):
    """WireGuard of the kernel, where it has it."""
    net, port, device = 4, 51821, "wgkernel"

    def make_device(self):
        self.space.ip(f"link add {self.device} type wireguard")

    def version(self):
        return "of the kernel"

    def close(self):
        self.space.ip(f"link del {self.device}", check=False)


class OpenVpnEnd(End):
    """OpenVPN of Debian 13 between two: TLS with the certificates' fingerprints, AES-256-GCM, in
    user space (no DCO)."""
    net, port = 5, 1194

    def __init__(self, space, number, outer, far):
        super().__init__(space, number, outer, far)
        self.root = PeerRoot(space, peer_root("bench"), f"ovpn{number}")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                      "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "30",
                      "-subj", f"/CN=bench{number}")

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.root.dir, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise Failed(f"openssl {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def offer(self):
        said = self._openssl("x509", "-in", "cert.pem", "-noout", "-fingerprint", "-sha256")
        return {"fingerprint": said.strip().partition("=")[2]}

    def join(self, offer):
        if not re.fullmatch(r"[0-9A-F:]{95}", offer["fingerprint"]):
            raise Failed("the other end's fingerprint is none")
        family = "udp6" if ":" in self.outer else "udp4"
        words = {"dev": "tunovpn", "dev-type": "tun", "proto": family, "local": self.outer,
                 "lport": self.port, "remote": f"{self.far} {self.port}",
                 "ifconfig": f"{self.address} {self.far_address}", "tun-mtu": INNER_MTU,
                 "data-ciphers": "AES-256-GCM", "cert": "/mnt/cert.pem", "key": "/mnt/key.pem",
                 "peer-fingerprint": offer["fingerprint"], "sndbuf": 1 << 20, "rcvbuf": 1 << 20}
        flags = ["tls-server", "dh none"] if self.number == 2 else ["tls-client"]
        flags += ["disable-dco", "fast-io", "persist-tun", "verb 3"]
        (self.root.dir / "conf").write_text(
            "".join(f"{key} {value}\n" for key, value in words.items())
            + "".join(f"{flag}\n" for flag in flags))
        self.daemons = [self.root.start("openvpn", "--config", "/mnt/conf", name="openvpn")]

    def finish(self):
        self.daemons[0].wait_log("Initialization Sequence Completed", 20.0)

    def version(self):
        said = self.root.run("openvpn", "--version", check=False).stdout
        return ", ".join(re.findall(r"^OpenVPN [\d.]+|OpenSSL [\d.]+", said, re.MULTILINE))


class LibipsecEnd(End):
    """strongSwan of Debian 13 with kernel-libipsec: ESP in user space."""
    net, port = 6, 14500

    def __init__(self, space, number, outer, far):
        super().__init__(space, number, outer, far)
        self.key = Key(space.lab.dir, f"libipsec-{space.label}")
        self.swan = None

    def offer(self):
        return {"public": self.key.public}

    def join(self, offer):
        me, other = ((f"swan{i}", f"s{i}", "0") for i in (self.number, 3 - self.number))
        self.swan = StrongSwan(self.space, "trixie", Connection(
            me, other, self.key, SimpleNamespace(public=offer["public"]), self.outer, self.far,
            proposals="aes256gcm16-prfsha512-x25519", esp_proposals="aes256gcm16",
            local_port=self.port, remote_port=self.port), port=self.port).start()
        self.swan.tunnel(f"{self.address}/32", [f"{self.far_address}/32"])
        self.space.ip(f"link set ipsec0 mtu {INNER_MTU}")
        self.daemons = [self.swan.charon]

    def finish(self):
        self.swan.initiate()

    def version(self):
        return f"strongSwan {self.swan.version()}"


class KernelIpsecEnd(End):
    """ESP of the kernel with keys written by hand, no UDP around it, where the kernel has it."""
    net = 7
    what = "aead", "rfc4106(gcm(aes))"

    def __init__(self, space, number, outer, far):
        super().__init__(space, number, outer, far)
        self.made = []  # states
        # what comes in is under the key and SPI that this end chose
        self.inbound = {"spi": f"0x{secrets.randbits(31) | 1 << 30:08x}",
                        "key": "0x" + secrets.token_hex(36)}

    def offer(self):
        return self.inbound

    def _xfrm(self, *words, check=True):
        return self.space.run("ip", "xfrm", *words, check=check)

    def join(self, offer):
        if not all(re.fullmatch("0x[0-9a-f]{8,72}", offer[key]) for key in ("spi", "key")):
            raise Failed("the other end's SPI or key is none")
        self._state(self.outer, self.far, offer)
        self._state(self.far, self.outer, self.inbound)
        here, there = f"{self.address}/32", f"{self.far_address}/32"
        for direction, src, dst, ends in (
                ("out", here, there, (self.outer, self.far)),
                ("in", there, here, (self.far, self.outer))):
            self._xfrm("policy", "add", "src", src, "dst", dst, "dir", direction, "tmpl", "src",
                       ends[0], "dst", ends[1], "proto", "esp", "reqid", 77, "mode", "tunnel")
        way, = self.space.ip_json(f"route get {self.far}")
        via = f"via {way['gateway']} " if "gateway" in way else ""
        self.space.ip(f"addr add {here} dev lo")
        self.space.ip(f"route add {there} {via}dev {way['dev']} src {self.address} "
                      f"mtu {INNER_MTU}")

    def _state(self, src, dst, half):
        self._xfrm("state", "add", "src", src, "dst", dst, "proto", "esp", "spi", half["spi"],
                   "reqid", 77, "mode", "tunnel", "replay-window", 1024, "flag", "esn",
                   *self.what, half["key"], 128)
        self.made.append((src, dst, half["spi"]))

    def version(self):
        return "of the kernel"

    def close(self):
        for src, dst, spi in self.made:
            self._xfrm("state", "delete", "src", src, "dst", dst, "proto", "esp", "spi", spi,
                       check=False)
        here, there = f"{self.address}/32", f"{self.far_address}/32"
        for direction, src, dst in (("out", here, there), ("in", there, here)):
            self._xfrm("policy", "delete", "src", src, "dst", dst, "dir", direction, check=False)
        self.space.ip(f"route del {there}", check=False)
        self.space.ip(f"addr del {here} dev lo", check=False)
