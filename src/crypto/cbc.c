/* AES-CBC (RFC 3602) with HMAC-SHA2-256-128 (RFC 4868), encrypt-then-MAC as in RFC 4303 3.3.2: the
 * ICV covers AAD | IV | ciphertext | trailer. Padding is the caller's. */
#include "crypto/priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum { CBC_IV = 16, CBC_ICV = 16, SHA256 = 32 };

struct cbc {
	EVP_CIPHER_CTX *cipher;
	EVP_MAC_CTX *mac;
};

int cbc_new(const char *cipher, struct view key, struct view auth_key, bool seal, struct cbc **ret)
{
	struct cbc *c = w_calloc(1, sizeof(*c));
	EVP_CIPHER *fetched;
	bool good;

	if (!c)
		return -ENOMEM;
	fetched = EVP_CIPHER_fetch(NULL, cipher, NULL);
	c->cipher = EVP_CIPHER_CTX_new();
	c->mac = hmac_new("SHA256", auth_key);
	good = fetched && c->cipher && c->mac &&
		EVP_CipherInit_ex2(c->cipher, fetched, key.p, NULL, seal, NULL) == 1 &&
		EVP_CIPHER_CTX_set_padding(c->cipher, 0) == 1;
	EVP_CIPHER_free(fetched);
	if (!good) {
		cbc_free(c);
		return -EIO;
	}
	*ret = c;
	return 0;
}

void cbc_free(struct cbc *c)
{
	if (!c)
		return;
	EVP_CIPHER_CTX_free(c->cipher);
	EVP_MAC_CTX_free(c->mac);
	w_free(c);
}

static bool crypt_text(struct cbc *c, const struct aead_op *op, int enc)
{
	int n = 0;

	if (EVP_CipherInit_ex2(c->cipher, NULL, NULL, op->iv, enc, NULL) != 1)
		return false;
	return !op->text_len ||
		(EVP_CipherUpdate(c->cipher, op->text, &n, op->text, (int)op->text_len) == 1 &&
			(size_t)n == op->text_len);
}

static bool compute_icv(struct cbc *c, const struct aead_op *op, uint8_t mac[static SHA256])
{
	size_t n = 0;

	return hmac_restart(c->mac) && hmac_add(c->mac, op->aad) &&
		hmac_add(c->mac, view_of(op->iv, CBC_IV)) &&
		hmac_add(c->mac, view_of(op->text, op->text_len)) &&
		hmac_add(c->mac, op->trailer) && EVP_MAC_final(c->mac, mac, &n, SHA256) == 1 &&
		n == SHA256;
}

int cbc_seal(struct cbc *c, const struct aead_op *op)
{
	uint8_t mac[SHA256];

	if (!crypt_text(c, op, 1) || !compute_icv(c, op, mac))
		return -EIO;
	memcpy(op->icv, mac, CBC_ICV);
	return 0;
}

int cbc_open(struct cbc *c, const struct aead_op *op)
{
	uint8_t mac[SHA256];

	if (!compute_icv(c, op, mac))
		return -EIO;
	if (!w_equal_secret(mac, op->icv, CBC_ICV))
		return -EBADMSG;
	return crypt_text(c, op, 0) ? 0 : -EIO;
}
