"""An exit with masquerading: hosts behind the mesh reach what knows no way back; the rules are its
own, come back when they are taken away, and go with it; what is missing is said."""
import os
from pathlib import Path

import pytest

from lab import Mesh, ping, wait_ping, wait_until

TABLE = "weft_exit_weft0"
INTERNET = {"ip4": "198.51.100.9", "ip6": "2001:db8:4::9"}
OTHER = """nft add table ip other
nft add chain ip other post '{ type nat hook postrouting priority 90; }'
nft add rule ip other post oifname nothing masquerade
nft add table inet filter
nft add chain inet filter forward '{ type filter hook forward priority 0; policy accept; }'
"""


class Out:
    """client - n1 - n2 - server, which has no route to anything but its own network."""

    def __init__(self, lab, **exit_keys):
        self.mesh = Mesh(lab, 2)
        self.remarks = self.mesh.registry({i: {"srv6": f"fd00:5:{i}::/64"} for i in (1, 2)})
        self.client, self.server, self.near = lab.ns("client"), lab.ns("server"), lab.ns("near")
        self.head, self.exit = self.mesh.spaces
        lab.lan({self.head: "10.1.0.1/24 2001:db8:1::1/64",
                 self.client: "10.1.0.2/24 2001:db8:1::2/64"}, label="left")
        self.outside = lab.lan({self.exit: "198.51.100.1/24 2001:db8:4::1/64",
                                self.server: "198.51.100.9/24 2001:db8:4::9/64"}, label="right")
        lab.lan({self.exit: "10.2.0.1/24 2001:db8:2::1/64",
                 self.near: "10.2.0.2/24 2001:db8:2::2/64"}, label="beside")
        for ns, gateway in ((self.client, ("10.1.0.1", "2001:db8:1::1")),
                            (self.near, ("10.2.0.1", "2001:db8:2::1"))):
            ns.ip(f"route add default via {gateway[0]}")
            ns.ip(f"-6 route add default via {gateway[1]}")
        for ns in self.mesh.spaces:
            ns.sysctl("net.ipv4.ip_forward", 1)
            ns.sysctl("net.ipv6.conf.all.forwarding", 1)
        self.mesh.reconfigure(
            1, registry=self.remarks, announce=["10.1.0.0/24", "2001:db8:1::/64"],
            policies=[{"name": f"out-{i}", "source": source, "destination": destination,
                       "exit": "n2"} for i, (source, destination) in enumerate((
                           ("10.1.0.0/24", "0.0.0.0/0"), ("2001:db8:1::/64", "::/0")))])
        self.node = self.mesh.nodes[1]
        self.configure(**exit_keys)

    def configure(self, **exit_keys):
        return self.mesh.reconfigure(
            2, registry=self.remarks, announce=["10.2.0.0/24", "2001:db8:2::/64"],
            exit={"allow": ["0.0.0.0/0", "::/0"], **exit_keys})

    def start(self):
        self.mesh.start()
        self.mesh.wait_up()
        wait_until(lambda: all(p["state"] == "active" for p in
                               self.mesh.nodes[0].ask("policies")["policies"]), 10, "the policies")
        return self

    def tables(self):
        return self.exit.run("nft", "list", "tables").stdout.splitlines()

    def masquerades(self):
        return f"table inet {TABLE}" in self.tables()

    def sees(self, address, host):
        """The sources that `host` sees of an echo request that the client sends to it."""
        host.sh("nft -f - <<EOF\ntable inet see { set from4 { type ipv4_addr; flags dynamic; }\n"
                "set from6 { type ipv6_addr; flags dynamic; }\n"
                "chain in { type filter hook input priority 0;\n"
                "icmp type echo-request add @from4 { ip saddr }\n"
                "icmpv6 type echo-request add @from6 { ip6 saddr }\n}\n}\nEOF")
        wait_ping(self.client, address)
        seen = host.run("nft", "list", "table", "inet", "see").stdout
        host.run("nft", "delete", "table", "inet", "see")
        return seen


@pytest.fixture
def out(lab):
    return Out(lab, masquerade=True)


