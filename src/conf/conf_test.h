/* Shared by the tests of this room. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "conf/conf.h"

/* A private key that must never be shown: PKCS#8 in base64, its raw bytes in base64 and hex. */
#define SECRET_PKCS8 "MC4CAQAwBQYDK2VwBCIEIKeU5Wd0s7qmTQpRZ1DkKxj3BGhvYcNnJLfEoA8uViCi"
#define SECRET_RAW   "p5TlZ3SzuqZNClFnUOQrGPcEaG9hw2ckt8SgDy5WIKI="
#define SECRET_HEX   "a794e56774b3baa64d0a516750e42b18f704686f61c36724b7c4a00f2e5620a2"

static inline struct view text_view(const char *s)
{
	return view_of(s, strlen(s));
}

/* The error lines as one string. */
static inline const char *error_text(struct conf_errors *e)
{
	buf_add(&e->text, "", 1);
	assert_false(e->text.failed);
	return (const char *)e->text.p;
}

static inline size_t count_lines(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* Exactly one line, which begins with `begin` and has `part` in it. */
static inline void expect_one_line(struct conf_errors *e, const char *begin, const char *part)
{
	const char *text = error_text(e);

	if (count_lines(text) != 1 || e->count != 1 || strncmp(text, begin, strlen(begin)) != 0 ||
		!strstr(text, part))
		fail_msg("expected one line \"%s … %s\", got %zu:\n%s", begin, part, e->count,
			text);
}
