/* The MSS of a TCP connection through a link (RFC 9293 3.7.1): what a SYN or SYN-ACK offers is
 * lowered to what fits, at both ends, since ICMP errors may not reach a sender. What fits is a
 * matter of the way on and, where it leaves the mesh, of the way that the answers take: an offer
 * bounds the other side, whose packets a policy may steer. */
#include "plane/plane_priv.h"

enum {
	FLAGS_AT = 13,
	CHECKSUM_AT = 16,
	FLAG_SYN = 2,
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_MSS = 2,
	OPTION_MSS_LEN = 4,
};

/* Offset of the MSS value in a TCP header, 0 when there is none. */
static uint32_t find_mss(struct view tcp)
{
	struct cur c = cur_view(tcp);

	cur_skip(&c, TCP_HEADER);
	while (!c.bad && c.n > 0) {
		uint8_t kind = cur_u8(&c), len;

		if (kind == OPTION_END)
			break;
		if (kind == OPTION_NOP)
			continue;
		len = cur_u8(&c);
		if (len < 2)
			break;
		if (kind == OPTION_MSS)
			return len == OPTION_MSS_LEN && c.n >= 2 ? (uint32_t)(tcp.n - c.n) : 0;
		cur_skip(&c, len - 2U);
	}
	return 0;
}

/* A word at an odd offset stands in the sum with its bytes swapped (RFC 1071). */
static uint16_t summed(uint16_t v, uint32_t at)
{
	return at % 2 ? (uint16_t)(v >> 8 | v << 8) : v;
}

static void clamp(const struct pkt *k, uint32_t most)
{
	uint8_t *tcp = k->data + k->ip.l4;
	struct cur c = cur_of(tcp, k->ip.len - k->ip.l4);
	bool partial = k->frame && k->frame->gso.needs_csum;
	uint32_t at, header;
	uint16_t was;

	cur_skip(&c, FLAGS_AT - 1);
	header = (cur_u8(&c) >> 4) * 4U;
	if (!(cur_u8(&c) & FLAG_SYN) || header < TCP_HEADER || header > k->ip.len - k->ip.l4)
		return;
	at = find_mss(view_of(tcp, header));
	if (at == 0)
		return;
	was = get_u16(tcp + at);
	if (was <= most)
		return;
	put_u16(tcp + at, (uint16_t)most);
	/* A partial checksum is completed later, over what is there then. */
	if (!partial)
		put_u16(tcp + CHECKSUM_AT,
			csum_update(get_u16(tcp + CHECKSUM_AT), summed(was, at),
				summed((uint16_t)most, at)));
}

static bool is_syn(const struct pkt *k)
{
	return k->ip.len > k->ip.l4 + (uint32_t)FLAGS_AT && k->data[k->ip.l4 + FLAGS_AT] & FLAG_SYN;
}

/* What the answers may be, from this host's TUN; UINT16_MAX: not known. */
static uint32_t answers_mtu(struct plane *p, const struct pkt *k)
{
	const struct ip_view back = {.src = k->ip.dst, .dst = k->ip.src};
	const struct pair *x = pair_look(p, &back, PAIR_TUN);

	return x->routed && x->type == PLANE_LINK && x->link ? pair_mtu(x, k->now) : UINT16_MAX;
}

enum plane_edge stage_clamp(struct plane *p, struct pkt *k)
{
	uint32_t headers = (k->ip.family == IP4 ? IP4_HEADER : IP6_HEADER) + TCP_HEADER;
	uint32_t mtu = UINT16_MAX, back;

	if (k->ip.proto != IP_PROTO_TCP || k->segments > 1 || ip_is_fragment(&k->ip) || !is_syn(k))
		return EDGE_NEXT;
	if (k->in)
		mtu = k->in->mtu;
	if (k->pair->link && pkt_mtu(k) < mtu)
		mtu = pkt_mtu(k);
	back = k->in && !k->pair->link ? answers_mtu(p, k) : UINT16_MAX;
	if (back < mtu)
		mtu = back;
	/* Below 1280 bytes, too: a segment may be smaller than what IPv6 has to carry, and then it
	 * needs no outer fragments, which not every path takes. */
	if (mtu > headers)
		clamp(k, mtu - headers);
	return EDGE_NEXT;
}
