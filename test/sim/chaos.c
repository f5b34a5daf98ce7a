/* See chaos.h. */
#include "chaos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "books.h"

#define SETTLE_US (15 * W_SEC)

enum { UDP_MAX = 1500, NAME = 32, BACKLOG = 200 };

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "chaos: %s\n", what);
		abort();
	}
}

uint64_t chaos_below(struct chaos *c, uint64_t bound)
{
	uint64_t x;

	must(rng_below(&c->rng, bound, &x) == 0, "random number");
	return x;
}

static unsigned int any_node(struct chaos *c)
{
	return (unsigned int)chaos_below(c, c->o.nodes);
}

static bool *pair(struct chaos *c, unsigned int a, unsigned int b)
{
	return &c->adjacent[a * c->o.nodes + b];
}

/* ---- the world ---- */

/* A ring, so that it holds together, and chords at random. */
static void make_links(struct chaos *c)
{
	unsigned int n = c->o.nodes, chords = c->o.degree > 2 ? n * (c->o.degree - 2) / 2 : 0;

	for (unsigned int i = 0; i < n; i++)
		for (unsigned int k = 0; k < n; k++)
			*pair(c, i, k) = i != k &&
				(!c->o.degree || (i + 1) % n == k || (k + 1) % n == i);
	while (chords--) {
		unsigned int a = any_node(c), b = any_node(c);

		if (a != b)
			*pair(c, a, b) = *pair(c, b, a) = true;
	}
}

static void write_policy(struct chaos *c, unsigned int i, struct buf *b)
{
	unsigned int n = c->o.nodes, to = (i + 1 + (unsigned int)chaos_below(c, n - 1)) % n;
	unsigned int via = (i + 1 + (unsigned int)chaos_below(c, n - 1)) % n;

	if (via != to)
		buf_printf(b,
			"policies:\n  - {name: way, source: 10.66.%u.%u/32, "
			"destination: 10.66.%u.%u/32, candidates: [{via: [n%u], exit: n%u}], "
			"fallback: direct}\n",
			i >> 8, i & 255, to >> 8, to & 255, via, to);
}

static void write_node(struct chaos *c, unsigned int i)
{
	struct buf b = {0};

	buf_add_str(&b, "peers: {include: [");
	for (unsigned int k = 0, first = 1; k < c->o.nodes; k++)
		if (*pair(c, i, k)) {
			buf_printf(&b, "%sn%u", first ? "" : ", ", k);
			first = 0;
		}
	buf_add_str(&b, "]}\n");
	if (c->o.liar && i == c->o.nodes - 1)
		/* the first two nodes' addresses, and everything */
		buf_add_str(&b,
			"announce: [10.66.0.0/32, 10.66.0.1/32, \"fd00:66::1/128\", "
			"\"fd00:66::2/128\", 10.66.0.0/16]\n");
	if (c->o.yaml)
		buf_add_str(&b, c->o.yaml);
	if (c->o.steer && i % 4 == 0)
		write_policy(c, i, &b);
	buf_add(&b, "", 1);
	must(!b.failed, "memory");
	sim_more(c->s, i, (const char *)b.p);
	buf_free(&b);
}

/* A path at random; worse: with all that may happen to it. */
static struct sim_path any_path(struct chaos *c, bool worse)
{
	struct sim_path p = {
		.delay_us = W_MS + (int64_t)chaos_below(c, (uint64_t)c->o.delay_us + 1),
		.jitter_us = (int64_t)chaos_below(c, (uint64_t)c->o.jitter_us + 1),
	};

	if (worse) {
		p.loss = c->o.loss * (double)chaos_below(c, 101) / 100;
		p.duplicate = c->o.duplicate * (double)chaos_below(c, 101) / 100;
	}
	return p;
}

static void all_paths(struct chaos *c, bool worse)
{
	for (unsigned int i = 0; i < c->o.nodes; i++)
		for (unsigned int k = 0; k < c->o.nodes; k++) {
			struct sim_path p = any_path(c, worse);

			sim_path_set(c->s, i, k, &p);
		}
}

