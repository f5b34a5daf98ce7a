/* Own SIDs: the table of them, and what each behaviour does (RFC 8986 4; RFC 8754 4.3.1). */
#include "srv6/srv6.h"

#include <errno.h>
#include <stdlib.h>
#include "base/mem.h"

enum {
	SEGMENTS_LEFT_AT = 3,
	ROUTING_TYPE_AT = 2,
	HOP_LIMIT_AT = 7,
	DESTINATION_AT = 24,
	CODE_ERRONEOUS_FIELD = 0,
	CODE_UPPER_LAYER = 4, /* RFC 8986 10.5: SR Upper-layer Header Error */
};

/* ---- the table ---- */

struct srv6_table {
	size_t n;
	struct srv6_localsid entry[]; /* the longest first */
};

const char *srv6_behaviour_name(enum srv6_behaviour b)
{
	static const char *const names[SRV6_BEHAVIOURS] = {
		[SRV6_END] = "End",
		[SRV6_END_DT4] = "End.DT4",
		[SRV6_END_DT6] = "End.DT6",
		[SRV6_END_DT46] = "End.DT46",
	};

	return b < SRV6_BEHAVIOURS ? names[b] : "?";
}

static int entry_compare(const void *a, const void *b)
{
	const struct srv6_localsid *x = a, *y = b;

	if (x->sid.len != y->sid.len)
		return x->sid.len > y->sid.len ? -1 : 1;
	return ipaddr_compare(&x->sid.addr, &y->sid.addr);
}

static bool entry_valid(const struct srv6_localsid *e)
{
	struct prefix clean = prefix_of(&e->sid.addr, e->sid.len);

	return e->sid.addr.family == IP6 && prefix_equal(&clean, &e->sid) && e->sid.len > 0 &&
		e->behaviour < SRV6_BEHAVIOURS;
}

int srv6_table_build(const struct srv6_localsid *entry, size_t n, struct srv6_table **ret)
{
	struct srv6_table *t;

	if (n > UINT16_MAX)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!entry_valid(&entry[i]))
			return -EINVAL;
	t = w_calloc(1, sizeof(*t) + n * sizeof(t->entry[0]));
	if (!t)
		return -ENOMEM;
	t->n = n;
	if (n > 0)
		memcpy(t->entry, entry, n * sizeof(*entry));
	if (n > 1)
		qsort(t->entry, n, sizeof(*entry), entry_compare);
	for (size_t i = 1; i < n; i++)
		if (prefix_equal(&t->entry[i - 1].sid, &t->entry[i].sid)) {
			w_free(t);
			return -EEXIST;
		}
	*ret = t;
	return 0;
}

void srv6_table_free(struct srv6_table *t)
{
	w_free(t);
}

const struct srv6_localsid *srv6_table_find(const struct srv6_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n; i++)
		if (prefix_contains(&t->entry[i].sid, a))
			return &t->entry[i];
	return NULL;
}

/* ---- behaviours ---- */

struct work {
	const struct srv6_localsid *sid;
	bool refuse_hmac;
	uint8_t *packet;
	struct ip_view *v;
	struct srv6_chain chain;
};

typedef struct srv6_result behaviour_fn(struct work *w);

static struct srv6_result refuse(enum drop_reason drop)
{
	return (struct srv6_result){.verdict = SRV6_REFUSE, .drop = drop};
}

static struct srv6_result parameter(enum drop_reason drop, uint8_t code, uint32_t pointer)
{
	return (struct srv6_result){.verdict = SRV6_REFUSE,
		.drop = drop,
		.send = true,
		.icmp = ICMP_PARAMETER_PROBLEM,
		.code = code,
		.pointer = pointer};
}

/* RFC 8986 4.1.1: what may be said to a SID itself is ICMPv6. */
static struct srv6_result upper_layer(const struct work *w)
{
	if (w->chain.upper == IP_PROTO_ICMP6)
		return (struct srv6_result){.verdict = SRV6_UPPER,
			.at = w->chain.upper_at,
			.next_header = IP_PROTO_ICMP6};
	return parameter(DROP_SRV6_UPPER, CODE_UPPER_LAYER, w->chain.upper_at);
}

