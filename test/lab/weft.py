"""weftd and weft in a namespace."""
import json
import os
import re
import signal
from pathlib import Path

from .core import Failed, run, wait_until
from .schema import validate

REPO = Path(__file__).resolve().parents[2]


def build_folder():
    return Path(os.environ.get("WEFT_BUILD", REPO / "build"))


def is_sanitized():
    """Whether the programs were built with a sanitizer of memory or threads."""
    symbols = run(["nm", "-D", build_folder() / "weftd"]).stdout
    return "__asan_init" in symbols or "__tsan_init" in symbols


class Ended(Exception):
    """A daemon that should run has ended: waiting longer is of no use."""


class Key:
    """An Ed25519 key pair: `path` is the PKCS#8 PEM file, `public` the SPKI PEM text."""

    def __init__(self, folder, name):
        self.path = Path(folder) / f"{name}.key.pem"
        if not self.path.exists():
            run(["openssl", "genpkey", "-algorithm", "ED25519", "-out", self.path])
        self.public = run(["openssl", "pkey", "-in", self.path, "-pubout"]).stdout


def registry_node(name, *endpoints, **weft):
    """A node of a registry. endpoints: (serial, address or None, port); weft: its remarks."""
    node = {"common_name": name, "endpoints": []}
    for serial, address, port in endpoints:
        found = {"serial_number": str(serial), "address_family": "ip6" if ":" in (address or "")
                 else "ip4", "port": port}
        if address is not None:
            found["address"] = address
        node["endpoints"].append(found)
    if weft:
        node["remarks"] = {"weft": weft}
    return node


def registry(*organizations):
    """A registry from (organization, Key, [nodes])."""
    return [{"organization": name, "public_key": key.public, "nodes": nodes}
            for name, key, nodes in organizations]


class Weftd:
    """A weft node in a namespace. config is the configuration as a dict; a Key as node.key and a
    list as registry are written to files, control.socket is filled in when it is missing.
    """

    def __init__(self, ns, config, name=None):
        self.ns = ns
        self.name = name or ns.label
        self.dir = ns.lab.dir / f"weft-{self.name}"
        self.dir.mkdir()
        self.config_path = self.dir / "weft.yaml"
        self.registry_path = self.dir / "registry.json"
        self.socket = self.dir / "sock"
        self.process = None
        self.configure(config)

    def configure(self, config):
        """Writes another configuration; reload() makes a running daemon read it."""
        config = json.loads(json.dumps(config, default=lambda key: str(key.path)))
        if isinstance(config.get("registry"), list):
            self.write_registry(config["registry"])
            config["registry"] = str(self.registry_path)
        self.socket = Path(config.setdefault("control", {}).setdefault("socket",
                                                                       str(self.socket)))
        self._write(self.config_path, config)
        self.config = config

    def write_registry(self, entries):
        """Replaces the registry in one step, as its distributor would."""
        self._write(self.registry_path, entries)

    @staticmethod
    def _write(path, value):
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(value, indent=1))
        aside.rename(path)

    def start(self, wait=10.0, env=None, wrap=()):
        """Starts the daemon and waits until it answers (wait=None: does not wait).

        wrap: a command in front that becomes the daemon.
        """
        self.process = self.ns.start(*wrap, build_folder() / "weftd", "-c", self.config_path,
                                     name=f"weftd-{self.name}", env=env)
        if wait is not None:
            self.wait_answer(wait)
        return self

    def wait_answer(self, timeout=10.0):
        """Waits until the daemon answers `weft status`; Ended when it is gone."""
        wait_until(self._answers, timeout, f"weftd {self.name} to answer")

    def _answers(self):
        if not self.process.running:
            raise Ended(f"weftd {self.name} ended with {self.process.exit_code}: "
                              f"{self.process.log()[-2000:]}")
        return self.tool("status", check=False).returncode == 0

    def tool(self, *words, check=True, timeout=30.0):
        """weft with these words, as a person types them; the CompletedProcess."""
        return self.ns.run(build_folder() / "weft", "--socket", self.socket, *words, check=check,
                           timeout=timeout)

    def ask(self, *words, timeout=30.0):
        """weft --json with these words; the reply, by doc/schema.json, as a dict."""
        return validate(words[0], json.loads(self.tool("--json", *words, timeout=timeout).stdout))

    def check(self):
        """weftd --check on the configuration; the CompletedProcess."""
        return self.ns.run(build_folder() / "weftd", "-c", self.config_path, "--check",
                           check=False)

    def status(self):
        return self.ask("status")

    def links(self, state=None):
        """The links, or those in a state ("up", "connecting", "down")."""
        return [link for link in self.ask("links")["links"]
                if state is None or link["state"] == state]

    def children(self, peer):
        """The inbound SPIs of the children of all links to a node, by its name."""
        return [child["spi_in"] for link in self.links() if link["peer"]["name"] == peer
                for child in link["children"]]

    def rekey(self, peer, timeout=5.0):
        """New keys for the only link to a node; waits until the old ones are gone."""
        before = self.children(peer)
        self.tool("rekey", peer)
        wait_until(lambda: len(self.children(peer)) == 1 and self.children(peer) != before,
                   timeout, f"new keys for {peer}")

    def memory(self):
        """Resident bytes of the daemon."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def wait_up(self, links=None, timeout=10.0):
        """Waits until all links are up (`weft status --wait`), and that they are this many."""
        self.tool("status", "--wait", int(timeout), timeout=timeout + 5)
        if links is not None:
            wait_until(lambda: len(self.links("up")) == links, timeout,
                       f"{self.name} to have {links} links up")

    def drops(self):
        return self.ask("drops")["drops"]

    def reload(self):
        return self.tool("reload")

    def hangup(self):
        """SIGHUP: reads its files again."""
        self.process.signal(signal.SIGHUP)

    def stop(self, timeout=5.0):
        """SIGTERM; must end in time and with 0."""
        self.process.signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        if code != 0:
            raise Failed(f"weftd {self.name} stopped with {code}: {self.process.log()[-2000:]}")

    def kill(self):
        """kill -9: what it leaves behind is part of the scenario."""
        self.process.kill()
