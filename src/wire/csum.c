/* Internet checksum, RFC 1071 and RFC 1624. Bytes are taken by the vector: both halves of each
 * 64-bit lane are added into 64-bit lanes, which no packet can overflow; the compiler makes of it
 * what the processor has. */
#include "wire/csum.h"

#include <string.h>

typedef uint64_t lanes __attribute__((vector_size(32)));

enum { LANES = sizeof(lanes) / sizeof(uint64_t) };

static const lanes low_half = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};

static inline uint64_t sum_lanes(const lanes *v)
{
	uint64_t sum = 0;

	for (int i = 0; i < LANES; i++)
		sum = csum_sum(sum, (*v)[i]);
	return sum;
}

/* The last n < sizeof(lanes) bytes. */
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
	const uint8_t *at = p;
	lanes low = {0}, high = {0}, v;

	if (n >= sizeof(v)) {
		for (; n >= sizeof(v); at += sizeof(v), n -= sizeof(v)) {
			memcpy(&v, at, sizeof(v));
			low += v & low_half;
			high += v >> 32;
		}
		low += high;
		sum = csum_sum(sum, sum_lanes(&low));
	}
	return add_tail(sum, at, n);
}

uint64_t csum_copy(uint64_t sum, void *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *at = src;
	uint8_t *to = dst;
	lanes low = {0}, high = {0}, v;

	if (n >= sizeof(v)) {
		for (; n >= sizeof(v); at += sizeof(v), to += sizeof(v), n -= sizeof(v)) {
			memcpy(&v, at, sizeof(v));
			memcpy(to, &v, sizeof(v));
			low += v & low_half;
			high += v >> 32;
		}
		low += high;
		sum = csum_sum(sum, sum_lanes(&low));
	}
	memcpy(to, at, n);
	return add_tail(sum, at, n);
}

uint16_t csum_update(uint16_t field, uint16_t from, uint16_t to)
{
	uint32_t sum = (uint16_t)~field + (uint32_t)(uint16_t)~from + to;

	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	return (uint16_t)~sum;
}
