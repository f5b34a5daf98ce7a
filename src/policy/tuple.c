/* Rules sorted by their pair of prefix lengths: those of one pair are found by a hash of both
 * addresses, cut to these lengths. Pairs are few (people write /0, /16, /24, /32), whatever the
 * number of rules, and are tried from the longest on, so the first hit is the rule. */
#include "policy/tuple_priv.h"

#include <errno.h>
#include <stdlib.h>
#include "base/cur.h"
#include "base/mem.h"

enum { PAIRS_MAX = 12, EMPTY = 0 };

struct mask {
	uint64_t hi, lo;
};

/* Rules of one pair of lengths. */
struct lengths {
	uint8_t destination, source;
	struct mask d, s;
};

struct slot {
	uint64_t d_hi, d_lo, s_hi, s_lo;
	uint32_t pair, value; /* pair: its index + 1, or EMPTY */
};

struct tuple_table {
	uint32_t pairs, mask;
	struct lengths pair[PAIRS_MAX]; /* the longest first */
	struct slot *slot;
};

static struct mask mask_of(unsigned int len)
{
	struct mask m = {0};

	if (len > 0)
		m.hi = len >= 64 ? UINT64_MAX : UINT64_MAX << (64 - len);
	if (len > 64)
		m.lo = UINT64_MAX << (128 - len);
	return m;
}

/* IPv4 stands in the first four bytes, the others are zero. */
static struct mask bits_of(const struct ipaddr *a)
{
	return (struct mask){.hi = get_u64(a->b), .lo = get_u64(a->b + 8)};
}

static uint64_t hash_of(const struct slot *k)
{
	uint64_t h = (k->d_hi ^ k->pair) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 29 ^ k->d_lo) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 32 ^ k->s_hi) * UINT64_C(0x94d049bb133111eb);
	h = (h ^ h >> 29 ^ k->s_lo) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

static struct slot key_of(const struct lengths *l, uint32_t pair, const struct mask *d,
	const struct mask *s)
{
	return (struct slot){.d_hi = d->hi & l->d.hi,
		.d_lo = d->lo & l->d.lo,
		.s_hi = s->hi & l->s.hi,
		.s_lo = s->lo & l->s.lo,
		.pair = pair + 1};
}

static bool same(const struct slot *a, const struct slot *b)
{
	return ((a->d_hi ^ b->d_hi) | (a->d_lo ^ b->d_lo) | (a->s_hi ^ b->s_hi) |
		       (a->s_lo ^ b->s_lo) | (a->pair ^ b->pair)) == 0;
}

bool tuple_find(const struct tuple_table *t, const struct ipaddr *destination,
	const struct ipaddr *source, uint32_t *ret)
{
	struct mask d = bits_of(destination), s = bits_of(source);

	for (uint32_t i = 0; i < t->pairs; i++) {
		struct slot key = key_of(&t->pair[i], i, &d, &s);
		uint32_t at = (uint32_t)hash_of(&key) & t->mask;

		for (; t->slot[at].pair != EMPTY; at = (at + 1) & t->mask)
			if (same(&t->slot[at], &key)) {
				*ret = t->slot[at].value;
				return true;
			}
	}
	return false;
}

/* The place of a pair of lengths among those known, or where it is to be put. */
static uint32_t pair_place(const struct tuple_table *t, const struct fib_entry *e)
{
	uint32_t i = 0;

	while (i < t->pairs &&
		(t->pair[i].destination > e->destination.len ||
			(t->pair[i].destination == e->destination.len &&
				t->pair[i].source > e->source.len)))
		i++;
	return i;
}

static bool pair_is(const struct tuple_table *t, uint32_t i, const struct fib_entry *e)
{
	return i < t->pairs && t->pair[i].destination == e->destination.len &&
		t->pair[i].source == e->source.len;
}

/* Collects the pairs of lengths; false when there are too many. */
static bool collect(struct tuple_table *t, const struct fib_entry *entry, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const struct fib_entry *e = &entry[k];
		uint32_t i = pair_place(t, e);

		if (pair_is(t, i, e))
			continue;
		if (t->pairs == PAIRS_MAX)
			return false;
		memmove(&t->pair[i + 1], &t->pair[i], (t->pairs - i) * sizeof(t->pair[0]));
		t->pairs++;
		t->pair[i] = (struct lengths){.destination = e->destination.len,
			.source = e->source.len,
			.d = mask_of(e->destination.len),
			.s = mask_of(e->source.len)};
	}
	return true;
}

static void insert(struct tuple_table *t, const struct fib_entry *e)
{
	uint32_t i = pair_place(t, e), at;
	struct mask d = bits_of(&e->destination.addr), s = bits_of(&e->source.addr);
	struct slot key = key_of(&t->pair[i], i, &d, &s);

	key.value = e->value;
	at = (uint32_t)hash_of(&key) & t->mask;
	while (t->slot[at].pair != EMPTY)
		at = (at + 1) & t->mask;
	t->slot[at] = key;
}

int tuple_build(const struct fib_entry *entry, size_t n, struct tuple_table **ret)
{
	struct tuple_table *t = w_calloc(1, sizeof(*t));
	size_t slots = 16;

	if (!t)
		return -ENOMEM;
	if (!collect(t, entry, n)) {
		tuple_free(t);
		*ret = NULL;
		return 0;
	}
	while (slots < 4 * n)
		slots *= 2;
	t->mask = (uint32_t)(slots - 1);
	t->slot = w_calloc(slots, sizeof(*t->slot));
	if (!t->slot) {
		tuple_free(t);
		return -ENOMEM;
	}
	for (size_t k = 0; k < n; k++)
		insert(t, &entry[k]);
	*ret = t;
	return 0;
}

void tuple_free(struct tuple_table *t)
{
	if (!t)
		return;
	w_free(t->slot);
	w_free(t);
}
