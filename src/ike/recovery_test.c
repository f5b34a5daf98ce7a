/* Two engines: what they come back from. Links that bounce in a rekey, ends that restart together,
 * attempts that fail for long, floods, ports that change in a handshake, a thousand connections. */
#include <malloc.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/mem.h"
#include "ike/bed_test.h"
#include "ike/sa_priv.h"

static void open_up(struct bed *bed, uint64_t seed)
{
	struct bed_options o = {.seed = seed, .passive = {false, true}};

	bed_open(bed, &o);
	assert_true(bed_run_until_up(bed, 3 * W_SEC));
	bed_run(bed, 3 * W_SEC);
	assert_true(bed_is_tidy(bed));
}

/* ---- The link bounces while the IKE SA is rekeyed ---- */
/* All but the first bed->arg messages are lost. */
static enum bed_action bounce(struct bed *bed, const struct bed_packet *p)
{
	(void)p;
	return bed->hits++ < bed->arg ? BED_PASS : BED_DROP;
}

/* The link is away for 8 s from some message of a rekey on: long enough for a new SA to be tried
 * beside it. One SA and one child in the end, whichever it is, and never none. */
static void link_bounces_in_a_rekey(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 16; i++) {
		struct bed bed;
		bool ike_sa = i & 1;

		open_up(&bed, 500 + i);
		bed.arg = (int)i / 2;
		bed.filter = bounce;
		assert_int_equal(ike_sa ? ike_conn_rekey_ike(bed.node[0].ike, BED_CONN, bed.now)
					: ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now),
			0);
		bed_run(&bed, 8 * W_SEC);
		bed.filter = NULL;
		bed_run(&bed, 60 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		bed_close(&bed);
	}
}

/* The same where the IKE SA's hard end comes 5 s after its rekey is due: a new one is made. */
static void lifetime_ends_in_a_rekey(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		struct bed bed;

		open_up(&bed, 550 + i);
		for (unsigned int k = 0; k < 2; k++) {
			struct ike_sa *sa = bed_conn(&bed, k)->sa;

			sa->expire_at = wtime_add(bed.now, 5 * W_SEC);
			ike_sa_wake(sa, sa->expire_at);
		}
		bed.arg = (int)i;
		bed.filter = bounce;
		assert_int_equal(ike_conn_rekey_ike(bed.node[0].ike, BED_CONN, bed.now), 0);
		bed_run(&bed, 8 * W_SEC);
		bed.filter = NULL;
		assert_true(bed_run_until_up(&bed, 5 * W_SEC));
		bed_run(&bed, 60 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		bed_close(&bed);
	}
}

/* While an SA is being replaced (this end's IKE_AUTH for a new one is out, or a new one has won) a
 * request to rekey it or its child is answered TEMPORARY_FAILURE, and this end begins none. */
static void no_rekey_in_a_replacement(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		bool ike_sa = i & 1, lost = i & 2;
		struct ike_conn *conn;
		struct ike_sa *old;
		struct bed bed;

		open_up(&bed, 340 + i);
		conn = bed_conn(&bed, 1);
		old = bed_conn(&bed, 0)->sa;
		conn->c.initiate = true;
		conn->sa->loser = lost;
		if (!lost)
			assert_int_equal(ike_conn_judged_down(bed.node[1].ike, BED_CONN, bed.now),
				0);
		bed_collect(&bed);
		while (conn->attempt && !conn->attempt->hs->auth_sent)
			assert_true(bed_step(&bed));
		assert_true(lost || conn->attempt);
		for (unsigned int k = 0; k < 2; k++)
			assert_int_equal(ike_sa
					? ike_conn_rekey_ike(bed.node[k].ike, BED_CONN, bed.now)
					: ike_conn_rekey_child(bed.node[k].ike, BED_CONN, bed.now),
				0);
		assert_null(conn->sa->active);
		bed_run(&bed, 30 * W_MS);
		assert_int_equal(old->temporary, 1);
		assert_true(list_empty(&conn->sa->negs));
		conn->sa->loser = false;
		bed_run(&bed, 30 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		bed_close(&bed);
	}
}

/* ---- Failures are followed by pauses, and leave nothing ---- */
enum { ATTEMPTS_MAX = 64 };

struct attempts {
	wtime at[ATTEMPTS_MAX];
	unsigned int count;
};

