/* The kernel's state: applied, changed, taken back; nothing foreign touched. In a network namespace
 * of the test's own, whose state ip(8) prints. */
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/net.h"
#include "os/netlink.h"
#include "os/privilege.h"

enum { SKIP = 77 };

/* What a command prints; it must succeed. */
static void run(const char *command, struct buf *ret)
{
	char chunk[4096];
	size_t n;
	FILE *f = popen(command, "re");

	assert_non_null(f);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		if (ret)
			buf_add(ret, chunk, n);
	if (pclose(f) != 0)
		fail_msg("failed: %s", command);
	if (ret)
		buf_add(ret, "", 1);
}

static struct buf snapshot(void)
{
	struct buf b = {0};

	run("{ ip -4 rule; ip -6 rule; ip -4 route show table all; ip -6 route show table all; "
	    "ip -o addr; } | grep -v weft-test | sed 's/expires [0-9]*sec//; s/valid_lft.*//'",
		&b);
	return b;
}

static void assert_equal_text(struct buf *a, struct buf *b)
{
	assert_string_equal((char *)a->p, (char *)b->p);
	buf_free(a);
	buf_free(b);
}

static bool shows(const char *command, const char *text)
{
	struct buf b = {0};
	bool found;

	run(command, &b);
	found = strstr((char *)b.p, text);
	buf_free(&b);
	return found;
}

static struct ipaddr ip(const char *text)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(text, &a), 0);
	return a;
}

static struct prefix net(const char *text)
{
	struct prefix p;

	assert_int_equal(prefix_parse(text, &p), 0);
	return p;
}

struct fixture {
	struct os_tun *tun;
	struct os_netlink *netlink;
	struct kernel_address address[2];
	struct kernel_route route[5];
	struct kernel_rule rule[8];
	struct kernel_state state;
	struct buf errors;
};

static void fixture_open(struct fixture *f)
{
	struct os_tun_config c = {.name = "weft-test0", .tso = true, .uso = true};

	memset(f, 0, sizeof(*f));
	assert_int_equal(os_net_linux()->tun_open(&c, &f->tun, &f->errors), 0);
	assert_int_equal(os_netlink_open(NULL, &f->netlink, &f->errors), 0);
	f->address[0] = (struct kernel_address){ip("10.66.0.1"), 32};
	f->address[1] = (struct kernel_address){ip("fd00:1::1"), 128};
	f->route[0] = (struct kernel_route){.destination = net("10.66.0.0/16"),
		.table = 252,
		.prefer = ip("10.66.0.1")};
	f->route[1] = (struct kernel_route){.destination = net("fd00:2::/32"),
		.table = 252,
		.prefer = ip("fd00:1::1")};
	f->route[2] = (struct kernel_route){.destination = net("0.0.0.0/0"), .table = 253};
	f->route[3] = (struct kernel_route){.destination = net("fd00:9::/64"),
		.table = 252,
		.unreachable = true};
	f->route[4] = (struct kernel_route){.destination = net("10.67.0.0/16"),
		.table = 252,
		.unreachable = true,
		.metric = 77};
	for (unsigned int i = 0; i < 8; i++) {
		f->rule[i] = (struct kernel_rule){.family = i < 4 ? IP4 : IP6,
			.table = 254,
			.priority = 5200 + i % 4,
			.suppress_prefixlength = i % 4 == 2 ? 0 : -1};
		if (i % 4 == 0) {
			f->rule[i].mark = 0x51;
			f->rule[i].mask = 0xff;
		}
		if (i % 4 == 1 || i % 4 == 3)
			f->rule[i].table = i % 4 == 1 ? 252 : 253;
	}
	f->state = (struct kernel_state){.tun = "weft-test0",
		.mtu = 1400,
		.protocol = 157,
		.link_local = ip("fe80::1234"),
		.address = f->address,
		.address_count = 2,
		.route = f->route,
		.route_count = 5,
		.rule = f->rule,
		.rule_count = 8};
}

static void fixture_apply(struct fixture *f)
{
	int r = os_netlink_apply(f->netlink, &f->state, &f->errors);

	if (r < 0)
		print_error("%.*s", (int)f->errors.n, (char *)f->errors.p);
	assert_int_equal(r, 0);
}

static void fixture_close(struct fixture *f)
{
	os_netlink_close(f->netlink);
	os_net_linux()->tun_close(f->tun);
	buf_free(&f->errors);
}

