"""Packets of the rooms esp and wire beside those of scapy, another implementation."""
import hmac
import os
import pathlib
import random
import subprocess

import pytest
from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror
from scapy.layers.inet6 import (ICMPv6DestUnreach, ICMPv6PacketTooBig, ICMPv6ParamProblem,
                                ICMPv6TimeExceeded, IPv6, in6_chksum)
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.packet import Raw
from scapy.utils import checksum

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("WEFT_BUILD", TOP / "build")) / "test/oracle/wire_tool"
SPI = 0x01020304
WRAP = 1 << 32
ICV = 16

# our name, scapy's cipher, key bytes, scapy's integrity algorithm, key bytes, IV bytes
SUITES = [
    ("AES-128-GCM-16", "AES-GCM", 20, "NULL", 0, 8),
    ("AES-256-GCM-16", "AES-GCM", 36, "NULL", 0, 8),
    ("ChaCha20-Poly1305", "CHACHA20-POLY1305", 36, "NULL", 0, 8),
    ("AES-128-CBC/HMAC-SHA2-256-128", "AES-CBC", 16, "SHA2-256-128", 32, 16),
    ("AES-256-CBC/HMAC-SHA2-256-128", "AES-CBC", 32, "SHA2-256-128", 32, 16),
]
NAMES = [suite[0] for suite in SUITES]
CHOICES = [(suite, esn) for suite in SUITES for esn in (False, True)]


def name_of(value):
    return value[0] if isinstance(value, tuple) else f"esn={value}"


@pytest.fixture(autouse=True)
def no_devices():
    """Building a packet must not ask the machine's routes or neighbours."""
    conf.route.routes = []
    conf.route6.routes = []


def tool(*words):
    """One command to wire_tool; the words of its answer."""
    line = " ".join(str(word) for word in words) + "\n"
    done = subprocess.run([TOOL], input=line, capture_output=True, text=True, timeout=20,
                          check=True)
    return done.stdout.split()


