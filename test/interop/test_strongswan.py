"""weft and strongSwan as peers, in both roles: the handshake, traffic, rekeys.

Which strongSwan can do what: 6.1 (forky) has ML-KEM, 6.0.1 (trixie) and 5.9.8 (bookworm) have not.
Without proposals of ours strongSwan offers AES-CBC before AEAD; 6.1 and 6.0.1 guess ECP-256 as the
group, 5.9.8 X25519.
"""
import re
import sys
import threading

import pytest

from lab import Beside, Mesh, StrongSwan, tcp_transfer, wait_ping, wait_until
from lab.strongswan import CLASSIC, CLASSIC_ESP, HYBRID, HYBRID_ESP

HYBRID_1024 = "aes256gcm16-prfsha512-x25519-ke1_mlkem1024"
HYBRID_1024_ESP = "aes256gcm16-x25519-ke1_mlkem1024"
X448_FIRST = "aes256gcm16-prfsha512-x448-x25519-ke1_mlkem768"
X448_FIRST_ESP = "aes256gcm16-x448-x25519-ke1_mlkem768"
CBC = "aes128-sha256-prfsha256-x25519"
CBC_ESP = "aes256-sha256-x25519"
ROLES = ("weft", "strongswan")
# an IKE_SA_INIT (AES-256-GCM-16, HMAC-SHA2-512, X25519) that nothing follows
HALF_OPEN = """
import os, socket, struct, sys
transforms = (struct.pack("!BBHBBHHH", 3, 0, 12, 1, 0, 20, 0x800e, 256)
              + struct.pack("!BBHBBH", 3, 0, 8, 2, 0, 7)
              + struct.pack("!BBHBBH", 0, 0, 8, 4, 0, 31))
proposal = struct.pack("!BBHBBBB", 0, 0, 8 + len(transforms), 1, 1, 0, 3) + transforms
payloads = (struct.pack("!BBH", 34, 0, 4 + len(proposal)) + proposal
            + struct.pack("!BBHHH", 40, 0, 40, 31, 0) + os.urandom(32)
            + struct.pack("!BBH", 0, 0, 36) + os.urandom(32))
header = os.urandom(8) + bytes(8) + struct.pack("!BBBBII", 33, 0x20, 34, 8, 0, 28 + len(payloads))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(2)
sock.sendto(bytes(4) + header + payloads, (sys.argv[1], 13000))
assert sock.recv(4096)[4 + 16] == 33
"""
X, P256, H768, H1024 = ["X25519"], ["ECP-256"], ["X25519", "ML-KEM-768"], ["X25519", "ML-KEM-1024"]

# root, proposals in IKE and ESP, then key exchanges: of the IKE SA, by who initiated it, and of a
# child after a rekey, by who rekeyed it
PEERS = {
    "6.1-mlkem768": ("forky", HYBRID, HYBRID_ESP, (H768, H768), (H768, H768)),
    "6.1-mlkem1024": ("forky", HYBRID_1024, HYBRID_1024_ESP, (H1024, H1024), (H1024, H1024)),
    "6.1-defaults": ("forky", None, None, (X, P256), (X, P256)),
    "6.0.1-defaults": ("trixie", None, None, (X, P256), ([], [])),
    "5.9.8-classic": ("bookworm", CLASSIC, CLASSIC_ESP, (X, X), (X, X)),
    "5.9.8-defaults": ("bookworm", None, None, (X, X), ([], [])),
}


def beside(lab, name, initiator="weft", **more):
    root, proposals, esp = PEERS[name][:3]
    return Beside(lab, root, initiator, proposals=proposals, esp_proposals=esp, **more)


def initiated(pair):
    """Who initiated the IKE SA, as strongSwan has it."""
    return "strongswan" if pair.peer.sas()[0].get("initiator") == "yes" else "weft"


@pytest.mark.parametrize("initiator", ROLES)
@pytest.mark.parametrize("name", PEERS)
def test_joins(lab, name, initiator):
    pair = beside(lab, name, initiator).start()
    link = pair.wait_agreed()
    assert initiated(pair) == initiator
    kex = PEERS[name][3][ROLES.index(initiator)]
    # the first child takes the keys of its IKE SA
    assert pair.kex() == (kex, kex)
    assert link["children"][0]["suite"] == "AES-256-GCM-16"
    # kernel-libipsec has no ESN: it takes "no ESN" out of an offer of both
    assert link["children"][0]["esn"] is False
    pair.check_traffic()
    link = pair.link()
    assert len(link["children"]) == 1 and link["rx"]["packets"] > 100


