/* The TUN's link and addresses. It makes no link-local address of its own (addr_gen_mode none): the
 * node's one stable address is put there, without duplicate address detection, which would leave it
 * tentative on a link that has no neighbours. */
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "os/file.h"
#include "os/netlink_priv.h"
#include "os/netns.h"

/* Older headers lack what the running kernel may have. */
#ifndef IFA_PROTO
#define IFA_PROTO 11
#endif

enum { PATH_BYTES = 128, LINK_LOCAL_LEN = 64 };

struct link_facts {
	uint32_t ifindex, mtu, flags;
	char name[KERNEL_NAME];
};

static int link_each(void *ctx, struct nlmsghdr *h)
{
	struct link_facts *f = ctx;
	struct ifinfomsg *i = nlmsg_data(h);
	struct nlattr *mtu = nlmsg_find_attr(h, sizeof(*i), IFLA_MTU);
	struct nlattr *name = nlmsg_find_attr(h, sizeof(*i), IFLA_IFNAME);

	if (!netlink_is(h, RTM_NEWLINK, sizeof(*i)))
		return 0;
	if (name)
		(void)nla_strlcpy(f->name, name, sizeof(f->name));
	f->ifindex = (uint32_t)i->ifi_index;
	f->flags = i->ifi_flags;
	f->mtu = netlink_get_u32(mtu, 0);
	return 0;
}

/* By its number, when it is bound to one. */
static int link_find(struct os_netlink *n, const char *name, struct link_facts *ret)
{
	struct ifinfomsg i = {.ifi_family = AF_UNSPEC, .ifi_index = n->bound ? (int)n->ifindex : 0};
	struct nl_msg *m = netlink_message(RTM_GETLINK, 0, &i, sizeof(i));

	if (m && !n->bound && nla_put_string(m, IFLA_IFNAME, name) < 0) {
		nlmsg_free(m);
		m = NULL;
	}
	return netlink_request(n, m, link_each, ret);
}

static int link_set_gen_mode(struct os_netlink *n)
{
	struct ifinfomsg i = {.ifi_family = AF_UNSPEC, .ifi_index = (int)n->ifindex};
	struct nl_msg *m = netlink_message(RTM_NEWLINK, NLM_F_ACK, &i, sizeof(i));
	struct nlattr *spec = m ? nla_nest_start(m, IFLA_AF_SPEC) : NULL;
	struct nlattr *six = spec ? nla_nest_start(m, AF_INET6) : NULL;

	if (!six || nla_put_u8(m, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE) < 0) {
		nlmsg_free(m);
		return -ENOMEM;
	}
	nla_nest_end(m, six);
	nla_nest_end(m, spec);
	return netlink_request(n, m, NULL, NULL);
}

/* Sets the MTU, and the flags that are given (IFF_UP, or none). */
static int link_set(struct os_netlink *n, const struct kernel_state *want,
	const struct link_facts *have, unsigned int flags)
{
	struct ifinfomsg i = {.ifi_family = AF_UNSPEC,
		.ifi_index = (int)n->ifindex,
		.ifi_flags = flags,
		.ifi_change = flags};
	struct nl_msg *m;

	if (have->mtu == want->mtu && (have->flags & flags) == flags)
		return 0;
	n->changes++;
	m = netlink_message(RTM_NEWLINK, NLM_F_ACK, &i, sizeof(i));
	if (m && nla_put_u32(m, IFLA_MTU, want->mtu) < 0) {
		nlmsg_free(m);
		m = NULL;
	}
	return netlink_request(n, m, NULL, NULL);
}

static int link_down(struct os_netlink *n)
{
	struct ifinfomsg i = {.ifi_family = AF_UNSPEC,
		.ifi_index = (int)n->ifindex,
		.ifi_change = IFF_UP};

	return netlink_request(n, netlink_message(RTM_NEWLINK, NLM_F_ACK, &i, sizeof(i)), NULL,
		NULL);
}

static int link_set_name(struct os_netlink *n, const char *name)
{
	struct ifinfomsg i = {.ifi_family = AF_UNSPEC, .ifi_index = (int)n->ifindex};
	struct nl_msg *m = netlink_message(RTM_NEWLINK, NLM_F_ACK, &i, sizeof(i));

	if (m && nla_put_string(m, IFLA_IFNAME, name) < 0) {
		nlmsg_free(m);
		m = NULL;
	}
	return netlink_request(n, m, NULL, NULL);
}

/* Another program renamed the device: rules and people know it by the name that it had. A device
 * that is up can be renamed by newer kernels alone. */
static void link_rename(struct os_netlink *n, const char *name, struct link_facts *have,
	struct buf *errors)
{
	int r = link_set_name(n, name);

