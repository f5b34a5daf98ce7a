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

/* ---- One direction of AES-CBC + HMAC-SHA2-256-128 (cbc.c) ---------------------------------- */
struct cbc; /* cipher and MAC context */

/* 0, -ENOMEM or -EIO; lengths are the caller's to check. */
int cbc_new(const char *cipher, struct view key, struct view auth_key, bool seal, struct cbc **ret);
void cbc_free(struct cbc *c);
/* As aead_seal and aead_open for one packet: 0, -EBADMSG, -EIO. The text of a failed open is left
 * to the caller to zero. */
int cbc_seal(struct cbc *c, const struct aead_op *op);
int cbc_open(struct cbc *c, const struct aead_op *op);

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
