/* IKEv2 key derivation against NIST's vectors (test/vectors/ikev2_kdf.txt), and its refusals. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/vectors_test.h"
#include "ike/keymat_priv.h"

enum { VECTORS = 12 };

static int setup(void **state)
{
	*state = vectors_load(WEFT_TEST_DATA "/vectors/ikev2_kdf.txt");
	return 0;
}

static int teardown(void **state)
{
	vectors_free(*state);
	return 0;
}

static enum prf_id prf_by_ike(uint8_t id)
{
	for (int p = PRF_NONE + 1; p < PRF_COUNT; p++)
		if (prf_info(p)->ike == id)
			return p;
	fail();
	return PRF_NONE;
}

/* got starts as want does, as far as both go: the vectors' lengths are not those of a suite. */
static void assert_begins(const struct buf *got, struct view want)
{
	assert_true(got->n >= 96 && want.n >= 96);
	assert_memory_equal(got->p, want.p, got->n < want.n ? got->n : want.n);
}

static void assert_keys(const struct ike_keys *k, struct view want)
{
	size_t len = prf_info(k->prf)->len;
	struct buf all = {0};

	buf_add(&all, k->d, len);
	buf_add(&all, k->ai, 32);
	buf_add(&all, k->ar, 32);
	buf_add(&all, k->ei, 32);
	buf_add(&all, k->er, 32);
	buf_add(&all, k->pi, len);
	buf_add(&all, k->pr, len);
	assert_begins(&all, want);
	buf_free(&all);
}

static void assert_child(const struct ike_child_keys *c, struct view want)
{
	struct buf all = {0};

	buf_add(&all, c->out_key, 32);
	buf_add(&all, c->out_auth, 32);
	buf_add(&all, c->in_key, 32);
	buf_add(&all, c->in_auth, 32);
	assert_begins(&all, want);
	buf_free(&all);
}

static void check_vector(const struct vectors *v, unsigned int n)
{
	struct ike_keys k = {.aead = AEAD_AES256_CBC_SHA256_128,
		.prf = prf_by_ike(vectors_get(v, "v%u.prf", n).p[0])};
	struct ike_keys rekeyed = {.aead = k.aead, .prf = k.prf};
	struct ike_seed seed = {
		.ni = vectors_get(v, "v%u.ni", n),
		.nr = vectors_get(v, "v%u.nr", n),
		.spi_i = vectors_number(vectors_get(v, "v%u.spi_i", n)),
		.spi_r = vectors_number(vectors_get(v, "v%u.spi_r", n)),
	};
	struct view fresh = vectors_get(v, "v%u.shared_new", n);
	struct ike_child_keys child = {.aead = k.aead};
	uint8_t skeyseed[PRF_MAX];
	size_t len = prf_info(k.prf)->len;

	assert_int_equal(ike_keys_init(&k, vectors_get(v, "v%u.shared", n), &seed, skeyseed), 0);
	assert_memory_equal(skeyseed, vectors_get(v, "v%u.skeyseed", n).p, len);
	assert_keys(&k, vectors_get(v, "v%u.dkm", n));
	assert_int_equal(ike_child_keymat(&k, NULL, 0, &seed, true, &child), 0);
	assert_child(&child, vectors_get(v, "v%u.child", n));
	assert_int_equal(ike_child_keymat(&k, &fresh, 1, &seed, true, &child), 0);
	assert_child(&child, vectors_get(v, "v%u.child_dh", n));
	assert_int_equal(ike_keys_rekey(&rekeyed, &k, &fresh, 1, &seed, skeyseed), 0);
	assert_memory_equal(skeyseed, vectors_get(v, "v%u.rekeyed", n).p, len);
}

static void nist_vectors_are_met(void **state)
{
	for (unsigned int n = 0; n < VECTORS; n++)
		check_vector(*state, n);
}

