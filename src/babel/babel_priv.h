/* The inside of a speaker: its tables and what its files offer each other. The tables are those of
 * RFC 8966 3.2: interfaces, neighbours, sources and routes (both below their prefix, a `dest`), and
 * pending requests. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "babel/babel.h"
#include "babel/tlv_priv.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"

enum {
	BABEL_HISTORY = 16,                /* hellos remembered (RFC 8966 A.1) */
	BABEL_MARGIN = 6,                  /* a route must win by more than this */
	BABEL_RTT_VOID_US = 180 * 1000000, /* T of RFC 9616 3.3 */
	BABEL_DUMP_RATE = 500,
	BABEL_DUMP_CHUNK = 32,  /* updates of a dump in one packet */
	BABEL_SPARE_CHUNK = 16, /* of those, for routes that are hardly taken */
	BABEL_RATE_BURST_US = 500000,
	BABEL_URGENT_US = 200000, /* RFC 8966 appendix B */
	BABEL_SOURCE_GC_US = 180 * 1000000,
	BABEL_INTERVAL_MAX_US = 300 * 1000000, /* of updates */
	BABEL_HOP_COUNT = 64,
	BABEL_SETTLE_US = 1000000, /* see babel_select() */
	BABEL_QUEUE_MAX = 65536,   /* bytes waiting for one neighbour */
	BABEL_MTU_MIN = 512,
	BABEL_INDEX = 10,            /* bytes of our own packet counter's index and of nonces */
	BABEL_SMOOTH_SCALE = 256,    /* of smoothed metrics */
	BABEL_NEIGHBOURS_MAX = 4096, /* of one interface */
	BABEL_DESTS_MAX = 1 << 20,
	BABEL_REFUSED_MAX = 32, /* prefixes that are not here and were asked for */
};

#define BABEL_NO_DUMP SIZE_MAX

/* A timer lives in the heap from its start to its end, at NEVER when not set, so that setting it
 * cannot fail. Most are put off again and again and never fire: one that is put off keeps its place
 * in the heap, and finds its new one when the old time has come. */
struct babel_timer {
	struct heap_node node; /* at `at` or before */
	wtime at;
	void (*fire)(struct babel *b, struct babel_timer *t, wtime now);
};

/* What is to be said about each dest on an interface: one bit each. */
enum babel_bits {
	BABEL_BIT_PENDING,   /* a triggered update, or the answer to a request */
	BABEL_BIT_URGENT,    /* the same, within the urgent timeout */
	BABEL_BIT_SPARE,     /* a triggered update of a route that they will hardly take */
	BABEL_BIT_ANNOUNCED, /* what was said last was finite */
	BABEL_BIT_FORCED,    /* also say so when there is no route */
	BABEL_BIT_AGAIN,     /* say it once more later */
	BABEL_BIT_AGAIN2,    /* and a third time (RFC 8966 3.7.2) */
	BABEL_BIT_COUNT
};

/* Updates of one kind go out within a rate that all interfaces share; those that wait for it do so
 * in a queue, so that its turn wakes one of them and not all. */
struct babel_lane {
	wtime slot; /* when the next packet may go, without the burst that is allowed */
	struct list waiting;
	struct babel_timer timer;
};

enum babel_lanes { BABEL_LANE_TRIGGER, BABEL_LANE_DUMP, BABEL_LANES };

/* What links carry; see load.c. Rates are bytes a second. */
enum { BABEL_SLOTS = 52 };

struct babel_slot {
	wtime end;
	uint32_t rate[BABEL_METERS];
};

struct babel_meter {
	uint64_t last;    /* bytes */
	uint32_t carried; /* for a hello interval, at most */
	uint32_t clear;   /* without a queue */
	/* A run of samples under a load, by which `clear` is learned: how many there are, the
	 * lowest rate of one, and by how much they were longer than the costs' round trip, in all,
	 * microseconds. */
	uint8_t run;
	uint32_t run_low;
	int64_t run_over;
};

struct babel_load {
	bool known; /* there are reports */
	wtime at;
	wtime held_at; /* when the load explained a sample last */
	wtime sampled_at;
	wtime full_at; /* when there was a load last */
	unsigned int next, count;
	struct babel_slot slot[BABEL_SLOTS];
	struct babel_meter meter[BABEL_METERS];
};

