/* Diffie-Hellman: X25519 (RFC 7748, RFC 8031), the NIST curves (RFC 5903) and MODP groups (RFC
 * 3526). Private keys are drawn from the caller's rng; the arithmetic is libcrypto's. */
#include "crypto/priv.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <string.h>
#include "base/mem.h"

enum {
	X25519_LEN = 32,
	ECP_SCALAR_MAX = 66,
	ECP_POINT_MAX = 1 + 2 * ECP_SCALAR_MAX,
	UNCOMPRESSED = 4,   /* SEC 1 2.3.3 */
	SCALAR_TRIES = 128, /* each fails with probability below 1/2 */
	MODP_EXPONENT = 40, /* bytes: more than twice the strength of MODP-2048 (RFC 7296 2.12) */
};

int kex_x25519_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret)
{
	uint8_t private_key[X25519_LEN];
	size_t n = X25519_LEN;
	EVP_PKEY *key;
	int err = rng_fill(rng, private_key, sizeof(private_key));

	if (err < 0)
		return err;
	key = EVP_PKEY_new_raw_private_key_ex(NULL, m->type, NULL, private_key,
		sizeof(private_key));
	w_zeroize(private_key, sizeof(private_key));
	if (!key || EVP_PKEY_get_raw_public_key(key, public_key, &n) != 1 || n != X25519_LEN) {
		EVP_PKEY_free(key);
		return -EIO;
	}
	*ret = key;
	return 0;
}

/* A key of m's group from its parts; private_key NULL makes a public key. The public part is a
 * point (octets) or a number. NULL when libcrypto refuses it. */
static EVP_PKEY *key_import(const struct kex_method *m, const BIGNUM *private_key,
	struct view point, const BIGNUM *number)
{
	OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, m->type, NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;
	bool good = bld && ctx &&
		OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, m->group, 0) == 1;

	if (good && number)
		good = OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PUB_KEY, number) == 1;
	else if (good)
		good = OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point.p,
			       point.n) == 1;
	if (good && private_key)
		good = OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PRIV_KEY, private_key) == 1;
	if (good)
		params = OSSL_PARAM_BLD_to_param(bld);
	if (params && EVP_PKEY_fromdata_init(ctx) == 1)
		(void)EVP_PKEY_fromdata(ctx, &key,
			private_key ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, params);
	/* BNs that are marked secure are kept apart by libcrypto and zeroed with the params */
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(bld);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* A number in [1, n-1], by rejection, so that each is equally likely (RFC 5903 uses FIPS 186). */
static int draw_scalar(const BIGNUM *order, const struct rng *rng, BIGNUM *ret)
{
	size_t n = (size_t)BN_num_bytes(order);
	unsigned int spare = (unsigned int)(n * 8) - (unsigned int)BN_num_bits(order);
	uint8_t b[ECP_SCALAR_MAX];
	int err = -EIO;

	for (int i = 0; i < SCALAR_TRIES; i++) {
		err = rng_fill(rng, b, n);
		if (err < 0)
			break;
		b[0] &= (uint8_t)(0xff >> spare);
		err = -EIO;
		if (!BN_bin2bn(b, (int)n, ret))
			break;
		if (!BN_is_zero(ret) && BN_cmp(ret, order) < 0) {
			err = 0;
			break;
		}
	}
	w_zeroize(b, sizeof(b));
	return err;
}

/* The encoded point scalar * G, point_len bytes with the leading 0x04. */
static bool scalar_base(const EC_GROUP *group, const BIGNUM *scalar, uint8_t *point,
	size_t point_len)
{
	EC_POINT *q = EC_POINT_new(group);
	BN_CTX *bn = BN_CTX_secure_new();
	bool good = q && bn && EC_POINT_mul(group, q, scalar, NULL, NULL, bn) == 1 &&
		EC_POINT_point2oct(group, q, POINT_CONVERSION_UNCOMPRESSED, point, point_len, bn) ==
			point_len;

	EC_POINT_free(q);
	BN_CTX_free(bn);
	return good;
}

/* KE data is x | y, without the octet that says so (RFC 5903 7). */
int kex_ecp_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret)
{
	uint8_t point[ECP_POINT_MAX];
	size_t point_len = m->info.offer_len + 1u;
	EC_GROUP *group = EC_GROUP_new_by_curve_name_ex(NULL, NULL, EC_curve_nist2nid(m->group));
	BIGNUM *scalar = BN_secure_new();
	EVP_PKEY *key = NULL;
	int err = -EIO;

	if (!group || !scalar)
		goto out;
	BN_set_flags(scalar, BN_FLG_CONSTTIME);
	err = draw_scalar(EC_GROUP_get0_order(group), rng, scalar);
	if (err < 0)
		goto out;
	if (scalar_base(group, scalar, point, point_len))
		key = key_import(m, scalar, view_of(point, point_len), NULL);
	if (!key) {
		err = -EIO;
		goto out;
	}
	memcpy(public_key, point + 1, m->info.offer_len);
	*ret = key;
out:
	BN_clear_free(scalar);
	EC_GROUP_free(group);
	return err;
}

