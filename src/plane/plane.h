/* The data path, sans-I/O: frames from the TUN and datagrams from the sockets go in; datagrams for
 * the sockets, frames for the TUN and reports for the control side come out. One struct plane
 * belongs to one thread. All memory is handed in at start; nothing is allocated later.
 *
 * A packet walks through stages; what a stage decides is an edge of one table (plane.c). IPv4 and
 * IPv6 with their rules for a router: RFC 1812, RFC 8200; ICMP errors RFC 4443, RFC 1191, RFC 8201;
 * ECN RFC 6040; IPv4 fragmenting RFC 791; segment routing RFC 8754, RFC 8986. Not here: a
 * scheduler, a capture tap.
 *
 * A round: any number of plane_input_*() calls, then plane_flush(), then the caller takes and sends
 * the outputs, and calls plane_round_done(); the outputs point into the plane's buffers and into
 * the receive buffers of this round. With helpers, other threads may cut, seal and open packets of
 * the round meanwhile. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/cur.h"
#include "base/time.h"
#include "fib/fib.h"
#include "policy/policy.h"
#include "srv6/srv6.h"
#include "wire/drop.h"
#include "wire/frame.h"
#include "wire/icmp.h"
#include "wire/tunnel.h"

enum {
	PLANE_SLOTS = 65536,      /* links at most, by slot number */
	PLANE_UDP_OUT_MAX = 1152, /* sends a round */
	PLANE_TUN_OUT_MAX = 1024, /* TUN frames a round */
	PLANE_ECHO_MAX = 256,
	PLANE_ECHO_IDS = 8,
	PLANE_LARGE = 1100, /* a datagram above it, bytes, is told in last_large_us */
};

/* Mutable facts of one link, made and freed by the control side, written by the plane thread
 * (relaxed atomics) and readable by any. */
struct plane_link_state {
	struct tunnel_sa *outbound;                          /* plane's own */
	uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes; /* inner */
	uint64_t segmented;                  /* datagrams that were parts of a larger send */
	uint64_t own_tx_bytes, own_rx_bytes; /* of these, what only the link's two ends say */
	int64_t last_rx_us;                  /* wtime of the last packet, 0: none */
	/* wtime of the last one, and of the last large datagram, that the ends did not make */
	int64_t last_tx_us, last_large_us;
};

/* A link as the snapshot has it. */
struct plane_link {
	uint32_t slot;
	bool usable; /* false: packets routed here are dropped as link-down */
	uint16_t socket;
	uint16_t mtu;          /* largest inner packet, bytes */
	uint16_t datagram_max; /* largest UDP payload to send on it, bytes */
	struct endpoint local, remote;
	struct ipaddr own_link_local, peer_link_local; /* IP_NONE: not known */
};

enum plane_next_hop_type { PLANE_LOCAL, PLANE_LINK, PLANE_UNREACHABLE, PLANE_BLACKHOLE };

struct plane_next_hop {
	enum plane_next_hop_type type;
	uint32_t slot; /* PLANE_LINK */
};

/* ---- policies and segments ---- */

/* Mutable facts of a policy, made by the control side, which frees it when no snapshot names it any
 * more; written by the plane thread (relaxed atomics) and readable by any. It may serve one policy
 * over many snapshots, so that numbers go on. All zero to start. */
struct plane_policy_state {
	uint64_t packets, bytes; /* inner, put into a send */
	uint64_t dropped;        /* by PLANE_STEER_DROP */
	int64_t path_mtu_at_us;  /* when path_mtu was told (wtime) */
	uint32_t path_mtu;       /* of steered packets, told by a router on their way; 0: none */
};

enum plane_steer_type {
	PLANE_STEER_PUSH,   /* segments in front, and routed by the first of them */
	PLANE_STEER_DIRECT, /* as without a policy, but counted */
	PLANE_STEER_DROP,   /* no candidate is left, and the policy says so: DROP_POLICY_FALLBACK */
};

/* What is done with the packets of a policy. */
struct plane_steer {
	enum plane_steer_type type;
	/* PUSH. Its first segment must not be a SID of this node: leave such out. */
	const struct srv6_steer *push;
	struct plane_policy_state *state; /* NULL: nothing is counted, no path MTU is kept */
};

