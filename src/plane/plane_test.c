/* Packets through two or three planes back to back. */
#include "plane/rig_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"

enum { A = 1, B = 2, C = 3 };

static void single_packets_cross(void **state)
{
	const struct packet *const each[] = {&rig_udp4, &rig_udp6};
	struct rig_pair *t = *state;
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

/* A superpacket of one kind: the frame as the TUN gives it. */
struct super {
	struct packet f;
	uint8_t type;
	uint16_t size;
};

static const struct super supers[] = {
	{{.version = 4,
		 .proto = 6,
		 .src = "10.1.0.5",
		 .dst = "10.2.0.1",
		 .sport = 1,
		 .dport = 2,
		 .len = 20 + 20 + 45 * 1360,
		 .df = true,
		 .id = 7},
		GSO_TCP4, 1360},
	{{.version = 6,
		 .proto = 6,
		 .src = "fd00:1::5",
		 .dst = "fd00:2::1",
		 .sport = 1,
		 .dport = 2,
		 .len = 40 + 20 + 40 * 1340 + 17},
		GSO_TCP6, 1340},
	{{.version = 6,
		 .proto = 17,
		 .src = "fd00:1::5",
		 .dst = "fd00:2::1",
		 .sport = 1,
		 .dport = 2,
		 .len = 40 + 8 + 30 * 1200 + 100},
		GSO_UDP6, 1200},
	{{.version = 4,
		 .proto = 17,
		 .src = "10.1.0.5",
		 .dst = "10.2.0.1",
		 .sport = 1,
		 .dport = 2,
		 .len = 20 + 8 + 30 * 1200,
		 .df = true},
		GSO_UDP4, 1200},
};

/* Writes the frame and its offload header: the checksum field holds the pseudo-header sum. */
static struct gso super_make(uint8_t *data, const struct super *s)
{
	uint32_t at = s->f.version == 4 ? 20 : 40, field = s->f.proto == 6 ? 16 : 6;
	bool v4 = s->f.version == 4;
	struct gso gso = {.type = s->type,
		.needs_csum = true,
		.size = s->size,
		.hdr_len = (uint16_t)(at + (s->f.proto == 6 ? 20 : 8)),
		.csum_start = (uint16_t)at,
		.csum_offset = (uint16_t)field};

	packet_make(data, &s->f);
	put_u16(data + at + field,
		packet_sum(v4 ? data + 12 : data + 8, v4 ? 8 : 32, s->f.proto + s->f.len - at));
	return gso;
}

/* A superpacket goes in, valid datagrams of one size go over, the same superpacket comes out. */
static void superpackets_cross_whole(void **state)
{
	struct rig_pair *t = *state;
	static uint8_t data[65536], was[65536];

	for (size_t i = 0; i < sizeof(supers) / sizeof(supers[0]); i++) {
		const struct super *s = &supers[i];
		struct gso gso = super_make(data, s);
		uint32_t header = gso.hdr_len,
			 segments = (s->f.len - header + s->size - 1) / s->size;
		uint32_t sent = 0, at = header;

		memcpy(was, data, s->f.len);
		rig_tun_gso(&t->a, data, s->f.len, gso);
		rig_round(&t->a);
		for (size_t k = 0; k < t->a.rx_count; k++)
			sent += (t->a.rx[k].len + t->a.rx[k].seg_size - 1) / t->a.rx[k].seg_size;
		assert_int_equal(sent, segments);
		assert_int_equal(t->a.rx_count, 1 + (segments > 46));
		rig_carry(&t->a, 0, &t->b);
		rig_round(&t->b);
		assert_int_equal(t->b.frames, 1);
		assert_int_equal(t->b.frame_segments[0], segments);
		assert_int_equal(t->b.frame_len[0], s->f.len);
		assert_int_equal(t->b.frame_gso[0].type, s->type);
		assert_int_equal(t->b.frame_gso[0].size, s->size);
		assert_memory_equal(t->b.frame_data[0], was, at);
		assert_memory_equal(t->b.frame_data[0] + header, was + header, s->f.len - header);
	}
	assert_int_equal(rig_dropped(&t->a) + rig_dropped(&t->b), 0);
	assert_true(rig_balanced(&t->a) && rig_balanced(&t->b));
}

/* With merging off, every segment arrives as a packet with right checksums, in order. */
static void segments_arrive_in_order(void **state)
{
	struct rig_pair *t = *state;
	static uint8_t data[65536];
	struct gso gso = super_make(data, &supers[0]);
	struct plane_down off = {.type = PLANE_DOWN_MERGE, .flags = 0};

	plane_down(t->b.plane, &off, t->b.now);
	rig_tun_gso(&t->a, data, supers[0].f.len, gso);
	rig_round(&t->a);
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	assert_int_equal(t->b.frames, 45);
	for (uint32_t i = 0; i < 45; i++) {
		assert_int_equal(t->b.frame_gso[i].type, GSO_NONE);
		assert_int_equal(t->b.frame_len[i], 1400);
		assert_true(packet_valid(t->b.frame_data[i], 1400));
		assert_int_equal(get_u32(t->b.frame_data[i] + 24), i * 1360);
	}
}

/* 48 datagrams of 1436 bytes are more than a send may hold: the rest goes into the next one, and
 * what is shorter ends a send. */
static void the_rest_goes_into_the_next_send(void **state)
{
	struct rig_pair *t = *state;
	static uint8_t data[65536];
	struct super s = supers[0];
	struct gso gso;

	t->a.link[0].mtu = 1423;
	s.size = 1383; /* 1423 inside, 1436 outside */
	s.f.len = 40 + 47 * 1383;
	gso = super_make(data, &s);
	rig_tun_gso(&t->a, data, s.f.len, gso);
	rig_round(&t->a);
	assert_int_equal(t->a.rx_count, 2);
	assert_int_equal(t->a.rx[0].seg_size, 1436);
	assert_int_equal(t->a.rx[0].len, 45 * 1436);
	assert_int_equal(t->a.rx[1].len, 2 * 1436);
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	assert_int_equal(t->b.frames, 1);
	assert_int_equal(t->b.frame_segments[0], 47);
}

static void a_send_has_one_tos_and_one_size(void **state)
{
	static const struct {
		uint8_t tos;
		uint32_t len;
		size_t sends; /* with this one */
	} row[] = {
		{0, 200, 1},
		{0, 200, 1},
		{2, 200, 2},
		{2, 200, 2},
		{0x48, 200, 3},
		{0, 200, 3},
		{0, 100, 3},
		{0, 100, 4},
		{0, 100, 4},
		{0, 200, 5},
	};
	struct rig_pair *t = *state;
	size_t n = sizeof(row) / sizeof(row[0]), frames = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k <= i; k++) {
			struct packet f = rig_udp4;
			uint8_t data[256];

			f.tos = row[k].tos;
			f.len = row[k].len;
			f.id = (uint16_t)k;
			rig_tun(&t->a, data, packet_make(data, &f));
		}
		rig_round(&t->a);
		assert_int_equal(t->a.rx_count, row[i].sends);
	}
	/* The inner packets keep their order over all sends. */
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	for (size_t i = 0; i < t->b.frames; i++)
		frames += t->b.frame_segments[i];
	assert_int_equal(frames, n);
	assert_true(rig_balanced(&t->a) && rig_balanced(&t->b));
}

