/* Networks of Babel speakers under random changes and losses: no loop after any step, no selected
 * route that is not feasible, nobody cut off for long. Deterministic by seed: a failure names it.
 *
 *	WEFT_SEEDS=1-50  these seeds (or one alone), WEFT_HOURS=24  so many virtual hours of each
 */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

enum { NODES = 50, DEGREE = 4, NONE = 0xffff };

/* How long a node may starve at most where there is a way. A request goes at once and again after
 * 2, 4, 8 and 16 s (RFC 8966 appendix B), along the routes that others have. All of them fail only
 * as long as one of those routes leads into a link that has died silently; that one expires after
 * 3.5 update intervals (16 s here; 3.5.4, appendix B), and the next request comes no later than
 * the longest pause after it. Should even those be lost, the feasibility distance is forgotten
 * three minutes after the node's own last update (3.2.5): in the RFC that is the only certain
 * bound. */
enum { UPDATES_S = 16, HOLD_S = UPDATES_S * 7 / 2, RESEND_S = 16 };
#define STARVED_US ((int64_t)(HOLD_S + RESEND_S) * W_SEC)
_Static_assert(STARVED_US < BABEL_SOURCE_GC_US, "tighter than the RFC's");

/* What a node has sent, kept by reading its packets: an account of feasibility distances that
 * shares no code with the one under test but the parser. */
struct distance {
	uint16_t seqno, metric;
	wtime sent;
	bool known;
};

struct world {
	struct bed bed;
	uint64_t seed;
	uint16_t next[NODES][NODES]; /* [node][destination] */
	struct distance told[NODES][NODES];
	struct babel_parsed parsed;
	/* since when it starves, though there is a way; NEVER: it does not */
	wtime starving[NODES][NODES];
	uint16_t part[NODES];         /* nodes with a way to each other have the same */
	int64_t starved_us, apart_us; /* the longest */
	uint64_t starved_s;           /* in all */
	uint16_t starts[NODES];
	uint16_t via[NODES][NODES]; /* the link to the next hop */
	/* an end of the link has started anew, and the other has not heard of it */
	bool stale[NODES * DEGREE];
	uint64_t loops, unfeasible, checks;
	bool quiet;
};

static struct world *world_of(struct bed *t)
{
	return t->ctx;
}

static size_t destination(const struct babel_prefix *p)
{
	return get_u16(p->destination.addr.b + 4);
}

/* A packet is followed from next hop to next hop. Where the link to it is dead it ends: a node that
 * lost its feasibility distances in a restart and another that knows of neither the restart nor the
 * dead link between them may point at each other, but nothing goes round. */
static void check_loop(struct world *w, size_t node, size_t dest)
{
	size_t at = node, last;

	w->checks++;
	for (size_t hops = 0; hops <= NODES; hops++) {
		last = at;
		at = w->next[at][dest];
		if (at == NONE || at == dest || w->bed.link[w->via[last][dest]].down)
			return;
		if (at == node)
			break;
	}
	w->loops++;
	if (w->quiet)
		return;
	print_message("seed %llu: loop at %lld us: node %zu to %zu\n", (unsigned long long)w->seed,
		(long long)w->bed.now.us, node, dest);
}

/* RFC 8966 3.5.1, against what was sent. */
static void check_feasible(struct world *w, size_t node, size_t dest)
{
	struct babel_prefix p = bed_prefix(dest);
	const struct babel_dest *d = babel_dest_find(w->bed.node[node].b, &p);
	const struct distance *t = &w->told[node][dest];
	const struct babel_route *r = d ? d->selected : NULL;

	if (!r || !t->known || wtime_diff(w->bed.now, t->sent) > BABEL_SOURCE_GC_US)
		return;
	if (babel_seqno_less(t->seqno, r->seqno) ||
		(t->seqno == r->seqno && r->advertised < t->metric))
		return;
	w->unfeasible++;
	if (w->quiet)
		return;
	print_message("seed %llu: not feasible at %lld us: node %zu to %zu\n",
		(unsigned long long)w->seed, (long long)w->bed.now.us, node, dest);
}

