/* The hops of a trace, asked of whole nodes: along relays, through segments, past silent ones; and
 * answers that are none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "ctl/value.h"
#include "fib/fib.h"
#include "plane/plane.h"
#include "sim.h"
#include "sim_priv.h"
#include "wire/icmp.h"

enum { A, B, C, D };

/* 1 ms each way between neighbours of the chain, nothing between others. */
static struct sim *chain(uint64_t seed)
{
	const struct sim_options o = {.seed = seed, .nodes = 4, .learn = true};
	const struct sim_path cut = {.cut = true}, wire = {.delay_us = W_MS};
	struct sim *s = sim_new(&o);

	for (unsigned int i = 0; i < o.nodes; i++)
		for (unsigned int k = 0; k < o.nodes; k++)
			sim_path_set(s, i, k, i + 1 == k || k + 1 == i ? &wire : &cut);
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	return s;
}

static struct sim *steered(uint64_t seed, const char *candidate)
{
	const struct sim_options o = {.seed = seed,
		.nodes = 4,
		.learn = true,
		.srv6 = true,
		.path = {.delay_us = W_MS}};
	struct sim *s = sim_new(&o);
	char policies[512];

	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	sim_run(s, 10 * W_SEC);
	(void)snprintf(policies, sizeof(policies),
		"policies:\n  - {name: four, destination: 10.66.0.3/32, candidates: [%s]}\n"
		"  - {name: six, destination: \"fd00:66::4/128\", candidates: [%s]}\n",
		candidate, candidate);
	assert_int_equal(sim_reload(s, A, policies), 0);
	return s;
}

static const char *member(const struct value *v, const char *key)
{
	const char *text = value_string(value_get(v, key));

	return text ? text : "-";
}

/* The hops as "n0 10.66.0.0 local|n1 10.66.0.1 probed|..." and the reason, checked; round trips of
 * what was probed are 2 ms a link, and little more. */
static void told(const char *text, const char *hops, const char *reason)
{
	const struct value *list;
	struct value_doc *d;
	char got[1024] = "";
	size_t n = 0;

	assert_int_equal(value_parse(view_of(text, strlen(text)), &d), 0);
	list = value_get(value_root(d), "hops");
	for (size_t i = 0; i < value_count(list); i++) {
		const struct value *h = value_at(list, i);
		double rtt = value_number(value_get(h, "rtt_ms"), -1);
		const char *source = member(h, "source");

		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s %s %s", i ? "|" : "",
			member(value_get(h, "node"), "name"), member(h, "address"), source);
		assert_true(strcmp(source, "probed") == 0 ? rtt >= 2 && rtt < 3.5 * (double)i
							  : rtt == -1);
	}
	if (strcmp(got, hops) != 0 || !strstr(member(value_root(d), "reason"), reason)) {
		print_message("%s\n", text);
		fail();
	}
	value_free(d);
}

static void traced(struct sim *s, const char *what, const char *hops, const char *reason)
{
	told(sim_command(s, A, "trace", what), hops, reason);
}

static void each_hop_of_a_chain_answers(void **state)
{
	struct sim *s = chain(81);

	(void)state;
	traced(s, "10.66.0.0 10.66.0.3",
		"n0 10.66.0.0 local|n1 10.66.0.1 probed|n2 10.66.0.2 probed|n3 10.66.0.3 probed",
		"the destination answers");
	traced(s, "fd00:66::1 fd00:66::4",
		"n0 fd00:66::1 local|n1 fd00:66::2 probed|n2 fd00:66::3 probed|"
		"n3 fd00:66::4 probed",
		"the destination answers");
	/* the host has seen nothing of it */
	assert_int_equal(s->node[A].delivered, 0);
	sim_free(s);
}

/* The path is that of the packet; that the hops saw another source is said. */
static void a_source_that_is_not_ours_is_asked_for(void **state)
{
	struct sim *s = chain(82);

	(void)state;
	traced(s, "10.1.2.3 10.66.0.2",
		"n0 10.66.0.0 local|n1 10.66.0.1 probed|n2 10.66.0.2 probed",
		"the destination answers; hops were asked from 10.66.0.0");
	sim_free(s);
}

static void mute(void *ctx, unsigned int i, enum sim_moment m,
	const struct plane_snapshot *snapshot)
{
	struct plane_snapshot *change = (struct plane_snapshot *)(uintptr_t)snapshot;

	if (m != SIM_SNAPSHOT || i != *(const unsigned int *)ctx)
		return;
	change->icmp_source4 = change->icmp_source6 = (struct ipaddr){0};
}

