/* When senders are told that the TUN's queue stands, and how. */
#include "plane/aqm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "base/cur.h"
#include "plane/rig_test.h"

enum { STEP = 1000, SEGMENTS = 10, SIZE = 1300 };

/* Marks until `end`, with a frame of `len` bytes each ms; the queue is seen empty each `empty`
 * steps (0: never). */
static unsigned int marks(struct aqm *a, wtime *now, int64_t end, uint32_t len, unsigned int empty)
{
	unsigned int n = 0;

	for (unsigned int i = 1; now->us < end; i++) {
		if (empty && i % empty == 0)
			aqm_empty(a, *now);
		n += aqm_due(a, len, *now);
		now->us += STEP;
	}
	return n;
}

static void a_queue_that_stands_is_told(void **state)
{
	struct aqm a = {.on = true};
	wtime now = {0};

	(void)state;
	assert_int_equal(marks(&a, &now, 105 * STEP, 1400, 0), 0);
	assert_int_equal(marks(&a, &now, 106 * STEP, 1400, 0), 1);
	/* The next after 100 ms, the one behind that after 100 / sqrt 2. */
	assert_int_equal(marks(&a, &now, 204 * STEP, 1400, 0), 0);
	assert_int_equal(marks(&a, &now, 207 * STEP, 1400, 0), 1);
	assert_int_equal(marks(&a, &now, 274 * STEP, 1400, 0), 0);
	assert_int_equal(marks(&a, &now, 279 * STEP, 1400, 0), 1);
	/* And more often the longer it stands: 100 / sqrt n is 10 ms for the 100th. */
	assert_in_range(marks(&a, &now, 2278 * STEP, 1400, 0), 90, 150);
}

static void a_queue_that_runs_empty_is_not(void **state)
{
	struct aqm a = {.on = true}, off = {.on = false};
	wtime now = {0};

	(void)state;
	assert_int_equal(marks(&a, &now, 10000 * STEP, 1400, 100), 0);
	now.us = 0;
	assert_int_equal(marks(&off, &now, 1000 * STEP, 1400, 0), 0);
	/* One that stood and ran empty has its time again. */
	now.us = 0;
	aqm_empty(&a, now);
	assert_int_equal(marks(&a, &now, 106 * STEP, 1400, 0), 1);
	aqm_empty(&a, now);
	assert_int_equal(marks(&a, &now, 210 * STEP, 1400, 0), 0);
	assert_int_equal(marks(&a, &now, 213 * STEP, 1400, 0), 1);
}

static void small_packets_are_never_the_ones(void **state)
{
	struct aqm a = {.on = true};
	wtime now = {0};

	(void)state;
	assert_int_equal(marks(&a, &now, 1000 * STEP, 200, 0), 0);
	assert_int_equal(marks(&a, &now, 1001 * STEP, 1400, 0), 1);
}

/* a's queue stands. */
static int standing_setup(void **state)
{
	struct rig_pair *t;

	(void)rig_pair_setup(state);
	t = *state;
	t->a.tun_stands = true;
	t->a.now.us += W_SEC;
	return 0;
}

/* A superpacket of TCP goes into a; what comes out of b is cut. */
static void super_send(struct rig_pair *t, uint8_t version, uint8_t tos)
{
	struct plane_down off = {.type = PLANE_DOWN_MERGE, .flags = 0};
	uint32_t ip = version == 4 ? 20 : 40;
	struct packet f = {.version = version,
		.proto = 6,
		.tos = tos,
		.src = version == 4 ? "10.1.0.5" : "fd00:1::5",
		.dst = version == 4 ? "10.2.0.1" : "fd00:2::1",
		.sport = 1,
		.dport = 2,
		.df = true,
		.len = ip + 20 + SEGMENTS * SIZE};
	struct gso gso = {.type = version == 4 ? GSO_TCP4 : GSO_TCP6,
		.needs_csum = true,
		.size = SIZE,
		.hdr_len = (uint16_t)(ip + 20),
		.csum_start = (uint16_t)ip,
		.csum_offset = 16};

	packet_make(t->data, &f);
	put_u16(t->data + ip + 16,
		packet_sum(version == 4 ? t->data + 12 : t->data + 8, version == 4 ? 8 : 32,
			6 + f.len - ip));
	plane_down(t->b.plane, &off, t->b.now);
	rig_tun_gso(&t->a, t->data, f.len, gso);
	rig_round(&t->a);
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	assert_true(rig_balanced(&t->a) && rig_balanced(&t->b));
}

/* All of b's frames are whole, of one traffic class, and those of the superpacket from `first` on.
 */
static void expect_segments(struct rig_pair *t, uint8_t version, uint8_t tos, uint32_t first)
{
	uint32_t ip = version == 4 ? 20 : 40;

	assert_int_equal(t->b.frames, SEGMENTS - first);
	for (uint32_t i = 0; i < t->b.frames; i++) {
		const uint8_t *p = t->b.frame_data[i];

		assert_true(packet_valid(p, t->b.frame_len[i]));
		assert_int_equal(version == 4 ? p[1] : (get_u16(p) >> 4 & 0xff), tos);
		assert_int_equal(get_u32(p + ip + 4), (i + first) * SIZE);
	}
}

static void who_knows_ecn_gets_a_mark(void **state)
{
	struct rig_pair *t = *state;
	struct plane_counters c;

	for (unsigned int i = 0; i < 4; i++) {
		uint8_t version = i & 1 ? 6 : 4, ect = i & 2 ? 1 : 2;

		super_send(t, version, 0xb8 | ect);
		expect_segments(t, version, 0xb8 | 3, 0);
		t->a.now.us += W_SEC;
	}
	plane_counters(t->a.plane, &c);
	assert_int_equal(c.aqm_marked, 4);
	assert_int_equal(rig_dropped(&t->a), 0);
}

static void others_lose_one_segment(void **state)
{
	struct rig_pair *t = *state;

	for (uint8_t version = 4; version <= 6; version += 2) {
		super_send(t, version, 0xb8);
		expect_segments(t, version, 0xb8, 1);
		/* The one behind it is left alone. */
		super_send(t, version, 0xb8);
		expect_segments(t, version, 0xb8, 0);
		t->a.now.us += W_SEC;
	}
	assert_int_equal(rig_drops(&t->a, DROP_AQM), 2);
	assert_int_equal(rig_dropped(&t->a), 2);
}

static void a_ping_is_left_alone(void **state)
{
	struct rig_pair *t = *state;
	struct packet ping = {.version = 6,
		.proto = 58,
		.src = "fd00:1::5",
		.dst = "fd00:2::1",
		.len = 104};

	for (int i = 0; i < 10; i++) {
		rig_tun(&t->a, t->data, packet_make(t->data, &ping));
		rig_round(&t->a);
		assert_int_equal(t->a.rx_count, 1);
		t->a.now.us += W_SEC;
	}
	assert_int_equal(rig_dropped(&t->a), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, standing_setup, rig_pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_that_stands_is_told),
		cmocka_unit_test(a_queue_that_runs_empty_is_not),
		cmocka_unit_test(small_packets_are_never_the_ones),
		T(who_knows_ecn_gets_a_mark),
		T(others_lose_one_segment),
		T(a_ping_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
