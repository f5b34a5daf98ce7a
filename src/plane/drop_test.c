/* Every reason for which the plane drops can be reached, and is the one that is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "plane/rig_test.h"

enum { A = 1, B = 2 };

static void tun(struct rig_pair *n, struct packet f)
{
	rig_tun(&n->a, n->data, packet_make(n->data, &f));
	rig_round(&n->a);
}

static void over(struct rig_pair *n, struct packet f)
{
	rig_inject(&n->a, 0, &n->b, n->data, packet_make(n->data, &f));
}

static void udp(struct rig_pair *n, const void *data, uint32_t len, bool truncated)
{
	struct udp_rx b = {.data = n->data, .len = len, .truncated = truncated, .time = n->b.now};

	if (data)
		memcpy(n->data, data, len);
	plane_input_udp(n->b.plane, &b, 1, n->b.now);
	rig_round(&n->b);
}

/* Leaves one datagram of a in hand. */
static void one_sealed(struct rig_pair *n)
{
	tun(n, rig_udp6);
	assert_int_equal(n->a.rx_count, 1);
}

static void carry(struct rig_pair *n)
{
	n->a.rx[0].socket = 0;
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
}

static void runt(struct rig_pair *n)
{
	udp(n, "abc", 3, false);
}

static void truncated(struct rig_pair *n)
{
	udp(n, NULL, 1400, true);
}

static void unknown_spi(struct rig_pair *n)
{
	udp(n, "\377\377\377\377 and what is behind it", 20, false);
}

static void replay_duplicate(struct rig_pair *n)
{
	uint8_t copy[512];
	struct udp_rx again;

	one_sealed(n);
	again = n->a.rx[0];
	memcpy(copy, again.data, again.len);
	carry(n);
	again.data = copy;
	plane_input_udp(n->b.plane, &again, 1, n->b.now);
	rig_round(&n->b);
}

static void replay_old(struct rig_pair *n)
{
	n->b.in[0].t.highest = 1000;
	one_sealed(n);
	carry(n);
}

static void not_authentic(struct rig_pair *n)
{
	one_sealed(n);
	n->a.rx[0].data[20] ^= 1;
	carry(n);
}

static void ecn(struct rig_pair *n)
{
	one_sealed(n);
	n->a.rx[0].tos = 3;
	carry(n);
}

static void no_sa(struct rig_pair *n)
{
	struct plane_down m = {.type = PLANE_DOWN_SA_OUTBOUND, .slot = 0};

	plane_down(n->a.plane, &m, n->a.now);
	tun(n, rig_udp6);
}

static void hard_limit(struct rig_pair *n)
{
	n->a.out[0].hard = 0;
	tun(n, rig_udp6);
	assert_non_null(rig_find(&n->a, PLANE_UP_HARD_LIMIT));
}

static void tx_error(struct rig_pair *n)
{
	n->a.out[0].broken = true;
	tun(n, rig_udp6);
}

static void tx_backpressure(struct rig_pair *n)
{
	while (rig_drops(&n->a, DROP_TX_BACKPRESSURE) == 0) {
		struct packet f = rig_udp6;

		f.len = 200 + (f.len + 1) % 2;
		f.tos = n->data[1] ? 0 : 2;
		rig_tun(&n->a, n->data, packet_make(n->data, &f));
	}
	rig_round(&n->a);
}

static void aqm(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	n->a.tun_stands = true;
	n->a.now.us += W_SEC;
	f.len = 1400;
	tun(n, f);
}

static void bad_ip(struct rig_pair *n)
{
	packet_make(n->data, &rig_udp6);
	rig_tun(&n->a, n->data, 100);
	rig_round(&n->a);
}

static void bad_offload(struct rig_pair *n)
{
	packet_make(n->data, &rig_udp6);
	rig_tun_gso(&n->a, n->data, 200, (struct gso){.type = GSO_TCP4, .size = 100});
	rig_round(&n->a);
}

static void martian(struct rig_pair *n)
{
	struct packet f = rig_udp4;

	f.src = "127.0.0.1";
	tun(n, f);
}

static void own_source(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	f.src = "fd00:2::1";
	f.dst = "fd00:1::1";
	over(n, f);
}

static void link_local(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	f.dst = "fe80::1";
	tun(n, f);
}

static void multicast(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	f.dst = "ff05::1";
	tun(n, f);
}

static void loop(struct rig_pair *n)
{
	struct packet f = rig_udp4;

	f.dst = "198.51.100.7";
	f.dport = 13000;
	tun(n, f);
}

static void no_route(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	f.dst = "fd00:77::1";
	tun(n, f);
}

