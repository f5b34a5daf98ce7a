/* A tree of prefixes with nodes of 64 ways.
 *
 * A node stands at a depth that is a multiple of 6 and decides by the 6 bits there. Prefixes that
 * end within these bits are its leaves, 63 at most: bit (1 << l) - 1 + v of `leaves` is the prefix
 * whose last l bits, l < 6, have the value v. Longer ones are below its children, of which it has
 * as many as there are. A child may stand deeper than the next step, when nothing branches off in
 * between; `key` has the bits up to it. Depths count from 3 bits in front of the address: so the
 * lengths that are most common, 8, 16, 24, 32, 48, 56, 64 and 128, end within nodes and not at
 * their beginning, where each would need a node of its own.
 *
 * Nodes count their references. One with several belongs to several trees and is never changed;
 * what is on the way to a change is copied first. Only the thread that changes trees looks at the
 * counts: those that look prefixes up do not. */
#include "fib/trie_priv.h"

#include <string.h>
#include "base/cur.h"
#include "base/mem.h"

enum { STEP = 6, STEP_MASK = 63, AHEAD = 3, WORD = 64, KEY_BITS = 128 };

struct trie_node {
	uint32_t refs;
	uint32_t at; /* depth */
	struct trie_key key;
	uint64_t children, leaves; /* which there are */
	/* the children, then the leaves */
	struct trie_node *child[];
};

/* In place: what the compiler has for processors without such an instruction is a call. */
static inline unsigned int count_bits(uint64_t x)
{
	x -= x >> 1 & UINT64_C(0x5555555555555555);
	x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
	x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (unsigned int)(x * UINT64_C(0x0101010101010101) >> 56);
}

/* How many of the set bits lie below bit i. */
static unsigned int rank(uint64_t bits, unsigned int i)
{
	return count_bits(bits & ((UINT64_C(1) << i) - 1));
}

static struct trie_leaf *leaf_array(struct trie_node *n)
{
	return (struct trie_leaf *)(n->child + count_bits(n->children));
}

static const struct trie_leaf *leaf_at(const struct trie_node *n, unsigned int i)
{
	return (const struct trie_leaf *)(n->child + count_bits(n->children)) + rank(n->leaves, i);
}

struct trie_key trie_key_of(const struct ipaddr *a)
{
	if (a->family == IP4)
		return (struct trie_key){.hi = (uint64_t)get_u32(a->b) << 32};
	return (struct trie_key){.hi = get_u64(a->b), .lo = get_u64(a->b + 8)};
}

/* The 6 bits at a depth; behind the address there are zeros. */
static inline unsigned int bits_at(const struct trie_key *k, unsigned int at)
{
	enum { TOP = WORD - STEP };
	unsigned int i = at - AHEAD;

	if (at < AHEAD)
		return (unsigned int)(k->hi >> (WORD - (STEP - AHEAD)));
	if (i <= TOP)
		return (unsigned int)(k->hi >> (TOP - i)) & STEP_MASK;
	if (i < WORD)
		return (unsigned int)(k->hi << (i - TOP) | k->lo >> (WORD + TOP - i)) & STEP_MASK;
	i -= WORD;
	if (i <= TOP)
		return (unsigned int)(k->lo >> (TOP - i)) & STEP_MASK;
	return (unsigned int)(k->lo << (i - TOP)) & STEP_MASK;
}

/* The number of bits at the beginning that both have, counted as depths are. */
static unsigned int common(const struct trie_key *a, const struct trie_key *b)
{
	if (a->hi != b->hi)
		return AHEAD + (unsigned int)__builtin_clzll(a->hi ^ b->hi);
	if (a->lo != b->lo)
		return AHEAD + WORD + (unsigned int)__builtin_clzll(a->lo ^ b->lo);
	return AHEAD + KEY_BITS;
}

/* True when the node's prefixes may hold the key: they agree up to its depth. */
static inline bool holds(const struct trie_node *n, const struct trie_key *k)
{
	unsigned int len = n->at - AHEAD;

	if (n->at <= AHEAD)
		return true;
	if (len < WORD)
		return (n->key.hi ^ k->hi) >> (WORD - len) == 0;
	return n->key.hi == k->hi && (len == WORD || (n->key.lo ^ k->lo) >> (KEY_BITS - len) == 0);
}

static unsigned int depth_of(unsigned int bits)
{
	return bits - bits % STEP;
}

/* Which leaf of a node at `at` a prefix is; len as depths are counted. */
static unsigned int leaf_of(const struct trie_key *k, unsigned int at, unsigned int len)
{
	unsigned int l = len - at;

	return (1u << l) - 1 + (bits_at(k, at) >> (STEP - l));
}

