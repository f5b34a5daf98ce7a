/* For the tests of the plane: nodes with a toy tunnel (xor and a sum: no ESP), packets, and the way
 * from one node's sends to another's receives. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "plane/plane.h"

enum {
	RIG_LINKS = 16,
	RIG_SAS = 32,
	RIG_UPS = 256,
	RIG_HEAD = 8, /* SPI, sequence number */
	RIG_TAIL = 5, /* next header, sum */
	RIG_FRAME = 65600,
	RIG_BUFFERS = 1200,
	RIG_FRAMES = 1200,
};

struct toy_sa {
	struct tunnel_sa t; /* first */
	uint32_t spi;
	uint64_t next, soft, hard;
	bool broken;   /* outbound: sealing fails */
	uint64_t seen; /* inbound: bits of the last 64 */
};

struct toy_table {
	struct toy_sa *sa[RIG_SAS];
};

/* A report, its data copied. */
struct rig_up {
	struct plane_up up;
	uint8_t data[2048];
};

struct rig {
	struct plane *plane;
	void *memory;
	struct toy_table table;
	struct plane_link link[RIG_LINKS];
	const struct plane_link *links[RIG_LINKS];
	struct plane_link_state state[RIG_LINKS];
	struct toy_sa out[RIG_LINKS], in[RIG_LINKS];
	struct plane_snapshot snapshot;
	struct plane_next_hop hop[RIG_LINKS + 3]; /* links, then local, unreachable, blackhole */
	struct fib *fib;
	struct ipaddr own[4];
	struct endpoint endpoint[4];
	struct rig_up up[RIG_UPS];
	size_t ups;
	bool up_full;
	bool (*known)(const void *ctx, uint64_t spi_i, uint64_t spi_r);
	wtime now;
	size_t calls, relaxed;        /* of helpers; while one was waited for */
	void (*relax)(struct rig *r); /* then, NULL: nothing */
	bool tun_stands;              /* the TUN's queue is not seen empty */
	/* what the last round sent */
	struct udp_rx *rx; /* as the far end receives it; data owned */
	size_t rx_count;
	uint8_t *rx_data;
	/* frames to the TUN, flattened */
	uint8_t *frame_data[RIG_FRAMES];
	uint32_t frame_len[RIG_FRAMES];
	struct gso frame_gso[RIG_FRAMES];
	uint16_t frame_segments[RIG_FRAMES];
	size_t frames;
};

enum { RIG_LOCAL = RIG_LINKS, RIG_UNREACHABLE, RIG_BLACKHOLE };

/* A node number id: own addresses fd00:id::1 and 10.id.0.1; `links` links with SAs both ways; the
 * SPI of link i from node a is a * 16 + i, and peers[i] is the number of its far end, far[i] the
 * index of the link there. Routes of "fd00:peer::/32" and "10.peer.0.0/16" lead over the links. */
void rig_init(struct rig *r, unsigned int id, unsigned int links, const unsigned int *peers,
	const unsigned int *far);
/* The same, for a plane with helpers: who calls plane_help() is the test's matter. */
void rig_init_helped(struct rig *r, unsigned int id, unsigned int links, const unsigned int *peers,
	const unsigned int *far, uint32_t helpers);
void rig_done(struct rig *r);
/* Builds the table again from the standard routes and n more. */
void rig_routes(struct rig *r, unsigned int id, const unsigned int *peers,
	const struct fib_entry *more, size_t n);
struct fib_entry rig_route(const char *destination, const char *source, uint32_t value);

/* The filter of known IKE SPIs from here on. */
void rig_know(struct rig *r, bool (*known)(const void *ctx, uint64_t spi_i, uint64_t spi_r));
/* Seals anything: writes len + RIG_HEAD + RIG_TAIL bytes, returns that. */
uint32_t rig_seal(struct toy_sa *sa, uint8_t *out, const uint8_t *packet, uint32_t len,
	uint8_t next_header);

void rig_tun(struct rig *r, uint8_t *data, uint32_t len);
void rig_tun_gso(struct rig *r, uint8_t *data, uint32_t len, struct gso gso);
/* Flushes, and keeps copies of all outputs. */
void rig_round(struct rig *r);
/* Hands what `from` sent on link slot `slot` in the last round to `to`, as if read by UDP_GRO. */
void rig_carry(struct rig *from, unsigned int slot, struct rig *to);
uint64_t rig_drops(const struct rig *r, enum drop_reason d);
/* The sum of all drops. */
uint64_t rig_dropped(const struct rig *r);
/* The first report of a type, or NULL. */
struct rig_up *rig_find(struct rig *r, enum plane_up_type type);

/* Seals an inner packet on a link as the control side does, and carries it to the far end. */
void rig_inject(struct rig *from, unsigned int slot, struct rig *to, const uint8_t *packet,
	uint32_t len);
/* Every packet that came in is accounted for: went out, up, or was dropped. */
bool rig_balanced(const struct rig *r);

struct packet {
	uint8_t version, tos, hop_limit, proto;
	const char *src, *dst;
	uint16_t sport, dport;
	uint32_t len; /* whole */
	uint16_t id;
	bool df;
};

/* 200 bytes of UDP from a host behind node 1 to node 2. */
extern const struct packet rig_udp6, rig_udp4;
/* 100 bytes of Babel's port from node 1's end of its link to all that is there. */
extern const struct packet rig_babel;

/* Nodes 1 and 2 with one link: what most tests start from. */
struct rig_pair {
	struct rig a, b;
	uint8_t data[RIG_FRAME];
};

/* For cmocka: *state is a struct rig_pair. */
int rig_pair_setup(void **state);
int rig_pair_teardown(void **state);

/* Writes a UDP, TCP or ICMPv6 packet with a valid checksum; returns its length. */
uint32_t packet_make(uint8_t *out, const struct packet *f);
/* True when all checksums of a plain packet are right. */
bool packet_valid(const uint8_t *p, uint32_t len);
/* The Internet checksum of n bytes, added to sum, folded. */
uint16_t packet_sum(const uint8_t *p, uint32_t n, uint32_t sum);
