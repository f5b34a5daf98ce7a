/* The TUN, made and made again: when another program deleted it, or took it to another namespace, a
 * new one is handed to the plane thread, which gives the old one back. Links, SAs and neighbours do
 * not notice, since none of them is the kernel's. */
#include <string.h>
#include "engine/engine_priv.h"
#include "os/clock.h"

static void tun_close_all(struct engine *e, struct os_tun *const *tun)
{
	for (uint32_t i = 0; i < e->planes; i++)
		if (tun[i])
			e->config.net->tun_close(tun[i]);
}

struct os_tun_config engine_tun_config(const struct engine *e, const struct config *c)
{
	return (struct os_tun_config){.name = c->tun.name,
		.netns = e->tun_netns,
		.many = e->planes > 1,
		.tso = e->offload & conf_offload_bit(CONF_TUN_TSO),
		.uso = e->offload & conf_offload_bit(CONF_TUN_USO),
		.bulk_queue = true};
}

int engine_tun_open(struct engine *e, const struct config *c,
	struct os_tun *ret[static ENGINE_PLANES], struct buf *error)
{
	struct os_tun_config k = engine_tun_config(e, c);
	struct os_tun *tun[ENGINE_PLANES] = {NULL};
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < e->planes; i++) {
		k.further = i > 0;
		r = e->config.net->tun_open(&k, &tun[i], error);
	}
	if (r < 0) {
		tun_close_all(e, tun);
		return r;
	}
	memcpy(ret, tun, sizeof(tun));
	e->tun = tun[0];
	return 0;
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
	struct os_tun *tun[ENGINE_PLANES];
	struct buf error = {0};
	int r = 0;

	if (!e->tun_lost || e->stopping || !wtime_due(e->tun_at, now))
		return;
	e->tun_at = wtime_add(now, ENGINE_TUN_US);
	if (engine_tun_open(e, node_applied(e->node), tun, &error) < 0) {
		engine_log_lines(e, OS_ERROR, &error);
		buf_free(&error);
		return;
	}
	buf_free(&error);
	for (uint32_t i = 0; i < e->planes; i++) {
		m.tun = tun[i];
		r = engine_down_to(e, i, &m);
		if (r == 0)
			continue;
		/* The plane thread never knew it. */
		e->config.net->tun_close(tun[i]);
		e->tun = i == 0 ? NULL : e->tun;
	}
	if (!e->tun)
		return; /* once more, later */
	e->tun_lost = false;
	os_netlink_bind(e->netlink, os_tun_facts(tun[0]).ifindex);
	engine_kernel(e);
}
