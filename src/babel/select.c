/* Route selection (RFC 8966 3.6, A.3) and what follows from it: events, triggered updates and
 * retractions (3.7.2), requests (3.8.2), the hold of a prefix without a route (3.5.4).
 *
 * A route replaces another only when both its metric and its smoothed metric are better by more
 * than a fixed margin. Coming back to the next hop that was just left is slowed down more and more,
 * so that a path that is only worse while it carries the traffic does not swing for ever. */
#include "babel/babel_priv.h"

#include <string.h>

enum {
	FLIGHTS_FREE = 1,
	FLIGHTS_MAX = 7,
	RETURN_US = 60 * 1000000, /* after the second flight; doubled with each */
	RECHECK_PARTS = 4,        /* of a hello interval */
	SIGNIFICANT = 16,         /* 4 ms of the default map */
	SIGNIFICANT_PARTS = 16,   /* and this part of the metric */
};
static const int64_t FLIGHTS_FORGOTTEN_US = INT64_C(1800) * 1000000;

static bool feasible(const struct babel_route *r)
{
	return babel_feasible(r->dest, r->router_id, r->seqno, r->advertised);
}

static bool wins(uint32_t a, uint32_t b, uint32_t scale)
{
	return a + BABEL_MARGIN * scale < b;
}

static struct babel_flight *flight_from(struct babel_dest *d, uint32_t neighbour)
{
	for (int i = 0; i < BABEL_FLIGHTS; i++) {
		if (d->fled[i].neighbour == neighbour)
			return &d->fled[i];
	}
	return NULL;
}

static bool may_return(const struct babel_route *r, wtime now)
{
	const struct babel_flight *f = flight_from(r->dest, r->neighbour->serial);

	if (!f || f->times <= FLIGHTS_FREE)
		return true;
	return wtime_due(wtime_add(f->at, (int64_t)RETURN_US << (f->times - FLIGHTS_FREE - 1)),
		now);
}

struct scan {
	struct babel_route *current; /* selected, and still to be used */
	struct babel_route *best, *winner;
	struct babel_route *wish; /* the best that is not feasible */
	bool wait;                /* one may win later, with no message coming in */
};

static void scan_route(struct scan *s, struct babel_route *r, wtime now)
{
	uint16_t m = babel_route_metric(r);

	babel_route_smooth(r, now);
	if (m == BABEL_INFINITY)
		return;
	if (!feasible(r)) {
		if (!s->wish || m < babel_route_metric(s->wish))
			s->wish = r;
		return;
	}
	if (!s->best || m < babel_route_metric(s->best) ||
		(m == babel_route_metric(s->best) && r->smooth < s->best->smooth))
		s->best = r;
	if (!s->current || r == s->current || !wins(m, babel_route_metric(s->current), 1))
		return;
	if (wins(r->smooth, s->current->smooth, BABEL_SMOOTH_SCALE) && may_return(r, now)) {
		if (!s->winner || m < babel_route_metric(s->winner))
			s->winner = r;
	} else {
		s->wait = true;
	}
}

static void mark_event(struct babel *b, struct babel_dest *d)
{
	bool same = d->state == d->told && (d->state != BABEL_ROUTED || !d->changed);

	if (!same && list_empty(&d->event))
		list_add_tail(&b->route_events, &d->event);
}

static bool significant(uint16_t new, uint16_t old)
{
	uint32_t diff = new > old ? (uint32_t) new - old : (uint32_t)old - new;

	return diff >= SIGNIFICANT && diff * SIGNIFICANT_PARTS >= old;
}

/* RFC 8966 3.7.2. */
static void offer(struct babel *b, struct babel_dest *d, wtime now)
{
	const struct babel_route *r = d->selected;
	bool finite = d->own || (r && b->c.transit);
	uint16_t metric = d->own ? d->own_metric : d->metric;
	const uint8_t *id = d->own ? b->c.router_id : r ? r->router_id : NULL;
	bool other;

	if (!finite || !id) {
		if (d->offered)
			babel_announce(b, d, true, now);
		d->offered = false;
		return;
	}
	other = d->offered && memcmp(d->offered_id, id, sizeof(d->offered_id)) != 0;
	if (d->offered && !other && !significant(metric, d->offered_metric))
		return;
	babel_announce(b, d, other, now);
	d->offered = true;
	d->offered_metric = metric;
	memcpy(d->offered_id, id, sizeof(d->offered_id));
}

/* The route in use, alive and worse than when it was taken, is left for another. */
static void count_flight(struct babel_dest *d, wtime now)
{
	struct babel_flight *f = flight_from(d, d->selected->neighbour->serial);

	if (!f) {
		f = &d->fled[wtime_before(d->fled[1].at, d->fled[0].at)];
		*f = (struct babel_flight){.neighbour = d->selected->neighbour->serial};
	} else if (wtime_diff(now, f->at) > FLIGHTS_FORGOTTEN_US) {
		f->times = 0;
	}
	f->times += f->times < FLIGHTS_MAX;
	f->at = now;
}

static void count_switch(struct babel *b, struct babel_dest *d, const struct babel_route *r,
	wtime now)
{
	uint16_t was = d->selected ? babel_route_metric(d->selected) : BABEL_INFINITY;

	if (was != BABEL_INFINITY && wins(d->taken_metric, was, 1))
		count_flight(d, now);
	d->taken_metric = babel_route_metric(r);
	if (r->neighbour->serial == d->user)
		return;
	if (d->user)
		b->stats.route_changes++;
	d->user = r->neighbour->serial;
}

/* ---- backups: what whoever forwards may use as soon as the link of the selected route dies. A
 * feasible route makes no loop (RFC 8966 2.4), whether or not it is the best one. ---- */

