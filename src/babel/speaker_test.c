/* Speakers against each other, in virtual time. */
#include "babel/bed_test.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

static const int64_t hello = 4 * W_SEC;

static void start_all(struct bed *t)
{
	for (size_t i = 0; i < t->nodes; i++) {
		bed_start(t, i, NULL);
		bed_originate(t, i);
	}
}

static bool reaches(struct bed *t, size_t from, size_t to)
{
	struct babel_prefix p = bed_prefix(to);
	size_t at = from;

	for (size_t hops = 0; hops <= t->nodes; hops++) {
		if (at == to)
			return true;
		at = bed_next(t, at, &p);
		if (at == SIZE_MAX)
			return false;
	}
	return false;
}

static bool all_reach(struct bed *t)
{
	for (size_t i = 0; i < t->nodes; i++) {
		for (size_t k = 0; k < t->nodes; k++) {
			if (!reaches(t, i, k))
				return false;
		}
	}
	return true;
}

/* RTTs: 0-2 directly, 0-1, 1-2. */
static void triangle(struct bed *t, int64_t direct_ms, int64_t first_ms, int64_t second_ms)
{
	bed_begin(t, 3, 1);
	bed_link(t, 0, 2, direct_ms * W_MS / 2);
	bed_link(t, 0, 1, first_ms * W_MS / 2);
	bed_link(t, 1, 2, second_ms * W_MS / 2);
	start_all(t);
}

static void two_speakers_meet(void **state)
{
	struct babel_neighbour_info n;
	struct babel_route_info r;
	struct babel_prefix p = bed_prefix(1);
	struct bed t;

	(void)state;
	bed_begin(&t, 2, 1);
	bed_link(&t, 0, 1, 25 * W_MS);
	start_all(&t);
	assert_in_range(bed_until(&t, all_reach, 10 * W_SEC), 0, 2 * W_SEC);
	bed_run(&t, 60 * W_SEC);
	assert_true(bed_neighbour(&t, 0, 0, 1, &n));
	assert_int_equal(n.txcost, 8);
	assert_int_equal(n.rxcost, 8);
	assert_true(n.has_rtt);
	assert_in_range(n.rtt_us, 49000, 51000);
	assert_int_equal(n.cost, 8 + 200);
	assert_int_equal(n.reach, 0xffff);
	assert_true(bed_route(&t, 0, &p, &r));
	assert_int_equal(r.metric, 208);
	assert_int_equal(r.advertised, 0);
	assert_memory_equal(r.router_id, t.node[1].router_id, 8);
	bed_end(&t);
}

static void line_of_three(void **state)
{
	struct babel_prefix p = bed_prefix(2);
	struct babel_route_info r;
	struct bed t;

	(void)state;
	bed_begin(&t, 3, 1);
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 1, 2, 5 * W_MS);
	start_all(&t);
	assert_in_range(bed_until(&t, all_reach, 10 * W_SEC), 0, 2 * W_SEC);
	bed_run(&t, 60 * W_SEC);
	assert_true(bed_route(&t, 0, &p, &r));
	assert_int_equal(r.metric, 2 * (8 + 40));
	/* a tidy end is known two hops away at once */
	babel_stop(t.node[2].b, t.now);
	bed_touch(&t, 2);
	bed_run(&t, W_SEC);
	assert_int_equal(bed_next(&t, 0, &p), SIZE_MAX);
	bed_end(&t);
}

static void the_faster_path_is_taken(void **state)
{
	static const struct {
		int64_t direct, first, second;
		size_t next;
	} cases[] = {{60, 25, 25, 1}, {60, 29, 30, 2}, {10, 3, 3, 1}, {10, 30, 30, 2}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct babel_prefix p = bed_prefix(2);
		struct bed t;

		triangle(&t, cases[i].direct, cases[i].first, cases[i].second);
		bed_run(&t, 300 * W_SEC);
		assert_int_equal(bed_next(&t, 0, &p), cases[i].next);
		bed_end(&t);
	}
}

static bool by_relay(struct bed *t)
{
	struct babel_prefix p = bed_prefix(2), q = bed_prefix(0);

	return bed_next(t, 0, &p) == 1 && bed_next(t, 2, &q) == 1;
}