static void silent_hops_are_told(void **state)
{
	const struct sim_options o = {.seed = 83, .nodes = 4, .learn = true};
	const struct sim_path cut = {.cut = true};
	unsigned int silent = C;
	struct sim *s;

	(void)state;
	s = chain(o.seed);
	sim_observe(s, mute, &silent);
	assert_int_equal(sim_reload(s, C, "policies: []\n"), 0);
	sim_kill(s, C);
	sim_start(s, C);
	assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	traced(s, "10.66.0.0 10.66.0.3",
		"n0 10.66.0.0 local|n1 10.66.0.1 probed|- - silent|n3 10.66.0.3 probed",
		"the destination answers");
	/* nobody there any more, and no route says so yet */
	sim_path_set(s, C, D, &cut);
	traced(s, "fd00:66::1 fd00:66::4", "n0 fd00:66::1 local|n1 fd00:66::2 probed|- - silent",
		"nothing answers beyond hop 1");
	sim_path_set(s, A, B, &cut);
	traced(s, "10.66.0.0 10.66.0.3", "n0 10.66.0.0 local|n1 - silent", "no hop answers");
	sim_free(s);
}

/* A, B, C, B, D: the hop limit that counts is the one in front of the segments. */
static void segments_are_hops(void **state)
{
	struct sim *s = steered(84, "{via: [n1, n2, n1], exit: n3}");
	uint64_t b = sim_transit(s, B);

	(void)state;
	traced(s, "fd00:66::1 fd00:66::4",
		"n0 fd00:66::1 local|n1 fd00:66::2 probed|n2 fd00:66::3 probed|"
		"n1 fd00:66::2 probed|n3 fd00:66::4 probed",
		"the destination answers");
	traced(s, "10.66.0.0 10.66.0.3",
		"n0 10.66.0.0 local|n1 fd00:66::2 probed|n2 fd00:66::3 probed|"
		"n1 fd00:66::2 probed|n3 10.66.0.3 probed",
		"the destination answers");
	assert_true(sim_transit(s, B) > b);
	/* a policy counts what people send */
	assert_non_null(strstr(sim_command(s, A, "policies", NULL), "\"packets\":0,\"bytes\":0"));
	sim_free(s);
}

static void a_path_through_its_own_head_end(void **state)
{
	struct sim *s = steered(85, "{via: [n1, n0, n2], exit: n3}");

	(void)state;
	traced(s, "fd00:66::1 fd00:66::4",
		"n0 fd00:66::1 local|n1 fd00:66::2 probed|n0 fd00:66::1 probed|"
		"n2 fd00:66::3 probed|n3 fd00:66::4 probed",
		"the destination answers");
	sim_free(s);
}

/* ---- answers that are none ---- */

static void up(struct sim *s, const uint8_t *packet, size_t len)
{
	const struct plane_up u = {.type = PLANE_UP_ECHO,
		.time = wtime_add(sim_now(s), 2 * W_MS),
		.data = view_of(packet, len)};

	node_plane_up(sim_node(s, A), &u, wtime_add(sim_now(s), 2 * W_MS));
	sim_settle(s, A);
}

/* Time Exceeded about an echo of which one byte is another, or `cut` bytes are left. */
static void forged(struct sim *s, const struct buf *echo, size_t flip, size_t cut)
{
	struct ipaddr from = sim_inner_address(B, echo->p[0] >> 4 == 6 ? IP6 : IP4);
	struct icmp_error e = {.type = ICMP_TIME_EXCEEDED, .source = &from};
	uint8_t quote[256], out[ICMP_ERROR_MAX];
	struct ip_view v;
	size_t len;

	memcpy(quote, echo->p, echo->n);
	assert_int_equal(ip_parse(view_of(quote, echo->n), &v), 0);
	if (flip)
		quote[flip] ^= 1;
	e.packet = view_of(quote, cut ? cut : echo->n);
	e.about = &v;
	assert_int_equal(icmp_error_build(&e, out, sizeof(out), &len), 0);
	up(s, out, len);
}

static void reply_from(struct sim *s, const struct buf *echo, bool other)
{
	struct icmp_echo e;
	struct ipaddr from;
	uint8_t out[256];
	struct ip_view v;
	size_t len;

	assert_int_equal(ip_parse(buf_view(echo), &v), 0);
	assert_int_equal(icmp_echo_parse(buf_view(echo), &v, &e), 0);
	from = e.dst;
	if (other)
		from.b[3] ^= 1;
	e.dst = e.src;
	e.src = from;
	e.reply = true;
	assert_int_equal(icmp_echo_build(&e, out, sizeof(out), &len), 0);
	up(s, out, len);
}

