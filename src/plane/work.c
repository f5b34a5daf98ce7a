/* The pieces: see work.h. Positions only grow. Who claims position i by a compare-and-exchange has
 * seen it put in, and so all that was written to the piece before; whoever sees the piece done sees
 * all that was done. A place is filled anew in a later round only, when its piece was done. */
#include "plane/work.h"

#include <string.h>

void work_init(struct work *w)
{
	/* Pieces are written before they are read: their pages are touched when they are. */
	memset(w, 0, offsetof(struct work, frame));
}

struct work_piece *work_room(struct work *w)
{
	if (w->put - w->base >= WORK_PIECES)
		return NULL;
	return &w->piece[w->put % WORK_PIECES];
}

uint64_t work_put(struct work *w)
{
	struct work_piece *x = &w->piece[w->put % WORK_PIECES];

	__atomic_store_n(&x->done, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->put, w->put + 1, __ATOMIC_RELEASE);
	return w->put - __atomic_load_n(&w->claimed, __ATOMIC_RELAXED);
}

bool work_waits(const struct work *w)
{
	return __atomic_load_n(&w->claimed, __ATOMIC_RELAXED) !=
		__atomic_load_n(&w->put, __ATOMIC_RELAXED);
}

/* The datagrams of a seal, a few at a time: what was just written is at hand. Nothing goes out
 * behind one that could not be sealed, or that came out of another size than the send's. */
static void seal(struct work_seal *s, const struct tunnel_ops *ops, uint8_t lane)
{
	struct tunnel_seal op[WORK_AT_ONCE];
	bool whole = true;

	s->good = 0;
	for (uint32_t done = 0; whole && done < s->n; done += WORK_AT_ONCE) {
		uint32_t n = s->n - done < WORK_AT_ONCE ? s->n - done : WORK_AT_ONCE;

		for (uint32_t i = 0; i < n; i++) {
			uint32_t k = done + i;

			op[i] = (struct tunnel_seal){.sa = s->sa,
				.seq = s->seq + k,
				.text = s->text + (size_t)k * s->stride,
				.len = k + 1 == s->n ? s->last : s->inner,
				.next_header = s->next_header,
				.lane = lane};
			if (s->cut)
				gso_split_write(s->cut, s->segment + k, op[i].text);
		}
		ops->seal_batch(op, n);
		for (uint32_t i = 0; whole && i < n; i++) {
			s->good += op[i].sealed != 0;
			whole = op[i].sealed == s->stride;
		}
	}
}

static void open(struct work_open *o, const struct tunnel_ops *ops, uint8_t lane)
{
	for (uint32_t i = 0; i < o->n; i++)
		o->op[i].lane = lane;
	ops->open_batch(o->op, o->n);
}

bool work_do(struct work *w, const struct tunnel_ops *ops, uint8_t lane)
{
	uint64_t at = __atomic_load_n(&w->claimed, __ATOMIC_ACQUIRE);
	struct work_piece *x;

	/* Who sees a claim sees that its piece was put in: `put` is never read as less. */
	do {
		if (at == __atomic_load_n(&w->put, __ATOMIC_ACQUIRE))
			return false;
	} while (!__atomic_compare_exchange_n(&w->claimed, &at, at + 1, false, __ATOMIC_ACQ_REL,
		__ATOMIC_ACQUIRE));
	x = &w->piece[at % WORK_PIECES];
	if (x->open)
		open(&x->o, ops, lane);
	else
		seal(&x->s, ops, lane);
	__atomic_store_n(&x->done, 1, __ATOMIC_RELEASE);
	return true;
}
