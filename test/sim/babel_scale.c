/* What Babel costs and how fast it converges against the size of the network: one row of
 * doc/benchmarks.md for each `mesh N` (everybody linked with everybody) or `degree D N` (a ring and
 * random links, D a node on average) of the arguments; without any, all rows of the table.
 *
 *	sim_babel_scale [--reach S] [--kbit K] [--settle S] [--window S] [mesh N | degree D N]...
 *
 * Fails when a network took longer than --reach seconds or costs more than --kbit a node, on
 * average of the first --settle seconds (30), or of --window seconds (60) after that. Speakers
 * alone, in virtual time, 1 to 80 ms a way, configured as weft configures them. */
#include "babel/bed_test.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "babel/babel_priv.h"
#include "base/mem.h"

enum {
	REACH_MAX_S = 120,
	SETTLE_S = 30,
	WINDOW_S = 60,
	DELAY_MAX_MS = 80,
	/* of one packet in the underlay: IPv6 and UDP inside; SPI, number, IV, pad length, next
	 * header and ICV of ESP, to a multiple of 4 (RFC 4303 2.4); UDP and IPv4 outside */
	INNER = 48,
	ESP = 34,
	ESP_TRAILER = 2,
	ESP_ALIGN = 4,
	OUTER = 28,
	/* as node/speaker.c has it */
	FACTOR = 4,
	FACTOR_MAX = 40,
	LINKS_A_FACTOR = 50,
};

struct scale {
	struct bed bed;
	uint8_t *routed; /* [node][destination] */
	size_t missing;
	uint64_t bytes, packets;
	size_t *degree;
};

struct row {
	double reached_s, kbit_begin, kbit, packets, memory_kb, cpu_us;
	uint32_t routes;
};

static size_t below(struct bed *t, size_t bound)
{
	uint64_t x = 0;

	(void)rng_below(&t->rng, bound, &x);
	return (size_t)x;
}

static bool on_packet(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct scale *s = t->ctx;
	size_t pad = ESP_ALIGN - 1 - (p->data.n + INNER + ESP_TRAILER + ESP_ALIGN - 1) % ESP_ALIGN;

	(void)link;
	(void)from;
	s->packets++;
	s->bytes += p->data.n + INNER + ESP + pad + OUTER;
	return false;
}

static void on_event(struct bed *t, size_t node, const struct babel_event *e)
{
	struct scale *s = t->ctx;
	uint8_t *at;

	if (e->type == BABEL_EVENT_NEIGHBOUR || e->type == BABEL_EVENT_DOUBT)
		return;
	at = &s->routed[node * t->nodes + get_u16(e->prefix.destination.addr.b + 4)];
	s->missing += *at;
	*at = e->type == BABEL_EVENT_ROUTE;
	s->missing -= *at;
}

static bool reached(struct bed *t)
{
	const struct scale *s = t->ctx;

	return s->missing == 0;
}

static void join(struct scale *s, size_t a, size_t b)
{
	bed_link(&s->bed, a, b, (int64_t)(1 + below(&s->bed, DELAY_MAX_MS)) * W_MS);
	s->degree[a]++;
	s->degree[b]++;
}

static void start(struct scale *s, size_t i)
{
	bed_start(&s->bed, i, NULL);
	bed_originate(&s->bed, i);
}

/* degree 0: a full mesh. */
static void build(struct scale *s, size_t n, size_t degree)
{
	size_t factor = FACTOR + FACTOR * (degree ? degree : n - 1) / LINKS_A_FACTOR;

	s->bed.update_factor = (uint8_t)(factor < FACTOR_MAX ? factor : FACTOR_MAX);
	for (size_t i = 0; i < n; i++) {
		if (degree)
			join(s, i, (i + 1) % n);
		for (size_t k = i + 1; !degree && k < n; k++)
			join(s, i, k);
	}
	while (s->bed.links < n * degree / 2) {
		size_t a = below(&s->bed, n), b = below(&s->bed, n);

		if (a != b)
			join(s, a, b);
	}
}

static uint32_t routes_of(const struct bed *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->nodes; i++) {
		struct babel_stats st;

		babel_stats(t->node[i].b, &st);
		sum += st.routes;
	}
	return (uint32_t)(sum / t->nodes);
}

static double kbit(const struct scale *s, uint64_t before, double seconds)
{
	const double bits = 8, kilo = 1000;

	return (double)(s->bytes - before) * bits / kilo / seconds / (double)s->bed.nodes;
}

struct limits {
	double reach_s, kbit;
	int64_t settle_s, window_s;
};

