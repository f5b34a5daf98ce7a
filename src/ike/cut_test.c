/* Two engines on a path that drops what is larger than 576 bytes and says nothing: RFC 7383
 * 2.5.2. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ike/bed_test.h"
#include "ike/sa_priv.h"

enum { NARROW = 576 - IKE_IP4_UDP_LEN - IKE_MARKER_LEN };

/* Drops what is larger; counts it. */
static enum bed_action narrow(struct bed *bed, const struct bed_packet *p)
{
	if (p->n <= NARROW)
		return BED_PASS;
	bed->hits++;
	return BED_DROP;
}

/* Only on the way to bed->arg. */
static enum bed_action narrow_to(struct bed *bed, const struct bed_packet *p)
{
	return (int)p->to == bed->arg ? narrow(bed, p) : BED_PASS;
}

/* From the second message of an exchange on: the request comes through, then nothing large. */
static enum bed_action narrow_after_requests(struct bed *bed, const struct bed_packet *p)
{
	if (!bed->arg && !(p->h.flags & IKE_FLAG_RESPONSE))
		return BED_PASS;
	bed->arg = 1;
	return narrow(bed, p);
}

static void open_up(struct bed *bed, uint64_t seed,
	enum bed_action (*filter)(struct bed *, const struct bed_packet *))
{
	struct bed_options o = {.seed = seed, .passive = {false, true}};

	bed_open(bed, &o);
	list_for_each_safe (it, &bed->wire) /* IKE_SA_INIT is small */
		assert_true(container_of(it, struct bed_packet, node)->n <= NARROW);
	bed->filter = filter;
	assert_true(bed_run_until_up(bed, 10 * W_SEC));
	bed_run(bed, 3 * W_SEC);
	assert_true(bed_is_tidy(bed));
	assert_int_equal(bed->node[0].fails + bed->node[1].fails, 0);
	assert_int_equal(bed_status(bed, 0).sa.kex[1], KEX_MLKEM768);
}

/* Rekeys the child or the IKE SA; done within `seconds`, and nothing was lost on the way. */
static void rekey(struct bed *bed, unsigned int which, bool ike_sa, unsigned int seconds)
{
	struct ike_conn_status before = bed_status(bed, 0), after;
	unsigned int ups = bed->node[0].ups;

	assert_int_equal(ike_sa ? ike_conn_rekey_ike(bed->node[which].ike, BED_CONN, bed->now)
				: ike_conn_rekey_child(bed->node[which].ike, BED_CONN, bed->now),
		0);
	bed_run(bed, (int64_t)seconds * W_SEC);
	after = bed_status(bed, 0);
	assert_true(bed_is_tidy(bed));
	if (ike_sa)
		assert_true(after.sa.spi_i != before.sa.spi_i && after.sa.spi_i != before.sa.spi_r);
	else
		assert_int_not_equal(after.children[0].spi_in, before.children[0].spi_in);
	assert_int_equal(bed->node[0].downs + bed->node[1].downs, 0);
	/* no second SA was begun beside it */
	assert_int_equal(bed->node[0].ups, ups + (ike_sa ? 1 : 0));
}

/* Narrow from the start: what was learned in the handshake holds for its SA; the next SA tries the
 * larger size again. */
static void narrow_from_the_start(void **state)
{
	(void)state;
	for (unsigned int which = 0; which < 2; which++) {
		struct bed bed;
		int lost;

		open_up(&bed, 700 + which, narrow);
		lost = bed.hits;
		assert_true(lost > 0);
		rekey(&bed, which, false, 4);
		rekey(&bed, which, true, 4);
		assert_int_equal(bed.hits, lost);
		rekey(&bed, which, true, 10);
		assert_true(bed.hits > lost);
		rekey(&bed, 1 - which, false, 10);
		bed_close(&bed);
	}
}

/* In one direction only, either one. */
static void narrow_in_one_direction(void **state)
{
	(void)state;
	for (int to = 0; to < 2; to++) {
		struct bed_options o = {.seed = 710 + (uint64_t)to, .passive = {false, true}};
		struct bed bed;

		bed_open(&bed, &o);
		bed.arg = to;
		bed.filter = narrow_to;
		assert_true(bed_run_until_up(&bed, 10 * W_SEC));
		bed_run(&bed, 3 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_true(bed.hits > 0);
		rekey(&bed, 0, true, 10);
		rekey(&bed, 1, true, 10);
		bed_close(&bed);
	}
}

/* The path gets narrow while the SA is up, between exchanges or when a request has come through. */
static void narrow_later(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		struct bed bed;

		open_up(&bed, 720 + i, NULL);
		assert_int_equal(bed.hits, 0);
		bed.filter = i & 4 ? narrow_after_requests : narrow;
		rekey(&bed, i & 1, i & 2, 12);
		assert_true(bed.hits > 0);
		bed_close(&bed);
	}
}

/* Runs the handshake until the responder has answered IKE_INTERMEDIATE, whose keys are old then. */
static enum bed_action keep_answers(struct bed *bed, const struct bed_packet *p)
{
	if (bed_is(p, IKE_INTERMEDIATE, true)) {
		bed->hits++;
		return BED_DROP;
	}
	return BED_PASS;
}

/* Nobody but the peer can have a reply sent again or cut: a handshake's repetition is looked at
 * under the keys that it came with. */
static void only_the_peer_is_answered_again(void **state)
{
	struct bed_options o = {.seed = 740, .passive = {false, true}};
	uint8_t copy[1280] = {0};
	struct bed_packet *p;
	struct ike_datagram d;
	struct bed bed;
	size_t n = 0;
	int sent;

	(void)state;
	bed_open(&bed, &o);
	bed.filter = keep_answers;
	for (unsigned int i = 0; i < 20 && !bed.hits; i++) {
		p = list_empty(&bed.wire) ? NULL
					  : container_of(bed.wire.next, struct bed_packet, node);
		if (p && !n && bed_is(p, IKE_INTERMEDIATE, false)) {
			n = p->n;
			memcpy(copy, p->data, n);
		}
		assert_true(bed_step(&bed));
	}
	assert_true(bed.hits > 0 && n > NARROW);
	d = (struct ike_datagram){.local = bed.node[1].ep,
		.remote = bed.node[0].ep,
		.data = view_of(copy, n)};
	sent = bed.hits;
	copy[n - 1] ^= 1;
	for (unsigned int i = 0; i < 4; i++)
		ike_input(bed.node[1].ike, &d, bed.now);
	bed_collect(&bed);
	assert_int_equal(bed.hits, sent);
	copy[n - 1] ^= 1;
	ike_input(bed.node[1].ike, &d, bed.now);
	bed_collect(&bed);
	assert_int_equal(bed.hits, 2 * sent); /* as it was */
	ike_input(bed.node[1].ike, &d, bed.now);
	bed_collect(&bed);
	assert_true(bed.hits > 3 * sent); /* in more, smaller ones */
	bed.filter = NULL;
	assert_true(bed_run_until_up(&bed, 10 * W_SEC));
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(narrow_from_the_start),
		cmocka_unit_test(narrow_in_one_direction),
		cmocka_unit_test(narrow_later),
		cmocka_unit_test(only_the_peer_is_answered_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
