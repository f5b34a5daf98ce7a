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

/* The queue that a flow moves to is read once the other one holds nothing from before. What is read
 * in the round of the choice itself is read before the kernel knows. */
static void leave(struct bulk *b, bool bulk, wtime now)
{
	if (b->before && wtime_before(b->moved, now))
		b->before = bulk == b->to ? 0 : b->before - 1;
}

void bulk_count(struct bulk *b, uint32_t flow, const struct tun_rx *frame, wtime now)
{
	struct bulk_flow *f = &b->flow[flow];

	if (wtime_diff(now, f->since) > BULK_WITHIN_US) {
		f->since = now;
		f->bytes = 0;
	}
	f->bytes += frame->len;
	if (f->bytes > BULK_BYTES)
		f->until = wtime_add(now, BULK_FOR_US);
	if (f->bytes > BULK_BYTES || frame->bulk)
		b->until = wtime_add(now, BULK_FOR_US);
	leave(b, frame->bulk, now);
	if (!b->before)
		f->there = frame->bulk;
}

bool bulk_any(const struct bulk *b, wtime now)
{
	return wtime_before(now, b->until);
}

void bulk_choose(struct bulk *b, uint32_t flow, struct tun_tx *frame, wtime now)
{
	struct bulk_flow *f = &b->flow[flow];
	bool wanted = wtime_before(now, f->until);

	frame->moved = wanted != f->there && (wanted || f->bytes > BULK_FEW);
	if (frame->moved && b->before) {
		frame->moved = false;
		wanted = f->there;
	}
	if (frame->moved) {
		b->before = BULK_WAITING;
		b->to = wanted;
		b->moved = now;
	}
	f->there = wanted;
	frame->bulk = wanted;
}