/* Both refuse each other for five minutes: when attempts began, and the most SAs at the refuser. */
static unsigned int refused(uint64_t seed, struct attempts *ret)
{
	struct bed_options o = {.seed = seed, .passive = {false, true}};
	struct bed bed;
	unsigned int most = 0;
	uint64_t last = 0;
	wtime end;

	bed_open(&bed, &o);
	bed_conn(&bed, 1)->c.remote_key[3] ^= 1;
	end = wtime_add(bed.now, 300 * W_SEC);
	ret->count = 0;
	while (wtime_before(bed.now, end)) {
		struct ike_stats st;

		bed_run(&bed, 10 * W_MS);
		list_for_each (it, &bed.wire) {
			struct bed_packet *p = container_of(it, struct bed_packet, node);

			if (!bed_is(p, IKE_SA_INIT, false) || p->h.spi_i == last)
				continue;
			last = p->h.spi_i;
			assert_true(ret->count < ATTEMPTS_MAX);
			ret->at[ret->count++] = bed.now;
		}
		ike_stats(bed.node[1].ike, &st);
		most = st.sas > most ? st.sas : most;
	}
	bed_close(&bed);
	return most;
}

static void failing_attempts_grow_apart(void **state)
{
	struct attempts a, b;
	int64_t gap, apart = 0;

	(void)state;
	assert_true(refused(600, &a) <= 1);
	assert_true(refused(601, &b) <= 1);
	/* the last ones are as far apart as any, and not at the same times at two nodes */
	assert_in_range(a.count, 6, 40);
	gap = wtime_diff(a.at[a.count - 1], a.at[a.count - 2]);
	assert_true(gap >= IKE_TIME_BACKOFF_MAX / 2 && gap <= 2 * IKE_TIME_BACKOFF_MAX);
	for (unsigned int i = 1; i < a.count; i++)
		assert_true(wtime_diff(a.at[i], a.at[i - 1]) >= W_SEC / 2);
	for (unsigned int i = 0; i < a.count && i < b.count; i++)
		apart |= wtime_diff(a.at[i], b.at[i]);
	assert_true(apart != 0);
}

/* ---- Restarts at once, while the other end believes in the old SA ---- */
/* Both ends are killed and start at once: INITIAL_CONTACT both ways takes neither new SA away. */
static void both_ends_restart(void **state)
{
	(void)state;
	for (unsigned int late = 0; late < 6; late++) {
		struct bed_options o = {.seed = 700 + late};
		struct bed bed;

		bed_open(&bed, &o);
		assert_true(bed_run_until_up(&bed, 3 * W_SEC));
		bed_run(&bed, 6 * W_SEC);
		for (unsigned int i = 0; i < 2; i++) {
			bed_restart(&bed, i, &o);
			bed_add_conn(&bed, i, &o);
			bed_run(&bed, late * 8 * W_MS);
		}
		assert_true(bed_run_until_up(&bed, 2 * W_SEC));
		bed_run(&bed, 10 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		bed_close(&bed);
	}
}

/* Who cannot sign as the peer says INITIAL_CONTACT, in IKE_SA_INIT and in IKE_AUTH: the SA that is
 * up stays as it is, word for word. The peer itself may say it, once it has signed. */
static void initial_contact_waits_for_auth(void **state)
{
	struct bed_options o = {.seed = 351, .passive = {false, true}, .dpd_us = 3600 * W_SEC};
	struct ike_conn_status before, after;
	struct ike_conn *conn;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 3 * W_SEC));
	bed_run(&bed, 3 * W_SEC);
	conn = bed_conn(&bed, 1);
	before = bed_status(&bed, 1);
	conn->c.remote_key[7] ^= 1; /* what signs is not the peer's key */
	bed_restart(&bed, 0, &o);
	bed_add_conn(&bed, 0, &o);
	bed_run(&bed, 20 * W_SEC);
	assert_true(bed.node[0].fails > 1);
	assert_non_null(strstr(bed.node[0].reason, "refused authentication"));
	after = bed_status(&bed, 1);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(bed.node[1].ups, 1);
	assert_int_equal(bed.node[1].downs + bed.node[1].fails, 0);
	conn->c.remote_key[7] ^= 1;
	assert_true(bed_run_until_up(&bed, 70 * W_SEC));
	assert_true(bed_is_tidy(&bed)); /* at once, without a DELETE of the old one */
	assert_true(bed_status(&bed, 1).sa.spi_i != before.sa.spi_i);
	bed_close(&bed);
}

