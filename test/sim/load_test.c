/* Nodes whose own traffic fills a link with a deep queue: it stays where it is, for the queue goes
 * where it goes; and a way that has really become longer is left all the same. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ctl/value.h"
#include "sim.h"

#define HELLO (4 * W_SEC)

/* Bytes a second of a wire: enough to fill a queue, and quick to simulate. */
enum { RATE = 250000, FAST = 1250000 };

/* Milliseconds: round trips, and the queue of each wire. */
struct setting {
	double direct, first, second, queue;
	unsigned int rate;
};

static void wire(struct sim *s, unsigned int a, unsigned int b, double rtt, const struct setting *t)
{
	const struct sim_path p = {.delay_us = (int64_t)(rtt * 500),
		.rate = t->rate,
		.queue = (uint64_t)(t->queue / 1000 * t->rate)};

	sim_path_set(s, a, b, &p);
	sim_path_set(s, b, a, &p);
}

/* Nodes 0 and 2 meet directly and by node 1. */
static struct sim *triangle(uint64_t seed, const struct setting *t)
{
	const struct sim_options o = {.seed = seed, .nodes = 3, .learn = true};
	struct sim *s = sim_new(&o);

	wire(s, 0, 2, t->direct, t);
	wire(s, 0, 1, t->first, t);
	wire(s, 1, 2, t->second, t);
	for (unsigned int i = 0; i < 3; i++)
		sim_start(s, i);
	assert_true(sim_run_until(s, 30 * W_SEC, sim_all_routed));
	sim_run(s, 10 * HELLO);
	return s;
}

static struct sim_flow *greedy(struct sim *s, unsigned int from, unsigned int to)
{
	const struct sim_flow_options o = {.from = from, .to = to, .bytes = 1200};

	return sim_flow_start(s, &o);
}

static bool by_relay(struct sim *s)
{
	return sim_next_hop(s, 0, 2) == 1 && sim_next_hop(s, 2, 0) == 1;
}

static bool direct(struct sim *s)
{
	return sim_next_hop(s, 0, 2) == 2 && sim_next_hop(s, 2, 0) == 0;
}

/* The round trip that node 0 tells of its link to a peer, milliseconds. */
static double told(struct sim *s, const char *peer)
{
	const char *text = sim_command(s, 0, "links", NULL);
	struct value_doc *d;
	const struct value *links;
	double ms = -1;

	assert_int_equal(value_parse(view_of(text, strlen(text)), &d), 0);
	links = value_get(value_root(d), "links");
	for (size_t i = 0; i < value_count(links); i++) {
		const struct value *l = value_at(links, i);

		if (!strcmp(value_string(value_get(value_get(l, "peer"), "name")), peer))
			ms = value_number(value_get(l, "rtt_ms"), -1);
	}
	value_free(d);
	return ms;
}

/* What the nodes do in a time. */
struct seen {
	int changes; /* of the next hop between nodes 0 and 2, both ways */
	double most; /* of the round trip that node 0 tells of a link */
};

static struct seen watch(struct sim *s, int64_t us, const char *peer)
{
	struct seen r = {0};
	int there = sim_next_hop(s, 0, 2), back = sim_next_hop(s, 2, 0);

	for (int64_t t = 0; t < us; t += W_SEC) {
		int a, b;
		double ms;

		sim_run(s, W_SEC);
		a = sim_next_hop(s, 0, 2);
		b = sim_next_hop(s, 2, 0);
		r.changes += (a != there) + (b != back);
		there = a;
		back = b;
		ms = told(s, peer);
		r.most = ms > r.most ? ms : r.most;
	}
	return r;
}

static void ten_minutes_at_full_rate_change_nothing(void **state)
{
	static const double queue[] = {100, 200, 300, 500};

	(void)state;
	for (size_t i = 0; i < sizeof(queue) / sizeof(queue[0]); i++) {
		struct sim *s = triangle(61 + i, &(struct setting){20, 15, 15, queue[i], RATE});
		struct sim_flow *f = greedy(s, 0, 2);
		struct seen r = watch(s, 600 * W_SEC, "n2");
		double used = (double)sim_flow_acked(f) * 1200 / (600.0 * RATE);

		print_message("queue %3.0f ms: %d changes, %.0f ms told at most, %.0f %% of the "
			      "rate\n",
			queue[i], r.changes, r.most, used * 100);
		assert_int_equal(r.changes, 0);
		assert_true(direct(s));
		assert_true(r.most > 20 + queue[i] * 0.6); /* what was measured is told */
		assert_true(used > 0.75);
		sim_flow_stop(f);
		r = watch(s, 60 * W_SEC, "n2");
		assert_int_equal(r.changes, 0);
		assert_true(told(s, "n2") < 25);
		sim_free(s);
	}
}

