"""Hosts with several addresses, and peers that are known by a name."""
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from lab import Mesh, Ping, ping, registry, tcp_transfer, wait_ping, wait_until
from lab.mesh import PORT

# A name server: answers each question for which the file has a line "NAME ADDRESS".
NAME_SERVER = """
import socket, sys
zone, address = sys.argv[1:]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((address, 53))
print("ready", flush=True)
while True:
    query, client = sock.recvfrom(512)
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    question, kind = query[12:at + 5], query[at + 2]
    rows = dict(line.split() for line in open(zone))
    answer = rows.get(".".join(labels))
    print("asked", ".".join(labels), kind, flush=True)
    data = b""
    if answer and kind == (28 if ":" in answer else 1):
        data = socket.inet_pton(socket.AF_INET6 if ":" in answer else socket.AF_INET, answer)
    record = b"\\xc0\\x0c\\0" + bytes([kind]) + b"\\0\\1\\0\\0\\0\\0\\0" + bytes([len(data)]) + data
    flags = b"\\x84\\0" if answer else b"\\x84\\3"
    sock.sendto(query[:2] + flags + b"\\0\\1\\0" + bytes([bool(data)]) + b"\\0\\0\\0\\0" + question
                + (record if data else b""), client)
"""


def endpoint(serial, family, address, port=PORT):
    found = {"serial_number": serial, "address_family": family, "port": port}
    return {**found, "address": address} if address else found


def one_sided(mesh, address, family):
    """n1 knows n2 by `address`, n2 knows none of n1: it only answers, from any of its own."""
    def entries(first, second):
        return registry(*((f"org{i}", mesh.keys[i - 1],
                           [{"common_name": f"n{i}", "endpoints": [endpoint("0", family, found)]}])
                          for i, found in ((1, first), (2, second))))
    own = [{"serial": "0", "family": family, "port": PORT}]
    mesh.reconfigure(1, registry=entries(None, address), endpoints=own)
    mesh.reconfigure(2, registry=entries(None, None), endpoints=own)


def only_from(ns, address):
    """Counts what comes from port 13000 of any other address."""
    word = "ip6" if ":" in address else "ip"
    ns.run("nft", "-f", "-", stdin=(
        "table inet watch { chain in { type filter hook input priority 0;\n"
        f"meta l4proto udp {word} saddr != {address} udp sport {PORT} counter\n}}\n}}\n"))


def others(ns):
    return "packets 0 bytes 0" not in ns.run("nft", "list", "table", "inet", "watch").stdout


@pytest.mark.parametrize("asked", ["10.0.0.2", "10.0.0.22", "10.5.0.1", "fd00::22", "fd05::1"])
def test_the_answer_comes_from_the_address_asked_on(lab, asked):
    """IKE, ESP and each segment of a burst; and a removed address is let go."""
    family = "ip6" if ":" in asked else "ip4"
    mesh = Mesh(lab, 2)
    one, two = mesh.spaces
    two.sysctl("net.ipv4.conf.all.promote_secondaries", 1)
    two.addr("10.0.0.22/24 fd00::22/64", "eth0")
    two.addr("10.5.0.1/32 fd05::1/128", "lo")
    one.route("10.5.0.1/32", "via 10.0.0.2")
    one.route("fd05::1/128", "via fd00::2")
    one_sided(mesh, asked, family)
    only_from(one, asked)
    mesh.start()
    mesh.wait_one_pair()
    mesh.wait_reach()
    tcp_transfer(two, one, mesh.inner(1))
    tcp_transfer(two, one, mesh.inner(1, "ip6"))
    mesh.nodes[0].tool("rekey", "n2")
    mesh.wait_one_pair()
    link, = mesh.nodes[1].links("up")
    assert link["local"]["address"] == asked
    assert not others(one)
    if asked in ("10.0.0.2", "fd00::2"):
        return  # it is the way to the others
    device = "lo" if "5" in asked else "eth0"
    length = {"10.0.0.22": 24, "fd00::22": 64}.get(asked, 128 if family == "ip6" else 32)
    two.ip(f"addr del {asked}/{length} dev {device}")
    # n2 sends from another address at once, and n1 follows it
    wait_ping(two, mesh.inner(1), timeout=5.0)
    assert others(one)
    wait_ping(one, mesh.inner(2), timeout=5.0)
    link, = mesh.nodes[0].links("up")
    assert link["remote"]["address"] in ("10.0.0.2", "fd00::2", "10.0.0.22", "fd00::22")


