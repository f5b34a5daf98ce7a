/* Superpackets cut, against a plain description of what each packet is; frames that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/rng.h"
#include "wire/gso.h"
#include "wire/packets_test.h"

enum { ROOM = 66000, FIN = 1, PSH = 8, ACK = 16, ECE = 64, CWR = 128 };

static uint8_t frame[ROOM], packet[ROOM], expect[ROOM];

/* Makes the superpacket of f: as the kernel hands it over, the checksum field holds the
 * pseudo-header's sum only. */
static struct tun_rx superpacket(const struct flow_packet *f, uint16_t size)
{
	static const uint8_t types[2][2] = {{GSO_TCP4, GSO_TCP6}, {GSO_UDP4, GSO_UDP6}};
	uint32_t n = write_packet(f, frame), field = f->udp ? 6 : 16;
	uint16_t l4 = (uint16_t)(n - f->payload - (f->udp ? 8u : 20u + f->tcp_options));

	put_u16(frame + l4 + field,
		naive_pseudo(frame, f->udp ? IP_PROTO_UDP : IP_PROTO_TCP, n - l4));
	return (struct tun_rx){.data = frame,
		.len = n,
		.gso = {
			.type = types[f->udp][f->v6],
			.needs_csum = true,
			.size = size,
			.hdr_len = 7, /* never trusted */
			.csum_start = l4,
			.csum_offset = (uint16_t)field,
		}};
}

/* Segment i of f, described. */
static struct flow_packet segment_of(const struct flow_packet *f, uint32_t i, uint32_t size)
{
	struct flow_packet s = *f;
	bool last = f->payload <= (i + 1) * size;

	s.payload = last ? f->payload - i * size : size;
	s.seq += i * size;
	s.id = (uint16_t)(s.id + i);
	s.fill = (uint8_t)(s.fill + i * size * 7);
	if (i > 0)
		s.flags &= (uint8_t)~CWR;
	if (!last)
		s.flags &= (uint8_t) ~(FIN | PSH);
	return s;
}

static void check_split(const struct flow_packet *f, uint16_t size)
{
	struct tun_rx rx = superpacket(f, size);
	uint32_t count = (f->payload + size - 1) / size;
	struct gso_split s;

	assert_int_equal(gso_split_init(&rx, &s), DROP_NONE);
	assert_int_equal(s.segments, count);
	for (uint32_t i = 0; i < count; i++) {
		struct flow_packet seg = segment_of(f, i, size);
		uint32_t n = write_packet(&seg, expect);

		memset(packet, 0xaa, n + 1);
		assert_int_equal(n, i + 1 < count ? s.seg_len : s.last_len);
		assert_int_equal(gso_split_write(&s, i, packet), n);
		assert_memory_equal(packet, expect, n);
		assert_int_equal(packet[n], 0xaa);
		assert_true(checksums_right(packet, n));
	}
}

static void superpackets_become_packets(void **state)
{
	static const uint16_t sizes[] = {1, 7, 100, 1348, 1400, 8948};
	static const uint8_t flags[] = {ACK, ACK | PSH, ACK | FIN, ACK | PSH | FIN | CWR | ECE,
		ACK | CWR};

	(void)state;
	for (uint32_t i = 0; i < 5 * 6 * 8; i++) {
		uint16_t size = sizes[i % 6];
		struct flow_packet f = {.v6 = i & 1,
			.udp = i & 2,
			.tos = 0x02,
			.ttl = 64,
			.df = i & 4,
			.id = 0xfffe,
			.flow_label = 0x54321,
			.host = 3,
			.sport = 40000,
			.dport = 443,
			.seq = 0xfffffff0,
			.ack = 0x01020304,
			.flags = flags[i % 5],
			.window = 0x7fff,
			.tcp_options = i & 4 ? 12 : 0,
			.fill = (uint8_t)i};

		for (uint32_t k = 0; k < 4; k++) {
			f.payload = (uint32_t[]){size * 3u, size * 3u + 1, size - 1u, size}[k];
			if (f.payload)
				check_split(&f, size);
		}
	}
}

static void headers_with_options(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		check_split(&(struct flow_packet){.v6 = v6,
				    .ttl = 5,
				    .ip_options = 40,
				    .flags = ACK,
				    .tcp_options = 40,
				    .payload = 3000},
			1000);
		check_split(&(struct flow_packet){.v6 = v6,
				    .ttl = 5,
				    .ip_options = 16,
				    .udp = true,
				    .payload = 3000},
			1000);
	}
}

static void random_superpackets(void **state)
{
	struct rng_seeded seed;
	struct rng rng = rng_seeded_init(&seed, 9293);

	(void)state;
	for (uint32_t i = 0; i < 300; i++) {
		struct flow_packet f;
		uint64_t size, payload;

		assert_int_equal(rng_fill(&rng, &f, sizeof(f)), 0);
		f.v6 = i & 1;
		f.udp = i & 2;
		f.df = f.no_csum = f.bad_csum = f.mf = false;
		f.ip_options = 0;
		f.tcp_options &= 0x1c;
		f.flow_label &= 0xfffff;
		assert_int_equal(rng_below(&rng, 1500, &size), 0);
		assert_int_equal(rng_below(&rng, 20000, &payload), 0);
		f.payload = (uint32_t)payload + 1;
		check_split(&f, (uint16_t)(size + 20));
	}
}

