/* What hosts do to nodes, in virtual time: suspend, standing still, clocks that are wrong, ten
 * thousand reloads, an hour of short-lived keys under traffic. And that the checks of watch.c and
 * books.c can fail: each is shown a wrong that it must find. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "books.h"
#include "chaos.h"

#define HOUR (3600 * W_SEC)

static struct chaos *world(const char *name, unsigned int nodes, const char *yaml, bool collect)
{
	const struct chaos_options o = {.name = name,
		.seed = 7,
		.nodes = nodes,
		.yaml = yaml,
		.delay_us = 10 * W_MS,
		.jitter_us = 2 * W_MS,
		.collect = collect,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_await_exact(c, 20 * W_SEC);
	sim_run(c->s, 20 * W_SEC);
	return c;
}

/* Packets from node 0 to node 1, one each 10 ms; how many came. */
static uint64_t stream(struct chaos *c, unsigned int packets)
{
	uint64_t before = sim_delivered(c->s, 1);

	while (packets--) {
		sim_send(c->s, 0, 1, packets % 2 ? IP4 : IP6);
		sim_run(c->s, 10 * W_MS);
	}
	sim_run(c->s, 100 * W_MS);
	return sim_delivered(c->s, 1) - before;
}

/* Eight hours pass for the clock that goes on in suspend, none for the program: no
 * packet goes out under the keys of before, and new ones are there within two seconds. */
static void suspend_for_eight_hours(void **state)
{
	(void)state;
	for (unsigned int nodes = 2; nodes <= 4; nodes++) {
		struct chaos *c = world("suspend", nodes, NULL, false);

		sim_freeze(c->s, 0, 0);
		sim_run(c->s, 8 * HOUR);
		watch_lifetime(c->w, 2 * HOUR);
		sim_thaw(c->s, 0, true);
		(void)stream(c, 10);
		chaos_await_exact(c, 2 * W_SEC);
		sim_run(c->s, 10 * W_SEC);
		assert_int_equal(stream(c, 100), 100);
		(void)chaos_free(c);
	}
}

/* Both ends of a link at once, as two notebooks in one bag. */
static void both_ends_suspended(void **state)
{
	struct chaos *c = world("suspend-both", 2, NULL, false);

	(void)state;
	sim_freeze(c->s, 0, 0);
	sim_freeze(c->s, 1, 0);
	sim_run(c->s, 8 * HOUR);
	watch_lifetime(c->w, 2 * HOUR);
	sim_thaw(c->s, 0, true);
	sim_thaw(c->s, 1, true);
	chaos_await_exact(c, 2 * W_SEC);
	sim_run(c->s, 10 * W_SEC);
	assert_int_equal(stream(c, 100), 100);
	(void)chaos_free(c);
}

/* SIGSTOP for 30 s, with and without datagrams that wait in the socket, whatever
 * comes first. */
static void a_stall_of_thirty_seconds(void **state)
{
	(void)state;
	for (unsigned int way = 0; way < 4; way++) {
		struct chaos *c = world("stall", 3, NULL, false);

		for (unsigned int i = 0; i < 30; i++) {
			sim_freeze(c->s, 1, way & 1 ? 200 : 0);
			(void)stream(c, 90);
		}
		sim_thaw(c->s, 1, way & 2);
		chaos_await_exact(c, 5 * W_SEC);
		sim_run(c->s, 20 * W_SEC);
		assert_int_equal(stream(c, 100), 100);
		(void)chaos_free(c);
	}
}

/* A short one is no reason for anything: the same keys as before. */
static void a_short_stall_changes_nothing(void **state)
{
	struct chaos *c = world("short-stall", 2, NULL, false);
	uint64_t contexts = books()->contexts;

	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		sim_freeze(c->s, 1, 1000);
		(void)stream(c, 30);
		sim_thaw(c->s, 1, i % 2);
		sim_run(c->s, 3 * W_SEC);
	}
	assert_int_equal(books()->contexts, contexts);
	assert_int_equal(sim_delivered(c->s, 1), 600);
	(void)chaos_free(c);
}

/* The wall clock is a day late, or early, at a restart: the ways are back all the
 * same. */
static void wall_clocks_that_are_wrong(void **state)
{
	static const int64_t off[] = {-86400, 86400, 0, -86400};
	struct chaos *c = world("wall-clock", 3, NULL, false);

	(void)state;
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		chaos_kill(c, 1);
		sim_wall_clock(c->s, 1, off[i]);
		sim_run(c->s, 2 * W_SEC);
		sim_start(c->s, 1);
		chaos_await_exact(c, 5 * W_SEC);
		sim_run(c->s, 15 * W_SEC);
		assert_int_equal(stream(c, 100), 100);
	}
	(void)chaos_free(c);
}

/* ---- long runs ---- */

