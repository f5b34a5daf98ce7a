/* For tests: two engines in one process, a network between them in virtual time, and a data path
 * that knows what each end has installed and sends on. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "ike/ike.h"
#include "ike/codec_priv.h"

enum { BED_CHILDREN = 256, BED_CONN = 7 };

enum bed_action { BED_PASS, BED_DROP, BED_TWICE, BED_SLOW };

/* A message on its way, as a filter sees it. */
struct bed_packet {
	struct list node;
	unsigned int to; /* 0 or 1 */
	wtime at;
	struct ike_header h;
	struct endpoint from, target;
	size_t n;
	uint8_t data[];
};

struct bed_child {
	bool up;
	struct ike_child_info info;
	struct ike_child_keys keys;
};

struct bed_node {
	struct ike *ike;
	struct rng_seeded seeded;
	struct rng base, rng;
	int first_byte; /* of every 32 bytes asked for (nonces among them); -1: as they come */
	struct ed25519_key *key;
	uint8_t public_key[ED25519_PUBLIC];
	uint8_t id[64];
	size_t id_len;
	struct endpoint ep;
	struct bed_child child[BED_CHILDREN];
	unsigned int child_count; /* ever made */
	uint32_t outbound;        /* handle, 0: none */
	unsigned int ups, downs, fails, seen, answered;
	int spis; /* known to ike_config.spi now */
	char reason[IKE_REASON_TEXT];
};

struct bed {
	wtime now;
	int64_t delay_us;
	struct bed_node node[2];
	struct list wire; /* struct bed_packet.node, in order of arrival */
	enum bed_action (*filter)(struct bed *bed, const struct bed_packet *p);
	int arg, hits;           /* for the filter */
	unsigned int packets[2]; /* sent by each node */
	unsigned int lost_data;  /* data packets that the other end could not have opened */
	unsigned int sent_data;
	int64_t data_us; /* interval of data packets from both ends; 0: none */
	wtime data_at;
};

struct bed_options {
	uint64_t seed;
	enum ike_pq pq[2];
	bool passive[2];
	int64_t ike_lifetime_us, child_lifetime_us, dpd_us;
	int64_t delay_us;                         /* one way; 0: 10 ms */
	uint32_t cookie_threshold, half_open_max; /* 0: the engine's */
	uint32_t datagram_max;                    /* 0: the engine's */
	uint32_t spi_classes;                     /* 0: any SPI; of class 1 otherwise */
	int64_t grid_us, grid_phase_us;
};

/* Makes both engines and their connections (id BED_CONN), which start when not passive. */
void bed_open(struct bed *bed, const struct bed_options *o);
/* Only one end's engine, without a connection: for restarts. */
void bed_restart(struct bed *bed, unsigned int which, const struct bed_options *o);
void bed_add_conn(struct bed *bed, unsigned int which, const struct bed_options *o);
void bed_close(struct bed *bed);
/* Lets time pass. */
void bed_run(struct bed *bed, int64_t us);
/* Runs until both ends are up with an outbound child that the other has, at most us. */
bool bed_run_until_up(struct bed *bed, int64_t us);
/* The next message only (time moves to its arrival); false: nothing on the wire. */
bool bed_step(struct bed *bed);
/* Sends nothing new; takes what the engines have to say. */
void bed_collect(struct bed *bed);
struct ike_conn_status bed_status(struct bed *bed, unsigned int which);
/* What a node sends on, and the other end's counterpart: both there, with equal keys. */
bool bed_can_send(struct bed *bed, unsigned int from);
/* Exactly one IKE SA, one child and one outbound child at both ends, the same ones. */
bool bed_is_tidy(struct bed *bed);
const struct bed_child *bed_child(const struct bed *bed, unsigned int which, uint32_t handle);
/* A parsed look into the SA of a node is in sa_priv.h; this finds it. */
struct ike_conn *bed_conn(struct bed *bed, unsigned int which);
bool bed_is(const struct bed_packet *p, enum ike_exchange exchange, bool response);
