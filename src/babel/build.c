/* Writes Babel packets (RFC 8966 4, 9079 7, 9229 4, 9616 6). Updates share the router-id and omit
 * the octets that their prefix has in common with the one before. */
#include "babel/tlv_priv.h"

#include <string.h>

enum {
	SUB_TIMESTAMP = 3,
	SUB_SOURCE_PREFIX = 128,
	FLAG_PREFIX = 0x80,
	LENGTH_AT = 2, /* of the body, in the header */
	LINK_LOCAL_BYTES = 8,
};

void babel_build_begin(struct babel_build *b, void *base, size_t cap, bool bare)
{
	*b = (struct babel_build){.w = wcur_of(base, cap)};
	if (bare)
		return;
	wcur_u8(&b->w, BABEL_MAGIC);
	wcur_u8(&b->w, BABEL_VERSION);
	wcur_u16(&b->w, 0);
}

void babel_build_body_end(struct babel_build *b)
{
	put_u16(b->w.base + LENGTH_AT, (uint16_t)(b->w.len - BABEL_HEADER));
}

bool babel_build_empty(const struct babel_build *b)
{
	return b->w.len <= BABEL_HEADER;
}

/* A TLV is written to a place of its own first, so that it fits whole or is not there. */
struct draft {
	uint8_t bytes[256 + BABEL_TLV_HEADER];
	struct wcur w;
};

static void draft_begin(struct draft *d, enum babel_tlv_type type)
{
	d->w = wcur_of(d->bytes, sizeof(d->bytes));
	wcur_u8(&d->w, (uint8_t)type);
	wcur_u8(&d->w, 0);
}

static bool draft_end(struct draft *d, struct wcur *to)
{
	struct view v = wcur_written(&d->w);

	if (d->w.full || to->cap - to->len < v.n)
		return false;
	d->bytes[1] = (uint8_t)(v.n - BABEL_TLV_HEADER);
	wcur_view(to, v);
	return true;
}

bool babel_build_ack(struct babel_build *b, uint16_t opaque)
{
	struct draft d;

	draft_begin(&d, BABEL_TLV_ACK);
	wcur_u16(&d.w, opaque);
	return draft_end(&d, &b->w);
}

bool babel_build_hello(struct babel_build *b, uint16_t seqno, uint16_t interval, uint32_t time)
{
	struct draft d;

	draft_begin(&d, BABEL_TLV_HELLO);
	wcur_u16(&d.w, 0);
	wcur_u16(&d.w, seqno);
	wcur_u16(&d.w, interval);
	wcur_u8(&d.w, SUB_TIMESTAMP);
	wcur_u8(&d.w, 4);
	wcur_u32(&d.w, time);
	return draft_end(&d, &b->w);
}

bool babel_build_ihu(struct babel_build *b, const struct babel_ihu *i)
{
	struct draft d;

	draft_begin(&d, BABEL_TLV_IHU);
	wcur_u8(&d.w, BABEL_AE_LINK_LOCAL);
	wcur_u8(&d.w, 0);
	wcur_u16(&d.w, i->rxcost);
	wcur_u16(&d.w, i->interval);
	wcur_bytes(&d.w, i->to.b + LINK_LOCAL_BYTES, LINK_LOCAL_BYTES);
	if (i->has_time) {
		wcur_u8(&d.w, SUB_TIMESTAMP);
		wcur_u8(&d.w, 8);
		wcur_u32(&d.w, i->origin);
		wcur_u32(&d.w, i->receive);
	}
	if (i->loss) {
		wcur_u8(&d.w, BABEL_SUB_LOSS);
		wcur_u8(&d.w, 4);
		wcur_u16(&d.w, i->loss_of_hellos ? BABEL_SUB_LOSS_HELLOS : BABEL_SUB_LOSS_DATA);
		wcur_u16(&d.w, i->loss);
	}
	return draft_end(&d, &b->w);
}

/* RFC 9079 5: no sub-TLV at all for a source of no length. */
static void source_sub(struct wcur *w, const struct prefix *source)
{
	size_t n = (source->len + 7u) / 8u;

	if (!source->len)
		return;
	wcur_u8(w, SUB_SOURCE_PREFIX);
	wcur_u8(w, (uint8_t)(1 + n));
	wcur_u8(w, source->len);
	wcur_bytes(w, source->addr.b, n);
}

static bool router_id(struct babel_build *b, const uint8_t id[static 8])
{
	struct draft d;

	if (b->has_router_id && memcmp(b->router_id, id, 8) == 0)
		return true;
	draft_begin(&d, BABEL_TLV_ROUTER_ID);
	wcur_u16(&d.w, 0);
	wcur_bytes(&d.w, id, 8);
	if (!draft_end(&d, &b->w))
		return false;
	b->has_router_id = true;
	memcpy(b->router_id, id, 8);
	return true;
}

