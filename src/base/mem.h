/* Memory: the only door to the heap, and the zeroing of secrets. */
#pragma once
#include <stddef.h>

/* Allocates n bytes, uninitialised. NULL when out of memory. Free with w_free(). */
void *w_alloc(size_t n);
/* Allocates count * size bytes, zeroed. NULL when out of memory or on overflow. */
void *w_calloc(size_t count, size_t size);
/* Grows or shrinks a block (p may be NULL). NULL leaves p untouched and owned by the caller. */
void *w_realloc(void *p, size_t n);
/* Copies n bytes into a new block (n 0: one byte, so that NULL always means no memory). */
void *w_memdup(const void *p, size_t n);
/* Copies a string. NULL when out of memory. */
char *w_strdup(const char *s);
/* Frees a block; NULL is fine. */
void w_free(void *p);
/* Overwrites n bytes in a way that the compiler may not remove. */
void w_zeroize(void *p, size_t n);
/* Zeroes n bytes, then frees. NULL is fine. */
void w_free_secret(void *p, size_t n);
/* Compares n bytes in constant time: 1 when equal. */
int w_equal_secret(const void *a, const void *b, size_t n);
