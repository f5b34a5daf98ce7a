/* Errors to the senders of packets that cannot go on, and IPv4 fragmenting. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "plane/rig_test.h"

enum { A = 1, B = 2, C = 3 };

struct nodes {
	struct rig a, b;
	uint8_t data[65536];
};

static int setup(void **state)
{
	static const unsigned int ac[] = {A, C}, zero[] = {0, 0}, b[] = {B};
	struct nodes *n = w_calloc(1, sizeof(*n));

	assert_non_null(n);
	rig_init(&n->a, A, 1, b, zero);
	rig_init(&n->b, B, 2, ac, zero);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	struct nodes *n = *state;

	assert_true(rig_balanced(&n->a) && rig_balanced(&n->b));
	rig_done(&n->a);
	rig_done(&n->b);
	w_free(n);
	return 0;
}

static const struct packet base6 = {.version = 6,
	.proto = 17,
	.src = "fd00:1::5",
	.dst = "fd00:2::1",
	.sport = 1000,
	.dport = 2000,
	.len = 1500};
static const struct packet base4 = {.version = 4,
	.proto = 17,
	.src = "10.1.0.5",
	.dst = "10.2.0.1",
	.sport = 1000,
	.dport = 2000,
	.len = 1500,
	.df = true};

static void tun(struct nodes *n, const struct packet *f)
{
	rig_tun(&n->a, n->data, packet_make(n->data, f));
	rig_round(&n->a);
}

/* The error in frame 0 of r. */
static const uint8_t *error_of(const struct rig *r, uint8_t type, uint8_t code, uint32_t mtu)
{
	const uint8_t *p = r->frame_data[0];
	uint32_t at = p[0] >> 4 == 4 ? 20 : 40;

	assert_int_equal(r->frames, 1);
	assert_true(packet_valid(p, r->frame_len[0]));
	assert_int_equal(at == 20 ? p[9] : p[6], at == 20 ? 1 : 58);
	assert_int_equal(p[at], type);
	assert_int_equal(p[at + 1], code);
	assert_int_equal(get_u32(p + at + 4), mtu);
	assert_true(r->frame_len[0] <= 1280);
	return p;
}

static void expect_address(const uint8_t *at, const char *text)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(text, &a), 0);
	assert_memory_equal(at, a.b, a.family == IP4 ? 4 : 16);
}

static void too_big_from_the_tun_says_the_links_mtu(void **state)
{
	struct nodes *n = *state;
	const uint8_t *p;

	tun(n, &base6);
	p = error_of(&n->a, 2, 0, 1400);
	expect_address(p + 8, "fd00:1::1");
	expect_address(p + 24, "fd00:1::5");
	assert_memory_equal(p + 48, n->data, 1280 - 48);
	tun(n, &base4);
	p = error_of(&n->a, 3, 4, 1400);
	/* The own kernel would not take an own address as source. */
	expect_address(p + 12, "10.2.0.1");
	expect_address(p + 16, "10.1.0.5");
	assert_memory_equal(p + 28, n->data, 28);
	assert_int_equal(n->a.rx_count, 0);
	assert_int_equal(rig_drops(&n->a, DROP_TOO_BIG), 2);
}

/* RFC 8200 section 5: no IPv6 sender is told less than 1280, and so much passes. */
static void ipv6_is_never_told_less_than_1280(void **state)
{
	struct nodes *n = *state;
	struct packet f = base6;

	n->a.link[0].mtu = 1200;
	f.len = 1281;
	tun(n, &f);
	error_of(&n->a, 2, 0, 1280);
	f.len = 1280;
	tun(n, &f);
	assert_int_equal(n->a.frames, 0);
	assert_int_equal(n->a.rx_count, 1);
}

/* A superpacket passes when its segments fit, and counts each of them when they do not. */
static void superpackets_are_judged_by_their_segments(void **state)
{
	struct nodes *n = *state;
	struct packet f = {.version = 6,
		.proto = 6,
		.src = "fd00:1::5",
		.dst = "fd00:2::1",
		.len = 60 + 10 * 1340};
	struct gso gso = {.type = GSO_TCP6,
		.needs_csum = true,
		.size = 1340,
		.hdr_len = 60,
		.csum_start = 40,
		.csum_offset = 16};

	packet_make(n->data, &f);
	rig_tun_gso(&n->a, n->data, f.len, gso);
	rig_round(&n->a);
	assert_int_equal(n->a.rx_count, 1);
	assert_int_equal(n->a.frames, 0);
	n->a.link[0].mtu = 1399;
	packet_make(n->data, &f);
	rig_tun_gso(&n->a, n->data, f.len, gso);
	rig_round(&n->a);
	error_of(&n->a, 2, 0, 1399);
	assert_int_equal(rig_drops(&n->a, DROP_TOO_BIG), 10);
}