/* RFC 7296 2.18: SKEYSEED of a rekey is the old SA's PRF's, SK_* are the new one's. */
static void rekey_to_another_prf(void **state)
{
	uint8_t nonce[32] = {1}, secret[32] = {2}, skeyseed[PRF_MAX], want[PRF_MAX];
	struct ike_keys old = {.aead = AEAD_AES128_GCM16, .prf = PRF_HMAC_SHA2_256};
	struct ike_keys k = {.aead = AEAD_CHACHA20_POLY1305, .prf = PRF_HMAC_SHA2_512};
	struct view shared = view_of(secret, sizeof(secret));
	struct ike_seed seed = {.ni = view_of(nonce, 32), .nr = view_of(nonce, 32), .spi_i = 1};
	struct view parts[] = {shared, seed.ni, seed.nr};

	(void)state;
	assert_int_equal(ike_keys_init(&old, shared, &seed, NULL), 0);
	assert_int_equal(ike_keys_rekey(&k, &old, &shared, 1, &seed, skeyseed), 0);
	assert_int_equal(prf(PRF_HMAC_SHA2_256, view_of(old.d, 32), parts, 3, want), 0);
	assert_memory_equal(skeyseed, want, 32);
	assert_int_equal(k.prf, PRF_HMAC_SHA2_512);
}

/* Other SPIs make other keys. */
static void spis_are_part_of_the_keys(void **state)
{
	uint8_t nonce[32] = {1};
	struct ike_seed seed = {.ni = view_of(nonce, 32), .nr = view_of(nonce, 32), .spi_i = 1};
	struct ike_keys a = {.aead = AEAD_AES256_GCM16, .prf = PRF_HMAC_SHA2_512}, b = a;

	(void)state;
	assert_int_equal(ike_keys_init(&a, seed.ni, &seed, NULL), 0);
	seed.spi_r = 5;
	assert_int_equal(ike_keys_init(&b, seed.ni, &seed, NULL), 0);
	assert_memory_not_equal(a.ei, b.ei, 36);
	assert_memory_not_equal(a.d, b.d, 64);
}

/* Without an IKE_INTERMEDIATE nothing is mixed into AUTH. */
static void no_intermediate_no_int_auth(void **state)
{
	struct ike_keys k = {.aead = AEAD_AES256_GCM16, .prf = PRF_HMAC_SHA2_256};
	struct ike_int_auth none = {0};
	struct ike_auth_input in = {.message = view_of("mmmm", 4),
		.nonce = view_of("nn", 2),
		.id_body = view_of("id", 2),
		.keys = &k,
		.auth_mid = 1};
	struct buf without = {0}, with = {0};

	(void)state;
	assert_int_equal(ike_auth_octets(&in, &without), 0);
	in.int_auth = &none;
	assert_int_equal(ike_auth_octets(&in, &with), 0);
	assert_int_equal(without.n, 4 + 2 + 32);
	assert_true(view_equal(buf_view(&with), buf_view(&without)));
	buf_free(&with);
	/* one round: both values and the message ID follow */
	assert_int_equal(ike_int_auth_add(&none, &k, false, view_of("req", 3)), 0);
	assert_int_equal(ike_int_auth_add(&none, &k, true, view_of("resp", 4)), 0);
	assert_int_equal(ike_auth_octets(&in, &with), 0);
	assert_int_equal(with.n, without.n + 32 + 32 + 4);
	buf_free(&with);
	buf_free(&without);
}

static void bad_arguments_are_refused(void **state)
{
	uint8_t nonce[32] = {1}, zero[PRF_MAX] = {0};
	struct ike_seed seed = {.ni = view_of(nonce, 32), .nr = view_of(nonce, 32)};
	struct ike_keys k = {.aead = AEAD_NONE, .prf = PRF_HMAC_SHA2_512};
	struct ike_keys old = {.aead = AEAD_AES256_GCM16, .prf = PRF_HMAC_SHA2_512};
	struct ike_child_keys child = {.aead = AEAD_NONE};
	struct view many[IKE_KEX_MAX + 1] = {0};

	(void)state;
	memset(k.d, 7, sizeof(k.d));
	assert_int_equal(ike_keys_init(&k, seed.ni, &seed, NULL), -EINVAL);
	assert_memory_equal(k.d, zero, sizeof(zero));
	k.aead = AEAD_AES256_GCM16;
	assert_int_equal(ike_keys_rekey(&k, &old, NULL, 0, &seed, NULL), -EINVAL);
	assert_int_equal(ike_keys_rekey(&k, &old, many, IKE_KEX_MAX + 1, &seed, NULL), -EINVAL);
	assert_int_equal(ike_child_keymat(&old, NULL, 0, &seed, true, &child), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nist_vectors_are_met),
		cmocka_unit_test(rekey_to_another_prf),
		cmocka_unit_test(spis_are_part_of_the_keys),
		cmocka_unit_test(no_intermediate_no_int_auth),
		cmocka_unit_test(bad_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
