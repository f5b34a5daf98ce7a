/* Reads Babel packets: one row a TLV type. The packet is checked whole; a TLV whose own form is
 * wrong is ignored, the others count (RFC 8966 4; sub-TLVs 4.4, parser state 4.5; RFC 9079 7;
 * RFC 9229 4; RFC 9616 6; RFC 8967 6). */
#include "babel/tlv_priv.h"

#include <string.h>
#include "base/mem.h"

enum {
	SUB_PAD1 = 0,
	SUB_TIMESTAMP = 3,
	SUB_SOURCE_PREFIX = 128,
	SUB_MANDATORY = 0x80,
	FLAG_UNICAST = 0x8000,
	FLAG_PREFIX = 0x80,
	FLAG_ROUTER_ID = 0x40,
	LINK_LOCAL_BYTES = 8,
	PC_BYTES = 4,
};

enum verdict { KEEP, IGNORE, BAD, MANDATORY };

/* RFC 8966 4.5. */
struct parser {
	bool has_router_id;
	uint8_t router_id[8];
	struct ipaddr next_hop4, next_hop6;
	bool has_prefix[BABEL_AE_4VIA6 + 1];
	uint8_t prefix[BABEL_AE_4VIA6 + 1][16];
	uint8_t ae; /* of the TLV at hand: its source prefix has the same family */
	bool saw_source;
};

bool babel_router_id_valid(const uint8_t id[static 8])
{
	uint8_t all = 0xff, any = 0;

	for (int i = 0; i < 8; i++) {
		all &= id[i];
		any |= id[i];
	}
	return any != 0 && all != 0xff;
}

static enum ip_family ae_family(uint8_t ae)
{
	return ae == BABEL_AE_IP4 || ae == BABEL_AE_4VIA6 ? IP4 : IP6;
}

static bool ae_is_prefix(uint8_t ae)
{
	return ae >= BABEL_AE_IP4 && ae <= BABEL_AE_4VIA6;
}

/* Reads the octets of a prefix whose first `omitted` octets are those of def. */
static bool read_octets(struct cur *c, uint8_t plen, uint8_t omitted, uint8_t bytes[static 16])
{
	size_t whole = (plen + 7u) / 8u;

	/* more left out than the prefix has: nothing follows, the rest is cleared */
	if (omitted < whole)
		cur_copy(c, bytes + omitted, whole - omitted);
	return !c->bad;
}

/* A prefix without compression, of a request or a source (RFC 8966 4.1.5). */
static bool read_prefix(struct cur *c, uint8_t ae, uint8_t plen, struct prefix *ret)
{
	enum ip_family family = ae_family(ae);
	uint8_t bytes[16] = {0};
	struct ipaddr a;

	if (ae == BABEL_AE_LINK_LOCAL) {
		bytes[0] = 0xfe;
		bytes[1] = 0x80;
		if (plen < 64 || plen > 128)
			return false;
		cur_copy(c, bytes + LINK_LOCAL_BYTES, (plen - 64u + 7u) / 8u);
	} else {
		if (plen > (family == IP4 ? 32 : 128) || !read_octets(c, plen, 0, bytes))
			return false;
	}
	a = ipaddr_from(family, bytes);
	*ret = prefix_of(&a, plen);
	return !c->bad;
}

/* An address of a neighbour or next hop; IP_NONE with AE 0. */
static enum verdict read_address(struct cur *c, uint8_t ae, struct ipaddr *ret)
{
	uint8_t bytes[16] = {0};

	switch (ae) {
	case BABEL_AE_ANY:
		*ret = (struct ipaddr){0};
		return KEEP;
	case BABEL_AE_IP4:
		cur_copy(c, bytes, 4);
		*ret = ipaddr_from(IP4, bytes);
		break;
	case BABEL_AE_IP6:
		cur_copy(c, bytes, 16);
		*ret = ipaddr_from(IP6, bytes);
		break;
	case BABEL_AE_LINK_LOCAL:
		bytes[0] = 0xfe;
		bytes[1] = 0x80;
		cur_copy(c, bytes + LINK_LOCAL_BYTES, LINK_LOCAL_BYTES);
		*ret = ipaddr_from(IP6, bytes);
		break;
	default: /* RFC 9229 2.4: 4 neither */
		return IGNORE;
	}
	return c->bad ? BAD : KEEP;
}

static enum verdict read_ack_request(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	(void)p;
	cur_skip(c, 2);
	t->ack.opaque = cur_u16(c);
	t->ack.interval = cur_u16(c);
	return t->ack.interval ? KEEP : BAD;
}

