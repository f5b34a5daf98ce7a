/* The timer heap against a plain array, under random pushes, moves, removals and pops. */
#include "base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/rng.h"

enum { NODES = 300, STEPS = 200000, TIMES = 1000 };

/* The reference: which nodes are in, and when. */
struct model {
	bool in[NODES];
	int64_t at[NODES];
};

static int64_t earliest(const struct model *m)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < NODES; i++)
		if (m->in[i] && m->at[i] < best)
			best = m->at[i];
	return best;
}

static size_t count(const struct model *m)
{
	size_t n = 0;

	for (int i = 0; i < NODES; i++)
		n += m->in[i];
	return n;
}

static void well_formed(const struct heap *h)
{
	for (size_t i = 0; i < h->n; i++) {
		assert_int_equal(h->slot[i].node->place, i + 1);
		if (i)
			assert_false(wtime_before(h->slot[i].at, h->slot[(i - 1) / 2].at));
	}
}

static uint64_t below(const struct rng *rng, uint64_t bound)
{
	uint64_t x = 0;

	assert_int_equal(rng_below(rng, bound, &x), 0);
	return x;
}

static void take_popped(struct model *m, const struct heap_node *nodes, struct heap_node *got)
{
	int i;

	if (!got) {
		assert_int_equal(count(m), 0);
		return;
	}
	i = (int)(got - nodes);
	assert_true(m->in[i]);
	assert_int_equal(got->at.us, m->at[i]);
	assert_int_equal(m->at[i], earliest(m));
	assert_false(heap_holds(got));
	m->in[i] = false;
}

static void agrees_with_the_model(void **state)
{
	static struct heap_node nodes[NODES];
	static struct model m;
	struct heap h = {0};
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 11);

	(void)state;
	for (int step = 0; step < STEPS; step++) {
		int i = (int)below(&rng, NODES);
		/* phases that fill and phases that empty */
		unsigned int pushes = step / 10000 % 2 ? 2 : 6;
		unsigned int what = (unsigned int)below(&rng, 8);

		if (what < pushes) {
			m.at[i] = (int64_t)below(&rng, TIMES);
			m.in[i] = true;
			assert_int_equal(heap_push(&h, &nodes[i], (wtime){m.at[i]}), 0);
		} else if (what % 2) {
			heap_remove(&h, &nodes[i]);
			m.in[i] = false;
		} else {
			take_popped(&m, nodes, heap_pop(&h));
		}
		assert_int_equal(heap_holds(&nodes[i]), m.in[i]);
		assert_int_equal(heap_next(&h).us, earliest(&m));
		if (step % 97 == 0) {
			assert_int_equal(h.n, count(&m));
			well_formed(&h);
		}
	}
	while (h.n)
		take_popped(&m, nodes, heap_pop(&h));
	assert_int_equal(count(&m), 0);
	heap_done(&h);
}

static void an_empty_heap_has_nothing(void **state)
{
	struct heap h = {0};
	struct heap_node node = {0};

	(void)state;
	assert_null(heap_peek(&h));
	assert_null(heap_pop(&h));
	assert_null(heap_pop_due(&h, (wtime){INT64_MAX}));
	assert_int_equal(heap_next(&h).us, INT64_MAX);
	heap_remove(&h, &node);
	heap_done(&h);
}

static void pops_only_what_is_due(void **state)
{
	struct heap_node a = {0}, b = {0};
	struct heap h = {0};

	(void)state;
	assert_int_equal(heap_push(&h, &a, (wtime){20}), 0);
	assert_int_equal(heap_push(&h, &b, (wtime){10}), 0);
	assert_null(heap_pop_due(&h, (wtime){9}));
	assert_ptr_equal(heap_pop_due(&h, (wtime){10}), &b);
	assert_null(heap_pop_due(&h, (wtime){10}));
	assert_ptr_equal(heap_peek(&h), &a);
	assert_int_equal(heap_push(&h, &a, WTIME_NEVER), 0); /* moved */
	assert_null(heap_pop_due(&h, (wtime){1000}));
	assert_int_equal(h.n, 1);
	heap_done(&h);
	assert_false(heap_holds(&a));
	assert_int_equal(heap_push(&h, &a, (wtime){1}), 0);
	assert_ptr_equal(heap_pop(&h), &a);
	heap_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_model),
		cmocka_unit_test(an_empty_heap_has_nothing),
		cmocka_unit_test(pops_only_what_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
