/* UTF-8 (RFC 3629): is this text? */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The length of the character that n bytes at p begin with; 0 when they begin with none: overlong
 * forms, surrogates, numbers above U+10FFFF, cut off, or n 0. */
static inline size_t utf8_length(const uint8_t *p, size_t n)
{
	size_t len = 0;

	if (!n)
		return 0;
	if (p[0] < 0x80)
		len = 1;
	else if (p[0] >= 0xc2 && p[0] < 0xf5)
		len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (!len || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}
