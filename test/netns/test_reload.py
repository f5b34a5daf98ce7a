"""Reading the files again is a cold start with the new ones, but what did not change goes on."""
import copy
import difflib
import json
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import Failed, Iperf, Key, Mesh, Ping, ping, registry, registry_node, wait_ping, wait_until

PAIRS = 30
ALONE = 4  # nodes of the registry that a lonely node is configured with


def sas(node):
    """{link: its SPIs and since when it is up}"""
    return {link["id"]: (link["ike"]["spi_i"], link["ike"]["spi_r"],
                         tuple(child["spi_in"] for child in link["children"]))
            for link in node.links("up")}


def sent(node):
    return {link["id"]: link["tx"]["packets"] for link in node.links()}


class Capture:
    """How many packets of IKE leave a namespace: non-ESP marker behind UDP port 13000."""

    def __init__(self, ns, host=None):
        words = "udp and src port 13000 and udp[8:4] = 0" + (f" and dst host {host}" if host
                                                             else "")
        self.process = ns.start("tcpdump", "-n", "-l", "--immediate-mode", "-i", "any",
                                "-Q", "out", words, name="tcpdump")
        self.process.wait_log("listening on")

    def lines(self):
        return [line for line in self.process.log().splitlines() if " > " in line]


def test_reload_without_a_change_is_silent(lab):
    """A hundred times, and IKE says nothing, nothing is negotiated again."""
    quiet = {"ike": {"dpd": "1h"}, "babel": {"hello": "10m"}}
    mesh = Mesh(lab, 3, config=quiet).start()
    mesh.wait_one_pair()
    mesh.wait_reach()
    node = mesh.nodes[0]
    before, count = sas(node), sent(node)
    capture = Capture(node.ns)
    log = node.process.log()
    for number in range(100):
        if number % 10:
            node.reload()
        else:
            node.hangup()
    node.reload()
    assert capture.lines() == []
    assert sas(node) == before
    now = sent(node)
    assert all(now[link] >= count[link] for link in count)  # Babel goes on
    assert not re.search("handshake|negotiat", node.process.log()[len(log):], re.I)
    ping(node.ns, mesh.inner(2))


def test_what_did_not_change_goes_on(lab):
    """n3 leaves and comes back while pings run to n2: not one is lost."""
    mesh = Mesh(lab, 3).start()
    mesh.wait_one_pair()
    mesh.wait_reach()
    node = mesh.nodes[0]
    kept = {name: spis for name, spis in sas(node).items() if "/n2:" in name}
    assert len(kept) == 1
    with Ping(node.ns, mesh.inner(2)) as running:
        running.wait_received(20)
        mesh.reconfigure(1, peers={"exclude": ["n3"]}, static_routes=[
            {"prefix": f"{mesh.inner(2)}/32", "node": "n2"}]).reload()
        assert sas(node) == kept
        running.wait_received(20)
        mesh.reconfigure(1).hangup()
        wait_until(lambda: len(node.links("up")) == 2, 10.0, "n3 to be back")
        running.wait_received(20)
    assert running.result.lost == 0
    assert kept.items() <= sas(node).items()
    wait_ping(node.ns, mesh.inner(3))


def test_a_removed_peer_hears_no_more(lab):
    """It is told goodbye, and a second later nothing of IKE goes to it by itself any more."""
    mesh = Mesh(lab, 2, config={"ike": {"dpd": "1s"}}).start()
    mesh.wait_one_pair()
    one, two = mesh.nodes
    told = Capture(one.ns)
    mesh.reconfigure(1, peers={"exclude": ["*"]}).reload()
    assert one.links() == []
    wait_until(lambda: not two.links("up"), 5.0, "n2 to hear of it")
    assert told.lines()
    # when it asks again, it is refused
    wait_until(lambda: "authent" in str(two.links()[0]["reason"]), 10.0, "n2 to be refused")
    two.tool("down", "n1")
    time.sleep(1.0)  # the demand itself speaks of this second
    later = Capture(one.ns)
    time.sleep(3.0)  # three times the time of a liveness check: nothing comes, so nothing to await
    assert later.lines() == []


