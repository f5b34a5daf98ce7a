/* The ceiling: a tunnel with no cryptography, no checksums and no routing, which does nothing but
 * carry superpackets between a TUN and a UDP socket, with every offload that weft uses and its
 * rounds. What a tunnel in user space can reach on a machine is what this one reaches. No use but
 * measuring; it trusts whatever comes in.
 *
 *   null_forwarder TUN LOCAL-IP4 REMOTE-IP4 PORT
 *
 * On the wire: the length of a record (4 bytes), the frame's virtio-net header, the frame; records
 * are cut into datagrams of one size by the kernel, and joined by it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

enum {
	DATAGRAM = 1448, /* as large as weft's at an inner MTU of 1400 */
	BUFFER = 65536,
	SEND_MAX = 65507,
	PREFIX = 4,
	TUN_READS = 16, /* a round */
	RECEIVES = 8,
	SOCKET_QUEUE = 2 << 20,
	QUEUE = 100,
};

struct forwarder {
	int tun, udp, epoll;
	uint8_t out[TUN_READS][BUFFER + PREFIX], in[RECEIVES][BUFFER];
	uint64_t dropped;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int tun_open(const char *name)
{
	const unsigned int tso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
	struct ifreq ifr = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), s;

	strncpy(ifr.ifr_name, name, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) < 0)
		die("TUN");
	if (ioctl(fd, TUNSETOFFLOAD, tso | TUN_F_USO4 | TUN_F_USO6) < 0 &&
		ioctl(fd, TUNSETOFFLOAD, tso) < 0)
		die("TUNSETOFFLOAD");
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ifr.ifr_qlen = QUEUE;
	if (s < 0 || ioctl(s, SIOCSIFTXQLEN, &ifr) < 0)
		die("queue length");
	close(s);
	return fd;
}

static int udp_open(const char *local, const char *remote, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, b = a;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, queue = SOCKET_QUEUE, size = DATAGRAM;

	if (inet_pton(AF_INET, local, &a.sin_addr) != 1 ||
		inet_pton(AF_INET, remote, &b.sin_addr) != 1)
		die("address");
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		connect(fd, (struct sockaddr *)&b, sizeof(b)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof(queue)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &queue, sizeof(queue)) < 0 ||
		setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) < 0 ||
		setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof(one)) < 0)
		die("UDP socket");
	return fd;
}

/* TUN to socket: as many frames as there are, then all sends in one call. */
static int forward_out(struct forwarder *f)
{
	struct mmsghdr m[TUN_READS];
	struct iovec iov[TUN_READS];
	unsigned int n = 0, sent = 0;

	memset(m, 0, sizeof(m));
	while (n < TUN_READS) {
		ssize_t got = read(f->tun, f->out[n] + PREFIX, SEND_MAX - PREFIX);
		uint32_t len = (uint32_t)(got + PREFIX);

		if (got <= 0)
			break;
		memcpy(f->out[n], &len, PREFIX);
		iov[n] = (struct iovec){f->out[n], len};
		m[n].msg_hdr.msg_iov = &iov[n];
		m[n].msg_hdr.msg_iovlen = 1;
		n++;
	}
	while (sent < n) {
		int r = sendmmsg(f->udp, m + sent, n - sent, MSG_DONTWAIT);

		if (r > 0)
			sent += (unsigned int)r;
		else
			f->dropped++, sent++; /* the one that was refused */
	}
	return n > 0;
}

/* Records of a buffer to the TUN; what is not whole is dropped. */
static void deliver(struct forwarder *f, const uint8_t *at, size_t n)
{
	uint32_t len;

	while (n > PREFIX) {
		memcpy(&len, at, PREFIX);
		if (len <= PREFIX || len > n) {
			f->dropped++;
			return;
		}
		if (write(f->tun, at + PREFIX, len - PREFIX) < 0)
			f->dropped++;
		at += len;
		n -= len;
	}
}

static int forward_in(struct forwarder *f)
{
	struct mmsghdr m[RECEIVES];
	struct iovec iov[RECEIVES];
	int n;

	memset(m, 0, sizeof(m));
	for (int i = 0; i < RECEIVES; i++) {
		iov[i] = (struct iovec){f->in[i], BUFFER};
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	n = recvmmsg(f->udp, m, RECEIVES, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		deliver(f, f->in[i], m[i].msg_len);
	return n > 0;
}

int main(int argc, char **argv)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct forwarder *f = calloc(1, sizeof(*f));

	if (argc != 5 || !f) {
		fputs("usage: null_forwarder TUN LOCAL-IP4 REMOTE-IP4 PORT\n", stderr);
		return 2;
	}
	f->tun = tun_open(argv[1]);
	f->udp = udp_open(argv[2], argv[3], atoi(argv[4]));
	f->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (f->epoll < 0 || epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->tun, &ev) < 0 ||
		epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->udp, &ev) < 0)
		die("epoll");
	puts("ready");
	fflush(stdout);
	for (;;) {
		int any = forward_out(f);

		any |= forward_in(f);
		if (!any && epoll_wait(f->epoll, &ev, 1, -1) < 0 && errno != EINTR)
			die("epoll_wait");
	}
}