static bool directly(struct bed *t)
{
	struct babel_prefix p = bed_prefix(2), q = bed_prefix(0);

	return bed_next(t, 0, &p) == 2 && bed_next(t, 2, &q) == 0;
}

static void a_slow_link_is_left_and_taken_again(void **state)
{
	struct bed t;

	(void)state;
	triangle(&t, 10, 30, 30);
	bed_run(&t, 120 * W_SEC);
	assert_true(directly(&t));
	t.link[0].delay_us = 75 * W_MS;
	assert_in_range(bed_until(&t, by_relay, 10 * hello), 0, 5 * hello);
	bed_run(&t, 120 * W_SEC);
	t.link[0].delay_us = 5 * W_MS;
	assert_in_range(bed_until(&t, directly, 10 * hello), 0, 5 * hello);
	/* a small change takes its time, but no more than 30 hellos */
	t.link[0].delay_us = 32 * W_MS + W_MS;
	assert_in_range(bed_until(&t, by_relay, 40 * hello), 0, 30 * hello);
	bed_end(&t);
}

static uint64_t changes(struct bed *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->nodes; i++) {
		struct babel_stats s;

		babel_stats(t->node[i].b, &s);
		sum += s.route_changes;
	}
	return sum;
}

/* 40 +- 20 ms on both paths. */
static void noise_moves_nothing(void **state)
{
	struct bed t;

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct babel_stats s;

		bed_begin(&t, 4, seed);
		bed_link(&t, 0, 1, 5 * W_MS);
		bed_link(&t, 1, 3, 5 * W_MS);
		bed_link(&t, 0, 2, 5 * W_MS);
		bed_link(&t, 2, 3, 5 * W_MS);
		for (size_t i = 0; i < 4; i++)
			t.link[i].jitter_us = 10 * W_MS;
		start_all(&t);
		bed_run(&t, 1800 * W_SEC);
		babel_stats(t.node[0].b, &s);
		/* of node 0 to node 3; to its neighbours there is no second path as good */
		assert_in_range(s.route_changes, 0, 2);
		bed_end(&t);
	}
}

/* The direct path is slow while it is used: its queue is full of our own traffic. */
static void own_load(struct bed *t, size_t node)
{
	struct babel_prefix p = bed_prefix(2);

	if (node == 0)
		t->link[0].delay_us = bed_next(t, 0, &p) == 2 ? 100 * W_MS : 5 * W_MS;
}

static void a_full_queue_does_not_swing_for_ever(void **state)
{
	struct babel_stats early, late;
	struct bed t;

	(void)state;
	triangle(&t, 10, 30, 30);
	t.after = own_load;
	bed_run(&t, 1800 * W_SEC);
	babel_stats(t.node[0].b, &early);
	bed_run(&t, 1800 * W_SEC);
	babel_stats(t.node[0].b, &late);
	assert_in_range(early.route_changes, 2, 16);
	/* ever more seldom, not with a period */
	assert_in_range(late.route_changes - early.route_changes, 0, 4);
	bed_end(&t);
}

static bool by_relay_one_way(struct bed *t)
{
	struct babel_prefix p = bed_prefix(2);

	return bed_next(t, 0, &p) == 1;
}

static void a_lost_link_moves_traffic_at_once(void **state)
{
	struct babel_prefix p = bed_prefix(2);
	struct bed t;

	(void)state;
	triangle(&t, 10, 30, 30);
	bed_run(&t, 60 * W_SEC);
	t.link[0].down = true;
	babel_iface_alive(t.node[0].b, 1, false, t.now);
	bed_touch(&t, 0);
	/* the relay's route was not feasible: it takes a new seqno to use it */
	assert_int_equal(bed_next(&t, 0, &p), SIZE_MAX);
	assert_in_range(bed_until(&t, by_relay_one_way, 10 * hello), 0, 500 * W_MS);
	t.link[0].down = false;
	babel_iface_alive(t.node[0].b, 1, true, t.now);
	bed_touch(&t, 0);
	assert_in_range(bed_until(&t, directly, 10 * hello), 0, 5 * hello);
	assert_in_range(changes(&t), 1, 6);
	bed_end(&t);
}

