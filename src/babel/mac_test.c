/* RFC 8967: what is accepted with which keys, and how a roll-out goes. */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

static const struct babel_key sha = {BABEL_MAC_HMAC_SHA256, "old key, thirty-two bytes long..", 32};
static const struct babel_key blake = {BABEL_MAC_BLAKE2S, "new key", 7};

static void keys(struct bed *t, size_t node, const struct babel_key *k, uint8_t n, bool lenient)
{
	struct babel_iface_config c;

	for (size_t link = 0; link < t->links; link++) {
		for (size_t e = 0; e < t->link[link].ends; e++) {
			if (t->link[link].node[e] != node)
				continue;
			bed_iface(t, link, node, &c);
			c.key_count = n;
			c.accept_unsigned = lenient;
			if (n)
				memcpy(c.key, k, n * sizeof(*k));
			assert_int_equal(babel_iface_update(t->node[node].b, &c, t->now), 0);
		}
	}
	bed_touch(t, node);
}

static uint64_t drops(struct bed *t, enum babel_drop d)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->nodes; i++) {
		struct babel_stats s;

		if (t->node[i].off)
			continue;
		babel_stats(t->node[i].b, &s);
		sum += s.drops[d];
	}
	return sum;
}

static bool all_reach(struct bed *t)
{
	for (size_t i = 0; i < t->nodes; i++) {
		for (size_t k = 0; k < t->nodes; k++) {
			struct babel_prefix p = bed_prefix(k);

			if (bed_next(t, i, &p) == SIZE_MAX)
				return false;
		}
	}
	return true;
}

static void line(struct bed *t, size_t n)
{
	bed_begin(t, n, 2);
	for (size_t i = 0; i + 1 < n; i++)
		bed_link(t, i, i + 1, 5 * W_MS);
	for (size_t i = 0; i < n; i++) {
		bed_start(t, i, NULL);
		bed_originate(t, i);
	}
}

