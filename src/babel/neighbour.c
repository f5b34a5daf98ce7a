/* The neighbour table (RFC 8966 3.2.4): hello history (A.1), IHUs (3.4.2), round trip samples
 * (RFC 9616 3), and the cost made of them (3.4.3). */
#include "babel/babel_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum {
	TOP = 0x8000,
	HOLD_HALVES = 7,        /* an IHU holds for 3.5 of its intervals (appendix B) */
	TUNNEL_HALVES = 20,     /* and longer where other means see sooner that it is void */
	IDLE_US = 30 * 1000000, /* without a hello */
	WIRED_OF = 3,           /* 2-out-of-3 */
	WIRED_GOOD = 2,
	HELLOS_MISSED = 2, /* of 16: fewer are no loss */
	LOSS_UNITS = 8,    /* per percent */
	LOSS_FREE = 2,     /* percent */
	PERCENT = 100,
};

static void neighbour_key(uint8_t key[static 20], uint32_t iface, const struct ipaddr *a)
{
	put_u32(key, iface);
	memcpy(key + 4, a->b, 16);
}

struct babel_neighbour *babel_neighbour_find(const struct babel *b, const struct babel_iface *ifc,
	const struct ipaddr *a)
{
	uint8_t key[20];

	neighbour_key(key, ifc->c.iface, a);
	for (struct hash_node *it = hash_find(&b->neighbours, key, sizeof(key)); it;
		it = hash_next(it)) {
		struct babel_neighbour *n = container_of(it, struct babel_neighbour, hash);

		if (n->ifc == ifc && ipaddr_equal(&n->addr, a))
			return n;
	}
	return NULL;
}

static void multicast_missed(struct babel *b, struct babel_timer *t, wtime now);
static void unicast_missed(struct babel *b, struct babel_timer *t, wtime now);

static void ihu_expired(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_neighbour *n = container_of(t, struct babel_neighbour, ihu);

	n->txcost = BABEL_INFINITY;
	babel_neighbour_recost(b, n, false, now);
}

/* Known to the authentication alone, and nothing came of it. */
static void idle_expired(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_neighbour *n = container_of(t, struct babel_neighbour, idle);

	if (!n->known)
		babel_neighbour_flush(b, n, now);
}

static int table_room(struct babel *b)
{
	enum { FIRST = 16 };
	size_t cap = b->neighbour_cap ? b->neighbour_cap * 2 : FIRST;
	struct babel_neighbour **more;

	if (b->neighbour_count < b->neighbour_cap)
		return 0;
	more = w_realloc(b->neighbour, cap * sizeof(*more));
	if (!more)
		return -ENOMEM;
	b->neighbour = more;
	b->neighbour_cap = cap;
	return 0;
}

static int timers_init(struct babel *b, struct babel_neighbour *n)
{
	if (babel_timer_init(b, &n->multicast.timer, multicast_missed) < 0 ||
		babel_timer_init(b, &n->unicast.timer, unicast_missed) < 0 ||
		babel_timer_init(b, &n->ihu, ihu_expired) < 0)
		return -ENOMEM;
	return babel_timer_init(b, &n->idle, idle_expired);
}

static void timers_done(struct babel *b, struct babel_neighbour *n)
{
	babel_timer_done(b, &n->multicast.timer);
	babel_timer_done(b, &n->unicast.timer);
	babel_timer_done(b, &n->ihu);
	babel_timer_done(b, &n->idle);
}

