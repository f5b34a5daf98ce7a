"""A strongSwan and a weft that go and come back: DELETE, restart, kill -9, silence, and policy."""
import re
import time

import pytest

from lab import Beside, Failed, Mesh, Ping, StrongSwan, wait_ping, wait_until
from lab.strongswan import CLASSIC, CLASSIC_ESP, HYBRID, HYBRID_ESP

BACK_S = 5.0
SILENCE = """
table inet silence {
  chain in { type filter hook input priority 0; udp dport 13000 drop; }
  chain out { type filter hook output priority 0; udp dport 13000 drop; }
}
"""
# strongSwan gives up on a peer after 1 + 1.8 + 3.2 s instead of 82
IMPATIENT = {"retransmit_timeout": 1, "retransmit_tries": 2}
ROOTS = {"6.1": dict(root="forky", proposals=HYBRID, esp_proposals=HYBRID_ESP),
         "5.9.8": dict(root="bookworm", proposals=None, esp_proposals=None)}


def wait_back(pair, since):
    """Waits for traffic each way; it must be there in time after `since`."""
    pair.wait_reach(timeout=BACK_S)
    took = time.monotonic() - since
    assert took < BACK_S, f"traffic was back after {took:.1f} s"
    # and both ends agree on what is left; charon keeps a deleted child for 5 s
    pair.wait_agreed(timeout=10.0)


@pytest.mark.parametrize("version", ROOTS)
def test_delete_by_strongswan(lab, version):
    pair = Beside(lab, **ROOTS[version]).start()
    link = pair.wait_agreed()
    for what, count in ((("--child", "default"), 1), (("--ike", "c"), 2)):
        since = time.monotonic()
        pair.peer.swanctl("--terminate", *what)
        wait_back(pair, since)
        assert pair.peer.log().count("N(INIT_CONTACT)") == count
        assert pair.link()["children"][0]["spi_in"] != link["children"][0]["spi_in"]
        link = pair.link()


@pytest.mark.parametrize("version", ROOTS)
def test_delete_by_weft(lab, version):
    pair = Beside(lab, **ROOTS[version]).start()
    pair.weft.tool("down", "n2")
    pair.peer.wait_up(0, 0, timeout=2.0)
    assert "received DELETE for IKE_SA" in pair.peer.log()
    with pytest.raises(Failed):
        pair.peer.initiate(timeout=2)
    assert not pair.weft.links("up")
    since = time.monotonic()
    pair.weft.tool("up", "n2")
    wait_back(pair, since)


@pytest.mark.parametrize("version", ROOTS)
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_weft_comes_back(lab, version, how):
    pair = Beside(lab, **ROOTS[version]).start()
    pair.wait_reach()
    with pair.pings():
        getattr(pair.weft, how)()
        if how == "stop":
            pair.peer.wait_up(0, 0, timeout=2.0)
        since = time.monotonic()
        pair.weft.start()
        wait_back(pair, since)


@pytest.mark.parametrize("initiator", ["weft", "strongswan"])
@pytest.mark.parametrize("version", ROOTS)
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_strongswan_comes_back(lab, version, how, initiator):
    """Either end may be the first to call again: weft has to notice, or be called."""
    pair = Beside(lab, initiator=initiator, **ROOTS[version]).start()
    pair.wait_reach()
    with pair.pings():
        getattr(pair.peer, how)()
        since = time.monotonic()
        pair.start_peer()
        if initiator == "strongswan":
            pair.peer.initiate()
        wait_back(pair, since)


def test_silence_is_noticed_by_both(lab):
    """DPD of both ends. The peer is called until it answers; nothing is left of the old SAs."""
    pair = Beside(lab, **ROOTS["6.1"], config={"ike": {"dpd": "1s"}}, charon=IMPATIENT,
                  settings={"dpd_delay": 1}).start()
    before = pair.wait_agreed()
    pair.b.run("nft", "-f", "-", stdin=SILENCE)
    wait_until(lambda: re.search(r"giving up after 2 retransmits", pair.peer.log()), 15.0,
               "strongSwan to notice")
    wait_until(lambda: pair.link()["state"] != "up", 40.0, "weft to notice", every=0.2)
    assert re.search("answer", pair.reason())
    since = time.monotonic()
    pair.b.run("nft", "delete", "table", "inet", "silence")
    wait_back(pair, since)
    assert pair.link()["ike"]["spi_i"] != before["ike"]["spi_i"]


