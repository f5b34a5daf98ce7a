/* A Babel speaker (RFC 8966) without I/O: packets, time and randomness come in as arguments;
 * packets and route events go out. With it the RTT extension (RFC 9616), source-specific routing
 * (RFC 9079), v4-via-v6 (RFC 9229) and MAC authentication (RFC 8967).
 *
 * An interface is a point-to-point link or a network; what Babel calls a neighbour is an
 * (interface, link-local address) pair. Times are wtime; RTTs are microseconds; metrics and costs
 * are Babel's 16-bit ones, 65535 infinite. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/cur.h"
#include "base/rng.h"
#include "base/time.h"
#include "crypto/crypto.h"

struct babel;

enum { BABEL_INFINITY = 65535, BABEL_PORT = 6696, BABEL_KEYS_MAX = 4, BABEL_KEY_MAX = 64 };

struct babel_prefix {
	struct prefix destination;
	struct prefix source; /* length 0: any (RFC 9079: ::/0 as source is the same as none) */
};

/* What a filter is asked about. */
struct babel_offer {
	struct babel_prefix prefix;
	uint8_t router_id[8];
	uint32_t iface;          /* import: where it came from; export: where it would go */
	struct ipaddr neighbour; /* import: who announces it; export: IP_NONE */
	uint16_t metric;
	bool own; /* export: a prefix that this node originates */
};

struct babel_config {
	struct rng rng;
	uint8_t router_id[8]; /* not all zeros, not all ones */
	/* Must be newer (modulo 2^16) than any that this router-id used in the last minutes, or
	 * others refuse its routes until they forget: kept from the last run, or seconds of the
	 * wall clock divided by 4 (RFC 8966 3.2.2, 3.5.1). */
	uint16_t first_seqno;
	bool transit; /* false: announces only what it originates itself */
	/* What may come in and go out; NULL: everything. Called during input and output; must be
	 * quick and must not call back into the speaker. After a change of what they answer call
	 * babel_refilter(). */
	bool (*import)(void *ctx, const struct babel_offer *o);
	bool (*export)(void *ctx, const struct babel_offer *o);
	void *filter_ctx;
	/* Updates a second that all full dumps together may use; 0: default (500). The update
	 * interval grows with the number of prefixes and interfaces so that it suffices. */
	uint32_t dump_rate;
	/* What may come a little late, as the end of a neighbour or route that is not heard of any
	 * more, and what may come a little early, as hellos and full dumps, comes at multiples of
	 * grid_us after grid_phase, so that one wake-up serves many; 0: each at its own time. What
	 * comes sooner than 20 times grid_us does so anyway. */
	int64_t grid_us;
	wtime grid_phase;
};

/* BLAKE2s: keyed, 16 bytes (RFC 8967 4.1); its key has at most 32 bytes. */
enum babel_mac { BABEL_MAC_HMAC_SHA256, BABEL_MAC_BLAKE2S };

struct babel_key {
	enum babel_mac algorithm;
	uint8_t key[BABEL_KEY_MAX];
	uint8_t len;
};

struct babel_iface_config {
	uint32_t iface;           /* the caller's number, unique */
	struct ipaddr link_local; /* own address on it */
	bool tunnel;        /* lossy, cost by hello history over 16 (k-out-of-j with loss); false:
	                     * 2-out-of-3 */
	bool ipv4;          /* the link carries IPv4: announce IPv4 routes (v4-via-v6, RFC 9229) */
	struct ipaddr own4; /* IPv4 next hop on this interface, or IP_NONE: v4-via-v6 */
	uint16_t mtu;       /* largest packet body + header to send */
	int64_t hello_us;   /* hello interval */
	uint8_t update_factor; /* update interval = hello interval * factor; 0: 4 */
	uint16_t cost;         /* nominal rxcost, >= 1 */
	int64_t rtt_min_us, rtt_max_us;
	uint16_t rtt_cost; /* added at rtt_max (RFC 9616 section 4); 0: RTT does not count */
	struct babel_key key[BABEL_KEYS_MAX];
	uint8_t key_count;    /* 0: no authentication */
	bool accept_unsigned; /* roll-out step: sign, but accept what is not signed */
};

