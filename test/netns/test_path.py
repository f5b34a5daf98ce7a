"""The hybrid handshake over bad paths, and what a demand for post-quantum refuses."""
import re

import pytest

from lab import Mesh, ping, wait_until

HYBRID = ["X25519", "ML-KEM-768"]


def key_exchanges(node):
    """The key exchanges of the node's only link: of the IKE SA, and of each child."""
    link, = node.links("up")
    return link["ike"]["key_exchanges"], [child["key_exchanges"] for child in link["children"]]


@pytest.mark.parametrize("underlay, seed", [("ip4", 1), ("ip4", 2), ("ip6", 3), ("ip6", 4)])
def test_hybrid_in_fragments_with_loss(lab, underlay, seed):
    # what the wire does not take, the devices would cut
    mesh = Mesh(lab, 2, underlay, link={"mtu": 1280, "dev_mtu": 1280, "loss": 0.1, "seed": seed})
    mesh.start()
    mesh.wait_up(timeout=20.0)
    for node in mesh.nodes:
        assert key_exchanges(node)[0] == HYBRID
    mesh.wait_reach()
    for ns in mesh.spaces:
        counters = ns.run("nstat", "-as").stdout
        assert not re.search(r"^Ip6?FragCreates\s+[1-9]", counters, re.MULTILINE)
    counters = mesh.wire.show()
    assert counters["ab"]["lost"] + counters["ba"]["lost"] > 0


def reason(node):
    link, = node.links()
    return link["reason"] or ""


@pytest.mark.parametrize("strict", [1, 2])
def test_require_refuses_a_classic_peer_and_says_why(lab, strict):
    mesh = Mesh(lab, 2)
    classic = 3 - strict
    mesh.reconfigure(strict, ike={"post_quantum": "require"})
    mesh.reconfigure(classic, ike={"post_quantum": "off"})
    mesh.start()
    node = mesh.nodes[strict - 1]
    wait_until(lambda: re.search("post.quantum", reason(node)), 10.0, "the reason for the refusal")
    assert re.search("post.quantum", node.tool("status").stdout)
    assert node.status()["post_quantum"] == "require"
    for either in mesh.nodes:
        assert not either.links("up")
        assert all(link["children"] == [] for link in either.links())
    # the same two agree as soon as the classic one may
    mesh.reconfigure(classic, ike={"post_quantum": "prefer"}).reload()
    mesh.wait_up(timeout=20.0)
    assert key_exchanges(node)[0] == HYBRID


def test_off_meets_prefer_without_post_quantum(lab):
    mesh = Mesh(lab, 2)
    mesh.reconfigure(1, ike={"post_quantum": "off"})
    mesh.start()
    mesh.wait_up()
    for node in mesh.nodes:
        assert key_exchanges(node)[0] == ["X25519"]
    ping(mesh.spaces[0], mesh.inner(2))


def test_a_rekey_is_hybrid_too(lab):
    mesh = Mesh(lab, 2, config={"ike": {"post_quantum": "require"}}).start()
    mesh.wait_up()
    before = mesh.pairs()
    mesh.nodes[0].tool("rekey", "n2")

    def all_new():
        pairs = mesh.pairs()
        (old_ike, old_spis), = next(iter(before.values()))
        ends = next(iter(pairs.values()))
        return len(ends) == 1 and all(
            ike and ike != old_ike and len(spis) == 2 and not set(spis) & set(old_spis)
            for ike, spis in ends)
    wait_until(all_new, 10.0, "a new IKE SA and a new child pair")
    for node in mesh.nodes:
        assert key_exchanges(node) == (HYBRID, [HYBRID])
