/* Segment routing over IPv6: the routing header (RFC 8754), what a head end puts in front of a
 * packet (H.Encaps and H.Encaps.Red, RFC 8986 5.1, 5.2), what a node does with a packet sent to a
 * SID of its own (End, End.DT4, End.DT6, End.DT46, RFC 8986 4.1, 4.6 - 4.8), and what an ICMPv6
 * error about an encapsulated packet says about the packet inside (RFC 2473 8).
 *
 * Not here: forwarding, who may send to a SID, checking of HMACs, transit insertion, binding SIDs.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/cur.h"
#include "wire/drop.h"
#include "wire/icmp.h"
#include "wire/ip.h"

enum {
	SRV6_SEGMENTS_MAX = 64, /* of what is pushed; what comes in may have 127 */
	SRV6_FIXED = 8,         /* routing header without list and TLVs */
	SRV6_SEGMENT = 16,
	SRV6_PUSH_MAX = IP6_HEADER + SRV6_FIXED + SRV6_SEGMENTS_MAX * SRV6_SEGMENT,
	SRV6_ROUTING_TYPE = 4, /* RFC 8754 2 */
};

/* ---- the routing header ---- */

/* A routing header that stands whole in its packet and is of type 4. Offsets count from the
 * packet's first byte. */
struct srv6_srh {
	uint32_t at, len;
	uint32_t segments_at; /* of Segment List[0], the last one */
	uint8_t next_header, segments_left, last_entry;
	bool hmac; /* an HMAC TLV is there */
};

/* Reads and checks the routing header at an offset. 0; -EBADMSG: cut, or not of type 4; -EINVAL:
 * Last Entry or Segments Left beyond the list (RFC 8986 4.1 S09; Segments Left may be Last Entry +
 * 1, the reduced form) or a TLV that does not fit: *ret_pointer is the offset of the field to blame
 * for a Parameter Problem. */
int srv6_srh_parse(struct view packet, uint32_t at, struct srv6_srh *ret, uint32_t *ret_pointer);

/* What stands behind an IPv6 header, up to the first thing to be acted on. */
struct srv6_chain {
	bool active; /* a routing header with segments left stands at routing_at */
	uint8_t routing_type;
	uint32_t routing_at;
	uint8_t upper; /* else: the header that is no extension, or a fragment's */
	uint32_t upper_at;
	bool fragment; /* upper is inside a fragment header that says there is more */
};

/* Walks the extension headers of an IPv6 packet; hop-by-hop and destination options and routing
 * headers without segments left are passed over (RFC 8200 4.4). 0, or -EBADMSG when one is cut. */
int srv6_chain_walk(struct view packet, struct srv6_chain *ret);
/* The same past all routing headers: active is never set. */
int srv6_chain_walk_all(struct view packet, struct srv6_chain *ret);

/* True when a routing header of type 4 is among the extension headers, or when they cannot be read
 * to their end: for the edge of the domain (RFC 8754 5.1). */
bool srv6_has_srh(struct view packet);

/* ---- head end ---- */

enum srv6_mode { SRV6_ENCAPS_RED, SRV6_ENCAPS };

struct srv6_steer_config {
	struct ipaddr source;         /* of the outer header */
	const struct ipaddr *segment; /* in the order of travel; repeats allowed; borrowed */
	uint32_t count;               /* 1 ... SRV6_SEGMENTS_MAX */
	enum srv6_mode mode;
	/* Traffic class, flow label and hop limit as Linux sets them with seg6_flowlabel 0: of an
	 * IPv6 packet all are copied; for IPv4 they are 0, 0, 64. Else RFC 6040 for ECN, copy_dscp
	 * for DSCP, a hash of the flow for the label (RFC 6438), hop limit 64 (RFC 2473 6.3). */
	bool linux_compat;
	bool copy_dscp;
};

/* A segment list ready to be pushed. A plain value, immutable once built: may be copied. */
struct srv6_steer {
	struct ipaddr source, first; /* outer source; the first SID, which is routed by */
	uint16_t overhead;           /* bytes in front of the packet */
	uint16_t next_at;            /* offset of the field that says what the packet is */
	bool linux_compat, copy_dscp;
	uint8_t header[SRV6_PUSH_MAX];
};

/* 0, or -EINVAL: no segments or too many, an address that is not IPv6 unicast. */
int srv6_steer_build(const struct srv6_steer_config *c, struct srv6_steer *ret);