/* Bursts of loss, no link lost, no storm of hellos. */
static void bursts_of_loss_lose_no_tunnel(void **state)
{
	struct babel_stats before, after;
	struct babel_neighbour_info n;
	struct bed t;

	(void)state;
	bed_begin(&t, 2, 3);
	bed_link(&t, 0, 1, 5 * W_MS);
	start_all(&t);
	bed_run(&t, 60 * W_SEC);
	babel_stats(t.node[0].b, &before);
	for (int i = 0; i < 24; i++) {
		t.link[0].loss = 0.05;
		bed_run(&t, 40 * W_SEC);
		t.link[0].loss = 1;
		bed_run(&t, (3 + i % 5) * hello);
		assert_true(bed_neighbour(&t, 0, 0, 1, &n));
		assert_int_not_equal(n.cost, BABEL_INFINITY);
		assert_true(n.loss > 0.1);
		assert_true(n.cost > 8 + 40);
	}
	babel_stats(t.node[0].b, &after);
	/* hellos at most once an interval and the periodic updates at a quarter of that */
	assert_in_range(after.packets_out - before.packets_out, 200, 700);
	t.link[0].loss = 0;
	bed_run(&t, 20 * hello);
	assert_true(bed_neighbour(&t, 0, 0, 1, &n));
	assert_int_equal(n.cost, 8 + 40);
	bed_end(&t);
}

static void measured_loss_is_in_the_cost(void **state)
{
	struct babel_neighbour_info n;
	struct bed t;

	(void)state;
	bed_begin(&t, 2, 3);
	bed_link(&t, 0, 1, 5 * W_MS);
	start_all(&t);
	bed_run(&t, 60 * W_SEC);
	babel_iface_loss(t.node[0].b, 1, 0.019, t.now); /* not above 2 % */
	assert_true(bed_neighbour(&t, 0, 0, 1, &n));
	assert_int_equal(n.cost, 48);
	babel_iface_loss(t.node[0].b, 1, 0.1, t.now);
	assert_true(bed_neighbour(&t, 0, 0, 1, &n));
	assert_int_equal(n.cost, (int)(48 / 0.9 + 8 * 8));
	bed_run(&t, 10 * W_SEC);
	/* the other end is told, and pays the same */
	assert_true(bed_neighbour(&t, 1, 0, 0, &n));
	assert_in_range(n.cost, 48 / 0.9 + 8 * 8 - 1, 48 / 0.9 + 8 * 8);
	babel_iface_loss(t.node[1].b, 1, 0.2, t.now);
	bed_run(&t, 10 * W_SEC);
	for (unsigned int i = 0; i < 2; i++) { /* both ways together: 28 % */
		assert_true(bed_neighbour(&t, i, 0, 1 - i, &n));
		assert_in_range(n.cost, 48 / 0.72 + 8 * 26 - 2, 48 / 0.72 + 8 * 26 + 1);
	}
	babel_iface_loss(t.node[0].b, 1, 1, t.now);
	assert_true(bed_neighbour(&t, 0, 0, 1, &n));
	assert_int_equal(n.cost, BABEL_INFINITY);
	bed_end(&t);
}

/* An interface is made again under the same name. */
static void an_interface_comes_back(void **state)
{
	struct bed t;

	(void)state;
	bed_begin(&t, 3, 5);
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 1, 2, 5 * W_MS);
	start_all(&t);
	bed_run(&t, 30 * W_SEC);
	for (int i = 0; i < 100; i++) {
		babel_iface_remove(t.node[0].b, 1, t.now);
		bed_touch(&t, 0);
		assert_false(all_reach(&t));
		bed_run(&t, 300 * W_MS);
		bed_attach(&t, 0, 0);
		assert_in_range(bed_until(&t, all_reach, 10 * hello), 0, 2 * hello);
	}
	bed_end(&t);
}

