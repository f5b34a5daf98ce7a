"""A peer with keys that sends Babel packets as fast as it can: garbage, forgeries, questions.

n1 and n2 are weft, and the peer is n3: a strongSwan, whose keys a sender has. The registry says
what each may announce, and that n3 is no relay.
"""
import random
import re
import socket
import struct

import pytest

from lab import Mesh, StrongSwan, UdpStream, build_folder, wait_ping, wait_until
from lab.mesh import PORT
from lab.strongswan import CLASSIC, CLASSIC_ESP

RATE, SECONDS = 100_000, 10
STREAM = 9_000  # datagrams, one a millisecond
BABEL_PORT = 6696
GROUP = socket.inet_pton(socket.AF_INET6, "ff02::1:6")
OWN = socket.inet_pton(socket.AF_INET6, "fe80::3")
PACKETS = 1000  # different ones, over and over
REFUSED = {"garbage": "babel-malformed", "forged": "babel-filtered",
           "questions": "babel-duplicate-request"}


def udp6(source, data):
    """An IPv6 packet to all Babel routers."""
    length = 8 + len(data)
    header = struct.pack("!HHHH", BABEL_PORT, BABEL_PORT, length, 0)
    summed = (source + GROUP + struct.pack("!II", length, 17) + header + data
              + b"\0" * (len(data) % 2))
    total = sum(struct.unpack(f"!{len(summed) // 2}H", summed))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return (struct.pack("!IHBB", 6 << 28, length, 17, 1) + source + GROUP
            + header[:6] + struct.pack("!H", (~total & 0xffff) or 0xffff) + data)


def tlv(kind, body):
    return bytes([kind, len(body)]) + body


def packet(*tlvs):
    body = b"".join(tlvs)
    return b"\x2a\x02" + struct.pack("!H", len(body)) + body


def hello(number):
    return tlv(4, struct.pack("!HHH", 0, number & 0xffff, 400))


IHU = tlv(5, struct.pack("!BBHH", 0, 0, 96, 1200))


def router_id(value):
    return tlv(6, b"\0\0" + value)


def next_hop4(address):
    return tlv(7, b"\1\0" + socket.inet_aton(address))


