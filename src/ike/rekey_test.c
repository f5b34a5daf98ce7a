/* Two engines: rekeys of children and IKE SAs, with every message lost, doubled and late, and their
 * collisions with each of the four nonces the lowest. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ike/bed_test.h"
#include "ike/sa_priv.h"

enum { NONCES = 4 };

static void bed_open_up(struct bed *bed, const struct bed_options *options)
{
	struct bed_options o = *options;

	o.passive[0] = o.passive[1] = true;
	bed_open(bed, &o);
	ike_conn_up(bed->node[o.seed % 2].ike, BED_CONN, bed->now);
	assert_true(bed_run_until_up(bed, 3 * W_SEC));
	bed_run(bed, 3 * W_SEC);
	assert_true(bed_is_tidy(bed));
	for (unsigned int i = 0; i < 2; i++)
		bed_conn(bed, i)->c.initiate = true;
}

static int rekey(struct bed *bed, unsigned int which, bool ike_sa)
{
	int err = ike_sa ? ike_conn_rekey_ike(bed->node[which].ike, BED_CONN, bed->now)
			 : ike_conn_rekey_child(bed->node[which].ike, BED_CONN, bed->now);

	bed_collect(bed);
	return err;
}

/* Everything is as one wants it after a rekey: one SA, one child, other ones than before, no loss.
 */
static void check_after(struct bed *bed, const struct ike_conn_status *before, bool ike_sa)
{
	struct ike_conn_status s;

	assert_true(bed_is_tidy(bed));
	assert_int_equal(bed->lost_data, 0);
	assert_int_equal(bed->node[0].downs + bed->node[1].downs, 0);
	s = bed_status(bed, 0);
	if (ike_sa) {
		assert_true(s.sa.spi_i != before->sa.spi_i && s.sa.spi_i != before->sa.spi_r);
		assert_int_equal(s.children[0].spi_in, before->children[0].spi_in);
	} else {
		assert_int_not_equal(s.children[0].spi_in, before->children[0].spi_in);
		assert_true(s.sa.spi_i == before->sa.spi_i);
	}
}

/* Rekeys in a row, by both ends; what comes next uses the new SA. */
static void in_a_row(void **state)
{
	static const enum ike_pq pq[] = {IKE_PQ_PREFER, IKE_PQ_OFF};

	(void)state;
	for (unsigned int i = 0; i < 2 * 2; i++) {
		struct bed_options o = {.seed = 20 + i, .pq = {pq[i / 2], pq[i / 2]}};
		struct bed bed;

		bed_open_up(&bed, &o);
		bed.data_us = 5 * W_MS;
		for (unsigned int k = 0; k < 6; k++) {
			struct ike_conn_status before = bed_status(&bed, 0);
			bool ike_sa = k % 3 != 2;

			assert_int_equal(rekey(&bed, (i + k) % 2, ike_sa), 0);
			assert_int_equal(rekey(&bed, (i + k) % 2, ike_sa), -EBUSY);
			bed_run(&bed, 12 * W_SEC);
			check_after(&bed, &before, ike_sa);
			assert_int_equal(bed_status(&bed, 0).sa.kex[1] == KEX_MLKEM768, i < 2);
			assert_int_equal(ike_conn_probe(bed.node[k / 2 % 2].ike, BED_CONN, bed.now),
				0);
			bed_run(&bed, W_SEC);
			assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		}
		bed_close(&bed);
	}
}

/* A child's inbound SPI is of its connection's class, the first's and each that replaces it, for
 * whoever asked for it. */
static void spis_keep_their_class(void **state)
{
	struct bed_options o = {.seed = 77, .spi_classes = 7};
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	for (unsigned int k = 0; k < 8; k++) {
		for (unsigned int i = 0; i < 2; i++) {
			struct ike_conn_status s = bed_status(&bed, i);

			assert_true(s.child_count > 0);
			assert_int_equal(s.children[0].spi_in % 7, 1);
			assert_true(s.children[0].spi_in > 255);
		}
		assert_int_equal(rekey(&bed, k % 2, k % 4 == 3), 0);
		bed_run(&bed, 12 * W_SEC);
	}
	bed_close(&bed);
}

