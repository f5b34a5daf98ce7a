/* TUN and UDP over both back ends, in a network namespace of the test's own. */
#include <errno.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "os/clock.h"
#include "os/net.h"
#include "wire/ip.h"

enum { SKIP = 77, WAIT_MS = 2000, BURST = 64, SIZE = 1400 };

static void interface_up(const char *name, int mtu, const char *address)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};
	struct ipaddr a;

	assert_true(s >= 0);
	strncpy(ifr.ifr_name, name, IFNAMSIZ - 1);
	ifr.ifr_mtu = mtu;
	assert_int_equal(ioctl(s, SIOCSIFMTU, &ifr), 0);
	if (address) {
		struct sockaddr_in in = {.sin_family = AF_INET};

		assert_int_equal(ipaddr_parse(address, &a), 0);
		memcpy(&in.sin_addr, a.b, 4);
		memcpy(&ifr.ifr_addr, &in, sizeof(in));
		assert_int_equal(ioctl(s, SIOCSIFADDR, &ifr), 0);
		in.sin_addr.s_addr = htonl(0xffffff00);
		memcpy(&ifr.ifr_netmask, &in, sizeof(in));
		assert_int_equal(ioctl(s, SIOCSIFNETMASK, &ifr), 0);
	}
	ifr.ifr_flags = IFF_UP;
	assert_int_equal(ioctl(s, SIOCSIFFLAGS, &ifr), 0);
	close(s);
}

static const struct os_net *back_ends(size_t i)
{
	return i == 0 ? os_net_linux() : os_net_portable();
}

static struct os_udp *udp_open(const struct os_net *net, const char *address)
{
	struct os_udp_config c = {.index = 3,
		.family = strchr(address, ':') ? IP6 : IP4,
		.gso = true,
		.gro = true};
	struct buf error = {0};
	struct os_udp *u = NULL;

	assert_int_equal(ipaddr_parse(address, &c.address), 0);
	if (ipaddr_is_unspecified(&c.address))
		c.address.family = IP_NONE;
	assert_int_equal(net->udp_open(&c, &u, &error), 0);
	assert_int_equal(error.n, 0);
	return u;
}

static struct endpoint at(const char *address, uint16_t port)
{
	struct endpoint e = {.port = port};

	assert_int_equal(ipaddr_parse(address, &e.ip), 0);
	return e;
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, WAIT_MS) == 1;
}

struct seen {
	size_t datagrams, bytes, last;
	uint8_t tos;
};

/* Receives until `want` datagrams are there; every one must have come from and to these. */
static struct seen receive(const struct os_net *net, struct os_udp *u, size_t want,
	const struct endpoint *from, const struct endpoint *to)
{
	uint8_t *memory = os_pool_map(8 * OS_UDP_BUFFER, false);
	struct udp_rx rx[8];
	struct seen s = {0};

	while (s.datagrams < want && readable(os_udp_facts(u).fd)) {
		int n = net->udp_receive(u, memory, rx, 8, os_now());

		assert_true(n >= 0);
		for (int i = 0; i < n; i++) {
			size_t size = rx[i].seg_size ? rx[i].seg_size : rx[i].len;

			assert_false(rx[i].truncated);
			assert_int_equal(rx[i].socket, 3);
			assert_true(endpoint_equal(&rx[i].remote, from));
			assert_true(endpoint_equal(&rx[i].local, to));
			assert_true(rx[i].ifindex != 0);
			s.datagrams += (rx[i].len + size - 1) / size;
			s.bytes += rx[i].len;
			s.last = (rx[i].len - 1) % size + 1;
			s.tos = rx[i].tos;
			for (uint32_t j = 0; j < rx[i].len; j++)
				assert_int_equal(rx[i].data[j], 'w');
		}
	}
	os_pool_unmap(memory, 8 * OS_UDP_BUFFER);
	return s;
}

