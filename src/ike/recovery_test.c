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

/* ---- Case 34 ---- */
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

/* ---- Case 20 ---- */
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

/* ---- Case 35 ---- */
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

/* ---- Case 23 of post-quantum handshakes ---- */
/* Few forged requests that never end cannot keep the cookies on. */
static void cookies_end_by_time(void **state)
{
	struct bed_options o = {.seed = 23, .passive = {true, true}, .cookie_threshold = 5};
	uint8_t init[600] = {0};
	struct ike_stats st;
	struct bed_packet *p;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	ike_conn_up(bed.node[0].ike, BED_CONN, bed.now);
	bed_collect(&bed);
	p = container_of(bed.wire.next, struct bed_packet, node);
	assert_true(p->n <= sizeof(init));
	memcpy(init, p->data, p->n);
	for (uint8_t i = 0; i < 40; i++) {
		struct ike_datagram d = {.local = bed.node[1].ep,
			.remote = bed.node[0].ep,
			.data = view_of(init, p->n)};

		init[1] = i;
		ike_input(bed.node[1].ike, &d, bed.now);
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

/* ---- Case 89 of post-quantum handshakes ---- */
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

/* ---- Case 80 of the data path ---- */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_bounces_in_a_rekey),
		cmocka_unit_test(failing_attempts_grow_apart),
		cmocka_unit_test(both_ends_restart),
		cmocka_unit_test(cookies_end_by_time),
		cmocka_unit_test(port_changes_after_init),
		cmocka_unit_test(connections_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
