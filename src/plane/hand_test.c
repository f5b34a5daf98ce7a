/* Two planes of one node: each has the links whose slots are its, and what comes in at the other
 * for them is handed over, in order, and sealed by the one that has the SA. */
#include "plane/plane_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "base/list.h"
#include "base/mem.h"
#include "plane/rig_test.h"

enum { A = 1, B = 2, C = 3, ROOM = 128, LEN = 1400 };

struct handed {
	struct plane_handed h;
	uint8_t data[LEN];
};

/* Node a by two planes, with links 0 to b and 1 to c; `most` packets can wait for the second. */
struct two {
	struct rig one, other, b, c;
	struct handed wait[ROOM];
	size_t waits, most;
};

static uint8_t *take(void *ctx, uint32_t number, const struct plane_handed *h)
{
	struct two *t = container_of((struct rig *)ctx, struct two, one);

	assert_int_equal(number, 1);
	assert_true(h->len <= LEN);
	if (t->waits == t->most)
		return NULL;
	t->wait[t->waits].h = *h;
	return t->wait[t->waits++].data;
}

static uint8_t *none(void *ctx, uint32_t number, const struct plane_handed *h)
{
	(void)ctx;
	(void)number;
	(void)h;
	fail_msg("a plane has its own links");
	return NULL;
}

static int two_setup(void **state)
{
	struct two *t = w_calloc(1, sizeof(*t));

	assert_non_null(t);
	rig_init(&t->one, A, 2, (const unsigned int[]){B, C}, (const unsigned int[]){0, 0});
	rig_init(&t->other, A, 2, (const unsigned int[]){B, C}, (const unsigned int[]){0, 0});
	rig_init(&t->b, B, 1, (const unsigned int[]){A}, (const unsigned int[]){0});
	rig_init(&t->c, C, 1, (const unsigned int[]){A}, (const unsigned int[]){1});
	t->one.plane->config.planes = t->other.plane->config.planes = 2;
	t->other.plane->config.number = 1;
	t->one.plane->config.hand = take;
	t->other.plane->config.hand = none;
	t->most = ROOM;
	*state = t;
	return 0;
}

static int two_teardown(void **state)
{
	struct two *t = *state;

	rig_done(&t->one);
	rig_done(&t->other);
	rig_done(&t->b);
	rig_done(&t->c);
	w_free(t);
	return 0;
}

/* What the first handed over arrives at the other, which sends it; then all is accounted for. */
static void over(struct two *t)
{
	for (size_t i = 0; i < t->waits; i++)
		plane_input_handed(t->other.plane, &t->wait[i].h, t->wait[i].data, t->other.now);
	t->waits = 0;
	rig_round(&t->other);
	assert_true(rig_balanced(&t->one) && rig_balanced(&t->other));
}

static uint32_t udp_make(uint8_t *data, const char *src, const char *dst, uint16_t id)
{
	struct packet f = {.version = 4,
		.proto = 17,
		.src = src,
		.dst = dst,
		.sport = 1000,
		.dport = 2000,
		.len = 500,
		.id = id};

	return packet_make(data, &f);
}

/* From the TUN of one: to b by itself, to c by the other, each in order. */
static void a_links_packets_are_its_planes(void **state)
{
	struct two *t = *state;
	struct plane_counters n;
	uint8_t data[LEN];

	for (uint16_t i = 0; i < 20; i++)
		rig_tun(&t->one, data,
			udp_make(data, "10.1.0.5", i % 2 ? "10.3.0.1" : "10.2.0.1", i));
	rig_round(&t->one);
	assert_int_equal(t->waits, 10);
	assert_int_equal(t->one.out[1].next, t->c.out[0].next); /* no number of it was used */
	rig_carry(&t->one, 0, &t->b);
	rig_round(&t->b);
	over(t);
	assert_int_equal(t->other.rx_count, 1); /* one size: one send */
	rig_carry(&t->other, 1, &t->c);
	rig_round(&t->c);
	assert_int_equal(rig_dropped(&t->b) + rig_dropped(&t->c), 0);
	plane_counters(t->one.plane, &n);
	assert_int_equal(n.handed, 10);
	plane_counters(t->c.plane, &n);
	assert_int_equal(n.tun_tx_packets, 10);
}

/* A packet that passes through: the hop limit is taken by the one that it came to. */
static void transit_crosses_over(void **state)
{
	struct two *t = *state;
	uint8_t data[LEN];

	rig_inject(&t->b, 0, &t->one, data, udp_make(data, "10.2.0.5", "10.3.0.1", 7));
	rig_round(&t->one);
	assert_int_equal(t->waits, 1);
	over(t);
	rig_carry(&t->other, 1, &t->c);
	rig_round(&t->c);
	assert_int_equal(t->c.frames, 1);
	assert_int_equal(t->c.frame_data[0][8], data[8] - 1);
	assert_true(packet_valid(t->c.frame_data[0], t->c.frame_len[0]));
}

static void a_full_ring_drops_and_counts(void **state)
{
	struct two *t = *state;
	uint8_t data[LEN];

	t->most = 3;
	for (uint16_t i = 0; i < 5; i++)
		rig_tun(&t->one, data, udp_make(data, "10.1.0.5", "10.3.0.1", i));
	rig_round(&t->one);
	assert_int_equal(rig_drops(&t->one, DROP_TX_BACKPRESSURE), 2);
	over(t);
}

/* The link went while the packet was on its way from one to the other. */
static void a_link_that_is_gone_drops(void **state)
{
	struct two *t = *state;
	uint8_t data[LEN];

	rig_tun(&t->one, data, udp_make(data, "10.1.0.5", "10.3.0.1", 1));
	rig_round(&t->one);
	t->other.links[1] = NULL;
	over(t);
	assert_int_equal(rig_drops(&t->other, DROP_LINK_DOWN), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, two_setup, two_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_links_packets_are_its_planes),
		T(transit_crosses_over),
		T(a_full_ring_drops_and_counts),
		T(a_link_that_is_gone_drops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
