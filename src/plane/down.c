/* Messages of the control side. What waits in a batch is sealed before the SA that it waits for is
 * replaced or let go, and every object comes back exactly once. */
#include "plane/plane_priv.h"

#include <string.h>

/* The *_GONE reports always find room (plane.h): there is nobody else to free the object. */
static void gone(struct plane *p, const struct plane_up *up)
{
	if (!p->config.up(p->config.up_ctx, up))
		pkt_drop(p, DROP_PUNT_FULL, 1);
}

static void sa_gone(struct plane *p, struct tunnel_sa *sa)
{
	struct plane_up up = {.type = PLANE_UP_SA_GONE,
		.sa = sa,
		.slot = sa->slot,
		.child = sa->child};

	gone(p, &up);
}

static void link_remove(struct plane *p, uint32_t slot, wtime now)
{
	struct plane_up up = {.type = PLANE_UP_LINK_GONE, .slot = slot};
	struct plane_slot *s;

	if (slot >= PLANE_SLOTS || !p->slot[slot].state)
		return;
	s = &p->slot[slot];
	tx_close(p, s, now);
	share_settle(p);
	s->state->outbound = NULL;
	up.state = s->state;
	s->state = NULL;
	s->remote_hash = 0;
	s->remote_told_us = 0;
	gone(p, &up);
}

static void link_add(struct plane *p, const struct plane_down *m, wtime now)
{
	struct plane_up up = {.type = PLANE_UP_LINK_GONE, .slot = m->slot, .state = m->state};

	if (m->slot >= PLANE_SLOTS) {
		gone(p, &up);
		return;
	}
	link_remove(p, m->slot, now);
	p->slot[m->slot].state = m->state;
}

static void sa_outbound(struct plane *p, uint32_t slot, struct tunnel_sa *sa, wtime now)
{
	if (slot >= PLANE_SLOTS || !p->slot[slot].state)
		return;
	tx_close(p, &p->slot[slot], now);
	p->slot[slot].state->outbound = sa;
}

static void sa_remove(struct plane *p, struct tunnel_sa *sa, wtime now)
{
	struct plane_slot *slot = sa->slot < PLANE_SLOTS ? &p->slot[sa->slot] : NULL;

	if (sa->inbound)
		p->config.ops->remove(p->config.table, sa);
	else if (slot && slot->open && p->batch[slot->open - 1].sa == sa)
		tx_close(p, slot, now);
	share_settle(p);
	if (slot && slot->state && slot->state->outbound == sa)
		slot->state->outbound = NULL;
	sa_gone(p, sa);
}

static void snapshot_swap(struct plane *p, const struct plane_snapshot *snapshot)
{
	struct plane_up up = {.type = PLANE_UP_SNAPSHOT_GONE, .snapshot = p->snapshot};

	p->snapshot = snapshot;
	pair_forget(p);
	if (up.snapshot)
		gone(p, &up);
}

/* An inner packet of the control side: it made it, so it is not checked but for being one. */
static void seal_control(struct plane *p, const struct plane_down *m, wtime now)
{
	struct tx_ask ask = {
		.link = plane_link_of(p, m->slot),
		.len = (uint32_t)m->data.n,
		.urgent = true,
		.whole = (m->flags & PLANE_SEAL_WHOLE) != 0,
		.now = now,
	};
	enum drop_reason drop = DROP_LINK_DOWN;
	struct plane_link elsewhere;
	struct ip_view v;
	uint8_t *out = NULL;

	plane_count(&p->counters.control_packets, 1);
	if (m->data.n > UINT16_MAX || ip_parse(m->data, &v) < 0) {
		pkt_drop(p, DROP_BAD_IP, 1);
		return;
	}
	ask.tos = v.tos;
	ask.next_header = v.family == IP4 ? IP_PROTO_IP4 : IP_PROTO_IP6;
	if (ask.link && m->remote.ip.family != IP_NONE) {
		elsewhere = *ask.link;
		elsewhere.remote = m->remote;
		elsewhere.local = m->local;
		ask.link = &elsewhere; /* the batch copies what it needs */
	}
	if (ask.link)
		out = tx_room(p, &ask, &drop);
	if (!out) {
		pkt_drop(p, drop, 1);
		return;
	}
	memcpy(out, m->data.p, m->data.n);
	tx_seal_urgent(p, now);
}

void plane_down(struct plane *p, const struct plane_down *m, wtime now)
{
	switch (m->type) {
	case PLANE_DOWN_LINK_ADD:
		link_add(p, m, now);
		break;
	case PLANE_DOWN_LINK_REMOVE:
		link_remove(p, m->slot, now);
		break;
	case PLANE_DOWN_SA_ADD:
		/* One that is refused stays the plane's until SA_REMOVE, which may be on its way.
		 */
		if (m->sa && m->sa->inbound && p->config.ops->add(p->config.table, m->sa) < 0)
			plane_count(&p->counters.sa_refused, 1);
		break;
	case PLANE_DOWN_SA_OUTBOUND:
		sa_outbound(p, m->slot, m->sa, now);
		break;
	case PLANE_DOWN_SA_REMOVE:
		if (m->sa)
			sa_remove(p, m->sa, now);
		break;
	case PLANE_DOWN_SNAPSHOT:
		snapshot_swap(p, m->snapshot);
		break;
	case PLANE_DOWN_SEAL:
		seal_control(p, m, now);
		break;
	case PLANE_DOWN_ECHO:
		echo_send(p, m, now);
		break;
	case PLANE_DOWN_ECHO_IDS:
		echo_set_ids(p, m->data);
		break;
	case PLANE_DOWN_MERGE:
		gro_set_merge(&p->gro, m->flags & PLANE_MERGE_TCP, m->flags & PLANE_MERGE_UDP);
		break;
	}
}