static void special_route(struct rig_pair *n, uint32_t hop)
{
	static const unsigned int peers[] = {B};
	struct fib_entry e = rig_route("fd00:77::/32", NULL, hop);

	rig_routes(&n->a, A, peers, &e, 1);
	no_route(n);
}

static void unreachable(struct rig_pair *n)
{
	special_route(n, RIG_UNREACHABLE);
}

static void blackhole(struct rig_pair *n)
{
	special_route(n, RIG_BLACKHOLE);
}

static void link_down(struct rig_pair *n)
{
	n->a.link[0].usable = false;
	tun(n, rig_udp6);
}

/* b sends back over the link what has no business there. */
static void through_b(struct rig_pair *n, uint8_t hop_limit)
{
	struct packet f = rig_udp6;

	f.hop_limit = hop_limit;
	f.dst = "fd00:1::9";
	over(n, f);
}

static void hop_limit(struct rig_pair *n)
{
	through_b(n, 1);
}

static void too_big(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	f.len = 1401;
	tun(n, f);
}

static void transit_refused(struct rig_pair *n)
{
	n->b.snapshot.transit = false;
	through_b(n, 9);
}

static void tun_backpressure(struct rig_pair *n)
{
	for (unsigned int i = 0; rig_drops(&n->b, DROP_TUN_BACKPRESSURE) == 0; i++) {
		struct packet f = rig_udp6;
		struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = 0};

		assert_true(i < 2 * PLANE_TUN_OUT_MAX);
		f.proto = 58;
		m.data = view_of(n->data, packet_make(n->data, &f));
		plane_down(n->a.plane, &m, n->a.now);
		rig_round(&n->a);
		rig_carry(&n->a, 0, &n->b);
	}
	rig_round(&n->b);
}

static void icmp_limit(struct rig_pair *n)
{
	for (int i = 0; i < 200; i++)
		no_route(n);
}

static void ike(struct rig_pair *n, int count)
{
	static const uint8_t message[4 + 28] = {[4] = 1};

	for (int i = 0; i < count; i++)
		udp(n, message, sizeof(message), false);
}

static void punt_full(struct rig_pair *n)
{
	n->b.up_full = true;
	ike(n, 1);
}

static void punt_limit(struct rig_pair *n)
{
	ike(n, 11);
	assert_int_equal(rig_drops(&n->b, DROP_PUNT_LIMIT), 1);
}

static void punt_unexpected(struct rig_pair *n)
{
	struct packet f = rig_udp6;

	f.src = "fe80::1:0";
	f.dst = "fe80::2:0";
	over(n, f);
}

static void engines_own(struct rig_pair *n)
{
	plane_count_drop(n->a.plane, DROP_TUN_ERROR, 1);
	plane_count_drop(n->a.plane, DROP_COUNT, 1);
}

static void excluded_interface(struct rig_pair *n)
{
	plane_count_drop(n->a.plane, DROP_EXCLUDED_INTERFACE, 1);
}

static const struct {
	enum drop_reason reason;
	void (*provoke)(struct rig_pair *n);
} rows[] = {
	{DROP_RUNT, runt},
	{DROP_TRUNCATED, truncated},
	{DROP_UNKNOWN_SPI, unknown_spi},
	{DROP_REPLAY_OLD, replay_old},
	{DROP_REPLAY_DUPLICATE, replay_duplicate},
	{DROP_NOT_AUTHENTIC, not_authentic},
	{DROP_ECN, ecn},
	{DROP_NO_SA, no_sa},
	{DROP_HARD_LIMIT, hard_limit},
	{DROP_TX_ERROR, tx_error},
	{DROP_TX_BACKPRESSURE, tx_backpressure},
	{DROP_BAD_IP, bad_ip},
	{DROP_BAD_OFFLOAD, bad_offload},
	{DROP_MARTIAN, martian},
	{DROP_OWN_SOURCE, own_source},
	{DROP_LINK_LOCAL, link_local},
	{DROP_MULTICAST, multicast},
	{DROP_LOOP, loop},
	{DROP_NO_ROUTE, no_route},
	{DROP_UNREACHABLE, unreachable},
	{DROP_BLACKHOLE, blackhole},
	{DROP_LINK_DOWN, link_down},
	{DROP_HOP_LIMIT, hop_limit},
	{DROP_TOO_BIG, too_big},
	{DROP_TRANSIT_REFUSED, transit_refused},
	{DROP_TUN_ERROR, engines_own},
	{DROP_EXCLUDED_INTERFACE, excluded_interface},
	{DROP_AQM, aqm},
	{DROP_TUN_BACKPRESSURE, tun_backpressure},
	{DROP_ICMP_LIMIT, icmp_limit},
	{DROP_PUNT_FULL, punt_full},
	{DROP_PUNT_LIMIT, punt_limit},
	{DROP_PUNT_UNEXPECTED, punt_unexpected},
};

