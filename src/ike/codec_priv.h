/* The IKEv2 message codec: numbers of the wire, the parser of the clear part and of decrypted
 * payload chains, and the builder. RFC 7296 3, 7383 2.5, 9242, 9370.
 *
 * Parsing validates everything at once: every payload's structure down to the last attribute, so
 * that the readers and iterators below cannot fail on a body that came from a parsed message. It
 * holds no state and decides nothing: what a message may contain is the exchanges' business.
 * Numbers are in host order in every struct here. All views borrow from the parsed bytes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/buf.h"
#include "base/cur.h"

/* ---- Numbers of the wire ------------------------------------------------------------------ */
enum ike_limits {
	IKE_HEADER_LEN = 28,
	IKE_PAYLOAD_HEADER_LEN = 4,
	IKE_VERSION = 0x20,      /* 2.0, RFC 7296 3.1 */
	IKE_MESSAGE_MAX = 65535, /* bytes of a message, reassembled ones included */
	IKE_PAYLOADS_MAX = 64,   /* payloads in one message */
	IKE_NONCE_MIN = 16,      /* RFC 7296 2.10 */
	IKE_NONCE_MAX = 256,
	IKE_NONCE_LEN = 32, /* what we send */
	IKE_ESP_SPI_LEN = 4,
	IKE_SPI_LEN = 8,
};

enum ike_exchange {
	IKE_SA_INIT = 34,
	IKE_AUTH = 35,
	IKE_CREATE_CHILD_SA = 36,
	IKE_INFORMATIONAL = 37,
	IKE_INTERMEDIATE = 43, /* RFC 9242 */
	IKE_FOLLOWUP_KE = 44,  /* RFC 9370 */
};

enum ike_flag {
	IKE_FLAG_INITIATOR = 0x08, /* sent by the original initiator of the IKE SA */
	IKE_FLAG_VERSION = 0x10,
	IKE_FLAG_RESPONSE = 0x20,
};

enum ike_payload_type {
	IKE_PL_NONE = 0,
	IKE_PL_SA = 33,
	IKE_PL_KE = 34,
	IKE_PL_IDI = 35,
	IKE_PL_IDR = 36,
	IKE_PL_CERT = 37,
	IKE_PL_CERTREQ = 38,
	IKE_PL_AUTH = 39,
	IKE_PL_NONCE = 40,
	IKE_PL_NOTIFY = 41,
	IKE_PL_DELETE = 42,
	IKE_PL_VENDOR = 43,
	IKE_PL_TSI = 44,
	IKE_PL_TSR = 45,
	IKE_PL_SK = 46,
	IKE_PL_CP = 47,
	IKE_PL_EAP = 48,
	IKE_PL_SKF = 53, /* RFC 7383 */
};

enum ike_protocol { IKE_PROTO_NONE = 0, IKE_PROTO_IKE = 1, IKE_PROTO_AH = 2, IKE_PROTO_ESP = 3 };

