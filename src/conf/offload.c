/* The switches of plane.offload: their names, and what a configuration has on. */
#include <errno.h>
#include <string.h>
#include "conf/conf.h"

static const char *const names[CONF_OFFLOADS] = {
	[CONF_UDP_GSO] = "udp_gso",
	[CONF_UDP_GRO] = "udp_gro",
	[CONF_TUN_TSO] = "tun_tso",
	[CONF_TUN_USO] = "tun_uso",
	[CONF_MERGE_TCP] = "merge_tcp",
	[CONF_MERGE_UDP] = "merge_udp",
};

const char *conf_offload_name(enum conf_offload o)
{
	return names[o];
}

void conf_offload_names(struct buf *b, const char *between)
{
	for (unsigned int i = 0; i < CONF_OFFLOADS; i++)
		buf_printf(b, "%s%s", i ? between : "", names[i]);
}

int conf_offload_parse(const char *word, enum conf_offload *ret)
{
	for (unsigned int i = 0; i < CONF_OFFLOADS; i++)
		if (strcmp(word, names[i]) == 0) {
			*ret = (enum conf_offload)i;
			return 0;
		}
	return -EINVAL;
}

unsigned int conf_offloads(const struct config *c)
{
	unsigned int on = 0;

	for (unsigned int i = 0; i < CONF_OFFLOADS; i++)
		if (c->plane.offload[i] != CONF_OFF)
			on |= conf_offload_bit((enum conf_offload)i);
	if (c->plane.tun_gso == CONF_OFF)
		on &= conf_offload_bit(CONF_UDP_GSO) | conf_offload_bit(CONF_UDP_GRO);
	return on;
}