static void a_changed_link_local_comes_back(void **state)
{
	struct babel_iface_config c;
	struct babel_prefix p = bed_prefix(0);
	struct bed t;

	(void)state;
	bed_begin(&t, 2, 5);
	bed_link(&t, 0, 1, 5 * W_MS);
	start_all(&t);
	bed_run(&t, 30 * W_SEC);
	bed_iface(&t, 0, 0, &c);
	c.link_local.b[15] ^= 0x80;
	assert_int_equal(babel_iface_update(t.node[0].b, &c, t.now), 0);
	bed_touch(&t, 0);
	bed_run(&t, hello);
	/* the new one is used within two hellos, though the old one is not forgotten yet */
	assert_int_not_equal(bed_next(&t, 1, &p), SIZE_MAX);
	c.iface = 77;
	assert_int_equal(babel_iface_update(t.node[0].b, &c, t.now), -ENOENT);
	c.iface = 1;
	assert_int_equal(babel_iface_add(t.node[0].b, &c, t.now), -EEXIST);
	c.cost = 0;
	assert_int_equal(babel_iface_update(t.node[0].b, &c, t.now), -EINVAL);
	bed_end(&t);
}

static void costs_are_never_nothing(void **state)
{
	enum { NODES = 8 };
	size_t all[NODES];
	struct bed t;

	(void)state;
	bed_begin(&t, NODES, 5);
	for (size_t i = 0; i < NODES; i++)
		all[i] = i;
	bed_lan(&t, all, NODES, 50);
	start_all(&t);
	bed_run(&t, 60 * W_SEC);
	for (size_t i = 0; i < NODES; i++) {
		for (size_t k = 0; k < NODES; k++) {
			struct babel_prefix p = bed_prefix(k);

			assert_int_equal(bed_next(&t, i, &p), k);
		}
	}
	bed_end(&t);
}

/* A diamond; the next hop dies without a word. */
static void nothing_follows_the_default(void **state)
{
	struct babel_prefix p = bed_prefix(3), any = bed_parse("::/0", NULL);
	struct babel_route_info r;
	struct bed t;
	size_t it = 0;
	bool held = false;

	(void)state;
	bed_begin(&t, 4, 5);
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 0, 2, 5 * W_MS);
	bed_link(&t, 1, 3, 5 * W_MS);
	bed_link(&t, 2, 3, 6 * W_MS);
	start_all(&t);
	assert_int_equal(babel_originate(t.node[1].b, &any, 0, t.now), 0);
	bed_run(&t, 60 * W_SEC);
	assert_int_equal(bed_next(&t, 0, &p), 1);
	bed_stop(&t, 1);
	babel_iface_alive(t.node[0].b, 1, false, t.now);
	bed_touch(&t, 0);
	/* a feasible alternative is used at once */
	assert_int_equal(bed_next(&t, 0, &p), 2);
	bed_stop(&t, 3);
	babel_iface_alive(t.node[2].b, 4, false, t.now);
	bed_touch(&t, 2);
	bed_run(&t, W_SEC);
	/* none left: held, not forgotten */
	assert_int_equal(bed_next(&t, 0, &p), SIZE_MAX);
	while (babel_routes(t.node[0].b, &it, &r))
		held |= r.unreachable && prefix_equal(&r.prefix.destination, &p.destination);
	assert_true(held);
	bed_run(&t, 600 * W_SEC);
	for (it = 0; babel_routes(t.node[0].b, &it, &r);)
		assert_false(prefix_equal(&r.prefix.destination, &p.destination));
	bed_end(&t);
}

/* The used path slows down; the other one is not feasible without a new seqno. */
static bool by_c(struct bed *t)
{
	struct babel_prefix p = bed_prefix(3);

	return bed_next(t, 0, &p) == 2;
}

static void a_better_route_is_made_feasible(void **state)
{
	struct babel_prefix p = bed_prefix(3);
	struct bed t;

	(void)state;
	/* 0: D, 1: B, 2: C, 3: S */
	bed_begin(&t, 4, 5);
	bed_link(&t, 3, 1, 5 * W_MS);
	bed_link(&t, 3, 2, 55 * W_MS);
	bed_link(&t, 1, 0, 2 * W_MS);
	bed_link(&t, 2, 0, 2 * W_MS);
	start_all(&t);
	bed_run(&t, 120 * W_SEC);
	assert_int_equal(bed_next(&t, 0, &p), 1);
	t.link[0].delay_us = 100 * W_MS;
	assert_in_range(bed_until(&t, by_c, 100 * hello), 0, 7 * hello);
	assert_true(all_reach(&t));
	bed_end(&t);
}

