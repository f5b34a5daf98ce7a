/* Routes through the TUN. Ours bear our protocol number, lie in one of our tables, and lead into
 * the TUN or nowhere. */
#include <errno.h>
#include <netlink/attr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "os/netlink_priv.h"

enum { DEFAULT_METRIC6 = 1024, ROUTES_FIRST = 64 };

struct routes {
	struct os_netlink *n;
	struct kernel_route *v;
	size_t count, cap;
};

static int route_compare(const void *pa, const void *pb)
{
	const struct kernel_route *a = pa, *b = pb;
	int r = prefix_compare(&a->destination, &b->destination);

	if (r == 0)
		r = prefix_compare(&a->source, &b->source);
	if (r == 0)
		r = (a->table > b->table) - (a->table < b->table);
	if (r == 0)
		r = (a->metric > b->metric) - (a->metric < b->metric);
	if (r == 0)
		r = a->unreachable - b->unreachable;
	if (r == 0)
		r = ipaddr_compare(&a->prefer, &b->prefer);
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
	if (k->unreachable)
		k->prefer = (struct ipaddr){0};
}

static int routes_add(struct routes *all, const struct kernel_route *k)
{
	if (all->count == all->cap) {
		size_t cap = all->cap ? all->cap * 2 : ROUTES_FIRST;
		struct kernel_route *grown = w_realloc(all->v, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		all->v = grown;
		all->cap = cap;
	}
	all->v[all->count] = *k;
	route_normalise(&all->v[all->count++]);
	return 0;
}

static struct prefix route_prefix(const struct nlattr *a, int family, uint8_t len)
{
	struct prefix p = {.addr = netlink_get_ip(a, family), .len = len};

	p.addr.family = family == AF_INET ? IP4 : IP6;
	return p;
}

static int route_each(void *ctx, struct nlmsghdr *h)
{
	struct routes *all = ctx;
	struct rtmsg *t = nlmsg_data(h);
	struct nlattr *a[RTA_MAX + 1];
	struct kernel_route got = {0};
	uint32_t oif;

	if (h->nlmsg_type != RTM_NEWROUTE || nlmsg_parse(h, sizeof(*t), a, RTA_MAX, NULL) < 0)
		return 0;
	if (t->rtm_protocol != all->n->protocol || (t->rtm_flags & RTM_F_CLONED) ||
		(t->rtm_family != AF_INET && t->rtm_family != AF_INET6))
		return 0;
	got.table = a[RTA_TABLE] ? nla_get_u32(a[RTA_TABLE]) : t->rtm_table;
	got.unreachable = t->rtm_type == RTN_UNREACHABLE;
	oif = a[RTA_OIF] ? nla_get_u32(a[RTA_OIF]) : 0;
	if (!netlink_set_has(&all->n->tables, got.table) ||
		(!got.unreachable && (t->rtm_type != RTN_UNICAST || oif != all->n->ifindex)))
		return 0;
	got.destination = route_prefix(a[RTA_DST], t->rtm_family, t->rtm_dst_len);
	got.source = route_prefix(a[RTA_SRC], t->rtm_family, t->rtm_src_len);
	got.prefer = netlink_get_ip(a[RTA_PREFSRC], t->rtm_family);
	got.metric = a[RTA_PRIORITY] ? nla_get_u32(a[RTA_PRIORITY]) : 0;
	return routes_add(all, &got);
}

static int route_dump(struct os_netlink *n, int family, struct routes *all)
{
	struct rtmsg t = {.rtm_family = (uint8_t)family, .rtm_protocol = n->protocol};

	return netlink_request(n, netlink_message(RTM_GETROUTE, NLM_F_DUMP, &t, sizeof(t)),
		route_each, all);
}

static int route_attributes(struct os_netlink *n, struct nl_msg *m, const struct kernel_route *k)
{
	int r = nla_put_u32(m, RTA_TABLE, k->table);

	if (r == 0 && k->destination.len)
		r = netlink_put_ip(m, RTA_DST, &k->destination.addr);
	if (r == 0 && k->source.len)
		r = netlink_put_ip(m, RTA_SRC, &k->source.addr);
	if (r == 0 && k->metric)
		r = nla_put_u32(m, RTA_PRIORITY, k->metric);
	if (r == 0 && k->prefer.family != IP_NONE)
		r = netlink_put_ip(m, RTA_PREFSRC, &k->prefer);
	if (r == 0 && !k->unreachable)
		r = nla_put_u32(m, RTA_OIF, n->ifindex);
	return r < 0 ? -ENOMEM : 0;
}

static int route_change(struct os_netlink *n, const struct kernel_route *k, bool add)
{
	bool four = k->destination.addr.family == IP4;
	struct rtmsg t = {.rtm_family = four ? AF_INET : AF_INET6,
		.rtm_dst_len = k->destination.len,
		.rtm_src_len = k->source.len,
		.rtm_protocol = n->protocol,
		.rtm_table = RT_TABLE_UNSPEC,
		.rtm_type = k->unreachable ? RTN_UNREACHABLE : RTN_UNICAST,
		.rtm_scope = four && !k->unreachable ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE};
	struct nl_msg *m;
	int r;

	if (four && k->source.len)
		return -EOPNOTSUPP; /* the kernel has no such thing for IPv4 */
	m = netlink_message(add ? RTM_NEWROUTE : RTM_DELROUTE,
		NLM_F_ACK | (add ? NLM_F_CREATE | NLM_F_EXCL : 0), &t, sizeof(t));
	r = m ? route_attributes(n, m, k) : -ENOMEM;
	if (r < 0) {
		nlmsg_free(m);
		return r;
	}
	return netlink_request(n, m, NULL, NULL);
}

static int route_step(struct os_netlink *n, const struct kernel_route *k, bool add,
	struct buf *errors)
{
	char to[PREFIX_TEXT], from[PREFIX_TEXT + 8] = "", text[PREFIX_TEXT];
	int r = route_change(n, k, add);

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

int netlink_route_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors)
{
	struct routes have = {.n = n}, wanted = {.n = n};
	int r = route_dump(n, AF_INET, &have);
	int six = route_dump(n, AF_INET6, &have);

	if (r == 0 && six != -EAFNOSUPPORT && six != -EOPNOTSUPP)
		r = six;
	for (size_t i = 0; i < want->route_count && r == 0; i++)
		r = routes_add(&wanted, &want->route[i]);
	if (r < 0) {
		r = netlink_failed(errors, r, "read the routes");
	} else {
		if (have.count)
			qsort(have.v, have.count, sizeof(*have.v), route_compare);
		if (wanted.count)
			qsort(wanted.v, wanted.count, sizeof(*wanted.v), route_compare);
		/* First make room: the same route with another source address is the same key. */
		r = route_walk(n, &have, &wanted, false, errors);
		r = netlink_first(r, route_walk(n, &have, &wanted, true, errors));
	}
	w_free(have.v);
	w_free(wanted.v);
	return r;
}
