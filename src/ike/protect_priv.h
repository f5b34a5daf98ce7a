/* Protection of IKE messages: SK and SKF payloads (RFC 7296 3.14, RFC 5282, RFC 7383), splitting
 * into fragments and putting them together again. IVs: a counter for AEADs, random for AES-CBC. It
 * knows neither windows nor retransmission: the caller keeps sealed messages to send them again. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/rng.h"
#include "crypto/crypto.h"
#include "ike/codec_priv.h"
#include "ike/keymat_priv.h"

enum ike_protect_limits {
	IKE_FRAGMENTS_MAX = 128,    /* of one message, RFC 7383 2.6: ours to choose */
	IKE_REASSEMBLY_MAX = 65535, /* bytes kept of one message */
	IKE_IP4_UDP_LEN = 28,       /* IPv4 and UDP headers */
	IKE_IP6_UDP_LEN = 48,
	IKE_MARKER_LEN = 4, /* the non-ESP marker */
};

struct ike_protect; /* both directions of one IKE SA */

/* Makes the contexts for one end (initiator: the IKE SA's original initiator). Keys are copied. 0,
 * -EINVAL, -ENOMEM, -EIO. */
int ike_protect_new(const struct ike_keys *keys, bool initiator, struct ike_protect **ret);
/* Zeroes and frees; NULL is fine. */
void ike_protect_free(struct ike_protect *p);

/* One or more sealed messages, each a whole IKE message, one after the other. */
struct ike_sealed {
	struct buf bytes;
	unsigned int count; /* messages; more than one: fragments */
};

/* The next message: start with *at = 0. False: no more. Borrowed. */
bool ike_sealed_next(const struct ike_sealed *s, size_t *at, struct view *ret);
void ike_sealed_free(struct ike_sealed *s);

/* The chain that goes inside an encrypted payload. */
struct ike_inner {
	uint8_t first; /* type of its first payload, IKE_PL_NONE: empty */
	struct view bytes;
};

/* Seals a message: h's next and length are computed, the rest is taken as it is. message_max: the
 * largest IKE message in bytes, that is the largest datagram less IP and UDP headers and the
 * marker; 0: do not fragment (the peer cannot). A message that fits goes as one SK; a longer one as
 * SKFs of the largest size, the last one shorter. ret is zero-initialised by the call and freed by
 * the caller with ike_sealed_free(). 0; -EMSGSIZE: too long for IKE_FRAGMENTS_MAX fragments or a
 * message_max that holds nothing; -ENOMEM, -EIO, or the rng's error (used by AES-CBC only). */
int ike_seal(struct ike_protect *p, const struct rng *rng, const struct ike_header *h,
	const struct ike_inner *inner, size_t message_max, struct ike_sealed *ret);

/* One SK (number 0) or SKF payload's message, as ike_seal() makes them: appended to ret. */
struct ike_packet {
	const struct ike_header *h;
	uint8_t first;          /* next payload of the encrypted payload's header */
	uint16_t number, total; /* SKF: which fragment of how many */
	struct view text;
	const struct ike_payload
		*clear; /* payloads in front of it, in the clear; clear_count of them */
	unsigned int clear_count;
};
int ike_seal_packet(struct ike_protect *p, const struct rng *rng, const struct ike_packet *packet,
	struct buf *ret);
/* Sets the IV counter (AEADs): for tests that compare with recorded messages. Using a value twice
 * under one key gives the key away. */
void ike_protect_set_counter(struct ike_protect *p, uint64_t next);

/* The plain form of a message that is or was sealed: its header, clear payloads, and a plain SK
 * header, lengths as without encryption, then the inner chain. This is IntAuth_A | IntAuth_P of RFC
 * 9242 3.3.1, the same whether the message was fragmented or not. Appended to ret. 0, -ENOMEM. */
int ike_plain_form(const struct ike_header *h, const struct ike_inner *inner, struct buf *ret);

/* An authentic message, decrypted and whole. Zero-initialise; free with ike_opened_free(). */
struct ike_opened {
	struct buf whole; /* the plain form, as above */
	size_t inner_at;  /* where the inner chain begins in it */
};

void ike_opened_free(struct ike_opened *o);
/* Parses an opened message: its header (plain form), the clear payloads (marked `clear`) and then
 * the inner ones, as one chain. ret borrows from o. Errors as ike_msg_parse(). */
enum ike_parse_error ike_opened_parse(const struct ike_opened *o, struct ike_msg *ret);

#define IKE_OPEN_RESULTS(X)                                                                        \
	X(OK, "ok")                                                                                \
	X(INCOMPLETE, "a fragment was kept, others are missing")                                   \
	X(NOT_ENCRYPTED, "no encrypted payload")                                                   \
	X(SHORT, "encrypted payload too short")                                                    \
	X(NOT_AUTHENTIC, "integrity check failed")                                                 \
	X(PADDING, "pad length over the end")                                                      \
	X(FRAGMENT_ZERO, "fragment number 0")                                                      \
	X(FRAGMENT_ABOVE, "fragment number above the total")                                       \
	X(FRAGMENT_TOTAL_LIMIT, "more fragments than are taken")                                   \
	X(FRAGMENT_LOWER_TOTAL, "lower total than before")                                         \
	X(FRAGMENT_DUPLICATE, "fragment is there already")                                         \
	X(FRAGMENT_OLD, "fragment of an older message")                                            \
	X(FRAGMENT_CLEAR, "clear payloads in a fragment other than the first")                     \
	X(FRAGMENT_MEMORY, "fragments add up to too much")                                         \
	X(NO_MEMORY, "out of memory")                                                              \
	X(CRYPTO, "the crypto library failed")

enum ike_open_result {
#define X(id, text) IKE_OPEN_##id,
	IKE_OPEN_RESULTS(X)
#undef X
		IKE_OPEN_COUNT
};

/* A line for people; never NULL. */
const char *ike_open_text(enum ike_open_result r);

/* Reassembly of one direction's requests or responses (keep one for each). NULL-safe free. It holds
 * fragments of one message at a time; nothing that is not authentic changes it. */
struct ike_reassembly;

int ike_reassembly_new(struct ike_reassembly **ret); /* 0, -ENOMEM */
void ike_reassembly_free(struct ike_reassembly *r);  /* NULL is fine; zeroes */
/* Drops what is kept (the message was handled otherwise, or its time is over). */
void ike_reassembly_clear(struct ike_reassembly *r);

/* Opens a parsed message that has an SK or SKF payload. OK: *ret (which the caller
 * zero-initialised) is the whole message. INCOMPLETE: a fragment was taken. Others: refused,
 * nothing changed. Rules for fragments (RFC 7383 2.6), all checked after the ICV
 * where they change state: another message ID or exchange than the kept one's clears it when it is
 * higher, and is FRAGMENT_OLD when lower; a lower total is dropped, a higher one restarts; an SK of
 * the same message ID ends it. r may be NULL: then SKF is NOT_ENCRYPTED (fragmentation was not
 * agreed on). */
enum ike_open_result ike_open(struct ike_protect *p, struct ike_reassembly *r,
	const struct ike_msg *m, struct ike_opened *ret);
