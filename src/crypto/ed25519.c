/* Ed25519 (RFC 8032, pure) with the key encodings of RFC 8410: PKCS#8 and SubjectPublicKeyInfo in
 * PEM. Encrypted private keys are not read: there is no one to ask for a passphrase. */
#include "crypto/crypto.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

enum { ED25519_SEED = 32, TYPE_TEXT = 32 };

struct ed25519_key {
	EVP_PKEY *pkey; /* freeing it zeroes the private part */
	uint8_t public_key[ED25519_PUBLIC];
};

/* pkey gets owned, also on failure. */
static int key_wrap(EVP_PKEY *pkey, struct ed25519_key **ret)
{
	struct ed25519_key *k = w_calloc(1, sizeof(*k));
	size_t n = ED25519_PUBLIC;

	if (!k) {
		EVP_PKEY_free(pkey);
		return -ENOMEM;
	}
	k->pkey = pkey;
	if (EVP_PKEY_get_raw_public_key(pkey, k->public_key, &n) != 1 || n != ED25519_PUBLIC) {
		ed25519_free(k);
		return -EIO;
	}
	*ret = k;
	return 0;
}

int ed25519_from_seed(const uint8_t seed[static 32], struct ed25519_key **ret)
{
	EVP_PKEY *pkey;

	crypto_ready();
	pkey = EVP_PKEY_new_raw_private_key_ex(NULL, "ED25519", NULL, seed, ED25519_SEED);
	return pkey ? key_wrap(pkey, ret) : -EIO;
}

int ed25519_generate(const struct rng *rng, struct ed25519_key **ret)
{
	uint8_t seed[ED25519_SEED];
	int err = rng_fill(rng, seed, sizeof(seed));

	if (err == 0)
		err = ed25519_from_seed(seed, ret);
	w_zeroize(seed, sizeof(seed));
	return err;
}

void ed25519_free(struct ed25519_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pkey);
	w_free(k);
}

void ed25519_public(const struct ed25519_key *k, uint8_t out[static ED25519_PUBLIC])
{
	memcpy(out, k->public_key, ED25519_PUBLIC);
}

int ed25519_sign(const struct ed25519_key *k, struct view data,
	uint8_t sig[static ED25519_SIGNATURE])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t out[ED25519_SIGNATURE];
	size_t n = sizeof(out);
	bool good = ctx && EVP_DigestSignInit_ex(ctx, NULL, NULL, NULL, NULL, k->pkey, NULL) == 1 &&
		EVP_DigestSign(ctx, out, &n, data.p, data.n) == 1 && n == sizeof(out);

	EVP_MD_CTX_free(ctx);
	if (!good)
		return -EIO;
	memcpy(sig, out, sizeof(out));
	return 0;
}

int ed25519_verify(const uint8_t public_key[static ED25519_PUBLIC], struct view data,
	struct view sig)
{
	EVP_PKEY *pkey;
	EVP_MD_CTX *ctx;
	int err = -EIO;

	if (sig.n != ED25519_SIGNATURE)
		return -EBADMSG;
	crypto_ready();
	pkey = EVP_PKEY_new_raw_public_key_ex(NULL, "ED25519", NULL, public_key, ED25519_PUBLIC);
	ctx = EVP_MD_CTX_new();
	if (pkey && ctx && EVP_DigestVerifyInit_ex(ctx, NULL, NULL, NULL, NULL, pkey, NULL) == 1)
		err = EVP_DigestVerify(ctx, sig.p, sig.n, data.p, data.n) == 1 ? 0 : -EBADMSG;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return err;
}

/* Never asks: an encrypted key is an unreadable one. */
static int no_passphrase(char *out, int size, int writing, void *ctx)
{
	(void)out;
	(void)size;
	(void)writing;
	(void)ctx;
	return -1;
}

static int pem_read(struct view pem, bool private_key, EVP_PKEY **ret,
	char ret_type[static TYPE_TEXT])
{
	EVP_PKEY *pkey = NULL;
	BIO *bio;

	if (!pem.n || pem.n > INT_MAX)
		return -EINVAL;
	crypto_ready();
	bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	if (!bio)
		return -ENOMEM;
	if (private_key)
		pkey = PEM_read_bio_PrivateKey_ex(bio, NULL, no_passphrase, NULL, NULL, NULL);
	else
		pkey = PEM_read_bio_PUBKEY_ex(bio, NULL, no_passphrase, NULL, NULL, NULL);
	BIO_free(bio);
	ERR_clear_error();
	if (!pkey)
		return -EINVAL;
	if (!EVP_PKEY_is_a(pkey, "ED25519")) {
		const char *type = EVP_PKEY_get0_type_name(pkey);

		(void)snprintf(ret_type, TYPE_TEXT, "%s", type ? type : "unknown");
		EVP_PKEY_free(pkey);
		return -EKEYREJECTED;
	}
	*ret = pkey;
	return 0;
}

int ed25519_from_pem(struct view pem, struct ed25519_key **ret, char ret_type[static 32])
{
	EVP_PKEY *pkey;
	int err = pem_read(pem, true, &pkey, ret_type);

	return err < 0 ? err : key_wrap(pkey, ret);
}

int ed25519_public_from_pem(struct view pem, uint8_t ret[static ED25519_PUBLIC],
	char ret_type[static 32])
{
	uint8_t out[ED25519_PUBLIC];
	size_t n = sizeof(out);
	EVP_PKEY *pkey;
	int err = pem_read(pem, false, &pkey, ret_type);

	if (err < 0)
		return err;
	if (EVP_PKEY_get_raw_public_key(pkey, out, &n) != 1 || n != sizeof(out))
		err = -EIO;
	else
		memcpy(ret, out, sizeof(out));
	EVP_PKEY_free(pkey);
	return err;
}

/* The text in bio as a string of our own; bio may be NULL (no memory) and gets owned. */
static int bio_text(BIO *bio, bool written, char **ret)
{
	char *from, *text;
	long n;
	int err = -EIO;

	if (!bio)
		return -ENOMEM;
	n = written ? BIO_get_mem_data(bio, &from) : 0;
	if (n > 0) {
		text = w_calloc(1, (size_t)n + 1);
		err = text ? 0 : -ENOMEM;
		if (text) {
			memcpy(text, from, (size_t)n);
			*ret = text;
		}
	}
	BIO_free(bio); /* a memory BIO zeroes what it held */
	return err;
}

int ed25519_to_pem(const struct ed25519_key *k, char **ret)
{
	BIO *bio = BIO_new(BIO_s_mem());
	bool good = bio &&
		PEM_write_bio_PKCS8PrivateKey(bio, k->pkey, NULL, NULL, 0, NULL, NULL) == 1;

	return bio_text(bio, good, ret);
}

int ed25519_public_to_pem(const uint8_t public_key[static ED25519_PUBLIC], char **ret)
{
	EVP_PKEY *pkey;
	BIO *bio;
	bool good;

	crypto_ready();
	pkey = EVP_PKEY_new_raw_public_key_ex(NULL, "ED25519", NULL, public_key, ED25519_PUBLIC);
	if (!pkey)
		return -EIO;
	bio = BIO_new(BIO_s_mem());
	good = bio && PEM_write_bio_PUBKEY(bio, pkey) == 1;
	EVP_PKEY_free(pkey);
	return bio_text(bio, good, ret);
}
