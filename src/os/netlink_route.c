/* Routes through the TUN. Ours bear our protocol number, lie in one of our tables, and lead into
 * the TUN or nowhere. What was applied last is remembered: where another program put a route of its
 * own in the place of one of these, ours replaces it; where it was there before ours, it stays. */
#include <errno.h>
#include <netlink/attr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "os/netlink_priv.h"

/* CHANGED: beside a type, for one that has what we never give. */
enum { DEFAULT_METRIC6 = 1024, ROUTES_FIRST = 64, CHANGED = 0x80 };

struct route {
	struct kernel_route k;
	uint8_t type; /* rtm_type */
};

struct routes {
	struct os_netlink *n;
	struct route *v;
	size_t count, cap;
};

/* What was applied last, sorted. */
struct netlink_routes {
	size_t count;
	struct route v[];
};

/* What is one route to the kernel, whatever it says. */
static int route_compare_key(const void *pa, const void *pb)
{
	const struct route *ra = pa, *rb = pb;
	const struct kernel_route *a = &ra->k, *b = &rb->k;
	int r = prefix_compare(&a->destination, &b->destination);

	if (r == 0)
		r = prefix_compare(&a->source, &b->source);
	if (r == 0)
		r = (a->table > b->table) - (a->table < b->table);
	if (r == 0)
		r = (a->metric > b->metric) - (a->metric < b->metric);
	return r;
}

static int route_compare(const void *pa, const void *pb)
{
	const struct route *ra = pa, *rb = pb;
	int r = route_compare_key(pa, pb);

	if (r == 0)
		r = ra->type - rb->type;
	if (r == 0)
		r = ipaddr_compare(&ra->k.prefer, &rb->k.prefer);
	return r;
}

/* One form for what the kernel says and what is wanted. */
static void route_normalise(struct kernel_route *k)
{
	bool six = k->destination.addr.family == IP6;

	if (six && k->metric == 0)
		k->metric = DEFAULT_METRIC6;
	if (k->source.len == 0)
		k->source = (struct prefix){0};
}