struct babel_neighbour *babel_neighbour_get(struct babel *b, struct babel_iface *ifc,
	const struct ipaddr *a, wtime now)
{
	struct babel_neighbour *n = babel_neighbour_find(b, ifc, a);
	uint8_t key[20];

	if (n)
		return n;
	if (ifc->neighbour_count < BABEL_NEIGHBOURS_MAX && table_room(b) == 0)
		n = w_calloc(1, sizeof(*n));
	if (!n)
		goto err;
	n->ifc = ifc;
	n->iface = ifc->c.iface;
	n->addr = *a;
	n->txcost = n->rxcost = n->cost = BABEL_INFINITY;
	list_init(&n->routes);
	n->last = &n->routes;
	list_init(&n->unicast_link);
	list_init(&n->event);
	neighbour_key(key, n->iface, a);
	if (timers_init(b, n) < 0 || hash_add(&b->neighbours, &n->hash, key, sizeof(key)) < 0) {
		timers_done(b, n);
		w_free(n);
		goto err;
	}
	n->serial = ++b->next_serial ? b->next_serial : ++b->next_serial;
	n->place = b->neighbour_count;
	b->neighbour[b->neighbour_count++] = n;
	list_add_tail(&ifc->neighbours, &n->by_iface);
	ifc->neighbour_count++;
	babel_timer_late(b, &n->idle, now, IDLE_US);
	return n;
err:
	babel_drop(b, BABEL_DROP_NO_MEMORY);
	return NULL;
}

/* All that it announced is gone. */
static void drop_routes(struct babel *b, struct babel_neighbour *n, wtime now)
{
	while (!list_empty(&n->routes)) {
		struct babel_route *r = container_of(n->routes.next, struct babel_route,
			by_neighbour);
		struct babel_dest *d = r->dest;

		r->advertised = BABEL_INFINITY;
		babel_route_changed(b, r, now);
		babel_route_remove(b, r);
		babel_dest_put(b, d);
	}
}

void babel_neighbour_free(struct babel_neighbour *n)
{
	buf_free(&n->queue);
	w_free_secret(n, sizeof(*n));
}

void babel_neighbour_flush(struct babel *b, struct babel_neighbour *n, wtime now)
{
	n->txcost = n->cost = BABEL_INFINITY;
	drop_routes(b, n, now);
	timers_done(b, n);
	hash_del(&b->neighbours, &n->hash);
	list_del(&n->by_iface);
	list_del(&n->unicast_link);
	n->ifc->neighbour_count--;
	b->neighbour[n->place] = b->neighbour[--b->neighbour_count];
	b->neighbour[n->place]->place = n->place;
	n->ifc = NULL;
	if (!n->known) {
		babel_neighbour_free(n);
		return;
	}
	b->stats.neighbours--;
	n->lost = true; /* stays until its event has been taken */
	if (list_empty(&n->event))
		list_add_tail(&b->neighbour_events, &n->event);
}

static void rtt_void(struct babel_neighbour *n)
{
	n->rtt.valid = n->calm.valid = false;
	n->pending = (struct babel_round){0};
	n->risen = (struct babel_risen){0};
	n->refuted = 0;
	n->rising = n->held = n->holding = false;
}

/* The other end has started anew (A.1): what is known of it is void, but who it is. */
static void start_anew(struct babel *b, struct babel_neighbour *n, wtime now)
{
	n->txcost = BABEL_INFINITY;
	babel_timer_set(b, &n->ihu, WTIME_NEVER);
	n->has_time = false;
	rtt_void(n);
	n->multicast.active = n->unicast.active = false;
	babel_timer_set(b, &n->multicast.timer, WTIME_NEVER);
	babel_timer_set(b, &n->unicast.timer, WTIME_NEVER);
	babel_neighbour_recost(b, n, true, now);
	drop_routes(b, n, now);
}

static void push(struct babel_history *h, bool got)
{
	h->bits = (uint16_t)(h->bits >> 1 | (got ? TOP : 0));
	if (h->count < BABEL_HISTORY)
		h->count++;
	h->expected++;
}

static bool heard(const struct babel_history *h)
{
	return h->active && h->bits != 0;
}

/* All hellos of the window are gone, but what else it sends fills the link and drowns them. As long
 * as its last IHU holds it stays. */
static bool vouched(const struct babel_neighbour *n, wtime now)
{
	return n->ifc->c.tunnel && n->txcost != BABEL_INFINITY && babel_load_receives(n->ifc, now);
}

