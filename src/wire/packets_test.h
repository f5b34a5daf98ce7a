/* Packets for the tests of this room, built with a checksum of the plainest kind. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/cur.h"
#include "wire/ip.h"

/* RFC 1071, word by word. */
static inline uint16_t naive_checksum(const uint8_t *p, size_t n, uint32_t sum)
{
	for (size_t i = 0; i < n; i++) {
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

static inline uint16_t naive_pseudo(const uint8_t *ip, uint8_t proto, uint32_t l4_len)
{
	bool v6 = ip[0] >> 4 == 6;
	uint32_t sum = naive_checksum(ip + (v6 ? 8 : 12), v6 ? 32 : 8, proto);

	sum += l4_len;
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* All that a test may vary in a packet. */
struct flow_packet {
	bool v6, udp;
	uint8_t tos, ttl;
	bool df, mf;
	uint16_t id;
	uint8_t ip_options; /* IPv4: bytes of them; IPv6: bytes of a destination options header */
	uint32_t flow_label;
	uint8_t host; /* last byte of the source address */
	uint16_t sport, dport;
	uint32_t seq, ack;
	uint8_t flags;
	uint16_t window, urgent;
	uint8_t tcp_options; /* bytes of them, all NOP */
	uint8_t option_byte; /* instead of NOP */
	bool no_csum, bad_csum;
	uint32_t payload;
	uint8_t fill; /* payload bytes count up from it */
};

static inline uint32_t write_ip_header(const struct flow_packet *f, uint32_t l4_len, uint8_t *p)
{
	uint8_t proto = f->udp ? IP_PROTO_UDP : IP_PROTO_TCP;
	uint32_t header = f->v6 ? IP6_HEADER : IP4_HEADER + f->ip_options;

	memset(p, 0, IP6_HEADER + f->ip_options);
	if (f->v6) {
		put_u32(p, 6u << 28 | (uint32_t)f->tos << 20 | f->flow_label);
		put_u16(p + 4, (uint16_t)(f->ip_options + l4_len));
		p[6] = f->ip_options ? IP_PROTO_DEST_OPTIONS : proto;
		p[7] = f->ttl;
		p[8] = p[24] = 0xfd;
		p[23] = f->host;
		p[39] = 9;
		if (f->ip_options) { /* one PadN option */
			p[40] = proto;
			p[41] = (uint8_t)(f->ip_options / 8 - 1);
			p[42] = 1;
			p[43] = (uint8_t)(f->ip_options - 4);
		}
		return header + f->ip_options;
	}
	p[0] = (uint8_t)(0x40 | header / 4);
	p[1] = f->tos;
	put_u16(p + 2, (uint16_t)(header + l4_len));
	put_u16(p + 4, f->id);
	put_u16(p + 6, (uint16_t)((f->df ? 0x4000 : 0) | (f->mf ? 0x2000 : 0)));
	p[8] = f->ttl;
	p[9] = proto;
	put_u32(p + 12, 0x0a000000 | f->host);
	put_u32(p + 16, 0x0a010101);
	memset(p + IP4_HEADER, 1, f->ip_options); /* NOP */
	put_u16(p + 10, (uint16_t)~naive_checksum(p, header, 0));
	return header;
}

/* Writes the packet; returns its length. */
static inline uint32_t write_packet(const struct flow_packet *f, uint8_t *p)
{
	uint32_t l4_header = f->udp ? UDP_HEADER : TCP_HEADER + f->tcp_options;
	uint32_t l4_len = l4_header + f->payload;
	uint32_t at = write_ip_header(f, l4_len, p);
	uint32_t field = f->udp ? 6 : 16;
	uint8_t *l4 = p + at;
	uint16_t sum;

	memset(l4, 0, l4_header);
	put_u16(l4, f->sport);
	put_u16(l4 + 2, f->dport);
	if (f->udp) {
		put_u16(l4 + 4, (uint16_t)l4_len);
	} else {
		put_u32(l4 + 4, f->seq);
		put_u32(l4 + 8, f->ack);
		l4[12] = (uint8_t)(l4_header / 4 << 4);
		l4[13] = f->flags;
		put_u16(l4 + 14, f->window);
		put_u16(l4 + 18, f->urgent);
		memset(l4 + TCP_HEADER, f->option_byte ? f->option_byte : 1, f->tcp_options);
	}
	for (uint32_t i = 0; i < f->payload; i++)
		l4[l4_header + i] = (uint8_t)(f->fill + i * 7);
	sum = (uint16_t)~naive_checksum(l4, l4_len,
		naive_pseudo(p, f->udp ? IP_PROTO_UDP : IP_PROTO_TCP, l4_len));
	if (f->udp && sum == 0)
		sum = 0xffff;
	if (f->bad_csum)
		sum ^= 0x0101;
	put_u16(l4 + field, f->no_csum ? 0 : sum);
	return at + l4_len;
}

/* True when the packet's checksums are right; a missing UDP checksum counts. */
static inline bool checksums_right(const uint8_t *p, uint32_t len)
{
	struct ip_view v;
	uint32_t l4_len;

	if (ip_parse(view_of(p, len), &v) < 0 || v.len != len)
		return false;
	if (v.family == IP4 && naive_checksum(p, v.header_len, 0) != 0xffff)
		return false;
	l4_len = len - v.l4;
	return naive_checksum(p + v.l4, l4_len, naive_pseudo(p, v.proto, l4_len)) == 0xffff;
}
