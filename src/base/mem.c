/* Memory: the only door to the heap, and the zeroing of secrets. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *w_alloc(size_t n)
{
	return malloc(n ? n : 1);
}

void *w_calloc(size_t count, size_t size)
{
	size_t n;

	/* calloc checks this, too, but a sanitizer's ends the program */
	if (__builtin_mul_overflow(count, size, &n))
		return NULL;
	return calloc(1, n ? n : 1);
}

void *w_realloc(void *p, size_t n)
{
	return realloc(p, n ? n : 1);
}

void *w_memdup(const void *p, size_t n)
{
	void *q = w_alloc(n);

	if (q && n)
		memcpy(q, p, n);
	return q;
}

char *w_strdup(const char *s)
{
	return w_memdup(s, strlen(s) + 1);
}

void w_free(void *p)
{
	free(p);
}

void w_zeroize(void *p, size_t n)
{
	if (!n)
		return;
	memset(p, 0, n);
	__asm__ __volatile__("" : : "r"(p) : "memory");
}

void w_free_secret(void *p, size_t n)
{
	if (!p)
		return;
	w_zeroize(p, n);
	free(p);
}

int w_equal_secret(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;
	uint64_t diff = 0, v, w;

	for (; n >= sizeof(v); x += sizeof(v), y += sizeof(w), n -= sizeof(v)) {
		memcpy(&v, x, sizeof(v));
		memcpy(&w, y, sizeof(w));
		diff |= v ^ w;
	}
	for (size_t i = 0; i < n; i++)
		diff |= x[i] ^ y[i];
	return diff == 0;
}
