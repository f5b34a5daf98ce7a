/* An arena: many small allocations that end together, as those of one configuration do. */
#pragma once
#include <stddef.h>

struct arena;

/* 0 or -ENOMEM. */
int arena_new(struct arena **ret);
/* Zeroes and frees all that was allocated from it. NULL is fine. */
void arena_free(struct arena *a);
/* Zeroed memory, aligned for anything; NULL without memory. Lives as long as the arena. */
void *arena_alloc(struct arena *a, size_t n);
/* Zeroed array; NULL without memory or on overflow. */
void *arena_calloc(struct arena *a, size_t count, size_t size);
/* Copies n bytes and appends a zero. NULL without memory. */
char *arena_strndup(struct arena *a, const char *s, size_t n);
