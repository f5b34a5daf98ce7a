/* Notices that the underlay's routes or interfaces changed. What changed does not matter, only that
 * something did. After it said so it reads no more for a while: a host whose routes change by the
 * thousand fills a small buffer, and the events that are lost then (ENOBUFS) say no more. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/clock.h"
#include "os/netlink.h"
#include "os/netns.h"

enum { CHUNK = 8192, QUEUE = 32768, READS_MAX = 256, PAUSE_US = 1000000 };
enum { PICKS_MAX = 32, FILTER_HEAD = 10, FILTER_EACH = 5 };

struct os_route_watch {
	struct os_loop *loop;
	int fd;
	struct os_watch *watch; /* NULL while it pauses */
	struct os_timer *timer;
	void (*fn)(void *ctx);
	void *ctx;
};

static int watch_open(void *ctx)
{
	struct os_route_watch *w = ctx;
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE};
	int size = QUEUE;

	w->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (w->fd < 0)
		return -errno;
	if (setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) < 0)
		return -errno;
	return bind(w->fd, (struct sockaddr *)&nl, sizeof(nl)) < 0 ? -errno : 0;
}

static bool watch_drain(const struct os_route_watch *w)
{
	uint8_t chunk[CHUNK];
	bool any = false;

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t got = recv(w->fd, chunk, sizeof(chunk), 0);

		if (got < 0 && errno != ENOBUFS && errno != EINTR)
			break;
		any = true;
	}
	return any;
}

static void watch_events(void *ctx)
{
	struct os_route_watch *w = ctx;

	os_watch_free(w->watch);
	w->watch = NULL;
	os_timer_set(w->timer, wtime_add(os_now(), PAUSE_US));
	if (watch_drain(w))
		w->fn(w->ctx);
}

static void watch_again(void *ctx)
{
	struct os_route_watch *w = ctx;

	/* Without memory: a second later. */
	if (!w->watch && os_watch_new(w->loop, w->fd, watch_events, w, &w->watch) < 0)
		os_timer_set(w->timer, wtime_add(os_now(), PAUSE_US));
}

int os_route_watch_new(struct os_loop *l, const char *netns, void (*fn)(void *ctx), void *ctx,
	struct os_route_watch **ret)
{
	struct os_route_watch *w = w_calloc(1, sizeof(*w));
	struct buf error = {0};
	int r;

	if (!w)
		return -ENOMEM;
	w->loop = l;
	w->fd = -1;
	w->fn = fn;
	w->ctx = ctx;
	r = os_netns_run(netns, watch_open, w, &error);
	buf_free(&error);
	if (r == 0)
		r = os_timer_new(l, watch_again, w, &w->timer);
	if (r == 0)
		r = os_watch_new(l, w->fd, watch_events, w, &w->watch);
	if (r < 0) {
		os_route_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

static void filter_pick(struct sock_filter *f, const struct kernel_pick *p)
{
	const uint32_t protocol = NLMSG_HDRLEN + offsetof(struct rtmsg, rtm_protocol);

	f[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_MEM, 0);
	f[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(p->table), 0, 3);
	f[2] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, protocol);
	f[3] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, p->protocol, 0, 1);
	f[4] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
}

int os_route_watch_pick(struct os_route_watch *w, const struct kernel_pick *pick, size_t picks)
{
	static const struct kernel_pick connected[] = {{RT_TABLE_MAIN, RTPROT_KERNEL},
		{RT_TABLE_MAIN, RTPROT_RA}, {RT_TABLE_MAIN, RTPROT_DHCP}};
	const uint32_t type = offsetof(struct nlmsghdr, nlmsg_type);
	const uint32_t attributes = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct rtmsg));
	const size_t own = sizeof(connected) / sizeof(*connected);
	/* The table of a route is an attribute; what is no route passes. The kernel's messages are
	 * in host order, loads of the filter in network order. */
	struct sock_filter f[FILTER_HEAD + PICKS_MAX * FILTER_EACH + 1] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, type),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWROUTE), 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELROUTE), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_LD | BPF_W | BPF_IMM, attributes),
		BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, RTA_TABLE),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_NLATTR)),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_IND, sizeof(struct nlattr)),
		BPF_STMT(BPF_ST, 0),
	};
	struct sock_fprog prog = {.filter = f};
	size_t n = FILTER_HEAD;

	if (own + picks > PICKS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < own + picks; i++, n += FILTER_EACH)
		filter_pick(f + n, i < own ? &connected[i] : &pick[i - own]);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	prog.len = (unsigned short)n;
	return setsockopt(w->fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ? -errno
											: 0;
}

void os_route_watch_free(struct os_route_watch *w)
{
	if (!w)
		return;
	os_watch_free(w->watch);
	os_timer_free(w->timer);
	if (w->fd >= 0)
		close(w->fd);
	w_free(w);
}
