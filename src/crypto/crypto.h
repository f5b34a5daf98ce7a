/* Cryptographic primitives, by their names in IKEv2 and ESP. The only room that sees the crypto
 * libraries. All functions are pure: randomness comes from the rng that the caller gives. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"
#include "base/rng.h"

/* ---- Back ends -------------------------------------------------------------------------------
 * Whose code seals and opens packets. OpenSSL does everything else in this room, and the suites
 * that the chosen back end does not have. Immutable: any thread may use it. */
enum crypto_backend_id {
	CRYPTO_OPENSSL,
	CRYPTO_IPSEC_MB, /* Intel IPsec-MB: AES-GCM, by single-buffer calls */
	CRYPTO_BACKEND_COUNT
};

struct crypto_backend;

/* 0, -ENOENT: not in this build, -ENOTSUP: the processor lacks what it needs, -ENOMEM, -EIO. */
int crypto_backend_new(enum crypto_backend_id id, struct crypto_backend **ret);
/* After the last of its contexts; NULL is fine. */
void crypto_backend_free(struct crypto_backend *b);
enum crypto_backend_id crypto_backend_id_of(const struct crypto_backend *b);
/* For people: "Intel IPsec-MB 1.3.0 for AES-GCM, OpenSSL 3.5.9 …". Lives as long as b. */
const char *crypto_backend_text(const struct crypto_backend *b);
/* Makes the back end and has every form of its calls answer: published values, then many lengths
 * and alignments against OpenSSL, and forgeries to be refused. A library that is not well may do
 * anything here, a crash included: run this in a process that may die. 0, -EBADMSG: a wrong answer,
 * or as crypto_backend_new(). */
int crypto_selftest(enum crypto_backend_id id);

/* ---- AEAD and the encrypt-then-MAC suites, one interface -------------------------------------
 * A packet is AAD (authenticated), IV (explicit, sent), and text, encrypted in place, followed by
 * the ICV. The AEADs of RFC 4106/5282 (GCM) and RFC 7634 (ChaCha20-Poly1305) build their nonce from
 * the salt at the end of the key and the 8-byte IV. AES-CBC + HMAC-SHA2-256-128 (RFC 3602, 4868)
 * authenticates AAD | IV | ciphertext | trailer, and takes a random 16-byte IV. */
enum aead_id {
	AEAD_NONE,
	AEAD_AES128_GCM16,
	AEAD_AES256_GCM16,
	AEAD_CHACHA20_POLY1305,
	AEAD_AES128_CBC_SHA256_128,
	AEAD_AES256_CBC_SHA256_128,
	AEAD_COUNT
};

struct aead_info {
	const char *name;     /* "AES-256-GCM-16", … as in status output */
	uint16_t encr;        /* IKEv2 transform type 1 ID: 20, 28, 12 */
	uint16_t key_bits;    /* the Key Length attribute; 0 when the transform has none */
	uint16_t integ;       /* transform type 3 ID: 12 (HMAC_SHA2_256_128), 0 for an AEAD */
	uint8_t key_len;      /* encryption key bytes, salt included */
	uint8_t auth_key_len; /* integrity key bytes, 0 for an AEAD */
	uint8_t iv_len, icv_len;
	uint8_t block; /* text length must be a multiple: 1 or 16 (padding is the caller's) */
	bool is_aead;
	bool counter_iv; /* the IV may be a counter (true), or must be unpredictable (false) */
};

/* Facts about a suite; NULL for AEAD_NONE or an unknown one. */
const struct aead_info *aead_info(enum aead_id id);

struct aead; /* key schedule and scratch; one thread at a time */

/* What a context is for: most keys go one way, and half of a context is a kilobyte. */
enum aead_use { AEAD_BOTH, AEAD_SEALS, AEAD_OPENS };

