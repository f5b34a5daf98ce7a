/* The speaker as a whole: its life, its clock, and what it originates. Implements RFC 8966 with
 * 9616, 9079, 9229 and 8967 over IPv6; does not run over IPv4 transport, never asks for
 * acknowledgments and sends no unicast hellos. */
#include "babel/babel.h"

#include <errno.h>
#include <string.h>
#include "babel/babel_priv.h"
#include "base/mem.h"

void babel_drop(struct babel *b, enum babel_drop reason)
{
	b->stats.drops[reason]++;
}

int babel_timer_init(struct babel *b, struct babel_timer *t,
	void (*fire)(struct babel *b, struct babel_timer *t, wtime now))
{
	t->fire = fire;
	t->at = WTIME_NEVER;
	return heap_push(&b->timers, &t->node, WTIME_NEVER);
}

void babel_timer_set(struct babel *b, struct babel_timer *t, wtime at)
{
	t->at = at;
	if (wtime_before(at, t->node.at))
		(void)heap_push(&b->timers, &t->node, at); /* it is in: this cannot fail */
}

/* How far past a time of the grid it is. */
static int64_t past_grid(const struct babel *b, wtime at)
{
	return b->c.grid_us ? wtime_diff(at, b->c.grid_phase) % b->c.grid_us : 0;
}

wtime babel_grid_after(const struct babel *b, wtime at)
{
	int64_t past = past_grid(b, at);

	return wtime_add(at, past > 0 ? b->c.grid_us - past : 0);
}

static bool is_far(const struct babel *b, int64_t us)
{
	enum { GRID_TIMES = 20 };

	return us >= GRID_TIMES * b->c.grid_us;
}

void babel_timer_late(struct babel *b, struct babel_timer *t, wtime now, int64_t us)
{
	wtime at = wtime_add(now, us);

	babel_timer_set(b, t, is_far(b, us) ? babel_grid_after(b, at) : at);
}

void babel_timer_early(struct babel *b, struct babel_timer *t, wtime now, int64_t us)
{
	wtime at = wtime_add(now, us);

	babel_timer_set(b, t, is_far(b, us) ? wtime_add(at, -past_grid(b, at)) : at);
}

void babel_timer_done(struct babel *b, struct babel_timer *t)
{
	heap_remove(&b->timers, &t->node);
}

int64_t babel_random(struct babel *b, int64_t bound)
{
	uint64_t x = 0;

	if (bound <= 0 || rng_below(&b->c.rng, (uint64_t)bound, &x) < 0)
		return 0;
	return (int64_t)x;
}

uint32_t babel_timestamp(const struct babel *b, wtime t)
{
	return (uint32_t)t.us + b->clock_offset;
}

int babel_new(const struct babel_config *c, wtime now, struct babel **ret)
{
	uint8_t key[16];
	struct babel *b;

	if (!babel_router_id_valid(c->router_id))
		return -EINVAL;
	b = w_calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->c = *c;
	b->seqno = c->first_seqno;
	b->begun = now;
	b->settled = WTIME_NEVER;
	list_init(&b->iface_list);
	list_init(&b->ready);
	list_init(&b->route_events);
	list_init(&b->neighbour_events);
	list_init(&b->doubts);
	if (babel_lanes_init(b) < 0 || rng_fill(&c->rng, key, sizeof(key)) < 0 ||
		hash_init(&b->ifaces, key) < 0 || hash_init(&b->neighbours, key) < 0 ||
		hash_init(&b->dests, key) < 0 || hash_init(&b->routes, key) < 0) {
		babel_free(b);
		return -ENOMEM;
	}
	b->clock_offset = (uint32_t)babel_random(b, INT64_C(1) << 32);
	*ret = b;
	return 0;
}

void babel_free(struct babel *b)
{
	if (!b)
		return;
	list_for_each_safe (it, &b->iface_list)
		babel_iface_remove(b, container_of(it, struct babel_iface, all)->c.iface,
			(wtime){0});
	for (size_t i = 0; i < b->dest_cap; i++) {
		if (b->dest[i])
			babel_dest_free(b, b->dest[i]);
	}
	list_for_each_safe (it, &b->neighbour_events)
		babel_neighbour_free(container_of(it, struct babel_neighbour, event));
	hash_done(&b->ifaces);
	hash_done(&b->neighbours);
	hash_done(&b->dests);
	hash_done(&b->routes);
	heap_done(&b->timers);
	babel_parsed_free(&b->parsed);
	w_free(b->neighbour);
	w_free(b->dest);
	w_free(b->packet);
	w_free(b);
}

