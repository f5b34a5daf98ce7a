/* Reloads in virtual time: a difference is applied, what did not change keeps its keys, and the
 * result is what a cold start with the new files would have been. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

enum { NODES = 4 };

static const struct sim_path lan = {.delay_us = 5 * W_MS};

static struct sim *mesh(uint64_t seed, unsigned int nodes)
{
	const struct sim_options o = {.seed = seed, .nodes = nodes, .path = lan};
	struct sim *s = sim_new(&o);

	for (unsigned int i = 0; i < nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_exact));
	sim_run(s, 10 * W_SEC);
	return s;
}

/* The SPIs that a node shows, in order. */
static char *spis(struct sim *s, unsigned int i)
{
	const char *p = sim_command(s, i, "links", NULL);
	char *out = calloc(1, strlen(p) + 1), *end = out;

	assert_non_null(out);
	while ((p = strstr(p, "\"spi_"))) {
		end = stpncpy(end, p, 24);
		p += 5;
	}
	return out;
}

static void an_unchanged_file_changes_nothing(void **state)
{
	struct sim *s = mesh(31, 3);
	char *before = spis(s, 0), *after;
	uint64_t ike = sim_ike_sent(s, 0), all = sim_udp_sent(s, 0);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(sim_reload(s, 0, ""), 0);
	assert_int_equal(sim_ike_sent(s, 0), ike);
	assert_int_equal(sim_udp_sent(s, 0), all);
	after = spis(s, 0);
	assert_string_equal(before, after);
	free(before);
	free(after);
	sim_free(s);
}

/* Ten thousand reloads, each a change, and as often a link that goes and comes
 * back leave no memory behind. */
static void reloads_and_new_links_leave_nothing(void **state)
{
	enum { RELOADS = 10000, LINKS = 10000, WARM = 100, BYTES = 1 << 20 };
	static const char *const more[] = {"log: debug\n", ""};
	struct sim *s = mesh(35, 2);
	size_t before = 0;

	(void)state;
	for (int i = 0; i < WARM + RELOADS; i++) {
		if (i == WARM)
			before = mallinfo2().uordblks;
		assert_int_equal(sim_reload(s, 0, more[i & 1]), 0);
	}
	assert_true(mallinfo2().uordblks <= before + BYTES);
	for (int i = 0; i < WARM + LINKS; i++) {
		if (i == WARM)
			before = mallinfo2().uordblks;
		(void)sim_command(s, 0, "down", "n1");
		sim_run(s, 100 * W_MS);
		assert_int_equal(sim_links_up(s, 0, true), 0);
		(void)sim_command(s, 0, "up", "n1");
		sim_run(s, 900 * W_MS);
		assert_int_equal(sim_links_up(s, 0, true), 1);
	}
	assert_true(mallinfo2().uordblks <= before + BYTES);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_mesh_exact));
	sim_free(s);
}

/* Requests only: a stranger's own IKE_SA_INIT may be answered, since it names nobody yet. */
static unsigned int to_two;

static bool count_ike_to_two(void *ctx, unsigned int from, unsigned int to, bool ike,
	struct view data)
{
	enum { FLAGS_AT = 19, RESPONSE = 0x20 };

	(void)ctx;
	to_two += from == 0 && to == 2 && ike && data.n > FLAGS_AT &&
		!(data.p[FLAGS_AT] & RESPONSE);
	return true;
}

static void a_removed_peer_hears_nothing_more(void **state)
{
	const bool present[NODES] = {true, true, false, true};
	struct sim *s = mesh(32, NODES);

	(void)state;
	assert_int_equal(sim_reload_registry(s, 0, present, false), 0);
	sim_run(s, W_SEC);
	to_two = 0;
	sim_filter_set(s, count_ike_to_two, NULL);
	sim_run(s, 60 * W_SEC);
	assert_int_equal(to_two, 0);
	assert_int_equal(sim_links_up(s, 0, true), 2);
	/* and it is let in again when it is there again */
	assert_int_equal(sim_reload(s, 0, ""), 0);
	assert_true(sim_run_until(s, 65 * W_SEC, sim_mesh_exact));
	sim_free(s);
}

/* A peer that never answered is forgotten as well, its attempts with it. */
static void a_peer_that_never_answered_is_forgotten(void **state)
{
	const bool present[NODES] = {true, true, false, true};
	const struct sim_options o = {.seed = 33, .nodes = NODES, .path = lan};
	struct sim *s = sim_new(&o);

	(void)state;
	sim_start(s, 0);
	sim_start(s, 1);
	sim_run(s, 5 * W_SEC);
	assert_int_equal(sim_reload_registry(s, 0, present, false), 0);
	sim_run(s, W_SEC);
	to_two = 0;
	sim_filter_set(s, count_ike_to_two, NULL);
	sim_run(s, 120 * W_SEC);
	assert_int_equal(to_two, 0);
	sim_free(s);
}

static void a_registry_that_loses_most_needs_force(void **state)
{
	const bool present[NODES] = {true, false, false, false};
	struct sim *s = mesh(34, NODES);

	(void)state;
	assert_int_equal(sim_reload_registry(s, 0, present, false), -EAGAIN);
	assert_int_equal(sim_links_up(s, 0, true), 3);
	assert_int_equal(sim_reload_registry(s, 0, present, true), 0);
	assert_int_equal(sim_links_up(s, 0, false), 0);
	sim_free(s);
}

static void both_ends_reload_at_once(void **state)
{
	struct sim *s = mesh(35, 2);
	const bool only[2][2] = {{true, false}, {false, true}};

	(void)state;
	for (int round = 0; round < 100; round++) {
		/* the peer is dropped and taken back by both within 10 ms */
		assert_int_equal(sim_reload_registry(s, 0, only[0], true), 0);
		sim_run(s, (round % 10) * W_MS);
		assert_int_equal(sim_reload_registry(s, 1, only[1], true), 0);
		assert_int_equal(sim_reload(s, 0, ""), 0);
		sim_run(s, (round % 7) * W_MS);
		assert_int_equal(sim_reload(s, 1, ""), 0);
		assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_exact));
	}
	sim_free(s);
}

static void post_quantum_is_applied_by_a_reload(void **state)
{
	struct sim *s = mesh(36, 2);

	(void)state;
	assert_non_null(strstr(sim_command(s, 0, "links", NULL), "ML-KEM-768"));
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(sim_reload(s, i, "ike: {post_quantum: off}\n"), 0);
	sim_kill(s, 1);
	sim_run(s, W_SEC);
	sim_start(s, 1);
	assert_true(sim_run_until(s, 10 * W_SEC, sim_mesh_exact));
	assert_null(strstr(sim_command(s, 0, "links", NULL), "ML-KEM-768"));
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unchanged_file_changes_nothing),
		cmocka_unit_test(reloads_and_new_links_leave_nothing),
		cmocka_unit_test(a_removed_peer_hears_nothing_more),
		cmocka_unit_test(a_peer_that_never_answered_is_forgotten),
		cmocka_unit_test(a_registry_that_loses_most_needs_force),
		cmocka_unit_test(both_ends_reload_at_once),
		cmocka_unit_test(post_quantum_is_applied_by_a_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