struct babel_iface {
	struct hash_node hash; /* by number */
	struct list all;
	struct list neighbours;
	struct list unicast; /* neighbours with something to be sent to them alone */
	struct list ready_link;
	struct list doubt; /* in b->doubts */
	wtime asked_since; /* see doubt.c */
	uint8_t asked;
	wtime more_since; /* see expire() in route.c */
	uint32_t more;
	size_t neighbour_count;
	double loss_in; /* negative: unknown */
	struct babel_load load;
	wtime hello_last;
	struct babel_timer hello, update, out;
	/* when each kind of output is due; NEVER: none */
	wtime misc_at, urgent_at, again_at;
	wtime lane_at[BABEL_LANES];
	struct list lane_wait[BABEL_LANES]; /* in lane[].waiting; lane_at is NEVER meanwhile */
	wtime dump_begun;
	size_t dump_next; /* dest to go on with; BABEL_NO_DUMP: none is running */
	uint64_t *bits[BABEL_BIT_COUNT];
	struct buf queue;             /* whole TLVs to multicast */
	struct babel_prefix *refused; /* BABEL_REFUSED_MAX, while there are any; else NULL */
	size_t refused_count;
	struct babel_iface_config c;
	uint32_t pc; /* RFC 8967 3.1, with index */
	uint16_t hello_seqno;
	uint16_t interval_cs; /* of updates, as last promised */
	uint8_t index[BABEL_INDEX];
	bool dead;
	bool ready; /* in b->ready */
	bool hello_due, wildcard_due;
	uint8_t goodbyes; /* wildcard retractions to send */
};

struct babel_history {
	uint16_t bits; /* newest in the highest */
	uint16_t expected;
	uint8_t count; /* hellos that should have come, up to 16 */
	bool active;
	int64_t interval_us;
	struct babel_timer timer;
};

enum { BABEL_RTT_PAST = 12, BABEL_RTT_STEP = 3 };

/* Microseconds. RFC 9616 4.1, with a step rule and without what is noise; see rtt.c. */
struct babel_rtt {
	bool valid;
	int64_t smoothed, deviation;
	int64_t mean, used; /* since the last change; what the cost is made of */
	int64_t sample[BABEL_RTT_PAST + BABEL_RTT_STEP]; /* newest first */
	uint8_t count;                                   /* samples kept */
	uint8_t seen, run; /* since the start and since the last change; see rtt.c */
	wtime at;          /* of the last sample */
};

/* Takes a sample. True when it was a step: the smoothed value has jumped. */
bool babel_rtt_sample(struct babel_rtt *r, int64_t us, wtime at);

/* A sample of the round trip: when it went out and came back. */
struct babel_round {
	int64_t us; /* 0: none */
	wtime sent, at;
};

/* The last rise that was believed under a load. */
struct babel_risen {
	wtime since; /* 0: none */
	int64_t from;
	uint32_t rate[BABEL_METERS];
};

struct babel_neighbour_mac { /* RFC 8967 3.2 */
	bool has_index;
	uint8_t index[BABEL_INDEX_MAX];
	uint8_t index_len;
	uint32_t pc_unicast, pc_multicast;
	bool has_nonce, challenge_due;
	uint8_t nonce[BABEL_INDEX];
	wtime nonce_until, challenge_next, reply_next;
	bool reply_due;
	uint8_t reply[BABEL_NONCE_MAX];
	uint8_t reply_len;
	wtime accepted;
};

struct babel_neighbour {
	struct hash_node hash; /* by interface and address */
	struct list by_iface;
	size_t place; /* in b->neighbour */
	uint32_t serial;
	struct babel_iface *ifc;
	uint32_t iface;
	struct ipaddr addr;
	bool known; /* a hello was heard: the rest of the speaker sees it */
	struct babel_history multicast, unicast;
	struct babel_timer ihu, idle;
	uint16_t rxcost, txcost, cost;
	double loss_out;   /* of what we send, as it says */
	double loss_hello; /* of its hellos, without those that the load explains */
	bool has_time;
	uint32_t origin, receive; /* RFC 9616 3.1 */
	wtime receive_at;
	struct babel_rtt rtt;  /* of all samples: what is told */
	struct babel_rtt calm; /* without those that the load explains: what costs are made of */
	struct babel_round pending;
	int64_t longest; /* queue that was held */
	struct babel_risen risen;
	bool rising, held; /* the last sample was higher; and was not believed */
	bool holding;      /* the last sample came under a load that explains more */
	int64_t refuted;   /* the load does not explain this; 0: nothing refutes it */
	uint8_t falls;
	struct list routes; /* in the order in which it announces them, as far as it has one */
	struct list *last;  /* in it: the one that was announced last, or the head */
	bool ihu_due;
	struct list unicast_link; /* in ifc->unicast */
	struct buf queue;         /* whole TLVs to send to it alone */
	struct babel_neighbour_mac mac;
	struct list event; /* in b->neighbour_events */
	bool lost;
};

