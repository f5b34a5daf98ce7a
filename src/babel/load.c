/* Round trips that this node's own traffic has made longer, and which of them costs are made of.
 *
 * A link that its own traffic fills has a queue before it, and what is measured then is the queue:
 * to leave it would end the cause, and bring the traffic back. So a sample that was taken while the
 * link carried about as much as it ever did, and more than it is known to carry without a queue, is
 * no news: the costs stay with what was known before. What RFC 9616 measures is told as it is.
 *
 * One sample's way through babel_load_sample():
 *
 *	sample -> weigh: what did the link carry when it went out, and when it came back?
 *	   |        learn_clear: carried with no longer trip, eight times   -> meter.clear
 *	   |        blame: a rise that was believed went with its load      -> carried, clear lower
 *	   |      refutes: a dip before it was too long for any queue       -> n->refuted
 *	   |
 *	   +-- about as much as ever, more than clear, not refuted
 *	   |     -> hold: costs stay; a fall that is seen three times is believed
 *	   +-- the first high one in a row
 *	   |     -> n->pending: judged with the next (release, begins), since a load that
 *	   |        begins just then shows only in what follows
 *	   +-- else -> believe: babel_rtt_sample() on n->calm
 *
 *	rate  ^        ______ carried: most of a whole hello interval, forgotten slowly
 *	      |  full  ------ 3/4 of it: from here on a load explains a queue
 *	      |        ...... clear + 1/8: below it is known that there is none
 *	      |  dip   ______ 0.65 of carried: a queue gets shorter (left_over)
 *	      +------- 32 kB/s: no load at all
 *
 * What a link carries is known by its bytes in slots of time, for the link and for all links of the
 * same local endpoint, which share a way out. The round trip of a sample went out when the other
 * end's IHU says, and came back now: what was sent counts then, what was received counts now.
 *
 * The load is no explanation when the link is known to carry it without a queue (eight samples not
 * above the others), when it carries clearly less than it could, when just before the sample so
 * little went out that the longest queue there has been must have become shorter than the sample
 * says, or when the round trip is shorter. If a longer round trip was believed and goes away with
 * the load, it was the load after all, and that is remembered. What cannot be seen: a way that
 * becomes longer by less than the queue that stands in front of it, or whose load grows into it
 * between two samples; then all is as before until the load lets go. */
#include "babel/babel_priv.h"

#include <string.h>

enum {
	FLOOR = 32000,        /* bytes/s; below it is no load */
	SLOTS_A_HELLO = 16,   /* of time */
	SLOT_MIN_US = 90000,  /* not finer than the reports */
	AROUND = 4,           /* slots: a sample meets what went out a little before it, too */
	CLEAR_SAMPLES = 8,    /* no longer than others: the link carries this without a queue */
	CLEAR_US = 2000,      /* or half the noise */
	CLEAR_PART = 8,       /* more than clear by this part is more */
	FULL_OF = 4,          /* full is 3 of 4 parts of what it has carried */
	FORGET_PART = 8192,   /* of a slot: half of it in about 24 minutes at the default hello */
	RISE_MIN_US = 2000,   /* as the step rule has it */
	UNSEEN = 4,           /* a queue may have been so many times as long as it is now */
	LONGEST_PART = 64,    /* of the longest queue is forgotten with a sample */
	FALLS = 3,            /* shorter in a row under load: believed */
	BLAME_US = 120000000, /* a rise that goes with the load so soon was made by it */
	BLAME_PART = 4,
	QUEUE_LOSS_US = 60000000, /* two spans in which the data path measures loss */
};

#define DIP    0.65 /* of what a link carries: below, its queue gets shorter */
#define NEARLY 0.9

/* Rates at the time of a sample, and what they mean. */
struct burden {
	uint32_t rate[BABEL_METERS];
	bool busy;   /* there is a load worth the name */
	bool loaded; /* it explains a longer round trip */
	bool by[BABEL_METERS];
};

/* ---- rates ---- */

static int64_t slot_us(const struct babel_iface *ifc)
{
	int64_t us = ifc->c.hello_us / SLOTS_A_HELLO;

	return us > SLOT_MIN_US ? us : SLOT_MIN_US;
}

/* The i-th newest slot. */
static const struct babel_slot *slot(const struct babel_load *l, unsigned int i)
{
	return &l->slot[(l->next + BABEL_SLOTS - 1 - i) % BABEL_SLOTS];
}

