/* Reads the data files of test/vectors: lines of a name and bytes in hex ("-": none), '#' comments.
 * For tests only: it stops the program when a file or a name is missing. Tests get the project's
 * test folder as WEFT_TEST_DATA from meson. */
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/cur.h"
#include "base/mem.h"

enum { VECTORS_LINES = 1024, VECTORS_NAME = 64 };

struct vectors {
	char *text; /* owned; names and decoded bytes lie in it */
	size_t count;
	struct {
		const char *name;
		struct view value;
	} line[VECTORS_LINES];
};

static inline void vectors_stop(const char *what, const char *name)
{
	fprintf(stderr, "vectors: %s: %s\n", what, name);
	abort();
}

/* Decodes hex in place; returns the number of bytes. */
static inline size_t vectors_hex(char *s)
{
	size_t n = strlen(s);

	if (n % 2)
		vectors_stop("odd hex", s);
	for (size_t i = 0; i < n / 2; i++) {
		char digits[3] = {s[2 * i], s[2 * i + 1], 0};

		s[i] = (char)strtoul(digits, NULL, 16);
	}
	return n / 2;
}

/* A whole file; the bytes are owned by the caller (w_free), a zero byte follows them. */
static inline struct buf vectors_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct buf b = {0};
	char block[4096];
	size_t n;

	if (!f)
		vectors_stop("cannot open", path);
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		buf_add(&b, block, n);
	fclose(f);
	if (b.failed || !b.p)
		vectors_stop("empty, or out of memory", path);
	return b;
}

/* Loads a file: vectors_load(WEFT_TEST_DATA "/vectors/NAME"). Never NULL; vectors_free(). */
static inline struct vectors *vectors_load(const char *path)
{
	struct vectors *v = w_calloc(1, sizeof(*v));
	char *line, *rest;

	if (!v)
		vectors_stop("out of memory", path);
	v->text = (char *)vectors_file(path).p;
	for (line = strtok_r(v->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *value = strchr(line, ' ');

		if (line[0] == '#' || !value)
			continue;
		if (v->count == VECTORS_LINES)
			vectors_stop("too many lines", path);
		*value++ = 0;
		v->line[v->count].name = line;
		v->line[v->count].value = view_of(value,
			strcmp(value, "-") ? vectors_hex(value) : 0);
		v->count++;
	}
	return v;
}

static inline void vectors_free(struct vectors *v)
{
	w_free(v->text);
	w_free(v);
}

/* The bytes under a name (printf form); *ret_found says whether there are. */
static inline struct view vectors_find(const struct vectors *v, const char *name, bool *ret_found)
{
	for (size_t i = 0; i < v->count; i++) {
		if (!strcmp(v->line[i].name, name)) {
			*ret_found = true;
			return v->line[i].value;
		}
	}
	*ret_found = false;
	return (struct view){0};
}

static inline bool __attribute__((format(printf, 2, 3)))
vectors_has(const struct vectors *v, const char *fmt, ...)
{
	char name[VECTORS_NAME];
	bool found;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	vectors_find(v, name, &found);
	return found;
}

static inline struct view __attribute__((format(printf, 2, 3)))
vectors_get(const struct vectors *v, const char *fmt, ...)
{
	char name[VECTORS_NAME];
	struct view value;
	bool found;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	value = vectors_find(v, name, &found);
	if (!found)
		vectors_stop("no such name", name);
	return value;
}

/* A number of at most eight bytes. */
static inline uint64_t vectors_number(struct view v)
{
	uint64_t n = 0;

	for (size_t i = 0; i < v.n; i++)
		n = n << 8 | v.p[i];
	return n;
}
