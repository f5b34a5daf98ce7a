/* Path MTU discovery against a path of a model: it drops what is too large, and what chance has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "node/pmtu.h"

enum { FLOOR = 576, BASE = 1200, WAITING = 512 };

struct path {
	struct pmtu p;
	wtime now;
	uint32_t mtu;
	int64_t rtt_us;
	unsigned int loss; /* percent, each way */
	bool large;        /* large packets are sent all the time */
	uint64_t random;
	unsigned int padded, rounds; /* sent */
	unsigned int changes;        /* of the size in use */
	struct {
		uint16_t seq;
		wtime at;
	} answer[WAITING];
	size_t answers;
};

static bool chance(struct path *x)
{
	x->random = x->random * 6364136223846793005U + 1442695040888963407U;
	return (x->random >> 33) % 100 < x->loss;
}

static void path_send(struct path *x, const struct pmtu_probe *b)
{
	x->padded += b->size != 0;
	x->rounds += b->size == 0;
	if (b->size > x->mtu || chance(x) || chance(x))
		return;
	assert_true(x->answers < WAITING);
	x->answer[x->answers].seq = b->seq;
	x->answer[x->answers++].at = wtime_add(x->now, x->rtt_us);
}

static void path_deliver(struct path *x)
{
	size_t kept = 0;

	for (size_t i = 0; i < x->answers; i++)
		if (wtime_due(x->answer[i].at, x->now))
			pmtu_answer(&x->p, x->answer[i].seq, x->now);
		else
			x->answer[kept++] = x->answer[i];
	x->answers = kept;
}

static void run(struct path *x, int64_t us)
{
	wtime end = wtime_add(x->now, us);
	struct pmtu_probe probe[PMTU_PROBES];

	while (wtime_before(x->now, end)) {
		uint32_t before = x->p.good;
		size_t n;

		x->now = wtime_add(x->now, 100 * W_MS);
		path_deliver(x);
		n = pmtu_tick(&x->p, x->large ? x->now.us : 0, x->now, probe);
		assert_true(n <= PMTU_PROBES);
		for (size_t i = 0; i < n; i++)
			path_send(x, &probe[i]);
		x->changes += x->p.good != before;
		assert_in_range(x->p.good, x->p.floor, x->p.top);
	}
}

static struct path path_of(uint32_t mtu, uint32_t top, int64_t rtt_us)
{
	struct path x = {.mtu = mtu, .rtt_us = rtt_us, .now = {1000 * W_SEC}, .random = mtu};

	pmtu_bounds(&x.p, FLOOR, BASE, top);
	pmtu_restart(&x.p);
	return x;
}

static void a_path_that_takes_everything_costs_one_probe(void **state)
{
	struct path x = path_of(1500, 1500, 20 * W_MS);

	(void)state;
	assert_int_equal(x.p.good, 1500);
	run(&x, 3600 * W_SEC);
	assert_true(x.p.proven);
	assert_int_equal(x.p.good, 1500);
	assert_int_equal(x.padded, 1);
	assert_int_equal(x.changes, 0);
}

static void any_path_is_found_to_the_byte(void **state)
{
	static const uint32_t mtu[] = {576, 577, 1006, 1199, 1200, 1201, 1280, 1380, 1400, 1458,
		1492, 1499, 1500};
	static const int64_t rtt[] = {1 * W_MS, 90 * W_MS, 300 * W_MS, 1500 * W_MS};

	(void)state;
	for (size_t i = 0; i < sizeof(mtu) / sizeof(*mtu); i++)
		for (size_t k = 0; k < sizeof(rtt) / sizeof(*rtt); k++) {
			struct path x = path_of(mtu[i], 1500, rtt[k]);

			run(&x, rtt[k] > W_SEC ? 60 * W_SEC : 4 * W_SEC);
			assert_int_equal(x.p.good, mtu[i]);
			assert_true(x.changes <= 1);
			assert_true(x.padded < 160);
		}
}

static void jumbo_is_used_when_it_has_passed(void **state)
{
	static const uint32_t mtu[] = {1500, 2000, 4352, 8999, 9000};

	(void)state;
	for (size_t i = 0; i < sizeof(mtu) / sizeof(*mtu); i++) {
		struct path x = path_of(mtu[i], 9000, 20 * W_MS);

		assert_int_equal(x.p.good, PMTU_START);
		run(&x, 5 * W_SEC);
		assert_int_equal(x.p.good, mtu[i]);
		assert_true(x.changes <= 1);
	}
}

