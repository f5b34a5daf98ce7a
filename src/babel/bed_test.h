/* Many speakers in one process and in virtual time, joined by links with delay, jitter and loss.
 * Used by the tests of this room and by the simulations. */
#pragma once
#include <stdbool.h>
#include "babel/babel.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"

enum { BED_ENDS = 8 };

struct bed_link {
	size_t node[BED_ENDS];
	size_t ends;
	int64_t delay_us, jitter_us; /* one way */
	double loss;
	bool down;
	bool drop_multicast;
};

struct bed_node {
	struct heap_node due;
	struct babel *b;
	struct rng_seeded seed;
	uint8_t router_id[8];
	uint64_t events;
	bool off;
};

struct bed {
	struct rng_seeded seed;
	struct rng rng;
	wtime now;
	struct bed_node *node;
	size_t nodes;
	struct bed_link *link;
	size_t links;
	struct heap due, flying;
	/* Called after each step of a node; NULL: not. */
	void (*after)(struct bed *t, size_t node);
	/* Sees every packet when it is sent; true: it is lost. NULL: none is. */
	bool (*lose)(struct bed *t, size_t link, size_t from, const struct babel_packet *p);
	void (*event)(struct bed *t, size_t node, const struct babel_event *e);
	void *ctx;
	uint64_t steps;
	uint8_t update_factor; /* of links made from now on; 0: the default */
};

void bed_begin(struct bed *t, size_t nodes, uint64_t seed);
void bed_end(struct bed *t);
double bed_chance(struct bed *t);

/* Starts node i; c: NULL for the usual configuration (transit, no filters). */
void bed_start(struct bed *t, size_t i, const struct babel_config *c);
void bed_stop(struct bed *t, size_t i); /* dies without a word */
void bed_config(struct bed *t, size_t i, struct babel_config *ret);

/* A new link between two nodes, with interfaces numbered link + 1 at both. Returns its number. */
size_t bed_link(struct bed *t, size_t a, size_t b, int64_t delay_us);
/* A network of up to BED_ENDS nodes. */
size_t bed_lan(struct bed *t, const size_t *nodes, size_t n, int64_t delay_us);
void bed_iface(struct bed *t, size_t link, size_t node, struct babel_iface_config *ret);
void bed_attach(struct bed *t, size_t link, size_t node);
struct ipaddr bed_address(size_t link, size_t node);

/* Node i announces 2001:db8:i::/48. */
struct babel_prefix bed_prefix(size_t i);
struct babel_prefix bed_parse(const char *destination, const char *source);
void bed_originate(struct bed *t, size_t i);

void bed_run(struct bed *t, int64_t us);
/* Runs until done() says so, at most us; the microseconds that it took, negative: never. */
int64_t bed_until(struct bed *t, bool (*done)(struct bed *t), int64_t us);
/* To be called when a node was changed from outside. */
void bed_touch(struct bed *t, size_t i);

/* The selected route of node i for p; false: none. */
bool bed_route(struct bed *t, size_t i, const struct babel_prefix *p, struct babel_route_info *ret);
/* The node that is i's next hop to p; i itself: own; SIZE_MAX: none. */
size_t bed_next(struct bed *t, size_t i, const struct babel_prefix *p);
bool bed_neighbour(struct bed *t, size_t i, size_t link, size_t other,
	struct babel_neighbour_info *ret);
