/* Policies and segments: packets of the TUN that a policy steers get their segments, packets sent
 * to a SID of this node are acted on, and errors about what was steered are told to who sent it.
 * Who may do so: RFC 8754 5.1. Path MTU of a steered path: RFC 8201, RFC 2473 7 and 8. */
#include "plane/plane_priv.h"

/* RFC 8201 5.3: after that the path is tried with more again. */
static const int64_t path_mtu_us = 600 * W_SEC;

static bool in_set(const struct fib *set, const struct ipaddr *a, const struct ipaddr *other)
{
	uint32_t value;

	return set && fib_lookup(set, a, other, &value);
}

unsigned int srv6_look(const struct plane_srv6 *s, struct pair *x, enum pair_use use)
{
	unsigned int f = 0;

	if (use == PAIR_TUN)
		return in_set(s->sid_space, &x->dst, &x->src) ? PAIR_DST_SID_SPACE : 0;
	x->sid = s->localsid ? srv6_table_find(s->localsid, &x->dst) : NULL;
	if (x->sid) {
		f |= PAIR_DST_SID;
		if (in_set(s->mesh_source, &x->src, &x->dst))
			f |= PAIR_SRC_MESH;
	}
	if (ipaddr_equal(&x->dst, &s->source))
		f |= PAIR_DST_STEER_SOURCE;
	if (use >= PAIR_AGAIN && in_set(s->exit_allow, &x->dst, &x->src))
		f |= PAIR_DST_EXIT;
	return f;
}

const struct plane_steer *srv6_steer_of(const struct plane_srv6 *s, const struct ipaddr *dst,
	const struct ipaddr *src)
{
	const struct policy_rule *r = s->policy ? policy_find(s->policy, dst, src) : NULL;

	return r && r->steer < s->steer_count ? &s->steer[r->steer] : NULL;
}

/* ---- head end ---- */

static bool path_mtu_holds(const struct plane_policy_state *state, wtime now)
{
	return state && state->path_mtu != 0 && now.us - state->path_mtu_at_us < path_mtu_us;
}

uint32_t srv6_mtu(const struct pair *x, wtime now)
{
	const struct plane_steer *steer = x->steer;
	uint32_t mtu = x->link->mtu;

	if (path_mtu_holds(steer->state, now) && steer->state->path_mtu < mtu)
		mtu = steer->state->path_mtu;
	return mtu > steer->push->overhead ? mtu - steer->push->overhead : 0;
}

enum plane_edge stage_steer(struct plane *p, struct pkt *k)
{
	const struct plane_steer *steer = k->pair->steer;

	(void)p;
	if (steer->type == PLANE_STEER_DROP) {
		if (steer->state && !k->echo)
			plane_count_shared(&steer->state->dropped, k->segments);
		return edge_drop(k, DROP_POLICY_FALLBACK);
	}
	if (k->pair->push)
		k->stamp = srv6_stamp_of(k->pair->push, view_of(k->data, k->len), &k->ip);
	if (k->hop_limit)
		k->stamp.hop_limit = k->hop_limit;
	return EDGE_NEXT;
}

uint8_t *srv6_room(struct plane *p, const struct pkt *k, const struct tx_ask *inner,
	enum drop_reason *ret_drop)
{
	const struct plane_steer *steer = k->pair->steer;
	const struct srv6_steer *push = k->pair->push;
	struct tx_ask ask = *inner;
	uint8_t *text;

	if (push) {
		ask.len += push->overhead;
		ask.tos = (uint8_t)(k->stamp.word >> 20);
		ask.next_header = IP_PROTO_IP6;
	}
	text = tx_room(p, &ask, ret_drop);
	if (!text)
		return NULL;
	if (steer->state && !k->echo) {
		plane_count_shared(&steer->state->packets, 1);
		plane_count_shared(&steer->state->bytes, inner->len);
	}
	if (!push)
		return text;
	srv6_push(push, &k->stamp, inner->len, text);
	return text + push->overhead;
}

/* ---- own SIDs ---- */

/* RFC 8201 4: a packet never needs to be smaller than 1280 bytes; an error may only lower what is
 * known. */
static void learn_mtu(struct plane_policy_state *state, uint32_t mtu, wtime now)
{
	if (!state || mtu < IP6_MTU_MIN)
		return;
	if (path_mtu_holds(state, now) && state->path_mtu <= mtu)
		return;
	__atomic_store_n(&state->path_mtu, mtu, __ATOMIC_RELAXED);
	__atomic_store_n(&state->path_mtu_at_us, now.us, __ATOMIC_RELAXED);
}

