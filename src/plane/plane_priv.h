/* Inside the plane: what its stages share. A packet (struct pkt) walks from stage to stage; what a
 * stage decides is an edge, and one table (plane.c) says where each edge leads. */
#pragma once
#include "plane/aqm.h"
#include "plane/bulk.h"
#include "plane/plane.h"
#include "plane/work.h"
#include "wire/csum.h"
#include "wire/ecn.h"
#include "wire/gro.h"
#include "wire/gso.h"
#include "wire/icmp.h"
#include "wire/ip.h"

enum {
	TX_SEND_BYTES = 65507,     /* UDP payload of one send: 65535 - 20 - 8 */
	TX_BUFFER_BYTES = 66048,   /* a buffer: the above, to whole cache lines, and slack */
	TX_BUFFERS = 128,          /* the first is the control side's */
	TX_BUFFERS_SPARE = 16,     /* plane_full() below that */
	TX_SEGMENTS_MAX = 128,     /* UDP_MAX_SEGMENTS of new kernels */
	TX_URGENT_SENDS = 64,      /* of PLANE_UDP_OUT_MAX, kept for the control side */
	TX_TURN_BYTES = 32768,     /* of a link, before it is another's turn */
	TX_SPARE = 512,            /* sends and frames that one input call may need */
	TX_SEAL_AT = WORK_AT_ONCE, /* datagrams of a batch that wait to be sealed */
	OPEN_BATCH = 16,           /* the same */
	ICMP_BUFFERS = 64,         /* ICMP errors to the TUN, a round */
	ICMP_RATE = 1000,          /* a second (RFC 4443 2.4 f) */
	ICMP_BURST = 100,
	IKE_RATE = 2000,
	IKE_HEADER = 28, /* RFC 7296 3.1 */
	IKE_MARKER = 4,  /* RFC 3948 2.2 */
	BABEL_PORT = 6696,
	REMOTE_REPORT_US = 1000000,
};

/* Facts of an address pair that hold as long as the snapshot. */
enum pair_flag {
	PAIR_SRC_MARTIAN = 1 << 0,
	PAIR_DST_MARTIAN = 1 << 1,
	PAIR_SRC_LINK_LOCAL = 1 << 2,
	PAIR_DST_LINK_LOCAL = 1 << 3, /* unicast, or multicast of link scope */
	PAIR_DST_MULTICAST = 1 << 4,
	PAIR_SRC_OWN = 1 << 5,
	PAIR_DST_ENDPOINT = 1 << 6,      /* some tunnel endpoint has this address */
	PAIR_DST_SID = 1 << 7,           /* of this node; from a link */
	PAIR_SRC_MESH = 1 << 8,          /* may send to a SID; with PAIR_DST_SID */
	PAIR_DST_SID_SPACE = 1 << 9,     /* of any node; from the TUN */
	PAIR_DST_STEER_SOURCE = 1 << 10, /* where errors about steered packets come to */
	PAIR_DST_EXIT = 1 << 11,         /* the exit may reach it; once out of its segments */
};

/* Where a pair is looked at: its entry in the cache, and what is asked about it. */
enum pair_use {
	PAIR_TUN,     /* from the TUN: policies */
	PAIR_LINK,    /* from a link: SIDs */
	PAIR_AGAIN,   /* the same packet after it was at a SID, */
	PAIR_AGAIN_2, /* at two, */
	PAIR_AGAIN_3, /* or at more */
	PAIR_USES,
};

struct pair {
	struct ipaddr src, dst;
	unsigned int flags;
	bool valid;
	bool routed; /* a route was found */
	enum plane_next_hop_type type;
	const struct plane_link *link;   /* PLANE_LINK: NULL when it is gone */
	const struct plane_steer *steer; /* of its policy, NULL: none */
	const struct srv6_steer *push;   /* segments to push, by which it is routed; NULL: none */
	const struct srv6_localsid *sid; /* with PAIR_DST_SID */
};