/* No link of any node was torn down for so long. */
static bool all_kept(struct sim *s, double seconds)
{
	bool kept = true;

	for (unsigned int i = 0; i < 3; i++) {
		const char *text = sim_command(s, i, "links", NULL);
		struct value_doc *d;
		const struct value *links;

		assert_int_equal(value_parse(view_of(text, strlen(text)), &d), 0);
		links = value_get(value_root(d), "links");
		assert_int_equal(value_count(links), 2);
		for (size_t k = 0; k < value_count(links); k++) {
			const struct value *l = value_at(links, k);

			kept &= !strcmp(value_string(value_get(l, "state")), "up") &&
				value_number(value_get(l, "since_s"), -1) >= seconds;
		}
		value_free(d);
	}
	return kept;
}

/* What does not yield to loss: packets come so much faster than the wire takes them that two of
 * three small ones are lost in its queue. The direct path stays, for the relay would be as full. */
static void packets_that_do_not_yield_change_nothing(void **state)
{
	static const struct {
		double queue, times;
		bool both;
	} rows[] = {{300, 1.5, false}, {100, 2, false}, {300, 1.5, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct setting t = {20, 15, 15, rows[i].queue, RATE};
		struct sim_flow_options o = {.from = 0,
			.to = 2,
			.bytes = 1200,
			.rate = (uint64_t)(RATE * rows[i].times)};
		struct sim *s = triangle(80 + i, &t);
		struct seen r;

		(void)sim_flow_start(s, &o);
		o.from = 2;
		o.to = 0;
		if (rows[i].both)
			(void)sim_flow_start(s, &o);
		r = watch(s, 600 * W_SEC, "n2");
		print_message("%.1f times the rate%s, queue %3.0f ms: %d changes, %.0f ms told "
			      "at most\n",
			rows[i].times, rows[i].both ? " both ways" : "", rows[i].queue, r.changes,
			r.most);
		assert_int_equal(r.changes, 0);
		assert_true(direct(s));
		assert_true(all_kept(s, 600));
		sim_free(s);
	}
}

static void a_full_relay_that_is_faster_is_kept(void **state)
{
	struct sim *s = triangle(66, &(struct setting){60, 15, 15, 300, RATE});
	struct sim_flow *f = greedy(s, 0, 2);

	(void)state;
	assert_true(by_relay(s));
	assert_int_equal(watch(s, 300 * W_SEC, "n1").changes, 0);
	sim_flow_stop(f);
	assert_int_equal(watch(s, 60 * W_SEC, "n1").changes, 0);
	assert_true(by_relay(s));
	sim_free(s);
}

/* A load that comes and goes, and one both ways. */
static void loads_that_come_and_go_change_nothing(void **state)
{
	struct sim *s = triangle(67, &(struct setting){20, 15, 15, 300, RATE});
	int changes = 0;

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct sim_flow *there = greedy(s, 0, 2);
		struct sim_flow *back = i % 2 ? greedy(s, 2, 0) : NULL;

		changes += watch(s, (5 + 4 * i) * W_SEC, "n2").changes;
		sim_flow_stop(there);
		if (back)
			sim_flow_stop(back);
		changes += watch(s, (3 + i) * W_SEC, "n2").changes;
	}
	assert_int_equal(changes, 0);
	sim_free(s);
}

/* Moved within five hello intervals while the load goes on, and back. */
static void moves(uint64_t seed, double queue, uint64_t rate)
{
	const struct setting t = {10, 30, 30, queue, FAST};
	const struct sim_flow_options o = {.from = 0, .to = 2, .bytes = 1200, .rate = rate};
	struct sim *s = triangle(seed, &t);
	int64_t there, back;
	wtime begin;

	(void)sim_flow_start(s, &o);
	assert_int_equal(watch(s, 60 * W_SEC, "n2").changes, 0);
	wire(s, 0, 2, 150, &t);
	begin = sim_now(s);
	assert_true(sim_run_until(s, 30 * HELLO, by_relay));
	there = wtime_diff(sim_now(s), begin);
	assert_int_equal(watch(s, 60 * W_SEC, "n2").changes, 0);
	wire(s, 0, 2, 10, &t);
	begin = sim_now(s);
	assert_true(sim_run_until(s, 30 * HELLO, direct));
	back = wtime_diff(sim_now(s), begin);
	print_message("queue %3.0f ms: moved after %.1f hellos, back after %.1f\n", queue,
		(double)there / (double)HELLO, (double)back / (double)HELLO);
	if (rate) {
		assert_true(there <= 5 * HELLO);
		assert_true(back <= 5 * HELLO);
	}
	sim_free(s);
}

static void a_real_step_under_load_moves_traffic_and_back(void **state)
{
	(void)state;
	moves(70, 300, FAST * 4 / 5); /* a load that the link carries without a queue */
	moves(70, 20, 0);             /* and one that fills it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_minutes_at_full_rate_change_nothing),
		cmocka_unit_test(packets_that_do_not_yield_change_nothing),
		cmocka_unit_test(a_full_relay_that_is_faster_is_kept),
		cmocka_unit_test(loads_that_come_and_go_change_nothing),
		cmocka_unit_test(a_real_step_under_load_moves_traffic_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