class End:
    """Keys of one suite, for both implementations."""

    def __init__(self, suite, esn, seed):
        self.name, cipher, key_len, integrity, auth_len, self.iv_len = suite
        rng = random.Random(seed)
        self.key, self.auth, self.esn = rng.randbytes(key_len), rng.randbytes(auth_len), esn
        self.rng = rng
        self.sa = SecurityAssociation(
            ESP, spi=SPI, crypt_algo=cipher, crypt_key=self.key, auth_algo=integrity,
            auth_key=self.auth or None, tunnel_header=IP(src="192.0.2.1", dst="192.0.2.2"),
            esn_en=esn, esn=0)

    def words(self):
        return self.name, self.key.hex(), self.auth.hex() or "-", SPI, int(self.esn)

    def seal(self, seq, inner):
        proto = 4 if isinstance(inner, IP) else 41
        return bytes.fromhex(tool("esp-seal", *self.words(), seq, proto, bytes(inner).hex())[0])

    def open(self, *datagrams):
        return tool("esp-open", *self.words(), *(d.hex() for d in datagrams))

    def icv(self, datagram, high):
        """scapy leaves the high half out of the ICV of a cipher that is no AEAD: RFC 4303 2.2.1."""
        return hmac.digest(self.auth, datagram[:-ICV] + high, "sha256")[:ICV]

    def scapy_seal(self, seq, inner):
        self.sa.seq_num = seq % WRAP  # scapy takes a seq_num of 0 for none
        sealed = self.sa.encrypt(inner, iv=self.rng.randbytes(self.iv_len), esn=seq // WRAP)
        datagram = bytes(sealed[ESP])
        if self.auth and self.esn:
            high = (seq // WRAP).to_bytes(4, "big")
            datagram = datagram[:-ICV] + self.icv(datagram, high)
        return datagram

    def scapy_open(self, seq, datagram):
        if self.auth and self.esn:
            assert datagram[-ICV:] == self.icv(datagram, (seq // WRAP).to_bytes(4, "big"))
            datagram = datagram[:-ICV] + self.icv(datagram, b"")
        outer = IP(src="192.0.2.1", dst="192.0.2.2", proto=50) / ESP(datagram)
        return self.sa.decrypt(IP(bytes(outer)), esn=seq // WRAP)


def inner_packets():
    for size in (0, 1, 2, 3, 13, 64, 1400):
        load = bytes(n % 251 for n in range(size))
        yield IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2", tos=2) / UDP(sport=1, dport=2) / load))
        yield IPv6(bytes(IPv6(src="fd00::1", dst="fd00::2", fl=77) / TCP(seq=9) / load))


@pytest.mark.parametrize("suite,esn", CHOICES, ids=name_of)
def test_scapy_opens_what_we_seal(suite, esn):
    end = End(suite, esn, 1)
    for seq, inner in enumerate(inner_packets(), 5 * WRAP + 7 if esn else 1):
        datagram = end.seal(seq, inner)
        assert ESP(datagram).seq == seq % WRAP
        assert bytes(end.scapy_open(seq, datagram)) == bytes(inner)


@pytest.mark.parametrize("suite,esn", CHOICES, ids=name_of)
def test_we_open_what_scapy_seals(suite, esn):
    end = End(suite, esn, 2)
    first = WRAP - 3 if esn else 1
    inner = list(inner_packets())
    got = end.open(*(end.scapy_seal(seq, p) for seq, p in enumerate(inner, first)))
    for seq, (p, answer) in enumerate(zip(inner, got, strict=True), first):
        proto = 4 if isinstance(p, IP) else 41
        assert answer == f"{seq}:{proto}:{bytes(p).hex()}"


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_a_wrong_high_half_is_not_authentic(suite):
    end = End(suite, True, 3)
    inner = next(inner_packets())
    assert end.open(end.scapy_seal(4 * WRAP + 5, inner), end.scapy_seal(5, inner)) == [
        "!not-authentic", f"5:4:{bytes(inner).hex()}"]


def outcome(packet):
    return IPv6(packet) if packet[0] >> 4 == 6 else IP(packet)


def checksums_right(packet):
    """scapy computes every checksum anew: the bytes are the same."""
    again = outcome(packet)
    for layer in (IP, TCP, UDP):
        if layer in again:
            del again[layer].chksum
    return bytes(again) == packet


ERRORS4 = [("time-exceeded", 11, 0), ("no-route", 3, 0), ("host-unreachable", 3, 1),
           ("admin", 3, 13), ("too-big", 3, 4), ("parameter", 12, 0)]
ERRORS6 = [("time-exceeded", ICMPv6TimeExceeded, 0), ("no-route", ICMPv6DestUnreach, 0),
           ("host-unreachable", ICMPv6DestUnreach, 3), ("admin", ICMPv6DestUnreach, 1),
           ("too-big", ICMPv6PacketTooBig, 0), ("parameter", ICMPv6ParamProblem, 4)]


@pytest.mark.parametrize("size", [0, 100, 1400])
@pytest.mark.parametrize("name,kind,code", ERRORS4, ids=lambda v: str(v))
def test_icmp_errors(name, kind, code, size):
    about = bytes(IP(src="10.0.0.1", dst="10.0.0.2", ttl=1) / UDP() / bytes(size))
    packet = bytes.fromhex(tool("icmp-error", name, "10.9.9.9", 1300, 4, about.hex())[0])
    got = IP(packet)
    assert (got.src, got.dst, got[ICMP].type, got[ICMP].code) == ("10.9.9.9", "10.0.0.1", kind,
                                                                  code)
    if name == "too-big":
        assert got[ICMP].nexthopmtu == 1300
    assert IPerror in got and packet[28:] == about[:576 - 28]
    assert checksum(packet[20:]) == 0 and checksum(packet[:20]) == 0


@pytest.mark.parametrize("size", [0, 100, 1400])
@pytest.mark.parametrize("name,layer,code", ERRORS6, ids=lambda v: getattr(v, "__name__", str(v)))
def test_icmpv6_errors(name, layer, code, size):
    about = bytes(IPv6(src="fd00::1", dst="fd00::2", hlim=1) / UDP() / bytes(size))
    packet = bytes.fromhex(tool("icmp-error", name, "fd00::9", 1300, 4, about.hex())[0])
    got = IPv6(packet)
    assert (got.src, got.dst, got[layer].code) == ("fd00::9", "fd00::1", code)
    if name == "too-big":
        assert got[layer].mtu == 1300
    if name == "parameter":
        assert got[layer].ptr == 1300
    assert packet[48:] == about[:1280 - 48]
    assert in6_chksum(58, got, packet[40:]) == 0


def test_no_errors_about_errors():
    about = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(type=3) / bytes(40))
    assert tool("icmp-error", "time-exceeded", "10.9.9.9", 0, 0, about.hex()) == ["!refused"]


HEADS = {
    1: (IP(src="10.0.0.1", dst="10.0.0.2", id=65534, flags="DF"), TCP, 20, 16),
    2: (IPv6(src="fd00::1", dst="fd00::2", fl=5), TCP, 40, 16),
    3: (IP(src="10.0.0.1", dst="10.0.0.2", id=65534), UDP, 20, 6),
    4: (IPv6(src="fd00::1", dst="fd00::2", fl=5), UDP, 40, 6),
}


def segments(kind, load, size):
    """What a superpacket stands for, said with scapy's own headers and sums."""
    head, layer, _, _ = HEADS[kind]
    count = -(-len(load) // size)
    for i in range(count):
        if layer is TCP:
            flags = "A" + ("C" if i == 0 else "") + ("FP" if i == count - 1 else "")
            l4 = TCP(sport=1, dport=2, seq=(WRAP - 100 + i * size) % WRAP, ack=3, flags=flags,
                     options=[("Timestamp", (1, 2)), ("NOP", None), ("NOP", None)])
        else:
            l4 = UDP(sport=1, dport=2)
        ip = head.copy()
        if isinstance(ip, IP):
            ip.id = (ip.id + i) % 65536
        yield bytes(ip / l4 / Raw(load[i * size:(i + 1) * size]))


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("size,total", [(1000, 1), (1000, 3000), (1348, 60000), (7, 100)])
def test_superpackets(kind, size, total):
    load = random.Random(total).randbytes(total)
    head, layer, start, offset = HEADS[kind]
    whole = next(segments(kind, load, total))
    assert layer in outcome(whole) and head.version == whole[0] >> 4
    got = [bytes.fromhex(word) for word in tool("gso", kind, size, 1, start, offset, whole.hex())]
    assert got == list(segments(kind, load, size))
    assert all(checksums_right(packet) for packet in got)


@pytest.mark.parametrize("kind", HEADS)
def test_merged_and_cut_again(kind):
    packets = list(segments(kind, random.Random(kind).randbytes(10500), 1000))
    # the first has CWR, the last FIN and PSH: one frame
    merged = tool("gro", *(packet.hex() for packet in packets))
    assert len(merged) == 1
    got_kind, size, count, frame = merged[0].split(":")
    assert (int(got_kind), int(size), int(count)) == (kind, 1000, 11)
    _, _, start, offset = HEADS[kind]
    again = tool("gso", kind, size, 1, start, offset, frame)
    assert [bytes.fromhex(word) for word in again] == packets


@pytest.mark.parametrize("inner,outer,now", [
    (0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, None), (2, 0, 2), (2, 1, 1), (2, 2, 2), (2, 3, 3),
    (1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 3, 3), (3, 0, 3), (3, 1, 3), (3, 2, 3), (3, 3, 3)])
def test_ecn(inner, outer, now):
    for make in (lambda ecn: IP(src="10.0.0.1", dst="10.0.0.2", tos=0xb8 | ecn),
                 lambda ecn: IPv6(src="fd00::1", dst="fd00::2", tc=0xb8 | ecn, fl=0xfffff)):
        got = tool("ecn", outer, bytes(make(inner) / UDP() / b"x").hex())[0]
        want = "!ecn-ce-not-ect" if now is None else bytes(make(now) / UDP() / b"x").hex()
        assert got == want
