/* HMAC, prf+ and the hashes against RFC 4231, NIST's IKEv2 values and FIPS 180. */
#include "crypto/crypto.h"
#include "crypto/prf_vectors.h"
#include "crypto/helpers_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void hmac(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(hmac_cases); i++) {
		uint8_t key_bytes[256], data_bytes[256], out[PRF_MAX];
		struct view key = unhex(hmac_cases[i].key, key_bytes, sizeof(key_bytes));
		struct view data = unhex(hmac_cases[i].data, data_bytes, sizeof(data_bytes));

		for (int id = PRF_HMAC_SHA2_256; id <= PRF_HMAC_SHA2_512; id++) {
			const char *want = hmac_cases[i].mac[id - PRF_HMAC_SHA2_256];
			struct view parts[3] = {view_of(data.p, 1), {0},
				view_of(data.p + 1, data.n - 1)};

			assert_int_equal(prf((enum prf_id)id, key, &data, 1, out), 0);
			assert_hex(out, strlen(want) / 2, want);
			memset(out, 0, sizeof(out));
			assert_int_equal(prf((enum prf_id)id, key, parts, 3, out), 0);
			assert_hex(out, strlen(want) / 2, want);
		}
	}
}

static void empty_key_and_data(void **state)
{
	uint8_t out[PRF_MAX];

	(void)state;
	assert_int_equal(prf(PRF_HMAC_SHA2_256, (struct view){0}, NULL, 0, out), 0);
	assert_hex(out, 32, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

/* The value is another implementation's (Python's hashlib). */
static void keyed_blake2s(void **state)
{
	struct view parts[2] = {view_of("weft", 4), view_of("babel", 5)};
	uint8_t key[33], out[16];

	(void)state;
	for (unsigned int i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	assert_int_equal(mac_blake2s(view_of(key, 32), parts, 2, out), 0);
	assert_hex(out, 16, "f712ce7ed82e5f2b95cd2258eeecc7ec");
	assert_int_equal(mac_blake2s(view_of(key, 33), parts, 2, out), -EINVAL);
	assert_int_equal(mac_blake2s(view_of(key, 0), parts, 2, out), -EINVAL);
}

struct ike_in {
	uint8_t b[6][256];
	struct view ni, nr, gir, gir_new, spi_i, spi_r;
};

static void ike_read(const struct ike_kdf_case *c, struct ike_in *ret)
{
	ret->ni = unhex(c->ni, ret->b[0], 256);
	ret->nr = unhex(c->nr, ret->b[1], 256);
	ret->gir = unhex(c->gir, ret->b[2], 256);
	ret->gir_new = unhex(c->gir_new, ret->b[3], 256);
	ret->spi_i = unhex(c->spi_i, ret->b[4], 256);
	ret->spi_r = unhex(c->spi_r, ret->b[5], 256);
}

static struct view join(uint8_t *out, const struct view *v, size_t n)
{
	struct wcur w = wcur_of(out, 1024);

	for (size_t i = 0; i < n; i++)
		wcur_view(&w, v[i]);
	assert_false(w.full);
	return wcur_written(&w);
}

static void expands_to(enum prf_id id, struct view key, struct view seed, const char *want)
{
	uint8_t out[1024];
	size_t n = strlen(want) / 2;

	assert_int_equal(prf_plus(id, key, seed, out, n), 0);
	assert_hex(out, n, want);
}

/* RFC 7296 2.14, 2.17, 2.18. */
static void ike_key_derivation(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(ike_kdf_cases); i++) {
		const struct ike_kdf_case *c = &ike_kdf_cases[i];
		size_t len = prf_info(c->prf)->len;
		uint8_t key[1024], seed[1024], skeyseed[PRF_MAX], sk_d[1024], out[PRF_MAX];
		struct view nonces, rekey[3];
		struct ike_in in;

		ike_read(c, &in);
		nonces = join(key, (struct view[]){in.ni, in.nr}, 2);
		assert_int_equal(prf(c->prf, nonces, &in.gir, 1, skeyseed), 0);
		assert_hex(skeyseed, len, c->skeyseed);
		expands_to(c->prf, view_of(skeyseed, len),
			join(seed, (struct view[]){in.ni, in.nr, in.spi_i, in.spi_r}, 4), c->dkm);
		(void)unhex(c->dkm, sk_d, sizeof(sk_d)); /* SK_d comes first */
		expands_to(c->prf, view_of(sk_d, len), nonces, c->child);
		expands_to(c->prf, view_of(sk_d, len),
			join(seed, (struct view[]){in.gir_new, in.ni, in.nr}, 3), c->child_dh);
		rekey[0] = in.gir_new;
		rekey[1] = in.ni;
		rekey[2] = in.nr;
		assert_int_equal(prf(c->prf, view_of(sk_d, len), rekey, 3, out), 0);
		assert_hex(out, len, c->rekey_skeyseed);
	}
}

/* Shorter outputs are prefixes; the counter octet allows 255 blocks (RFC 7296 2.13). */
static void prf_plus_lengths(void **state)
{
	static uint8_t most[255 * 64 + 1], some[255 * 64 + 1];
	struct view key = view_of("key", 3), seed = view_of("seed", 4);

	(void)state;
	for (int id = PRF_HMAC_SHA2_256; id <= PRF_HMAC_SHA2_512; id++) {
		size_t len = prf_info((enum prf_id)id)->len;

		assert_int_equal(prf_plus((enum prf_id)id, key, seed, most, 255 * len), 0);
		assert_int_equal(prf_plus((enum prf_id)id, key, seed, some, 255 * len + 1),
			-EINVAL);
		assert_int_equal(prf_plus((enum prf_id)id, key, seed, some, 0), 0);
		for (size_t n = len - 1; n <= 2 * len + 1; n++) {
			memset(some, 0xa5, sizeof(some));
			assert_int_equal(prf_plus((enum prf_id)id, key, seed, some, n), 0);
			assert_memory_equal(some, most, n);
			assert_int_equal(some[n], 0xa5);
		}
	}
	assert_int_equal(prf_plus(PRF_NONE, key, seed, some, 1), -EINVAL);
}

static void hashes(void **state)
{
	struct view abc[3] = {view_of("a", 1), {0}, view_of("bc", 2)};
	uint8_t out[32];

	(void)state;
	assert_int_equal(hash_sha1(abc, 3, out), 0);
	assert_hex(out, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
	assert_int_equal(hash_sha256(abc, 3, out), 0);
	assert_hex(out, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_int_equal(hash_sha1(NULL, 0, out), 0);
	assert_hex(out, 20, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	assert_int_equal(hash_sha256(NULL, 0, out), 0);
	assert_hex(out, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void numbers_of_ike(void **state)
{
	(void)state;
	assert_int_equal(prf_info(PRF_HMAC_SHA2_256)->ike, 5);
	assert_int_equal(prf_info(PRF_HMAC_SHA2_384)->ike, 6);
	assert_int_equal(prf_info(PRF_HMAC_SHA2_512)->ike, 7);
	assert_null(prf_info(PRF_NONE));
	assert_null(prf_info(PRF_COUNT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hmac),
		cmocka_unit_test(empty_key_and_data),
		cmocka_unit_test(ike_key_derivation),
		cmocka_unit_test(prf_plus_lengths),
		cmocka_unit_test(hashes),
		cmocka_unit_test(keyed_blake2s),
		cmocka_unit_test(numbers_of_ike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