static void start(struct sim *s, const char *what)
{
	buf_free(&s->echo);
	sim_command_start(s, A, "trace", what);
	sim_run(s, W_MS);
	assert_true(s->echo.n > 0);
}

static void forged_answers_are_none(void **state)
{
	enum { ID4 = 24, SEQ4 = 26, DATA4 = 28, ID6 = 44, SEQ6 = 46, DATA6 = 48, LAST = 15 };
	struct sim *s = chain(86);
	const struct sim_path cut = {.cut = true};

	(void)state;
	sim_path_set(s, A, B, &cut);
	start(s, "10.66.0.0 10.66.0.3");
	for (size_t at = ID4; at <= DATA4 + LAST; at++)
		forged(s, &s->echo, at, 0);
	forged(s, &s->echo, 16 + 3, 0); /* about another destination */
	forged(s, &s->echo, 22, 28);    /* cut short, another checksum */
	forged(s, &s->echo, 0, 27);     /* and shorter than RFC 792 has it */
	reply_from(s, &s->echo, true);
	told(sim_command_end(s), "n0 10.66.0.0 local|n1 - silent", "no hop answers");
	sim_path_set(s, A, B, &(struct sim_path){.delay_us = W_MS});
	sim_run(s, 5 * W_SEC);
	sim_path_set(s, A, B, &cut);
	start(s, "fd00:66::1 fd00:66::4");
	for (size_t at = ID6; at <= DATA6 + LAST; at++)
		forged(s, &s->echo, at, 0);
	forged(s, &s->echo, 0, 48); /* IPv6 quotes all there is room for */
	told(sim_command_end(s), "n0 fd00:66::1 local|n1 - silent", "no hop answers");
	/* after its end nothing is waited for */
	forged(s, &s->echo, 0, 0);
	sim_free(s);
}

/* What the same test makes of genuine ones: an old router that quotes eight bytes is heard. */
static void genuine_answers_are_some(void **state)
{
	struct sim *s = chain(87);
	const struct sim_path cut = {.cut = true};

	(void)state;
	sim_path_set(s, A, B, &cut);
	start(s, "10.66.0.0 10.66.0.3");
	forged(s, &s->echo, 0, 28);
	told(sim_command_end(s), "n0 10.66.0.0 local|n1 10.66.0.1 probed|- - silent",
		"nothing answers beyond hop 1");
	start(s, "10.66.0.0 10.66.0.3");
	reply_from(s, &s->echo, false);
	told(sim_command_end(s), "n0 10.66.0.0 local|n3 10.66.0.3 probed", "answers");
	sim_free(s);
}

/* More at once than are asked get the decision, and are told that nothing was asked. */
static void only_so_many_at_once(void **state)
{
	const struct sim_path cut = {.cut = true};
	struct node_outside o = {.crypto = "test"};
	const char *request = "{\"command\": \"trace\", \"argument\": \"10.66.0.0 10.66.0.3\"}";
	struct sim *s = chain(88);
	struct buf reply = {0};

	(void)state;
	sim_path_set(s, A, B, &cut);
	for (int i = 0; i < 4; i++)
		assert_true(node_command(sim_node(s, A), view_of(request, strlen(request)), &o,
				    sim_now(s), &reply) > 0);
	assert_int_equal(reply.n, 0);
	assert_int_equal(node_command(sim_node(s, A), view_of(request, strlen(request)), &o,
				 sim_now(s), &reply),
		0);
	assert_non_null(strstr((char *)reply.p, "other traces are under way"));
	buf_free(&reply);
	sim_free(s); /* and what is under way ends with the node */
}

/* As the plane has it: no SID there, so nowhere, whatever shorter prefix there is. */
static void the_own_locator_is_nowhere(void **state)
{
	struct sim *s = steered(90, "{via: [n1]}");

	(void)state;
	assert_non_null(strstr(sim_command(s, A, "trace", "fd00:66::1 fd00:5:1::ee00:1"),
		"\"verdict\":\"unreachable\""));
	sim_free(s);
}

/* ---- the way that the data path takes ---- */

struct moment {
	struct sim *s;
	uint32_t slot; /* that packets from A to B took before */
	bool over;
};

