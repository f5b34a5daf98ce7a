/* How soon a node that died is no way any more: also where its other neighbours had sent it nothing
 * and did not know, so that their ways through it looked as good as before. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/rng.h"
#include "sim.h"

#define HELLO (4 * W_SEC)
#define SPACE (10 * W_MS)

enum { A, B, C, D, OTHERS };

static void rtt(struct sim *s, unsigned int a, unsigned int b, double milliseconds)
{
	const struct sim_path p = {.delay_us = (int64_t)(milliseconds * 500)};

	sim_path_set(s, a, b, &p);
	sim_path_set(s, b, a, &p);
}

/* B relays between A and D, and is the way to D of C and of all who live near, too; they send D
 * nothing. The direct ways are long. */
static struct sim *around_a_relay(uint64_t seed, unsigned int near)
{
	const struct sim_options o = {.seed = seed,
		.nodes = D + near,
		.learn = true,
		.path = {.delay_us = 4 * W_MS, .jitter_us = W_MS}};
	struct sim *s = sim_new(&o);

	for (unsigned int i = 0; i < o.nodes; i++)
		if (i != D)
			rtt(s, i, D, i == B ? 10 : 60);
	rtt(s, A, B, 10);
	for (unsigned int i = C; i < o.nodes; i++)
		if (i != D)
			rtt(s, B, i, 5);
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	sim_run(s, 10 * HELLO);
	return s;
}

static bool all_by_b(struct sim *s)
{
	return sim_next_hop(s, A, D) == B && sim_next_hop(s, C, D) == B;
}

/* A number below bound that belongs to a seed. */
static int64_t some(uint64_t seed, int64_t bound)
{
	struct rng_seeded state;
	struct rng r = rng_seeded_init(&state, seed);
	uint64_t x = 0;

	(void)rng_below(&r, (uint64_t)bound, &x);
	return (int64_t)x;
}

struct outage {
	int64_t traffic;  /* from A to D */
	int64_t believed; /* that A has a route to B */
};

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* 100 packets a second from A to D; what is missing when B dies. */
static struct outage outage(struct sim *s)
{
	struct outage o = {0};
	wtime begin = sim_now(s), last = begin;

	sim_kill(s, B);
	while (wtime_diff(sim_now(s), begin) < 2 * HELLO) {
		uint64_t got = sim_delivered(s, D);

		sim_send(s, A, D, IP4);
		sim_run(s, SPACE);
		if (sim_delivered(s, D) > got)
			last = sim_now(s);
		o.traffic = larger(o.traffic, wtime_diff(sim_now(s), last));
		if (wtime_diff(sim_now(s), begin) - o.believed <= SPACE &&
			sim_next_hop(s, A, B) >= 0)
			o.believed = wtime_diff(sim_now(s), begin);
	}
	return o;
}

static void relays_die(uint64_t seed, unsigned int near, uint64_t rounds)
{
	struct sim *s = around_a_relay(seed, near);
	struct outage most = {0};

	for (uint64_t round = 0; round < rounds; round++) {
		struct outage o;

		assert_true(sim_run_until(s, 120 * W_SEC, all_by_b));
		for (int64_t t = 0; t < W_SEC; t += SPACE) {
			sim_send(s, A, D, IP4);
			sim_run(s, SPACE);
		}
		sim_run(s, some(seed + round, SPACE));
		o = outage(s);
		most.traffic = larger(most.traffic, o.traffic);
		most.believed = larger(most.believed, o.believed);
		sim_start(s, B);
		assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
		sim_run(s, 20 * W_SEC + some(seed + round, HELLO));
	}
	print_message("%u near, %u times: traffic back after %.2f s, the route gone after %.2f s\n",
		near, (unsigned int)rounds, (double)most.traffic / 1e6,
		(double)most.believed / 1e6);
	assert_in_range(most.traffic, W_SEC / 2, 2 * W_SEC);
	/* one that was not asked and has no other traffic with B looks when it hears of the rest */
	assert_in_range(most.believed, W_SEC / 2, 5 * W_SEC / 2);
	sim_free(s);
}