static void missed(struct babel *b, struct babel_neighbour *n, struct babel_history *h, wtime now)
{
	push(h, false);
	if (!heard(&n->multicast) && !heard(&n->unicast) && vouched(n, now))
		h->bits = 1;
	if (!heard(&n->multicast) && !heard(&n->unicast)) {
		babel_neighbour_flush(b, n, now);
		return;
	}
	babel_timer_late(b, &h->timer, now, h->interval_us);
	babel_neighbour_recost(b, n, false, now);
}

static void multicast_missed(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_neighbour *n = container_of(t, struct babel_neighbour, multicast.timer);

	missed(b, n, &n->multicast, now);
}

static void unicast_missed(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_neighbour *n = container_of(t, struct babel_neighbour, unicast.timer);

	missed(b, n, &n->unicast, now);
}

static void become_known(struct babel *b, struct babel_neighbour *n)
{
	n->known = true;
	b->stats.neighbours++;
	babel_timer_set(b, &n->idle, WTIME_NEVER);
	list_add_tail(&b->neighbour_events, &n->event);
}

/* RFC 8966 A.1. */
static void record_hello(struct babel_history *h, uint16_t seqno)
{
	int16_t ahead = (int16_t)(seqno - h->expected);

	if (!h->active) {
		*h = (struct babel_history){.active = true,
			.expected = seqno,
			.timer = h->timer,
			.interval_us = h->interval_us};
	} else if (ahead < 0) { /* fewer were sent than we thought */
		h->bits = (uint16_t)((uint32_t)h->bits << -ahead);
		h->count = (uint8_t)(h->count > -ahead ? h->count + ahead : 0);
		h->expected = seqno;
	} else {
		for (; ahead > 0; ahead--)
			push(h, false);
	}
	push(h, true);
}

void babel_neighbour_hello(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now)
{
	struct babel_history *h = t->hello.unicast ? &n->unicast : &n->multicast;
	int16_t ahead = (int16_t)(t->hello.seqno - h->expected);
	bool fresh = !n->known;

	if (h->active && (ahead > BABEL_HISTORY || ahead < -BABEL_HISTORY)) {
		start_anew(b, n, now);
		fresh = true;
	}
	if (!n->known)
		become_known(b, n);
	record_hello(h, t->hello.seqno);
	if (t->hello.interval) {
		h->interval_us = (int64_t)t->hello.interval * BABEL_CENTISECOND_US;
		babel_timer_late(b, &h->timer, now, h->interval_us * 3 / 2);
	} else if (!h->interval_us) { /* never a promise: it may be silent as long as an IHU holds
		                       */
		babel_timer_late(b, &h->timer, now, n->ifc->c.hello_us * HOLD_HALVES);
		h->interval_us = n->ifc->c.hello_us;
	}
	if (fresh) {
		n->ihu_due = true;
		babel_hello_soon(b, n->ifc, now);
	}
	babel_neighbour_recost(b, n, false, now);
}

void babel_neighbour_ihu(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now)
{
	int64_t halves = n->ifc->c.tunnel ? TUNNEL_HALVES : HOLD_HALVES;
	bool first = n->txcost == BABEL_INFINITY && t->ihu.rxcost != BABEL_INFINITY;

	n->txcost = t->ihu.rxcost ? t->ihu.rxcost : 1; /* a cost is never 0 (3.4.3) */
	n->loss_out = babel_load_loss(n->ifc, n->loss_out, (double)t->ihu.loss / UINT16_MAX,
		t->ihu.loss_of_hellos, now);
	babel_timer_late(b, &n->ihu, now,
		(int64_t)t->ihu.interval * BABEL_CENTISECOND_US * halves / 2);
	babel_neighbour_recost(b, n, false, now);
	if (first) { /* both ways now: tell each other all */
		babel_request_route(b, n, NULL, now);
		babel_dump_start(b, n->ifc, true, now);
	}
}