static void no_route_and_dead_links_are_told(void **state)
{
	struct nodes *n = *state;
	struct packet f = base6;

	f.len = 100;
	f.dst = "fd00:77::1";
	tun(n, &f);
	error_of(&n->a, 1, 0, 0);
	f = base4;
	f.len = 100;
	n->a.link[0].usable = false;
	tun(n, &f);
	error_of(&n->a, 3, 0, 0);
}

static void nothing_is_said_without_a_source(void **state)
{
	struct nodes *n = *state;
	struct packet f = base6;

	n->a.snapshot.icmp_source6 = (struct ipaddr){0};
	f.dst = "fd00:77::1";
	tun(n, &f);
	assert_int_equal(n->a.frames, 0);
	assert_int_equal(rig_drops(&n->a, DROP_ICMP_LIMIT), 0);
}

/* RFC 4443 2.4 (e): no error about an error. */
static void no_error_about_an_error(void **state)
{
	struct nodes *n = *state;
	struct packet f = base6;

	f.len = 100;
	f.proto = 58;
	f.sport = 1 << 8;
	f.dst = "fd00:77::1";
	tun(n, &f);
	assert_int_equal(n->a.frames, 0);
	assert_int_equal(rig_drops(&n->a, DROP_NO_ROUTE), 1);
}

/* An error about a packet in transit goes back over the link, from an address of the node. */
static void time_exceeded_goes_back_over_the_link(void **state)
{
	static const char *const src[] = {"fd00:1::5", "10.1.0.5"};
	static const char *const dst[] = {"fd00:3::1", "10.3.0.1"};
	struct nodes *n = *state;
	struct packet each[2] = {base6, base4};

	for (size_t i = 0; i < 2; i++) {
		struct packet f = each[i];
		const uint8_t *p;

		f.src = src[i];
		f.dst = dst[i];
		f.len = 120;
		f.hop_limit = 1;
		rig_inject(&n->a, 0, &n->b, n->data, packet_make(n->data, &f));
		assert_int_equal(n->b.rx_count, 1);
		assert_int_equal(n->b.frames, 0);
		rig_carry(&n->b, 0, &n->a);
		rig_round(&n->a);
		if (i == 0) {
			/* a has no route for 5 but its own prefix. */
			p = error_of(&n->a, 3, 0, 0);
			expect_address(p + 8, "fd00:2::1");
			expect_address(p + 24, src[i]);
		} else {
			assert_int_equal(rig_drops(&n->a, DROP_NO_ROUTE), 1);
		}
	}
	assert_int_equal(rig_drops(&n->b, DROP_HOP_LIMIT), 2);
}

static void refused_transit_is_told(void **state)
{
	struct nodes *n = *state;
	struct packet f = base6;

	n->b.snapshot.transit = false;
	f.dst = "fd00:3::1";
	f.len = 120;
	rig_inject(&n->a, 0, &n->b, n->data, packet_make(n->data, &f));
	rig_carry(&n->b, 0, &n->a);
	rig_round(&n->a);
	error_of(&n->a, 1, 1, 0);
}

static void errors_are_limited(void **state)
{
	struct nodes *n = *state;
	struct packet f = base6;
	struct plane_counters c;

	f.len = 100;
	f.dst = "fd00:77::1";
	for (int i = 0; i < 150; i++)
		tun(n, &f);
	plane_counters(n->a.plane, &c);
	assert_int_equal(c.icmp_sent, 100);
	assert_int_equal(c.drops[DROP_ICMP_LIMIT], 50);
	n->a.now.us += 10 * W_MS;
	for (int i = 0; i < 20; i++)
		tun(n, &f);
	plane_counters(n->a.plane, &c);
	assert_int_equal(c.icmp_sent, 110);
}