	if (r == -EBUSY && link_down(n) == 0) {
		have->flags &= ~(uint32_t)IFF_UP;
		r = link_set_name(n, name);
	}
	n->changes++;
	if (r < 0)
		(void)netlink_failed(errors, r,
			"the TUN was renamed to %s, and cannot be named %s again", have->name,
			name);
	else
		memcpy(have->name, n->name, sizeof(have->name));
}

static bool wants_six(const struct kernel_state *want)
{
	for (size_t i = 0; i < want->address_count; i++)
		if (want->address[i].ip.family == IP6)
			return true;
	return want->link_local.family == IP6;
}

static int six_disabled(void *ctx)
{
	const char *tun = ctx;
	char path[PATH_BYTES];
	long v = 0;
	int r;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", tun);
	r = os_file_read_number(path, &v);
	if (r == -ENOENT)
		return 2;
	return r < 0 ? r : v != 0;
}

static int link_check_six(struct os_netlink *n, char *name, struct buf *errors)
{
	int r = os_netns_run(n->netns, six_disabled, name, errors);

	if (r == 1) {
		buf_printf(errors,
			"%s: IPv6 is switched off (net.ipv6.conf.%s.disable_ipv6=1): "
			"set net.ipv6.conf.all.disable_ipv6 and "
			"net.ipv6.conf.default.disable_ipv6 to 0 with sysctl, then start again\n",
			name, name);
		return -EAFNOSUPPORT;
	}
	if (r == 2) {
		buf_printf(errors,
			"%s: the kernel has no IPv6 (ipv6.disable=1?), which the mesh "
			"needs on its own interface\n",
			name);
		return -EAFNOSUPPORT;
	}
	return r < 0 ? netlink_failed(errors, r, "interface %s: whether IPv6 is on", name) : 0;
}

int netlink_link_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors)
{
	struct link_facts have = {0};
	int r = link_find(n, want->tun, &have);

	if (r < 0 || have.ifindex == 0)
		return netlink_failed(errors, r < 0 ? r : -ENODEV, "interface %s", want->tun);
	n->ifindex = have.ifindex;
	memcpy(n->name, want->tun, sizeof(n->name));
	n->mtu = want->mtu;
	if (n->bound && strcmp(have.name, want->tun) != 0)
		link_rename(n, want->tun, &have, errors);
	if (wants_six(want)) {
		/* below 1280 the kernel has no IPv6 on it; made up for before it is looked for */
		r = link_set(n, want, &have, 0);
		if (r < 0)
			return netlink_failed(errors, r, "%s: mtu %u", want->tun, want->mtu);
		have.mtu = want->mtu;
		r = link_check_six(n, have.name, errors);
		if (r < 0)
			return r;
		r = link_set_gen_mode(n);
		if (r < 0)
			return netlink_failed(errors, r, "%s: addr_gen_mode none", want->tun);
	}
	r = link_set(n, want, &have, IFF_UP);
	return r < 0 ? netlink_failed(errors, r, "%s: mtu %u, up", want->tun, want->mtu) : 0;
}

/* ---- addresses ---- */

struct address {
	struct kernel_address a;
	bool ours; /* has our protocol number, or is a link-local one that is not wanted */
};

struct addresses {
	struct os_netlink *n;
	struct address *v;
	size_t count;
};

static bool address_equal(const struct kernel_address *a, const struct kernel_address *b)
{
	return a->len == b->len && ipaddr_equal(&a->ip, &b->ip);
}

static bool address_in(const struct kernel_address *v, size_t n, const struct kernel_address *a)
{
	for (size_t i = 0; i < n; i++)
		if (address_equal(&v[i], a))
			return true;
	return false;
}