static void outer_tos_is_the_inner_ecn_or_all_of_it(void **state)
{
	struct rig_pair *t = *state;

	for (int copy = 0; copy < 2; copy++) {
		struct packet f = rig_udp6;
		uint8_t data[256];

		t->a.snapshot.copy_dscp = copy;
		f.tos = 0xb9;
		rig_tun(&t->a, data, packet_make(data, &f));
		rig_round(&t->a);
		assert_int_equal(t->a.rx[0].tos, copy ? 0xb9 : 1);
	}
}

/* A DSCP of the configuration's, beside the inner ECN. */
static void outer_dscp_may_be_a_fixed_one(void **state)
{
	struct rig_pair *t = *state;
	struct packet f = rig_udp4;
	uint8_t data[256];

	t->a.snapshot.dscp = 46;
	f.tos = 0x22;
	rig_tun(&t->a, data, packet_make(data, &f));
	rig_round(&t->a);
	assert_int_equal(t->a.rx[0].tos, 46 << 2 | 2);
}

/* RFC 6040 4.2: congestion on the way is told to the inner transport. */
static void congestion_reaches_the_inside(void **state)
{
	struct rig_pair *t = *state;
	struct packet f = rig_udp4;
	uint8_t data[256];

	f.tos = 2;
	rig_tun(&t->a, data, packet_make(data, &f));
	rig_round(&t->a);
	t->a.rx[0].tos = 3;
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	assert_int_equal(t->b.frames, 1);
	assert_int_equal(t->b.frame_data[0][1], 3);
	assert_true(packet_valid(t->b.frame_data[0], t->b.frame_len[0]));
}

