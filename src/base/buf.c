/* A growing byte buffer that owns its memory. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"

uint8_t *buf_room(struct buf *b, size_t n)
{
	if (b->failed || n > SIZE_MAX / 4 - b->n) {
		b->failed = true;
		return NULL;
	}
	if (b->cap - b->n < n + 1) {
		size_t cap = b->cap ? b->cap : 64;
		uint8_t *p;

		while (cap < b->n + n + 1)
			cap *= 2;
		/* not realloc: the old block may hold a secret */
		p = w_alloc(cap);
		if (!p) {
			b->failed = true;
			return NULL;
		}
		if (b->n)
			memcpy(p, b->p, b->n);
		w_free_secret(b->p, b->cap);
		b->p = p;
		b->cap = cap;
	}
	b->n += n;
	b->p[b->n] = 0;
	return b->p + b->n - n;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	uint8_t *out = buf_room(b, n);

	if (out && n)
		memcpy(out, p, n);
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	uint8_t *out;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->failed = true;
		return;
	}
	out = buf_room(b, (size_t)n);
	if (!out)
		return;
	va_start(ap, fmt);
	(void)vsnprintf((char *)out, (size_t)n + 1, fmt, ap);
	va_end(ap);
}

void buf_free(struct buf *b)
{
	w_free(b->p);
	*b = (struct buf){0};
}

void buf_free_secret(struct buf *b)
{
	w_free_secret(b->p, b->cap);
	*b = (struct buf){0};
}
