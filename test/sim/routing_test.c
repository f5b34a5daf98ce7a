/* Whole nodes that find their ways by Babel: relays when they are faster, the direct link when it
 * is not, and neither flapping nor loss on the way between them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ctl/value.h"
#include "sim.h"

#define HELLO (4 * W_SEC)

/* Sets the round trip between two nodes, half of it each way. */
static void rtt(struct sim *s, unsigned int a, unsigned int b, double milliseconds)
{
	const struct sim_path p = {.delay_us = (int64_t)(milliseconds * 500)};

	sim_path_set(s, a, b, &p);
	sim_path_set(s, b, a, &p);
}

/* Nodes 0 and 2, relay 1: direct, 0-1 and 1-2 in milliseconds of round trip. */
static struct sim *triangle(uint64_t seed, double direct, double first, double second)
{
	const struct sim_options o = {.seed = seed, .nodes = 3, .learn = true};
	struct sim *s = sim_new(&o);

	rtt(s, 0, 2, direct);
	rtt(s, 0, 1, first);
	rtt(s, 1, 2, second);
	for (unsigned int i = 0; i < 3; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	return s;
}

static void three_nodes_learn_each_other(void **state)
{
	struct sim *s = triangle(51, 10, 10, 10);

	(void)state;
	sim_run(s, 10 * HELLO);
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int k = 0; k < 3; k++)
			if (i != k) {
				assert_int_equal(sim_next_hop(s, i, k), k);
				sim_send(s, i, k, IP4);
				sim_send(s, i, k, IP6);
			}
	sim_run(s, W_SEC);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(sim_delivered(s, i), 4);
	sim_free(s);
}

static void settles(uint64_t seed, double direct, double first, double second, int hop)
{
	struct sim *s = triangle(seed, direct, first, second);

	sim_run(s, 40 * HELLO);
	assert_int_equal(sim_next_hop(s, 0, 2), hop);
	assert_int_equal(sim_next_hop(s, 2, 0), hop == 1 ? 1 : 0);
	sim_send(s, 0, 2, IP4);
	sim_run(s, W_SEC);
	assert_int_equal(sim_delivered(s, 2), 1);
	sim_free(s);
}

static void a_relay_is_taken_only_when_it_is_faster(void **state)
{
	(void)state;
	settles(52, 60, 25, 25, 1);
	settles(53, 60, 29, 30, 2);
	settles(54, 10, 3, 3, 1);
}

static bool by_relay(struct sim *s)
{
	return sim_next_hop(s, 0, 2) == 1 && sim_next_hop(s, 2, 0) == 1;
}

static bool direct(struct sim *s)
{
	return sim_next_hop(s, 0, 2) == 2 && sim_next_hop(s, 2, 0) == 0;
}

static void a_step_of_the_round_trip_moves_traffic_and_back(void **state)
{
	struct sim *s = triangle(55, 10, 30, 30);
	uint64_t sent;

	(void)state;
	sim_run(s, 10 * HELLO);
	assert_true(direct(s));
	rtt(s, 0, 2, 150);
	assert_true(sim_run_until(s, 5 * HELLO, by_relay));
	sim_run(s, 10 * HELLO);
	rtt(s, 0, 2, 10);
	assert_true(sim_run_until(s, 5 * HELLO, direct));
	/* both paths live: nothing is lost on the way from one to the other */
	sent = sim_sent(s, 0);
	rtt(s, 0, 2, 150);
	for (int i = 0; i < 4000; i++) {
		sim_send(s, 0, 2, IP4);
		sim_run(s, 10 * W_MS);
	}
	assert_true(by_relay(s));
	sim_run(s, W_SEC);
	assert_int_equal(sim_delivered(s, 2), sim_sent(s, 0));
	assert_int_equal(sim_sent(s, 0) - sent, 4000);
	sim_free(s);
}

static double figure(const struct value *root, const char *key)
{
	return value_number(value_get(root, key), -1);
}

