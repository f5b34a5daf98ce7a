"""weft and the Linux kernel's own ESP in UDP: strongSwan 6.1 (ML-KEM) with kernel-netlink.

   n1 (weft) ==== VM (charon, kernel ESP) ---- n2, a host

One virtual machine for all; each scenario has its own weft and charon. See lab/kernel_swan.py.
"""
import re
import struct
import sys

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lab import Beside, KernelHost, Lab, UdpStream, wait_until
from lab.strongswan import CLASSIC, CLASSIC_ESP, HYBRID, HYBRID_ESP

BACK_S = 60.0
KEX = {"hybrid": (HYBRID, HYBRID_ESP, ["X25519", "ML-KEM-768"]),
       "classic": (CLASSIC, CLASSIC_ESP, ["X25519"])}
# from another namespace, with the machine's address: argument and standard input in hexadecimal
SPOOF = """
import socket, struct, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for line in sys.stdin:
    data = bytes.fromhex(line)
    udp = struct.pack("!HHHH", 13000, 13000, 8 + len(data), 0) + data
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                     socket.inet_aton(sys.argv[1]), socket.inet_aton(sys.argv[2]))
    sock.sendto(ip + udp, (sys.argv[2], 0))
"""
DROP_IN = """
table inet lost {
  chain in { type filter hook input priority 0; udp dport 13000 drop; }
}
"""
IGNORE_ECHO = "echo {} > /proc/sys/net/ipv6/icmp/echo_ignore_all"
LIVENESS = r"parsed INFORMATIONAL request(.*\n)*?.*generating INFORMATIONAL response \d+ \[ \]"
IMPATIENT = {"retransmit_timeout": 1, "retransmit_tries": 2}


@pytest.fixture(scope="module", name="host")
def booted():
    with Lab() as made:
        yield KernelHost(made).start()


@pytest.fixture(name="pair")
def pairs(lab, host):
    """Makes a Beside of the machine; nothing of its charon is left when the test ends."""
    made = []

    def make(kex="hybrid", esn="esn", initiator="weft", **more):
        proposals, esp, _ = KEX[kex]
        made.append(Beside(lab, host, initiator, proposals=proposals,
                           esp_proposals=f"{esp}-{esn}", **more))
        return made[-1]
    yield make
    for one in made:
        one.peer.clear()
    host.vm.run(IGNORE_ECHO.format(0))


def at_kernel(pair, way):
    """The words of `ip xfrm state` about its only SA of this direction."""
    source = pair.weft.ns, pair.mesh.outer(2 if way == "out" else 1, pair.mesh.families[0])
    found = [text for text in re.split(r"(?m)^(?=src )", pair.peer.vm.run("ip -s xfrm state"))
             if text.startswith(f"src {source[1]} ")]
    state, = found
    return state


def errors(pair):
    """The kernel's IPsec error counters that are not zero."""
    return {name: int(n) for name, n in
            re.findall(r"(\w+)\s+(\d+)", pair.peer.vm.run("cat /proc/net/xfrm_stat")) if n != "0"}


def rekeyed(pair, before, ike, child):
    """Waits until both ends have the new SAs that were asked for; returns weft's link."""
    def new():
        link = pair.link()
        return ((not ike or link["ike"]["spi_i"] != before["ike"]["spi_i"])
                and (not child or link["children"][0]["spi_in"] != before["children"][0]["spi_in"]))
    wait_until(new, BACK_S, "new SPIs", every=0.05)
    return pair.wait_agreed(BACK_S)


def holes(pings):
    """What is missing before the last answer of each; the machine may be slow with the last."""
    return [gap for result in pings.results for gap in result.gaps if sum(gap) <= result.sent]


@pytest.mark.parametrize("underlay, kex, esn, initiator", [
    ("ip4", "hybrid", "esn", "weft"), ("ip4", "hybrid", "esn", "strongswan"),
    ("ip6", "hybrid", "noesn", "strongswan"), ("ip6", "classic", "esn", "strongswan"),
    ("ip4", "classic", "noesn", "weft")])
def test_joins_and_rekeys(pair, underlay, kex, esn, initiator):
    """Traffic, then rekeys of the IKE SA and of the child from each side, and nothing is lost."""
    one = pair(kex, esn, initiator, underlay=underlay).start()
    link = one.wait_agreed(BACK_S)
    sa, = one.peer.sas()
    assert ("initiator" in sa) == (initiator == "strongswan")
    assert one.kex() == (KEX[kex][2], KEX[kex][2])
    one.check_traffic()
    before = errors(one)
    with one.pings() as pings:
        for ask, ike, child in ((one.peer.rekey_child, False, True),
                                (one.peer.rekey_ike, True, False),
                                (lambda: one.weft.tool("rekey", "n2"), True, True)):
            ask()
            link = rekeyed(one, link, ike, child)
            pings.wait_received(50, BACK_S)
            assert link["children"][0]["suite"] == "AES-256-GCM-16"
            assert link["children"][0]["esn"] is (esn == "esn")
            assert one.kex() == (KEX[kex][2], KEX[kex][2])
    assert not holes(pings), pings.results
    assert errors(one) == before
    # charon keeps a rekeyed child for 5 s; then one pair is left, of the kind that was agreed
    wait_until(lambda: one.peer.vm.run("ip xfrm state").count("proto esp") == 2, BACK_S,
               "the kernel to have one pair", every=0.3)
    for way in ("in", "out"):
        state = at_kernel(one, way)
        assert ("esn" in re.search(r"flag.*", state)[0].split()) == (esn == "esn"), state
        assert "type espinudp sport 13000 dport 13000" in state


