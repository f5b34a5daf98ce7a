/* Packets sent to a SID of the node: what each behaviour does, and every way in which a routing
 * header can lie. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "srv6/srv6.h"
#include "wire/csum.h"

enum { ROOM = 4096, SELF = -1 };

/* A packet under construction: an IPv6 header, then what is appended. */
struct made {
	uint8_t p[ROOM];
	uint32_t len;
	uint32_t next_at; /* of the field that says what comes next */
};

static void begin(struct made *m, uint8_t hop_limit)
{
	memset(m, 0, sizeof(*m));
	m->p[0] = 0x60;
	m->p[7] = hop_limit;
	m->p[8] = m->p[24] = 0xfd;
	m->p[23] = 1;
	m->p[39] = 2;
	m->len = 40;
	m->next_at = 6;
}

static uint8_t *append(struct made *m, uint8_t type, uint32_t n)
{
	uint8_t *at = m->p + m->len;

	m->p[m->next_at] = type;
	m->next_at = m->len;
	m->len += n;
	put_u16(m->p + 4, (uint16_t)(m->len - 40));
	return at;
}

/* A routing header with `units` of 8 bytes behind its first; segment i is fd00::aa:i. */
static uint8_t *append_srh(struct made *m, uint8_t units, uint8_t left, uint8_t last)
{
	uint8_t *h = append(m, IP_PROTO_ROUTING, 8 + units * 8U);

	h[1] = units;
	h[2] = 4;
	h[3] = left;
	h[4] = last;
	for (uint8_t i = 0; i < units / 2; i++) {
		h[8 + 16 * i] = 0xfd;
		h[8 + 16 * i + 13] = 0xaa;
		h[8 + 16 * i + 15] = i;
	}
	return h;
}

static void append_ip(struct made *m, uint8_t version)
{
	uint8_t *h = append(m, version == 4 ? IP_PROTO_IP4 : IP_PROTO_IP6, version == 4 ? 20 : 40);

	m->next_at = (uint32_t)(h - m->p) + (version == 4 ? 9 : 6);
	h[0] = version == 4 ? 0x45 : 0x60;
	if (version == 4) {
		put_u16(h + 2, 20);
		ip4_write_checksum(h, 20);
	} else {
		h[6] = IP_PROTO_NONE;
	}
}

static struct srv6_result process(struct made *m, enum srv6_behaviour b, bool refuse_hmac)
{
	struct srv6_localsid sid = {.behaviour = b};
	struct ip_view v;

	assert_int_equal(ip_parse(view_of(m->p, m->len), &v), 0);
	return srv6_process(&sid, refuse_hmac, m->p, &v);
}

/* Segments Left and Last Entry against the header's length. */
static void the_list_is_checked_against_its_length(void **state)
{
	static const struct {
		uint8_t units, left, last;
		int next; /* segment that is next, or SELF: Parameter Problem at Segments Left */
	} rows[] = {
		{2, 1, 0, 0},    /* reduced, one listed */
		{2, 2, 0, SELF}, /* Last Entry + 2 */
		{6, 3, 2, 2},    /* reduced */
		{6, 2, 2, 1},
		{6, 1, 2, 0},
		{6, 4, 2, SELF},
		{6, 1, 3, SELF}, /* Last Entry behind the list */
		{6, 255, 255, SELF},
		{6, 1, 0, 0},    /* TLVs (Pad1, all of them) where two more might be */
		{0, 1, 0, SELF}, /* no list at all */
		{1, 1, 0, SELF}, /* half an entry */
		{254, 127, 126, 126},
		{254, 128, 127, SELF},
		{255, 127, 126, 126},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct srv6_result r;
		struct made m, was;
		uint8_t *h;

		begin(&m, 9);
		h = append_srh(&m, rows[i].units, rows[i].left, rows[i].last);
		if (rows[i].units == 6 && rows[i].last == 0)
			memset(h + 24, 0, 32);
		else if (rows[i].units == 255)
			memset(h + 8 + 254 * 8, 0, 8);
		append_ip(&m, 6);
		was = m;
		r = process(&m, SRV6_END, true);
		if (rows[i].next == SELF) {
			assert_int_equal(r.verdict, SRV6_REFUSE);
			assert_int_equal(r.drop, DROP_SRV6_MALFORMED);
			assert_true(r.send);
			assert_int_equal(r.icmp, ICMP_PARAMETER_PROBLEM);
			assert_int_equal(r.code, 0);
			assert_int_equal(r.pointer, 43);
			assert_memory_equal(m.p, was.p, m.len);
			continue;
		}
		assert_int_equal(r.verdict, SRV6_FORWARD);
		assert_int_equal(m.p[39], rows[i].next);
		assert_int_equal(m.p[37], 0xaa);
		assert_int_equal(m.p[7], 8);
		assert_int_equal(m.p[43], rows[i].left - 1);
		/* nothing else has changed */
		memcpy(was.p + 24, m.p + 24, 16);
		was.p[7] = 8;
		was.p[43] = m.p[43];
		assert_memory_equal(m.p, was.p, m.len);
	}
}

