/* A growing byte buffer that owns its memory. After a failed append it is `failed` and stays so:
 * check once at the end. Zero-initialise to start. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"

struct buf {
	uint8_t *p;
	size_t n, cap;
	bool failed;
};

/* Room for n more bytes at the end (uninitialised, counted); NULL and `failed` without memory. */
uint8_t *buf_room(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, const char *s);
/* printf to the end; no terminating zero is counted, but one always follows. */
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Frees; the buffer is empty and usable again. */
void buf_free(struct buf *b);
/* The same, the bytes zeroed first. */
void buf_free_secret(struct buf *b);

static inline struct view buf_view(const struct buf *b)
{
	return view_of(b->p, b->n);
}