/* The decision, what else there was, and no figure that nobody measured. */
static void a_trace_says_which_way_and_why_not_the_other(void **state)
{
	struct sim *s = triangle(58, 60, 25, 25);
	const struct value *root, *other, *hop;
	struct value_doc *d;
	const char *text;

	(void)state;
	sim_run(s, 40 * HELLO);
	text = sim_command(s, 0, "trace", "10.66.0.0 10.66.0.2");
	assert_int_equal(value_parse(view_of(text, strlen(text)), &d), 0);
	root = value_root(d);
	assert_string_equal(value_string(value_get(root, "verdict")), "link");
	assert_non_null(strstr(value_string(value_get(root, "reason")), "relay n1"));
	assert_in_range((int64_t)figure(root, "estimated_rtt_ms"), 49, 51);
	assert_int_equal(value_count(value_get(root, "hops")), 3);
	hop = value_at(value_get(root, "hops"), 2);
	assert_in_range((int64_t)figure(hop, "rtt_ms"), 50, 51);
	assert_int_equal(value_count(value_get(root, "alternatives")), 1);
	other = value_at(value_get(root, "alternatives"), 0);
	assert_string_equal(value_string(
				    value_get(value_get(value_get(other, "via"), "peer"), "name")),
		"n2");
	assert_non_null(strstr(value_string(value_get(other, "why_not")), "not lower"));
	value_free(d);
	assert_non_null(strstr(sim_command(s, 0, "trace", "10.66.0.0 10.66.0.0"), "\"local\""));
	text = sim_command(s, 0, "trace", "10.66.0.0 192.0.2.1");
	assert_non_null(strstr(text, "\"verdict\":\"no-route\""));
	assert_non_null(strstr(text, "\"estimated_rtt_ms\":null"));
	assert_non_null(strstr(sim_command(s, 0, "trace", "10.66.0.0"), "\"error\""));
	assert_non_null(strstr(sim_command(s, 0, "trace", "10.66.0.0 ::1"), "\"error\""));
	sim_free(s);
}

/* The first link of a node. */
static const struct value *first_link(struct sim *s, unsigned int i, struct value_doc **ret)
{
	const char *text = sim_command(s, i, "links", NULL);

	assert_int_equal(value_parse(view_of(text, strlen(text)), ret), 0);
	return value_at(value_get(value_root(*ret), "links"), 0);
}

static void traffic(struct sim *s, unsigned int from, unsigned int to, int packets)
{
	for (int i = 0; i < packets; i++) {
		sim_send(s, from, to, IP4);
		sim_run(s, 25 * W_MS);
	}
}

