/* The suites against published values; every bit is authenticated; batches of mixed contexts. */
#include "crypto/crypto.h"
#include "crypto/aead_vectors.h"
#include "crypto/helpers_test.h"

enum { CASES = sizeof(aead_cases) / sizeof(aead_cases[0]), TEXT = 256, PART = 64 };

static struct crypto_backend *backend; /* under test */

/* A case with its bytes, and the context for it. */
struct item {
	const struct aead_case *c;
	const struct aead_info *info;
	uint8_t key[PART], auth[PART], aad[PART], iv[PART], trailer[PART], icv[PART];
	uint8_t text[TEXT], plain[TEXT], cipher[TEXT];
	struct aead_op op;
};

static void item_init(struct item *it, const struct aead_case *c)
{
	struct view key, auth;

	memset(it, 0, sizeof(*it));
	it->c = c;
	it->info = aead_info(c->id);
	key = unhex(c->key, it->key, PART);
	auth = unhex(c->auth_key, it->auth, PART);
	it->op.aad = unhex(c->aad, it->aad, PART);
	it->op.trailer = unhex(c->trailer, it->trailer, PART);
	assert_int_equal(unhex(c->iv, it->iv, PART).n, it->info->iv_len);
	it->op.iv = it->iv;
	it->op.text = it->text;
	it->op.text_len = unhex(c->plain, it->plain, TEXT).n;
	(void)unhex(c->cipher, it->cipher, TEXT);
	it->op.icv = it->icv;
	assert_int_equal(aead_new(backend, c->id, key, auth, AEAD_BOTH, &it->op.ctx), 0);
	assert_int_equal(aead_id_of(it->op.ctx), c->id);
}

/* The packet as it would have come in. */
static void item_received(struct item *it)
{
	memcpy(it->text, it->cipher, TEXT);
	(void)unhex(it->c->icv, it->icv, PART);
}

static void published_values(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct item it;

		item_init(&it, &aead_cases[i]);
		print_message("%s: %s\n", it.info->name, it.c->name);
		for (int twice = 0; twice < 2; twice++) {
			memcpy(it.text, it.plain, TEXT);
			assert_int_equal(aead_seal(&it.op, 1), 1);
			assert_int_equal(it.op.result, 0);
			assert_hex(it.text, it.op.text_len, it.c->cipher);
			assert_hex(it.icv, it.info->icv_len, it.c->icv);
			assert_int_equal(aead_open(&it.op, 1), 1);
			assert_int_equal(it.op.result, 0);
			assert_hex(it.text, it.op.text_len, it.c->plain);
		}
		aead_free(it.op.ctx);
	}
}

/* With bit `bit` of part changed, open fails and leaves zeros; changed back, it works again. */
static void bit_matters(struct item *it, uint8_t *part, size_t bit)
{
	uint8_t zero[TEXT] = {0}, *changed;

	item_received(it);
	changed = part + bit / 8;
	*changed ^= (uint8_t)(1 << bit % 8);
	assert_int_equal(aead_open(&it->op, 1), 0);
	assert_int_equal(it->op.result, -EBADMSG);
	assert_memory_equal(it->text, zero, it->op.text_len);
	*changed ^= (uint8_t)(1 << bit % 8);
}

static void every_bit_is_authenticated(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct item it;

		item_init(&it, &aead_cases[i]);
		for (size_t bit = 0; bit < it.op.aad.n * 8; bit++)
			bit_matters(&it, it.aad, bit);
		for (size_t bit = 0; bit < it.info->iv_len * 8u; bit++)
			bit_matters(&it, it.iv, bit);
		for (size_t bit = 0; bit < it.op.text_len * 8; bit++)
			bit_matters(&it, it.text, bit);
		for (size_t bit = 0; bit < it.info->icv_len * 8u; bit++)
			bit_matters(&it, it.icv, bit);
		for (size_t bit = 0; bit < it.op.trailer.n * 8; bit++)
			bit_matters(&it, it.trailer, bit);
		item_received(&it);
		assert_int_equal(aead_open(&it.op, 1), 1);
		assert_hex(it.text, it.op.text_len, it.c->plain);
		aead_free(it.op.ctx);
	}
}