static enum bed_action one_kind(struct bed *bed, const struct bed_packet *p)
{
	if (!bed_is(p, (enum ike_exchange)(bed->arg & 0xff), bed->arg >> 8 & 1) ||
		bed->hits >= bed->arg >> 12)
		return BED_PASS;
	bed->hits++;
	return (enum bed_action)(bed->arg >> 9 & 3);
}

static void bad_wire(void **state)
{
	static const enum ike_exchange kind[] = {IKE_CREATE_CHILD_SA, IKE_FOLLOWUP_KE,
		IKE_INFORMATIONAL};
	static const enum bed_action action[] = {BED_DROP, BED_TWICE, BED_SLOW};

	(void)state;
	for (unsigned int i = 0; i < 3 * 2 * 3 * 2 * 2; i++) {
		struct bed_options o = {.seed = 100 + i};
		struct ike_conn_status before;
		bool ike_sa = i / 18 % 2;
		struct bed bed;

		bed_open_up(&bed, &o);
		before = bed_status(&bed, 0);
		bed.data_us = 10 * W_MS;
		bed.filter = one_kind;
		bed.arg = (int)(kind[i % 3] | i / 3 % 2 << 8 |
			(unsigned int)action[i / 6 % 3] << 9 | (i / 36 ? 3 : 1) << 12);
		assert_int_equal(rekey(&bed, i / 2 % 2, ike_sa), 0);
		bed_run(&bed, 20 * W_SEC);
		assert_true(bed.hits > 0);
		bed.lost_data = 0; /* a lost DELETE leaves the responder on the old one: fine */
		bed_run(&bed, 10 * W_SEC);
		check_after(&bed, &before, ike_sa);
		bed_close(&bed);
	}
}

/* Loses the first CREATE_CHILD_SA of an end: arg 1 of node 0, 2 of node 1. */
static enum bed_action first_create_of(struct bed *bed, const struct bed_packet *p)
{
	if (bed->hits || !bed->arg || !bed_is(p, IKE_CREATE_CHILD_SA, false) ||
		p->to != (bed->arg == 1))
		return BED_PASS;
	bed->hits++;
	return BED_DROP;
}

/* Both ends rekey at once; of the four nonces (a's request, b's request, and their answers) each
 * is the lowest once. */
static void collide(unsigned int lowest, bool ike_sa, enum ike_pq pq, int64_t apart_us)
{
	struct bed_options o = {.seed = 400 + lowest, .pq = {pq, pq}};
	struct ike_conn_status before, after;
	struct bed bed;

	bed_open_up(&bed, &o);
	before = bed_status(&bed, 0);
	bed.data_us = W_MS;
	bed.node[0].first_byte = lowest == 0 ? 0x00 : 0x80;
	assert_int_equal(rekey(&bed, 0, ike_sa), 0);
	bed.node[0].first_byte = lowest == 2 ? 0x00 : 0x90; /* a answers b's request */
	bed_run(&bed, apart_us);
	bed.node[1].first_byte = lowest == 1 ? 0x00 : 0xa0;
	assert_int_equal(rekey(&bed, 1, ike_sa), 0);
	bed.node[1].first_byte = lowest == 3 ? 0x00 : 0xb0; /* b answers a's request */
	bed_run(&bed, 25 * W_MS);
	bed.node[0].first_byte = bed.node[1].first_byte = -1;
	bed_run(&bed, 12 * W_SEC);
	check_after(&bed, &before, ike_sa);
	after = bed_status(&bed, 0);
	/* The lowest nonce was a's exchange's (0, 3): b's has won. */
	if (ike_sa)
		assert_int_equal(after.sa.initiator, lowest == 1 || lowest == 2);
	bed_close(&bed);
}

static void collisions(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < NONCES; i++)
		for (unsigned int k = 0; k < 2 * 2 * 2; k++)
			collide(i, k & 1, k & 2 ? IKE_PQ_OFF : IKE_PQ_PREFER, k & 4 ? 5 * W_MS : 0);
}

/* Both ends lose their child at once, and ask for another. Of the four nonces each is the lowest
 * once; the first request of neither, of one, or of the other end is lost. */