/* The import refuses a point that is not on the curve (RFC 6989 2.3). */
int kex_ecp_peer(const struct kex_method *m, struct view public_key, EVP_PKEY **ret)
{
	uint8_t point[ECP_POINT_MAX] = {UNCOMPRESSED};
	EVP_PKEY *peer;

	if (public_key.n >= sizeof(point))
		return -EBADMSG;
	memcpy(point + 1, public_key.p, public_key.n);
	peer = key_import(m, NULL, view_of(point, public_key.n + 1), NULL);
	if (!peer)
		return -EBADMSG;
	*ret = peer;
	return 0;
}

static BIGNUM *modp_power(const BIGNUM *base, const BIGNUM *exponent, const BIGNUM *prime)
{
	BN_CTX *bn = BN_CTX_secure_new();
	BIGNUM *r = BN_new();

	if (!bn || !r || BN_mod_exp_mont_consttime(r, base, exponent, prime, bn, NULL) != 1) {
		BN_clear_free(r);
		r = NULL;
	}
	BN_CTX_free(bn);
	return r;
}

int kex_modp_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret)
{
	uint8_t b[MODP_EXPONENT];
	BIGNUM *prime, *generator, *exponent, *power = NULL;
	EVP_PKEY *key = NULL;
	int err = rng_fill(rng, b, sizeof(b));

	if (err < 0)
		return err;
	prime = BN_get_rfc3526_prime_2048(NULL);
	generator = BN_new();
	exponent = BN_secure_new();
	if (prime && generator && exponent && BN_set_word(generator, 2) == 1 &&
		BN_bin2bn(b, sizeof(b), exponent)) {
		BN_set_flags(exponent, BN_FLG_CONSTTIME);
		power = modp_power(generator, exponent, prime);
	}
	w_zeroize(b, sizeof(b));
	if (power && BN_bn2binpad(power, public_key, m->info.offer_len) == m->info.offer_len)
		key = key_import(m, exponent, (struct view){0}, power);
	BN_clear_free(exponent);
	BN_free(power);
	BN_free(generator);
	BN_free(prime);
	if (!key)
		return -EIO;
	*ret = key;
	return 0;
}

/* A public value y of a safe prime group must have 1 < y < p - 1 (RFC 6989 2.1). */
int kex_modp_peer(const struct kex_method *m, struct view public_key, EVP_PKEY **ret)
{
	BIGNUM *prime = BN_get_rfc3526_prime_2048(NULL);
	BIGNUM *y = BN_bin2bn(public_key.p, (int)public_key.n, NULL);
	EVP_PKEY *peer = NULL;
	int err = -EIO;

	if (prime && y && BN_sub_word(prime, 1) == 1) {
		err = -EBADMSG;
		if (BN_cmp(y, BN_value_one()) > 0 && BN_cmp(y, prime) < 0)
			peer = key_import(m, NULL, (struct view){0}, y);
	}
	BN_free(prime);
	BN_free(y);
	if (!peer)
		return err;
	*ret = peer;
	return 0;
}

int kex_dh_agree(const struct kex_method *m, EVP_PKEY *key, EVP_PKEY *peer, uint8_t *secret)
{
	static const uint8_t zero[KEX_SECRET_MAX];
	unsigned int pad = 1; /* MODP: the secret has the width of the prime (RFC 7296 2.14) */
	OSSL_PARAM params[] = {OSSL_PARAM_uint(OSSL_EXCHANGE_PARAM_PAD, &pad), OSSL_PARAM_END};
	uint8_t out[KEX_SECRET_MAX];
	size_t n = m->info.secret_len;
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
	bool modp = strcmp(m->type, "DH") == 0;
	int err = -EIO;

	if (!ctx || EVP_PKEY_derive_init_ex(ctx, modp ? params : NULL) != 1)
		goto out;
	/* checks the peer's key as far as its type has more to check; X25519 gives an all-zero
	 * secret for points of small order, which RFC 7748 6.1 and RFC 8031 3 have us refuse */
	err = -EBADMSG;
	if (EVP_PKEY_derive_set_peer(ctx, peer) != 1 || EVP_PKEY_derive(ctx, out, &n) != 1 ||
		n != m->info.secret_len || w_equal_secret(out, zero, n))
		goto out;
	memcpy(secret, out, n);
	err = 0;
out:
	EVP_PKEY_CTX_free(ctx);
	w_zeroize(out, sizeof(out));
	return err;
}
