/* SipHash-2-4 (Aumasson, Bernstein) and an intrusive chained table. */
#include "base/hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include "base/mem.h"

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static uint64_t load_le64(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return le64toh(x);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	sip_round(v);
	sip_round(v);
	v[0] ^= m;
}

uint64_t siphash(const uint8_t key[16], const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
	uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
		k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
	uint8_t tail[8] = {0};
	size_t left = n;

	for (; left >= 8; left -= 8, p += 8)
		sip_word(v, load_le64(p));
	if (left)
		memcpy(tail, p, left);
	tail[7] = (uint8_t)n;
	sip_word(v, load_le64(tail));
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

int hash_init(struct hash *h, const uint8_t key[16])
{
	enum { FIRST_BUCKETS = 16 };
	struct hash_node **bucket = w_calloc(FIRST_BUCKETS, sizeof(*bucket));

	if (!bucket)
		return -ENOMEM;
	*h = (struct hash){.bucket = bucket, .mask = FIRST_BUCKETS - 1};
	memcpy(h->key, key, sizeof(h->key));
	return 0;
}

void hash_done(struct hash *h)
{
	w_free(h->bucket);
	*h = (struct hash){0};
}

static int grow(struct hash *h)
{
	size_t size = (h->mask + 1) * 2;
	struct hash_node **bucket = w_calloc(size, sizeof(*bucket));

	if (!bucket)
		return -ENOMEM;
	for (size_t i = 0; i <= h->mask; i++) {
		struct hash_node *next;

		for (struct hash_node *it = h->bucket[i]; it; it = next) {
			next = it->next;
			it->next = bucket[it->hash & (size - 1)];
			bucket[it->hash & (size - 1)] = it;
		}
	}
	w_free(h->bucket);
	h->bucket = bucket;
	h->mask = size - 1;
	return 0;
}

int hash_add(struct hash *h, struct hash_node *node, const void *p, size_t n)
{
	if (h->count > h->mask) {
		int err = grow(h);

		if (err < 0)
			return err;
	}
	node->hash = siphash(h->key, p, n);
	node->next = h->bucket[node->hash & h->mask];
	h->bucket[node->hash & h->mask] = node;
	h->count++;
	return 0;
}

void hash_del(struct hash *h, struct hash_node *node)
{
	struct hash_node **at = &h->bucket[node->hash & h->mask];

	while (*at && *at != node)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = node->next;
	node->next = NULL;
	h->count--;
}

struct hash_node *hash_find(const struct hash *h, const void *p, size_t n)
{
	uint64_t x = siphash(h->key, p, n);
	struct hash_node *it = h->bucket[x & h->mask];

	while (it && it->hash != x)
		it = it->next;
	return it;
}

struct hash_node *hash_next(const struct hash_node *node)
{
	struct hash_node *it = node->next;

	while (it && it->hash != node->hash)
		it = it->next;
	return it;
}
