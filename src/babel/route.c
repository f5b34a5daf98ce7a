/* Prefixes and the routes to them: acquisition, retraction, expiry (RFC 8966 3.5.3
 * to 3.5.5, 3.8.2.3; RFC 9079 3.2). A dest lives while anything refers to its prefix. */
#include "babel/babel_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum {
	HOLD_HALVES = 7,      /* a route expires after 3.5 intervals */
	ASK_HALVES = 5,       /* and is asked for after 2.5 */
	ASK_EARLY_HALVES = 3, /* or 1.5, where a full queue drops most of what is said */
	HALF_LIFE_HELLOS = 2, /* of the smoothed metric: a time constant of 3 (RFC 8966 A.3) */
	ASK_MORE = 32,        /* questions a second on an interface that come sooner */
	SMOOTH_STEPS = 32,    /* finer steps than this part of a half-life are not taken */
	WORD = 64,
};

#define ASK_LAST_US (500 * W_MS)
#define ASK_MORE_US (600 * W_MS)

struct babel_prefix babel_prefix_normal(const struct babel_prefix *p)
{
	struct babel_prefix n = {
		.destination = prefix_of(&p->destination.addr, p->destination.len)};

	if (p->source.len)
		n.source = prefix_of(&p->source.addr, p->source.len);
	return n;
}

static bool same_prefix(const struct babel_prefix *a, const struct babel_prefix *b)
{
	return prefix_equal(&a->destination, &b->destination) &&
		prefix_equal(&a->source, &b->source);
}

struct babel_dest *babel_dest_find(const struct babel *b, const struct babel_prefix *p)
{
	for (struct hash_node *it = hash_find(&b->dests, p, sizeof(*p)); it; it = hash_next(it)) {
		struct babel_dest *d = container_of(it, struct babel_dest, hash);

		if (same_prefix(&d->prefix, p))
			return d;
	}
	return NULL;
}

/* Makes room for one more dest in the table and in the bits of all interfaces. */
static int grow(struct babel *b)
{
	size_t words = b->dest_words ? b->dest_words * 2 : 1;
	struct babel_dest **more;

	if (b->dest_count < b->dest_cap)
		return 0;
	if (words * WORD > BABEL_DESTS_MAX)
		return -ENOMEM;
	more = w_realloc(b->dest, words * WORD * sizeof(*more));
	if (!more)
		return -ENOMEM;
	b->dest = more;
	list_for_each (it, &b->iface_list) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		if (babel_iface_grow(ifc, b->dest_words, words) < 0)
			return -ENOMEM;
	}
	memset(b->dest + b->dest_cap, 0, (words * WORD - b->dest_cap) * sizeof(*more));
	b->dest_cap = words * WORD;
	b->dest_words = words;
	return 0;
}

struct babel_dest *babel_dest_get(struct babel *b, const struct babel_prefix *p)
{
	struct babel_dest *d = babel_dest_find(b, p);

	if (d)
		return d;
	d = grow(b) == 0 ? w_calloc(1, sizeof(*d)) : NULL;
	if (!d)
		goto err;
	d->prefix = *p;
	list_init(&d->sources);
	list_init(&d->requests);
	list_init(&d->event);
	if (babel_timer_init(b, &d->recheck, babel_dest_recheck) < 0 ||
		babel_timer_init(b, &d->hold, babel_dest_hold_over) < 0 ||
		hash_add(&b->dests, &d->hash, &d->prefix, sizeof(d->prefix)) < 0)
		goto err_timers;
	while (b->dest[b->dest_free])
		b->dest_free++;
	d->id = b->dest_free;
	b->dest[d->id] = d;
	b->dest_count++;
	return d;
err_timers:
	babel_timer_done(b, &d->recheck);
	babel_timer_done(b, &d->hold);
	w_free(d);
err:
	babel_drop(b, BABEL_DROP_NO_MEMORY);
	return NULL;
}

void babel_dest_free(struct babel *b, struct babel_dest *d)
{
	list_for_each (it, &b->iface_list) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		for (int k = 0; k < BABEL_BIT_COUNT; k++)
			babel_bit_clear(ifc, k, d->id);
	}
	while (d->n)
		babel_route_remove(b, d->route[d->n - 1]);
	list_for_each_safe (it, &d->sources)
		babel_source_free(b, container_of(it, struct babel_source, link));
	list_for_each_safe (it, &d->requests)
		babel_request_free(b, container_of(it, struct babel_request, link));
	list_del(&d->event);
	babel_timer_done(b, &d->recheck);
	babel_timer_done(b, &d->hold);
	hash_del(&b->dests, &d->hash);
	b->dest[d->id] = NULL;
	b->dest_count--;
	if (d->id < b->dest_free)
		b->dest_free = d->id;
	w_free(d->route);
	w_free(d);
}

