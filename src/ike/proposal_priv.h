/* What we offer, what we accept, and what a responder may answer: SA payloads of IKE and ESP.
 * RFC 7296 2.7, 3.3; RFC 9370 2.2.1 (ADDKE); RFC 5282, 8221 (AEAD without integrity).
 *
 * Offers, in order: hybrid (X25519 and, as ADDKE1, ML-KEM-768 before ML-KEM-1024), then classic,
 * both AES-256-GCM-16 with PRF HMAC-SHA2-512. Accepted: every suite of crypto/. AEAD is taken
 * before AES-CBC and, but for post_quantum off, hybrid before classic, whatever the order of the
 * peer's list. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"
#include "crypto/crypto.h"
#include "ike/codec_priv.h"
#include "ike/ike.h"

/* What the SA payload is for. */
enum ike_sa_use {
	IKE_USE_IKE,         /* IKE_SA_INIT, or the rekey of an IKE SA (with an SPI of 8 bytes) */
	IKE_USE_FIRST_CHILD, /* in IKE_AUTH: no key exchange of its own */
	IKE_USE_CHILD,       /* in CREATE_CHILD_SA */
};

struct ike_policy {
	enum ike_sa_use use;
	enum ike_pq post_quantum;
	/* IKE_SA_INIT only: the peer said INTERMEDIATE_EXCHANGE_SUPPORTED. Without it no proposal
	 * with an additional exchange is chosen (RFC 9370 2.2.1). Set it true elsewhere. */
	bool additional_ok;
	uint32_t kex_allowed; /* bit (1 << kex_id); 0: all that crypto/ has */
};

/* The suite agreed on. */
struct ike_choice {
	uint8_t number;                    /* of the proposal */
	uint8_t protocol;                  /* enum ike_protocol */
	uint8_t spi[IKE_SPI_LEN], spi_len; /* the peer's SPI, from the proposal */
	enum aead_id aead;
	enum prf_id prf; /* PRF_NONE for ESP */
	bool esn;        /* ESP only */
	/* The exchanges, in order of their doing: [0] the one of the KE payload (KEX_NONE: a child
	 * without), then the additional ones; NONE choices are left out. KEX_NONE ends. */
	enum kex_id kex[IKE_KEX_MAX];
	unsigned int kex_count; /* exchanges in kex */
	unsigned int answer_count;
	struct ike_transform answer[IKE_T_ADDKE7]; /* of the answer; attributes are not set */
};

enum ike_select {
	IKE_SELECT_OK,
	IKE_SELECT_NONE,    /* NO_PROPOSAL_CHOSEN */
	IKE_SELECT_GROUP,   /* INVALID_KE_PAYLOAD: choice->kex[0] is the group to name */
	IKE_SELECT_CLASSIC, /* NO_PROPOSAL_CHOSEN: only for want of ML-KEM, which we require */
	IKE_SELECT_NO_INTERMEDIATE, /* NO_PROPOSAL_CHOSEN: hybrid offers without IKE_INTERMEDIATE */
};

/* A line for people; never NULL. */
const char *ike_select_text(enum ike_select s);

/* Responder: picks from the peer's SA body (of a parsed message). ke_method: transform ID in the
 * peer's KE payload, 0: none there (as in IKE_AUTH). With GROUP *ret is the choice that a retry
 * would get. *ret is untouched for the others that are not OK. */
enum ike_select ike_proposal_select(const struct ike_policy *policy, struct view sa_body,
	uint16_t ke_method, struct ike_choice *ret);

/* Adds the responder's SA payload: the one chosen proposal with its number and transforms. spi is
 * ours (empty in IKE_SA_INIT). */
void ike_proposal_answer(struct ike_build *b, const struct ike_choice *choice, struct view spi);

/* Adds the initiator's SA payload. spi: 8 bytes for an IKE rekey, 4 for ESP, empty in IKE_SA_INIT.
 * A child in CREATE_CHILD_SA is also offered without a key exchange, last, unless post_quantum is
 * require (for peers without PFS). additional_ok false leaves out the hybrid proposals, but
 * not with require. */
void ike_proposal_offer(struct ike_build *b, const struct ike_policy *policy, struct view spi);
/* The group of the KE payload that goes with the offer: X25519. */
enum kex_id ike_proposal_group(const struct ike_policy *policy);

/* Initiator: the responder's SA body against the one that we offered (both of parsed messages):
 * one proposal, its number one of ours, its transforms a subset with one of each type that we
 * offered (RFC 7296 2.7; a missing type 5 means no ESN, NONE may be left out), no additional
 * exchange twice (RFC 9370 2.2.2), and a suite that we know. 0, or -EPROTO and *ret untouched. */
int ike_proposal_check(const struct ike_policy *policy, struct view offered_body,
	struct view answer_body, struct ike_choice *ret);