struct chaos *chaos_new(const struct chaos_options *o)
{
	struct chaos *c;
	struct sim_options so = {
		.seed = o->seed,
		.nodes = o->nodes,
		.learn = true,
		.srv6 = o->steer,
		.allow = o->liar,
		.ops = books_ops(),
	};

	books_reset();
	c = calloc(1, sizeof(*c));
	must(c != NULL, "memory");
	c->o = *o;
	c->blocks = books()->blocks;
	c->bytes = books()->bytes;
	c->rng = rng_seeded_init(&c->rng_state, o->seed * 1000003 + 17);
	c->adjacent = calloc((size_t)o->nodes * o->nodes, sizeof(*c->adjacent));
	must(c->adjacent != NULL, "memory");
	(void)snprintf(c->replay, sizeof(c->replay), "WEFT_SEEDS=%" PRIu64 " sim_chaos %s", o->seed,
		o->name);
	c->s = sim_new(&so);
	c->w = watch_new(c->s, o->nodes, o->collect ? NULL : c->replay);
	if (o->liar)
		watch_liar(c->w, o->nodes - 1);
	c->verbose = getenv("SIM_VERBOSE") != NULL;
	make_links(c);
	all_paths(c, true);
	for (unsigned int i = 0; i < o->nodes; i++)
		write_node(c, i);
	for (unsigned int i = 0; i < o->nodes && o->start; i++)
		sim_start(c->s, i);
	return c;
}

bool chaos_free(struct chaos *c)
{
	int64_t blocks, bytes;
	bool collect = c->o.collect;

	watch_free(c->w);
	sim_free(c->s);
	blocks = books()->blocks - c->blocks;
	bytes = books()->bytes - c->bytes;
	if ((blocks || bytes) && !collect) {
		fprintf(stderr,
			"%" PRId64 " blocks of %" PRId64 " bytes are left\nrun it again: %s\n",
			blocks, bytes, c->replay);
		abort();
	}
	free(c->adjacent);
	free(c);
	return !blocks && !bytes;
}

void chaos_kill(struct chaos *c, unsigned int i)
{
	sim_kill(c->s, i);
	watch_gone(c->w, i);
}

/* ---- what happens ---- */

/* Two nodes with a link. */
static void any_link(struct chaos *c, unsigned int *a, unsigned int *b)
{
	do {
		*a = any_node(c);
		*b = any_node(c);
	} while (!*pair(c, *a, *b));
}

static void change_path(struct chaos *c)
{
	struct sim_path p = any_path(c, true);
	unsigned int a, b;

	any_link(c, &a, &b);
	sim_path_set(c->s, a, b, &p);
	p = any_path(c, chaos_below(c, 2));
	sim_path_set(c->s, b, a, &p);
}

static void cut(struct chaos *c)
{
	const struct sim_path p = {.cut = true};
	unsigned int a, b;

	any_link(c, &a, &b);
	sim_path_set(c->s, a, b, &p);
	if (chaos_below(c, 3))
		sim_path_set(c->s, b, a, &p);
}

static void partition(struct chaos *c)
{
	const struct sim_path p = {.cut = true};
	uint64_t side = chaos_below(c, UINT64_C(1) << 32) | chaos_below(c, 1u << 30) << 32;

	for (unsigned int i = 0; i < c->o.nodes; i++)
		for (unsigned int k = 0; k < c->o.nodes; k++)
			if ((side >> i % 60 & 1) != (side >> k % 60 & 1))
				sim_path_set(c->s, i, k, &p);
}

static void start_one(struct chaos *c)
{
	unsigned int first = any_node(c);

	for (unsigned int k = 0; k < c->o.nodes; k++) {
		unsigned int i = (first + k) % c->o.nodes;

		if (!sim_node(c->s, i)) {
			sim_start(c->s, i);
			return;
		}
	}
}

static void thaw_one(struct chaos *c)
{
	unsigned int first = any_node(c);

	for (unsigned int k = 0; k < c->o.nodes; k++) {
		unsigned int i = (first + k) % c->o.nodes;

		if (sim_frozen(c->s, i)) {
			sim_thaw(c->s, i, chaos_below(c, 2));
			return;
		}
	}
}