/* Something about it is still to be said on an interface. */
static bool unsaid(const struct babel *b, const struct babel_dest *d)
{
	list_for_each (it, &b->iface_list) {
		const struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		if (babel_bit(ifc, BABEL_BIT_PENDING, d->id) ||
			babel_bit(ifc, BABEL_BIT_SPARE, d->id) ||
			babel_bit(ifc, BABEL_BIT_AGAIN, d->id) ||
			babel_bit(ifc, BABEL_BIT_AGAIN2, d->id))
			return true;
	}
	return false;
}

void babel_dest_put(struct babel *b, struct babel_dest *d)
{
	if (d->n || d->own || d->state != BABEL_GONE || !list_empty(&d->sources) ||
		!list_empty(&d->requests) || !list_empty(&d->event) || unsaid(b, d))
		return;
	babel_dest_free(b, d);
}

static void route_key(uint8_t key[static 12], const struct babel_dest *d,
	const struct babel_neighbour *n)
{
	put_u64(key, d->id);
	put_u32(key + 8, n->serial);
}

struct babel_route *babel_route_find(const struct babel *b, const struct babel_dest *d,
	const struct babel_neighbour *n)
{
	uint8_t key[12];

	route_key(key, d, n);
	for (struct hash_node *it = hash_find(&b->routes, key, sizeof(key)); it;
		it = hash_next(it)) {
		struct babel_route *r = container_of(it, struct babel_route, hash);

		if (r->dest == d && r->neighbour == n)
			return r;
	}
	return NULL;
}

/* RFC 8966 3.5.2, additive. */
uint16_t babel_route_metric(const struct babel_route *r)
{
	uint32_t sum = (uint32_t)r->advertised + r->neighbour->cost;

	if (r->advertised == BABEL_INFINITY || r->neighbour->cost == BABEL_INFINITY)
		return BABEL_INFINITY;
	return sum < BABEL_INFINITY ? (uint16_t)sum : BABEL_INFINITY;
}

void babel_route_smooth(struct babel_route *r, wtime now)
{
	int64_t half = r->neighbour->ifc->c.hello_us * HALF_LIFE_HELLOS;
	int64_t dt = wtime_diff(now, r->smooth_at);
	uint16_t metric = babel_route_metric(r);
	int64_t target = (int64_t)metric * BABEL_SMOOTH_SCALE, diff = (int64_t)r->smooth - target;

	if (metric == BABEL_INFINITY ||
		r->smooth == (uint32_t)BABEL_INFINITY * BABEL_SMOOTH_SCALE) {
		r->smooth = (uint32_t)target;
		r->smooth_at = now;
		return;
	}
	if (dt < half / SMOOTH_STEPS)
		return;
	for (; dt >= half && diff; dt -= half)
		diff /= 2;
	diff -= diff * dt / (2 * half); /* within one half-life a line is close enough */
	r->smooth = (uint32_t)(target + diff);
	r->smooth_at = now;
}

/* Where a full queue drops most of what the neighbour says, a question or its answer comes through
 * when there are many. But a neighbour with a large table is not asked for all of it twice a
 * second.
 */
static bool may_ask_more(struct babel_iface *ifc, wtime now)
{
	if (!babel_load_receives(ifc, now))
		return false;
	if (wtime_diff(now, ifc->more_since) >= W_SEC) {
		ifc->more_since = now;
		ifc->more = 0;
	}
	return ifc->more++ < ASK_MORE;
}

static void expire(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_route *r = container_of(t, struct babel_route, timer);
	struct babel_dest *d = r->dest;

	if (!wtime_due(r->expires, now)) { /* RFC 8966 3.8.2.3: ask before it is too late */
		int64_t rest = wtime_diff(r->expires, now) / 2;

		/* and again, sooner and sooner: updates, or answers, were lost */
		if (d->selected == r) {
			babel_request_route(b, r->neighbour, &d->prefix, now);
			if (rest > ASK_MORE_US && may_ask_more(r->neighbour->ifc, now))
				rest = ASK_MORE_US;
		}
		babel_timer_set(b, t, rest > ASK_LAST_US ? wtime_add(now, rest) : r->expires);
	} else if (r->advertised != BABEL_INFINITY) {
		r->expires = wtime_add(now, r->hold_us);
		babel_timer_set(b, t, r->expires);
		r->advertised = BABEL_INFINITY;
		babel_route_changed(b, r, now);
	} else {
		babel_route_remove(b, r);
		babel_dest_put(b, d);
	}
}

