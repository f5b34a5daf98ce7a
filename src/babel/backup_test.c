/* The second way that events name: there when there is one, feasible at every moment, and no loop
 * when a node takes it while all others go on as they were. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "babel/bed_test.h"

enum { NODES = 8, LINKS = 14 };

/* What node i was told last of the prefix of node k. */
struct told {
	uint32_t iface, backup;
};

struct watch {
	struct told told[NODES][NODES];
	uint64_t with, without; /* second ways seen */
};

static void take_event(struct bed *t, size_t node, const struct babel_event *e)
{
	struct watch *w = t->ctx;

	for (size_t k = 0; k < t->nodes; k++) {
		struct babel_prefix p = bed_prefix(k);

		if (e->type == BABEL_EVENT_NEIGHBOUR || e->type == BABEL_EVENT_DOUBT ||
			!prefix_equal(&p.destination, &e->prefix.destination))
			continue;
		w->told[node][k] = (struct told){0};
		if (e->type == BABEL_EVENT_ROUTE)
			w->told[node][k] = (struct told){e->iface, e->backup_iface};
	}
}

static bool is_good(struct bed *t, size_t node, size_t k)
{
	const struct told *told = &((struct watch *)t->ctx)->told[node][k];
	const struct babel_prefix p = bed_prefix(k);
	struct babel_route_info r;
	size_t it = 0;

	while (babel_routes(t->node[node].b, &it, &r))
		if (prefix_equal(&r.prefix.destination, &p.destination) && !r.own &&
			r.iface == told->backup)
			return !r.selected && r.feasible && r.metric != BABEL_INFINITY &&
				r.iface != told->iface;
	return false;
}

/* From the other end of a link of `node`, following everybody's selected routes. */
static bool comes_back(struct bed *t, size_t node, uint32_t iface, size_t k)
{
	const struct bed_link *l = &t->link[iface - 1];
	const struct babel_prefix p = bed_prefix(k);
	size_t at = l->node[0] == node ? l->node[1] : l->node[0];

	for (size_t hops = 0; hops < t->nodes; hops++) {
		size_t next = bed_next(t, at, &p);

		if (at == node)
			return true;
		if (next == SIZE_MAX || next == at)
			return false;
		at = next;
	}
	return true;
}

static void check(struct bed *t, size_t node)
{
	struct watch *w = t->ctx;

	for (size_t k = 0; k < t->nodes; k++) {
		const struct told *told = &w->told[node][k];

		if (!told->iface || !told->backup) {
			w->without += told->iface != 0;
			continue;
		}
		w->with++;
		assert_true(is_good(t, node, k));
		assert_false(comes_back(t, node, told->backup, k));
	}
}

static void a_second_way_is_feasible_at_every_moment(void **state)
{
	struct watch w = {0};
	struct bed t;

	(void)state;
	bed_begin(&t, NODES, 19);
	t.ctx = &w;
	t.event = take_event;
	t.after = check;
	for (size_t i = 0; i < NODES; i++) {
		bed_start(&t, i, NULL);
		bed_originate(&t, i);
	}
	for (size_t l = 0; l < LINKS; l++) /* a ring, and longer ways */
		bed_link(&t, l % NODES, (l + (l < NODES ? 1 : 3)) % NODES, (int64_t)(2 + l) * W_MS);
	bed_run(&t, 60 * W_SEC);
	for (int round = 0; round < 150; round++) {
		struct bed_link *l = &t.link[(size_t)(bed_chance(&t) * LINKS)];

		if (bed_chance(&t) < 0.3) {
			l->down = !l->down;
			for (int end = 0; end < 2; end++) {
				babel_iface_alive(t.node[l->node[end]].b,
					(uint32_t)(l - t.link) + 1, !l->down, t.now);
				bed_touch(&t, l->node[end]);
			}
		} else {
			l->delay_us = (int64_t)(1 + bed_chance(&t) * 40) * W_MS;
			l->loss = bed_chance(&t) < 0.2 ? 0.3 : 0;
		}
		bed_run(&t, (int64_t)(bed_chance(&t) * 10 * W_SEC));
	}
	assert_true(w.with > 1000 && w.without > 0);
	bed_end(&t);
}

static void the_second_way_is_told(void **state)
{
	struct watch w = {0};
	struct bed t;

	(void)state;
	bed_begin(&t, 3, 20);
	t.ctx = &w;
	t.event = take_event;
	for (size_t i = 0; i < 3; i++) {
		bed_start(&t, i, NULL);
		bed_originate(&t, i);
	}
	bed_link(&t, 0, 1, 5 * W_MS);
	bed_link(&t, 1, 2, 1 * W_MS);
	bed_run(&t, 60 * W_SEC);
	assert_int_equal(w.told[0][1].iface, 1);
	assert_int_equal(w.told[0][1].backup, 0);
	bed_link(&t, 0, 2, 8 * W_MS);
	bed_run(&t, 60 * W_SEC);
	/* 2 is nearer to 1 than 0 is: its route is feasible */
	assert_int_equal(w.told[0][1].iface, 1);
	assert_int_equal(w.told[0][1].backup, 3);
	t.link[2].down = true;
	babel_iface_alive(t.node[0].b, 3, false, t.now);
	bed_touch(&t, 0);
	assert_int_equal(w.told[0][1].iface, 1);
	assert_int_equal(w.told[0][1].backup, 0);
	bed_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_way_is_told),
		cmocka_unit_test(a_second_way_is_feasible_at_every_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
