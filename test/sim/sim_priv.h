/* The simulation's own structures. */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "crypto/crypto.h"
#include "esp/esp.h"
#include "plane/plane.h"
#include "sim.h"

struct sim_event {
	struct heap_node timer;
	unsigned int to, from_incarnation;
	struct endpoint remote;
	uint8_t tos;
	bool host; /* from the host of the node itself, into its TUN */
	bool forged;
	struct list list; /* of a frozen node's backlog */
	wtime came;       /* when it did, there */
	uint32_t len;
	uint8_t data[];
};

struct sim_report {
	struct list list;
	struct plane_up up;
	uint8_t data[];
};

struct sim_node {
	struct node *node;
	struct plane *plane;
	void *memory;
	struct esp_table *table;
	struct list reports;
	struct ed25519_key *key;
	char *public_pem;
	struct rng_seeded rng;
	unsigned int incarnation;
	char *more; /* of its configuration; NULL: options.more_yaml */
	int64_t wall_off_s;
	bool frozen;
	struct list backlog;
	unsigned int backlog_room;
	uint32_t kernel_mtu, kernel_hint;
	uint64_t sent, delivered, duplicates, ike_sent, udp_sent, orphan_snapshots;
	uint8_t *seen; /* a bit for each number of each sender */
	size_t seen_size;
};

struct sim {
	struct sim_options options;
	unsigned int count;
	wtime now;
	struct rng_seeded rng_state;
	struct rng rng;
	struct heap events;
	struct sim_path *path;
	wtime *busy; /* of each path: until then its rate is taken */
	struct list flows;
	uint16_t flow_ids;
	struct sim_node *node;
	sim_filter filter;
	void *filter_ctx;
	sim_observer observer;
	void *observer_ctx;
	struct sim_tap tap;
	uint64_t fingerprint;
	bool verbose;
	struct buf reply;
	uint32_t reply_id; /* of a reply that is to come */
	struct buf echo;   /* the first echo that a trace sent since this was freed */
};

void sim_must(bool ok, const char *what);
struct ipaddr sim_underlay(unsigned int i);
/* An address of a node's TUN. */
struct ipaddr sim_inner_address(unsigned int i, enum ip_family family);
void sim_settle(struct sim *s, unsigned int i);
void sim_backlog_free(struct sim_node *n);
void sim_plane_start(struct sim *s, unsigned int i);
/* An inner packet of about 100 bytes: UDP, port 9, from, to and number in it. Returns its length.
 */
uint32_t sim_inner_packet(uint8_t *out, unsigned int from, unsigned int to, enum ip_family family,
	uint64_t number);
/* Gives a node's TUN a frame. */
void sim_inject(struct sim *s, unsigned int i, uint8_t *frame, uint32_t len);
/* True when it was a flow's. */
bool sim_flow_arrived(struct sim *s, const uint8_t *frame, uint32_t len);
void sim_flows_pump(struct sim *s);
wtime sim_flows_deadline(const struct sim *s);
void sim_flows_free(struct sim *s);
void sim_inner_arrived(struct sim_node *n, const uint8_t *frame, uint32_t len);
