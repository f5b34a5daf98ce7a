/* What the forwarding table costs: look-ups, a build, single changes of a table of which a copy is
 * published, and the switch of a whole node that loses a link with many routes over it: from the
 * timer that finds the link dead to the snapshot that goes round it, and until Babel has looked at
 * all of them. Prints CPU time; the best of several runs, since others use the machine, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/cur.h"
#include "ctl/request.h"
#include "fib/fib.h"
#include "node/node_priv.h"
#include "sim.h"

enum { LOOKS = 1 << 18, CHANGES = 1000, SHARE = 8, FROM_DIGITS = 16 };

enum kind { KIND_IP4, KIND_IP6, KIND_SOURCE, KINDS };

static const char *const kind_name[KINDS] = {"IPv4 /24", "IPv6 /48", "IPv6, 1 in 8 with a source"};

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void must(bool ok)
{
	if (!ok)
		abort();
}

static uint32_t mix(uint32_t i)
{
	i *= 2654435761U;
	return i ^ i >> 15;
}

/* Prefix i, spread over the whole space in no order. */
static struct fib_entry make(enum kind k, uint32_t i)
{
	struct fib_entry e = {.value = i % 200};
	uint8_t b[16] = {0xfd};
	struct ipaddr a;

	if (k == KIND_IP4) {
		put_u32(b, UINT32_C(16) << 24 | (i * 2654435761U & 0x003fffff) << 8);
		a = ipaddr_from(IP4, b);
		e.destination = prefix_of(&a, 24);
		return e;
	}
	put_u32(b + 2, i * 2654435761U);
	a = ipaddr_from(IP6, b);
	e.destination = prefix_of(&a, 48);
	if (k == KIND_SOURCE && i % SHARE == 0) {
		a = (struct ipaddr){.family = IP6, .b = {0x20, 0x01, 0x0d, 0xb8}};
		e.source = prefix_of(&a, 32);
	}
	return e;
}

static double look(const struct fib *f, enum kind k, uint32_t n, int runs)
{
	struct ipaddr *to = calloc(LOOKS, sizeof(*to));
	struct ipaddr from = {.family = k == KIND_IP4 ? IP4 : IP6, .b = {0x20, 1, 0x0d, 0xb8}};
	int64_t best = INT64_MAX;

	must(to != NULL);
	for (uint32_t i = 0; i < LOOKS; i++)
		to[i] = make(k, mix(i) % n).destination.addr;
	for (int run = 0; run < runs; run++) {
		int64_t began = clock_ns(), took;
		uint32_t hits = 0, v;

		for (uint32_t i = 0; i < LOOKS; i++)
			hits += fib_lookup(f, &to[i], &from, &v);
		took = clock_ns() - began;
		best = took < best ? took : best;
		must(hits == LOOKS);
	}
	free(to);
	return (double)best / LOOKS;
}

static double build(const struct fib_entry *e, uint32_t n, int runs, struct fib **ret)
{
	int64_t best = INT64_MAX;

	*ret = NULL;
	for (int run = 0; run < runs; run++) {
		int64_t began = clock_ns(), took;

		fib_free(*ret);
		began = clock_ns();
		must(fib_build(e, n, ret) == 0);
		took = clock_ns() - began;
		best = took < best ? took : best;
	}
	return (double)best / 1e6;
}

/* One prefix changes and the table is published: microseconds. The published one before it is
 * freed, as when the plane has let go of it. */
static double change(struct fib *f, const struct fib_entry *e, uint32_t n)
{
	struct fib *shown, *next;
	int64_t began;

	must(fib_copy(f, &shown) == 0);
	began = clock_ns();
	for (uint32_t i = 0; i < CHANGES; i++) {
		struct fib_entry x = e[mix(i) % n];

		x.value++;
		must(fib_set(f, &x) == 0 && fib_copy(f, &next) == 0);
		fib_free(shown);
		shown = next;
	}
	began = clock_ns() - began;
	fib_free(shown);
	return (double)began / CHANGES / 1e3;
}

static void tables(uint32_t n, int runs)
{
	struct fib_entry *e = calloc(n, sizeof(*e));

	must(e != NULL);
	for (int k = 0; k < KINDS; k++) {
		struct fib *f;
		double ms, ns;

		for (uint32_t i = 0; i < n; i++)
			e[i] = make((enum kind)k, i);
		ms = build(e, n, runs, &f);
		ns = look(f, (enum kind)k, n, runs);
		printf("%6u prefixes, %-26s  look-up %4.0f ns  build %7.2f ms  one change, "
		       "published "
		       "%5.2f us\n",
			n, kind_name[k], ns, ms, change(f, e, n));
		fib_free(f);
	}
	free(e);
}

/* ---- a node loses a link ---- */

