/* Helpers of this room's tests: hexadecimal tables, and an rng that plays given bytes. */
#pragma once
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/cur.h"
#include "base/rng.h"

static inline int hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Decodes text into out; the view of what was written. Fails the test on bad text. */
static inline struct view unhex(const char *text, uint8_t *out, size_t cap)
{
	size_t n = strlen(text) / 2;

	assert_true(n <= cap && strlen(text) % 2 == 0);
	for (size_t i = 0; i < n; i++) {
		int hi = hex_digit(text[2 * i]), lo = hex_digit(text[2 * i + 1]);

		assert_true(hi >= 0 && lo >= 0);
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return view_of(out, n);
}

static inline void assert_hex(const uint8_t *got, size_t n, const char *want)
{
	uint8_t b[4096];
	struct view v = unhex(want, b, sizeof(b));

	assert_int_equal(n, v.n);
	assert_memory_equal(got, b, n);
}

/* Bytes that are given out in order, then -EAGAIN. */
struct tape {
	uint8_t b[256];
	struct cur left;
};

static inline int tape_fill(void *ctx, void *p, size_t n)
{
	struct tape *t = ctx;

	if (t->left.n < n)
		return -EAGAIN;
	cur_copy(&t->left, p, n);
	return 0;
}

static inline struct rng tape_init(struct tape *t, const char *hex)
{
	t->left = cur_view(unhex(hex, t->b, sizeof(t->b)));
	return (struct rng){.fill = tape_fill, .ctx = t};
}