/* Of the last hellos that should have come; without news from before as if they had come. */
double babel_neighbour_loss(const struct babel_neighbour *n)
{
	int lost = n->multicast.count - __builtin_popcount(n->multicast.bits);

	if (!n->multicast.active || lost < HELLOS_MISSED)
		return 0;
	return (double)lost / BABEL_HISTORY;
}

double babel_neighbour_loss_in(const struct babel_neighbour *n)
{
	return n->ifc->loss_in >= 0 ? n->ifc->loss_in : n->loss_hello;
}

uint16_t babel_neighbour_reach(const struct babel_neighbour *n)
{
	return n->multicast.active ? n->multicast.bits : n->unicast.bits;
}

/* RFC 8966 A.2.1 on networks. On a tunnel one hello of the window is enough: whether it lives is
 * seen by other means, and what it loses is in the cost. */
static bool history_good(const struct babel_history *h, bool tunnel)
{
	unsigned int last = h->bits >> (BABEL_HISTORY - WIRED_OF);
	int want = h->count < WIRED_GOOD ? h->count : WIRED_GOOD;

	if (!heard(h))
		return false;
	return tunnel || __builtin_popcount(last) >= want;
}

static double clean(double p)
{
	return p < 0 || p * PERCENT <= LOSS_FREE ? 0 : p > 1 ? 1 : p;
}

/* RFC 9616 4.2, linear. */
static uint32_t rtt_part(const struct babel_neighbour *n)
{
	const struct babel_iface_config *c = &n->ifc->c;
	int64_t over = n->calm.used - c->rtt_min_us;

	if (!n->calm.valid || !c->rtt_cost || over <= 0)
		return 0;
	if (n->calm.used >= c->rtt_max_us)
		return c->rtt_cost;
	return (uint32_t)(c->rtt_cost * over / (c->rtt_max_us - c->rtt_min_us));
}

static uint16_t cost_of(const struct babel_neighbour *n)
{
	const struct babel_iface *ifc = n->ifc;
	double pass = (1 - clean(babel_neighbour_loss_in(n))) * (1 - clean(n->loss_out));
	double cost, lost = (1 - pass) * PERCENT;

	if (ifc->dead || n->rxcost == BABEL_INFINITY || n->txcost == BABEL_INFINITY)
		return BABEL_INFINITY;
	cost = n->txcost + rtt_part(n);
	if (lost > LOSS_FREE) {
		if (pass <= 0)
			return BABEL_INFINITY;
		cost = cost / pass + LOSS_UNITS * (lost - LOSS_FREE);
	}
	return cost < BABEL_INFINITY ? (uint16_t)cost : BABEL_INFINITY;
}

void babel_neighbour_recost(struct babel *b, struct babel_neighbour *n, bool step, wtime now)
{
	bool tunnel = n->ifc->c.tunnel;
	bool good = history_good(&n->multicast, tunnel) || history_good(&n->unicast, tunnel);
	uint16_t cost;

	n->rxcost = good && !n->ifc->dead ? n->ifc->c.cost : BABEL_INFINITY;
	if (n->rtt.valid && wtime_diff(now, n->rtt.at) > BABEL_RTT_VOID_US)
		rtt_void(n);
	n->loss_hello = babel_load_loss(n->ifc, n->loss_hello, babel_neighbour_loss(n), true, now);
	cost = cost_of(n);
	if (cost == n->cost)
		return;
	list_for_each (it, &n->routes)
		babel_route_smooth(container_of(it, struct babel_route, by_neighbour), now);
	n->cost = cost;
	list_for_each_safe (it, &n->routes) {
		struct babel_route *r = container_of(it, struct babel_route, by_neighbour);

		if (step) {
			r->smooth = (uint32_t)babel_route_metric(r) * BABEL_SMOOTH_SCALE;
			r->smooth_at = now;
		}
		babel_route_changed(b, r, now);
	}
}