def test_a_bad_file_changes_nothing_and_says_why(lab):
    mesh = Mesh(lab, 2).start()
    mesh.wait_one_pair()
    mesh.wait_reach()
    node = mesh.nodes[0]
    before, kernel = sas(node), node.ns.snapshot()
    for text, pattern in (("node: [", r"weft\.yaml:\d+:\d+: "), ("", r"weft\.yaml:\d+:\d+: ")):
        node.config_path.write_text(text)
        done = node.tool("reload", check=False)
        assert done.returncode == 1 and re.search(pattern, done.stderr), done
    mesh.reconfigure(1, speed=9)
    node.hangup()
    node.process.wait_log(r"weft\.yaml:\d+:\d+: .*speed")
    for more, word in (({"node": {**mesh.config(1)["node"], "name": "other"}}, "node.name"),
                       ({"node": {**mesh.config(1)["node"],
                                  "router_id": "02:00:00:00:00:00:00:01"}}, "node.router_id"),
                       ({"tun": {"name": "other0"}}, "tun.name")):
        mesh.reconfigure(1, **more)
        done = node.tool("reload", check=False)
        assert done.returncode == 1 and word in done.stderr and "restart" in done.stderr
    assert sas(node) == before
    assert kernel.diff(node.ns.snapshot()) == []
    ping(node.ns, mesh.inner(2))
    mesh.reconfigure(1).reload()


def test_the_registry_is_watched(lab):
    mesh = Mesh(lab, 4)
    whole = mesh.registry()
    for node in mesh.nodes[:3]:
        node.write_registry(whole[:3])
    mesh.nodes[3].start(wait=None)
    for node in mesh.nodes[:3]:
        node.start(wait=None)
    for node in mesh.nodes[:3]:
        node.wait_answer()
        node.wait_up(2)
    before = sas(mesh.nodes[0])
    for node in mesh.nodes[:3]:
        node.write_registry(whole)
    for node in mesh.nodes:
        wait_until(lambda: len(node.links("up")) == 3, 15.0, "the new node to be a peer of all")
    assert before.items() <= sas(mesh.nodes[0]).items()
    # a registry that is none changes nothing, and the last good one stays
    mesh.nodes[0].registry_path.write_text("[")
    mesh.nodes[0].process.wait_log(r"registry\.json:\d+:\d+: ")
    assert before.items() <= sas(mesh.nodes[0]).items()


def test_losing_more_than_half_waits_for_force(lab):
    mesh = Mesh(lab, 3).start()
    mesh.wait_one_pair()
    node = mesh.nodes[0]
    before = sas(node)
    node.write_registry(mesh.registry()[:1])
    node.process.wait_log("more than half")
    done = node.tool("reload", check=False)
    assert done.returncode == 1 and "--force" in done.stderr
    assert "--force" in "\n".join(node.status()["warnings"])
    assert sas(node) == before
    node.tool("reload", "--force")
    assert node.links() == []


def test_dry_run_only_tells(lab):
    mesh = Mesh(lab, 3).start()
    mesh.wait_one_pair()
    node = mesh.nodes[0]
    before = sas(node)
    mesh.reconfigure(1, peers={"exclude": ["n3"]})
    said = node.tool("reload", "--dry-run").stdout
    assert "n3" in said and "peers: would change" in said
    assert sas(node) == before