static void ask_at_once(unsigned int lowest, unsigned int lost, enum ike_pq pq)
{
	struct bed_options o = {.seed = 450 + lowest, .pq = {pq, pq}};
	uint32_t old[2];
	struct bed bed;

	bed_open_up(&bed, &o);
	bed.data_us = W_MS;
	for (unsigned int i = 0; i < 2; i++) {
		old[i] = bed.node[i].outbound;
		ike_child_delete(ike_child_newest(bed_conn(&bed, i)), bed.now);
	}
	bed.filter = first_create_of;
	bed.arg = (int)lost;
	bed.node[0].first_byte = lowest == 0 ? 0x00 : 0x80;
	bed.node[1].first_byte = lowest == 1 ? 0x00 : 0xa0;
	/* One way takes 10 ms: the DELETEs are there, and the requests that follow on their way. */
	bed_run(&bed, 15 * W_MS);
	bed.node[0].first_byte = lowest == 2 ? 0x00 : 0x90;
	bed.node[1].first_byte = lowest == 3 ? 0x00 : 0xb0;
	bed_run(&bed, 10 * W_MS);
	bed.node[0].first_byte = bed.node[1].first_byte = -1;
	while (bed.node[0].outbound == old[0] || bed.node[1].outbound == old[1])
		bed_run(&bed, W_MS);
	assert_true(bed_run_until_up(&bed, 5 * W_SEC));
	bed.lost_data = 0;
	bed_run(&bed, 60 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	assert_int_equal(bed.lost_data, 0);
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	bed_close(&bed);
}

static void both_ask_for_a_child(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < NONCES; i++)
		for (unsigned int k = 0; k < 3 * 2; k++)
			ask_at_once(i, k % 3, k / 3 ? IKE_PQ_OFF : IKE_PQ_PREFER);
}

/* A peer may have a second child beside the one that was asked for long ago: neither is taken for
 * the other one's collision. */
static void a_second_child_is_asked_for_later(void **state)
{
	struct bed_options o = {.seed = 480};
	struct ike_child *first;
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	ike_child_delete(ike_child_newest(bed_conn(&bed, 0)), bed.now);
	bed_run(&bed, IKE_TIME_PATIENCE + 30 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	first = ike_child_newest(bed_conn(&bed, 0));
	assert_true(first->asked && !first->ours);
	first->state = IKE_CHILD_DELETING; /* this end would not ask beside it otherwise */
	assert_int_equal(ike_sa_queue(bed_conn(&bed, 0)->sa, IKE_TASK_CHILD_NEW, 0), 0);
	ike_sa_wake(bed_conn(&bed, 0)->sa, bed.now);
	bed_run(&bed, W_MS);
	first->state = IKE_CHILD_UP;
	bed_run(&bed, 60 * W_SEC);
	assert_int_equal(bed_status(&bed, 0).child_count, 2);
	assert_int_equal(bed_status(&bed, 1).child_count, 2);
	bed_close(&bed);
}

/* Collisions on a bad wire: whatever is lost, doubled or late, the ends agree again. */
static void collisions_bad_wire(void **state)
{
	static const enum ike_exchange kind[] = {IKE_CREATE_CHILD_SA, IKE_FOLLOWUP_KE,
		IKE_INFORMATIONAL};
	static const enum bed_action action[] = {BED_DROP, BED_TWICE, BED_SLOW};

	(void)state;
	for (unsigned int i = 0; i < 3 * 2 * 3 * 2 * 2 * 4; i++) {
		struct bed_options o = {.seed = 600 + i};
		bool ike_sa = i / 18 % 2;
		struct bed bed;

		if (i / 36 % 2)
			o.pq[0] = o.pq[1] = IKE_PQ_OFF;
		bed_open_up(&bed, &o);
		bed.data_us = 20 * W_MS;
		bed.filter = one_kind;
		bed.arg = (int)(kind[i % 3] | i / 3 % 2 << 8 |
			(unsigned int)action[i / 6 % 3] << 9 | (1 + i / 72) << 12);
		assert_int_equal(rekey(&bed, 0, ike_sa), 0);
		assert_int_equal(rekey(&bed, 1, ike_sa), 0);
		bed_run(&bed, 90 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		bed_close(&bed);
	}
}

/* RFC 7296 2.25: an IKE rekey at one end crosses a child's exchange at the other. */
static void ike_crosses_child(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct bed_options o = {.seed = 2000 + seed};
		struct ike_conn_status before;
		struct bed bed;

		bed_open_up(&bed, &o);
		before = bed_status(&bed, 0);
		bed.data_us = 10 * W_MS;
		assert_int_equal(rekey(&bed, 0, true), 0);
		bed_run(&bed, (int64_t)(seed % 30) * 2 * W_MS);
		(void)rekey(&bed, 1, false);
		bed_run(&bed, 30 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.lost_data, 0);
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		assert_true(bed_status(&bed, 0).sa.spi_i != before.sa.spi_i);
		assert_int_not_equal(bed_status(&bed, 0).children[0].spi_in,
			before.children[0].spi_in);
		bed_close(&bed);
	}
}

/* For a moment no new SA's first request arrives: a peer need not hear those on an SA that it is
 * giving up. */
static enum bed_action first_of_an_sa(struct bed *bed, const struct bed_packet *p)
{
	bool early = bed->now.us < bed->arg;

	return early && p->h.mid == 0 && bed_is(p, IKE_CREATE_CHILD_SA, false) ? BED_DROP
									       : BED_PASS;
}

/* Two IKE rekeys collide, and a child's rekey waits behind each: it is done on the SA that stays.
 */
static void child_waits_behind_collision(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct bed_options o = {.seed = 2500 + seed, .pq = {IKE_PQ_OFF, IKE_PQ_OFF}};
		struct ike_conn_status before;
		struct bed bed;

		bed_open_up(&bed, &o);
		before = bed_status(&bed, 0);
		bed.data_us = 10 * W_MS;
		assert_int_equal(rekey(&bed, 0, true), 0);
		(void)rekey(&bed, seed & 1, false);
		bed_run(&bed, (int64_t)(seed / 4) * W_MS);
		assert_int_equal(rekey(&bed, 1, true), 0);
		bed.filter = first_of_an_sa;
		bed.arg = (int)(bed.now.us + 25 * W_MS);
		bed_run(&bed, 15 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.lost_data, 0);
		assert_int_not_equal(bed_status(&bed, 0).children[0].spi_in,
			before.children[0].spi_in);
		bed_close(&bed);
	}
}

