/* Which flows fill the TUN's queue. What is read of a flow is counted; packets of one that was much
 * a moment ago are written to the TUN's queue for bulk, from which the kernel learns to put there
 * what it has for the other direction (os/net.h). So what is sparse, a ping, DNS, a key stroke,
 * does not wait behind a whole window of TCP. A flow here is a place in a table: two may share it,
 * and then a sparse one waits as if there were one queue. Not here: queues. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/time.h"
#include "wire/ip.h"

enum {
	BULK_FLOWS = 1024,       /* a power of two */
	BULK_BYTES = 256 * 1024, /* more than that much */
	BULK_WITHIN_US = 50000,  /* within so long is bulk, */
	BULK_FOR_US = 1000000,   /* and for so long since it was last that much */
};

/* All zero: no flow is bulk. */
struct bulk {
	struct {
		wtime since; /* bytes are counted from here on */
		wtime until; /* it is bulk */
		uint32_t bytes;
	} flow[BULK_FLOWS];
};

/* A flow's place: the same for both directions. packet: v->len bytes or more that passed
 * ip_parse(). */
uint32_t bulk_flow(struct view packet, const struct ip_view *v);
/* So many bytes of the flow were read. */
void bulk_count(struct bulk *b, uint32_t flow, uint32_t len, wtime now);
bool bulk_is(const struct bulk *b, uint32_t flow, wtime now);
