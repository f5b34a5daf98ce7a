/* A mesh in virtual time: cold starts, traffic, rekeys under traffic, loss, restarts, and runs that
 * repeat from their seed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim.h"

static const struct sim_path lan = {.delay_us = 5 * W_MS, .jitter_us = 1 * W_MS};

static struct sim *started(const struct sim_options *o)
{
	struct sim *s = sim_new(o);

	for (unsigned int i = 0; i < o->nodes; i++)
		sim_start(s, i);
	return s;
}

static void ping_all(struct sim *s, unsigned int nodes)
{
	uint64_t before[64];

	for (unsigned int i = 0; i < nodes; i++)
		before[i] = sim_delivered(s, i);
	for (unsigned int i = 0; i < nodes; i++)
		for (unsigned int k = 0; k < nodes; k++)
			if (i != k) {
				sim_send(s, i, k, IP4);
				sim_send(s, i, k, IP6);
			}
	sim_run(s, W_SEC);
	for (unsigned int i = 0; i < nodes; i++)
		assert_int_equal(sim_delivered(s, i) - before[i], 2 * (nodes - 1));
}

static void cold_start(unsigned int nodes, uint64_t seed)
{
	const struct sim_options o = {.seed = seed, .nodes = nodes, .path = lan};
	struct sim *s = started(&o);

	assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_exact));
	ping_all(s, nodes);
	sim_run(s, 60 * W_SEC);
	assert_true(sim_mesh_exact(s));
	sim_free(s);
}

static void two_three_and_ten_nodes_started_at_once(void **state)
{
	(void)state;
	cold_start(2, 1);
	cold_start(3, 2);
	cold_start(10, 3);
}

static void twenty_nodes_repeat_from_the_seed(void **state)
{
	uint64_t print[3];

	(void)state;
	for (int run = 0; run < 3; run++) {
		const struct sim_options o = {.seed = run == 2 ? 8 : 7, .nodes = 20, .path = lan};
		struct sim *s = started(&o);

		assert_true(sim_run_until(s, 10 * W_SEC, sim_mesh_exact));
		ping_all(s, 20);
		print[run] = sim_fingerprint(s);
		sim_free(s);
	}
	assert_int_equal(print[0], print[1]);
	assert_int_not_equal(print[0], print[2]);
}

static void two_hundred_crossing_starts(void **state)
{
	(void)state;
	for (uint64_t seed = 100; seed < 300; seed++) {
		const struct sim_options o = {.seed = seed,
			.nodes = 2,
			.path = {.delay_us = 30 * W_MS}};
		struct sim *s = sim_new(&o);

		sim_start(s, 0);
		sim_run(s, (int64_t)(seed % 10) * 100);
		sim_start(s, 1);
		assert_true(sim_run_until(s, 3 * W_SEC, sim_mesh_exact));
		sim_run(s, 30 * W_SEC);
		assert_true(sim_mesh_exact(s));
		sim_free(s);
	}
}

static void a_mesh_comes_up_through_loss(void **state)
{
	const struct sim_options o = {.seed = 11,
		.nodes = 6,
		.path = {.delay_us = 20 * W_MS,
			.jitter_us = 10 * W_MS,
			.loss = 0.2,
			.duplicate = 0.05}};
	struct sim *s = started(&o);

	(void)state;
	assert_true(sim_run_until(s, 60 * W_SEC, sim_mesh_up));
	sim_free(s);
}

static void rekeys_under_traffic_lose_nothing(void **state)
{
	const struct sim_options o = {.seed = 12,
		.nodes = 3,
		.path = lan,
		.more_yaml = "ike: {lifetime: 50s, child_lifetime: 20s}\n"};
	struct sim *s = started(&o);
	uint64_t sent = 0, got = 0;

	(void)state;
	assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_exact));
	for (int i = 0; i < 60000; i++) { /* 100 packets a second each way for ten minutes */
		sim_send(s, 0, 1, IP4);
		sim_send(s, 1, 0, IP6);
		sim_run(s, 10 * W_MS);
	}
	sim_run(s, W_SEC);
	for (unsigned int i = 0; i < 2; i++) {
		sent += sim_sent(s, i);
		got += sim_delivered(s, i);
		assert_int_equal(sim_duplicates(s, i), 0);
	}
	assert_int_equal(sent, got);
	sim_free(s);
}

static void a_killed_peer_is_back_at_once(void **state)
{
	const struct sim_options o = {.seed = 13, .nodes = 2, .path = lan};
	struct sim *s = started(&o);

	(void)state;
	assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_exact));
	for (int round = 0; round < 5; round++) {
		sim_kill(s, 1);
		for (int i = 0; i < 60; i++) {
			sim_send(s, 0, 1, IP4);
			sim_run(s, 50 * W_MS);
		}
		sim_start(s, 1);
		assert_true(sim_run_until(s, 2 * W_SEC, sim_mesh_exact));
		ping_all(s, 2);
	}
	sim_free(s);
}

static void a_stopped_peer_says_so(void **state)
{
	const struct sim_options o = {.seed = 14, .nodes = 2, .path = lan};
	struct sim *s = started(&o);

	(void)state;
	assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_exact));
	sim_stop(s, 1);
	sim_run(s, W_SEC);
	assert_int_equal(sim_links_up(s, 0, false), 0);
	sim_start(s, 1);
	assert_true(sim_run_until(s, 3 * W_SEC, sim_mesh_exact));
	sim_free(s);
}

enum { SPOKES = 50 };

static bool spokes_up(struct sim *s)
{
	if (sim_links_up(s, 0, true) != SPOKES)
		return false;
	for (unsigned int i = 1; i <= SPOKES; i++)
		if (sim_links_up(s, i, true) != 1)
			return false;
	return true;
}

/* Fifty peers call a hub that comes back after a minute: half-open states, cookies and all. */
static void fifty_spokes_come_back_to_a_hub(void **state)
{
	const struct sim_options o = {.seed = 15,
		.nodes = SPOKES + 1,
		.path = {.delay_us = 20 * W_MS, .jitter_us = 10 * W_MS, .loss = 0.02},
		.more_yaml = "peers: {include: [n0]}\n"};
	struct sim *s = sim_new(&o);

	(void)state;
	for (unsigned int i = 0; i <= SPOKES; i++) {
		sim_start(s, i);
		if (i == 0)
			assert_int_equal(sim_reload(s, 0, ""), 0);
	}
	assert_true(sim_run_until(s, 15 * W_SEC, spokes_up));
	sim_run(s, 10 * W_SEC);
	for (int64_t away = 1; away <= 64; away *= 8) {
		sim_kill(s, 0);
		sim_run(s, away * W_SEC);
		sim_start(s, 0);
		assert_int_equal(sim_reload(s, 0, ""), 0);
		assert_true(sim_run_until(s, 15 * W_SEC, spokes_up));
		sim_run(s, 10 * W_SEC);
		assert_true(spokes_up(s));
	}
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_three_and_ten_nodes_started_at_once),
		cmocka_unit_test(twenty_nodes_repeat_from_the_seed),
		cmocka_unit_test(two_hundred_crossing_starts),
		cmocka_unit_test(a_mesh_comes_up_through_loss),
		cmocka_unit_test(rekeys_under_traffic_lose_nothing),
		cmocka_unit_test(a_killed_peer_is_back_at_once),
		cmocka_unit_test(a_stopped_peer_says_so),
		cmocka_unit_test(fifty_spokes_come_back_to_a_hub),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