/* Notify message types; below 16384 an error, from there on a status. */
enum ike_notify_type {
	IKE_N_UNSUPPORTED_CRITICAL_PAYLOAD = 1,
	IKE_N_INVALID_IKE_SPI = 4,
	IKE_N_INVALID_MAJOR_VERSION = 5,
	IKE_N_INVALID_SYNTAX = 7,
	IKE_N_INVALID_MESSAGE_ID = 9,
	IKE_N_INVALID_SPI = 11,
	IKE_N_NO_PROPOSAL_CHOSEN = 14,
	IKE_N_INVALID_KE_PAYLOAD = 17,
	IKE_N_AUTHENTICATION_FAILED = 24,
	IKE_N_SINGLE_PAIR_REQUIRED = 34,
	IKE_N_NO_ADDITIONAL_SAS = 35,
	IKE_N_INTERNAL_ADDRESS_FAILURE = 36,
	IKE_N_FAILED_CP_REQUIRED = 37,
	IKE_N_TS_UNACCEPTABLE = 38,
	IKE_N_INVALID_SELECTORS = 39,
	IKE_N_TEMPORARY_FAILURE = 43,
	IKE_N_CHILD_SA_NOT_FOUND = 44,
	IKE_N_STATE_NOT_FOUND = 47, /* RFC 9370 */
	IKE_N_STATUS_FIRST = 16384,
	IKE_N_INITIAL_CONTACT = 16384,
	IKE_N_SET_WINDOW_SIZE = 16385,
	IKE_N_ADDITIONAL_TS_POSSIBLE = 16386,
	IKE_N_IPCOMP_SUPPORTED = 16387,
	IKE_N_NAT_DETECTION_SOURCE_IP = 16388,
	IKE_N_NAT_DETECTION_DESTINATION_IP = 16389,
	IKE_N_COOKIE = 16390,
	IKE_N_USE_TRANSPORT_MODE = 16391,
	IKE_N_HTTP_CERT_LOOKUP_SUPPORTED = 16392,
	IKE_N_REKEY_SA = 16393,
	IKE_N_ESP_TFC_PADDING_NOT_SUPPORTED = 16394,
	IKE_N_NON_FIRST_FRAGMENTS_ALSO = 16395,
	IKE_N_MOBIKE_SUPPORTED = 16396,
	IKE_N_MULTIPLE_AUTH_SUPPORTED = 16404,
	IKE_N_REDIRECT_SUPPORTED = 16406,
	IKE_N_EAP_ONLY_AUTHENTICATION = 16417,
	IKE_N_CHILDLESS_SUPPORTED = 16418,       /* RFC 6023 */
	IKE_N_MESSAGE_ID_SYNC_SUPPORTED = 16420, /* RFC 6311 */
	IKE_N_FRAGMENTATION_SUPPORTED = 16430,   /* RFC 7383 */
	IKE_N_SIGNATURE_HASH_ALGORITHMS = 16431, /* RFC 7427 */
	IKE_N_INTERMEDIATE_SUPPORTED = 16438,    /* RFC 9242 */
	IKE_N_ADDITIONAL_KEY_EXCHANGE = 16441,   /* RFC 9370 */
};

enum ike_transform_type {
	IKE_T_ENCR = 1,
	IKE_T_PRF = 2,
	IKE_T_INTEG = 3,
	IKE_T_KE = 4,
	IKE_T_ESN = 5,
	IKE_T_ADDKE1 = 6, /* RFC 9370; ADDKE7 is 12 */
	IKE_T_ADDKE7 = 12,
};

enum ike_transform_id {
	IKE_ENCR_AES_CBC = 12,
	IKE_ENCR_AES_GCM_16 = 20,
	IKE_ENCR_CHACHA20_POLY1305 = 28,
	IKE_PRF_HMAC_SHA2_256 = 5,
	IKE_PRF_HMAC_SHA2_384 = 6,
	IKE_PRF_HMAC_SHA2_512 = 7,
	IKE_INTEG_NONE = 0,
	IKE_INTEG_HMAC_SHA2_256_128 = 12,
	IKE_KE_NONE = 0,
	IKE_ESN_NO = 0,
	IKE_ESN_YES = 1,
};

enum ike_attribute_type { IKE_ATTR_KEY_LENGTH = 14 };
enum ike_id_type { IKE_ID_DER_ASN1_DN = 9 };
enum ike_auth_method { IKE_AUTH_SIGNATURE = 14 }; /* RFC 7427 */
enum ike_hash_id { IKE_HASH_IDENTITY = 5 };       /* RFC 8420 */
enum ike_ts_type { IKE_TS_IPV4_RANGE = 7, IKE_TS_IPV6_RANGE = 8 };