/* One of the kinds of reload. */
static void reload_once(struct chaos *c, unsigned int round)
{
	static const bool without[] = {true, true, false};
	static const char *const yaml[] = {NULL, "ike: {lifetime: 2h}\n",
		"announce: [10.9.0.0/16]\n",
		"policies: [{name: p, source: 10.66.0.0/32, destination: 10.66.0.1/32, "
		"candidates: [{via: [n2], exit: n1}], fallback: direct}]\n"};

	if (round % 200 == 199)
		(void)sim_reload_registry(c->s, 0, without, true);
	else
		assert_int_equal(sim_reload(c->s, 0, yaml[round % 4]), 0);
	if (round % 10 == 9)
		sim_run(c->s, 50 * W_MS);
}

static void ten_thousand_reloads(void **state)
{
	struct chaos *c = world("reloads", 3, NULL, false);
	int64_t blocks[2], bytes[2];

	(void)state;
	for (unsigned int part = 0; part < 2; part++) {
		for (unsigned int i = 0; i < (part ? 9000 : 1000); i++)
			reload_once(c, i);
		assert_int_equal(sim_reload_registry(c->s, 0, NULL, false), 0);
		chaos_await_exact(c, 30 * W_SEC);
		sim_run(c->s, 300 * W_SEC); /* what is held for a time is over */
		blocks[part] = books()->blocks;
		bytes[part] = books()->bytes;
	}
	assert_in_range(blocks[1], 0, blocks[0] + 50);
	assert_in_range(bytes[1], 0, bytes[0] + 16384);
	assert_int_equal(stream(c, 100), 100);
	(void)chaos_free(c);
}

/* A reload that brings node 2 back and has other sockets, in which the nth allocation fails. */
static int reload_at(struct chaos *c, uint64_t n)
{
	static const bool without[] = {true, true, false};

	sim_more(c->s, 0, NULL);
	assert_int_equal(sim_reload_registry(c->s, 0, without, true), 0);
	sim_run(c->s, 50 * W_MS);
	sim_more(c->s, 0, "underlay: {fwmark: 7}\nannounce: [10.9.0.0/16]\n");
	books_fail_reload(n);
	return sim_reload_registry(c->s, 0, NULL, false);
}

static void assert_as_before(struct chaos *c)
{
	size_t count;
	const struct node_socket *socket = node_sockets(sim_node(c->s, 0), &count);
	const char *links = sim_command(c->s, 0, "links", NULL);

	assert_int_equal(count, 1);
	assert_true(socket->wanted && socket->fwmark != 7);
	assert_non_null(strstr(links, "\"name\":\"n1\""));
	assert_null(strstr(links, "\"name\":\"n2\""));
	assert_int_equal(stream(c, 2), 2);
}

/* Each allocation of a reload fails once. Nothing was changed then: what was goes on, and the same
 * reload does its work when there is memory. Or it was done, and what was missing came soon. */
static void reloads_without_memory(void **state)
{
	struct chaos *c = world("memory", 3, NULL, false);
	unsigned int refused = 0, done = 0;

	(void)state;
	for (uint64_t n = 1;; n++) {
		int err = reload_at(c, n);

		if (!books_failed())
			break;
		if (err < 0) {
			assert_int_equal(err, -ENOMEM);
			assert_as_before(c);
			assert_int_equal(sim_reload_registry(c->s, 0, NULL, false), 0);
		}
		refused += err < 0;
		done += err == 0;
		chaos_await_exact(c, 30 * W_SEC);
		assert_int_equal(stream(c, 2), 2);
	}
	assert_true(refused > 3 && done > 20);
	(void)chaos_free(c);
}

/* A quarter of an hour at 100 packets a second each way, new keys each 10 to 20 s. */
static void short_lives_under_traffic(void **state)
{
	struct chaos *c = world("lives", 2, "ike: {lifetime: 30s, child_lifetime: 12s}\n", false);
	uint64_t before = books()->contexts, sent, got;
	int64_t bytes = 0;

	(void)state;
	for (unsigned int i = 0; i < 90000; i++) {
		sim_send(c->s, 0, 1, IP4);
		sim_send(c->s, 1, 0, IP6);
		sim_run(c->s, 10 * W_MS);
		if (i == 9000)
			bytes = books()->bytes;
	}
	sim_run(c->s, W_SEC);
	chaos_await_exact(c, 2 * W_SEC);
	sent = sim_sent(c->s, 0) + sim_sent(c->s, 1);
	got = sim_delivered(c->s, 0) + sim_delivered(c->s, 1);
	assert_in_range(got, sent - 1, sent);
	assert_true(books()->contexts - before > 4 * (uint64_t)60);
	assert_in_range(books()->bytes, 0, bytes + 65536);
	(void)chaos_free(c);
}

/* New keys, again and again: what held them is zeroed before it is given back. */
static void no_key_is_left_in_freed_memory(void **state)
{
	struct chaos *c = world("keys", 2, NULL, false);

	(void)state;
	books_hunt_keys();
	for (unsigned int i = 0; i < 20; i++) {
		(void)sim_command(c->s, i % 2, "rekey", i % 2 ? "org0/n0" : "org1/n1");
		sim_run(c->s, 2 * W_SEC);
		assert_int_equal(stream(c, 2), 2);
	}
	assert_int_equal(books()->keys_left, 0);
	books_do_wrong(BOOKS_KEY_LEFT);
	(void)sim_command(c->s, 0, "rekey", "org1/n1");
	sim_run(c->s, 2 * W_SEC);
	assert_true(books()->keys_left > 0);
	books_do_wrong(BOOKS_RIGHT);
	(void)chaos_free(c);
}

