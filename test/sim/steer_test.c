/* Whole nodes that steer: through waypoints in any order and again, past those that are gone, and
 * what becomes of packets when no candidate is left. Every packet is accounted for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "sim.h"

enum { A, B, C, D, PACKETS = 50 };

#define POLICY(fallback, candidates)                                                               \
	"policies:\n"                                                                              \
	"  - {name: four, source: 10.66.0.0/32, destination: 10.66.0.3/32, candidates: "           \
	"[" candidates "], fallback: " fallback "}\n"                                              \
	"  - {name: six, destination: \"fd00:66::4/128\", candidates: [" candidates                \
	"], fallback: " fallback "}\n"

#define LONG_WAY "{via: [n1, org2/n2, n1], exit: n3}"

static struct sim *four_nodes(uint64_t seed, bool learn, const char *policies)
{
	const struct sim_options o = {.seed = seed,
		.nodes = 4,
		.learn = learn,
		.srv6 = true,
		.path = {.delay_us = 5 * W_MS}};
	struct sim *s = sim_new(&o);

	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, learn ? sim_all_routed : sim_mesh_up));
	sim_run(s, 10 * W_SEC);
	assert_int_equal(sim_reload(s, A, policies), 0);
	return s;
}

static bool policies_say(struct sim *s, const char *text)
{
	const char *reply = sim_command(s, A, "policies", NULL);

	if (strstr(reply, text))
		return true;
	print_message("%s\n", reply);
	return false;
}

struct counts {
	uint64_t delivered, b, c;
};

static struct counts counts(struct sim *s)
{
	return (struct counts){sim_delivered(s, D), sim_transit(s, B), sim_transit(s, C)};
}

/* Sends packets of both families from A to D; what came of them. */
static struct counts sent(struct sim *s)
{
	struct counts before = counts(s), after;

	for (int i = 0; i < PACKETS; i++) {
		sim_send(s, A, D, IP4);
		sim_send(s, A, D, IP6);
		sim_run(s, W_MS);
	}
	sim_run(s, W_SEC);
	after = counts(s);
	return (struct counts){after.delivered - before.delivered, after.b - before.b,
		after.c - before.c};
}

static void went(struct counts got, uint64_t delivered, uint64_t b, uint64_t c)
{
	assert_int_equal(got.delivered, delivered);
	assert_int_equal(got.b, b);
	assert_int_equal(got.c, c);
}

static void through_a_waypoint_twice(void **state)
{
	(void)state;
	for (int learn = 0; learn < 2; learn++) {
		struct sim *s = four_nodes(71, learn, POLICY("drop", LONG_WAY));

		went(sent(s), 2 * PACKETS, 4 * PACKETS, 2 * PACKETS);
		assert_true(policies_say(s,
			"\"state\":\"active\",\"fallback\":\"drop\",\"packets\":50"));
		assert_true(policies_say(s,
			"\"segments\":[\"fd00:5:2::2\",\"fd00:5:3::2\",\"fd00:5:2::2\","
			"\"fd00:5:4::1\"]"));
		/* without the policy they go as they did */
		assert_int_equal(sim_reload(s, A, NULL), 0);
		went(sent(s), 2 * PACKETS, 0, 0);
		assert_true(sim_mesh_exact(s));
		sim_free(s);
	}
}

static bool trace_says(struct sim *s, const char *text)
{
	const char *reply = sim_command(s, A, "trace", "10.66.0.0 10.66.0.3");

	if (strstr(reply, text))
		return true;
	print_message("%s\n", reply);
	return false;
}