/* ---- Why a message is refused -------------------------------------------------------------- */
#define IKE_PARSE_ERRORS(X)                                                                        \
	X(OK, "ok")                                                                                \
	X(TRUNCATED, "message is cut short")                                                       \
	X(LENGTH, "length in the header is not the datagram's")                                    \
	X(VERSION, "major version is not 2")                                                       \
	X(CHAIN, "payload chain runs over the end")                                                \
	X(TRAILING, "bytes after the last payload")                                                \
	X(TOO_MANY, "too many payloads")                                                           \
	X(CRITICAL, "unknown critical payload")                                                    \
	X(DUPLICATE, "payload is there twice")                                                     \
	X(MISPLACED, "encrypted payload inside an encrypted one")                                  \
	X(BAD_SA, "bad SA payload")                                                                \
	X(BAD_KE, "bad KE payload")                                                                \
	X(BAD_ID, "bad ID payload")                                                                \
	X(BAD_CERT, "bad CERT or CERTREQ payload")                                                 \
	X(BAD_AUTH, "bad AUTH payload")                                                            \
	X(BAD_NONCE, "bad nonce length")                                                           \
	X(BAD_NOTIFY, "bad NOTIFY payload")                                                        \
	X(BAD_DELETE, "bad DELETE payload")                                                        \
	X(BAD_TS, "bad traffic selector payload")                                                  \
	X(BAD_CP, "bad configuration payload")                                                     \
	X(BAD_EAP, "bad EAP payload")                                                              \
	X(BAD_SK, "bad encrypted payload")

enum ike_parse_error {
#define X(id, text) IKE_PARSE_##id,
	IKE_PARSE_ERRORS(X)
#undef X
		IKE_PARSE_COUNT
};

/* A line for people; never NULL. */
const char *ike_parse_text(enum ike_parse_error e);

/* ---- Parsed messages ----------------------------------------------------------------------- */
struct ike_header {
	uint64_t spi_i, spi_r;
	uint8_t next;     /* type of the first payload */
	uint8_t version;  /* IKE_VERSION when sending */
	uint8_t exchange; /* enum ike_exchange, or anything */
	uint8_t flags;    /* enum ike_flag */
	uint32_t mid;
	uint32_t length; /* of the whole message; set by the builder */
};

struct ike_payload {
	uint8_t type;     /* enum ike_payload_type, or an unknown one that is not critical */
	uint8_t flags;    /* the byte after the type: 0x80 critical, the rest reserved */
	bool clear;       /* from ike_opened_parse(): it stood in front of the encrypted part */
	struct view body; /* after the generic payload header */
};

/* The encrypted payload that ends a clear chain (RFC 7296 3.14, RFC 7383 2.5). */
struct ike_encrypted {
	uint8_t type;           /* IKE_PL_SK, IKE_PL_SKF; IKE_PL_NONE: there is none */
	uint8_t first;          /* type of the first payload inside */
	uint8_t flags;          /* as in struct ike_payload */
	uint16_t number, total; /* SKF: the fragment's number, from 1, and how many there are */
	struct view aad;        /* the message's bytes in front of the IV */
	struct view rest;       /* IV, ciphertext, ICV */
};

struct ike_msg {
	struct ike_header h; /* from ike_msg_parse(); zero for an inner chain */
	struct view bytes;   /* all that was parsed, borrowed */
	uint8_t first;       /* type of the first payload; h.next, or the inner chain's */
	uint8_t bad_type;    /* with an error: the payload type it is about */
	unsigned int count;  /* payloads, without the encrypted one */
	struct ike_payload payload[IKE_PAYLOADS_MAX];
	struct ike_encrypted enc;
};

/* Parses the IKE header alone (28 bytes at least; the rest may be anything). TRUNCATED or OK; for
 * version checks and the look-up of an SA before anything else is looked at. */
