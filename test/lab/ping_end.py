"""A pinger with exact times, run inside a namespace. See traffic.py.

    ping_end.py ADDRESS INTERVAL SIZE

ping(8) cannot be used for this: it rounds its interval to the kernel's tick and ends with replies
still under way. Prints "sent N" before each request and "got N RTT_MS WHEN" for each reply, the
same number again for a duplicate; "failed N WHY" when the kernel refuses to send. SIGINT ends
the sending; replies are awaited for one more second, or until all are there.
"""
import errno
import select
import signal
import socket
import struct
import sys
import time

LAST_REPLIES_S = 1.0
REQUEST4, REPLY4, REQUEST6, REPLY6 = 8, 0, 128, 129


class Pinger:
    def __init__(self, address, interval, size):
        six = ":" in address
        self.types = (REQUEST6, REPLY6) if six else (REQUEST4, REPLY4)
        self.sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM,
                                  socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP)
        self.sock.setblocking(False)
        self.address, self.interval, self.padding = address, interval, bytes(max(0, size - 8))
        self.sent_at, self.waiting, self.going = {}, set(), True

    def say(self, *words):
        print(*words, flush=True)

    def send(self):
        number = len(self.sent_at) + 1
        head = struct.pack("!BBHHHQ", self.types[0], 0, 0, 0, number & 0xffff, number)
        self.sent_at[number] = time.monotonic()
        self.waiting.add(number)
        self.say("sent", number)
        try:
            self.sock.sendto(head + self.padding, (self.address, 0))
        except OSError as why:
            self.waiting.discard(number)
            self.say("failed", number, errno.errorcode.get(why.errno, why.errno))

    def receive(self):
        while True:
            try:
                data = self.sock.recv(65536)
            except BlockingIOError:
                return
            except OSError as why:
                self.say("error", errno.errorcode.get(why.errno, why.errno))
                continue
            if len(data) < 16 or data[0] != self.types[1]:
                continue
            number = struct.unpack("!Q", data[8:16])[0]
            if number in self.sent_at:
                now = time.monotonic()
                self.waiting.discard(number)
                self.say("got", number, f"{(now - self.sent_at[number]) * 1000:.3f} {now:.6f}")

    def run(self):
        next_at, poll = time.monotonic(), select.poll()
        poll.register(self.sock, select.POLLIN)
        while self.going:
            now = time.monotonic()
            if now >= next_at:
                self.send()
                next_at = max(next_at + self.interval, now)
            poll.poll(max(0.0, next_at - time.monotonic()) * 1000)
            self.receive()
        end = time.monotonic() + LAST_REPLIES_S
        while self.waiting and time.monotonic() < end:
            poll.poll((end - time.monotonic()) * 1000)
            self.receive()

    def stop(self, *_):
        self.going = False


if __name__ == "__main__":
    pinger = Pinger(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
    signal.signal(signal.SIGINT, pinger.stop)
    pinger.run()
    print("done", len(pinger.sent_at), flush=True)
