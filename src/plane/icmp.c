/* ICMP errors to the sender of a packet that cannot go on. */
#include "plane/plane_priv.h"

enum plane_edge stage_icmp(struct plane *p, struct pkt *k)
{
	(void)k;
	pkt_drop(p, DROP_ICMP_LIMIT, 1);
	return EDGE_DROP;
}