static void rekey(struct chaos *c)
{
	unsigned int end[2], ends = 1 + (unsigned int)chaos_below(c, 2);

	any_link(c, &end[0], &end[1]);
	for (unsigned int e = 0; e < ends; e++) {
		char peer[NAME];

		(void)snprintf(peer, sizeof(peer), "org%u/n%u", end[!e], end[!e]);
		if (sim_node(c->s, end[e]) && !sim_frozen(c->s, end[e]))
			(void)sim_command(c->s, end[e], "rekey", peer);
		if (chaos_below(c, 2))
			sim_run(c->s, (int64_t)chaos_below(c, 60 * W_MS));
	}
}

static void reload(struct chaos *c)
{
	unsigned int i = any_node(c);

	if (sim_node(c->s, i) && !sim_frozen(c->s, i))
		(void)sim_reload_registry(c->s, i, NULL, false);
}

void chaos_traffic(struct chaos *c, unsigned int packets)
{
	while (packets--) {
		unsigned int a = any_node(c), b = any_node(c);

		/* what the liar has announced is its own to itself */
		if (a != b && !(c->o.liar && a == c->o.nodes - 1))
			sim_send(c->s, a, b, chaos_below(c, 2) ? IP4 : IP6);
		sim_run(c->s, (int64_t)chaos_below(c, 4 * W_MS));
	}
}

/* ---- lies ---- */

static void flip(struct chaos *c, uint8_t *data, size_t n)
{
	unsigned int flips = 1 + (unsigned int)chaos_below(c, 3);

	while (n && flips--)
		data[chaos_below(c, n)] ^= (uint8_t)(1 + chaos_below(c, 255));
}

/* A packet of the air: a mutation of one that came, the same again, one to another node, a cut one,
 * or noise. */
static size_t make_lie(struct chaos *c, uint8_t data[static UDP_MAX], struct sim_datagram *d)
{
	enum { MUTATED, AGAIN, MISLED, SHORT, NOISE, WAYS };
	unsigned int way = (unsigned int)chaos_below(c, WAYS);
	size_t n;

	if (!watch_record(c->w, chaos_below(c, 1u << 30), d) || d->data.n > UDP_MAX)
		way = NOISE;
	if (way == NOISE) {
		n = chaos_below(c, 200);
		must(rng_fill(&c->rng, data, n) == 0, "random bytes");
		if (n > 4 && chaos_below(c, 2))
			memset(data, 0, 4);
		d->to = any_node(c);
		return n;
	}
	n = d->data.n;
	memcpy(data, d->data.p, n);
	if (way == MUTATED)
		flip(c, data, n);
	else if (way == MISLED)
		d->to = any_node(c);
	else if (way == SHORT)
		n = chaos_below(c, n + 1);
	return n;
}

void chaos_lie(struct chaos *c, unsigned int count)
{
	static const uint8_t elsewhere[4] = {203, 0, 113, 9};
	uint8_t data[UDP_MAX];

	while (count--) {
		struct sim_datagram d = {0};
		size_t n = make_lie(c, data, &d);
		struct endpoint from = sim_endpoint(any_node(c));

		if (chaos_below(c, 2)) /* as in the packet that was seen, or from another place */
			from = d.remote.port ? d.remote : from;
		else if (chaos_below(c, 2))
			from = (struct endpoint){.ip = ipaddr_from(IP4, elsewhere),
				.port = (uint16_t)(1 + chaos_below(c, 65535))};
		if (sim_node(c->s, d.to) && !sim_frozen(c->s, d.to))
			sim_forge(c->s, d.to, &from, view_of(data, n));
	}
}

