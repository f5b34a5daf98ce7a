/* A plane with helpers sends and delivers what one without does, byte for byte and in order,
 * whoever did the work and whenever. The helpers are this thread's own calls, at random times; with
 * threads of their own: test/helpers. */
#include "plane/plane_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "plane/rig_test.h"

enum { A = 1, B = 2, C = 3, HELPERS = 2, FRAMES = 12, ROUNDS = 60 };

/* Node a twice, alone and with helpers, and what each sends to; b is linked to c as well. */
struct twins {
	struct rig alone, helped, b_alone, b_helped;
	uint8_t (*data)[65536];
	uint32_t draw, helped_times;
};

static int twins_setup(void **state)
{
	struct twins *t = w_calloc(1, sizeof(*t));
	const struct fib_entry beyond = rig_route("10.3.0.0/16", NULL, 0);

	assert_non_null(t);
	t->data = w_calloc(FRAMES, sizeof(*t->data));
	assert_non_null(t->data);
	t->draw = 1;
	rig_init(&t->alone, A, 1, (const unsigned int[]){B}, (const unsigned int[]){0});
	rig_init(&t->b_alone, B, 2, (const unsigned int[]){A, C}, (const unsigned int[]){0, 0});
	rig_init_helped(&t->helped, A, 1, (const unsigned int[]){B}, (const unsigned int[]){0},
		HELPERS);
	rig_init_helped(&t->b_helped, B, 2, (const unsigned int[]){A, C},
		(const unsigned int[]){0, 0}, HELPERS);
	rig_routes(&t->alone, A, (const unsigned int[]){B}, &beyond, 1);
	rig_routes(&t->helped, A, (const unsigned int[]){B}, &beyond, 1);
	*state = t;
	return 0;
}

static int twins_teardown(void **state)
{
	struct twins *t = *state;

	rig_done(&t->alone);
	rig_done(&t->helped);
	rig_done(&t->b_alone);
	rig_done(&t->b_helped);
	w_free(t->data);
	w_free(t);
	return 0;
}

static uint32_t draw(struct twins *t, uint32_t below)
{
	t->draw = t->draw * 1664525 + 1013904223;
	return (t->draw >> 8) % below;
}

/* Some helpers do some of what waits. */
static void help(struct twins *t, struct rig *r)
{
	for (uint32_t n = draw(t, 6); n > 0; n--)
		t->helped_times += plane_help(r->plane, draw(t, HELPERS));
}

/* A frame that may be anything from one small packet to a superpacket; to c it passes through b. */
static uint32_t frame_make(struct twins *t, uint8_t *data, struct gso *ret)
{
	static const uint16_t sizes[] = {1360, 1360, 1360, 536, 100};
	uint32_t size = sizes[draw(t, 5)], segments = draw(t, 3) ? 1 + draw(t, 45) : 1;
	struct packet f = {.version = 4,
		.proto = 6,
		.src = "10.1.0.5",
		.dst = draw(t, 4) ? "10.2.0.1" : "10.3.0.1",
		.sport = 1,
		.dport = (uint16_t)(1 + draw(t, 2)),
		.len = 40 + (segments - 1) * size + 1 + draw(t, size),
		.df = true,
		.id = (uint16_t)draw(t, 65536)};

	packet_make(data, &f);
	*ret = (struct gso){0};
	if (segments == 1)
		return f.len;
	*ret = (struct gso){.type = GSO_TCP4,
		.needs_csum = true,
		.size = (uint16_t)size,
		.hdr_len = 40,
		.csum_start = 20,
		.csum_offset = 16};
	put_u16(data + 36, packet_sum(data + 12, 8, 6 + f.len - 20));
	return f.len;
}

static void same_sends(const struct rig *x, const struct rig *y)
{
	assert_int_equal(x->rx_count, y->rx_count);
	for (size_t i = 0; i < x->rx_count; i++) {
		assert_int_equal(x->rx[i].len, y->rx[i].len);
		assert_int_equal(x->rx[i].seg_size, y->rx[i].seg_size);
		assert_int_equal(x->rx[i].socket, y->rx[i].socket);
		assert_memory_equal(x->rx[i].data, y->rx[i].data, x->rx[i].len);
	}
}

static void same_frames(const struct rig *x, const struct rig *y)
{
	assert_int_equal(x->frames, y->frames);
	for (size_t i = 0; i < x->frames; i++) {
		assert_int_equal(x->frame_len[i], y->frame_len[i]);
		assert_memory_equal(x->frame_data[i], y->frame_data[i], x->frame_len[i]);
	}
}

