/* Which updates go into a packet (RFC 8966 3.7), and how fast they may: urgent ones at once,
 * triggered ones and full dumps within rates that all interfaces share. What is said is decided
 * when the packet is written, never earlier, and the feasibility distance is kept then (3.7.3). */
#include "babel/babel_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum {
	WORD = 64,
	TRIGGER_TIMES = 4, /* triggered updates may go so much faster than dumps */
	CREDIT_LINKS = 8,  /* for as many as tell this many links everything */
	SUSTAINED_PARTS = 4,
	TRIGGER_CHUNK = 64,
	BELIEVED_HALVES = 7, /* neighbours keep a route for 3.5 intervals */
	DUMP_BEGIN_US = 20000,
	DUMP_AGAIN_US = 1000000,
	TRIGGER_BEGIN_US = 50000,
	TRIGGER_SPREAD_US = 100000,
	URGENT_BEGIN_US = 5000,
	URGENT_SPREAD_US = 30000,
	AGAIN_US = 300000,
	LANE_STEP_US = 1000, /* between two turns, should the first take none */
	FORMER_PARTS = 8,    /* timers fire early by up to this part, never late */
};

static size_t word(size_t id)
{
	return id / WORD;
}

static uint64_t mask(size_t id)
{
	return UINT64_C(1) << (id % WORD);
}

void babel_bit_set(struct babel_iface *ifc, enum babel_bits kind, size_t id)
{
	ifc->bits[kind][word(id)] |= mask(id);
}

bool babel_bit(const struct babel_iface *ifc, enum babel_bits kind, size_t id)
{
	return ifc->bits[kind][word(id)] & mask(id);
}

void babel_bit_clear(struct babel_iface *ifc, enum babel_bits kind, size_t id)
{
	ifc->bits[kind][word(id)] &= ~mask(id);
}

/* The first dest from `from` on whose bit is set; dest_cap: none. */
static size_t next_bit(const struct babel *b, const struct babel_iface *ifc, enum babel_bits kind,
	size_t from)
{
	for (size_t w = word(from); w < b->dest_words; w++) {
		uint64_t bits = ifc->bits[kind][w];

		if (w == word(from))
			bits &= UINT64_MAX << (from % WORD);
		if (bits)
			return w * WORD + (size_t)__builtin_ctzll(bits);
	}
	return b->dest_cap;
}

static void sooner(wtime *at, wtime t)
{
	*at = wtime_min(*at, t);
}

static uint32_t dump_rate(const struct babel *b)
{
	uint64_t all = (uint64_t)b->dest_count * b->iface_count;
	uint64_t least = all * W_SEC / BABEL_INTERVAL_MAX_US;
	uint64_t rate = b->c.dump_rate ? b->c.dump_rate : BABEL_DUMP_RATE;

	return (uint32_t)(least > rate ? least : rate);
}

/* What dumps and triggered updates may have together in the long run: more than dumps need. */
static uint64_t sustained_rate(const struct babel *b)
{
	uint64_t rate = dump_rate(b);

	return rate + rate / SUSTAINED_PARTS;
}

/* Triggered updates run ahead of the sustained rate by what it takes to tell some links the whole
 * table. Who has more links need not hurry: the neighbours hear it from others as well, and in a
 * full mesh of n nodes n^2 updates would be sent that hardly anybody uses. */
static wtime slot_open(const struct babel *b, enum babel_lanes k)
{
	wtime own = wtime_add(b->lane[k].slot, -BABEL_RATE_BURST_US), ahead;
	uint64_t credit = (uint64_t)b->dest_count * CREDIT_LINKS * W_SEC / sustained_rate(b);

	if (k == BABEL_LANE_DUMP)
		return own;
	ahead = wtime_add(b->sustained, -(int64_t)credit);
	return wtime_before(own, ahead) ? ahead : own;
}

/* When a lane is looked at again. A dump has time. */
static wtime lane_later(const struct babel *b, enum babel_lanes k, wtime at)
{
	return k == BABEL_LANE_DUMP ? babel_grid_after(b, at) : at;
}

/* The first in the queue has its turn; when its packet is written, the next one has, as long as the
 * rate allows. */