static void the_right_key_alone_is_accepted(void **state)
{
	static const struct {
		const struct babel_key *a, *b;
		bool good;
	} cases[] = {{&sha, &sha, true}, {&blake, &blake, true}, {&sha, &blake, false},
		{&sha, NULL, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct babel_prefix p = bed_prefix(1);
		struct bed t;

		line(&t, 2);
		keys(&t, 0, cases[i].a, 1, false);
		keys(&t, 1, cases[i].b, cases[i].b ? 1 : 0, false);
		bed_run(&t, 120 * W_SEC);
		assert_int_equal(bed_next(&t, 0, &p) == 1, cases[i].good);
		if (!cases[i].good)
			assert_true(drops(&t, BABEL_DROP_NOT_AUTHENTIC) > 10);
		bed_end(&t);
	}
}

static struct {
	uint8_t bytes[8][1500];
	size_t n[8], count;
	uint64_t unicast;
} tape;

static bool record(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	(void)t;
	(void)link;
	if (from == 1 && ipaddr_is_multicast(&p->destination) && tape.count < 8) {
		memcpy(tape.bytes[tape.count], p->data.p, p->data.n);
		tape.n[tape.count++] = p->data.n;
	}
	tape.unicast += from == 0 && !ipaddr_is_multicast(&p->destination);
	return false;
}

static void play(struct bed *t)
{
	for (size_t i = 0; i < tape.count; i++) {
		struct babel_datagram d = {.iface = 1,
			.source = bed_address(0, 1),
			.data = view_of(tape.bytes[i], tape.n[i]),
			.at = t->now};

		babel_input(t->node[0].b, &d, t->now);
		bed_touch(t, 0);
	}
}

static void replays_are_dropped(void **state)
{
	struct bed t;
	uint64_t before;

	(void)state;
	memset(&tape, 0, sizeof(tape));
	line(&t, 2);
	keys(&t, 0, &sha, 1, false);
	keys(&t, 1, &sha, 1, false);
	bed_run(&t, 20 * W_SEC);
	t.lose = record;
	bed_run(&t, 60 * W_SEC);
	assert_int_equal(tape.count, 8);
	before = drops(&t, BABEL_DROP_REPLAY);
	play(&t);
	assert_int_equal(drops(&t, BABEL_DROP_REPLAY), before + 8);
	/* to one that has forgotten the counter, they are only a reason to ask, and not often */
	bed_stop(&t, 0);
	bed_stop(&t, 1);
	bed_run(&t, 10 * W_SEC);
	bed_start(&t, 0, NULL);
	keys(&t, 0, &sha, 1, false);
	tape.unicast = 0;
	for (int i = 0; i < 100; i++) {
		play(&t);
		bed_run(&t, 9 * W_MS);
	}
	assert_in_range(tape.unicast, 1, 4);
	bed_end(&t);
}

/* Unicast overtakes multicast by 200 ms. */
static bool late_multicast(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	(void)from;
	t->link[link].delay_us = ipaddr_is_multicast(&p->destination) ? 205 * W_MS : 5 * W_MS;
	return false;
}

static void overtaking_is_no_replay(void **state)
{
	struct bed t;
	uint64_t before;

	(void)state;
	line(&t, 3);
	for (size_t i = 0; i < 3; i++)
		keys(&t, i, &sha, 1, false);
	t.lose = late_multicast;
	bed_run(&t, 30 * W_SEC);
	assert_true(all_reach(&t));
	before = drops(&t, BABEL_DROP_REPLAY);

	for (int i = 0; i < 50; i++) {
		struct babel_prefix p = bed_prefix((size_t)i % 3);

		/* requests are unicast, what they are answered with is not */
		for (size_t k = 0; k < 3; k++) {
			struct babel *b = t.node[k].b;

			babel_request_route(b, b->neighbour[0], &p, t.now);
			bed_touch(&t, k);
		}
		bed_run(&t, 700 * W_MS);
	}
	assert_int_equal(drops(&t, BABEL_DROP_REPLAY), before);
	bed_end(&t);
}

/* Node by node from nothing to strict, and then to another key; never a route lost. */
static void roll_out_without_a_gap(void **state)
{
	enum { NODES = 4, STEPS = 5 };
	const struct babel_key both[2] = {sha, blake};
	const struct {
		const struct babel_key *k;
		uint8_t n;
		bool lenient;
	} steps[STEPS] = {{&sha, 1, true}, {&sha, 1, false}, {both, 2, false}, {&blake, 1, false},
		{&blake, 1, false}};
	struct bed t;

	(void)state;
	line(&t, NODES);
	bed_run(&t, 60 * W_SEC);
	for (size_t s = 0; s < STEPS; s++) {
		for (size_t i = 0; i < NODES; i++) {
			keys(&t, i, steps[s].k, steps[s].n, steps[s].lenient);
			for (int k = 0; k < 30; k++) {
				bed_run(&t, W_SEC);
				if (!all_reach(&t))
					fail_msg("step %zu, node %zu", s, i);
			}
		}
	}
	assert_int_equal(drops(&t, BABEL_DROP_NOT_AUTHENTIC), 0);
	bed_end(&t);
}

static void a_restarted_peer_proves_itself(void **state)
{
	struct bed t;

	(void)state;
	line(&t, 3);
	for (size_t i = 0; i < 3; i++)
		keys(&t, i, &sha, 1, false);
	bed_run(&t, 30 * W_SEC);
	for (uint16_t i = 0; i < 5; i++) {
		struct babel_config c;

		bed_stop(&t, 0);
		bed_run(&t, W_SEC);
		bed_config(&t, 0, &c);
		c.first_seqno = (uint16_t)(i + 1);
		bed_start(&t, 0, &c);
		keys(&t, 0, &sha, 1, false);
		bed_originate(&t, 0);
		bed_run(&t, 5 * W_SEC);
		assert_true(all_reach(&t));
	}
	bed_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_right_key_alone_is_accepted),
		cmocka_unit_test(replays_are_dropped),
		cmocka_unit_test(overtaking_is_no_replay),
		cmocka_unit_test(roll_out_without_a_gap),
		cmocka_unit_test(a_restarted_peer_proves_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
