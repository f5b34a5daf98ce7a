/* Timers: a binary heap ordered by time. Nodes are embedded in the caller's objects, whose memory
 * it never owns, and know their place, so that one can be moved or taken out without a search. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/time.h"

/* Zero-initialise to start: in no heap. */
struct heap_node {
	wtime at;
	size_t place; /* 1-based; 0: in no heap */
};

/* A node and, beside it, its time: to order the heap touches no memory of the caller's. */
struct heap_slot {
	wtime at;
	struct heap_node *node;
};

/* Zero-initialise to start: empty. */
struct heap {
	struct heap_slot *slot; /* slot[0] is the earliest */
	size_t n, cap;
};

/* Puts node in for time at, or moves it there when it is in already (which cannot fail). node is
 * borrowed until it is popped or removed. 0, or -ENOMEM: the heap is unchanged. Among equal times
 * the order is unspecified, but the same for the same history of calls. */
int heap_push(struct heap *h, struct heap_node *node, wtime at);
/* Takes node out; harmless when it is in no heap. It must not be in another one. */
void heap_remove(struct heap *h, struct heap_node *node);
/* The earliest node, which stays in; NULL when empty. */
struct heap_node *heap_peek(const struct heap *h);
/* Takes the earliest node out; NULL when empty. */
struct heap_node *heap_pop(struct heap *h);
/* As heap_pop, but only a node whose time has come at now; else NULL. */
struct heap_node *heap_pop_due(struct heap *h, wtime now);
/* Takes all nodes out and frees what the heap itself holds; it is usable again. */
void heap_done(struct heap *h);

/* The time of the earliest node; never when empty. */
static inline wtime heap_next(const struct heap *h)
{
	return h->n ? h->slot[0].at : WTIME_NEVER;
}

static inline bool heap_holds(const struct heap_node *node)
{
	return node->place != 0;
}
