/* Requests (RFC 8966 3.8): our own against starvation, those of others answered or passed on, each
 * seqno request once. The table of pending requests (3.2.7) hangs below the prefixes. */
#include "babel/babel_priv.h"

#include <string.h>
#include "base/mem.h"

enum {
	RESENDS = 3,
	FIRST_US = 2000000,     /* doubled each time (appendix B) */
	DUPLICATE_US = 1500000, /* less than FIRST_US: a request sent again goes on again */
	WIDE_MAX = 8,           /* interfaces that are asked when nobody announces the prefix */
	TLV_ROOM = 64,
};

#define YOUNG_US (60 * W_SEC)

static struct babel_request *find(const struct babel_dest *d, const uint8_t id[static 8])
{
	list_for_each (it, &d->requests) {
		struct babel_request *q = container_of(it, struct babel_request, link);

		if (memcmp(q->router_id, id, sizeof(q->router_id)) == 0)
			return q;
	}
	return NULL;
}

void babel_request_free(struct babel *b, struct babel_request *q)
{
	babel_timer_done(b, &q->timer);
	list_del(&q->link);
	w_free(q);
}

static struct view write_seqno(uint8_t *room, size_t n, const struct babel_request *q,
	uint8_t hop_count)
{
	struct babel_seqno_request s = {.prefix = q->dest->prefix,
		.seqno = q->seqno,
		.hop_count = hop_count};
	struct babel_build w;

	memcpy(s.router_id, q->router_id, sizeof(s.router_id));
	babel_build_begin(&w, room, n, true);
	(void)babel_build_seqno_request(&w, &s);
	return wcur_written(&w.w);
}

/* Everywhere where somebody is: only when no neighbour announces the prefix. */
static void send_wide(struct babel *b, struct view tlv, wtime now)
{
	unsigned int sent = 0;

	list_for_each (it, &b->iface_list) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		if (list_empty(&ifc->neighbours) || ifc->dead || ifc->queue.n > BABEL_QUEUE_MAX)
			continue;
		buf_add(&ifc->queue, tlv.p, tlv.n);
		babel_iface_soon(b, ifc, 0, now);
		if (++sent == WIDE_MAX)
			return;
	}
}

static void send_own(struct babel *b, const struct babel_request *q, wtime now)
{
	uint8_t room[TLV_ROOM];
	struct view tlv = write_seqno(room, sizeof(room), q, BABEL_HOP_COUNT);
	const struct babel_dest *d = q->dest;
	bool sent = false;

	for (size_t i = 0; i < d->n; i++) {
		struct babel_neighbour *n = d->route[i]->neighbour;

		if (q->target ? n->serial != q->target : d->route[i]->advertised == BABEL_INFINITY)
			continue;
		babel_unicast(b, n, tlv, now);
		sent = true;
	}
	if (!sent && !q->target)
		send_wide(b, tlv, now);
}

static void resend(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_request *q = container_of(t, struct babel_request, timer);
	struct babel_dest *d = q->dest;

	if (q->satisfied || q->asker || q->resends == RESENDS) {
		babel_request_free(b, q);
		babel_dest_put(b, d);
		return;
	}
	send_own(b, q, now);
	q->sent = now;
	babel_timer_set(b, t, wtime_add(now, (int64_t)FIRST_US << ++q->resends));
}

static struct babel_request *make(struct babel *b, struct babel_dest *d, const uint8_t id[static 8],
	uint16_t seqno, wtime now)
{
	struct babel_request *q = find(d, id);

	if (!q) {
		q = w_calloc(1, sizeof(*q));
		if (!q || babel_timer_init(b, &q->timer, resend) < 0) {
			w_free(q);
			babel_drop(b, BABEL_DROP_NO_MEMORY);
			return NULL;
		}
		q->dest = d;
		memcpy(q->router_id, id, sizeof(q->router_id));
		list_add_tail(&d->requests, &q->link);
	}
	q->seqno = seqno;
	q->target = q->asker = q->asker_iface = 0;
	q->resends = 0;
	q->satisfied = false;
	q->sent = now;
	return q;
}

/* The seqno that makes routes feasible again. */
static bool wanted_seqno(const struct babel_dest *d, const uint8_t id[static 8], uint16_t *ret)
{
	const struct babel_source *s = babel_source_find(d, id);

	if (!s)
		return false;
	*ret = (uint16_t)(s->seqno + 1);
	return true;
}

static void ask(struct babel *b, struct babel_dest *d, const uint8_t id[static 8], uint32_t target,
	wtime now)
{
	struct babel_request *q = find(d, id);
	uint16_t seqno;

	if (!wanted_seqno(d, id, &seqno))
		return;
	/* the same is on its way already */
	if (q && !q->satisfied && !babel_seqno_less(q->seqno, seqno) &&
		(!q->asker || wtime_diff(now, q->sent) < DUPLICATE_US) &&
		(q->target == target || !q->target))
		return;
	q = make(b, d, id, seqno, now);
	if (!q)
		return;
	q->target = target;
	send_own(b, q, now);
	babel_timer_set(b, &q->timer, wtime_add(now, FIRST_US));
}

void babel_request_starving(struct babel *b, struct babel_dest *d, const uint8_t id[static 8],
	wtime now)
{
	ask(b, d, id, 0, now);
}

void babel_request_one(struct babel *b, struct babel_route *r, wtime now)
{
	ask(b, r->dest, r->router_id, r->neighbour->serial, now);
}

void babel_request_route(struct babel *b, struct babel_neighbour *n, const struct babel_prefix *p,
	wtime now)
{
	uint8_t room[TLV_ROOM];
	struct babel_build w;

	babel_build_begin(&w, room, sizeof(room), true);
	(void)babel_build_route_request(&w, p);
	babel_unicast(b, n, wcur_written(&w.w), now);
}

