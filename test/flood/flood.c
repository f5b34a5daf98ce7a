/* For scenarios: sends UDP datagrams at a rate, from made-up IPv4 sources when told so, one system
 * call for many. Prints how many were sent and in what time. Needs CAP_NET_RAW.
 *
 *   flood KIND ADDRESS PORT RATE SECONDS [SOURCE-NETWORK]
 *
 * KIND init: IKE_SA_INIT requests with new SPIs; spi: ESP of unknown SPIs; runt: 0 to 7 bytes;
 * lines: datagrams from the standard input, each a line of hexadecimal digits, over and over;
 * esp: the same with IPv6 packets that go into ESP, by the keys on the first line (sealed.h).
 * SOURCE-NETWORK: the first two bytes of the sources, as 198.18; without it from an own address. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "sealed.h"

enum { BATCH = 64, PACKET = 1500, LINES = 1024, PORT = 13000, HEADERS = 28, SLICE_US = 500 };

struct line {
	uint8_t data[PACKET];
	size_t len;
};

struct flood {
	char kind;
	struct sockaddr_in to;
	bool spoof;
	uint32_t network; /* host order, its first 16 bits */
	uint64_t state;   /* of the numbers that look random */
	struct line *line;
	size_t lines, next;
	struct sealed *sealed;
	uint8_t packet[BATCH][PACKET];
	struct iovec iov[BATCH];
	struct mmsghdr msg[BATCH];
};

/* An IKE_SA_INIT request with one proposal (AES-256-GCM, HMAC-SHA2-512, X25519), a KE payload and a
 * nonce, behind the non-ESP marker. SPI, key and nonce are filled in. */
static const uint8_t init[] = {
	0, 0, 0, 0,                                      /* marker */
	1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,  /* SPIs */
	33, 0x20, 34, 0x08, 0, 0, 0, 0, 0, 0, 0, 144,    /* SA first, IKE_SA_INIT, 144 bytes */
	34, 0, 0, 40, 0, 0, 0, 36, 1, 1, 0, 3,           /* SA, one proposal of IKE */
	3, 0, 0, 12, 1, 0, 0, 20, 0x80, 14, 1, 0,        /* ENCR AES-GCM-16, 256 bits */
	3, 0, 0, 8, 2, 0, 0, 7, 0, 0, 0, 8, 4, 0, 0, 31, /* PRF SHA2-512, group 31 */
	40, 0, 0, 40, 0, 31, 0, 0,                       /* KE */
};

enum { INIT_KEY = sizeof(init), INIT_NONCE = INIT_KEY + 32, INIT_LEN = INIT_NONCE + 4 + 32 };

static uint64_t number(struct flood *f)
{
	f->state ^= f->state << 13;
	f->state ^= f->state >> 7;
	f->state ^= f->state << 17;
	return f->state;
}

static void fill(struct flood *f, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(number(f) >> 32);
}

static const struct line *next_line(struct flood *f)
{
	f->next = (f->next + 1) % f->lines;
	return &f->line[f->next];
}

static size_t payload(struct flood *f, uint8_t *p)
{
	const struct line *l;

	switch (f->kind) {
	case 'i':
		memcpy(p, init, sizeof(init));
		fill(f, p + 4, 8);
		fill(f, p + INIT_KEY, 32);
		memcpy(p + INIT_NONCE, (const uint8_t[]){0, 0, 0, 36}, 4);
		fill(f, p + INIT_NONCE + 4, 32);
		return INIT_LEN;
	case 's':
		fill(f, p, 100);
		p[0] |= 1; /* never the marker */
		return 100;
	case 'r':
		fill(f, p, 7);
		return number(f) % 8;
	case 'l':
		l = next_line(f);
		memcpy(p, l->data, l->len);
		return l->len;
	default:
		l = next_line(f);
		return sealed_make(f->sealed, l->data, l->len, p);
	}
}

/* The kernel fills in identification, checksum and, when zero, the source. */
static size_t packet(struct flood *f, uint8_t *p)
{
	size_t n = payload(f, p + HEADERS);
	struct iphdr ip = {.version = 4,
		.ihl = 5,
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.tot_len = htons((uint16_t)(HEADERS + n)),
		.daddr = f->to.sin_addr.s_addr};
	struct udphdr udp = {.source = htons(PORT),
		.dest = f->to.sin_port,
		.len = htons((uint16_t)(8 + n))};

	if (f->spoof) {
		ip.saddr = htonl(f->network | (number(f) & 0xffff));
		udp.source = htons((uint16_t)(1024 + number(f) % 60000));
	}
	memcpy(p, &ip, sizeof(ip));
	memcpy(p + sizeof(ip), &udp, sizeof(udp));
	return HEADERS + n;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int send_some(struct flood *f, int fd, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		f->iov[i] = (struct iovec){f->packet[i], packet(f, f->packet[i])};
		f->msg[i].msg_hdr = (struct msghdr){.msg_name = &f->to,
			.msg_namelen = sizeof(f->to),
			.msg_iov = &f->iov[i],
			.msg_iovlen = 1};
	}
	return sendmmsg(fd, f->msg, n, 0);
}

static int run(struct flood *f, int fd, double rate, double length)
{
	double begin = seconds(), now;
	uint64_t sent = 0;

	while ((now = seconds() - begin) < length) {
		double due = now * rate - (double)sent;
		unsigned int n = due > BATCH ? BATCH : due > 0 ? (unsigned int)due : 0;
		int r = n ? send_some(f, fd, n) : 0;

		if (r < 0 && errno != ENOBUFS && errno != EAGAIN) {
			perror("flood");
			return 1;
		}
		sent += r > 0 ? (unsigned int)r : 0;
		if (due < BATCH)
			nanosleep(&(struct timespec){.tv_nsec = SLICE_US * 1000}, NULL);
	}
	printf("sent %llu in %.3f s\n", (unsigned long long)sent, now);
	return 0;
}

static int read_lines(struct flood *f)
{
	char text[2 * PACKET + 2];

	if (f->kind == 'e' &&
		(!fgets(text, sizeof(text), stdin) || !(f->sealed = sealed_new(text))))
		return -1;
	f->line = calloc(LINES, sizeof(*f->line));
	while (f->line && f->lines < LINES && fgets(text, sizeof(text), stdin)) {
		struct line *l = &f->line[f->lines];
		unsigned int byte;

		while (l->len < PACKET - HEADERS - SEALED_MORE &&
			sscanf(text + 2 * l->len, "%2x", &byte) == 1)
			l->data[l->len++] = (uint8_t)byte;
		f->lines += l->len > 0;
	}
	return f->lines ? 0 : -1;
}

int main(int argc, char **argv)
{
	static struct flood f = {.state = 88172645463325252};
	unsigned int a, b;
	int fd;

	if (argc < 6 || !strchr("isrle", argv[1][0])) {
		fputs("flood init|spi|runt|lines|esp ADDRESS PORT RATE SECONDS [NETWORK]\n",
			stderr);
		return 2;
	}
	f.kind = argv[1][0];
	f.to.sin_family = AF_INET;
	f.to.sin_port = htons((uint16_t)atoi(argv[3]));
	if (inet_pton(AF_INET, argv[2], &f.to.sin_addr) != 1)
		return 2;
	f.spoof = argc > 6 && sscanf(argv[6], "%u.%u", &a, &b) == 2;
	if (f.spoof)
		f.network = a << 24 | b << 16;
	if (strchr("le", f.kind) && read_lines(&f) < 0)
		return 2;
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (fd < 0) {
		perror("flood: socket");
		return 1;
	}
	return run(&f, fd, atof(argv[4]), atof(argv[5]));
}
