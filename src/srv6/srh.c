/* The routing header (RFC 8754 2) and the chain of extension headers around it (RFC 8200 4). */
#include "srv6/srv6.h"

#include <errno.h>

enum {
	NEXT_AT = 6,
	SEGMENTS_LEFT_AT = 3,
	LAST_ENTRY_AT = 4,
	TLV_PAD1 = 0,
	TLV_HMAC = 5,
	FRAGMENT_HEADER = 8,
	FRAGMENT_OFFSET = 0xfff8,
	FRAGMENT_MORE = 1,
};

/* RFC 8754 2.1: Pad1 is one byte, all others have a length. Offset of one that does not fit in
 * *ret_bad. */
static bool tlvs_read(struct cur c, uint32_t at, bool *ret_hmac, uint32_t *ret_bad)
{
	size_t n = c.n;

	*ret_hmac = false;
	while (c.n > 0) {
		uint32_t here = at + (uint32_t)(n - c.n);
		uint8_t type = cur_u8(&c);

		if (type == TLV_PAD1)
			continue;
		cur_skip(&c, cur_u8(&c));
		if (c.bad) {
			*ret_bad = here;
			return false;
		}
		if (type == TLV_HMAC)
			*ret_hmac = true;
	}
	return true;
}

int srv6_srh_parse(struct view packet, uint32_t at, struct srv6_srh *ret, uint32_t *ret_pointer)
{
	struct cur c = cur_view(packet);
	struct srv6_srh s = {.at = at};
	uint8_t units, type;
	uint32_t list;

	cur_skip(&c, at);
	s.next_header = cur_u8(&c);
	units = cur_u8(&c);
	type = cur_u8(&c);
	s.segments_left = cur_u8(&c);
	s.last_entry = cur_u8(&c);
	cur_skip(&c, SRV6_FIXED - LAST_ENTRY_AT - 1);
	c = cur_sub(&c, units * 8U);
	if (c.bad || type != SRV6_ROUTING_TYPE)
		return -EBADMSG;
	s.len = SRV6_FIXED + units * 8U;
	s.segments_at = at + SRV6_FIXED;
	list = (s.last_entry + 1U) * SRV6_SEGMENT;
	/* RFC 8986 4.1 S08, S09: max_LE = Hdr Ext Len / 2 - 1, which is -1 without any. */
	if (s.last_entry + 1U > units / 2U || s.segments_left > s.last_entry + 1U) {
		*ret_pointer = at + SEGMENTS_LEFT_AT;
		return -EINVAL;
	}
	cur_skip(&c, list);
	if (!tlvs_read(c, s.segments_at + list, &s.hmac, ret_pointer))
		return -EINVAL;
	*ret = s;
	return 0;
}

/* An extension header that the walk passes over, or not. */
enum passed { PASSED, STOPPED, CUT };

static enum passed pass(struct cur *c, uint32_t at, bool all, struct srv6_chain *ch)
{
	struct cur h = *c;
	uint8_t next, units, type, left;
	uint16_t fragment;

	switch (ch->upper) {
	case IP_PROTO_HOP_BY_HOP:
	case IP_PROTO_DEST_OPTIONS:
	case IP_PROTO_ROUTING:
		next = cur_u8(&h);
		units = cur_u8(&h);
		type = cur_u8(&h);
		left = cur_u8(&h);
		cur_skip(&h, 4 + units * 8U);
		if (h.bad)
			return CUT;
		if (ch->upper == IP_PROTO_ROUTING && left > 0 && !all) {
			ch->active = true;
			ch->routing_type = type;
			ch->routing_at = at;
			return STOPPED;
		}
		break;
	case IP_PROTO_FRAGMENT:
		next = cur_u8(&h);
		cur_skip(&h, 1);
		fragment = cur_u16(&h);
		cur_skip(&h, FRAGMENT_HEADER - 4);
		if (h.bad)
			return CUT;
		/* RFC 6946: an atomic fragment is a whole packet. */
		ch->fragment = fragment & (FRAGMENT_OFFSET | FRAGMENT_MORE);
		break;
	default:
		return STOPPED;
	}
	*c = h;
	ch->upper = next;
	return ch->fragment ? STOPPED : PASSED;
}

static int walk(struct view packet, bool all, struct srv6_chain *ret)
{
	struct cur c = cur_view(packet);
	struct srv6_chain ch = {0};
	enum passed p;

	cur_skip(&c, NEXT_AT);
	ch.upper = cur_u8(&c);
	cur_skip(&c, IP6_HEADER - NEXT_AT - 1);
	if (c.bad)
		return -EBADMSG;
	do {
		p = pass(&c, (uint32_t)(packet.n - c.n), all, &ch);
	} while (p == PASSED);
	if (p == CUT)
		return -EBADMSG;
	ch.upper_at = (uint32_t)(packet.n - c.n);
	*ret = ch;
	return 0;
}

int srv6_chain_walk(struct view packet, struct srv6_chain *ret)
{
	return walk(packet, false, ret);
}

int srv6_chain_walk_all(struct view packet, struct srv6_chain *ret)
{
	return walk(packet, true, ret);
}

/* Bytes of an extension header that are still to be skipped, its first four being read. */
static uint32_t rest_of(uint8_t header, uint8_t units)
{
	if (header == IP_PROTO_FRAGMENT)
		return FRAGMENT_HEADER - 4;
	if (header == IP_PROTO_AH) /* RFC 4302 2.2 */
		return (units + 2U) * 4 - 4;
	return (units + 1U) * 8 - 4;
}

bool srv6_has_srh(struct view packet)
{
	struct cur c = cur_view(packet);
	uint8_t next;

	cur_skip(&c, NEXT_AT);
	next = cur_u8(&c);
	cur_skip(&c, IP6_HEADER - NEXT_AT - 1);
	while (next == IP_PROTO_HOP_BY_HOP || next == IP_PROTO_DEST_OPTIONS ||
		next == IP_PROTO_ROUTING || next == IP_PROTO_FRAGMENT || next == IP_PROTO_AH) {
		uint8_t header = next, units;
		uint16_t word;

		next = cur_u8(&c);
		units = cur_u8(&c);
		word = cur_u16(&c);
		if (c.bad)
			return true;
		if (header == IP_PROTO_ROUTING && word >> 8 == SRV6_ROUTING_TYPE)
			return true;
		if (header == IP_PROTO_FRAGMENT && (word & FRAGMENT_OFFSET) != 0)
			return false; /* what follows is no header */
		cur_skip(&c, rest_of(header, units));
	}
	return c.bad;
}