static enum bed_action first_create_of_a(struct bed *bed, const struct bed_packet *p)
{
	if (bed->arg || p->to != 1 || !bed_is(p, IKE_CREATE_CHILD_SA, false))
		return BED_PASS;
	bed->arg = 1;
	return BED_DROP;
}

/* 500 rekeys by both ends at once, each with a's first CREATE_CHILD_SA lost. */
static void lost_collisions(void **state)
{
	struct bed_options o = {.seed = 33, .dpd_us = 3600 * W_SEC};
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	bed.data_us = 10 * W_MS;
	bed.filter = first_create_of_a;
	for (unsigned int i = 0; i < 500; i++) {
		bed.arg = 0;
		assert_int_equal(rekey(&bed, 0, false), 0);
		assert_int_equal(rekey(&bed, 1, false), 0);
		bed_run(&bed, 12 * W_SEC);
		assert_int_equal(bed.arg, 1);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.lost_data, 0);
	}
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	bed_close(&bed);
}

/* A day of it, with short lifetimes and a lossy wire: never down, never more than is due. */
static enum bed_action some_loss(struct bed *bed, const struct bed_packet *p)
{
	uint64_t x;

	(void)p;
	rng_below(&bed->node[0].base, 100, &x);
	return x < 10 ? BED_DROP : x < 15 ? BED_TWICE : x < 20 ? BED_SLOW : BED_PASS;
}

static void long_run(void **state)
{
	struct bed_options o = {.seed = 77,
		.ike_lifetime_us = 100 * W_SEC,
		.child_lifetime_us = 40 * W_SEC};
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	bed.data_us = 100 * W_MS;
	bed.filter = some_loss;
	for (unsigned int i = 0; i < 100; i++) {
		bed_run(&bed, 36 * W_SEC);
		assert_true(bed_status(&bed, 0).sa_count <= 4);
		assert_true(bed_status(&bed, 0).child_count <= 4);
	}
	bed.filter = NULL;
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	assert_true(bed.lost_data * 1000 < bed.sent_data);
	bed_close(&bed);
}

static enum bed_action fifth_lost(struct bed *bed, const struct bed_packet *p)
{
	uint64_t x = 0;

