/* The AEADs of ESP and the IKE SK payload, one packet or a batch at a time: AES-GCM with a 16-byte
 * ICV (RFC 4106, RFC 5282), ChaCha20-Poly1305 (RFC 7634), and AES-CBC with HMAC-SHA2-256-128 behind
 * the same calls (cbc.c). Not here: padding, sequence numbers, the choice of IVs. */
#include "crypto/crypto.h"

#include <errno.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

enum { SALT = 4, NONCE = 12, NONCE_IV = 8, ICV = 16, BLOCK = 16 };
/* IKEv2 transform IDs of types 1 and 3 (IANA). */
enum { ENCR_AES_CBC = 12, ENCR_AES_GCM_16 = 20, ENCR_CHACHA20_POLY1305 = 28 };
enum { AUTH_HMAC_SHA2_256_128 = 12 };

struct suite {
	struct aead_info info;
	const char *cipher; /* libcrypto's name */
};

/* Key length in bits and its attribute: ChaCha20 has one length and no attribute (RFC 7634 4). */
#define AEAD_SUITE(text, id, bits, attribute, lib)                                                 \
	{                                                                                          \
		.info = {.name = text,                                                             \
			.encr = id,                                                                \
			.key_bits = attribute,                                                     \
			.key_len = (bits) / 8 + SALT,                                              \
			.iv_len = NONCE_IV,                                                        \
			.icv_len = ICV,                                                            \
			.block = 1,                                                                \
			.is_aead = true,                                                           \
			.counter_iv = true},                                                       \
		.cipher = lib,                                                                     \
	}
#define CBC_SUITE(text, bits, lib)                                                                 \
	{                                                                                          \
		.info = {.name = text,                                                             \
			.encr = ENCR_AES_CBC,                                                      \
			.key_bits = bits,                                                          \
			.integ = AUTH_HMAC_SHA2_256_128,                                           \
			.key_len = (bits) / 8,                                                     \
			.auth_key_len = 32,                                                        \
			.iv_len = BLOCK,                                                           \
			.icv_len = ICV,                                                            \
			.block = BLOCK},                                                           \
		.cipher = lib,                                                                     \
	}

static const struct suite suites[AEAD_COUNT] = {
	[AEAD_AES128_GCM16] = AEAD_SUITE("AES-128-GCM-16", ENCR_AES_GCM_16, 128, 128,
		"AES-128-GCM"),
	[AEAD_AES256_GCM16] = AEAD_SUITE("AES-256-GCM-16", ENCR_AES_GCM_16, 256, 256,
		"AES-256-GCM"),
	[AEAD_CHACHA20_POLY1305] = AEAD_SUITE("ChaCha20-Poly1305", ENCR_CHACHA20_POLY1305, 256, 0,
		"ChaCha20-Poly1305"),
	[AEAD_AES128_CBC_SHA256_128] = CBC_SUITE("AES-128-CBC/HMAC-SHA2-256-128", 128,
		"AES-128-CBC"),
	[AEAD_AES256_CBC_SHA256_128] = CBC_SUITE("AES-256-CBC/HMAC-SHA2-256-128", 256,
		"AES-256-CBC"),
};

/* Seal and open have contexts of their own, made with the key at once: no packet allocates, and a
 * change of direction costs no key schedule. */
struct aead {
	enum aead_id id;
	EVP_CIPHER_CTX *seal, *open; /* AEADs */
	struct cbc *cbc_seal, *cbc_open;
	OSSL_PARAM tag[2];    /* its data points at the packet's ICV during a call */
	uint8_t nonce[NONCE]; /* salt, then the packet's IV */
};

static const struct suite *suite_of(enum aead_id id)
{
	return id > AEAD_NONE && id < AEAD_COUNT ? &suites[id] : NULL;
}

const struct aead_info *aead_info(enum aead_id id)
{
	const struct suite *s = suite_of(id);

	return s ? &s->info : NULL;
}

static EVP_CIPHER_CTX *cipher_new(const EVP_CIPHER *cipher, const uint8_t *key, int enc)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

	if (ctx && EVP_CipherInit_ex2(ctx, cipher, key, NULL, enc, NULL) != 1) {
		EVP_CIPHER_CTX_free(ctx);
		ctx = NULL;
	}
	return ctx;
}

