/* Replies and events of netlink that no kernel would send: cut short, with attributes of wrong
 * lengths, with other bytes. What reads them takes no harm, comes to an end, and with true ones
 * again does what it should. In a network namespace of the test's own. */
#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/rng.h"
#include "os/net.h"
#include "os/netlink.h"

enum { SKIP = 77, ROUNDS = 400, PICKS = 2, LAST_ROUTE = 3, ATTRIBUTES = 64 };

/* The liar between the kernel and whoever reads. */
static struct {
	bool lies;
	struct rng_seeded state;
	struct rng rng;
	unsigned int told;
} liar;

static uint32_t pick(uint32_t bound)
{
	uint64_t v;

	assert_int_equal(rng_below(&liar.rng, bound, &v), 0);
	return (uint32_t)v;
}

/* The attributes of a message, as far as they make sense: their places. */
static size_t attributes(const uint8_t *p, size_t n, size_t at, size_t ret[ATTRIBUTES])
{
	size_t count = 0;

	while (at + sizeof(struct nlattr) <= n && count < ATTRIBUTES) {
		struct nlattr a;

		memcpy(&a, p + at, sizeof(a));
		if (a.nla_len < sizeof(a) || a.nla_len > n - at)
			break;
		ret[count++] = at;
		at += NLA_ALIGN(a.nla_len);
	}
	return count;
}

/* Changes one message of n bytes in place; returns its new length, which is no longer. */
static size_t lie(uint8_t *p, size_t n)
{
	/* of struct ifinfomsg, rtmsg, fib_rule_hdr and ifaddrmsg */
	static const uint8_t header[] = {16, 12, 12, 8};
	size_t at[ATTRIBUTES];
	size_t count = attributes(p, n, NLMSG_HDRLEN + header[pick(4)], at);
	uint16_t len;

	liar.told++;
	switch (pick(4)) {
	case 0:
		return NLMSG_HDRLEN + pick((uint32_t)(n - NLMSG_HDRLEN + 1));
	case 1: /* an attribute says another length, sometimes nearly the right one */
		if (!count)
			return n;
		memcpy(&len, p + at[count = pick((uint32_t)count)], sizeof(len));
		len = (uint16_t)(pick(2) ? pick(UINT16_MAX + 1) : len - 4 + pick(9));
		memcpy(p + at[count], &len, sizeof(len));
		return n;
	case 2: /* an attribute is another one */
		if (!count)
			return n;
		len = (uint16_t)pick(40);
		memcpy(p + at[pick((uint32_t)count)] + sizeof(len), &len, sizeof(len));
		return n;
	default:
		for (uint32_t i = pick(8) + 1; i > 0 && n > NLMSG_HDRLEN; i--)
			p[NLMSG_HDRLEN + pick((uint32_t)(n - NLMSG_HDRLEN))] = (uint8_t)pick(256);
		return n;
	}
}

/* What ends a dump and what names an error stays: without it a reader would wait for ever. */
static size_t lie_all(uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at + NLMSG_HDRLEN <= n) {
		struct nlmsghdr h;
		size_t len, whole;

		memcpy(&h, p + at, sizeof(h));
		if (h.nlmsg_len < NLMSG_HDRLEN || h.nlmsg_len > n - at)
			break;
		whole = NLMSG_ALIGN(h.nlmsg_len) < n - at ? NLMSG_ALIGN(h.nlmsg_len) : n - at;
		len = h.nlmsg_len;
		if (h.nlmsg_type >= NLMSG_MIN_TYPE && pick(3) == 0)
			len = lie(p + at, len);
		if (len < h.nlmsg_len) {
			size_t kept = NLMSG_ALIGN(len) < whole ? NLMSG_ALIGN(len) : whole;

			h.nlmsg_len = (uint32_t)len;
			memcpy(p + at, &h, sizeof(h));
			memmove(p + at + kept, p + at + whole, n - at - whole);
			n -= whole - kept;
			whole = kept;
		}
		at += whole;
	}
	return n;
}

static bool is_netlink(int fd)
{
	int domain = 0;
	socklen_t n = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_NETLINK;
}

/* These two take the place of the C library's, for libnl too. */
ssize_t recv(int fd, void *p, size_t n, int flags)
{
	ssize_t got = syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);

	if (got > 0 && liar.lies && is_netlink(fd))
		got = (ssize_t)lie_all(p, (size_t)got);
	return got;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t got = syscall(SYS_recvmsg, fd, m, flags);

	if (got > 0 && !(flags & MSG_PEEK) && liar.lies && is_netlink(fd) &&
		(size_t)got <= m->msg_iov[0].iov_len)
		got = (ssize_t)lie_all(m->msg_iov[0].iov_base, (size_t)got);
	return got;
}

/* ---- what reads ---- */

struct fixture {
	struct os_tun *tun;
	struct kernel_address address[2];
	struct kernel_route route[4];
	struct kernel_rule rule[4];
	struct kernel_state state;
};

