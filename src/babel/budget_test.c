/* How much a speaker with many links says when much changes, and how often when it is asked. Its
 * neighbours are addresses: packets made by hand. */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

enum { PEERS = 20, PREFIXES = 400, SECONDS = 30, DUMPS = 500 };

struct rig {
	struct bed bed;
	struct babel_parsed sent;
	size_t updates[PEERS + 1], requests;
};

static bool watch(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct rig *r = t->ctx;

	(void)from;
	assert_int_equal(babel_parse(p->data, &p->source, &r->sent), BABEL_PARSE_OK);
	for (size_t i = 0; i < r->sent.n; i++) {
		r->updates[link + 1] += r->sent.tlv[i].type == BABEL_TLV_UPDATE;
		r->requests += r->sent.tlv[i].type == BABEL_TLV_SEQNO_REQUEST;
	}
	return true;
}

static void deliver(struct rig *r, struct babel_build *w, size_t peer)
{
	struct babel_datagram d = {.iface = (uint32_t)peer,
		.source = bed_address(peer - 1, peer),
		.at = r->bed.now};

	babel_build_body_end(w);
	d.data = wcur_written(&w->w);
	babel_input(r->bed.node[0].b, &d, r->bed.now);
}

static void greet(struct rig *r, size_t peer, uint16_t hello)
{
	struct babel_ihu ihu = {.to = bed_address(peer - 1, 0), .rxcost = 10, .interval = 1200};
	uint8_t bytes[1400];
	struct babel_build w;

	babel_build_begin(&w, bytes, sizeof(bytes), false);
	(void)babel_build_hello(&w, hello, 400, 0);
	(void)babel_build_ihu(&w, &ihu);
	deliver(r, &w, peer);
}

/* Peer 1 announces all prefixes. */
static void announce(struct rig *r, uint16_t seqno, uint16_t metric)
{
	for (size_t i = 0; i < PREFIXES;) {
		uint8_t bytes[1400];
		struct babel_build w;

		babel_build_begin(&w, bytes, sizeof(bytes), false);
		for (; i < PREFIXES; i++) {
			struct babel_update u = {.prefix = bed_prefix(i + 100),
				.interval = 30000,
				.seqno = seqno,
				.metric = metric,
				.router_id = {9, [7] = 1}};

			if (!babel_build_update(&w, &u))
				break;
		}
		deliver(r, &w, 1);
	}
	bed_touch(&r->bed, 0);
}

static void begin(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	bed_begin(&r->bed, PEERS + 1, 1);
	r->bed.ctx = r;
	r->bed.lose = watch;
	for (size_t i = 1; i <= PEERS; i++)
		bed_link(&r->bed, 0, i, W_MS);
	bed_start(&r->bed, 0, NULL);
	bed_run(&r->bed, 2 * W_SEC);
	for (size_t i = 1; i <= PEERS; i++)
		greet(r, i, 0);
	bed_touch(&r->bed, 0);
	announce(r, 1, 100);
	for (uint16_t hello = 1; hello < 30; hello++) { /* until all has been told */
		bed_run(&r->bed, 4 * W_SEC);
		for (size_t i = 1; i <= PEERS; i++)
			greet(r, i, hello);
		bed_touch(&r->bed, 0);
	}
	memset(r->updates, 0, sizeof(r->updates));
}

/* All metrics fall by much each second: what is told is the whole table to eight links at once, and
 * after that what goes in the long run, dumps included; and no link is forgotten for it. */
static void triggered_updates_have_a_budget(void **state)
{
	struct rig r;
	size_t sum = 0;

	(void)state;
	begin(&r);
	for (uint16_t i = 0; i < SECONDS; i++) {
		announce(&r, (uint16_t)(i + 2), (uint16_t)(i & 1 ? 2000 : 20));
		bed_run(&r.bed, W_SEC);
	}
	for (size_t i = 2; i <= PEERS; i++) {
		sum += r.updates[i];
		assert_true(r.updates[i] > PREFIXES / 2);
	}
	print_message("%zu updates in %d s, %d links\n", sum, SECONDS, PEERS);
	/* without it: each of 400 prefixes on 19 links each second */
	assert_in_range(sum, DUMPS * SECONDS / 2,
		8 * PREFIXES + (SECONDS + 1) * DUMPS * 5 / 4 + DUMPS);
	babel_parsed_free(&r.sent);
	bed_end(&r.bed);
}

/* A seqno request that comes from all sides and again and again goes on once while it is out, and
 * once more when it is repeated after that; each asks for no more than was asked. */
static void a_repeated_request_goes_on_once_a_turn(void **state)
{
	struct babel_seqno_request q = {.prefix = bed_prefix(100),
		.seqno = 2,
		.hop_count = 9,
		.router_id = {9, [7] = 1}};
	struct rig r;

	(void)state;
	begin(&r);
	r.requests = 0;
	for (int turn = 1; turn <= 3; turn++) {
		for (size_t peer = 2; peer <= PEERS; peer++) {
			uint8_t bytes[200];
			struct babel_build w;

			babel_build_begin(&w, bytes, sizeof(bytes), false);
			(void)babel_build_seqno_request(&w, &q);
			deliver(&r, &w, peer);
			bed_touch(&r.bed, 0);
			bed_run(&r.bed, 20 * W_MS);
		}
		assert_int_equal(r.requests, turn);
		bed_run(&r.bed, 1600 * W_MS); /* whoever asks again does so after 2 s */
	}
	babel_parsed_free(&r.sent);
	bed_end(&r.bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(triggered_updates_have_a_budget),
		cmocka_unit_test(a_repeated_request_goes_on_once_a_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
