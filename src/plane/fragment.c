/* An IPv4 packet that allows it is fragmented when the link is too small for it (RFC 791 section
 * 3.2): the inner packet, not the datagram that carries it, so that it takes any path. */
#include "plane/plane_priv.h"

#include <string.h>

enum {
	TOTAL_AT = 2,
	FRAGMENT_AT = 6,
	MORE = 0x2000,
	OFFSET = 0x1fff,
	OPTION_COPIED = 0x80,
	OPTION_END = 0,
	OPTION_NOP = 1,
	HEADER_MAX = 60,
};

/* The header of all fragments but the first: options without the copied flag are left out (RFC 791
 * section 3.1). Returns its length. */
static uint32_t later_header(const uint8_t *packet, uint32_t header, uint8_t out[static HEADER_MAX])
{
	struct cur c = cur_of(packet, header);
	struct wcur w = wcur_of(out, HEADER_MAX);

	wcur_view(&w, cur_take(&c, IP4_HEADER));
	while (c.n > 0) {
		struct cur peek = c;
		uint8_t type = cur_u8(&peek), n = 1;

		if (type == OPTION_END)
			break;
		if (type != OPTION_NOP)
			n = cur_u8(&peek);
		if (peek.bad || n < 1 || n > c.n || (type != OPTION_NOP && n < 2))
			break;
		if (type & OPTION_COPIED)
			wcur_view(&w, cur_take(&c, n));
		else
			cur_skip(&c, n);
	}
	wcur_zero(&w, (4 - w.len % 4) % 4);
	out[0] = (uint8_t)(IP4 << 4 | w.len / 4);
	return (uint32_t)w.len;
}

static void finish_header(uint8_t *ip, uint32_t header, uint32_t total, uint16_t fragment)
{
	put_u16(ip + TOTAL_AT, (uint16_t)total);
	put_u16(ip + FRAGMENT_AT, fragment);
	ip4_write_checksum(ip, header);
}

/* Sends one packet in pieces; DROP_NONE, or why the rest of it was lost. */
static enum drop_reason send_pieces(struct plane *p, const struct pkt *k, const uint8_t *packet,
	uint32_t len)
{
	struct tx_ask ask = {
		.link = k->pair->link,
		.tos = k->ip.tos,
		.next_header = IP_PROTO_IP4,
		.now = k->now,
	};
	uint32_t mtu = pkt_mtu(k), first = k->ip.header_len, header = first, at = first;
	uint16_t was = get_u16(packet + FRAGMENT_AT);
	uint8_t later[HEADER_MAX];
	uint32_t later_len = later_header(packet, first, later);
	enum drop_reason drop;

	while (at < len) {
		uint32_t n = (mtu - header) & ~UINT32_C(7), done = at - first;
		uint16_t more = MORE;
		uint8_t *text;

		if (n >= len - at) {
			n = len - at;
			more = was & MORE;
		}
		ask.len = header + n;
		text = pkt_room(p, k, &ask, &drop);
		if (!text)
			return drop;
		plane_count(&p->counters.fragments, 1);
		memcpy(text, at == first ? packet : later, header);
		memcpy(text + header, packet + at, n);
		finish_header(text, header, header + n,
			(uint16_t)(more | (((was & OFFSET) + done / 8) & OFFSET)));
		at += n;
		header = later_len;
	}
	plane_count(&p->counters.fragments, UINT64_MAX); /* one of them is the packet itself */
	return DROP_NONE;
}

enum plane_edge stage_fragment(struct plane *p, struct pkt *k)
{
	uint32_t segments = k->split ? k->split->segments : 1;

	if (pkt_mtu(k) < k->ip.header_len + 8U)
		return edge_drop(k, DROP_TOO_BIG);
	for (uint32_t i = 0; i < segments; i++) {
		uint32_t len = k->split ? gso_split_write(k->split, i, p->scratch) : k->len;
		enum drop_reason r = send_pieces(p, k, k->split ? p->scratch : k->data, len);

		if (r != DROP_NONE)
			pkt_drop(p, r, 1);
		else
			plane_count(&p->counters.transit_packets, k->transit);
	}
	return EDGE_DONE;
}