static void lane_turn(struct babel *b, enum babel_lanes k, wtime now)
{
	struct babel_lane *l = &b->lane[k];
	wtime open = slot_open(b, k), soon = wtime_add(now, LANE_STEP_US);

	if (wtime_due(open, now) && !list_empty(&l->waiting)) {
		struct list *first = l->waiting.next;
		struct babel_iface *ifc = container_of(first - k, struct babel_iface, lane_wait);

		list_del(first);
		ifc->lane_at[k] = now;
		babel_out_ready(b, ifc);
	}
	if (!list_empty(&l->waiting))
		babel_timer_set(b, &l->timer,
			lane_later(b, k, wtime_before(open, soon) ? soon : open));
}

static void trigger_turn(struct babel *b, struct babel_timer *t, wtime now)
{
	(void)t;
	lane_turn(b, BABEL_LANE_TRIGGER, now);
}

static void dump_turn(struct babel *b, struct babel_timer *t, wtime now)
{
	(void)t;
	lane_turn(b, BABEL_LANE_DUMP, now);
}

int babel_lanes_init(struct babel *b)
{
	for (int i = 0; i < BABEL_LANES; i++)
		list_init(&b->lane[i].waiting);
	if (babel_timer_init(b, &b->lane[BABEL_LANE_TRIGGER].timer, trigger_turn) < 0)
		return -ENOMEM;
	return babel_timer_init(b, &b->lane[BABEL_LANE_DUMP].timer, dump_turn);
}

void babel_lanes_leave(struct babel_iface *ifc)
{
	for (int i = 0; i < BABEL_LANES; i++) {
		ifc->lane_at[i] = WTIME_NEVER;
		list_del(&ifc->lane_wait[i]);
	}
}

/* True when it is the interface's turn; else it waits for it, if it has something to send. */
static bool lane_open(struct babel *b, struct babel_iface *ifc, enum babel_lanes k, wtime now)
{
	struct babel_lane *l = &b->lane[k];
	wtime open;

	if (!wtime_due(ifc->lane_at[k], now))
		return false;
	open = slot_open(b, k);
	if (wtime_due(open, now))
		return true;
	ifc->lane_at[k] = WTIME_NEVER;
	list_add_tail(&l->waiting, &ifc->lane_wait[k]);
	babel_timer_set(b, &l->timer, wtime_min(l->timer.at, lane_later(b, k, open)));
	return false;
}

/* It has something for a lane, at the latest at that time; not when it waits for its turn. */
static void lane_soon(struct babel *b, struct babel_iface *ifc, enum babel_lanes k, wtime at)
{
	if (!list_empty(&ifc->lane_wait[k]))
		return;
	sooner(&ifc->lane_at[k], at);
	babel_out_schedule(b, ifc);
}

void babel_announce_on(struct babel *b, struct babel_iface *ifc, struct babel_dest *d, bool urgent,
	wtime now)
{
	babel_bit_set(ifc, BABEL_BIT_PENDING, d->id);
	if (urgent) {
		babel_bit_set(ifc, BABEL_BIT_URGENT, d->id);
		if (ifc->urgent_at.us == WTIME_NEVER.us)
			ifc->urgent_at = wtime_add(now,
				URGENT_BEGIN_US + babel_random(b, URGENT_SPREAD_US));
	} else if (ifc->lane_at[BABEL_LANE_TRIGGER].us == WTIME_NEVER.us) {
		lane_soon(b, ifc, BABEL_LANE_TRIGGER,
			wtime_add(now, TRIGGER_BEGIN_US + babel_random(b, TRIGGER_SPREAD_US)));
	}
	babel_out_schedule(b, ifc);
}

void babel_announce(struct babel *b, struct babel_dest *d, bool urgent, wtime now)
{
	list_for_each (it, &b->iface_list) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, all);

		if (urgent && !list_empty(&ifc->neighbours)) { /* who comes gets a dump */
			if (babel_bit(ifc, BABEL_BIT_ANNOUNCED, d->id))
				babel_bit_set(ifc, BABEL_BIT_FORCED, d->id);
			babel_bit_set(ifc, BABEL_BIT_AGAIN, d->id);
			babel_bit_set(ifc, BABEL_BIT_AGAIN2, d->id);
			sooner(&ifc->again_at, wtime_add(now, AGAIN_US));
		}
		babel_announce_on(b, ifc, d, urgent, now);
	}
}

void babel_refuse_on(struct babel *b, struct babel_iface *ifc, const struct babel_prefix *p,
	wtime now)
{
	if (!ifc->refused)
		ifc->refused = w_alloc(BABEL_REFUSED_MAX * sizeof(*ifc->refused));
	if (!ifc->refused || ifc->refused_count == BABEL_REFUSED_MAX)
		return; /* it will be asked again */
	ifc->refused[ifc->refused_count++] = *p;
	babel_iface_soon(b, ifc, URGENT_BEGIN_US, now);
}