/* ---- references ---- */

struct trie_node *trie_share(struct trie_node *root)
{
	if (root)
		root->refs++;
	return root;
}

void trie_free(struct trie_node *root)
{
	const struct trie_leaf *leaf;

	if (!root || --root->refs)
		return;
	leaf = leaf_array(root);
	for (unsigned int i = 0; i < count_bits(root->leaves); i++)
		trie_free(leaf[i].sources);
	for (unsigned int i = 0; i < count_bits(root->children); i++)
		trie_free(root->child[i]);
	w_free(root);
}

/* ---- changes ---- */

static size_t size_of(uint64_t children, uint64_t leaves)
{
	return sizeof(struct trie_node) + count_bits(children) * sizeof(struct trie_node *) +
		count_bits(leaves) * sizeof(struct trie_leaf);
}

static struct trie_node *make(const struct trie_key *key, unsigned int at, uint64_t children,
	uint64_t leaves)
{
	struct trie_node *n = w_calloc(1, size_of(children, leaves));

	if (n)
		*n = (struct trie_node){.refs = 1,
			.at = at,
			.key = *key,
			.children = children,
			.leaves = leaves};
	return n;
}

/* Copies the elements of an array that is to have one more at a place, unless the place is none. */
static void spread(void *to, const void *from, size_t size, unsigned int n, unsigned int hole)
{
	unsigned int before = hole < n ? hole : n;

	memcpy(to, from, before * size);
	if (n > before)
		memcpy((uint8_t *)to + (before + 1) * size, (const uint8_t *)from + before * size,
			(n - before) * size);
}

/* A node like n, with empty places for one more child or leaf (bits that it has already change
 * nothing). The caller's reference to n goes over to it; NULL without memory, then nothing does. */
static struct trie_node *remake(struct trie_node *n, uint64_t child, uint64_t leaf)
{
	struct trie_node *m = make(&n->key, n->at, n->children | child, n->leaves | leaf);
	unsigned int nc = count_bits(n->children), nl = count_bits(n->leaves);
	bool more_children = child & ~n->children, more_leaves = leaf & ~n->leaves;

	if (!m)
		return NULL;
	spread(m->child, n->child, sizeof(m->child[0]), nc,
		more_children ? count_bits(n->children & (child - 1)) : nc);
	spread(leaf_array(m), leaf_array(n), sizeof(struct trie_leaf), nl,
		more_leaves ? count_bits(n->leaves & (leaf - 1)) : nl);
	if (n->refs == 1) {
		w_free(n);
		return m;
	}
	n->refs--;
	for (unsigned int i = 0; i < nc; i++)
		n->child[i]->refs++;
	for (unsigned int i = 0; i < nl; i++)
		(void)trie_share(leaf_array(n)[i].sources);
	return m;
}

/* Puts a node between *at and what it has there, at the depth where a prefix branches off. */
static bool branch(struct trie_node **at, const struct trie_key *key, unsigned int depth)
{
	uint64_t bit = UINT64_C(1) << bits_at(&(*at)->key, depth);
	struct trie_node *n = make(key, depth, bit, 0);

	if (!n)
		return false;
	n->child[0] = *at;
	*at = n;
	return true;
}

/* Room for a leaf in the node *at, which is nobody else's afterwards. */
static struct trie_leaf *leaf_room(struct trie_node **at, unsigned int i)
{
	uint64_t bit = UINT64_C(1) << i;
	struct trie_node *n = *at;

	if (n->refs > 1 || !(n->leaves & bit)) {
		n = remake(n, 0, bit);
		if (!n)
			return NULL;
		*at = n;
	}
	return leaf_array(n) + rank(n->leaves, i);
}

/* A step down on the way to a prefix: the place of the child of *at, which is nobody else's
 * afterwards. A child that is not there is made, at the prefix's depth. */
static struct trie_node **child_room(struct trie_node **at, const struct trie_key *key,
	unsigned int len)
{
	unsigned int i = bits_at(key, (*at)->at);
	uint64_t bit = UINT64_C(1) << i;
	struct trie_node *n = *at, *child = NULL;

	if (!(n->children & bit) && !(child = make(key, depth_of(len), 0, 0)))
		return NULL;
	if (n->refs > 1 || child) {
		n = remake(n, bit, 0);
		if (!n) {
			w_free(child);
			return NULL;
		}
		*at = n;
	}
	if (child)
		n->child[rank(n->children, i)] = child;
	return &n->child[rank(n->children, i)];
}

struct trie_leaf *trie_get(struct trie_node **root, const struct trie_key *key, unsigned int len)
{
	struct trie_node **at = root;

