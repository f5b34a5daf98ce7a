/* The node's own structures. Ownership: the node owns its configuration, registry, IKE engine,
 * links and children; SAs, link states and snapshots belong to the plane from the message that
 * hands them down until the report that brings them back. */
#pragma once
#include "babel/babel.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/list.h"
#include "crypto/crypto.h"
#include "ctl/json.h"
#include "esp/esp.h"
#include "ike/ike.h"
#include "node/node.h"
#include "node/pmtu.h"

struct icmp_echo;

enum {
	NODE_ID_MAX = 1024,   /* a DER identity, bytes */
	NODE_LINK_TEXT = 256, /* a link's name for people, cut when longer */
	NODE_ADDRESSES = 8,   /* addresses of one name that are tried in turn */
};

enum { NODE_SEQNO_S = 8 }; /* Babel's sequence number: one more in so many seconds */
#define NODE_SEQNO_US         (3600 * W_SEC) /* and it catches up that often */
#define NODE_PATH_US          (10 * W_SEC)   /* the way to a remote is looked up again after */
#define NODE_CHILD_RETRY_US   (5 * W_SEC) /* new keys are asked for, when SAs could not be made */
#define NODE_KERNEL_US        20          /* so long for each route between states for the kernel */
#define NODE_TICK_US          (100 * W_MS)
#define NODE_RESOLVE_US       (10 * W_SEC) /* a name is looked up again after */
#define NODE_RESOLVE_AGAIN_US (2 * W_SEC)  /* and after, when nothing was found */

struct node_id {
	uint8_t der[NODE_ID_MAX];
	size_t len;
};

/* A child pair, from CHILD_UP until the plane has let go of both halves. */
struct node_child {
	struct list list; /* node.children */
	uint32_t child, slot;
	struct tunnel_sa *in, *out; /* NULL: gone */
	bool removed;
};

struct node_link {
	struct list list; /* node.links, in the order of the files */
	uint32_t slot, conn;
	char *text;                /* "acme/fra1:0-0": name for people and `id` */
	char *organization, *name; /* of the peer */
	char *local_serial, *remote_serial;
	uint8_t key[ED25519_PUBLIC];
	enum ip_family family;
	uint16_t socket;    /* index of the local endpoint */
	struct ipaddr bind; /* the local endpoint's address, or IP_NONE */
	uint16_t local_port, remote_port;
	char *address; /* as the registry has it: an address or a name; NULL: none */
	struct endpoint local, remote; /* in use; IP_NONE: not known */
	struct ipaddr own_link_local, peer_link_local;
	struct plane_link_state *state;
	uint32_t outbound;                /* child; 0: none */
	const struct node_child *current; /* the same, from CHILD_OUTBOUND until its CHILD_DOWN */
	char *updown;                     /* script; NULL: none */
	bool script_up;                   /* it was told that the link is up */
	uint32_t path_mtu;                /* of the way to the remote; 0: not known */
	uint32_t path_hint;               /* what an ICMP message made of it; 0: nothing */
	struct pmtu pmtu;                 /* see padded.c */
	wtime path_at;                    /* when to look it up again */
	bool excluded; /* the way leads through an interface that may not be used */
	bool admin_down;
	bool keep;    /* during a reload: it is still wanted */
	bool is_name; /* address is a name */
	bool resolving;
	struct ipaddr resolved[NODE_ADDRESSES];
	size_t resolved_count, resolved_at; /* candidates and the one in use */
	wtime resolve_at, probe_at;
	int64_t heard_us; /* last reported to IKE */
	/* liveness: see probe.c */
	int64_t quiet_since; /* when the first packet was sent that nothing answered; 0: none */
	wtime probe_next;
	uint16_t probe_seq;
	unsigned int probes_out; /* sent since something was heard */
	wtime probes_since;      /* the first of them */
	unsigned int greetings;  /* echoes sent to learn whether it answers any, since it is up */
	wtime greeted_at;        /* the last of them */
	bool answers_echo;       /* the peer is one that answers them */
	bool answered;           /* and has done so since it is up */
	bool doubted;            /* a neighbour doubts it, too: nothing is waited for */
	int64_t doubted_us;      /* when one did last */
	bool suspect;            /* the speaker knows that an echo was not answered in time */
	bool asked_ike, dead;
	/* move.c: where the peer is asked whether it is there now */
	struct endpoint move_local, move_remote;
	wtime move_next;
	uint16_t move_seq;
	unsigned int move_tries;        /* questions sent; 0: nothing is asked */
	struct ipaddr heard_link_local; /* what the peer answers from */
	bool speaking;                  /* it is an interface of the speaker */
	wtime load_at;                  /* speaking: when what it carried is told again */
	bool late;                      /* the speaker has not heard yet that it died */
	bool transit;                   /* the registry lets the peer carry what others announce */
	uint64_t chosen_by; /* snapshot, the last in which a policy's segments lead over it */
	/* loss.c: the span that is being measured, and the last result */
	uint32_t loss_child;
	wtime loss_since;
	uint64_t loss_highest, loss_numbers;
	uint64_t lost; /* of the peer's numbers, by SAs that are gone: see node_lost() */
	bool has_loss;
	double loss;
	wtime child_retry_at; /* 0: nothing to retry */
	wtime up_since;
	char reason[IKE_REASON_TEXT];
};