	(void)rng_below(&bed->node[p->to].base, 5, &x);
	if (!x)
		bed->hits++;
	return x ? BED_PASS : BED_DROP;
}

/* 200 hybrid rekeys in fragments of 576 bytes, of which each
 * fifth is lost. What arrived of a message is not needed again, and no old one is in the way. */
static void many_fragments_are_lost(void **state)
{
	struct bed_options o = {.seed = 191, .datagram_max = 576};
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	bed.filter = fifth_lost;
	for (unsigned int i = 0; i < 200; i++) {
		struct ike_conn_status before = bed_status(&bed, 0), after;
		bool ike_sa = i & 2;

		assert_int_equal(rekey(&bed, i & 1, ike_sa), 0);
		for (unsigned int k = 0; k < 60; k++) {
			bed_run(&bed, W_SEC);
			after = bed_status(&bed, 0);
			if (bed_is_tidy(&bed) &&
				(ike_sa ? after.sa.spi_i != before.sa.spi_i
					: after.children[0].spi_in != before.children[0].spi_in))
				break;
		}
		assert_true(bed_is_tidy(&bed));
	}
	assert_true(bed.hits > 200);
	/* five times in a row a message or its answer is lost once in 165 exchanges */
	assert_true(bed.node[0].downs + bed.node[1].downs <= 2);
	bed_close(&bed);
}

/* Anything at any time on a bad wire; when it is quiet again, all is as it should be. */
static void do_something(struct bed *bed, uint64_t what)
{
	struct ike *ike = bed->node[what & 1].ike;

	switch (what >> 1 & 15) {
	case 0:
	case 1:
	case 2:
		(void)ike_conn_rekey_ike(ike, BED_CONN, bed->now);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		(void)ike_conn_rekey_child(ike, BED_CONN, bed->now);
		break;
	case 7:
		(void)ike_conn_judged_down(ike, BED_CONN, bed->now);
		break;
	case 8:
		(void)ike_conn_probe(ike, BED_CONN, bed->now);
		break;
	case 9:
		if (what >> 5 & 1)
			(void)ike_conn_down(ike, BED_CONN, bed->now);
		break;
	case 10:
	case 11:
		(void)ike_conn_up(ike, BED_CONN, bed->now);
		break;
	default:
		break;
	}
	bed_collect(bed);
}

static void anything(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct bed_options o = {.seed = 8000 + seed,
			.pq = {seed % 3 ? IKE_PQ_PREFER : IKE_PQ_OFF, IKE_PQ_PREFER}};
		struct rng_seeded state_of;
		struct rng rng = rng_seeded_init(&state_of, seed);
		struct bed bed;

		bed_open_up(&bed, &o);
		bed.data_us = 50 * W_MS;
		bed.filter = seed % 2 ? some_loss : NULL;
		for (unsigned int i = 0; i < 200; i++) {
			uint64_t x, pause;

			rng_below(&rng, 64, &x);
			rng_below(&rng, i % 8 ? 60 : 6000, &pause);
			do_something(&bed, x);
			bed_run(&bed, (int64_t)pause * W_MS);
		}
		bed.filter = NULL;
		for (unsigned int i = 0; i < 2; i++)
			(void)ike_conn_up(bed.node[i].ike, BED_CONN, bed.now);
		bed_run(&bed, 120 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		bed_close(&bed);
	}
}

