/* From the TUN: is it a packet, and may it enter the mesh. */
#include "plane/plane_priv.h"

/* Completes the checksum of a packet that the kernel left to its device: the field holds the sum of
 * the pseudo-header. */
static bool complete_checksum(struct pkt *k)
{
	uint32_t start = k->gso.csum_start, sum = 0, i;
	uint16_t r;

	if (start >= k->len || k->gso.csum_offset + 2U > k->len - start)
		return false;
	for (i = start; i + 1 < k->len; i += 2)
		sum += get_u16(k->data + i);
	if (i < k->len)
		sum += (uint32_t)k->data[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	r = (uint16_t)~sum;
	put_u16(k->data + start + k->gso.csum_offset, r ? r : 0xffff);
	return true;
}

enum plane_edge stage_tun_parse(struct plane *p, struct pkt *k)
{
	enum drop_reason r = pkt_parse(k);

	if (r == DROP_NONE &&
		(k->gso.type != GSO_NONE || (k->gso.needs_csum && !complete_checksum(k))))
		r = DROP_BAD_OFFLOAD;
	if (r != DROP_NONE)
		return edge_drop(k, r);
	k->pair = pair_look(p, k);
	return EDGE_NEXT;
}

/* What may not pass from the own host into the mesh. */
enum plane_edge stage_tun_guard(struct plane *p, struct pkt *k)
{
	unsigned int f = k->pair->flags;
	uint16_t port = pkt_udp_port(k);

	if (f & (PAIR_SRC_LINK_LOCAL | PAIR_DST_LINK_LOCAL) || port == BABEL_PORT)
		return edge_drop(k, DROP_LINK_LOCAL);
	if (f & PAIR_DST_MULTICAST)
		return edge_drop(k, DROP_MULTICAST);
	if (f & (PAIR_SRC_MARTIAN | PAIR_DST_MARTIAN))
		return edge_drop(k, DROP_MARTIAN);
	if (f & PAIR_DST_ENDPOINT && port != 0 &&
		pair_is_endpoint(p->snapshot, &k->pair->dst, port))
		return edge_drop(k, DROP_LOOP);
	return EDGE_NEXT;
}

void plane_input_tun(struct plane *p, struct tun_rx *frame, size_t n, wtime now)
{
	p->pair.valid = false;
	for (size_t i = 0; i < n; i++) {
		struct pkt k = {
			.data = frame[i].data,
			.len = frame[i].len,
			.gso = frame[i].gso,
			.segments = 1,
			.now = now,
			.time = now,
		};

		plane_count(&p->counters.tun_rx_frames, 1);
		plane_count(&p->counters.tun_rx_packets, k.segments);
		if (p->snapshot)
			plane_walk(p, &k, STAGE_TUN_PARSE);
		else
			pkt_drop(p, DROP_NO_ROUTE, k.segments);
	}
}
