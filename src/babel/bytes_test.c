/* One speaker and packets made by hand: what it does with what a peer may not send, or seldom does.
 */
#include "babel/bed_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "babel/babel_priv.h"

/* The speaker is node 0; nodes 1 and 2 are only addresses, on link 0 and 1. */
struct rig {
	struct bed bed;
	struct babel_build w;
	uint8_t bytes[1400];
	uint16_t hello[3];
	struct babel_parsed sent; /* what the speaker has sent since the last look */
	struct babel_tlv seen[256];
	size_t seen_n;
	bool unicast[256];
};

static bool watch(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct rig *r = t->ctx;

	(void)link;
	(void)from;
	assert_int_equal(babel_parse(p->data, &p->source, &r->sent), BABEL_PARSE_OK);
	for (size_t i = 0; i < r->sent.n && r->seen_n < 256; i++) {
		/* whatever happens, none is asked for */
		assert_int_not_equal(r->sent.tlv[i].type, BABEL_TLV_ACK_REQUEST);
		r->unicast[r->seen_n] = !ipaddr_is_multicast(&p->destination);
		r->seen[r->seen_n++] = r->sent.tlv[i];
	}
	return false;
}

static size_t count(const struct rig *r, enum babel_tlv_type type)
{
	size_t n = 0;

	for (size_t i = 0; i < r->seen_n; i++)
		n += r->seen[i].type == type;
	return n;
}

static const struct babel_tlv *last(const struct rig *r, enum babel_tlv_type type)
{
	for (size_t i = r->seen_n; i; i--) {
		if (r->seen[i - 1].type == type)
			return &r->seen[i - 1];
	}
	fail_msg("no TLV of type %d", type);
	return NULL;
}

static void open_packet(struct rig *r)
{
	babel_build_begin(&r->w, r->bytes, sizeof(r->bytes), false);
}

static void deliver(struct rig *r, size_t peer)
{
	struct babel_datagram d = {.iface = (uint32_t)peer,
		.source = bed_address(peer - 1, peer),
		.at = r->bed.now};

	babel_build_body_end(&r->w);
	d.data = wcur_written(&r->w.w);
	babel_input(r->bed.node[0].b, &d, r->bed.now);
	bed_touch(&r->bed, 0);
}

static void greet(struct rig *r, size_t peer, uint16_t cost)
{
	struct babel_ihu i = {.to = bed_address(peer - 1, 0), .rxcost = cost, .interval = 1200};

	open_packet(r);
	(void)babel_build_hello(&r->w, r->hello[peer]++, 400, 0);
	(void)babel_build_ihu(&r->w, &i);
	deliver(r, peer);
}

static void update(struct rig *r, size_t peer, uint8_t id, uint16_t seqno, uint16_t metric)
{
	struct babel_update u = {.prefix = bed_prefix(9),
		.interval = 1600,
		.seqno = seqno,
		.metric = metric,
		.router_id = {9, [7] = id}};

	open_packet(r);
	(void)babel_build_update(&r->w, &u);
	deliver(r, peer);
}

static void begin(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	bed_begin(&r->bed, 3, 1);
	r->bed.ctx = r;
	bed_link(&r->bed, 0, 1, W_MS);
	bed_link(&r->bed, 0, 2, W_MS);
	bed_start(&r->bed, 0, NULL);
	r->bed.lose = watch;
	bed_run(&r->bed, 2 * W_SEC);
	greet(r, 1, 10);
	greet(r, 2, 20);
	bed_run(&r->bed, W_SEC);
	r->seen_n = 0;
}

static void end(struct rig *r)
{
	babel_parsed_free(&r->sent);
	bed_end(&r->bed);
}

static int via(struct rig *r)
{
	struct babel_prefix p = bed_prefix(9);
	size_t next = bed_next(&r->bed, 0, &p);

	return next == SIZE_MAX ? 0 : (int)next;
}

/* Keeps both peers alive. */
static void pass(struct rig *r, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		if (i % 4 == 0) {
			greet(r, 1, 10);
			greet(r, 2, 20);
		}
		bed_run(&r->bed, W_SEC);
	}
}

static void retractions_need_only_a_prefix(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	update(&r, 1, 1, 5, 100);
	update(&r, 2, 1, 5, 100);
	assert_int_equal(via(&r), 1);
	update(&r, 1, 3, 1, BABEL_INFINITY); /* another seqno and no router-id in front */
	assert_int_equal(via(&r), 2);
	open_packet(&r);
	(void)babel_build_wildcard_retraction(&r.w, 1600);
	deliver(&r, 2);
	assert_int_equal(via(&r), 0);
	end(&r);
}

