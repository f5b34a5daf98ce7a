/* Whole nodes with many routes: a link that is lost changes next-hop groups and no prefix, and the
 * plane goes round it before the speaker has looked at its routes. What counts are prefixes that
 * were written, not a clock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/buf.h"
#include "ctl/request.h"
#include "ctl/value.h"
#include "fib/fib.h"
#include "plane/plane.h"
#include "sim.h"

enum { PREFIXES = 2500, FEW = 8, PART = 4096 };

/* Prefix i of those that nodes 1 and 2 both announce: IPv4, IPv6, and IPv6 with a source. */
static struct fib_entry prefix(unsigned int i)
{
	struct fib_entry e = {0};
	char text[64];

	(void)snprintf(text, sizeof(text), i % 3 == 0 ? "10.%u.%u.0/24" : "fd00:77:%x%02x::/48",
		100 + i / 256, i % 256);
	assert_int_equal(prefix_parse(text, &e.destination), 0);
	if (i % 3 == 2)
		assert_int_equal(prefix_parse("2001:db8::/32", &e.source), 0);
	return e;
}

static void announcements(struct buf *b)
{
	buf_add_str(b, "announce:\n");
	for (unsigned int i = 0; i < PREFIXES; i++) {
		struct fib_entry e = prefix(i);
		char d[PREFIX_TEXT], s[PREFIX_TEXT];

		buf_printf(b, "  - {prefix: \"%s\"", prefix_format(&e.destination, d));
		if (e.source.len)
			buf_printf(b, ", source: \"%s\"", prefix_format(&e.source, s));
		buf_add_str(b, "}\n");
	}
	buf_add(b, "", 1);
	assert_false(b->failed);
}

static void rtt(struct sim *s, unsigned int a, unsigned int b, double milliseconds)
{
	const struct sim_path p = {.delay_us = (int64_t)(milliseconds * 500)};

	sim_path_set(s, a, b, &p);
	sim_path_set(s, b, a, &p);
}

static void cut(struct sim *s, unsigned int a, unsigned int b)
{
	const struct sim_path p = {.cut = true};

	sim_path_set(s, a, b, &p);
	sim_path_set(s, b, a, &p);
}

/* How many of the prefixes go by the link in a slot, by a snapshot. */
static unsigned int by_slot(const struct plane_snapshot *s, uint32_t slot)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < PREFIXES; i++) {
		struct fib_entry e = prefix(i);
		struct ipaddr from = e.source.len
			? e.source.addr
			: (struct ipaddr){.family = e.destination.addr.family};
		uint32_t v;

		if (!fib_lookup(s->fib, &e.destination.addr, &from, &v))
			continue;
		assert_true(v < s->next_hop_count);
		count += s->next_hop[v].type == PLANE_LINK && s->next_hop[v].slot == slot;
	}
	return count;
}

struct seen {
	struct sim *s;
	unsigned int snapshots;         /* of node 0 */
	unsigned int first[2], last[2]; /* prefixes by slot, in the first and the last of them */
	struct node_table_stats at_first, settled;
	bool cut, over;
};

static void see(void *ctx, unsigned int i, enum sim_moment m, const struct plane_snapshot *p)
{
	struct seen *seen = ctx;

	if (i != 0 || seen->over)
		return;
	if (m == SIM_SETTLED && seen->snapshots && seen->cut) {
		node_table_stats(sim_node(seen->s, 0), &seen->settled);
		seen->over = true;
	}
	if (m != SIM_SNAPSHOT)
		return;
	if (!seen->snapshots++)
		node_table_stats(sim_node(seen->s, 0), &seen->at_first);
	for (uint32_t slot = 0; slot < 2; slot++) {
		seen->last[slot] = by_slot(p, slot);
		if (seen->snapshots == 1)
			seen->first[slot] = seen->last[slot];
	}
}

