/* Cursors, buffers, lists, the hash table, time, memory and the seeded rng. */
#include "base/buf.h"
#include "base/cur.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/time.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const uint8_t bytes[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void reads_are_big_endian(void **state)
{
	struct cur c = cur_of(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(cur_u8(&c), 1);
	assert_int_equal(cur_u16(&c), 0x0203);
	assert_int_equal(cur_u32(&c), 0x04050607);
	assert_true(cur_u64(&c) == UINT64_C(0x08090a0b0c0d0e0f));
	assert_int_equal(c.n, 0);
	assert_false(c.bad);
	assert_int_equal(cur_rest(&c).n, 0);
	assert_false(c.bad);
}

/* Every read one byte too long fails, gives zeros, and leaves the cursor bad for good. */
static void reads_past_the_end_are_bad(void **state)
{
	(void)state;
	for (size_t n = 0; n < 8; n++) {
		struct cur c8 = cur_of(bytes, n), c4 = cur_of(bytes, n), c2 = cur_of(bytes, n);
		struct cur c1 = cur_of(bytes, n), sub, copy = cur_of(bytes, n);
		uint8_t out[8], zero[8] = {0};

		assert_true(cur_u64(&c8) == 0 && c8.bad);
		assert_true(n >= 4 || (cur_u32(&c4) == 0 && c4.bad));
		assert_true(n >= 2 || (cur_u16(&c2) == 0 && c2.bad));
		assert_true(n >= 1 || (cur_u8(&c1) == 0 && c1.bad));
		memset(out, 0xff, sizeof(out));
		cur_copy(&copy, out, n + 1);
		assert_memory_equal(out, zero, n + 1);
		assert_int_equal(cur_take(&copy, 0).n, 0);
		assert_true(copy.bad);
		c1 = cur_of(bytes, n);
		sub = cur_sub(&c1, n + 1);
		assert_true(c1.bad && sub.bad && sub.n == 0);
		c1 = cur_of(bytes, n);
		cur_skip(&c1, SIZE_MAX);
		assert_true(c1.bad);
	}
}

static void a_sub_cursor_ends_where_it_should(void **state)
{
	struct cur c = cur_of(bytes, sizeof(bytes)), sub = cur_sub(&c, 3);

	(void)state;
	assert_int_equal(cur_u16(&sub), 0x0102);
	assert_int_equal(cur_u16(&sub), 0);
	assert_true(sub.bad);
	assert_false(c.bad);
	assert_int_equal(cur_u8(&c), 4);
}

static void writes_stop_at_the_end(void **state)
{
	uint8_t out[16];
	struct wcur w = wcur_of(out, 15);

	(void)state;
	memset(out, 0xee, sizeof(out));
	wcur_u8(&w, 1);
	wcur_u16(&w, 0x0203);
	wcur_u32(&w, 0x04050607);
	wcur_u64(&w, UINT64_C(0x08090a0b0c0d0e0f));
	assert_false(w.full);
	assert_memory_equal(out, bytes, 15);
	wcur_bytes(&w, NULL, 0);
	assert_false(w.full);
	wcur_u8(&w, 1);
	assert_true(w.full);
	assert_int_equal(out[15], 0xee);
	w = wcur_of(out, 3);
	wcur_u32(&w, 0xaaaaaaaa); /* nothing of what does not fit is written */
	assert_true(w.full);
	assert_int_equal(out[0], 1);
	wcur_u8(&w, 9); /* and it stays full */
	assert_int_equal(wcur_written(&w).n, 0);
	w = wcur_of(out, 3);
	assert_null(wcur_room(&w, SIZE_MAX));
	assert_true(w.full);
}

static void numbers_in_place(void **state)
{
	uint8_t out[8];

	(void)state;
	put_u64(out, UINT64_C(0x0102030405060708));
	assert_memory_equal(out, bytes, 8);
	assert_true(get_u64(out) == UINT64_C(0x0102030405060708));
	assert_int_equal(get_u32(out), 0x01020304);
	assert_int_equal(get_u16(out), 0x0102);
	assert_true(view_equal(view_of(out, 8), view_of(bytes, 8)));
	assert_false(view_equal(view_of(out, 8), view_of(bytes, 7)));
	assert_true(view_equal((struct view){0}, view_of(bytes, 0)));
}

static void buffers_grow(void **state)
{
	struct buf b = {0};

	(void)state;
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d,", i);
	buf_add_str(&b, "end");
	buf_add(&b, NULL, 0);
	assert_false(b.failed);
	assert_int_equal(b.n, 10 * 2 + 90 * 3 + 900 * 4 + 3);
	assert_int_equal(b.p[b.n], 0);
	assert_memory_equal(b.p + b.n - 7, "999,end", 7);
	assert_null(buf_room(&b, SIZE_MAX / 2));
	assert_true(b.failed);
	buf_add_str(&b, "x");
	assert_int_equal(b.n, 3893);
	buf_free_secret(&b);
	assert_int_equal(buf_view(&b).n, 0);
	buf_add_str(&b, "again");
	assert_false(b.failed);
	assert_true(view_equal(buf_view(&b), view_of("again", 5)));
	buf_free(&b);
}

struct item {
	struct list link;
	int n;
};

static void lists_keep_order(void **state)
{
	struct item items[4];
	struct list head;
	int want = 1;

	(void)state;
	list_init(&head);
	assert_true(list_empty(&head));
	for (int i = 0; i < 4; i++)
		items[i].n = i;
	list_add_tail(&head, &items[2].link);
	list_add_head(&head, &items[1].link);
	list_add_tail(&head, &items[3].link);
	list_add_head(&head, &items[0].link);
	list_del(&items[0].link);
	list_del(&items[0].link);
	list_for_each (it, &head)
		assert_int_equal(container_of(it, struct item, link)->n, want++);
	assert_int_equal(want, 4);
	list_for_each_safe (it, &head)
		if (container_of(it, struct item, link)->n != 2)
			list_del(it);
	assert_ptr_equal(head.next, &items[2].link);
	assert_ptr_equal(head.prev, &items[2].link);
	list_del(&items[2].link);
	assert_true(list_empty(&head));
}

/* The reference implementation's first outputs for key 00..0f and messages 00, 0001, … of growing
 * length, as numbers. */
static void siphash_reference_values(void **state)
{
	static const uint64_t want[16] = {UINT64_C(0x726fdb47dd0e0e31),
		UINT64_C(0x74f839c593dc67fd), UINT64_C(0x0d6c8009d9a94f5a),
		UINT64_C(0x85676696d7fb7e2d), UINT64_C(0xcf2794e0277187b7),
		UINT64_C(0x18765564cd99a68d), UINT64_C(0xcbc9466e58fee3ce),
		UINT64_C(0xab0200f58b01d137), UINT64_C(0x93f5f5799a932462),
		UINT64_C(0x9e0082df0ba9e4b0), UINT64_C(0x7a5dbbc594ddb9f3),
		UINT64_C(0xf4b32f46226bada7), UINT64_C(0x751e8fbc860ee5fb),
		UINT64_C(0x14ea5627c0843d90), UINT64_C(0xf723ca908e7af2ee),
		UINT64_C(0xa129ca6149be45e5)};
	uint8_t key[16], message[16];

	(void)state;
	for (uint8_t i = 0; i < 16; i++)
		key[i] = message[i] = i;
	for (size_t n = 0; n < 16; n++)
		assert_true(siphash(key, message, n) == want[n]);
}

struct entry {
	struct hash_node node;
	uint32_t key;
	bool in;
};

static struct entry *find(const struct hash *h, uint32_t key)
{
	struct hash_node *it = hash_find(h, &key, sizeof(key));

	while (it && container_of(it, struct entry, node)->key != key)
		it = hash_next(it);
	return it ? container_of(it, struct entry, node) : NULL;
}

static void the_hash_table_agrees_with_an_array(void **state)
{
	enum { ENTRIES = 500, STEPS = 50000 };
	static struct entry entries[ENTRIES];
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 2);
	struct hash h;
	size_t in = 0;

	(void)state;
	assert_int_equal(hash_init(&h, (const uint8_t[16]){3}), 0);
	for (int step = 0; step < STEPS; step++) {
		uint64_t i = 0;
		struct entry *e;

		assert_int_equal(rng_below(&rng, ENTRIES, &i), 0);
		e = &entries[i];
		e->key = (uint32_t)i * 7;
		assert_ptr_equal(find(&h, e->key), e->in ? e : NULL);
		if (e->in)
			hash_del(&h, &e->node);
		else
			assert_int_equal(hash_add(&h, &e->node, &e->key, sizeof(e->key)), 0);
		in += e->in ? (size_t)-1 : 1;
		e->in = !e->in;
		assert_int_equal(h.count, in);
	}
	hash_done(&h);
}

