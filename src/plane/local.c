/* For this host: frames for the TUN, and what the other end of a link says to this end of it: Babel
 * (RFC 8966 section 4) and echo replies go up, echo requests (RFC 4443 section 4) are answered. */
#include "plane/plane_priv.h"

#include <string.h>

enum {
	ECHO_REQUEST = 128,
	ECHO_REPLY = 129,
	ECHO_HEADER = 8,
	CHECKSUM_AT = 2, /* in the ICMPv6 header */
	IP6_SRC_AT = 8,
	IP6_DST_AT = 24,
	HOP_LIMIT_AT = 7,
	LINK_HOP_LIMIT = 255,
};

/* RFC 1624: the sum with n bytes of it changed. */
static uint32_t sum_replace(uint32_t sum, const uint8_t *old, const uint8_t *new, size_t n)
{
	for (size_t i = 0; i + 1 < n; i += 2)
		sum += (uint16_t)~get_u16(old + i) + (uint32_t)get_u16(new + i);
	return sum;
}

static void answer_echo(struct plane *p, const struct pkt *k)
{
	struct tx_ask ask = {
		.link = k->in,
		.len = k->len,
		.tos = k->tos,
		.next_header = NEXT_IP6,
		.urgent = true,
		.now = k->now,
	};
	enum drop_reason drop;
	uint8_t *out = tx_room(p, &ask, &drop), *icmp;
	uint32_t sum;

	if (!out) {
		pkt_drop(p, drop, 1);
		return;
	}
	memcpy(out, k->data, k->len);
	out[HOP_LIMIT_AT] = LINK_HOP_LIMIT;
	memcpy(out + IP6_SRC_AT, k->in->own_link_local.b, 16);
	memcpy(out + IP6_DST_AT, k->data + IP6_SRC_AT, 16);
	icmp = out + k->transport;
	icmp[0] = ECHO_REPLY;
	sum = (uint16_t)~get_u16(icmp + CHECKSUM_AT);
	sum = sum_replace(sum, k->data + k->transport, icmp, 2);
	sum = sum_replace(sum, k->data + IP6_DST_AT, out + IP6_SRC_AT, 16);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	put_u16(icmp + CHECKSUM_AT, (uint16_t)~sum);
	tx_seal_urgent(p, k->now);
	plane_count(&p->counters.echo_answered, 1);
}

/* Sent to this end of the link: its own address, or a group that every node or router is in. */
static bool for_this_end(const struct pkt *k)
{
	const struct ipaddr *dst = &k->pair->dst;

	return ipaddr_is_multicast(dst) || k->in->own_link_local.family == IP_NONE ||
		ipaddr_equal(dst, &k->in->own_link_local);
}

enum plane_edge stage_link_local(struct plane *p, struct pkt *k)
{
	struct cur c = cur_of(k->data, k->len);

	if (!for_this_end(k))
		return edge_drop(k, DROP_PUNT_UNEXPECTED);
	if (pkt_udp_port(k) == BABEL_PORT) {
		punt_link(p, k);
		return EDGE_DONE;
	}
	if (k->version != IP6 || k->proto != PROTO_ICMP6 || k->fragment ||
		k->len < k->transport + ECHO_HEADER)
		return edge_drop(k, DROP_PUNT_UNEXPECTED);
	cur_skip(&c, k->transport);
	switch (cur_u8(&c)) {
	case ECHO_REPLY:
		punt_link(p, k);
		return EDGE_DONE;
	case ECHO_REQUEST:
		if (k->in->own_link_local.family != IP6)
			return edge_drop(k, DROP_PUNT_UNEXPECTED);
		answer_echo(p, k);
		return EDGE_DONE;
	default:
		return edge_drop(k, DROP_PUNT_UNEXPECTED);
	}
}

enum plane_edge stage_deliver(struct plane *p, struct pkt *k)
{
	struct tun_tx *out = &p->tun_out[p->tun_out_count];

	if (p->tun_out_count >= PLANE_TUN_OUT_MAX)
		return edge_drop(k, DROP_TUN_BACKPRESSURE);
	p->tun_out_count++;
	out->gso = (struct gso){0};
	out->iov_count = 1;
	out->len = k->len;
	out->segments = 1;
	out->iov[0] = (struct wire_iov){.p = k->data, .n = k->len};
	plane_count(&p->counters.tun_tx_frames, 1);
	plane_count(&p->counters.tun_tx_packets, 1);
	return EDGE_DONE;
}
