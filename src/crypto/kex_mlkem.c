/* ML-KEM (FIPS 203). All randomness enters as arguments, so that a run can be repeated: key
 * generation takes d | z (ML-KEM.KeyGen_internal), encapsulation takes m. */
#include "crypto/priv.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <string.h>
#include "base/mem.h"

enum { MLKEM_SEED = 64, MLKEM_MESSAGE = 32, MLKEM_SECRET = 32 };

int kex_mlkem_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret)
{
	uint8_t seed[MLKEM_SEED];
	OSSL_PARAM params[] = {
		OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_ML_KEM_SEED, seed, sizeof(seed)),
		OSSL_PARAM_END,
	};
	size_t n = m->info.offer_len;
	EVP_PKEY *key = NULL;
	EVP_PKEY_CTX *ctx;
	int err = rng_fill(rng, seed, sizeof(seed));

	if (err < 0)
		return err;
	ctx = EVP_PKEY_CTX_new_from_name(NULL, m->type, NULL);
	if (!ctx || EVP_PKEY_keygen_init(ctx) != 1 || EVP_PKEY_CTX_set_params(ctx, params) != 1 ||
		EVP_PKEY_generate(ctx, &key) != 1 ||
		EVP_PKEY_get_raw_public_key(key, public_key, &n) != 1 || n != m->info.offer_len)
		err = -EIO;
	w_zeroize(seed, sizeof(seed));
	EVP_PKEY_CTX_free(ctx);
	if (err < 0)
		EVP_PKEY_free(key);
	else
		*ret = key;
	return err;
}

int kex_mlkem_encapsulate(const struct kex_method *m, const struct rng *rng, EVP_PKEY *peer,
	uint8_t *answer, uint8_t *secret)
{
	uint8_t message[MLKEM_MESSAGE];
	OSSL_PARAM params[] = {
		OSSL_PARAM_octet_string(OSSL_KEM_PARAM_IKME, message, sizeof(message)),
		OSSL_PARAM_END,
	};
	size_t answer_len = m->info.answer_len, secret_len = MLKEM_SECRET;
	EVP_PKEY_CTX *ctx;
	int err = rng_fill(rng, message, sizeof(message));

	if (err < 0)
		return err;
	ctx = EVP_PKEY_CTX_new_from_pkey(NULL, peer, NULL);
	if (!ctx || EVP_PKEY_encapsulate_init(ctx, params) != 1 ||
		EVP_PKEY_encapsulate(ctx, answer, &answer_len, secret, &secret_len) != 1 ||
		answer_len != m->info.answer_len || secret_len != MLKEM_SECRET)
		err = -EIO;
	w_zeroize(message, sizeof(message));
	EVP_PKEY_CTX_free(ctx);
	return err;
}

/* A ciphertext that was not made for this key gives a pseudorandom secret, not an error (FIPS 203
 * 6.3, implicit rejection). */
int kex_mlkem_decapsulate(const struct kex_method *m, EVP_PKEY *key, struct view answer,
	uint8_t *secret)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
	size_t n = m->info.secret_len;
	int err = 0;

	if (!ctx || EVP_PKEY_decapsulate_init(ctx, NULL) != 1 ||
		EVP_PKEY_decapsulate(ctx, secret, &n, answer.p, answer.n) != 1 ||
		n != m->info.secret_len)
		err = -EIO;
	EVP_PKEY_CTX_free(ctx);
	return err;
}