	len += AHEAD;
	if (!*at && !(*at = make(key, depth_of(len), 0, 0)))
		return NULL;
	for (;;) {
		unsigned int same = common(key, &(*at)->key);

		same = same < len ? same : len;
		if (same < (*at)->at && !branch(at, key, depth_of(same)))
			return NULL;
		if (len < (*at)->at + STEP)
			return leaf_room(at, leaf_of(key, (*at)->at, len));
		at = child_room(at, key, len);
		if (!at)
			return NULL;
	}
}

const struct trie_leaf *trie_find(const struct trie_node *root, const struct trie_key *key,
	unsigned int len)
{
	const struct trie_node *n = root;

	len += AHEAD;
	while (n && len >= n->at && holds(n, key)) {
		unsigned int i = len < n->at + STEP ? leaf_of(key, n->at, len)
						    : bits_at(key, n->at);

		if (len < n->at + STEP)
			return n->leaves >> i & 1 ? leaf_at(n, i) : NULL;
		n = n->children >> i & 1 ? n->child[rank(n->children, i)] : NULL;
	}
	return NULL;
}

/* Closes the gap at a place of an array of n elements. */
static void close_gap(void *array, size_t size, unsigned int n, unsigned int i)
{
	uint8_t *at = (uint8_t *)array + i * size;

	memmove(at, at + size, (n - i - 1) * size);
}

static void leaf_out(struct trie_node *n, unsigned int i)
{
	close_gap(leaf_array(n), sizeof(struct trie_leaf), count_bits(n->leaves),
		rank(n->leaves, i));
	n->leaves &= ~(UINT64_C(1) << i);
}

static void child_out(struct trie_node *n, unsigned int i)
{
	unsigned int nc = count_bits(n->children), at = rank(n->children, i);
	size_t after = (nc - at - 1) * sizeof(n->child[0]) +
		count_bits(n->leaves) * sizeof(struct trie_leaf);

	memmove(&n->child[at], &n->child[at + 1], after);
	n->children &= ~(UINT64_C(1) << i);
}

/* All nodes on the way are this tree's alone, since trie_get() came by: none is copied, so nothing
 * can fail. */
void trie_drop(struct trie_node **root, const struct trie_key *key, unsigned int len)
{
	struct trie_node **at[TRIE_DEPTH];
	unsigned int n = 0;

	len += AHEAD;
	for (at[0] = root; len >= (*at[n])->at + STEP; n++) {
		struct trie_node *x = *at[n];

		at[n + 1] = &x->child[rank(x->children, bits_at(key, x->at))];
	}
	leaf_out(*at[n], leaf_of(key, (*at[n])->at, len));
	for (;; n--) {
		struct trie_node *x = *at[n];

		if (!x->leaves && !x->children) {
			w_free(x);
			if (!n) {
				*root = NULL;
				return;
			}
			child_out(*at[n - 1], bits_at(key, (*at[n - 1])->at));
		} else if (!x->leaves && count_bits(x->children) == 1) {
			*at[n] = x->child[0]; /* nothing branches off any more */
			w_free(x);
			return;
		} else {
			return;
		}
	}
}

/* ---- look-ups ---- */

/* The leaves of a node that hold an address whose 6 bits are v: one of each length. */
static inline uint64_t around(unsigned int v)
{
	return UINT64_C(1) | UINT64_C(1) << (1 + (v >> 5)) | UINT64_C(1) << (3 + (v >> 4)) |
		UINT64_C(1) << (7 + (v >> 3)) | UINT64_C(1) << (15 + (v >> 2)) |
		UINT64_C(1) << (31 + (v >> 1));
}

void trie_look(const struct trie_node *root, const struct trie_key *key, struct trie_walk *ret)
{
	const struct trie_node *n = root;

	ret->n = 0;
	while (n && holds(n, key)) {
		unsigned int v = bits_at(key, n->at);
		uint64_t match = n->leaves & around(v);

		if (match) {
			ret->node[ret->n] = n;
			ret->match[ret->n++] = match;
		}
		n = n->children >> v & 1 ? n->child[rank(n->children, v)] : NULL;
	}
}

const struct trie_leaf *trie_next(struct trie_walk *w)
{
	const struct trie_node *n;
	unsigned int i;

	if (!w->n)
		return NULL;
	n = w->node[w->n - 1];
	i = WORD - 1 - (unsigned int)__builtin_clzll(w->match[w->n - 1]);
	w->match[w->n - 1] &= ~(UINT64_C(1) << i);
	if (!w->match[w->n - 1])
		w->n--;
	return leaf_at(n, i);
}

const struct trie_leaf *trie_longest(const struct trie_node *root, const struct trie_key *key)
{
	struct trie_walk w;

	trie_look(root, key, &w);
	return trie_next(&w);
}