/* Makes a context from the encryption key (key_len bytes, salt last) and the integrity key
 * (auth_key_len bytes; n 0 for an AEAD). Keys are copied; backend (NULL: OpenSSL) is borrowed and
 * outlives the context. What it is not for fails in each operation. 0, -EINVAL (lengths), -ENOMEM,
 * -EIO. */
int aead_new(const struct crypto_backend *backend, enum aead_id id, struct view key,
	struct view auth_key, enum aead_use use, struct aead **ret);
/* Zeroes and frees; NULL is fine. */
void aead_free(struct aead *a);
enum aead_id aead_id_of(const struct aead *a);

/* One packet of a batch. `text` is encrypted or decrypted in place; `icv` is written by seal and
 * read by open. trailer: bytes authenticated after the ciphertext but not sent (the high half of
 * an ESN with AES-CBC + HMAC, RFC 4303 2.2.1); must be empty for AEADs, which have it in aad. */
struct aead_op {
	struct aead *ctx;
	struct view aad;
	const uint8_t *iv; /* iv_len bytes, as on the wire */
	uint8_t *text;
	size_t text_len;
	uint8_t *icv; /* icv_len bytes */
	struct view trailer;
	int result; /* set: 0, -EBADMSG (open: not authentic, the text is zeroed), -EIO */
};

/* Seals or opens n operations, which may have different contexts. Returns the number whose result
 * is 0. open compares ICVs in constant time and releases no unverified plaintext. */
size_t aead_seal(struct aead_op *op, size_t n);
size_t aead_open(struct aead_op *op, size_t n);

/* ---- PRF (RFC 7296 2.13) and hashes ------------------------------------------------------- */
enum prf_id { PRF_NONE, PRF_HMAC_SHA2_256, PRF_HMAC_SHA2_384, PRF_HMAC_SHA2_512, PRF_COUNT };
enum { PRF_MAX = 64 };

struct prf_info {
	const char *name; /* "HMAC-SHA2-512" */
	uint16_t ike;     /* transform type 2 ID: 5, 6, 7 */
	uint8_t len;      /* output and preferred key length, bytes */
};

const struct prf_info *prf_info(enum prf_id id); /* NULL when unknown */
/* out (prf_info()->len bytes) = prf(key, data[0] | data[1] | …). 0 or -EIO. */
int prf(enum prf_id id, struct view key, const struct view *data, size_t n, uint8_t *out);
/* out = prf+(key, seed) cut to out_len bytes, at most 255 blocks. 0, -EINVAL, -EIO. */
int prf_plus(enum prf_id id, struct view key, struct view seed, uint8_t *out, size_t out_len);
/* out = keyed BLAKE2s with 16 bytes of digest (RFC 7693; key of 1 to 32 bytes) of data[0] | … 0,
 * -EINVAL, -EIO. */
int mac_blake2s(struct view key, const struct view *data, size_t n, uint8_t out[static 16]);
/* SHA-1 (NAT detection only, RFC 7296 2.23) and SHA-256 of data[0] | … 0 or -EIO. */
int hash_sha1(const struct view *data, size_t n, uint8_t out[static 20]);
int hash_sha256(const struct view *data, size_t n, uint8_t out[static 32]);

/* ---- Key exchange (transform type 4 and ADDKE 6..12) ---------------------------------------
 * Diffie-Hellman methods and KEMs behind one pair of calls: the initiator offers, the responder
 * answers with its own public value (or ciphertext) and the shared secret, the initiator finishes.
 */
enum kex_id {
	KEX_NONE,
	KEX_X25519,
	KEX_ECP256,
	KEX_ECP384,
	KEX_ECP521,
	KEX_MODP2048,
	KEX_MLKEM512,
	KEX_MLKEM768,
	KEX_MLKEM1024,
	KEX_COUNT
};
enum { KEX_SECRET_MAX = 256, KEX_PUBLIC_MAX = 1568 };