static enum verdict read_ack(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	(void)p;
	t->ack.opaque = cur_u16(c);
	return KEEP;
}

static enum verdict read_hello(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	(void)p;
	t->hello.unicast = cur_u16(c) & FLAG_UNICAST;
	t->hello.seqno = cur_u16(c);
	t->hello.interval = cur_u16(c);
	return KEEP;
}

static enum verdict read_ihu(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	uint8_t ae = cur_u8(c);

	(void)p;
	cur_skip(c, 1);
	t->ihu.rxcost = cur_u16(c);
	t->ihu.interval = cur_u16(c);
	if (!t->ihu.interval)
		return BAD;
	return read_address(c, ae, &t->ihu.to);
}

static enum verdict read_router_id(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	uint8_t id[8];

	(void)t;
	cur_skip(c, 2);
	cur_copy(c, id, sizeof(id));
	p->has_router_id = babel_router_id_valid(id);
	memcpy(p->router_id, id, sizeof(id));
	return p->has_router_id ? IGNORE : BAD;
}

static enum verdict read_next_hop(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	uint8_t ae = cur_u8(c);
	struct ipaddr a = {0};
	enum verdict v;

	(void)t;
	cur_skip(c, 1);
	v = read_address(c, ae, &a);
	if (v != KEEP)
		return v;
	if (a.family == IP4)
		p->next_hop4 = a;
	else if (a.family == IP6)
		p->next_hop6 = a;
	return a.family == IP_NONE ? BAD : IGNORE;
}

/* The prefix of an Update, compression and the state that it sets (RFC 8966 4.6.9). */
static enum verdict read_update_prefix(struct parser *p, struct cur *c, struct babel_tlv *t,
	const uint8_t head[static 4])
{
	uint8_t ae = head[0], flags = head[1], plen = head[2], omitted = head[3];
	enum ip_family family = ae_family(ae);
	uint8_t bytes[16] = {0};
	struct ipaddr a;

	if (ae == BABEL_AE_LINK_LOCAL) {
		if (omitted || !read_prefix(c, ae, plen, &t->update.prefix.destination))
			return BAD;
		memcpy(bytes, t->update.prefix.destination.addr.b, sizeof(bytes));
	} else {
		if (plen > (family == IP4 ? 32 : 128) || omitted > (family == IP4 ? 4 : 16))
			return BAD;
		if (omitted) {
			if (!p->has_prefix[ae])
				return BAD;
			memcpy(bytes, p->prefix[ae], omitted);
		}
		if (!read_octets(c, plen, omitted, bytes))
			return BAD;
		a = ipaddr_from(family, bytes);
		t->update.prefix.destination = prefix_of(&a, plen);
		memcpy(bytes, t->update.prefix.destination.addr.b, sizeof(bytes));
		if (flags & FLAG_PREFIX) {
			p->has_prefix[ae] = true;
			memcpy(p->prefix[ae], bytes, sizeof(bytes));
		}
	}
	if (flags & FLAG_ROUTER_ID) {
		uint8_t id[8] = {0};

		if (family == IP4)
			memcpy(id + 4, bytes, 4);
		else
			memcpy(id, bytes + 8, 8);
		p->has_router_id = babel_router_id_valid(id);
		memcpy(p->router_id, id, sizeof(id));
	}
	return KEEP;
}

static enum verdict read_update(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	uint8_t head[4];
	const struct ipaddr *hop;
	enum verdict v;

	cur_copy(c, head, sizeof(head));
	t->update.interval = cur_u16(c);
	t->update.seqno = cur_u16(c);
	t->update.metric = cur_u16(c);
	if (head[0] == BABEL_AE_ANY) { /* only the retraction of everything has no address */
		t->update.wildcard = true;
		return t->update.metric == BABEL_INFINITY && !head[2] && !head[3] ? KEEP : BAD;
	}
	if (!ae_is_prefix(head[0]))
		return IGNORE;
	p->ae = head[0];
	v = read_update_prefix(p, c, t, head);
	if (v != KEEP) { /* what it should have set is not known now */
		if (head[1] & FLAG_PREFIX)
			p->has_prefix[head[0]] = false;
		if (head[1] & FLAG_ROUTER_ID)
			p->has_router_id = false;
		return v;
	}
	if (t->update.metric == BABEL_INFINITY)
		return KEEP; /* needs neither router-id nor next hop nor interval */
	hop = head[0] == BABEL_AE_IP4 ? &p->next_hop4 : &p->next_hop6;
	if (!p->has_router_id || hop->family == IP_NONE || !t->update.interval)
		return BAD;
	memcpy(t->update.router_id, p->router_id, sizeof(t->update.router_id));
	t->update.next_hop = *hop;
	return KEEP;
}