/* 64 datagrams of 1400 bytes and a short one, in two sends, back end a to back end b. */
static void burst(const struct os_net *a, const struct os_net *b, const char *from, const char *to)
{
	struct os_udp *out = udp_open(a, strchr(to, ':') ? "::" : "0.0.0.0");
	struct os_udp *in = udp_open(b, strchr(to, ':') ? "::" : "0.0.0.0");
	struct endpoint source = at(from, os_udp_facts(out).port);
	struct endpoint target = at(to, os_udp_facts(in).port);
	uint8_t *data = w_alloc(BURST * SIZE);
	struct os_udp_result r = {0};
	struct udp_tx tx[2];
	struct seen s;

	memset(data, 'w', BURST * SIZE);
	for (size_t i = 0; i < 2; i++)
		tx[i] = (struct udp_tx){.data = data,
			.len = BURST / 2 * SIZE,
			.seg_size = SIZE,
			.tos = 0xb9,
			.remote = target,
			.local = source};
	tx[1].len += 100;
	a->udp_send(out, tx, 2, &r);
	assert_int_equal(r.sent, BURST + 1);
	assert_int_equal(r.failed + r.full + r.gso_refused + r.unpinned, 0);
	s = receive(b, in, BURST + 1, &source, &target);
	assert_int_equal(s.datagrams, BURST + 1);
	assert_int_equal(s.bytes, BURST * SIZE + 100);
	assert_int_equal(s.last, 100);
	assert_int_equal(s.tos, 0xb9);
	w_free(data);
	a->udp_close(out);
	b->udp_close(in);
}

static void test_burst(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		burst(back_ends(i & 1), back_ends(i >> 1), "127.0.0.9", "127.0.0.1");
		burst(back_ends(i & 1), back_ends(i >> 1), "::1", "::1");
	}
}

/* Every segment of a superpacket has the pinned source; one that is gone is let go of. */
static void test_source_gone(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct os_net *net = back_ends(i);
		struct os_udp *out = udp_open(net, "0.0.0.0"), *in = udp_open(net, "0.0.0.0");
		struct endpoint target = at("127.0.0.1", os_udp_facts(in).port);
		struct endpoint kernels = at("127.0.0.1", os_udp_facts(out).port);
		struct os_udp_result r = {0};
		uint8_t data[10 * 100];
		struct udp_tx tx = {.data = data,
			.len = sizeof(data),
			.seg_size = 100,
			.remote = target,
			.local = at("192.0.2.77", 0)};

		memset(data, 'w', sizeof(data));
		net->udp_send(out, &tx, 1, &r);
		assert_int_equal(r.sent, 10);
		assert_int_equal(r.unpinned, 10);
		assert_int_equal(r.failed, 0);
		assert_int_equal(receive(net, in, 10, &kernels, &target).datagrams, 10);
		net->udp_close(out);
		net->udp_close(in);
	}
}

/* Datagrams larger than the route's MTU go one by one, and superpackets go on after. */
static void test_narrow(void **state)
{
	(void)state;
	interface_up("lo", 1280, NULL);
	for (size_t i = 0; i < 2; i++) {
		const struct os_net *net = back_ends(i);
		struct os_udp *out = udp_open(net, "0.0.0.0"), *in = udp_open(net, "0.0.0.0");
		struct endpoint source = at("127.0.0.1", os_udp_facts(out).port);
		struct endpoint target = at("127.0.0.1", os_udp_facts(in).port);
		struct os_udp_result r = {0};
		uint8_t data[8 * SIZE];
		struct udp_tx tx[2] = {{.data = data,
					       .len = sizeof(data),
					       .seg_size = SIZE,
					       .remote = target,
					       .local = source},
			{.data = data,
				.len = 8000,
				.seg_size = 1000,
				.remote = target,
				.local = source}};

		memset(data, 'w', sizeof(data));
		net->udp_send(out, tx, 2, &r);
		assert_int_equal(r.sent, 16);
		assert_int_equal(r.failed, 0);
		assert_int_equal(r.gso_refused, i == 0 ? 1 : 0);
		assert_int_equal(os_udp_facts(out).gso, i == 0);
		assert_int_equal(receive(net, in, 16, &source, &target).datagrams, 16);
		net->udp_close(out);
		net->udp_close(in);
	}
	interface_up("lo", 65536, NULL);
}

/* RFC 8899 4.1: what is not to be fragmented is refused where it does not fit, and nothing else is
 * changed by it. */
