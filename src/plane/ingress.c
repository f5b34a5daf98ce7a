/* From the TUN: is it a packet, and may it enter the mesh. */
#include "plane/plane_priv.h"

/* Marked, where its sender understands that (RFC 3168 5), or to lose its first segment. A
 * superpacket is marked as a whole: its sender answers once a round trip (RFC 3168 6.1.2). */
static void mark(struct plane *p, struct pkt *k)
{
	struct ip_view v;

	if (gso_check(k->frame, &v) != DROP_NONE)
		return;
	k->congested = ecn_decapsulate(ECN_CE, k->data) != DROP_NONE;
	if (!k->congested)
		plane_count(&p->counters.aqm_marked, 1);
}

enum plane_edge stage_tun_parse(struct plane *p, struct pkt *k)
{
	enum drop_reason r;

	if (aqm_due(&p->aqm, k->frame->len, k->now))
		mark(p, k);
	r = gso_split_init(k->frame, &p->split);
	if (r != DROP_NONE) {
		plane_count(&p->counters.tun_rx_packets, 1);
		return edge_drop(k, r);
	}
	k->split = &p->split;
	k->ip = p->split.view;
	k->len = k->ip.len;
	k->segments = p->split.segments;
	plane_count(&p->counters.tun_rx_packets, k->segments);
	bulk_count(&p->bulk, bulk_flow(view_of(k->data, k->len), &k->ip), k->frame, k->now);
	k->pair = pair_look(p, &k->ip, PAIR_TUN);
	return EDGE_NEXT;
}

/* The destination port of a UDP packet, 0 when there is none to see. */
static uint16_t udp_port(const struct pkt *k)
{
	uint16_t src, dst;

	if (k->ip.proto != IP_PROTO_UDP || !ip_ports(view_of(k->data, k->len), &k->ip, &src, &dst))
		return 0;
	return dst;
}

/* To a tunnel endpoint, own or a peer's: such a packet has been in the tunnel already, or would go
 * round for ever. A later fragment has no port; its first one had. */
static bool is_loop(const struct plane *p, const struct pkt *k, uint16_t port)
{
	if (!(k->pair->flags & PAIR_DST_ENDPOINT) || k->ip.proto != IP_PROTO_UDP)
		return false;
	return k->ip.frag_offset != 0 ||
		(port != 0 && pair_is_endpoint(p->snapshot, &k->pair->dst, port));
}

/* What may not pass from the own host into the mesh. */
enum plane_edge stage_tun_guard(struct plane *p, struct pkt *k)
{
	unsigned int f = k->pair->flags;
	uint16_t port = udp_port(k);

	if (f & (PAIR_SRC_LINK_LOCAL | PAIR_DST_LINK_LOCAL) || port == BABEL_PORT)
		return edge_drop(k, DROP_LINK_LOCAL);
	if (f & PAIR_DST_MULTICAST)
		return edge_drop(k, DROP_MULTICAST);
	if (f & (PAIR_SRC_MARTIAN | PAIR_DST_MARTIAN))
		return edge_drop(k, DROP_MARTIAN);
	if (is_loop(p, k, port))
		return edge_drop(k, DROP_LOOP);
	if (f & PAIR_DST_SID_SPACE || (k->ip.routing && srv6_has_srh(view_of(k->data, k->ip.len))))
		return edge_drop(k, DROP_SRV6_FROM_TUN);
	return k->pair->steer ? EDGE_ASIDE : EDGE_NEXT;
}

void plane_tun_empty(struct plane *p, wtime now)
{
	aqm_empty(&p->aqm, now);
}

void plane_input_tun(struct plane *p, struct tun_rx *frame, size_t n, wtime now)
{
	for (size_t i = 0; i < n; i++) {
		struct pkt k = {
			.data = frame[i].data,
			.len = frame[i].len,
			.frame = &frame[i],
			.segments = 1,
			.now = now,
			.time = now,
		};

		plane_count(&p->counters.tun_rx_frames, 1);
		if (p->snapshot) {
			plane_walk(p, &k, STAGE_TUN_PARSE);
		} else {
			plane_count(&p->counters.tun_rx_packets, 1);
			pkt_drop(p, DROP_NO_ROUTE, 1);
		}
	}
}
