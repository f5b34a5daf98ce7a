/* IP headers, TTL, ECN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include "wire/ecn.h"
#include "wire/packets_test.h"

enum { ROOM = 512 };

static void names_of_drops(void **state)
{
	(void)state;
	assert_string_equal(drop_name(DROP_RUNT), "runt");
	assert_string_equal(drop_name(DROP_PUNT_UNEXPECTED), "punt-unexpected");
	assert_string_equal(drop_name(DROP_NONE), "?");
	assert_string_equal(drop_name(DROP_COUNT), "?");
	for (int a = 0; a < DROP_COUNT; a++) {
		for (int b = 0; b < a; b++)
			assert_string_not_equal(drop_name((enum drop_reason)a),
				drop_name((enum drop_reason)b));
	}
}

static void reads_plain_headers(void **state)
{
	uint8_t p[ROOM];
	struct ip_view v;
	uint16_t sport, dport;

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		struct flow_packet f = {.v6 = v6,
			.udp = true,
			.tos = 0xb9,
			.ttl = 33,
			.df = true,
			.id = 0x1234,
			.flow_label = 0xabcde,
			.host = 5,
			.sport = 1000,
			.dport = 53,
			.payload = 10};
		uint32_t n = write_packet(&f, p);

		assert_int_equal(ip_parse(view_of(p, n + 7), &v), 0);
		assert_int_equal(v.family, v6 ? IP6 : IP4);
		assert_int_equal(v.tos, 0xb9);
		assert_int_equal(v.ttl, 33);
		assert_int_equal(v.proto, IP_PROTO_UDP);
		assert_int_equal(v.len, n);
		assert_int_equal(v.l4, v6 ? 40 : 20);
		assert_int_equal(v.header_len, v.l4);
		assert_true(v.dont_fragment);
		assert_false(v.options);
		assert_false(ip_is_fragment(&v));
		assert_int_equal(v.flow_label, v6 ? 0xabcde : 0);
		assert_int_equal(v.src.b[v6 ? 15 : 3], 5);
		assert_true(ip_ports(view_of(p, n), &v, &sport, &dport));
		assert_int_equal(sport, 1000);
		assert_int_equal(dport, 53);
		for (uint32_t cut = 0; cut < n; cut++)
			assert_int_equal(ip_parse(view_of(p, cut), &v), -EBADMSG);
	}
}

static void refuses_what_does_not_fit(void **state)
{
	uint8_t p[ROOM], q[ROOM];
	struct ip_view v;
	uint32_t n = write_packet(&(struct flow_packet){.ttl = 9, .payload = 4}, p);

	(void)state;
	memcpy(q, p, n);
	q[0] = 0x55;
	assert_int_equal(ip_parse(view_of(q, n), &v), -EBADMSG);
	memcpy(q, p, n);
	q[0] = 0x44; /* header of 16 bytes */
	assert_int_equal(ip_parse(view_of(q, n), &v), -EBADMSG);
	memcpy(q, p, n);
	put_u16(q + 2, 19); /* shorter than its header */
	ip4_write_checksum(q, IP4_HEADER);
	assert_int_equal(ip_parse(view_of(q, n), &v), -EBADMSG);
	memcpy(q, p, n);
	q[8]++; /* checksum */
	assert_int_equal(ip_parse(view_of(q, n), &v), -EBADMSG);
	ip4_write_checksum(q, IP4_HEADER);
	assert_int_equal(ip_parse(view_of(q, n), &v), 0);
}

static void walks_extension_headers(void **state)
{
	/* hop-by-hop, routing (24 bytes), fragment, destination options, AH (12), then UDP */
	static const uint8_t chain[] = {43, 0, 1, 4, 0, 0, 0, 0, 44, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 1, 51, 0, 1, 4, 0, 0,
		0, 0, 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 9, 0, 8, 0, 0};
	uint8_t p[ROOM] = {0x60};
	struct ip_view v;
	uint16_t sport, dport;
	uint32_t n = IP6_HEADER + sizeof(chain);

	(void)state;
	put_u16(p + 4, sizeof(chain));
	p[6] = 0;
	memcpy(p + IP6_HEADER, chain, sizeof(chain));
	assert_int_equal(ip_parse(view_of(p, n), &v), 0);
	assert_int_equal(v.proto, IP_PROTO_UDP);
	assert_int_equal(v.l4, n - 8);
	assert_true(v.options);
	assert_true(v.routing);
	assert_int_equal(v.routing_at, 48);
	assert_false(ip_is_fragment(&v)); /* atomic */
	assert_true(ip_ports(view_of(p, n), &v, &sport, &dport));
	assert_int_equal(sport, 7);
	/* first fragment: the rest is still to be seen */
	p[IP6_HEADER + 35] = 1;
	assert_int_equal(ip_parse(view_of(p, n), &v), 0);
	assert_true(ip_is_fragment(&v));
	assert_int_equal(v.proto, IP_PROTO_UDP);
	/* a later one: nothing behind the fragment header is a header */
	put_u16(p + IP6_HEADER + 34, 8 * 8 + 1);
	assert_int_equal(ip_parse(view_of(p, n), &v), 0);
	assert_int_equal(v.frag_offset, 64);
	assert_int_equal(v.proto, IP_PROTO_DEST_OPTIONS);
	assert_int_equal(v.l4, IP6_HEADER + 40);
	assert_false(ip_ports(view_of(p, n), &v, &sport, &dport));
	/* a header that says it is longer than the packet */
	p[IP6_HEADER + 9] = 200;
	assert_int_equal(ip_parse(view_of(p, n), &v), -EBADMSG);
	/* no end of headers */
	memset(p + IP6_HEADER, 0, ROOM - IP6_HEADER);
	put_u16(p + 4, ROOM - IP6_HEADER);
	for (uint32_t at = IP6_HEADER; at < ROOM; at += 8)
		p[at] = 60;
	assert_int_equal(ip_parse(view_of(p, ROOM), &v), -EBADMSG);
}

