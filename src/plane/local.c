/* For this host: frames for the TUN, and what the other end of a link says to this end of it: Babel
 * (RFC 8966 section 4) and echo replies go up, echo requests (RFC 4443 section 4) are answered. */
#include "plane/plane_priv.h"

enum { LINK_HOP_LIMIT = 255, ECHO_REQUEST_LEN = IP6_HEADER + ICMP_HEADER };

/* RFC 4443 4.2: the data comes back; the source is the link's own address, also for a request to a
 * group. */
static void answer_echo(struct plane *p, const struct pkt *k, const struct icmp_echo *request)
{
	struct icmp_echo reply = {
		.src = k->in->own_link_local,
		.dst = request->src,
		.reply = true,
		.ttl = LINK_HOP_LIMIT,
		.id = request->id,
		.seq = request->seq,
		.data = request->data,
	};
	struct tx_ask ask = {
		.link = k->in,
		.len = (uint32_t)(ECHO_REQUEST_LEN + request->data.n),
		.next_header = IP_PROTO_IP6,
		.urgent = true,
		.now = k->now,
	};
	enum drop_reason drop;
	uint8_t *out = tx_room(p, &ask, &drop);
	size_t len;

	if (!out) {
		pkt_drop(p, drop, 1);
		return;
	}
	if (icmp_echo_build(&reply, out, ask.len, &len) < 0) {
		tx_undo_urgent(p);
		pkt_drop(p, DROP_PUNT_UNEXPECTED, 1);
		return;
	}
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
	struct view packet = view_of(k->data, k->len);
	struct plane_link_state *state = p->slot[k->in->slot].state;
	struct icmp_echo echo;
	uint16_t src, dst;

	if (state)
		plane_count(&state->own_rx_bytes, k->len);
	if (!for_this_end(k))
		return edge_drop(k, DROP_PUNT_UNEXPECTED);
	if (k->ip.proto == IP_PROTO_UDP && ip_ports(packet, &k->ip, &src, &dst) &&
		dst == BABEL_PORT) {
		punt_link(p, k);
		return EDGE_DONE;
	}
	if (k->ip.family != IP6 || icmp_echo_parse(packet, &k->ip, &echo) < 0)
		return edge_drop(k, DROP_PUNT_UNEXPECTED);
	if (echo.reply) {
		punt_link(p, k);
		return EDGE_DONE;
	}
	if (k->in->own_link_local.family != IP6)
		return edge_drop(k, DROP_PUNT_UNEXPECTED);
	answer_echo(p, k, &echo);
	return EDGE_DONE;
}

bool deliver(struct plane *p, uint8_t *packet, const struct ip_view *v)
{
	p->run.from = NULL;
	return gro_add(&p->gro, packet, v);
}

enum plane_edge stage_deliver(struct plane *p, struct pkt *k)
{
	uint32_t frames = p->gro.count;

	if (echo_taken(p, k))
		return EDGE_DONE;
	if (!deliver(p, k->data, &k->ip))
		return edge_drop(k, DROP_TUN_BACKPRESSURE);
	/* What was merged into a frame of its flow goes where that one does. */
	if (p->gro.count > frames && bulk_any(&p->bulk, k->now))
		bulk_choose(&p->bulk, bulk_flow(view_of(k->data, k->ip.len), &k->ip),
			&p->tun_out[frames], k->now);
	/* One that was at a SID came another way than what its buffer has next. */
	if (k->again == 0 && !k->exit)
		p->run = (struct plane_run){.from = k->from,
			.link = k->in,
			.next_header = k->next_header};
	return EDGE_DONE;
}