static void whole(const struct os_net *net, const char *any, const char *to)
{
	struct os_udp *out = udp_open(net, any), *in = udp_open(net, any);
	struct endpoint source = at(to, os_udp_facts(out).port);
	struct endpoint target = at(to, os_udp_facts(in).port);
	struct os_udp_result r = {0};
	uint8_t data[4 * SIZE];
	struct udp_tx tx[4] = {{.data = data, .len = SIZE, .whole = true},
		{.data = data, .len = 1200, .whole = true}, {.data = data, .len = SIZE},
		{.data = data, .len = 2400, .seg_size = 1200}};

	memset(data, 'w', sizeof(data));
	for (size_t i = 0; i < 4; i++) {
		tx[i].remote = target;
		tx[i].local = source;
	}
	net->udp_send(out, tx, 4, &r);
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.error, -EMSGSIZE);
	assert_int_equal(r.sent, 4);
	assert_int_equal(receive(net, in, 4, &source, &target).bytes, 1200 + SIZE + 2400);
	net->udp_close(out);
	net->udp_close(in);
}

static void test_whole(void **state)
{
	(void)state;
	interface_up("lo", 1280, NULL);
	for (size_t i = 0; i < 2; i++) {
		whole(back_ends(i), "0.0.0.0", "127.0.0.1");
		whole(back_ends(i), "::", "::1");
	}
	interface_up("lo", 65536, NULL);
}

static void test_port_in_use(void **state)
{
	char pid[32];

	(void)state;
	snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
	for (size_t i = 0; i < 2; i++) {
		const struct os_net *net = back_ends(i);
		struct os_udp *first = udp_open(net, "0.0.0.0"), *second = NULL;
		struct os_udp_config c = {.family = IP4, .port = os_udp_facts(first).port};
		struct buf error = {0};

		assert_int_equal(net->udp_open(&c, &second, &error), -EADDRINUSE);
		assert_null(second);
		assert_non_null(strstr((char *)error.p, "in use by"));
		assert_non_null(strstr((char *)error.p, pid));
		buf_free(&error);
		net->udp_close(first);
	}
}

static struct os_tun *tun_open(const struct os_net *net, struct os_tun_config *c)
{
	struct buf error = {0};
	struct os_tun *t = NULL;
	int r;

	c->name = "weft-test0";
	c->tso = c->uso = true;
	r = net->tun_open(c, &t, &error);
	if (r < 0)
		print_error("%.*s\n", (int)error.n, (char *)error.p);
	assert_int_equal(r, 0);
	interface_up(c->name, 1400, "10.99.0.1");
	return t;
}

/* Turns packets to 10.99.0.2 around: they come back as if from there. Inner checksums stay right.
 */
static void turn_around(uint8_t *packet)
{
	uint8_t t[4];

	memcpy(t, packet + 12, 4);
	memcpy(packet + 12, packet + 16, 4);
	memcpy(packet + 16, t, 4);
	memcpy(t, packet + 20, 2);
	memcpy(packet + 20, packet + 22, 2);
	memcpy(packet + 22, t, 2);
}

/* Through the TUN: a burst goes out, is turned around, and comes back whole. */
static void test_tun_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct os_net *net = back_ends(i);
		struct os_tun_config c = {0};
		struct os_tun *t = tun_open(net, &c);
		struct os_udp *u = udp_open(os_net_linux(), "10.99.0.1");
		struct endpoint peer = at("10.99.0.2", 7000);
		struct endpoint self = at("10.99.0.1", os_udp_facts(u).port);
		uint8_t *memory = w_alloc(OS_TUN_BUFFER), data[40 * 1300];
		struct os_udp_result r = {0};
		struct udp_tx tx = {.data = data,
			.len = sizeof(data),
			.seg_size = 1300,
			.remote = peer,
			.local = self};
		size_t frames = 0, supers = 0;

		memset(data, 'w', sizeof(data));
		os_net_linux()->udp_send(u, &tx, 1, &r);
		assert_int_equal(r.sent, 40);
		for (;;) {
			struct tun_rx rx;
			struct tun_tx back = {.iov_count = 1, .segments = 1};
			int n = net->tun_read(t, memory, &rx);

			assert_true(n >= 0);
			if (n == 0)
				break;
			if (rx.data[0] >> 4 != 4)
				continue;
			frames++;
			supers += rx.gso.type == GSO_UDP4;
			if (rx.gso.type == GSO_UDP4)
				assert_int_equal(rx.gso.size, 1300);
			turn_around(rx.data);
			back.gso = rx.gso;
			back.len = rx.len;
			back.iov[0] = (struct wire_iov){rx.data, rx.len};
			assert_int_equal(net->tun_write(t, &back), 0);
		}
		assert_int_equal(supers, i == 0 && os_tun_facts(t).uso ? 1 : 0);
		assert_int_equal(frames, supers ? 1 : 40);
		assert_int_equal(receive(os_net_linux(), u, 40, &peer, &self).datagrams, 40);
		os_net_linux()->udp_close(u);
		net->tun_close(t);
		w_free(memory);
	}
}