def rekeyed(pair, before, ike, child, timeout=5.0):
    """Waits until both ends have the new SAs that were asked for; returns weft's link."""
    def new():
        link = pair.link()
        return ((not ike or link["ike"]["spi_i"] != before["ike"]["spi_i"])
                and (not child or link["children"][0]["spi_in"] != before["children"][0]["spi_in"])
                and link)
    wait_until(new, timeout, "new SPIs")
    return pair.wait_agreed(timeout)


@pytest.mark.parametrize("name, asks", [
    ("6.1-mlkem768", "weft"), ("6.1-mlkem1024", "strongswan"), ("6.1-defaults", "weft"),
    ("5.9.8-classic", "strongswan"), ("5.9.8-defaults", "weft")])
def test_rekeys_lose_nothing(lab, name, asks):
    """Three IKE rekeys in a row and three of the child from each side; then the new SAs work, a
    liveness check by one end too."""
    of_ike, of_child = PEERS[name][3:]
    pair = beside(lab, name, config={"ike": {"dpd": "1s" if asks == "weft" else "60s"}},
                  settings={"dpd_delay": 60 if asks == "weft" else 1}).start()
    pair.wait_reach()
    link = pair.wait_agreed()
    with pair.pings() as pings:
        for _ in range(3):
            # strongSwan's first guess is the group that the SA has
            pair.peer.rekey_ike()
            link = rekeyed(pair, link, ike=True, child=False)
            assert pair.kex()[0] == of_ike[0]
        for _ in range(3):
            pair.peer.rekey_child()
            link = rekeyed(pair, link, ike=False, child=True)
            assert pair.kex()[1] == of_child[1]
        for _ in range(3):
            # weft rekeys both, the IKE SA first
            pair.weft.tool("rekey", "n2")
            link = rekeyed(pair, link, ike=True, child=True)
            assert pair.kex() == (of_ike[0], of_child[0])
            pings.wait_received(10)
    assert pings.lost == 0, pings.results
    check_liveness(pair, asks)
    assert pair.wait_agreed()["ike"]["spi_i"] == link["ike"]["spi_i"]


def check_liveness(pair, asks):
    """Without traffic one end asks on the IKE SA whether the other lives, and is answered: when
    nothing else is heard, or, for weft, after six times ike.dpd. Echoes are heard for a while."""
    sent, answered = (("sending DPD request", "parsed INFORMATIONAL response")
                      if asks == "strongswan" else
                      ("parsed INFORMATIONAL request", "generating INFORMATIONAL response"))
    before = len(pair.peer.log())
    wait_until(lambda: re.search(rf"{sent}(.*\n)*?.*{answered} \d+ \[ \]",
                                 pair.peer.log()[before:]),
               30.0, f"a liveness check of {asks} and its answer")


@pytest.mark.parametrize("name", ["6.1-mlkem768", "5.9.8-defaults"])
def test_rekeys_collide(lab, name):
    """Both ends ask before they hear of the other: RFC 7296 2.8.1, 2.25 (wait and ask again)."""
    pair = beside(lab, name, link={"delay_ms": 40}).start()
    pair.wait_reach()
    with pair.pings() as pings:
        for rekey in (pair.peer.rekey_child, pair.peer.rekey_ike):
            link = pair.wait_agreed()
            by_peer = threading.Thread(target=rekey)
            by_peer.start()
            pair.weft.tool("rekey", "n2")
            by_peer.join()
            rekeyed(pair, link, ike=True, child=True, timeout=20.0)
    assert pings.lost == 0, pings.results