/* 0, -ENOMEM, -EINVAL. The config is copied. */
int babel_new(const struct babel_config *c, wtime now, struct babel **ret);
void babel_free(struct babel *b);

/* Adds, changes or removes an interface. Removal loses its neighbours and routes; a changed
 * link-local address restarts its hellos. 0, -EEXIST, -ENOENT, -EINVAL, -ENOMEM. */
int babel_iface_add(struct babel *b, const struct babel_iface_config *c, wtime now);
int babel_iface_update(struct babel *b, const struct babel_iface_config *c, wtime now);
void babel_iface_remove(struct babel *b, uint32_t iface, wtime now);
/* The link is known to be dead (or alive again), before any hello says so: its neighbours' costs
 * become infinite at once; alive: hellos are sent at once. */
void babel_iface_alive(struct babel *b, uint32_t iface, bool alive, wtime now);
/* The link is suspected to be dead: a few neighbours that its routes would go to next are asked
 * whether theirs lead anywhere (doubt.c). To be called once for each silence. */
void babel_iface_doubt(struct babel *b, uint32_t iface, wtime now);
/* Loss of what comes in as the data path measured it, 0..1, negative: unknown (then hello history
 * alone counts). It raises the link's cost, and the neighbours', who are told: see neighbour.c. */
void babel_iface_loss(struct babel *b, uint32_t iface, double in, wtime now);

/* What went over the link so far, bytes, from any start; without reports, or at other times than
 * some ten a hello interval, round trips count as they are measured. With them those that the load
 * explains make no cost: see load.c. SHARED: over all links that have a way out in common. Returns
 * before when another report says nothing new; now, when there is no such interface. */
enum { BABEL_LINK_OUT, BABEL_LINK_IN, BABEL_SHARED_OUT, BABEL_SHARED_IN, BABEL_METERS };
wtime babel_iface_traffic(struct babel *b, uint32_t iface,
	const uint64_t bytes[static BABEL_METERS], wtime now);

/* Announces a prefix of this node's own with a metric, or withdraws it. 0, -EINVAL, -ENOMEM. */
int babel_originate(struct babel *b, const struct babel_prefix *p, uint16_t metric, wtime now);
void babel_withdraw(struct babel *b, const struct babel_prefix *p, wtime now);
/* The filters answer differently now: drops what may not be any more, retracts what may not go out
 * within a second, asks neighbours for what may come in again. */
void babel_refilter(struct babel *b, wtime now);
/* Raises this node's sequence number to at least seqno (modulo 2^16, RFC 8966 3.2.1): whoever
 * restarts under the same router-id must come back with a newer one. An older one changes nothing.
 */
void babel_seqno_at_least(struct babel *b, uint16_t seqno);
void babel_transit(struct babel *b, bool transit, wtime now);

/* One received UDP payload. source: the sender's address (must be link-local, else dropped);
 * unicast: it was sent to our address, not to ff02::1:6. at: when it was read from the socket (RFC
 * 9616). */
struct babel_datagram {
	uint32_t iface;
	struct ipaddr source;
	bool unicast;
	struct view data;
	wtime at;
};
void babel_input(struct babel *b, const struct babel_datagram *d, wtime now);

/* The next packet to send; timestamps are those of now. destination: ff02::1:6 or a neighbour. The
 * bytes stay valid until the next call. False: nothing to send now. */
struct babel_packet {
	uint32_t iface;
	struct ipaddr source, destination;
	struct view data;
};
bool babel_output(struct babel *b, wtime now, struct babel_packet *ret);
wtime babel_deadline(const struct babel *b);
void babel_tick(struct babel *b, wtime now);
/* Says goodbye: retracts everything it announced, to all neighbours (take babel_output() after). */
void babel_stop(struct babel *b, wtime now);

