/* Toward a link: the hop limit of what passes through, the link's MTU, and into its batch. */
#include "plane/plane_priv.h"

#include <string.h>

enum { IP4_TTL_AT = 8, IP4_CHECKSUM_AT = 10, IP6_HOP_LIMIT_AT = 7 };

/* RFC 1812 5.3.1, RFC 8200 section 3; RFC 1624 for the checksum. */
static void decrement_hop_limit(struct pkt *k)
{
	uint32_t sum;

	k->hop_limit--;
	if (k->version == IP6) {
		k->data[IP6_HOP_LIMIT_AT]--;
		return;
	}
	k->data[IP4_TTL_AT]--;
	sum = (uint32_t)get_u16(k->data + IP4_CHECKSUM_AT) + 0x100;
	put_u16(k->data + IP4_CHECKSUM_AT, (uint16_t)(sum + (sum >> 16)));
}

enum plane_edge stage_transit(struct plane *p, struct pkt *k)
{
	if (!p->snapshot->transit)
		return edge_icmp(k, DROP_TRANSIT_REFUSED, ICMP_PROHIBITED);
	if (k->hop_limit <= 1)
		return edge_icmp(k, DROP_HOP_LIMIT, ICMP_HOP_LIMIT);
	decrement_hop_limit(k);
	k->transit = true;
	return EDGE_NEXT;
}

/* A link below the least MTU of IPv6 (RFC 8200 section 5) must carry 1280 bytes all the same: the
 * outer datagram may be fragmented (RFC 2473 7.1). */
enum plane_edge stage_fit(struct plane *p, struct pkt *k)
{
	uint32_t size = k->len, mtu = k->pair->link->mtu;

	(void)p;
	if (k->version == IP6 && mtu < IP6_MIN_MTU)
		mtu = IP6_MIN_MTU;
	if (size <= mtu)
		return EDGE_NEXT;
	if (!k->df)
		return EDGE_ASIDE;
	k->icmp_mtu = mtu;
	return edge_icmp(k, DROP_TOO_BIG, ICMP_TOO_BIG);
}

enum plane_edge stage_send(struct plane *p, struct pkt *k)
{
	struct tx_ask ask = {
		.link = k->pair->link,
		.len = k->len,
		.tos = k->tos,
		.next_header = k->version == IP4 ? NEXT_IP4 : NEXT_IP6,
		.now = k->now,
	};
	uint8_t *text = tx_room(p, &ask, &k->drop);

	if (!text)
		return EDGE_DROP;
	memcpy(text, k->data, k->len);
	if (k->transit)
		plane_count(&p->counters.transit_packets, 1);
	return EDGE_DONE;
}
