/* See books.h. Everything here is outside the accounts: it allocates with malloc(). */
#include "books.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/mem.h"
#include "crypto/crypto.h"
#include "esp/esp.h"
#include "node/node.h"

/* What is known of one key, by its hash, as long as the books run. */
struct key {
	uint64_t hash;
	uint64_t owner; /* serial of the context that sealed first; 0: none */
	uint64_t last;  /* IV */
};

enum { HUNTED = 16, HUNTED_BYTES = 16 };

/* A context that is alive, or an SA and the numbers that it has taken. */
struct live {
	const void *p;
	uint64_t serial;
	size_t key;
	bool counter_iv;
	uint8_t *seen; /* bits */
	size_t seen_bytes;
};

static struct {
	struct books b;
	struct key *key;
	size_t keys, key_cap;
	struct live *live;
	size_t lives, live_cap;
	uint64_t serial;
	uint64_t reload_fails, fails; /* that allocation; 0: none */
	bool failed;
	bool hunts;
	uint8_t hunted[HUNTED][HUNTED_BYTES]; /* the beginnings of the last keys */
	uint64_t hunteds;
	enum books_wrong wrong;
	uint64_t turn;
} my;

const struct books *books(void)
{
	return &my.b;
}

void books_do_wrong(enum books_wrong w)
{
	my.wrong = w;
}

static void must(bool ok)
{
	if (!ok) {
		fprintf(stderr, "books: no memory\n");
		abort();
	}
}

void books_reset(void)
{
	struct books fresh = {.blocks = my.b.blocks, .bytes = my.b.bytes};

	for (size_t i = 0; i < my.live_cap; i++)
		if (my.live[i].p)
			free(my.live[i].seen);
	free(my.live);
	free(my.key);
	memset(&my, 0, sizeof(my));
	my.b = fresh;
}

/* ---- memory ---- */

void *__real_w_alloc(size_t n);
void *__real_w_calloc(size_t count, size_t size);
void *__real_w_realloc(void *p, size_t n);
void *__real_w_memdup(const void *p, size_t n);
char *__real_w_strdup(const char *s);
void __real_w_free(void *p);
void __real_w_free_secret(void *p, size_t n);

void *__wrap_w_alloc(size_t n);
void *__wrap_w_calloc(size_t count, size_t size);
void *__wrap_w_realloc(void *p, size_t n);
void *__wrap_w_memdup(const void *p, size_t n);
char *__wrap_w_strdup(const char *s);
void __wrap_w_free(void *p);
void __wrap_w_free_secret(void *p, size_t n);

/* Whether this allocation is the one that fails. */
static bool fails(void)
{
	if (my.fails == 0 || --my.fails > 0)
		return false;
	my.failed = true;
	return true;
}

static void *came(void *p)
{
	my.b.blocks += p != NULL;
	my.b.bytes += (int64_t)malloc_usable_size(p);
	return p;
}

static void goes(void *p)
{
	my.b.blocks -= p != NULL;
	my.b.bytes -= (int64_t)malloc_usable_size(p);
}

void books_hunt_keys(void)
{
	my.hunts = true;
}

/* Looks at a block that is given back as it is. */
static void search(const void *p)
{
	size_t n = my.hunts && p ? malloc_usable_size((void *)(uintptr_t)p) : 0;

	for (size_t i = 0; n && i < HUNTED && i < my.hunteds; i++)
		if (memmem(p, n, my.hunted[i], HUNTED_BYTES)) {
			my.b.keys_left++;
			return;
		}
}

void books_fail_reload(uint64_t n)
{
	my.reload_fails = n;
	my.failed = false;
}

bool books_failed(void)
{
	return my.failed;
}

int __real_node_reload(struct node *n, const struct node_reload *r, wtime now, struct buf *report);
int __wrap_node_reload(struct node *n, const struct node_reload *r, wtime now, struct buf *report);

int __wrap_node_reload(struct node *n, const struct node_reload *r, wtime now, struct buf *report)
{
	int err;

	my.fails = my.reload_fails;
	err = __real_node_reload(n, r, now, report);
	my.fails = my.reload_fails = 0;
	return err;
}