/* Another key, salt or integrity key, and lengths other than those sent. */
static void keys_and_lengths_matter(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct item it;
		struct aead *good, *other;

		item_init(&it, &aead_cases[i]);
		good = it.op.ctx;
		it.key[it.info->key_len - 1] ^= 1; /* the salt of an AEAD */
		it.auth[0] ^= 1;
		assert_int_equal(aead_new(backend, it.c->id, view_of(it.key, it.info->key_len),
					 view_of(it.auth, it.info->auth_key_len), AEAD_BOTH,
					 &other),
			0);
		it.op.ctx = other;
		item_received(&it);
		assert_int_equal(aead_open(&it.op, 1), 0);
		aead_free(other);
		it.op.ctx = good;
		item_received(&it);
		it.op.text_len += it.info->block;
		assert_int_equal(aead_open(&it.op, 1), 0);
		assert_int_equal(it.op.result, -EBADMSG);
		it.op.text_len -= it.info->block;
		it.op.aad = view_of(it.aad, it.op.aad.n + 1);
		item_received(&it);
		assert_int_equal(aead_open(&it.op, 1), 0);
		aead_free(good);
	}
}

/* A context for one use does that, and fails in the other without touching more than the text. */
static void a_use_is_all_that_a_context_has(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct item it;
		struct view key, auth;
		struct aead *seals, *opens;

		item_init(&it, &aead_cases[i]);
		aead_free(it.op.ctx);
		key = view_of(it.key, it.info->key_len);
		auth = view_of(it.auth, it.info->auth_key_len);
		assert_int_equal(aead_new(backend, it.c->id, key, auth, AEAD_SEALS, &seals), 0);
		assert_int_equal(aead_new(backend, it.c->id, key, auth, AEAD_OPENS, &opens), 0);
		it.op.ctx = seals;
		memcpy(it.text, it.plain, TEXT);
		assert_int_equal(aead_seal(&it.op, 1), 1);
		assert_hex(it.text, it.op.text_len, it.c->cipher);
		assert_int_equal(aead_open(&it.op, 1), 0);
		assert_int_equal(it.op.result, -EBADMSG);
		it.op.ctx = opens;
		item_received(&it);
		assert_int_equal(aead_open(&it.op, 1), 1);
		assert_hex(it.text, it.op.text_len, it.c->plain);
		assert_int_equal(aead_seal(&it.op, 1), 0);
		assert_int_equal(it.op.result, -EIO);
		aead_free(seals);
		aead_free(opens);
	}
}

/* All cases at once, four times over, one of each kind tampered with: the others are untouched. */
static void a_bad_packet_spoils_no_other(void **state)
{
	enum { BATCH = 4 * CASES };
	static struct item items[BATCH];
	struct aead_op ops[BATCH];
	uint8_t zero[TEXT] = {0};

	(void)state;
	for (int i = 0; i < BATCH; i++) {
		item_init(&items[i], &aead_cases[i % CASES]);
		memcpy(items[i].text, items[i].plain, TEXT);
		ops[i] = items[i].op;
	}
	/* contexts are shared by packets, as those of one SA are */
	for (int i = CASES; i < BATCH; i++) {
		aead_free(ops[i].ctx);
		ops[i].ctx = ops[i % CASES].ctx;
	}
	assert_int_equal(aead_seal(ops, BATCH), BATCH);
	for (int i = 0; i < CASES; i++)
		ops[i + CASES].icv[i % 16] ^= 0x80;
	assert_int_equal(aead_open(ops, BATCH), BATCH - CASES);
	for (int i = 0; i < BATCH; i++) {
		bool bad = i / CASES == 1;

		assert_int_equal(ops[i].result, bad ? -EBADMSG : 0);
		assert_memory_equal(items[i].text, bad ? zero : items[i].plain, ops[i].text_len);
	}
	for (int i = 0; i < CASES; i++)
		aead_free(ops[i].ctx);
	assert_int_equal(aead_seal(NULL, 0), 0);
	assert_int_equal(aead_open(NULL, 0), 0);
}