/* What only the tunnel itself can tell: its own tests have these. */
static bool is_the_tunnels(enum drop_reason r)
{
	return r == DROP_BAD_PADDING || r == DROP_BAD_NEXT_HEADER || r == DROP_DUMMY;
}

/* What needs policies or SIDs: srv6_test.c has these. */
static bool is_steerings(enum drop_reason r)
{
	return r >= DROP_SRV6_FROM_TUN && r <= DROP_POLICY_FALLBACK;
}

static void every_reason_is_reached(void **state)
{
	bool reached[DROP_COUNT] = {false};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rig_pair *n;
		uint64_t others, mine;
		void *made;

		(void)rig_pair_setup(&made);
		n = made;
		rows[i].provoke(n);
		mine = rig_drops(&n->a, rows[i].reason) + rig_drops(&n->b, rows[i].reason);
		others = rig_dropped(&n->a) + rig_dropped(&n->b) - mine;
		if (mine == 0 || (others != 0 && rows[i].reason != DROP_ICMP_LIMIT))
			fail_msg("%s: %llu, others %llu", drop_name(rows[i].reason),
				(unsigned long long)mine, (unsigned long long)others);
		if (rows[i].reason != DROP_TUN_ERROR && rows[i].reason != DROP_EXCLUDED_INTERFACE)
			assert_true(rig_balanced(&n->a) && rig_balanced(&n->b));
		reached[rows[i].reason] = true;
		(void)rig_pair_teardown(&made);
	}
	for (int i = 0; i < DROP_COUNT; i++)
		if (!reached[i] && !is_the_tunnels((enum drop_reason)i) &&
			!is_steerings((enum drop_reason)i))
			fail_msg("nothing tries %s", drop_name((enum drop_reason)i));
}

/* The other ways in which a packet from the TUN may not go. */
static void the_tun_may_not_say(void **state)
{
	static const struct {
		const char *src, *dst;
		uint16_t dport;
		enum drop_reason reason;
	} row[] = {
		{"fd00:1::5", "::1", 1, DROP_MARTIAN},
		{"::", "fd00:2::1", 1, DROP_MARTIAN},
		{"ff02::1", "fd00:2::1", 1, DROP_MARTIAN},
		{"0.1.2.3", "10.2.0.1", 1, DROP_MARTIAN},
		{"10.1.0.5", "255.255.255.255", 1, DROP_MARTIAN},
		{"224.0.0.5", "10.2.0.1", 1, DROP_MARTIAN},
		{"::ffff:1.2.3.4", "fd00:2::1", 1, DROP_MARTIAN},
		{"fe80::5", "fd00:2::1", 1, DROP_LINK_LOCAL},
		{"fd00:1::5", "ff02::2", 1, DROP_LINK_LOCAL},
		{"169.254.0.1", "10.2.0.1", 1, DROP_LINK_LOCAL},
		{"fd00:1::5", "fd00:2::1", 6696, DROP_LINK_LOCAL},
		{"10.1.0.5", "239.1.2.3", 1, DROP_MULTICAST},
		{"fd00:1::5", "fd00:1::77", 1, DROP_UNREACHABLE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct packet f = rig_udp6;
		struct rig_pair *n;
		void *made;

		(void)rig_pair_setup(&made);
		n = made;
		f.version = strchr(row[i].dst, ':') ? 6 : 4;
		f.src = row[i].src;
		f.dst = row[i].dst;
		f.dport = row[i].dport;
		tun(n, f);
		if (rig_drops(&n->a, row[i].reason) != 1)
			fail_msg("%s to %s is not %s", f.src, f.dst, drop_name(row[i].reason));
		(void)rig_pair_teardown(&made);
	}
}

/* Another port of a tunnel endpoint's host is no loop. */
static void other_ports_are_no_loop(void **state)
{
	struct rig_pair *n = *state;
	struct packet f = rig_udp4;

	f.dst = "198.51.100.7";
	f.dport = 443;
	tun(n, f);
	assert_int_equal(rig_drops(&n->a, DROP_LOOP), 0);
	assert_int_equal(rig_drops(&n->a, DROP_NO_ROUTE), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_is_reached),
		cmocka_unit_test(the_tun_may_not_say),
		cmocka_unit_test_setup_teardown(other_ports_are_no_loop, rig_pair_setup,
			rig_pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