static void on_event(struct bed *t, size_t node, const struct babel_event *e)
{
	struct world *w = world_of(t);
	size_t dest;

	if (e->type == BABEL_EVENT_NEIGHBOUR || e->type == BABEL_EVENT_DOUBT)
		return;
	dest = destination(&e->prefix);
	w->next[node][dest] = e->type == BABEL_EVENT_ROUTE
		? (uint16_t)(get_u32(e->neighbour.b + 12) - 1)
		: NONE;
	w->via[node][dest] = (uint16_t)(get_u32(e->neighbour.b + 8) - 1);
	check_loop(w, node, dest);
	check_feasible(w, node, dest);
}

static bool on_packet(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct world *w = world_of(t);

	(void)link;
	if (babel_parse(p->data, &p->source, &w->parsed) != BABEL_PARSE_OK || w->parsed.malformed)
		fail_msg("seed %llu: a packet of our own is malformed",
			(unsigned long long)w->seed);
	for (size_t i = 0; i < w->parsed.n; i++) {
		const struct babel_tlv *u = &w->parsed.tlv[i];
		struct distance *d;

		if (u->type != BABEL_TLV_UPDATE || u->update.metric == BABEL_INFINITY)
			continue;
		d = &w->told[from][destination(&u->update.prefix)];
		if (!d->known || wtime_diff(t->now, d->sent) > BABEL_SOURCE_GC_US ||
			babel_seqno_less(d->seqno, u->update.seqno) ||
			(d->seqno == u->update.seqno && u->update.metric < d->metric))
			*d = (struct distance){u->update.seqno, u->update.metric, t->now, true};
		d->sent = t->now;
	}
	return false;
}

static void start(struct world *w, size_t i)
{
	struct babel_config c;

	memset(w->told[i], 0, sizeof(w->told[i]));
	for (size_t k = 0; k < NODES; k++)
		w->next[i][k] = NONE;
	bed_config(&w->bed, i, &c);
	/* newer than any seqno before, as the contract asks */
	c.first_seqno = (uint16_t)(65000 + w->starts[i]);
	w->starts[i] = (uint16_t)(w->starts[i] + 1000);
	bed_start(&w->bed, i, &c);
	bed_originate(&w->bed, i);
}

/* After links were mended: no loop is there now. */
static void links_changed(struct world *w)
{
	for (size_t i = 0; i < NODES; i++)
		for (size_t k = 0; k < NODES; k++)
			if (i != k)
				check_loop(w, i, k);
}

static size_t below(struct bed *t, size_t bound)
{
	uint64_t x = 0;

	(void)rng_below(&t->rng, bound, &x);
	return (size_t)x;
}

static void begin(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	for (size_t i = 0; i < NODES * NODES; i++)
		w->starving[i / NODES][i % NODES] = WTIME_NEVER;
	bed_begin(&w->bed, NODES, seed);
	w->bed.ctx = w;
	w->bed.event = on_event;
	w->bed.lose = on_packet;
	for (size_t i = 0; i < NODES; i++)
		bed_link(&w->bed, i, (i + 1) % NODES, (int64_t)(1 + below(&w->bed, 80)) * W_MS);
	while (w->bed.links < NODES * DEGREE / 2) {
		size_t a = below(&w->bed, NODES), b = below(&w->bed, NODES);

		if (a != b)
			bed_link(&w->bed, a, b, (int64_t)(1 + below(&w->bed, 80)) * W_MS);
	}
	for (size_t i = 0; i < NODES; i++)
		start(w, i);
}

static void end(struct world *w)
{
	babel_parsed_free(&w->parsed);
	bed_end(&w->bed);
}

static void alive(struct world *w, size_t link, bool is)
{
	const struct bed_link *l = &w->bed.link[link];

	for (size_t e = 0; e < l->ends; e++) {
		if (w->bed.node[l->node[e]].off)
			continue;
		babel_iface_alive(w->bed.node[l->node[e]].b, (uint32_t)link + 1, is, w->bed.now);
		bed_touch(&w->bed, l->node[e]);
	}
}

/* A link carries packets, again or since an end of it has started anew. New keys come first: who is
 * told by them that the other end has started anew forgets what it had over this link, as a node
 * does. Without that a lost hello is enough for a loop: who starts has no feasibility distances,
 * takes what the other end has through it, and the other end may still come back to that. */