static void ttl_goes_down_to_one(void **state)
{
	uint8_t p[ROOM];
	struct ip_view v;

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		for (uint32_t id = 0; id < 65536; id += 13) {
			struct flow_packet f = {.v6 = v6,
				.ttl = (uint8_t)(2 + id % 250),
				.id = (uint16_t)id,
				.payload = 1};
			uint32_t n = write_packet(&f, p);

			assert_int_equal(ip_parse(view_of(p, n), &v), 0);
			assert_true(ip_decrement_ttl(p, &v));
			assert_int_equal(v.ttl, f.ttl - 1);
			assert_int_equal(ip_parse(view_of(p, n), &v), 0);
			assert_int_equal(v.ttl, f.ttl - 1);
		}
		for (uint8_t ttl = 0; ttl < 2; ttl++) {
			uint32_t n = write_packet(&(struct flow_packet){.v6 = v6, .ttl = ttl}, p);

			assert_int_equal(ip_parse(view_of(p, n), &v), 0);
			assert_false(ip_decrement_ttl(p, &v));
			assert_int_equal(v.ttl, ttl);
		}
	}
}

/* RFC 6040 figure 4, whole. Rows: inner Not-ECT, ECT(0), ECT(1), CE; columns: outer the same. */
static void ecn_at_the_end_of_the_tunnel(void **state)
{
	enum { D = 9 };
	static const uint8_t order[4] = {ECN_NOT_ECT, ECN_ECT0, ECN_ECT1, ECN_CE};
	static const uint8_t figure[4][4] = {
		{ECN_NOT_ECT, ECN_NOT_ECT, ECN_NOT_ECT, D},
		{ECN_ECT0, ECN_ECT0, ECN_ECT1, ECN_CE},
		{ECN_ECT1, ECN_ECT1, ECN_ECT1, ECN_CE},
		{ECN_CE, ECN_CE, ECN_CE, ECN_CE},
	};
	uint8_t p[ROOM], before[ROOM];
	struct ip_view v;

	(void)state;
	for (uint32_t k = 0; k < 32; k++) {
		uint32_t in = k % 4, out = k / 4 % 4;
		struct flow_packet f = {.v6 = k / 16,
			.tos = (uint8_t)(0xa8 | order[in]),
			.ttl = 3,
			.id = (uint16_t)(k * 1777),
			.flow_label = 0x12345,
			.payload = 3};
		uint32_t n = write_packet(&f, p);

		memcpy(before, p, n);
		if (figure[in][out] == D) {
			assert_int_equal(ecn_decapsulate(0x40 | order[out], p), DROP_ECN);
			assert_memory_equal(p, before, n);
			continue;
		}
		assert_int_equal(ecn_decapsulate(0x40 | order[out], p), DROP_NONE);
		assert_int_equal(ip_parse(view_of(p, n), &v), 0);
		assert_int_equal(v.tos, 0xa8 | figure[in][out]);
		f.tos = v.tos;
		write_packet(&f, before);
		assert_memory_equal(p, before, n);
	}
}

static void ecn_at_the_start_of_the_tunnel(void **state)
{
	(void)state;
	for (int tos = 0; tos < 256; tos++) {
		assert_int_equal(ecn_encapsulate((uint8_t)tos, true), tos);
		assert_int_equal(ecn_encapsulate((uint8_t)tos, false), tos & 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_drops),
		cmocka_unit_test(reads_plain_headers),
		cmocka_unit_test(refuses_what_does_not_fit),
		cmocka_unit_test(walks_extension_headers),
		cmocka_unit_test(ttl_goes_down_to_one),
		cmocka_unit_test(ecn_at_the_end_of_the_tunnel),
		cmocka_unit_test(ecn_at_the_start_of_the_tunnel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