/* srv6_localsid.argument: where a decapsulating SID's packets go. */
enum plane_table {
	PLANE_TABLE_MESH, /* routed as if they had come over the link as they are */
	PLANE_TABLE_HOST, /* into the TUN: an exit, for destinations that are announced (their route
	                   * is PLANE_LOCAL) or in exit_allow */
};

/* Sets of prefixes are tables whose values say nothing; NULL is the empty set. */
struct plane_srv6 {
	const struct policy *policy; /* for packets of the TUN; NULL: none */
	const struct plane_steer *steer;
	uint32_t steer_count;              /* what rules have as their steer; beyond: no policy */
	const struct srv6_table *localsid; /* own SIDs; NULL: none */
	/* What may not be a destination from the TUN (RFC 8754 5.1): SIDs, own and others'.
	 * Locators are no SIDs: a node may have a host's address in its locator. */
	const struct fib *sid_space;
	const struct fib *mesh_source; /* who may send to own SIDs */
	const struct fib *exit_allow;
	struct ipaddr source; /* of steered packets; errors about them are sent there */
	bool refuse_hmac; /* refuse routing headers with an HMAC TLV, else it is not looked at */
};

/* The immutable tables that the plane reads: swapped whole. Everything it points to lives as long
 * as it does. */
struct plane_snapshot {
	uint64_t generation;
	const struct fib *fib; /* values are indexes of next_hop[] */
	const struct plane_next_hop *next_hop;
	uint32_t next_hop_count;
	const struct plane_link *const *link; /* by slot; NULL: none. link_count entries */
	uint32_t link_count;
	const struct ipaddr *own_address; /* on the TUN, sorted by ipaddr_compare() */
	uint32_t own_address_count;
	const struct endpoint
		*own_endpoint; /* UDP endpoints, own and peers': packets to them from the
	                        * own TUN are loops; sorted by address, then port */
	uint32_t own_endpoint_count;
	struct ipaddr icmp_source4,
		icmp_source6; /* IP_NONE: ICMP errors of that family are not sent */
	bool transit;         /* forward between links */
	bool copy_dscp;       /* outer DSCP is the inner's; */
	uint8_t dscp;         /* else this one; 0 with copy_dscp */
	uint16_t tun_mtu;
	const struct plane_srv6 *srv6; /* NULL: no policies and no SIDs */
};

/* ---- control -> plane ---- */
enum plane_down_type {
	PLANE_DOWN_LINK_ADD,    /* slot, state (owned by the plane until LINK_GONE) */
	PLANE_DOWN_LINK_REMOVE, /* slot; its SAs come back by SA_REMOVE, not by this */
	PLANE_DOWN_SA_ADD,      /* sa, inbound or outbound (owned by the plane until SA_GONE, which
	                         * comes for SA_REMOVE alone) */
	PLANE_DOWN_SA_OUTBOUND, /* slot, sa (NULL: none): send on it from now on */
	PLANE_DOWN_SA_REMOVE,   /* sa */
	PLANE_DOWN_SNAPSHOT,    /* snapshot (the former comes back as SNAPSHOT_GONE) */
	PLANE_DOWN_SEAL,  /* slot, data: an inner IP packet of the control side, sent before bulk;
	                   * remote, local: where to and where from, when not as the link has it; of
	                   * any length, the link's MTU is not looked at; flags: PLANE_SEAL_WHOLE */
	PLANE_DOWN_MERGE, /* flags: what is merged toward the TUN, PLANE_MERGE_* */
	PLANE_DOWN_ECHO,  /* data: an echo request of PLANE_ECHO_MAX bytes at most, which goes the
	                   * way of a packet of the TUN, uncounted by policies; routed_as: by whose
	                   * source policies and routes are found, IP_NONE: its own; hop_limit: of
	                   * the header in front of it, where it is steered; 0: as any other's */
	PLANE_DOWN_ECHO_IDS, /* data: PLANE_ECHO_IDS identifiers at most, two bytes each: answers to
	                      * such echoes go up instead of to the TUN; replaces the former ones */
};

/* SEAL, flags. */
enum { PLANE_SEAL_WHOLE = 1 }; /* the datagram is not to be fragmented: a probe of the path's MTU */

/* MERGE, flags. */
enum { PLANE_MERGE_TCP = 1, PLANE_MERGE_UDP = 2 };

