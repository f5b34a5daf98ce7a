/* IP packets and TUN frames: headers, ICMP about them, ECN, offload headers that lie, merging and
 * cutting again. The first bytes are the offload header; then packets, each behind a 16-bit length,
 * whose checksums are mended, so that merging is reached. */
#include "fuzz.h"

#include <string.h>
#include "wire/csum.h"
#include "wire/ecn.h"
#include "wire/gro.h"
#include "wire/gso.h"
#include "wire/icmp.h"

enum { PACKETS = 32, DATA_MAX = 16384, OUT_MAX = 70000 };

static void mend(uint8_t *p, size_t n)
{
	struct ip_view v;
	size_t field;

	if (n >= IP4_HEADER && p[0] >> 4 == 4 && (p[0] & 15u) * 4 >= IP4_HEADER &&
		(p[0] & 15u) * 4 <= n)
		ip4_write_checksum(p, (p[0] & 15u) * 4);
	if (ip_parse(view_of(p, n), &v) < 0 || v.frag_offset != 0)
		return;
	field = v.proto == IP_PROTO_TCP ? 16 : v.proto == IP_PROTO_UDP ? 6 : v.len;
	if (v.l4 + field + 2 > v.len)
		return;
	put_u16(p + v.l4 + field, 0);
	put_u16(p + v.l4 + field,
		csum_finish(csum_add(ip_pseudo_sum(&v.src, &v.dst, v.proto, v.len - v.l4), p + v.l4,
			v.len - v.l4)));
}

/* A frame with the offload header given: what is cut must be packets again. */
static uint32_t split(struct tun_rx *rx, bool honest)
{
	static uint8_t out[OUT_MAX];
	struct gso_split s;
	struct ip_view v;

	if (gso_split_init(rx, &s) != DROP_NONE) {
		FUZZ_ASSERT(!honest);
		return 0;
	}
	for (uint32_t i = 0; i < s.segments && i < 128; i++) {
		uint32_t n = gso_split_write(&s, i, out);

		FUZZ_ASSERT(n == (i + 1 < s.segments ? s.seg_len : s.last_len));
		FUZZ_ASSERT(rx->gso.type == GSO_NONE || ip_parse(view_of(out, n), &v) == 0);
	}
	return s.segments;
}

static void errors_about(uint8_t *p, const struct ip_view *v)
{
	uint8_t out[ICMP_ERROR_MAX];
	struct ipaddr source = {.family = v->family, .b = {10, 1}};
	struct icmp_echo echo;
	struct icmp_told told;
	uint16_t checksum;
	size_t n;

	for (int type = ICMP_TIME_EXCEEDED; type <= ICMP_PARAMETER_PROBLEM; type++) {
		struct icmp_error e = {.type = (enum icmp_error_type)type,
			.packet = view_of(p, v->len),
			.about = v,
			.source = &source,
			.mtu = 1280};
		int err = icmp_error_build(&e, out, sizeof(out), &n);

		FUZZ_ASSERT(err == 0 ? n <= sizeof(out) : !icmp_error_allowed(&e));
	}
	(void)icmp_echo_parse(view_of(p, v->len), v, &echo);
	if (icmp_error_parse(view_of(p, v->len), v, &told) == 0)
		(void)icmp_echo_quoted(told.quote, &echo, &checksum);
	(void)icmp_echo_quoted(view_of(p, v->len), &echo, &checksum);
}

static void merge(uint8_t *data, size_t n)
{
	static struct tun_tx frames[PACKETS];
	static uint8_t flat[OUT_MAX];
	struct gro g;
	uint32_t in = 0, out = 0, count;

	gro_init(&g, frames, PACKETS);
	gro_set_merge(&g, true, true);
	while (n >= 2 && in < PACKETS) {
		size_t len = get_u16(data) < n - 2 ? get_u16(data) : n - 2;
		struct ip_view v;
		uint8_t *p = data + 2;

		mend(p, len);
		data += 2 + len;
		n -= 2 + len;
		if (ip_parse(view_of(p, len), &v) < 0)
			continue;
		errors_about(p, &v);
		(void)ecn_decapsulate((uint8_t)len, p);
		(void)ip_decrement_ttl(p, &v);
		if (!gro_join(&g, p, v.len))
			FUZZ_ASSERT(gro_add(&g, p, &v));
		in++;
	}
	count = gro_finish(&g);
	for (uint32_t i = 0; i < count; i++) {
		struct tun_rx rx = {.data = flat, .gso = frames[i].gso};

		for (uint32_t k = 0; k < frames[i].iov_count; k++) {
			memcpy(flat + rx.len, frames[i].iov[k].p, frames[i].iov[k].n);
			rx.len += frames[i].iov[k].n;
		}
		FUZZ_ASSERT(rx.len == frames[i].len);
		out += split(&rx, true);
	}
	FUZZ_ASSERT(in == out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t copy[DATA_MAX];
	struct cur c = cur_of(data, size);
	struct tun_rx rx = {.data = copy};

	rx.gso.type = cur_u8(&c) % (GSO_UDP6 + 2);
	rx.gso.needs_csum = cur_u8(&c) & 1;
	rx.gso.size = cur_u16(&c);
	rx.gso.csum_start = cur_u16(&c);
	rx.gso.csum_offset = cur_u16(&c);
	if (c.bad || c.n > sizeof(copy))
		return 0;
	rx.len = (uint32_t)c.n;
	memcpy(copy, c.p, c.n);
	if (rx.len > 2) {
		rx.data += 2;
		rx.len -= 2;
		mend(rx.data, rx.len);
		(void)split(&rx, false);
		(void)gso_complete(&rx);
	}
	memcpy(copy, c.p, c.n);
	merge(copy, c.n);
	return 0;
}
