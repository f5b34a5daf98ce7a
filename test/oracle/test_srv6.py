"""Packets of the room srv6 beside those of scapy, another implementation."""
import os
import pathlib
import subprocess

import pytest
from scapy.config import conf
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6DestUnreach, ICMPv6EchoRequest, ICMPv6PacketTooBig,
                                ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt,
                                IPv6ExtHdrSegmentRouting, IPv6ExtHdrSegmentRoutingTLVHMAC,
                                IPv6ExtHdrSegmentRoutingTLVPadN)

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("WEFT_BUILD", TOP / "build")) / "test/oracle/srv6_tool"
SOURCE = "fd00:5:1::100"
LENGTHS = [1, 2, 3, 10]
INNER = [
    IP(src="10.1.0.5", dst="10.4.0.9", tos=0xb9, ttl=7) / UDP(sport=1000, dport=2000) / b"four",
    IPv6(src="fd00:1::5", dst="fd00:4::9", tc=0xb9, fl=0x54321, hlim=7) / TCP(sport=1, dport=2),
]
FAMILY = {0: "ipv4", 1: "ipv6"}


@pytest.fixture(autouse=True)
def no_devices():
    """Building a packet must not ask the machine's routes or neighbours."""
    conf.route.routes = []
    conf.route6.routes = []


def tool(*words):
    line = " ".join(str(word) for word in words) + "\n"
    done = subprocess.run([TOOL], input=line, capture_output=True, text=True, timeout=20,
                          check=True)
    return done.stdout.split()


def segments(count):
    return [f"fd00:5:{i + 1:x}::2" for i in range(count)]


def srh(travel, left, reduced, **more):
    """The list of a path, in scapy's words."""
    listed = travel[::-1]
    if reduced:
        listed = listed[:-1]
    return IPv6ExtHdrSegmentRouting(addresses=listed, segleft=left, lastentry=len(listed) - 1,
                                    **more)


def encapsulated(inner, travel, reduced, **outer):
    number = 4 if isinstance(inner, IP) else 41
    head = IPv6(src=SOURCE, dst=travel[0], nh=number, **outer)
    if len(travel) == 1 and reduced:
        return bytes(head / inner)
    head.nh = 43
    return bytes(head / srh(travel, len(travel) - 1, reduced, nh=number) / inner)


@pytest.mark.parametrize("mode", ["encap", "encap.red"])
@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("family", [0, 1], ids=FAMILY.get)
def test_what_is_pushed(mode, count, family):
    inner, travel = INNER[family], segments(count)
    for compat, tc, hlim in (("linux", 0xb9 * family, 7 if family else 64),
                             ("rfc", 0x01, 64), ("rfc-dscp", 0xb9, 64)):
        got = bytes.fromhex(tool("push", mode, compat, SOURCE, ",".join(travel),
                                 bytes(inner).hex())[0])
        label = IPv6(got).fl
        assert label == 0x54321 * family if compat == "linux" else label != 0
        assert got == encapsulated(inner, travel, mode == "encap.red", tc=tc, fl=label, hlim=hlim)


@pytest.mark.parametrize("reduced", [False, True], ids=["full", "reduced"])
@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("family", [0, 1], ids=FAMILY.get)
def test_a_packet_of_scapys_along_its_segments(reduced, count, family):
    inner, travel = INNER[family], segments(count)
    packet = encapsulated(inner, travel, reduced, hlim=30)
    for hop, address in enumerate(travel[1:], 1):
        word, packet = tool("sid", "End", 1, packet.hex())
        packet = bytes.fromhex(packet)
        assert word == "forward"
        want = IPv6(encapsulated(inner, travel, reduced, hlim=30))
        want.dst, want.hlim = address, 30 - hop
        want[IPv6ExtHdrSegmentRouting].segleft -= hop
        assert packet == bytes(want)
    for behaviour in ("End", "End.DT46", "End.DT6" if family else "End.DT4"):
        assert tool("sid", behaviour, 1, packet.hex()) == ["inner", bytes(inner).hex()]
    wrong = "End.DT4" if family else "End.DT6"
    upper = len(packet) - len(bytes(inner))
    assert tool("sid", wrong, 1, packet.hex()) == [
        "!srv6-upper-layer", "parameter", "4", str(upper)]


def test_options_and_tlvs_on_the_way():
    travel = segments(2)
    hmac = IPv6ExtHdrSegmentRoutingTLVHMAC(hmac=bytes(16))
    for tlv, refused in ((IPv6ExtHdrSegmentRoutingTLVPadN(len=6, padding=bytes(6)), False),
                         (hmac, True)):
        for options in (b"", bytes(IPv6ExtHdrDestOpt(nh=43))):
            header = srh(travel, 1, False, tlv_objects=[tlv], nh=41)
            packet = bytes(IPv6(src=SOURCE, dst=travel[0], nh=60 if options else 43,
                                plen=len(options) + len(header) + len(INNER[1])))
            packet += options + bytes(header) + bytes(INNER[1])
            assert tool("sid", "End", 0, packet.hex())[0] == "forward"
            assert (tool("sid", "End", 1, packet.hex())[0] == "!srv6-hmac") == refused


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("family", [0, 1], ids=FAMILY.get)
def test_errors_about_what_was_pushed(count, family):
    inner, travel = bytes(INNER[family]), segments(count)
    about = IPv6(bytes.fromhex(tool("push", "encap.red", "rfc", SOURCE, ",".join(travel),
                                    inner.hex())[0]))
    overhead = str(len(about) - len(inner))
    for layer, word in ((ICMPv6PacketTooBig(mtu=1333), "too-big"),
                        (ICMPv6DestUnreach(code=0), "host-unreachable"),
                        (ICMPv6TimeExceeded(), "host-unreachable")):
        error = bytes(IPv6(src="fd00:2::1", dst=SOURCE) / layer / about)
        got = tool("error", SOURCE, error.hex())
        assert (got[0], got[2], got[3]) == (word, overhead, inner.hex())
        assert word != "too-big" or got[1] == "1333"
        assert tool("error", "fd00:5:9::100", error.hex()) == ["!none"]
    echo = bytes(IPv6(src="fd00:2::1", dst=SOURCE) / ICMPv6EchoRequest() / about)
    assert tool("error", SOURCE, echo.hex()) == ["!none"]