static bool may_back(const struct babel_dest *d, const struct babel_route *r)
{
	return d->selected && r->neighbour->ifc != d->selected->neighbour->ifc &&
		babel_route_metric(r) != BABEL_INFINITY && feasible(r);
}

/* The present one stays unless another is clearly better: it is in use only for a moment. */
static bool better_backup(const struct babel_route *r, const struct babel_route *than)
{
	return !than || babel_route_metric(r) * 2 < babel_route_metric(than);
}

static void set_backup(struct babel *b, struct babel_dest *d, struct babel_route *r)
{
	if (d->backup == r)
		return;
	d->backup = r;
	d->changed = true;
	mark_event(b, d);
}

static void find_backup(struct babel *b, struct babel_dest *d)
{
	struct babel_route *best = d->backup && may_back(d, d->backup) ? d->backup : NULL;

	for (size_t i = 0; d->selected && i < d->n; i++)
		if (d->route[i] != best && may_back(d, d->route[i]) &&
			better_backup(d->route[i], best))
			best = d->route[i];
	set_backup(b, d, best);
}

void babel_backup_check(struct babel *b, struct babel_dest *d)
{
	if (d->backup && !may_back(d, d->backup))
		find_backup(b, d);
}

/* A route that is not selected has changed. */
static void look_for_backup(struct babel *b, struct babel_dest *d, struct babel_route *r)
{
	if (r == d->backup)
		babel_backup_check(b, d);
	else if (may_back(d, r) && better_backup(r, d->backup))
		set_backup(b, d, r);
}

/* Makes r (or nothing) the route in use. */
static void settle(struct babel *b, struct babel_dest *d, struct babel_route *r, wtime now)
{
	uint16_t metric = r ? babel_route_metric(r) : BABEL_INFINITY;

	d->changed |= r != d->selected || metric != d->metric;
	if (r && r != d->selected) {
		r->since = now;
		count_switch(b, d, r, now);
	}
	d->selected = r;
	d->metric = metric;
	babel_timer_set(b, &d->hold, WTIME_NEVER);
	if (r) {
		d->state = BABEL_ROUTED;
	} else if (d->own || d->state == BABEL_GONE || wtime_due(d->announced_until, now)) {
		d->state = BABEL_GONE;
	} else { /* RFC 8966 3.5.4: until nobody can believe that it goes through here */
		d->state = BABEL_UNREACHABLE;
		babel_timer_set(b, &d->hold, d->announced_until);
	}
	mark_event(b, d);
	offer(b, d, now);
}

void babel_dest_hold_over(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_dest *d = container_of(t, struct babel_dest, hold);

	(void)now;
	d->state = BABEL_GONE;
	mark_event(b, d);
	babel_dest_put(b, d);
}

void babel_dest_recheck(struct babel *b, struct babel_timer *t, wtime now)
{
	babel_select(b, container_of(t, struct babel_dest, recheck), now);
}

/* A speaker that starts has no feasibility distances. If it ran a moment ago, others may still have
 * routes through it, and to follow one of them back would be a loop. It has told them at once that
 * its routes are void; until that has spread it selects nothing. */
void babel_select(struct babel *b, struct babel_dest *d, wtime now)
{
	struct babel_route *old = d->selected, *r;
	struct scan s = {0};
	uint8_t lost[8];

	if (!d->own && wtime_before(now, b->settled)) {
		babel_timer_set(b, &d->recheck, b->settled);
		return;
	}
	if (old)
		memcpy(lost, old->router_id, sizeof(lost));
	if (old && babel_route_metric(old) != BABEL_INFINITY && feasible(old))
		s.current = old;
	if (s.current)
		babel_route_smooth(s.current, now);
	for (size_t i = 0; i < d->n; i++)
		scan_route(&s, d->route[i], now);
	r = s.winner ? s.winner : s.current ? s.current : s.best;
	if (d->own)
		r = NULL;
	babel_timer_set(b, &d->recheck,
		s.wait && r && !s.winner
			? wtime_add(now, r->neighbour->ifc->c.hello_us / RECHECK_PARTS)
			: WTIME_NEVER);
	settle(b, d, r, now);
	find_backup(b, d);
	if (d->own)
		return;
	if (old && r && r != old && !s.current)
		babel_doubt_moved(b, r, now);
	if (!r && (old || s.wish)) /* RFC 8966 3.8.2.1 */
		babel_request_starving(b, d, old ? lost : s.wish->router_id, now);
	else if (r && s.wish && wins(babel_route_metric(s.wish), d->metric, 1))
		babel_request_one(b, s.wish, now); /* 3.8.2.2 */
}

void babel_route_changed(struct babel *b, struct babel_route *r, wtime now)
{
	struct babel_dest *d = r->dest;
	uint16_t m = babel_route_metric(r);

	if (d->own)
		return;
	if (d->selected == r && m != BABEL_INFINITY && m <= d->metric && feasible(r)) {
		/* what was best got no worse */
		settle(b, d, r, now);
		return;
	}
	if (d->selected && d->selected != r && !wins(m, d->metric, 1)) {
		look_for_backup(b, d, r);
		return;
	}
	babel_select(b, d, now);
}

void babel_select_awaited(struct babel *b, struct babel_route *r, wtime now)
{
	struct babel_dest *d = r->dest;
	uint16_t m = babel_route_metric(r);

	if (d->own || !d->selected || d->selected == r || m == BABEL_INFINITY || !feasible(r) ||
		!wins(m, d->metric, 1))
		return;
	settle(b, d, r, now);
	find_backup(b, d);
}

void babel_dest_told(struct babel *b, struct babel_dest *d)
{
	list_del(&d->event);
	d->told = d->state;
	d->changed = false;
	babel_dest_put(b, d);
}
