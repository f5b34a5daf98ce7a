/* Many whole nodes in one process and virtual time: node, IKE, ESP and plane as in the daemon, the
 * network between them simulated. Everything follows from the seed: a run repeats exactly. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/buf.h"
#include "base/time.h"
#include "node/node.h"
#include "wire/frame.h"

struct sim;

/* The path of one direction between two nodes, as the network has it at the time of a send. */
struct sim_path {
	int64_t delay_us, jitter_us;
	double loss, duplicate;
	bool cut;
	uint64_t rate;  /* bytes a second; 0: no limit */
	uint64_t queue; /* bytes that wait for the rate at most */
	uint32_t mtu;   /* larger packets vanish; 0: no limit */
};

/* Decides on one datagram: false drops it. ike is true for IKE messages; data is without the
 * marker. */
typedef bool (
	*sim_filter)(void *ctx, unsigned int from, unsigned int to, bool ike, struct view data);

struct sim_options {
	uint64_t seed;
	unsigned int nodes;
	struct sim_path path;  /* of every pair at first */
	const char *more_yaml; /* appended to each configuration, or NULL */
	bool one_organization;
	bool learn; /* no static routes: Babel finds the ways */
	bool srv6;  /* node i has the locator fd00:5:<i + 1>::/64 in the registry */
	bool allow; /* the registry lets each node announce what is its own, and nothing else */
	const struct tunnel_ops *ops; /* what the planes call; NULL: esp_ops() */
};

struct sim *sim_new(const struct sim_options *o);
void sim_free(struct sim *s);

/* Starts node i (its configuration names every other as peer), or starts it again after a kill. */
void sim_start(struct sim *s, unsigned int i);
/* Ends a node without a word. */
void sim_kill(struct sim *s, unsigned int i);
/* Ends a node as SIGTERM does. */
void sim_stop(struct sim *s, unsigned int i);
/* The node itself; NULL when it does not run. */
struct node *sim_node(struct sim *s, unsigned int i);
/* Reloads with a configuration that has more_yaml instead of the former addition. Result of
 * node_reload(). */
int sim_reload(struct sim *s, unsigned int i, const char *more_yaml);
/* Reloads with a registry in which only the nodes with present[i] are. */
int sim_reload_registry(struct sim *s, unsigned int i, const bool *present, bool force);

/* Sees a node's doings: when its timers are about to run, when its plane gets a snapshot (NULL
 * otherwise), when it has done all that follows. */
enum sim_moment { SIM_TICK, SIM_SNAPSHOT, SIM_SETTLED };
typedef void (*sim_observer)(void *ctx, unsigned int i, enum sim_moment m,
	const struct plane_snapshot *snapshot);
void sim_observe(struct sim *s, sim_observer f, void *ctx);

/* A datagram as it reaches a node. */
struct sim_datagram {
	unsigned int to;
	struct endpoint remote; /* where it says that it comes from */
	bool forged;            /* by sim_forge() */
	struct view data;
};

/* Sees everything that leaves a node; each may be NULL. */
struct sim_tap {
	void *ctx;
	/* A node gives a datagram to the network, which may lose it. */
	void (*sent)(void *ctx, unsigned int from, const struct endpoint *to, struct view data);
	/* One comes to a node that runs; and the node has done all that follows. */
	void (*arriving)(void *ctx, const struct sim_datagram *d);
	void (*arrived)(void *ctx, const struct sim_datagram *d);
	/* A node gives its plane a message. */
	void (*plane)(void *ctx, unsigned int i, const struct plane_down *m);
	/* A node gives its TUN a frame. */
	void (*delivered)(void *ctx, unsigned int i, struct view frame);
};
void sim_tap_set(struct sim *s, const struct sim_tap *t);

/* Brings a node that runs a datagram of anybody's, at once. */
void sim_forge(struct sim *s, unsigned int to, const struct endpoint *remote, struct view data);
/* The UDP endpoint of a node, and the node that has one; -1: none. */
struct endpoint sim_endpoint(unsigned int i);
int sim_node_at(const struct sim *s, const struct endpoint *e);

/* A node does nothing until it is thawed, as after SIGSTOP or in suspend; of what comes to it
 * `backlog` datagrams wait. Then timers are due first, or what waits is read first. */
void sim_freeze(struct sim *s, unsigned int i, unsigned int backlog);
void sim_thaw(struct sim *s, unsigned int i, bool timers_first);
bool sim_frozen(const struct sim *s, unsigned int i);