/* A new value within 5 s of the shrink, where large packets are sent. */
static void a_path_that_shrinks_is_noticed_within_five_seconds(void **state)
{
	static const uint32_t mtu[] = {1350, 1400, 1250, 600, 1499};

	(void)state;
	for (size_t i = 0; i < sizeof(mtu) / sizeof(*mtu); i++) {
		struct path x = path_of(1500, 1500, 40 * W_MS);

		x.large = true;
		run(&x, 20 * W_SEC);
		assert_int_equal(x.p.good, 1500);
		x.mtu = mtu[i];
		run(&x, 5 * W_SEC);
		assert_int_equal(x.p.good, mtu[i]);
		assert_int_equal(x.changes, 1);
		x.mtu = 1500;
		run(&x, 70 * W_SEC);
		assert_int_equal(x.p.good, 1500);
	}
}

static void without_large_packets_nothing_is_asked(void **state)
{
	struct path x = path_of(1500, 1500, 40 * W_MS);

	(void)state;
	run(&x, 5 * W_SEC);
	x.rounds = 0;
	run(&x, 3600 * W_SEC);
	assert_int_equal(x.rounds, 0);
}

/* A narrow path is asked for more ever less often, at least each 600 s. */
static void it_rises_again_with_back_off(void **state)
{
	struct path x = path_of(1380, 1500, 40 * W_MS);

	(void)state;
	run(&x, 10 * W_SEC);
	x.rounds = 0;
	run(&x, 3600 * W_SEC);
	assert_in_range(x.rounds, 6, 10);
	assert_int_equal(x.p.good, 1380);
	assert_int_equal(x.changes, 1);
	x.mtu = 1450;
	run(&x, 610 * W_SEC);
	assert_int_equal(x.p.good, 1450);
	assert_int_equal(x.changes, 2);
}

/* Loss by chance is no matter of sizes. */
static void random_loss_changes_nothing(void **state)
{
	unsigned int changed = 0;

	(void)state;
	for (unsigned int seed = 1; seed <= 100; seed++) {
		struct path x = path_of(seed % 2 ? 1500 : 1400, 1500, 40 * W_MS);

		x.large = true;
		run(&x, 20 * W_SEC);
		x.random += seed;
		x.loss = 13;
		x.changes = 0;
		run(&x, 1800 * W_SEC);
		changed += x.changes;
		/* and a path that shrinks is noticed all the same */
		x.mtu = 1300;
		run(&x, 60 * W_SEC);
		assert_in_range(x.p.good, 1290, 1300);
	}
	assert_int_equal(changed, 0); /* in fifty hours */
}

/* Whatever anybody says: the size in use goes only when it does not pass. */
static void doubts_are_only_a_reason_to_look(void **state)
{
	struct path x = path_of(1500, 1500, 40 * W_MS);

	(void)state;
	run(&x, 5 * W_SEC);
	x.padded = 0;
	for (int i = 0; i < 600; i++) {
		pmtu_doubt(&x.p);
		run(&x, 100 * W_MS);
	}
	assert_int_equal(x.changes, 0);
	assert_in_range(x.padded, 30, 62); /* one a second at most */
	x.mtu = 1400;
	pmtu_doubt(&x.p);
	run(&x, 3 * W_SEC);
	assert_int_equal(x.p.good, 1400);
}

static void silence_is_no_matter_of_sizes(void **state)
{
	struct path x = path_of(1500, 1500, 40 * W_MS);

	(void)state;
	x.large = true;
	run(&x, 5 * W_SEC);
	x.loss = 100;
	run(&x, 120 * W_SEC);
	assert_int_equal(x.changes, 0);
	x.loss = 0;
	x.mtu = 1400;
	run(&x, 12 * W_SEC);
	assert_int_equal(x.p.good, 1400);
}

static void the_interface_bounds_at_once(void **state)
{
	struct path x = path_of(1500, 1500, 40 * W_MS);

	(void)state;
	run(&x, 5 * W_SEC);
	pmtu_bounds(&x.p, FLOOR, BASE, 1300);
	assert_int_equal(x.p.good, 1300);
	pmtu_bounds(&x.p, FLOOR, BASE, 1500);
	assert_int_equal(x.p.good, 1300);
	run(&x, 2 * W_SEC);
	assert_int_equal(x.p.good, 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_that_takes_everything_costs_one_probe),
		cmocka_unit_test(any_path_is_found_to_the_byte),
		cmocka_unit_test(jumbo_is_used_when_it_has_passed),
		cmocka_unit_test(a_path_that_shrinks_is_noticed_within_five_seconds),
		cmocka_unit_test(without_large_packets_nothing_is_asked),
		cmocka_unit_test(it_rises_again_with_back_off),
		cmocka_unit_test(random_loss_changes_nothing),
		cmocka_unit_test(doubts_are_only_a_reason_to_look),
		cmocka_unit_test(silence_is_no_matter_of_sizes),
		cmocka_unit_test(the_interface_bounds_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
