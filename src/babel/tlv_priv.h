/* The form of Babel packets (RFC 8966 4, 9079 7, 9229 4, 9616 6, 8967 6): bytes to a list of TLVs,
 * and TLVs to bytes. Knows no neighbour and no route, and changes no state but its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "babel/babel.h"

enum {
	BABEL_MAGIC = 42,
	BABEL_VERSION = 2,
	BABEL_HEADER = 4,
	BABEL_TLV_HEADER = 2,
	BABEL_NONCE_MAX = 192,
	BABEL_INDEX_MAX = 32,
	BABEL_CENTISECOND_US = 10000,
	BABEL_INTERVAL_INFINITE = 0xffff,
};

enum babel_tlv_type {
	BABEL_TLV_PAD1 = 0,
	BABEL_TLV_PADN = 1,
	BABEL_TLV_ACK_REQUEST = 2,
	BABEL_TLV_ACK = 3,
	BABEL_TLV_HELLO = 4,
	BABEL_TLV_IHU = 5,
	BABEL_TLV_ROUTER_ID = 6,
	BABEL_TLV_NEXT_HOP = 7,
	BABEL_TLV_UPDATE = 8,
	BABEL_TLV_ROUTE_REQUEST = 9,
	BABEL_TLV_SEQNO_REQUEST = 10,
	BABEL_TLV_MAC = 16,
	BABEL_TLV_PC = 17,
	BABEL_TLV_CHALLENGE = 18,
	BABEL_TLV_CHALLENGE_REPLY = 19,
	BABEL_TLV_COUNT
};

enum babel_ae { BABEL_AE_ANY, BABEL_AE_IP4, BABEL_AE_IP6, BABEL_AE_LINK_LOCAL, BABEL_AE_4VIA6 };

struct babel_tlv {
	enum babel_tlv_type type;
	union {
		struct {
			uint16_t opaque, interval; /* centiseconds */
		} ack;
		struct {
			bool unicast, has_time;
			uint16_t seqno, interval; /* interval 0: not scheduled */
			uint32_t time;
		} hello;
		struct {
			struct ipaddr to; /* IP_NONE: whoever receives it */
			uint16_t rxcost, interval;
			bool has_time;
			uint32_t origin, receive;
			uint16_t loss; /* what the neighbour does not get of us, of 65535 */
			bool loss_of_hellos;
		} ihu;
		struct {
			bool wildcard; /* retraction of everything */
			struct babel_prefix prefix;
			uint16_t interval, seqno, metric;
			uint8_t router_id[8];   /* finite metric only */
			struct ipaddr next_hop; /* finite metric only */
		} update;
		struct {
			bool wildcard; /* route request only */
			struct babel_prefix prefix;
			uint16_t seqno; /* seqno request only, as the next two */
			uint8_t hop_count;
			uint8_t router_id[8];
		} request;
		struct {
			uint32_t pc;
			struct view index; /* into the packet */
		} pc;
		struct view bytes; /* MAC, nonces: into the packet */
	};
};

/* A packet as a list. Zero-initialise; may be used again and again; end with babel_parsed_free().
 */
struct babel_parsed {
	struct babel_tlv *tlv;
	size_t n, cap;
	struct view signed_part; /* header and body */
	struct view trailer;
	unsigned int malformed; /* TLVs ignored because of their form */
	unsigned int mandatory; /* TLVs ignored because of an unknown mandatory sub-TLV */
};

enum babel_parse_error {
	BABEL_PARSE_OK,
	BABEL_PARSE_MALFORMED, /* the packet as a whole: nothing of it may be used */
	BABEL_PARSE_VERSION,
	BABEL_PARSE_NO_MEMORY,
};

/* Parses a packet from source. Only what is well-formed is listed; pads and unknown TLVs are not.
 */
enum babel_parse_error babel_parse(struct view packet, const struct ipaddr *source,
	struct babel_parsed *ret);
/* The next TLV of type MAC in a trailer (RFC 8967 6.1); false at the end. */
bool babel_trailer_mac(struct cur *trailer, struct view *ret);
void babel_parsed_free(struct babel_parsed *p);

/* A packet being written. A TLV is written whole or not at all: then false is returned. */
struct babel_build {
	struct wcur w;
	bool has_router_id, has_next_hop4;
	uint8_t router_id[8];
	bool has_prefix[BABEL_AE_4VIA6 + 1]; /* default prefix by address encoding */
	uint8_t prefix[BABEL_AE_4VIA6 + 1][16];
};

/* Starts a packet in cap bytes at base, or (bare) a list of TLVs without header. */
void babel_build_begin(struct babel_build *b, void *base, size_t cap, bool bare);
/* Fills in the body length; the packet so far is in b->w. */
void babel_build_body_end(struct babel_build *b);
bool babel_build_empty(const struct babel_build *b);

bool babel_build_ack(struct babel_build *b, uint16_t opaque);
bool babel_build_hello(struct babel_build *b, uint16_t seqno, uint16_t interval, uint32_t time);

enum {
	/* Ours, of those for experiments (RFC 8966 8, 112 to 126), which others skip: "wl" as the
	 * data path measured it, "wh" as hellos are missing, then the share of our packets that the
	 * sender of an IHU does not get, 16 bits, 65535: all. */
	BABEL_SUB_LOSS = 112,
	BABEL_SUB_LOSS_DATA = 0x776c,
	BABEL_SUB_LOSS_HELLOS = 0x7768,
};

struct babel_ihu {
	struct ipaddr to;
	uint16_t rxcost, interval;
	bool has_time;
	uint32_t origin, receive;
	uint16_t loss; /* 0: not said */
	bool loss_of_hellos;
};
bool babel_build_ihu(struct babel_build *b, const struct babel_ihu *i);

struct babel_update {
	struct babel_prefix prefix;
	uint16_t interval, seqno, metric;
	uint8_t router_id[8];
	struct ipaddr next_hop4; /* IP_NONE: v4-via-v6 */
};
/* With what it needs before it: Router-Id, Next Hop. An infinite metric makes a retraction. */
bool babel_build_update(struct babel_build *b, const struct babel_update *u);
bool babel_build_wildcard_retraction(struct babel_build *b, uint16_t interval);
/* p NULL: wildcard. */
bool babel_build_route_request(struct babel_build *b, const struct babel_prefix *p);

struct babel_seqno_request {
	struct babel_prefix prefix;
	uint16_t seqno;
	uint8_t hop_count;
	uint8_t router_id[8];
};
bool babel_build_seqno_request(struct babel_build *b, const struct babel_seqno_request *r);
/* A TLV that is nothing but bytes after head (may be empty): MAC, PC, challenges. */
bool babel_build_bytes(struct babel_build *b, enum babel_tlv_type type, struct view head,
	struct view bytes);

/* True for a router-id that may be used (RFC 8966 4.1.3). */
bool babel_router_id_valid(const uint8_t id[static 8]);
