/* An IPv4 packet that allows it is fragmented when the link is too small for it (RFC 791 section
 * 3.2): the inner packet, not the datagram that carries it, so that it takes any path. */
#include "plane/plane_priv.h"

#include <string.h>

enum {
	TOTAL_AT = 2,
	FRAGMENT_AT = 6,
	CHECKSUM_AT = 10,
	MORE = 0x2000,
	OFFSET = 0x1fff,
	OPTION_COPIED = 0x80,
	OPTION_END = 0,
	OPTION_NOP = 1,
	HEADER_MAX = 60,
};

/* The header of all fragments but the first: options without the copied flag are left out (RFC 791
 * section 3.1). Returns its length. */
static uint32_t later_header(const struct pkt *k, uint8_t out[static HEADER_MAX])
{
	struct cur c = cur_of(k->data, k->transport);
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
	uint32_t sum = 0;

	put_u16(ip + TOTAL_AT, (uint16_t)total);
	put_u16(ip + FRAGMENT_AT, fragment);
	put_u16(ip + CHECKSUM_AT, 0);
	for (uint32_t i = 0; i < header; i += 2)
		sum += get_u16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	put_u16(ip + CHECKSUM_AT, (uint16_t) ~(sum + (sum >> 16)));
}

enum plane_edge stage_fragment(struct plane *p, struct pkt *k)
{
	struct tx_ask ask = {
		.link = k->pair->link,
		.tos = k->tos,
		.next_header = NEXT_IP4,
		.now = k->now,
	};
	uint8_t later[HEADER_MAX];
	uint32_t later_len = later_header(k, later), header = k->transport, at = header;
	uint16_t was = get_u16(k->data + FRAGMENT_AT);

	if (ask.link->mtu < header + 8)
		return edge_drop(k, DROP_TOO_BIG);
	while (at < k->len) {
		const uint8_t *head = at == k->transport ? k->data : later;
		uint32_t n = (ask.link->mtu - header) & ~UINT32_C(7), done = at - k->transport;
		uint16_t more = MORE;
		uint8_t *text;

		if (n >= k->len - at) {
			n = k->len - at;
			more = was & MORE;
		}
		ask.len = header + n;
		text = tx_room(p, &ask, &k->drop);
		if (!text)
			return EDGE_DROP;
		memcpy(text, head, header);
		memcpy(text + header, k->data + at, n);
		finish_header(text, header, header + n,
			(uint16_t)(more | (((was & OFFSET) + done / 8) & OFFSET)));
		at += n;
		header = later_len;
	}
	if (k->transit)
		plane_count(&p->counters.transit_packets, 1);
	return EDGE_DONE;
}