static int routes_add(struct routes *all, const struct kernel_route *k, uint8_t type)
{
	if (all->count == all->cap) {
		size_t cap = all->cap ? all->cap * 2 : ROUTES_FIRST;
		struct route *grown = w_realloc(all->v, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		all->v = grown;
		all->cap = cap;
	}
	all->v[all->count] = (struct route){.k = *k, .type = type};
	route_normalise(&all->v[all->count].k);
	if (type != RTN_UNICAST)
		all->v[all->count].k.prefer = (struct ipaddr){0};
	all->count++;
	return 0;
}

static bool route_is_ours(uint8_t type, bool into_tun)
{
	return type == RTN_UNREACHABLE || type == RTN_THROW || (type == RTN_UNICAST && into_tun);
}

static int route_each(void *ctx, struct nlmsghdr *h)
{
	struct routes *all = ctx;
	struct rtmsg *t = nlmsg_data(h);
	struct nlattr *a[RTA_MAX + 1];
	struct kernel_route got = {0};
	bool changed;
	uint32_t oif;

	if (!netlink_is(h, RTM_NEWROUTE, sizeof(*t)) ||
		nlmsg_parse(h, sizeof(*t), a, RTA_MAX, NULL) < 0)
		return 0;
	if (t->rtm_protocol != all->n->protocol || (t->rtm_flags & RTM_F_CLONED) ||
		(t->rtm_family != AF_INET && t->rtm_family != AF_INET6))
		return 0;
	got.table = netlink_get_u32(a[RTA_TABLE], t->rtm_table);
	oif = netlink_get_u32(a[RTA_OIF], 0);
	if (!netlink_table_is_ours(all->n, got.table) ||
		!route_is_ours(t->rtm_type, oif == all->n->ifindex))
		return 0;
	got.destination = netlink_get_prefix(a[RTA_DST], t->rtm_family, t->rtm_dst_len);
	got.source = netlink_get_prefix(a[RTA_SRC], t->rtm_family, t->rtm_src_len);
	got.prefer = netlink_get_ip(a[RTA_PREFSRC], t->rtm_family);
	got.metric = netlink_get_u32(a[RTA_PRIORITY], 0);
	changed = a[RTA_METRICS] || a[RTA_GATEWAY] || a[RTA_VIA] || a[RTA_MULTIPATH];
	return routes_add(all, &got, (uint8_t)(t->rtm_type | (changed ? CHANGED : 0)));
}

static int route_dump(struct os_netlink *n, int family, struct routes *all)
{
	struct rtmsg t = {.rtm_family = (uint8_t)family, .rtm_protocol = n->protocol};

	return netlink_request(n, netlink_message(RTM_GETROUTE, NLM_F_DUMP, &t, sizeof(t)),
		route_each, all);
}

static int route_attributes(struct os_netlink *n, struct nl_msg *m, const struct route *route)
{
	const struct kernel_route *k = &route->k;
	int r = nla_put_u32(m, RTA_TABLE, k->table);

	if (r == 0 && k->destination.len)
		r = netlink_put_ip(m, RTA_DST, &k->destination.addr);
	if (r == 0 && k->source.len)
		r = netlink_put_ip(m, RTA_SRC, &k->source.addr);
	if (r == 0 && k->metric)
		r = nla_put_u32(m, RTA_PRIORITY, k->metric);
	if (r == 0 && k->prefer.family != IP_NONE)
		r = netlink_put_ip(m, RTA_PREFSRC, &k->prefer);
	if (r == 0 && (route->type & ~CHANGED) == RTN_UNICAST)
		r = nla_put_u32(m, RTA_OIF, n->ifindex);
	return r < 0 ? -ENOMEM : 0;
}

enum route_verb { ROUTE_REMOVE, ROUTE_ADD, ROUTE_REPLACE };

static int route_change(struct os_netlink *n, const struct route *route, enum route_verb verb)
{
	static const int flags[] = {[ROUTE_REMOVE] = NLM_F_ACK,
		[ROUTE_ADD] = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
		[ROUTE_REPLACE] = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE};
	const uint8_t type = route->type & (uint8_t)~CHANGED;
	const struct kernel_route *k = &route->k;
	bool four = k->destination.addr.family == IP4;
	struct rtmsg t = {.rtm_family = four ? AF_INET : AF_INET6,
		.rtm_dst_len = k->destination.len,
		.rtm_src_len = k->source.len,
		.rtm_protocol = n->protocol,
		.rtm_table = RT_TABLE_UNSPEC,
		.rtm_type = type,
		.rtm_scope = four && type == RTN_UNICAST ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE};
	struct nl_msg *m;
	int r;

	if (four && k->source.len)
		return -EOPNOTSUPP; /* the kernel has no such thing for IPv4 */
	m = netlink_message(verb == ROUTE_REMOVE ? RTM_DELROUTE : RTM_NEWROUTE, flags[verb], &t,
		sizeof(t));
	r = m ? route_attributes(n, m, route) : -ENOMEM;
	if (r < 0) {
		nlmsg_free(m);
		return r;
	}
	return netlink_request(n, m, NULL, NULL);
}

/* Whether it is one that we had there: then who is there now put it in its place. */
static bool route_was_ours(const struct os_netlink *n, const struct route *route)
{
	const struct netlink_routes *had = n->applied;

	return had && had->count &&
		bsearch(route, had->v, had->count, sizeof(*route), route_compare_key);
}

static int route_step(struct os_netlink *n, const struct route *route, bool add, struct buf *errors)
{
	const struct kernel_route *k = &route->k;
	char to[PREFIX_TEXT], from[PREFIX_TEXT + 8] = "", text[PREFIX_TEXT];
	int r = route_change(n, route, add ? ROUTE_ADD : ROUTE_REMOVE);

	if (r == -EEXIST && add && route_was_ours(n, route))
		r = route_change(n, route, ROUTE_REPLACE);
	n->changes += r >= 0;
	if (r >= 0 || (!add && r == -ESRCH))
		return 0;
	if (k->source.len)
		snprintf(from, sizeof(from), " from %s", prefix_format(&k->source, text));
	return netlink_failed(errors, r, "%s route %s%s in table %u", add ? "add" : "remove",
		prefix_format(&k->destination, to), from, k->table);
}

/* Both lists are sorted: one walk finds what only one of them has. */
static int route_walk(struct os_netlink *n, const struct routes *have, const struct routes *want,
	bool add, struct buf *errors)
{
	size_t i = 0, j = 0;
	int r = 0;

	while (i < have->count || j < want->count) {
		int c = i == have->count   ? 1
			: j == want->count ? -1
					   : route_compare(&have->v[i], &want->v[j]);

		if (c < 0 && !add)
			r = netlink_first(r, route_step(n, &have->v[i], false, errors));
		else if (c > 0 && add)
			r = netlink_first(r, route_step(n, &want->v[j], true, errors));
		i += c <= 0;
		j += c >= 0;
	}
	return r;
}

/* Adds the route to what is wanted, with a throw route for each network inside it; one that is a
 * network of the host itself is left out. */
static int route_want(struct routes *wanted, const struct kernel_route *k,
	const struct prefix *near, size_t near_n, struct buf *errors)
{
	char text[PREFIX_TEXT];
	int r = 0;

	for (size_t i = 0; k->protect && i < near_n && r == 0; i++) {
		struct kernel_route aside = {.destination = near[i], .table = k->table};

		if (!k->over && k->source.len == 0 && prefix_equal(&k->destination, &near[i])) {
			buf_printf(errors,
				"route %s is left out: it is a network that this host "
				"is connected to\n",
				prefix_format(&k->destination, text));
			return 0;
		}
		if (prefix_covers(&k->destination, &near[i]))
			r = routes_add(wanted, &aside, RTN_THROW);
	}
	return r < 0 ? r : routes_add(wanted, k, k->unreachable ? RTN_UNREACHABLE : RTN_UNICAST);
}

/* Leaves out the networks that a route takes over all the same. */
static size_t networks_keep(const struct kernel_state *want, struct prefix *near, size_t near_n)
{
	size_t n = 0;

	for (size_t i = 0; i < near_n; i++) {
		bool taken = false;

		for (size_t j = 0; j < want->route_count && !taken; j++)
			taken = want->route[j].over &&
				prefix_equal(&want->route[j].destination, &near[i]);
		if (!taken)
			near[n++] = near[i];
	}
	return n;
}

static int routes_want(struct os_netlink *n, const struct kernel_state *want, struct routes *ret,
	struct buf *errors)
{
	struct prefix *near = NULL;
	size_t near_n = 0;
	int r = want->route_count ? netlink_networks(n, &near, &near_n) : 0;

	near_n = networks_keep(want, near, near_n);
	for (size_t i = 0; i < want->route_count && r == 0; i++)
		r = route_want(ret, &want->route[i], near, near_n, errors);
	w_free(near);
	return r;
}

static void routes_sort(struct routes *r)
{
	size_t n = 0;

	if (r->count)
		qsort(r->v, r->count, sizeof(*r->v), route_compare);
	/* Two mesh routes may cover the same network. */
	for (size_t i = 0; i < r->count; i++)
		if (n == 0 || route_compare(&r->v[n - 1], &r->v[i]) != 0)
			r->v[n++] = r->v[i];
	r->count = n;
}

void netlink_routes_free(struct netlink_routes *r)
{
	w_free(r);
}

/* Without memory nothing is remembered: then what another program replaces stays replaced. */
static void routes_remember(struct os_netlink *n, const struct routes *wanted)
{
	struct netlink_routes *kept = w_alloc(sizeof(*kept) + wanted->count * sizeof(*kept->v));

	netlink_routes_free(n->applied);
	n->applied = kept;
	if (!kept)
		return;
	kept->count = wanted->count;
	if (wanted->count)
		memcpy(kept->v, wanted->v, wanted->count * sizeof(*kept->v));
}

int netlink_route_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors)
{
	struct routes have = {.n = n}, wanted = {.n = n};
	int r = route_dump(n, AF_INET, &have);
	int six = route_dump(n, AF_INET6, &have);

	if (r == 0 && six != -EAFNOSUPPORT && six != -EOPNOTSUPP)
		r = six;
	if (r == 0)
		r = routes_want(n, want, &wanted, errors);
	if (r < 0) {
		r = netlink_failed(errors, r, "read the routes");
	} else {
		routes_sort(&have);
		routes_sort(&wanted);
		/* First make room: the same route with another source address is the same key. */
		r = route_walk(n, &have, &wanted, false, errors);
		r = netlink_first(r, route_walk(n, &have, &wanted, true, errors));
		routes_remember(n, &wanted);
	}
	w_free(have.v);
	w_free(wanted.v);
	return r;
}
