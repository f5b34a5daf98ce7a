/* IPv4 and IPv6 headers: RFC 791, RFC 1812 5.2.2 (validation), RFC 8200. Not here: options, what is
 * inside extension headers. */
#include "wire/ip.h"

#include <errno.h>
#include "wire/csum.h"

enum {
	IP4_CHECKSUM_AT = 10,
	IP4_TTL_AT = 8,
	IP6_HOP_LIMIT_AT = 7,
	EXTENSIONS_MAX = 16,
	FRAGMENT_UNIT = 8,
};

/* An address of constant length: the compiler makes a move of it. */
static inline void read_address(struct cur *c, enum ip_family family, struct ipaddr *ret)
{
	ret->family = (uint8_t)family;
	if (family == IP4)
		cur_copy(c, ret->b, 4);
	else
		cur_copy(c, ret->b, 16);
}

static int parse4(struct view packet, struct ip_view *v)
{
	struct cur c = cur_view(packet);
	uint32_t header_len = (cur_u8(&c) & 15u) * 4;
	uint16_t fragment;

	v->family = IP4;
	v->tos = cur_u8(&c);
	v->len = cur_u16(&c);
	v->id = cur_u16(&c);
	fragment = cur_u16(&c);
	v->ttl = cur_u8(&c);
	v->proto = cur_u8(&c);
	cur_skip(&c, sizeof(uint16_t));
	v->src.family = IP4;
	cur_copy(&c, v->src.b, 4);
	v->dst.family = IP4;
	cur_copy(&c, v->dst.b, 4);
	if (header_len < IP4_HEADER || v->len < header_len || v->len > packet.n)
		return -EBADMSG;
	if (csum_finish(csum_add_words(0, packet.p, header_len)) != 0)
		return -EBADMSG;
	v->dont_fragment = fragment & 0x4000;
	v->more_fragments = fragment & 0x2000;
	v->frag_offset = (uint16_t)((fragment & 0x1fff) * FRAGMENT_UNIT);
	v->options = header_len > IP4_HEADER;
	v->header_len = v->l4 = (uint16_t)header_len;
	return 0;
}

/* Passes one extension header, whose type is v->proto. False when it is none, or the last to read.
 */
static bool pass_extension(struct cur *c, struct ip_view *v)
{
	uint32_t at = v->len - (uint32_t)c->n;
	uint8_t type = v->proto, next;
	uint32_t units;
	uint16_t fragment;

	switch (type) {
	case IP_PROTO_HOP_BY_HOP:
	case IP_PROTO_ROUTING:
	case IP_PROTO_DEST_OPTIONS:
	case IP_PROTO_AH:
		next = cur_u8(c);
		units = cur_u8(c);
		/* RFC 8200 4.3: in units of 8 bytes, the first not counted; RFC 4302 2.2: of 4, two
		 * not */
		cur_skip(c, (type == IP_PROTO_AH ? (units + 2) * 4 : (units + 1) * 8) - 2);
		if (type == IP_PROTO_ROUTING && !v->routing) {
			v->routing = true;
			v->routing_at = (uint16_t)at;
		}
		break;
	case IP_PROTO_FRAGMENT:
		next = cur_u8(c);
		cur_skip(c, 1);
		fragment = cur_u16(c);
		cur_skip(c, sizeof(uint32_t));
		v->frag_offset = fragment & 0xfff8;
		v->more_fragments = fragment & 1;
		break;
	default:
		return false;
	}
	v->proto = next;
	v->options = true;
	return !c->bad && v->frag_offset == 0;
}

static int parse6(struct view packet, struct ip_view *v)
{
	struct cur c = cur_view(packet);
	uint32_t first = cur_u32(&c);
	int extensions = 0;

	v->family = IP6;
	v->tos = (uint8_t)(first >> 20);
	v->flow_label = first & 0xfffff;
	v->len = IP6_HEADER + (uint32_t)cur_u16(&c);
	v->proto = cur_u8(&c);
	v->ttl = cur_u8(&c);
	v->src.family = IP6;
	cur_copy(&c, v->src.b, 16);
	v->dst.family = IP6;
	cur_copy(&c, v->dst.b, 16);
	v->dont_fragment = true;
	if (v->len > packet.n)
		return -EBADMSG;
	v->header_len = IP6_HEADER;
	c = cur_sub(&c, v->len - IP6_HEADER);
	while (pass_extension(&c, v)) {
		if (++extensions == EXTENSIONS_MAX)
			return -EBADMSG;
	}
	if (c.bad)
		return -EBADMSG;
	v->l4 = (uint16_t)(v->len - c.n);
	return 0;
}

int ip_parse(struct view packet, struct ip_view *ret)
{
	struct ip_view v = {0};
	uint8_t version = packet.n ? packet.p[0] >> 4 : 0;
	int err = -EBADMSG;

	if (version == 4 && packet.n >= IP4_HEADER)
		err = parse4(packet, &v);
	else if (version == 6 && packet.n >= IP6_HEADER)
		err = parse6(packet, &v);
	/* Offsets are 16 bits wide: an IPv6 packet can be 40 bytes longer. */
	if (err < 0 || v.len > UINT16_MAX)
		return -EBADMSG;
	*ret = v;
	return 0;
}

bool ip_ports(struct view packet, const struct ip_view *v, uint16_t *ret_src, uint16_t *ret_dst)
{
	struct cur c = cur_of(packet.p, v->len);
	uint16_t src, dst;

	if ((v->proto != IP_PROTO_TCP && v->proto != IP_PROTO_UDP) || v->frag_offset != 0)
		return false;
	cur_skip(&c, v->l4);
	src = cur_u16(&c);
	dst = cur_u16(&c);
	if (c.bad)
		return false;
	*ret_src = src;
	*ret_dst = dst;
	return true;
}

bool ip_decrement_ttl(uint8_t *packet, struct ip_view *v)
{
	uint16_t before, after;

	if (v->ttl <= 1)
		return false;
	v->ttl--;
	if (v->family == IP6) {
		packet[IP6_HOP_LIMIT_AT] = v->ttl;
		return true;
	}
	before = get_u16(packet + IP4_TTL_AT);
	packet[IP4_TTL_AT] = v->ttl;
	after = get_u16(packet + IP4_TTL_AT);
	put_u16(packet + IP4_CHECKSUM_AT,
		csum_update(get_u16(packet + IP4_CHECKSUM_AT), before, after));
	return true;
}

uint64_t ip_pseudo_sum(const struct ipaddr *src, const struct ipaddr *dst, uint8_t proto,
	uint32_t l4_len)
{
	uint32_t n = ipaddr_bits(src) / 8;
	uint64_t sum = csum_add_words(csum_add_words(0, src->b, n), dst->b, n);

	return csum_add_u32(csum_add_u16(sum, proto), l4_len);
}

void ip4_write_checksum(uint8_t *packet, uint32_t header_len)
{
	put_u16(packet + IP4_CHECKSUM_AT, 0);
	put_u16(packet + IP4_CHECKSUM_AT, csum_finish(csum_add_words(0, packet, header_len)));
}