static void end_dies_by_hop_limit(void **state)
{
	(void)state;
	for (uint8_t hop = 0; hop < 3; hop++) {
		struct srv6_result r;
		struct made m;

		begin(&m, hop);
		append_srh(&m, 2, 1, 0);
		append_ip(&m, 4);
		r = process(&m, SRV6_END, false);
		assert_int_equal(r.verdict, hop > 1 ? SRV6_FORWARD : SRV6_REFUSE);
		assert_int_equal(m.p[7], hop > 1 ? 1 : hop);
		if (hop <= 1)
			assert_true(
				r.send && r.icmp == ICMP_TIME_EXCEEDED && r.drop == DROP_HOP_LIMIT);
	}
}

/* The end of the list, with and without a routing header, for each behaviour and
 * payload. */
static void the_last_segment_looks_at_the_upper_layer(void **state)
{
	static const struct {
		enum srv6_behaviour behaviour;
		uint8_t upper;
		bool well;
	} rows[] = {
		{SRV6_END, 4, true}, /* USD */
		{SRV6_END, 41, true},
		{SRV6_END, 17, false},
		{SRV6_END, 59, false},
		{SRV6_END_DT4, 4, true},
		{SRV6_END_DT4, 41, false},
		{SRV6_END_DT4, 6, false},
		{SRV6_END_DT6, 41, true},
		{SRV6_END_DT6, 4, false},
		{SRV6_END_DT46, 4, true},
		{SRV6_END_DT46, 41, true},
		{SRV6_END_DT46, 51, false},
		{SRV6_END_DT46, 50, false},
		{SRV6_END_DT46, 143, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int form = 0; form < 4; form++) {
			struct srv6_result r;
			struct made m;
			uint32_t at;

			begin(&m, 1); /* no hop is taken from it */
			if (form == 1 || form == 3)
				append_srh(&m, 4, 0, 1);
			if (form == 2)
				append(&m, IP_PROTO_DEST_OPTIONS, 8);
			if (form == 3) /* a second one, with nothing left either */
				append_srh(&m, 2, 0, 9);
			at = m.len;
			if (rows[i].upper == 4 || rows[i].upper == 41)
				append_ip(&m, rows[i].upper == 4 ? 4 : 6);
			else
				append(&m, rows[i].upper, 40)[0] = IP_PROTO_NONE;
			r = process(&m, rows[i].behaviour, true);
			if (rows[i].well) {
				assert_int_equal(r.verdict, SRV6_INNER);
				assert_int_equal(r.next_header, rows[i].upper);
				assert_int_equal(r.at, at);
				continue;
			}
			assert_int_equal(r.verdict, SRV6_REFUSE);
			assert_int_equal(r.drop, DROP_SRV6_UPPER);
			assert_true(r.send && r.icmp == ICMP_PARAMETER_PROBLEM);
			assert_int_equal(r.code, 4);
			assert_int_equal(r.pointer, at);
		}
}

static void icmpv6_is_for_the_node(void **state)
{
	struct srv6_result r;
	struct made m;

	(void)state;
	for (int b = 0; b < SRV6_BEHAVIOURS; b++) {
		begin(&m, 64);
		append(&m, IP_PROTO_ICMP6, 8);
		r = process(&m, (enum srv6_behaviour)b, false);
		assert_int_equal(r.verdict, SRV6_UPPER);
		assert_int_equal(r.at, 40);
	}
}

/* Segments left at an exit. */
static void decapsulating_sids_are_the_last(void **state)
{
	(void)state;
	for (int b = SRV6_END_DT4; b <= SRV6_END_DT46; b++) {
		struct srv6_result r;
		struct made m;

		begin(&m, 64);
		append_srh(&m, 4, 1, 1);
		append_ip(&m, b == SRV6_END_DT4 ? 4 : 6);
		r = process(&m, (enum srv6_behaviour)b, false);
		assert_int_equal(r.verdict, SRV6_REFUSE);
		assert_true(r.send && r.icmp == ICMP_PARAMETER_PROBLEM && r.code == 0);
		assert_int_equal(r.pointer, 43);
	}
}

/* A first header that is used up is passed over, the second one is acted on. */
static void of_two_headers_the_one_with_segments_left_counts(void **state)
{
	struct srv6_result r;
	struct made m;

	(void)state;
	begin(&m, 64);
	append_srh(&m, 2, 0, 0);
	append_srh(&m, 4, 1, 1);
	append_ip(&m, 6);
	r = process(&m, SRV6_END, false);
	assert_int_equal(r.verdict, SRV6_FORWARD);
	assert_int_equal(m.p[43], 0);
	assert_int_equal(m.p[40 + 24 + 3], 0);
}

static void other_routing_types_are_refused_while_active(void **state)
{
	struct srv6_result r;
	struct made m;

	(void)state;
	for (uint8_t left = 0; left < 2; left++) {
		begin(&m, 64);
		append_srh(&m, 2, left, 0)[2] = 0;
		append_ip(&m, 6);
		r = process(&m, SRV6_END_DT6, false);
		if (left == 0) {
			assert_int_equal(r.verdict, SRV6_INNER);
			continue;
		}
		assert_int_equal(r.verdict, SRV6_REFUSE);
		assert_true(r.send && r.code == 0);
		assert_int_equal(r.pointer, 42);
	}
}

/* RFC 8754 2.1: TLVs behind the list. */
static void tlvs_are_passed_over_when_they_fit(void **state)
{
	static const struct {
		uint8_t bytes[8];
		bool well, hmac;
		uint32_t bad_at; /* in the TLVs */
	} rows[] = {
		{{0, 0, 0, 0, 0, 0, 0, 0}, true, false, 0},
		{{4, 6, 0, 0, 0, 0, 0, 0}, true, false, 0},
		{{0, 4, 5}, true, false, 0},
		{{4, 7}, false, false, 0},
		{{0, 0, 0, 0, 4, 3, 0, 9}, false, false, 4},
		{{5, 6}, true, true, 0},
		{{200, 1, 5, 5, 3}, true, true, 0},
		{{200, 6, 5, 5, 3}, true, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int refuse = 0; refuse < 2; refuse++) {
			struct srv6_result r;
			struct made m;

			begin(&m, 64);
			memcpy(append_srh(&m, 3, 1, 0) + 24, rows[i].bytes, 8);
			append_ip(&m, 6);
			r = process(&m, SRV6_END, refuse);
			if (!rows[i].well) {
				assert_int_equal(r.drop, DROP_SRV6_MALFORMED);
				assert_true(r.send);
				assert_int_equal(r.pointer, 64 + rows[i].bad_at);
			} else if (rows[i].hmac && refuse) {
				assert_int_equal(r.verdict, SRV6_REFUSE);
				assert_int_equal(r.drop, DROP_SRV6_HMAC);
				assert_false(r.send);
			} else {
				assert_int_equal(r.verdict, SRV6_FORWARD);
			}
		}
}

/* Fragments pass an End, and are not put together by a decapsulating SID. */
static void fragments_are_not_decapsulated(void **state)
{
	struct srv6_result r;
	struct made m;

	(void)state;
	begin(&m, 64);
	append_srh(&m, 2, 1, 0);
	put_u16(append(&m, IP_PROTO_FRAGMENT, 8) + 2, 1);
	append_ip(&m, 6);
	r = process(&m, SRV6_END, false);
	assert_int_equal(r.verdict, SRV6_FORWARD);
	r = process(&m, SRV6_END_DT6, false);
	assert_int_equal(r.verdict, SRV6_REFUSE);
	assert_int_equal(r.drop, DROP_SRV6_FRAGMENT);
	begin(&m, 64);
	append(&m, IP_PROTO_FRAGMENT, 8); /* atomic: a whole packet */
	append_ip(&m, 6);
	r = process(&m, SRV6_END_DT6, false);
	assert_int_equal(r.verdict, SRV6_INNER);
}

static void routing_headers_are_found_wherever_they_are(void **state)
{
	struct made m;

	(void)state;
	begin(&m, 64);
	append_ip(&m, 6);
	assert_false(srv6_has_srh(view_of(m.p, m.len)));
	begin(&m, 64);
	append_srh(&m, 2, 0, 0)[2] = 2; /* of another type, then one of ours */
	append(&m, IP_PROTO_DEST_OPTIONS, 8);
	append(&m, IP_PROTO_FRAGMENT, 8);
	append_srh(&m, 2, 0, 0);
	append_ip(&m, 6);
	assert_true(srv6_has_srh(view_of(m.p, m.len)));
	assert_true(srv6_has_srh(view_of(m.p, 63))); /* cut: none can be ruled out */
	begin(&m, 64);
	put_u16(append(&m, IP_PROTO_FRAGMENT, 8) + 2, 8);
	append_srh(&m, 2, 0, 0);
	assert_false(srv6_has_srh(view_of(m.p, m.len)));
}

/* ---- the table ---- */

static struct srv6_localsid entry(const char *prefix, enum srv6_behaviour b)
{
	struct srv6_localsid e = {.behaviour = b};

	assert_int_equal(prefix_parse(prefix, &e.sid), 0);
	return e;
}

static void sids_are_found_by_their_longest_prefix(void **state)
{
	struct srv6_localsid e[] = {entry("fd00:5:1::/64", SRV6_END),
		entry("fd00:5:1::1/128", SRV6_END_DT46), entry("fd00:5:1::3/128", SRV6_END_DT6)};
	struct srv6_table *t;
	struct ipaddr a;

	(void)state;
	assert_int_equal(srv6_table_build(e, 3, &t), 0);
	assert_int_equal(ipaddr_parse("fd00:5:1::1", &a), 0);
	assert_int_equal(srv6_table_find(t, &a)->behaviour, SRV6_END_DT46);
	a.b[15] = 7;
	assert_int_equal(srv6_table_find(t, &a)->behaviour, SRV6_END);
	a.b[5] = 2;
	assert_null(srv6_table_find(t, &a));
	srv6_table_free(t);
	e[0] = e[1];
	assert_int_equal(srv6_table_build(e, 3, &t), -EEXIST);
	e[0] = entry("10.0.0.0/8", SRV6_END);
	assert_int_equal(srv6_table_build(e, 3, &t), -EINVAL);
	e[0] = entry("fd00:7::/64", SRV6_BEHAVIOURS);
	assert_int_equal(srv6_table_build(e, 3, &t), -EINVAL);
	assert_int_equal(srv6_table_build(NULL, 0, &t), 0);
	assert_null(srv6_table_find(t, &a));
	srv6_table_free(t);
	srv6_table_free(NULL);
	assert_string_equal(srv6_behaviour_name(SRV6_END_DT46), "End.DT46");
	assert_string_equal(srv6_behaviour_name(SRV6_BEHAVIOURS), "?");
}

/* ---- errors ---- */

/* An error of a type about a packet that fd00::1 sent, with `left` segments left. */
static uint32_t error_make(uint8_t *out, uint8_t type, uint32_t word, uint8_t version, uint32_t cut)
{
	static const uint8_t from[16] = {0xfd, 1}, to[16] = {0xfd, [15] = 1};
	struct ipaddr s = ipaddr_from(IP6, from), d = ipaddr_from(IP6, to);
	struct made m;
	uint32_t len;

	begin(&m, 3);
	append_srh(&m, 4, 1, 1);
	append_ip(&m, version);
	memset(append(&m, IP_PROTO_UDP, 100), 0x11, 100);
	if (version == 4) {
		put_u16(m.p + 40 + 40 + 2, 120);
		ip4_write_checksum(m.p + 80, 20);
	} else {
		put_u16(m.p + 40 + 40 + 4, 100);
	}
	len = cut < m.len ? cut : m.len;
	memset(out, 0, 48);
	out[0] = 0x60;
	put_u16(out + 4, (uint16_t)(8 + len));
	out[6] = IP_PROTO_ICMP6;
	out[7] = 64;
	memcpy(out + 8, from, 16);
	memcpy(out + 24, to, 16);
	out[40] = type;
	put_u32(out + 44, word);
	memcpy(out + 48, m.p, len);
	put_u16(out + 42,
		csum_finish(csum_add(ip_pseudo_sum(&s, &d, IP_PROTO_ICMP6, 8 + len), out + 40,
			8 + len)));
	return 48 + len;
}

static int read_error(const uint8_t *p, uint32_t len, struct srv6_error *ret)
{
	static const uint8_t source[16] = {0xfd, [15] = 1};
	struct ipaddr s = ipaddr_from(IP6, source);
	struct ip_view v;

	assert_int_equal(ip_parse(view_of(p, len), &v), 0);
	return srv6_error_parse(view_of(p, len), &v, &s, ret);
}

static void errors_are_read_for_the_inner_source(void **state)
{
	static const struct {
		uint8_t type;
		int err;
		enum icmp_error_type inner;
	} rows[] = {
		{1, 0, ICMP_HOST_UNREACHABLE},
		{2, 0, ICMP_PACKET_TOO_BIG},
		{3, 0, ICMP_HOST_UNREACHABLE},
		{4, 0, ICMP_HOST_UNREACHABLE},
		{5, -EBADMSG, 0},
		{128, -EBADMSG, 0},
	};
	struct srv6_error e;
	uint8_t p[ROOM];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (uint8_t version = 4; version <= 6; version += 2) {
			uint32_t len = error_make(p, rows[i].type, 1300, version, ROOM);

			assert_int_equal(read_error(p, len, &e), rows[i].err);
			if (rows[i].err)
				continue;
			assert_int_equal(e.type, rows[i].inner);
			assert_int_equal(e.mtu, 1300);
			assert_int_equal(e.overhead, 80);
			assert_int_equal(e.about.family, version);
			assert_int_equal(e.inner.n, e.about.len);
			assert_ptr_equal(e.inner.p, p + 48 + 80);
		}
}

static void quotes_may_be_cut_but_not_too_short(void **state)
{
	struct srv6_error e;
	uint8_t p[ROOM];

	(void)state;
	for (uint8_t version = 4; version <= 6; version += 2) {
		uint32_t least = 80 + (version == 4 ? 20 : 40) + 8;

		for (uint32_t cut = 0; cut < least + 40; cut++) {
			uint32_t len = error_make(p, 2, 1300, version, cut);

			assert_int_equal(read_error(p, len, &e), cut < least ? -EBADMSG : 0);
			if (cut >= least)
				assert_int_equal(e.about.len, cut - 80);
		}
	}
}

static void errors_about_others_packets_are_not_ours(void **state)
{
	struct srv6_error e;
	uint8_t p[ROOM];
	uint32_t len = error_make(p, 1, 0, 6, ROOM);

	(void)state;
	p[100] ^= 1; /* the checksum */
	assert_int_equal(read_error(p, len, &e), -EBADMSG);
	len = error_make(p, 1, 0, 6, ROOM);
	p[48 + 23] = 9; /* another source, and the checksum as before by another byte */
	p[48 + 21] -= 8;
	assert_int_equal(read_error(p, len, &e), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_list_is_checked_against_its_length),
		cmocka_unit_test(end_dies_by_hop_limit),
		cmocka_unit_test(the_last_segment_looks_at_the_upper_layer),
		cmocka_unit_test(icmpv6_is_for_the_node),
		cmocka_unit_test(decapsulating_sids_are_the_last),
		cmocka_unit_test(of_two_headers_the_one_with_segments_left_counts),
		cmocka_unit_test(other_routing_types_are_refused_while_active),
		cmocka_unit_test(tlvs_are_passed_over_when_they_fit),
		cmocka_unit_test(fragments_are_not_decapsulated),
		cmocka_unit_test(routing_headers_are_found_wherever_they_are),
		cmocka_unit_test(sids_are_found_by_their_longest_prefix),
		cmocka_unit_test(errors_are_read_for_the_inner_source),
		cmocka_unit_test(quotes_may_be_cut_but_not_too_short),
		cmocka_unit_test(errors_about_others_packets_are_not_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
