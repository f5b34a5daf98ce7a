/* ICMP and ICMPv6 messages: see icmp.h. */
#include "wire/icmp.h"

#include <errno.h>
#include "wire/csum.h"

enum {
	IP4_PLAIN = 0x45,         /* version 4, a header without options */
	FRAGMENT_OFFSET = 0x1fff, /* RFC 791 3.1: the bits below the flags */
	TTL = 64,
	TOS_CONTROL = 0xc0,   /* RFC 1812 4.3.2.5: internetwork control */
	IP4_DF = 0x4000,      /* RFC 6864: with DF the ID may be anything */
	ICMP_CHECKSUM_AT = 2, /* from the ICMP header */
};

enum icmp4_type {
	ICMP4_ECHO_REPLY = 0,
	ICMP4_UNREACHABLE = 3,
	ICMP4_SOURCE_QUENCH = 4,
	ICMP4_REDIRECT = 5,
	ICMP4_ECHO_REQUEST = 8,
	ICMP4_TIME_EXCEEDED = 11,
	ICMP4_PARAMETER = 12,
};

enum icmp6_type {
	ICMP6_UNREACHABLE = 1,
	ICMP6_TOO_BIG = 2,
	ICMP6_TIME_EXCEEDED = 3,
	ICMP6_PARAMETER = 4,
	ICMP6_FIRST_INFORMATIONAL = 128,
	ICMP6_ECHO_REQUEST = 128,
	ICMP6_ECHO_REPLY = 129,
	ICMP6_REDIRECT = 137,
	ICMP6_UNKNOWN_OPTION = 2, /* code of a parameter problem */
};

struct icmp_kind {
	uint8_t type4, code4, type6, code6;
};

static const struct icmp_kind kinds[] = {
	[ICMP_TIME_EXCEEDED] = {ICMP4_TIME_EXCEEDED, 0, ICMP6_TIME_EXCEEDED, 0},
	[ICMP_NO_ROUTE] = {ICMP4_UNREACHABLE, 0, ICMP6_UNREACHABLE, 0},
	[ICMP_HOST_UNREACHABLE] = {ICMP4_UNREACHABLE, 1, ICMP6_UNREACHABLE, 3},
	[ICMP_ADMIN_PROHIBITED] = {ICMP4_UNREACHABLE, 13, ICMP6_UNREACHABLE, 1},
	[ICMP_PACKET_TOO_BIG] = {ICMP4_UNREACHABLE, 4, ICMP6_TOO_BIG, 0},
	[ICMP_PARAMETER_PROBLEM] = {ICMP4_PARAMETER, 0, ICMP6_PARAMETER, 0},
};

/* The packet is itself an ICMP error or a redirect; one that is too short to tell counts as one. */
static bool is_icmp_error(const struct icmp_error *e)
{
	struct cur c = cur_of(e->packet.p,
		e->packet.n < e->about->len ? e->packet.n : e->about->len);
	uint8_t proto = e->about->proto, type;

	if (proto != (e->about->family == IP4 ? IP_PROTO_ICMP4 : IP_PROTO_ICMP6))
		return false;
	cur_skip(&c, e->about->l4);
	type = cur_u8(&c);
	if (c.bad)
		return true;
	if (proto == IP_PROTO_ICMP6)
		return type < ICMP6_FIRST_INFORMATIONAL || type == ICMP6_REDIRECT;
	return type == ICMP4_UNREACHABLE || type == ICMP4_SOURCE_QUENCH || type == ICMP4_REDIRECT ||
		type == ICMP4_TIME_EXCEEDED || type == ICMP4_PARAMETER;
}

/* A source that does not name one node: RFC 4443 2.4 (e.6), RFC 1812 4.3.2.7. */
static bool is_no_single_node(const struct ipaddr *a)
{
	return ipaddr_is_unspecified(a) || ipaddr_is_multicast(a) || ipaddr_is_loopback(a) ||
		(a->family == IP4 && (a->b[0] == 0 || a->b[0] >= 240));
}

/* RFC 4443 2.4 (e.3): errors that are sent for multicast, so that path MTU discovery works. */
static bool goes_to_multicast_senders(const struct icmp_error *e)
{
	return e->about->family == IP6 &&
		(e->type == ICMP_PACKET_TOO_BIG ||
			(e->type == ICMP_PARAMETER_PROBLEM && e->code == ICMP6_UNKNOWN_OPTION));
}

bool icmp_error_allowed(const struct icmp_error *e)
{
	const struct ip_view *v = e->about;
	bool group = ipaddr_is_multicast(&v->dst) || (v->family == IP4 && v->dst.b[0] >= 240);

	return v->frag_offset == 0 && !is_no_single_node(&v->src) &&
		(!group || goes_to_multicast_senders(e)) && !is_icmp_error(e);
}