enum ike_parse_error ike_header_parse(struct view bytes, struct ike_header *ret);
/* Parses a whole message as it came in a datagram (without the non-ESP marker): header, clear
 * payloads, and the outline of an SK or SKF payload, which must be the last. RFC 7296 2.5: an
 * unknown payload is skipped unless critical (then CRITICAL, ret->bad_type says which). Reserved
 * bits are ignored, the minor version too. Unlike elsewhere *ret is written on failure: h (when 28
 * bytes are there) and bad_type are valid then, for the error reply. */
enum ike_parse_error ike_msg_parse(struct view bytes, struct ike_msg *ret);
/* Parses a decrypted payload chain whose first payload has type `first` (IKE_PL_NONE: empty). No
 * encrypted payload may be in it. Writes *ret as ike_msg_parse(). */
enum ike_parse_error ike_inner_parse(uint8_t first, struct view bytes, struct ike_msg *ret);

/* Parses a message whose SK payload holds a plain chain (protect_priv.h, "plain form"): the clear
 * payloads (marked `clear`), then those inside, in one chain. Writes *ret as ike_msg_parse(). */
enum ike_parse_error ike_plain_parse(struct view whole, struct ike_msg *ret);

/* The first payload of a type, NULL when there is none. Borrowed from m. */
const struct ike_payload *ike_msg_find(const struct ike_msg *m, uint8_t type);

/* ---- Readers: bodies of payloads from a parsed message; they cannot fail -------------------- */
struct ike_ke {
	uint16_t method; /* transform ID */
	struct view data;
};
struct ike_ke ike_ke_read(struct view body);

struct ike_id {
	uint8_t type; /* enum ike_id_type */
	struct view data;
};
struct ike_id ike_id_read(struct view body);

struct ike_auth {
	uint8_t method; /* enum ike_auth_method */
	struct view data;
};
struct ike_auth ike_auth_read(struct view body);

struct ike_notify {
	uint8_t protocol; /* enum ike_protocol */
	uint16_t type;    /* enum ike_notify_type */
	struct view spi;
	struct view data;
};
struct ike_notify ike_notify_read(struct view body);
/* The first notify of a type in a message. False: none. */
bool ike_msg_notify(const struct ike_msg *m, uint16_t type, struct ike_notify *ret);
/* The first error notify (type < 16384). False: none. */
bool ike_msg_error(const struct ike_msg *m, struct ike_notify *ret);

/* Walks the notifies of a message in order: start with *at = 0. False: no more. */
bool ike_notify_next(const struct ike_msg *m, unsigned int *at, struct ike_notify *ret);

struct ike_delete {
	uint8_t protocol; /* IKE: no SPIs, the IKE SA itself */
	uint8_t spi_len;  /* 0 or 4 */
	uint16_t count;
	struct view spis; /* count * spi_len bytes */
};
struct ike_delete ike_delete_read(struct view body);
/* The n-th SPI (n < count) of an ESP or AH delete, host order; 0 beyond. */
uint32_t ike_delete_spi(const struct ike_delete *d, unsigned int n);

struct ike_ts {
	uint8_t type;     /* enum ike_ts_type, or an unknown one (then addresses are IP_NONE) */
	uint8_t protocol; /* IP protocol, 0: any */
	uint16_t port_start, port_end;
	struct ipaddr start, end;
	struct view raw; /* the selector's bytes, header included */
};
/* Selectors in a TSi or TSr body, and the walk over them: c = ike_ts_begin(body). */
struct cur ike_ts_begin(struct view body);
bool ike_ts_next(struct cur *c, struct ike_ts *ret);

struct ike_transform {
	uint8_t type;
	uint16_t id;
	uint16_t key_bits;      /* the Key Length attribute, 0: none */
	bool unknown_attribute; /* it has an attribute that is not Key Length: not acceptable */
	struct view attributes; /* as on the wire */
};

struct ike_proposal {
	uint8_t number;
	uint8_t protocol;
	uint8_t count; /* transforms */
	struct view spi;
	struct view transforms; /* for ike_transform_next() */
};
/* The walk over an SA body: c = cur_view(body). False: no more. */
bool ike_proposal_next(struct cur *c, struct ike_proposal *ret);
/* The walk over a proposal: c = cur_view(p.transforms). False: no more. */
bool ike_transform_next(struct cur *c, struct ike_transform *ret);

