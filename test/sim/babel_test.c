/* Networks of Babel speakers under random changes and losses: no loop after any step, no selected
 * route that is not feasible, nobody cut off for long; what a full mesh costs. Deterministic by
 * seed: a failure names it, and WEFT_SEED=n runs that one alone. */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

enum { NODES = 50, DEGREE = 4, NONE = 0xffff };

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
	uint16_t starts[NODES];
	uint64_t loops, unfeasible, checks;
};

static struct world *world_of(struct bed *t)
{
	return t->ctx;
}

static size_t destination(const struct babel_prefix *p)
{
	return get_u16(p->destination.addr.b + 4);
}

static void check_loop(struct world *w, size_t node, size_t dest)
{
	size_t at = node;

	w->checks++;
	for (size_t hops = 0; hops <= NODES; hops++) {
		at = w->next[at][dest];
		if (at == NONE || at == dest)
			return;
		if (at == node)
			break;
	}
	w->loops++;
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
	print_message("seed %llu: not feasible at %lld us: node %zu to %zu\n",
		(unsigned long long)w->seed, (long long)w->bed.now.us, node, dest);
}

static void on_event(struct bed *t, size_t node, const struct babel_event *e)
{
	struct world *w = world_of(t);
	size_t dest;

	if (e->type == BABEL_EVENT_NEIGHBOUR)
		return;
	dest = destination(&e->prefix);
	w->next[node][dest] = e->type == BABEL_EVENT_ROUTE
		? (uint16_t)(get_u32(e->neighbour.b + 12) - 1)
		: NONE;
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

/* One thing that happens to the network. */
static void change(struct world *w)
{
	size_t link = below(&w->bed, w->bed.links);
	struct bed_link *l = &w->bed.link[link];

	switch (below(&w->bed, 8)) {
	case 0: /* fails, and both ends know */
		l->down = true;
		alive(w, link, false);
		break;
	case 1: /* fails silently */
		l->down = true;
		break;
	case 2:
	case 3:
		l->delay_us = (int64_t)(1 + below(&w->bed, 150)) * W_MS;
		break;
	case 4:
		l->loss = bed_chance(&w->bed) / 3;
		l->jitter_us = (int64_t)below(&w->bed, 40) * W_MS;
		break;
	case 5: { /* a node starts anew */
		size_t i = below(&w->bed, NODES);

		if (!w->bed.node[i].off) {
			for (size_t k = 0; k < NODES; k++)
				w->next[i][k] = NONE;
			bed_stop(&w->bed, i);
			bed_run(&w->bed, (int64_t)below(&w->bed, 5000) * W_MS);
			start(w, i);
		}
		break;
	}
	default: /* some are mended */
		for (size_t i = 0; i < w->bed.links; i++) {
			if (w->bed.link[i].down && below(&w->bed, 2)) {
				w->bed.link[i].down = false;
				alive(w, i, true);
			}
		}
	}
}

static void mend_all(struct world *w)
{
	for (size_t i = 0; i < w->bed.links; i++) {
		w->bed.link[i].down = false;
		w->bed.link[i].loss = 0;
		alive(w, i, true);
	}
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

static void one_hour(struct world *w, uint64_t seed, int64_t hours)
{
	begin(w, seed);
	bed_run(&w->bed, 60 * W_SEC);
	if (unreached(w))
		fail_msg("seed %llu: %zu pairs apart after a minute", (unsigned long long)seed,
			unreached(w));
	for (int64_t quarter = 0; quarter < 4 * hours; quarter++) {
		wtime until = wtime_add(w->bed.now, 720 * W_SEC);

		while (wtime_before(w->bed.now, until)) {
			change(w);
			bed_run(&w->bed, (int64_t)below(&w->bed, 20000) * W_MS);
		}
		mend_all(w);
		/* nobody starves for longer than the requests and updates take (RFC 8966 3.8.2) */
		if (bed_until(&w->bed, complete, 180 * W_SEC) < 0)
			fail_msg("seed %llu: %zu pairs apart for three minutes",
				(unsigned long long)seed, unreached(w));
	}
	if (w->loops || w->unfeasible)
		fail_msg("seed %llu: %llu loops, %llu not feasible", (unsigned long long)seed,
			(unsigned long long)w->loops, (unsigned long long)w->unfeasible);
	assert_true(w->checks > 1000);
	end(w);
}

static bool soak(void)
{
	return getenv("WEFT_SOAK") != NULL;
}

static void never_a_loop(void **state)
{
	const char *one = getenv("WEFT_SEED");
	uint64_t seeds = soak() ? 300 : 6;
	struct world *w = malloc(sizeof(*w));

	(void)state;
	assert_non_null(w);
	if (one)
		one_hour(w, strtoull(one, NULL, 10), soak() ? 24 : 1);
	for (uint64_t seed = 1; !one && seed <= seeds; seed++)
		one_hour(w, seed, soak() ? 24 : 1);
	free(w);
}

/* ---- full mesh ------------------------------------------------------------------------------ */

static bool meshed(struct bed *t)
{
	for (size_t i = 0; i < t->nodes; i++) {
		for (size_t k = 0; k < t->nodes; k++) {
			struct babel_prefix p = bed_prefix(k);
			const struct babel_dest *d = babel_dest_find(t->node[i].b, &p);

			if (!d || (!d->selected && !d->own))
				return false;
		}
	}
	return true;
}

static uint64_t bytes_out(struct bed *t)
{
	enum { UDP_IP = 48 };
	uint64_t sum = 0;

	for (size_t i = 0; i < t->nodes; i++) {
		struct babel_stats s;

		babel_stats(t->node[i].b, &s);
		sum += s.bytes_out + s.packets_out * UDP_IP;
	}
	return sum;
}

static void a_full_mesh_is_affordable(void **state)
{
	size_t n = soak() ? 200 : 40;
	struct bed t;
	uint64_t before;
	int64_t took;
	double rate;

	(void)state;
	bed_begin(&t, n, 1);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = i + 1; k < n; k++)
			bed_link(&t, i, k, (int64_t)(2 + below(&t, 60)) * W_MS);
	}
	for (size_t i = 0; i < n; i++) {
		bed_start(&t, i, NULL);
		bed_originate(&t, i);
	}
	for (took = 0; !meshed(&t) && took < 60; took++)
		bed_run(&t, W_SEC);
	assert_in_range(took, 0, 29);
	bed_run(&t, 60 * W_SEC);
	before = bytes_out(&t);
	bed_run(&t, 120 * W_SEC);
	rate = (double)(bytes_out(&t) - before) * 8 / 120 / (double)n / 1000;
	print_message("mesh of %zu: all reached within %lld s, %.1f kbit/s a node\n", n,
		(long long)took, rate);
	assert_true(rate < 300);
	bed_end(&t);
}

