/* SipHash-2-4, for tables whose keys an outsider chooses, and a small intrusive hash table. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* 64-bit SipHash-2-4 of n bytes under a 16-byte key. */
uint64_t siphash(const uint8_t key[16], const void *p, size_t n);

struct hash_node {
	struct hash_node *next;
	uint64_t hash;
};

/* Chained table; nodes are embedded in the caller's objects, whose memory it never owns. */
struct hash {
	struct hash_node **bucket;
	size_t mask, count;
	uint8_t key[16];
};

/* Sets up an empty table keyed by key (16 random bytes, copied). 0 or -ENOMEM. */
int hash_init(struct hash *h, const uint8_t key[16]);
/* Frees the buckets (not the nodes). */
void hash_done(struct hash *h);
/* Inserts a node under the hash of the n key bytes at p. 0 or -ENOMEM; duplicates are allowed. */
int hash_add(struct hash *h, struct hash_node *node, const void *p, size_t n);
/* Removes a node that is in the table. */
void hash_del(struct hash *h, struct hash_node *node);
/* First node with the hash of these key bytes; the caller compares keys and goes on with
 * hash_next(). NULL when there is none. */
struct hash_node *hash_find(const struct hash *h, const void *p, size_t n);
/* Next node with the same hash, or NULL. */
struct hash_node *hash_next(const struct hash_node *node);
