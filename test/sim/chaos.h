/* Meshes that are made to suffer: a world of whole nodes, watched, and what can happen to it. All
 * of it follows from the seed. */
#pragma once
#include <stdbool.h>
#include "base/rng.h"
#include "sim.h"
#include "watch.h"

struct chaos_options {
	const char *name; /* of the scenario: for running it again */
	uint64_t seed;
	unsigned int nodes;
	unsigned int degree;         /* links of a node, about; 0: every pair */
	const char *yaml;            /* of all nodes, or NULL */
	double loss, duplicate;      /* of the paths at first, at most */
	int64_t delay_us, jitter_us; /* of the paths, at most */
	bool steer;                  /* some nodes have a policy with a waypoint */
	bool liar;                   /* the last node announces what is not its own */
	bool collect;                /* faults are collected, not fatal */
	bool start;                  /* all nodes are started */
};

struct chaos {
	struct chaos_options o;
	struct sim *s;
	struct watch *w;
	struct rng_seeded rng_state;
	struct rng rng;
	bool *adjacent; /* i * nodes + k */
	bool verbose;
	int64_t blocks, bytes;
	char replay[160];
};

struct chaos *chaos_new(const struct chaos_options *o);
/* Frees everything. False: memory is not where it was (when faults are collected; else that is the
 * end). */
bool chaos_free(struct chaos *c);

uint64_t chaos_below(struct chaos *c, uint64_t bound);
/* One thing happens, of those in `kinds`. */
enum chaos_kind {
	CHAOS_PATH = 1 << 0, /* a path becomes worse, or better */
	CHAOS_CUT = 1 << 1,  /* a link's path is cut, both ways or one */
	CHAOS_PARTITION = 1 << 2,
	CHAOS_MEND = 1 << 3, /* all paths are as at first */
	CHAOS_KILL = 1 << 4,
	CHAOS_STOP = 1 << 5,
	CHAOS_START = 1 << 6, /* a node that does not run starts */
	CHAOS_FREEZE = 1 << 7,
	CHAOS_THAW = 1 << 8,
	CHAOS_REKEY = 1 << 9, /* of a link, often from both ends at once */
	CHAOS_RELOAD = 1 << 10,
	CHAOS_LIE = 1 << 11, /* a burst of forged datagrams */
	CHAOS_TRAFFIC = 1 << 12,
	CHAOS_ALL = (1 << 13) - 1,
};
void chaos_event(struct chaos *c, unsigned int kinds);
/* So many events, apart from each other by up to most_us. */
void chaos_storm(struct chaos *c, unsigned int kinds, unsigned int events, int64_t most_us);
/* So many forged datagrams. */
void chaos_lie(struct chaos *c, unsigned int n);
void chaos_traffic(struct chaos *c, unsigned int packets);
/* The network is whole again, all nodes run: within most_us each link has its one pair, all ways
 * are known, and packets of every node arrive. */
void chaos_heal(struct chaos *c, int64_t most_us);
/* Waits until each link has its one pair. */
void chaos_await_exact(struct chaos *c, int64_t most_us);
void chaos_kill(struct chaos *c, unsigned int i);
