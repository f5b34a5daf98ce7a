/* The TUN, made and made again: when another program deleted it, or took it to another namespace, a
 * new one is handed to the plane thread, which gives the old one back. Links, SAs and neighbours do
 * not notice, since none of them is the kernel's. */
#include "engine/engine_priv.h"
#include "os/clock.h"

int engine_tun_open(struct engine *e, const struct config *c, struct os_tun **ret,
	struct buf *error)
{
	struct os_tun_config k = {.name = c->tun.name, .netns = e->tun_netns, .gso = e->tun_gso};
	int r = e->config.net->tun_open(&k, ret, error);

	if (r == 0)
		e->tun = *ret;
	return r;
}

void engine_tun_gone(struct engine *e, const struct os_tun *tun)
{
	if (tun != e->tun || e->tun_lost || e->stopping)
		return;
	e->tun_lost = true;
	os_log_line(&e->config.log, OS_WARNING,
		"another program deleted the TUN interface: it is made again");
}

void engine_tun(struct engine *e, wtime now)
{
	struct engine_down m = {.type = ENGINE_DOWN_TUN};
	struct buf error = {0};

	if (!e->tun_lost || e->stopping || !wtime_due(e->tun_at, now))
		return;
	e->tun_at = wtime_add(now, ENGINE_TUN_US);
	if (engine_tun_open(e, node_applied(e->node), &m.tun, &error) < 0) {
		engine_log_lines(e, OS_ERROR, &error);
		buf_free(&error);
		return;
	}
	buf_free(&error);
	if (engine_down(e, &m) < 0) {
		/* The plane thread never knew it: once more, later. */
		e->config.net->tun_close(m.tun);
		e->tun = NULL;
		return;
	}
	e->tun_lost = false;
	os_netlink_bind(e->netlink, os_tun_facts(m.tun).ifindex);
	engine_kernel(e);
}