static void a_router_restarts(void **state)
{
	struct babel_config c;
	struct babel_prefix p = bed_prefix(0);
	struct bed t;

	(void)state;
	bed_begin(&t, 3, 7);
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 1, 2, 5 * W_MS);
	bed_config(&t, 0, &c);
	c.first_seqno = 65529;
	bed_start(&t, 0, &c);
	bed_start(&t, 1, NULL);
	bed_start(&t, 2, NULL);
	for (size_t i = 0; i < 3; i++)
		bed_originate(&t, i);
	bed_run(&t, 100 * W_SEC);
	for (uint16_t seqno = 65530; seqno != 4; seqno++) { /* across the wrap */
		bed_stop(&t, 0);
		bed_run(&t, W_SEC);
		bed_config(&t, 0, &c);
		c.first_seqno = seqno;
		bed_start(&t, 0, &c);
		bed_originate(&t, 0);
		bed_run(&t, 2 * W_SEC);
		assert_int_equal(bed_next(&t, 2, &p), 1);
		assert_true(all_reach(&t));
	}
	bed_end(&t);
}

static bool none;

static bool no_export(void *ctx, const struct babel_offer *o)
{
	(void)ctx;
	(void)o;
	return !none;
}

static void filters_take_back_what_was_said(void **state)
{
	struct babel_prefix p = bed_prefix(0), q = bed_prefix(1);
	struct babel_config c;
	struct bed t;

	(void)state;
	none = false;
	bed_begin(&t, 3, 7);
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 1, 2, 5 * W_MS);
	bed_config(&t, 1, &c);
	c.export = no_export;
	bed_start(&t, 0, NULL);
	bed_start(&t, 1, &c);
	bed_start(&t, 2, NULL);
	for (size_t i = 0; i < 3; i++)
		bed_originate(&t, i);
	bed_run(&t, 30 * W_SEC);
	assert_true(all_reach(&t));
	none = true;
	babel_refilter(t.node[1].b, t.now);
	bed_touch(&t, 1);
	bed_run(&t, W_SEC);
	assert_int_equal(bed_next(&t, 2, &p), SIZE_MAX);
	assert_int_equal(bed_next(&t, 2, &q), SIZE_MAX);
	none = false;
	babel_refilter(t.node[1].b, t.now);
	bed_touch(&t, 1);
	bed_run(&t, 2 * W_SEC);
	assert_true(all_reach(&t));
	/* a leaf announces only what is its own */
	babel_transit(t.node[1].b, false, t.now);
	bed_touch(&t, 1);
	bed_run(&t, W_SEC);
	assert_int_equal(bed_next(&t, 2, &p), SIZE_MAX);
	assert_int_equal(bed_next(&t, 2, &q), 1);
	bed_end(&t);
}

/* The families, and sources. */
static void kinds_of_prefixes_travel(void **state)
{
	static const struct {
		const char *destination, *source;
	} rows[] = {{"::/0", NULL}, {"::/0", "2001:db8:1::/48"}, {"10.1.0.0/16", NULL},
		{"0.0.0.0/0", "10.0.0.0/8"}, {"0.0.0.0/0", NULL}, {"192.0.2.1/32", NULL},
		{"2001:db8::1/128", "2001:db8:2::1/128"}, {"2001:db8:0:1230::/61", NULL}};
	struct babel_prefix none_source = bed_parse("2001:db8:f::/48", "::/0");
	struct babel_prefix plain = bed_parse("2001:db8:f::/48", NULL);
	struct babel_iface_config c;
	struct babel_route_info r;
	struct bed t;

	(void)state;
	bed_begin(&t, 3, 7);
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 1, 2, 5 * W_MS);
	start_all(&t);
	/* the second link has IPv4 addresses, the first has none */
	bed_iface(&t, 1, 1, &c);
	c.own4 = ipaddr_from(IP4, "\x0a\xff\x00\x01");
	assert_int_equal(babel_iface_update(t.node[1].b, &c, t.now), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct babel_prefix p = bed_parse(rows[i].destination, rows[i].source);

		assert_int_equal(babel_originate(t.node[0].b, &p, 0, t.now), 0);
	}
	assert_int_equal(babel_originate(t.node[0].b, &none_source, 0, t.now), 0);
	bed_run(&t, 30 * W_SEC);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct babel_prefix p = bed_parse(rows[i].destination, rows[i].source);
		bool ip4 = p.destination.addr.family == IP4;

		assert_true(bed_route(&t, 1, &p, &r));
		assert_int_equal(r.next_hop.family, IP6);
		assert_true(ipaddr_equal(&r.next_hop, &r.neighbour));
		assert_true(bed_route(&t, 2, &p, &r));
		assert_int_equal(r.next_hop.family, ip4 ? IP4 : IP6);
		if (ip4)
			assert_true(ipaddr_equal(&r.next_hop, &c.own4));
	}
	assert_true(bed_route(&t, 2, &plain, &r));
	babel_withdraw(t.node[0].b, &plain, t.now);
	bed_touch(&t, 0);
	bed_run(&t, W_SEC);
	assert_false(bed_route(&t, 2, &plain, &r));
	bed_end(&t);
}

