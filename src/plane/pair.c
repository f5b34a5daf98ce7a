/* What a pair of addresses says: whether it may pass at all (RFC 1812 5.3.7, RFC 4291 2.5 and 2.7),
 * and where it goes. One entry is kept, since packets come in runs of the same pair. */
#include "plane/plane_priv.h"

#include <string.h>

enum { SCOPE_INTERFACE = 1, SCOPE_LINK = 2 };

/* Addresses that no packet may carry on a wire, as source or destination. */
static bool is_martian(const struct ipaddr *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (a->family == IP4)
		return a->b[0] == 0 || a->b[0] == 127 || get_u32(a->b) == UINT32_MAX;
	return ipaddr_is_unspecified(a) || ipaddr_is_loopback(a) ||
		memcmp(a->b, mapped, sizeof(mapped)) == 0;
}

/* Multicast that stays on the link: 224.0.0.0/24, ff01 and ff02. */
static bool is_link_scope(const struct ipaddr *a)
{
	if (a->family == IP4)
		return a->b[0] == 224 && a->b[1] == 0 && a->b[2] == 0;
	return (a->b[1] & 0xf) == SCOPE_INTERFACE || (a->b[1] & 0xf) == SCOPE_LINK;
}

bool pair_is_own(const struct plane_snapshot *s, const struct ipaddr *a)
{
	uint32_t lo = 0, hi = s->own_address_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int r = ipaddr_compare(&s->own_address[mid], a);

		if (r == 0)
			return true;
		if (r < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* The first endpoint of an address, or the count. */
static uint32_t endpoint_first(const struct plane_snapshot *s, const struct ipaddr *ip)
{
	uint32_t lo = 0, hi = s->own_endpoint_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ipaddr_compare(&s->own_endpoint[mid].ip, ip) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool pair_is_endpoint(const struct plane_snapshot *s, const struct ipaddr *ip, uint16_t port)
{
	uint32_t i = endpoint_first(s, ip);

	for (; i < s->own_endpoint_count && ipaddr_equal(&s->own_endpoint[i].ip, ip); i++)
		if (port == 0 || s->own_endpoint[i].port == port)
			return true;
	return false;
}

static unsigned int flags_of(const struct plane_snapshot *s, const struct ipaddr *src,
	const struct ipaddr *dst)
{
	unsigned int f = 0;

	if (is_martian(src) || ipaddr_is_multicast(src))
		f |= PAIR_SRC_MARTIAN;
	if (is_martian(dst))
		f |= PAIR_DST_MARTIAN;
	if (ipaddr_is_link_local(src))
		f |= PAIR_SRC_LINK_LOCAL;
	if (ipaddr_is_link_local(dst))
		f |= PAIR_DST_LINK_LOCAL;
	if (ipaddr_is_multicast(dst))
		f |= PAIR_DST_MULTICAST | (is_link_scope(dst) ? PAIR_DST_LINK_LOCAL : 0);
	if (pair_is_own(s, src))
		f |= PAIR_SRC_OWN;
	if (pair_is_endpoint(s, dst, 0))
		f |= PAIR_DST_ENDPOINT;
	return f;
}

void pair_route(struct plane *p, struct pair *x)
{
	const struct plane_snapshot *s = p->snapshot;
	const struct ipaddr *dst = x->push ? &x->push->first : &x->dst;
	const struct ipaddr *src = x->push ? &x->push->source : &x->src;
	const struct plane_next_hop *hop;
	uint32_t value;

	x->routed = false;
	x->link = NULL;
	if (pair_is_own(s, dst)) {
		x->routed = true;
		x->type = PLANE_LOCAL;
		return;
	}
	if (!s->fib || !fib_lookup(s->fib, dst, src, &value) || value >= s->next_hop_count)
		return;
	hop = &s->next_hop[value];
	x->routed = true;
	x->type = hop->type;
	if (hop->type == PLANE_LINK)
		x->link = plane_link_of(p, hop->slot);
}

void pair_forget(struct plane *p)
{
	for (int i = 0; i < PAIR_USES; i++)
		p->pair[i].valid = false;
}

/* What segment routing says about a pair. */
static void look_srv6(const struct plane_srv6 *s, struct pair *x, enum pair_use use)
{
	x->flags |= srv6_look(s, x, use);
	x->steer = use == PAIR_TUN ? srv6_steer_of(s, &x->dst, &x->src) : NULL;
	x->push = x->steer && x->steer->type == PLANE_STEER_PUSH ? x->steer->push : NULL;
}

const struct pair *pair_look(struct plane *p, const struct ip_view *v, enum pair_use use)
{
	struct pair *x = &p->pair[use];

	if (x->valid && memcmp(&x->src, &v->src, sizeof(v->src)) == 0 &&
		memcmp(&x->dst, &v->dst, sizeof(v->dst)) == 0)
		return x;
	x->src = v->src;
	x->dst = v->dst;
	x->flags = flags_of(p->snapshot, &x->src, &x->dst);
	x->steer = NULL;
	x->push = NULL;
	if (p->snapshot->srv6)
		look_srv6(p->snapshot->srv6, x, use);
	pair_route(p, x);
	x->valid = true;
	return x;
}

/* Where the route leads. From the TUN a local destination is a loop through the kernel: the edge
 * table has no way on for it. */
enum plane_edge stage_route(struct plane *p, struct pkt *k)
{
	const struct pair *x = k->pair;

	(void)p;
	if (!x->routed)
		return edge_icmp(k, DROP_NO_ROUTE, ICMP_NO_ROUTE);
	switch (x->type) {
	case PLANE_LOCAL:
		if (!k->in)
			return edge_icmp(k, DROP_UNREACHABLE, ICMP_NO_ROUTE);
		return EDGE_LOCAL;
	case PLANE_BLACKHOLE:
		return edge_drop(k, DROP_BLACKHOLE);
	case PLANE_UNREACHABLE:
		return edge_icmp(k, DROP_UNREACHABLE, ICMP_NO_ROUTE);
	case PLANE_LINK:
		break;
	}
	if (!x->link || !x->link->usable)
		return edge_icmp(k, DROP_LINK_DOWN, ICMP_NO_ROUTE);
	return EDGE_NEXT;
}