static void an_unfeasible_update_unselects(void **state)
{
	const struct babel_tlv *q;
	struct rig r;

	(void)state;
	begin(&r);
	update(&r, 1, 1, 5, 100);
	pass(&r, 2); /* announced with 110: the feasibility distance */
	assert_int_equal(via(&r), 1);
	r.seen_n = 0;
	update(&r, 1, 1, 5, 110);
	assert_int_equal(via(&r), 0);
	bed_run(&r.bed, W_SEC);
	q = last(&r, BABEL_TLV_SEQNO_REQUEST);
	assert_int_equal(q->request.seqno, 6);
	assert_int_equal(q->request.hop_count, BABEL_HOP_COUNT);
	/* retracted, three times over */
	q = last(&r, BABEL_TLV_UPDATE);
	assert_int_equal(q->update.metric, BABEL_INFINITY);
	update(&r, 1, 1, 6, 110);
	assert_int_equal(via(&r), 1);
	pass(&r, 1);
	/* an older seqno, across the wrap */
	update(&r, 1, 1, (uint16_t)(6 + 32767), 50);
	pass(&r, 1);
	update(&r, 1, 1, (uint16_t)(6 + 2), 40);
	assert_int_equal(via(&r), 0);
	end(&r);
}

/* Asked for before it expires, then infinite, then gone. */
static void a_silent_neighbour_is_asked(void **state)
{
	struct rig r;

	(void)state;
	begin(&r);
	update(&r, 1, 1, 5, 100);
	pass(&r, 38);
	assert_int_equal(count(&r, BABEL_TLV_ROUTE_REQUEST), 0);
	pass(&r, 4);
	assert_int_equal(count(&r, BABEL_TLV_ROUTE_REQUEST), 1);
	assert_int_equal(via(&r), 1);
	pass(&r, 14);
	assert_int_equal(via(&r), 0);
	end(&r);
}

/* One of several sources of a prefix, and none without hops left or with a reserved id. */
static void requests_go_on_once(void **state)
{
	struct babel_seqno_request q = {.prefix = bed_prefix(9),
		.seqno = 6,
		.hop_count = 5,
		.router_id = {9, [7] = 1}};
	struct rig r;

	(void)state;
	begin(&r);
	update(&r, 1, 1, 5, 100);
	pass(&r, 2);
	r.seen_n = 0;
	for (int i = 0; i < 100; i++) { /* within a second */
		open_packet(&r);
		(void)babel_build_seqno_request(&r.w, &q);
		deliver(&r, 2);
		bed_run(&r.bed, 10 * W_MS);
	}
	assert_int_equal(count(&r, BABEL_TLV_SEQNO_REQUEST), 1);
	assert_int_equal(last(&r, BABEL_TLV_SEQNO_REQUEST)->request.hop_count, 4);
	/* the answer goes to who asked, at once */
	r.seen_n = 0;
	update(&r, 1, 1, 6, 100);
	bed_run(&r.bed, 100 * W_MS);
	assert_int_equal(last(&r, BABEL_TLV_UPDATE)->update.seqno, 6);
	/* never back to who asks, never with no hops left */
	r.seen_n = 0;
	q.seqno = 9;
	open_packet(&r);
	(void)babel_build_seqno_request(&r.w, &q);
	deliver(&r, 1);
	q.hop_count = 1;
	open_packet(&r);
	(void)babel_build_seqno_request(&r.w, &q);
	deliver(&r, 2);
	bed_run(&r.bed, W_SEC);
	assert_int_equal(count(&r, BABEL_TLV_SEQNO_REQUEST), 0);
	/* another router-id is answered with what there is */
	r.seen_n = 0;
	q.router_id[7] = 2;
	open_packet(&r);
	(void)babel_build_seqno_request(&r.w, &q);
	deliver(&r, 2);
	bed_run(&r.bed, W_SEC);
	assert_int_equal(last(&r, BABEL_TLV_UPDATE)->update.metric, 110);
	end(&r);
}

static void the_own_seqno_grows_by_one(void **state)
{
	struct babel_seqno_request q = {.prefix = bed_prefix(0), .seqno = 500, .hop_count = 5};
	struct rig r;

	(void)state;
	begin(&r);
	bed_originate(&r.bed, 0);
	bed_run(&r.bed, 61 * W_SEC);
	update(&r, 1, 1, 5, 100); /* who asks is still known */
	bed_run(&r.bed, 3 * W_SEC);
	memcpy(q.router_id, r.bed.node[0].router_id, 8);
	for (int i = 1; i <= 10; i++) {
		open_packet(&r);
		(void)babel_build_seqno_request(&r.w, &q);
		deliver(&r, 1);
		r.seen_n = 0;
		bed_run(&r.bed, 50 * W_MS);
		assert_int_equal(last(&r, BABEL_TLV_UPDATE)->update.seqno, i);
	}
	end(&r);
}