def test_a_path_that_loses(lab):
    """Hybrid exchanges in fragments over a small path that loses every tenth packet."""
    pair = beside(lab, "6.1-mlkem1024", "strongswan", charon={"retransmit_timeout": 0.5},
                  # what the wire does not take, the devices would cut
                  link={"delay_ms": 5, "loss": 0.1, "mtu": 1280, "dev_mtu": 1280}).start()
    for _ in range(3):
        link = pair.wait_agreed(timeout=20.0)
        pair.peer.rekey_ike()
        link = rekeyed(pair, link, ike=True, child=False, timeout=20.0)
        pair.weft.tool("rekey", "n2")
        rekeyed(pair, link, ike=True, child=True, timeout=20.0)
        assert pair.kex() == (H1024, H1024)
    pair.wait_reach(timeout=10.0)
    counters = pair.mesh.wire.show()
    assert counters["ab"]["too_big"] == counters["ba"]["too_big"] == 0
    for ns in pair.mesh.spaces:
        counted = ns.run("nstat", "-as").stdout
        assert not re.search(r"^Ip6?FragCreates\s+[1-9]", counted, re.MULTILINE)
    assert counters["ab"]["lost"] and counters["ba"]["lost"]


def test_ipv6_underlay(lab):
    pair = beside(lab, "6.1-mlkem768", underlay="ip6").start()
    assert ":" in pair.link()["remote"]["address"]
    pair.check_traffic()
    link = pair.wait_agreed()
    pair.peer.rekey_child()
    rekeyed(pair, link, ike=False, child=True)
    pair.wait_reach()


def test_another_group_is_asked_for(lab):
    """INVALID_KE_PAYLOAD in IKE_SA_INIT and in CREATE_CHILD_SA: weft has no X448."""
    pair = Beside(lab, "forky", "strongswan", proposals=X448_FIRST,
                  esp_proposals=X448_FIRST_ESP).start()
    link = pair.wait_agreed()
    assert "parsed IKE_SA_INIT response 0 [ N(INVAL_KE) ]" in pair.peer.log()
    assert pair.kex()[0] == H768
    pair.peer.rekey_child()
    link = rekeyed(pair, link, ike=False, child=True)
    assert pair.kex()[1] == H768
    pair.peer.rekey_ike()
    rekeyed(pair, link, ike=True, child=False)
    assert pair.kex()[0] == H768
    # the rekey of the IKE SA begins with the group that it has
    assert pair.peer.log().count("N(INVAL_KE)") == 2
    pair.wait_reach()


def test_a_cookie_is_given_back(lab):
    """strongSwan has a half-open IKE SA and wants to know that weft is where it says it is."""
    pair = beside(lab, "6.1-defaults", charon={"cookie_threshold": 1})
    pair.start_peer()
    pair.a.run(sys.executable, "-c", HALF_OPEN, pair.mesh.outer(2))
    pair.weft.start()
    pair.weft.wait_up(1)
    assert "generating IKE_SA_INIT response 0 [ N(COOKIE) ]" in pair.peer.log()
    assert "parsed IKE_SA_INIT request 0 [ N(COOKIE) SA KE No" in pair.peer.log()
    pair.wait_reach()


def test_reaches_others_through_weft(lab):
    """strongSwan has a link to n1 alone; n1 forwards between it and n2, without the kernel."""
    mesh = Mesh(lab, 3)
    inner = mesh.inner
    peer = StrongSwan(mesh.spaces[2], "forky", mesh.connection(3, 1)).start()
    peer.tunnel(f"{inner(3)}/32 {inner(3, 'ip6')}/128",
                [f"{inner(i, family)}/{bits}" for i in (1, 2)
                 for family, bits in (("ip4", 32), ("ip6", 128))])
    mesh.reconfigure(2, peers={"exclude": ["n3"]}, static_routes=[
        {"prefix": f"{inner(i, family)}/{bits}", "node": "n1"} for i in (1, 3)
        for family, bits in (("ip4", 32), ("ip6", 128))])
    for node in mesh.nodes[:2]:
        node.start()
    mesh.nodes[0].wait_up(2)
    for one, far in ((2, 3), (3, 2)):
        for family in ("ip4", "ip6"):
            wait_ping(mesh.spaces[one - 1], inner(far, family))
            tcp_transfer(mesh.spaces[one - 1], mesh.spaces[far - 1], inner(far, family), 300_000)


def test_aes_cbc(lab):
    """A peer without AEAD in its proposals, in IKE and in ESP."""
    pair = Beside(lab, "bookworm", "strongswan", proposals=CBC, esp_proposals=CBC_ESP).start()
    link = pair.wait_agreed()
    assert link["children"][0]["suite"] == "AES-256-CBC/HMAC-SHA2-256-128"
    pair.check_traffic()
