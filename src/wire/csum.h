/* The Internet checksum (RFC 1071), fast. A sum is a 64-bit number that stands for a ones'
 * complement sum of 16-bit words in memory order; it is begun with 0, added to, and ended by
 * csum_fold() or csum_finish(). Pieces added one after the other must have even lengths, except the
 * last. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Ones' complement addition of two sums. */
static inline uint64_t csum_sum(uint64_t a, uint64_t b)
{
	uint64_t s = a + b;

	return s + (s < a);
}

/* Adds a 16-bit or 32-bit number in host order, as if it stood in the packet big-endian at an even
 * offset. */
static inline uint64_t csum_add_u16(uint64_t sum, uint16_t v)
{
	return csum_sum(sum, __builtin_bswap16(v));
}

static inline uint64_t csum_add_u32(uint64_t sum, uint32_t v)
{
	return csum_sum(sum, __builtin_bswap32(v));
}

/* The sum as a number in host order, as put_u16() wants it: 0 … 0xffff, not complemented. */
static inline uint16_t csum_fold(uint64_t sum)
{
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	sum = (sum & UINT16_MAX) + (sum >> 16);
	return __builtin_bswap16((uint16_t)sum);
}

/* The checksum field that belongs to the sum. */
static inline uint16_t csum_finish(uint64_t sum)
{
	return (uint16_t)~csum_fold(sum);
}

/* Adds n bytes of a header, n a multiple of 4: where a call costs more than the sum. */
static inline uint64_t csum_add_words(uint64_t sum, const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t words = 0;
	uint32_t w;

	for (; n > 0; at += sizeof(w), n -= sizeof(w)) {
		memcpy(&w, at, sizeof(w));
		words += w;
	}
	return csum_sum(sum, words);
}

/* Adds n bytes. */
uint64_t csum_add(uint64_t sum, const void *p, size_t n);
/* Copies n bytes and adds them, in one pass. The ranges must not overlap. */
uint64_t csum_copy(uint64_t sum, void *restrict dst, const void *restrict src, size_t n);
/* The checksum field after a 16-bit word of what it covers went from `from` to `to` (RFC 1624 3).
 * All in host order. */
uint16_t csum_update(uint16_t field, uint16_t from, uint16_t to);
