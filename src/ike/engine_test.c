/* Two engines: the initial exchanges, with every message lost, doubled and late; crossing starts;
 * restarts; policies; ends. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ike/bed_test.h"
#include "ike/sa_priv.h"

static void handshake_hybrid(void **state)
{
	struct bed_options o = {.seed = 1, .passive = {false, true}};
	struct ike_conn_status s;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 3 * W_SEC));
	assert_true(bed_is_tidy(&bed));
	s = bed_status(&bed, 1);
	assert_int_equal(s.sa.aead, AEAD_AES256_GCM16);
	assert_int_equal(s.sa.kex[0], KEX_X25519);
	assert_int_equal(s.sa.kex[1], KEX_MLKEM768);
	assert_int_equal(s.children[0].kex[1], KEX_MLKEM768);
	assert_true(s.children[0].esn);
	assert_int_equal(bed.node[0].ups, 1);
	assert_int_equal(bed.node[1].ups, 1);
	assert_true(ike_spi_established(bed.node[0].ike, s.sa.spi_i, s.sa.spi_r));
	assert_true(ike_spi_established(bed.node[1].ike, s.sa.spi_i, s.sa.spi_r));
	assert_false(ike_spi_established(bed.node[1].ike, s.sa.spi_i, s.sa.spi_r + 1));
	bed_close(&bed);
}

/* A stranger gets nothing that tells its messages from a flood's: only SAs of ours, and those whose
 * peer has authenticated itself, are told, and each is told off when it ends. */
static void spis_are_told_while_their_peer_is_known(void **state)
{
	struct bed_options o = {.seed = 3, .passive = {false, true}};
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	while (list_empty(&bed.node[1].ike->half_open))
		assert_true(bed_step(&bed));
	assert_int_equal(bed.node[0].spis, 1);
	assert_int_equal(bed.node[1].spis, 0);
	assert_true(bed_run_until_up(&bed, 3 * W_SEC));
	assert_int_equal(bed.node[1].spis, 1);
	assert_int_equal(ike_conn_rekey_ike(bed.node[1].ike, BED_CONN, bed.now), 0);
	bed_run(&bed, 40 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	assert_int_equal(bed.node[0].spis, 1);
	assert_int_equal(bed.node[1].spis, 1);
	ike_conn_remove(bed.node[0].ike, BED_CONN, bed.now);
	ike_conn_remove(bed.node[1].ike, BED_CONN, bed.now);
	assert_int_equal(bed.node[0].spis, 0);
	assert_int_equal(bed.node[1].spis, 0);
	bed_close(&bed);
}

/* What the filter does to the first so many datagrams of a kind. */
struct treat {
	enum ike_exchange exchange;
	bool response;
	enum bed_action action;
	int times;
};

static struct treat treat_now(const struct bed *bed)
{
	return (struct treat){.exchange = (enum ike_exchange)(bed->arg & 0xff),
		.response = bed->arg >> 8 & 1,
		.action = (enum bed_action)(bed->arg >> 9 & 3),
		.times = bed->arg >> 11};
}

static enum bed_action treat_filter(struct bed *bed, const struct bed_packet *p)
{
	struct treat t = treat_now(bed);

	if (!bed_is(p, t.exchange, t.response) || bed->hits >= t.times)
		return BED_PASS;
	bed->hits++;
	return t.action;
}

static void treat_set(struct bed *bed, enum ike_exchange exchange, bool response,
	enum bed_action action, int times)
{
	bed->arg = (int)exchange | response << 8 | (int)action << 9 | times << 11;
	bed->hits = 0;
	bed->filter = treat_filter;
}

static const enum ike_exchange initial[] = {IKE_SA_INIT, IKE_INTERMEDIATE, IKE_AUTH};
static const enum bed_action actions[] = {BED_DROP, BED_TWICE, BED_SLOW};

static void handshake_bad_wire(void **state)
{
	struct bed_options o = {.seed = 2, .passive = {false, true}};
	struct bed bed;

	(void)state;
	for (unsigned int i = 0; i < 3 * 2 * 3 * 2; i++) {
		int times = i / 18 ? 3 : 1;

		o.seed++;
		bed_open(&bed, &o);
		bed.filter = NULL;
		bed_close(&bed);
		o.passive[0] = true;
		bed_open(&bed, &o);
		o.passive[0] = false;
		treat_set(&bed, initial[i % 3], i / 3 % 2, actions[i / 6 % 3], times);
		ike_conn_up(bed.node[0].ike, BED_CONN, bed.now);
		bed_run(&bed, 10 * W_SEC);
		assert_in_range(bed.hits, 1, times);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].ups, 1);
		assert_int_equal(bed.node[1].ups, 1);
		bed_close(&bed);
	}
}

