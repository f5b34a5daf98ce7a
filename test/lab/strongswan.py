"""strongSwan (charon-systemd, swanctl) in a namespace, with kernel-libipsec as its data path.

kernel-libipsec puts one TUN `ipsec0` into the namespace. With the default fwmark "0x42" its own
table 220 is looked up by nobody, and the main table decides what goes into ipsec0, as in a mesh:
give ipsec0 an address and routes. "!0x42" sends all but charon's own packets through table 220,
that is, the traffic selectors decide (IPv4 only: it never installs ::/0).
"""
import re
from dataclasses import dataclass, field

from .core import Failed, wait_until
from .peers import PeerRoot, peer_root

PLUGINS = ("random nonce openssl pem pkcs1 pkcs8 pubkey hmac kdf curve25519 vici socket-default "
           "kernel-libipsec kernel-netlink updown")
HYBRID = "aes256gcm16-prfsha512-x25519-ke1_mlkem768"
HYBRID_ESP = "aes256gcm16-x25519-ke1_mlkem768"
CLASSIC = "aes256gcm16-prfsha512-x25519"
CLASSIC_ESP = "aes256gcm16-x25519"

OID_O, OID_CN, OID_SERIAL = b"\x55\x04\x0a", b"\x55\x04\x03", b"\x55\x04\x05"
UTF8, PRINTABLE = 0x0c, 0x13


def _der(tag, body):
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + body


def ranet_dn(organization, common_name, serial):
    """The identity of an endpoint as ranet builds it: a DER Name, in hexadecimal."""
    sets = b""
    for oid, tag, text in ((OID_O, UTF8, organization), (OID_CN, UTF8, common_name),
                           (OID_SERIAL, PRINTABLE, str(serial))):
        sets += _der(0x31, _der(0x30, _der(0x06, oid) + _der(tag, text.encode())))
    return _der(0x30, sets).hex()


@dataclass
class Connection:
    """One connection of swanctl.conf, with ranet's settings where nothing else is said.

    local, remote: (organization, common name, serial); key: a Key, ours; peer: the peer's Key.
    proposals None: strongSwan's defaults, in IKE and ESP. settings, child_settings: further or
    other lines of the connection and of its child "default"; None leaves a line out.
    """
    local: tuple
    remote: tuple
    key: object
    peer: object
    local_addr: str
    remote_addr: str
    name: str = "c"
    proposals: str = HYBRID
    esp_proposals: str = HYBRID_ESP
    local_port: int = 13000
    remote_port: int = 13000
    settings: dict = field(default_factory=dict)
    child_settings: dict = field(default_factory=dict)

    def tree(self):
        """The connection as nested dicts."""
        child = {"local_ts": "0.0.0.0/0, ::/0", "remote_ts": "0.0.0.0/0, ::/0",
                 "mode": "tunnel", "start_action": "none", "dpd_action": "restart",
                 "close_action": "none", "esp_proposals": self.esp_proposals}
        tree = {"version": 2, "encap": "yes", "mobike": "no", "local_addrs": self.local_addr,
                "remote_addrs": self.remote_addr, "local_port": self.local_port,
                "remote_port": self.remote_port, "dpd_delay": 10, "keyingtries": 0,
                "unique": "replace", "proposals": self.proposals}
        tree.update(self.settings)
        child.update(self.child_settings)
        for side, identity in (("local", self.local), ("remote", self.remote)):
            tree[side] = {"auth": "pubkey", "pubkeys": f"{self.name}-{side}.pem",
                          "id": f'"asn1dn:#{ranet_dn(*identity)}"'}
        tree["children"] = {"default": child}
        return tree


def _conf(tree, depth=0):
    """Nested dicts in strongSwan's form; each bracket on a line of its own, as 5.9 wants it."""
    pad = "  " * depth
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{pad}{key} {{", _conf(value, depth + 1) + f"{pad}}}"]
        elif value is not None:
            lines.append(f"{pad}{key} = {value}")
    return "".join(line + "\n" for line in lines)


def parse_pretty(text):
    """What swanctl --pretty prints, as nested dicts and lists. Returns the list of messages."""
    messages, stack = [], []
    for line in text.splitlines():
        line = line.strip()
        if not stack and not line.endswith("{"):
            continue
        if line in ("}", "]"):
            stack.pop()
        elif line.endswith("{"):
            found = {}
            if stack:
                stack[-1][line[:-1].strip()] = found
            else:
                messages.append(found)
            stack.append(found)
        elif line.endswith("= [") or line.endswith("=["):
            found = []
            stack[-1][line.split("=")[0].strip()] = found
            stack.append(found)
        elif isinstance(stack[-1], list):
            stack[-1].append(line)
        else:
            key, _, value = line.partition("=")
            stack[-1][key.strip()] = value.strip()
    return messages