struct plane_down {
	enum plane_down_type type;
	uint32_t slot;
	uint32_t flags;
	struct tunnel_sa *sa;
	struct plane_link_state *state;
	const struct plane_snapshot *snapshot;
	struct endpoint remote, local; /* SEAL; remote.ip IP_NONE: the link's */
	struct ipaddr routed_as;       /* ECHO */
	uint8_t hop_limit;             /* ECHO */
	struct view data;              /* borrowed for the call */
};

/* ---- plane -> control ---- */
enum plane_up_type {
	PLANE_UP_IKE,  /* data: an IKE message without marker; remote, local, socket, time */
	PLANE_UP_LINK, /* data: an inner packet for the control side (Babel, probes); slot, time */
	PLANE_UP_ECHO, /* data: a packet that answers an echo: plane_echo_read(); slot, time */
	PLANE_UP_REMOTE, /* slot: an authentic packet, newer than all before, came from remote to
	                  * local (which is not what the snapshot has) */
	PLANE_UP_SOFT_LIMIT,    /* child */
	PLANE_UP_HARD_LIMIT,    /* child */
	PLANE_UP_SA_GONE,       /* sa: free it */
	PLANE_UP_LINK_GONE,     /* state: free it */
	PLANE_UP_SNAPSHOT_GONE, /* snapshot: free it */
};

struct plane_up {
	enum plane_up_type type;
	bool established; /* UP_IKE: the SPI pair looked established (see plane_config.ike_known) */
	bool may_wait;    /* UP_LINK: only a hello on time: heard 100 ms later is soon enough */
	uint16_t socket;
	uint32_t slot, child;
	struct tunnel_sa *sa;
	struct plane_link_state *state;
	const struct plane_snapshot *snapshot;
	struct endpoint remote, local;
	wtime time;
	struct view data; /* borrowed for the call */
};

/* A packet for a link that is another plane's, ready to be sealed; its bytes stand beside it. */
struct plane_handed {
	uint32_t slot;
	uint32_t len;
	uint32_t more; /* packets of that length that are sure to follow */
	uint8_t tos;   /* of the packet */
	uint8_t next_header;
};

struct plane_config {
	const struct tunnel_ops *ops;
	void *table; /* for ops; borrowed */
	/* Receives reports; returns false when there is no room (counted as punt-full; the *_GONE
	 * kinds must always find room: the caller sizes its ring for them). */
	bool (*up)(void *ctx, const struct plane_up *up);
	void *up_ctx;
	/* True when an IKE header's SPIs belong to an established SA (a lock-free filter that the
	 * control side keeps); NULL: all are unknown. */
	bool (*ike_known)(const void *ctx, uint64_t spi_i, uint64_t spi_r);
	const void *ike_known_ctx;
	/* One of several planes, which read the same snapshots: links whose slot leaves this number
	 * when divided by planes are its own, and messages about them are for it. 0 planes: the
	 * only one. */
	uint32_t number, planes;
	/* Where to write a packet of h->len bytes for another plane, which is to have it by
	 * plane_input_handed(); NULL: no room. It is written when the next is asked for, or the
	 * round is flushed. With several planes only; the context is up_ctx. */
	uint8_t *(*hand)(void *ctx, uint32_t number, const struct plane_handed *h);
	/* Unknown IKE messages a second to let up, of each kind (first ones, with a cookie, of
	 * handshakes under way, refused ones that come again); burst the same; 0: default 2000. */
	uint32_t unknown_ike_rate;
	bool merge_tcp, merge_udp; /* the TUN takes superpackets of that kind */
	bool aqm;              /* tell senders when the TUN's queue stands: see plane_tun_empty() */
	uint16_t segments_max; /* datagrams a send: 64 or 128; 1: no UDP_SEGMENT */
	/* Threads that call plane_help(); 0: none. SAs have a lane for each, beside lane 0. The
	 * context of these is up_ctx. */
	uint32_t helpers;
	void (*call)(void *ctx);  /* work waits that a helper, if one sleeps, could do */
	void (*relax)(void *ctx); /* the plane waits for a helper that is at work: give way */
};

struct plane;

/* Bytes that plane_init() wants, and how they must be aligned (64). */
size_t plane_memory(const struct plane_config *c);
/* Builds a plane in memory (plane_memory() bytes, borrowed, best prefaulted). */
struct plane *plane_init(const struct plane_config *c, void *memory);

/* Frames read from the TUN, in order; the data is free again when the call returns, or, with
 * helpers, when plane_round_done() does. */