class Names:
    """A name server in a namespace, and who asks it."""

    def __init__(self, lab, ns, address="127.0.0.1"):
        self.zone = lab.dir / "zone"
        self.lab, self.ns, self.address, self.process = lab, ns, address, None
        self.folders = []

    def ask_here(self, ns):
        """Programs of ns that are started from now on use this server."""
        folder = Path("/etc/netns") / ns.name
        folder.mkdir(parents=True)
        self.folders.append(folder)
        (folder / "resolv.conf").write_text(
            f"nameserver {self.address}\noptions timeout:1 attempts:1\n")

    def set(self, **names):
        aside = self.zone.with_suffix(".new")
        aside.write_text("".join(f"{name}.weft.test {address}\n"
                                 for name, address in names.items()))
        aside.rename(self.zone)

    def start(self):
        self.process = self.ns.start(sys.executable, "-c", NAME_SERVER, self.zone, self.address,
                                     name="names")
        self.process.wait_log("^ready$")
        return self

    def asked(self):
        return self.process.log().count("asked")

    def close(self):
        for folder in self.folders:
            shutil.rmtree(folder)


@pytest.fixture
def names(lab):
    mesh = Mesh(lab, 3, config={"ike": {"dpd": "2s"}})
    made = Names(lab, mesh.spaces[0])
    made.mesh = mesh
    try:
        made.ask_here(mesh.spaces[0])
        yield made
    finally:
        made.close()


def by_name(names, family="ip4"):
    """n1 knows n2 as b.weft.test; n2 only answers n1. n3 is a peer as any other."""
    mesh = names.mesh
    own = [{"serial": "0", "family": family, "port": PORT}]
    for i in (1, 2, 3):
        entries = mesh.registry()
        entries[1]["nodes"][0]["endpoints"] = [endpoint("0", family, "b.weft.test" if i == 1
                                                        else None)]
        entries[0]["nodes"][0]["endpoints"] = [endpoint("0", family, None if i == 2
                                                        else mesh.outer(1, family))]
        entries[2]["nodes"][0]["endpoints"] = [endpoint("0", family, mesh.outer(3, family))]
        mesh.reconfigure(i, registry=entries, endpoints=own)


def answers_at_once(node):
    begin = time.monotonic()
    node.status()
    return time.monotonic() - begin < 0.5


@pytest.mark.parametrize("family", ["ip4", "ip6"])
def test_a_name_that_moves(names, family):
    """B moves, its name too, the old address is dead."""
    mesh = names.mesh
    one, two = mesh.spaces[:2]
    by_name(names, family)
    names.set(b=mesh.outer(2, family))
    names.start()
    mesh.start()
    mesh.wait_up()
    wait_ping(one, mesh.inner(2))
    length, moved = (24, "10.0.0.92") if family == "ip4" else (64, "fd00::92")
    two.ip(f"addr del {mesh.outer(2, family)}/{length} dev eth0")
    two.addr(f"{moved}/{length}", "eth0")
    names.set(b=moved)
    with Ping(one, mesh.inner(3)) as other:
        wait_ping(one, mesh.inner(2), timeout=20.0)
    assert other.result.lost == 0
    link, = [link for link in mesh.nodes[0].links("up") if link["peer"]["name"] == "n2"]
    assert link["remote"]["address"] == moved


def test_names_that_cannot_be_resolved_hold_nothing_up(names):
    """The loop goes on, other links come up, and this one as soon as it can."""
    mesh = names.mesh
    by_name(names)
    names.set(b=mesh.outer(2))
    names.start()
    names.process.signal(signal.SIGSTOP)
    mesh.start()
    mesh.nodes[2].wait_up(2)
    wait_ping(mesh.spaces[0], mesh.inner(3))
    link, = [link for link in mesh.nodes[0].links() if link["peer"]["name"] == "n2"]
    assert link["state"] == "connecting"
    assert all(answers_at_once(mesh.nodes[0]) for _ in range(20))
    wait_until(lambda: "b.weft.test" in mesh.nodes[0].tool("links").stdout, 15.0,
               "the name to be told as the reason")
    names.process.signal(signal.SIGCONT)
    mesh.nodes[0].wait_up(2, timeout=25.0)


def test_a_resolver_that_fails_never_ends_what_works(names):
    mesh = names.mesh
    by_name(names)
    names.set(b=mesh.outer(2))
    names.start()
    mesh.start()
    mesh.wait_up()
    wait_ping(mesh.spaces[0], mesh.inner(2))
    names.process.kill()
    node = mesh.nodes[0]
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        node.reload()
        node.tool("rekey", "n2")
        # two turns of liveness checks pass meanwhile
        running.wait_received(500, timeout=15.0)
    assert running.result.lost == 0
    assert len(node.links("up")) == 2


def test_a_resolver_behind_the_tunnel(lab):
    """The name server is reached through n3 only."""
    mesh = Mesh(lab, 3)
    names = Names(lab, mesh.spaces[2], mesh.inner(3))
    names.mesh = mesh
    try:
        names.ask_here(mesh.spaces[0])
        by_name(names)
        names.set(b=mesh.outer(2))
        mesh.start()
        wait_ping(mesh.spaces[0], mesh.inner(3))
        names.start()
        mesh.nodes[0].wait_up(2, timeout=25.0)
        ping(mesh.spaces[0], mesh.inner(2))
    finally:
        names.close()