/* The update interval: a small multiple of the hello's, or what a full dump on all interfaces takes
 * at its rate. */
static int64_t update_interval(const struct babel *b, const struct babel_iface *ifc)
{
	int64_t least = ifc->c.hello_us * ifc->c.update_factor;
	int64_t takes = (int64_t)((uint64_t)b->dest_count * b->iface_count * W_SEC / dump_rate(b));

	takes += takes / FORMER_PARTS;
	takes = takes > least ? takes : least;
	return takes < BABEL_INTERVAL_MAX_US || least > BABEL_INTERVAL_MAX_US
		? takes
		: BABEL_INTERVAL_MAX_US;
}

/* A dump goes with the last hello before its time, so that it is spread over what is left of that
 * part beside a hello interval. */
static void dump_begin(struct babel *b, struct babel_iface *ifc, bool fresh, int64_t wait,
	wtime now)
{
	bool running = ifc->dump_next != BABEL_NO_DUMP;
	int64_t interval = update_interval(b, ifc);
	int64_t spread = interval / FORMER_PARTS - ifc->c.hello_us;

	ifc->interval_cs = babel_centiseconds(interval);
	babel_timer_early(b, &ifc->update, now, interval - babel_random(b, spread));
	if (running && wtime_diff(now, ifc->dump_begun) < DUMP_AGAIN_US)
		return;
	ifc->dump_next = 0;
	ifc->dump_begun = now;
	if (!running)
		lane_soon(b, ifc, BABEL_LANE_DUMP, wtime_add(now, wait));
	for (size_t i = 0; fresh && i < b->dest_cap; i++) {
		if (b->dest[i] && b->dest[i]->own)
			babel_announce_on(b, ifc, b->dest[i], true, now);
	}
	babel_out_schedule(b, ifc);
}

void babel_dump_start(struct babel *b, struct babel_iface *ifc, bool fresh, wtime now)
{
	dump_begin(b, ifc, fresh, babel_random(b, DUMP_BEGIN_US), now);
}

void babel_update_fire(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_iface *ifc = container_of(t, struct babel_iface, update);

	if (ifc->dump_next != BABEL_NO_DUMP) /* or the end of a large table would never be told */
		babel_timer_set(b, t, babel_grid_after(b, wtime_add(now, DUMP_AGAIN_US)));
	else if (!b->stopped)
		dump_begin(b, ifc, false, 0, now);
}

/* For how long what is said now holds: the table may have grown since the last dump began, and the
 * next one takes the longer. */
static uint16_t promise(const struct babel *b, const struct babel_iface *ifc)
{
	uint16_t next = babel_centiseconds(update_interval(b, ifc));

	return next > ifc->interval_cs ? next : ifc->interval_cs;
}

bool babel_decide(const struct babel *b, const struct babel_iface *ifc, const struct babel_dest *d,
	struct babel_update *ret)
{
	const struct babel_route *r = d->selected;
	struct babel_offer o = {.prefix = d->prefix, .iface = ifc->c.iface, .own = d->own};
	bool ip4 = d->prefix.destination.addr.family == IP4;

	*ret = (struct babel_update){.prefix = d->prefix,
		.interval = promise(b, ifc),
		.metric = BABEL_INFINITY,
		.next_hop4 = ip4 ? ifc->c.own4 : (struct ipaddr){0}};
	if (b->stopped || (ip4 && !ifc->c.ipv4))
		return false;
	if (d->own) {
		o.metric = d->own_metric;
		memcpy(o.router_id, b->c.router_id, sizeof(o.router_id));
		ret->seqno = b->seqno;
	} else if (r && b->c.transit && r->neighbour->ifc != ifc) { /* 3.7.4: split horizon */
		o.metric = babel_route_metric(r);
		memcpy(o.router_id, r->router_id, sizeof(o.router_id));
		ret->seqno = r->seqno;
	} else {
		return false;
	}
	if (o.metric == BABEL_INFINITY || (b->c.export && !b->c.export(b->c.filter_ctx, &o)))
		return false;
	ret->metric = o.metric;
	memcpy(ret->router_id, o.router_id, sizeof(ret->router_id));
	return true;
}

