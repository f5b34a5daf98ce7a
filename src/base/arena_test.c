/* The arena gives zeroed, aligned memory that does not overlap, and refuses absurd sizes. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { PIECES = 2000 };

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
	static unsigned char *piece[PIECES];
	struct arena *a;

	(void)state;
	assert_int_equal(arena_new(&a), 0);
	for (size_t i = 0; i < PIECES; i++) {
		piece[i] = arena_alloc(a, i % 200 + (i % 300 == 0 ? 10000 : 0));
		assert_non_null(piece[i]);
		assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < i % 200; k++)
			assert_int_equal(piece[i][k], 0);
		memset(piece[i], (int)(i % 255 + 1), i % 200);
	}
	for (size_t i = 0; i < PIECES; i++)
		for (size_t k = 0; k < i % 200; k++)
			assert_int_equal(piece[i][k], i % 255 + 1);
	arena_free(a);
}

static void copies_text(void **state)
{
	struct arena *a;
	char *s;

	(void)state;
	assert_int_equal(arena_new(&a), 0);
	s = arena_strndup(a, "peers: all", 5);
	assert_string_equal(s, "peers");
	assert_string_equal(arena_strndup(a, "", 0), "");
	assert_string_equal(arena_strndup(a, NULL, 0), "");
	assert_string_equal(s, "peers");
	arena_free(a);
	arena_free(NULL);
}

static void absurd_sizes_are_refused(void **state)
{
	struct arena *a;

	(void)state;
	assert_int_equal(arena_new(&a), 0);
	assert_null(arena_alloc(a, SIZE_MAX));
	assert_null(arena_alloc(a, SIZE_MAX / 2 + 1));
	assert_null(arena_calloc(a, SIZE_MAX / 2, 3));
	assert_null(arena_calloc(a, 3, SIZE_MAX / 2));
	assert_null(arena_strndup(a, "", SIZE_MAX));
	assert_non_null(arena_calloc(a, 0, 8));
	assert_non_null(arena_calloc(a, 8, 0));
	assert_non_null(arena_calloc(a, 7, 9));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
		cmocka_unit_test(copies_text),
		cmocka_unit_test(absurd_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
