"""One end of a TCP connection, run inside a namespace. See traffic.py.

    tcp_end.py serve ADDRESS PORT            prints "ready", then serves any number of clients
    tcp_end.py send ADDRESS PORT BYTES SEED  sends and prints {"seconds", "bytes"} as JSON
    tcp_end.py talk ADDRESS PORT             sends each line of stdin, prints what came back

A client's first line says what it wants: "sink N" answers with the SHA-256 of the next N bytes,
"echo" sends every line back.
"""
import hashlib
import json
import random
import socket
import sys
import threading
import time

CHUNK = 1 << 16


def chunks(size, seed):
    rng = random.Random(seed)
    while size > 0:
        yield rng.randbytes(min(CHUNK, size))
        size -= CHUNK


def attend(sock):
    with sock, sock.makefile("rwb") as stream:
        words = stream.readline().split()
        if words[0] == b"echo":
            for line in stream:
                stream.write(line)
                stream.flush()
            return
        left, digest = int(words[1]), hashlib.sha256()
        while left > 0:
            got = stream.read1(min(left, CHUNK))
            if not got:
                return
            digest.update(got)
            left -= len(got)
        stream.write(digest.hexdigest().encode() + b"\n")


def serve(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family, backlog=64) as listener:
        print("ready", flush=True)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=attend, args=(sock,), daemon=True).start()


def send(address, port, size, seed):
    digest, start = hashlib.sha256(), time.monotonic()
    with socket.create_connection((address, port), timeout=30) as sock:
        sock.sendall(b"sink %d\n" % size)
        for chunk in chunks(size, seed):
            digest.update(chunk)
            sock.sendall(chunk)
        answer = sock.makefile().readline().strip()
    if answer != digest.hexdigest():
        sys.exit(f"bytes changed on the way: {answer!r}")
    print(json.dumps({"seconds": time.monotonic() - start, "bytes": size}))


def talk(address, port):
    with socket.create_connection((address, port), timeout=30) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)
        stream = sock.makefile("rwb")
        stream.write(b"echo\n")
        for line in sys.stdin.buffer:
            stream.write(line)
            stream.flush()
            sys.stdout.buffer.write(stream.readline())
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    verb, address, port, *rest = sys.argv[1:]
    {"serve": serve, "send": send, "talk": talk}[verb](address, int(port), *map(int, rest))