/* ---- The builder ---------------------------------------------------------------------------- */
/* Appends payloads to its own buffer and patches next-payload types and lengths. Errors (memory,
 * a body over 65535 bytes) stick, and come out of finish. The caller calls ike_build_free() in the
 * end, whatever happened. */
struct ike_build {
	struct buf out;
	uint8_t first; /* type of the first payload so far */
	bool with_header;
	bool failed;         /* sticky: too long */
	size_t next_at;      /* where the next payload's type goes; for a chain's first: SIZE_MAX */
	size_t payload_at;   /* start of the open payload */
	size_t proposal_at;  /* start of the latest proposal in the open SA payload; 0: none */
	size_t transform_at; /* start of the latest transform in it; 0: none */
};

/* Starts a message; h's next and length are computed, the rest is taken as it is. */
void ike_build_begin(struct ike_build *b, const struct ike_header *h);
/* Starts a chain without a header, to be sealed. */
void ike_build_begin_inner(struct ike_build *b);
/* A payload of any type with this body; flags is 0 or 0x80 (critical). */
void ike_build_opaque(struct ike_build *b, uint8_t type, uint8_t flags, struct view body);
/* The same in pieces: open, append to b->out, close. */
void ike_build_open(struct ike_build *b, uint8_t type, uint8_t flags);
void ike_build_close(struct ike_build *b);
/* SA payload: open, then proposals, each followed by its transforms, then ike_build_close(). */
void ike_build_sa_open(struct ike_build *b);
void ike_build_proposal(struct ike_build *b, uint8_t number, uint8_t protocol, struct view spi);
void ike_build_transform(struct ike_build *b, uint8_t type, uint16_t id, uint16_t key_bits);
void ike_build_ke(struct ike_build *b, uint16_t method, struct view data);
/* type: IKE_PL_IDI or IKE_PL_IDR. */
void ike_build_id(struct ike_build *b, uint8_t type, const struct ike_id *id);
void ike_build_auth(struct ike_build *b, const struct ike_auth *auth);
void ike_build_nonce(struct ike_build *b, struct view nonce);
void ike_build_notify(struct ike_build *b, const struct ike_notify *n);
/* A notify with neither protocol nor SPI. */
void ike_build_status(struct ike_build *b, uint16_t type, struct view data);
/* A transform with its attributes as they are on the wire (key_bits is not looked at). */
void ike_build_transform_raw(struct ike_build *b, const struct ike_transform *t);
/* DELETE of the IKE SA (n 0) or of ESP SAs (spis in host order: the ones we receive on). */
void ike_build_delete(struct ike_build *b, const uint32_t *spis, unsigned int n);
/* type: IKE_PL_TSI or IKE_PL_TSR; n <= 255 selectors of a known type (raw is not looked at). */
void ike_build_ts(struct ike_build *b, uint8_t type, const struct ike_ts *ts, unsigned int n);
/* TSi or TSr with 0.0.0.0/0 and ::/0, all protocols and ports. */
void ike_build_ts_any(struct ike_build *b, uint8_t type);
/* Fills in the header's length. The bytes stay the builder's: b->out. 0, -ENOMEM, -EMSGSIZE. */
int ike_build_finish(struct ike_build *b);
/* Frees and zeroes; harmless twice. */
void ike_build_free(struct ike_build *b);

/* Encodes a parsed message anew, every payload from its decoded parts (an SK or SKF payload's
 * encrypted part is copied); equal to what was parsed when that had no reserved bits set. With h:
 * header and clear chain; without (inner chain): the payloads alone. Into b, which the caller
 * frees. 0, -ENOMEM, -EMSGSIZE. */
int ike_msg_encode(const struct ike_msg *m, struct ike_build *b);