/* What the link carried for a whole hello interval at least: the lowest of its quarters. A burst
 * that fills a queue is no capacity. */
static void learn_carried(struct babel_load *l, unsigned int m)
{
	enum { QUARTERS = 4, SLOTS = SLOTS_A_HELLO / QUARTERS };
	struct babel_meter *t = &l->meter[m];
	uint32_t low = UINT32_MAX;

	t->carried -= t->carried / FORGET_PART;
	t->clear -= t->clear / FORGET_PART;
	if (l->count < SLOTS_A_HELLO)
		return;
	for (unsigned int q = 0; q < QUARTERS; q++) {
		uint64_t sum = 0;

		for (unsigned int i = 0; i < SLOTS; i++)
			sum += slot(l, q * SLOTS + i)->rate[m];
		low = sum / SLOTS < low ? (uint32_t)(sum / SLOTS) : low;
	}
	t->carried = low > t->carried ? low : t->carried;
}

/* From this rate on a load explains a queue. */
static bool is_full(const struct babel_meter *t, uint32_t rate)
{
	return rate >= FLOOR && rate >= t->carried - t->carried / FULL_OF;
}

wtime babel_iface_traffic(struct babel *b, uint32_t iface,
	const uint64_t bytes[static BABEL_METERS], wtime now)
{
	struct babel_iface *ifc = babel_iface_find(b, iface);
	struct babel_load *l = ifc ? &ifc->load : NULL;
	struct babel_slot *s;
	int64_t took;

	if (!l)
		return now;
	took = wtime_diff(now, l->at);
	if (l->known && took < slot_us(ifc))
		return wtime_add(l->at, slot_us(ifc));
	s = &l->slot[l->next];
	s->end = now;
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		uint64_t n = bytes[m] > l->meter[m].last ? bytes[m] - l->meter[m].last : 0;
		double rate = (double)n * 1e6 / (double)took;

		s->rate[m] = rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;
		l->meter[m].last = bytes[m];
	}
	l->at = now;
	if (!l->known) { /* since when it had carried that is not known */
		l->known = true;
		return wtime_add(now, slot_us(ifc));
	}
	l->next = (l->next + 1) % BABEL_SLOTS;
	l->count += l->count < BABEL_SLOTS;
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		const struct babel_meter *t = &l->meter[m];

		learn_carried(l, m);
		if (is_full(t, s->rate[m]))
			l->full_at = now;
	}
	return wtime_add(now, slot_us(ifc));
}

/* The highest rate of a slot that has a part in from..to; both may lie before all slots. */
static uint32_t peak(const struct babel_load *l, unsigned int m, wtime from, wtime to)
{
	uint32_t most = 0;

	for (unsigned int i = 0; i < l->count; i++) {
		const struct babel_slot *s = slot(l, i);
		bool last = i + 1 == l->count;

		if (wtime_before(s->end, from) && !last)
			break;
		/* a slot begins where the one before ends */
		if ((last || !wtime_before(to, slot(l, i + 1)->end)) && s->rate[m] > most)
			most = s->rate[m];
	}
	return most;
}

/* When a sample met what a meter counts: on its way out, or when it came back. */
static wtime meets(unsigned int m, const struct babel_round *r)
{
	return m == BABEL_LINK_OUT || m == BABEL_SHARED_OUT ? r->sent : r->at;
}

/* before, after: how much more than the sample's own way through a queue is looked at. */
static void weigh(const struct babel_iface *ifc, const struct babel_round *r, int64_t before,
	int64_t after, struct burden *ret)
{
	const struct babel_load *l = &ifc->load;

	*ret = (struct burden){0};
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		wtime when = meets(m, r);
		uint32_t rate = peak(l, m, wtime_add(when, -r->us - before),
			wtime_add(when, after));
		const struct babel_meter *t = &l->meter[m];

		ret->rate[m] = rate;
		if (rate < FLOOR)
			continue;
		ret->busy = true;
		ret->by[m] = is_full(t, rate) && rate > t->clear + t->clear / CLEAR_PART;
		ret->loaded |= ret->by[m];
	}
}