struct babel_source {
	struct list link;
	struct babel_dest *dest;
	uint8_t router_id[8];
	uint16_t seqno, metric; /* the feasibility distance */
	struct babel_timer gc;
};

struct babel_route {
	/* what every update touches is together */
	struct list by_neighbour;
	struct babel_dest *dest;
	struct babel_neighbour *neighbour;
	uint8_t router_id[8];
	int64_t hold_us;
	wtime expires;
	wtime smooth_at;
	uint32_t smooth; /* RFC 8966 A.3, times BABEL_SMOOTH_SCALE */
	uint16_t seqno, advertised;
	struct ipaddr next_hop;
	struct babel_timer timer;
	uint32_t place; /* in dest->route */
	wtime since;
	struct hash_node hash; /* by dest and neighbour */
};

struct babel_request {
	struct list link;
	struct babel_dest *dest;
	uint8_t router_id[8];
	uint16_t seqno;
	uint32_t target; /* serial of the neighbour it went to; 0: all that announce the prefix */
	uint32_t asker;  /* serial of the neighbour on whose behalf; 0: own */
	uint32_t asker_iface;
	uint8_t resends;
	bool satisfied; /* kept only so that duplicates are seen */
	wtime sent;
	struct babel_timer timer;
};

enum babel_state { BABEL_GONE, BABEL_ROUTED, BABEL_UNREACHABLE };

enum { BABEL_FLIGHTS = 2 };

struct babel_flight {
	uint32_t neighbour; /* serial */
	uint8_t times;
	wtime at;
};

struct babel_dest {
	struct hash_node hash; /* by prefix */
	size_t id;
	struct babel_prefix prefix;
	struct babel_route **route;
	size_t n, cap;
	struct babel_route *selected;
	struct babel_route *backup; /* feasible, on another interface; NULL: none */
	bool own;
	uint16_t own_metric;
	struct list sources, requests;
	struct babel_timer recheck, hold;
	enum babel_state state, told; /* told: what the last event said */
	bool changed;                 /* next hop, metric or router-id differ from the last event */
	uint16_t metric;              /* as of the last selection */
	struct list event;
	/* what others were told last, or are about to be */
	bool offered;
	uint8_t offered_id[8];
	uint16_t offered_metric;
	wtime announced_until; /* some neighbour may believe it until then */
	/* next hops that were left because they had become slow; see select.c */
	uint32_t user;         /* serial of the neighbour in use, or last in use */
	uint16_t taken_metric; /* when it was chosen */
	struct babel_flight fled[BABEL_FLIGHTS];
};

struct babel {
	struct babel_config c;
	uint16_t seqno;
	wtime begun;
	bool seqno_taken;      /* from a request: see request.c */
	uint32_t clock_offset; /* of timestamps */
	bool stopped;
	wtime settled; /* no route is selected before; NEVER until there is an interface */
	struct hash ifaces, neighbours, dests, routes;
	struct list iface_list;
	size_t iface_count;
	struct babel_neighbour **neighbour;
	size_t neighbour_count, neighbour_cap;
	uint32_t next_serial;
	struct babel_dest **dest; /* by id; NULL: free */
	size_t dest_count, dest_cap, dest_words;
	size_t dest_free; /* no free id below */
	struct heap timers;
	struct list ready, route_events, neighbour_events, doubts;
	struct babel_lane lane[BABEL_LANES];
	wtime sustained; /* until then what was sent lasts at the sustained rate; see updates.c */
	struct babel_parsed parsed;
	uint8_t *packet;
	size_t packet_cap;
	struct babel_stats stats;
};

/* babel.c */
void babel_drop(struct babel *b, enum babel_drop reason);
int babel_timer_init(struct babel *b, struct babel_timer *t,
	void (*fire)(struct babel *b, struct babel_timer *t, wtime now));
void babel_timer_set(struct babel *b, struct babel_timer *t, wtime at);
/* The next time of the grid, or the time itself. */
wtime babel_grid_after(const struct babel *b, wtime at);
/* Sets a timer to us from now, or to the next time of the grid after that. */
void babel_timer_late(struct babel *b, struct babel_timer *t, wtime now, int64_t us);
/* The same, or at the last time of the grid before that: what was announced is never late. */
void babel_timer_early(struct babel *b, struct babel_timer *t, wtime now, int64_t us);
void babel_timer_done(struct babel *b, struct babel_timer *t);
/* A number below bound; 0 when there is no randomness (then nothing is spread in time). */
int64_t babel_random(struct babel *b, int64_t bound);
uint32_t babel_timestamp(const struct babel *b, wtime t);

