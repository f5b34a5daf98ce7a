/* Timers: a binary heap of intrusive nodes. */
#include "base/heap.h"

#include <errno.h>
#include <stdint.h>
#include "base/mem.h"

static void put(struct heap *h, size_t i, struct heap_slot s)
{
	h->slot[i] = s;
	s.node->place = i + 1;
}

/* Moves the node at i to where it belongs, towards the root or away from it. */
static void settle(struct heap *h, size_t i)
{
	struct heap_slot s = h->slot[i];

	while (i > 0 && wtime_before(s.at, h->slot[(i - 1) / 2].at)) {
		put(h, i, h->slot[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (size_t child = 2 * i + 1; child < h->n; child = 2 * i + 1) {
		if (child + 1 < h->n && wtime_before(h->slot[child + 1].at, h->slot[child].at))
			child++;
		if (!wtime_before(h->slot[child].at, s.at))
			break;
		put(h, i, h->slot[child]);
		i = child;
	}
	put(h, i, s);
}

int heap_push(struct heap *h, struct heap_node *node, wtime at)
{
	enum { FIRST_SLOTS = 16 };

	if (!heap_holds(node)) {
		if (h->n == h->cap) {
			size_t cap = h->cap ? h->cap * 2 : FIRST_SLOTS;
			struct heap_slot *slot;

			if (cap > SIZE_MAX / sizeof(*slot))
				return -ENOMEM;
			slot = w_realloc(h->slot, cap * sizeof(*slot));
			if (!slot)
				return -ENOMEM;
			h->slot = slot;
			h->cap = cap;
		}
		put(h, h->n++, (struct heap_slot){at, node});
	}
	node->at = at;
	h->slot[node->place - 1].at = at;
	settle(h, node->place - 1);
	return 0;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
	size_t i = node->place - 1;

	if (!heap_holds(node))
		return;
	node->place = 0;
	h->n--;
	if (i == h->n)
		return;
	put(h, i, h->slot[h->n]);
	settle(h, i);
}

struct heap_node *heap_peek(const struct heap *h)
{
	return h->n ? h->slot[0].node : NULL;
}

struct heap_node *heap_pop(struct heap *h)
{
	struct heap_node *node = heap_peek(h);

	if (node)
		heap_remove(h, node);
	return node;
}

struct heap_node *heap_pop_due(struct heap *h, wtime now)
{
	struct heap_node *node = heap_peek(h);

	return node && wtime_due(node->at, now) ? heap_pop(h) : NULL;
}

void heap_done(struct heap *h)
{
	for (size_t i = 0; i < h->n; i++)
		h->slot[i].node->place = 0;
	w_free(h->slot);
	*h = (struct heap){0};
}