/* ---- wrongs that must be found ---- */

static void found(struct chaos *c, const char *what)
{
	const char *fault = watch_fault(c->w);

	books_do_wrong(BOOKS_RIGHT);
	assert_non_null(fault);
	if (!strstr(fault, what))
		fail_msg("found: %s", fault);
	(void)chaos_free(c);
}

static void nothing_is_found_in_a_sound_mesh(void **state)
{
	struct chaos *c = world("sound", 3, NULL, true);

	(void)state;
	(void)stream(c, 100);
	chaos_lie(c, 200);
	chaos_await_exact(c, W_SEC);
	assert_null(watch_fault(c->w));
	assert_true(watch_forged(c->w) > 100);
	assert_true(chaos_free(c));
}

static void wrong_books_are_found(void **state)
{
	static const struct {
		enum books_wrong wrong;
		const char *what;
	} w[] = {{BOOKS_NUMBER_AGAIN, "twice"},
		{BOOKS_ACCEPT_AGAIN, "an ESP number was taken in twice"},
		{BOOKS_PLAIN, "an inner packet on the wire"}};

	(void)state;
	for (size_t i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
		struct chaos *c = world("books", 2, NULL, true);

		books_do_wrong(w[i].wrong);
		(void)stream(c, 50);
		found(c, w[i].what);
	}
}

static void a_loop_is_found(void **state)
{
	struct chaos *c = world("loop", 3, NULL, true);

	(void)state;
	(void)sim_reload(c->s, 0, "static_routes: [{prefix: 10.66.0.2/32, node: n1}]\n");
	(void)sim_reload(c->s, 1, "static_routes: [{prefix: 10.66.0.2/32, node: n0}]\n");
	sim_run(c->s, W_SEC);
	found(c, "a forwarding loop to 2");
}

static void unbounded_sends_are_found(void **state)
{
	struct chaos *c = world("sends", 2, NULL, true);

	(void)state;
	for (unsigned int i = 0; i < 6000; i++)
		sim_send(c->s, 0, 1, IP4);
	found(c, "sends without measure");
}

static bool without_informational(void *ctx, unsigned int from, unsigned int to, bool ike,
	struct view data)
{
	enum { EXCHANGE_AT = 18, INFORMATIONAL = 37 };

	(void)ctx;
	(void)from;
	(void)to;
	return !ike || data.n <= EXCHANGE_AT || data.p[EXCHANGE_AT] != INFORMATIONAL;
}

static void a_second_pair_is_found(void **state)
{
	struct chaos *c = world("pairs", 2, NULL, true);

	(void)state;
	sim_filter_set(c->s, without_informational, NULL);
	(void)sim_command(c->s, 0, "rekey", "org1/n1");
	sim_run(c->s, W_SEC);
	watch_quiet(c->w, c->adjacent);
	found(c, "has not one pair");
}

/* Takes one ESP datagram of node 0 out of the network. */
static bool keep_one(void *ctx, unsigned int from, unsigned int to, bool ike, struct view data)
{
	struct buf *b = ctx;

	(void)to;
	if (ike || from != 0 || b->n || data.n < 64)
		return true;
	buf_add(b, data.p, data.n);
	return false;
}

static void a_change_by_a_stranger_is_found(void **state)
{
	struct chaos *c = world("stranger", 2, NULL, true);
	struct endpoint from = sim_endpoint(0);
	struct buf b = {0};

	(void)state;
	sim_filter_set(c->s, keep_one, &b);
	sim_send(c->s, 0, 1, IP4);
	sim_run(c->s, 100 * W_MS);
	sim_forge(c->s, 1, &from, buf_view(&b)); /* authentic: the state does change */
	buf_free(&b);
	found(c, "a forged datagram changed its state");
}

static void a_leak_is_found(void **state)
{
	struct chaos *c = world("leak", 2, NULL, true);
	void *lost = w_alloc(10);

	(void)state;
	assert_false(chaos_free(c));
	w_free(lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(suspend_for_eight_hours),
		cmocka_unit_test(both_ends_suspended),
		cmocka_unit_test(a_stall_of_thirty_seconds),
		cmocka_unit_test(a_short_stall_changes_nothing),
		cmocka_unit_test(wall_clocks_that_are_wrong),
		cmocka_unit_test(ten_thousand_reloads),
		cmocka_unit_test(reloads_without_memory),
		cmocka_unit_test(short_lives_under_traffic),
		cmocka_unit_test(no_key_is_left_in_freed_memory),
		cmocka_unit_test(nothing_is_found_in_a_sound_mesh),
		cmocka_unit_test(wrong_books_are_found),
		cmocka_unit_test(a_loop_is_found),
		cmocka_unit_test(unbounded_sends_are_found),
		cmocka_unit_test(a_second_pair_is_found),
		cmocka_unit_test(a_change_by_a_stranger_is_found),
		cmocka_unit_test(a_leak_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
