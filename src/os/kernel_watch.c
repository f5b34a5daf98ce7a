/* Notices that another program took away or replaced what os_netlink_apply() made: a rule, a route,
 * an address, the TUN itself, its name, its MTU or its being up. A filter in the kernel lets
 * nothing else through, so that a host whose routes change by the thousand pays nothing here. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/netlink_priv.h"
#include "os/netns.h"

enum { CHUNK = 1 << 16, READS_MAX = 64, TABLES_MAX = 8, FILTER_MAX = 40 };

struct os_kernel_watch {
	const struct os_netlink *netlink;
	int fd;
	struct os_watch *watch;
	void (*fn)(void *ctx);
	void *ctx;
};

/* ---- the filter in the kernel ---- */

struct program {
	struct sock_filter code[FILTER_MAX];
	unsigned short n;
};

static void emit(struct program *p, struct sock_filter s)
{
	if (p->n < FILTER_MAX)
		p->code[p->n++] = s;
}

static void emit_jump(struct program *p, uint32_t k, uint8_t yes, uint8_t no)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no));
}

static void emit_return(struct program *p, bool pass)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, pass ? UINT32_MAX : 0));
}

/* Lets pass: rules, news of the TUN's link and addresses that went from it, and routes of
 * our tables. The kernel's messages are in host order, loads of the filter in network order. Both
 * struct ifinfomsg and struct ifaddrmsg have the interface in their second word; the table of a
 * route is in an attribute, since its field has eight bits. The numbers in the jumps are how many
 * instructions are passed over: whoever adds one below counts them anew. */
static void program_build(const struct os_netlink *n, struct program *p)
{
	const uint32_t type = offsetof(struct nlmsghdr, nlmsg_type);
	const uint32_t link = NLMSG_HDRLEN + offsetof(struct ifinfomsg, ifi_index);
	const uint32_t attributes = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct rtmsg));

	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, type));
	emit_jump(p, htons(RTM_NEWROUTE), 10, 0);
	emit_jump(p, htons(RTM_DELROUTE), 9, 0);
	emit_jump(p, htons(RTM_NEWLINK), 4, 0);
	emit_jump(p, htons(RTM_DELLINK), 3, 0);
	emit_jump(p, htons(RTM_DELADDR), 2, 0);
	emit_jump(p, htons(RTM_NEWRULE), 3, 0);
	emit_jump(p, htons(RTM_DELRULE), 2, 3);
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, link));
	emit_jump(p, htonl(n->ifindex), 0, 1);
	emit_return(p, true);
	emit_return(p, false);
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_IMM, attributes));
	emit(p, (struct sock_filter)BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, RTA_TABLE));
	emit(p,
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			(uint32_t)(SKF_AD_OFF + SKF_AD_NLATTR)));
	emit(p, (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0));
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_IND, NLA_HDRLEN));
	for (size_t i = 0; i < n->tables.n && i < TABLES_MAX; i++) {
		emit_jump(p, htonl(n->tables.v[i]), 0, 1);
		emit_return(p, true);
	}
	if (n->ranged) {
		/* a power of two of them: all have the same upper bits */
		emit(p,
			(struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K,
				htonl(~(n->ranged - 1))));
		emit_jump(p, htonl(n->range), 0, 1);
		emit_return(p, true);
	}
	emit_return(p, false);
}

int os_kernel_watch_update(struct os_kernel_watch *w)
{
	struct program p = {0};
	struct sock_fprog prog = {.filter = p.code};

	program_build(w->netlink, &p);
	prog.len = p.n;
	return setsockopt(w->fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ? -errno
											: 0;
}

static int watch_open(void *ctx)
{
	struct os_kernel_watch *w = ctx;
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
			RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE |
			(1U << (RTNLGRP_IPV6_RULE - 1))};
	int r;

	w->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (w->fd < 0)
		return -errno;
	r = os_kernel_watch_update(w);
	if (r < 0)
		return r;
	return bind(w->fd, (struct sockaddr *)&nl, sizeof(nl)) < 0 ? -errno : 0;
}

/* ---- what came ---- */

/* One of ours that went; or one that took the place of another. */
static bool lost_route(const struct os_netlink *n, struct nlmsghdr *h)
{
	struct rtmsg *t = nlmsg_data(h);
	struct nlattr *table = nlmsg_find_attr(h, sizeof(*t), RTA_TABLE);
	bool went = h->nlmsg_type == RTM_DELROUTE ? t->rtm_protocol == n->protocol
						  : (h->nlmsg_flags & NLM_F_REPLACE) != 0;

	return went && !(t->rtm_flags & RTM_F_CLONED) &&
		netlink_table_is_ours(n, netlink_get_u32(table, t->rtm_table));
}