static ssize_t refuse_merged(void *ctx, int fd, const struct iovec *iov, int n)
{
	size_t *refused = ctx;
	const uint8_t *head = iov[0].iov_base;

	if (iov[0].iov_len == 10 && head[1] != 0) {
		(*refused)++;
		errno = EINVAL;
		return -1;
	}
	return writev(fd, iov, n);
}

/* A kernel that takes no merged frames says so, and plain ones go on. */
static void test_merged_refused(void **state)
{
	size_t refused = 0;
	struct os_tun_config c = {.writev = refuse_merged, .writev_ctx = &refused};
	struct os_tun *t = tun_open(os_net_linux(), &c);
	uint8_t packet[28] = {0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 99, 0, 2, 10, 99, 0,
		1};
	struct tun_tx f = {.iov_count = 1,
		.len = sizeof(packet),
		.segments = 2,
		.gso = {.type = GSO_UDP4,
			.needs_csum = true,
			.size = 4,
			.hdr_len = 28,
			.csum_start = 20,
			.csum_offset = 6},
		.iov = {{packet, sizeof(packet)}}};

	(void)state;
	assert_int_equal(os_net_linux()->tun_write(t, &f), -EINVAL);
	assert_int_equal(refused, 1);
	f.gso = (struct gso){0};
	assert_int_equal(os_net_linux()->tun_write(t, &f), 0);
	os_net_linux()->tun_close(t);
}

static void test_tun_in_use(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct os_tun_config c = {0};
		struct os_tun *t = tun_open(back_ends(i), &c), *other = NULL;
		struct buf error = {0};

		assert_int_equal(back_ends(i)->tun_open(&c, &other, &error), -EBUSY);
		assert_non_null(strstr((char *)error.p, "weft-test0: the name is in use"));
		buf_free(&error);
		c.name = "lo";
		assert_true(back_ends(i)->tun_open(&c, &other, &error) < 0);
		assert_non_null(strstr((char *)error.p, "no TUN"));
		assert_null(other);
		buf_free(&error);
		back_ends(i)->tun_close(t);
	}
}

static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* What fails leaves no descriptor behind. */
static void test_failures_leak_nothing(void **state)
{
	struct os_udp *busy = udp_open(os_net_linux(), "127.0.0.1");
	struct os_udp_config elsewhere = {.family = IP4, .address = at("192.0.2.1", 0).ip};
	struct os_udp_config bad_device = {.family = IP6, .interface = "none-such"};
	struct os_tun_config lo = {.name = "lo"};
	struct os_tun_config lost = {.name = "weft-test1", .netns = "no-such-namespace"};
	size_t before = count_fds();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		const struct os_net *net = back_ends(i & 1);
		struct buf error = {0};
		struct os_udp *u = NULL;
		struct os_tun *t = NULL;

		assert_int_equal(net->udp_open(&elsewhere, &u, &error), -EADDRNOTAVAIL);
		assert_int_equal(net->udp_open(&bad_device, &u, &error), -ENODEV);
		assert_true(net->tun_open(&lo, &t, &error) < 0);
		assert_int_equal(net->tun_open(&lost, &t, &error), -ENOENT);
		assert_null(u);
		assert_null(t);
		buf_free(&error);
	}
	assert_int_equal(count_fds(), before);
	os_net_linux()->udp_close(busy);
}

/* A device of several queues is one program's, too. */
static void test_tun_queues(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct os_tun_config c = {.name = "weft-test1",
			.tso = true,
			.uso = true,
			.many = true};
		const struct os_net *net = back_ends(i);
		struct os_tun *first = NULL, *second = NULL, *stranger = NULL;
		struct buf error = {0};

		assert_int_equal(net->tun_open(&c, &first, &error), 0);
		assert_int_equal(net->tun_open(&c, &stranger, &error), -EBUSY);
		assert_null(stranger);
		buf_free(&error);
		c.further = true;
		assert_int_equal(net->tun_open(&c, &second, &error), 0);
		assert_int_equal(os_tun_facts(first).ifindex, os_tun_facts(second).ifindex);
		net->tun_close(first);
		net->tun_close(second);
	}
}

