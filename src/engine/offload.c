/* The switches of plane.offload while all runs. The configuration sets them, a command may set one
 * otherwise; that holds until the configuration says another than before, so that a reload for some
 * other reason does not undo it. Sockets, TUN and keys stay, and what waits in them. */
#include <string.h>
#include "engine/engine_priv.h"

static void offload_sockets(struct engine *e)
{
	bool on = e->offload & conf_offload_bit(CONF_UDP_GSO);

	for (size_t i = 0; i < e->socket_count; i++)
		for (uint32_t k = 0; k < e->planes; k++) {
			struct os_udp *u = engine_udp(e, i, k);

			if (u)
				e->config.net->udp_gso(u, on);
		}
}

static void offload_tun(struct engine *e)
{
	struct os_tun_config c;
	int r;

	if (!e->tun || e->tun_lost)
		return; /* it is made as it is to be */
	c = engine_tun_config(e, node_applied(e->node));
	r = e->config.net->tun_offload(e->tun, &c);
	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING, "TUN: offloads cannot be switched: %s",
			strerror(-r));
}

/* Switches to the set that is to be on. anew: of these also what is on already, and was given up
 * since because the kernel or a device refused it. */
static void offload_set(struct engine *e, unsigned int on, unsigned int anew)
{
	struct engine_down m = {.type = ENGINE_DOWN_OFFLOAD,
		.offload = on,
		.changed = (on ^ e->offload) | anew};

	e->offload = on;
	if (m.changed & conf_offload_bit(CONF_UDP_GSO))
		offload_sockets(e);
	if (m.changed & (conf_offload_bit(CONF_TUN_TSO) | conf_offload_bit(CONF_TUN_USO)))
		offload_tun(e);
	if (m.changed &
			(conf_offload_bit(CONF_UDP_GRO) | conf_offload_bit(CONF_MERGE_TCP) |
				conf_offload_bit(CONF_MERGE_UDP)) &&
		engine_down(e, &m) < 0)
		os_log_line(&e->config.log, OS_ERROR, "out of memory to switch offloads");
}

void engine_offload_start(struct engine *e, const struct config *c)
{
	e->offload = e->offload_conf = conf_offloads(c);
}

void engine_offload_reload(struct engine *e, const struct config *c)
{
	unsigned int next = conf_offloads(c), changed = next ^ e->offload_conf;

	e->offload_conf = next;
	e->offload_command &= ~changed;
	offload_set(e, (e->offload & ~changed) | (next & changed), 0);
}

void engine_offload_command(struct engine *e, enum conf_offload which, enum conf_switch to)
{
	const unsigned int bit = conf_offload_bit(which);
	unsigned int on = e->offload_conf & bit;

	if (to == CONF_AUTO) {
		e->offload_command &= ~bit;
	} else {
		e->offload_command |= bit;
		on = to == CONF_ON ? bit : 0;
	}
	offload_set(e, (e->offload & ~bit) | on, bit);
	os_log_printf(&e->config.log, OS_INFO, "offload %s: %s by command",
		conf_offload_name(which), on ? "on" : "off");
}

/* A switch of the sockets is in use where one of them has it; all sockets are alike. Without any,
 * nothing was refused. */
static unsigned int used_of_sockets(const struct engine *e)
{
	unsigned int used = 0;
	bool some = false;

	for (size_t i = 0; i < e->socket_count; i++)
		for (uint32_t k = 0; k < e->planes; k++) {
			const struct os_udp *u = engine_udp(e, i, k);

			if (!u)
				continue;
			some = true;
			used |= os_udp_facts(u).gso ? conf_offload_bit(CONF_UDP_GSO) : 0;
			used |= os_udp_facts(u).gro ? conf_offload_bit(CONF_UDP_GRO) : 0;
		}
	return some ? used : conf_offload_bit(CONF_UDP_GSO) | conf_offload_bit(CONF_UDP_GRO);
}

unsigned int engine_offload_used(const struct engine *e)
{
	unsigned int used = used_of_sockets(e);
	struct os_tun_facts f;

	for (uint32_t i = 0; i < e->planes; i++) {
		unsigned int merging = atomic_load(&e->plane[i]->merging);

		used |= merging & PLANE_MERGE_TCP ? conf_offload_bit(CONF_MERGE_TCP) : 0;
		used |= merging & PLANE_MERGE_UDP ? conf_offload_bit(CONF_MERGE_UDP) : 0;
	}
	if (!e->tun)
		return used;
	f = os_tun_facts(e->tun);
	return used | (f.tso ? conf_offload_bit(CONF_TUN_TSO) : 0) |
		(f.uso ? conf_offload_bit(CONF_TUN_USO) : 0);
}
