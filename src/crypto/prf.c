/* The PRF of IKEv2, its expansion prf+ (RFC 7296 2.13), HMAC (RFC 2104, RFC 4868), and the two bare
 * hashes that the protocols use. */
#include "crypto/crypto.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

enum { PRF_PLUS_BLOCKS = 255 };

static const struct {
	struct prf_info info;
	const char *digest;
} prfs[PRF_COUNT] = {
	[PRF_HMAC_SHA2_256] = {{"HMAC-SHA2-256", 5, 32}, "SHA256"},
	[PRF_HMAC_SHA2_384] = {{"HMAC-SHA2-384", 6, 48}, "SHA384"},
	[PRF_HMAC_SHA2_512] = {{"HMAC-SHA2-512", 7, 64}, "SHA512"},
};

const struct prf_info *prf_info(enum prf_id id)
{
	return id > PRF_NONE && id < PRF_COUNT ? &prfs[id].info : NULL;
}

EVP_MAC_CTX *hmac_new(const char *digest, struct view key)
{
	static const uint8_t empty[1];
	/* libcrypto only reads the name */
	OSSL_PARAM params[2] = {{.key = OSSL_MAC_PARAM_DIGEST,
					.data_type = OSSL_PARAM_UTF8_STRING,
					.data = (void *)(uintptr_t)digest,
					.data_size = strlen(digest)},
		OSSL_PARAM_END};
	EVP_MAC *mac;
	EVP_MAC_CTX *ctx;

	crypto_ready();
	mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	/* a NULL key would mean "the same as before" */
	if (ctx && EVP_MAC_init(ctx, key.n ? key.p : empty, key.n, params) != 1) {
		EVP_MAC_CTX_free(ctx);
		ctx = NULL;
	}
	return ctx;
}

bool hmac_add(EVP_MAC_CTX *mac, struct view v)
{
	return !v.n || EVP_MAC_update(mac, v.p, v.n) == 1;
}

bool hmac_restart(EVP_MAC_CTX *mac)
{
	return EVP_MAC_init(mac, NULL, 0, NULL) == 1;
}

static bool hmac_final(EVP_MAC_CTX *mac, uint8_t *out, size_t len)
{
	size_t n = 0;

	return EVP_MAC_final(mac, out, &n, len) == 1 && n == len;
}

int prf(enum prf_id id, struct view key, const struct view *data, size_t n, uint8_t *out)
{
	const struct prf_info *info = prf_info(id);
	uint8_t block[PRF_MAX];
	EVP_MAC_CTX *mac;
	bool good;

	if (!info)
		return -EIO;
	mac = hmac_new(prfs[id].digest, key);
	good = mac != NULL;
	for (size_t i = 0; good && i < n; i++)
		good = hmac_add(mac, data[i]);
	good = good && hmac_final(mac, block, info->len);
	EVP_MAC_CTX_free(mac);
	if (good)
		memcpy(out, block, info->len);
	w_zeroize(block, sizeof(block));
	return good ? 0 : -EIO;
}

/* T1 = prf(K, S | 0x01), Tn = prf(K, Tn-1 | S | n) (RFC 7296 2.13). */
int mac_blake2s(struct view key, const struct view *data, size_t n, uint8_t out[static 16])
{
	enum { LEN = 16, KEY_MAX = 32 };
	size_t size = LEN;
	OSSL_PARAM params[2] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
		OSSL_PARAM_END};
	EVP_MAC_CTX *ctx;
	EVP_MAC *mac;
	bool good;

	if (!key.n || key.n > KEY_MAX)
		return -EINVAL;
	crypto_ready();
	mac = EVP_MAC_fetch(NULL, "BLAKE2SMAC", NULL);
	ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	good = ctx && EVP_MAC_init(ctx, key.p, key.n, params) == 1;
	for (size_t i = 0; good && i < n; i++)
		good = hmac_add(ctx, data[i]);
	good = good && hmac_final(ctx, out, LEN);
	EVP_MAC_CTX_free(ctx);
	return good ? 0 : -EIO;
}

int prf_plus(enum prf_id id, struct view key, struct view seed, uint8_t *out, size_t out_len)
{
	const struct prf_info *info = prf_info(id);
	uint8_t block[PRF_MAX];
	struct wcur w = wcur_of(out, out_len);
	EVP_MAC_CTX *mac;
	bool good;

	if (!info || out_len > (size_t)PRF_PLUS_BLOCKS * info->len)
		return -EINVAL;
	mac = hmac_new(prfs[id].digest, key);
	good = mac != NULL;
	for (uint8_t i = 1; good && w.len < out_len; i++) {
		size_t left = out_len - w.len;

		good = (i == 1 ||
			       (hmac_restart(mac) && hmac_add(mac, view_of(block, info->len)))) &&
			hmac_add(mac, seed) && hmac_add(mac, view_of(&i, 1)) &&
			hmac_final(mac, block, info->len);
		if (good)
			wcur_bytes(&w, block, left < info->len ? left : info->len);
	}
	EVP_MAC_CTX_free(mac);
	w_zeroize(block, sizeof(block));
	if (!good && out_len)
		w_zeroize(out, out_len);
	return good ? 0 : -EIO;
}

static int hash(const char *name, const struct view *data, size_t n, uint8_t *out)
{
	EVP_MD *md;
	EVP_MD_CTX *ctx;
	bool good;

	crypto_ready();
	md = EVP_MD_fetch(NULL, name, NULL);
	ctx = EVP_MD_CTX_new();
	good = md && ctx && EVP_DigestInit_ex2(ctx, md, NULL) == 1;
	for (size_t i = 0; good && i < n; i++)
		good = !data[i].n || EVP_DigestUpdate(ctx, data[i].p, data[i].n) == 1;
	good = good && EVP_DigestFinal_ex(ctx, out, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_MD_free(md);
	return good ? 0 : -EIO;
}

int hash_sha1(const struct view *data, size_t n, uint8_t out[static 20])
{
	return hash("SHA1", data, n, out);
}

int hash_sha256(const struct view *data, size_t n, uint8_t out[static 32])
{
	return hash("SHA256", data, n, out);
}
