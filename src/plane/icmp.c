/* ICMP errors to the sender of a packet that cannot go on (RFC 1812 4.3, RFC 4443 section 2.4):
 * back into the TUN, or over the link that leads to the sender. */
#include "plane/plane_priv.h"

#include <string.h>

/* A host takes no IPv4 packet from the outside that bears an address of its own as source; an error
 * to the own TUN then speaks as the destination. */
static struct ipaddr source_for(const struct plane *p, const struct pkt *k)
{
	const struct plane_snapshot *s = p->snapshot;

	if (k->ip.family == IP6)
		return s->icmp_source6;
	if (!k->in && s->icmp_source4.family == IP4 && pair_is_own(s, &s->icmp_source4))
		return k->ip.dst;
	return s->icmp_source4;
}

/* To the own TUN, from memory that lives as long as the round. */
static void error_to_tun(struct plane *p, const uint8_t *packet, size_t len)
{
	struct ip_view v;
	uint8_t *to;

	if (p->icmp_count >= ICMP_BUFFERS) {
		pkt_drop(p, DROP_ICMP_LIMIT, 1);
		return;
	}
	to = p->icmp_buffer[p->icmp_count];
	memcpy(to, packet, len);
	if (ip_parse(view_of(to, len), &v) < 0 || !deliver(p, to, &v)) {
		pkt_drop(p, DROP_ICMP_LIMIT, 1);
		return;
	}
	p->icmp_count++;
	plane_count(&p->counters.icmp_sent, 1);
}

static void error_to_link(struct plane *p, const struct pkt *k, const struct plane_link *link,
	size_t len)
{
	struct tx_ask ask = {
		.link = link,
		.len = (uint32_t)len,
		.next_header = k->ip.family == IP4 ? IP_PROTO_IP4 : IP_PROTO_IP6,
		.now = k->now,
	};
	enum drop_reason drop;
	uint8_t *text = tx_room(p, &ask, &drop);

	if (!text) {
		pkt_drop(p, DROP_ICMP_LIMIT, 1);
		return;
	}
	memcpy(text, p->scratch, len);
	plane_count(&p->counters.icmp_sent, 1);
}

/* About an echo of the control side that came round to here: a path through its own head end. */
static bool is_asked_here(const struct plane *p, const struct pkt *k)
{
	const struct plane_srv6 *s = p->snapshot->srv6;

	return k->in && p->echo_ids > 0 &&
		(pair_is_own(p->snapshot, &k->ip.src) ||
			(s && ipaddr_equal(&s->source, &k->ip.src)));
}

/* An error that is not sent for want of tokens, buffers or a way back counts as such, beside the
 * packet that it is about. */
enum plane_edge stage_icmp(struct plane *p, struct pkt *k)
{
	struct ipaddr source = source_for(p, k);
	struct icmp_error e = {
		.type = k->icmp,
		.packet = view_of(k->data, k->len),
		.about = &k->ip,
		.source = &source,
		.mtu = k->icmp_mtu,
		.pointer = k->icmp_pointer,
		.code = k->icmp_code,
	};
	struct pair back = {.src = source, .dst = k->ip.src};
	size_t len;

	if (k->echo || source.family == IP_NONE || !icmp_error_allowed(&e))
		return EDGE_DROP;
	if (!bucket_take(&p->icmp, k->now) ||
		icmp_error_build(&e, p->scratch, ICMP_ERROR_MAX, &len) < 0) {
		pkt_drop(p, DROP_ICMP_LIMIT, 1);
		return EDGE_DROP;
	}
	if (k->in)
		pair_route(p, &back);
	if (is_asked_here(p, k) && echo_take(p, k, view_of(p->scratch, len)))
		plane_count(&p->counters.icmp_sent, 1);
	else if (!k->in || (back.routed && back.type == PLANE_LOCAL))
		error_to_tun(p, p->scratch, len);
	else if (back.routed && back.link && back.link->usable)
		error_to_link(p, k, back.link, len);
	else
		pkt_drop(p, DROP_ICMP_LIMIT, 1);
	return EDGE_DROP;
}
