/* The node's own structures. Ownership: the node owns its configuration, registry, IKE engine,
 * links and children; SAs, link states and snapshots belong to the plane from the message that
 * hands them down until the report that brings them back. */
#pragma once
#include "base/arena.h"
#include "base/list.h"
#include "crypto/crypto.h"
#include "esp/esp.h"
#include "ike/ike.h"
#include "node/node.h"

enum {
	NODE_ID_MAX = 1024,         /* a DER identity, bytes */
	NODE_LINK_TEXT = 256,       /* a link's name for people, cut when longer */
	NODE_DATAGRAM4 = 1500 - 28, /* UDP payload of a 1500-byte path */
	NODE_DATAGRAM6 = 1500 - 48,
	NODE_ADDRESSES = 8, /* addresses of one name that are tried in turn */
};

#define NODE_LIVENESS_US      (500 * W_MS) /* sent, and nothing heard for so long: ask */
#define NODE_PROBE_GAP_US     (1 * W_SEC)  /* between two such questions */
#define NODE_TICK_US          (250 * W_MS)
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
	uint32_t outbound; /* child; 0: none */
	char *updown;      /* script; NULL: none */
	bool script_up;    /* it was told that the link is up */
	bool admin_down;
	bool keep;    /* during a reload: it is still wanted */
	bool is_name; /* address is a name */
	bool resolving;
	struct ipaddr resolved[NODE_ADDRESSES];
	size_t resolved_count, resolved_at; /* candidates and the one in use */
	wtime resolve_at, probe_at;
	int64_t heard_us; /* last reported to IKE */
	wtime up_since;
	char reason[IKE_REASON_TEXT];
};

struct node_snapshot {
	struct plane_snapshot s;
	struct arena *arena;
	struct fib *fib;
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
	struct ike *ike;
	struct list links, children, actions;
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
	bool has_scripts; /* the outside knows of some */
	uint8_t router_id[8];
	struct arena *kernel_arena;
	struct kernel_state kernel;
	wtime tick_at, started;
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

/* ---- apply.c ---- */
/* Makes sockets and links what config and registry want; a line for each difference to report. */
int node_apply(struct node *n, const struct config *c, const struct registry *r, wtime now,
	struct buf *report);

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
/* Changes what may change without harm: lifetimes, address. */
void node_link_update(struct node *n, struct node_link *l, const struct node_link_want *w,
	wtime now, struct buf *report);
struct node_link *node_link_by_conn(struct node *n, uint32_t conn);
/* Name look-ups that are due, liveness: runs each tick. */
void node_link_tick(struct node *n, struct node_link *l, wtime now);
/* Where the link's datagrams go from now on. */
void node_link_moved(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now);
bool node_link_usable(const struct node_link *l);

/* ---- install.c ---- */
/* Handles every waiting IKE event. */
void node_ike_events(struct node *n, wtime now);
void node_sa_gone(struct node *n, struct tunnel_sa *sa);
/* Frees what the plane can no longer bring back. */
void node_children_free(struct node *n);

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
/* The link that carries a static route to a node now; NULL: none is up. */
struct node_link *node_static_link(struct node *n, const struct conf_static_route *r);

/* ---- kernel.c ---- */
void node_kernel_build(struct node *n);

/* ---- status.c ---- */
struct json;
void node_status_reply(struct node *n, const struct node_outside *o, wtime now, struct json *j);
void node_links_reply(struct node *n, wtime now, struct json *j);
void node_routes_reply(struct node *n, const char *argument, struct json *j);
