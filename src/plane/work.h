/* Work on one plane's packets that other threads may do: pieces of a batch to be cut and sealed,
 * runs of datagrams to be opened. Each piece is whole in itself, numbers and windows are the
 * plane's own matter: a piece has its sequence numbers, or was checked against the window, before
 * it is put here, and is counted and accepted, in order, when it is taken out.
 *
 * One thread, the plane's, puts pieces in; it and the helpers claim the oldest that nobody has, and
 * do it. All pieces are done and taken out before the round is over, and before anything that they
 * point to is let go: so none outlives an SA, a buffer or a frame, and a piece that no helper
 * claims the plane's thread does itself. */
#pragma once
#include <stdalign.h>
#include "plane/plane.h"
#include "wire/gso.h"

enum {
	WORK_LINE = 64,      /* bytes of a cache line */
	WORK_PIECES = 256,   /* a round; a power of two */
	WORK_DATAGRAMS = 16, /* a piece, at most */
	WORK_AT_ONCE = 8,    /* datagrams sealed at once: what stays in the L1 cache */
	WORK_FRAMES = 64,    /* superpackets a round that are cut in pieces */
	WORK_MIN = 8,        /* datagrams that are worth a piece, in a batch that has none */
	WORK_OPEN_MIN = 32,  /* datagrams of one call that are worth being opened in pieces */
	WORK_CALL = 4,       /* pieces that nobody claimed: a sleeping helper is called */
	WORK_SPINS = 64,     /* looks at a piece before its claimant's core is given way to */
};

struct work_seal {
	struct tunnel_sa *sa;
	uint64_t seq;   /* of the first */
	uint8_t *text;  /* of the first */
	uint32_t inner; /* bytes of all but the last */
	uint32_t last;
	uint32_t stride, bytes;      /* sealed: of all but the last, of all together */
	const struct gso_split *cut; /* still to be written: packets `segment` and on; or NULL */
	uint32_t segment;
	uint16_t n;
	uint16_t next; /* piece of the same batch, plus 1; 0: none */
	uint8_t next_header;
	uint16_t good; /* set: how many, from the first on, may go out in one send */
};

struct work_open {
	uint32_t n;
	struct tunnel_open op[WORK_DATAGRAMS];
	const struct udp_rx *from[WORK_DATAGRAMS];
};

struct work_piece {
	alignas(WORK_LINE) uint32_t done; /* atomic: 1 once it is */
	bool open;                        /* else it is a seal */
	union {
		struct work_seal s;
		struct work_open o;
	};
};

struct work {
	alignas(WORK_LINE) uint64_t put;     /* atomic: pieces ever put in, by the plane's thread */
	alignas(WORK_LINE) uint64_t claimed; /* atomic: of these, by anybody */
	alignas(WORK_LINE) uint64_t base;    /* pieces put in before this round */
	uint32_t unsettled;                  /* seals that are not taken out */
	uint32_t frames;
	wtime now;                      /* of the newest seal */
	uint16_t of[PLANE_UDP_OUT_MAX]; /* batches of the listed sends */
	struct gso_split frame[WORK_FRAMES];
	struct work_piece piece[WORK_PIECES];
};

/* Empties it, before any helper sees it. */
void work_init(struct work *w);
/* Plane's thread: the next piece to fill in, or NULL when the round has no more room; put in by
 * work_put(), which says how many nobody has claimed. */
struct work_piece *work_room(struct work *w);
uint64_t work_put(struct work *w);
/* Any thread, lane its own: claims a piece and does it; false when there is none. */
bool work_do(struct work *w, const struct tunnel_ops *ops, uint8_t lane);
/* True when a piece is not claimed. */
bool work_waits(const struct work *w);

static inline bool work_is_done(const struct work_piece *x)
{
	return __atomic_load_n(&x->done, __ATOMIC_ACQUIRE) != 0;
}
