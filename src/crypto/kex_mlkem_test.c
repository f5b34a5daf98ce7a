/* ML-KEM against NIST's and C2SP's values, and the input checks of FIPS 203 7.2 and 7.3. */
#include "crypto/crypto.h"
#include "crypto/kex_mlkem_vectors.h"
#include "crypto/priv.h"
#include "crypto/helpers_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { MLKEM_Q = 3329, COEFFICIENTS = 256, DK_MAX = 3168 };

static void assert_sha256(const uint8_t *p, size_t n, const char *want)
{
	struct view v = view_of(p, n);
	uint8_t digest[32];

	assert_int_equal(hash_sha256(&v, 1, digest), 0);
	assert_hex(digest, sizeof(digest), want);
}

static struct kex *keygen(enum kex_id id, const char *seed, uint8_t *ek)
{
	struct tape tape;
	struct rng rng = tape_init(&tape, seed);
	struct kex *k = NULL;

	assert_int_equal(kex_offer(id, &rng, ek, &k), 0);
	assert_int_equal(tape.left.n, 0);
	return k;
}

static void key_generation(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mlkem_keygen_cases); i++) {
		enum kex_id id = mlkem_keygen_cases[i].id;
		uint8_t ek[KEX_PUBLIC_MAX];

		kex_free(keygen(id, mlkem_keygen_cases[i].seed, ek));
		assert_sha256(ek, kex_info(id)->offer_len, mlkem_keygen_cases[i].ek_sha256);
	}
}

static void encapsulation(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mlkem_encap_cases); i++) {
		enum kex_id id = mlkem_encap_cases[i].id;
		uint8_t ek[KEX_PUBLIC_MAX], c[KEX_PUBLIC_MAX], secret[32];
		struct view offer = unhex(mlkem_encap_cases[i].ek, ek, sizeof(ek));
		struct tape tape;
		struct rng rng = tape_init(&tape, mlkem_encap_cases[i].m);

		assert_int_equal(kex_answer(id, &rng, offer, c, secret), 0);
		assert_sha256(c, kex_info(id)->answer_len, mlkem_encap_cases[i].c_sha256);
		assert_hex(secret, sizeof(secret), mlkem_encap_cases[i].secret);
	}
}

/* A ciphertext for another key gives the secret of implicit rejection, no error (FIPS 203 6.3). */
static void decapsulation(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mlkem_seed_cases); i++) {
		uint8_t ek[KEX_PUBLIC_MAX], c[KEX_PUBLIC_MAX], secret[32];
		struct kex *k = keygen(mlkem_seed_cases[i].id, mlkem_seed_cases[i].seed, ek);
		struct view answer = unhex(mlkem_seed_cases[i].c, c, sizeof(c));

		assert_int_equal(kex_finish(k, answer, secret), 0);
		assert_hex(secret, sizeof(secret), mlkem_seed_cases[i].secret);
		kex_free(k);
	}
}

static void decapsulation_with_an_expanded_key(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mlkem_decap_cases); i++) {
		const struct kex_method m = {.info = *kex_info(mlkem_decap_cases[i].id)};
		uint8_t dk[DK_MAX], c[KEX_PUBLIC_MAX], secret[32];
		struct view key = unhex(mlkem_decap_cases[i].dk, dk, sizeof(dk));
		struct view answer = unhex(mlkem_decap_cases[i].c, c, sizeof(c));
		EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key_ex(NULL, m.info.name, NULL, key.p,
			key.n);

		assert_non_null(pkey);
		assert_int_equal(kex_mlkem_decapsulate(&m, pkey, answer, secret), 0);
		assert_hex(secret, sizeof(secret), mlkem_decap_cases[i].secret);
		EVP_PKEY_free(pkey);
	}
}

/* Sets coefficient i of an encoded key: 12 bits each, little-endian (FIPS 203, ByteEncode12). */
static void set_coefficient(uint8_t *ek, size_t i, unsigned int value)
{
	uint8_t *p = ek + i / 2 * 3;

	if (i % 2 == 0) {
		p[0] = (uint8_t)value;
		p[1] = (uint8_t)((p[1] & 0xf0) | value >> 8);
	} else {
		p[1] = (uint8_t)((p[1] & 0x0f) | (value & 0xf) << 4);
		p[2] = (uint8_t)(value >> 4);
	}
}

/* FIPS 203 7.2: a key with a coefficient that is not reduced modulo q is refused, wherever it is
 * and by however little; q - 1 is allowed. */
static void modulus_check(void **state)
{
	static const enum kex_id ids[] = {KEX_MLKEM512, KEX_MLKEM768, KEX_MLKEM1024};
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 4);

	(void)state;
	for (size_t set = 0; set < COUNT(ids); set++) {
		size_t n = kex_info(ids[set])->offer_len, coefficients = (set + 2) * COEFFICIENTS;
		uint8_t ek[KEX_PUBLIC_MAX], bad[KEX_PUBLIC_MAX], c[KEX_PUBLIC_MAX], secret[32];
		struct kex *k;

		assert_int_equal(coefficients / 2 * 3 + 32, n);
		assert_int_equal(kex_offer(ids[set], &rng, ek, &k), 0);
		kex_free(k);
		for (size_t i = 0; i < coefficients; i++) {
			unsigned int over = MLKEM_Q + (unsigned int)i % (4096 - MLKEM_Q);

			memcpy(bad, ek, n);
			set_coefficient(bad, i, over);
			assert_int_equal(kex_answer(ids[set], &rng, view_of(bad, n), c, secret),
				-EBADMSG);
			set_coefficient(bad, i, MLKEM_Q);
			assert_int_equal(kex_answer(ids[set], &rng, view_of(bad, n), c, secret),
				-EBADMSG);
		}
		set_coefficient(ek, 7, MLKEM_Q - 1);
		assert_int_equal(kex_answer(ids[set], &rng, view_of(ek, n), c, secret), 0);
	}
}

/* FIPS 203 7.2 and 7.3: values of another length are refused. */
static void lengths(void **state)
{
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 4);

	(void)state;
	for (int id = KEX_MLKEM512; id <= KEX_MLKEM1024; id++) {
		const struct kex_info *info = kex_info((enum kex_id)id);
		uint8_t ek[KEX_PUBLIC_MAX + 1] = {0}, c[KEX_PUBLIC_MAX + 1], secret[32] = {0};
		uint8_t zero[32] = {0};
		struct kex *k;

		assert_int_equal(kex_offer((enum kex_id)id, &rng, ek, &k), 0);
		for (int more = -1; more <= 1; more += 2) {
			struct view offer = view_of(ek, (size_t)(info->offer_len + more));
			struct view answer = view_of(c, (size_t)(info->answer_len + more));

			memset(c, 0, sizeof(c));
			assert_int_equal(kex_answer((enum kex_id)id, &rng, offer, c, secret),
				-EBADMSG);
			assert_int_equal(kex_finish(k, answer, secret), -EBADMSG);
			assert_memory_equal(secret, zero, sizeof(secret));
		}
		assert_int_equal(kex_finish(k, view_of(NULL, 0), secret), -EBADMSG);
		kex_free(k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_generation),
		cmocka_unit_test(encapsulation),
		cmocka_unit_test(decapsulation),
		cmocka_unit_test(decapsulation_with_an_expanded_key),
		cmocka_unit_test(modulus_check),
		cmocka_unit_test(lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