/* A frame of UDP from 10.99.0.2, port 7000, to a socket of ours. */
static void write_reply(const struct os_net *net, struct os_tun *t, uint16_t port,
	struct tun_tx frame)
{
	uint8_t p[32] = {0x45, 0, 0, sizeof(p), 0, 0, 0, 0, 64, 17, 0, 0, 10, 99, 0, 2, 10, 99, 0,
		1};

	frame.iov_count = frame.segments = 1;
	frame.len = sizeof(p);
	put_u16(p + 20, 7000);
	put_u16(p + 22, port);
	put_u16(p + 24, 12); /* without a checksum */
	ip4_write_checksum(p, 20);
	frame.iov[0] = (struct wire_iov){.p = p, .n = sizeof(p)};
	assert_int_equal(net->tun_write(t, &frame), 0);
}

/* Forty large datagrams of one flow wait, then one of another: which frame is it that is read? */
static int place_of_sparse(const struct os_net *net, struct os_tun *t, bool bulk)
{
	struct os_udp *much = udp_open(os_net_linux(), "10.99.0.1");
	struct os_udp *little = udp_open(os_net_linux(), "10.99.0.1");
	uint8_t *memory = os_pool_map(OS_TUN_BUFFER, false), data[1200] = {0};
	uint16_t port = os_udp_facts(little).port;
	struct os_udp_result sent = {0};
	struct udp_tx tx = {.data = data,
		.len = sizeof(data),
		.segments = 1,
		.remote = at("10.99.0.2", 7000)};
	struct tun_rx frame;
	int place = -1;

	assert_non_null(memory);
	write_reply(net, t, os_udp_facts(much).port, (struct tun_tx){.bulk = bulk});
	write_reply(net, t, port, (struct tun_tx){0});
	for (int i = 0; i < 40; i++)
		net->udp_send(much, &tx, 1, &sent);
	tx.len = 32;
	net->udp_send(little, &tx, 1, &sent);
	assert_int_equal(sent.sent, 41);
	for (int i = 0; net->tun_read(t, memory, &frame) == 1; i++) {
		if (frame.data[9] == 17 && get_u16(frame.data + 20) == port)
			place = i;
	}
	net->udp_close(much);
	net->udp_close(little);
	os_pool_unmap(memory, OS_TUN_BUFFER);
	return place;
}

/* What is sparse does not wait behind bulk that has a queue of its own, and both are read. */
static void test_tun_bulk_apart(void **state)
{
	const struct os_net *net = os_net_linux();
	struct os_tun_config c = {.bulk_queue = true};
	struct os_tun *t = tun_open(net, &c);
	struct os_tun_facts f = os_tun_facts(t);
	uint8_t *memory = os_pool_map(OS_TUN_BUFFER, false);
	struct tun_rx frame;

	(void)state;
	assert_non_null(memory);
	assert_true(f.fd >= 0 && f.bulk_fd >= 0);
	while (net->tun_read(t, memory, &frame) == 1)
		continue; /* what the kernel says of a new interface */
	assert_int_equal(place_of_sparse(net, t, false), 40);
	assert_in_range(place_of_sparse(net, t, true), 0, OS_TUN_TURN / 1200 + 1);
	os_pool_unmap(memory, OS_TUN_BUFFER);
	net->tun_close(t);
}

enum { SOME = 40 };

static void send_numbered(struct os_udp *u, uint32_t from)
{
	uint8_t data[1200] = {0};
	struct udp_tx tx = {.data = data,
		.len = sizeof(data),
		.segments = 1,
		.remote = at("10.99.0.2", 7000)};
	struct os_udp_result sent = {0};

	for (uint32_t i = from; i < from + SOME; i++) {
		put_u32(data, i);
		os_net_linux()->udp_send(u, &tx, 1, &sent);
	}
	assert_int_equal(sent.sent, SOME);
}

/* A flow that moves to another queue keeps its order, either way, also when no superpackets come.
 */