/* Soon after the start the number of a former life is taken over, once; then it is one by one. */
static void a_former_life_s_seqno_is_taken_over(void **state)
{
	static const uint16_t wanted[] = {500, 700, 700}, have[] = {500, 501, 502};
	struct babel_seqno_request q = {.prefix = bed_prefix(0), .hop_count = 5};
	struct rig r;

	(void)state;
	begin(&r);
	bed_originate(&r.bed, 0);
	bed_run(&r.bed, 3 * W_SEC);
	memcpy(q.router_id, r.bed.node[0].router_id, 8);
	for (int i = 0; i < 3; i++) {
		q.seqno = wanted[i];
		open_packet(&r);
		(void)babel_build_seqno_request(&r.w, &q);
		deliver(&r, 1);
		r.seen_n = 0;
		bed_run(&r.bed, 50 * W_MS);
		assert_int_equal(last(&r, BABEL_TLV_UPDATE)->update.seqno, have[i]);
	}
	end(&r);
}

static void what_is_not_here_is_retracted(void **state)
{
	struct babel_prefix p = bed_parse("10.9.0.0/16", "192.0.2.0/24");
	const struct babel_tlv *u;
	struct rig r;

	(void)state;
	begin(&r);
	open_packet(&r);
	(void)babel_build_route_request(&r.w, &p);
	deliver(&r, 1);
	bed_run(&r.bed, W_SEC);
	u = last(&r, BABEL_TLV_UPDATE);
	assert_int_equal(u->update.metric, BABEL_INFINITY);
	assert_memory_equal(&u->update.prefix, &p, sizeof(p));
	end(&r);
}

/* RFC 8966 3.3: within the interval, which may be a hundredth of a second, and to who asked alone,
 * though the request went to all; each request has its own. */
static void acknowledgments_are_answered(void **state)
{
	static const uint8_t ask[] = {2, 6, 0, 0, 0xab, 0xcd, 0, 1, 2, 6, 0xff, 0xff, 0, 1, 0, 1};
	const uint16_t want[] = {0xabcd, 1};
	struct rig r;
	size_t acks = 0;

	(void)state;
	begin(&r);
	r.seen_n = 0;
	open_packet(&r);
	wcur_bytes(&r.w.w, ask, sizeof(ask));
	deliver(&r, 1);
	bed_run(&r.bed, 5 * W_MS);
	for (size_t i = 0; i < r.seen_n; i++) {
		if (r.seen[i].type != BABEL_TLV_ACK)
			continue;
		assert_true(acks < 2 && r.unicast[i]);
		assert_int_equal(r.seen[i].ack.opaque, want[acks++]);
	}
	assert_int_equal(acks, 2);
	end(&r);
}

static void an_ihu_of_nothing_costs_one(void **state)
{
	struct babel_neighbour_info n;
	struct rig r;

	(void)state;
	begin(&r);
	greet(&r, 1, 0);
	assert_true(bed_neighbour(&r.bed, 0, 0, 1, &n));
	assert_int_equal(n.cost, 1);
	greet(&r, 1, BABEL_INFINITY);
	assert_true(bed_neighbour(&r.bed, 0, 0, 1, &n));
	assert_int_equal(n.cost, BABEL_INFINITY);
	greet(&r, 1, 65000);
	update(&r, 1, 1, 5, 1000); /* the sum saturates */
	assert_int_equal(via(&r), 0);
	end(&r);
}

/* Times that cannot be. */
static void absurd_times_are_no_samples(void **state)
{
	struct babel_neighbour_info n;
	struct babel_stats s;
	struct rig r;

	(void)state;
	begin(&r);
	for (int i = 0; i < 4; i++) {
		uint32_t now = babel_timestamp(r.bed.node[0].b, r.bed.now);
		const struct babel_ihu bad[4] = {
			{.origin = now + 1000000, .receive = 5},      /* from the future */
			{.origin = now - 200000000, .receive = 5},    /* too old */
			{.origin = now - 1000, .receive = 999999},    /* answered before it came */
			{.origin = now - 1000, .receive = 5 - 10000}, /* a negative round trip */
		};
		struct babel_ihu ihu = bad[i];

		ihu.to = bed_address(0, 0);
		ihu.rxcost = 10;
		ihu.interval = 1200;
		ihu.has_time = true;
		open_packet(&r);
		(void)babel_build_hello(&r.w, r.hello[1]++, 400, 5);
		(void)babel_build_ihu(&r.w, &ihu);
		deliver(&r, 1);
	}
	babel_stats(r.bed.node[0].b, &s);
	assert_int_equal(s.drops[BABEL_DROP_TIMESTAMP], 4);
	assert_true(bed_neighbour(&r.bed, 0, 0, 1, &n));
	assert_false(n.has_rtt);
	end(&r);
}