/* RFC 8966 3.2.1: a < b modulo 2^16. */
static inline bool babel_seqno_less(uint16_t a, uint16_t b)
{
	return a != b && !((uint16_t)(b - a) & 0x8000);
}

static inline uint16_t babel_centiseconds(int64_t us)
{
	int64_t cs = (us + BABEL_CENTISECOND_US - 1) / BABEL_CENTISECOND_US;

	return (uint16_t)(cs < 1 ? 1 : cs > 0xfffe ? 0xfffe : cs);
}

/* iface.c */
struct babel_iface *babel_iface_find(const struct babel *b, uint32_t iface);
/* Hello, IHUs and all else that is waiting go out after us microseconds. */
void babel_iface_soon(struct babel *b, struct babel_iface *ifc, int64_t us, wtime now);
void babel_hello_soon(struct babel *b, struct babel_iface *ifc, wtime now);
int babel_iface_grow(struct babel_iface *ifc, size_t old_words, size_t words);

/* neighbour.c */
struct babel_neighbour *babel_neighbour_find(const struct babel *b, const struct babel_iface *ifc,
	const struct ipaddr *a);
struct babel_neighbour *babel_neighbour_serial(const struct babel_iface *ifc, uint32_t serial);
/* Finds or makes; NULL without memory or with too many. */
struct babel_neighbour *babel_neighbour_get(struct babel *b, struct babel_iface *ifc,
	const struct ipaddr *a, wtime now);
void babel_neighbour_flush(struct babel *b, struct babel_neighbour *n, wtime now);
void babel_neighbour_free(struct babel_neighbour *n);
void babel_neighbour_hello(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now);
void babel_neighbour_ihu(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now);
/* Computes the cost anew and looks at the routes when it differs. step: no smoothing. */
void babel_neighbour_recost(struct babel *b, struct babel_neighbour *n, bool step, wtime now);
double babel_neighbour_loss(const struct babel_neighbour *n);
/* Of what comes in: as the data path measured it, else of hellos. */
double babel_neighbour_loss_in(const struct babel_neighbour *n);
uint16_t babel_neighbour_reach(const struct babel_neighbour *n);

/* load.c */
/* Takes a sample for costs, or not. True when it was a step. */
bool babel_load_sample(struct babel_neighbour *n, const struct babel_round *r);
/* The neighbours' own traffic fills the way in, and did so within the last hello interval. */
bool babel_load_receives(const struct babel_iface *ifc, wtime now);
/* What a loss counts for: a queue of our own that stands overflows, too, and more loss than before
 * is then no news. */
double babel_load_loss(const struct babel_iface *ifc, double before, double loss, bool of_hellos,
	wtime now);

/* source.c */
struct babel_source *babel_source_find(const struct babel_dest *d, const uint8_t id[static 8]);
bool babel_feasible(const struct babel_dest *d, const uint8_t id[static 8], uint16_t seqno,
	uint16_t metric);
/* Before a finite update is sent (RFC 8966 3.7.3). 0 or -ENOMEM: it must not be sent. */
int babel_source_announce(struct babel *b, struct babel_dest *d, const struct babel_update *u,
	wtime now);
void babel_source_free(struct babel *b, struct babel_source *s);

/* route.c */
struct babel_prefix babel_prefix_normal(const struct babel_prefix *p);
struct babel_dest *babel_dest_find(const struct babel *b, const struct babel_prefix *p);
struct babel_dest *babel_dest_get(struct babel *b, const struct babel_prefix *p);
/* Frees it when nothing needs it any more. */
void babel_dest_put(struct babel *b, struct babel_dest *d);
void babel_dest_free(struct babel *b, struct babel_dest *d);
struct babel_route *babel_route_find(const struct babel *b, const struct babel_dest *d,
	const struct babel_neighbour *n);
uint16_t babel_route_metric(const struct babel_route *r);
void babel_route_smooth(struct babel_route *r, wtime now);
void babel_route_update(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now);
/* Retracts as the neighbour would have done itself. */
void babel_route_retract(struct babel *b, struct babel_route *r, wtime now);
/* Takes it out of all tables, without looking for another. */
void babel_route_remove(struct babel *b, struct babel_route *r);
/* Retracts what the import filter does not let in any more. */
void babel_route_refilter(struct babel *b, wtime now);