static void write_ip4(struct wcur *w, const struct ipaddr *src, const struct ipaddr *dst,
	uint32_t payload, uint8_t tos, uint8_t ttl)
{
	uint8_t *header = wcur_room(w, IP4_HEADER);

	if (!header)
		return;
	put_u16(header, (uint16_t)(0x4500 | tos));
	put_u16(header + 2, (uint16_t)(IP4_HEADER + payload));
	put_u16(header + 4, 0);
	put_u16(header + 6, IP4_DF);
	header[8] = ttl;
	header[9] = IP_PROTO_ICMP4;
	memcpy(header + 12, src->b, 4);
	memcpy(header + 16, dst->b, 4);
	ip4_write_checksum(header, IP4_HEADER);
}

static void write_ip6(struct wcur *w, const struct ipaddr *src, const struct ipaddr *dst,
	uint32_t payload, uint8_t hop_limit)
{
	wcur_u32(w, 6u << 28);
	wcur_u16(w, (uint16_t)payload);
	wcur_u8(w, IP_PROTO_ICMP6);
	wcur_u8(w, hop_limit);
	wcur_bytes(w, src->b, 16);
	wcur_bytes(w, dst->b, 16);
}

/* Ends a message that begins at icmp: its checksum (RFC 4443 2.3 has a pseudo-header, RFC 792 not).
 */
static void write_checksum(const struct ipaddr *src, const struct ipaddr *dst, uint8_t *icmp,
	uint32_t len)
{
	uint64_t sum = src->family == IP6 ? ip_pseudo_sum(src, dst, IP_PROTO_ICMP6, len) : 0;

	put_u16(icmp + ICMP_CHECKSUM_AT, 0);
	put_u16(icmp + ICMP_CHECKSUM_AT, csum_finish(csum_add(sum, icmp, len)));
}

/* The second word of the ICMP header. */
static uint32_t second_word(const struct icmp_error *e)
{
	if (e->type == ICMP_PACKET_TOO_BIG) /* RFC 1191 4: 16 bits */
		return e->about->family == IP6 || e->mtu < UINT16_MAX ? e->mtu : UINT16_MAX;
	if (e->type == ICMP_PARAMETER_PROBLEM)
		return e->about->family == IP6 ? e->pointer : e->pointer << 24;
	return 0; /* RFC 4884: length 0, no extensions */
}

int icmp_error_build(const struct icmp_error *e, uint8_t *out, size_t cap, size_t *ret_len)
{
	const struct icmp_kind *k = &kinds[e->type];
	bool v6 = e->about->family == IP6;
	size_t header = v6 ? IP6_HEADER : IP4_HEADER;
	size_t quote = (v6 ? ICMP_ERROR_MAX : ICMP4_ERROR_MAX) - header - ICMP_HEADER;
	struct wcur w = wcur_of(out, cap);

	if (e->source->family != e->about->family)
		return -EINVAL;
	if (!icmp_error_allowed(e))
		return -EPERM;
	if (quote > e->about->len)
		quote = e->about->len;
	if (quote > e->packet.n)
		quote = e->packet.n;
	if (v6)
		write_ip6(&w, e->source, &e->about->src, (uint32_t)(ICMP_HEADER + quote), TTL);
	else
		write_ip4(&w, e->source, &e->about->src, (uint32_t)(ICMP_HEADER + quote),
			TOS_CONTROL, TTL);
	wcur_u8(&w, v6 ? k->type6 : k->type4);
	wcur_u8(&w, v6 && e->type == ICMP_PARAMETER_PROBLEM ? e->code : v6 ? k->code6 : k->code4);
	wcur_u16(&w, 0);
	wcur_u32(&w, second_word(e));
	wcur_bytes(&w, e->packet.p, quote);
	if (w.full)
		return -ENOSPC;
	write_checksum(e->source, &e->about->src, out + header, (uint32_t)(w.len - header));
	*ret_len = w.len;
	return 0;
}

int icmp_echo_build(const struct icmp_echo *e, uint8_t *out, size_t cap, size_t *ret_len)
{
	bool v6 = e->src.family == IP6;
	size_t header = v6 ? IP6_HEADER : IP4_HEADER;
	size_t payload = ICMP_HEADER + e->data.n + e->pad;
	struct wcur w = wcur_of(out, cap);

	if (e->src.family != e->dst.family || e->src.family == IP_NONE ||
		payload > UINT16_MAX - header)
		return -EINVAL;
	if (v6)
		write_ip6(&w, &e->src, &e->dst, (uint32_t)payload, e->ttl);
	else
		write_ip4(&w, &e->src, &e->dst, (uint32_t)payload, 0, e->ttl);
	if (v6)
		wcur_u8(&w, e->reply ? ICMP6_ECHO_REPLY : ICMP6_ECHO_REQUEST);
	else
		wcur_u8(&w, e->reply ? ICMP4_ECHO_REPLY : ICMP4_ECHO_REQUEST);
	wcur_u8(&w, 0);
	wcur_u16(&w, 0);
	wcur_u16(&w, e->id);
	wcur_u16(&w, e->seq);
	wcur_view(&w, e->data);
	wcur_zero(&w, e->pad);
	if (w.full)
		return -ENOSPC;
	write_checksum(&e->src, &e->dst, out + header, (uint32_t)payload);
	*ret_len = w.len;
	return 0;
}

