/* Forwarding table: longest destination prefix, then longest source prefix (RFC 9079 section 4).
 *
 * Prefixes are intervals that nest or are disjoint. Sorted by first address, then length, the
 * longest prefix that holds an address is the last one that begins at or before it, or one of the
 * prefixes around that one. So a lookup is a binary search over plain keys and a walk up parent
 * indexes, and falling back to the next shorter prefix is one step of the same walk. One such set
 * of destinations a family, and one of sources a destination. */
#include "fib/fib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/cur.h"
#include "base/mem.h"

enum { FIB_NONE = UINT32_MAX, FIB_ENTRIES_MAX = 1 << 28 };

struct fib_key {
	uint64_t hi, lo;
};

/* A prefix of a set; indexes are within the set. */
struct fib_node {
	uint32_t parent; /* the shortest prefix around this one but itself, or FIB_NONE */
	uint32_t first;  /* destination: of its sources in source_key[]; source: the value */
	uint32_t count;  /* destination: number of sources */
	uint8_t len;
};

struct fib_set {
	struct fib_key *key;
	struct fib_node *node;
	uint32_t n;
};

struct fib {
	struct fib_set v4, v6; /* destinations */
	struct fib_set source; /* all sources of all destinations, one range each */
};

static struct fib_key key_of(const struct ipaddr *a)
{
	if (a->family == IP4)
		return (struct fib_key){.hi = (uint64_t)get_u32(a->b) << 32};
	return (struct fib_key){.hi = get_u64(a->b), .lo = get_u64(a->b + 8)};
}

static inline bool key_after(const struct fib_key *a, const struct fib_key *b)
{
	/* Without branches: which way the search goes cannot be foretold. */
	return (a->hi > b->hi) | ((a->hi == b->hi) & (a->lo > b->lo));
}

/* True when the first len bits of both are equal. */
static inline bool key_match(const struct fib_key *a, const struct fib_key *b, unsigned int len)
{
	if (len == 0)
		return true;
	if (len <= 64)
		return (a->hi ^ b->hi) >> (64 - len) == 0;
	if (a->hi != b->hi)
		return false;
	return (a->lo ^ b->lo) >> (128 - len) == 0;
}

/* The longest prefix of n that holds x. */
static uint32_t set_find(const struct fib_key *key, const struct fib_node *node, uint32_t n,
	const struct fib_key *x)
{
	uint32_t base = 0, i;

	if (n == 0)
		return FIB_NONE;
	while (n > 1) {
		uint32_t half = n / 2;

		base += half * (uint32_t)!key_after(&key[base + half], x);
		n -= half;
	}
	if (key_after(&key[base], x))
		return FIB_NONE;
	for (i = base; i != FIB_NONE; i = node[i].parent)
		if (key_match(&key[i], x, node[i].len))
			break;
	return i;
}

bool fib_lookup(const struct fib *f, const struct ipaddr *destination, const struct ipaddr *source,
	uint32_t *ret_value)
{
	const struct fib_set *set = destination->family == IP4 ? &f->v4 : &f->v6;
	struct fib_key d = key_of(destination), s = key_of(source);
	uint32_t i;

	if (destination->family == IP_NONE || destination->family != source->family)
		return false;
	i = set_find(set->key, set->node, set->n, &d);
	for (; i != FIB_NONE; i = set->node[i].parent) {
		const struct fib_node *node = &f->source.node[set->node[i].first];
		uint32_t j = set_find(&f->source.key[set->node[i].first], node, set->node[i].count,
			&s);

		if (j != FIB_NONE) {
			*ret_value = node[j].first;
			return true;
		}
	}
	return false;
}

static int entry_compare(const void *a, const void *b)
{
	const struct fib_entry *x = a, *y = b;
	int r = ipaddr_compare(&x->destination.addr, &y->destination.addr);

	if (r == 0)
		r = (int)x->destination.len - (int)y->destination.len;
	if (r == 0)
		r = ipaddr_compare(&x->source.addr, &y->source.addr);
	return r ? r : (int)x->source.len - (int)y->source.len;
}