/* select.c */
void babel_select(struct babel *b, struct babel_dest *d, wtime now);
/* The route's metric or feasibility may differ from before. */
void babel_route_changed(struct babel *b, struct babel_route *r, wtime now);
/* Somebody starves until this node uses a route as new as this one: if it is better, that is now.
 */
void babel_select_awaited(struct babel *b, struct babel_route *r, wtime now);
/* The feasibility distance has changed: a backup may be none any more. */
void babel_backup_check(struct babel *b, struct babel_dest *d);
void babel_dest_recheck(struct babel *b, struct babel_timer *t, wtime now);
void babel_dest_hold_over(struct babel *b, struct babel_timer *t, wtime now);
void babel_dest_told(struct babel *b, struct babel_dest *d);

/* request.c */
/* Along all routes of the prefix that are not feasible; for want of those to some neighbours. */
void babel_request_starving(struct babel *b, struct babel_dest *d, const uint8_t id[static 8],
	wtime now);
void babel_request_one(struct babel *b, struct babel_route *r, wtime now);
void babel_request_route(struct babel *b, struct babel_neighbour *n, const struct babel_prefix *p,
	wtime now);
void babel_request_seqno_in(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now);
void babel_request_route_in(struct babel *b, struct babel_neighbour *n, const struct babel_tlv *t,
	wtime now);
/* The route was updated: requests that it answers end, and who asked is told. */
void babel_request_satisfy(struct babel *b, struct babel_route *r, wtime now);
void babel_request_free(struct babel *b, struct babel_request *q);

/* doubt.c */
/* A neighbour asks for a prefix, or has lost it: is the way that is in use here good? */
void babel_doubt_next_hop(struct babel *b, const struct babel_dest *d,
	const struct babel_neighbour *by, bool asked, wtime now);
/* The route is in use because another one broke. */
void babel_doubt_moved(struct babel *b, const struct babel_route *to, wtime now);

/* send.c */
void babel_bit_set(struct babel_iface *ifc, enum babel_bits kind, size_t id);
bool babel_bit(const struct babel_iface *ifc, enum babel_bits kind, size_t id);
void babel_bit_clear(struct babel_iface *ifc, enum babel_bits kind, size_t id);
/* Says it on all interfaces; what is urgent is said three times. */
void babel_announce(struct babel *b, struct babel_dest *d, bool urgent, wtime now);
void babel_announce_on(struct babel *b, struct babel_iface *ifc, struct babel_dest *d, bool urgent,
	wtime now);
void babel_refuse_on(struct babel *b, struct babel_iface *ifc, const struct babel_prefix *p,
	wtime now);
/* A full dump; own prefixes at once when somebody new is there to hear it. */
void babel_dump_start(struct babel *b, struct babel_iface *ifc, bool fresh, wtime now);
void babel_out_schedule(struct babel *b, struct babel_iface *ifc);
/* Something is due on it: its turn comes with this output. */
void babel_out_ready(struct babel *b, struct babel_iface *ifc);
void babel_out_fire(struct babel *b, struct babel_timer *t, wtime now);
void babel_update_fire(struct babel *b, struct babel_timer *t, wtime now);
/* Adds whole TLVs to what goes to n alone. */
void babel_unicast(struct babel *b, struct babel_neighbour *n, struct view tlvs, wtime now);
void babel_unicast_flag(struct babel *b, struct babel_neighbour *n, wtime now);
/* What is said about a dest on an interface. False: nothing finite. */
bool babel_decide(const struct babel *b, const struct babel_iface *ifc, const struct babel_dest *d,
	struct babel_update *ret);
/* updates.c */
int babel_lanes_init(struct babel *b);
void babel_lanes_leave(struct babel_iface *ifc);
/* Updates that fit into a packet: urgent and triggered ones, and (dump) a piece of a dump. */
void babel_write_updates(struct babel *b, struct babel_iface *ifc, struct babel_build *w,
	wtime now);

/* mac.c */
size_t babel_mac_overhead(const struct babel_iface *ifc);
/* Appends PC and MACs. False when there is no key or a failure: then send nothing. */
bool babel_mac_sign(struct babel *b, struct babel_iface *ifc, struct babel_build *w,
	const struct ipaddr *destination);
int babel_mac_index(struct babel *b, struct babel_iface *ifc);
/* True when the packet may be acted upon (RFC 8967 4.3). */
bool babel_mac_accept(struct babel *b, struct babel_iface *ifc, const struct babel_datagram *d,
	const struct babel_parsed *p, wtime now);
void babel_mac_write(struct babel *b, struct babel_neighbour *n, struct babel_build *w, wtime now);

/* input.c is babel_input() alone, query.c the walks and events. */
