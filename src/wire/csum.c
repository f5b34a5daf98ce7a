/* Internet checksum, RFC 1071 and RFC 1624. Bytes are taken by the vector: both halves of each
 * 64-bit lane are added into 64-bit lanes, which no packet can overflow; the compiler makes of it
 * what the processor has. */
#include "wire/csum.h"

#include <string.h>

typedef uint64_t lanes __attribute__((vector_size(16)));

/* Accumulators of one pass, each its own, so that additions need not wait for each other. */
struct lane_sum {
	lanes low[2], high[2];
};

enum { STEP = 2 * sizeof(lanes) };

static inline void add_step(struct lane_sum *s, lanes a, lanes b)
{
	const lanes low_half = {UINT32_MAX, UINT32_MAX};

	s->low[0] += a & low_half;
	s->high[0] += a >> 32;
	s->low[1] += b & low_half;
	s->high[1] += b >> 32;
}

static inline uint64_t total(const struct lane_sum *s)
{
	lanes all = s->low[0] + s->high[0] + s->low[1] + s->high[1];

	return csum_sum(all[0], all[1]);
}

/* The last n < STEP bytes. */
static uint64_t add_tail(uint64_t sum, const uint8_t *p, size_t n)
{
	uint64_t w = 0;

	for (; n >= sizeof(w); p += sizeof(w), n -= sizeof(w)) {
		memcpy(&w, p, sizeof(w));
		sum = csum_sum(sum, w);
	}
	w = 0;
	memcpy(&w, p, n);
	return csum_sum(sum, w);
}

uint64_t csum_add(uint64_t sum, const void *p, size_t n)
{
	struct lane_sum s = {0};
	const uint8_t *at = p;

	for (; n >= STEP; at += STEP, n -= STEP) {
		lanes a, b;

		memcpy(&a, at, sizeof(a));
		memcpy(&b, at + sizeof(a), sizeof(b));
		add_step(&s, a, b);
	}
	return add_tail(csum_sum(sum, total(&s)), at, n);
}

uint64_t csum_copy(uint64_t sum, void *restrict dst, const void *restrict src, size_t n)
{
	struct lane_sum s = {0};
	const uint8_t *at = src;
	uint8_t *to = dst;

	for (; n >= STEP; at += STEP, to += STEP, n -= STEP) {
		lanes a, b;

		memcpy(&a, at, sizeof(a));
		memcpy(&b, at + sizeof(a), sizeof(b));
		memcpy(to, &a, sizeof(a));
		memcpy(to + sizeof(a), &b, sizeof(b));
		add_step(&s, a, b);
	}
	memcpy(to, at, n);
	return add_tail(csum_sum(sum, total(&s)), at, n);
}

uint16_t csum_update(uint16_t field, uint16_t from, uint16_t to)
{
	uint32_t sum = (uint16_t)~field + (uint32_t)(uint16_t)~from + to;

	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	return (uint16_t)~sum;
}
