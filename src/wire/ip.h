/* An IPv4 (RFC 791) or IPv6 (RFC 8200) packet, looked at. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/cur.h"

enum ip_sizes {
	IP4_HEADER = 20,
	IP6_HEADER = 40,
	TCP_HEADER = 20,
	UDP_HEADER = 8,
	ICMP_HEADER = 8,
	IP6_MTU_MIN = 1280, /* RFC 8200 5 */
};

enum ip_proto {
	IP_PROTO_HOP_BY_HOP = 0,
	IP_PROTO_ICMP4 = 1,
	IP_PROTO_IP4 = 4,
	IP_PROTO_TCP = 6,
	IP_PROTO_UDP = 17,
	IP_PROTO_IP6 = 41,
	IP_PROTO_ROUTING = 43,
	IP_PROTO_FRAGMENT = 44,
	IP_PROTO_AH = 51,
	IP_PROTO_ICMP6 = 58,
	IP_PROTO_NONE = 59,
	IP_PROTO_DEST_OPTIONS = 60,
};

/* What a valid packet's headers say. Offsets count from the packet's first byte. */
struct ip_view {
	uint8_t family;     /* enum ip_family */
	uint8_t tos;        /* DSCP and ECN; IPv6: traffic class */
	uint8_t ttl;        /* or hop limit */
	uint8_t proto;      /* of what stands at l4; IPv6: behind the extension headers */
	bool options;       /* IPv4 options or IPv6 extension headers are there */
	bool routing;       /* IPv6: a routing header is among them */
	bool dont_fragment; /* IPv4 DF; always true for IPv6 */
	bool more_fragments;
	uint16_t frag_offset; /* bytes; 0: first fragment or none */
	uint16_t header_len;  /* IPv4: with options; IPv6: 40 */
	uint16_t l4;          /* offset of the transport header; len at most */
	uint16_t id;          /* IPv4 identification */
	uint16_t routing_at;  /* offset of the first routing header, when there is one */
	uint32_t flow_label;  /* IPv6 */
	uint32_t len;         /* the packet's length by its header; never more than what is there */
	struct ipaddr src, dst;
};

/* Reads the headers. packet may be longer than the packet says it is. 0, or -EBADMSG: no such
 * version, lengths that do not fit, IPv4 header checksum wrong, an extension header that is cut or
 * too many of them. Behind a fragment header of another than the first fragment nothing is read: l4
 * is then where the fragment's data begins. */
int ip_parse(struct view packet, struct ip_view *ret);

/* True when the packet is a fragment (an atomic IPv6 fragment, RFC 6946, is none). */
static inline bool ip_is_fragment(const struct ip_view *v)
{
	return v->more_fragments || v->frag_offset != 0;
}

/* Ports of TCP or UDP (host order) that are no later fragments; false when there are none to see.
 */
bool ip_ports(struct view packet, const struct ip_view *v, uint16_t *ret_src, uint16_t *ret_dst);

/* Takes one from the TTL or hop limit in the packet (and v), mending the IPv4 header checksum.
 * False, and nothing changed, when it is 1 or 0 already (RFC 1812 5.3.1, RFC 8200 3). */
bool ip_decrement_ttl(uint8_t *packet, struct ip_view *v);

/* The sum of the pseudo-header (RFC 9293 3.1, RFC 8200 8.1), for csum.h. */
uint64_t ip_pseudo_sum(const struct ipaddr *src, const struct ipaddr *dst, uint8_t proto,
	uint32_t l4_len);

/* Writes the IPv4 header checksum of a header of header_len bytes. */
void ip4_write_checksum(uint8_t *packet, uint32_t header_len);