static void wrong_uses_are_refused(void **state)
{
	static const uint8_t key[64];

	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		const struct aead_info *info = aead_info((enum aead_id)id);
		uint8_t text[32] = {1}, iv[16] = {0}, icv[16] = {0}, zero[32] = {0};
		struct view good = view_of(key, info->key_len);
		struct view auth = view_of(key, info->auth_key_len);
		struct aead *a = NULL;
		struct aead_op op = {.iv = iv, .text = text, .text_len = 31, .icv = icv};

		for (int more = -1; more <= 1; more += 2) {
			struct view bad = view_of(key, (size_t)(info->key_len + more));
			struct view bad_auth = view_of(key, (size_t)(info->auth_key_len + 1));

			assert_int_equal(aead_new(backend, (enum aead_id)id, bad, auth, AEAD_BOTH,
						 &a),
				-EINVAL);
			assert_int_equal(aead_new(backend, (enum aead_id)id, good, bad_auth,
						 AEAD_BOTH, &a),
				-EINVAL);
			assert_null(a);
		}
		assert_int_equal(aead_new(backend, (enum aead_id)id, good, auth, AEAD_BOTH,
					 &op.ctx),
			0);
		if (info->is_aead)
			op.trailer = view_of(key, 4); /* belongs to the AAD */
		assert_int_equal(aead_seal(&op, 1), 0);
		assert_int_equal(op.result, -EIO);
		assert_int_equal(aead_open(&op, 1), 0);
		assert_int_equal(op.result, -EBADMSG);
		assert_memory_equal(text, zero, op.text_len);
		aead_free(op.ctx);
	}
	assert_null(aead_info(AEAD_NONE));
	assert_null(aead_info(AEAD_COUNT));
	aead_free(NULL);
}

static void facts(void **state)
{
	static const struct {
		uint16_t encr, key_bits, integ;
		uint8_t key_len, auth_key_len, iv_len, icv_len, block;
		bool is_aead, counter_iv;
	} want[AEAD_COUNT] = {
		[AEAD_AES128_GCM16] = {20, 128, 0, 20, 0, 8, 16, 1, true, true},
		[AEAD_AES256_GCM16] = {20, 256, 0, 36, 0, 8, 16, 1, true, true},
		[AEAD_CHACHA20_POLY1305] = {28, 0, 0, 36, 0, 8, 16, 1, true, true},
		[AEAD_AES128_CBC_SHA256_128] = {12, 128, 12, 16, 32, 16, 16, 16, false, false},
		[AEAD_AES256_CBC_SHA256_128] = {12, 256, 12, 32, 32, 16, 16, 16, false, false},
	};

	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		const struct aead_info *info = aead_info((enum aead_id)id);

		assert_int_equal(info->encr, want[id].encr);
		assert_int_equal(info->key_bits, want[id].key_bits);
		assert_int_equal(info->integ, want[id].integ);
		assert_int_equal(info->key_len, want[id].key_len);
		assert_int_equal(info->auth_key_len, want[id].auth_key_len);
		assert_int_equal(info->iv_len, want[id].iv_len);
		assert_int_equal(info->icv_len, want[id].icv_len);
		assert_int_equal(info->block, want[id].block);
		assert_int_equal(info->is_aead, want[id].is_aead);
		assert_int_equal(info->counter_iv, want[id].counter_iv);
	}
}

/* Every test with every back end that is here. */
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_values),
		cmocka_unit_test(every_bit_is_authenticated),
		cmocka_unit_test(keys_and_lengths_matter),
		cmocka_unit_test(a_use_is_all_that_a_context_has),
		cmocka_unit_test(a_bad_packet_spoils_no_other),
		cmocka_unit_test(wrong_uses_are_refused),
		cmocka_unit_test(facts),
	};

	int failed = 0;

	for (int id = 0; id < CRYPTO_BACKEND_COUNT; id++) {
		if (crypto_backend_new((enum crypto_backend_id)id, &backend) < 0)
			continue;
		print_message("%s\n", crypto_backend_text(backend));
		failed += cmocka_run_group_tests(tests, NULL, NULL);
		crypto_backend_free(backend);
	}
	return failed;
}