/* Everybody who hears this may believe it for a while. */
static void note_finite(struct babel *b, struct babel_dest *d, const struct babel_update *u,
	wtime now)
{
	wtime until = wtime_add(now,
		(int64_t)u->interval * BABEL_CENTISECOND_US * BELIEVED_HALVES / 2);

	(void)b;
	if (wtime_before(d->announced_until, until))
		d->announced_until = until;
	d->offered = true;
	d->offered_metric = u->metric;
	memcpy(d->offered_id, u->router_id, sizeof(d->offered_id));
}

/* 1: written, 0: nothing to say, -1: no room. */
static int write_one(struct babel *b, struct babel_iface *ifc, struct babel_dest *d,
	struct babel_build *w, wtime now)
{
	struct babel_build before = *w;
	struct babel_update u;
	bool finite = babel_decide(b, ifc, d, &u);
	bool retract = !finite &&
		(babel_bit(ifc, BABEL_BIT_ANNOUNCED, d->id) ||
			babel_bit(ifc, BABEL_BIT_FORCED, d->id));

	if (finite || retract) {
		if (!babel_build_update(w, &u))
			return -1;
		if (finite && babel_source_announce(b, d, &u, now) < 0) {
			*w = before;
			finite = false;
		}
	}
	babel_bit_clear(ifc, BABEL_BIT_PENDING, d->id);
	babel_bit_clear(ifc, BABEL_BIT_URGENT, d->id);
	babel_bit_clear(ifc, BABEL_BIT_SPARE, d->id);
	babel_bit_clear(ifc, BABEL_BIT_FORCED, d->id);
	if (finite) {
		babel_bit_set(ifc, BABEL_BIT_ANNOUNCED, d->id);
		note_finite(b, d, &u, now);
	} else {
		babel_bit_clear(ifc, BABEL_BIT_ANNOUNCED, d->id);
		babel_dest_put(b, d);
	}
	return finite || retract;
}

/* Updates whose bit is set, at most max. False: no room left. */
static bool write_bits(struct babel *b, struct babel_iface *ifc, enum babel_bits kind,
	struct babel_build *w, size_t *left, wtime now)
{
	for (size_t i = next_bit(b, ifc, kind, 0); i < b->dest_cap && *left;
		i = next_bit(b, ifc, kind, i + 1)) {
		int did = write_one(b, ifc, b->dest[i], w, now);

		if (did < 0)
			return false;
		*left -= (size_t)did;
	}
	return true;
}

/* What was urgent is said again, twice. */
static void raise_again(const struct babel *b, struct babel_iface *ifc, wtime now)
{
	uint64_t any = 0;

	if (!wtime_due(ifc->again_at, now))
		return;
	for (size_t i = 0; i < b->dest_words; i++) {
		uint64_t bits = ifc->bits[BABEL_BIT_AGAIN][i];

		ifc->bits[BABEL_BIT_PENDING][i] |= bits;
		ifc->bits[BABEL_BIT_URGENT][i] |= bits;
		ifc->bits[BABEL_BIT_FORCED][i] |= bits;
		ifc->bits[BABEL_BIT_AGAIN][i] = ifc->bits[BABEL_BIT_AGAIN2][i];
		any |= ifc->bits[BABEL_BIT_AGAIN2][i];
		ifc->bits[BABEL_BIT_AGAIN2][i] = 0;
	}
	ifc->again_at = any ? wtime_add(now, AGAIN_US) : WTIME_NEVER;
	ifc->urgent_at = now;
}

/* When the next packets may go, now that one with n updates of a kind has gone. Who has more goes
 * on when nobody else waits. */
static void spend(struct babel *b, struct babel_iface *ifc, enum babel_lanes k, size_t n, bool more,
	wtime now)
{
	uint64_t rate = (uint64_t)dump_rate(b) * (k == BABEL_LANE_TRIGGER ? TRIGGER_TIMES : 1);
	struct babel_lane *l = &b->lane[k];

	if (wtime_before(l->slot, now))
		l->slot = now;
	l->slot = wtime_add(l->slot, (int64_t)((uint64_t)n * W_SEC / rate));
	if (wtime_before(b->sustained, now))
		b->sustained = now;
	b->sustained = wtime_add(b->sustained, (int64_t)((uint64_t)n * W_SEC / sustained_rate(b)));
	ifc->lane_at[k] = more && list_empty(&l->waiting) ? now : WTIME_NEVER;
	if (more && !list_empty(&l->waiting))
		list_add_tail(&l->waiting, &ifc->lane_wait[k]);
	lane_turn(b, k, now);
}

