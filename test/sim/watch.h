/* Watches a whole simulation for what may never be, after every event: see watch.c for the list.
 * The first fault is told with how to run it again, and ends the program, unless faults are
 * collected. */
#pragma once
#include <stdbool.h>
#include "sim.h"

struct watch;

/* Watches a simulation from before its first node's start. replay: how to run it again (borrowed);
 * NULL: faults are collected. */
struct watch *watch_new(struct sim *s, unsigned int nodes, const char *replay);
void watch_free(struct watch *w); /* before the simulation */
/* A node that announces what is not its own: it keeps such packets when they pass through it. */
void watch_liar(struct watch *w, unsigned int i);
/* A node was killed or stopped: what it had counts no more. */
void watch_gone(struct watch *w, unsigned int i);
/* What may only be said of a network that was left in peace: each of the pairs in adjacent[i *
 * nodes + k], i < k, has one IKE SA and one child pair. */
void watch_quiet(struct watch *w, const bool *adjacent);
/* The first fault; NULL: none. */
const char *watch_fault(const struct watch *w);
/* Something that must hold does not. */
void watch_must(struct watch *w, bool ok, const char *what);
/* A datagram, of the last few hundred, that a node got and took in; any number picks one. False:
 * none yet. Valid until the simulation goes on. */
bool watch_record(const struct watch *w, uint64_t pick, struct sim_datagram *ret);
/* From now on it is a fault to send on an SA that is older. */
void watch_lifetime(struct watch *w, int64_t most_us);
/* Forged datagrams that came so far. */
uint64_t watch_forged(const struct watch *w);
