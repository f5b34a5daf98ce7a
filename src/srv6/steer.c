/* The head end: a packet's outer headers, made once for a segment list and completed for each
 * packet (RFC 8986 5.1, 5.2; RFC 2473 6; RFC 6040 4.1; RFC 6437 3; RFC 6438). */
#include "srv6/srv6.h"

#include <errno.h>
#include "wire/ecn.h"

enum {
	LENGTH_AT = 4,
	NEXT_AT = 6,
	HOP_LIMIT_AT = 7,
	HOP_LIMIT = 64, /* RFC 2473 6.3: of the tunnel, not of the packet */
	TRAFFIC_CLASS_SHIFT = 20,
	LABEL_MASK = 0xfffff,
};

static bool segment_valid(const struct ipaddr *a)
{
	return a->family == IP6 && !ipaddr_is_multicast(a) && !ipaddr_is_unspecified(a) &&
		!ipaddr_is_loopback(a);
}

static bool config_valid(const struct srv6_steer_config *c)
{
	if (c->count == 0 || c->count > SRV6_SEGMENTS_MAX || !segment_valid(&c->source))
		return false;
	for (uint32_t i = 0; i < c->count; i++)
		if (!segment_valid(&c->segment[i]))
			return false;
	return true;
}

/* RFC 8754 2: the list stands backwards, and the reduced form leaves its first segment, which is
 * the destination, out. */
static void write_srh(struct wcur *w, const struct srv6_steer_config *c, uint32_t listed)
{
	wcur_u8(w, 0); /* the packet's type */
	wcur_u8(w, (uint8_t)(listed * SRV6_SEGMENT / 8));
	wcur_u8(w, SRV6_ROUTING_TYPE);
	wcur_u8(w, (uint8_t)(c->count - 1));
	wcur_u8(w, (uint8_t)(listed - 1));
	wcur_u8(w, 0);  /* flags */
	wcur_u16(w, 0); /* tag */
	for (uint32_t i = 0; i < listed; i++)
		wcur_bytes(w, c->segment[c->count - 1 - i].b, SRV6_SEGMENT);
}

int srv6_steer_build(const struct srv6_steer_config *c, struct srv6_steer *ret)
{
	struct srv6_steer s = {.source = c->source,
		.linux_compat = c->linux_compat,
		.copy_dscp = c->copy_dscp};
	struct wcur w = wcur_of(s.header, sizeof(s.header));
	uint32_t listed;

	if (!config_valid(c))
		return -EINVAL;
	listed = c->mode == SRV6_ENCAPS ? c->count : c->count - 1;
	s.first = c->segment[0];
	wcur_u32(&w, 0);
	wcur_u16(&w, 0);
	wcur_u8(&w, IP_PROTO_ROUTING);
	wcur_u8(&w, 0);
	wcur_bytes(&w, c->source.b, SRV6_SEGMENT);
	wcur_bytes(&w, s.first.b, SRV6_SEGMENT);
	s.next_at = NEXT_AT;
	if (listed > 0) {
		s.next_at = IP6_HEADER;
		write_srh(&w, c, listed);
	}
	if (w.full)
		return -EINVAL;
	s.overhead = (uint16_t)w.len;
	*ret = s;
	return 0;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

uint32_t srv6_flow_label(struct view packet, const struct ip_view *v)
{
	uint64_t h = mix(v->proto, v->flow_label);
	uint16_t src, dst;

	h = mix(h, get_u64(v->src.b));
	h = mix(h, get_u64(v->src.b + 8));
	h = mix(h, get_u64(v->dst.b));
	h = mix(h, get_u64(v->dst.b + 8));
	/* All fragments of a packet are of one flow, and but one have no ports. */
	if (!ip_is_fragment(v) && ip_ports(packet, v, &src, &dst))
		h = mix(h, (uint64_t)src << 16 | dst);
	h &= LABEL_MASK;
	return h ? (uint32_t)h : 1;
}

struct srv6_stamp srv6_stamp_of(const struct srv6_steer *s, struct view packet,
	const struct ip_view *v)
{
	struct srv6_stamp t = {.hop_limit = HOP_LIMIT,
		.next_header = v->family == IP4 ? IP_PROTO_IP4 : IP_PROTO_IP6};
	uint32_t tos, label;

	if (!s->linux_compat) {
		tos = ecn_encapsulate(v->tos, s->copy_dscp);
		label = srv6_flow_label(packet, v);
	} else if (v->family == IP6) {
		tos = v->tos;
		label = v->flow_label;
		t.hop_limit = v->ttl;
	} else {
		tos = label = 0;
	}
	t.word = UINT32_C(6) << 28 | tos << TRAFFIC_CLASS_SHIFT | label;
	return t;
}

void srv6_push(const struct srv6_steer *s, const struct srv6_stamp *stamp, uint32_t inner_len,
	uint8_t *out)
{
	memcpy(out, s->header, s->overhead);
	put_u32(out, stamp->word);
	put_u16(out + LENGTH_AT, (uint16_t)(s->overhead - IP6_HEADER + inner_len));
	out[HOP_LIMIT_AT] = stamp->hop_limit;
	out[s->next_at] = stamp->next_header;
}
