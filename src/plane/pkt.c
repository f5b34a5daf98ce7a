/* The header facts of an inner packet: IPv4 (RFC 791) and IPv6 with its extension headers
 * (RFC 8200 section 4). A chain that cannot be followed is no error here: a router need not follow
 * it; the packet then has no transport that is known. */
#include "plane/plane_priv.h"

enum {
	EXT_HOPOPTS = 0,
	EXT_ROUTING = 43,
	EXT_FRAGMENT = 44,
	EXT_AUTH = 51,
	EXT_DSTOPTS = 60,
	EXT_MAX = 8, /* headers followed */
	PROTO_UNKNOWN = 255,
	IP4_DF = 0x4000,
	IP4_MF = 0x2000,
	IP4_OFFSET = 0x1fff,
};

/* A superpacket's length field may be anything (zero for one beyond 65535): the frame's counts. */
static enum drop_reason cut(struct pkt *k, uint32_t total, uint32_t header)
{
	if (k->gso.type != GSO_NONE)
		return DROP_NONE;
	if (total < header || total > k->len)
		return DROP_BAD_IP;
	k->len = total;
	return DROP_NONE;
}

static enum drop_reason parse4(struct pkt *k)
{
	struct cur c = cur_of(k->data, k->len);
	uint32_t header = (cur_u8(&c) & 0xfU) * 4, total;
	uint16_t fragment;

	k->tos = cur_u8(&c);
	total = cur_u16(&c);
	cur_skip(&c, 2);
	fragment = cur_u16(&c);
	k->hop_limit = cur_u8(&c);
	k->proto = cur_u8(&c);
	if (c.bad || header < IP4_HEADER || header > k->len)
		return DROP_BAD_IP;
	k->df = fragment & IP4_DF;
	k->fragment = fragment & (IP4_MF | IP4_OFFSET);
	k->later = fragment & IP4_OFFSET;
	k->transport = header;
	return cut(k, total, header);
}

/* Follows the extension headers as far as they go. */
static void parse6_chain(struct pkt *k, uint8_t next)
{
	struct cur c = cur_of(k->data, k->len);

	cur_skip(&c, IP6_HEADER);
	k->proto = PROTO_UNKNOWN;
	for (int i = 0; i < EXT_MAX; i++) {
		uint8_t type = next;
		uint32_t n;
		uint16_t offset;

		if (type != EXT_HOPOPTS && type != EXT_ROUTING && type != EXT_FRAGMENT &&
			type != EXT_AUTH && type != EXT_DSTOPTS) {
			k->proto = type;
			k->transport = k->len - (uint32_t)c.n;
			return;
		}
		next = cur_u8(&c);
		n = cur_u8(&c);
		offset = cur_u16(&c);
		if (type == EXT_FRAGMENT) {
			k->fragment = true;
			k->later = offset & 0xfff8;
			n = 4;
		} else {
			n = type == EXT_AUTH ? (n + 2) * 4 - 4 : n * 8 + 4;
		}
		cur_skip(&c, n);
		if (c.bad || k->later)
			return;
	}
}

static enum drop_reason parse6(struct pkt *k)
{
	struct cur c = cur_of(k->data, k->len);
	uint32_t word = cur_u32(&c), payload = cur_u16(&c);
	uint8_t next = cur_u8(&c);
	enum drop_reason r;

	k->hop_limit = cur_u8(&c);
	if (c.bad || k->len < IP6_HEADER)
		return DROP_BAD_IP;
	k->tos = (uint8_t)(word >> 20);
	k->df = true;
	k->fragment = k->later = false;
	k->transport = IP6_HEADER;
	r = cut(k, IP6_HEADER + payload, IP6_HEADER);
	if (r == DROP_NONE)
		parse6_chain(k, next);
	return r;
}

enum drop_reason pkt_parse(struct pkt *k)
{
	struct cur c = cur_of(k->data, k->len);

	k->version = cur_u8(&c) >> 4;
	if (k->version == IP4 && k->len >= IP4_HEADER)
		return parse4(k);
	return k->version == IP6 ? parse6(k) : DROP_BAD_IP;
}

uint16_t pkt_udp_port(const struct pkt *k)
{
	struct cur c = cur_of(k->data, k->len);

	if (k->proto != PROTO_UDP || k->later)
		return 0;
	cur_skip(&c, k->transport + 2);
	return cur_u16(&c);
}