static void mend(struct world *w, size_t link)
{
	w->bed.link[link].down = false;
	if (w->stale[link])
		alive(w, link, false);
	w->stale[link] = false;
	alive(w, link, true);
}

static void restart(struct world *w, size_t i)
{
	if (w->bed.node[i].off)
		return;
	for (size_t k = 0; k < NODES; k++)
		w->next[i][k] = NONE;
	bed_stop(&w->bed, i);
	bed_run(&w->bed, (int64_t)below(&w->bed, 5000) * W_MS);
	start(w, i);
	for (size_t k = 0; k < w->bed.links; k++) {
		const struct bed_link *l = &w->bed.link[k];

		if (l->node[0] != i && l->node[1] != i)
			continue;
		w->stale[k] = true;
		if (!l->down)
			mend(w, k);
	}
}

/* One thing that happens to the network. */
static void change(struct world *w)
{
	size_t link = below(&w->bed, w->bed.links);
	struct bed_link *l = &w->bed.link[link];

	switch (below(&w->bed, 10)) {
	case 0:
	case 1: /* fails, and both ends know */
		l->down = true;
		alive(w, link, false);
		break;
	case 2:
	case 3: /* fails silently */
		l->down = true;
		break;
	case 4:
	case 5:
		l->delay_us = (int64_t)(1 + below(&w->bed, 150)) * W_MS;
		break;
	case 6:
		l->loss = bed_chance(&w->bed) / 3;
		l->jitter_us = (int64_t)below(&w->bed, 40) * W_MS;
		break;
	case 7: /* a node starts anew */
		restart(w, below(&w->bed, NODES));
		break;
	default: /* some are mended */
		for (size_t i = 0; i < w->bed.links; i++) {
			if (w->bed.link[i].down && !below(&w->bed, 4))
				mend(w, i);
		}
	}
	links_changed(w);
}

static void mend_all(struct world *w)
{
	for (size_t i = 0; i < w->bed.links; i++) {
		w->bed.link[i].loss = 0;
		mend(w, i);
	}
	links_changed(w);
}

static size_t unreached(struct world *w)
{
	size_t n = 0;

	for (size_t i = 0; i < NODES; i++) {
		for (size_t k = 0; k < NODES; k++) {
			size_t at = i, hops = 0;

			while (at != k && at != NONE && hops++ < NODES)
				at = w->next[at][k];
			n += at != k;
		}
	}
	return n;
}

static bool complete(struct bed *t)
{
	return unreached(world_of(t)) == 0;
}

/* A node starves when it has routes and none of them is feasible (RFC 8966 3.8.2.1). */
static bool starves(struct world *w, size_t node, size_t dest)
{
	const struct babel_dest *d;
	struct babel_prefix p;

	if (node == dest || w->next[node][dest] != NONE || w->bed.node[node].off)
		return false;
	p = bed_prefix(dest);
	d = babel_dest_find(w->bed.node[node].b, &p);
	for (size_t i = 0; d && !d->selected && i < d->n; i++) {
		if (babel_route_metric(d->route[i]) != BABEL_INFINITY)
			return true;
	}
	return false;
}

/* Which nodes have a way to each other, as links and nodes really are. */
static void find_parts(struct world *w)
{
	bool again = true;

	for (size_t i = 0; i < NODES; i++)
		w->part[i] = (uint16_t)i;
	while (again) {
		again = false;
		for (size_t i = 0; i < w->bed.links; i++) {
			const struct bed_link *l = &w->bed.link[i];
			uint16_t *a = &w->part[l->node[0]], *b = &w->part[l->node[1]];

			if (l->down || w->bed.node[l->node[0]].off || w->bed.node[l->node[1]].off ||
				*a == *b)
				continue;
			*a = *b = *a < *b ? *a : *b;
			again = true;
		}
	}
}

/* Who is cut off has nothing to wait for but the end of what others still believe: only where there
 * is a way does time count, from when there is one. */
static void watch_starving(struct world *w)
{
	find_parts(w);
	for (size_t i = 0; i < NODES; i++) {
		for (size_t k = 0; k < NODES; k++) {
			wtime *since = &w->starving[i][k];
			int64_t us;

			if (w->part[i] != w->part[k] || !starves(w, i, k)) {
				*since = WTIME_NEVER;
				continue;
			}
			*since = wtime_min(*since, w->bed.now);
			us = wtime_diff(w->bed.now, *since);
			w->starved_us = us > w->starved_us ? us : w->starved_us;
			w->starved_s++;
		}
	}
}