def test_a_peer_with_another_key(lab):
    """A key that is replaced ends what the old one has authenticated, at once, and nothing else."""
    mesh = Mesh(lab, 3).start()
    mesh.wait_one_pair()
    node = mesh.nodes[0]
    kept = {link: pair for link, pair in sas(node).items() if "n3" in link}
    other = mesh.registry({2: {"public_key": Key(lab.dir, "other").public}})
    mesh.reconfigure(1, registry=other)
    said = node.tool("reload", "--dry-run").stdout
    assert "n2" in said and "another key" in said and "n3" not in said
    assert len(node.links("up")) == 2
    node.tool("reload")
    assert [link["peer"]["name"] for link in node.links("up")] == ["n3"]
    wait_until(lambda: "does not fit its public key" in str(
        [link["reason"] for link in node.links() if link["peer"]["name"] == "n2"]), 20.0,
               "n2, which has the old key, is refused")
    assert [link["peer"]["name"] for link in node.links("up")] == ["n3"]
    mesh.reconfigure(1)
    node.tool("reload")
    mesh.wait_reach()
    assert kept and kept.items() <= sas(node).items()


def test_every_change_is_told(lab):
    """Also one that touches no link: "nothing changed" is said only when nothing did."""
    mesh = Mesh(lab, 2).start()
    mesh.wait_one_pair()
    node = mesh.nodes[0]
    assert node.tool("reload").stdout == "nothing changed\n"
    mesh.reconfigure(1, announce=["192.168.7.0/24"], log="debug")
    assert node.tool("reload").stdout.splitlines() == ["announce: changed", "log: changed"]
    assert node.tool("reload").stdout == "nothing changed\n"


def test_both_ends_reload_at_once(lab):
    """Again and again, with changes that matter to both, and one pair remains."""
    mesh = Mesh(lab, 2).start()
    mesh.wait_one_pair()
    for number in range(100):
        peers = {"exclude": ["*"]} if number % 2 else {}
        for i in (1, 2):
            mesh.reconfigure(i, peers=peers, ike={"dpd": f"{5 + number % 20}s"})
        for node in mesh.nodes:
            node.hangup()
    for i, node in enumerate(mesh.nodes, 1):
        mesh.reconfigure(i)
        node.reload()
    mesh.wait_one_pair(10.0)
    mesh.wait_reach()
    for _ in range(20):
        for node in mesh.nodes:
            node.hangup()
    ping(mesh.spaces[0], mesh.inner(2))
    mesh.wait_one_pair()


def test_down_up_rekey(lab):
    mesh = Mesh(lab, 3).start()
    mesh.wait_one_pair()
    mesh.wait_reach()
    node = mesh.nodes[0]
    others = {name: spis for name, spis in sas(node).items() if "/n2:" not in name}
    node.tool("down", "n2")
    link, = [link for link in node.links() if link["peer"]["name"] == "n2"]
    assert link["state"] == "down" and "command" in link["reason"]
    # the peer tries again, and reloading does not take it up
    node.reload()
    with pytest.raises(Failed):
        mesh.nodes[1].wait_up(2, timeout=2.0)
    assert len(node.links("up")) == 1
    node.tool("up", "org2/n2")
    mesh.wait_one_pair()
    before = sas(node)
    with Ping(node.ns, mesh.inner(2)) as running:
        running.wait_received(10)
        node.tool("rekey", "n2")
        wait_until(lambda: all(not set(spis) & set(before[name]) for name, spis in
                               sas(node).items() if name not in others), 5.0, "all SPIs new")
        running.wait_received(20)
    assert running.result.lost == 0
    mesh.wait_one_pair()
    assert others.items() <= sas(node).items()
    for words in (["down", "n9"], ["rekey", "org3/n2"]):
        done = node.tool(*words, check=False)
        assert done.returncode == 1 and "no such peer" in done.stderr


