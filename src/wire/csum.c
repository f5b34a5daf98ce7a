/* Internet checksum, RFC 1071 and RFC 1624. Bytes are taken by the vector, as 64-bit lanes of two
 * halves: one accumulator adds whole lanes, and forgets what is carried out of them; the other the
 * upper halves alone, which no packet can make overflow, and by which the sum of the lower halves
 * is found again. The compiler makes of it what each kind of processor has. */
#include "wire/csum.h"

#include <string.h>
#include "base/wide.h"

typedef uint64_t lanes __attribute__((vector_size(64)));

struct lane_sum {
	lanes all, high;
};

enum { STEP = sizeof(lanes), LANES = STEP / sizeof(uint64_t) };

static inline __attribute__((always_inline)) void add_step(struct lane_sum *s, const lanes *a)
{
	s->all += *a;
	s->high += *a >> 32;
}

static inline __attribute__((always_inline)) uint64_t total(const struct lane_sum *s)
{
	lanes low = s->all - (s->high << 32), both = low + s->high;
	uint64_t sum = 0;

	for (size_t i = 0; i < LANES; i++)
		sum += both[i];
	return sum;
}

/* The last n < STEP bytes. */
static inline __attribute__((always_inline)) uint64_t add_tail(uint64_t sum, const uint8_t *p,
	size_t n)
{
	uint64_t w;
	uint32_t four;
	uint16_t two;

	for (; n >= sizeof(w); p += sizeof(w), n -= sizeof(w)) {
		memcpy(&w, p, sizeof(w));
		sum = csum_sum(sum, w);
	}
	w = 0;
	if (n & sizeof(four)) {
		memcpy(&four, p, sizeof(four));
		w += four;
		p += sizeof(four);
	}
	if (n & sizeof(two)) {
		memcpy(&two, p, sizeof(two));
		w += two;
		p += sizeof(two);
	}
	if (n & 1) {
		two = 0;
		memcpy(&two, p, 1);
		w += two;
	}
	return csum_sum(sum, w);
}

W_WIDE uint64_t csum_add(uint64_t sum, const void *p, size_t n)
{
	struct lane_sum s = {0};
	const uint8_t *at = p;

	for (; n >= STEP; at += STEP, n -= STEP) {
		lanes a;

		memcpy(&a, at, sizeof(a));
		add_step(&s, &a);
	}
	return add_tail(csum_sum(sum, total(&s)), at, n);
}

W_WIDE uint64_t csum_copy(uint64_t sum, void *restrict dst, const void *restrict src, size_t n)
{
	struct lane_sum s = {0};
	const uint8_t *at = src;
	uint8_t *to = dst;

	for (; n >= STEP; at += STEP, to += STEP, n -= STEP) {
		lanes a;

		memcpy(&a, at, sizeof(a));
		memcpy(to, &a, sizeof(a));
		add_step(&s, &a);
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