/* Appends a prefix, which must sort behind all of the set since `from`, and finds its parent. */
static struct fib_node *set_append(struct fib_set *set, uint32_t from, const struct prefix *p)
{
	uint32_t i = set->n, up = i == from ? FIB_NONE : i - 1 - from;
	struct fib_node *node = &set->node[i];

	set->key[i] = key_of(&p->addr);
	while (up != FIB_NONE &&
		!key_match(&set->key[from + up], &set->key[i], set->node[from + up].len))
		up = set->node[from + up].parent;
	*node = (struct fib_node){.parent = up, .len = p->len};
	set->n++;
	return node;
}

static bool prefix_valid(const struct prefix *p)
{
	struct prefix clean = prefix_of(&p->addr, p->len);

	return p->len <= ipaddr_bits(&p->addr) && prefix_equal(&clean, p);
}

/* Checks an entry and gives its absent source the destination's family. */
static int entry_clean(struct fib_entry *e)
{
	uint8_t family = e->destination.addr.family;

	if (family != IP4 && family != IP6)
		return -EINVAL;
	if (e->source.addr.family == IP_NONE || e->source.len == 0)
		e->source = (struct prefix){.addr = {.family = family}};
	if (e->source.addr.family != family)
		return -EINVAL;
	return prefix_valid(&e->destination) && prefix_valid(&e->source) ? 0 : -EINVAL;
}

static int set_alloc(struct fib_set *set, size_t n)
{
	set->key = w_calloc(n ? n : 1, sizeof(*set->key));
	set->node = w_calloc(n ? n : 1, sizeof(*set->node));
	return set->key && set->node ? 0 : -ENOMEM;
}

static void set_free(struct fib_set *set)
{
	w_free(set->key);
	w_free(set->node);
}

void fib_free(struct fib *f)
{
	if (!f)
		return;
	set_free(&f->v4);
	set_free(&f->v6);
	set_free(&f->source);
	w_free(f);
}

size_t fib_count(const struct fib *f)
{
	return f->source.n;
}

/* Room for as many destinations as there are, which the sorted entries tell. */
static int fib_alloc(struct fib *f, const struct fib_entry *e, size_t n)
{
	size_t v4 = 0, v6 = 0;

	for (size_t i = 0; i < n; i++) {
		if (i > 0 && prefix_equal(&e[i].destination, &e[i - 1].destination))
			continue;
		if (e[i].destination.addr.family == IP4)
			v4++;
		else
			v6++;
	}
	if (set_alloc(&f->v4, v4) < 0 || set_alloc(&f->v6, v6) < 0 || set_alloc(&f->source, n) < 0)
		return -ENOMEM;
	return 0;
}

static void fib_fill(struct fib *f, const struct fib_entry *e, size_t n)
{
	struct fib_node *destination = NULL;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || !prefix_equal(&e[i].destination, &e[i - 1].destination)) {
			struct fib_set *set = e[i].destination.addr.family == IP4 ? &f->v4 : &f->v6;

			destination = set_append(set, 0, &e[i].destination);
			destination->first = f->source.n;
		}
		set_append(&f->source, destination->first, &e[i].source)->first = e[i].value;
		destination->count++;
	}
}

int fib_build(const struct fib_entry *entry, size_t n, struct fib **ret)
{
	struct fib_entry *sorted;
	struct fib *f;
	int r = 0;

	if (n > FIB_ENTRIES_MAX)
		return -ENOMEM;
	sorted = w_calloc(n ? n : 1, sizeof(*sorted));
	f = w_calloc(1, sizeof(*f));
	if (!sorted || !f)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++) {
		sorted[i] = entry[i];
		r = entry_clean(&sorted[i]);
	}
	if (r == 0 && n > 1)
		qsort(sorted, n, sizeof(*sorted), entry_compare);
	for (size_t i = 1; r == 0 && i < n; i++)
		if (entry_compare(&sorted[i - 1], &sorted[i]) == 0)
			r = -EEXIST;
	if (r == 0)
		r = fib_alloc(f, sorted, n);
	if (r == 0) {
		fib_fill(f, sorted, n);
		*ret = f;
	} else {
		fib_free(f);
	}
	w_free(sorted);
	return r;
}
