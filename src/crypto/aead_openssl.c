/* The AEADs by libcrypto: AES-GCM (RFC 4106, RFC 5282) and ChaCha20-Poly1305 (RFC 7634). The calls
 * are the cheapest that libcrypto has for a packet: the key schedule stays, the nonce alone is
 * new. */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

/* Seal and open have contexts of their own, as far as the key is used, made with it at once: no
 * packet allocates, and a change of direction costs no key schedule. */
struct openssl_key {
	EVP_CIPHER_CTX *seal, *open; /* NULL: not used */
	OSSL_PARAM tag[2];           /* its data points at the packet's ICV during a call */
	uint8_t nonce[AEAD_NONCE];   /* salt, then the packet's IV */
};

static EVP_CIPHER_CTX *cipher_new(const EVP_CIPHER *cipher, const uint8_t *key, int enc)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

	if (ctx && EVP_CipherInit_ex2(ctx, cipher, key, NULL, enc, NULL) != 1) {
		EVP_CIPHER_CTX_free(ctx);
		ctx = NULL;
	}
	return ctx;
}

static void openssl_free(void *state)
{
	struct openssl_key *k = state;

	EVP_CIPHER_CTX_free(k->seal);
	EVP_CIPHER_CTX_free(k->open);
	w_free_secret(k, sizeof(*k));
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

static int openssl_seal(void *state, const struct aead_op *op)
{
	struct openssl_key *k = state;

	memcpy(k->nonce + AEAD_SALT, op->iv, AEAD_IV);
	if (EVP_EncryptInit_ex2(k->seal, NULL, NULL, k->nonce, NULL) != 1 || !run(k->seal, op))
		return -EIO;
	k->tag[0].data = op->icv;
	return EVP_CIPHER_CTX_get_params(k->seal, k->tag) == 1 ? 0 : -EIO;
}

static int openssl_open(void *state, const struct aead_op *op)
{
	struct openssl_key *k = state;

	memcpy(k->nonce + AEAD_SALT, op->iv, AEAD_IV);
	k->tag[0].data = op->icv;
	if (EVP_DecryptInit_ex2(k->open, NULL, NULL, k->nonce, k->tag) != 1)
		return -EIO;
	return run(k->open, op) ? 0 : -EBADMSG;
}

int aead_openssl_key(enum aead_id id, struct view key, enum aead_use use, struct aead_key *ret)
{
	static const struct aead_method method = {openssl_seal, openssl_open, openssl_free};
	static const char *const names[AEAD_COUNT] = {
		[AEAD_AES128_GCM16] = "AES-128-GCM",
		[AEAD_AES256_GCM16] = "AES-256-GCM",
		[AEAD_CHACHA20_POLY1305] = "ChaCha20-Poly1305",
	};
	struct openssl_key *k = w_calloc(1, sizeof(*k));
	EVP_CIPHER *cipher;

	if (!k)
		return -ENOMEM;
	cipher = EVP_CIPHER_fetch(NULL, names[id], NULL);
	if (cipher) {
		if (use != AEAD_OPENS)
			k->seal = cipher_new(cipher, key.p, 1);
		if (use != AEAD_SEALS)
			k->open = cipher_new(cipher, key.p, 0);
		EVP_CIPHER_free(cipher); /* the contexts hold it */
	}
	if ((use != AEAD_OPENS && !k->seal) || (use != AEAD_SEALS && !k->open)) {
		openssl_free(k);
		return -EIO;
	}
	memcpy(k->nonce, key.p + key.n - AEAD_SALT, AEAD_SALT);
	k->tag[0] = OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, NULL, AEAD_ICV);
	k->tag[1] = OSSL_PARAM_construct_end();
	*ret = (struct aead_key){.method = &method, .state = k};
	return 0;
}