static int dest_room(struct babel_dest *d)
{
	enum { FIRST = 4 };
	size_t cap = d->cap ? d->cap * 2 : FIRST;
	struct babel_route **more;

	if (d->n < d->cap)
		return 0;
	more = w_realloc(d->route, cap * sizeof(*more));
	if (!more)
		return -ENOMEM;
	d->route = more;
	d->cap = cap;
	return 0;
}

static struct babel_route *new_route(struct babel *b, struct babel_dest *d,
	struct babel_neighbour *n, wtime now)
{
	struct babel_route *r = dest_room(d) == 0 ? w_calloc(1, sizeof(*r)) : NULL;
	uint8_t key[12];

	if (!r)
		return NULL;
	route_key(key, d, n);
	if (babel_timer_init(b, &r->timer, expire) < 0 ||
		hash_add(&b->routes, &r->hash, key, sizeof(key)) < 0) {
		babel_timer_done(b, &r->timer);
		w_free(r);
		return NULL;
	}
	r->dest = d;
	r->neighbour = n;
	r->since = r->smooth_at = now;
	r->advertised = BABEL_INFINITY;
	r->smooth = (uint32_t)BABEL_INFINITY * BABEL_SMOOTH_SCALE;
	r->place = (uint32_t)d->n;
	d->route[d->n++] = r;
	list_add_head(n->last, &r->by_neighbour);
	b->stats.routes++;
	return r;
}

void babel_route_remove(struct babel *b, struct babel_route *r)
{
	struct babel_dest *d = r->dest;

	babel_timer_done(b, &r->timer);
	hash_del(&b->routes, &r->hash);
	if (r->neighbour->last == &r->by_neighbour)
		r->neighbour->last = r->by_neighbour.prev;
	list_del(&r->by_neighbour);
	d->route[r->place] = d->route[--d->n];
	d->route[r->place]->place = r->place;
	if (d->selected == r)
		d->selected = NULL;
	if (d->backup == r)
		d->backup = NULL;
	b->stats.routes--;
	w_free(r);
}

void babel_route_retract(struct babel *b, struct babel_route *r, wtime now)
{
	if (r->advertised == BABEL_INFINITY)
		return;
	r->advertised = BABEL_INFINITY;
	babel_timer_set(b, &r->timer, r->expires);
	babel_route_changed(b, r, now);
}

/* RFC 8966 appendix C: what no route may lead to. */
static bool refused_always(const struct prefix *p)
{
	static const uint8_t zero[16];
	unsigned int bits = ipaddr_bits(&p->addr);

	if (p->len == 0)
		return false;
	if (ipaddr_is_multicast(&p->addr) || ipaddr_is_loopback(&p->addr))
		return true;
	if (p->addr.family == IP6 && p->len >= 10 && ipaddr_is_link_local(&p->addr))
		return true;
	return p->len == bits && memcmp(p->addr.b, zero, sizeof(zero)) == 0;
}

static bool import_allows(const struct babel *b, const struct babel_neighbour *n,
	const struct babel_offer *offer)
{
	struct babel_offer o = *offer;

	o.iface = n->iface;
	o.neighbour = n->addr;
	return !b->c.import || b->c.import(b->c.filter_ctx, &o);
}

static uint16_t through(const struct babel_neighbour *n, uint16_t metric)
{
	uint32_t sum = (uint32_t)metric + n->cost;

	return sum < BABEL_INFINITY ? (uint16_t)sum : BABEL_INFINITY;
}

/* May this update be acted upon? A refused one retracts what the neighbour said before. */
static bool acceptable(struct babel *b, const struct babel_neighbour *n, const struct babel_tlv *t,
	const struct babel_prefix *p)
{
	struct babel_offer o = {.prefix = *p, .metric = through(n, t->update.metric)};

	if (memcmp(t->update.router_id, b->c.router_id, sizeof(b->c.router_id)) == 0)
		return false; /* our own, come back */
	memcpy(o.router_id, t->update.router_id, sizeof(o.router_id));
	if (refused_always(&p->destination) || !import_allows(b, n, &o)) {
		babel_drop(b, BABEL_DROP_FILTERED);
		return false;
	}
	return true;
}

