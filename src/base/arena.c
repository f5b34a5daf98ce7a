/* An arena: blocks that are freed together. */
#include "base/arena.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>
#include "base/mem.h"

enum { BLOCK = 4096 };

struct block {
	struct block *next;
	size_t size, used;
	alignas(max_align_t) unsigned char data[];
};

struct arena {
	struct block *first;
};

int arena_new(struct arena **ret)
{
	struct arena *a = w_calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	*ret = a;
	return 0;
}

void arena_free(struct arena *a)
{
	struct block *next;

	if (!a)
		return;
	for (struct block *b = a->first; b; b = next) {
		next = b->next;
		w_free_secret(b, sizeof(*b) + b->size);
	}
	w_free(a);
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct block *b = a->first;
	void *p;

	if (n > SIZE_MAX / 2)
		return NULL;
	n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!b || b->size - b->used < n) {
		size_t size = n > BLOCK ? n : BLOCK;

		b = w_calloc(1, sizeof(*b) + size);
		if (!b)
			return NULL;
		b->size = size;
		b->next = a->first;
		a->first = b;
	}
	p = b->data + b->used;
	b->used += n;
	return p;
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
	if (size && count > SIZE_MAX / 2 / size)
		return NULL;
	return arena_alloc(a, count * size);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = n < SIZE_MAX / 2 ? arena_alloc(a, n + 1) : NULL;

	if (p && n)
		memcpy(p, s, n);
	return p;
}
