/* Packets through two or three planes back to back. */
#include "plane/rig_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"

enum { A = 1, B = 2, C = 3 };

/* A - B, one link. */
struct pair_rig {
	struct rig a, b;
};

static int pair_setup(void **state)
{
	struct pair_rig *t = w_calloc(1, sizeof(*t));

	assert_non_null(t);
	rig_init(&t->a, A, 1, (const unsigned int[]){B}, (const unsigned int[]){0});
	rig_init(&t->b, B, 1, (const unsigned int[]){A}, (const unsigned int[]){0});
	*state = t;
	return 0;
}

static int pair_teardown(void **state)
{
	struct pair_rig *t = *state;

	rig_done(&t->a);
	rig_done(&t->b);
	w_free(t);
	return 0;
}

static const struct packet udp6 = {.version = 6,
	.proto = 17,
	.src = "fd00:1::5",
	.dst = "fd00:2::1",
	.sport = 1000,
	.dport = 2000,
	.len = 200};
static const struct packet udp4 = {.version = 4,
	.proto = 17,
	.src = "10.1.0.5",
	.dst = "10.2.0.1",
	.sport = 1000,
	.dport = 2000,
	.len = 200};

static void single_packets_cross(void **state)
{
	const struct packet *const each[] = {&udp4, &udp6};
	struct pair_rig *t = *state;
	uint8_t was[2][256];

	for (size_t i = 0; i < 2; i++) {
		uint8_t data[256];

		packet_make(data, each[i]);
		memcpy(was[i], data, sizeof(data));
		rig_tun(&t->a, data, each[i]->len);
	}
	rig_round(&t->a);
	assert_int_equal(t->a.rx_count, 2);
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	assert_int_equal(t->b.frames, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(t->b.frame_len[i], 200);
		assert_memory_equal(t->b.frame_data[i], was[i], 200);
	}
	assert_int_equal(rig_dropped(&t->a) + rig_dropped(&t->b), 0);
	assert_int_equal(t->a.state[0].tx_packets, 2);
	assert_int_equal(t->a.state[0].tx_bytes, 400);
	assert_int_equal(t->b.state[0].rx_packets, 2);
	assert_int_equal(t->b.state[0].rx_bytes, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(single_packets_cross, pair_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