static void same_counters(const struct rig *x, const struct rig *y)
{
	struct plane_counters p, q;

	plane_counters(x->plane, &p);
	plane_counters(y->plane, &q);
	assert_memory_equal(&p, &q, sizeof(p));
	assert_memory_equal(&x->state[0].tx_packets, &y->state[0].tx_packets,
		sizeof(x->state[0]) - offsetof(struct plane_link_state, tx_packets));
	assert_true(rig_balanced(x) && rig_balanced(y));
}

/* Frames into both; a frame's bytes stay until its round is over. */
static void send_some(struct twins *t)
{
	for (uint32_t i = 0; i < FRAMES; i++) {
		struct gso gso;
		uint32_t len = frame_make(t, t->data[i], &gso);

		rig_tun_gso(&t->alone, t->data[i], len, gso);
		rig_tun_gso(&t->helped, t->data[i], len, gso);
		help(t, &t->helped);
	}
}

/* What both sent in this round, into their far ends, all in one call, and out again. */
static void carry_all(struct twins *t, struct rig *from, struct rig *to, bool helped)
{
	for (size_t i = 0; i < from->rx_count; i++)
		from->rx[i].socket = 0;
	if (helped)
		help(t, to);
	plane_input_udp(to->plane, from->rx, from->rx_count, to->now);
	rig_round(to);
}

static void what_helpers_do_is_the_same(void **state)
{
	struct twins *t = *state;

	for (int i = 0; i < ROUNDS; i++) {
		send_some(t);
		rig_round(&t->alone);
		rig_round(&t->helped);
		same_sends(&t->alone, &t->helped);
		carry_all(t, &t->alone, &t->b_alone, false);
		carry_all(t, &t->helped, &t->b_helped, true);
		same_frames(&t->b_alone, &t->b_helped);
		same_sends(&t->b_alone, &t->b_helped);
	}
	same_counters(&t->alone, &t->helped);
	same_counters(&t->b_alone, &t->b_helped);
	assert_int_equal(t->alone.out[0].next, t->helped.out[0].next);
	assert_true(t->helped_times > ROUNDS);
	assert_int_equal(rig_dropped(&t->helped) + rig_dropped(&t->b_helped), 0);
}

/* The same datagrams once more, within one call and after it: none is delivered twice. */
static void copies_are_refused(void **state)
{
	struct twins *t = *state;
	uint64_t n;

	send_some(t);
	rig_round(&t->alone);
	rig_round(&t->helped);
	n = t->helped.out[0].next - 1;
	assert_true(n > WORK_OPEN_MIN);
	for (size_t i = 0; i < t->helped.rx_count; i++) {
		t->helped.rx[i].socket = 0;
		t->helped.rx[t->helped.rx_count + i] = t->helped.rx[i];
		t->helped.rx[t->helped.rx_count + i].data = w_memdup(t->helped.rx[i].data,
			t->helped.rx[i].len);
	}
	plane_input_udp(t->b_helped.plane, t->helped.rx, 2 * t->helped.rx_count, t->b_helped.now);
	for (size_t i = 0; i < t->helped.rx_count; i++)
		w_free(t->helped.rx[t->helped.rx_count + i].data);
	rig_round(&t->b_helped);
	assert_int_equal(rig_drops(&t->b_helped, DROP_REPLAY_DUPLICATE) +
			rig_drops(&t->b_helped, DROP_REPLAY_OLD),
		n);
	assert_int_equal(t->b_helped.state[0].rx_packets, n);
}

static void super_to(struct twins *t, struct rig *r, uint8_t *data)
{
	struct packet f = {.version = 4,
		.proto = 6,
		.src = "10.1.0.5",
		.dst = "10.2.0.1",
		.len = 40 + 45 * 1360,
		.df = true};
	struct gso gso = {.type = GSO_TCP4,
		.needs_csum = true,
		.size = 1360,
		.hdr_len = 40,
		.csum_start = 20,
		.csum_offset = 16};

	(void)t;
	packet_make(data, &f);
	put_u16(data + 36, packet_sum(data + 12, 8, 6 + f.len - 20));
	rig_tun_gso(r, data, f.len, gso);
}

/* The SA goes while pieces of it wait: they are sealed before it is given back. */
static void an_sa_outlives_its_pieces(void **state)
{
	struct twins *t = *state;
	struct rig *r = &t->helped;
	struct plane_down m = {.type = PLANE_DOWN_SA_REMOVE, .sa = &r->out[0].t};

	super_to(t, r, t->data[0]);
	assert_true(plane_help_wanted(r->plane));
	assert_int_equal(r->state[0].tx_packets, 0);
	plane_down(r->plane, &m, r->now);
	assert_non_null(rig_find(r, PLANE_UP_SA_GONE));
	assert_false(plane_help_wanted(r->plane));
	assert_int_equal(r->state[0].tx_packets, 45);
	memset(&r->out[0], 0xff, sizeof(r->out[0])); /* it is the control side's */
	rig_round(r);
	carry_all(t, r, &t->b_helped, true);
	assert_int_equal(t->b_helped.frame_segments[0], 45);
	assert_int_equal(rig_dropped(r) + rig_dropped(&t->b_helped), 0);
}