/* A - B - C. */
static void transit_takes_one_hop(void **state)
{
	static const unsigned int ac[] = {A, C}, zero[] = {0, 0}, b[] = {B}, second[] = {1};
	struct rig *n = w_calloc(3, sizeof(*n));
	struct packet each[2] = {rig_udp4, rig_udp6};
	struct fib_entry to_c[] = {rig_route("fd00:3::/32", NULL, 0),
		rig_route("10.3.0.0/16", NULL, 0)};

	(void)state;
	assert_non_null(n);
	rig_init(&n[0], A, 1, b, zero);
	rig_routes(&n[0], A, b, to_c, 2);
	rig_init(&n[1], B, 2, ac, zero);
	rig_init(&n[2], C, 1, b, second);
	each[0].dst = "10.3.0.1";
	each[1].dst = "fd00:3::1";
	for (size_t i = 0; i < 2; i++) {
		uint8_t data[256];

		rig_tun(&n[0], data, packet_make(data, &each[i]));
		rig_round(&n[0]);
		rig_carry(&n[0], 0, &n[1]);
		rig_round(&n[1]);
		assert_int_equal(n[1].frames, 0);
		assert_int_equal(n[1].rx_count, 1);
		rig_carry(&n[1], 1, &n[2]);
		rig_round(&n[2]);
		assert_int_equal(n[2].frames, 1);
		assert_true(packet_valid(n[2].frame_data[0], n[2].frame_len[0]));
		assert_int_equal(n[2].frame_data[0][i ? 7 : 8], 63);
	}
	for (size_t i = 0; i < 3; i++) {
		assert_true(rig_balanced(&n[i]));
		assert_int_equal(rig_dropped(&n[i]), 0);
		rig_done(&n[i]);
	}
	w_free(n);
}

/* What the control side seals goes out before the bulk of the round. */
static void control_goes_first(void **state)
{
	struct rig_pair *t = *state;
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = 0};
	uint8_t data[256], babel[128];

	rig_tun(&t->a, data, packet_make(data, &rig_udp4));
	m.data = view_of(babel, packet_make(babel, &rig_babel));
	plane_down(t->a.plane, &m, t->a.now);
	rig_round(&t->a);
	assert_int_equal(t->a.rx_count, 2);
	assert_int_equal(t->a.rx[0].len, rig_babel.len + RIG_HEAD + RIG_TAIL);
	rig_carry(&t->a, 0, &t->b);
	rig_round(&t->b);
	assert_int_equal(t->b.ups, 1);
	assert_int_equal(t->b.up[0].up.type, PLANE_UP_LINK);
	assert_int_equal(t->b.up[0].up.slot, 0);
	assert_int_equal(t->b.up[0].up.data.n, rig_babel.len);
	assert_memory_equal(t->b.up[0].data, babel, rig_babel.len);
	assert_int_equal(t->b.frames, 1);
}

/* One peer's burst of a round is cut into turns: what fifteen others get goes after one of its
 * sends, though it was read after all of them. Each link keeps its order. */
static void a_burst_lets_others_pass(void **state)
{
	static uint8_t data[65536];
	struct super s = {{.version = 4,
				  .proto = 6,
				  .src = "10.1.0.5",
				  .dst = "10.2.0.1",
				  .sport = 1,
				  .dport = 2,
				  .len = 20 + 20 + 45 * 1360,
				  .df = true},
		GSO_TCP4, 1360};
	unsigned int peers[RIG_LINKS], far[RIG_LINKS] = {0};
	struct rig *r = w_calloc(1, sizeof(*r));
	uint32_t last = 0;

	(void)state;
	assert_non_null(r);
	for (unsigned int i = 0; i < RIG_LINKS; i++)
		peers[i] = 2 + i;
	rig_init(r, A, RIG_LINKS, peers, far);
	for (unsigned int i = 0; i < 8; i++)
		rig_tun_gso(r, data, s.f.len, super_make(data, &s));
	for (unsigned int i = 1; i < RIG_LINKS; i++) {
		struct packet f = rig_udp4;
		char to[16];

		(void)snprintf(to, sizeof(to), "10.%u.0.1", peers[i]);
		f.dst = to;
		for (unsigned int j = 0; j < 2; j++)
			rig_tun(r, data, packet_make(data, &f));
	}
	rig_round(r);
	assert_int_equal(r->rx_count, 8 + RIG_LINKS - 1);
	for (size_t i = 0; i < r->rx_count; i++) {
		bool others = i >= 1 && i < RIG_LINKS;
		uint32_t number = get_u32(r->rx[i].data + 4);

		assert_int_equal(get_u32(r->rx[i].data) - A * 16, others ? i : 0);
		if (!others) {
			assert_true(i == 0 || number > last);
			last = number;
		}
	}
	assert_true(rig_balanced(r));
	rig_done(r);
	w_free(r);
}

