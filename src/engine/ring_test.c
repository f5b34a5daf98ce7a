/* The ring: order, fullness, the wrap, and two threads. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "engine/ring.h"

enum { SIZE = 1024, MESSAGES = 200000, LONGEST = 300 };

static void put(struct ring *r, uint32_t number, size_t n)
{
	uint8_t *p = ring_reserve(r, n);

	assert_non_null(p);
	memset(p, (int)(number & 0xff), n);
	memcpy(p, &number, sizeof(number));
	ring_commit(r);
}

static void take(struct ring *r, uint32_t number, size_t n)
{
	uint32_t got;
	size_t len = 0;
	uint8_t *p = ring_peek(r, &len);

	assert_non_null(p);
	assert_int_equal(len, n);
	assert_int_equal((uintptr_t)p % 8, 0);
	memcpy(&got, p, sizeof(got));
	assert_int_equal(got, number);
	for (size_t i = sizeof(got); i < n; i++)
		assert_int_equal(p[i], number & 0xff);
	ring_consume(r);
}

static void test_full_and_empty(void **state)
{
	struct ring r;
	size_t n;
	uint32_t in = 0, out = 0;

	(void)state;
	assert_int_equal(ring_init(&r, SIZE), 0);
	assert_true(ring_empty(&r));
	assert_null(ring_peek(&r, &n));
	assert_null(ring_reserve(&r, SIZE)); /* larger than it will ever take */
	while (ring_reserve(&r, 56)) {
		put(&r, in++, 56);
		assert_false(ring_empty(&r));
	}
	assert_int_equal(in, SIZE / 64);
	/* One out, one in: always full, through many wraps. */
	for (int i = 0; i < 1000; i++) {
		take(&r, out++, 56);
		put(&r, in++, 56);
		assert_null(ring_reserve(&r, 56));
	}
	while (out < in)
		take(&r, out++, 56);
	assert_null(ring_peek(&r, &n));
	assert_true(ring_empty(&r));
	ring_done(&r);
}

/* A burst finds all of the room, wherever the ring was when it became empty. */
static void test_all_the_room_from_anywhere(void **state)
{
	enum { LARGE = 64 * 1024, EACH = 1024, ALL = LARGE / EACH };
	struct ring r;
	uint32_t in = 0, out = 0;

	(void)state;
	assert_int_equal(ring_init(&r, LARGE), 0);
	for (int start = 0; start < 3 * ALL; start++) {
		put(&r, in++, EACH - 8);
		take(&r, out++, EACH - 8);
		for (int i = 0; i < ALL; i++)
			put(&r, in++, EACH - 8);
		assert_null(ring_reserve(&r, EACH - 8));
		while (out < in)
			take(&r, out++, EACH - 8);
	}
	ring_done(&r);
}

/* Memory that no burst has needed is not touched, however long the ring is in use. */
static void test_stays_in_front(void **state)
{
	enum { LARGE = 64 * 1024, EACH = 100 };
	struct ring r;
	uint32_t in = 0, out = 0;

	(void)state;
	assert_int_equal(ring_init(&r, LARGE), 0);
	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < 8; i++)
			put(&r, in++, EACH);
		while (out < in)
			take(&r, out++, EACH);
	}
	for (size_t i = LARGE / 4; i < LARGE; i++)
		assert_int_equal(r.data[i], 0);
	ring_done(&r);
}

/* A reservation that is given up leaves no trace. */
static void test_reserve_twice(void **state)
{
	struct ring r;
	size_t n;

	(void)state;
	assert_int_equal(ring_init(&r, SIZE), 0);
	assert_non_null(ring_reserve(&r, 100));
	assert_null(ring_peek(&r, &n));
	put(&r, 5, 40);
	take(&r, 5, 40);
	assert_true(ring_empty(&r));
	ring_done(&r);
}

/* The next length of a row that both sides know (xorshift). */
static size_t length_of(uint64_t *row)
{
	*row ^= *row << 13;
	*row ^= *row >> 7;
	*row ^= *row << 17;
	return sizeof(uint32_t) + *row % LONGEST;
}

/* Lengths at random, against a plain count of what is inside. */
static void test_random(void **state)
{
	uint64_t a = 42, b = 42;
	struct ring r;
	uint32_t in = 0, out = 0;
	size_t next;

	(void)state;
	assert_int_equal(ring_init(&r, SIZE), 0);
	next = length_of(&a);
	while (out < 20000) {
		while (in < 20000 && ring_reserve(&r, next)) {
			put(&r, in++, next);
			next = length_of(&a);
		}
		for (uint32_t i = in % 3; i < 3 && out < in; i++)
			take(&r, out++, length_of(&b));
	}
	assert_true(ring_empty(&r));
	ring_done(&r);
}

static void *write_all(void *ring)
{
	uint64_t s = 7;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		size_t n = length_of(&s);
		uint8_t *p;

		while (!(p = ring_reserve(ring, n)))
			sched_yield();
		memset(p, (int)(i & 0xff), n);
		memcpy(p, &i, sizeof(i));
		ring_commit(ring);
	}
	return NULL;
}

static void test_two_threads(void **state)
{
	uint64_t s = 7;
	struct ring r;
	pthread_t writer;

	(void)state;
	assert_int_equal(ring_init(&r, SIZE), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_all, &r), 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		size_t n;

		while (!ring_peek(&r, &n))
			sched_yield();
		take(&r, i, length_of(&s));
	}
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_true(ring_empty(&r));
	ring_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_and_empty),
		cmocka_unit_test(test_all_the_room_from_anywhere),
		cmocka_unit_test(test_stays_in_front),
		cmocka_unit_test(test_reserve_twice),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