/* RFC 8986 4.6 - 4.8: the outer headers go, what is inside is told by the upper layer's type. */
static struct srv6_result decapsulate(const struct work *w, bool v4, bool v6)
{
	uint8_t upper = w->chain.upper;

	/* Several packets, of which only the first has headers: there is no reassembly here. */
	if (w->chain.fragment)
		return refuse(DROP_SRV6_FRAGMENT);
	if ((upper == IP_PROTO_IP4 && v4) || (upper == IP_PROTO_IP6 && v6))
		return (struct srv6_result){.verdict = SRV6_INNER,
			.at = w->chain.upper_at,
			.next_header = upper};
	return upper_layer(w);
}

/* A routing header of another type that is to be acted on: RFC 8200 4.4. */
static struct srv6_result unknown_routing(const struct work *w)
{
	return parameter(DROP_SRV6_MALFORMED, CODE_ERRONEOUS_FIELD,
		w->chain.routing_at + ROUTING_TYPE_AT);
}

/* RFC 8986 4.1 S05 - S15. */
static struct srv6_result next_segment(struct work *w)
{
	struct view packet = view_of(w->packet, w->v->len);
	struct srv6_srh srh;
	uint32_t pointer = 0;
	uint8_t *segment;
	int err;

	if (w->chain.routing_type != SRV6_ROUTING_TYPE)
		return unknown_routing(w);
	if (w->v->ttl <= 1)
		return (struct srv6_result){.verdict = SRV6_REFUSE,
			.drop = DROP_HOP_LIMIT,
			.send = true,
			.icmp = ICMP_TIME_EXCEEDED};
	err = srv6_srh_parse(packet, w->chain.routing_at, &srh, &pointer);
	if (err == -EINVAL)
		return parameter(DROP_SRV6_MALFORMED, CODE_ERRONEOUS_FIELD, pointer);
	if (err < 0)
		return refuse(DROP_SRV6_MALFORMED);
	if (srh.hmac && w->refuse_hmac)
		return refuse(DROP_SRV6_HMAC);
	segment = w->packet + srh.segments_at + (srh.segments_left - 1U) * SRV6_SEGMENT;
	w->packet[srh.at + SEGMENTS_LEFT_AT] = (uint8_t)(srh.segments_left - 1);
	memcpy(w->packet + DESTINATION_AT, segment, SRV6_SEGMENT);
	w->v->dst = ipaddr_from(IP6, segment);
	w->v->ttl--;
	w->packet[HOP_LIMIT_AT] = w->v->ttl;
	return (struct srv6_result){.verdict = SRV6_FORWARD};
}

static struct srv6_result end(struct work *w)
{
	return w->chain.active ? next_segment(w) : decapsulate(w, true, true);
}

/* RFC 8986 4.6 S03: a decapsulating SID is the last segment. */
static struct srv6_result end_dt(const struct work *w, bool v4, bool v6)
{
	if (!w->chain.active)
		return decapsulate(w, v4, v6);
	if (w->chain.routing_type != SRV6_ROUTING_TYPE)
		return unknown_routing(w);
	return parameter(DROP_SRV6_MALFORMED, CODE_ERRONEOUS_FIELD,
		w->chain.routing_at + SEGMENTS_LEFT_AT);
}

static struct srv6_result end_dt4(struct work *w)
{
	return end_dt(w, true, false);
}

static struct srv6_result end_dt6(struct work *w)
{
	return end_dt(w, false, true);
}

static struct srv6_result end_dt46(struct work *w)
{
	return end_dt(w, true, true);
}

static behaviour_fn *const behaviours[SRV6_BEHAVIOURS] = {
	[SRV6_END] = end,
	[SRV6_END_DT4] = end_dt4,
	[SRV6_END_DT6] = end_dt6,
	[SRV6_END_DT46] = end_dt46,
};

struct srv6_result srv6_process(const struct srv6_localsid *sid, bool refuse_hmac, uint8_t *packet,
	struct ip_view *v)
{
	struct work w = {.sid = sid, .refuse_hmac = refuse_hmac, .packet = packet, .v = v};

	if (v->family != IP6 || srv6_chain_walk(view_of(packet, v->len), &w.chain) < 0)
		return refuse(DROP_SRV6_MALFORMED);
	return behaviours[sid->behaviour](&w);
}