/* Hard ends: nobody has rekeyed in time. The child, then the IKE SA, is made anew. */
static void hard_ends(void **state)
{
	struct bed_options o = {.seed = 79,
		.ike_lifetime_us = 100 * W_SEC,
		.child_lifetime_us = 40 * W_SEC};
	struct ike_conn_status before, after;
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	before = bed_status(&bed, 0);
	for (unsigned int i = 0; i < 2; i++) {
		bed_conn(&bed, i)->sa->rekey_at = WTIME_NEVER;
		ike_child_newest(bed_conn(&bed, i))->rekey_at = WTIME_NEVER;
	}
	bed_run(&bed, 75 * W_SEC); /* the lifetime, and the least grace */
	after = bed_status(&bed, 0);
	assert_true(bed_can_send(&bed, 0) && bed_can_send(&bed, 1));
	assert_int_not_equal(after.children[0].spi_in, before.children[0].spi_in);
	assert_true(after.sa.spi_i == before.sa.spi_i);
	bed_run(&bed, 80 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	assert_true(bed_status(&bed, 0).sa.spi_i != before.sa.spi_i);
	bed_close(&bed);
}

static enum bed_action all_lost(struct bed *bed, const struct bed_packet *p)
{
	(void)bed;
	(void)p;
	return BED_DROP;
}

/* An SA that nothing was sent on since a rekey made it: that its peer is away is seen, by both. */
static void new_sa_is_watched(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct bed_options o = {.seed = 81 + i};
		struct bed bed;

		bed_open_up(&bed, &o);
		assert_int_equal(rekey(&bed, i, true), 0);
		bed_run(&bed, 2 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		bed.filter = all_lost;
		bed_run(&bed, 60 * W_SEC);
		assert_int_equal(bed.node[0].downs, 1);
		assert_int_equal(bed.node[1].downs, 1);
		bed_close(&bed);
	}
}

static enum bed_action answer_is_lost(struct bed *bed, const struct bed_packet *p)
{
	if (bed_is(p, IKE_FOLLOWUP_KE, true))
		bed->hits = 1;
	return bed->hits && p->to == 0 ? BED_DROP : BED_PASS;
}

/* The last answer of a rekey is lost for a minute and a half, while data comes: then the end that
 * asked still finds who answers, and the link was never down. */
static void answer_is_there_for_long(void **state)
{
	struct bed_options o = {.seed = 85};
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	bed.data_us = 500 * W_MS;
	bed.filter = answer_is_lost;
	assert_int_equal(rekey(&bed, 0, true), 0);
	bed_run(&bed, 90 * W_SEC);
	assert_int_equal(bed.hits, 1);
	bed.filter = NULL;
	bed_run(&bed, 10 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
	assert_int_equal(bed.lost_data, 0);
	bed_close(&bed);
}

/* The SA that has lost against another one, and is due to go, has a rekey out when it loses: what
 * that makes goes at the same time, with its children. */
static void loser_is_rekeyed(void **state)
{
	struct bed_options o = {.seed = 83};
	struct ike_conn *conn;
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	assert_int_equal(rekey(&bed, 0, true), 0);
	conn = bed_conn(&bed, 0);
	conn->sa->loser = true;
	conn->sa->cleanup_at = wtime_add(bed.now, IKE_TIME_CROSSING);
	bed_run(&bed, IKE_TIME_CROSSING - 100 * W_MS);
	assert_true(conn->sa->loser);
	bed_run(&bed, 200 * W_MS);
	assert_null(conn->sa);
	bed_run(&bed, 10 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	bed_close(&bed);
}

static void soft_limit(void **state)
{
	struct bed_options o = {.seed = 78};
	struct ike_conn_status before;
	struct bed bed;

	(void)state;
	bed_open_up(&bed, &o);
	before = bed_status(&bed, 0);
	bed.data_us = W_MS;
	ike_child_soft_limit(bed.node[0].ike, before.children[0].child, bed.now);
	ike_child_soft_limit(bed.node[0].ike, before.children[0].child, bed.now);
	bed_run(&bed, 10 * W_SEC);
	check_after(&bed, &before, false);
	ike_child_soft_limit(bed.node[0].ike, before.children[0].child,
		bed.now); /* gone: nothing */
	bed_run(&bed, 10 * W_SEC);
	check_after(&bed, &before, false);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_row),
		cmocka_unit_test(spis_keep_their_class),
		cmocka_unit_test(bad_wire),
		cmocka_unit_test(collisions),
		cmocka_unit_test(collisions_bad_wire),
		cmocka_unit_test(both_ask_for_a_child),
		cmocka_unit_test(a_second_child_is_asked_for_later),
		cmocka_unit_test(ike_crosses_child),
		cmocka_unit_test(child_waits_behind_collision),
		cmocka_unit_test(lost_collisions),
		cmocka_unit_test(long_run),
		cmocka_unit_test(soft_limit),
		cmocka_unit_test(hard_ends),
		cmocka_unit_test(new_sa_is_watched),
		cmocka_unit_test(answer_is_there_for_long),
		cmocka_unit_test(loser_is_rekeyed),
		cmocka_unit_test(many_fragments_are_lost),
		cmocka_unit_test(anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