void *__wrap_w_alloc(size_t n)
{
	return fails() ? NULL : came(__real_w_alloc(n));
}

void *__wrap_w_calloc(size_t count, size_t size)
{
	return fails() ? NULL : came(__real_w_calloc(count, size));
}

void *__wrap_w_realloc(void *p, size_t n)
{
	int64_t old = (int64_t)malloc_usable_size(p);
	bool fresh = !p;
	void *q;

	search(p); /* it may move */
	q = fails() ? NULL : __real_w_realloc(p, n);

	if (!q)
		return NULL;
	my.b.blocks += fresh;
	my.b.bytes += (int64_t)malloc_usable_size(q) - old;
	return q;
}

void *__wrap_w_memdup(const void *p, size_t n)
{
	return fails() ? NULL : came(__real_w_memdup(p, n));
}

char *__wrap_w_strdup(const char *s)
{
	return fails() ? NULL : came(__real_w_strdup(s));
}

void __wrap_w_free(void *p)
{
	search(p);
	goes(p);
	__real_w_free(p);
}

void __wrap_w_free_secret(void *p, size_t n)
{
	if (my.wrong == BOOKS_KEY_LEFT)
		search(p);
	goes(p);
	__real_w_free_secret(p, n);
}

/* ---- what is alive, by address: open addressing ---- */