/* ---- one node, 200 neighbours, 2,000 prefixes --------------------------------------------------
 */

enum { PEERS = 200, PREFIXES = 2000, SLOT_US = 100 * 1000 };

struct burst {
	int64_t slot;
	size_t in_slot, most;
};

static bool count_burst(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct burst *k = t->ctx;

	(void)link;
	(void)from;
	if (t->now.us / SLOT_US != k->slot)
		k->in_slot = 0;
	k->slot = t->now.us / SLOT_US;
	k->in_slot += p->data.n;
	k->most = k->in_slot > k->most ? k->in_slot : k->most;
	return true;
}

/* What a peer says: hello, IHU, and its routes from a prefix on, as many as fit. */
static size_t speak(struct bed *t, size_t peer, uint16_t hello, size_t from)
{
	struct babel_ihu ihu = {.to = bed_address(peer - 1, 0), .rxcost = 10, .interval = 1200};
	struct babel_datagram d = {.iface = (uint32_t)peer,
		.source = bed_address(peer - 1, peer),
		.at = t->now};
	uint8_t bytes[1400];
	struct babel_build w;

	babel_build_begin(&w, bytes, sizeof(bytes), false);
	(void)babel_build_hello(&w, hello, 400, 0);
	(void)babel_build_ihu(&w, &ihu);
	for (; from < PREFIXES; from++) {
		struct babel_update u = {.prefix = bed_prefix(from),
			.interval = 30000,
			.seqno = 1,
			.metric = (uint16_t)(1 + (peer * 31 + from * 17) % 1000),
			.router_id = {1, [6] = (uint8_t)(from >> 8), [7] = (uint8_t)from}};

		if (!babel_build_update(&w, &u))
			break;
	}
	babel_build_body_end(&w);
	d.data = wcur_written(&w.w);
	babel_input(t->node[0].b, &d, t->now);
	return from;
}

static void a_big_table_makes_no_burst(void **state)
{
	struct burst k = {0};
	struct babel_stats s;
	uint16_t hello = 0;
	struct bed t;

	(void)state;
	bed_begin(&t, PEERS + 1, 1);
	t.ctx = &k;
	t.lose = count_burst;
	for (size_t i = 1; i <= PEERS; i++)
		bed_link(&t, 0, i, W_MS);
	bed_start(&t, 0, NULL);
	bed_run(&t, 2 * W_SEC);
	for (size_t i = 1; i <= PEERS; i++) {
		for (size_t from = 0; from < PREFIXES;)
			from = speak(&t, i, hello, from);
	}
	bed_touch(&t, 0);
	babel_stats(t.node[0].b, &s);
	assert_int_equal(s.routes, PEERS * PREFIXES);
	for (int i = 0; i < 30; i++) {
		hello++;
		for (size_t peer = 1; peer <= PEERS; peer++)
			(void)speak(&t, peer, hello, PREFIXES);
		bed_touch(&t, 0);
		bed_run(&t, 4 * W_SEC);
	}
	babel_stats(t.node[0].b, &s);
	print_message("%u routes: at most %zu bytes in 100 ms, %.0f kbit/s in two minutes\n",
		s.routes, k.most, (double)s.bytes_out * 8 / 120 / 1000);
	/* less than 10 Mbit/s at any time, where all at once would be a hundred times that */
	assert_in_range(k.most, 1, 125000);
	bed_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_a_loop),
		cmocka_unit_test(a_full_mesh_is_affordable),
		cmocka_unit_test(a_big_table_makes_no_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