static enum bed_action lossy_filter(struct bed *bed, const struct bed_packet *p)
{
	uint64_t x;

	(void)p;
	rng_below(&bed->node[0].base, 100, &x);
	return x < (uint64_t)bed->arg            ? BED_DROP
		: x < (uint64_t)bed->arg * 3 / 2 ? BED_TWICE
		: x < (uint64_t)bed->arg * 2     ? BED_SLOW
						 : BED_PASS;
}

static void handshake_lossy(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct bed_options o = {.seed = 1000 + seed, .passive = {true, true}};
		struct bed bed;

		bed_open(&bed, &o);
		bed.filter = lossy_filter;
		bed.arg = 20;
		ike_conn_up(bed.node[0].ike, BED_CONN, bed.now);
		ike_conn_up(bed.node[1].ike, BED_CONN, bed.now);
		bed_run(&bed, 60 * W_SEC);
		bed.filter = NULL;
		bed_run(&bed, 40 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		bed_close(&bed);
	}
}

/* Both ends start together. */
static void crossing_start(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct bed_options o = {.seed = 5000 + seed,
			.passive = {true, true},
			.delay_us = 30 * W_MS};
		unsigned int first = seed % 2;
		struct bed bed;

		bed_open(&bed, &o);
		ike_conn_up(bed.node[first].ike, BED_CONN, bed.now);
		bed_run(&bed, (int64_t)(seed / 2) * 2 * W_MS); /* 0 to 198 ms apart */
		ike_conn_up(bed.node[1 - first].ike, BED_CONN, bed.now);
		bed.data_us = 10 * W_MS;
		bed_run(&bed, 3 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		assert_int_equal(bed.node[0].fails + bed.node[1].fails, 0);
		bed_run(&bed, 30 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		bed_close(&bed);
	}
}

static void crossing_start_lossy(void **state)
{
	static const enum ike_exchange more[] = {IKE_SA_INIT, IKE_INTERMEDIATE, IKE_AUTH,
		IKE_INFORMATIONAL};

	(void)state;
	for (unsigned int i = 0; i < 4 * 2 * 3 * 4; i++) {
		struct bed_options o = {.seed = 7000 + i,
			.passive = {true, true},
			.delay_us = 30 * W_MS};
		struct bed bed;

		bed_open(&bed, &o);
		treat_set(&bed, more[i % 4], i / 4 % 2, actions[i / 8 % 3], 1 + (int)i / 24);
		ike_conn_up(bed.node[0].ike, BED_CONN, bed.now);
		ike_conn_up(bed.node[1].ike, BED_CONN, bed.now);
		bed_run(&bed, 60 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		bed_close(&bed);
	}
}

/* One end is killed and starts anew; the survivor believes in the old SA. */
static void restart(void **state)
{
	(void)state;
	for (unsigned int which = 0; which < 2; which++) {
		for (unsigned int passive = 0; passive < 2; passive++) {
			struct bed_options o = {.seed = 90 + which, .passive = {true, true}};
			struct bed bed;

			bed_open(&bed, &o);
			ike_conn_up(bed.node[which].ike, BED_CONN, bed.now);
			bed_run(&bed, 20 * W_SEC);
			assert_true(bed_is_tidy(&bed));
			bed_restart(&bed, passive ? which : 1 - which, &o);
			o.passive[0] = o.passive[1] = false;
			bed_add_conn(&bed, passive ? which : 1 - which, &o);
			assert_true(bed_run_until_up(&bed, 2 * W_SEC));
			bed_run(&bed, 6 * W_SEC);
			assert_true(bed_is_tidy(&bed));
			bed_close(&bed);
		}
	}
}

static enum bed_action drop_all(struct bed *bed, const struct bed_packet *p)
{
	(void)bed;
	(void)p;
	return BED_DROP;
}

/* Nobody answers: tries for ever, with growing pauses; then the peer is back. */
static void outage(void **state)
{
	struct bed_options o = {.seed = 4, .passive = {false, true}};
	struct bed bed;
	unsigned int sent;

	(void)state;
	bed_open(&bed, &o);
	bed_run(&bed, 20 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	bed.filter = drop_all;
	bed_run(&bed, 60 * W_SEC);
	assert_int_equal(bed.node[0].downs, 1);
	assert_int_equal(bed.node[1].downs, 1);
	assert_int_equal(bed_status(&bed, 0).state, IKE_STATE_CONNECTING);
	assert_string_equal(bed_status(&bed, 0).reason, "peer does not answer");
	assert_int_equal(bed_status(&bed, 0).child_count, 0);
	bed_run(&bed, 600 * W_SEC);
	sent = bed.packets[0];
	bed_run(&bed, 600 * W_SEC);
	assert_in_range(bed.packets[0] - sent, 3 * 9, 3 * 15); /* three messages a minute or so */
	bed.filter = NULL;
	assert_true(bed_run_until_up(&bed, 70 * W_SEC));
	bed_run(&bed, 10 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	bed_close(&bed);
}

/* A kernel goes on sending for an IKE daemon that is gone, and opens nothing any more. While all
 * goes well the question is a rare one. */
static void heard_and_not_answered(void **state)
{
	struct bed_options o = {.seed = 41, .passive = {false, true}};
	struct bed bed;
	unsigned int sent;

	(void)state;
	bed_open(&bed, &o);
	bed_run(&bed, 20 * W_SEC);
	bed.data_us = 100 * W_MS;
	sent = bed.packets[0] + bed.packets[1];
	bed_run(&bed, 600 * W_SEC);
	assert_in_range(bed.packets[0] + bed.packets[1] - sent, 2 * 8, 2 * 12);
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	bed.filter = drop_all;
	bed_run(&bed, 180 * W_SEC);
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	bed_run(&bed, 120 * W_SEC);
	assert_int_equal(bed.node[0].downs, 1);
	assert_string_equal(bed_status(&bed, 0).reason, "peer does not answer");
	bed_close(&bed);
}

/* One of three comes through, with no order in it (a linear congruential generator's high bits). */
static enum bed_action drop_most(struct bed *bed, const struct bed_packet *p)
{
	(void)p;
	bed->arg = (int)((uint32_t)bed->arg * 1664525u + 1013904223u);
	return (uint32_t)bed->arg < UINT32_MAX / 3 ? BED_PASS : BED_DROP;
}

/* A path that is too full loses most requests and most answers; but data comes all the time, and
 * half an hour of it takes nothing down. */
static void heard_and_seldom_answered(void **state)
{
	struct bed_options o = {.seed = 43, .passive = {false, true}};
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	bed_run(&bed, 20 * W_SEC);
	bed.data_us = 100 * W_MS;
	bed.filter = drop_most;
	bed_run(&bed, 1800 * W_SEC);
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	bed.filter = NULL;
	bed_run(&bed, 120 * W_SEC);
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	assert_int_equal(bed_status(&bed, 0).state, IKE_STATE_UP);
	bed_close(&bed);
}

/* A short break: the old SA is kept, or a new one takes over; nothing is left behind. */
static void short_outages(void **state)
{
	(void)state;
	for (int64_t s = 1; s < 40; s += 3) {
		struct bed_options o = {.seed = 300 + (uint64_t)s, .passive = {false, s % 2}};
		struct bed bed;

		bed_open(&bed, &o);
		bed_run(&bed, 20 * W_SEC);
		bed.filter = drop_all;
		bed_run(&bed, s * W_SEC);
		bed.filter = NULL;
		bed_run(&bed, 60 * W_SEC);
		assert_true(bed_can_send(&bed, 0));
		assert_true(bed_can_send(&bed, 1));
		assert_true(bed_is_tidy(&bed));
		bed_close(&bed);
	}
}

static void policies(void **state)
{
	static const struct {
		enum ike_pq a, b;
		bool up, hybrid;
		const char *reason;
	} row[] = {
		{IKE_PQ_PREFER, IKE_PQ_PREFER, true, true, ""},
		{IKE_PQ_PREFER, IKE_PQ_REQUIRE, true, true, ""},
		{IKE_PQ_REQUIRE, IKE_PQ_PREFER, true, true, ""},
		{IKE_PQ_REQUIRE, IKE_PQ_REQUIRE, true, true, ""},
		{IKE_PQ_PREFER, IKE_PQ_OFF, true, false, ""},
		{IKE_PQ_OFF, IKE_PQ_PREFER, true, false, ""},
		{IKE_PQ_OFF, IKE_PQ_OFF, true, false, ""},
		{IKE_PQ_REQUIRE, IKE_PQ_OFF, false, false,
			"peer offers no ML-KEM key exchange and post_quantum is require"},
		{IKE_PQ_OFF, IKE_PQ_REQUIRE, false, false,
			"peer accepts none of our IKE proposals"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct bed_options o = {.seed = 50 + i,
			.passive = {false, true},
			.pq = {row[i].a, row[i].b}};
		struct ike_conn_status s;
		struct bed bed;

		bed_open(&bed, &o);
		bed_run(&bed, 3 * W_SEC);
		s = bed_status(&bed, 0);
		assert_int_equal(s.state == IKE_STATE_UP, row[i].up);
		assert_string_equal(s.reason, row[i].reason);
		if (row[i].up) {
			assert_true(bed_is_tidy(&bed));
			assert_int_equal(s.sa.kex[1] == KEX_MLKEM768, row[i].hybrid);
			/* The rekeyed child is as strong as the IKE SA. */
			assert_int_equal(ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now),
				0);
			bed_run(&bed, 10 * W_SEC);
			assert_true(bed_is_tidy(&bed));
			s = bed_status(&bed, 1);
			assert_int_equal(s.children[0].kex[0], KEX_X25519);
			assert_int_equal(s.children[0].kex[1] == KEX_MLKEM768, row[i].hybrid);
		}
		bed_close(&bed);
	}
}

/* Operations say once what they do. */
static void idempotent(void **state)
{
	struct bed_options o = {.seed = 6, .passive = {false, true}};
	struct ike_conn_status s;
	struct bed bed;
	unsigned int sent;
	uint64_t spi;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 3 * W_SEC));
	spi = bed_status(&bed, 0).sa.spi_i;
	sent = bed.packets[0];
	for (int i = 0; i < 100; i++) {
		struct ike_conn_config c = bed_conn(&bed, 0)->c;

		assert_int_equal(ike_conn_up(bed.node[0].ike, BED_CONN, bed.now), 0);
		assert_int_equal(ike_conn_update(bed.node[0].ike, &c, bed.now), 0);
		assert_int_equal(ike_conn_set_remote(bed.node[0].ike, BED_CONN, &bed.node[1].ep,
					 bed.now),
			0);
		assert_int_equal(ike_conn_add(bed.node[0].ike, &c, bed.now), -EEXIST);
		bed_collect(&bed);
	}
	bed_run(&bed, 2 * W_SEC);
	assert_int_equal(bed.packets[0], sent);
	s = bed_status(&bed, 0);
	assert_true(s.sa.spi_i == spi);
	ike_conn_remove(bed.node[0].ike, BED_CONN, bed.now);
	ike_conn_remove(bed.node[0].ike, BED_CONN, bed.now);
	bed_run(&bed, 20 * W_SEC);
	assert_int_equal(bed.packets[0], sent + 1); /* the DELETE, once */
	assert_int_equal(bed.node[0].downs, 1);
	assert_int_equal(bed.node[1].downs, 1);
	assert_string_equal(bed.node[1].reason, "peer closed the connection");
	assert_int_equal(ike_conn_up(bed.node[0].ike, BED_CONN, bed.now), -ENOENT);
	bed_close(&bed);
}

static void remove_while_trying(void **state)
{
	struct bed_options o = {.seed = 8, .passive = {false, true}};
	struct bed bed;
	unsigned int sent;

	(void)state;
	bed_open(&bed, &o);
	bed.filter = drop_all;
	bed_run(&bed, 3500 * W_MS);
	ike_conn_remove(bed.node[0].ike, BED_CONN, bed.now);
	sent = bed.packets[0];
	bed_run(&bed, 100 * W_SEC);
	assert_int_equal(bed.packets[0], sent);
	bed_close(&bed);
}

static void down_and_up(void **state)
{
	struct bed_options o = {.seed = 9, .passive = {false, false}};
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	bed_run(&bed, 20 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	assert_int_equal(ike_conn_down(bed.node[0].ike, BED_CONN, bed.now), 0);
	bed_run(&bed, 100 * W_SEC);
	assert_int_equal(bed_status(&bed, 0).state, IKE_STATE_DOWN);
	assert_true(bed_status(&bed, 0).admin_down);
	assert_int_equal(bed_status(&bed, 0).sa_count, 0);
	assert_int_equal(bed_status(&bed, 1).state, IKE_STATE_CONNECTING);
	assert_int_equal(bed.node[0].downs, 1);
	assert_int_equal(ike_conn_up(bed.node[0].ike, BED_CONN, bed.now), 0);
	assert_true(bed_run_until_up(&bed, 3 * W_SEC));
	bed_run(&bed, 5 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	bed_close(&bed);
}

static void wrong_key_and_stranger(void **state)
{
	struct bed_options o = {.seed = 10, .passive = {false, true}};
	struct ike_conn_config c;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	ike_conn_remove(bed.node[1].ike, BED_CONN, bed.now);
	bed_run(&bed, 2 * W_SEC);
	assert_int_equal(bed_status(&bed, 0).state, IKE_STATE_CONNECTING);
	assert_non_null(strstr(bed_status(&bed, 0).reason, "refused authentication"));
	bed_add_conn(&bed, 1, &o);
	c = bed_conn(&bed, 1)->c;
	bed_conn(&bed, 1)->c.remote_key[3] ^= 1;
	bed_run(&bed, 20 * W_SEC);
	assert_int_equal(bed_status(&bed, 1).state, IKE_STATE_DOWN);
	assert_string_equal(bed_status(&bed, 1).reason,
		"peer's signature does not fit its public key");
	bed_conn(&bed, 1)->c = c;
	bed_conn(&bed, 0)->c.remote_key[3] ^= 1; /* now the initiator does not believe */
	bed_run(&bed, 60 * W_SEC);
	assert_string_equal(bed_status(&bed, 0).reason,
		"peer's signature does not fit its public key");
	assert_int_equal(bed_status(&bed, 1).sa_count, 0);
	bed_close(&bed);
}

static void cookies(void **state)
{
	struct bed_options o = {.seed = 11, .passive = {true, true}, .cookie_threshold = 5};
	struct bed_options plain = o;
	struct ike_stats st;
	struct bed bed;
	uint8_t init[600];
	size_t n = 0;

	(void)state;
	bed_open(&bed, &plain);
	ike_conn_up(bed.node[0].ike, BED_CONN, bed.now);
	bed_collect(&bed);
	assert_false(list_empty(&bed.wire));
	n = container_of(bed.wire.next, struct bed_packet, node)->n;
	assert_true(n <= sizeof(init));
	memcpy(init, container_of(bed.wire.next, struct bed_packet, node)->data, n);
	for (uint8_t i = 0; i < 200; i++) { /* spoofed ones, from one address */
		struct ike_datagram d = {.local = bed.node[1].ep,
			.remote = bed.node[0].ep,
			.data = view_of(init, n)};

		init[0] = 0xee;
		init[1] = i;
		ike_input(bed.node[1].ike, &d, bed.now);
	}
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.half_open, 5);
	assert_int_equal(st.sas, 5);
	assert_true(st.cookies_on);
	assert_true(bed_run_until_up(&bed, W_SEC)); /* with a cookie */
	bed_run(&bed, 40 * W_SEC);
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.half_open, 0);
	assert_false(st.cookies_on);
	assert_true(bed_is_tidy(&bed));
	bed_close(&bed);
}

/* The data path judges the link down: a new SA comes up beside the old one, and takes over. */
static void judged_down(void **state)
{
	struct bed_options o = {.seed = 15, .passive = {false, true}};
	struct bed bed;
	uint64_t spi;

	(void)state;
	bed_open(&bed, &o);
	bed_run(&bed, 20 * W_SEC);
	spi = bed_status(&bed, 0).sa.spi_i;
	bed.data_us = W_MS;
	assert_int_equal(ike_conn_judged_down(bed.node[1].ike, BED_CONN, bed.now), -EDESTADDRREQ);
	assert_int_equal(ike_conn_judged_down(bed.node[0].ike, BED_CONN, bed.now), 0);
	assert_int_equal(ike_conn_judged_down(bed.node[0].ike, BED_CONN, bed.now), 0);
	bed_run(&bed, 500 * W_MS);
	assert_true(bed_status(&bed, 0).sa.spi_i != spi);
	assert_int_equal(bed_status(&bed, 1).sa.spi_i, bed_status(&bed, 0).sa.spi_i);
	bed_run(&bed, 10 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	bed_close(&bed);
}

/* The same with a peer that has another rule: it deletes the older SA 10 s later, be it the winner.
 */
static void crossing_with_another_rule(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct bed_options o = {.seed = 16 + i, .passive = {true, true}};
		struct bed bed;

		bed_open(&bed, &o);
		ike_conn_up(bed.node[0].ike, BED_CONN, bed.now);
		ike_conn_up(bed.node[1].ike, BED_CONN, bed.now);
		bed_run(&bed, 500 * W_MS);
		assert_int_equal(bed_status(&bed, 0).sa_count, 2);
		for (unsigned int k = 0; k < 2; k++)
			list_for_each (it, &bed_conn(&bed, k)->sas) {
				struct ike_sa *sa = container_of(it, struct ike_sa, node);

				if (sa->loser)
					sa->cleanup_at = wtime_add(bed.now, 3600 * W_SEC);
			}
		bed_run(&bed, 10 * W_SEC);
		assert_int_equal(bed_status(&bed, i).sa_count, 2);
		ike_sa_delete(bed_conn(&bed, 1 - i)->sa, bed.now); /* the winner */
		bed_conn(&bed, 1 - i)->sa = NULL;
		bed_run(&bed, 30 * W_SEC);
		assert_int_equal(bed_status(&bed, i).state, IKE_STATE_UP);
		assert_int_equal(bed_status(&bed, i).sa_count, 1);
		assert_int_equal(bed.node[i].downs, 0);
		assert_true(bed_can_send(&bed, i));
		bed_close(&bed);
	}
}

static enum bed_action count_elsewhere(struct bed *bed, const struct bed_packet *p)
{
	if (p->to == 1 && p->target.port == 14000)
		bed->hits++;
	else if (p->to == 1)
		bed->arg++;
	return BED_PASS;
}

/* The peer is asked at another endpoint, and only there; that it answers from there is told, that
 * it answers from where it always was is not. */
static void asked_elsewhere(void **state)
{
	(void)state;
	for (unsigned int moved = 0; moved < 2; moved++) {
		struct bed_options o = {.seed = 4400 + moved};
		struct endpoint there;
		struct bed bed;

		bed_open(&bed, &o);
		assert_true(bed_run_until_up(&bed, 5 * W_SEC));
		bed_run(&bed, W_SEC);
		bed.filter = count_elsewhere;
		there = bed.node[1].ep;
		there.port = 14000;
		if (moved)
			bed.node[1].ep = there;
		assert_int_equal(ike_conn_try_remote(bed.node[0].ike, BED_CONN, &bed.node[0].ep,
					 &there, bed.now),
			0);
		bed_run(&bed, 100 * W_MS);
		assert_int_equal(bed.hits, 1);
		assert_int_equal(bed.arg, 0);
		assert_int_equal(bed.node[0].answered, moved);
		bed_close(&bed);
	}
}

/* Nobody is there: the same check goes on to where the peer was, and the SA lives. */
static enum bed_action lose_elsewhere(struct bed *bed, const struct bed_packet *p)
{
	(void)bed;
	return p->to == 1 && p->target.port == 14000 ? BED_DROP : BED_PASS;
}

static void asked_where_nobody_is(void **state)
{
	struct bed_options o = {.seed = 4410};
	struct endpoint there;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 5 * W_SEC));
	bed_run(&bed, W_SEC);
	bed.filter = lose_elsewhere;
	there = bed.node[1].ep;
	there.port = 14000;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(ike_conn_try_remote(bed.node[0].ike, BED_CONN, &bed.node[0].ep,
					 &there, bed.now),
			0);
		bed_run(&bed, 10 * W_SEC);
	}
	assert_int_equal(bed.node[0].answered, 0);
	assert_int_equal(bed.node[0].downs, 0);
	assert_true(bed_is_tidy(&bed));
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handshake_hybrid),
		cmocka_unit_test(spis_are_told_while_their_peer_is_known),
		cmocka_unit_test(handshake_bad_wire),
		cmocka_unit_test(handshake_lossy),
		cmocka_unit_test(crossing_start),
		cmocka_unit_test(crossing_start_lossy),
		cmocka_unit_test(restart),
		cmocka_unit_test(outage),
		cmocka_unit_test(heard_and_not_answered),
		cmocka_unit_test(heard_and_seldom_answered),
		cmocka_unit_test(short_outages),
		cmocka_unit_test(policies),
		cmocka_unit_test(idempotent),
		cmocka_unit_test(remove_while_trying),
		cmocka_unit_test(down_and_up),
		cmocka_unit_test(wrong_key_and_stranger),
		cmocka_unit_test(cookies),
		cmocka_unit_test(judged_down),
		cmocka_unit_test(asked_elsewhere),
		cmocka_unit_test(asked_where_nobody_is),
		cmocka_unit_test(crossing_with_another_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
