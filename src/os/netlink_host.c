/* What the host has beside us: connected networks, and the routes that the configuration picked.
 * Both are read by table and protocol, so that a host with a million other routes hands over none.
 */
#include <errno.h>
#include <netlink/attr.h>
#include <string.h>
#include "base/mem.h"
#include "os/netlink_priv.h"

enum { FIRST = 16 };

struct networks {
	struct os_netlink *n;
	struct prefix *v;
	size_t count, cap;
	struct kernel_pick from; /* of those read now */
};

struct picked {
	struct os_netlink *n;
	struct kernel_picked *v;
	size_t count, cap;
	struct kernel_pick from;
};

struct prefix netlink_get_prefix(const struct nlattr *a, int family, uint8_t len)
{
	struct prefix p = {.addr = netlink_get_ip(a, family), .len = len};

	p.addr.family = family == AF_INET ? IP4 : IP6;
	return p;
}

/* Room for one more of size bytes each. */
static int host_grow(void **v, size_t size, size_t count, size_t *cap)
{
	size_t more = *cap ? *cap * 2 : FIRST;
	void *grown;

	if (count < *cap)
		return 0;
	grown = w_realloc(*v, more * size);
	if (!grown)
		return -ENOMEM;
	*v = grown;
	*cap = more;
	return 0;
}

static int host_dump(struct os_netlink *n, int family, const struct kernel_pick *from,
	netlink_each *each, void *ctx)
{
	struct rtmsg t = {.rtm_family = (uint8_t)family, .rtm_protocol = from->protocol};
	struct nl_msg *m = netlink_message(RTM_GETROUTE, NLM_F_DUMP, &t, sizeof(t));
	int r;

	if (m && nla_put_u32(m, RTA_TABLE, from->table) < 0) {
		nlmsg_free(m);
		m = NULL;
	}
	r = netlink_request(n, m, each, ctx);
	/* No such table yet, or no such family. */
	return r == -ENOENT || r == -EAFNOSUPPORT || r == -EOPNOTSUPP ? 0 : r;
}

/* Whether a route is what was asked for, of use, and leads elsewhere than into the TUN. */
static bool host_parse(const struct os_netlink *n, const struct kernel_pick *from,
	struct nlmsghdr *h, struct nlattr **a)
{
	const struct rtmsg *t = nlmsg_data(h);
	uint32_t table;

	if (!netlink_is(h, RTM_NEWROUTE, sizeof(*t)) ||
		nlmsg_parse(h, sizeof(*t), a, RTA_MAX, NULL) < 0)
		return false;
	table = netlink_get_u32(a[RTA_TABLE], t->rtm_table);
	return t->rtm_type == RTN_UNICAST && table == from->table &&
		t->rtm_protocol == from->protocol &&
		!(t->rtm_flags & (RTM_F_CLONED | RTNH_F_DEAD)) &&
		(t->rtm_family == AF_INET || t->rtm_family == AF_INET6) &&
		!(a[RTA_OIF] && netlink_get_u32(a[RTA_OIF], 0) == n->ifindex);
}

/* ---- connected networks ---- */

static int network_each(void *ctx, struct nlmsghdr *h)
{
	struct networks *all = ctx;
	const struct rtmsg *t = nlmsg_data(h);
	struct nlattr *a[RTA_MAX + 1];
	struct prefix p;
	int r;

	if (!host_parse(all->n, &all->from, h, a) || t->rtm_dst_len == 0 || a[RTA_GATEWAY] ||
		a[RTA_VIA] || !a[RTA_DST] || !a[RTA_OIF])
		return 0;
	p = netlink_get_prefix(a[RTA_DST], t->rtm_family, t->rtm_dst_len);
	if (ipaddr_is_link_local(&p.addr) || ipaddr_is_multicast(&p.addr))
		return 0;
	r = host_grow((void **)&all->v, sizeof(*all->v), all->count, &all->cap);
	if (r == 0)
		all->v[all->count++] = p;
	return r;
}

int netlink_networks(struct os_netlink *n, struct prefix **ret, size_t *ret_n)
{
	static const uint8_t protocols[] = {RTPROT_KERNEL, RTPROT_RA, RTPROT_DHCP};
	struct networks all = {.n = n};
	int r = 0;

	for (size_t i = 0; i < sizeof(protocols) && r == 0; i++) {
		all.from = (struct kernel_pick){RT_TABLE_MAIN, protocols[i]};
		r = host_dump(n, AF_INET, &all.from, network_each, &all);
		if (r == 0)
			r = host_dump(n, AF_INET6, &all.from, network_each, &all);
	}
	if (r < 0) {
		w_free(all.v);
		return r;
	}
	*ret = all.v;
	*ret_n = all.count;
	return 0;
}

/* ---- what was picked ---- */

/* A nest of next hops, one of which leads into the TUN. */
static bool leads_into(const struct nlattr *multipath, uint32_t ifindex)
{
	const struct rtnexthop *h = nla_data(multipath);
	int left = nla_len(multipath);

	for (; left >= (int)sizeof(*h) && RTNH_OK(h, left);
		left -= (int)RTNH_ALIGN(h->rtnh_len), h = RTNH_NEXT(h))
		if ((uint32_t)h->rtnh_ifindex == ifindex)
			return true;
	return false;
}

static int picked_each(void *ctx, struct nlmsghdr *h)
{
	struct picked *all = ctx;
	const struct rtmsg *t = nlmsg_data(h);
	struct nlattr *a[RTA_MAX + 1];
	struct kernel_picked p = {.from = all->from};
	int r;

	if (!host_parse(all->n, &all->from, h, a) ||
		(a[RTA_MULTIPATH] && leads_into(a[RTA_MULTIPATH], all->n->ifindex)))
		return 0;
	p.destination = netlink_get_prefix(a[RTA_DST], t->rtm_family, t->rtm_dst_len);
	if (t->rtm_src_len)
		p.source = netlink_get_prefix(a[RTA_SRC], t->rtm_family, t->rtm_src_len);
	r = host_grow((void **)&all->v, sizeof(*all->v), all->count, &all->cap);
	if (r == 0)
		all->v[all->count++] = p;
	return r;
}

int os_host_read(struct os_netlink *n, const struct kernel_pick *pick, size_t picks,
	struct kernel_host *ret)
{
	struct prefix *network = NULL;
	struct picked all = {.n = n};
	size_t networks = 0;
	int r = netlink_networks(n, &network, &networks);

	for (size_t i = 0; i < picks && r == 0; i++) {
		all.from = pick[i];
		r = host_dump(n, AF_INET, &pick[i], picked_each, &all);
		if (r == 0)
			r = host_dump(n, AF_INET6, &pick[i], picked_each, &all);
	}
	if (r < 0) {
		w_free(network);
		w_free(all.v);
		return r;
	}
	*ret = (struct kernel_host){network, networks, all.v, all.count};
	return 0;
}

void os_host_free(struct kernel_host *h)
{
	w_free((void *)(uintptr_t)h->network);
	w_free((void *)(uintptr_t)h->route);
	*h = (struct kernel_host){0};
}