/* One wake-up serves the liveness checks of many SAs, unless they are asked for so often that it
 * would make a difference. */
static void liveness_checks_wait_for_the_grid(void **state)
{
	struct bed_options o = {.seed = 353, .grid_us = 100 * W_MS, .grid_phase_us = 33 * W_MS};
	static const int64_t dpd_us[] = {0, 2 * W_SEC, 2 * W_SEC - 1};
	enum { DEFAULT_US = 10 * W_SEC };

	(void)state;
	for (size_t i = 0; i < sizeof(dpd_us) / sizeof(dpd_us[0]); i++) {
		bool on_grid = dpd_us[i] == 0 || dpd_us[i] >= 20 * o.grid_us;
		struct bed bed;
		wtime heard, due;
		int64_t late;

		o.dpd_us = dpd_us[i];
		bed_open(&bed, &o);
		assert_true(bed_run_until_up(&bed, 3 * W_SEC));
		bed_run(&bed, W_SEC);
		due = ike_dpd_due(bed_conn(&bed, 0)->sa);
		heard = bed_conn(&bed, 0)->sa->heard;
		late = wtime_diff(due, heard) - (dpd_us[i] ? dpd_us[i] : DEFAULT_US);
		if (on_grid) {
			assert_int_equal((due.us - o.grid_phase_us) % o.grid_us, 0);
			assert_in_range(late, 0, o.grid_us - 1);
		} else {
			assert_int_equal(late, 0);
		}
		/* it is made then, or the peer made its own a little before */
		bed_run(&bed, wtime_diff(due, bed.now) + W_SEC / 2);
		assert_true(wtime_before(heard, bed_conn(&bed, 0)->sa->heard));
		bed_close(&bed);
	}
}

/* ---- IKE_SA_INITs made up in a peer's name ---- */
struct first_message {
	uint8_t data[600];
	size_t n;
};

/* The first node's IKE_SA_INIT, which stays on its way. */
static void take_first(struct bed *bed, struct first_message *ret)
{
	const struct bed_packet *p;

	ike_conn_up(bed->node[0].ike, BED_CONN, bed->now);
	bed_collect(bed);
	assert_false(list_empty(&bed->wire));
	p = container_of(bed->wire.next, struct bed_packet, node);
	assert_true(p->n <= sizeof(ret->data));
	memcpy(ret->data, p->data, p->n);
	ret->n = p->n;
}

/* The same as from another initiator. */
static void first_from(struct bed *bed, struct first_message *m, const struct endpoint *from,
	unsigned int number)
{
	struct ike_datagram d = {.local = bed->node[1].ep,
		.remote = *from,
		.data = view_of(m->data, m->n)};

	put_u32(m->data, 0xee000000 + number);
	ike_input(bed->node[1].ike, &d, bed->now);
}

/* 200 peers behind one NAT start at once: each that answers its cookie is heard. */
static void many_behind_one_address(void **state)
{
	struct bed_options o = {.seed = 231, .passive = {true, true}};
	struct first_message m;
	struct ike_stats st;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	take_first(&bed, &m);
	bed_conn(&bed, 1)->ike->config.cookie_threshold = 1000; /* as if with cookies */
	for (uint16_t i = 0; i < 200; i++) {
		struct endpoint from = bed.node[0].ep;

		from.port = 20000 + i;
		first_from(&bed, &m, &from, i);
	}
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.half_open, 200);
	assert_int_equal(st.drops[IKE_DROP_HALF_OPEN_LIMIT], 0);
	bed_conn(&bed, 1)->ike->config.cookie_threshold = 32;
	assert_true(bed_run_until_up(&bed, W_SEC)); /* one more, with a real one */
	bed_run(&bed, IKE_TIME_HALF_OPEN + W_SEC);
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.half_open, 0);
	bed_close(&bed);
}

