/* Packets that one plane thread has for another's links: a ring for each pair of threads. What
 * finds no room is dropped, as anywhere. */
#include <string.h>
#include "engine/engine_priv.h"

static struct ring *hand_ring(const struct engine_plane *t, uint32_t number)
{
	return &t->planes[number]->hand[t->config.number];
}

static void hand_commit(struct engine_plane *t, uint32_t number)
{
	uint32_t bit = UINT32_C(1) << number;

	if (!(t->writing & bit))
		return;
	ring_commit(hand_ring(t, number));
	t->writing &= ~bit;
	t->written |= bit;
}

uint8_t *engine_plane_hand(void *plane, uint32_t number, const struct plane_handed *h)
{
	struct engine_plane *t = plane;
	uint8_t *p;

	hand_commit(t, number);
	p = ring_reserve(hand_ring(t, number), sizeof(*h) + h->len);
	if (!p)
		return NULL;
	memcpy(p, h, sizeof(*h));
	t->writing |= UINT32_C(1) << number;
	return p + sizeof(*h);
}

void engine_plane_hand_over(struct engine_plane *t)
{
	for (uint32_t i = 0; t->writing && i < t->config.planes; i++)
		hand_commit(t, i);
	for (uint32_t i = 0; t->written && i < t->config.planes; i++)
		if (t->written & UINT32_C(1) << i)
			engine_plane_wake(t->planes[i]);
	t->written = 0;
}

bool engine_plane_take(struct engine_plane *t, wtime now)
{
	bool some = false;

	for (uint32_t i = 0; t->config.planes > 1 && i < t->config.planes; i++) {
		struct plane_handed h;
		uint8_t *p;
		size_t n;

		for (int j = 0; i != t->config.number && j < ENGINE_HANDED &&
			!plane_full(t->plane) && (p = ring_peek(&t->hand[i], &n));
			j++) {
			memcpy(&h, p, sizeof(h));
			plane_input_handed(t->plane, &h, p + sizeof(h), now);
			ring_consume(&t->hand[i]);
			some = true;
		}
	}
	return some;
}

bool engine_plane_none_handed(const struct engine_plane *t)
{
	for (uint32_t i = 0; t->config.planes > 1 && i < t->config.planes; i++)
		if (i != t->config.number && !ring_empty(&t->hand[i]))
			return false;
	return true;
}
