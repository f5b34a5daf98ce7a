/* Which flows fill the TUN's queue: see bulk.h. */
#include "plane/bulk.h"

/* 2^64 divided by the golden ratio: multiplied by it, near numbers fall far from each other. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

uint32_t bulk_flow(struct view packet, const struct ip_view *v)
{
	uint64_t x = v->proto;
	uint16_t src, dst;

	/* What is joined by XOR is the same whichever end it is seen from. */
	for (unsigned int i = 0; i < sizeof(v->src.b); i += sizeof(uint32_t))
		x = x * 31 + (get_u32(v->src.b + i) ^ get_u32(v->dst.b + i));
	if (ip_ports(packet, v, &src, &dst))
		x = x * 31 + (src ^ dst);
	return (uint32_t)(x * SPREAD >> 32) % BULK_FLOWS;
}

void bulk_count(struct bulk *b, uint32_t flow, uint32_t len, wtime now)
{
	if (wtime_diff(now, b->flow[flow].since) > BULK_WITHIN_US) {
		b->flow[flow].since = now;
		b->flow[flow].bytes = 0;
	}
	b->flow[flow].bytes += len;
	if (b->flow[flow].bytes > BULK_BYTES)
		b->flow[flow].until = wtime_add(now, BULK_FOR_US);
}

bool bulk_is(const struct bulk *b, uint32_t flow, wtime now)
{
	return wtime_before(now, b->flow[flow].until);
}