static void test_tun_moved(void **state)
{
	const struct os_net *net = os_net_linux();
	struct os_tun_config c = {.bulk_queue = true};
	struct os_tun *t = tun_open(net, &c);
	struct os_udp *u = udp_open(net, "10.99.0.1");
	uint8_t *memory = os_pool_map(OS_TUN_BUFFER, false);
	uint16_t port = os_udp_facts(u).port;
	struct tun_rx frame;

	(void)state;
	assert_non_null(memory);
	write_reply(net, t, port, (struct tun_tx){0});
	while (net->tun_read(t, memory, &frame) == 1)
		continue; /* what the kernel says of a new interface */
	for (int i = 0; i < 4; i++) {
		bool bulk = i % 2 == 0;
		uint32_t next = 0;

		send_numbered(u, 0);
		write_reply(net, t, port, (struct tun_tx){.bulk = bulk, .moved = true});
		send_numbered(u, SOME);
		while (net->tun_read(t, memory, &frame) == 1) {
			if (frame.data[9] != 17 || get_u16(frame.data + 20) != port)
				continue;
			assert_int_equal(get_u32(frame.data + 28), next);
			assert_int_equal(frame.bulk, next < SOME ? !bulk : bulk);
			next++;
		}
		assert_int_equal(next, 2 * SOME);
	}
	net->udp_close(u);
	os_pool_unmap(memory, OS_TUN_BUFFER);
	net->tun_close(t);
}

/* One that another program made without queues, and left, has just one. */
static void test_tun_made_by_others(void **state)
{
	const struct os_net *net = os_net_linux();
	struct os_tun_config plain = {0}, c = {.bulk_queue = true};
	struct os_tun *t = tun_open(net, &plain);

	(void)state;
	assert_int_equal(os_tun_facts(t).bulk_fd, -1);
	assert_int_equal(ioctl(os_tun_facts(t).fd, TUNSETPERSIST, 1), 0);
	net->tun_close(t);
	t = tun_open(net, &c);
	assert_int_equal(os_tun_facts(t).bulk_fd, -1);
	assert_in_range(place_of_sparse(net, t, true), 40, 41);
	assert_int_equal(ioctl(os_tun_facts(t).fd, TUNSETPERSIST, 0), 0);
	net->tun_close(t);
}

/* Sockets that share an address: a datagram goes to the one that its first 32 bits say, one that is
 * too short, and IKE with its marker of zero, to the first. */
static void test_siblings(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct os_net *net = back_ends(i & 1);
		const char *address = i & 2 ? "::1" : "127.0.0.1";
		struct os_udp_config c = {.index = 3, .family = i & 2 ? IP6 : IP4, .siblings = 3};
		struct os_udp *out = udp_open(net, address), *in[3] = {NULL};
		struct os_udp *stranger = NULL;
		uint8_t *memory = os_pool_map(OS_UDP_BUFFER, false);
		struct endpoint target;
		struct buf error = {0};
		struct udp_rx rx;

		assert_non_null(memory);
		assert_int_equal(ipaddr_parse(address, &c.address), 0);
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(net->udp_open(&c, &in[k], &error), 0);
			c.port = os_udp_facts(in[k]).port;
			c.further = true;
		}
		target = at(address, c.port);
		/* Another program's first one is not let in. */
		c.further = false;
		assert_int_equal(net->udp_open(&c, &stranger, &error), -EADDRINUSE);
		buf_free(&error);
		for (uint32_t spi = 0; spi < 9; spi++) {
			uint8_t data[64] = {0};
			struct os_udp_result r = {0};
			struct udp_tx tx = {.data = data,
				.len = spi == 8 ? 1 : sizeof(data),
				.segments = 1,
				.remote = target};

			put_u32(data, spi == 8 ? UINT32_MAX : spi * 1000003);
			net->udp_send(out, &tx, 1, &r);
			assert_int_equal(r.sent, 1);
			assert_true(
				readable(os_udp_facts(in[spi == 8 ? 0 : spi * 1000003 % 3]).fd));
			assert_int_equal(net->udp_receive(in[spi == 8 ? 0 : spi * 1000003 % 3],
						 memory, &rx, 1, os_now()),
				1);
		}
		for (size_t k = 0; k < 3; k++)
			net->udp_close(in[k]);
		net->udp_close(out);
		os_pool_unmap(memory, OS_UDP_BUFFER);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst),
		cmocka_unit_test(test_source_gone),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_port_in_use),
		cmocka_unit_test(test_siblings),
		cmocka_unit_test(test_tun_queues),
		cmocka_unit_test(test_tun_bulk_apart),
		cmocka_unit_test(test_tun_moved),
		cmocka_unit_test(test_tun_made_by_others),
		cmocka_unit_test(test_tun_round_trip),
		cmocka_unit_test(test_merged_refused),
		cmocka_unit_test(test_tun_in_use),
		cmocka_unit_test(test_failures_leak_nothing),
	};

	if (unshare(CLONE_NEWNET) < 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return SKIP;
	interface_up("lo", 65536, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
