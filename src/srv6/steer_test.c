/* What the head end writes, field by field, for each form and length of list. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "srv6/srv6.h"

enum { MANY = 16 };

static struct ipaddr addr(const char *s)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(s, &a), 0);
	return a;
}

static struct srv6_steer_config config(struct ipaddr segments[static MANY], uint32_t count)
{
	for (uint32_t i = 0; i < count && i < MANY; i++) {
		char text[ADDR_TEXT];

		snprintf(text, sizeof(text), "fd00:5:%x::2", i + 1);
		segments[i] = addr(text);
	}
	return (struct srv6_steer_config){.source = addr("fd00:5:1::100"),
		.segment = segments,
		.count = count};
}

static uint32_t make6(uint8_t *p, uint8_t tos, uint32_t label, uint8_t hop_limit)
{
	memset(p, 0, 60);
	put_u32(p, UINT32_C(6) << 28 | (uint32_t)tos << 20 | label);
	put_u16(p + 4, 20);
	p[6] = IP_PROTO_UDP;
	p[7] = hop_limit;
	p[8] = p[24] = 0xfd;
	p[23] = 1;
	p[39] = 2;
	put_u16(p + 40, 1000);
	put_u16(p + 42, 2000);
	return 60;
}

static uint32_t make4(uint8_t *p, uint8_t tos, uint8_t ttl)
{
	memset(p, 0, 60);
	p[0] = 0x45;
	p[1] = tos;
	put_u16(p + 2, 40);
	p[8] = ttl;
	p[9] = IP_PROTO_UDP;
	p[12] = p[16] = 10;
	p[15] = 1;
	p[19] = 2;
	ip4_write_checksum(p, 20);
	put_u16(p + 20, 1000);
	put_u16(p + 22, 2000);
	return 40;
}

static void push(const struct srv6_steer *s, const uint8_t *inner, uint32_t len, uint8_t *out)
{
	struct srv6_stamp t;
	struct ip_view v;

	assert_int_equal(ip_parse(view_of(inner, len), &v), 0);
	t = srv6_stamp_of(s, view_of(inner, len), &v);
	srv6_push(s, &t, len, out);
	memcpy(out + s->overhead, inner, len);
}

/* The outer headers of a list of n, in both forms. */
static void check(uint32_t n, enum srv6_mode mode)
{
	uint32_t listed = mode == SRV6_ENCAPS ? n : n - 1;
	uint32_t overhead = 40 + (listed ? 8 + 16 * listed : 0), pointer;
	struct ipaddr segments[MANY];
	struct srv6_steer_config c = config(segments, n);
	uint8_t inner[64], out[SRV6_PUSH_MAX + 64];
	struct srv6_steer s;
	struct srv6_srh srh;
	struct ip_view v;
	uint32_t len = make4(inner, 0, 9);

	c.mode = mode;
	assert_int_equal(srv6_steer_build(&c, &s), 0);
	assert_int_equal(s.overhead, overhead);
	assert_true(ipaddr_equal(&s.first, &segments[0]));
	memset(out, 0xee, sizeof(out));
	push(&s, inner, len, out);
	assert_int_equal(ip_parse(view_of(out, sizeof(out)), &v), 0);
	assert_int_equal(v.len, overhead + len);
	assert_true(ipaddr_equal(&v.src, &c.source) && ipaddr_equal(&v.dst, &segments[0]));
	assert_int_equal(v.proto, IP_PROTO_IP4);
	assert_int_equal(v.l4, overhead);
	assert_int_equal(v.ttl, 64);
	assert_int_equal(v.routing, listed > 0);
	if (listed == 0)
		return;
	assert_int_equal(srv6_srh_parse(view_of(out, v.len), 40, &srh, &pointer), 0);
	assert_int_equal(srh.segments_left, n - 1);
	assert_int_equal(srh.last_entry, listed - 1);
	assert_int_equal(srh.len, 8 + 16 * listed);
	assert_int_equal(get_u32(out + 44) & 0xffffff, 0);
	for (uint32_t i = 0; i < listed; i++)
		assert_memory_equal(out + 48 + 16 * i, segments[n - 1 - i].b, 16);
}

static void lists_of_any_length_in_both_forms(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= MANY; n++) {
		check(n, SRV6_ENCAPS_RED);
		check(n, SRV6_ENCAPS);
	}
}