wtime babel_deadline(const struct babel *b)
{
	return list_empty(&b->ready) ? heap_next(&b->timers) : (wtime){0};
}

void babel_tick(struct babel *b, wtime now)
{
	for (struct heap_node *it = heap_peek(&b->timers); it && wtime_due(it->at, now);
		it = heap_peek(&b->timers)) {
		struct babel_timer *t = container_of(it, struct babel_timer, node);

		if (wtime_due(t->at, now)) {
			t->at = WTIME_NEVER;
			t->fire(b, t, now); /* it may be set again after that, or be freed */
		} else {                    /* it has fired, or was put off */
			(void)heap_push(&b->timers, it, t->at);
		}
	}
}

static bool prefix_valid(const struct babel_prefix *p)
{
	const struct prefix *d = &p->destination, *s = &p->source;

	if (!ipaddr_bits(&d->addr) || d->len > ipaddr_bits(&d->addr))
		return false;
	return !s->len || (s->addr.family == d->addr.family && s->len <= ipaddr_bits(&s->addr));
}

void babel_seqno_at_least(struct babel *b, uint16_t seqno)
{
	if (babel_seqno_less(b->seqno, seqno))
		b->seqno = seqno;
}

int babel_originate(struct babel *b, const struct babel_prefix *prefix, uint16_t metric, wtime now)
{
	struct babel_prefix p;
	struct babel_dest *d;
	bool same;

	if (!prefix_valid(prefix) || metric == BABEL_INFINITY)
		return -EINVAL;
	p = babel_prefix_normal(prefix);
	d = babel_dest_get(b, &p);
	if (!d)
		return -ENOMEM;
	same = d->own && d->own_metric == metric;
	/* a larger metric with the same seqno would not be feasible for others (RFC 8966 3.5.1) */
	if (d->own && metric > d->own_metric)
		b->seqno++;
	d->own = true;
	d->own_metric = metric;
	if (same)
		return 0;
	babel_select(b, d, now);
	babel_announce(b, d, true, now);
	return 0;
}

void babel_withdraw(struct babel *b, const struct babel_prefix *prefix, wtime now)
{
	struct babel_prefix p = babel_prefix_normal(prefix);
	struct babel_dest *d = babel_dest_find(b, &p);

	if (!d || !d->own)
		return;
	d->own = false;
	babel_select(b, d, now);
	babel_dest_put(b, d);
}

void babel_refilter(struct babel *b, wtime now)
{
	babel_route_refilter(b, now);
	list_for_each (it, &b->iface_list) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		for (size_t i = 0; i < b->dest_cap; i++) {
			struct babel_update u;

			if (b->dest[i])
				babel_announce_on(b, ifc, b->dest[i],
					babel_bit(ifc, BABEL_BIT_ANNOUNCED, i) &&
						!babel_decide(b, ifc, b->dest[i], &u),
					now);
		}
		ifc->wildcard_due = true;
		babel_iface_soon(b, ifc, 0, now);
	}
}

void babel_transit(struct babel *b, bool transit, wtime now)
{
	if (b->c.transit == transit)
		return;
	b->c.transit = transit;
	for (size_t i = 0; i < b->dest_cap; i++) {
		if (b->dest[i])
			babel_announce(b, b->dest[i], !transit, now);
	}
}

void babel_stop(struct babel *b, wtime now)
{
	enum { COPIES = 2 };

	b->stopped = true;
	list_for_each (it, &b->iface_list) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		ifc->goodbyes = COPIES;
		ifc->hello_due = true;
		ifc->urgent_at = ifc->again_at = WTIME_NEVER;
		babel_lanes_leave(ifc);
		list_for_each (at, &ifc->neighbours)
			container_of(at, struct babel_neighbour, by_iface)->ihu_due = true;
		babel_iface_soon(b, ifc, 0, now);
	}
	babel_tick(b, now);
}
