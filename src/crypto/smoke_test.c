/* Every primitive once, against itself: the two ends agree, and a changed bit is noticed. */
#include "crypto/crypto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void every_kex_agrees(void **state)
{
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 1);

	(void)state;
	for (int id = KEX_NONE + 1; id < KEX_COUNT; id++) {
		const struct kex_info *info = kex_info((enum kex_id)id);
		uint8_t offer[KEX_PUBLIC_MAX], answer[KEX_PUBLIC_MAX];
		uint8_t a[KEX_SECRET_MAX], b[KEX_SECRET_MAX];
		struct kex *k;

		print_message("%s\n", info->name);
		assert_int_equal(kex_offer((enum kex_id)id, &rng, offer, &k), 0);
		assert_int_equal(kex_answer((enum kex_id)id, &rng, view_of(offer, info->offer_len),
			answer, b), 0);
		assert_int_equal(kex_finish(k, view_of(answer, info->answer_len), a), 0);
		assert_memory_equal(a, b, info->secret_len);
		assert_int_equal(kex_by_ike(info->ike), id);
		kex_free(k);
	}
}

static void every_aead_opens_what_it_sealed(void **state)
{
	static const uint8_t key[64] = {1, 2, 3};

	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		const struct aead_info *info = aead_info((enum aead_id)id);
		uint8_t iv[16] = {9}, icv[16], text[64] = "attack at dawn", zero[64] = {0};
		struct aead *a;
		struct aead_op op;

		print_message("%s\n", info->name);
		assert_int_equal(aead_new((enum aead_id)id, view_of(key, info->key_len),
			view_of(key, info->auth_key_len), &a), 0);
		op = (struct aead_op){.ctx = a, .aad = view_of("aad", 3), .iv = iv, .text = text,
			.text_len = 64, .icv = icv};
		assert_int_equal(aead_seal(&op, 1), 1);
		assert_memory_not_equal(text, "attack at dawn", 14);
		assert_int_equal(aead_open(&op, 1), 1);
		assert_memory_equal(text, "attack at dawn", 14);
		assert_int_equal(aead_seal(&op, 1), 1);
		icv[3] ^= 1;
		assert_int_equal(aead_open(&op, 1), 0);
		assert_int_equal(op.result, -EBADMSG);
		assert_memory_equal(text, zero, 64);
		aead_free(a);
	}
}

static void signatures_and_prf(void **state)
{
	uint8_t seed[32] = {7}, pub[32], sig[64], out[300];
	struct ed25519_key *k;

	(void)state;
	assert_int_equal(ed25519_from_seed(seed, &k), 0);
	ed25519_public(k, pub);
	assert_int_equal(ed25519_sign(k, view_of("m", 1), sig), 0);
	assert_int_equal(ed25519_verify(pub, view_of("m", 1), view_of(sig, 64)), 0);
	assert_int_equal(ed25519_verify(pub, view_of("n", 1), view_of(sig, 64)), -EBADMSG);
	ed25519_free(k);
	assert_int_equal(prf_plus(PRF_HMAC_SHA2_512, view_of(seed, 32), view_of("s", 1), out, 300), 0);
	assert_int_equal(hash_sha1(NULL, 0, out), 0);
	assert_int_equal(out[0], 0xda);
	assert_int_equal(hash_sha256(NULL, 0, out), 0);
	assert_int_equal(out[0], 0xe3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kex_agrees),
		cmocka_unit_test(every_aead_opens_what_it_sealed),
		cmocka_unit_test(signatures_and_prf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