static void strangers_are_not_heard(void **state)
{
	struct babel_stats s;
	struct babel_datagram d = {.iface = 1, .source = bed_address(0, 7)};
	struct rig r;

	(void)state;
	begin(&r);
	open_packet(&r);
	(void)babel_build_hello(&r.w, 1, 400, 0);
	babel_build_body_end(&r.w);
	d.data = wcur_written(&r.w.w);
	d.iface = 99;
	babel_input(r.bed.node[0].b, &d, r.bed.now);
	d.iface = 1;
	d.source.b[0] = 0x20;
	babel_input(r.bed.node[0].b, &d, r.bed.now);
	d.source = bed_address(0, 7);
	r.bytes[1] = 3;
	babel_input(r.bed.node[0].b, &d, r.bed.now);
	babel_stats(r.bed.node[0].b, &s);
	assert_int_equal(s.drops[BABEL_DROP_UNKNOWN_IFACE], 1);
	assert_int_equal(s.drops[BABEL_DROP_NOT_LINK_LOCAL], 1);
	assert_int_equal(s.drops[BABEL_DROP_VERSION], 1);
	assert_int_equal(s.neighbours, 2);
	assert_string_equal(babel_drop_name(BABEL_DROP_VERSION), "babel-version");
	/* an update from one who has never said hello */
	open_packet(&r);
	(void)babel_build_wildcard_retraction(&r.w, 100);
	deliver(&r, 1);
	/* what no route may lead to */
	for (size_t i = 0; i < 4; i++) {
		static const char *const bad[] = {"fe80::/64", "ff00::/8", "::1/128",
			"224.0.0.0/4"};
		struct babel_update u = {.prefix = bed_parse(bad[i], NULL),
			.interval = 1600,
			.router_id = {1}};

		open_packet(&r);
		(void)babel_build_update(&r.w, &u);
		deliver(&r, 1);
	}
	babel_stats(r.bed.node[0].b, &s);
	assert_int_equal(s.routes, 0);
	assert_int_equal(s.drops[BABEL_DROP_FILTERED], 4);
	end(&r);
}

/* All pairs against the definition. */
static void seqnos_compare_as_defined(void **state)
{
	(void)state;
	for (uint32_t a = 0; a < 65536; a += 257) {
		for (uint32_t b = 0; b < 65536; b++) {
			uint32_t diff = (b - a) % 65536;

			assert_true(babel_seqno_less((uint16_t)a, (uint16_t)b) ==
				(diff > 0 && diff < 32768));
		}
	}
}

static void a_step_is_believed_after_three(void **state)
{
	struct babel_rtt r = {0};
	wtime t = {0};

	(void)state;
	assert_true(babel_rtt_sample(&r, 10000, t));
	for (int i = 0; i < 20; i++)
		assert_false(babel_rtt_sample(&r, 10000 + i % 3 * 200, t));
	assert_in_range(r.used, 9900, 10400);
	assert_false(babel_rtt_sample(&r, 150000, t));
	assert_false(babel_rtt_sample(&r, 140000, t));
	assert_true(babel_rtt_sample(&r, 152000, t));
	assert_int_equal(r.used, 152000);
	/* one spike is none */
	for (int i = 0; i < 15; i++)
		(void)babel_rtt_sample(&r, 150000, t);
	assert_false(babel_rtt_sample(&r, 900000, t));
	assert_false(babel_rtt_sample(&r, 150000, t));
	for (int i = 0; i < 40; i++)
		(void)babel_rtt_sample(&r, 150000, t);
	assert_in_range(r.used, 149000, 151000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retractions_need_only_a_prefix),
		cmocka_unit_test(an_unfeasible_update_unselects),
		cmocka_unit_test(a_silent_neighbour_is_asked),
		cmocka_unit_test(requests_go_on_once),
		cmocka_unit_test(the_own_seqno_grows_by_one),
		cmocka_unit_test(a_former_life_s_seqno_is_taken_over),
		cmocka_unit_test(what_is_not_here_is_retracted),
		cmocka_unit_test(acknowledgments_are_answered),
		cmocka_unit_test(an_ihu_of_nothing_costs_one),
		cmocka_unit_test(absurd_times_are_no_samples),
		cmocka_unit_test(strangers_are_not_heard),
		cmocka_unit_test(seqnos_compare_as_defined),
		cmocka_unit_test(a_step_is_believed_after_three),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