def test_a_server_without_a_way_back(out):
    out.exit.sh(OTHER)
    before = out.exit.snapshot()
    out.start()
    wait_until(out.masquerades, 5, "the rules")
    for address, own in ((INTERNET["ip4"], "198.51.100.1"), (INTERNET["ip6"], "2001:db8:4::1")):
        seen = out.sees(address, out.server)
        assert own in seen and "10.1.0.2" not in seen and "2001:db8:1::2" not in seen
    # a network that the exit announces knows the way back: it sees who it is
    for address, source in (("10.2.0.2", "10.1.0.2"), ("2001:db8:2::2", "2001:db8:1::2")):
        assert source in out.sees(address, out.near)
    assert not [w for w in out.node.status()["warnings"] if "exit" in w]
    # what is not from the mesh is not touched
    out.near.sh("ping -c 1 -W 1 198.51.100.9 || true")
    assert out.exit.run("nft", "list", "ruleset").stdout.count("masquerade") == 2
    # taken away by a reload, brought back by one
    out.configure(masquerade=False).reload()
    wait_until(lambda: not out.masquerades(), 5, "the rules to go")
    out.configure(masquerade=True).reload()
    wait_until(out.masquerades, 5, "the rules to come back")
    out.node.stop()
    assert before.diff(out.exit.snapshot()) == []


@pytest.mark.parametrize("how", ["flush ruleset", f"flush table inet {TABLE}",
                                 f"delete table inet {TABLE}"])
def test_rules_come_back(out, how):
    out.start()
    wait_until(out.masquerades, 5, "the rules")
    rules = out.exit.run("nft", "list", "ruleset").stdout
    out.exit.run("nft", *how.split())
    wait_until(lambda: out.exit.run("nft", "list", "ruleset").stdout == rules, 5,
               "the rules to come back")
    wait_ping(out.client, INTERNET["ip4"])


def test_rules_go_with_a_daemon_that_is_killed(out):
    before = out.exit.snapshot()
    out.start()
    wait_until(out.masquerades, 5, "the rules")
    out.node.kill()
    wait_until(lambda: not out.masquerades(), 5, "the rules to go")
    # and those that the helper could not take away, as it was killed too
    out.exit.sh(f"nft add table inet {TABLE}\nnft add chain inet {TABLE} postrouting\n"
                f"nft add rule inet {TABLE} postrouting counter")
    out.configure().start()
    wait_until(lambda: not out.masquerades(), 5, "what was left to go")
    out.node.stop()
    assert before.diff(out.exit.snapshot()) == []


def test_a_way_back_needs_no_masquerade(lab):
    out = Out(lab)
    out.server.ip("route add 10.1.0.0/24 via 198.51.100.1")
    out.server.ip("-6 route add 2001:db8:1::/64 via 2001:db8:4::1")
    out.start()
    for address, source in ((INTERNET["ip4"], "10.1.0.2"), (INTERNET["ip6"], "2001:db8:1::2")):
        assert source in out.sees(address, out.server)
        ping(out.client, address)
    assert not out.masquerades()


def test_what_is_missing_is_said(lab):
    """No nft program, no forwarding: warnings, and the node works on."""
    out = Out(lab, masquerade=True)
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        out.exit.sysctl(key, 0)
    out.mesh.nodes[0].start()
    # the helper's own search path has no nft in this mount namespace
    nft = Path(os.path.realpath("/usr/sbin/nft"))
    out.node.start(wrap=["unshare", "-m", "sh", "-c",
                         f'mount --bind /dev/null {nft} && exec "$@"', "sh"])
    wait_until(lambda: any("exit.masquerade: nft" in line for line in
                           out.node.status()["warnings"]), 10, "the warning about nft")
    told = "\n".join(out.node.status()["warnings"])
    assert "net.ipv4.ip_forward=1" in told and "net.ipv6.conf.all.forwarding=1" in told
    out.mesh.wait_up()
    wait_ping(out.head, out.mesh.inner(2))
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        out.exit.sysctl(key, 1)
    assert "forward" not in "\n".join(out.node.status()["warnings"])


def test_an_announced_network_needs_forwarding(lab):
    mesh = Mesh(lab, 2)
    mesh.nodes[0].configure(mesh.config(1, announce=["10.77.0.0/24", "fd77::1/128"]))
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        mesh.spaces[0].sysctl(key, 0)
    mesh.start()
    told = "\n".join(mesh.nodes[0].status()["warnings"])
    # a host route is the host itself
    assert "net.ipv4.ip_forward=1" in told and "net.ipv6" not in told
    mesh.spaces[0].sysctl("net.ipv4.ip_forward", 1)
    assert "forward" not in "\n".join(mesh.nodes[0].status()["warnings"])
