/* Which way a datagram would take, as the kernel says it (RTM_GETROUTE): the interface, and the MTU
 * there. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <stdio.h>
#include <string.h>
#include "os/netlink_priv.h"

struct route_facts {
	uint32_t ifindex, mtu;
	bool expires; /* it is the kernel's note of an ICMP message */
};

static int route_each(void *ctx, struct nlmsghdr *h)
{
	struct route_facts *f = ctx;
	struct rtmsg *t = nlmsg_data(h);
	struct nlattr *a[RTA_MAX + 1], *m[RTAX_MAX + 1];
	struct rta_cacheinfo cache;

	if (!netlink_is(h, RTM_NEWROUTE, sizeof(*t)) ||
		nlmsg_parse(h, sizeof(*t), a, RTA_MAX, NULL) < 0)
		return 0;
	f->ifindex = netlink_get_u32(a[RTA_OIF], 0);
	if (a[RTA_METRICS] && nla_parse_nested(m, RTAX_MAX, a[RTA_METRICS], NULL) == 0 &&
		m[RTAX_MTU])
		f->mtu = netlink_get_u32(m[RTAX_MTU], 0);
	f->expires = false;
	if (a[RTA_CACHEINFO] && nla_len(a[RTA_CACHEINFO]) >= (int)sizeof(cache)) {
		memcpy(&cache, nla_data(a[RTA_CACHEINFO]), sizeof(cache));
		f->expires = cache.rta_expires != 0;
	}
	return 0;
}

static int link_each(void *ctx, struct nlmsghdr *h)
{
	struct os_path *p = ctx;
	struct ifinfomsg *i = nlmsg_data(h);
	struct nlattr *mtu, *name;

	if (!netlink_is(h, RTM_NEWLINK, sizeof(*i)))
		return 0;
	mtu = nlmsg_find_attr(h, sizeof(*i), IFLA_MTU);
	name = nlmsg_find_attr(h, sizeof(*i), IFLA_IFNAME);
	p->mtu = netlink_get_u32(mtu, 0);
	if (name)
		(void)nla_strlcpy(p->interface, name, sizeof(p->interface));
	return 0;
}

static int route_get(struct os_netlink *n, const struct os_path_ask *ask, struct route_facts *ret)
{
	struct rtmsg t = {.rtm_family = (uint8_t)netlink_family(ask->remote.family),
		.rtm_dst_len = (uint8_t)ipaddr_bits(&ask->remote)};
	struct nl_msg *m = netlink_message(RTM_GETROUTE, 0, &t, sizeof(t));
	int r = m ? netlink_put_ip(m, RTA_DST, &ask->remote) : -ENOMEM;

	if (r == 0 && ask->mark)
		r = nla_put_u32(m, RTA_MARK, ask->mark) < 0 ? -ENOMEM : 0;
	if (r == 0 && ask->ifindex)
		r = nla_put_u32(m, RTA_OIF, ask->ifindex) < 0 ? -ENOMEM : 0;
	if (r < 0) {
		nlmsg_free(m);
		return r;
	}
	return netlink_request(n, m, route_each, ret);
}

int os_netlink_path(struct os_netlink *n, const struct os_path_ask *ask, struct os_path *ret)
{
	struct route_facts f = {0};
	struct os_path p = {0};
	struct ifinfomsg i = {.ifi_family = AF_UNSPEC};
	int r = route_get(n, ask, &f);

	if (r == 0 && f.ifindex == 0)
		r = -ENETUNREACH;
	if (r < 0)
		return r;
	i.ifi_index = (int)f.ifindex;
	r = netlink_request(n, netlink_message(RTM_GETLINK, 0, &i, sizeof(i)), link_each, &p);
	if (r < 0)
		return r;
	p.ifindex = f.ifindex;
	if (f.mtu && f.mtu < p.mtu && f.expires)
		p.learned = f.mtu;
	else if (f.mtu && f.mtu < p.mtu)
		p.mtu = f.mtu;
	*ret = p;
	return 0;
}