/* What differs between packets, but not between the segments of one superpacket. */
struct srv6_stamp {
	uint32_t word; /* version, traffic class, flow label */
	uint8_t hop_limit, next_header;
};

/* Looks at a packet that passed ip_parse(). */
struct srv6_stamp srv6_stamp_of(const struct srv6_steer *s, struct view packet,
	const struct ip_view *v);
/* Writes s->overhead bytes for an inner packet of inner_len bytes (that many and the overhead are
 * 65575 together at most). A superpacket is cut first and each packet gets its own: that is equal
 * to segmenting, then encapsulating. */
void srv6_push(const struct srv6_steer *s, const struct srv6_stamp *stamp, uint32_t inner_len,
	uint8_t *out);
/* A flow label for what the packet belongs to: never 0, the same for one flow (RFC 6437 3). */
uint32_t srv6_flow_label(struct view packet, const struct ip_view *v);

/* ---- own SIDs ---- */

enum srv6_behaviour { SRV6_END, SRV6_END_DT4, SRV6_END_DT6, SRV6_END_DT46, SRV6_BEHAVIOURS };

struct srv6_localsid {
	struct prefix sid; /* IPv6; shorter than /128: what follows is an argument, not looked at */
	enum srv6_behaviour behaviour;
	uint32_t argument; /* the caller's: the table that decapsulated packets go to */
};

/* "End", "End.DT4", ... as RFC 8986 names them; "?" for no behaviour. */
const char *srv6_behaviour_name(enum srv6_behaviour b);

struct srv6_table;

/* Builds an immutable table (entries are copied, any order). 0; -EEXIST for one prefix twice,
 * -EINVAL for what is no IPv6 prefix or behaviour; -ENOMEM. */
int srv6_table_build(const struct srv6_localsid *entry, size_t n, struct srv6_table **ret);
void srv6_table_free(struct srv6_table *t);
/* The entry of the longest prefix around an address, or NULL. */
const struct srv6_localsid *srv6_table_find(const struct srv6_table *t, const struct ipaddr *a);

enum srv6_verdict {
	SRV6_FORWARD, /* the packet has a new destination, its hop limit is one less: route it */
	SRV6_INNER,   /* a packet of its own stands at `at` to the packet's end */
	SRV6_UPPER,   /* for the node itself: an upper layer other than IP */
	SRV6_REFUSE,  /* drop says why; send is set: with an ICMP error to the source */
};

struct srv6_result {
	enum srv6_verdict verdict;
	uint32_t at;           /* INNER, UPPER: offset */
	uint8_t next_header;   /* INNER: 4 or 41; UPPER: its type */
	enum drop_reason drop; /* REFUSE */
	bool send;
	enum icmp_error_type icmp; /* TIME_EXCEEDED or PARAMETER_PROBLEM */
	uint8_t code;
	uint32_t pointer;
};

/* Does what the SID's behaviour says with a packet that passed ip_parse() and is sent to it. On
 * FORWARD the packet and v (destination, hop limit) are changed, else nothing is. A packet for
 * which End is the last segment is decapsulated as by its flavour USD (RFC 8986 4.16.3), so that
 * senders that count on it, and those whose former hop removed the routing header (PSP), are
 * served; headers without segments left need no removal (USP). UPPER is given for ICMPv6 alone.
 * refuse_hmac: a routing header with an HMAC TLV that would be acted on is refused, else it is
 * passed over. */
struct srv6_result srv6_process(const struct srv6_localsid *sid, bool refuse_hmac, uint8_t *packet,
	struct ip_view *v);

/* ---- errors about what was pushed ---- */

struct srv6_error {
	enum icmp_error_type type; /* for the inner source: RFC 2473 8.2, 8.3 */
	uint32_t mtu;              /* PACKET_TOO_BIG: of the outer packet */
	uint32_t overhead;         /* bytes in front of the inner packet in the quote */
	struct view inner;         /* the quote of the inner packet, to its end; borrowed */
	struct ip_view about;      /* of the inner packet; len is what is quoted */
};

/* True for an ICMPv6 error message (and not its checksum's word). */
bool srv6_is_error(struct view packet, const struct ip_view *v);
/* Reads an ICMPv6 error about a packet that `source` sent encapsulated. 0; -EBADMSG: it is none,
 * its checksum is wrong, or it quotes too little or something else. */
int srv6_error_parse(struct view packet, const struct ip_view *v, const struct ipaddr *source,
	struct srv6_error *ret);