/* What is foreign: same table, same priority, same interface, another's protocol. */
static void foreign(const char *verb)
{
	char command[512];

	snprintf(command, sizeof(command),
		"ip rule %s priority 5201 to 192.0.2.0/24 table 252; "
		"ip rule %s priority 100 table 77 protocol 157; "
		"ip route %s unreachable 10.99.0.0/16 table 252; "
		"ip route %s unreachable 10.98.0.0/16 table 77 proto 157",
		verb, verb, verb, verb);
	run(command, NULL);
}

static void test_apply_and_withdraw(void **state)
{
	struct fixture f;
	struct buf before, after;

	(void)state;
	foreign("add");
	before = snapshot();
	fixture_open(&f);
	fixture_apply(&f);
	assert_true(shows("ip rule", "5200:\tfrom all fwmark 0x51/0xff lookup main proto 157"));
	assert_true(shows("ip -6 rule",
		"5202:\tfrom all lookup main suppress_prefixlength 0 proto 157"));
	assert_true(shows("ip route show table 252",
		"10.66.0.0/16 dev weft-test0 proto 157 scope link src 10.66.0.1"));
	assert_true(shows("ip -6 route show table 252", "fd00:2::/32 dev weft-test0 proto 157"));
	assert_true(shows("ip -6 route show table 252", "unreachable fd00:9::/64"));
	assert_true(shows("ip route show table 253", "default dev weft-test0 proto 157"));
	assert_true(shows("ip link show weft-test0", "mtu 1400"));
	assert_true(shows("ip link show weft-test0", "qlen 100"));
	/* Once more changes nothing; less is taken back alone. */
	after = snapshot();
	fixture_apply(&f);
	{
		struct buf again = snapshot();

		assert_equal_text(&after, &again);
	}
	f.state.route_count = 1;
	f.route[0].prefer = (struct ipaddr){0};
	f.state.address_count = 1;
	f.state.rule_count = 4;
	fixture_apply(&f);
	assert_true(shows("ip route show table 252", "10.66.0.0/16 dev weft-test0 proto 157"));
	assert_false(shows("ip -6 rule", "5200:"));
	assert_false(shows("ip -6 route show table 252", "fd00:2::"));
	assert_false(shows("ip addr show weft-test0", "fd00:1::1"));
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	assert_false(shows("ip addr show weft-test0", "10.66.0.1"));
	fixture_close(&f);
	after = snapshot();
	assert_equal_text(&before, &after);
	foreign("del");
}

/* Rules that select by prefix and interface, as policies need: made, known again, taken back. */
static void test_rules_that_select(void **state)
{
	struct kernel_rule rule[4] = {
		{.family = IP4, .priority = 5204, .table = 254, .in = "weft-test0"},
		{.family = IP4, .priority = 5205, .source = net("10.1.0.0/16"), .table = 251},
		{.family = IP4,
			.priority = 5205,
			.source = net("10.2.0.0/16"),
			.destination = net("198.51.100.0/24"),
			.table = 251},
		{.family = IP6, .priority = 5205, .destination = net("fd00:8::/32"), .table = 251},
	};
	struct buf before, after, again;
	struct fixture f;

	(void)state;
	before = snapshot();
	fixture_open(&f);
	for (size_t i = 0; i < 4; i++)
		rule[i].suppress_prefixlength = -1;
	f.state.rule = rule;
	f.state.rule_count = 4;
	f.state.policy_table = 251;
	fixture_apply(&f);
	assert_true(shows("ip rule", "5204:\tfrom all iif weft-test0 lookup main proto 157"));
	assert_true(shows("ip rule", "5205:\tfrom 10.1.0.0/16 lookup 251 proto 157"));
	assert_true(shows("ip rule",
		"5205:\tfrom 10.2.0.0/16 to 198.51.100.0/24 lookup 251 proto 157"));
	assert_true(shows("ip -6 rule", "5205:\tfrom all to fd00:8::/32 lookup 251 proto 157"));
	after = snapshot();
	fixture_apply(&f);
	again = snapshot();
	assert_equal_text(&after, &again);
	f.state.rule_count = 2;
	fixture_apply(&f);
	assert_true(shows("ip rule", "from 10.1.0.0/16"));
	assert_false(shows("ip rule", "from 10.2.0.0/16"));
	/* a successor that has no policies knows them as ours */
	os_netlink_close(f.netlink);
	assert_int_equal(os_netlink_open(NULL, &f.netlink, &f.errors), 0);
	f.state.rule_count = 0;
	fixture_apply(&f);
	assert_false(shows("ip rule", "5205:"));
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
	after = snapshot();
	assert_equal_text(&before, &after);
}