int icmp_echo_parse(struct view packet, const struct ip_view *v, struct icmp_echo *ret)
{
	bool v6 = v->family == IP6;
	struct cur c = cur_of(packet.p, v->len);
	uint8_t type, code;
	struct icmp_echo e = {.src = v->src, .dst = v->dst, .ttl = v->ttl};
	struct view message;
	uint64_t sum = 0;

	if (v->proto != (v6 ? IP_PROTO_ICMP6 : IP_PROTO_ICMP4) || ip_is_fragment(v))
		return -EBADMSG;
	cur_skip(&c, v->l4);
	message = view_of(c.p, c.n);
	type = cur_u8(&c);
	code = cur_u8(&c);
	cur_skip(&c, sizeof(uint16_t));
	e.id = cur_u16(&c);
	e.seq = cur_u16(&c);
	if (c.bad || code != 0)
		return -EBADMSG;
	e.reply = type == (v6 ? ICMP6_ECHO_REPLY : ICMP4_ECHO_REPLY);
	if (!e.reply && type != (v6 ? ICMP6_ECHO_REQUEST : ICMP4_ECHO_REQUEST))
		return -EBADMSG;
	if (v6)
		sum = ip_pseudo_sum(&v->src, &v->dst, IP_PROTO_ICMP6, (uint32_t)message.n);
	if (csum_finish(csum_add(sum, message.p, message.n)) != 0)
		return -EBADMSG;
	e.data = cur_rest(&c);
	*ret = e;
	return 0;
}

static int told_type(bool v6, uint8_t type, uint8_t code, enum icmp_error_type *ret)
{
	size_t best = ICMP_HOST_UNREACHABLE; /* of the codes that are not in the table */
	bool known = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct icmp_kind *k = &kinds[i];

		if ((v6 ? k->type6 : k->type4) != type)
			continue;
		if (!known && type != (v6 ? ICMP6_UNREACHABLE : ICMP4_UNREACHABLE))
			best = i;
		if ((v6 ? k->code6 : k->code4) == code)
			best = i;
		known = true;
	}
	if (!known)
		return -EBADMSG;
	*ret = (enum icmp_error_type)best;
	return 0;
}

int icmp_error_parse(struct view packet, const struct ip_view *v, struct icmp_told *ret)
{
	struct cur c = cur_of(packet.p, v->len < packet.n ? v->len : packet.n);
	bool v6 = v->family == IP6;
	struct icmp_told t;
	uint8_t type, code;
	uint64_t sum;

	if (v->proto != (v6 ? IP_PROTO_ICMP6 : IP_PROTO_ICMP4) || ip_is_fragment(v))
		return -EBADMSG;
	cur_skip(&c, v->l4);
	sum = v6 ? ip_pseudo_sum(&v->src, &v->dst, IP_PROTO_ICMP6, (uint32_t)c.n) : 0;
	sum = csum_add(sum, c.p, c.n);
	type = cur_u8(&c);
	code = cur_u8(&c);
	cur_skip(&c, ICMP_HEADER - 2);
	t.quote = cur_rest(&c);
	if (c.bad || csum_finish(sum) != 0 || told_type(v6, type, code, &t.type) < 0)
		return -EBADMSG;
	*ret = t;
	return 0;
}

/* The header of a quoted packet, up to what is behind it. */
static bool quoted_header(struct cur *c, struct icmp_echo *e)
{
	uint8_t first = cur_u8(c), proto;
	bool v6 = first >> 4 == 6;

	if (!v6 && first != IP4_PLAIN)
		return false;
	cur_skip(c, 5);
	if (v6) {
		proto = cur_u8(c);
		e->ttl = cur_u8(c);
	} else {
		if (cur_u16(c) & FRAGMENT_OFFSET) /* a later fragment */
			return false;
		e->ttl = cur_u8(c);
		proto = cur_u8(c);
		cur_skip(c, 2);
	}
	return !c->bad && proto == (v6 ? IP_PROTO_ICMP6 : IP_PROTO_ICMP4);
}

int icmp_echo_quoted(struct view quote, struct icmp_echo *ret, uint16_t *ret_checksum)
{
	struct icmp_echo e = {0};
	struct cur c = cur_view(quote);
	bool v6 = quote.n > 0 && quote.p[0] >> 4 == 6;
	uint16_t type, checksum;
	struct view src, dst;

	if (!quoted_header(&c, &e))
		return -EBADMSG;
	src = cur_take(&c, v6 ? 16 : 4);
	dst = cur_take(&c, v6 ? 16 : 4);
	type = cur_u16(&c);
	checksum = cur_u16(&c);
	e.id = cur_u16(&c);
	e.seq = cur_u16(&c);
	e.data = cur_rest(&c);
	if (c.bad || type != (v6 ? ICMP6_ECHO_REQUEST : ICMP4_ECHO_REQUEST) << 8)
		return -EBADMSG;
	e.src = ipaddr_from(v6 ? IP6 : IP4, src.p);
	e.dst = ipaddr_from(v6 ? IP6 : IP4, dst.p);
	*ret = e;
	*ret_checksum = checksum;
	return 0;
}
