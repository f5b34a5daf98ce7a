/* Key material of IKE and Child SAs, and the AUTH payload. RFC 7296 2.13-2.18, RFC 5282 (no SK_a
 * with an AEAD), RFC 9370 2.2.2-2.2.4, RFC 9242 3.3, RFC 7427 and 8420. Pure functions; the secrets
 * in the structs are the caller's to zero (w_zeroize). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/cur.h"
#include "crypto/crypto.h"
#include "ike/ike.h"

enum { IKE_KEY_MAX = 64, IKE_AUTH_ED25519_LEN = 72 };

/* SK_* of an IKE SA. d and p* are prf_info(prf)->len bytes, e* aead_info(aead)->key_len (salt
 * last), a* auth_key_len (0 for an AEAD). */
struct ike_keys {
	enum aead_id aead;
	enum prf_id prf;
	uint8_t d[PRF_MAX];
	uint8_t ai[IKE_KEY_MAX], ar[IKE_KEY_MAX];
	uint8_t ei[IKE_KEY_MAX], er[IKE_KEY_MAX];
	uint8_t pi[PRF_MAX], pr[PRF_MAX];
};

/* What goes into the seeds: nonces as sent (borrowed) and the SPIs of the SA that is keyed. For a
 * rekey these are the new SA's. Child key material does not look at the SPIs. */
struct ike_seed {
	struct view ni, nr;
	uint64_t spi_i, spi_r;
};

/* SKEYSEED = prf(Ni | Nr, shared) and SK_* of IKE_SA_INIT (RFC 7296 2.14). keys->aead and ->prf are
 * inputs, the keys outputs. skeyseed (PRF_MAX bytes) may be NULL. 0, -EINVAL, -EIO, -ENOMEM; the
 * keys are zeroed on failure. */
int ike_keys_init(struct ike_keys *keys, struct view shared, const struct ike_seed *seed,
	uint8_t *skeyseed);
/* After an additional exchange in IKE_INTERMEDIATE (RFC 9370 2.2.2): SKEYSEED(n) = prf(SK_d(n-1),
 * SK(n) | Ni | Nr); all SK_* are replaced. Nonces and SPIs are those of IKE_SA_INIT. */
int ike_keys_update(struct ike_keys *keys, struct view shared, const struct ike_seed *seed,
	uint8_t *skeyseed);
/* Rekey (RFC 7296 2.18, RFC 9370 2.2.4): SKEYSEED = prf(SK_d(old), SK(0) | Ni | Nr | SK(1) | ...),
 * under the old SA's PRF; shared[0 .. n-1] are SK(0).. in order of the exchanges, n >= 1.
 * keys->aead and ->prf are the new suite. Errors as ike_keys_init(). */
int ike_keys_rekey(struct ike_keys *keys, const struct ike_keys *old, const struct view *shared,
	size_t n, const struct ike_seed *seed, uint8_t *skeyseed);

/* Child keys (RFC 7296 2.17, RFC 9370 2.2.4): KEYMAT = prf+(SK_d, [SK(0) |] Ni | Nr [| SK(1) |
 * ...]), n 0: no key exchange of its own. initiator: this end began the exchange that makes the
 * child; the initiator's direction comes first. ret->aead is an input. 0, -EINVAL, -EIO, -ENOMEM.
 */
int ike_child_keymat(const struct ike_keys *keys, const struct view *shared, size_t n,
	const struct ike_seed *seed, bool initiator, struct ike_child_keys *ret);

/* The running authentication of IKE_INTERMEDIATE exchanges (RFC 9242 3.3.1). Zero to start. */
struct ike_int_auth {
	unsigned int rounds; /* responses taken in; 0: none took place, AUTH goes without */
	bool has_i, has_r;
	uint8_t i[PRF_MAX], r[PRF_MAX];
};

/* Takes in one IKE_INTERMEDIATE message: whole is its plain form (struct ike_opened.whole, or
 * ike_plain_form(): IntAuth_A | IntAuth_P). response: it is the responder's. The keys are those
 * that protected the message: call it before ike_keys_update(). 0 or -EIO. */
int ike_int_auth_add(struct ike_int_auth *a, const struct ike_keys *keys, bool response,
	struct view whole);

/* What one end signs (RFC 7296 2.15, RFC 9242 3.3.2). */
struct ike_auth_input {
	bool responder;              /* whose AUTH it is: SK_pr, and the order of things */
	struct view message;         /* that end's IKE_SA_INIT message as sent, header included; the
	                              * last one, when cookies or INVALID_KE made it repeat */
	struct view nonce;           /* the other end's nonce */
	struct view id_body;         /* that end's ID payload after the generic header */
	const struct ike_keys *keys; /* the last, after all additional exchanges */
	const struct ike_int_auth *int_auth; /* NULL or no rounds: none */
	uint32_t auth_mid;                   /* message ID of the first IKE_AUTH (RFC 9242) */
};

/* message | nonce | prf(SK_p, id) [| IntAuth_i | IntAuth_r | mid], appended to ret. 0, -ENOMEM,
 * -EIO. */
int ike_auth_octets(const struct ike_auth_input *in, struct buf *ret);
/* The data of a method 14 AUTH payload with Ed25519. 0, -ENOMEM, -EIO. */
int ike_auth_sign(const struct ike_auth_input *in, const struct ed25519_key *key,
	uint8_t ret[static IKE_AUTH_ED25519_LEN]);
/* Verifies such data. 0; -EBADMSG: the signature is wrong; -EPROTONOSUPPORT: another algorithm than
 * Ed25519; -EINVAL: malformed or empty; -ENOMEM, -EIO. */
int ike_auth_verify(const struct ike_auth_input *in,
	const uint8_t public_key[static ED25519_PUBLIC], struct view data);
