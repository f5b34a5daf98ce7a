/* Whose queue a round trip is: samples of one neighbour, and what its link carries meanwhile. */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

enum { FULL = 500000, HALF = FULL / 2, IDLE_MS = 20, QUEUE_MS = 120, SLOTS = 16 };

struct rig {
	struct bed bed;
	struct babel_neighbour *n;
	uint64_t bytes[BABEL_METERS];
	wtime now;
};

static void begin(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	bed_begin(&r->bed, 2, 1);
	bed_link(&r->bed, 0, 1, IDLE_MS * W_MS / 2);
	bed_start(&r->bed, 0, NULL);
	bed_start(&r->bed, 1, NULL);
	bed_run(&r->bed, 60 * W_SEC);
	r->n = r->bed.node[0].b->neighbour[0];
	r->now = r->bed.now;
}

static void slot(struct rig *r, uint32_t rate)
{
	int64_t us = 4 * W_SEC / SLOTS;

	r->now = wtime_add(r->now, us);
	r->bytes[BABEL_LINK_OUT] += rate * (uint64_t)us / W_SEC;
	r->bytes[BABEL_SHARED_OUT] = r->bytes[BABEL_LINK_OUT];
	babel_iface_traffic(r->bed.node[0].b, 1, r->bytes, r->now);
}

static void sample(struct rig *r, int64_t ms)
{
	const struct babel_round round = {.us = ms * W_MS,
		.sent = wtime_add(r->now, -ms * W_MS / 2),
		.at = r->now};

	(void)babel_load_sample(r->n, &round);
}

/* So many hello intervals with this load (bytes a second out), and a sample at the end of each. */
static void hellos(struct rig *r, int count, uint32_t rate, int64_t ms)
{
	for (int i = 0; i < count; i++) {
		for (int k = 0; k < SLOTS; k++)
			slot(r, rate);
		sample(r, ms);
	}
}

/* What costs are made of, milliseconds. */
static int64_t used(const struct rig *r)
{
	return (r->n->calm.used + W_MS / 2) / W_MS;
}

static void without_reports_all_is_believed(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	assert_int_equal(used(&r), IDLE_MS);
	for (int i = 0; i < 4; i++) {
		r.now = wtime_add(r.now, 4 * W_SEC);
		sample(&r, QUEUE_MS);
	}
	assert_int_equal(used(&r), QUEUE_MS);
	bed_end(&r.bed);
}

static void a_full_link_explains_a_longer_trip(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, 0, IDLE_MS);
	hellos(&r, 100, FULL, QUEUE_MS);
	assert_int_equal(used(&r), IDLE_MS);
	hellos(&r, 10, 0, IDLE_MS);
	assert_int_equal(used(&r), IDLE_MS);
	bed_end(&r.bed);
}

static void what_stays_when_the_load_ends_was_the_way(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, 0, IDLE_MS);
	hellos(&r, 20, FULL, QUEUE_MS);
	assert_int_equal(used(&r), IDLE_MS);
	hellos(&r, 5, 0, QUEUE_MS);
	assert_int_equal(used(&r), QUEUE_MS);
	bed_end(&r.bed);
}

static void a_load_that_makes_no_queue_explains_nothing(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, 0, IDLE_MS);
	hellos(&r, 17, HALF, IDLE_MS); /* twice eight samples */
	hellos(&r, 5, HALF, QUEUE_MS);
	assert_int_equal(used(&r), QUEUE_MS);
	bed_end(&r.bed);
}

static void less_than_the_link_can_explains_nothing(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, FULL, IDLE_MS);
	hellos(&r, 5, HALF, QUEUE_MS);
	assert_int_equal(used(&r), QUEUE_MS);
	bed_end(&r.bed);
}

static void a_shorter_trip_is_believed_under_load(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, 0, QUEUE_MS);
	assert_int_equal(used(&r), QUEUE_MS);
	hellos(&r, 5, FULL, QUEUE_MS);
	hellos(&r, 4, FULL, IDLE_MS);
	assert_true(used(&r) < QUEUE_MS / 2);
	bed_end(&r.bed);
}

/* Under a load the link had a queue; then it carries next to nothing for so long that no queue can
 * be left, and the trip is as long as ever: the load is no explanation any more. */
static void a_dip_that_shortens_nothing_refutes(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, 0, IDLE_MS);
	hellos(&r, 10, FULL, QUEUE_MS);
	for (int i = 0; i < 6; i++) {
		for (int k = 0; k < SLOTS; k++)
			slot(&r, k >= 8 && k < 15 ? 0 : FULL);
		sample(&r, QUEUE_MS);
	}
	assert_int_equal(used(&r), QUEUE_MS);
	bed_end(&r.bed);
}

/* What the queue does to hellos and to all else is no loss of the way, with samples or without. */
static void losses_wait_for_the_end_of_the_load(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	hellos(&r, 10, 0, IDLE_MS);
	hellos(&r, 10, FULL, QUEUE_MS);
	for (int i = 0; i < 60 * SLOTS; i++) /* no sample comes through for minutes */
		slot(&r, FULL);
	assert_true(babel_load_loss(r.n->ifc, 0, 0.5, false, r.now) == 0);
	assert_true(babel_load_loss(r.n->ifc, 0.1, 0.5, false, r.now) == 0.1);
	assert_true(babel_load_loss(r.n->ifc, 0.6, 0.5, false, r.now) == 0.5);
	for (int i = 0; i < 20 * SLOTS; i++)
		slot(&r, 0);
	assert_true(babel_load_loss(r.n->ifc, 0, 0.5, false, r.now) == 0.5);
	bed_end(&r.bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_reports_all_is_believed),
		cmocka_unit_test(a_full_link_explains_a_longer_trip),
		cmocka_unit_test(what_stays_when_the_load_ends_was_the_way),
		cmocka_unit_test(a_load_that_makes_no_queue_explains_nothing),
		cmocka_unit_test(less_than_the_link_can_explains_nothing),
		cmocka_unit_test(a_shorter_trip_is_believed_under_load),
		cmocka_unit_test(a_dip_that_shortens_nothing_refutes),
		cmocka_unit_test(losses_wait_for_the_end_of_the_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