/* What a node's configuration has beside the others', from its next start on (copied; NULL: nothing
 * but options.more_yaml). */
void sim_more(struct sim *s, unsigned int i, const char *more_yaml);
/* How far a node's wall clock is off, from its next start on. */
void sim_wall_clock(struct sim *s, unsigned int i, int64_t off_s);

/* What node i's kernel says of its ways from now on: as in struct node_path; before the node is
 * started, or while it runs. */
void sim_kernel_mtu(struct sim *s, unsigned int i, uint32_t mtu, uint32_t hint);
void sim_path_set(struct sim *s, unsigned int from, unsigned int to, const struct sim_path *p);
void sim_filter_set(struct sim *s, sim_filter f, void *ctx);

/* Runs for a time, or until done() says so (then true). */
void sim_run(struct sim *s, int64_t us);
bool sim_run_until(struct sim *s, int64_t us, bool (*done)(struct sim *s));
wtime sim_now(const struct sim *s);

/* In every inner packet: no datagram of the underlay may have it. */
#define SIM_INNER_MARK "weft inner packet"

/* Sends an inner packet (a UDP datagram with a number in it) from node a to node b, by IPv4 or
 * IPv6. */
void sim_send(struct sim *s, unsigned int from, unsigned int to, enum ip_family family);

/* A flow in the manner of TCP from one node to another, by IPv4; see sim_flow.c. */
struct sim_flow_options {
	unsigned int from, to;
	uint16_t bytes; /* of a packet, 64..1280 */
	uint16_t id;    /* given by sim_flow_start() */
	double window;  /* packets at most; 0: no limit */
	uint64_t rate;  /* not like TCP: so many bytes a second whatever happens; 0: like TCP */
};
struct sim_flow;
struct sim_flow *sim_flow_start(struct sim *s, const struct sim_flow_options *o);
/* It sends no more; freed with the simulation. */
void sim_flow_stop(struct sim_flow *f);
/* Packets of it that were acknowledged. */
uint64_t sim_flow_acked(const struct sim_flow *f);

/* What came: packets delivered at node i to its TUN, duplicates among them, and sent ones. */
uint64_t sim_delivered(const struct sim *s, unsigned int i);
uint64_t sim_duplicates(const struct sim *s, unsigned int i);
uint64_t sim_sent(const struct sim *s, unsigned int i);

/* Runs a control command on node i and parses the reply: "links" and so on. The text is valid until
 * the next call. */
const char *sim_command(struct sim *s, unsigned int i, const char *command, const char *argument);

/* The same in two halves: some replies take time, in which the test may do things. */
void sim_command_start(struct sim *s, unsigned int i, const char *command, const char *argument);
const char *sim_command_end(struct sim *s);

/* Links of node i that are up; with exactly one child pair, when exact. */
unsigned int sim_links_up(struct sim *s, unsigned int i, bool exact);
/* Every pair of running nodes has one link up with one IKE SA and one child pair, the same ones on
 * both ends, and each end sends on the pair that the other has. */
bool sim_mesh_exact(struct sim *s);
/* The same of the pairs with adjacent[i * nodes + k], i < k. */
bool sim_pairs_exact(struct sim *s, const bool *adjacent);
/* Says on stderr what the two ends of the first pair that is not exact have. */
void sim_pairs_tell(struct sim *s, const bool *adjacent);
/* All running nodes have a usable link to every other. */
bool sim_mesh_up(struct sim *s);
/* The node that node i sends to first on its way to node `to` (by IPv4), or -1: none. */
int sim_next_hop(struct sim *s, unsigned int i, unsigned int to);
/* Every running node has a selected route to every other. */
bool sim_all_routed(struct sim *s);
/* The sum of a node's drops by a reason. */
uint64_t sim_drops(struct sim *s, unsigned int i, const char *reason);
/* Packets that node i has passed on from link to link. */
uint64_t sim_transit(const struct sim *s, unsigned int i);
/* IKE datagrams that node i has sent so far, and all UDP datagrams. */
uint64_t sim_ike_sent(const struct sim *s, unsigned int i);
uint64_t sim_udp_sent(const struct sim *s, unsigned int i);
/* A fingerprint of everything that happened: equal for equal seeds. */
uint64_t sim_fingerprint(const struct sim *s);
