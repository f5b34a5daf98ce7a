"""What bench/run measures: each subject has two namespaces a and b joined by a veth of its own, the
address of b to be reached, and the daemons whose time and memory count."""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from lab import Mesh, PeerRoot, build_folder, peer_root, wait_until  # noqa: E402

INNER_MTU = "1400"


class Plain:
    """No tunnel: what the veth itself can do."""
    name = "veth"

    def __init__(self, lab):
        self.a, self.b = lab.ns("plain-a"), lab.ns("plain-b")
        lab.veth(self.a, self.b, "10.0.0.1/24", "10.0.0.2/24")
        self.address = "10.0.0.2"
        self.daemons = []


class Null:
    """A forwarder with all offloads and neither cryptography nor checksums: the ceiling."""
    name = "null"

    def __init__(self, lab):
        subprocess.run(["ninja", "-C", build_folder(), "bench/null_forwarder"], check=True,
                       stdout=subprocess.DEVNULL)
        self.a, self.b = lab.ns("null-a"), lab.ns("null-b")
        lab.veth(self.a, self.b, "10.0.0.1/24", "10.0.0.2/24")
        self.address = "10.78.0.2"
        self.daemons = [self._start(ns, i) for i, ns in enumerate((self.a, self.b), 1)]

    @staticmethod
    def _start(ns, i):
        process = ns.start(build_folder() / "bench/null_forwarder", "null0", f"10.0.0.{i}",
                           f"10.0.0.{3 - i}", "5000", name="null_forwarder")
        process.wait_log("^ready$")
        # A frame and its headers must fit into one send.
        ns.run("ip", "link", "set", "null0", "mtu", INNER_MTU, "gso_max_size", "60000", "up")
        ns.run("ip", "addr", "add", f"10.78.0.{i}/24", "dev", "null0")
        return process


class Weft:
    name = "weft"

    def __init__(self, lab, crypto="auto"):
        mesh = Mesh(lab, 2, config={"plane": {"crypto": crypto}}, link="veth").start()
        mesh.wait_up()
        self.a, self.b = mesh.spaces
        self.address = mesh.inner(2)
        self.daemons = [node.process for node in mesh.nodes]
        self.says = mesh.nodes[0].status()["crypto"]


class Chain:
    """Four nodes in a row, A to D, the way found by Babel alone."""
    name = "chain"
    label, policies = "chain-", ()

    def __init__(self, lab):
        mesh = Mesh(lab, 4, label=self.label)
        remarks = mesh.registry({i: {"srv6": f"fd00:5:{i}::/64"} for i in mesh.numbers()})
        for i in mesh.numbers():
            mesh.reconfigure(
                i, registry=remarks, static_routes=[],
                peers={"include": [f"n{j}" for j in (i - 1, i + 1) if 1 <= j <= 4]},
                policies=[dict(p) for p in self.policies if i == 1])
        mesh.start()
        self.a, self.b = mesh.spaces[0], mesh.spaces[3]
        self.address = mesh.inner(4)
        self.daemons = [node.process for node in mesh.nodes]
        self.says = mesh.nodes[0].status()["crypto"]
        head = mesh.nodes[0]
        wait_until(lambda: all(p["state"] == "active" for p in head.ask("policies")["policies"])
                   and any(r["selected"] for r in
                           head.ask("routes", f"{self.address}/32")["routes"]), 60.0,
                   "the way along the chain")


class ChainBySids(Chain):
    """The same way, packet by packet by the SIDs of B, C and D."""
    name = "chain by SIDs"
    label = "sids-"
    policies = ({"name": "bench", "destination": "10.66.0.4/32", "via": ["n2", "n3"],
                 "exit": "n4"},)


class WireGuardGo:
    """wireguard-go of Debian 13, inner MTU 1400 as weft's."""
    name = "wireguard-go"

    def __init__(self, lab):
        root = peer_root("trixie")
        self.a, self.b = lab.ns("wg-a"), lab.ns("wg-b")
        lab.veth(self.a, self.b, "10.0.0.1/24", "10.0.0.2/24")
        self.address = "10.77.0.2"
        ends = [PeerRoot(ns, root, f"wg{i}") for i, ns in enumerate((self.a, self.b), 1)]
        keys = [end.run("wg", "genkey").stdout.strip() for end in ends]
        self.daemons = [end.start("wireguard-go", "-f", "wg0", name="wireguard-go") for end in ends]
        for i, end in enumerate(ends):
            self._configure(end, i, keys)

    @staticmethod
    def _public(end, key):
        (end.dir / "secret").write_text(key)
        return end.run("sh", "-c", "wg pubkey < /mnt/secret").stdout.strip()

    def _configure(self, end, i, keys):
        (end.dir / "key").write_text(keys[i])
        other = 2 - i
        peer = self._public(end, keys[1 - i])
        self._wait_device(end)
        end.run("wg", "set", "wg0", "listen-port", "51820", "private-key", "/mnt/key", "peer", peer,
                "allowed-ips", f"10.77.0.{other}/32", "endpoint", f"10.0.0.{other}:51820")
        end.run("ip", "addr", "add", f"10.77.0.{i + 1}/24", "dev", "wg0")
        end.run("ip", "link", "set", "wg0", "mtu", INNER_MTU, "up")

    @staticmethod
    def _wait_device(end):
        wait_until(lambda: end.run("wg", "show", "wg0", check=False).returncode == 0, 10.0,
                   "wireguard-go's device")


DEFAULT = (Plain.name, Null.name, Weft.name, WireGuardGo.name)
SUBJECTS = {kind.name: kind for kind in (Plain, Null, Weft, WireGuardGo, Chain, ChainBySids)}