static void duplicates_are_all_found(void **state)
{
	struct entry e[3] = {{.key = 5}, {.key = 5}, {.key = 5}};
	uint32_t key = 5;
	struct hash h;
	int n = 0;

	(void)state;
	assert_int_equal(hash_init(&h, (const uint8_t[16]){1}), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(hash_add(&h, &e[i].node, &key, sizeof(key)), 0);
	for (struct hash_node *it = hash_find(&h, &key, sizeof(key)); it; it = hash_next(it))
		n++;
	assert_int_equal(n, 3);
	hash_del(&h, &e[1].node);
	assert_int_equal(h.count, 2);
	hash_done(&h);
}

static int broken_fill(void *ctx, void *p, size_t n)
{
	(void)ctx;
	(void)p;
	(void)n;
	return -EIO;
}

static void the_seeded_rng_repeats_itself(void **state)
{
	struct rng_seeded sa, sb, sc;
	struct rng a = rng_seeded_init(&sa, 42), b = rng_seeded_init(&sb, 42);
	struct rng c = rng_seeded_init(&sc, 43), broken = {.fill = broken_fill};
	uint8_t x[100], y[100], z[100];
	uint64_t n = 77, seen = 0;

	(void)state;
	assert_int_equal(rng_fill(&a, x, sizeof(x)), 0);
	assert_int_equal(rng_fill(&b, y, sizeof(y)), 0);
	assert_int_equal(rng_fill(&c, z, sizeof(z)), 0);
	assert_memory_equal(x, y, sizeof(x));
	assert_memory_not_equal(x, z, sizeof(x));
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(rng_below(&a, 10, &n), 0);
		assert_true(n < 10);
		seen |= UINT64_C(1) << n;
	}
	assert_int_equal(seen, 0x3ff);
	assert_int_equal(rng_below(&a, 1, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(rng_below(&broken, 10, &n), -EIO);
	assert_int_equal(n, 0);
}

static void time_saturates(void **state)
{
	(void)state;
	assert_int_equal(wtime_add((wtime){5}, W_SEC).us, 1000005);
	assert_true(wtime_add(WTIME_NEVER, -1).us == INT64_MAX);
	assert_true(wtime_add((wtime){INT64_MAX - 5}, 6).us == INT64_MAX);
	assert_true(wtime_due((wtime){5}, (wtime){5}));
	assert_false(wtime_due((wtime){6}, (wtime){5}));
	assert_false(wtime_due(WTIME_NEVER, (wtime){INT64_MAX - 1}));
	assert_int_equal(wtime_min((wtime){3}, WTIME_NEVER).us, 3);
	assert_int_equal(wtime_diff((wtime){3}, (wtime){5}), -2);
}

static void memory(void **state)
{
	uint8_t secret[15];
	uint8_t zero[15] = {0};

	(void)state;
	memcpy(secret, bytes, sizeof(secret));
	assert_int_equal(w_equal_secret(secret, bytes, sizeof(secret)), 1);
	for (size_t i = 0; i < sizeof(secret); i++) {
		secret[i] ^= 0x10;
		assert_int_equal(w_equal_secret(secret, bytes, sizeof(secret)), 0);
		secret[i] ^= 0x10;
	}
	assert_int_equal(w_equal_secret(secret, bytes, 0), 1);
	w_zeroize(secret, sizeof(secret));
	assert_memory_equal(secret, zero, sizeof(secret));
	assert_null(w_calloc(SIZE_MAX / 2, 4));
	w_free_secret(w_memdup(bytes, sizeof(bytes)), sizeof(bytes));
	w_free_secret(NULL, 10);
	w_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_are_big_endian),
		cmocka_unit_test(reads_past_the_end_are_bad),
		cmocka_unit_test(a_sub_cursor_ends_where_it_should),
		cmocka_unit_test(writes_stop_at_the_end),
		cmocka_unit_test(numbers_in_place),
		cmocka_unit_test(buffers_grow),
		cmocka_unit_test(lists_keep_order),
		cmocka_unit_test(siphash_reference_values),
		cmocka_unit_test(the_hash_table_agrees_with_an_array),
		cmocka_unit_test(duplicates_are_all_found),
		cmocka_unit_test(the_seeded_rng_repeats_itself),
		cmocka_unit_test(time_saturates),
		cmocka_unit_test(memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
