"""Segments beside the kernel's: what its head end writes, and what its SIDs do with ours.
"""
import pathlib
import sys

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6

from lab import build_folder

TUN_END = pathlib.Path(__file__).resolve().parents[1] / "lab/tun_end.py"
SOURCE = "fd00:5:1::100"
LENGTHS = [1, 2, 3, 10]
MODES = ["encap", "encap.red"]
PAYLOAD = bytes(range(100)).hex()
HOP_LIMIT_AT = 7
INNER = {"ipv4": IP(src="10.6.0.5", dst="10.6.0.9", ttl=33) / UDP() / bytes(100),
         "ipv6": IPv6(src="fd00:6::5", dst="fd00:6::9", hlim=33) / UDP() / bytes(100)}


@pytest.fixture
def kernel(lab):
    """A namespace that routes, with one TUN device as its only link."""
    ns = lab.ns("kernel", forward=True)
    ns.ip("tuntap add dev seg0 mode tun")
    ns.addr("fd00:1::5/128 10.1.0.5/32", "seg0")
    ns.up("seg0")
    ns.ip("sr tunsrc set " + SOURCE)
    ns.sysctl("net.ipv4.conf.all.send_redirects", 0)
    ns.sysctl("net.ipv4.conf.seg0.send_redirects", 0)
    for prefix in ("fd00:5::/32", "fd00:6::/32", "10.6.0.0/16"):
        ns.route(prefix, "dev seg0")
    return ns


def through(ns, *lines):
    """What came out of the device for each line."""
    done = ns.run(sys.executable, TUN_END, "seg0", stdin="".join(f"{line}\n" for line in lines))
    got = done.stdout.split()
    assert len(got) == len(lines) and "none" not in got, done.stderr
    return [bytes.fromhex(word) for word in got]


def tool(ns, *words):
    line = " ".join(str(word) for word in words) + "\n"
    return ns.run(build_folder() / "test/oracle/srv6_tool", stdin=line).stdout.split()


def pushed(ns, mode, compat, segments, inner):
    return bytes.fromhex(tool(ns, "push", mode, compat, SOURCE, ",".join(segments),
                              inner.hex())[0])


def segments(count):
    return [f"fd00:5:{i + 1:x}::2" for i in range(count)]


def overhead(mode, count):
    listed = count if mode == "encap" else count - 1
    return 40 + (8 + 16 * listed if listed else 0)


def without_marks(packet):
    """Without traffic class, flow label and hop limit."""
    return packet[4:HOP_LIMIT_AT] + packet[HOP_LIMIT_AT + 1:]


@pytest.mark.parametrize("mode", MODES)
def test_the_kernels_head_end_writes_the_same(kernel, mode):
    cases, lines = [], []
    for number, count in enumerate(LENGTHS):
        for family, prefix, host in (("ipv4", f"10.4.{number}.0/24", f"10.4.{number}.9"),
                                     ("ipv6", f"fd00:4:{number}::/64", f"fd00:4:{number}::9")):
            kernel.ip(f"-{family[3]} route add {prefix} encap seg6 mode {mode} "
                      f"segs {','.join(segments(count))} dev seg0")
            cases.append((count, family))
            lines.append(f"udp {host} {0xb9} 33 {PAYLOAD}")
    for (count, family), got in zip(cases, through(kernel, *lines), strict=True):
        inner = got[overhead(mode, count):]
        assert inner[0] >> 4 == int(family[3])
        assert bytes.fromhex(PAYLOAD) in inner
        assert got == pushed(kernel, mode, "linux", segments(count), inner), (count, family)
        for compat in ("rfc", "rfc-dscp"):
            ours = pushed(kernel, mode, compat, segments(count), inner)
            assert without_marks(got) == without_marks(ours)


def one_hop_less(packet):
    """As a router leaves it, in both families."""
    changed = bytearray(packet)
    if packet[0] >> 4 == 6:
        changed[HOP_LIMIT_AT] -= 1
        return bytes(changed)
    changed[8] -= 1
    total = int.from_bytes(packet[10:12], "big") + 0x100
    changed[10:12] = ((total & 0xffff) + (total >> 16)).to_bytes(2, "big")
    return bytes(changed)


def at_sid(ns, address, action, packet):
    """The packet as it leaves a SID that the kernel has for as long as that takes."""
    ns.route(f"{address}/128", f"encap seg6local action {action} dev seg0")
    packet, = through(ns, f"packet {packet.hex()}")
    ns.ip(f"-6 route del {address}/128")
    return packet


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_kernels_sids_take_what_we_write(kernel, mode, family):
    """Through an End of the kernel at each segment, out at its End.DX4 or End.DX6."""
    exits = {"ipv4": ["End.DX4 nh4 0.0.0.0"], "ipv6": ["End.DX6 nh6 ::", "End.DT6 table main"]}
    inner = bytes(INNER[family])
    for count in LENGTHS:
        travel = segments(count)
        packet = pushed(kernel, mode, "rfc", travel, inner)
        for address in travel[:-1]:
            ours = tool(kernel, "sid", "End", 1, packet.hex())
            packet = at_sid(kernel, address, "End", packet)
            assert ours == ["forward", packet.hex()]
        assert tool(kernel, "sid", "End.DT46", 1, packet.hex()) == ["inner", inner.hex()]
        for action in exits[family]:
            assert at_sid(kernel, travel[-1], action, packet) == one_hop_less(inner)
