/* ICMPv6 errors about packets that were encapsulated here: what they mean for the packet inside, as
 * RFC 2473 8 has it. */
#include "srv6/srv6.h"

#include <errno.h>
#include "wire/csum.h"

enum {
	TYPE_UNREACHABLE = 1,
	TYPE_TOO_BIG = 2,
	TYPE_TIME_EXCEEDED = 3,
	TYPE_PARAMETER = 4,
	TYPE_INFORMATIONAL = 128,
	SOURCE_AT = 8,
	LENGTH4_AT = 2,
	LENGTH6_AT = 4,
	PORTS = 8, /* of the inner transport: what its sender knows it by */
};

bool srv6_is_error(struct view packet, const struct ip_view *v)
{
	struct cur c = cur_of(packet.p, v->len);
	uint8_t type;

	if (v->family != IP6 || v->proto != IP_PROTO_ICMP6 || ip_is_fragment(v))
		return false;
	cur_skip(&c, v->l4);
	type = cur_u8(&c);
	return !c.bad && type < TYPE_INFORMATIONAL;
}

static bool checksum_well(struct view message, const struct ip_view *v)
{
	uint64_t sum = ip_pseudo_sum(&v->src, &v->dst, IP_PROTO_ICMP6, (uint32_t)message.n);

	return csum_finish(csum_add(sum, message.p, message.n)) == 0;
}

/* A packet whose end may be missing: its headers are read from a copy that says it is as long as
 * what there is. */
static int parse_quote(struct view inner, uint8_t next, struct ip_view *ret)
{
	uint8_t copy[ICMP_ERROR_MAX];
	uint32_t header = next == IP_PROTO_IP4 ? IP4_HEADER : IP6_HEADER;
	size_t n = inner.n;

	if (n > sizeof(copy) || n < header + PORTS ||
		inner.p[0] >> 4 != (header == IP4_HEADER ? 4 : 6))
		return -EBADMSG;
	memcpy(copy, inner.p, n);
	if (header == IP6_HEADER) {
		if (get_u16(copy + LENGTH6_AT) + (size_t)IP6_HEADER > n)
			put_u16(copy + LENGTH6_AT, (uint16_t)(n - IP6_HEADER));
	} else if (get_u16(copy + LENGTH4_AT) > n) {
		header = (copy[0] & 15U) * 4;
		if (header < IP4_HEADER || header > n)
			return -EBADMSG;
		put_u16(copy + LENGTH4_AT, (uint16_t)n);
		ip4_write_checksum(copy, header);
	}
	return ip_parse(view_of(copy, n), ret);
}

/* RFC 2473 8.1: too big is told as such, all else is an unreachable node. */
static int kind_of(uint8_t type, enum icmp_error_type *ret)
{
	switch (type) {
	case TYPE_TOO_BIG:
		*ret = ICMP_PACKET_TOO_BIG;
		return 0;
	case TYPE_UNREACHABLE:
	case TYPE_TIME_EXCEEDED:
	case TYPE_PARAMETER:
		*ret = ICMP_HOST_UNREACHABLE;
		return 0;
	default:
		return -EBADMSG;
	}
}

int srv6_error_parse(struct view packet, const struct ip_view *v, const struct ipaddr *source,
	struct srv6_error *ret)
{
	struct cur c = cur_of(packet.p, v->len);
	struct srv6_error e = {0};
	struct srv6_chain chain;
	struct view message, quote;
	struct ipaddr from;
	uint8_t type;

	if (!srv6_is_error(packet, v))
		return -EBADMSG;
	cur_skip(&c, v->l4);
	message = view_of(c.p, c.n);
	type = cur_u8(&c);
	cur_skip(&c, 3);
	e.mtu = cur_u32(&c);
	quote = cur_rest(&c);
	if (c.bad || kind_of(type, &e.type) < 0 || !checksum_well(message, v))
		return -EBADMSG;
	if (quote.n < IP6_HEADER || quote.p[0] >> 4 != 6)
		return -EBADMSG;
	from = ipaddr_from(IP6, quote.p + SOURCE_AT);
	if (!ipaddr_equal(&from, source))
		return -EBADMSG;
	/* Where on its way the packet was is no matter: segments are passed over. */
	if (srv6_chain_walk_all(quote, &chain) < 0 || chain.fragment ||
		(chain.upper != IP_PROTO_IP4 && chain.upper != IP_PROTO_IP6))
		return -EBADMSG;
	e.overhead = chain.upper_at;
	e.inner = view_of(quote.p + chain.upper_at, quote.n - chain.upper_at);
	if (parse_quote(e.inner, chain.upper, &e.about) < 0)
		return -EBADMSG;
	*ret = e;
	return 0;
}