/* The route in use for a prefix changed. */
enum babel_event_type {
	BABEL_EVENT_ROUTE,       /* selected, or changed in next hop or metric */
	BABEL_EVENT_UNREACHABLE, /* no route any more, but the prefix is held: an unreachable route
	                          * goes in, never a covering default (RFC 8966 2.8) */
	BABEL_EVENT_GONE,        /* the hold is over */
	BABEL_EVENT_NEIGHBOUR,   /* a neighbour appeared or was lost */
	BABEL_EVENT_DOUBT,       /* whether the interface's link lives should be looked at now: a
	                          * neighbour asks for, or has lost, what goes over it */
};

struct babel_event {
	enum babel_event_type type;
	struct babel_prefix prefix;
	uint8_t router_id[8];
	uint16_t metric, seqno;
	uint32_t iface;
	struct ipaddr next_hop; /* of the packet's family or IPv6 for v4-via-v6 */
	struct ipaddr neighbour;
	/* ROUTE: the interface of another route that is feasible now, to be used when this one's
	 * interface dies, until an event says what was selected; 0: none */
	uint32_t backup_iface;
	bool lost; /* NEIGHBOUR */
};
bool babel_event_next(struct babel *b, struct babel_event *ret);

struct babel_neighbour_info {
	uint32_t iface;
	struct ipaddr address;
	uint16_t rxcost, txcost, cost; /* cost: what routes through it pay, RTT and loss included */
	bool has_rtt;
	int64_t rtt_us; /* smoothed, as measured */
	uint16_t reach; /* hello history, newest in the highest bit */
	double loss;    /* of hellos received */
	wtime rtt_at;
};

struct babel_route_info {
	struct babel_prefix prefix;
	uint8_t router_id[8];
	uint32_t iface; /* 0 with own */
	struct ipaddr neighbour, next_hop;
	uint16_t metric;     /* ours, through the neighbour */
	uint16_t advertised; /* as the neighbour said */
	uint16_t seqno;
	bool own, selected, feasible, unreachable;
	wtime since;
};

/* Walk with *it = 0 at first; false at the end. Nothing may change in between. */
bool babel_neighbours(const struct babel *b, size_t *it, struct babel_neighbour_info *ret);
bool babel_routes(const struct babel *b, size_t *it, struct babel_route_info *ret);

/* Counted reasons for which a packet or a part of it was not acted on. */
#define BABEL_DROPS(X)                                                                             \
	X(NOT_LINK_LOCAL, "babel-not-link-local")                                                  \
	X(UNKNOWN_IFACE, "babel-unknown-interface")                                                \
	X(MALFORMED, "babel-malformed")                                                            \
	X(VERSION, "babel-version")                                                                \
	X(NOT_AUTHENTIC, "babel-not-authentic")                                                    \
	X(REPLAY, "babel-replay")                                                                  \
	X(MANDATORY, "babel-mandatory-sub-tlv")                                                    \
	X(FILTERED, "babel-filtered")                                                              \
	X(UNFEASIBLE, "babel-unfeasible")                                                          \
	X(TIMESTAMP, "babel-bad-timestamp")                                                        \
	X(DUPLICATE_REQUEST, "babel-duplicate-request")                                            \
	X(NO_MEMORY, "babel-no-memory")

enum babel_drop {
#define X(id, name) BABEL_DROP_##id,
	BABEL_DROPS(X)
#undef X
		BABEL_DROP_COUNT
};
const char *babel_drop_name(enum babel_drop d);

struct babel_stats {
	uint64_t drops[BABEL_DROP_COUNT];
	uint64_t packets_in, packets_out, bytes_in, bytes_out;
	uint64_t route_changes; /* selections that changed the next hop */
	uint32_t routes, sources, neighbours;
};
void babel_stats(const struct babel *b, struct babel_stats *ret);