struct kex_info {
	const char *name;    /* "X25519", "ECP-256", "MODP-2048", "ML-KEM-768", … */
	uint16_t ike;        /* transform ID: 31, 19, 20, 21, 14, 35, 36, 37 */
	uint16_t offer_len;  /* bytes of the initiator's KE data */
	uint16_t answer_len; /* bytes of the responder's KE data */
	uint16_t secret_len; /* bytes of the shared secret (MODP: left-padded, RFC 7296 2.14) */
	bool is_kem;
};

const struct kex_info *kex_info(enum kex_id id); /* NULL when unknown */
enum kex_id kex_by_ike(uint16_t transform_id);   /* KEX_NONE when not supported */

struct kex; /* an initiator's pending exchange, with its private key */

/* Generates a key pair from rng and writes kex_info()->offer_len bytes of KE data to offer. 0,
 * -EINVAL, -ENOMEM, -EIO, or the rng's error. */
int kex_offer(enum kex_id id, const struct rng *rng, uint8_t *offer, struct kex **ret);
/* Responder: checks the peer's offer (length, point on curve, FIPS 203 7.2 modulus check), writes
 * answer_len and secret_len bytes. 0, -EBADMSG for a refused value (RFC 7748 all-zero result, too),
 * or as kex_offer. */
int kex_answer(enum kex_id id, const struct rng *rng, struct view offer, uint8_t *answer,
	uint8_t *secret);
/* Initiator: checks the answer (FIPS 203 7.3 length check, …) and writes secret_len bytes. The
 * exchange stays owned by the caller. 0, -EBADMSG, -EIO. */
int kex_finish(struct kex *k, struct view answer, uint8_t *secret);
/* Zeroes and frees; NULL is fine. */
void kex_free(struct kex *k);

/* ---- Ed25519 (RFC 8032), keys as in RFC 8410 ------------------------------------------------ */
enum { ED25519_PUBLIC = 32, ED25519_SIGNATURE = 64 };
struct ed25519_key; /* a private key */

/* Reads a PKCS#8 PEM private key. 0; -EINVAL: no readable private key; -EKEYREJECTED: a key of
 * another type (its name, e.g. "RSA", to ret_type of 32 bytes). */
int ed25519_from_pem(struct view pem, struct ed25519_key **ret, char ret_type[static 32]);
/* Generates a key from 32 bytes of rng. 0, -ENOMEM, -EIO, or the rng's error. */
int ed25519_generate(const struct rng *rng, struct ed25519_key **ret);
/* Makes a key from its 32-byte seed (RFC 8032 private key). */
int ed25519_from_seed(const uint8_t seed[static 32], struct ed25519_key **ret);
void ed25519_free(struct ed25519_key *k);
void ed25519_public(const struct ed25519_key *k, uint8_t out[static ED25519_PUBLIC]);
/* Signs data (PureEdDSA). 0 or -EIO. */
int ed25519_sign(const struct ed25519_key *k, struct view data,
	uint8_t sig[static ED25519_SIGNATURE]);
/* 0 when the signature is right, -EBADMSG when not, -EIO. */
int ed25519_verify(const uint8_t public_key[static ED25519_PUBLIC], struct view data,
	struct view sig);
/* Writes the PKCS#8 PEM of the private key (a secret: free with w_free_secret(*ret, strlen + 1)),
 * or the SubjectPublicKeyInfo PEM of a public key (w_free). 0, -ENOMEM, -EIO. */
int ed25519_to_pem(const struct ed25519_key *k, char **ret);
int ed25519_public_to_pem(const uint8_t public_key[static ED25519_PUBLIC], char **ret);
/* Reads a SubjectPublicKeyInfo PEM. Errors as ed25519_from_pem. */
int ed25519_public_from_pem(struct view pem, uint8_t ret[static ED25519_PUBLIC],
	char ret_type[static 32]);

/* ---- the library -------------------------------------------------------------------------------
 */
/* Its name and version, for people: "OpenSSL 3.5.9 …". */
const char *crypto_version(void);
