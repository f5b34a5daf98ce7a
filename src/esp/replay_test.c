/* The replay window against a model that remembers every number, and its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "base/rng.h"
#include "esp/replay.h"

enum { SEEN_MAX = 4096 };

/* All numbers ever accepted, and the definition of RFC 4303 3.4.3 word by word. */
struct model {
	uint32_t size;
	uint64_t top;
	uint64_t seen[SEEN_MAX];
	uint32_t count;
};

static enum replay_verdict model_accept(struct model *m, uint64_t seq)
{
	if (seq == 0 || (seq <= m->top && m->top - seq + 1 > m->size))
		return REPLAY_OLD;
	for (uint32_t i = 0; i < m->count; i++) {
		if (m->seen[i] == seq)
			return REPLAY_DUPLICATE;
	}
	m->seen[m->count++] = seq;
	if (seq > m->top)
		m->top = seq;
	return REPLAY_NEW;
}

/* A number near the top, mostly; sometimes far. */
static uint64_t next_number(const struct rng *rng, uint64_t top, uint32_t size)
{
	uint64_t kind, by;

	assert_int_equal(rng_below(rng, 100, &kind), 0);
	assert_int_equal(rng_below(rng,
				 kind < 90           ? 2 * size
					 : kind < 98 ? 8 * size
						     : 1u << 31,
				 &by),
		0);
	if (kind % 2 && by <= top)
		return top - by;
	return top + by / 2;
}

static void agrees_with_model(void **state)
{
	static const uint32_t sizes[] = {64, 65, 100, 128, 1000, 1024, 4096};
	static struct model m;
	struct rng_seeded seed;
	struct rng rng = rng_seeded_init(&seed, 4303);

	(void)state;
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct replay *r;

		assert_int_equal(replay_new(sizes[i], &r), 0);
		m = (struct model){.size = sizes[i]};
		while (m.count < SEEN_MAX) {
			uint64_t seq = next_number(&rng, m.top, sizes[i]);
			enum replay_verdict before = replay_check(r, seq);
			enum replay_verdict expect = model_accept(&m, seq);

			assert_int_equal(before, expect);
			assert_int_equal(replay_accept(r, seq), expect);
			assert_int_equal(replay_highest(r), m.top);
		}
		replay_free(r);
	}
}

static void edges_of_the_window(void **state)
{
	enum { W = 4096 };
	const uint64_t far = 100000;
	struct replay *r;

	(void)state;
	assert_int_equal(replay_new(0, &r), 0);
	assert_int_equal(replay_accept(r, 0), REPLAY_OLD);
	assert_int_equal(replay_accept(r, far), REPLAY_NEW);
	assert_int_equal(replay_accept(r, far), REPLAY_DUPLICATE);
	/* The window is far - (W - 1) … far. */
	assert_int_equal(replay_accept(r, far - (W - 1)), REPLAY_NEW);
	assert_int_equal(replay_accept(r, far - (W - 1)), REPLAY_DUPLICATE);
	assert_int_equal(replay_accept(r, far - W), REPLAY_OLD);
	assert_int_equal(replay_accept(r, far - (W + 1)), REPLAY_OLD);
	/* One step on, what was the left edge is outside. */
	assert_int_equal(replay_accept(r, far + 1), REPLAY_NEW);
	assert_int_equal(replay_accept(r, far - (W - 1)), REPLAY_OLD);
	assert_int_equal(replay_accept(r, far - (W - 2)), REPLAY_NEW);
	/* A jump of 2^31 forgets all, and all of the new window is open. */
	assert_int_equal(replay_accept(r, far + (UINT64_C(1) << 31)), REPLAY_NEW);
	assert_int_equal(replay_accept(r, far + 1), REPLAY_OLD);
	for (uint64_t i = 1; i < W; i++)
		assert_int_equal(replay_accept(r, far + (UINT64_C(1) << 31) - i), REPLAY_NEW);
	for (uint64_t i = 0; i < W; i++)
		assert_int_equal(replay_accept(r, far + (UINT64_C(1) << 31) - i), REPLAY_DUPLICATE);
	replay_free(r);
}

static void window_counts_packets_not_bytes(void **state)
{
	enum { W = 64 };
	struct replay *r;

	(void)state;
	assert_int_equal(replay_new(W, &r), 0);
	assert_int_equal(replay_accept(r, 1000), REPLAY_NEW);
	for (uint64_t i = W - 1; i > 0; i--)
		assert_int_equal(replay_accept(r, 1000 - i), REPLAY_NEW);
	assert_int_equal(replay_accept(r, 1000 - W), REPLAY_OLD);
	replay_free(r);
	assert_true(replay_new(REPLAY_WINDOW_MIN - 1, &r) < 0);
	assert_true(replay_new(REPLAY_WINDOW_MAX + 1, &r) < 0);
}

/* RFC 4303 appendix A2.2, both cases, and the two ends of the 64-bit space. */
static void infers_the_high_half(void **state)
{
	enum { W = 64 };
	static const struct {
		uint64_t top;
		uint32_t low;
		uint64_t full;
	} rows[] = {
		{0, 1, 1}, {0, 0xffffffff, 0xffffffff}, /* no subspace before the first */
		{10, 0xfffffff0, 0xfffffff0}, {100, 99, 99}, {100, 37, 37}, /* left edge, case A */
		{100, 36, 0x100000024}, /* left of it: the next subspace */
		{0xfffffffe, 0xffffffff, 0xffffffff}, {0xfffffffe, 0, 0x100000000},
		{0x100000000, 0xffffffff, 0xffffffff},  /* case B: from the subspace before */
		{0x100000000, 0xffffffc1, 0xffffffc1},  /* left edge */
		{0x100000000, 0xffffffc0, 0x1ffffffc0}, /* left of it */
		{0x100000000, 1, 0x100000001}, {0x10000003f, 0, 0x100000000},
		{0xffffffffffffffff, 0xfffffff0, 0xfffffffffffffff0},
		{0xffffffffffffffff, 1, 0}, /* after the last: none */
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct replay *r;

		assert_int_equal(replay_new(W, &r), 0);
		if (rows[i].top)
			assert_int_equal(replay_accept(r, rows[i].top), REPLAY_NEW);
		assert_int_equal(replay_infer(r, rows[i].low), rows[i].full);
		replay_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_model),
		cmocka_unit_test(edges_of_the_window),
		cmocka_unit_test(window_counts_packets_not_bytes),
		cmocka_unit_test(infers_the_high_half),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
