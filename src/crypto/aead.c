/* The AEADs of ESP and the IKE SK payload, one packet or a batch at a time: AES-GCM with a 16-byte
 * ICV (RFC 4106, RFC 5282), ChaCha20-Poly1305 (RFC 7634), and AES-CBC with HMAC-SHA2-256-128 behind
 * the same calls. Which library does it is the back end's matter (aead_openssl.c, aead_mb.c). Not
 * here: padding, sequence numbers, the choice of IVs. */
#include "crypto/crypto.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

enum { BLOCK = 16 };
/* IKEv2 transform IDs of types 1 and 3 (IANA). */
enum { ENCR_AES_CBC = 12, ENCR_AES_GCM_16 = 20, ENCR_CHACHA20_POLY1305 = 28 };
enum { AUTH_HMAC_SHA2_256_128 = 12 };

/* Key length in bits and its attribute: ChaCha20 has one length and no attribute (RFC 7634 4). */
#define AEAD_SUITE(text, id, bits, attribute)                                                      \
	{                                                                                          \
		.name = text, .encr = id, .key_bits = attribute,                                   \
		.key_len = (bits) / 8 + AEAD_SALT, .iv_len = AEAD_IV, .icv_len = AEAD_ICV,         \
		.block = 1, .is_aead = true, .counter_iv = true,                                   \
	}
#define CBC_SUITE(text, bits)                                                                      \
	{                                                                                          \
		.name = text, .encr = ENCR_AES_CBC, .key_bits = bits,                              \
		.integ = AUTH_HMAC_SHA2_256_128, .key_len = (bits) / 8, .auth_key_len = 32,        \
		.iv_len = BLOCK, .icv_len = AEAD_ICV, .block = BLOCK,                              \
	}

static const struct aead_info suites[AEAD_COUNT] = {
	[AEAD_AES128_GCM16] = AEAD_SUITE("AES-128-GCM-16", ENCR_AES_GCM_16, 128, 128),
	[AEAD_AES256_GCM16] = AEAD_SUITE("AES-256-GCM-16", ENCR_AES_GCM_16, 256, 256),
	[AEAD_CHACHA20_POLY1305] = AEAD_SUITE("ChaCha20-Poly1305", ENCR_CHACHA20_POLY1305, 256, 0),
	[AEAD_AES128_CBC_SHA256_128] = CBC_SUITE("AES-128-CBC/HMAC-SHA2-256-128", 128),
	[AEAD_AES256_CBC_SHA256_128] = CBC_SUITE("AES-256-CBC/HMAC-SHA2-256-128", 256),
};

struct aead {
	enum aead_id id;
	enum aead_use use;
	struct aead_key key;
};

const struct aead_info *aead_info(enum aead_id id)
{
	return id > AEAD_NONE && id < AEAD_COUNT ? &suites[id] : NULL;
}

int aead_new(const struct crypto_backend *backend, enum aead_id id, struct view key,
	struct view auth_key, enum aead_use use, struct aead **ret)
{
	const struct aead_info *info = aead_info(id);
	struct aead *a;
	int err;

	if (!info || key.n != info->key_len || auth_key.n != info->auth_key_len)
		return -EINVAL;
	crypto_ready();
	a = w_calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->id = id;
	a->use = use;
	err = backend ? crypto_backend_key(backend, id, key, &a->key) : -ENOENT;
	if (err == -ENOENT)
		err = info->is_aead ? aead_openssl_key(id, key, use, &a->key)
				    : cbc_key(id, key, auth_key, use, &a->key);
	if (err < 0) {
		w_free(a);
		return err;
	}
	*ret = a;
	return 0;
}

void aead_free(struct aead *a)
{
	if (!a)
		return;
	a->key.method->free(a->key.state);
	w_free(a);
}

enum aead_id aead_id_of(const struct aead *a)
{
	return a->id;
}

static bool fits(const struct aead_op *op, enum aead_use barred)
{
	const struct aead_info *info = &suites[op->ctx->id];

	return op->ctx->use != barred && op->text_len <= INT_MAX && op->aad.n <= INT_MAX &&
		(op->text_len & (info->block - 1u)) == 0 && (!info->is_aead || op->trailer.n == 0);
}

size_t aead_seal(struct aead_op *op, size_t n)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		const struct aead_key *key = &op[i].ctx->key;

		op[i].result = fits(&op[i], AEAD_OPENS) ? key->method->seal(key->state, &op[i])
							: -EIO;
		good += op[i].result == 0;
	}
	return good;
}

size_t aead_open(struct aead_op *op, size_t n)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		const struct aead_key *key = &op[i].ctx->key;

		op[i].result = fits(&op[i], AEAD_SEALS) ? key->method->open(key->state, &op[i])
							: -EBADMSG;
		if (op[i].result == 0)
			good++;
		else if (op[i].text_len)
			w_zeroize(op[i].text, op[i].text_len);
	}
	return good;
}