/* The next hop that a request goes on to: never who asks, feasible ones first (3.8.1.2), of those
 * the best one as it is now, for the one in use may be failing; and not the one that has not
 * answered when there is another. */
static struct babel_neighbour *forward_to(const struct babel_dest *d,
	const struct babel_neighbour *asker, uint32_t tried)
{
	const struct babel_route *best = NULL;
	bool best_feasible = false, best_tried = false;

	for (size_t i = 0; i < d->n; i++) {
		const struct babel_route *r = d->route[i];
		uint16_t m = babel_route_metric(r);
		bool feasible = babel_feasible(d, r->router_id, r->seqno, r->advertised);
		bool again = r->neighbour->serial == tried;

		if (r->neighbour == asker || m == BABEL_INFINITY)
			continue;
		if (best &&
			(best_tried < again || (best_tried == again && best_feasible > feasible)))
			continue;
		if (best && best_tried == again && best_feasible == feasible &&
			m >= babel_route_metric(best))
			continue;
		best = r;
		best_feasible = feasible;
		best_tried = again;
	}
	return best ? best->neighbour : NULL;
}

static void forward(struct babel *b, struct babel_dest *d, struct babel_neighbour *asker,
	const struct babel_tlv *t, wtime now)
{
	struct babel_request *q = find(d, t->request.router_id);
	struct babel_neighbour *to;
	uint8_t room[TLV_ROOM];

	if (q && !babel_seqno_less(q->seqno, t->request.seqno) &&
		wtime_diff(now, q->sent) < DUPLICATE_US) {
		babel_drop(b, BABEL_DROP_DUPLICATE_REQUEST);
		if (!q->asker) { /* ours is on its way: its answer is also theirs */
			q->asker_iface = asker->iface;
		}
		return;
	}
	to = forward_to(d, asker,
		q && !q->satisfied && q->seqno == t->request.seqno ? q->target : 0);
	if (!to || t->request.hop_count < 2 || !b->c.transit)
		return;
	if (q && !q->asker && !q->satisfied && q->resends < RESENDS) {
		/* an own request stays an own request */
		q->asker_iface = asker->iface;
		q->seqno = babel_seqno_less(q->seqno, t->request.seqno) ? t->request.seqno
									: q->seqno;
		q->sent = now;
	} else {
		q = make(b, d, t->request.router_id, t->request.seqno, now);
		if (!q)
			return;
		q->asker = asker->serial;
		q->asker_iface = asker->iface;
		q->target = to->serial;
		babel_timer_set(b, &q->timer, wtime_add(now, FIRST_US));
	}
	babel_unicast(b, to,
		write_seqno(room, sizeof(room), q, (uint8_t)(t->request.hop_count - 1)), now);
}

/* By one, however much is wanted (3.8.1.2); but soon after the start, once, by all of it: it may be
 * a former life's number, which this one is to be above, when the clock that it began from was
 * wrong.
 */
static void raise_seqno(struct babel *b, uint16_t wanted, wtime now)
{
	if (!b->seqno_taken && wtime_diff(now, b->begun) < YOUNG_US) {
		b->seqno_taken = (uint16_t)(wanted - b->seqno) > 1;
		b->seqno = wanted;
	} else {
		b->seqno++;
	}
}

void babel_request_seqno_in(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now)
{
	struct babel_prefix p = babel_prefix_normal(&t->request.prefix);
	struct babel_dest *d = babel_dest_find(b, &p);
	bool for_us = memcmp(t->request.router_id, b->c.router_id, 8) == 0;

	if (!d)
		return;
	babel_doubt_next_hop(b, d, n, false, now);
	if (d->own) {
		if (for_us && babel_seqno_less(b->seqno, t->request.seqno)) {
			raise_seqno(b, t->request.seqno, now);
			babel_announce(b, d, true, now);
		} else {
			babel_announce_on(b, n->ifc, d, true, now);
		}
		return;
	}
	if (d->selected &&
		(memcmp(t->request.router_id, d->selected->router_id, 8) != 0 ||
			!babel_seqno_less(d->selected->seqno, t->request.seqno))) {
		babel_announce_on(b, n->ifc, d, true, now);
		return;
	}
	if (!for_us)
		forward(b, d, n, t, now);
}

void babel_request_route_in(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now)
{
	struct babel_prefix p;
	struct babel_dest *d;

	if (t->request.wildcard) {
		babel_dump_start(b, n->ifc, true, now);
		return;
	}
	p = babel_prefix_normal(&t->request.prefix);
	d = babel_dest_find(b, &p);
	if (d) {
		babel_doubt_next_hop(b, d, n, true, now);
		babel_bit_set(n->ifc, BABEL_BIT_FORCED, d->id);
		babel_announce_on(b, n->ifc, d, true, now);
	} else {
		babel_refuse_on(b, n->ifc, &p, now); /* MUST answer, with a retraction (3.8.1.1) */
	}
}

void babel_request_satisfy(struct babel *b, struct babel_route *r, wtime now)
{
	struct babel_dest *d = r->dest;

	list_for_each (it, &d->requests) {
		struct babel_request *q = container_of(it, struct babel_request, link);
		struct babel_iface *ifc;
		bool same = memcmp(q->router_id, r->router_id, sizeof(q->router_id)) == 0;

		if (q->satisfied || (same && babel_seqno_less(r->seqno, q->seqno)))
			continue;
		if (same && q->asker_iface)
			babel_select_awaited(b, r, now);
		if (d->selected != r)
			continue;
		q->satisfied = true;
		ifc = q->asker_iface ? babel_iface_find(b, q->asker_iface) : NULL;
		if (ifc)
			babel_announce_on(b, ifc, d, true, now);
	}
}
