/* Local addresses that come and go, strict reverse path filters, and forwarding. */
#include <dirent.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/file.h"
#include "os/netlink.h"
#include "os/netns.h"

enum { CHUNK = 16384, READS_MAX = 64, PATH_BYTES = 320, STRICT = 1 };

struct os_address_watch {
	int fd;
	struct os_watch *watch;
	void (*fn)(void *ctx);
	void *ctx;
};

static int watch_open(void *ctx)
{
	struct os_address_watch *w = ctx;
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};

	w->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (w->fd < 0)
		return -errno;
	return bind(w->fd, (struct sockaddr *)&nl, sizeof(nl)) < 0 ? -errno : 0;
}

/* What changed does not matter, only that something did; a lost event (ENOBUFS) is one too. */
static void watch_events(void *ctx)
{
	struct os_address_watch *w = ctx;
	uint8_t chunk[CHUNK];
	bool any = false;

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t got = recv(w->fd, chunk, sizeof(chunk), 0);

		if (got < 0 && errno != ENOBUFS && errno != EINTR)
			break;
		any = true;
	}
	if (any)
		w->fn(w->ctx);
}

int os_address_watch_new(struct os_loop *l, const char *netns, void (*fn)(void *ctx), void *ctx,
	struct os_address_watch **ret)
{
	struct os_address_watch *w = w_calloc(1, sizeof(*w));
	struct buf error = {0};
	int r;

	if (!w)
		return -ENOMEM;
	w->fd = -1;
	w->fn = fn;
	w->ctx = ctx;
	r = os_netns_run(netns, watch_open, w, &error);
	buf_free(&error);
	if (r == 0)
		r = os_watch_new(l, w->fd, watch_events, w, &w->watch);
	if (r < 0) {
		os_address_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void os_address_watch_free(struct os_address_watch *w)
{
	if (!w)
		return;
	os_watch_free(w->watch);
	if (w->fd >= 0)
		close(w->fd);
	w_free(w);
}

/* ---- reverse path filters ---- */

struct filter_job {
	const char *tun;
	struct buf *warnings;
};

static long filter_of(const char *interface)
{
	char path[PATH_BYTES];
	long v = 0;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", interface);
	return os_file_read_number(path, &v) < 0 ? 0 : v;
}

/* The filter in force is the larger of the interface's and that of "all": 1 strict, 2 loose. */
static int filter_job(void *ctx)
{
	struct filter_job *job = ctx;
	long all = filter_of("all");
	DIR *d = opendir("/proc/sys/net/ipv4/conf");
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		const char *name = e->d_name;
		long own;

		if (name[0] == '.' || strcmp(name, "all") == 0 || strcmp(name, "default") == 0 ||
			strcmp(name, "lo") == 0 || strcmp(name, job->tun) == 0)
			continue;
		own = filter_of(name);
		if ((own > all ? own : all) != STRICT)
			continue;
		buf_printf(job->warnings,
			"interface %s: net.ipv4.conf.%s.rp_filter=1 drops "
			"packets of the mesh's peers, because the default route leads into %s: set "
			"net.ipv4.conf.%s.rp_filter=2 with sysctl\n",
			name, own == STRICT ? name : "all", job->tun, name);
	}
	closedir(d);
	return 0;
}

void os_reverse_path_check(const char *netns, const struct kernel_state *want, struct buf *warnings)
{
	struct filter_job job = {.tun = want->tun, .warnings = warnings};
	struct buf error = {0};

	for (size_t i = 0; i < want->route_count; i++) {
		const struct kernel_route *k = &want->route[i];

		if (k->destination.addr.family != IP4 || k->destination.len > 1 || k->unreachable)
			continue;
		if (os_netns_run(netns, filter_job, &job, &error) < 0)
			buf_printf(warnings, "cannot read the reverse path filters%s%.*s\n",
				error.n ? ": " : "", (int)error.n,
				error.n ? (const char *)error.p : "");
		break;
	}
	buf_free(&error);
}

struct forwarding_job {
	const struct kernel_state *want;
	struct buf *warnings;
};

static void forwarding_of(const struct forwarding_job *job, const char *family, const char *sysctl)
{
	char path[PATH_BYTES];
	long v = 0;

	snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/forwarding", family, job->want->tun);
	if (os_file_read_number(path, &v) < 0 || v)
		return;
	buf_printf(job->warnings,
		"this node announces networks or is an exit, but the kernel does not forward %s: "
		"set %s=1 with sysctl\n",
		strcmp(family, "ipv4") == 0 ? "IPv4" : "IPv6", sysctl);
}

static int forwarding_job(void *ctx)
{
	const struct forwarding_job *job = ctx;

	if (job->want->forward4)
		forwarding_of(job, "ipv4", "net.ipv4.ip_forward");
	if (job->want->forward6)
		forwarding_of(job, "ipv6", "net.ipv6.conf.all.forwarding");
	return 0;
}

void os_forwarding_check(const char *netns, const struct kernel_state *want, struct buf *warnings)
{
	struct forwarding_job job = {.want = want, .warnings = warnings};
	struct buf error = {0};

	/* A namespace that cannot be entered has been told of already. */
	if (want->forward4 || want->forward6)
		(void)os_netns_run(netns, forwarding_job, &job, &error);
	buf_free(&error);
}
