/* Checksums against the plain form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/rng.h"
#include "wire/csum.h"
#include "wire/packets_test.h"

enum { MAX = 4096 };

static void sums_agree_with_the_plain_form(void **state)
{
	static uint8_t data[MAX + 64], copy[MAX + 64];
	struct rng_seeded seed;
	struct rng rng = rng_seeded_init(&seed, 1071);

	(void)state;
	for (uint32_t round = 0; round < 3000; round++) {
		uint64_t len, at, to, kind;
		uint16_t expect;

		assert_int_equal(rng_below(&rng, round < 2000 ? 200 : MAX, &len), 0);
		assert_int_equal(rng_below(&rng, 33, &at), 0);
		assert_int_equal(rng_below(&rng, 33, &to), 0);
		assert_int_equal(rng_below(&rng, 4, &kind), 0);
		assert_int_equal(rng_fill(&rng, data, sizeof(data)), 0);
		if (kind == 0) /* carries everywhere */
			memset(data, 0xff, sizeof(data));
		expect = naive_checksum(data + at, len, 0);
		assert_int_equal(csum_fold(csum_add(0, data + at, len)), expect);
		memset(copy, 0xaa, sizeof(copy));
		assert_int_equal(csum_fold(csum_copy(0, copy + to, data + at, len)), expect);
		assert_memory_equal(copy + to, data + at, len);
		assert_int_equal(copy[to + len], 0xaa);
		assert_true(to == 0 || copy[to - 1] == 0xaa);
	}
}

static void pieces_add_up(void **state)
{
	uint8_t data[256];
	uint64_t sum;

	(void)state;
	for (uint32_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37 + 200);
	for (uint32_t cut = 0; cut <= sizeof(data); cut += 2) {
		sum = csum_add(csum_add(0, data, cut), data + cut, sizeof(data) - cut);
		assert_int_equal(csum_fold(sum), naive_checksum(data, sizeof(data), 0));
	}
	for (uint32_t cut = 0; cut <= sizeof(data); cut += 4) {
		sum = csum_add_words(csum_add(UINT64_MAX, data, cut), data + cut,
			sizeof(data) - cut);
		assert_int_equal(csum_fold(sum), naive_checksum(data, sizeof(data), 0));
	}
	sum = csum_add_u32(csum_add_u16(csum_add(0, data, 10), get_u16(data + 10)),
		get_u32(data + 12));
	assert_int_equal(csum_fold(sum), naive_checksum(data, 16, 0));
}

/* RFC 1624: no update turns a right field into a wrong one, whatever the words. */
static void updates_keep_the_sum_right(void **state)
{
	static const uint16_t words[] = {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff, 0x1234};

	(void)state;
	for (uint32_t a = 0; a < 7; a++) {
		for (uint32_t b = 0; b < 7; b++) {
			for (uint32_t rest = 1; rest < 0x10000; rest += 257) {
				uint8_t p[6];

				put_u16(p, words[a]);
				put_u16(p + 2, (uint16_t)rest);
				put_u16(p + 4, (uint16_t)~naive_checksum(p, 4, 0));
				put_u16(p + 4, csum_update(get_u16(p + 4), words[a], words[b]));
				put_u16(p, words[b]);
				assert_int_equal(naive_checksum(p, 6, 0), 0xffff);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_agree_with_the_plain_form),
		cmocka_unit_test(pieces_add_up),
		cmocka_unit_test(updates_keep_the_sum_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
