/* Notices that another program took away what os_netlink_apply() made: a rule, a route, an address,
 * or the TUN's being up. A filter in the kernel lets nothing else through, so that a host whose
 * routes change by the thousand pays nothing here. */
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

enum { CHUNK = 1 << 16, READS_MAX = 64, TABLES_MAX = 8, FILTER_MAX = 32 };

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

/* What is in an 8-bit table field: larger numbers are in an attribute, the field has 252 then. */
static uint32_t table_field(uint32_t table)
{
	return table <= UINT8_MAX ? table : RT_TABLE_COMPAT;
}

/* Lets pass: rules and addresses that went, news of links, and routes that went from our tables.
 * The kernel's messages are in host order, loads of the filter in network order. */
static void program_build(const struct os_netlink *n, struct program *p)
{
	const uint32_t type = offsetof(struct nlmsghdr, nlmsg_type);
	const uint32_t table = NLMSG_HDRLEN + offsetof(struct rtmsg, rtm_table);
	static const uint16_t pass[] = {RTM_DELRULE, RTM_DELADDR, RTM_NEWLINK};

	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, type));
	for (size_t i = 0; i < sizeof(pass) / sizeof(*pass); i++) {
		emit(p,
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(pass[i]), 0,
				1));
		emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
	}
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELROUTE), 1, 0));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, table));
	for (size_t i = 0; i < n->tables.n && i < TABLES_MAX; i++) {
		emit(p,
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
				table_field(n->tables.v[i]), 0, 1));
		emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
	}
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
}

static int watch_open(void *ctx)
{
	struct os_kernel_watch *w = ctx;
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
			RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE |
			(1U << (RTNLGRP_IPV6_RULE - 1))};
	struct program p = {0};
	struct sock_fprog prog = {.filter = p.code};

	program_build(w->netlink, &p);
	prog.len = p.n;
	w->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (w->fd < 0)
		return -errno;
	if (setsockopt(w->fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0)
		return -errno;
	return bind(w->fd, (struct sockaddr *)&nl, sizeof(nl)) < 0 ? -errno : 0;
}

/* ---- what came ---- */

static bool lost_route(const struct os_netlink *n, struct nlmsghdr *h)
{
	struct rtmsg *t = nlmsg_data(h);
	struct nlattr *table = nlmsg_find_attr(h, sizeof(*t), RTA_TABLE);

	return t->rtm_protocol == n->protocol && !(t->rtm_flags & RTM_F_CLONED) &&
		netlink_set_has(&n->tables, table ? nla_get_u32(table) : t->rtm_table);
}

static bool lost_rule(const struct os_netlink *n, struct nlmsghdr *h)
{
	struct nlattr *protocol = nlmsg_find_attr(h, sizeof(struct fib_rule_hdr), FRA_PROTOCOL);
	struct nlattr *priority = nlmsg_find_attr(h, sizeof(struct fib_rule_hdr), FRA_PRIORITY);

	return protocol && nla_get_u8(protocol) == n->protocol && priority &&
		netlink_set_has(&n->priorities, nla_get_u32(priority));
}

/* Our own requests bear the number of our socket. */
static bool lost_ours(const struct os_netlink *n, struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);
	const struct ifinfomsg *l = nlmsg_data(h);

	if (h->nlmsg_pid == nl_socket_get_local_port(n->sock))
		return false;
	switch (h->nlmsg_type) {
	case RTM_DELROUTE:
		return nlmsg_datalen(h) >= (int)sizeof(struct rtmsg) && lost_route(n, h);
	case RTM_DELRULE:
		return nlmsg_datalen(h) >= (int)sizeof(struct fib_rule_hdr) && lost_rule(n, h);
	case RTM_DELADDR:
		return nlmsg_datalen(h) >= (int)sizeof(*a) && a->ifa_index == n->ifindex;
	case RTM_NEWLINK:
		return nlmsg_datalen(h) >= (int)sizeof(*l) &&
			(uint32_t)l->ifi_index == n->ifindex && !(l->ifi_flags & IFF_UP);
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
