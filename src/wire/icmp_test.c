/* ICMP errors: when, what, how much; echo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include "wire/icmp.h"
#include "wire/packets_test.h"

enum { ROOM = 2048 };

static struct ipaddr router(bool v6)
{
	struct ipaddr a = {.family = v6 ? IP6 : IP4};

	a.b[0] = v6 ? 0xfd : 10;
	a.b[v6 ? 15 : 3] = 254;
	return a;
}

static int build(enum icmp_error_type type, const uint8_t *p, uint32_t n, uint8_t *out,
	size_t *ret_len)
{
	struct ip_view v;
	struct ipaddr source;
	struct icmp_error e = {.type = type,
		.packet = view_of(p, n),
		.about = &v,
		.source = &source,
		.mtu = 1300,
		.pointer = 6,
		.code = 0};

	assert_int_equal(ip_parse(view_of(p, n), &v), 0);
	source = router(v.family == IP6);
	return icmp_error_build(&e, out, ROOM, ret_len);
}

static bool icmp_checksum_right(const uint8_t *p, size_t n)
{
	bool v6 = p[0] >> 4 == 6;
	uint32_t header = v6 ? IP6_HEADER : IP4_HEADER, len = (uint32_t)n - header;

	return naive_checksum(p + header, len, v6 ? naive_pseudo(p, IP_PROTO_ICMP6, len) : 0) ==
		0xffff;
}

static void each_error_has_its_type(void **state)
{
	static const uint8_t rows[][5] = {
		{ICMP_TIME_EXCEEDED, 11, 0, 3, 0},
		{ICMP_NO_ROUTE, 3, 0, 1, 0},
		{ICMP_HOST_UNREACHABLE, 3, 1, 1, 3},
		{ICMP_ADMIN_PROHIBITED, 3, 13, 1, 1},
		{ICMP_PACKET_TOO_BIG, 3, 4, 2, 0},
		{ICMP_PARAMETER_PROBLEM, 12, 0, 4, 0},
	};
	uint8_t p[ROOM], out[ROOM];
	struct ip_view v;
	size_t len;

	(void)state;
	for (uint32_t i = 0; i < 12; i++) {
		const uint8_t *row = rows[i / 2];
		bool v6 = i % 2;
		uint32_t n = write_packet(&(struct flow_packet){.v6 = v6,
						  .ttl = 9,
						  .host = 3,
						  .payload = 100},
				 p),
			 at = v6 ? 40 : 20;

		assert_int_equal(build((enum icmp_error_type)row[0], p, n, out, &len), 0);
		assert_int_equal(ip_parse(view_of(out, len), &v), 0);
		assert_int_equal(v.len, len);
		assert_int_equal(len, at + ICMP_HEADER + n);
		assert_int_equal(out[at], row[v6 ? 3 : 1]);
		assert_int_equal(out[at + 1], row[v6 ? 4 : 2]);
		assert_int_equal(get_u32(out + at + 4),
			row[0] == ICMP_PACKET_TOO_BIG              ? 1300
				: row[0] == ICMP_PARAMETER_PROBLEM ? (v6 ? 6 : 6u << 24)
								   : 0);
		assert_memory_equal(out + at + ICMP_HEADER, p, n);
		assert_int_equal(v.src.b[v6 ? 15 : 3], 254);
		assert_int_equal(v.dst.b[v6 ? 15 : 3], 3);
		assert_true(icmp_checksum_right(out, len));
	}
}

static void quotes_as_much_as_fits(void **state)
{
	uint8_t p[ROOM], out[ROOM];
	size_t len;
	uint32_t n;

	(void)state;
	n = write_packet(&(struct flow_packet){.ttl = 9, .host = 3, .payload = 1400}, p);
	assert_int_equal(build(ICMP_NO_ROUTE, p, n, out, &len), 0);
	assert_int_equal(len, 576);
	assert_true(icmp_checksum_right(out, len));
	n = write_packet(&(struct flow_packet){.v6 = true, .host = 3, .payload = 1400}, p);
	assert_int_equal(build(ICMP_NO_ROUTE, p, n, out, &len), 0);
	assert_int_equal(len, 1280);
	assert_true(icmp_checksum_right(out, len));
}

/* An ICMP message as the packet that the error would be about. */
static uint32_t icmp_packet(bool v6, uint8_t type, uint8_t *p)
{
	uint32_t at;

	write_packet(&(struct flow_packet){.v6 = v6, .ttl = 9, .host = 3, .payload = 40}, p);
	at = v6 ? 40 : 20;
	p[v6 ? 6 : 9] = v6 ? IP_PROTO_ICMP6 : IP_PROTO_ICMP4;
	p[at] = type;
	if (!v6)
		ip4_write_checksum(p, IP4_HEADER);
	return at + 60;
}