/* A host that answers cookies cannot take the room of others: half of it, and its part. */
static void one_address_takes_its_part(void **state)
{
	struct bed_options o = {.seed = 12,
		.passive = {true, true},
		.cookie_threshold = 1000,
		.half_open_max = 200};
	struct first_message m;
	struct ike_stats st;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	take_first(&bed, &m);
	for (uint16_t i = 0; i < 500; i++) {
		struct endpoint from = bed.node[0].ep;

		from.ip.b[3] ^= 0x55;
		from.port = i;
		first_from(&bed, &m, &from, i);
	}
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.half_open, 100);
	for (uint16_t i = 0; i < 500; i++) {
		struct endpoint from = bed.node[0].ep;

		from.ip.b[3] ^= 0x56;
		from.port = i;
		first_from(&bed, &m, &from, 1000 + i);
	}
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.half_open, 100 + IKE_HALF_OPEN_SOURCE);
	assert_int_equal(st.drops[IKE_DROP_HALF_OPEN_LIMIT], 1000 - st.half_open);
	assert_true(bed_run_until_up(&bed, W_SEC));
	bed_close(&bed);
}

/* Few forged requests that never end cannot keep the cookies on. */
static void cookies_end_by_time(void **state)
{
	struct bed_options o = {.seed = 23, .passive = {true, true}, .cookie_threshold = 5};
	struct first_message m;
	struct ike_stats st;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	take_first(&bed, &m);
	for (unsigned int i = 0; i < 40; i++) {
		first_from(&bed, &m, &bed.node[0].ep, i);
		ike_stats(bed.node[1].ike, &st);
		assert_true(st.half_open <= 5);
		if (i >= 20) { /* after the flood one each 10 s */
			ike_tick(bed.node[1].ike, bed.now);
			bed.now = wtime_add(bed.now, 10 * W_SEC);
		}
	}
	ike_tick(bed.node[1].ike, bed.now);
	ike_stats(bed.node[1].ike, &st);
	assert_false(st.cookies_on);
	assert_true(st.half_open <= 4);
	bed_close(&bed);
}

/* ---- NAT while more key exchanges follow IKE_SA_INIT ---- */
/* A NAT takes another port from the message after IKE_SA_INIT on: each answer goes to where its
 * request came from. */
static void port_changes_after_init(void **state)
{
	struct bed_options o = {.seed = 89, .passive = {false, true}, .pq = {IKE_PQ_REQUIRE}};
	struct bed bed;
	unsigned int moved = 0;

	(void)state;
	bed_open(&bed, &o);
	for (unsigned int n = 0; n < 100 && !bed_can_send(&bed, 0); n++) {
		struct bed_packet *p = container_of(bed.wire.next, struct bed_packet, node);

		assert_false(list_empty(&bed.wire));
		if (p->to == 1) {
			p->from.port = p->h.exchange == IKE_SA_INIT ? 13000 : 40000;
		} else {
			assert_int_equal(p->target.port,
				p->h.exchange == IKE_SA_INIT ? 13000 : 40000);
			moved += p->h.exchange != IKE_SA_INIT;
			p->target.port = 13000;
		}
		assert_true(bed_step(&bed));
	}
	assert_true(bed_can_send(&bed, 0));
	assert_true(moved >= 2); /* IKE_INTERMEDIATE, IKE_AUTH */
	bed_close(&bed);
}

/* ---- Memory over many connections ---- */
static void connections_leave_nothing(void **state)
{
	struct bed_options o = {.seed = 80, .passive = {false, true}};
	struct bed bed;
	size_t after_some = 0;

	(void)state;
	bed_open(&bed, &o);
	for (unsigned int n = 0; n < 200; n++) {
		assert_true(bed_run_until_up(&bed, 5 * W_SEC));
		for (unsigned int i = 0; i < 2; i++)
			ike_conn_remove(bed.node[i].ike, BED_CONN, bed.now);
		bed_collect(&bed);
		bed_run(&bed, 40 * W_SEC);
		if (n == 50)
			after_some = mallinfo2().uordblks;
		bed_add_conn(&bed, 1, &o);
		bed_add_conn(&bed, 0, &o);
	}
	for (unsigned int i = 0; i < 2; i++)
		ike_conn_remove(bed.node[i].ike, BED_CONN, bed.now);
	bed_collect(&bed);
	bed_run(&bed, 40 * W_SEC);
	assert_true(mallinfo2().uordblks <= after_some + 16384);
	assert_int_equal(bed.node[0].spis + bed.node[1].spis, 0);
	bed_close(&bed);
}