static void a_segment_may_be_there_twice(void **state)
{
	struct ipaddr segments[MANY];
	struct srv6_steer_config c = config(segments, 4);
	struct srv6_steer s;

	(void)state;
	segments[2] = segments[0];
	assert_int_equal(srv6_steer_build(&c, &s), 0);
	assert_memory_equal(s.header + 48 + 16, segments[0].b, 16);
}

static void lists_that_cannot_be_are_refused(void **state)
{
	struct ipaddr segments[SRV6_SEGMENTS_MAX + 1];
	struct srv6_steer_config c = config(segments, 2);
	struct srv6_steer s;

	(void)state;
	c.count = 0;
	assert_int_equal(srv6_steer_build(&c, &s), -EINVAL);
	c.count = SRV6_SEGMENTS_MAX + 1;
	for (size_t i = 0; i < c.count; i++)
		segments[i] = segments[0];
	assert_int_equal(srv6_steer_build(&c, &s), -EINVAL);
	c.count = SRV6_SEGMENTS_MAX;
	c.mode = SRV6_ENCAPS;
	assert_int_equal(srv6_steer_build(&c, &s), 0);
	assert_int_equal(s.overhead, SRV6_PUSH_MAX);
	segments[1] = addr("10.0.0.1");
	assert_int_equal(srv6_steer_build(&c, &s), -EINVAL);
	segments[1] = addr("ff02::1");
	assert_int_equal(srv6_steer_build(&c, &s), -EINVAL);
	segments[1] = segments[0];
	c.source = (struct ipaddr){0};
	assert_int_equal(srv6_steer_build(&c, &s), -EINVAL);
}

/* Traffic class, label and hop limit, as the standards and as Linux. */
static void the_first_word_and_the_hop_limit(void **state)
{
	static const struct {
		bool v6, linux_compat, copy_dscp;
		uint8_t tos, ttl; /* of the packet */
		uint8_t outer_tos, outer_ttl;
	} rows[] = {
		{false, false, false, 0xb9, 7, 0x01, 64},
		{false, false, true, 0xb9, 7, 0xb9, 64},
		{true, false, false, 0xb9, 7, 0x01, 64},
		{true, false, true, 0xb9, 7, 0xb9, 64},
		{false, true, true, 0xb9, 7, 0, 64},
		{true, true, false, 0xb9, 7, 0xb9, 7},
	};
	struct ipaddr segments[MANY];
	struct srv6_steer_config c = config(segments, 3);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t inner[64], out[512];
		struct srv6_steer s;
		uint32_t len = rows[i].v6 ? make6(inner, rows[i].tos, 0x54321, rows[i].ttl)
					  : make4(inner, rows[i].tos, rows[i].ttl);

		c.linux_compat = rows[i].linux_compat;
		c.copy_dscp = rows[i].copy_dscp;
		assert_int_equal(srv6_steer_build(&c, &s), 0);
		push(&s, inner, len, out);
		assert_int_equal(get_u32(out) >> 20 & 0xff, rows[i].outer_tos);
		assert_int_equal(out[7], rows[i].outer_ttl);
		if (rows[i].linux_compat)
			assert_int_equal(get_u32(out) & 0xfffff, rows[i].v6 ? 0x54321 : 0);
		else
			assert_int_not_equal(get_u32(out) & 0xfffff, 0);
	}
}

static void a_flow_has_one_label(void **state)
{
	uint8_t a[64], b[64];
	struct ip_view va, vb;
	uint32_t len = make4(a, 0, 64), label;
	unsigned int same = 0;

	(void)state;
	make4(b, 0xb8, 9);
	assert_int_equal(ip_parse(view_of(a, len), &va), 0);
	assert_int_equal(ip_parse(view_of(b, len), &vb), 0);
	label = srv6_flow_label(view_of(a, len), &va);
	assert_int_equal(srv6_flow_label(view_of(b, len), &vb), label);
	for (uint16_t port = 1; port <= 1000; port++) {
		put_u16(b + 20, port);
		same += srv6_flow_label(view_of(b, len), &vb) == label;
	}
	assert_int_equal(same, 1); /* its own port */
	/* The first fragment has ports, the others not. */
	vb.more_fragments = true;
	label = srv6_flow_label(view_of(b, len), &vb);
	vb.more_fragments = false;
	vb.frag_offset = 8;
	assert_int_equal(srv6_flow_label(view_of(b, len), &vb), label);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_any_length_in_both_forms),
		cmocka_unit_test(a_segment_may_be_there_twice),
		cmocka_unit_test(lists_that_cannot_be_are_refused),
		cmocka_unit_test(the_first_word_and_the_hop_limit),
		cmocka_unit_test(a_flow_has_one_label),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