struct pkt {
	uint8_t *data;                 /* the inner packet, changed in place */
	uint32_t len;                  /* as its header says */
	uint32_t segments;             /* packets that it stands for */
	const struct tun_rx *frame;    /* from the TUN: as it was read, */
	const struct gso_split *split; /* and ready to be cut; NULL: from a link */
	const struct plane_link *in;   /* where it came from, NULL: the TUN */
	const struct udp_rx *from;     /* from a link: its receive buffer */
	const struct pair *pair;       /* addresses and route */
	struct ip_view ip;
	wtime now, time;           /* time: when it was read from its socket */
	enum drop_reason drop;     /* why, on EDGE_DROP and EDGE_ICMP */
	enum icmp_error_type icmp; /* what to say, on EDGE_ICMP */
	uint32_t icmp_mtu, icmp_pointer;
	uint8_t icmp_code;
	struct srv6_stamp stamp;        /* with pair->push */
	uint8_t outer_tos, next_header; /* from a link: as its datagram had them */
	bool transit;
	uint8_t again;     /* it was at so many SIDs of this node */
	bool hopped;       /* and a hop was taken from it there */
	bool exit;         /* to be delivered by this exit */
	bool echo;         /* the control side's, on its way out as if from the TUN */
	bool congested;    /* its first segment is to be dropped: see aqm.h */
	uint8_t hop_limit; /* to set in front of its segments, 0: none */
};

enum plane_edge {
	EDGE_NEXT,
	EDGE_DROP,
	EDGE_ICMP,  /* an error to the source, then a drop */
	EDGE_LOCAL, /* for this host */
	EDGE_ASIDE, /* the stage's side exit: the control side, fragmenting, a policy */
	EDGE_SID,   /* to a SID of this node, or where errors about steered packets come to */
	EDGE_EXIT,  /* out of its segments, and to be delivered here */
	EDGE_DONE,
	EDGE_COUNT,
};

enum plane_stage {
	STAGE_END, /* no stage */
	STAGE_TUN_PARSE,
	STAGE_TUN_GUARD,
	STAGE_STEER,
	STAGE_TUN_ROUTE,
	STAGE_LINK_PARSE,
	STAGE_LINK_GUARD,
	STAGE_LINK_ROUTE,
	STAGE_LINK_LOCAL,
	STAGE_LOCALSID,
	STAGE_EXIT,
	STAGE_TRANSIT,
	STAGE_CLAMP,
	STAGE_CLAMP_LOCAL,
	STAGE_FIT,
	STAGE_FRAGMENT,
	STAGE_SEND,
	STAGE_DELIVER,
	STAGE_ICMP,
	STAGE_DROP,
	STAGE_COUNT,
};

typedef enum plane_edge plane_stage_fn(struct plane *p, struct pkt *k);

struct bucket {
	int64_t level; /* millionths of a token */
	int64_t last_us;
	uint32_t rate, burst;
};

/* IKE messages of unknown SPIs. Each kind has a bucket, so that a flood of one leaves room for the
 * others. */
enum ike_class {
	IKE_FIRST,   /* of a peer that knows no SPI of ours */
	IKE_COOKIE,  /* the same, with a cookie (RFC 7296 2.6) */
	IKE_GOES_ON, /* of a handshake under way, it says */
	IKE_AGAIN,   /* one that was refused for want of a token, and comes once more */
	IKE_CLASSES,
};

enum { AGAIN_WORDS = 32768 };

/* Who was refused in the last seconds, as two generations of a Bloom filter. */
struct again {
	int64_t since_us; /* of the present generation; 0: never used */
	unsigned int present;
	uint64_t bit[2][AGAIN_WORDS];
};

