/* The path MTU of links of whole nodes, in virtual time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "sim.h"

/* IP and UDP, ESP with its ICV, padded to 4. */
enum { OVERHEAD = 28 + 16 + 16, INNER = 1400 };

static const struct sim_path lan = {.delay_us = 5 * W_MS};

static uint32_t inner_of(uint32_t path)
{
	uint32_t room = (path - OVERHEAD) / 4 * 4 - 2;

	return room < INNER ? room : INNER;
}

static uint32_t mtu_of(struct sim *s, unsigned int i)
{
	const char *at = strstr(sim_command(s, i, "links", ""), "\"mtu\":");

	assert_non_null(at);
	return (uint32_t)strtoul(at + strlen("\"mtu\":"), NULL, 10);
}

static void narrow(struct sim *s, uint32_t mtu)
{
	struct sim_path p = lan;

	p.mtu = mtu;
	sim_path_set(s, 0, 1, &p);
	sim_path_set(s, 1, 0, &p);
}

static struct sim *pair(const char *more_yaml, uint32_t mtu, uint32_t kernel)
{
	const struct sim_options o = {.seed = 5, .nodes = 2, .path = lan, .more_yaml = more_yaml};
	struct sim *s = sim_new(&o);

	narrow(s, mtu);
	for (unsigned int i = 0; i < 2; i++)
		sim_kernel_mtu(s, i, kernel, 0);
	for (unsigned int i = 0; i < 2; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 5 * W_SEC, sim_mesh_up));
	return s;
}

static void both_ends_find_it_without_icmp(void **state)
{
	static const uint32_t mtu[] = {1280, 1380, 1400, 1458, 1464, 1492, 1500, 9000};

	(void)state;
	for (size_t i = 0; i < sizeof(mtu) / sizeof(*mtu); i++) {
		struct sim *s = pair(NULL, mtu[i], mtu[i] > 1500 ? 9000 : 1500);

		sim_run(s, 5 * W_SEC);
		for (unsigned int k = 0; k < 2; k++)
			assert_int_equal(mtu_of(s, k), inner_of(mtu[i]));
		assert_true(sim_mesh_exact(s));
		sim_free(s);
	}
}

static struct sim_flow *flow(struct sim *s)
{
	const struct sim_flow_options o = {.from = 0, .to = 1, .bytes = 1280, .window = 20};

	return sim_flow_start(s, &o);
}

/* A new value within 5 s, and the link stays up. */
static void it_falls_under_traffic_and_rises_again(void **state)
{
	struct sim *s = pair(NULL, 1500, 1500);
	struct sim_flow *f = flow(s);
	uint64_t acked;

	(void)state;
	sim_run(s, 10 * W_SEC);
	assert_int_equal(mtu_of(s, 0), INNER);
	narrow(s, 1400);
	sim_run(s, 5 * W_SEC);
	assert_int_equal(mtu_of(s, 0), inner_of(1400));
	acked = sim_flow_acked(f);
	sim_run(s, 10 * W_SEC);
	assert_true(sim_flow_acked(f) > acked + 1000);
	assert_int_equal(sim_links_up(s, 0, true), 1);
	narrow(s, 1500);
	sim_run(s, 70 * W_SEC);
	assert_int_equal(mtu_of(s, 0), INNER);
	sim_free(s);
}

static void forged_icmp_changes_nothing(void **state)
{
	struct sim *s = pair(NULL, 1500, 1500);

	(void)state;
	sim_run(s, 5 * W_SEC);
	for (int i = 0; i < 100; i++) {
		sim_kernel_mtu(s, 0, 1500, 600);
		sim_run(s, 200 * W_MS);
		assert_int_equal(mtu_of(s, 0), INNER);
	}
	/* a true one is noticed at once, also where nothing is sent */
	narrow(s, 1350);
	sim_kernel_mtu(s, 0, 1500, 1350);
	sim_run(s, 3 * W_SEC);
	assert_int_equal(mtu_of(s, 0), inner_of(1350));
	sim_free(s);
}

/* IKE messages of five minutes with a path of that MTU. */
static uint64_t ike_sent(uint32_t mtu)
{
	struct sim *s = pair(NULL, mtu, 1500);
	uint64_t before = sim_ike_sent(s, 0), n;

	sim_run(s, 300 * W_SEC);
	assert_int_equal(sim_links_up(s, 0, true), 1);
	assert_int_equal(mtu_of(s, 0), inner_of(mtu));
	n = sim_ike_sent(s, 0) - before;
	sim_free(s);
	return n;
}

static void no_probe_is_taken_for_a_link_that_died(void **state)
{
	uint64_t narrow_one = ike_sent(1280), wide = ike_sent(1500);

	(void)state;
	/* IKE is never asked whether the peer lives */
	assert_true(narrow_one <= wide + 1);
}

/* Thirty minutes of 13 % of loss. */
static void random_loss_changes_nothing(void **state)
{
	struct sim *s = pair(NULL, 1500, 1500);
	struct sim_path lossy = lan;
	struct sim_flow *f = flow(s);

	(void)state;
	sim_run(s, 10 * W_SEC);
	lossy.loss = 0.13;
	sim_path_set(s, 0, 1, &lossy);
	sim_path_set(s, 1, 0, &lossy);
	for (int i = 0; i < 1800; i++) {
		sim_run(s, W_SEC);
		assert_int_equal(mtu_of(s, 0), INNER);
	}
	sim_flow_stop(f);
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_find_it_without_icmp),
		cmocka_unit_test(it_falls_under_traffic_and_rises_again),
		cmocka_unit_test(forged_icmp_changes_nothing),
		cmocka_unit_test(no_probe_is_taken_for_a_link_that_died),
		cmocka_unit_test(random_loss_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