static void a_dead_relay_is_no_way_for_those_who_sent_it_nothing(void **state)
{
	(void)state;
	for (uint64_t seed = 1000; seed < 1400; seed += 100)
		relays_die(seed, 1, 6);
	relays_die(1600, 4, 6);
	relays_die(1700, 7, 3);
}

/* The same for exits, with no other traffic to the first one than what is steered. */
static void the_next_exit_is_taken(void **state)
{
	const struct sim_options o = {.seed = 1800,
		.nodes = 4,
		.learn = true,
		.srv6 = true,
		.path = {.delay_us = 5 * W_MS}};
	struct sim *s = sim_new(&o);

	(void)state;
	rtt(s, B, C, 2);
	rtt(s, B, D, 2);
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	assert_int_equal(sim_reload(s, A,
				 "policies:\n"
				 "  - {name: out, source: 10.66.0.0/32, "
				 "destination: 10.66.0.3/32, candidates: [{via: [n1], exit: n3}, "
				 "{via: [n2], exit: n3}], fallback: drop}\n"),
		0);
	for (uint64_t round = 0; round < 5; round++) {
		sim_run(s, 20 * W_SEC + some(1800 + round, HELLO));
		for (int64_t t = 0; t < W_SEC; t += SPACE) {
			sim_send(s, A, D, IP4);
			sim_run(s, SPACE);
		}
		assert_in_range(outage(s).traffic, W_SEC / 2, 2 * W_SEC);
		assert_non_null(strstr(sim_command(s, A, "policies", NULL), "\"candidate\":1,"));
		sim_start(s, B);
		assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	}
	sim_free(s);
}

static uint64_t all_sent(struct sim *s, unsigned int nodes)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < nodes; i++)
		sum += sim_udp_sent(s, i);
	return sum;
}

/* Everybody sends to B. */
static void everybody_sends(struct sim *s, unsigned int nodes, int64_t us)
{
	for (int64_t t = 0; t < us; t += W_SEC / 5) {
		for (unsigned int i = 0; i < nodes; i++)
			if (i != B && sim_node(s, i))
				sim_send(s, i, B, IP4);
		sim_run(s, W_SEC / 5);
	}
}

/* All suspect it at one time: retractions, three of each, and a few questions with what they cause,
 * not one to each other neighbour. */
static void a_death_makes_no_storm(void **state)
{
	const struct sim_options o = {.seed = 1900,
		.nodes = 50,
		.learn = true,
		.path = {.delay_us = 5 * W_MS, .jitter_us = 4 * W_MS}};
	struct sim *s = sim_new(&o);
	uint64_t before, usual, dying;
	unsigned int believers = 0;

	(void)state;
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	sim_run(s, 10 * HELLO);
	before = all_sent(s, o.nodes);
	everybody_sends(s, o.nodes, 3 * W_SEC);
	usual = all_sent(s, o.nodes) - before;
	sim_kill(s, B);
	before = all_sent(s, o.nodes);
	everybody_sends(s, o.nodes, 3 * W_SEC);
	dying = all_sent(s, o.nodes) - before;
	for (unsigned int i = 0; i < o.nodes; i++)
		believers += i != B && sim_next_hop(s, i, B) >= 0;
	print_message("50 nodes: %u datagrams in 3 s, %u when one dies; %u believe in it\n",
		(unsigned int)usual, (unsigned int)dying, believers);
	assert_int_equal(believers, 0);
	assert_in_range(dying, 0, usual + 49 * 48 * 3 + UINT64_C(49) * 8 * 8);
	sim_free(s);
}

static bool a_has_links(struct sim *s)
{
	return sim_links_up(s, A, false) > 0;
}

