/* What need not come at a time of its own leaves at times of a grid, so that many links wake the
 * thread seldom: hellos, and the full dumps with them. None is later than was announced. */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

enum { LINKS = 60, PREFIXES = 100, SECONDS = 90, SETTLE_S = 40 };

#define GRID_US  (100 * W_MS)
#define PHASE_US (37 * W_MS)

struct rig {
	struct bed bed;
	struct babel_parsed sent;
	bool watched;
	wtime last, hello[LINKS], update[LINKS][PREFIXES];
	int64_t shortest, longest, slowest; /* between hellos; between updates, of their interval */
	size_t moments, hellos, off_grid, packets, dumps, alone, largest;
};

static bool on_grid(wtime t)
{
	return (t.us - PHASE_US) % GRID_US == 0;
}

static void see_hello(struct rig *r, size_t link)
{
	int64_t gap = wtime_diff(r->bed.now, r->hello[link]);

	r->hellos++;
	r->off_grid += !on_grid(r->bed.now);
	if (r->hello[link].us) {
		r->shortest = gap < r->shortest ? gap : r->shortest;
		r->longest = gap > r->longest ? gap : r->longest;
	}
	r->hello[link] = r->bed.now;
}

static void see_update(struct rig *r, size_t link, const struct babel_tlv *t)
{
	size_t i = get_u16(t->update.prefix.destination.addr.b + 4);
	int64_t part;

	assert_in_range(i, 0, PREFIXES - 1);
	if (r->update[link][i].us) {
		part = wtime_diff(r->bed.now, r->update[link][i]) * 100 /
			((int64_t)t->update.interval * BABEL_CENTISECOND_US);
		r->slowest = part > r->slowest ? part : r->slowest;
	}
	r->update[link][i] = r->bed.now;
}

static bool watch(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct rig *r = t->ctx;
	bool hello = false, update = false;

	if (!r->watched || from)
		return false;
	assert_int_equal(babel_parse(p->data, &p->source, &r->sent), BABEL_PARSE_OK);
	for (size_t i = 0; i < r->sent.n; i++) {
		const struct babel_tlv *tlv = &r->sent.tlv[i];

		hello |= tlv->type == BABEL_TLV_HELLO;
		update |= tlv->type == BABEL_TLV_UPDATE;
		if (tlv->type == BABEL_TLV_HELLO)
			see_hello(r, link);
		else if (tlv->type == BABEL_TLV_UPDATE)
			see_update(r, link, tlv);
	}
	r->moments += t->now.us != r->last.us;
	r->last = t->now;
	r->packets++;
	r->dumps += hello && update;
	r->alone += update && !hello;
	if (hello && p->data.n > r->largest)
		r->largest = p->data.n;
	return false;
}

/* Node 0 has a grid, so many links and prefixes; the others have neither. */
static void begin(struct rig *r, size_t links, size_t prefixes, int64_t grid_us)
{
	struct bed *t = &r->bed;
	struct babel_config c;

	memset(r, 0, sizeof(*r));
	bed_begin(t, links + 1, 1);
	bed_config(t, 0, &c);
	c.grid_us = grid_us;
	c.grid_phase = (wtime){PHASE_US};
	bed_start(t, 0, &c);
	for (size_t i = 1; i <= links; i++)
		bed_start(t, i, NULL);
	for (size_t i = 0; i < prefixes; i++) {
		struct babel_prefix p = bed_prefix(i);

		assert_int_equal(babel_originate(t->node[0].b, &p, 0, t->now), 0);
	}
	for (size_t i = 1; i <= links; i++) {
		bed_run(t, 7 * W_MS);
		bed_link(t, 0, i, W_MS);
	}
	bed_run(t, SETTLE_S * W_SEC);
	t->ctx = r;
	t->lose = watch;
	r->shortest = INT64_MAX;
	r->watched = true;
	bed_run(t, SECONDS * W_SEC);
	r->watched = false;
	bed_end(t);
	babel_parsed_free(&r->sent);
}

static void hellos_leave_together_and_never_late(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, LINKS, 1, GRID_US);
	assert_in_range(r.hellos, LINKS * SECONDS / 4, LINKS * SECONDS * 10 / 36);
	assert_int_equal(r.off_grid, 0);
	assert_in_range(r.moments, 1, SECONDS * W_SEC / GRID_US);
	assert_true(r.longest <= 4 * W_SEC);
	assert_true(r.shortest >= 4 * W_SEC - 4 * W_SEC / 16 - GRID_US);
	assert_true(r.longest - r.shortest >= GRID_US); /* they are spread all the same */
}

static void without_a_grid_each_has_its_time(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, LINKS, 1, 0);
	assert_true(r.moments > r.packets * 9 / 10);
	assert_true(r.longest <= 4 * W_SEC);
	/* the interval is no more than twenty times this grid */
	begin(&r, LINKS, 1, 4 * W_SEC / 20 + 1);
	assert_true(r.moments > r.packets * 9 / 10);
}

static void a_dump_goes_with_a_hello(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, 3, 2, GRID_US);
	assert_in_range(r.dumps, 3 * (SECONDS / 16), 3 * (SECONDS / 14 + 1));
	assert_int_equal(r.alone, 0);
	assert_int_equal(r.packets, r.hellos);
	assert_true(r.slowest <= 100);
}

/* The same prefixes as large dumps make: the packets beside the hello's are for what it lacks room
 * for. */
static void large_dumps_leave_hellos_small(void **state)
{
	struct rig r;

	(void)state;
	begin(&r, 3, PREFIXES, GRID_US);
	assert_true(r.largest <= BABEL_MTU_MIN);
	assert_in_range(r.dumps, 3 * (SECONDS / 16), 3 * (SECONDS / 12 + 1));
	assert_true(r.slowest <= 110);
}

static void dumps_at_their_rate_keep_their_interval(void **state)
{
	static struct rig r;

	(void)state;
	begin(&r, LINKS, PREFIXES, GRID_US);
	assert_in_range(r.moments, 1, SECONDS * W_SEC / GRID_US);
	assert_true(r.slowest <= 200); /* others keep a route for 3.5 intervals */
	for (size_t i = 0; i < LINKS; i++)
		for (size_t k = 0; k < PREFIXES; k++)
			assert_true(r.update[i][k].us > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hellos_leave_together_and_never_late),
		cmocka_unit_test(without_a_grid_each_has_its_time),
		cmocka_unit_test(a_dump_goes_with_a_hello),
		cmocka_unit_test(large_dumps_leave_hellos_small),
		cmocka_unit_test(dumps_at_their_rate_keep_their_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