/* Two sources of one prefix in a ring, and many requests. */
static void anycast_in_a_ring(void **state)
{
	struct babel_prefix p = bed_parse("2001:db8:a::/48", NULL);
	struct bed t;

	(void)state;
	bed_begin(&t, 5, 9);
	for (size_t i = 0; i < 5; i++)
		bed_link(&t, i, (i + 1) % 5, 5 * W_MS);
	start_all(&t);
	assert_int_equal(babel_originate(t.node[0].b, &p, 0, t.now), 0);
	assert_int_equal(babel_originate(t.node[2].b, &p, 0, t.now), 0);
	bed_run(&t, 60 * W_SEC);
	assert_true(all_reach(&t));
	assert_int_equal(bed_next(&t, 4, &p), 0);
	assert_int_equal(bed_next(&t, 3, &p), 2);
	bed_stop(&t, 0);
	babel_iface_alive(t.node[4].b, 5, false, t.now);
	bed_touch(&t, 4);
	bed_run(&t, 10 * W_SEC);
	assert_int_equal(bed_next(&t, 4, &p), 3);
	bed_end(&t);
}

static void events_say_what_is(void **state)
{
	struct babel_prefix p = bed_prefix(1);
	struct babel_event e;
	struct bed t;
	bool lost = false, gone = false, unreachable = false;

	(void)state;
	bed_begin(&t, 2, 9);
	bed_link(&t, 0, 1, 5 * W_MS);
	start_all(&t);
	bed_run(&t, 60 * W_SEC);
	bed_stop(&t, 1);
	for (int i = 0; i < 400; i++) {
		wtime at = wtime_add(t.now, W_SEC);
		struct babel_packet out;

		t.now = at;
		babel_tick(t.node[0].b, at);
		while (babel_output(t.node[0].b, at, &out))
			assert_in_range(out.data.n, 5, 1400);
		while (babel_event_next(t.node[0].b, &e)) {
			lost |= e.type == BABEL_EVENT_NEIGHBOUR && e.lost;
			gone |= e.type == BABEL_EVENT_GONE &&
				prefix_equal(&e.prefix.destination, &p.destination);
			unreachable |= e.type == BABEL_EVENT_UNREACHABLE;
		}
	}
	assert_true(lost);
	assert_true(gone);
	/* nobody was told that it is to be reached here: nothing to hold */
	assert_false(unreachable);
	bed_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_speakers_meet),
		cmocka_unit_test(line_of_three),
		cmocka_unit_test(the_faster_path_is_taken),
		cmocka_unit_test(a_slow_link_is_left_and_taken_again),
		cmocka_unit_test(noise_moves_nothing),
		cmocka_unit_test(a_full_queue_does_not_swing_for_ever),
		cmocka_unit_test(a_lost_link_moves_traffic_at_once),
		cmocka_unit_test(bursts_of_loss_lose_no_tunnel),
		cmocka_unit_test(measured_loss_is_in_the_cost),
		cmocka_unit_test(an_interface_comes_back),
		cmocka_unit_test(a_changed_link_local_comes_back),
		cmocka_unit_test(costs_are_never_nothing),
		cmocka_unit_test(nothing_follows_the_default),
		cmocka_unit_test(a_better_route_is_made_feasible),
		cmocka_unit_test(a_router_restarts),
		cmocka_unit_test(filters_take_back_what_was_said),
		cmocka_unit_test(kinds_of_prefixes_travel),
		cmocka_unit_test(anycast_in_a_ring),
		cmocka_unit_test(events_say_what_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