/* Killed: rules and unreachable routes stay. The next start and stop clean them up. */
static void test_leftovers(void **state)
{
	struct buf before = snapshot(), after;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	fixture_apply(&f);
	fixture_close(&f); /* as kill -9 does: descriptors close, nothing is withdrawn */
	assert_true(shows("ip rule", "5203:"));
	assert_true(shows("ip route show table 252", "unreachable 10.67.0.0/16"));
	fixture_open(&f);
	f.state.route_count = 2;
	f.state.rule_count = 4;
	f.rule[3].table = 252;
	fixture_apply(&f);
	assert_false(shows("ip route show table 252", "unreachable 10.67.0.0/16"));
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
	after = snapshot();
	assert_equal_text(&before, &after);
}

/* One stable link-local address, at once usable, whatever the kernel would do. */
static void test_link_local(void **state)
{
	(void)state;
	for (long mode = 0; mode < 4; mode++) {
		struct fixture f;
		struct buf out = {0};
		char *first;

		/* Mode 2 needs a secret, mode 3 makes one. */
		run("sysctl -qw net.ipv6.conf.default.stable_secret=2001:db8::1", NULL);
		(void)os_file_write_number("/proc/sys/net/ipv6/conf/default/addr_gen_mode", mode);
		fixture_open(&f);
		if (mode & 1)
			run("ip link set weft-test0 up", NULL); /* the kernel makes its own */
		fixture_apply(&f);
		run("ip -6 -o addr show dev weft-test0 scope link", &out);
		first = strstr((char *)out.p, "fe80::");
		assert_non_null(first);
		assert_null(strstr(first + 1, "fe80::"));
		assert_non_null(strstr((char *)out.p, "fe80::1234/64"));
		assert_null(strstr((char *)out.p, "tentative"));
		buf_free(&out);
		assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
		fixture_close(&f);
	}
	assert_int_equal(os_file_write_number("/proc/sys/net/ipv6/conf/default/addr_gen_mode", 0),
		0);
}

static void test_six_disabled(void **state)
{
	const char *path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
	struct fixture f;

	(void)state;
	assert_int_equal(os_file_write_number(path, 1), 0);
	fixture_open(&f);
	assert_int_equal(os_netlink_apply(f.netlink, &f.state, &f.errors), -EAFNOSUPPORT);
	assert_non_null(strstr((char *)f.errors.p, "net.ipv6.conf.weft-test0.disable_ipv6=1"));
	fixture_close(&f);
	assert_int_equal(os_file_write_number(path, 0), 0);
}

/* Strict filters are named, and only when the default route leads into the TUN. */
static void test_reverse_path(void **state)
{
	struct buf warnings = {0};
	struct fixture f;

	(void)state;
	run("ip tuntap add weft-test1 mode tun", NULL);
	run("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.weft-test1.rp_filter=1", NULL);
	fixture_open(&f);
	os_reverse_path_check(NULL, &f.state, &warnings);
	assert_non_null(strstr((char *)warnings.p,
		"interface weft-test1: net.ipv4.conf.weft-test1.rp_filter=1"));
	buf_free(&warnings);
	f.state.route_count = 2; /* no default */
	os_reverse_path_check(NULL, &f.state, &warnings);
	assert_int_equal(warnings.n, 0);
	f.state.route_count = 5;
	run("sysctl -qw net.ipv4.conf.weft-test1.rp_filter=2", NULL);
	os_reverse_path_check(NULL, &f.state, &warnings);
	assert_int_equal(warnings.n, 0);
	fixture_close(&f);
	run("ip link del weft-test1", NULL);
}

struct watched {
	struct os_loop *loop;
	unsigned int events;
};

static void changed(void *ctx)
{
	struct watched *w = ctx;

	w->events++;
	os_loop_stop(w->loop);
}

static void test_address_watch(void **state)
{
	struct watched w = {0};
	struct os_address_watch *watch;

	(void)state;
	assert_int_equal(os_loop_new(&w.loop), 0);
	assert_int_equal(os_address_watch_new(w.loop, NULL, changed, &w, &watch), 0);
	run("ip addr add 192.0.2.1/32 dev lo", NULL);
	os_loop_run(w.loop);
	run("ip addr del 192.0.2.1/32 dev lo", NULL);
	os_loop_run(w.loop);
	assert_int_equal(w.events, 2);
	os_address_watch_free(watch);
	os_loop_free(w.loop);
}