/* UDP sums that come out as zero are sent as all ones (RFC 768). */
static void udp_sum_is_never_zero(void **state)
{
	struct flow_packet f = {.udp = true, .ttl = 1, .payload = 2, .sport = 1, .dport = 2};
	struct gso_split s;
	uint32_t ones = 0;

	(void)state;
	for (uint32_t port = 0; port < 65536; port++) {
		struct tun_rx rx;

		f.sport = (uint16_t)port;
		rx = superpacket(&f, 100);
		assert_int_equal(gso_split_init(&rx, &s), DROP_NONE);
		gso_split_write(&s, 0, packet);
		assert_int_not_equal(get_u16(packet + 26), 0);
		ones += get_u16(packet + 26) == 0xffff;
		rx.gso.type = GSO_NONE;
		assert_int_equal(gso_split_init(&rx, &s), DROP_NONE);
		gso_split_write(&s, 0, expect);
		assert_memory_equal(packet, expect, 30);
	}
	assert_true(ones > 0);
}

static void udp_without_checksum_stays_so(void **state)
{
	struct flow_packet f = {.udp = true, .ttl = 1, .payload = 2000};
	struct tun_rx rx = superpacket(&f, 1000);
	struct gso_split s;

	(void)state;
	put_u16(frame + 26, 0);
	rx.gso.needs_csum = false;
	assert_int_equal(gso_split_init(&rx, &s), DROP_NONE);
	gso_split_write(&s, 1, packet);
	assert_int_equal(get_u16(packet + 26), 0);
}

static void plain_packets_are_completed(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 8; k++) {
		struct flow_packet f = {.v6 = k & 1,
			.udp = k & 2,
			.ttl = 64,
			.host = 9,
			.flags = ACK,
			.sport = 77,
			.payload = 100 + k};
		struct tun_rx rx = superpacket(&f, 0);
		uint32_t n = write_packet(&f, expect);
		struct gso_split s;

		superpacket(&f, 0);
		rx.gso.type = GSO_NONE;
		if (k & 4) {
			assert_int_equal(gso_complete(&rx), DROP_NONE);
			assert_false(rx.gso.needs_csum);
		}
		assert_int_equal(gso_split_init(&rx, &s), DROP_NONE);
		assert_int_equal(s.segments, 1);
		assert_int_equal(s.last_len, n);
		assert_int_equal(gso_split_write(&s, 0, packet), n);
		assert_memory_equal(packet, expect, n);
	}
}

static void frames_that_lie_are_refused(void **state)
{
	struct flow_packet f = {.ttl = 64, .flags = ACK, .payload = 3000, .tcp_options = 12};
	const struct tun_rx good = superpacket(&f, 1000);
	struct tun_rx rx;
	struct gso_split s;

	(void)state;
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		rx = good;                                                                         \
		superpacket(&f, 1000);                                                             \
		change;                                                                            \
		assert_int_equal(gso_split_init(&rx, &s), DROP_BAD_OFFLOAD);                       \
	} while (0)
	REFUSED(rx.gso.size = 0);
	REFUSED(rx.gso.size = 1); /* 3000 segments */
	REFUSED(rx.gso.type = GSO_TCP6);
	REFUSED(rx.gso.type = GSO_UDP4);
	REFUSED(rx.gso.type = GSO_UDP6 + 1);
	REFUSED(rx.gso.csum_start = 24);
	REFUSED(rx.gso.csum_offset = 6);
	REFUSED(rx.len++);
	REFUSED(frame[32] = 0x40);                               /* TCP header of 16 bytes */
	REFUSED(frame[6] = 0x20; ip4_write_checksum(frame, 20)); /* a fragment */
	REFUSED(rx.gso.type = GSO_NONE; rx.gso.csum_start = 19);
	REFUSED(rx.gso.type = GSO_NONE; rx.gso.csum_start = 3040; rx.gso.csum_offset = 11);
	REFUSED(rx.gso.type = GSO_NONE; rx.gso.csum_start = 65535; rx.gso.csum_offset = 65535);
	f.payload = 0;
	REFUSED(rx.len = 52);
	f.payload = 3000;
#undef REFUSED
	rx = good;
	superpacket(&f, 1000);
	for (uint32_t cut = 0; cut < good.len; cut++) {
		rx.len = cut;
		assert_int_equal(gso_split_init(&rx, &s), DROP_BAD_IP);
	}
	/* a TCP header longer than the packet */
	f.payload = 1;
	f.tcp_options = 0;
	rx = superpacket(&f, 1000);
	frame[32] = 0xf0;
	assert_int_equal(gso_split_init(&rx, &s), DROP_BAD_OFFLOAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(superpackets_become_packets),
		cmocka_unit_test(headers_with_options),
		cmocka_unit_test(random_superpackets),
		cmocka_unit_test(udp_sum_is_never_zero),
		cmocka_unit_test(udp_without_checksum_stays_so),
		cmocka_unit_test(plain_packets_are_completed),
		cmocka_unit_test(frames_that_lie_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
