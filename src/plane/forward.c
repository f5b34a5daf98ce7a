/* Toward a link: the hop limit of what passes through, the link's MTU, and into its batch. */
#include "plane/plane_priv.h"

#include <string.h>

enum plane_edge stage_transit(struct plane *p, struct pkt *k)
{
	if (!p->snapshot->transit)
		return edge_icmp(k, DROP_TRANSIT_REFUSED, ICMP_ADMIN_PROHIBITED);
	if (!k->hopped && !ip_decrement_ttl(k->data, &k->ip))
		return edge_icmp(k, DROP_HOP_LIMIT, ICMP_TIME_EXCEEDED);
	k->transit = true;
	return EDGE_NEXT;
}

/* A link below the least MTU of IPv6 (RFC 8200 section 5) must carry 1280 bytes all the same: the
 * outer datagram may be fragmented (RFC 2473 7.1). Of a packet with another one inside, those are
 * the inner one's: its head end has nobody to tell. */
enum plane_edge stage_fit(struct plane *p, struct pkt *k)
{
	uint32_t size = k->split ? k->split->seg_len : k->len, mtu = pkt_mtu(k);
	uint32_t least = IP6_MTU_MIN;

	(void)p;
	if (k->in && k->ip.proto == IP_PROTO_IP6)
		least += k->ip.l4;
	if (k->ip.family == IP6 && mtu < least)
		mtu = least;
	if (size <= mtu)
		return EDGE_NEXT;
	if (!k->ip.dont_fragment)
		return EDGE_ASIDE;
	k->icmp_mtu = mtu;
	return edge_icmp(k, DROP_TOO_BIG, ICMP_PACKET_TOO_BIG);
}

/* A superpacket is cut into the link's batch; packets for which there is no room are lost alone. */
static enum plane_edge send_segments(struct plane *p, struct pkt *k, struct tx_ask *ask)
{
	const struct gso_split *s = k->split;
	enum drop_reason drop;

	if (p->work && !k->pair->steer && share_segments(p, k, ask))
		return EDGE_DONE;
	/* The first, so that those behind it tell of it at once (RFC 2018). */
	if (k->congested)
		pkt_drop(p, DROP_AQM, 1);
	for (uint32_t i = k->congested; i < s->segments; i++) {
		uint8_t *text;

		ask->len = i + 1 < s->segments ? s->seg_len : s->last_len;
		ask->more = s->segments - i - 1;
		text = pkt_room(p, k, ask, &drop);
		if (text)
			gso_split_write(s, i, text);
		else
			pkt_drop(p, drop, 1);
	}
	return EDGE_DONE;
}

enum plane_edge stage_send(struct plane *p, struct pkt *k)
{
	struct tx_ask ask = {
		.link = k->pair->link,
		.len = k->len,
		.tos = k->ip.tos,
		.next_header = k->ip.family == IP4 ? IP_PROTO_IP4 : IP_PROTO_IP6,
		.now = k->now,
	};
	uint8_t *text;

	if (k->split)
		return send_segments(p, k, &ask);
	text = pkt_room(p, k, &ask, &k->drop);
	if (!text)
		return EDGE_DROP;
	memcpy(text, k->data, k->len);
	plane_count(&p->counters.transit_packets, k->transit);
	return EDGE_DONE;
}
