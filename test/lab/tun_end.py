"""The other side of a TUN device, run inside a namespace: what the kernel sends into it.

    tun_end.py DEVICE

Reads commands, one a line: "udp DESTINATION TOS HOPS PAYLOAD" has the kernel send a datagram,
"packet BYTES" puts a packet into the device as if it had come from the wire. Prints the first
packet that comes out of the device for it, or "none". Bytes are hexadecimal. What the kernel says
of its own accord, to groups or from a link-local address (redirects), is passed over.
"""
import fcntl
import os
import select
import socket
import struct
import sys
import time

TUNSETIFF = 0x400454ca
IFF_TUN, IFF_NO_PI = 1, 0x1000
WAIT_S, AGAIN_S = 3.0, 0.2


def open_device(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def is_chatter(packet):
    return packet[0] >> 4 == 6 and (packet[24] == 0xff or packet[8:10] == b"\xfe\x80")


def read_packet(fd, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
            packet = os.read(fd, 65536)
            if not is_chatter(packet):
                return packet
    return None


def send_udp(destination, tos, hops, payload):
    six = ":" in destination
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP
        sock.setsockopt(level, socket.IPV6_TCLASS if six else socket.IP_TOS, int(tos))
        sock.setsockopt(level, socket.IPV6_UNICAST_HOPS if six else socket.IP_TTL, int(hops))
        sock.sendto(bytes.fromhex(payload), (destination, 7000))


def answer(fd, words):
    """A device that has just got its carrier loses packets: each is sent until one comes out."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            if words[0] == "udp":
                send_udp(*words[1:])
            else:
                os.write(fd, bytes.fromhex(words[1]))
        except OSError as why:
            print(why, file=sys.stderr)
            time.sleep(AGAIN_S)
            continue
        packet = read_packet(fd, AGAIN_S)
        if packet:
            return packet.hex()
    return "none"


def main():
    fd = open_device(sys.argv[1])
    for line in sys.stdin:
        while read_packet(fd, 0):
            pass
        print(answer(fd, line.split()), flush=True)


main()