/* A mesh route that covers the LAN does not take the LAN away; one that is the LAN is left out. */
static void test_lan_is_protected(void **state)
{
	struct buf before, after;
	struct fixture f;

	(void)state;
	run("ip tuntap add weft-test1 mode tun; ip addr add 10.66.7.1/24 dev weft-test1; "
	    "ip addr add fd00:2:0:7::1/64 dev weft-test1; "
	    "ip addr add 10.68.0.1/16 dev weft-test1; ip link set weft-test1 up",
		NULL);
	before = snapshot();
	fixture_open(&f);
	for (size_t i = 0; i < 2; i++)
		f.route[i].protect = true;
	f.route[4] = (struct kernel_route){.destination = net("10.68.0.0/16"),
		.table = 252,
		.protect = true};
	fixture_apply(&f);
	assert_true(shows("ip route show table 252", "throw 10.66.7.0/24 proto 157"));
	assert_true(shows("ip -6 route show table 252", "throw fd00:2:0:7::/64"));
	assert_true(shows("ip route get 10.66.7.9", "dev weft-test1"));
	assert_true(shows("ip route get 10.66.8.9", "dev weft-test0"));
	assert_true(shows("ip -6 route get fd00:2:0:7::9", "dev weft-test1"));
	assert_true(shows("ip -6 route get fd00:2:0:8::9", "dev weft-test0"));
	assert_true(shows("ip route get 10.68.0.9", "dev weft-test1"));
	assert_non_null(strstr((char *)f.errors.p, "route 10.68.0.0/16 is left out"));
	/* It is wanted all the same. */
	f.route[4].over = true;
	fixture_apply(&f);
	assert_true(shows("ip route get 10.68.0.9", "dev weft-test0"));
	f.route[4].over = false;
	fixture_apply(&f);
	assert_true(shows("ip route get 10.68.0.9", "dev weft-test1"));
	/* The network goes away, and with it what protected it. */
	run("ip addr del 10.66.7.1/24 dev weft-test1", NULL);
	fixture_apply(&f);
	assert_false(shows("ip route show table 252", "throw 10.66.7.0/24"));
	run("ip addr add 10.66.7.1/24 dev weft-test1", NULL);
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
	after = snapshot();
	assert_equal_text(&before, &after);
	run("ip link del weft-test1", NULL);
}

/* What another program puts in the place of ours is replaced; what was there before ours stays. */
static void test_replaced_routes(void **state)
{
	struct fixture f;

	(void)state;
	run("ip route add unreachable 10.66.0.0/16 table 252", NULL);
	fixture_open(&f);
	assert_int_equal(os_netlink_apply(f.netlink, &f.state, &f.errors), -EEXIST);
	assert_true(shows("ip route show table 252", "unreachable 10.66.0.0/16"));
	run("ip route del unreachable 10.66.0.0/16 table 252", NULL);
	fixture_apply(&f);
	assert_int_equal(os_netlink_changes(f.netlink), 1);
	fixture_apply(&f);
	assert_int_equal(os_netlink_changes(f.netlink), 0);
	run("ip route replace blackhole 10.66.0.0/16 table 252 proto static", NULL);
	run("ip -6 route replace unreachable fd00:2::/32 table 252 metric 1024", NULL);
	run("ip route change default dev weft-test0 table 253 proto 157 mtu 900", NULL);
	fixture_apply(&f);
	assert_true(shows("ip route show table 252", "10.66.0.0/16 dev weft-test0 proto 157"));
	assert_true(shows("ip -6 route show table 252", "fd00:2::/32 dev weft-test0 proto 157"));
	assert_false(shows("ip -6 route show table 252", "unreachable fd00:2::/32"));
	assert_false(shows("ip route show table 253", "mtu"));
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	assert_false(shows("ip route show table all", "10.66.0.0/16"));
	fixture_close(&f);
}

/* A device that is bound is known under any name, and gets its own back; one that is gone is told
 * of, and what has its name now is left alone. */
static void test_renamed(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	os_netlink_bind(f.netlink, os_tun_facts(f.tun).ifindex);
	fixture_apply(&f);
	run("ip link set weft-test0 down; ip link set weft-test0 name weft-test8; "
	    "ip link set weft-test8 mtu 1300 up",
		NULL);
	fixture_apply(&f);
	assert_true(shows("ip link show weft-test0", "mtu 1400"));
	assert_true(shows("ip route show table 252", "10.66.0.0/16 dev weft-test0 proto 157"));
	run("ip link del weft-test0; ip tuntap add weft-test0 mode tun", NULL);
	assert_int_equal(os_netlink_apply(f.netlink, &f.state, &f.errors), -ENODEV);
	assert_false(shows("ip addr show weft-test0", "10.66.0.1"));
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
	run("ip link del weft-test0", NULL);
}