static void trace_shows_policy_and_segments(void **state)
{
	struct sim *s = four_nodes(77, true, POLICY("drop", "{via: [n1], exit: n3}"));

	(void)state;
	assert_true(trace_says(s,
		"\"policy\":\"four\",\"segments\":[\"fd00:5:2::2\",\"fd00:5:4::1\"]"));
	assert_true(trace_says(s, "\"verdict\":\"link\""));
	assert_true(trace_says(s, "to its first segment directly to n1"));
	assert_true(trace_says(s, "\"estimated_rtt_ms\":null"));
	assert_non_null(strstr(sim_command(s, A, "trace", "fd00:66::1 fd00:5:2::2"),
		"the destination is a SID"));
	sim_kill(s, B);
	sim_run(s, 3 * W_SEC);
	assert_true(trace_says(s, "\"verdict\":\"refused\""));
	assert_true(trace_says(s, "\"segments\":[]"));
	assert_int_equal(sim_reload(s, A, NULL), 0);
	assert_true(trace_says(s, "\"policy\":null"));
	sim_free(s);
}

static void the_next_candidate_is_taken_and_left_again(void **state)
{
	struct sim *s = four_nodes(72, true,
		POLICY("drop", "{via: [n1], exit: n3}, {via: [n2], exit: n3}"));

	(void)state;
	went(sent(s), 2 * PACKETS, 2 * PACKETS, 0);
	sim_kill(s, B);
	sim_run(s, 3 * W_SEC);
	assert_true(policies_say(s, "\"candidate\":1,"));
	went(sent(s), 2 * PACKETS, 0, 2 * PACKETS);
	sim_start(s, B);
	sim_run(s, 15 * W_SEC);
	assert_true(policies_say(s, "\"candidate\":0,"));
	went(sent(s), 2 * PACKETS, 2 * PACKETS, 0);
	sim_free(s);
}

/* The next exit takes them within three seconds: here one that may not, and says so by name. */
static void an_exit_that_dies_is_left(void **state)
{
	struct sim *s = four_nodes(78, true, POLICY("drop", "{exit: n3}, {exit: n2}"));

	(void)state;
	went(sent(s), 2 * PACKETS, 0, 0);
	sim_kill(s, D);
	sim_run(s, 3 * W_SEC);
	assert_true(policies_say(s, "\"candidate\":1,\"segments\":[\"fd00:5:3::1\"]"));
	(void)sent(s);
	assert_int_equal(sim_drops(s, C, "exit-refused"), 2 * PACKETS);
	assert_int_equal(sim_drops(s, A, "policy-fallback"), 0);
	sim_free(s);
}

static void without_a_candidate_packets_drop(void **state)
{
	struct sim *s = four_nodes(73, true, POLICY("drop", "{via: [n1], exit: n3}"));
	uint64_t udp;

	(void)state;
	went(sent(s), 2 * PACKETS, 2 * PACKETS, 0);
	sim_kill(s, B);
	sim_run(s, 3 * W_SEC);
	udp = sim_drops(s, A, "policy-fallback");
	went(sent(s), 0, 0, 0);
	assert_int_equal(sim_drops(s, A, "policy-fallback") - udp, 2 * PACKETS);
	assert_true(policies_say(s, "\"candidate\":null,\"segments\":[],\"state\":\"fallback\""));
	assert_true(policies_say(s, "\"dropped\":50"));
	sim_free(s);
}

static void or_go_as_without_a_policy(void **state)
{
	struct sim *s = four_nodes(74, true, POLICY("direct", "{via: [n1], exit: n3}"));

	(void)state;
	sim_kill(s, B);
	sim_run(s, 3 * W_SEC);
	went(sent(s), 2 * PACKETS, 0, 0);
	assert_true(
		policies_say(s, "\"state\":\"fallback\",\"fallback\":\"direct\",\"packets\":50"));
	sim_free(s);
}

static void a_name_without_a_sid_is_unresolved(void **state)
{
	struct sim *s = four_nodes(75, true, POLICY("drop", "{via: [nobody], exit: n3}"));

	(void)state;
	went(sent(s), 0, 0, 0);
	assert_true(policies_say(s, "\"state\":\"unresolved\""));
	/* srv6.sids may have it; counters go on over the reload */
	assert_int_equal(sim_reload(s, A,
				 "srv6: {sids: {nobody: \"fd00:5:3::2\"}}\n" POLICY("drop",
					 "{via: [nobody], exit: n3}")),
		0);
	went(sent(s), 2 * PACKETS, 0, 2 * PACKETS);
	assert_true(policies_say(s, "\"packets\":50"));
	assert_true(policies_say(s, "\"dropped\":50"));
	sim_free(s);
}