static struct prefix net(const char *text)
{
	struct prefix p;

	assert_int_equal(prefix_parse(text, &p), 0);
	return p;
}

static void fixture_open(struct fixture *f)
{
	struct os_tun_config c = {.name = "weft-test0", .tso = true, .uso = true};
	struct buf error = {0};

	*f = (struct fixture){
		.address = {{net("10.66.0.1/32").addr, 32}, {net("fd00:1::1/128").addr, 128}},
		.route = {{.destination = net("10.66.0.0/16"), .table = 252},
			{.destination = net("fd00:2::/32"), .table = 252},
			{.destination = net("0.0.0.0/0"), .table = 253},
			{.destination = net("fd00:9::/64"), .table = 252, .unreachable = true}},
	};
	for (unsigned int i = 0; i < 4; i++)
		f->rule[i] = (struct kernel_rule){.family = i < 2 ? IP4 : IP6,
			.table = 252 + i % 2,
			.priority = 5200 + i % 2,
			.suppress_prefixlength = -1};
	f->state = (struct kernel_state){.tun = "weft-test0",
		.mtu = 1400,
		.protocol = 157,
		.link_local = net("fe80::1234/128").addr,
		.address = f->address,
		.address_count = 2,
		.route = f->route,
		.route_count = 4,
		.rule = f->rule,
		.rule_count = 4};
	assert_int_equal(os_net_linux()->tun_open(&c, &f->tun, &error), 0);
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void stop(void *ctx)
{
	os_loop_stop(ctx);
}

/* Everything that is asked of netlink, and the events of its own doing. */
static void ask_all(struct fixture *f)
{
	static const struct kernel_pick pick_of[PICKS] = {{254, 12}, {77, 4}};
	const struct os_path_ask way = {.remote = net("192.0.2.7/32").addr};
	struct os_kernel_watch *kernel;
	struct os_route_watch *route;
	struct os_netlink *n;
	struct os_loop *loop;
	struct os_wake *wake;
	struct kernel_host h;
	struct os_path path;
	struct buf said = {0};

	assert_int_equal(os_netlink_open(NULL, &n, &said), 0);
	os_netlink_bind(n, os_tun_facts(f->tun).ifindex);
	assert_int_equal(os_loop_new(&loop), 0);
	assert_int_equal(os_wake_new(loop, stop, loop, &wake), 0);
	(void)os_netlink_apply(n, &f->state, &said);
	assert_int_equal(os_kernel_watch_new(loop, n, nothing, NULL, &kernel), 0);
	assert_int_equal(os_route_watch_new(loop, NULL, nothing, NULL, &route), 0);
	if (os_host_read(n, pick_of, PICKS, &h) == 0)
		os_host_free(&h);
	(void)os_rules_check(n, &f->state, &said);
	(void)os_netlink_path(n, &way, &path);
	f->state.route_count = LAST_ROUTE;
	f->state.mtu = 1300;
	(void)os_netlink_apply(n, &f->state, &said);
	f->state.route_count = LAST_ROUTE + 1;
	f->state.mtu = 1400;
	(void)os_netlink_withdraw(n, &said);
	os_wake_up(wake);
	os_loop_run(loop);
	os_route_watch_free(route);
	os_kernel_watch_free(kernel);
	os_wake_free(wake);
	os_loop_free(loop);
	os_netlink_close(n);
	buf_free(&said);
}

static void apply_truth(struct fixture *f)
{
	struct buf errors = {0};
	struct os_netlink *n;

	assert_int_equal(os_netlink_open(NULL, &n, &errors), 0);
	os_netlink_bind(n, os_tun_facts(f->tun).ifindex);
	if (os_netlink_apply(n, &f->state, &errors) < 0)
		fail_msg("%.*s", (int)errors.n, (char *)errors.p);
	assert_int_equal(system("ip route show table 252 | grep -q 10.66.0.0/16 &&"
				"ip link show weft-test0 | grep -q 'mtu 1400' &&"
				"ip rule | grep -q 5201: && ip -6 rule | grep -q 5201:"),
		0);
	assert_int_equal(os_netlink_withdraw(n, &errors), 0);
	os_netlink_close(n);
	buf_free(&errors);
}

static void lies_do_no_harm(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		liar.rng = rng_seeded_init(&liar.state, seed);
		liar.lies = true;
		ask_all(&f);
		liar.lies = false;
	}
	assert_true(liar.told > ROUNDS * 10);
	apply_truth(&f);
	os_net_linux()->tun_close(f.tun);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lies_do_no_harm),
	};

	if (unshare(CLONE_NEWNET) < 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return SKIP;
	if (system("ip link set lo up && ip tuntap add weft-test1 mode tun && "
		   "ip addr add 10.68.0.1/16 dev weft-test1 && ip link set weft-test1 up && "
		   "ip route add 10.50.0.0/16 dev weft-test1 proto bird && "
		   "ip rule add priority 5202 lookup 99 from 192.0.2.0/24") != 0)
		return SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