static bool has_picked(const struct kernel_host *h, const char *prefix, uint32_t table)
{
	const struct prefix p = net(prefix);

	for (size_t i = 0; i < h->route_count; i++)
		if (prefix_equal(&h->route[i].destination, &p) && h->route[i].from.table == table)
			return true;
	return false;
}

static void test_host_is_read(void **state)
{
	static const struct kernel_pick pick[] = {{254, 12}, {100000, 200}, {31337, 12}};
	const struct prefix six = net("fd00:7::/64");
	struct kernel_host h;
	struct fixture f;

	(void)state;
	run("ip tuntap add weft-test1 mode tun; ip addr add 10.68.0.1/16 dev weft-test1; "
	    "ip addr add fd00:7::1/64 dev weft-test1; ip link set weft-test1 up; "
	    "ip route add 10.50.0.0/16 via 10.68.0.2 proto bird; "
	    "ip route add 10.51.0.0/16 via 10.68.0.2 proto static; "
	    "ip route add 10.52.0.0/16 dev weft-test1 proto 200 table 100000; "
	    "ip -6 route add fd50::/32 dev weft-test1 proto bird; "
	    "ip route add blackhole 10.53.0.0/16 proto bird",
		NULL);
	fixture_open(&f);
	fixture_apply(&f);
	run("ip route add 10.54.0.0/16 dev weft-test0 proto bird", NULL);
	assert_int_equal(os_host_read(f.netlink, pick, 3, &h), 0);
	assert_int_equal(h.network_count, 2);
	assert_true(prefix_equal(&h.network[1], &six));
	assert_int_equal(h.route_count, 3);
	assert_true(has_picked(&h, "10.50.0.0/16", 254));
	assert_true(has_picked(&h, "fd50::/32", 254));
	assert_true(has_picked(&h, "10.52.0.0/16", 100000));
	os_host_free(&h);
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
	run("ip link del weft-test1; ip route del blackhole 10.53.0.0/16", NULL);
}

/* Rules before ours that our packets would go by, and rules among ours. */
static void test_rules_of_others(void **state)
{
	struct buf warnings = {0};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	fixture_apply(&f);
	run("ip rule add priority 1000 lookup 99 from 192.0.2.0/24; "
	    "ip rule add priority 1001 lookup 99 fwmark 0x80000/0xff0000; "
	    "ip rule add priority 1002 lookup main; ip rule add priority 5210 lookup 52",
		NULL);
	assert_int_equal(os_rules_check(f.netlink, &f.state, &warnings), 0);
	assert_int_equal(warnings.n, 0);
	run("ip rule add priority 1003 lookup 99 fwmark 0x51; "
	    "ip rule add priority 5202 lookup 99 from 192.0.2.0/24",
		NULL);
	assert_int_equal(os_rules_check(f.netlink, &f.state, &warnings), 0);
	buf_add(&warnings, "", 1);
	assert_non_null(strstr((char *)warnings.p, "the rule at priority 1003"));
	assert_non_null(strstr((char *)warnings.p, "a rule at priority 5202"));
	buf_free(&warnings);
	run("for p in 1000 1001 1002 1003 5210; do ip rule del priority $p; done; "
	    "ip rule del priority 5202 lookup 99",
		NULL);
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
}