static void no_errors_about_errors(void **state)
{
	uint8_t p[ROOM], out[ROOM];
	size_t len;

	(void)state;
	for (uint32_t type = 0; type < 256; type++) {
		bool error4 = type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
		bool error6 = type < 128 || type == 137;
		uint32_t n = icmp_packet(false, (uint8_t)type, p);

		assert_int_equal(build(ICMP_TIME_EXCEEDED, p, n, out, &len), error4 ? -EPERM : 0);
		n = icmp_packet(true, (uint8_t)type, p);
		assert_int_equal(build(ICMP_TIME_EXCEEDED, p, n, out, &len), error6 ? -EPERM : 0);
	}
	/* an ICMPv6 header that is not there */
	icmp_packet(true, 128, p);
	put_u16(p + 4, 0);
	assert_int_equal(build(ICMP_NO_ROUTE, p, 40, out, &len), -EPERM);
}

static int about_addresses(bool v6, const char *src, const char *dst, enum icmp_error_type type)
{
	uint8_t p[ROOM], out[ROOM];
	struct ipaddr a;
	size_t len, bytes = v6 ? 16 : 4;
	uint32_t n = write_packet(&(struct flow_packet){.v6 = v6, .ttl = 9, .host = 3}, p);

	assert_int_equal(ipaddr_parse(src, &a), 0);
	memcpy(p + (v6 ? 8 : 12), a.b, bytes);
	assert_int_equal(ipaddr_parse(dst, &a), 0);
	memcpy(p + (v6 ? 24 : 16), a.b, bytes);
	if (!v6)
		ip4_write_checksum(p, IP4_HEADER);
	return build(type, p, n, out, &len);
}

static void no_errors_to_or_about_groups(void **state)
{
	static const char *const bad4[] = {"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1",
		"239.1.1.1", "255.255.255.255", "240.0.0.1"};
	static const char *const bad6[] = {"::", "::1", "ff02::1"};

	(void)state;
	assert_int_equal(about_addresses(false, "10.0.0.1", "10.0.0.2", ICMP_NO_ROUTE), 0);
	assert_int_equal(about_addresses(true, "fd::1", "fd::2", ICMP_NO_ROUTE), 0);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(about_addresses(false, bad4[i], "10.0.0.2", ICMP_NO_ROUTE),
			-EPERM);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(about_addresses(true, bad6[i], "fd::2", ICMP_NO_ROUTE), -EPERM);
	assert_int_equal(about_addresses(false, "10.0.0.1", "224.0.0.5", ICMP_PACKET_TOO_BIG),
		-EPERM);
	assert_int_equal(about_addresses(false, "10.0.0.1", "255.255.255.255", ICMP_NO_ROUTE),
		-EPERM);
	assert_int_equal(about_addresses(true, "fd::1", "ff05::1", ICMP_NO_ROUTE), -EPERM);
	assert_int_equal(about_addresses(true, "fd::1", "ff05::1", ICMP_PACKET_TOO_BIG), 0);
	assert_int_equal(about_addresses(true, "fd::1", "ff05::1", ICMP_PARAMETER_PROBLEM), -EPERM);
}

static void no_errors_about_later_fragments(void **state)
{
	uint8_t p[ROOM], out[ROOM];
	size_t len;
	uint32_t n = write_packet(&(struct flow_packet){.ttl = 9, .mf = true, .host = 3}, p);

	(void)state;
	assert_int_equal(build(ICMP_TIME_EXCEEDED, p, n, out, &len), 0);
	put_u16(p + 6, 0x2001);
	ip4_write_checksum(p, IP4_HEADER);
	assert_int_equal(build(ICMP_TIME_EXCEEDED, p, n, out, &len), -EPERM);
}

