/* AES-CBC (RFC 3602) with HMAC-SHA2-256-128 (RFC 4868), encrypt-then-MAC as in RFC 4303 3.3.2: the
 * ICV covers AAD | IV | ciphertext | trailer. Padding is the caller's. */
#include "crypto/priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum { CBC_IV = 16, CBC_ICV = 16, SHA256 = 32 };

/* One direction. */
struct cbc {
	EVP_CIPHER_CTX *cipher;
	EVP_MAC_CTX *mac;
};

struct cbc_pair {
	struct cbc seal, open;
};

static bool cbc_init(struct cbc *c, const EVP_CIPHER *cipher, struct view key, struct view auth,
	int enc)
{
	c->cipher = EVP_CIPHER_CTX_new();
	c->mac = hmac_new("SHA256", auth);
	return c->cipher && c->mac &&
		EVP_CipherInit_ex2(c->cipher, cipher, key.p, NULL, enc, NULL) == 1 &&
		EVP_CIPHER_CTX_set_padding(c->cipher, 0) == 1;
}

static void cbc_done(struct cbc *c)
{
	EVP_CIPHER_CTX_free(c->cipher);
	EVP_MAC_CTX_free(c->mac);
}

static void cbc_free(void *state)
{
	struct cbc_pair *p = state;

	cbc_done(&p->seal);
	cbc_done(&p->open);
	w_free(p);
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

static int cbc_seal(void *state, const struct aead_op *op)
{
	struct cbc *c = &((struct cbc_pair *)state)->seal;
	uint8_t mac[SHA256];

	if (!crypt_text(c, op, 1) || !compute_icv(c, op, mac))
		return -EIO;
	memcpy(op->icv, mac, CBC_ICV);
	return 0;
}

static int cbc_open(void *state, const struct aead_op *op)
{
	struct cbc *c = &((struct cbc_pair *)state)->open;
	uint8_t mac[SHA256];

	if (!compute_icv(c, op, mac))
		return -EIO;
	if (!w_equal_secret(mac, op->icv, CBC_ICV))
		return -EBADMSG;
	return crypt_text(c, op, 0) ? 0 : -EIO;
}

int cbc_key(enum aead_id id, struct view key, struct view auth_key, enum aead_use use,
	struct aead_key *ret)
{
	static const struct aead_method method = {cbc_seal, cbc_open, cbc_free};
	struct cbc_pair *p = w_calloc(1, sizeof(*p));
	EVP_CIPHER *cipher;
	bool good;

	if (!p)
		return -ENOMEM;
	cipher = EVP_CIPHER_fetch(NULL,
		id == AEAD_AES128_CBC_SHA256_128 ? "AES-128-CBC" : "AES-256-CBC", NULL);
	good = cipher && (use == AEAD_OPENS || cbc_init(&p->seal, cipher, key, auth_key, 1)) &&
		(use == AEAD_SEALS || cbc_init(&p->open, cipher, key, auth_key, 0));
	EVP_CIPHER_free(cipher); /* the contexts hold it */
	if (!good) {
		cbc_free(p);
		return -EIO;
	}
	*ret = (struct aead_key){.method = &method, .state = p};
	return 0;
}