/* No buffer is left: what does not fit is dropped and counted, and the next round works. */
static void a_full_pool_drops_and_recovers(void **state)
{
	struct rig_pair *t = *state;
	static uint8_t data[65536];
	unsigned int frames = 0;
	uint64_t lost;

	while (rig_drops(&t->a, DROP_TX_BACKPRESSURE) == 0) {
		struct gso gso = super_make(data, &supers[0]);
		bool full = plane_full(t->a.plane);

		assert_true(frames < 200);
		rig_tun_gso(&t->a, data, supers[0].f.len, gso);
		frames++;
		assert_true(full || rig_drops(&t->a, DROP_TX_BACKPRESSURE) == 0);
	}
	assert_true(frames > 100);
	lost = rig_drops(&t->a, DROP_TX_BACKPRESSURE);
	rig_round(&t->a);
	assert_true(rig_balanced(&t->a));
	assert_false(plane_full(t->a.plane));
	rig_tun(&t->a, data, packet_make(data, &rig_udp4));
	rig_round(&t->a);
	assert_int_equal(t->a.rx_count, 1);
	assert_int_equal(rig_drops(&t->a, DROP_TX_BACKPRESSURE), lost);
}

/* The control side still gets through when the bulk has used all there is. */
static void a_full_pool_leaves_room_for_control(void **state)
{
	struct rig_pair *t = *state;
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = 0};
	uint8_t data[256];

	for (unsigned int i = 0; rig_drops(&t->a, DROP_TX_BACKPRESSURE) == 0; i++) {
		struct packet f = rig_udp4;

		f.tos = i % 2 ? 2 : 0;
		rig_tun(&t->a, data, packet_make(data, &f));
	}
	m.data = view_of(data, packet_make(data, &rig_babel));
	plane_down(t->a.plane, &m, t->a.now);
	rig_round(&t->a);
	assert_int_equal(t->a.rx[0].len, rig_babel.len + RIG_HEAD + RIG_TAIL);
	assert_true(rig_drops(&t->a, DROP_TX_BACKPRESSURE) == 1);
}

/* A SYN that offers more than the link carries arrives with less, its checksum right, wherever in
 * the header the option is, and whether or not the kernel had computed the checksum. */
static void syns_are_clamped(void **state)
{
	struct rig_pair *t = *state;

	for (unsigned int i = 0; i < 8; i++) {
		struct packet f = i & 1 ? supers[1].f : supers[0].f;
		uint32_t at = f.version == 4 ? 20 : 40, odd = i >> 1 & 1;
		uint16_t offered = i & 4 ? 1000 : 9000, fits = f.version == 4 ? 1360 : 1340;
		uint8_t data[128], *tcp = data + at, *option = tcp + 20 + odd;
		struct gso gso = {0};

		f.len = at + 28;
		packet_make(data, &f);
		tcp[12] = 7 << 4;
		tcp[13] = 0x12;
		memset(tcp + 20, 1, 8);
		option[0] = 2;
		option[1] = 4;
		put_u16(option + 2, offered);
		put_u16(tcp + 16, 0);
		put_u16(tcp + 16,
			packet_sum(at == 20 ? data + 12 : data + 8, at == 20 ? 8 : 32, 6 + 28));
		if (i & 4)
			put_u16(tcp + 16, (uint16_t)~packet_sum(tcp, 28, 0));
		else
			gso = (struct gso){.needs_csum = true,
				.csum_start = (uint16_t)at,
				.csum_offset = 16};
		rig_tun_gso(&t->a, data, f.len, gso);
		rig_round(&t->a);
		/* The other end judges, too, with its own MTU. */
		t->b.link[0].mtu = i & 4 ? 900 + at : 1400;
		rig_carry(&t->a, 0, &t->b);
		rig_round(&t->b);
		assert_int_equal(t->b.frames, 1);
		assert_true(packet_valid(t->b.frame_data[0], f.len));
		if (i & 4)
			fits = 900 - 20; /* also where IPv6 as such has to be carried in 1280 */
		assert_int_equal(get_u16(t->b.frame_data[0] + (option - data) + 2), fits);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_pair_setup, rig_pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(single_packets_cross),
		T(superpackets_cross_whole),
		T(segments_arrive_in_order),
		T(the_rest_goes_into_the_next_send),
		T(a_send_has_one_tos_and_one_size),
		T(outer_tos_is_the_inner_ecn_or_all_of_it),
		T(outer_dscp_may_be_a_fixed_one),
		T(congestion_reaches_the_inside),
		cmocka_unit_test(transit_takes_one_hop),
		T(control_goes_first),
		cmocka_unit_test(a_burst_lets_others_pass),
		T(syns_are_clamped),
		T(a_full_pool_drops_and_recovers),
		T(a_full_pool_leaves_room_for_control),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