void chaos_event(struct chaos *c, unsigned int kinds)
{
	unsigned int i = any_node(c), kind;

	do
		kind = 1u << chaos_below(c, 13);
	while (!(kinds & kind));
	if (c->verbose)
		fprintf(stderr, "%10.3f event %x, node %u\n", (double)sim_now(c->s).us / 1e6, kind,
			i);
	switch ((enum chaos_kind)kind) {
	case CHAOS_PATH:
		change_path(c);
		break;
	case CHAOS_CUT:
		cut(c);
		break;
	case CHAOS_PARTITION:
		partition(c);
		break;
	case CHAOS_MEND:
		all_paths(c, true);
		break;
	case CHAOS_KILL:
		chaos_kill(c, i);
		break;
	case CHAOS_STOP:
		sim_stop(c->s, i);
		watch_gone(c->w, i);
		break;
	case CHAOS_START:
		start_one(c);
		break;
	case CHAOS_FREEZE:
		sim_freeze(c->s, i, chaos_below(c, 2) ? BACKLOG : 0);
		break;
	case CHAOS_THAW:
		thaw_one(c);
		break;
	case CHAOS_REKEY:
		rekey(c);
		break;
	case CHAOS_RELOAD:
		reload(c);
		break;
	case CHAOS_LIE:
		chaos_lie(c, 20);
		break;
	case CHAOS_TRAFFIC:
		chaos_traffic(c, 50);
		break;
	case CHAOS_ALL:
		break;
	}
}

void chaos_storm(struct chaos *c, unsigned int kinds, unsigned int events, int64_t most_us)
{
	while (events--) {
		chaos_event(c, kinds);
		sim_run(c->s, (int64_t)chaos_below(c, (uint64_t)most_us));
	}
}

/* ---- peace ---- */

void chaos_await_exact(struct chaos *c, int64_t most_us)
{
	const int64_t step = 200 * W_MS;

	for (int64_t t = 0; t < most_us && !sim_pairs_exact(c->s, c->adjacent); t += step)
		sim_run(c->s, step);
	watch_quiet(c->w, c->adjacent);
}

static bool routed(struct chaos *c)
{
	if (!c->o.liar)
		return sim_all_routed(c->s);
	/* to the liar what it has announced is its own */
	for (unsigned int i = 0; i + 1 < c->o.nodes; i++)
		for (unsigned int k = 0; k < c->o.nodes; k++)
			if (i != k && sim_next_hop(c->s, i, k) < 0)
				return false;
	return true;
}

static void await_routes(struct chaos *c, int64_t most_us)
{
	for (int64_t t = 0; t < most_us && !routed(c); t += W_SEC)
		sim_run(c->s, W_SEC);
	watch_must(c->w, routed(c), "a node has no way to another");
}

/* Every node sends to some others, in both families. */
static void packets_arrive(struct chaos *c)
{
	unsigned int n = c->o.nodes, honest = c->o.liar ? n - 1 : n;
	uint64_t sent = 0, got = 0;

	for (unsigned int i = 0; i < n; i++)
		got -= sim_delivered(c->s, i);
	for (unsigned int i = 0; i < honest; i++)
		for (unsigned int k = 0; k < 6; k++, sent++) {
			unsigned int to = (i + 1 + (unsigned int)chaos_below(c, n - 1)) % n;

			sim_send(c->s, i, to, k % 2 ? IP6 : IP4);
		}
	sim_run(c->s, 2 * W_SEC);
	for (unsigned int i = 0; i < n; i++)
		got += sim_delivered(c->s, i);
	if (c->verbose)
		for (unsigned int i = 0; i < n; i++)
			fprintf(stderr, "node %u: %s\n", i, sim_command(c->s, i, "drops", NULL));
	watch_must(c->w, got == sent, "packets were lost in a network that is whole");
}

void chaos_heal(struct chaos *c, int64_t most_us)
{
	all_paths(c, false);
	for (unsigned int i = 0; i < c->o.nodes; i++) {
		sim_thaw(c->s, i, chaos_below(c, 2));
		if (!sim_node(c->s, i))
			sim_start(c->s, i);
	}
	chaos_await_exact(c, most_us);
	await_routes(c, most_us);
	sim_run(c->s, SETTLE_US); /* first ways are not the last ones */
	await_routes(c, most_us);
	packets_arrive(c);
}
