/* One received packet (RFC 8966 4): checked, parsed whole, authenticated, and only then acted upon.
 */
#include "babel/babel_priv.h"

#include <string.h>

/* Time between two stamps of one clock, modulo 2^32; negative when b is the later. */
static int64_t stamp_diff(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static bool plausible(int64_t us)
{
	return us >= 0 && us < BABEL_RTT_VOID_US;
}

static bool for_us(const struct babel_iface *ifc, const struct babel_tlv *t)
{
	return t->type == BABEL_TLV_IHU &&
		(t->ihu.to.family == IP_NONE || ipaddr_equal(&t->ihu.to, &ifc->c.link_local));
}

/* RFC 9616 3.2: needs both a Hello and an IHU to us with times; 3.3: what is old or impossible is
 * no sample. */
static void sample(struct babel *b, struct babel_neighbour *n, const struct babel_parsed *p,
	wtime at, wtime now)
{
	const struct babel_tlv *hello = NULL, *ihu = NULL;
	int64_t here, there;

	for (size_t i = 0; i < p->n; i++) {
		const struct babel_tlv *t = &p->tlv[i];

		if (t->type == BABEL_TLV_HELLO && t->hello.has_time && !hello)
			hello = t;
		else if (for_us(n->ifc, t) && t->ihu.has_time)
			ihu = t;
	}
	if (!hello)
		return;
	if (ihu) {
		here = stamp_diff(babel_timestamp(b, at), ihu->ihu.origin);
		there = stamp_diff(hello->hello.time, ihu->ihu.receive);
		if (plausible(here) && plausible(there) && here >= there) {
			struct babel_round r = {here - there, wtime_add(at, -here), at};

			(void)babel_rtt_sample(&n->rtt, r.us, at);
			babel_neighbour_recost(b, n, babel_load_sample(n, &r), now);
		} else {
			babel_drop(b, BABEL_DROP_TIMESTAMP);
		}
	}
	n->has_time = true;
	n->origin = hello->hello.time;
	n->receive = babel_timestamp(b, at);
	n->receive_at = at;
}

/* RFC 8966 3.3: at once, to who asked. */
static void acknowledge(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now)
{
	uint8_t room[8];
	struct babel_build w;

	babel_build_begin(&w, room, sizeof(room), true);
	(void)babel_build_ack(&w, t->ack.opaque);
	babel_unicast(b, n, wcur_written(&w.w), now);
}

static void handle(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t, wtime now)
{
	switch (t->type) {
	case BABEL_TLV_ACK_REQUEST:
		acknowledge(b, n, t, now);
		break;
	case BABEL_TLV_IHU:
		if (for_us(n->ifc, t))
			babel_neighbour_ihu(b, n, t, now);
		break;
	case BABEL_TLV_UPDATE:
		babel_route_update(b, n, t, now);
		break;
	case BABEL_TLV_ROUTE_REQUEST:
		babel_request_route_in(b, n, t, now);
		break;
	case BABEL_TLV_SEQNO_REQUEST:
		babel_request_seqno_in(b, n, t, now);
		break;
	default: /* the rest has been looked at before */
		break;
	}
}

static void act(struct babel *b, struct babel_iface *ifc, const struct babel_datagram *d, wtime now)
{
	const struct babel_parsed *p = &b->parsed;
	struct babel_neighbour *n = babel_neighbour_find(b, ifc, &d->source);

	for (size_t i = 0; i < p->n; i++) { /* a neighbour is who has said hello */
		if (p->tlv[i].type != BABEL_TLV_HELLO)
			continue;
		n = n ? n : babel_neighbour_get(b, ifc, &d->source, now);
		if (!n)
			return;
		babel_neighbour_hello(b, n, &p->tlv[i], now);
	}
	if (!n || !n->known)
		return;
	sample(b, n, p, d->at, now);
	for (size_t i = 0; i < p->n; i++)
		handle(b, n, &p->tlv[i], now);
}

void babel_input(struct babel *b, const struct babel_datagram *d, wtime now)
{
	struct babel_iface *ifc = babel_iface_find(b, d->iface);
	enum babel_parse_error e;

	if (b->stopped)
		return;
	if (!ifc) {
		babel_drop(b, BABEL_DROP_UNKNOWN_IFACE);
		return;
	}
	if (d->source.family != IP6 || !ipaddr_is_link_local(&d->source)) {
		babel_drop(b, BABEL_DROP_NOT_LINK_LOCAL);
		return;
	}
	if (ipaddr_equal(&d->source, &ifc->c.link_local))
		return; /* our own, come back */
	b->stats.packets_in++;
	b->stats.bytes_in += d->data.n;
	e = babel_parse(d->data, &d->source, &b->parsed);
	if (e != BABEL_PARSE_OK) {
		babel_drop(b,
			e == BABEL_PARSE_VERSION             ? BABEL_DROP_VERSION
				: e == BABEL_PARSE_NO_MEMORY ? BABEL_DROP_NO_MEMORY
							     : BABEL_DROP_MALFORMED);
		return;
	}
	b->stats.drops[BABEL_DROP_MALFORMED] += b->parsed.malformed;
	b->stats.drops[BABEL_DROP_MANDATORY] += b->parsed.mandatory;
	if (babel_mac_accept(b, ifc, d, &b->parsed, now))
		act(b, ifc, d, now);
}