/* False: not everybody was reached in time. */
static bool measure(struct scale *s, const struct limits *l, struct row *ret)
{
	size_t n = s->bed.nodes, memory = mallinfo2().uordblks;
	const double second = W_SEC, kilo = 1024, window = (double)l->window_s;
	uint64_t bytes, packets;
	int64_t took, begin;
	clock_t cpu;

	for (size_t i = 0; i < n; i++)
		start(s, i);
	took = bed_until(&s->bed, reached, REACH_MAX_S * W_SEC);
	if (took < 0)
		return false;
	ret->reached_s = (double)took / second;
	begin = took > l->settle_s * W_SEC ? took : l->settle_s * W_SEC;
	bed_run(&s->bed, begin - took);
	ret->kbit_begin = kbit(s, 0, (double)begin / second);
	ret->routes = routes_of(&s->bed);
	ret->memory_kb = (double)(mallinfo2().uordblks - memory) / kilo / (double)n;
	if (!l->window_s)
		return true;
	bytes = s->bytes;
	packets = s->packets;
	cpu = clock();
	bed_run(&s->bed, l->window_s * W_SEC);
	ret->cpu_us = (double)(clock() - cpu) / CLOCKS_PER_SEC * second / window / (double)n;
	ret->kbit = kbit(s, bytes, window);
	ret->packets = (double)(s->packets - packets) / window / (double)n;
	return true;
}

static bool row(size_t n, size_t degree, const struct limits *l)
{
	struct scale s = {.missing = n * (n - 1)};
	struct row r = {0};
	bool ok;

	bed_begin(&s.bed, n, 1);
	s.routed = w_calloc(n, n);
	s.degree = w_calloc(n, sizeof(*s.degree));
	if (!s.routed || !s.degree)
		abort();
	s.bed.ctx = &s;
	s.bed.lose = on_packet;
	s.bed.event = on_event;
	build(&s, n, degree);
	ok = measure(&s, l, &r);
	if (degree)
		printf("| degree %zu, %zu nodes ", degree, n);
	else
		printf("| full mesh of %zu ", n);
	if (ok)
		printf("| %u | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f |\n", r.routes, r.reached_s,
			r.kbit_begin, r.kbit, r.packets, r.memory_kb, r.cpu_us);
	else
		printf("| %zu pairs apart after %d s |\n", s.missing, REACH_MAX_S);
	fflush(stdout);
	ok = ok && r.reached_s <= l->reach_s && r.kbit <= l->kbit && r.kbit_begin <= l->kbit;
	bed_end(&s.bed);
	w_free(s.routed);
	w_free(s.degree);
	return ok;
}

static size_t number(const char *s)
{
	return s ? strtoull(s, NULL, 10) : 0;
}

static bool table(const struct limits *l)
{
	static const size_t meshes[] = {10, 50, 100, 200}, sparse[] = {50, 200, 1000};
	enum { DEGREE = 8 };
	bool ok = true;

	for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++)
		ok &= row(meshes[i], 0, l);
	for (size_t i = 0; i < sizeof(sparse) / sizeof(sparse[0]); i++)
		ok &= row(sparse[i], DEGREE, l);
	return ok;
}

int main(int argc, char **argv)
{
	struct limits l = {.reach_s = REACH_MAX_S,
		.kbit = BABEL_INFINITY,
		.settle_s = SETTLE_S,
		.window_s = WINDOW_S};
	bool ok = true, any = false;

	printf("| network | routes a node | all reached, s | kbit/s a node as it comes up "
	       "| kbit/s a node, steady | packets/s a node | kB a node | CPU, us a node-second |\n"
	       "|---|---|---|---|---|---|---|---|\n");
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--reach") == 0) {
			l.reach_s = (double)number(argv[++i]);
		} else if (strcmp(argv[i], "--kbit") == 0) {
			l.kbit = (double)number(argv[++i]);
		} else if (strcmp(argv[i], "--settle") == 0) {
			l.settle_s = (int64_t)number(argv[++i]);
		} else if (strcmp(argv[i], "--window") == 0) {
			l.window_s = (int64_t)number(argv[++i]);
		} else if (strcmp(argv[i], "mesh") == 0) {
			ok &= row(number(argv[++i]), 0, &l);
			any = true;
		} else if (strcmp(argv[i], "degree") == 0 && i + 2 < argc) {
			ok &= row(number(argv[i + 2]), number(argv[i + 1]), &l);
			i += 2;
			any = true;
		} else {
			fprintf(stderr, "%s: no such network\n", argv[i]);
			return 2;
		}
	}
	if (!any)
		ok = table(&l);
	return ok ? 0 : 1;
}