/* RFC 791: the pieces are the packet again. */
static void ipv4_without_df_is_fragmented(void **state)
{
	struct nodes *n = *state;
	struct packet f = base4;
	uint8_t was[3000], whole[3000];
	uint32_t at = 0;

	f.df = false;
	f.id = 77;
	f.len = 3000;
	packet_make(was, &f);
	tun(n, &f);
	assert_int_equal(rig_dropped(&n->a), 0);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	assert_int_equal(n->b.frames, 3);
	for (size_t i = 0; i < 3; i++) {
		const uint8_t *p = n->b.frame_data[i];
		uint32_t len = n->b.frame_len[i];

		assert_true(len <= 1400);
		assert_int_equal(get_u16(p + 2), len);
		assert_int_equal(packet_sum(p, 20, 0), 0xffff);
		assert_int_equal(get_u16(p + 4), 77);
		assert_int_equal((get_u16(p + 6) & 0x1fff) * 8, at);
		assert_int_equal(get_u16(p + 6) >> 13, i < 2);
		memcpy(whole + at, p + 20, len - 20);
		at += len - 20;
	}
	assert_int_equal(at, 2980);
	assert_memory_equal(whole, was + 20, 2980);
}

/* A fragment that is fragmented again keeps its place, and its "more". */
static void fragments_of_fragments_keep_their_place(void **state)
{
	struct nodes *n = *state;
	struct packet f = base4;

	f.df = false;
	packet_make(n->data, &f);
	put_u16(n->data + 6, 0x2000 | 100);
	put_u16(n->data + 10, 0);
	put_u16(n->data + 10, (uint16_t)~packet_sum(n->data, 20, 0));
	rig_tun(&n->a, n->data, f.len);
	rig_round(&n->a);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	assert_int_equal(n->b.frames, 2);
	assert_int_equal(get_u16(n->b.frame_data[0] + 6), 0x2000 | 100);
	assert_int_equal(get_u16(n->b.frame_data[1] + 6), 0x2000 | (100 + 1376 / 8));
}

/* Options without the copied flag are in the first piece only (RFC 791 section 3.1). */
static void options_go_where_they_belong(void **state)
{
	/* Router alert is copied, record route is not. */
	static const uint8_t options[12] = {7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0, 0};
	struct nodes *n = *state;
	struct packet f = base4;

	f.df = false;
	f.len = 2000;
	packet_make(n->data, &f);
	n->data[0] = 0x48;
	memcpy(n->data + 20, options, sizeof(options));
	put_u16(n->data + 10, 0);
	put_u16(n->data + 10, (uint16_t)~packet_sum(n->data, 32, 0));
	rig_tun(&n->a, n->data, f.len);
	rig_round(&n->a);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	assert_int_equal(n->b.frames, 2);
	assert_int_equal(n->b.frame_data[0][0], 0x48);
	assert_memory_equal(n->b.frame_data[0] + 20, options, sizeof(options));
	assert_int_equal(n->b.frame_data[1][0], 0x46);
	assert_memory_equal(n->b.frame_data[1] + 20, options + 7, 4);
	assert_int_equal(packet_sum(n->b.frame_data[0], 32, 0), 0xffff);
	assert_int_equal(packet_sum(n->b.frame_data[1], 24, 0), 0xffff);
	assert_int_equal(n->b.frame_len[0] + n->b.frame_len[1], 2000 + 24);
}

/* A superpacket that allows it is cut into its packets, and each of those into pieces. */
static void superpackets_without_df_are_fragmented(void **state)
{
	struct nodes *n = *state;
	struct packet f = base4;
	struct gso gso = {.type = GSO_UDP4,
		.needs_csum = true,
		.size = 1472,
		.hdr_len = 28,
		.csum_start = 20,
		.csum_offset = 6};

	f.df = false;
	f.len = 28 + 5 * 1472;
	packet_make(n->data, &f);
	rig_tun_gso(&n->a, n->data, f.len, gso);
	rig_round(&n->a);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	assert_int_equal(n->b.frames, 10);
	assert_int_equal(rig_dropped(&n->a), 0);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(get_u16(n->b.frame_data[i] + 6), i % 2 ? 1376 / 8 : 0x2000);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(too_big_from_the_tun_says_the_links_mtu),
		T(ipv6_is_never_told_less_than_1280),
		T(superpackets_are_judged_by_their_segments),
		T(no_route_and_dead_links_are_told),
		T(nothing_is_said_without_a_source),
		T(no_error_about_an_error),
		T(time_exceeded_goes_back_over_the_link),
		T(refused_transit_is_told),
		T(errors_are_limited),
		T(ipv4_without_df_is_fragmented),
		T(fragments_of_fragments_keep_their_place),
		T(options_go_where_they_belong),
		T(superpackets_without_df_are_fragmented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