/* Datagrams for one link, of one size but for the last, in one piece of a buffer. */
struct tx_batch {
	uint8_t *base;
	struct tunnel_sa *sa;
	uint32_t slot, buffer;
	uint32_t start;  /* of base in its buffer */
	uint32_t stride; /* sealed bytes of all but the last */
	uint32_t inner;  /* inner bytes of all but the last */
	uint32_t last;   /* inner bytes of the last */
	uint32_t used;   /* bytes */
	uint32_t room;   /* bytes at most */
	uint16_t count;
	uint16_t sealed;         /* of count, from the first on, or given up */
	enum drop_reason broken; /* why nothing more of it is sealed */
	uint8_t tos, next_header;
	bool urgent;
	bool listed;                /* among the outputs of the round, */
	uint16_t at;                /* there */
	bool torn;                  /* some of it could not be sealed: the rest is lost */
	uint16_t piece, piece_last; /* of work, plus 1: oldest and newest; 0: none */
	uint64_t ahead;             /* bytes that its link sends before it in this round */
	struct udp_tx out;          /* whole once the batch is closed */
};

/* What a packet to send asks of its link. */
struct tx_ask {
	const struct plane_link *link;
	uint32_t len;  /* inner packet */
	uint32_t more; /* further packets of that length that are sure to follow */
	uint8_t tos;   /* of the inner packet */
	uint8_t next_header;
	bool urgent, whole;
	wtime now;
};

struct plane_slot {
	struct plane_link_state *state;
	uint16_t open;        /* index + 1 of the open batch, 0: none */
	uint16_t buffer;      /* index of the buffer that it filled last, 0: none */
	uint64_t sent;        /* bytes of the flushed round */
	uint32_t remote_hash; /* of the last address told with PLANE_UP_REMOTE */
	int64_t remote_told_us;
	int64_t punted_until_us; /* when what went up would have, at its steady pace (punt.c) */
	int64_t punted_us;       /* when something did last; 0: never */
};

/* Where the last packet that went to the TUN came from, when it did so by the straight way: what
 * goes on with its flow goes the same way (egress.c). */
struct plane_run {
	const struct udp_rx *from; /* its receive buffer; NULL: there is none */
	const struct plane_link *link;
	uint8_t next_header;
};

struct plane {
	struct plane_config config;
	const struct plane_snapshot *snapshot;
	struct plane_counters counters;
	struct pair pair[PAIR_USES]; /* the route cache, one entry a use */
	struct plane_run run;
	struct bucket ike[IKE_CLASSES], icmp;
	struct aqm aqm;
	struct bulk bulk;
	uint16_t segments_max;
	uint16_t echo_id[PLANE_ECHO_IDS]; /* whose answers go up */
	uint32_t echo_ids;

	uint32_t batch_count, urgent_count, buffer_count, icmp_count;
	uint32_t udp_out_count, tun_out_count; /* of the flushed round */
	struct tx_batch batch[PLANE_UDP_OUT_MAX];
	uint32_t buffer_used[TX_BUFFERS];
	struct tunnel_seal seal[WORK_DATAGRAMS];
	struct work *work; /* NULL: there are no helpers */
	struct tunnel_open open[OPEN_BATCH];
	const struct udp_rx *open_from[OPEN_BATCH];
	struct udp_tx udp_out[PLANE_UDP_OUT_MAX];
	struct tun_tx tun_out[PLANE_TUN_OUT_MAX];
	uint8_t icmp_buffer[ICMP_BUFFERS][ICMP_ERROR_MAX];
	uint8_t scratch[TX_BUFFER_BYTES];
	struct gso_split split;
	struct gro gro;
	struct plane_slot slot[PLANE_SLOTS];
	struct again again;
	uint8_t buffer[TX_BUFFERS][TX_BUFFER_BYTES] __attribute__((aligned(64)));
};