static void echo_goes_and_comes(void **state)
{
	uint8_t out[ROOM];
	struct ip_view v;
	size_t len;

	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		bool v6 = k & 1;
		struct icmp_echo got,
			e = {.src = router(v6),
				.dst = router(v6),
				.reply = k & 2,
				.ttl = 255,
				.id = 0x1234,
				.seq = 7,
				.data = view_of("abcde", 5),
				.pad = 600};

		assert_int_equal(icmp_echo_build(&e, out, sizeof(out), &len), 0);
		assert_int_equal(len, (v6 ? 40 : 20) + 8 + 605);
		assert_int_equal(ip_parse(view_of(out, len), &v), 0);
		assert_true(icmp_checksum_right(out, len));
		assert_int_equal(icmp_echo_parse(view_of(out, len), &v, &got), 0);
		assert_int_equal(got.reply, e.reply);
		assert_int_equal(got.id, 0x1234);
		assert_int_equal(got.seq, 7);
		assert_int_equal(got.ttl, 255);
		assert_int_equal(got.data.n, 605);
		assert_memory_equal(got.data.p, "abcde", 6);
		out[len - 1] ^= 1;
		assert_int_equal(icmp_echo_parse(view_of(out, len), &v, &got), -EBADMSG);
		assert_int_equal(icmp_echo_build(&e, out, len - 1, &len), -ENOSPC);
		e.dst.family = v6 ? IP4 : IP6;
		assert_int_equal(icmp_echo_build(&e, out, sizeof(out), &len), -EINVAL);
	}
}

/* What a router builds is read back, with what it is about; anything changed is refused. */
static void errors_are_read_with_their_quote(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		struct icmp_echo e = {.src = router(v6), .dst = router(v6), .ttl = 1, .id = 0x1234};
		uint8_t request[ROOM], out[ROOM];
		struct icmp_told told;
		struct icmp_echo got;
		uint16_t checksum;
		struct ip_view v;
		size_t n, len;

		e.src.b[1] = 7;
		e.seq = 9;
		e.data = view_of("abcdefgh", 8);
		assert_int_equal(icmp_echo_build(&e, request, sizeof(request), &n), 0);
		for (int type = ICMP_TIME_EXCEEDED; type <= ICMP_PARAMETER_PROBLEM; type++) {
			assert_int_equal(build((enum icmp_error_type)type, request, (uint32_t)n,
						 out, &len),
				0);
			assert_int_equal(ip_parse(view_of(out, len), &v), 0);
			assert_int_equal(icmp_error_parse(view_of(out, len), &v, &told), 0);
			assert_int_equal(told.type, type);
			assert_true(view_equal(told.quote, view_of(request, n)));
			out[len - 1] ^= 1;
			assert_int_equal(icmp_error_parse(view_of(out, len), &v, &told), -EBADMSG);
		}
		assert_int_equal(icmp_echo_quoted(view_of(request, n), &got, &checksum), 0);
		assert_true(ipaddr_equal(&got.src, &e.src) && ipaddr_equal(&got.dst, &e.dst));
		assert_int_equal(got.id << 16 | got.seq, 0x12340009);
		assert_int_equal(got.data.n, 8);
		assert_int_equal(checksum, get_u16(request + n - 8 - 6));
		/* the least that RFC 792 quotes, and less */
		assert_int_equal(icmp_echo_quoted(view_of(request, n - 8), &got, &checksum), 0);
		assert_int_equal(got.data.n, 0);
		for (size_t less = 0; less < n - 8; less++)
			assert_int_equal(icmp_echo_quoted(view_of(request, less), &got, &checksum),
				-EBADMSG);
		/* a request is no error */
		assert_int_equal(ip_parse(view_of(request, n), &v), 0);
		assert_int_equal(icmp_error_parse(view_of(request, n), &v, &told), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_error_has_its_type),
		cmocka_unit_test(quotes_as_much_as_fits),
		cmocka_unit_test(no_errors_about_errors),
		cmocka_unit_test(no_errors_to_or_about_groups),
		cmocka_unit_test(no_errors_about_later_fragments),
		cmocka_unit_test(echo_goes_and_comes),
		cmocka_unit_test(errors_are_read_with_their_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
