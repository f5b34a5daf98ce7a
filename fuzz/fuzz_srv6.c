/* Segment routing: the first byte says which behaviour looks at the packet that follows, and
 * whether HMACs are refused. Whatever the packet, what is read lies inside it and what is refused
 * stays as it was. Then the packet goes along segments of its own making and must come out as it
 * went in; and an error that quotes it is read. */
#include "fuzz.h"

#include <string.h>
#include "srv6/srv6.h"
#include "wire/csum.h"

enum { PACKET_MAX = 4096, DESTINATION_AT = 24, SEGMENTS = 16 };

static void check_process(const uint8_t *data, size_t n, uint8_t how)
{
	static uint8_t p[PACKET_MAX];
	struct srv6_localsid sid = {.behaviour = how % SRV6_BEHAVIOURS};
	struct srv6_chain chain;
	struct srv6_result r;
	struct ip_view v;

	memcpy(p, data, n);
	if (ip_parse(view_of(p, n), &v) < 0)
		return;
	r = srv6_process(&sid, how & 0x80, p, &v);
	if (v.family == IP6)
		(void)srv6_has_srh(view_of(p, v.len));
	if (r.verdict == SRV6_FORWARD) {
		FUZZ_ASSERT(sid.behaviour == SRV6_END);
		FUZZ_ASSERT(p[7] == data[7] - 1 && p[7] > 0);
		FUZZ_ASSERT(memcmp(p + DESTINATION_AT, v.dst.b, 16) == 0);
		FUZZ_ASSERT(srv6_has_srh(view_of(p, v.len)));
		FUZZ_ASSERT(srv6_chain_walk(view_of(p, v.len), &chain) == 0);
		return;
	}
	FUZZ_ASSERT(memcmp(p, data, n) == 0);
	if (r.verdict == SRV6_INNER || r.verdict == SRV6_UPPER)
		FUZZ_ASSERT(r.at >= IP6_HEADER && r.at <= v.len);
	else if (r.send && r.icmp == ICMP_PARAMETER_PROBLEM)
		FUZZ_ASSERT(r.pointer <= v.len);
}

/* The segments that the bytes say; at least one. */
static uint32_t make_segments(const uint8_t *data, size_t n, struct ipaddr out[static SEGMENTS])
{
	uint32_t count = data[0] % SEGMENTS + 1U;

	for (uint32_t i = 0; i < count; i++) {
		out[i] = (struct ipaddr){.family = IP6, .b = {0xfd}};
		out[i].b[15] = data[i % n];
	}
	return count;
}

/* Pushes, and acts at each segment; the packet must come out whole. */
static void travel(const uint8_t *data, size_t n, uint8_t how)
{
	static uint8_t p[SRV6_PUSH_MAX + PACKET_MAX];
	struct ipaddr segment[SEGMENTS];
	struct srv6_steer_config c = {.source = {.family = IP6, .b = {0xfd, 1}},
		.segment = segment,
		.mode = how & 0x40 ? SRV6_ENCAPS : SRV6_ENCAPS_RED,
		.linux_compat = how & 0x20,
		.copy_dscp = how & 0x10};
	struct srv6_localsid sid = {.behaviour = SRV6_END};
	struct srv6_steer s;
	struct srv6_stamp t;
	struct srv6_result r = {0};
	struct ip_view v;

	if (ip_parse(view_of(data, n), &v) < 0 || v.len == 0)
		return;
	c.count = make_segments(data, n, segment);
	FUZZ_ASSERT(srv6_steer_build(&c, &s) == 0);
	t = srv6_stamp_of(&s, view_of(data, v.len), &v);
	t.hop_limit = 64;
	srv6_push(&s, &t, v.len, p);
	memcpy(p + s.overhead, data, v.len);
	n = v.len;
	for (uint32_t i = 0; i < c.count; i++) {
		if (ip_parse(view_of(p, s.overhead + n), &v) < 0)
			return; /* the inner headers make one chain too long with the outer ones */
		FUZZ_ASSERT(ipaddr_equal(&v.dst, &segment[i]));
		if (i + 1 == c.count)
			sid.behaviour = SRV6_END_DT46;
		r = srv6_process(&sid, true, p, &v);
		FUZZ_ASSERT(r.verdict == (i + 1 < c.count ? SRV6_FORWARD : SRV6_INNER));
	}
	FUZZ_ASSERT(r.at == s.overhead);
	FUZZ_ASSERT(memcmp(p + r.at, data, n) == 0);
}

/* An error whose quote is the input. */
static void check_error(const uint8_t *data, size_t n, uint8_t how)
{
	static uint8_t p[PACKET_MAX + 48];
	struct ipaddr a = {.family = IP6, .b = {0xfd, 1}}, source = a;
	struct srv6_error e;
	struct ip_view v;

	if (n < IP6_HEADER || n > PACKET_MAX)
		return;
	memset(p, 0, 48);
	p[0] = 0x60;
	put_u16(p + 4, (uint16_t)(8 + n));
	p[6] = IP_PROTO_ICMP6;
	memcpy(p + 8, a.b, 16);
	memcpy(p + 24, a.b, 16);
	p[40] = how % 6;
	memcpy(p + 48, data, n);
	put_u16(p + 42,
		csum_finish(csum_add(ip_pseudo_sum(&a, &a, IP_PROTO_ICMP6, (uint32_t)(8 + n)),
			p + 40, 8 + n)));
	source = ipaddr_from(IP6, data + 8);
	FUZZ_ASSERT(ip_parse(view_of(p, 48 + n), &v) == 0);
	if (srv6_error_parse(view_of(p, 48 + n), &v, &source, &e) < 0)
		return;
	FUZZ_ASSERT(e.inner.p >= p + 48 + IP6_HEADER && e.inner.p + e.inner.n == p + 48 + n);
	FUZZ_ASSERT(e.about.len <= e.inner.n && e.overhead + e.inner.n == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > PACKET_MAX)
		return 0;
	check_process(data + 1, size - 1, data[0]);
	travel(data + 1, size - 1, data[0]);
	check_error(data + 1, size - 1, data[0]);
	return 0;
}