static int address_each(void *ctx, struct nlmsghdr *h)
{
	struct addresses *all = ctx;
	struct ifaddrmsg *i = nlmsg_data(h);
	struct nlattr *local = nlmsg_find_attr(h, sizeof(*i), IFA_LOCAL);
	struct nlattr *proto = nlmsg_find_attr(h, sizeof(*i), IFA_PROTO);
	struct address *grown, got = {0};

	if (!netlink_is(h, RTM_NEWADDR, sizeof(*i)) || i->ifa_index != all->n->ifindex)
		return 0;
	if (!local)
		local = nlmsg_find_attr(h, sizeof(*i), IFA_ADDRESS);
	got.a.ip = netlink_get_ip(local, i->ifa_family);
	got.a.len = i->ifa_prefixlen;
	if (got.a.ip.family == IP_NONE)
		return 0;
	got.ours = (proto && netlink_get_u8(proto, 0) == all->n->protocol) ||
		address_in(all->n->added, all->n->added_count, &got.a);
	grown = w_realloc(all->v, (all->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[all->count++] = got;
	all->v = grown;
	return 0;
}

static int address_dump(struct os_netlink *n, struct addresses *ret)
{
	struct ifaddrmsg i = {.ifa_family = AF_UNSPEC, .ifa_index = n->ifindex};

	ret->n = n;
	return netlink_request(n, netlink_message(RTM_GETADDR, NLM_F_DUMP, &i, sizeof(i)),
		address_each, ret);
}

static int address_change(struct os_netlink *n, const struct kernel_address *a, bool add)
{
	struct ifaddrmsg i = {.ifa_family = (uint8_t)netlink_family(a->ip.family),
		.ifa_prefixlen = a->len,
		.ifa_index = n->ifindex};
	struct nl_msg *m;
	int r;

	if (ipaddr_is_link_local(&a->ip))
		i.ifa_scope = RT_SCOPE_LINK;
	m = netlink_message(add ? RTM_NEWADDR : RTM_DELADDR,
		NLM_F_ACK | (add ? NLM_F_CREATE | NLM_F_EXCL : 0), &i, sizeof(i));
	r = m ? netlink_put_ip(m, IFA_LOCAL, &a->ip) : -ENOMEM;
	if (r == 0)
		r = netlink_put_ip(m, IFA_ADDRESS, &a->ip);
	if (r == 0 && add)
		r = nla_put_u8(m, IFA_PROTO, n->protocol) < 0 ? -ENOMEM : 0;
	if (r == 0 && add && a->ip.family == IP6)
		r = nla_put_u32(m, IFA_FLAGS, IFA_F_NODAD) < 0 ? -ENOMEM : 0;
	if (r < 0) {
		nlmsg_free(m);
		return r;
	}
	return netlink_request(n, m, NULL, NULL);
}

static int address_remember(struct os_netlink *n, const struct kernel_address *a)
{
	struct kernel_address *grown;

	if (address_in(n->added, n->added_count, a))
		return 0;
	grown = w_realloc(n->added, (n->added_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[n->added_count++] = *a;
	n->added = grown;
	return 0;
}

static int address_add(struct os_netlink *n, const struct kernel_address *a, struct buf *errors)
{
	char text[ADDR_TEXT];
	int r = address_remember(n, a);

	if (r == 0)
		r = address_change(n, a, true);
	n->changes += r == 0;
	if (r == 0 || r == -EEXIST)
		return 0;
	return netlink_failed(errors, r, "add address %s/%u", ipaddr_format(&a->ip, text), a->len);
}

/* All that is wanted, the link-local one too. NULL without memory. */
static struct kernel_address *address_wanted(const struct kernel_state *want, size_t *ret_n)
{
	size_t n = want->address_count;
	struct kernel_address *all = w_calloc(n + 1, sizeof(*all));

	if (!all)
		return NULL;
	if (n)
		memcpy(all, want->address, n * sizeof(*all));
	if (want->link_local.family == IP6)
		all[n++] = (struct kernel_address){.ip = want->link_local, .len = LINK_LOCAL_LEN};
	*ret_n = n;
	return all;
}

static int address_sync(struct os_netlink *n, const struct addresses *have,
	const struct kernel_address *want, size_t want_n, struct buf *errors)
{
	char text[ADDR_TEXT];
	int r = 0;

	for (size_t i = 0; i < have->count; i++) {
		const struct kernel_address *a = &have->v[i].a;
		/* Link-local addresses that the kernel made: two would flip. */
		bool stray = want_n && a->ip.family == IP6 && ipaddr_is_link_local(&a->ip);
		int e;

		if ((!have->v[i].ours && !stray) || address_in(want, want_n, a))
			continue;
		e = address_change(n, a, false);
		if (e < 0 && e != -EADDRNOTAVAIL)
			r = netlink_first(r,
				netlink_failed(errors, e, "remove address %s/%u",
					ipaddr_format(&a->ip, text), a->len));
	}
	for (size_t i = 0; i < want_n; i++) {
		bool there = false;

		for (size_t j = 0; j < have->count && !there; j++)
			there = address_equal(&have->v[j].a, &want[i]);
		if (!there)
			r = netlink_first(r, address_add(n, &want[i], errors));
	}
	return r;
}

int netlink_address_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors)
{
	struct addresses have = {0};
	size_t want_n = 0;
	struct kernel_address *all = address_wanted(want, &want_n);
	int r = all ? 0 : -ENOMEM;

	if (r == 0)
		r = address_dump(n, &have);
	if (r == -ENODEV && want_n == 0)
		r = 0; /* they went with the device */
	if (r < 0)
		r = netlink_failed(errors, r, "addresses of interface %u", n->ifindex);
	else
		r = address_sync(n, &have, all, want_n, errors);
	w_free(have.v);
	w_free(all);
	return r;
}
