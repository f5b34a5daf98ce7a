/* Back ends: which are there, what they call themselves, and that they prove themselves. */
#include "crypto/crypto.h"
#include "crypto/helpers_test.h"

static void openssl_is_always_there(void **state)
{
	struct crypto_backend *b = NULL;

	(void)state;
	assert_int_equal(crypto_selftest(CRYPTO_OPENSSL), 0);
	assert_int_equal(crypto_backend_new(CRYPTO_OPENSSL, &b), 0);
	assert_int_equal(crypto_backend_id_of(b), CRYPTO_OPENSSL);
	assert_string_equal(crypto_backend_text(b), crypto_version());
	crypto_backend_free(b);
	crypto_backend_free(NULL);
}

static void ipsec_mb_proves_itself_or_is_absent(void **state)
{
	struct crypto_backend *b = NULL;
	int r = crypto_backend_new(CRYPTO_IPSEC_MB, &b);

	(void)state;
	assert_int_equal(crypto_selftest(CRYPTO_IPSEC_MB), r);
	if (r < 0) {
		assert_true(r == -ENOENT || r == -ENOTSUP);
		assert_null(b);
		return;
	}
	assert_int_equal(crypto_backend_id_of(b), CRYPTO_IPSEC_MB);
	assert_non_null(strstr(crypto_backend_text(b), "IPsec-MB"));
	assert_non_null(strstr(crypto_backend_text(b), crypto_version()));
	crypto_backend_free(b);
}

static void unknown_ones_are_refused(void **state)
{
	struct crypto_backend *b = NULL;

	(void)state;
	assert_int_equal(crypto_backend_new(CRYPTO_BACKEND_COUNT, &b), -EINVAL);
	assert_int_equal(crypto_selftest(CRYPTO_BACKEND_COUNT), -EINVAL);
	assert_null(b);
}

/* What one back end seals the other opens, each suite, at the sizes of packets. */
static void back_ends_understand_each_other(void **state)
{
	static const uint8_t key[64] = {1, 2, 3}, iv[16] = {9};
	struct crypto_backend *b;
	static uint8_t text[9016], plain[9000];

	(void)state;
	if (crypto_backend_new(CRYPTO_IPSEC_MB, &b) < 0)
		skip();
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		const struct aead_info *info = aead_info((enum aead_id)id);
		struct view k = view_of(key, info->key_len), a = view_of(key, info->auth_key_len);
		struct aead *one, *two;

		assert_int_equal(aead_new(b, (enum aead_id)id, k, a, AEAD_BOTH, &one), 0);
		assert_int_equal(aead_new(NULL, (enum aead_id)id, k, a, AEAD_BOTH, &two), 0);
		for (size_t n = 0; n <= 8992; n += 16) {
			struct aead_op op = {.ctx = n % 32 ? one : two,
				.aad = view_of(key, 12),
				.iv = iv,
				.text = text,
				.text_len = n,
				.icv = text + n};

			memcpy(text, plain, n);
			assert_int_equal(aead_seal(&op, 1), 1);
			op.ctx = n % 32 ? two : one;
			assert_int_equal(aead_open(&op, 1), 1);
			assert_memory_equal(text, plain, n);
		}
		aead_free(one);
		aead_free(two);
	}
	crypto_backend_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(openssl_is_always_there),
		cmocka_unit_test(ipsec_mb_proves_itself_or_is_absent),
		cmocka_unit_test(unknown_ones_are_refused),
		cmocka_unit_test(back_ends_understand_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