static uint32_t slot_to_b(const struct plane_snapshot *snapshot)
{
	const struct ipaddr from = sim_inner_address(A, IP4), to = sim_inner_address(B, IP4);
	uint32_t value;

	assert_true(fib_lookup(snapshot->fib, &to, &from, &value));
	assert_int_equal(snapshot->next_hop[value].type, PLANE_LINK);
	return snapshot->next_hop[value].slot;
}

/* Asks at the moment when packets go elsewhere, before Babel is told why. */
static void ask_then(void *ctx, unsigned int i, enum sim_moment m,
	const struct plane_snapshot *snapshot)
{
	const char *request = "{\"command\": \"trace\", \"argument\": \"10.66.0.0 10.66.0.1\"}";
	struct node_outside o = {.crypto = "test"};
	struct moment *t = ctx;

	if (m != SIM_SNAPSHOT || i != A || t->over)
		return;
	if (t->slot == UINT32_MAX)
		t->slot = slot_to_b(snapshot);
	if (t->slot == slot_to_b(snapshot))
		return;
	t->over = true;
	buf_free(&t->s->reply);
	t->s->reply_id = node_command(sim_node(t->s, A), view_of(request, strlen(request)), &o,
		sim_now(t->s), &t->s->reply);
}

static void the_second_way_is_told_when_it_is_taken(void **state)
{
	const struct sim_options o = {.seed = 91,
		.nodes = 3,
		.learn = true,
		.path = {.delay_us = 10 * W_MS}};
	const struct sim_path cut = {.cut = true}, near = {.delay_us = W_MS};
	struct sim *s = sim_new(&o);
	struct moment t = {.s = s, .slot = UINT32_MAX};
	const char *text;

	(void)state;
	/* C is nearer to B than A is: a way through it cannot lead back */
	sim_path_set(s, B, C, &near);
	sim_path_set(s, C, B, &near);
	for (unsigned int i = 0; i < o.nodes; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 60 * W_SEC, sim_all_routed));
	sim_run(s, 60 * W_SEC);
	assert_int_equal(sim_next_hop(s, A, B), B);
	sim_observe(s, ask_then, &t);
	assert_int_equal(sim_reload(s, A, "policies: []\n"), 0);
	sim_path_set(s, A, B, &cut);
	sim_path_set(s, B, A, &cut);
	for (int i = 0; i < 1000 && !t.over; i++) {
		sim_send(s, A, B, IP4);
		sim_run(s, 10 * W_MS);
	}
	assert_true(t.over);
	text = sim_command_end(s);
	assert_non_null(strstr(text, "\"verdict\":\"link\""));
	assert_non_null(strstr(text, "the link of the route selected is down"));
	assert_non_null(strstr(text, "\"why_not\":\"its link is down, and Babel"));
	assert_non_null(strstr(text, "\"name\":\"n2\"},\"address\":\"10.66.0.2\""));
	sim_free(s);
}

/* One echo to a node by its name; what is not known is said. */
static void a_ping_reaches_a_node_by_name(void **state)
{
	struct sim *s = chain(89);

	(void)state;
	assert_non_null(strstr(sim_command(s, A, "ping", "n3"),
		"\"address\":\"fd00:66::4\",\"rtt_ms\":6,\"reason\":null"));
	assert_non_null(strstr(sim_command(s, A, "ping", "org2/n2"), "\"rtt_ms\":4"));
	assert_non_null(strstr(sim_command(s, A, "ping", "org1/n2"), "no such node"));
	assert_non_null(strstr(sim_command(s, A, "ping", "n0"), "no address of that node"));
	sim_path_set(s, A, B, &(struct sim_path){.cut = true});
	assert_non_null(strstr(sim_command(s, A, "ping", "n3"),
		"\"rtt_ms\":null,\"reason\":\"no answer\""));
	sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_hop_of_a_chain_answers),
		cmocka_unit_test(a_source_that_is_not_ours_is_asked_for),
		cmocka_unit_test(silent_hops_are_told),
		cmocka_unit_test(segments_are_hops),
		cmocka_unit_test(a_path_through_its_own_head_end),
		cmocka_unit_test(forged_answers_are_none),
		cmocka_unit_test(genuine_answers_are_some),
		cmocka_unit_test(only_so_many_at_once),
		cmocka_unit_test(the_own_locator_is_nowhere),
		cmocka_unit_test(the_second_way_is_told_when_it_is_taken),
		cmocka_unit_test(a_ping_reaches_a_node_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