def sealed(pair, state, number, text, next_header, pad=b""):
    """An ESP packet as the kernel would send it by this state; number: all 64 bits of it."""
    key = bytes.fromhex(re.search(r"rfc4106\(gcm\(aes\)\) 0x(\w+)", state)[1])
    spi = int(re.search(r"spi 0x(\w+)", state)[1], 16)
    low, iv = number & 0xffffffff, struct.pack("!Q", number | 1 << 63)
    aad = struct.pack("!III", spi, number >> 32, low) if "esn" in state else struct.pack(
        "!II", spi, low)
    text += pad + bytes([len(pad), next_header])
    return struct.pack("!II", spi, low) + iv + AESGCM(key[:32]).encrypt(key[32:] + iv, text, aad)


def spoof(pair, host, *packets):
    """They come to weft from the machine's address."""
    host.road.run(sys.executable, "-c", SPOOF, pair.mesh.outer(2), pair.mesh.outer(1),
                  stdin="".join(packet.hex() + "\n" for packet in packets))


def numbers_sent(pair):
    """How many sequence numbers the kernel has used on its outbound SA."""
    return int(re.search(r"oseq 0x(\w+)", at_kernel(pair, "out"))[1], 16)


@pytest.mark.parametrize("esn", ["esn", "noesn"])
def test_dummy_packets(pair, host, esn):
    """RFC 4303 2.6: dummies take numbers of the kernel's sequence, whatever is in them; they are
    thrown away, move the window, and are taken once."""
    one = pair(esn=esn).start()
    one.wait_reach(BACK_S)
    host.road.addr("10.0.0.9/24", "br0")
    try:
        dummies(one, host)
    finally:
        host.road.ip("addr del 10.0.0.9/24 dev br0")


def dummies(one, host):
    # numbers that the kernel has used and weft has not seen
    one.a.run("nft", "-f", "-", stdin=DROP_IN)
    before = numbers_sent(one)
    one.b.run("ping", "-c", 4, "-i", 0.2, "-W", 1, one.mesh.inner(1), check=False)
    assert numbers_sent(one) >= before + 4
    one.a.run("nft", "delete", "table", "inet", "lost")
    state, was = at_kernel(one, "out"), one.weft.drops()
    packets = [sealed(one, state, before + 1, b"", 59),
               sealed(one, state, before + 2, bytes(1000), 59, bytes(range(1, 15))),
               # the rest of a dummy need not be well-formed
               sealed(one, state, before + 3, b"\x45" + bytes(range(99)), 59, b"\xff" * 7),
               # and this is an IPv4 header that says 60 bytes of 20
               sealed(one, state, before + 4, struct.pack("!BBH16x", 0x45, 0, 60), 4, b"\1\2")]
    broken = packets[0][:-1] + bytes([packets[0][-1] ^ 1])
    spoof(one, host, broken, *packets, *packets)
    want = {"esp-dummy": 3, "replay-duplicate": 4, "not-authentic": 1, "bad-ip": 1}

    def counted():
        now = one.weft.drops()
        return {key: now[key] - was[key] for key in want} == want
    wait_until(counted, 10.0, f"drops {want}, and there are {one.weft.drops()}")
    one.check_traffic()
    assert counted()


def delivered(one):
    """What weft gave to its host so far: packets and bytes at the TUN."""
    return one.a.ip_json("-s link show weft0")[0]["stats64"]["rx"]


def test_tfc_padding(pair):
    """RFC 4303 2.7: the kernel makes all packets as long, and what weft delivers is not."""
    one = pair(child_settings={"tfc_padding": 1200}).start()
    one.wait_reach(BACK_S)
    heard = one.a.start("tcpdump", "-lnqi", "any", "-Q", "in", "udp src port 13000", name="heard")
    heard.wait_log("listening on")
    was = delivered(one)
    with one.pings() as pings:
        pings.wait_received(50, BACK_S)
    assert not holes(pings), pings.results
    now = delivered(one)
    packets = now["packets"] - was["packets"]
    assert packets >= 100 and (now["bytes"] - was["bytes"]) / packets < 150
    wait_until(lambda: len(re.findall(r"length 1[2-5]\d\d$", heard.log(), re.M)) >= packets, 10.0,
               "packets of 1200 bytes and more")
    one.check_traffic()
    assert not {"bad-padding", "bad-ip"} & {
        name for name, n in one.weft.drops().items() if n}


