/* What others may know: events, and walks over the tables. */
#include "babel/babel_priv.h"

#include <string.h>

static void neighbour_event(struct babel_neighbour *n, struct babel_event *ret)
{
	*ret = (struct babel_event){.type = BABEL_EVENT_NEIGHBOUR,
		.iface = n->iface,
		.neighbour = n->addr,
		.metric = n->cost,
		.lost = n->lost};
	list_del(&n->event);
	if (n->lost)
		babel_neighbour_free(n);
}

static void route_event(struct babel *b, struct babel_dest *d, struct babel_event *ret)
{
	static const enum babel_event_type types[] = {[BABEL_GONE] = BABEL_EVENT_GONE,
		[BABEL_ROUTED] = BABEL_EVENT_ROUTE,
		[BABEL_UNREACHABLE] = BABEL_EVENT_UNREACHABLE};
	const struct babel_route *r = d->selected;

	*ret = (struct babel_event){.type = types[d->state],
		.prefix = d->prefix,
		.metric = BABEL_INFINITY};
	if (r) {
		memcpy(ret->router_id, r->router_id, sizeof(ret->router_id));
		ret->metric = babel_route_metric(r);
		ret->seqno = r->seqno;
		ret->iface = r->neighbour->iface;
		ret->next_hop = r->next_hop;
		ret->neighbour = r->neighbour->addr;
		ret->backup_iface = d->backup ? d->backup->neighbour->iface : 0;
	}
	babel_dest_told(b, d);
}

bool babel_event_next(struct babel *b, struct babel_event *ret)
{
	if (!list_empty(&b->neighbour_events)) {
		neighbour_event(container_of(b->neighbour_events.next, struct babel_neighbour,
					event),
			ret);
		return true;
	}
	if (!list_empty(&b->doubts)) {
		struct babel_iface *ifc = container_of(b->doubts.next, struct babel_iface, doubt);

		list_del(&ifc->doubt);
		*ret = (struct babel_event){.type = BABEL_EVENT_DOUBT, .iface = ifc->c.iface};
		return true;
	}
	while (!list_empty(&b->route_events)) {
		struct babel_dest *d = container_of(b->route_events.next, struct babel_dest, event);

		if (d->state == d->told && (d->state != BABEL_ROUTED || !d->changed)) {
			babel_dest_told(b, d); /* it came and went unseen */
			continue;
		}
		route_event(b, d, ret);
		return true;
	}
	return false;
}

bool babel_neighbours(const struct babel *b, size_t *it, struct babel_neighbour_info *ret)
{
	while (*it < b->neighbour_count) {
		const struct babel_neighbour *n = b->neighbour[(*it)++];

		if (!n->known)
			continue;
		*ret = (struct babel_neighbour_info){.iface = n->iface,
			.address = n->addr,
			.rxcost = n->rxcost,
			.txcost = n->txcost,
			.cost = n->cost,
			.has_rtt = n->rtt.valid,
			.rtt_us = n->rtt.valid ? n->rtt.smoothed : 0,
			.reach = babel_neighbour_reach(n),
			.loss = babel_neighbour_loss(n),
			.rtt_at = n->rtt.at};
		return true;
	}
	return false;
}

static void describe(const struct babel_dest *d, const struct babel_route *r,
	struct babel_route_info *ret)
{
	*ret = (struct babel_route_info){.prefix = d->prefix,
		.iface = r->neighbour->iface,
		.neighbour = r->neighbour->addr,
		.next_hop = r->next_hop,
		.metric = babel_route_metric(r),
		.advertised = r->advertised,
		.seqno = r->seqno,
		.selected = d->selected == r,
		.feasible = babel_feasible(d, r->router_id, r->seqno, r->advertised),
		.since = r->since};
	memcpy(ret->router_id, r->router_id, sizeof(ret->router_id));
}

/* it counts, in its upper half, prefixes, in its lower one what there is of a prefix: first its own
 * or held entry, then the routes. */
bool babel_routes(const struct babel *b, size_t *it, struct babel_route_info *ret)
{
	enum { HALF = 32 };
	size_t i = *it >> HALF, k = *it & UINT32_MAX;

	for (; i < b->dest_cap; i++, k = 0) {
		const struct babel_dest *d = b->dest[i];

		if (!d || k > d->n)
			continue;
		if (k == 0 && !d->own && d->state != BABEL_UNREACHABLE)
			k = 1;
		if (k > d->n)
			continue;
		*it = i << HALF | (k + 1);
		if (k) {
			describe(d, d->route[k - 1], ret);
			return true;
		}
		*ret = (struct babel_route_info){.prefix = d->prefix,
			.own = d->own,
			.unreachable = !d->own,
			.selected = d->own,
			.feasible = d->own,
			.metric = d->own ? d->own_metric : BABEL_INFINITY,
			.seqno = b->seqno};
		if (d->own)
			memcpy(ret->router_id, b->c.router_id, sizeof(ret->router_id));
		return true;
	}
	*it = i << HALF;
	return false;
}

const char *babel_drop_name(enum babel_drop d)
{
	static const char *const names[BABEL_DROP_COUNT] = {
#define X(id, name) [BABEL_DROP_##id] = name,
		BABEL_DROPS(X)
#undef X
	};

	return d < BABEL_DROP_COUNT ? names[d] : "?";
}

void babel_stats(const struct babel *b, struct babel_stats *ret)
{
	*ret = b->stats;
}