void plane_input_tun(struct plane *p, struct tun_rx *frame, size_t n, wtime now);
/* The TUN's queue was empty before the next frame came: none that is read from now on has waited
 * since before now. To be told each time. */
void plane_tun_empty(struct plane *p, wtime now);
/* Buffers read from a socket, in order; the data must live until plane_round_done(). */
void plane_input_udp(struct plane *p, struct udp_rx *buffer, size_t n, wtime now);
/* A packet that another plane handed over. */
void plane_input_handed(struct plane *p, const struct plane_handed *h, const uint8_t *data,
	wtime now);
/* A message of the control side. */
void plane_down(struct plane *p, const struct plane_down *m, wtime now);
/* True while another input call may find no room for its outputs: flush and send first. There is
 * room for one frame, or for 8 buffers of 64 datagrams; what does not fit is dropped and counted.
 */
bool plane_full(const struct plane *p);
/* Seals what waits. */
void plane_flush(struct plane *p, wtime now);

/* The outputs of the round, in the order to send. */
const struct udp_tx *plane_udp_out(const struct plane *p, size_t *ret_n);
const struct tun_tx *plane_tun_out(const struct plane *p, size_t *ret_n);
/* The sends from `first` on that are sealed: how many, at least one. With helpers a send may not be
 * before this was asked, which waits for the first, and may then turn out to have fewer segments,
 * or none. */
size_t plane_udp_wait(struct plane *p, size_t first);
/* A helper, number 0 to helpers - 1, each by one thread at a time: does a piece of the work that
 * waits. False: none does. */
bool plane_help(struct plane *p, uint32_t number);
/* Any thread: false when there is nothing for a helper to do now. */
bool plane_help_wanted(const struct plane *p);
/* A send went to the kernel in one piece, to be cut there (UDP_SEGMENT): counted for its link. */
void plane_count_segmented(struct plane *p, const struct udp_tx *tx);
/* Everything was sent (or counted as lost): buffers are free again. */
void plane_round_done(struct plane *p);
/* The engine's own losses, counted with the rest. */
void plane_count_drop(struct plane *p, enum drop_reason r, uint64_t n);

/* Nothing is lost unseen: tun_rx_packets + udp_rx_datagrams + control_packets + icmp_sent +
 * fragments + taken = handed + tun_tx_packets + udp_tx_datagrams + punted + keepalives + the drops,
 * ICMP_LIMIT and those of plane_count_drop() aside, once a round is flushed (and its sends waited
 * for). */
struct plane_counters {
	uint64_t drops[DROP_COUNT];
	uint64_t tun_rx_frames, tun_rx_packets, tun_tx_frames, tun_tx_packets;
	uint64_t udp_rx_buffers, udp_rx_datagrams, udp_tx_sends, udp_tx_datagrams;
	uint64_t transit_packets;
	uint64_t icmp_sent;       /* errors that were made */
	uint64_t control_packets; /* PLANE_DOWN_SEAL, PLANE_DOWN_ECHO */
	uint64_t punted;          /* PLANE_UP_IKE, PLANE_UP_LINK, PLANE_UP_ECHO */
	uint64_t echo_answered, keepalives;
	uint64_t sa_refused;    /* SA_ADD for which the table had no room, or whose SPI was taken */
	uint64_t handed, taken; /* packets to and from other planes */
	uint64_t aqm_marked;    /* frames from the TUN that became CE (drops are DROP_AQM) */
	uint64_t fragments;     /* packets that there are more for fragmenting IPv4 */
};

/* May be called by any thread (relaxed reads). */
void plane_counters(const struct plane *p, struct plane_counters *ret);

/* ---- answers to echoes ---- */

/* An answer to an echo request: a reply, or an error about it. */
struct plane_echo_answer {
	struct ipaddr from; /* who answers */
	bool reply;
	enum icmp_error_type error; /* no reply */
	bool steered;          /* the error is about the request while it had segments in front */
	struct icmp_echo echo; /* the reply, or the request as it was quoted */
	uint16_t checksum;     /* of a request that was quoted */
};

/* Reads one. steer_source: what steered packets come from; NULL: nothing is steered. -EBADMSG: it
 * is no such packet. */
int plane_echo_read(struct view packet, const struct ipaddr *steer_source,
	struct plane_echo_answer *ret);
