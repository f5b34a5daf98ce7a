"""The two ends of a numbered stream of datagrams, run inside namespaces. See traffic.py.

    udp_end.py receive ADDRESS PORT
    udp_end.py send ADDRESS PORT COUNT INTERVAL

COUNT 0: until SIGINT. The sender prints "sent N WHEN" for each datagram that the kernel took, the
receiver "got N WHEN"; WHEN is the monotonic clock, which namespaces share.
"""
import signal
import socket
import sys
import time

RECEIVE_BUFFER = 1 << 21


def open_socket(address):
    six = ":" in address
    return socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)


def receive(address, port):
    with open_socket(address) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        sock.bind((address, port))
        print("ready", flush=True)
        while True:
            print("got", int(sock.recv(2000)), time.monotonic(), flush=True)


def send(address, port, count, interval):
    ended = []
    signal.signal(signal.SIGINT, lambda *_: ended.append(True))
    due = time.monotonic()
    number = 0
    with open_socket(address) as sock:
        while not ended and (not count or number < count):
            try:
                sock.sendto(b"%d" % number, (address, port))
                print("sent", number, time.monotonic(), flush=True)
            except OSError as why:  # an ICMP error about an earlier one, or no way just now
                print("refused", number, why, flush=True)
            number += 1
            due = max(due + interval, time.monotonic() - interval)
            time.sleep(max(0, due - time.monotonic()))
    print("done", flush=True)


if sys.argv[1] == "receive":
    receive(sys.argv[2], int(sys.argv[3]))
else:
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