static bool next_hop4(struct babel_build *b, const struct ipaddr *hop)
{
	struct draft d;

	if (b->has_next_hop4)
		return true;
	draft_begin(&d, BABEL_TLV_NEXT_HOP);
	wcur_u8(&d.w, BABEL_AE_IP4);
	wcur_u8(&d.w, 0);
	wcur_bytes(&d.w, hop->b, 4);
	b->has_next_hop4 = draft_end(&d, &b->w);
	return b->has_next_hop4;
}

/* Octets at the front that the prefix shares with the default one of its encoding. */
static uint8_t common(const struct babel_build *b, enum babel_ae ae, const struct prefix *p)
{
	uint8_t n = 0;

	if (!b->has_prefix[ae])
		return 0;
	while (n < p->len / 8 && b->prefix[ae][n] == p->addr.b[n])
		n++;
	return n;
}

bool babel_build_update(struct babel_build *b, const struct babel_update *u)
{
	const struct prefix *p = &u->prefix.destination;
	bool finite = u->metric != BABEL_INFINITY;
	struct babel_build before = *b;
	enum babel_ae ae = BABEL_AE_IP6;
	uint8_t omitted;
	struct draft d;

	if (p->addr.family == IP4)
		ae = u->next_hop4.family == IP4 ? BABEL_AE_IP4 : BABEL_AE_4VIA6;
	if (finite && ae == BABEL_AE_IP4 && !next_hop4(b, &u->next_hop4))
		return false;
	if (finite && !router_id(b, u->router_id)) {
		*b = before;
		return false;
	}
	omitted = common(b, ae, p);
	draft_begin(&d, BABEL_TLV_UPDATE);
	wcur_u8(&d.w, (uint8_t)ae);
	wcur_u8(&d.w, FLAG_PREFIX);
	wcur_u8(&d.w, p->len);
	wcur_u8(&d.w, omitted);
	wcur_u16(&d.w, u->interval);
	wcur_u16(&d.w, u->seqno);
	wcur_u16(&d.w, u->metric);
	wcur_bytes(&d.w, p->addr.b + omitted, (p->len + 7u) / 8u - omitted);
	source_sub(&d.w, &u->prefix.source);
	if (!draft_end(&d, &b->w)) {
		*b = before;
		return false;
	}
	b->has_prefix[ae] = true;
	memcpy(b->prefix[ae], p->addr.b, sizeof(b->prefix[ae]));
	return true;
}

bool babel_build_wildcard_retraction(struct babel_build *b, uint16_t interval)
{
	struct draft d;

	draft_begin(&d, BABEL_TLV_UPDATE);
	wcur_zero(&d.w, 4);
	wcur_u16(&d.w, interval);
	wcur_u16(&d.w, 0);
	wcur_u16(&d.w, BABEL_INFINITY);
	return draft_end(&d, &b->w);
}

/* RFC 9229 2.3: requests for IPv4 have AE 1. */
static enum babel_ae request_ae(const struct babel_prefix *p)
{
	return p->destination.addr.family == IP4 ? BABEL_AE_IP4 : BABEL_AE_IP6;
}

bool babel_build_route_request(struct babel_build *b, const struct babel_prefix *p)
{
	struct draft d;

	draft_begin(&d, BABEL_TLV_ROUTE_REQUEST);
	if (!p) {
		wcur_u16(&d.w, 0);
		return draft_end(&d, &b->w);
	}
	wcur_u8(&d.w, (uint8_t)request_ae(p));
	wcur_u8(&d.w, p->destination.len);
	wcur_bytes(&d.w, p->destination.addr.b, (p->destination.len + 7u) / 8u);
	source_sub(&d.w, &p->source);
	return draft_end(&d, &b->w);
}

bool babel_build_seqno_request(struct babel_build *b, const struct babel_seqno_request *r)
{
	const struct prefix *p = &r->prefix.destination;
	struct draft d;

	draft_begin(&d, BABEL_TLV_SEQNO_REQUEST);
	wcur_u8(&d.w, (uint8_t)request_ae(&r->prefix));
	wcur_u8(&d.w, p->len);
	wcur_u16(&d.w, r->seqno);
	wcur_u8(&d.w, r->hop_count);
	wcur_u8(&d.w, 0);
	wcur_bytes(&d.w, r->router_id, 8);
	wcur_bytes(&d.w, p->addr.b, (p->len + 7u) / 8u);
	source_sub(&d.w, &r->prefix.source);
	return draft_end(&d, &b->w);
}

bool babel_build_bytes(struct babel_build *b, enum babel_tlv_type type, struct view head,
	struct view bytes)
{
	struct draft d;

	draft_begin(&d, type);
	wcur_view(&d.w, head);
	wcur_view(&d.w, bytes);
	return draft_end(&d, &b->w);
}