def update4(address, bits, metric=0, seqno=1, flags=0):
    octets = socket.inet_aton(address)[:(bits + 7) // 8]
    return tlv(8, struct.pack("!BBBBHHH", 1, flags, bits, 0, 400, seqno, metric) + octets)


def route_request(address=None, bits=0):
    octets = socket.inet_aton(address)[:(bits + 7) // 8] if address else b""
    return tlv(9, bytes([1 if address else 0, bits]) + octets)


def seqno_request(address, bits, seqno, asked):
    return tlv(10, struct.pack("!BBHBB", 1, bits, seqno & 0xffff, 64, 0) + asked
               + socket.inet_aton(address)[:(bits + 7) // 8])


class Liar:
    def __init__(self, lab):
        self.mesh = mesh = Mesh(lab, 3)
        entries = mesh.registry({i: {"allow": [f"{mesh.inner(i)}/32", f"{mesh.inner(i, 'ip6')}/128",
                                               f"10.1.{i}.0/24"],
                                     **({"transit": False} if i == 3 else {})}
                                 for i in mesh.numbers()})
        for i in (1, 2):
            mesh.reconfigure(i, registry=entries, static_routes=[], babel={"hello": "1s"},
                             announce=[f"10.1.{i}.0/24"])
        self.victim, self.other = mesh.nodes[:2]
        log = {"path": "stderr", "default": 1, "chd": 4, "flush_line": "yes"}
        self.peer = StrongSwan(mesh.spaces[2], "bookworm", mesh.connection(
            3, 1, proposals=CLASSIC, esp_proposals=CLASSIC_ESP), charon={"filelog": {"log": log}})
        self.peer.start()
        for node in (self.victim, self.other):
            node.start()
        self.peer.wait_up()
        wait_until(lambda: len(self.routes()) == 3, 20.0, "n1 to know the ways to n2")
        wait_ping(mesh.spaces[1], mesh.inner(1))
        self.random = random.Random(1)
        # of n2
        self.origin = next(bytes.fromhex(route["router_id"].replace(":", ""))
                           for route in self.victim.ask("routes")["routes"]
                           if route["prefix"] == "10.1.2.0/24")

    def routes(self):
        return sorted((route["prefix"], route["installed"], route["via"]["peer"]["name"])
                      for route in self.victim.ask("routes")["routes"]
                      if route["origin"] == "babel")

    def keys(self):
        """"SPI KEY" of what n3 sends."""
        child, = self.peer.children()
        mine = "initiator" if self.peer.sas()[0].get("initiator") == "yes" else "responder"
        dump = re.search(rf"encryption {mine} key => 36 bytes.*\n"
                         r"((?:.*: *(?:[0-9A-F]{2} )+.*\n)+)", self.peer.log())
        rows = re.sub(r"^.*?\d+: ", " ", dump[1], flags=re.MULTILINE)
        key = "".join(re.findall(r"(?<= )[0-9A-F]{2}(?= )", rows))
        return f"{child['spi-out']} {key[:72]}"

    def garbage(self, number):
        """What is no Babel, what is cut, and what random TLVs say; half of it by made-up names."""
        draw = self.random
        body = b"".join(tlv(draw.randrange(12), draw.randbytes(draw.randrange(30)))
                        for _ in range(30))
        wrong = (draw.randbytes(200),
                 packet(hello(number), body),
                 packet(hello(number), IHU, body)[:-7],
                 packet(hello(number), IHU, router_id(draw.randbytes(8))))
        source = OWN if number % 8 < 4 else b"\xfe\x80" + draw.randbytes(14)
        return udp6(source, wrong[number % len(wrong)])

    def forged(self, number):
        """n2's prefixes at no cost, by its name and by one that nobody has, and new ones."""
        draw, far = self.random, self.mesh.inner(2)
        new = [update4(socket.inet_ntoa(draw.randbytes(4)), 32) for _ in range(50)]
        return udp6(OWN, packet(
            hello(number), IHU, router_id(self.origin if number % 2 else draw.randbytes(8)),
            next_hop4(self.mesh.inner(3)), update4(far, 32), update4("10.1.2.0", 24),
            update4("0.0.0.0", 0), *new))

    def questions(self, number):
        """For all routes, and for seqnos that nobody has."""
        return udp6(OWN, packet(
            hello(number), IHU, route_request(), route_request("10.1.2.0", 24),
            *(seqno_request("10.1.2.0", 24, number * 50 + i, self.origin) for i in range(5))))

    def flood(self, kind):
        """Sends, as n3, so many different packets over and over."""
        make = getattr(self, kind)
        path = self.mesh.lab.dir / "lines"
        path.write_text("\n".join([self.keys(), *(make(i).hex() for i in range(PACKETS))]) + "\n")
        return self.mesh.spaces[2].start(
            "chrt", "--idle", 0, "sh", "-c", '"$@" <"$0"', path,
            build_folder() / "test/flood/flood", "esp", self.mesh.outer(1), PORT, RATE, SECONDS,
            name=f"flood-{kind}")


@pytest.mark.parametrize("kind", REFUSED)
def test_a_peer_that_floods_with_babel(lab, kind):
    """Its packets find an end in their number; links and routes of others stand, keys change."""
    liar = Liar(lab)
    mesh, victim = liar.mesh, liar.victim
    routes, before = liar.routes(), victim.memory()
    flood = liar.flood(kind)
    stream = UdpStream(mesh.spaces[1], mesh.spaces[0], mesh.inner(1), STREAM)
    for _ in range(3):
        sent = len(stream.sent)
        victim.rekey("n2")
        wait_until(lambda sent=sent: len(stream.sent) > sent + 2000, 20.0, "more of the stream")
        assert liar.routes() == routes
    got = stream.finish()
    assert flood.wait(SECONDS + 5.0) == 0
    if got <= 0.99 * STREAM:  # a busy machine; once more
        again = liar.flood(kind)
        got = UdpStream(mesh.spaces[1], mesh.spaces[0], mesh.inner(1), STREAM).finish()
        again.wait(SECONDS + 5.0)
    drops = {reason: count for reason, count in victim.drops().items() if count}
    print(f"{kind}: {flood.log().strip()}; {got} of {STREAM} came; {drops}; "
          f"memory {before >> 10} -> {victim.memory() >> 10} kB; "
          f"{len(victim.ask('neighbours')['neighbours'])} neighbours")
    assert got > 0.99 * STREAM
    assert drops["punt-rate-limit"] > 100_000
    # what came through was looked at, and refused
    assert drops[REFUSED[kind]] > 10_000
    assert victim.memory() < before + (16 << 20)
    assert liar.routes() == routes
    assert [link["peer"]["name"] for link in victim.links("up")] == ["n2", "n3"]