/* ---- what is learned from samples ---- */

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void learn_clear(struct babel_load *l, const struct babel_rtt *calm, const struct burden *w,
	int64_t us)
{
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		struct babel_meter *t = &l->meter[m];

		if (w->rate[m] < FLOOR)
			continue;
		t->run_low = !t->run || w->rate[m] < t->run_low ? w->rate[m] : t->run_low;
		t->run_over += us - calm->used;
		if (++t->run < CLEAR_SAMPLES)
			continue;
		if (t->run_over / CLEAR_SAMPLES <= larger(CLEAR_US, calm->deviation / 2) &&
			t->run_low > t->clear)
			t->clear = t->run_low;
		t->run = 0;
		t->run_over = 0;
	}
}

/* A rise that was believed and went away with the load. */
static void blame(struct babel_neighbour *n, const struct burden *w, int64_t us, wtime at)
{
	struct babel_load *l = &n->ifc->load;
	struct babel_risen *r = &n->risen;

	if (!r->since.us || wtime_diff(at, r->since) > BLAME_US)
		return;
	for (unsigned int m = 0; m < BABEL_METERS; m++)
		if (w->rate[m] > r->rate[m] / 2)
			return;
	if (us > r->from + (n->calm.used - r->from) / BLAME_PART)
		return;
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		struct babel_meter *t = &l->meter[m];

		t->carried = r->rate[m] && r->rate[m] < t->carried ? r->rate[m] : t->carried;
		t->clear = r->rate[m] / 2 < t->clear ? r->rate[m] / 2 : t->clear;
	}
	r->since = (wtime){0};
}

/* Gives a sample to what costs are made of, and remembers under which load that rose. */
static bool believe(struct babel_neighbour *n, const struct burden *w, const struct babel_round *s)
{
	struct babel_risen *r = &n->risen;
	int64_t before = n->calm.used;
	/* when a queue is no explanation of one sample, it may be a part of the next */
	int64_t us = n->refuted && n->refuted < s->us ? n->refuted : s->us;
	wtime at = s->at;
	bool step = babel_rtt_sample(&n->calm, us, at);

	if (!w->busy || n->calm.used <= before + RISE_MIN_US)
		return step;
	if (!r->since.us || wtime_diff(at, r->since) > BLAME_US) {
		memset(r, 0, sizeof(*r));
		r->from = before;
	}
	r->since = at;
	for (unsigned int m = 0; m < BABEL_METERS; m++)
		r->rate[m] = w->rate[m] > r->rate[m] ? w->rate[m] : r->rate[m];
	return step;
}

/* Under a load that explains more: what is shorter three times is believed. */
static bool hold(struct babel_neighbour *n, const struct burden *w, const struct babel_round *r,
	bool high)
{
	int64_t noise = larger(n->calm.deviation * 6 / 5, RISE_MIN_US);
	int64_t low = larger(n->calm.sample[0], n->calm.sample[1]);

	if (high) {
		n->ifc->load.held_at = r->at;
		n->longest = larger(n->longest - n->longest / LONGEST_PART, r->us - n->calm.used);
	}
	n->held = high;
	if (!n->holding && n->calm.count > 1 && low < n->calm.used - n->calm.used / 4 - noise) {
		/* a fall was on its way, and what comes now cannot confirm it */
		n->holding = true;
		n->calm.valid = false;
		return babel_rtt_sample(&n->calm, low, r->at);
	}
	n->holding = true;
	n->pending.us = 0;
	if (r->us < n->calm.used / 2 - noise)
		n->falls = FALLS; /* that far is no noise */
	else
		n->falls = (uint8_t)(r->us < n->calm.used - noise ? n->falls + (n->falls < FALLS)
								  : 0);
	return n->falls == FALLS && believe(n, w, r);
}

/* The first sample of a rise waits for the next one: a load that began just then shows only in what
 * follows. */
static bool release(struct babel_neighbour *n, int64_t around)
{
	struct babel_round r = n->pending;
	struct burden w;

	n->pending.us = 0;
	if (!r.us)
		return false;
	weigh(n->ifc, &r, around, around, &w);
	return (!w.loaded || n->refuted) && believe(n, &w, &r);
}

/* What is left at least of a queue (us) that one meter's link had, by the time in which so little
 * went over the link, up to when, that it must have become shorter. */