@pytest.mark.parametrize("initiator", ["weft", "strongswan"])
@pytest.mark.parametrize("version", ROOTS)
def test_require_refuses_a_classic_peer_and_says_why(lab, version, initiator):
    pair = Beside(lab, **dict(ROOTS[version], proposals=CLASSIC, esp_proposals=CLASSIC_ESP),
                  initiator=initiator, config={"ike": {"post_quantum": "require"}})
    pair.start_peer()
    pair.weft.start()
    if initiator == "strongswan":
        with pytest.raises(Failed):
            pair.peer.initiate(timeout=2)
    wait_until(lambda: "ML-KEM" in pair.reason(), 5.0, "the reason for the refusal")
    assert "post_quantum is require" in pair.reason()
    assert pair.reason() in pair.weft.tool("status").stdout
    assert pair.link()["state"] != "up" and pair.link()["children"] == []
    assert pair.peer.sas() == [] or pair.peer.sas()[0]["state"] != "ESTABLISHED"


@pytest.mark.parametrize("asks", ["weft", "strongswan"])
def test_require_refuses_a_classic_child_and_says_why(lab, asks):
    """The IKE SA is hybrid, but strongSwan has no ML-KEM for the keys of a child."""
    pair = Beside(lab, "forky", proposals=HYBRID, esp_proposals=CLASSIC_ESP,
                  config={"ike": {"post_quantum": "require"}}).start()
    link = pair.wait_agreed()
    assert link["reason"] is None
    if asks == "weft":
        pair.weft.tool("rekey", "n2")
    else:
        pair.peer.rekey_child()
    wait_until(lambda: "post_quantum is require" in pair.reason(), 5.0, "the reason")
    assert pair.reason() in pair.weft.tool("status").stdout
    # until the old keys have had their time they stay, and they are hybrid
    child, = pair.wait_agreed()["children"]
    assert child["spi_in"] == link["children"][0]["spi_in"]
    assert child["key_exchanges"] == ["X25519", "ML-KEM-768"]
    pair.wait_reach()


@pytest.mark.parametrize("initiator", ["weft", "strongswan"])
def test_off_does_not_meet_a_hybrid_peer(lab, initiator):
    pair = Beside(lab, **ROOTS["6.1"], initiator=initiator,
                  config={"ike": {"post_quantum": "off"}})
    pair.start_peer()
    pair.weft.start()
    if initiator == "strongswan":
        with pytest.raises(Failed, match="NO_PROPOSAL_CHOSEN"):
            pair.peer.initiate(timeout=2)
    else:
        wait_until(lambda: "none of our IKE proposals" in pair.reason(), 5.0, "the reason")
    assert not pair.weft.links("up")


def test_both_call_at_once(lab):
    """Crossing initial exchanges: traffic flows, and one IKE SA and one pair are left."""
    pair = Beside(lab, **ROOTS["6.1"])
    pair.start_peer()
    pair.b.run("nft", "-f", "-", stdin=SILENCE)
    pair.weft.start()
    with pytest.raises(Failed):
        pair.peer.initiate(timeout=1)
    pair.b.run("nft", "delete", "table", "inet", "silence")
    pair.wait_reach(timeout=10.0)
    with pair.pings() as pings:
        pair.wait_agreed(timeout=30.0)
        pings.wait_received(100)
    assert pings.lost == 0, pings.results


def test_both_call_at_once_and_strongswan_wins(lab):
    """The lower identity's IKE SA stays; here that is strongSwan's, and weft deletes its own."""
    mesh = Mesh(lab, 2, link={"delay_ms": 30})
    peer = StrongSwan(mesh.spaces[0], "bookworm", mesh.connection(
        1, 2, proposals=None, esp_proposals=None)).start()
    peer.tunnel(f"{mesh.inner(1)}/32", [f"{mesh.inner(2)}/32"])
    mesh.nodes[1].start()
    peer.initiate()
    wait_ping(mesh.spaces[0], mesh.inner(2))
    assert "is initiating an IKE_SA" in peer.log() and "initiating IKE_SA c" in peer.log()
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        sa, = peer.wait_up(timeout=15.0)
        running.wait_received(100)
    assert running.result.lost == 0, running.result
    assert sa.get("initiator") == "yes"
    assert len(mesh.nodes[1].links("up")) == 1
