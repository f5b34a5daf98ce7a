"""What is sent comes back byte for byte, run inside namespaces.

    echo_end.py serve PORT               prints "ready", then echoes UDP and TCP of both families
    echo_end.py try PORT MTU ADDRESSES   ICMP, UDP and TCP to each; says what did not come back

Sizes: UDP all from 1 to what fits MTU, and some that are fragmented; pings some odd ones of both
kinds; UDP in batches that the kernel cuts (UDP_SEGMENT); TCP both ways at once.
"""
import os
import select
import socket
import struct
import sys
import threading
import time

BATCH, TCP_BYTES = 24, 3_000_000
LARGE = (1500, 2001, 4000, 9001, 20011, 60007)
ODD_PINGS = (1, 3, 7, 63, 333, 999, 1231, 2001, 9001)
UDP_SEGMENT, SOL_UDP = 103, socket.SOL_UDP
SEGMENTS = 20
BUFFER = 1 << 22
SILENCE_S, TRIES = 2.0, 3


def open_socket(six, kind):
    sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind)
    if six:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def echo_udp(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    while True:
        sock.sendto(*sock.recvfrom(65536))


def echo_tcp(listener):
    def attend(sock):
        with sock:
            while data := sock.recv(1 << 16):
                sock.sendall(data)
    while True:
        threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()


def serve(port):
    for six in (False, True):
        for kind, echo in ((socket.SOCK_DGRAM, echo_udp), (socket.SOCK_STREAM, echo_tcp)):
            sock = open_socket(six, kind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("::" if six else "0.0.0.0", port))
            if kind == socket.SOCK_STREAM:
                sock.listen()
            threading.Thread(target=echo, args=(sock,), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def exchange(sock, messages, send=None):
    """Sends messages, each of which has to come back once and whole. The kernel at either end may
    have no room for one: those get another try, what comes twice or damaged does not."""
    missing = {message: message for message in messages}
    for _ in range(TRIES):
        again = list(missing)
        if send:
            send(again)
        else:
            for message in again:
                sock.send(message)
        while missing and select.select([sock], [], [], SILENCE_S)[0]:
            got = sock.recv(65536)
            if got not in missing:
                sys.exit(f"{len(got)} bytes came back twice or damaged: {got[:32].hex()}")
            del missing[got]
        if not missing:
            return
        print(f"again: {len(missing)} of {len(messages)}", flush=True)
    sys.exit(f"{len(missing)} of {len(messages)} did not come back, sizes "
             f"{sorted(map(len, missing))[:10]}")


def of_size(size, number):
    """Distinct and random, as far as the size allows."""
    return struct.pack("=I", number)[:size] + os.urandom(max(0, size - 4))


def try_udp(address, port, fits):
    with open_socket(":" in address, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        sock.connect((address, port))
        sizes = list(range(1, fits + 1))
        for first in range(0, len(sizes), BATCH):
            exchange(sock, [of_size(size, size) for size in sizes[first:first + BATCH]])
        for size in LARGE:
            exchange(sock, [of_size(size, number) for number in range(3)])
        for size in (100, 999, fits):  # one send, cut by the kernel or by the tunnel
            def batch(messages, size=size):
                sock.setsockopt(SOL_UDP, UDP_SEGMENT, size)
                sock.send(b"".join(messages))
                sock.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
            exchange(sock, [of_size(size, n) for n in range(SEGMENTS)] + [b"short"], batch)


def try_icmp(address):
    six = ":" in address
    protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM,
                       protocol) as sock:
        sock.connect((address, 0))
        for number, size in enumerate(ODD_PINGS):
            data = os.urandom(size)
            sock.send(struct.pack("!BBHHH", 128 if six else 8, 0, 0, 0, number) + data)
            if not select.select([sock], [], [], SILENCE_S)[0]:
                sys.exit(f"a ping of {size} bytes did not come back")
            got = sock.recv(65536)
            if (got[0], got[6:]) != (129 if six else 0, struct.pack("!H", number) + data):
                sys.exit(f"a ping of {size} bytes came back damaged")


def try_tcp(address, port):
    data = os.urandom(TCP_BYTES)
    with socket.create_connection((address, port), timeout=10) as sock:
        sender = threading.Thread(target=sock.sendall, args=(data,))
        sender.start()
        got = bytearray()
        while len(got) < len(data):
            more = sock.recv(1 << 16)
            if not more:
                sys.exit(f"TCP ended after {len(got)} of {len(data)} bytes")
            got += more
        sender.join()
    if got != data:
        sys.exit("TCP changed bytes")


def everything(port, mtu, *addresses):
    begun = time.monotonic()
    for address in addresses:
        try_icmp(address)
        try_udp(address, int(port), int(mtu) - (48 if ":" in address else 28))
        try_tcp(address, int(port))
    print(f"all came back in {time.monotonic() - begun:.2f} s", flush=True)


if __name__ == "__main__":
    verb, port, *rest = sys.argv[1:]
    if verb == "serve":
        serve(int(port))
    else:
        everything(port, *rest)
