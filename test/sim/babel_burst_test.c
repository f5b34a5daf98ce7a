/* One node with 200 neighbours that announce 2,000 prefixes each: its full dumps are paced. */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

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
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_big_table_makes_no_burst)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