/* What a link shares with the plane: ours again only when it says LINK_GONE. */
struct node_state {
	struct plane_link_state s;
	struct list list; /* node.states */
};

/* A route that Babel selected. */
struct node_route {
	struct hash_node hash;
	struct list list; /* node.routes */
	struct babel_prefix prefix;
	uint8_t router_id[8];
	uint16_t metric, seqno;
	uint32_t slot;   /* of the link that carries it */
	uint32_t backup; /* of a link that may carry it instead; NODE_NO_WAY: none */
	bool unreachable;
	wtime since;
	struct node_group *group; /* NULL: it is not in the tables yet */
	struct list moved;        /* node.table.moved, when the group is not its own any more */
};

/* Slots of the links that a route may take. */
struct node_ways {
	uint32_t first, second;
};
#define NODE_NO_WAY UINT32_MAX

/* The forwarding tables: see table.c. */
struct node_table {
	struct fib *routes;        /* values are indexes of a snapshot's next hops */
	struct fib *sources;       /* who may send to SIDs; NULL without segment routing */
	struct fib *named_sources; /* those that need no route for it */
	bool *locator; /* by node of the registry: its locator is in the tables for itself */
	struct node_group **group; /* by id; NULL: free */
	uint32_t group_cap, group_free, groups;
	struct hash by_ways;
	struct list moved; /* routes that are to be written */
	bool anew;         /* all is to be made anew */
	uint64_t written, renamed;
};

/* A source prefix of IPv4 routes, by its place: see kernel.c. */
struct node_source {
	struct prefix prefix; /* length 0: free */
	bool has_routes, has_default;
};

enum { NODE_SOURCES = CONF_SOURCE_TABLES / 2, NODE_REFUSED = 16 };

/* An announcement that was refused because of a connected network. */
struct node_refused {
	struct prefix prefix, network;
	uint8_t router_id[8];
	wtime at;
};

struct node_announced {
	struct babel_prefix prefix;
	uint16_t metric;
};

/* What the host has beside us: see host.c. */
struct node_host {
	struct prefix *network;
	size_t networks;
	struct node_announced *route; /* sorted */
	size_t routes;
	struct node_refused refused[NODE_REFUSED];
	size_t refusals; /* more than there is room for: others were forgotten */
	wtime now;       /* while the speaker is called: the filters have no clock */
};

enum node_policy_status { NODE_POLICY_UNRESOLVED, NODE_POLICY_FALLBACK, NODE_POLICY_ACTIVE };

/* A policy over all snapshots that name it, by its name: its counters go on. */
struct node_policy {
	struct plane_policy_state s;
	struct list list; /* node.policies */
	struct hash_node hash;
	struct node *node;
	char *name;
	uint32_t snapshots;       /* that name it */
	bool wanted, wanted_next; /* the last snapshot has it; the one being made */
	bool direct;              /* no candidate is left, and packets go as without it */
	enum node_policy_status status;
	int candidate; /* in use, counted from 0; -1: none */
	struct ipaddr segment[CONF_SEGMENTS_MAX];
	uint32_t segment_count;
};