/* One of ours that went; or another's that came or went where it matters. */
static bool lost_rule(const struct os_netlink *n, struct nlmsghdr *h)
{
	struct nlattr *protocol = nlmsg_find_attr(h, sizeof(struct fib_rule_hdr), FRA_PROTOCOL);
	struct nlattr *priority = nlmsg_find_attr(h, sizeof(struct fib_rule_hdr), FRA_PRIORITY);
	struct nlattr *mark = nlmsg_find_attr(h, sizeof(struct fib_rule_hdr), FRA_FWMARK);
	struct nlattr *mask = nlmsg_find_attr(h, sizeof(struct fib_rule_hdr), FRA_FWMASK);
	bool ours = protocol && netlink_get_u8(protocol, 0) == n->protocol;
	uint32_t at = netlink_get_u32(priority, 0);

	if (ours)
		return h->nlmsg_type == RTM_DELRULE &&
			(netlink_set_has(&n->priorities, at) ||
				netlink_set_has(&n->priorities, at + n->shift));
	return at &&
		(at <= n->last_priority ||
			netlink_marks_overlap(n->mark, n->mask, netlink_get_u32(mark, 0),
				netlink_get_u32(mask, UINT32_MAX)));
}

static bool lost_link(const struct os_netlink *n, struct nlmsghdr *h)
{
	const struct ifinfomsg *l = nlmsg_data(h);
	struct nlattr *name = nlmsg_find_attr(h, sizeof(*l), IFLA_IFNAME);
	struct nlattr *mtu = nlmsg_find_attr(h, sizeof(*l), IFLA_MTU);

	if ((uint32_t)l->ifi_index != n->ifindex || l->ifi_family != AF_UNSPEC)
		return false;
	return h->nlmsg_type == RTM_DELLINK || !(l->ifi_flags & IFF_UP) ||
		(name && nla_strcmp(name, n->name) != 0) ||
		(mtu && netlink_get_u32(mtu, 0) != n->mtu);
}

/* Our own requests bear the number of our socket. */
static bool lost_ours(const struct os_netlink *n, struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);

	if (h->nlmsg_pid == nl_socket_get_local_port(n->sock))
		return false;
	switch (h->nlmsg_type) {
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		return nlmsg_datalen(h) >= (int)sizeof(struct rtmsg) && lost_route(n, h);
	case RTM_NEWRULE:
	case RTM_DELRULE:
		return nlmsg_datalen(h) >= (int)sizeof(struct fib_rule_hdr) && lost_rule(n, h);
	case RTM_DELADDR:
		return nlmsg_datalen(h) >= (int)sizeof(*a) && a->ifa_index == n->ifindex;
	case RTM_NEWLINK:
	case RTM_DELLINK:
		return nlmsg_datalen(h) >= (int)sizeof(struct ifinfomsg) && lost_link(n, h);
	default:
		return false;
	}
}

static bool watch_look(const struct os_kernel_watch *w, void *chunk, ssize_t got)
{
	int left = (int)got;

	for (struct nlmsghdr *h = chunk; nlmsg_ok(h, left); h = nlmsg_next(h, &left))
		if (lost_ours(w->netlink, h))
			return true;
	return false;
}

/* A lost event (ENOBUFS) may have been one of ours. */
static void watch_events(void *ctx)
{
	struct os_kernel_watch *w = ctx;
	_Alignas(struct nlmsghdr) uint8_t chunk[CHUNK];
	bool lost = false;

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t got = recv(w->fd, chunk, sizeof(chunk), 0);

		if (got < 0 && errno == ENOBUFS)
			lost = true;
		else if (got < 0 && errno != EINTR)
			break;
		else if (got > 0)
			lost |= watch_look(w, chunk, got);
	}
	if (lost)
		w->fn(w->ctx);
}

int os_kernel_watch_new(struct os_loop *l, const struct os_netlink *n, void (*fn)(void *ctx),
	void *ctx, struct os_kernel_watch **ret)
{
	struct os_kernel_watch *w = w_calloc(1, sizeof(*w));
	struct buf error = {0};
	int r;

	if (!w)
		return -ENOMEM;
	w->netlink = n;
	w->fd = -1;
	w->fn = fn;
	w->ctx = ctx;
	r = os_netns_run(n->netns, watch_open, w, &error);
	buf_free(&error);
	if (r == 0)
		r = os_watch_new(l, w->fd, watch_events, w, &w->watch);
	if (r < 0) {
		os_kernel_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void os_kernel_watch_free(struct os_kernel_watch *w)
{
	if (!w)
		return;
	os_watch_free(w->watch);
	if (w->fd >= 0)
		close(w->fd);
	w_free(w);
}