static enum bed_action lose_answers(struct bed *bed, const struct bed_packet *p)
{
	if (!bed_is(p, IKE_INFORMATIONAL, true) || bed->hits >= bed->arg)
		return BED_PASS;
	bed->hits++;
	return BED_DROP;
}

/* An answer to a DELETE is lost with the SA that could give it again: it is given all the same, to
 * that request, for a minute. */
static void the_last_answer_is_lost(void **state)
{
	struct bed_options o = {.seed = 91, .passive = {false, true}};
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 5 * W_SEC));
	bed.filter = lose_answers;
	bed.arg = 2;
	assert_int_equal(ike_conn_down(bed.node[0].ike, BED_CONN, bed.now), 0);
	bed_run(&bed, W_SEC);
	assert_int_equal(bed_status(&bed, 1).sa_count, 0);
	assert_int_equal(bed_status(&bed, 0).sa_count, 1);
	bed_run(&bed, 5 * W_SEC);
	assert_int_equal(bed.hits, 2);
	assert_int_equal(bed_status(&bed, 0).sa_count, 0);
	assert_int_equal(bed.node[1].ike->by_departed.count, 1);
	bed_run(&bed, IKE_TIME_DEPARTED);
	assert_int_equal(bed.node[1].ike->by_departed.count, 0);
	bed_close(&bed);
}

/* Only that request is answered for an SA that is gone, not one that differs by a bit. */
static void only_that_request_is_answered(void **state)
{
	struct bed_options o = {.seed = 92, .passive = {false, true}};
	struct ike_datagram d = {0}, out;
	struct bed_packet *asked;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	assert_true(bed_run_until_up(&bed, 5 * W_SEC));
	bed_run(&bed, W_SEC);
	assert_int_equal(ike_conn_down(bed.node[0].ike, BED_CONN, bed.now), 0);
	bed_collect(&bed);
	asked = container_of(bed.wire.next, struct bed_packet, node);
	assert_true(bed_is(asked, IKE_INFORMATIONAL, false));
	asked = w_memdup(asked, sizeof(*asked) + asked->n);
	assert_non_null(asked);
	bed_run(&bed, 5 * W_SEC);
	assert_int_equal(bed_status(&bed, 1).sa_count, 0);
	d.local = bed.node[1].ep;
	d.remote = bed.node[0].ep;
	d.data = view_of(asked->data, asked->n);
	for (size_t i = 0; i < asked->n; i++) {
		asked->data[i] ^= 1;
		ike_input(bed.node[1].ike, &d, bed.now);
		asked->data[i] ^= 1;
		assert_false(ike_output(bed.node[1].ike, &out));
	}
	ike_input(bed.node[1].ike, &d, bed.now);
	assert_true(ike_output(bed.node[1].ike, &out));
	w_free(asked);
	bed_close(&bed);
}

/* However many go, few are remembered. */
static void few_departed_are_kept(void **state)
{
	struct bed_options o = {.seed = 93, .passive = {false, true}};
	size_t most = 0;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	for (unsigned int i = 0; i < 300; i++) {
		assert_true(bed_run_until_up(&bed, 5 * W_SEC));
		assert_int_equal(ike_conn_down(bed.node[0].ike, BED_CONN, bed.now), 0);
		bed_run(&bed, 25 * W_MS);
		assert_int_equal(ike_conn_up(bed.node[0].ike, BED_CONN, bed.now), 0);
		if (bed.node[1].ike->by_departed.count > most)
			most = bed.node[1].ike->by_departed.count;
	}
	assert_int_equal(most, 256);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_bounces_in_a_rekey),
		cmocka_unit_test(lifetime_ends_in_a_rekey),
		cmocka_unit_test(no_rekey_in_a_replacement),
		cmocka_unit_test(failing_attempts_grow_apart),
		cmocka_unit_test(both_ends_restart),
		cmocka_unit_test(initial_contact_waits_for_auth),
		cmocka_unit_test(liveness_checks_wait_for_the_grid),
		cmocka_unit_test(many_behind_one_address),
		cmocka_unit_test(one_address_takes_its_part),
		cmocka_unit_test(cookies_end_by_time),
		cmocka_unit_test(port_changes_after_init),
		cmocka_unit_test(connections_leave_nothing),
		cmocka_unit_test(the_last_answer_is_lost),
		cmocka_unit_test(only_that_request_is_answered),
		cmocka_unit_test(few_departed_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
