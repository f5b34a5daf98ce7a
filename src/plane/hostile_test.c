/* A hundred thousand frames and datagrams that nobody sane would send: nothing breaks, and every
 * one is accounted for. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/rng.h"
#include "plane/rig_test.h"

enum { A = 1, B = 2, COUNT = 100000, MOST = 4000 };

struct nodes {
	struct rig a, b;
	struct rng_seeded seeded;
	struct rng rng;
};

static int setup(void **state)
{
	struct nodes *n = w_calloc(1, sizeof(*n));

	assert_non_null(n);
	rig_init(&n->a, A, 1, (const unsigned int[]){B}, (const unsigned int[]){0});
	rig_init(&n->b, B, 1, (const unsigned int[]){A}, (const unsigned int[]){0});
	n->rng = rng_seeded_init(&n->seeded, 99);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	struct nodes *n = *state;

	rig_done(&n->a);
	rig_done(&n->b);
	w_free(n);
	return 0;
}

static uint32_t pick(struct nodes *n, uint32_t bound)
{
	uint64_t v;

	assert_int_equal(rng_below(&n->rng, bound, &v), 0);
	return (uint32_t)v;
}

/* A packet that is nearly right, with some bytes changed; in a block of its exact size, so that a
 * read behind it is seen. */
static uint8_t *make(struct nodes *n, uint32_t *ret_len)
{
	static const char *const addr6[] = {"fd00:1::5", "fd00:2::1", "fd00:77::1", "fe80::1:0",
		"ff02::1", "fe80::2:0", "::1"};
	static const char *const addr4[] = {"10.1.0.5", "10.2.0.1", "127.0.0.1", "224.0.0.1",
		"198.51.100.7", "10.2.0.9"};
	static const uint8_t proto[] = {6, 17, 58, 1};
	bool v6 = pick(n, 2);
	struct packet f = {.version = v6 ? 6 : 4,
		.proto = proto[pick(n, 4)],
		.src = v6 ? addr6[pick(n, 7)] : addr4[pick(n, 6)],
		.dst = v6 ? addr6[pick(n, 7)] : addr4[pick(n, 6)],
		.sport = (uint16_t)pick(n, 65536),
		.dport = pick(n, 4) ? 13000 : 6696,
		.tos = (uint8_t)pick(n, 256),
		.df = pick(n, 2),
		.hop_limit = (uint8_t)pick(n, 4)};
	uint32_t len = 60 + pick(n, MOST - 60);
	uint8_t *p = w_alloc(len), *cut;

	assert_non_null(p);
	f.len = len;
	packet_make(p, &f);
	for (uint32_t i = pick(n, 4); i > 0; i--)
		p[pick(n, pick(n, 4) ? 60 : len)] = (uint8_t)pick(n, 256);
	if (v6 && pick(n, 8) == 0)
		p[6] = (uint8_t)(pick(n, 2) ? 0 : 44); /* an extension header chain of noise */
	if (pick(n, 10) == 0) {
		*ret_len = pick(n, len + 1);
		cut = w_memdup(p, *ret_len);
		w_free(p);
		return cut;
	}
	*ret_len = len;
	return p;
}

static struct gso noise_gso(struct nodes *n)
{
	if (pick(n, 2))
		return (struct gso){.needs_csum = pick(n, 4) == 0,
			.csum_start = (uint16_t)pick(n, 100),
			.csum_offset = (uint16_t)pick(n, 40)};
	return (struct gso){.type = (uint8_t)pick(n, 6),
		.needs_csum = pick(n, 8) != 0,
		.ecn = pick(n, 2),
		.size = (uint16_t)pick(n, pick(n, 2) ? 1500 : 65536),
		.hdr_len = (uint16_t)(pick(n, 2) ? 60 : pick(n, 65536)),
		.csum_start = (uint16_t)(pick(n, 4) ? (pick(n, 2) ? 20 : 40) : pick(n, 65536)),
		.csum_offset = (uint16_t)(pick(n, 4) ? (pick(n, 2) ? 6 : 16) : pick(n, 65536))};
}

static void hostile_frames(void **state)
{
	struct nodes *n = *state;
	struct plane_counters c;

	for (int i = 0; i < COUNT; i++) {
		uint32_t len;
		uint8_t *p = make(n, &len);

		n->a.now.us += 100;
		rig_tun_gso(&n->a, p, len, noise_gso(n));
		w_free(p);
		if (i % 16 == 0) {
			rig_round(&n->a);
			n->b.now = n->a.now;
			rig_carry(&n->a, 0, &n->b);
			rig_round(&n->b);
			assert_true(rig_balanced(&n->a) && rig_balanced(&n->b));
		}
	}
	plane_counters(n->a.plane, &c);
	assert_true(c.udp_tx_datagrams > 1000);
	assert_true(rig_dropped(&n->a) > 1000);
	assert_int_equal(rig_drops(&n->b, DROP_BAD_IP), 0);
}

/* Inner packets of a hostile peer, and noise around them. */
static void hostile_datagrams(void **state)
{
	struct nodes *n = *state;

	for (int i = 0; i < COUNT; i++) {
		uint32_t len;
		uint8_t *p = make(n, &len), *d = w_alloc(len + RIG_HEAD + RIG_TAIL);
		struct udp_rx b = {.data = d,
			.len = len,
			.time = n->b.now,
			.tos = (uint8_t)pick(n, 256)};

		assert_non_null(d);
		n->b.now.us += 100;
		switch (pick(n, 8)) {
		case 0: /* noise */
			memcpy(d, p, len);
			memset(d, pick(n, 2) ? 0 : 0xff, len < 4 ? len : 4);
			b.seg_size = pick(n, 3) * 100;
			break;
		default:
			b.len = rig_seal(&n->a.out[0], d, p, len,
				pick(n, 9) ? (p[0] >> 4 == 6 ? 41 : 4) : (uint8_t)pick(n, 256));
			break;
		}
		plane_input_udp(n->b.plane, &b, 1, n->b.now);
		rig_round(&n->b);
		assert_true(rig_balanced(&n->b));
		w_free(p);
		w_free(d);
	}
	assert_true(n->b.state[0].rx_packets > COUNT / 2);
	assert_true(rig_drops(&n->b, DROP_BAD_IP) > 1000);
	assert_true(rig_drops(&n->b, DROP_OWN_SOURCE) > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hostile_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(hostile_datagrams, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
