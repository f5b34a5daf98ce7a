/* Which flows fill the TUN's queue. What is read of a flow is counted; packets of one that was much
 * a moment ago are written to the TUN's queue for bulk, from which the kernel learns to put there
 * what it has for the other direction (os/net.h). So what is sparse, a ping, DNS, a key stroke,
 * does not wait behind a whole window of TCP. A flow here is a place in a table: two may share it,
 * and then a sparse one waits as if there were one queue.
 *
 * A flow's order is kept when it moves: what waits in the queue that it leaves is read before the
 * other queue (tun_tx.moved). Two moves at a time could want opposite things, so the next flow
 * stays where it is until the first one's frames were read. Where a new flow begins is the kernel's
 * choice and is learned when it is read. Not here: queues. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/time.h"
#include "wire/frame.h"
#include "wire/ip.h"

enum {
	BULK_FLOWS = 1024,       /* a power of two */
	BULK_BYTES = 256 * 1024, /* more than that much */
	BULK_WITHIN_US = 50000,  /* within so long is bulk, */
	BULK_FOR_US = 1000000,   /* and for so long since it was last that much */
	/* bytes: a flow that sent no more than that lately, a question whose answer this is, has
	 * nothing waiting */
	BULK_FEW = 2048,
	BULK_WAITING = 1000, /* frames: more do not wait in a queue */
};

struct bulk_flow {
	wtime since; /* bytes are counted from here on */
	wtime until; /* it is bulk */
	uint32_t bytes;
	bool there; /* the kernel puts it into the queue for bulk */
};

/* All zero: no flow is bulk. */
struct bulk {
	wtime until;     /* some flow is bulk, or was in its queue */
	wtime moved;     /* a flow moved, */
	bool to;         /* to the queue for bulk or from it, */
	uint32_t before; /* and so many frames may yet be from before, 0: none are */
	struct bulk_flow flow[BULK_FLOWS];
};

/* A flow's place: the same for both directions. packet: v->len bytes or more that passed
 * ip_parse(). */
uint32_t bulk_flow(struct view packet, const struct ip_view *v);
/* A frame of the flow was read. */
void bulk_count(struct bulk *b, uint32_t flow, const struct tun_rx *frame, wtime now);
/* False: no frame needs a choice, what is sparse has all. */
bool bulk_any(const struct bulk *b, wtime now);
/* Which queue a frame for the flow is written to; sets frame->bulk and frame->moved. */
void bulk_choose(struct bulk *b, uint32_t flow, struct tun_tx *frame, wtime now);