static int64_t left_over(const struct babel_load *l, unsigned int m, wtime when, int64_t queue)
{
	double q = (double)queue, full = l->meter[m].carried;

	for (unsigned int i = 0; i + 1 < l->count; i++) {
		const struct babel_slot *s = slot(l, i);
		double took = (double)wtime_diff(s->end, slot(l, i + 1)->end);

		if (wtime_before(when, s->end))
			continue;
		if (s->rate[m] >= full * DIP)
			break;
		q -= (full * NEARLY - s->rate[m]) / full * took;
	}
	return q > 0 ? (int64_t)q : 0;
}

/* Just before this sample so little went over the link that a queue, be it as long as it has ever
 * been, must have become shorter than the sample says. */
static bool refutes(const struct babel_neighbour *n, const struct babel_round *r)
{
	int64_t over = r->us - n->calm.used;
	/* its longest moment was hardly met by a sample */
	int64_t queue = larger(over * UNSEEN, n->longest * 5 / 4);
	struct burden w;

	if (!n->held)
		return false;
	weigh(n->ifc, r, n->ifc->c.hello_us, 0, &w);
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		if (w.by[m] && left_over(&n->ifc->load, m, meets(m, r), queue) > over / 2)
			return false;
	}
	return w.loaded;
}

/* The load has begun so shortly before the sample that its slots show a part of it. */
static bool begins(const struct babel_iface *ifc, const struct babel_round *r, int64_t around)
{
	for (unsigned int m = 0; m < BABEL_METERS; m++) {
		wtime when = meets(m, r);

		if (peak(&ifc->load, m, wtime_add(when, -3 * around), wtime_add(when, -around)) >=
			FLOOR)
			return false;
	}
	return true;
}

bool babel_load_sample(struct babel_neighbour *n, const struct babel_round *r)
{
	const struct babel_rtt *c = &n->calm;
	struct babel_load *l = &n->ifc->load;
	int64_t around = AROUND * slot_us(n->ifc);
	struct burden w;
	bool high, step;

	l->sampled_at = r->at;
	if (!l->known || !c->valid) {
		n->pending.us = 0;
		return babel_rtt_sample(&n->calm, r->us, r->at);
	}
	weigh(n->ifc, r, around, 0, &w);
	learn_clear(l, c, &w, r->us);
	blame(n, &w, r->us, r->at);
	high = r->us > c->used + larger(RISE_MIN_US, c->used / 2);
	/* what begins now is judged by the next sample: see below */
	if (high && !n->refuted && !(w.busy && !w.loaded && begins(n->ifc, r, around)) &&
		refutes(n, r))
		n->refuted = r->us;
	else if (n->refuted && r->us < (c->used + n->refuted) / 2)
		n->refuted = 0;
	if (w.loaded && !n->refuted)
		return hold(n, &w, r, high);
	n->falls = 0;
	n->holding = false;
	if (high && !n->rising && !n->refuted) {
		n->rising = true;
		n->pending = *r;
		return false;
	}
	step = release(n, around);
	n->rising = high;
	n->held = n->held && high;
	step |= believe(n, &w, r);
	if (step) {
		n->refuted = 0;
		n->held = n->rising = false;
	}
	return step;
}

/* A load fills a meter, or has within a time. */
static bool fills(const struct babel_load *l, unsigned int m, wtime since, wtime now)
{
	const struct babel_meter *t = &l->meter[m];
	uint32_t rate = l->known ? peak(l, m, since, now) : 0;

	return is_full(t, rate);
}

bool babel_load_receives(const struct babel_iface *ifc, wtime now)
{
	wtime since = wtime_add(now, -ifc->c.hello_us);

	return !wtime_before(ifc->load.at, since) && fills(&ifc->load, BABEL_LINK_IN, since, now);
}

double babel_load_loss(const struct babel_iface *ifc, double before, double loss, bool of_hellos,
	wtime now)
{
	const struct babel_load *l = &ifc->load;
	bool full = l->full_at.us && wtime_diff(now, l->full_at) <= BABEL_HISTORY * ifc->c.hello_us;
	/* when the queue drops all that would be a sample, the last one holds as long as the load
	 */
	bool queue = l->held_at.us &&
		(wtime_diff(now, l->held_at) <= QUEUE_LOSS_US ||
			(full && !wtime_before(l->held_at, l->sampled_at)));

	/* a link with traffic has its loss measured: what its queue does to some hellos says less
	 */
	queue |= of_hellos && full;
	if (!queue || loss < before)
		return loss;
	return before > 0 ? before : 0;
}
