/* One tree of prefixes, whose nodes may be shared with other trees: see trie.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"

/* Left-aligned bits of an address. */
struct trie_key {
	uint64_t hi, lo;
};

struct trie_node;

/* What a prefix has: a value, or in a tree of destinations also a tree of sources. */
struct trie_leaf {
	struct trie_node *sources; /* NULL: none */
	uint32_t value;            /* for any source */
	bool any;                  /* it has a value */
};

/* Nodes on the longest way down: one at each multiple of 6 from 0 to 126, as keys have 3 bits in
 * front of 128 (trie.c). A prefix of length 128 ends within the last one. */
enum { TRIE_DEPTH = 22 };

/* Prefixes on the way to an address, for falling back from the longest to shorter ones. */
struct trie_walk {
	const struct trie_node *node[TRIE_DEPTH];
	uint64_t match[TRIE_DEPTH]; /* its leaves that hold the address, the longest highest */
	unsigned int n;
};

struct trie_key trie_key_of(const struct ipaddr *a);

/* One reference more to a tree; NULL is fine. Returns it. */
struct trie_node *trie_share(struct trie_node *root);
/* One less; frees what nobody refers to. NULL is fine. */
void trie_free(struct trie_node *root);

/* The leaf of a prefix, made when it is not there, in nodes that no other tree shares. NULL without
 * memory; the tree then has the same prefixes as before. *root belongs to the caller. */
struct trie_leaf *trie_get(struct trie_node **root, const struct trie_key *key, unsigned int len);
/* The leaf of a prefix, or NULL. */
const struct trie_leaf *trie_find(const struct trie_node *root, const struct trie_key *key,
	unsigned int len);
/* Takes the leaf of a prefix away, which trie_get() gave just before; it must be empty. */
void trie_drop(struct trie_node **root, const struct trie_key *key, unsigned int len);

/* Starts a walk with the prefixes that hold an address, and gives them one after the other, the
 * longest first; NULL at the end. */
void trie_look(const struct trie_node *root, const struct trie_key *key, struct trie_walk *ret);
const struct trie_leaf *trie_next(struct trie_walk *w);
/* The longest prefix that holds an address, or NULL. */
const struct trie_leaf *trie_longest(const struct trie_node *root, const struct trie_key *key);