class StrongSwan:
    """charon in a namespace. root: "bookworm" (5.9.8), "trixie" (6.0.1), "forky" (6.1) or a path.

    charon: further or other settings of charon (nested dicts), e.g. {"retransmit_tries": 2}.
    One charon has one peer with selectors 0/0: a namespace with two such links has two of them, of
    different `port` and `name`; their devices are ipsec0 and ipsec1 in the order of their start.
    """

    LOG = "stderr"
    OTHERS = {}  # further sections of strongswan.conf

    def __init__(self, ns, root, *connections, fwmark="0x42", port=13000, charon=None,
                 name="strongswan"):
        self.ns = ns
        path = root if "/" in str(root) else peer_root(root)
        self.root = PeerRoot(ns, path, name)
        self.charon = None
        plugins = {"kernel-libipsec": {"load": "yes"}, "kernel-netlink": {"fwmark": fwmark}}
        if fwmark.startswith("!"):
            plugins["socket-default"] = {"fwmark": fwmark[1:]}
        self._settings = {"load": PLUGINS, "port": 0, "port_nat_t": port, "retransmit_timeout": 2,
                          "plugins": plugins, **(charon or {})}
        self.configure(*connections)

    def configure(self, *connections):
        """Writes the files; load() makes a running charon take them."""
        log = {"default": 1, "flush_line": "yes", "time_format": "%T", "time_add_ms": "yes"}
        tree = {"filelog": {"log": {"path": self.LOG, **log}}, **self._settings}
        self._write("strongswan.conf", _conf({"charon-systemd": tree, **self.OTHERS}))
        for one in connections:
            self._write(f"swanctl/private/{one.name}.pem", one.key.path.read_text())
            self._write(f"swanctl/pubkey/{one.name}-local.pem", one.key.public)
            self._write(f"swanctl/pubkey/{one.name}-remote.pem", one.peer.public)
        text = _conf({"connections": {one.name: one.tree() for one in connections}})
        self._write("swanctl/swanctl.conf", text)

    def _write(self, name, text):
        path = self.root.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def start(self):
        """Starts charon, waits for it and loads the connections."""
        self.charon = self.root.start("charon-systemd", name="charon",
                                      env={"STRONGSWAN_CONF": "/mnt/strongswan.conf"})
        wait_until(lambda: self.swanctl("--stats", check=False).returncode == 0, 10.0,
                   "charon to answer")
        self.load()
        return self

    def swanctl(self, *words, check=True, timeout=60.0):
        """swanctl in the root; the CompletedProcess."""
        return self.root.run("env", "STRONGSWAN_CONF=/mnt/strongswan.conf",
                             "SWANCTL_DIR=/mnt/swanctl", "swanctl", *words, check=check,
                             timeout=timeout)

    def load(self):
        self.swanctl("--load-all", "--noprompt")

    def initiate(self, child="default", timeout=10):
        """Brings the child up; Failed with charon's words when it does not come."""
        self.swanctl("--initiate", "--child", child, "--timeout", timeout)

    def rekey_child(self, child="default"):
        self.swanctl("--rekey", "--child", child)

    def rekey_ike(self, ike="c"):
        self.swanctl("--rekey", "--ike", ike)

    def terminate(self, ike="c"):
        """Deletes the IKE SA and its children, telling the peer."""
        self.swanctl("--terminate", "--ike", ike)

    def sas(self, ike="c"):
        """The IKE SAs of a connection as dicts with swanctl's names; "children" is a list."""
        text = self.swanctl("--list-sas", "--pretty").stdout
        found = []
        for message in parse_pretty(text):
            for name, sa in message.items():
                if name == ike and isinstance(sa, dict) and "uniqueid" in sa:
                    found.append(dict(sa, children=list(sa.get("child-sas", {}).values())))
        return found

    def children(self, ike="c"):
        return [child for sa in self.sas(ike) for child in sa["children"]]

    def wait_up(self, ikes=1, children=1, timeout=10.0, ike="c"):
        """Waits for exactly so many established IKE SAs and installed children; returns sas().

        After a rekey charon keeps the old child 5 s longer (state REKEYED, not counted).
        """
        sas = []

        def counted():
            sas[:] = self.sas(ike)
            up = [sa for sa in sas if sa["state"] == "ESTABLISHED"]
            installed = [child for sa in up for child in sa["children"]
                         if child["state"] == "INSTALLED"]
            if (len(up), len(installed)) == (ikes, children) and len(sas) == ikes:
                return True
            raise Failed(f"{sas}")
        wait_until(counted, timeout, f"{ikes} IKE SAs, {children} children", every=0.1)
        return sas

    def tunnel(self, addresses, routes=()):
        """Addresses for ipsec0, and prefixes that the main table sends into it."""
        self.ns.addr(addresses, "ipsec0")
        for prefix in routes:
            self.ns.route(prefix, "dev ipsec0")

    def stop(self):
        """SIGTERM: charon deletes its SAs and ends."""
        self.charon.stop()

    def kill(self):
        """kill -9: the peer is told nothing."""
        self.charon.kill()

    def log(self):
        return self.charon.log()

    def version(self):
        return re.search(r"strongSwan (?:swanctl )?([\d.]+)", self.swanctl("--version").stdout)[1]