static enum verdict read_route_request(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	uint8_t ae = cur_u8(c), plen = cur_u8(c);

	if (ae == BABEL_AE_ANY) {
		t->request.wildcard = true;
		return plen ? BAD : KEEP;
	}
	if (!ae_is_prefix(ae))
		return IGNORE;
	p->ae = ae;
	return read_prefix(c, ae, plen, &t->request.prefix.destination) ? KEEP : BAD;
}

static enum verdict read_seqno_request(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	uint8_t ae = cur_u8(c), plen = cur_u8(c);

	t->request.seqno = cur_u16(c);
	t->request.hop_count = cur_u8(c);
	cur_skip(c, 1);
	cur_copy(c, t->request.router_id, sizeof(t->request.router_id));
	if (ae == BABEL_AE_ANY)
		return BAD;
	if (!ae_is_prefix(ae))
		return IGNORE;
	p->ae = ae;
	if (!t->request.hop_count || !babel_router_id_valid(t->request.router_id))
		return BAD;
	return read_prefix(c, ae, plen, &t->request.prefix.destination) ? KEEP : BAD;
}

static enum verdict read_pc(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	(void)p;
	t->pc.pc = cur_u32(c);
	t->pc.index = cur_rest(c);
	return t->pc.index.n <= BABEL_INDEX_MAX ? KEEP : BAD;
}

static enum verdict read_nonce(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	(void)p;
	t->bytes = cur_rest(c);
	return t->bytes.n <= BABEL_NONCE_MAX ? KEEP : BAD;
}

static const struct row {
	uint8_t min; /* of the body */
	enum verdict (*read)(struct parser *p, struct cur *c, struct babel_tlv *t);
} rows[BABEL_TLV_COUNT] = {
	[BABEL_TLV_ACK_REQUEST] = {6, read_ack_request},
	[BABEL_TLV_ACK] = {2, read_ack},
	[BABEL_TLV_HELLO] = {6, read_hello},
	[BABEL_TLV_IHU] = {6, read_ihu},
	[BABEL_TLV_ROUTER_ID] = {10, read_router_id},
	[BABEL_TLV_NEXT_HOP] = {2, read_next_hop},
	[BABEL_TLV_UPDATE] = {10, read_update},
	[BABEL_TLV_ROUTE_REQUEST] = {2, read_route_request},
	[BABEL_TLV_SEQNO_REQUEST] = {14, read_seqno_request},
	[BABEL_TLV_PC] = {PC_BYTES, read_pc},
	[BABEL_TLV_CHALLENGE] = {0, read_nonce},
	[BABEL_TLV_CHALLENGE_REPLY] = {0, read_nonce},
};

/* RFC 9616 6: too short is as if it were not there, what is too much is ignored. */
static void sub_timestamp(struct babel_tlv *t, struct cur c)
{
	if (t->type == BABEL_TLV_HELLO && c.n >= 4) {
		t->hello.has_time = true;
		t->hello.time = cur_u32(&c);
	} else if (t->type == BABEL_TLV_IHU && c.n >= 8) {
		t->ihu.has_time = true;
		t->ihu.origin = cur_u32(&c);
		t->ihu.receive = cur_u32(&c);
	}
}

static void sub_loss(struct babel_tlv *t, struct cur c)
{
	uint16_t mark;

	if (t->type != BABEL_TLV_IHU || c.n != 4)
		return;
	mark = cur_u16(&c);
	if (mark != BABEL_SUB_LOSS_DATA && mark != BABEL_SUB_LOSS_HELLOS)
		return;
	t->ihu.loss = cur_u16(&c);
	t->ihu.loss_of_hellos = mark == BABEL_SUB_LOSS_HELLOS;
}

/* RFC 9079 7.1: never two, never of no length, never with a wildcard. */
static enum verdict sub_source(struct parser *p, struct babel_tlv *t, struct cur c)
{
	bool update = t->type == BABEL_TLV_UPDATE;
	bool request = t->type == BABEL_TLV_ROUTE_REQUEST || t->type == BABEL_TLV_SEQNO_REQUEST;
	bool wildcard = update ? t->update.wildcard : request && t->request.wildcard;
	struct babel_prefix *out = update ? &t->update.prefix : &t->request.prefix;
	uint8_t plen = cur_u8(&c);

