/* The path MTU of one link, found by padded echoes (RFC 8899): sizes are those of whole outer IP
 * packets, bytes. Numbers alone: what a probe is made of is the caller's. With each round of padded
 * probes goes a small one, last: when it is answered and a padded one is not, the padded one was
 * too large, or lost by chance; without it the round says nothing. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/time.h"

enum {
	PMTU_RUNGS = 8,               /* sizes that are tried at once */
	PMTU_PROBES = PMTU_RUNGS + 2, /* with the size in use and the small one */
	PMTU_SEQS = 64,               /* probes whose answers are still known */
	PMTU_START = 1500,            /* no size above it is used before it has passed */
	PMTU_MOST = 9216,             /* none above is tried */
};

enum pmtu_kind {
	PMTU_IDLE,
	PMTU_CHECK, /* does a size pass, and if not, which does? */
	PMTU_RISE,  /* do larger ones pass by now? */
};

struct pmtu_rung {
	uint32_t size;
	unsigned int misses;
};

struct pmtu_probe {
	uint16_t seq;
	uint32_t size; /* 0: not padded */
};

/* All zero to start. */
struct pmtu {
	uint32_t floor, base, top; /* what must pass, what should (RFC 8899 5.1.2), and the limit */
	uint32_t good;             /* the path MTU that is used */
	bool proven;               /* by a probe */
	enum pmtu_kind kind;
	bool restart;    /* the whole range is to be looked at again */
	bool doubted;    /* something says that it is smaller */
	uint32_t lo, hi; /* the largest size that passed (0: none), the smallest that does not */
	struct pmtu_rung rung[PMTU_RUNGS]; /* sizes between them that are tried */
	unsigned int rungs;
	unsigned int rounds, voids; /* of this kind */
	bool out;                   /* a round is on its way */
	uint16_t seq, small;        /* the last number, and that of the round's small probe */
	uint32_t sent[PMTU_SEQS];   /* sizes by number */
	bool heard;                 /* the small one was answered */
	wtime sent_at, heard_at;
	int64_t wait_us;  /* for the small one's answer */
	uint64_t history; /* of probes of sizes that pass, a bit each, 1: lost */
	wtime checked_at, doubted_at, rise_at;
	int64_t rise_us;
};

/* The bounds: no more than top by what is known of the interface. A wider range is looked at anew,
 * a narrower one holds at once. */
void pmtu_bounds(struct pmtu *p, uint32_t floor, uint32_t base, uint32_t top);
/* Nothing is probed until the next tick, which then begins with the whole range: the link was away,
 * or leads another way. */
void pmtu_restart(struct pmtu *p);
/* An ICMP message, or the kernel for one, says that less than what is used passes: that anybody can
 * say, so it is only a reason to look (RFC 8899 4.6.1). */
void pmtu_doubt(struct pmtu *p);
/* Runs timers. large_us: when a packet was last sent that is worth asking for (wtime); 0: none. The
 * probes to send now, in this order. */
size_t pmtu_tick(struct pmtu *p, int64_t large_us, wtime now,
	struct pmtu_probe ret[static PMTU_PROBES]);
/* A probe was answered. */
void pmtu_answer(struct pmtu *p, uint16_t seq, wtime now);