static void retract_all(struct babel *b, struct babel_neighbour *n, wtime now)
{
	list_for_each_safe (it, &n->routes)
		babel_route_retract(b, container_of(it, struct babel_route, by_neighbour), now);
}

/* RFC 8966 3.5.3: the entry takes over what the update says. */
static void take(struct babel *b, struct babel_route *r, const struct babel_tlv *t, wtime now)
{
	int64_t half = (int64_t)t->update.interval * BABEL_CENTISECOND_US / 2;
	bool early = babel_load_receives(r->neighbour->ifc, now);

	if (memcmp(r->router_id, t->update.router_id, sizeof(r->router_id)) != 0) {
		memcpy(r->router_id, t->update.router_id, sizeof(r->router_id));
		r->dest->changed |= r->dest->selected == r;
	}
	r->dest->changed |= r->dest->selected == r &&
		!ipaddr_equal(&r->next_hop, &t->update.next_hop);
	babel_route_smooth(r, now);
	r->seqno = t->update.seqno;
	r->advertised = t->update.metric;
	r->next_hop = t->update.next_hop;
	r->hold_us = half * HOLD_HALVES;
	r->expires = wtime_add(now, r->hold_us);
	babel_timer_late(b, &r->timer, now, half * (early ? ASK_EARLY_HALVES : ASK_HALVES));
	babel_route_smooth(r, now);
}

/* Who announces many prefixes does so in the same order each time: the route is most often one of
 * the next after the last one, and no table is asked. One that is elsewhere is moved here. */
static struct babel_route *expected(const struct babel_neighbour *n, const struct babel_prefix *p)
{
	enum { AHEAD = 4 };
	struct list *it = n->last;

	for (int i = 0; i < AHEAD; i++) {
		struct babel_route *r;

		it = it->next == &n->routes ? n->routes.next : it->next;
		if (it == &n->routes)
			return NULL;
		r = container_of(it, struct babel_route, by_neighbour);
		if (same_prefix(&r->dest->prefix, p))
			return r;
	}
	return NULL;
}

static void come_after(struct babel_neighbour *n, struct babel_route *r)
{
	if (n->last == &r->by_neighbour)
		return;
	list_del(&r->by_neighbour);
	list_add_head(n->last, &r->by_neighbour);
}

void babel_route_update(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now)
{
	bool finite = t->update.metric != BABEL_INFINITY;
	struct babel_prefix p;
	struct babel_dest *d;
	struct babel_route *r;

	if (t->update.wildcard) {
		retract_all(b, n, now);
		return;
	}
	p = babel_prefix_normal(&t->update.prefix);
	finite = finite && acceptable(b, n, t, &p);
	r = expected(n, &p);
	d = r ? r->dest : finite ? babel_dest_get(b, &p) : babel_dest_find(b, &p);
	if (!r && d) {
		r = babel_route_find(b, d, n);
		if (r)
			come_after(n, r);
	}
	if (!finite) {
		if (r)
			babel_route_retract(b, r, now);
		if (d)
			babel_doubt_next_hop(b, d, n, false, now);
		return;
	}
	if (!d)
		return;
	if (!r)
		r = new_route(b, d, n, now);
	if (!r) {
		babel_drop(b, BABEL_DROP_NO_MEMORY);
		babel_dest_put(b, d);
		return;
	}
	if (!babel_feasible(d, t->update.router_id, t->update.seqno, t->update.metric))
		babel_drop(b, BABEL_DROP_UNFEASIBLE);
	n->last = &r->by_neighbour;
	take(b, r, t, now);
	babel_route_changed(b, r, now);
	babel_request_satisfy(b, r, now);
}

void babel_route_refilter(struct babel *b, wtime now)
{
	for (size_t i = 0; i < b->neighbour_count; i++) {
		struct babel_neighbour *n = b->neighbour[i];

		list_for_each_safe (it, &n->routes) {
			struct babel_route *r = container_of(it, struct babel_route, by_neighbour);
			struct babel_offer o = {.prefix = r->dest->prefix,
				.metric = babel_route_metric(r)};

			memcpy(o.router_id, r->router_id, sizeof(o.router_id));
			if (!import_allows(b, n, &o))
				babel_route_retract(b, r, now);
		}
	}
}