struct lost {
	struct sim *s;
	struct node_table_stats before, at_snapshot, after;
	int64_t began, snapshot, settled; /* CPU time; 0: not yet */
};

static void see(void *ctx, unsigned int i, enum sim_moment m, const struct plane_snapshot *p)
{
	struct lost *l = ctx;

	(void)p;
	if (i != 0 || l->settled)
		return;
	if (m == SIM_TICK) {
		l->began = clock_ns();
	} else if (m == SIM_SNAPSHOT && !l->snapshot) {
		l->snapshot = clock_ns();
		node_table_stats(sim_node(l->s, 0), &l->at_snapshot);
	} else if (m == SIM_SETTLED && l->snapshot) {
		l->settled = clock_ns();
		node_table_stats(sim_node(l->s, 0), &l->after);
	}
}

static void path(struct sim *s, unsigned int a, unsigned int b, double milliseconds, bool cut)
{
	const struct sim_path p = {.delay_us = (int64_t)(milliseconds * 500), .cut = cut};

	sim_path_set(s, a, b, &p);
	sim_path_set(s, b, a, &p);
}

/* What `weft routes` costs the daemon: CPU time of the longest part, and of all. */
static void tell_routes(struct sim *s)
{
	struct ctl_request q = {.command = CTL_ROUTES};
	struct node_outside o = {0};
	int64_t longest = 0, all = 0;
	size_t bytes = 0;
	int parts = 0;

	do {
		struct buf request = {0}, reply = {0};
		int64_t began = clock_ns(), took;
		const char *next;

		ctl_request_write(&q, &request);
		node_command(sim_node(s, 0), view_of(request.p, request.n), &o, sim_now(s), &reply);
		took = clock_ns() - began;
		longest = took > longest ? took : longest;
		all += took;
		bytes += reply.n;
		parts++;
		buf_add(&reply, "", 1);
		must(!reply.failed);
		next = strstr((const char *)reply.p, "\"next\":\"");
		q.from[0] = 0;
		if (next)
			memcpy(q.from, next + strlen("\"next\":\""), FROM_DIGITS);
		buf_free(&request);
		buf_free(&reply);
	} while (q.from[0]);
	printf("%6zu bytes of routes told in %d parts: %.1f ms the longest, %.0f ms all\n", bytes,
		parts, (double)longest / 1e6, (double)all / 1e6);
}

/* Node 0 has all prefixes from nodes 1 and 2, and loses the link to the nearer one. */
static void link_loss(uint32_t n)
{
	const struct sim_options o = {.seed = 5, .nodes = 3, .learn = true};
	struct sim *s = sim_new(&o);
	struct lost l = {.s = s};

	path(s, 0, 1, 20, false);
	path(s, 1, 2, 10, false);
	path(s, 0, 2, 30, false);
	for (unsigned int i = 0; i < 3; i++)
		sim_start(s, i);
	must(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	for (uint32_t i = 0; i < n; i++) {
		struct fib_entry e = make(i % 2 ? KIND_IP4 : KIND_SOURCE, i);
		struct babel_prefix p = {e.destination, e.source};

		for (unsigned int k = 1; k < 3; k++)
			must(babel_originate(sim_node(s, k)->babel, &p, 0, sim_now(s)) == 0);
	}
	for (int i = 0; i < 600; i++) {
		node_table_stats(sim_node(s, 0), &l.before);
		if (l.before.prefixes >= n)
			break;
		sim_run(s, W_SEC);
	}
	sim_run(s, 60 * W_SEC);
	node_table_stats(sim_node(s, 0), &l.before);
	must(l.before.prefixes >= n);
	tell_routes(s);
	path(s, 0, 1, 20, true);
	sim_observe(s, see, &l);
	for (int i = 0; i < 200 && !l.settled; i++)
		sim_run(s, 50 * W_MS);
	must(l.settled);
	printf("%6u routes over a lost link: the plane goes round it after %.2f ms (%llu prefixes "
	       "written); Babel and tables done after %.1f ms (%llu written, %llu groups "
	       "renamed)\n",
		n, (double)(l.snapshot - l.began) / 1e6,
		(unsigned long long)(l.at_snapshot.prefixes_written - l.before.prefixes_written),
		(double)(l.settled - l.began) / 1e6,
		(unsigned long long)(l.after.prefixes_written - l.before.prefixes_written),
		(unsigned long long)(l.after.groups_renamed - l.before.groups_renamed));
	sim_free(s);
}

/* With "short" it only shows that it runs. */
int main(int argc, char **argv)
{
	bool brief = argc > 1 && strcmp(argv[1], "short") == 0;

	tables(1000, brief ? 1 : 50);
	if (!brief)
		tables(100000, 5);
	link_loss(1000);
	if (!brief)
		link_loss(100000);
	return 0;
}