/* The only neighbour announces the prefix itself, and better than it would be through us: it takes
 * our route only when its own is lost. In a full mesh that is nearly everybody: n nodes would tell
 * each other n^2 such routes. */
static bool only_spare(const struct babel *b, const struct babel_iface *ifc,
	const struct babel_dest *d)
{
	const struct babel_neighbour *n;
	const struct babel_route *r;

	if (d->own || !d->selected || ifc->neighbour_count != 1)
		return false;
	n = container_of(ifc->neighbours.next, struct babel_neighbour, by_iface);
	r = babel_route_find(b, d, n);
	return r && r != d->selected && r->advertised != BABEL_INFINITY &&
		r->advertised <= (uint32_t)d->metric + n->cost;
}

/* Triggered updates that have no haste go with the dumps; one that is running gets to them. */
static void sort_out_spares(struct babel *b, struct babel_iface *ifc, wtime now)
{
	bool any = false;

	for (size_t i = next_bit(b, ifc, BABEL_BIT_PENDING, 0); i < b->dest_cap;
		i = next_bit(b, ifc, BABEL_BIT_PENDING, i + 1)) {
		if (babel_bit(ifc, BABEL_BIT_URGENT, i) || !only_spare(b, ifc, b->dest[i]))
			continue;
		babel_bit_clear(ifc, BABEL_BIT_PENDING, i);
		if (ifc->dump_next != BABEL_NO_DUMP && ifc->dump_next <= i)
			continue;
		babel_bit_set(ifc, BABEL_BIT_SPARE, i);
		any = true;
	}
	if (any && ifc->lane_at[BABEL_LANE_DUMP].us == WTIME_NEVER.us)
		lane_soon(b, ifc, BABEL_LANE_DUMP, now);
}

static void write_triggered(struct babel *b, struct babel_iface *ifc, struct babel_build *w,
	wtime now)
{
	size_t left = TRIGGER_CHUNK;

	if (!wtime_due(ifc->lane_at[BABEL_LANE_TRIGGER], now))
		return;
	sort_out_spares(b, ifc, now);
	if (!lane_open(b, ifc, BABEL_LANE_TRIGGER, now))
		return;
	(void)write_bits(b, ifc, BABEL_BIT_PENDING, w, &left, now);
	spend(b, ifc, BABEL_LANE_TRIGGER, TRIGGER_CHUNK - left,
		next_bit(b, ifc, BABEL_BIT_PENDING, 0) < b->dest_cap, now);
}

/* A piece of a full dump. False: no room left. */
static bool dump_on(struct babel *b, struct babel_iface *ifc, struct babel_build *w, size_t *left,
	wtime now)
{
	while (ifc->dump_next < b->dest_cap && *left) {
		struct babel_dest *d = b->dest[ifc->dump_next];
		int did = d ? write_one(b, ifc, d, w, now) : 0;

		if (did < 0)
			return false;
		*left -= (size_t)did;
		ifc->dump_next++;
	}
	if (ifc->dump_next >= b->dest_cap)
		ifc->dump_next = BABEL_NO_DUMP;
	return true;
}

static void write_dump(struct babel *b, struct babel_iface *ifc, struct babel_build *w, wtime now)
{
	size_t left = BABEL_DUMP_CHUNK, spare = BABEL_SPARE_CHUNK;

	if (!lane_open(b, ifc, BABEL_LANE_DUMP, now))
		return;
	if (write_bits(b, ifc, BABEL_BIT_SPARE, w, &spare, now)) {
		left -= BABEL_SPARE_CHUNK - spare;
		(void)dump_on(b, ifc, w, &left, now);
	} else {
		left -= BABEL_SPARE_CHUNK - spare;
	}
	spend(b, ifc, BABEL_LANE_DUMP, BABEL_DUMP_CHUNK - left,
		ifc->dump_next != BABEL_NO_DUMP ||
			next_bit(b, ifc, BABEL_BIT_SPARE, 0) < b->dest_cap,
		now);
}

void babel_write_updates(struct babel *b, struct babel_iface *ifc, struct babel_build *w, wtime now)
{
	size_t left = SIZE_MAX;

	raise_again(b, ifc, now);
	if (wtime_due(ifc->urgent_at, now)) {
		if (!write_bits(b, ifc, BABEL_BIT_URGENT, w, &left, now))
			return;
		ifc->urgent_at = WTIME_NEVER;
	}
	write_triggered(b, ifc, w, now);
	write_dump(b, ifc, w, now);
}
