/* What the host has beside the mesh, read for the node: connected networks, and routes that are to
 * be announced. It is read again when something of it changed, at most once a second. */
#include <errno.h>
#include <string.h>
#include "engine/engine_priv.h"
#include "os/clock.h"

static void host_changed(void *ctx)
{
	struct engine *e = ctx;

	e->host_changed = true;
}

static void host_failed(const struct engine *e, const char *what, int r)
{
	os_log_printf(&e->config.log, OS_WARNING, "routes of the host cannot be %s: %s", what,
		strerror(-r));
}

void engine_host_watch(struct engine *e)
{
	int r = os_route_watch_new(e->loop, e->tun_netns, host_changed, e, &e->host_watch);

	if (r < 0)
		host_failed(e, "watched", r);
	engine_host_picks(e);
}

void engine_host_picks(struct engine *e)
{
	const struct kernel_state *want = node_kernel(e->node);
	int r = e->host_watch ? os_route_watch_pick(e->host_watch, want->pick, want->pick_count)
			      : 0;

	if (r < 0)
		host_failed(e, "told from others", r);
	e->host_changed = true;
}

void engine_host(struct engine *e, wtime now)
{
	const struct kernel_state *want = node_kernel(e->node);
	struct kernel_host h = {0};
	int r;

	if (!e->host_changed || e->stopping || e->tun_lost || !wtime_due(e->host_at, now))
		return;
	e->host_changed = false;
	e->host_at = wtime_add(now, ENGINE_HOST_US);
	r = os_host_read(e->netlink, want->pick, want->pick_count, &h);
	if (r < 0) {
		/* What is known stays until it can be read. */
		e->host_changed = true;
		host_failed(e, "read", r);
		return;
	}
	node_host(e->node, &h, now);
	os_host_free(&h);
}

/* Looked at when somebody asks, since no event tells of it, and not more than once a second. */
void engine_forward_warnings(struct engine *e, struct buf *lines)
{
	const struct kernel_state *want = node_kernel(e->node);
	wtime now = os_now();
	int r = 0;

	if (wtime_due(e->forward_at, now)) {
		e->forward_at = wtime_add(now, ENGINE_FORWARD_US);
		buf_free(&e->warn_forward);
		if (want->keep_count || want->forward4 || want->forward6)
			r = os_forward_check(e->tun_netns, &e->warn_forward);
		if (r < 0)
			buf_printf(&e->warn_forward, "the firewall cannot be looked at: %s\n",
				strerror(-r));
	}
	buf_add(lines, e->warn_forward.p, e->warn_forward.n);
}