class Random:
    """Random configurations of n1 in a mesh whose other nodes do not run."""

    def __init__(self, mesh, rng):
        self.mesh, self.rng = mesh, rng
        self.keys = [Key(mesh.lab.dir, f"far{i}") for i in range(ALONE)]

    def some(self, of):
        return [one for one in of if self.rng.random() < 0.6]

    def registry(self):
        """n1, n2, and most of some more nodes, at one of two addresses each."""
        rng = self.rng
        far = [(f"far{i}", key, [registry_node(f"f{i}", *(
            (serial, f"10.0.0.{100 + i + rng.choice((0, 50))}", 13000 + rng.choice((0, 5)))
            for serial in self.some("01")))])
            for i, key in enumerate(self.keys)]
        return [*self.mesh.registry(), *registry(*self.some(far))]

    def config(self):
        rng = self.rng
        tun = self.mesh.config(1)["tun"]["addresses"]
        return self.mesh.config(
            1, registry=self.registry(),
            endpoints=[{"serial": serial, "family": "ip4", "address": "10.0.0.1", "port": port}
                       for serial, port in (("0", 13000), *self.some([("1", 13001), ("2", 13002)])
                                            )],
            peers={"exclude": self.some(["f0", "far1/*", "f?"])},
            tun={"addresses": [tun[0], *self.some([tun[1], "10.66.1.1/32", "fd66:1::1/128"])],
                 "mtu": rng.choice((1280, 1400))},
            announce=self.some(["10.70.0.0/16", "fd70::/32"]),
            static_routes=[{"prefix": prefix, "node": rng.choice(("n2", "f0", "f1"))}
                           for prefix in self.some(["10.80.0.0/16", "fd80::/48", "0.0.0.0/0",
                                                    "::/0", "10.66.0.2/32"])],
            ike={"post_quantum": rng.choice(("prefer", "require", "off")),
                 "dpd": rng.choice(("10s", "30s"))},
            log=rng.choice(("info", "debug")))


def lasting(node):
    """What status, links and routes say, without SPIs, counters, times and what is under way."""
    status, routes = copy.deepcopy(node.status()), copy.deepcopy(node.ask("routes"))
    del status["node"]["uptime_s"]
    for link in status["links"]:
        for key in ("since_s", "tx", "rx", "ike", "children", "reason"):
            del link[key]
    return status, routes


def differences(reloaded, started):
    """Lines of the one that are not the other's."""
    texts = [json.dumps(one, indent=1, sort_keys=True).splitlines() for one in (reloaded, started)]
    return list(difflib.unified_diff(*texts, "reloaded", "started", lineterm=""))


def test_reload_equals_a_cold_start(lab):
    """On a node alone: each pair of configurations, reloaded and started."""
    mesh = Mesh(lab, 2)
    node, drawn = mesh.nodes[0], Random(mesh, random.Random(46))
    node.configure(drawn.config())
    node.start()
    for number in range(PAIRS):
        node.configure(drawn.config())
        done = node.tool("reload", "--force", check=False)
        assert done.returncode == 0, (number, done.stderr)
        by_reload, kernel = lasting(node), node.ns.snapshot()
        node.stop()
        node.start()
        assert differences(by_reload, lasting(node)) == [], number
        assert kernel.diff(node.ns.snapshot()) == [], number


def test_another_private_key_waits_for_the_next_start(lab):
    mesh = Mesh(lab, 2).start()
    mesh.wait_one_pair()
    node = mesh.nodes[0]
    before, path = sas(node), mesh.keys[0].path
    path.write_text(mesh.keys[1].path.read_text())
    assert f"warning: {path}: holds another key" in node.tool("reload").stdout
    assert any("holds another key" in line for line in node.status()["warnings"])
    assert sas(node) == before


def test_reloads_at_full_rate_leave_nothing(lab):
    """Two hundred reloads under traffic at full rate, which has already run for a
    while: no more memory, within 1 MB, and no more descriptors."""
    mesh = Mesh(lab, 2).start()
    mesh.wait_reach()
    node = mesh.nodes[0]

    def files():
        return len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))

    load = Iperf(mesh.spaces[0], mesh.spaces[1], mesh.inner(2))
    load.run(seconds=4)
    for number in range(40):
        node.reload()
    memory, descriptors = node.memory(), files()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(load.run, seconds=8)
        for number in range(200):
            mesh.reconfigure(1, plane={"offload": {"udp_gso": ("off", "on")[number % 2]}}).reload()
        assert running.result()["bits_per_second"] > 1e6
    assert node.memory() - memory <= 1 << 20
    wait_until(lambda: files() <= descriptors, 5.0, "as many descriptors as before")