struct node_snapshot {
	struct plane_snapshot s;
	struct list list; /* node.snapshots: alive, the plane's included */
	struct arena *arena;
	struct fib *fib;
	/* see steer.c; NULL: none */
	struct policy *rules;
	struct srv6_table *localsid;
	struct fib *sid_space, *mesh_source, *exit_allow;
	struct node_policy **policy; /* that it names */
	size_t policies;
};

struct node_queued {
	struct list list;
	struct node_action action;
	void *data; /* owned bytes that the action points to */
};

struct node {
	struct rng rng;
	const struct ed25519_key *key;
	const struct crypto_backend *crypto;
	const struct config *config;
	const struct registry *registry;
	char *version;
	uint32_t planes, helpers;
	struct ike *ike;
	struct babel *babel;
	uint8_t filter_print[32]; /* of what the speaker's filters answer by */
	uint8_t *router_ids;      /* 8 bytes for each node of the registry */
	bool origins_checked;     /* a node of the registry has `allow` */
	struct hash rib;
	struct list routes;
	struct node_table table;
	uint64_t route_changes;
	struct list links, children, actions, snapshots, states, policies, traces;
	wtime traces_at;
	uint32_t last_trace;
	struct hash policy_names;
	struct node_queued *given; /* the action that the caller has in hand */
	struct buf datagram;       /* the IKE datagram in hand */
	struct node_link **slot;   /* by slot; a slot is taken until LINK_GONE */
	bool *slot_taken;
	uint32_t slots;
	struct node_socket *socket;
	char **socket_serial;
	size_t socket_count;
	uint32_t last_conn;
	uint64_t generation;
	bool snapshot_dirty, kernel_dirty, stopping;
	bool links_late;  /* the speaker is to hear of links that died: see node_speaker_late() */
	wtime now;        /* of the last call */
	wtime kernel_at;  /* the kernel is told no sooner */
	size_t excluded;  /* links */
	bool apply_late;  /* there was no memory for all that the configuration wants: again */
	bool kernel_late; /* there was no memory for it: again at the next tick */
	bool has_scripts; /* the outside knows of some */
	uint8_t router_id[8];
	struct arena *kernel_arena;
	struct kernel_state kernel;
	struct node_source source[NODE_SOURCES];
	struct node_host host;
	wtime tick_at, started, seqno_at;
	int64_t phase_us; /* of the ticks */
	uint64_t epoch_s;
	uint64_t out_of_memory; /* events lost for want of memory, told in status */
};

/* ---- identity.c ---- */
/* The Name that ranet builds: O, CN and, unless serial is NULL, serialNumber. 0 or -E2BIG. */
int node_identity(const char *organization, const char *name, const char *serial,
	struct node_id *ret);
/* fe80::/64 with 8 bytes of SHA-256(own | peer). 0 or -EIO. */
int node_link_local(const struct node_id *own, const struct node_id *peer, struct ipaddr *ret);
/* First 8 bytes of SHA-256 of the identity without a serial. 0 or a negative errno. */
int node_router_id(const struct config *c, uint8_t ret[static 8]);