def test_numbers_pass_32_bits(pair):
    """ESN: the kernel's sequence number passes 2^32, and goes on."""
    one = pair(esn="esn").start()
    one.wait_reach(BACK_S)
    state = at_kernel(one, "out")
    key = re.search(r"0x\w+ \(288 bits\)", state)[0].split()[0]
    spi = re.search(r"spi (0x\w+)", state)[1]
    ends = f"src {one.mesh.outer(2)} dst {one.mesh.outer(1)} proto esp spi {spi}"
    # a packet that wants out in between makes the kernel note that there is no such SA
    change = (f"ip xfrm state delete {ends}; ip xfrm state add {ends} reqid 1 mode tunnel "
              "replay-window 32 replay-oseq 0xffffff00 replay-oseq-hi 0 flag esn flag af-unspec "
              f"aead 'rfc4106(gcm(aes))' {key} 128 encap espinudp 13000 13000 0.0.0.0 if_id 0x3")
    wait_until(lambda: one.peer.vm.attempt(change, check=False).returncode == 0, BACK_S,
               "the kernel to be near 2^32", every=0.1)
    with one.pings() as pings:
        pings.wait_received(300, BACK_S)
    assert not holes(pings), pings.results
    state = at_kernel(one, "out")
    assert "oseq-hi 0x1" in state or "oseq_hi 0x1" in state, state
    assert one.weft.drops()["not-authentic"] == one.weft.drops()["replay-old"] == 0


def judged(pair):
    return "nothing is heard: down for routing" in pair.weft.process.log()


def echoes(host):
    """How many echo requests the kernel got and how many answers it sent, over IPv6."""
    found = dict(re.findall(r"Icmp6(\w+)\s+(\d+)", host.vm.run("cat /proc/net/snmp6")))
    return int(found.get("InType128", 0)), int(found.get("OutType129", 0))


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "ignores"])
def test_echoes(pair, host, answers):
    """Traffic in one direction: an end that answers echoes is asked by them, one that does not by
    IKE, and either stays up; when it goes, either is noticed, and called until it is back."""
    host.vm.run(IGNORE_ECHO.format(int(not answers)))
    was = echoes(host)
    one = pair(config={"ike": {"dpd": "1s"}}).start()
    link = one.wait_agreed(BACK_S)
    stream = UdpStream(one.a, one.b, one.mesh.inner(2), interval=0.01)
    wait_until(lambda: len(stream.got) > 300, BACK_S, "a stream of three seconds", every=0.1)
    assert stream.stop() == len(stream.sent)
    asked, answered = (b - a for a, b in zip(was, echoes(host)))
    assert asked >= 3 and answered == (asked if answers else 0)
    wait_until(lambda: re.search(LIVENESS, one.peer.log()), BACK_S, "a question by IKE", every=0.2)
    assert one.wait_agreed(BACK_S)["ike"]["spi_i"] == link["ike"]["spi_i"]
    assert answers or not judged(one)
    one.peer.kill()
    stream = UdpStream(one.a, one.b, one.mesh.inner(2), interval=0.01)
    if answers:
        wait_until(lambda: judged(one), BACK_S, "weft to notice by echoes", every=0.1)
    wait_until(lambda: one.link()["state"] != "up", BACK_S, "weft to notice", every=0.2)
    assert "answer" in one.reason()
    assert answers or not judged(one)
    stream.stop()
    one.start_peer()
    one.wait_reach(BACK_S)
    assert one.wait_agreed(BACK_S)["ike"]["spi_i"] != link["ike"]["spi_i"]


def test_charon_dies_while_the_kernel_goes_on(pair):
    """The kernel keeps sending by the SAs of a charon that is gone, and hears nothing: what comes
    from it does not make weft believe that it is heard."""
    one = pair(config={"ike": {"dpd": "1s"}}).start()
    one.wait_reach(BACK_S)
    one.peer.kill()
    stream = UdpStream(one.b, one.a, one.mesh.inner(1), interval=0.01)
    wait_until(lambda: one.link()["state"] != "up", BACK_S, "weft to notice", every=0.2)
    assert len(stream.got) > 300
    assert "answer" in one.reason()
    stream.stop()


def test_weft_dies(pair):
    """DPD of charon: the kernel's SAs go; weft comes back and is up at once."""
    one = pair(charon=IMPATIENT, settings={"dpd_delay": 1}).start()
    one.wait_reach(BACK_S)
    one.weft.kill()
    wait_until(lambda: "giving up after 2 retransmits" in one.peer.log(), 60.0,
               "charon to notice", every=0.2)
    one.weft.start()
    one.wait_reach(BACK_S)
    one.wait_agreed(BACK_S)
    # and without a pause in which charon would notice
    one.weft.kill()
    one.weft.start()
    one.wait_reach(BACK_S)
    one.wait_agreed(BACK_S)