	if (!update && !request)
		return MANDATORY;
	if (wildcard || p->saw_source || !plen)
		return BAD;
	p->saw_source = true;
	return read_prefix(&c, ae_family(p->ae) == IP4 ? BABEL_AE_IP4 : BABEL_AE_IP6, plen,
		       &out->source)
		? KEEP
		: BAD;
}

/* RFC 8966 4.4. The parser's state has been set before. */
static enum verdict read_subs(struct parser *p, struct cur *c, struct babel_tlv *t)
{
	p->saw_source = false;
	while (c->n && !c->bad) {
		uint8_t type = cur_u8(c);
		enum verdict v = KEEP;
		struct cur body;

		if (type == SUB_PAD1)
			continue;
		body = cur_sub(c, cur_u8(c));
		if (c->bad)
			return BAD;
		if (type == SUB_TIMESTAMP)
			sub_timestamp(t, body);
		else if (type == BABEL_SUB_LOSS)
			sub_loss(t, body);
		else if (type == SUB_SOURCE_PREFIX)
			v = sub_source(p, t, body);
		else if (type & SUB_MANDATORY)
			v = MANDATORY;
		if (v != KEEP)
			return v;
	}
	return KEEP;
}

static bool add(struct babel_parsed *out, const struct babel_tlv *t)
{
	enum { FIRST = 64 };

	if (out->n == out->cap) {
		size_t cap = out->cap ? out->cap * 2 : FIRST;
		struct babel_tlv *more = w_realloc(out->tlv, cap * sizeof(*more));

		if (!more)
			return false;
		out->tlv = more;
		out->cap = cap;
	}
	out->tlv[out->n++] = *t;
	return true;
}

static enum verdict read_one(struct parser *p, uint8_t type, struct cur body, struct babel_tlv *t)
{
	const struct row *row = type < BABEL_TLV_COUNT ? &rows[type] : NULL;
	enum verdict v, sub;

	if (!row || !row->read)
		return IGNORE;
	*t = (struct babel_tlv){.type = type};
	if (body.n < row->min)
		return BAD;
	v = row->read(p, &body, t);
	if (v != KEEP)
		return v;
	sub = read_subs(p, &body, t);
	return body.bad ? BAD : sub;
}

enum babel_parse_error babel_parse(struct view packet, const struct ipaddr *source,
	struct babel_parsed *ret)
{
	struct cur c = cur_view(packet), body;
	struct parser p = {.next_hop6 = source->family == IP6 ? *source : (struct ipaddr){0},
		.next_hop4 = source->family == IP4 ? *source : (struct ipaddr){0}};
	uint8_t magic = cur_u8(&c), version = cur_u8(&c);
	uint16_t length = cur_u16(&c);

	ret->n = 0;
	ret->malformed = ret->mandatory = 0;
	if (c.bad || magic != BABEL_MAGIC || length > c.n)
		return BABEL_PARSE_MALFORMED;
	if (version != BABEL_VERSION)
		return BABEL_PARSE_VERSION;
	ret->signed_part = view_of(packet.p, (size_t)BABEL_HEADER + length);
	body = cur_sub(&c, length);
	ret->trailer = cur_rest(&c);
	while (body.n) {
		uint8_t type = cur_u8(&body);
		struct babel_tlv t;
		enum verdict v;
		struct cur one;

		if (type == BABEL_TLV_PAD1)
			continue;
		one = cur_sub(&body, cur_u8(&body));
		if (body.bad) /* a TLV longer than what is left: nothing here can be trusted */
			return BABEL_PARSE_MALFORMED;
		v = read_one(&p, type, one, &t);
		ret->malformed += v == BAD;
		ret->mandatory += v == MANDATORY;
		if (v == KEEP && !add(ret, &t))
			return BABEL_PARSE_NO_MEMORY;
	}
	return BABEL_PARSE_OK;
}

bool babel_trailer_mac(struct cur *trailer, struct view *ret)
{
	while (trailer->n && !trailer->bad) {
		uint8_t type = cur_u8(trailer);
		struct view body;

		if (type == BABEL_TLV_PAD1)
			continue;
		body = cur_take(trailer, cur_u8(trailer));
		if (type == BABEL_TLV_MAC && !trailer->bad) {
			*ret = body;
			return true;
		}
	}
	return false;
}

void babel_parsed_free(struct babel_parsed *p)
{
	w_free(p->tlv);
	*p = (struct babel_parsed){0};
}