/* Adds to a number that other threads read. */
static inline void plane_count(uint64_t *c, uint64_t n)
{
	__atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

/* Adds to a number that several planes write. */
static inline void plane_count_shared(uint64_t *c, uint64_t n)
{
	__atomic_fetch_add(c, n, __ATOMIC_RELAXED);
}

static inline void pkt_drop(struct plane *p, enum drop_reason r, uint64_t n)
{
	plane_count(&p->counters.drops[r], n);
}

/* Leaves a stage by the drop edge. */
static inline enum plane_edge edge_drop(struct pkt *k, enum drop_reason r)
{
	k->drop = r;
	return EDGE_DROP;
}

static inline enum plane_edge edge_icmp(struct pkt *k, enum drop_reason r,
	enum icmp_error_type icmp)
{
	k->drop = r;
	k->icmp = icmp;
	return EDGE_ICMP;
}

/* plane.c: walks a packet from a stage to its end. */
void plane_walk(struct plane *p, struct pkt *k, enum plane_stage stage);
/* The snapshot's link of a slot, or NULL. */
const struct plane_link *plane_link_of(const struct plane *p, uint32_t slot);

/* pair.c: looks at the addresses of a parsed packet and finds its route (cached). */
const struct pair *pair_look(struct plane *p, const struct ip_view *v, enum pair_use use);
/* Forgets what is cached. */
void pair_forget(struct plane *p);
/* Finds the route of a pair whose addresses are set. */
void pair_route(struct plane *p, struct pair *x);
/* True for an address of the TUN. */
bool pair_is_own(const struct plane_snapshot *s, const struct ipaddr *a);
/* True when address and port (0: any) are a tunnel endpoint. */
bool pair_is_endpoint(const struct plane_snapshot *s, const struct ipaddr *ip, uint16_t port);

/* bucket.c: takes one token when there is one. */
bool bucket_take(struct bucket *b, wtime now);

/* again.c: whether a message of this sender was refused 0 to 4 s ago; from now on one was. */
bool again_refused(struct again *a, const struct endpoint *from, uint64_t spi, wtime now);

/* tx.c: room for one more inner packet toward a link: where to write it, or NULL and why not. */
uint8_t *tx_room(struct plane *p, const struct tx_ask *ask, enum drop_reason *ret_drop);
/* Seals the packet that an urgent tx_room() was for; to be called once it is written. */
void tx_seal_urgent(struct plane *p, wtime now);
/* Gives that room back instead. */
void tx_undo_urgent(struct plane *p);
/* Seals the open batch of a slot, when there is one. */
void tx_close(struct plane *p, struct plane_slot *slot, wtime now);
/* Seals all that is open and lists the sends. */
void tx_flush(struct plane *p, wtime now);
void tx_reset(struct plane *p);

/* Gives a room that is not urgent, one datagram more of the same batch; NULL: it takes no more. */
uint8_t *tx_append(struct plane *p, struct tx_batch *b, const struct tx_ask *ask);
/* Seals what was written, or has it sealed. */
void tx_seal_written(struct plane *p, struct tx_batch *b, wtime now);
/* Takes n sequence numbers for a batch; DROP_NONE, or why there are none. */
enum drop_reason tx_take_numbers(struct plane *p, const struct tx_batch *b, uint32_t n,
	uint64_t *ret_first);
/* Counts n sealed datagrams, so many bytes inside, against their link and SA. */
void tx_count(struct plane *p, const struct tx_batch *b, uint32_t n, uint64_t bytes, wtime now);

/* share.c, with helpers only. Lets the n last datagrams of a batch be sealed, or first written:
 * they are the packets of `cut`, unless NULL, from number `segment` on. False, and all of the batch
 * that was to be sealed is: do it at once. */
bool share_seal(struct plane *p, struct tx_batch *b, uint32_t n, const struct gso_split *cut,
	uint32_t segment, wtime now);
/* Lets a superpacket be cut and sealed; false, and nothing done: do it at once. */
bool share_segments(struct plane *p, struct pkt *k, struct tx_ask *ask);
/* Waits until all is sealed, and counts it; nothing to do without helpers. */
void share_settle(struct plane *p);
/* The same, and makes room for the next round. */
void share_round_done(struct plane *p);
/* The runs of datagrams of one call that helpers open. */
struct share_open {
	bool on;
	uint64_t at, end; /* positions: of the next to be taken out, behind the last */
};
/* Whether the buffers of a call are worth it. */
struct share_open share_open_begin(const struct plane *p, const struct udp_rx *buffer, size_t n);
/* Lets the n operations that wait in p->open be opened; false: there is no room. */
bool share_open(struct plane *p, struct share_open *s, uint32_t n);
/* The next of the runs, once it is opened; NULL: there is none. */
struct work_open *share_opened(struct plane *p, struct share_open *s);

/* hand.c: whether a link is another plane's; as tx_room(), toward that plane. */
bool hand_elsewhere(const struct plane *p, const struct plane_link *link);
uint8_t *hand_room(struct plane *p, const struct tx_ask *ask, enum drop_reason *ret_drop);

/* local.c: a packet that passed ip_parse() and lives until the round is over goes to the TUN; false
 * when there is no room. */
bool deliver(struct plane *p, uint8_t *packet, const struct ip_view *v);

/* srv6.c: flags of a pair whose addresses are set, and its SID. */
unsigned int srv6_look(const struct plane_srv6 *s, struct pair *x, enum pair_use use);
/* What the policy of a packet of the TUN says; NULL: there is none. */
const struct plane_steer *srv6_steer_of(const struct plane_srv6 *s, const struct ipaddr *dst,
	const struct ipaddr *src);
/* The largest packet that fits behind its segments; for a pair with push and link. */
uint32_t srv6_mtu(const struct pair *x, wtime now);
/* As tx_room(), for a packet with a policy: where to write it, behind its segments. */
uint8_t *srv6_room(struct plane *p, const struct pkt *k, const struct tx_ask *inner,
	enum drop_reason *ret_drop);

/* The largest packet that the way on carries in one piece; the pair has a link. */
static inline uint32_t pair_mtu(const struct pair *x, wtime now)
{
	return x->push ? srv6_mtu(x, now) : x->link->mtu;
}

static inline uint32_t pkt_mtu(const struct pkt *k)
{
	return pair_mtu(k->pair, k->now);
}

/* Room for a packet on its way on. */
static inline uint8_t *pkt_room(struct plane *p, const struct pkt *k, const struct tx_ask *ask,
	enum drop_reason *ret_drop)
{
	return k->pair->steer ? srv6_room(p, k, ask, ret_drop) : tx_room(p, ask, ret_drop);
}

/* Which entry of the cache a packet from a link has. */
static inline enum pair_use pkt_use(const struct pkt *k)
{
	return (enum pair_use)(k->again < 3 ? PAIR_LINK + k->again : PAIR_AGAIN_3);
}

/* punt.c: gives a message to the control side; one for which there is no room is counted as lost.
 */
void punt_up(struct plane *p, const struct plane_up *up);
/* An IKE message (behind its marker), and an inner packet for the control side. */
void punt_ike(struct plane *p, const struct udp_rx *b, struct view data, wtime now);
void punt_link(struct plane *p, const struct pkt *k);

/* echo.c: messages of the control side. */
void echo_send(struct plane *p, const struct plane_down *m, wtime now);
void echo_set_ids(struct plane *p, struct view ids);
/* True when a packet for this host answers an echo of the control side; then it has gone up. */
bool echo_take(struct plane *p, const struct pkt *k, struct view packet);

/* The same for the packet itself, at next to no cost while there are none. */
static inline bool echo_taken(struct plane *p, const struct pkt *k)
{
	return p->echo_ids > 0 &&
		(k->ip.proto == IP_PROTO_ICMP6 || k->ip.proto == IP_PROTO_ICMP4) &&
		echo_take(p, k, view_of(k->data, k->len));
}

/* The stages. */
plane_stage_fn stage_tun_parse, stage_tun_guard;        /* ingress.c */
plane_stage_fn stage_link_parse, stage_link_guard;      /* egress.c */
plane_stage_fn stage_route;                             /* pair.c */
plane_stage_fn stage_link_local, stage_deliver;         /* local.c */
plane_stage_fn stage_transit, stage_fit, stage_send;    /* forward.c */
plane_stage_fn stage_fragment;                          /* fragment.c */
plane_stage_fn stage_clamp;                             /* clamp.c */
plane_stage_fn stage_steer, stage_localsid, stage_exit; /* srv6.c */
plane_stage_fn stage_drop;                              /* plane.c */
plane_stage_fn stage_icmp;                              /* icmp.c */