/* Odd wishes are either refused or carried out; none of them stops the others. */
static void odd_policies(void **state)
{
	struct sim *s = four_nodes(79, true, NULL);

	(void)state;
	/* itself as waypoint, in front and between */
	assert_int_equal(sim_reload(s, A,
				 POLICY("drop", "{via: [n0, n1, n0, org0/n0, n2], exit: n3}")),
		0);
	went(sent(s), 2 * PACKETS, 2 * PACKETS, 2 * PACKETS);
	/* nothing but itself is no way; itself as exit at the end of one is */
	assert_int_equal(sim_reload(s, A, POLICY("drop", "{exit: n0}, {exit: n3}")), 0);
	assert_true(policies_say(s, "\"candidate\":1,"));
	assert_int_equal(sim_reload(s, A, POLICY("drop", "{via: [n1], exit: n0}")), 0);
	assert_true(policies_say(s, "\"segments\":[\"fd00:5:2::2\",\"fd00:5:1::1\"]"));
	went(sent(s), 0, 2 * PACKETS, 0);
	/* one waypoint twenty times: a hop each */
	assert_int_equal(sim_reload(s, A,
				 POLICY("drop",
					 "{via: [n1, n2, n1, n2, n1, n2, n1, n2, n1, n2, n1, n2, "
					 "n1, "
					 "n2, n1, n2, n1, n2, n1, n2], exit: n3}")),
		0);
	went(sent(s), 2 * PACKETS, 20 * PACKETS, 20 * PACKETS);
	/* a source that is named has no way of its own, and takes none from the SIDs in it */
	assert_int_equal(sim_reload(s, A,
				 "srv6: {sources: [\"fd00:5:4::/80\", "
				 "\"fd00:5:4::1/128\"]}\n" POLICY("drop", "{exit: n3}")),
		0);
	assert_true(policies_say(s, "\"state\":\"active\""));
	went(sent(s), 2 * PACKETS, 0, 0);
	/* a SID that is no node's and has no route */
	assert_int_equal(sim_reload(s, A, POLICY("drop", "{exit: \"fd00:ffff::1\"}, {exit: n3}")),
		0);
	assert_true(policies_say(s, "\"candidate\":1,"));
	sim_free(s);
}

static bool has_rule(struct sim *s, bool six)
{
	const struct kernel_state *k = node_kernel(sim_node(s, A));

	for (size_t i = 0; i < k->rule_count; i++)
		if (k->rule[i].table == 251 && (k->rule[i].family == IP6) == six)
			return true;
	return false;
}

static void the_kernel_has_a_rule_while_packets_are_steered(void **state)
{
	struct sim *s = four_nodes(76, true, POLICY("direct", "{via: [n1], exit: n3}"));

	(void)state;
	assert_true(has_rule(s, false) && has_rule(s, true));
	sim_kill(s, B);
	sim_run(s, 3 * W_SEC);
	assert_false(has_rule(s, false) || has_rule(s, true));
	assert_int_equal(sim_reload(s, A, POLICY("drop", "{via: [n1], exit: n3}")), 0);
	assert_true(has_rule(s, false) && has_rule(s, true));
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(through_a_waypoint_twice),
		cmocka_unit_test(trace_shows_policy_and_segments),
		cmocka_unit_test(the_next_candidate_is_taken_and_left_again),
		cmocka_unit_test(an_exit_that_dies_is_left),
		cmocka_unit_test(without_a_candidate_packets_drop),
		cmocka_unit_test(or_go_as_without_a_policy),
		cmocka_unit_test(a_name_without_a_sid_is_unresolved),
		cmocka_unit_test(the_kernel_has_a_rule_while_packets_are_steered),
		cmocka_unit_test(odd_policies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