/* ---- action.c ---- */
void node_log(struct node *n, enum conf_log level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Queues a message for the plane; false without memory (then the caller still owns what it names).
 */
bool node_to_plane(struct node *n, const struct plane_down *m);
bool node_queue(struct node *n, const struct node_action *a, const void *data, size_t len);
/* Queues a SEAL message with a copy of the packet. */
void node_seal(struct node *n, const struct node_action *a, struct view packet);
/* Queues the reply that a command still waits for. */
void node_reply(struct node *n, uint32_t id, struct view text);

/* ---- apply.c ---- */
/* Makes sockets and links what config and registry want; a line for each difference to report. 0;
 * a negative errno: nothing was changed. What there was no memory for after that is made by
 * node_apply_late(), which the tick calls as long as apply_late says so. */
int node_apply(struct node *n, const struct config *c, const struct registry *r, wtime now,
	struct buf *report);
void node_apply_late(struct node *n, wtime now);

/* ---- link.c ---- */
struct node_link_want {
	const struct conf_endpoint *local;
	const struct registry_node *node;
	const struct registry_endpoint *remote;
	uint16_t socket;
};
int node_link_new(struct node *n, const struct node_link_want *w, wtime now,
	struct node_link **ret);
/* Removes a link: its connection, its slot. Frees it. */
void node_link_remove(struct node *n, struct node_link *l, wtime now);
/* Changes what may change without harm: lifetimes, address. 0, -ENOMEM or another negative errno.
 */
int node_link_update(struct node *n, struct node_link *l, const struct node_link_want *w, wtime now,
	struct buf *report);
struct node_link *node_link_by_conn(struct node *n, uint32_t conn);
/* Name look-ups that are due, liveness: runs each tick. */
void node_link_tick(struct node *n, struct node_link *l, wtime now);
/* Where the link's datagrams go from now on. */
void node_link_moved(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now);
bool node_link_usable(const struct node_link *l);

/* ---- install.c ---- */
/* The pair that the link sends on; NULL: none. */
const struct node_child *node_outbound(const struct node_link *l);
/* Handles every waiting IKE event. */
void node_ike_events(struct node *n, wtime now);
void node_sa_gone(struct node *n, struct tunnel_sa *sa);
/* Of all that the peer of a link sealed, what did not come. */
uint64_t node_lost(const struct node *n, const struct node_link *l);
/* Frees what the plane can no longer bring back. */
void node_children_free(struct node *n);

/* ---- path.c ---- */
/* Asks the outside for the way to the link's remote. */
void node_path_ask(struct node *n, struct node_link *l, wtime now);
/* True when a link's way to this address leads through an excluded interface. */
bool node_path_excluded(const struct node *n, const struct ipaddr *remote);
/* The largest UDP payload that the link's way takes, bytes: as probed, or where the peer answers no
 * echo, as the kernel knows it. */
uint16_t node_link_datagram(const struct node_link *l);
/* Bytes in front of that payload, and the smallest outer packet that every way takes. */
uint32_t node_path_headers(const struct node_link *l);
uint32_t node_path_least(const struct node_link *l);

/* ---- updown.c ---- */
/* Tells the outside which scripts may be run: those of two configurations, or of one (old: NULL).
 */
void node_scripts(struct node *n, const struct config *old, const struct config *c);
/* Has the link's script run, when it has one that does not know. */
void node_updown(struct node *n, struct node_link *l, bool up);
/* Gives the link another script (copied; NULL: none). 0, or -1 without memory. */
int node_updown_set(struct node *n, struct node_link *l, const char *script);

/* ---- snapshot.c ---- */
/* Builds a snapshot of the present state and queues it. */
void node_snapshot_send(struct node *n);
void node_snapshot_free(const struct plane_snapshot *s);
/* The largest inner packet that the link takes, bytes; that of the TUN at most. */
uint16_t node_link_mtu(const struct node *n, const struct node_link *l);
/* The link that carries a static route to a node now; NULL: none is up. */
struct node_link *node_static_link(struct node *n, const struct conf_static_route *r);

/* ---- steer.c ---- */
int node_steer_init(struct node *n);
void node_steer_free(struct node *n);
/* Builds what a snapshot has of policies and segments, when its links, next hops and tables are
 * there. False without memory. */
bool node_steer_build(struct node *n, struct node_snapshot *snap);
/* Frees it again. */
void node_steer_release(struct node_snapshot *snap);
/* Something of segment routing is configured, here or in the registry. */
bool node_steers(const struct node *n);
/* The node's own locator; false: it has none. */
bool node_locator(const struct node *n, struct prefix *ret);
/* True when packets of a policy go as if there were none: its kernel rule is taken back. */
bool node_policy_direct(const struct node *n, const struct conf_policy *c);
/* The policy that a packet of this host or its LANs falls under, by the last snapshot; what steered
 * packets come from is in ret_source. NULL: none. */
const struct node_policy *node_policy_of(const struct node *n, const struct ipaddr *dst,
	const struct ipaddr *src, struct ipaddr *ret_source);
/* True for a SID, own or another's, by the last snapshot: the host may not send to it. */
bool node_is_sid(const struct node *n, const struct ipaddr *a);
void node_policies_reply(struct node *n, struct json *j);

/* ---- speaker.c ---- */
int node_speaker_start(struct node *n, wtime now);
/* Whether this node carries the packets of others: unless its configuration or the registry says
 * no. */
bool node_transit(const struct node *n);
/* What this node announces by its configuration, and what is never announced or learned. */
bool node_speaker_own(const struct node *n, const struct babel_prefix *p);
bool node_speaker_refuses(struct node *n, const struct prefix *p);
/* Whether `import` names the connected network that the prefix overlaps, and lets it in. */
bool node_speaker_named(const struct node *n, const struct prefix *p,
	const uint8_t router_id[static 8]);
/* Whether a rule of `export` lets a prefix of our own out by name. */
bool node_speaker_exports(const struct node *n, const struct prefix *p);
/* After how long without an update a neighbour no longer announces what it did. */
int64_t node_speaker_memory_us(const struct node *n);
/* The node of the registry that has a router-id; NULL: none. */
const struct registry_node *node_speaker_origin(const struct node *n,
	const uint8_t router_id[static 8]);
/* The sequence number that belongs to a time: newer than what an earlier life of this node used, as
 * long as clocks go forward and both lives lie within three days. */
uint16_t node_speaker_seqno(const struct node *n, wtime now);
/* What configuration and registry say now: prefixes, filters, interfaces. */
int node_speaker_apply(struct node *n, wtime now);
/* A link came up, went down or changed. */
void node_speaker_link(struct node *n, struct node_link *l, wtime now);
/* A link was judged dead, or lives again. */
void node_speaker_alive(struct node *n, struct node_link *l, wtime now);
/* The peer may have a new life: what the former one announced counts no more. */
void node_speaker_anew(struct node *n, struct node_link *l, wtime now);
/* Tells the speaker of links that died, when the plane has got a snapshot without them. */
void node_speaker_late(struct node *n, wtime now);
/* An inner packet of a link that may be Babel's. */
void node_speaker_input(struct node *n, struct node_link *l, struct view packet, wtime at,
	wtime now);
/* Takes the speaker's events and packets. */
void node_speaker_run(struct node *n, wtime now);

/* ---- rib.c ---- */
int node_rib_init(struct node *n);
void node_rib_free(struct node *n);
void node_rib_event(struct node *n, const struct babel_event *e, wtime now);
struct node_route *node_rib_find(const struct node *n, const struct babel_prefix *p);

/* ---- table.c ---- */
int node_table_init(struct node *n);
/* When the routes are gone. */
void node_table_free(struct node *n);
/* A route is new, or has other ways: it is written before the next snapshot. */
void node_table_changed(struct node *n, struct node_route *r);
/* A route goes: its prefix leaves the tables. */
void node_table_gone(struct node *n, struct node_route *r);
/* A prefix became one of the host's own routes, or is none any more. */
void node_table_local(struct node *n, const struct babel_prefix *p, bool there);
/* The link that packets of a route take now: the other of its two ways where the first is dead and
 * that one lives. NULL: it has none. */
const struct node_link *node_table_way(const struct node *n, const struct node_route *r);
/* The link behind which the locator of a node is that Babel does not tell of; NULL: there is none
 * that is alive. */
struct node_link *node_table_behind(struct node *n, const struct registry_node *r);
/* Some routes are not written yet. */
bool node_table_waits(const struct node *n);
/* Gives a snapshot tables and next hops as they are now. False without memory. */
bool node_table_publish(struct node *n, struct node_snapshot *snap);

/* ---- probe.c ---- */
void node_probe_tick(struct node *n, struct node_link *l, wtime now);
void node_probe_answer(struct node *n, struct node_link *l, struct view packet, wtime now);
/* A neighbour has reasons to think that the link is dead. */
void node_probe_doubted(struct node *n, struct node_link *l, wtime now);
/* Something authentic came over the link. */
void node_probe_heard(struct node *n, struct node_link *l, wtime now);

/* ---- padded.c ---- */
void node_padded_tick(struct node *n, struct node_link *l, wtime now);
/* An echo reply of the link's peer. */
void node_padded_answer(struct node *n, struct node_link *l, const struct icmp_echo *e, wtime now);

/* ---- move.c ---- */
/* An authentic, newest packet came from remote to local, which is not what the link has. */
void node_move_seen(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now);
/* An echo reply of the link's peer; acts when it answers the question whether the peer moved. */
void node_move_answer(struct node *n, struct node_link *l, const struct icmp_echo *e, wtime now);
/* IKE has the peer's answer from there. */
void node_move_answered(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now);
void node_move_tick(struct node *n, struct node_link *l, wtime now);

/* ---- loss.c ---- */
void node_loss_tick(struct node *n, struct node_link *l, wtime now);

/* ---- load.c ---- */
void node_load_tick(struct node *n, wtime now);

/* ---- kernel.c ---- */
/* The desired kernel state anew; false: no memory, the last one stays. */
bool node_kernel_build(struct node *n);
/* Whether srv6.source is to be an address of the TUN beside those that are listed. */
bool node_adds_source(const struct config *c);
/* Whether the kernel has the route: there are tables for NODE_SOURCES different sources in IPv4. By
 * others what comes over links is forwarded all the same; the host's own packets are not. */
bool node_kernel_has(const struct node *n, const struct babel_prefix *p);

/* ---- host.c ---- */
void node_host_free(struct node *n);
/* The connected network that a prefix is or lies in; NULL: none. */
const struct prefix *node_host_network(const struct node *n, const struct prefix *p);
/* Whether a prefix is an address of the TUN, as the configuration gives it. */
bool node_host_address(const struct node *n, const struct prefix *p);
/* A neighbour's announcement was refused because of that network: it is told in status. network is
 * the prefix itself where it is an address of this node's TUN. */
void node_host_refused(struct node *n, const struct babel_offer *o, const struct prefix *network);
/* Whether the prefix is announced because a route of the host's own says so. */
bool node_host_announces(const struct node *n, const struct babel_prefix *p);
void node_host_warnings(const struct node *n, wtime now, struct json *j);

/* ---- status.c ---- */
void node_status_reply(struct node *n, const struct node_outside *o, wtime now, struct json *j);
void node_links_reply(struct node *n, wtime now, struct json *j);
/* {"organization", "name"} and, when wanted, "serial", as the member `peer`. */
void node_peer_object(struct json *j, const struct node_link *l, bool serial);

/* ---- routes.c ---- */
/* A route as it is told. */
struct node_told {
	struct prefix prefix, source;
	const char *origin; /* "babel", "static" or "local" */
	const struct node_link *via;
	const struct babel_route_info *learned; /* NULL: local or static */
	bool selected, installed;
};
/* The route as an object of the reply; key NULL inside an array. */
void node_route_object(const struct node *n, const char *key, const struct node_told *r, wtime now,
	struct json *j);
/* The neighbour of a link with the lowest cost; a tunnel has one. False: none is known. */
bool node_link_neighbour(const struct node *n, uint32_t slot, struct babel_neighbour_info *ret);
struct ctl_request;
void node_routes_reply(struct node *n, const struct ctl_request *r, wtime now, struct json *j);
void node_neighbours_reply(struct node *n, struct json *j);
/* The members rtt_ms, loss, cost, rxcost, txcost of a link. */
void node_link_metric(const struct node *n, const struct node_link *l, struct json *j);

/* ---- trace.c ---- */
/* argument: "SRC DST". As node_command(). */
uint32_t node_trace(struct node *n, const char *argument, wtime now, struct buf *reply);

/* ---- ping.c ---- */
/* argument: a node. As node_command(). */
uint32_t node_ping(struct node *n, const char *argument, wtime now, struct buf *reply);

/* ---- hops.c ---- */
struct node_hops_ask {
	struct ipaddr own;           /* what echoes come from: an address of this node */
	struct ipaddr src, dst;      /* of the packet that the trace is about */
	struct ipaddr outer;         /* what it is steered from; IP_NONE: it is not */
	const struct node_link *via; /* borrowed for the call; NULL: a ping */
	const char *verdict;         /* static */
	struct buf text;             /* the reply up to its hops, the array begun; reason so far */
	struct buf reason;
	struct json json;
	bool ping; /* one echo to the destination alone; text: up to its round trip; no verdict */
};
/* Asks the hops, one by one, and completes the reply: a REPLY action of that number. 0: too many
 * are under way, or no memory; else text and reason are taken. */
uint32_t node_hops_start(struct node *n, struct node_hops_ask *a, wtime now);
/* A packet that may be an answer; at: when it came. */
void node_hops_answer(struct node *n, struct view packet, wtime at, wtime now);
void node_hops_tick(struct node *n, wtime now);
void node_hops_free(struct node *n);
