/* What the files of this room share. Not for other rooms. */
#pragma once
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include "crypto/crypto.h"

/* Readies libcrypto without its configuration file: what this room does depends on no file of the
 * system. Every entry point that may be the first use calls it; it is cheap when done before. */
static inline void crypto_ready(void)
{
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
}

/* A keyed HMAC over the digest (libcrypto's name); NULL on failure. Restart it for the next message
 * with hmac_restart(): the padded key is hashed once only. Free with EVP_MAC_CTX_free(). */
EVP_MAC_CTX *hmac_new(const char *digest, struct view key);
/* Feeds what is in v; an empty view is fine. */
bool hmac_add(EVP_MAC_CTX *mac, struct view v);
bool hmac_restart(EVP_MAC_CTX *mac);

/* ---- AEADs: what a library has for one suite ------------------------------------------------- */
enum { AEAD_SALT = 4, AEAD_NONCE = 12, AEAD_IV = 8, AEAD_ICV = 16 };

/* One packet each; lengths are looked at before. 0, -EBADMSG (open: not authentic; the text is left
 * to the caller to zero), -EIO. */
struct aead_method {
	int (*seal)(void *state, const struct aead_op *op);
	int (*open)(void *state, const struct aead_op *op);
	void (*free)(void *state); /* zeroes */
};

struct aead_key {
	const struct aead_method *method;
	void *state;
};

/* Make a key; lengths are the caller's to check. 0, -ENOMEM or -EIO. */
int aead_openssl_key(enum aead_id id, struct view key, enum aead_use use, struct aead_key *ret);
int cbc_key(enum aead_id id, struct view key, struct view auth_key, enum aead_use use,
	struct aead_key *ret);
/* As above; -ENOENT: the back end leaves this suite to OpenSSL. */
int crypto_backend_key(const struct crypto_backend *b, enum aead_id id, struct view key,
	struct aead_key *ret);

/* Intel IPsec-MB (aead_mb.c, or aead_mb_none.c where the build has none of it). */
struct mb;
/* 0, -ENOENT: not in this build; -ENOTSUP: the processor lacks AES instructions; -ENOMEM; -EIO. */
int mb_new(struct mb **ret);
void mb_free(struct mb *m); /* NULL is fine */
const char *mb_version(const struct mb *m);
int mb_key(const struct mb *m, enum aead_id id, struct view key, struct aead_key *ret);

/* ---- Key exchange methods ------------------------------------------------------------------ */
struct kex_method {
	struct kex_info info;
	const char *type;  /* libcrypto's key type */
	const char *group; /* libcrypto's group name, NULL when the type says it */
	/* Makes a key pair from rng; public_key takes offer_len bytes. 0 or a negative errno. */
	int (*generate)(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
		EVP_PKEY **ret);
	/* Reads the peer's public value of the right length; -EBADMSG when it is refused. */
	int (*peer)(const struct kex_method *m, struct view public_key, EVP_PKEY **ret);
};

int kex_x25519_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret);
int kex_ecp_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret);
int kex_modp_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret);
int kex_mlkem_generate(const struct kex_method *m, const struct rng *rng, uint8_t *public_key,
	EVP_PKEY **ret);

/* Public keys that are their own encoding: X25519 and ML-KEM. */
int kex_raw_peer(const struct kex_method *m, struct view public_key, EVP_PKEY **ret);
int kex_ecp_peer(const struct kex_method *m, struct view public_key, EVP_PKEY **ret);
int kex_modp_peer(const struct kex_method *m, struct view public_key, EVP_PKEY **ret);

/* The Diffie-Hellman secret of a key and a peer's public key (secret_len bytes). 0, -EBADMSG, -EIO.
 */
int kex_dh_agree(const struct kex_method *m, EVP_PKEY *key, EVP_PKEY *peer, uint8_t *secret);
/* ML-KEM.Encaps with 32 bytes of rng, and ML-KEM.Decaps (answer has the right length). */
int kex_mlkem_encapsulate(const struct kex_method *m, const struct rng *rng, EVP_PKEY *peer,
	uint8_t *answer, uint8_t *secret);
int kex_mlkem_decapsulate(const struct kex_method *m, EVP_PKEY *key, struct view answer,
	uint8_t *secret);