/* An error about a packet that was steered: its inner packet becomes what is spoken about, as if it
 * had just come from the TUN. */
static enum plane_edge error_back(struct plane *p, const struct plane_srv6 *s, struct pkt *k)
{
	const struct plane_steer *steer;
	struct srv6_error e;

	if (echo_taken(p, k))
		return EDGE_DONE;
	if (srv6_error_parse(view_of(k->data, k->len), &k->ip, &s->source, &e) < 0)
		return edge_drop(k, DROP_SRV6_ERROR);
	steer = srv6_steer_of(s, &e.about.dst, &e.about.src);
	if (!steer || steer->type != PLANE_STEER_PUSH)
		return edge_drop(k, DROP_SRV6_ERROR);
	if (e.type == ICMP_PACKET_TOO_BIG) {
		learn_mtu(steer->state, e.mtu, k->now);
		if (e.mtu < IP6_MTU_MIN || !e.about.dont_fragment)
			return edge_drop(k, DROP_SRV6_ERROR);
		k->icmp_mtu = e.mtu > steer->push->overhead ? e.mtu - steer->push->overhead : 0;
		if (e.about.family == IP6 && k->icmp_mtu < IP6_MTU_MIN)
			k->icmp_mtu = IP6_MTU_MIN;
	}
	k->data += e.inner.p - k->data;
	k->len = (uint32_t)e.inner.n;
	k->ip = e.about;
	k->in = NULL;
	return edge_icmp(k, DROP_SRV6_ERROR, e.type);
}

/* An upper layer that the node itself takes: where the SID is an address of the host. */
static enum plane_edge upper_layer(const struct plane *p, struct pkt *k, uint32_t at)
{
	if (pair_is_own(p->snapshot, &k->pair->dst))
		return EDGE_LOCAL;
	k->icmp_code = 4; /* RFC 8986 4.1.1 */
	k->icmp_pointer = at;
	return edge_icmp(k, DROP_SRV6_UPPER, ICMP_PARAMETER_PROBLEM);
}

/* What is inside is a packet that came over the link: it goes through the same stages. */
static enum plane_edge decapsulate(struct pkt *k, const struct srv6_result *r)
{
	const struct srv6_localsid *sid = k->pair->sid;

	k->exit = sid->behaviour != SRV6_END && sid->argument == PLANE_TABLE_HOST;
	k->again += k->again < UINT8_MAX;
	k->hopped = false;
	k->outer_tos = k->ip.tos;
	k->next_header = r->next_header;
	k->data += r->at;
	k->len = k->ip.len - r->at;
	return EDGE_ASIDE;
}

static enum plane_edge refuse(struct pkt *k, const struct srv6_result *r)
{
	if (!r->send)
		return edge_drop(k, r->drop);
	k->icmp_code = r->code;
	k->icmp_pointer = r->pointer;
	return edge_icmp(k, r->drop, r->icmp);
}

/* Ends: every round takes a segment and a hop, or an IPv6 header, from the packet. */
enum plane_edge stage_localsid(struct plane *p, struct pkt *k)
{
	const struct plane_srv6 *s = p->snapshot->srv6;
	unsigned int f = k->pair->flags;
	struct srv6_result r;

	if (f & PAIR_DST_STEER_SOURCE && srv6_is_error(view_of(k->data, k->len), &k->ip))
		return error_back(p, s, k);
	if (!(f & PAIR_DST_SID))
		return EDGE_NEXT;
	if (!(f & PAIR_SRC_MESH))
		return edge_drop(k, DROP_SRV6_SOURCE);
	r = srv6_process(k->pair->sid, s->refuse_hmac, k->data, &k->ip);
	switch (r.verdict) {
	case SRV6_FORWARD:
		k->exit = false;
		k->hopped = true;
		k->again += k->again < UINT8_MAX;
		k->pair = pair_look(p, &k->ip, pkt_use(k));
		return EDGE_SID;
	case SRV6_INNER:
		return decapsulate(k, &r);
	case SRV6_UPPER:
		return upper_layer(p, k, r.at);
	case SRV6_REFUSE:
		break;
	}
	return refuse(k, &r);
}

/* An exit reaches what it announces, and what it is told to. */
enum plane_edge stage_exit(struct plane *p, struct pkt *k)
{
	const struct pair *x = k->pair;

	(void)p;
	if ((x->routed && x->type == PLANE_LOCAL) || x->flags & PAIR_DST_EXIT)
		return EDGE_LOCAL;
	return edge_drop(k, DROP_EXIT_REFUSED);
}