/* Before anything told that the peer answers echoes in this life of the link. */
static void a_link_that_ends_as_it_begins(void **state)
{
	const struct sim_options o = {.seed = 2000,
		.nodes = 2,
		.learn = true,
		.path = {.delay_us = 5 * W_MS}};
	const struct sim_path cut = {.cut = true};
	struct sim *s = sim_new(&o);

	(void)state;
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_mesh_up));
	sim_run(s, W_SEC);
	sim_stop(s, B);
	sim_run(s, W_SEC);
	assert_int_equal(sim_links_up(s, A, false), 0);
	sim_start(s, B);
	assert_true(sim_run_until(s, 30 * W_SEC, a_has_links));
	sim_path_set(s, A, B, &cut);
	sim_path_set(s, B, A, &cut);
	sim_run(s, 2 * W_SEC);
	assert_int_equal(sim_next_hop(s, A, B), -1);
	sim_free(s);
}

/* Drops the ESP of a link's first moments, as an end does that has no keys yet. */
struct first_moments {
	struct sim *s;
	wtime begin; /* 0: nothing was sent yet */
};

static bool after_the_first_moments(void *ctx, unsigned int from, unsigned int to, bool ike,
	struct view data)
{
	struct first_moments *f = ctx;

	(void)from;
	(void)to;
	(void)data;
	if (ike)
		return true;
	if (!f->begin.us)
		f->begin = sim_now(f->s);
	return wtime_diff(sim_now(f->s), f->begin) > 100 * W_MS;
}

/* The first link there ever was between the two, whose first greetings are lost, is cut half a
 * second later. */
static void a_young_link_that_is_cut(void **state)
{
	const struct sim_options o = {.seed = 2100, .nodes = 2, .path = {.delay_us = 5 * W_MS}};
	const struct sim_path cut = {.cut = true};
	struct sim *s = sim_new(&o);
	struct first_moments f = {.s = s};

	(void)state;
	sim_filter_set(s, after_the_first_moments, &f);
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_mesh_up));
	sim_run(s, W_SEC / 2);
	for (unsigned int i = 0; i < o.nodes; i++) {
		sim_path_set(s, i, 1 - i, &cut);
		assert_int_equal(sim_links_up(s, i, false), 1);
	}
	for (int64_t t = 0; t < 2 * W_SEC; t += SPACE) {
		sim_send(s, A, B, IP4);
		sim_send(s, B, A, IP4);
		sim_run(s, SPACE);
	}
	for (unsigned int i = 0; i < o.nodes; i++)
		assert_int_equal(sim_links_up(s, i, false), 0);
	sim_free(s);
}

/* Who has nothing to send says hello and no more; that a link ended is seen all the same. */
static void idle_links_are_quiet(void **state)
{
	const struct sim_options o = {.seed = 2100,
		.nodes = 3,
		.learn = true,
		.path = {.delay_us = 5 * W_MS}};
	const struct sim_path cut = {.cut = true};
	const int64_t minutes = 10;
	struct sim *s = sim_new(&o);
	uint64_t before, sent;
	wtime begin;

	(void)state;
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	sim_run(s, 10 * HELLO);
	before = all_sent(s, o.nodes);
	sim_run(s, minutes * 60 * W_SEC);
	sent = all_sent(s, o.nodes) - before;
	/* of each of the six ends: hellos, which come a little early, updates each fourth time, and
	 * a check by IKE each minute */
	print_message("%u datagrams in %u minutes\n", (unsigned int)sent, (unsigned int)minutes);
	assert_in_range(sent, 6 * 15 * minutes, 6 * 25 * minutes);
	sim_path_set(s, A, B, &cut);
	sim_path_set(s, B, A, &cut);
	begin = sim_now(s);
	while (sim_next_hop(s, A, B) == B && wtime_diff(sim_now(s), begin) < 3 * HELLO)
		sim_run(s, SPACE);
	assert_in_range(wtime_diff(sim_now(s), begin), W_SEC / 2, HELLO + 2 * W_SEC);
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dead_relay_is_no_way_for_those_who_sent_it_nothing),
		cmocka_unit_test(the_next_exit_is_taken),
		cmocka_unit_test(a_death_makes_no_storm),
		cmocka_unit_test(a_link_that_ends_as_it_begins),
		cmocka_unit_test(a_young_link_that_is_cut),
		cmocka_unit_test(idle_links_are_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
