/* Bounded cursors: the only way that wire bytes are read or written. All numbers are
 * big-endian on the wire. A read past the end sets `bad`, returns zeros, and stays bad, so a
 * parser may read a whole structure and check once. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Read-only bytes, passed by value; the memory is borrowed. */
struct view {
	const uint8_t *p;
	size_t n;
};

static inline struct view view_of(const void *p, size_t n)
{
	return (struct view){.p = p, .n = n};
}

/* Equal length and bytes (not for secrets: see w_equal_secret). */
static inline bool view_equal(struct view a, struct view b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline uint16_t get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)get_u16(p) << 16 | get_u16(p + 2);
}

static inline uint64_t get_u64(const uint8_t *p)
{
	return (uint64_t)get_u32(p) << 32 | get_u32(p + 4);
}

struct cur {
	const uint8_t *p;
	size_t n; /* bytes left */
	bool bad;
};

static inline struct cur cur_of(const void *p, size_t n)
{
	return (struct cur){.p = p, .n = n};
}

static inline struct cur cur_view(struct view v)
{
	return cur_of(v.p, v.n);
}

/* Takes n bytes; an empty view and `bad` when fewer are left. */
static inline struct view cur_take(struct cur *c, size_t n)
{
	struct view v = {.p = c->p, .n = n};

	if (c->bad || c->n < n) {
		c->bad = true;
		return (struct view){0};
	}
	c->p += n;
	c->n -= n;
	return v;
}

/* All that is left. */
static inline struct view cur_rest(struct cur *c)
{
	return cur_take(c, c->n);
}

/* A cursor over the next n bytes, which are consumed here; bad when fewer are left. */
static inline struct cur cur_sub(struct cur *c, size_t n)
{
	struct view v = cur_take(c, n);

	return (struct cur){.p = v.p, .n = v.n, .bad = c->bad};
}

static inline void cur_skip(struct cur *c, size_t n)
{
	(void)cur_take(c, n);
}

static inline uint8_t cur_u8(struct cur *c)
{
	struct view v = cur_take(c, 1);

	return v.n ? v.p[0] : 0;
}

static inline uint16_t cur_u16(struct cur *c)
{
	struct view v = cur_take(c, 2);

	return v.n ? get_u16(v.p) : 0;
}

static inline uint32_t cur_u32(struct cur *c)
{
	struct view v = cur_take(c, 4);

	return v.n ? get_u32(v.p) : 0;
}

static inline uint64_t cur_u64(struct cur *c)
{
	struct view v = cur_take(c, 8);

	return v.n ? get_u64(v.p) : 0;
}

/* Copies n bytes out; zeros when fewer are left. */
static inline void cur_copy(struct cur *c, void *out, size_t n)
{
	struct view v = cur_take(c, n);

	if (v.n)
		memcpy(out, v.p, n);
	else if (n)
		memset(out, 0, n);
}

/* A writer into a fixed buffer; `full` when something did not fit (nothing of it is written). */
struct wcur {
	uint8_t *base;
	size_t cap;
	size_t len;
	bool full;
};

static inline struct wcur wcur_of(void *base, size_t cap)
{
	return (struct wcur){.base = base, .cap = cap};
}

/* Room for n bytes at the end, to be filled by the caller; NULL and `full` when too little. */
static inline uint8_t *wcur_room(struct wcur *w, size_t n)
{
	uint8_t *p = w->base + w->len;

	if (w->full || w->cap - w->len < n) {
		w->full = true;
		return NULL;
	}
	w->len += n;
	return p;
}

static inline void wcur_bytes(struct wcur *w, const void *p, size_t n)
{
	uint8_t *out = wcur_room(w, n);

	if (out && n)
		memcpy(out, p, n);
}

static inline void wcur_view(struct wcur *w, struct view v)
{
	wcur_bytes(w, v.p, v.n);
}

static inline void wcur_zero(struct wcur *w, size_t n)
{
	uint8_t *out = wcur_room(w, n);

	if (out && n)
		memset(out, 0, n);
}

static inline void put_u16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void put_u32(uint8_t *p, uint32_t v)
{
	put_u16(p, (uint16_t)(v >> 16));
	put_u16(p + 2, (uint16_t)v);
}

static inline void put_u64(uint8_t *p, uint64_t v)
{
	put_u32(p, (uint32_t)(v >> 32));
	put_u32(p + 4, (uint32_t)v);
}

static inline void wcur_u8(struct wcur *w, uint8_t v)
{
	wcur_bytes(w, &v, 1);
}

static inline void wcur_u16(struct wcur *w, uint16_t v)
{
	uint8_t *out = wcur_room(w, 2);

	if (out)
		put_u16(out, v);
}

static inline void wcur_u32(struct wcur *w, uint32_t v)
{
	uint8_t *out = wcur_room(w, 4);

	if (out)
		put_u32(out, v);
}

static inline void wcur_u64(struct wcur *w, uint64_t v)
{
	uint8_t *out = wcur_room(w, 8);

	if (out)
		put_u64(out, v);
}

/* What was written. */
static inline struct view wcur_written(const struct wcur *w)
{
	return view_of(w->base, w->len);
}
