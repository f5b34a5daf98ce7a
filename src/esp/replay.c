/* Replay window: see replay.h. RFC 4303 3.4.3, appendix A. */
#include "esp/replay.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum { WORD_BITS = 64 };

/* Bit (number mod bits) of the ring is set when the number was seen. Every number from top - size +
 * 1 to top has a bit of its own, since bits >= size; those that are left of the window are cleared
 * when the window moves over their place. */
struct replay {
	uint64_t top;
	uint32_t size; /* W */
	uint32_t bits; /* of the ring, a power of two, not less than size */
	uint64_t word[];
};

int replay_new(uint32_t size, struct replay **ret)
{
	uint32_t bits = REPLAY_WINDOW_MIN;
	struct replay *r;

	if (size == 0)
		size = REPLAY_WINDOW_DEFAULT;
	if (size < REPLAY_WINDOW_MIN || size > REPLAY_WINDOW_MAX)
		return -EINVAL;
	while (bits < size)
		bits *= 2;
	r = w_calloc(1, sizeof(*r) + bits / WORD_BITS * sizeof(r->word[0]));
	if (!r)
		return -ENOMEM;
	r->size = size;
	r->bits = bits;
	*ret = r;
	return 0;
}

void replay_free(struct replay *r)
{
	w_free(r);
}

uint64_t replay_highest(const struct replay *r)
{
	return r->top;
}

/* RFC 4303 appendix A2.2: the window lies either within one 2^32 subspace (case A) or over two of
 * them (case B). */
uint64_t replay_infer(const struct replay *r, uint32_t low)
{
	uint32_t top_low = (uint32_t)r->top, top_high = (uint32_t)(r->top >> 32);
	uint32_t bottom = top_low - r->size + 1; /* modulo 2^32 */
	uint32_t high;

	if (top_low >= r->size - 1) {
		high = low >= bottom ? top_high : top_high + 1;
		if (high < top_high)
			return 0;
	} else {
		/* There is no subspace before the first: what looks as if from there is far ahead.
		 */
		high = low >= bottom && top_high > 0 ? top_high - 1 : top_high;
	}
	return (uint64_t)high << 32 | low;
}

static bool seen(const struct replay *r, uint64_t seq)
{
	uint32_t bit = (uint32_t)(seq & (r->bits - 1));

	return r->word[bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

enum replay_verdict replay_check(const struct replay *r, uint64_t seq)
{
	if (seq > r->top)
		return REPLAY_NEW;
	if (seq == 0 || r->top - seq >= r->size)
		return REPLAY_OLD;
	return seen(r, seq) ? REPLAY_DUPLICATE : REPLAY_NEW;
}

/* Clears the bits of the n numbers after top; n < bits. */
static void clear_after_top(struct replay *r, uint32_t n)
{
	uint32_t bit = (uint32_t)((r->top + 1) & (r->bits - 1));

	while (n > 0) {
		uint32_t at = bit % WORD_BITS;
		uint32_t take = WORD_BITS - at < n ? WORD_BITS - at : n;
		uint64_t mask = take == WORD_BITS ? UINT64_MAX : (UINT64_C(1) << take) - 1;

		r->word[bit / WORD_BITS] &= ~(mask << at);
		bit = (bit + take) & (r->bits - 1);
		n -= take;
	}
}

enum replay_verdict replay_accept(struct replay *r, uint64_t seq)
{
	enum replay_verdict v = replay_check(r, seq);
	uint32_t bit = (uint32_t)(seq & (r->bits - 1));

	if (v != REPLAY_NEW)
		return v;
	if (seq > r->top) {
		if (seq - r->top >= r->bits)
			memset(r->word, 0, r->bits / WORD_BITS * sizeof(r->word[0]));
		else
			clear_after_top(r, (uint32_t)(seq - r->top));
		r->top = seq;
	}
	r->word[bit / WORD_BITS] |= UINT64_C(1) << bit % WORD_BITS;
	return REPLAY_NEW;
}
