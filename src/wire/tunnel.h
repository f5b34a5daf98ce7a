/* The tunnel that the data path calls: implemented by esp/, so that the plane knows no tunnel
 * protocol and another can stand beside ESP. An SA is one direction. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "wire/drop.h"

/* First member of an implementation's SA; what the plane may see. Owned by the control thread's
 * allocation, used by one plane thread from SA_ADD to SA_GONE. */
struct tunnel_sa {
	uint32_t slot;     /* link slot */
	uint32_t child;    /* the control side's handle, for reports */
	uint16_t headroom; /* bytes that seal writes in front of a packet */
	uint16_t tailroom; /* bytes at most behind it */
	bool inbound;
	bool soft_reported, hard_reported; /* plane: the limit was told */
	/* counters, written by the plane thread, read by any (relaxed). Inbound: inner packets and
	 * bytes accepted, dummies not among them. Outbound: packets counts numbers taken by
	 * reserve(); bytes is the plane's to count. */
	uint64_t packets, bytes;
	uint64_t highest; /* inbound: highest sequence number accepted; outbound: last used */
	uint64_t numbers; /* inbound: sequence numbers accepted, those of dummies among them */
};

/* A packet to seal in place: `text` has sa->headroom bytes in front and sa->tailroom behind. */
struct tunnel_seal {
	struct tunnel_sa *sa;
	uint64_t seq; /* from reserve() */
	uint8_t *text;
	uint32_t len;        /* inner packet */
	uint32_t sealed;     /* set: total bytes, beginning at text - headroom; 0 on an error */
	uint8_t next_header; /* 4, 41, or 59 for a dummy */
	uint8_t lane;        /* as seal_batch() says */
};

/* A datagram to open in place. */
struct tunnel_open {
	struct tunnel_sa *sa; /* set by demux */
	uint8_t *data;
	uint32_t len;
	uint64_t seq;          /* set by open: full sequence number */
	uint8_t *text;         /* set by open: the inner packet, inside data */
	uint32_t text_len;     /* as the inner IP header says; ESP and TFC padding are cut */
	uint8_t next_header;   /* set by open */
	uint8_t lane;          /* as open_batch() says */
	bool checked;          /* set by check */
	enum drop_reason drop; /* set by demux and open: DROP_NONE or why not */
};

enum tunnel_limit { TUNNEL_OK, TUNNEL_SOFT, TUNNEL_HARD };

struct tunnel_ops {
	/* Adds or removes an inbound SA in the thread's table (memory of the table is handed in at
	 * start; no allocation). -ENOSPC when full, -EEXIST for an SPI in use. */
	int (*add)(void *table, struct tunnel_sa *sa);
	void (*remove)(void *table, struct tunnel_sa *sa);
	/* Finds op->sa for a datagram, or sets op->drop. */
	void (*demux)(void *table, struct tunnel_open *op);
	/* Bytes on the wire (UDP payload) of an inner packet of len bytes. */
	uint32_t (*sealed_len)(const struct tunnel_sa *sa, uint32_t len);
	/* Largest inner packet whose sealed form fits in datagram bytes of UDP payload. */
	uint32_t (*inner_max)(const struct tunnel_sa *sa, uint32_t datagram);
	/* Takes n sequence numbers: the first in *ret_first. HARD: fewer than n are left, none is
	 * taken. SOFT: taken, and the soft limit, a sequence number, has been reached. */
	enum tunnel_limit (*reserve)(struct tunnel_sa *sa, uint32_t n, uint64_t *ret_first);
	/* Pure over its operations: any thread may run it, but operations of one SA and lane only
	 * one at a time (each lane has a key schedule). A lane is one thread's; an SA has as many
	 * as it was made with, and lane 0 always. */
	void (*seal_batch)(struct tunnel_seal *op, uint32_t n);
	/* By the SA's thread, before another opens the operations: finds their numbers and checks
	 * the window, sets drop. */
	void (*check)(struct tunnel_open *op, uint32_t n);
	/* Checks the window of what was not checked, which its SA's thread alone may do;
	 * authenticates, decrypts; moves no window. Pure over checked operations, lanes as with
	 * seal_batch(). Operations with drop set already are left alone. A dummy passes here. */
	void (*open_batch)(struct tunnel_open *op, uint32_t n);
	/* In arrival order, after open, for every operation or those with drop NONE: checks the
	 * window again and moves it, counts. DROP_NONE or the reason, which op->drop is then. Given
	 * an authentic packet that open dropped for what is inside, it moves the window for it,
	 * too; of dummies, which move it, it says DROP_DUMMY. */
	enum drop_reason (*accept)(struct tunnel_open *op);
};
