/* Echoes of the control side, which asks the way of a packet hop by hop: they go out as if they had
 * come from the TUN, with a hop limit of its choice, and what answers them goes up instead of to
 * the host. Answers are told by the identifier alone here: whether they are genuine is for who
 * asked to say. RFC 792, RFC 4443; of steered ones what expires is the outer packet (RFC 8986 4.1
 * S03, RFC 2473 8). */
#include "plane/plane_priv.h"

#include <errno.h>
#include <string.h>

void echo_set_ids(struct plane *p, struct view ids)
{
	struct cur c = cur_view(ids);

	p->echo_ids = 0;
	while (c.n >= sizeof(uint16_t) && p->echo_ids < PLANE_ECHO_IDS)
		p->echo_id[p->echo_ids++] = cur_u16(&c);
}

void echo_send(struct plane *p, const struct plane_down *m, wtime now)
{
	uint8_t packet[PLANE_ECHO_MAX];
	struct pkt k = {
		.data = packet,
		.len = (uint32_t)m->data.n,
		.segments = 1,
		.now = now,
		.time = now,
		.echo = true,
		.hop_limit = m->hop_limit,
	};
	struct ip_view looked;

	plane_count(&p->counters.control_packets, 1);
	if (m->data.n > sizeof(packet) || ip_parse(m->data, &k.ip) < 0 || k.ip.len != m->data.n) {
		pkt_drop(p, DROP_BAD_IP, 1);
		return;
	}
	if (!p->snapshot) {
		pkt_drop(p, DROP_NO_ROUTE, 1);
		return;
	}
	memcpy(packet, m->data.p, m->data.n);
	looked = k.ip;
	if (m->routed_as.family == k.ip.family)
		looked.src = m->routed_as;
	k.pair = pair_look(p, &looked, PAIR_TUN);
	plane_walk(p, &k, STAGE_TUN_GUARD);
}

int plane_echo_read(struct view packet, const struct ipaddr *steer_source,
	struct plane_echo_answer *ret)
{
	struct plane_echo_answer a = {0};
	struct srv6_error steered;
	struct icmp_told told;
	struct ip_view v;

	if (ip_parse(packet, &v) < 0)
		return -EBADMSG;
	a.from = v.src;
	if (icmp_echo_parse(packet, &v, &a.echo) == 0) {
		a.reply = a.echo.reply;
		if (!a.reply)
			return -EBADMSG;
		*ret = a;
		return 0;
	}
	if (icmp_error_parse(packet, &v, &told) < 0)
		return -EBADMSG;
	a.error = told.type;
	if (steer_source && srv6_error_parse(packet, &v, steer_source, &steered) == 0) {
		a.steered = true;
		told.quote = steered.inner;
	}
	if (icmp_echo_quoted(told.quote, &a.echo, &a.checksum) < 0)
		return -EBADMSG;
	*ret = a;
	return 0;
}

bool echo_take(struct plane *p, const struct pkt *k, struct view packet)
{
	const struct plane_srv6 *s = p->snapshot->srv6;
	struct plane_up up = {
		.type = PLANE_UP_ECHO,
		.slot = k->in->slot,
		.time = k->time,
		.data = packet,
	};
	struct plane_echo_answer a;
	uint32_t i = 0;

	if (plane_echo_read(packet, s ? &s->source : NULL, &a) < 0)
		return false;
	while (i < p->echo_ids && p->echo_id[i] != a.echo.id)
		i++;
	if (i == p->echo_ids)
		return false;
	punt_up(p, &up);
	return true;
}