static int make_contexts(struct aead *a, const struct suite *s, struct view key, struct view auth)
{
	EVP_CIPHER *cipher;
	int err;

	if (!s->info.is_aead) {
		err = cbc_new(s->cipher, key, auth, true, &a->cbc_seal);
		return err < 0 ? err : cbc_new(s->cipher, key, auth, false, &a->cbc_open);
	}
	cipher = EVP_CIPHER_fetch(NULL, s->cipher, NULL);
	if (!cipher)
		return -EIO;
	a->seal = cipher_new(cipher, key.p, 1);
	a->open = cipher_new(cipher, key.p, 0);
	EVP_CIPHER_free(cipher); /* the contexts hold it */
	memcpy(a->nonce, key.p + key.n - SALT, SALT);
	a->tag[0] = OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, NULL, ICV);
	a->tag[1] = OSSL_PARAM_construct_end();
	return a->seal && a->open ? 0 : -EIO;
}

int aead_new(enum aead_id id, struct view key, struct view auth_key, struct aead **ret)
{
	const struct suite *s = suite_of(id);
	struct aead *a;
	int err;

	if (!s || key.n != s->info.key_len || auth_key.n != s->info.auth_key_len)
		return -EINVAL;
	crypto_ready();
	a = w_calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->id = id;
	err = make_contexts(a, s, key, auth_key);
	if (err < 0) {
		aead_free(a);
		return err;
	}
	*ret = a;
	return 0;
}

void aead_free(struct aead *a)
{
	if (!a)
		return;
	EVP_CIPHER_CTX_free(a->seal);
	EVP_CIPHER_CTX_free(a->open);
	cbc_free(a->cbc_seal);
	cbc_free(a->cbc_open);
	w_free_secret(a, sizeof(*a));
}

enum aead_id aead_id_of(const struct aead *a)
{
	return a->id;
}

/* AAD and text through a context that has its nonce, then the end of the message: for open, the
 * comparison of the ICV. False on failure. */
static bool run(EVP_CIPHER_CTX *ctx, const struct aead_op *op)
{
	if (op->aad.n && EVP_Cipher(ctx, NULL, op->aad.p, (unsigned int)op->aad.n) < 0)
		return false;
	if (op->text_len && EVP_Cipher(ctx, op->text, op->text, (unsigned int)op->text_len) < 0)
		return false;
	return EVP_Cipher(ctx, NULL, NULL, 0) >= 0;
}

static bool fits(const struct aead_op *op, const struct aead_info *info)
{
	return op->text_len <= INT_MAX && op->aad.n <= INT_MAX && op->text_len % info->block == 0 &&
		(!info->is_aead || op->trailer.n == 0);
}

static int seal_one(const struct aead_op *op)
{
	struct aead *a = op->ctx;

	if (!fits(op, &suites[a->id].info))
		return -EIO;
	if (a->cbc_seal)
		return cbc_seal(a->cbc_seal, op);
	memcpy(a->nonce + SALT, op->iv, NONCE_IV);
	if (EVP_EncryptInit_ex2(a->seal, NULL, NULL, a->nonce, NULL) != 1 || !run(a->seal, op))
		return -EIO;
	a->tag[0].data = op->icv;
	return EVP_CIPHER_CTX_get_params(a->seal, a->tag) == 1 ? 0 : -EIO;
}

static int open_one(const struct aead_op *op)
{
	struct aead *a = op->ctx;

	if (!fits(op, &suites[a->id].info))
		return -EBADMSG;
	if (a->cbc_open)
		return cbc_open(a->cbc_open, op);
	memcpy(a->nonce + SALT, op->iv, NONCE_IV);
	a->tag[0].data = op->icv;
	if (EVP_DecryptInit_ex2(a->open, NULL, NULL, a->nonce, a->tag) != 1)
		return -EIO;
	return run(a->open, op) ? 0 : -EBADMSG;
}

size_t aead_seal(struct aead_op *op, size_t n)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		op[i].result = seal_one(&op[i]);
		good += op[i].result == 0;
	}
	return good;
}

size_t aead_open(struct aead_op *op, size_t n)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		op[i].result = open_one(&op[i]);
		if (op[i].result == 0)
			good++;
		else if (op[i].text_len)
			w_zeroize(op[i].text, op[i].text_len);
	}
	return good;
}