static void run(struct world *w, int64_t us)
{
	for (; us > 0; us -= W_SEC) {
		bed_run(&w->bed, us < W_SEC ? us : W_SEC);
		watch_starving(w);
	}
}

static void judge(struct world *w)
{
	unsigned long long seed = w->seed;

	if (w->starved_us > STARVED_US)
		fail_msg("seed %llu: a node starved for %lld s", seed,
			(long long)(w->starved_us / W_SEC));
	if (w->loops || w->unfeasible)
		fail_msg("seed %llu: %llu loops, %llu not feasible", seed,
			(unsigned long long)w->loops, (unsigned long long)w->unfeasible);
	assert_true(w->checks > 1000);
}

static void one_seed(struct world *w, uint64_t seed, int64_t hours)
{
	begin(w, seed);
	bed_run(&w->bed, 60 * W_SEC);
	if (unreached(w))
		fail_msg("seed %llu: %zu pairs apart after a minute", (unsigned long long)seed,
			unreached(w));
	for (int64_t quarter = 0; quarter < 4 * hours; quarter++) {
		wtime until = wtime_add(w->bed.now, 720 * W_SEC);
		int64_t took;

		while (wtime_before(w->bed.now, until)) {
			change(w);
			run(w, (int64_t)below(&w->bed, 20000) * W_MS);
		}
		mend_all(w);
		took = bed_until(&w->bed, complete, BABEL_SOURCE_GC_US);
		if (took < 0)
			fail_msg("seed %llu: %zu pairs apart for three minutes",
				(unsigned long long)seed, unreached(w));
		w->apart_us = took > w->apart_us ? took : w->apart_us;
	}
	judge(w);
	print_message("seed %llu: %lld h, %llu checks; mended after %.1f s, starved %lld s at "
		      "most, %llu s in all\n",
		(unsigned long long)seed, (long long)hours, (unsigned long long)w->checks,
		(double)w->apart_us / W_SEC, (long long)(w->starved_us / W_SEC),
		(unsigned long long)w->starved_s);
	end(w);
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : otherwise;
}

static void never_a_loop(void **state)
{
	enum { SEEDS = 6 };
	const char *seeds = getenv("WEFT_SEEDS");
	const char *last = seeds ? strchr(seeds, '-') : NULL;
	uint64_t from = env_number("WEFT_SEEDS", 1), to = seeds ? from : SEEDS;
	struct world *w = malloc(sizeof(*w));

	(void)state;
	assert_non_null(w);
	to = last ? strtoull(last + 1, NULL, 10) : to;
	for (uint64_t seed = from; seed <= to; seed++)
		one_seed(w, seed, (int64_t)env_number("WEFT_HOURS", 1));
	free(w);
}

/* ---- the checks themselves ------------------------------------------------------------------ */

/* Forgets all feasibility distances of a node: every route is feasible then. */
static void forget(struct bed *t, size_t node)
{
	struct babel *b = t->node[node].b;

	for (size_t i = 0; i < b->dest_cap; i++) {
		if (!b->dest[i])
			continue;
		list_for_each_safe (it, &b->dest[i]->sources)
			babel_source_free(b, container_of(it, struct babel_source, link));
	}
}

static void broken_speakers_are_caught(void **state)
{
	enum { TRIES = 200 };
	struct world *w = malloc(sizeof(*w));

	(void)state;
	assert_non_null(w);
	begin(w, 1);
	w->quiet = true;
	w->bed.after = forget;
	for (int i = 0; i < TRIES && (!w->loops || !w->unfeasible); i++) {
		change(w);
		bed_run(&w->bed, (int64_t)below(&w->bed, 20000) * W_MS);
	}
	print_message("without feasibility: %llu loops, %llu routes against it in %lld s\n",
		(unsigned long long)w->loops, (unsigned long long)w->unfeasible,
		(long long)(w->bed.now.us / W_SEC));
	assert_true(w->loops > 0);
	assert_true(w->unfeasible > 0);
	end(w);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_a_loop),
		cmocka_unit_test(broken_speakers_are_caught),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