/* As wg-quick makes them, later than ours: the kernel puts them in front. */
static void test_rules_go_before_what_takes_all(void **state)
{
	const char *take = "ip rule add not fwmark 0xca6c table 51820; "
			   "ip rule add table main suppress_prefixlength 0";
	struct os_netlink *after_kill;
	struct buf warnings = {0};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	f.state.rule_priority = 5200;
	f.state.rule_priorities = 10;
	fixture_apply(&f);
	run(take, NULL);
	fixture_apply(&f);
	assert_int_equal(os_netlink_priority(f.netlink), 5194);
	assert_int_equal(os_netlink_changes(f.netlink), 0);
	assert_true(shows("ip rule", "5194:\tfrom all fwmark 0x51/0xff lookup main proto 157"));
	assert_true(shows("ip rule", "5197:\tfrom all lookup default proto 157"));
	assert_true(shows("ip -6 rule", "5197:\tfrom all lookup default proto 157"));
	assert_false(shows("ip rule; ip -6 rule", "520"));
	assert_int_equal(os_rules_check(f.netlink, &f.state, &warnings), 0);
	assert_int_equal(warnings.n, 0);
	/* a second one; and another's rule where ours would be */
	run(take, NULL);
	run("ip rule add priority 5190 from 192.0.2.0/24 lookup 7", NULL);
	fixture_apply(&f);
	assert_int_equal(os_netlink_priority(f.netlink), 5186);
	assert_true(shows("ip rule", "5189:\tfrom all lookup default proto 157"));
	/* a daemon that was killed there: what starts next finds it all */
	assert_int_equal(os_netlink_open(NULL, &after_kill, &f.errors), 0);
	run("ip rule del not fwmark 0xca6c table 51820; ip rule del not fwmark 0xca6c table 51820; "
	    "ip rule del priority 5190 from 192.0.2.0/24 lookup 7",
		NULL);
	os_netlink_close(f.netlink);
	f.netlink = after_kill;
	fixture_apply(&f);
	assert_int_equal(os_netlink_priority(f.netlink), 5200);
	assert_true(shows("ip rule", "5200:\tfrom all fwmark 0x51/0xff lookup main proto 157"));
	assert_false(shows("ip rule; ip -6 rule", "518"));
	/* no room: it stays, and that is told */
	run("ip rule add priority 19 not fwmark 0xca6c table 51820", NULL);
	fixture_apply(&f);
	assert_int_equal(os_netlink_priority(f.netlink), 5200);
	assert_int_equal(os_rules_check(f.netlink, &f.state, &warnings), 0);
	buf_add(&warnings, "", 1);
	assert_non_null(strstr((char *)warnings.p, "the rule at priority 19"));
	buf_free(&warnings);
	run("ip rule del priority 19; for p in 5198 5192; do ip rule del priority $p; done", NULL);
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	assert_false(shows("ip rule; ip -6 rule", "157"));
	fixture_close(&f);
}

/* A mark that packets of both programs have. */
static void test_marks_that_overlap(void **state)
{
	static const struct {
		const char *mark;
		bool told;
	} marks[] = {{"0x80000/0xff0000", false}, {"0xca6c", false}, {"0x51", true},
		{"0x151/0xffff", true}, {"0x1/0xf", true}, {"0x50/0xff", false}};
	struct buf warnings = {0};
	char add[128];
	struct fixture f;

	(void)state;
	fixture_open(&f);
	fixture_apply(&f);
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		snprintf(add, sizeof(add), "ip rule add priority 5300 lookup 99 fwmark %s",
			marks[i].mark);
		run(add, NULL);
		assert_int_equal(os_rules_check(f.netlink, &f.state, &warnings), 0);
		assert_int_equal(warnings.n != 0, marks[i].told);
		buf_free(&warnings);
		run("ip rule del priority 5300", NULL);
	}
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
}

static void test_errors_are_named(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	f.route[0].prefer = ip("192.0.2.200"); /* not an address of this host */
	assert_true(os_netlink_apply(f.netlink, &f.state, &f.errors) < 0);
	assert_non_null(strstr((char *)f.errors.p, "add route 10.66.0.0/16 in table 252"));
	assert_true(shows("ip rule", "5203:")); /* the rest was done */
	assert_int_equal(os_netlink_withdraw(f.netlink, &f.errors), 0);
	fixture_close(&f);
}

static void test_privilege(void **state)
{
	struct os_privilege_need need = {.net_admin = true, .low_port = true};
	struct buf error = {0};

	(void)state;
	assert_int_equal(os_privilege_check(&need, &error), 0);
	assert_int_equal(error.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apply_and_withdraw),
		cmocka_unit_test(test_rules_that_select),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_link_local),
		cmocka_unit_test(test_six_disabled),
		cmocka_unit_test(test_reverse_path),
		cmocka_unit_test(test_address_watch),
		cmocka_unit_test(test_lan_is_protected),
		cmocka_unit_test(test_replaced_routes),
		cmocka_unit_test(test_renamed),
		cmocka_unit_test(test_host_is_read),
		cmocka_unit_test(test_rules_of_others),
		cmocka_unit_test(test_rules_go_before_what_takes_all),
		cmocka_unit_test(test_marks_that_overlap),
		cmocka_unit_test(test_errors_are_named),
		cmocka_unit_test(test_privilege),
	};

	if (unshare(CLONE_NEWNET) < 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return SKIP;
	run("ip link set lo up", NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