static void a_link_outlives_its_pieces(void **state)
{
	struct twins *t = *state;
	struct rig *r = &t->helped;
	struct plane_down m = {.type = PLANE_DOWN_LINK_REMOVE, .slot = 0};

	super_to(t, r, t->data[0]);
	plane_down(r->plane, &m, r->now);
	assert_int_equal(r->state[0].tx_packets, 45);
	assert_int_equal(rig_find(r, PLANE_UP_LINK_GONE)->up.state->tx_bytes, 45 * 1400);
	rig_round(r);
	assert_true(rig_balanced(r));
}

/* Numbers run out in the middle of a superpacket; what has one goes out. */
static void numbers_run_out(void **state)
{
	struct twins *t = *state;

	t->alone.out[0].hard = t->helped.out[0].hard = 32;
	super_to(t, &t->alone, t->data[0]);
	super_to(t, &t->helped, t->data[1]);
	rig_round(&t->alone);
	rig_round(&t->helped);
	same_sends(&t->alone, &t->helped);
	same_counters(&t->alone, &t->helped);
	assert_int_equal(rig_drops(&t->helped, DROP_HARD_LIMIT), 13);
	assert_non_null(rig_find(&t->helped, PLANE_UP_HARD_LIMIT));
}

/* What cannot be sealed is lost, and counted; nothing goes out behind it. */
static void sealing_fails(void **state)
{
	struct twins *t = *state;
	struct plane_counters n;

	t->helped.out[0].broken = true;
	super_to(t, &t->helped, t->data[0]);
	rig_round(&t->helped);
	assert_int_equal(rig_drops(&t->helped, DROP_TX_ERROR), 45);
	plane_counters(t->helped.plane, &n);
	assert_int_equal(n.udp_tx_sends, 0);
	assert_int_equal(t->helped.rx_count ? t->helped.rx[0].len : 0, 0);
	assert_true(rig_balanced(&t->helped));
	t->helped.out[0].broken = false;
	super_to(t, &t->helped, t->data[0]);
	rig_round(&t->helped);
	assert_int_equal(t->helped.rx_count, 1);
}

/* More than a round has room for pieces: the rest is done at once. */
static void more_than_there_is_room_for(void **state)
{
	struct twins *t = *state;
	static uint8_t data[2][65536];
	struct packet f = {.version = 4,
		.proto = 6,
		.src = "10.1.0.5",
		.dst = "10.2.0.1",
		.len = 40 + 1500 * 40,
		.df = true};
	struct gso gso = {.type = GSO_TCP4,
		.needs_csum = true,
		.size = 40,
		.hdr_len = 40,
		.csum_start = 20,
		.csum_offset = 16};

	for (int i = 0; i < 4; i++) {
		packet_make(data[0], &f);
		put_u16(data[0] + 36, packet_sum(data[0] + 12, 8, 6 + f.len - 20));
		memcpy(data[1], data[0], f.len);
		rig_tun_gso(&t->alone, data[0], f.len, gso);
		rig_tun_gso(&t->helped, data[1], f.len, gso);
		rig_tun_gso(&t->alone, data[0], f.len, gso);
		rig_tun_gso(&t->helped, data[1], f.len, gso);
	}
	rig_round(&t->alone);
	rig_round(&t->helped);
	assert_true(t->helped.calls > 0); /* nobody came */
	same_sends(&t->alone, &t->helped);
	same_counters(&t->alone, &t->helped);
	for (size_t i = 0; i < t->alone.rx_count; i += 16) {
		size_t n = t->alone.rx_count - i < 16 ? t->alone.rx_count - i : 16;

		for (size_t k = i; k < i + n; k++)
			t->alone.rx[k].socket = t->helped.rx[k].socket = 0;
		plane_input_udp(t->b_alone.plane, t->alone.rx + i, n, t->b_alone.now);
		plane_input_udp(t->b_helped.plane, t->helped.rx + i, n, t->b_helped.now);
		rig_round(&t->b_alone);
		rig_round(&t->b_helped);
		same_frames(&t->b_alone, &t->b_helped);
	}
	same_counters(&t->b_alone, &t->b_helped);
}

#define T(f) cmocka_unit_test_setup_teardown(f, twins_setup, twins_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_helpers_do_is_the_same),
		T(copies_are_refused),
		T(an_sa_outlives_its_pieces),
		T(a_link_outlives_its_pieces),
		T(numbers_run_out),
		T(sealing_fails),
		T(more_than_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
