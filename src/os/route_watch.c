/* Notices that the underlay's routes or interfaces changed. What changed does not matter, only that
 * something did. After it said so it reads no more for a while: a host whose routes change by the
 * thousand fills a small buffer, and the events that are lost then (ENOBUFS) say no more. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/clock.h"
#include "os/netlink.h"
#include "os/netns.h"

enum { CHUNK = 8192, QUEUE = 32768, READS_MAX = 256, PAUSE_US = 1000000 };

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