static size_t home(const void *p, size_t cap)
{
	return ((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) % cap;
}

static struct live *find(const void *p)
{
	if (!my.live_cap)
		return NULL;
	for (size_t i = home(p, my.live_cap); my.live[i].p; i = (i + 1) % my.live_cap)
		if (my.live[i].p == p)
			return &my.live[i];
	return NULL;
}

static struct live *put(const struct live *l)
{
	size_t i = home(l->p, my.live_cap);

	while (my.live[i].p)
		i = (i + 1) % my.live_cap;
	my.live[i] = *l;
	return &my.live[i];
}

static void drop(const void *p)
{
	struct live *l = find(p);
	size_t hole;

	if (!l)
		return;
	free(l->seen);
	hole = (size_t)(l - my.live);
	l->p = NULL;
	my.lives--;
	/* what follows without a gap may belong further up */
	for (size_t i = (hole + 1) % my.live_cap; my.live[i].p; i = (i + 1) % my.live_cap) {
		struct live moved = my.live[i];

		my.live[i].p = NULL;
		(void)put(&moved);
	}
}

static struct live *add(const struct live *l)
{
	struct live *old;
	size_t cap = my.live_cap;

	drop(l->p); /* an SA of a node that was killed was never removed */
	old = my.live;
	if (2 * (my.lives + 1) > cap) {
		my.live_cap = cap ? 2 * cap : 1024;
		my.live = calloc(my.live_cap, sizeof(*my.live));
		must(my.live != NULL);
		for (size_t i = 0; i < cap; i++)
			if (old[i].p)
				(void)put(&old[i]);
		free(old);
	}
	my.lives++;
	return put(l);
}

/* ---- keys ---- */

int __real_aead_new(const struct crypto_backend *b, enum aead_id id, struct view key,
	struct view auth, enum aead_use use, struct aead **ret);
void __real_aead_free(struct aead *a);
size_t __real_aead_seal(struct aead_op *op, size_t n);
int __wrap_aead_new(const struct crypto_backend *b, enum aead_id id, struct view key,
	struct view auth, enum aead_use use, struct aead **ret);
void __wrap_aead_free(struct aead *a);
size_t __wrap_aead_seal(struct aead_op *op, size_t n);

/* The place of a key. Keys come in order of time; the last ones are the ones that are asked for. */
static size_t key_of(uint64_t hash)
{
	for (size_t i = my.keys; i-- > 0;)
		if (my.key[i].hash == hash)
			return i;
	if (my.keys == my.key_cap) {
		my.key_cap = my.key_cap ? 2 * my.key_cap : 1024;
		my.key = realloc(my.key, my.key_cap * sizeof(*my.key));
		must(my.key != NULL);
	}
	my.key[my.keys] = (struct key){.hash = hash};
	return my.keys++;
}

int __wrap_aead_new(const struct crypto_backend *b, enum aead_id id, struct view key,
	struct view auth, enum aead_use use, struct aead **ret)
{
	static const uint8_t sip[16] = "weft books";
	uint64_t mix[2] = {siphash(sip, key.p, key.n), siphash(sip, auth.p, auth.n)};
	int err = __real_aead_new(b, id, key, auth, use, ret);

	if (err == 0 && key.n >= HUNTED_BYTES)
		memcpy(my.hunted[my.hunteds++ % HUNTED], key.p, HUNTED_BYTES);
	if (err == 0) {
		const struct live l = {
			.p = *ret,
			.serial = ++my.serial,
			.key = key_of(siphash(sip, mix, sizeof(mix))),
			.counter_iv = aead_info(id)->counter_iv,
		};

		(void)add(&l);
		my.b.contexts++;
	}
	return err;
}

void __wrap_aead_free(struct aead *a)
{
	drop(a);
	__real_aead_free(a);
}

static void sealed(const struct aead_op *op)
{
	const struct live *l = find(op->ctx);
	struct key *k;
	uint64_t iv;

	my.b.seals++;
	if (!l || !l->counter_iv)
		return;
	k = &my.key[l->key];
	iv = get_u64(op->iv);
	my.b.iv_again += k->owner && iv <= k->last;
	my.b.key_shared += k->owner && k->owner != l->serial;
	k->owner = l->serial;
	k->last = iv;
}

size_t __wrap_aead_seal(struct aead_op *op, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sealed(&op[i]);
	for (size_t i = 0; i < n && my.wrong == BOOKS_PLAIN; i++)
		op[i].result = 0;
	if (my.wrong == BOOKS_PLAIN)
		return n;
	return __real_aead_seal(op, n);
}

/* ---- numbers that an SA takes in ---- */

static bool mark(struct live *l, uint64_t seq)
{
	size_t at = seq / 8;
	bool was;

	if (at >= l->seen_bytes) {
		size_t bytes = 2 * at + 64;

		l->seen = realloc(l->seen, bytes);
		must(l->seen != NULL);
		memset(l->seen + l->seen_bytes, 0, bytes - l->seen_bytes);
		l->seen_bytes = bytes;
	}
	was = (l->seen[at] >> (seq % 8)) & 1;
	l->seen[at] |= (uint8_t)(1u << (seq % 8));
	return was;
}

static int add_sa(void *table, struct tunnel_sa *sa)
{
	int err = esp_ops()->add(table, sa);

	if (err == 0)
		(void)add(&(struct live){.p = sa});
	return err;
}

static void remove_sa(void *table, struct tunnel_sa *sa)
{
	drop(sa);
	esp_ops()->remove(table, sa);
}

static enum drop_reason accept_one(struct tunnel_open *op)
{
	enum drop_reason r = esp_ops()->accept(op);
	struct live *l = find(op->sa);

	if (r != DROP_NONE || !l)
		return r;
	my.b.accepted++;
	my.b.accepted_twice += mark(l, op->seq);
	if (my.wrong == BOOKS_ACCEPT_AGAIN)
		my.b.accepted_twice += mark(l, op->seq);
	return r;
}

static enum tunnel_limit reserve(struct tunnel_sa *sa, uint32_t n, uint64_t *ret_first)
{
	enum tunnel_limit r = esp_ops()->reserve(sa, n, ret_first);

	if (my.wrong == BOOKS_NUMBER_AGAIN && r == TUNNEL_OK && *ret_first > 1 &&
		++my.turn % 16 == 0)
		--*ret_first;
	return r;
}

const struct tunnel_ops *books_ops(void)
{
	static struct tunnel_ops ops;

	ops = *esp_ops();
	ops.add = add_sa;
	ops.remove = remove_sa;
	ops.accept = accept_one;
	ops.reserve = reserve;
	return &ops;
}