/* 10 % of the packets one way: known at the end that should hear them, and in its cost. */
static void loss_of_traffic_is_counted(void **state)
{
	const struct sim_options o = {.seed = 59, .nodes = 2, .learn = true};
	const struct sim_path lossy = {.delay_us = W_MS, .loss = 0.1};
	const struct sim_path clean = {.delay_us = W_MS};
	struct sim *s = sim_new(&o);
	const struct value *l;
	struct value_doc *d;
	double before;

	(void)state;
	sim_path_set(s, 0, 1, &clean);
	sim_path_set(s, 1, 0, &clean);
	for (unsigned int i = 0; i < 2; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	traffic(s, 1, 0, 2800);
	l = first_link(s, 0, &d);
	assert_in_range((int64_t)(figure(l, "loss") * 1000), 0, 2);
	before = figure(l, "cost");
	value_free(d);
	sim_path_set(s, 1, 0, &lossy);
	traffic(s, 1, 0, 4200);
	l = first_link(s, 0, &d);
	assert_in_range((int64_t)(figure(l, "loss") * 1000), 70, 130);
	assert_true(figure(l, "cost") > before + 40);
	value_free(d);
	sim_path_set(s, 1, 0, &clean);
	traffic(s, 1, 0, 4200);
	l = first_link(s, 0, &d);
	assert_in_range((int64_t)(figure(l, "loss") * 1000), 0, 2);
	assert_true(figure(l, "cost") <= before + 4);
	value_free(d);
	sim_free(s);
}

static void noise_moves_nothing(void **state)
{
	const struct sim_path noisy = {.delay_us = 10 * W_MS, .jitter_us = 20 * W_MS};
	const struct sim_path half = {.delay_us = 5 * W_MS, .jitter_us = 10 * W_MS};
	struct sim *s = triangle(56, 40, 20, 20);
	int last, changes = 0;

	(void)state;
	/* 40 +- 20 ms on both ways */
	sim_path_set(s, 0, 2, &noisy);
	sim_path_set(s, 2, 0, &noisy);
	for (unsigned int i = 0; i < 2; i++) {
		sim_path_set(s, i, i + 1, &half);
		sim_path_set(s, i + 1, i, &half);
	}
	sim_run(s, 60 * W_SEC);
	last = sim_next_hop(s, 0, 2);
	for (int i = 0; i < 1800; i++) {
		int hop;

		sim_run(s, W_SEC);
		hop = sim_next_hop(s, 0, 2);
		changes += hop != last;
		last = hop;
	}
	assert_in_range(changes, 0, 2);
	sim_free(s);
}

/* 100 packets a second; how many are lost from an event to the end. */
static uint64_t lost_in(struct sim *s, int64_t us)
{
	uint64_t sent = sim_sent(s, 0), got = sim_delivered(s, 2);

	for (int64_t t = 0; t < us; t += 10 * W_MS) {
		sim_send(s, 0, 2, IP4);
		sim_run(s, 10 * W_MS);
	}
	sim_run(s, W_SEC);
	return (sim_sent(s, 0) - sent) - (sim_delivered(s, 2) - got);
}

static void a_dead_relay_is_left_within_two_seconds(void **state)
{
	struct sim *s = triangle(57, 60, 10, 10);

	(void)state;
	assert_true(sim_run_until(s, 40 * HELLO, by_relay));
	assert_int_equal(lost_in(s, 5 * W_SEC), 0);
	sim_kill(s, 1);
	assert_in_range(lost_in(s, 10 * W_SEC), 1, 200);
	assert_int_equal(lost_in(s, 5 * W_SEC), 0);
	sim_free(s);
}

static void a_silent_black_hole_is_left_within_three_seconds(void **state)
{
	struct sim *s = triangle(58, 10, 30, 30);
	const struct sim_path hole = {.delay_us = 5 * W_MS, .cut = true};

	(void)state;
	sim_run(s, 10 * HELLO);
	assert_true(direct(s));
	sim_path_set(s, 0, 2, &hole);
	sim_path_set(s, 2, 0, &hole);
	assert_in_range(lost_in(s, 10 * W_SEC), 1, 300);
	assert_int_equal(lost_in(s, 5 * W_SEC), 0);
	/* and the link is used again when it is there again */
	rtt(s, 0, 2, 10);
	assert_true(sim_run_until(s, 120 * W_SEC, direct));
	sim_free(s);
}

/* The same router-id comes back after a second, with all it announced, two hops away as well. */
static void a_restarted_node_is_believed_at_once(void **state)
{
	struct sim *s = triangle(60, 10, 10, 10);
	const struct sim_path cut = {.cut = true};

	(void)state;
	sim_path_set(s, 0, 2, &cut);
	sim_path_set(s, 2, 0, &cut);
	assert_true(sim_run_until(s, 60 * W_SEC, by_relay));
	for (int round = 0; round < 5; round++) {
		sim_kill(s, 2);
		sim_run(s, (round + 1) * W_SEC);
		sim_start(s, 2);
		assert_true(sim_run_until(s, 5 * W_SEC, by_relay));
		sim_run(s, 20 * W_SEC);
	}
	sim_free(s);
}

static void fifty_nodes_learn_every_way(void **state)
{
	const struct sim_options o = {.seed = 59,
		.nodes = 50,
		.learn = true,
		.path = {.delay_us = 10 * W_MS, .jitter_us = 2 * W_MS}};
	struct sim *s = sim_new(&o);

	(void)state;
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	for (unsigned int i = 1; i < o.nodes; i++)
		sim_send(s, 0, i, i % 2 ? IP4 : IP6);
	sim_run(s, W_SEC);
	for (unsigned int i = 1; i < o.nodes; i++)
		assert_int_equal(sim_delivered(s, i), 1);
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_nodes_learn_each_other),
		cmocka_unit_test(a_relay_is_taken_only_when_it_is_faster),
		cmocka_unit_test(a_step_of_the_round_trip_moves_traffic_and_back),
		cmocka_unit_test(a_trace_says_which_way_and_why_not_the_other),
		cmocka_unit_test(loss_of_traffic_is_counted),
		cmocka_unit_test(noise_moves_nothing),
		cmocka_unit_test(a_dead_relay_is_left_within_two_seconds),
		cmocka_unit_test(a_silent_black_hole_is_left_within_three_seconds),
		cmocka_unit_test(a_restarted_node_is_believed_at_once),
		cmocka_unit_test(fifty_nodes_learn_every_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