/* Node 0 with two links, the first of them faster, and the same prefixes behind both. */
static struct sim *two_ways(uint64_t seed, struct seen *seen)
{
	const struct sim_options o = {.seed = seed, .nodes = 3, .learn = true};
	struct sim *s = sim_new(&o);
	struct buf more = {0};

	seen->s = s;
	sim_observe(s, see, seen);
	rtt(s, 0, 1, 20);
	rtt(s, 1, 2, 10);
	rtt(s, 0, 2, 30);
	for (unsigned int i = 0; i < 3; i++)
		sim_start(s, i);
	announcements(&more);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	assert_int_equal(sim_reload(s, 1, (char *)more.p), 0);
	assert_int_equal(sim_reload(s, 2, (char *)more.p), 0);
	buf_free(&more);
	sim_run(s, 200 * W_SEC);
	assert_int_equal(seen->last[0], PREFIXES);
	*seen = (struct seen){.s = s, .cut = true};
	return s;
}

static void a_lost_link_changes_groups_only(void **state)
{
	struct seen seen = {0};
	struct sim *s = two_ways(91, &seen);
	struct node_table_stats before;

	(void)state;
	node_table_stats(sim_node(s, 0), &before);
	assert_true(before.prefixes >= PREFIXES);
	assert_true(before.groups <= FEW);
	cut(s, 0, 1);
	for (int i = 0; i < 100 && !seen.over; i++)
		sim_run(s, 100 * W_MS);
	assert_true(seen.over);
	/* the plane was told first, by groups alone */
	assert_int_equal(seen.first[0], 0);
	assert_int_equal(seen.first[1], PREFIXES);
	assert_int_equal(seen.at_first.prefixes_written, before.prefixes_written);
	/* then Babel selected the same, and only those few whose second way it was were written */
	assert_int_equal(seen.last[1], PREFIXES);
	assert_true(seen.settled.groups_renamed > before.groups_renamed);
	assert_true(seen.settled.prefixes_written - before.prefixes_written <= FEW);
	sim_free(s);
}

/* A part of the routes of node 0; its place in ret_next. How many there are in it. */
static size_t ask_part(struct sim *s, char next[static CTL_FROM], size_t *ret_selected)
{
	struct ctl_request q = {.command = CTL_ROUTES};
	struct node_outside o = {.crypto = "test"};
	struct buf request = {0}, reply = {0};
	const struct value *routes;
	const char *then;
	struct value_doc *d;
	size_t count;

	strcpy(q.from, next);
	ctl_request_write(&q, &request);
	node_command(sim_node(s, 0), view_of(request.p, request.n), &o, sim_now(s), &reply);
	assert_int_equal(value_parse(buf_view(&reply), &d), 0);
	routes = value_get(value_root(d), "routes");
	count = value_count(routes);
	for (size_t i = 0; i < count; i++)
		*ret_selected += value_bool(value_get(value_at(routes, i), "selected"));
	then = value_string(value_get(value_root(d), "next"));
	strcpy(next, then ? then : "");
	value_free(d);
	buf_free(&request);
	buf_free(&reply);
	return count;
}

static void routes_are_told_in_parts(void **state)
{
	enum { OWN = 2, OTHERS = 4 }; /* addresses of nodes */
	struct seen seen = {0};
	struct sim *s = two_ways(92, &seen);
	char next[CTL_FROM] = "";
	size_t selected = 0, first = ask_part(s, next, &selected), rest;

	(void)state;
	assert_int_equal(first, PART);
	assert_true(next[0]);
	rest = ask_part(s, next, &selected);
	assert_string_equal(next, "");
	/* each prefix and each address by both links */
	assert_int_equal(first + rest, OWN + 2 * (PREFIXES + OTHERS));
	assert_int_equal(selected, OWN + PREFIXES + OTHERS);
	strcpy(next, "nowhere");
	assert_int_equal(ask_part(s, next, &selected), 0);
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_link_changes_groups_only),
		cmocka_unit_test(routes_are_told_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
