/* One whole weft without I/O: configuration and registry -> links; IKE, ESP installation, static
 * routes, snapshots for the plane, desired kernel state, the replies to commands. Runs on the
 * control thread, or many at once in a simulation. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/buf.h"
#include "base/cur.h"
#include "base/rng.h"
#include "base/time.h"
#include "conf/conf.h"
#include "node/spis.h"
#include "plane/plane.h"
#include "wire/frame.h"
#include "wire/kernel.h"

struct node;

/* What a node asks the outside to do, in order. Pointers are valid until the next call. */
enum node_action_type {
	NODE_ACTION_UDP,     /* send a datagram: udp (marker already in front) */
	NODE_ACTION_PLANE,   /* hand a message to the plane (all of them): plane */
	NODE_ACTION_SOCKETS, /* the list of wanted UDP sockets changed: node_sockets() */
	NODE_ACTION_KERNEL,  /* the desired kernel state changed: node_kernel() */
	NODE_ACTION_RESOLVE, /* look a name up and call node_resolved(): resolve */
	NODE_ACTION_PATH,    /* look up the way to a remote and call node_path(): path */
	NODE_ACTION_SCRIPTS, /* these scripts may be run from now on, no others: scripts */
	NODE_ACTION_UPDOWN,  /* a link came up or went down: run its script: updown */
	NODE_ACTION_REPLY,   /* the reply that node_command() owes: reply */
	NODE_ACTION_LOG,     /* one line for the log: log */
};

struct node_action {
	enum node_action_type type;
	struct {
		uint16_t socket;
		struct endpoint local, remote;
		struct view data;
	} udp;
	struct plane_down plane;
	struct {
		uint32_t id;
		enum ip_family family;
		const char *name;
	} resolve;
	struct {
		uint32_t id;
		uint16_t socket;
		struct ipaddr remote;
	} path;
	struct view scripts; /* paths, each ended by a zero */
	struct {
		const char *link;   /* its name; scripts of one link run one after the other */
		const char *script; /* path */
		struct view env;    /* NAME=value, each ended by a zero */
	} updown;
	struct {
		uint32_t id;
		struct view text;
	} reply;
	struct {
		enum conf_log level;
		const char *text;
	} log;
};

/* A UDP socket that the node wants, by index (stable while its endpoint stays in the
 * configuration). */
struct node_socket {
	bool wanted;
	enum ip_family family;
	struct ipaddr address; /* IP_NONE: any */
	uint16_t port;
	const char *interface; /* NULL: any */
	uint32_t fwmark;
};

struct node_config {
	struct rng rng;
	const struct ed25519_key *key;       /* borrowed for the node's life */
	const struct crypto_backend *crypto; /* for packets; NULL: OpenSSL. Borrowed likewise */
	const struct config *config;         /* gets owned */
	const struct registry *registry;     /* gets owned */
	const char *version;                 /* borrowed */
	uint32_t helpers;                    /* threads that seal and open beside the planes */
	uint32_t planes; /* a link belongs to plane slot % planes, by its SPIs too; 0: as 1 */
	/* Seconds of the wall clock at the start; 0: not known. Only for this: Babel's sequence
	 * number grows with it, so that a node that restarts comes back with a newer one. */
	uint64_t epoch_s;
	struct node_spis *spis; /* borrowed for the node's life: told its IKE SPIs; NULL: nobody */
};

/* Makes a node; its first actions wait at once. On failure a line for people is in error. 0,
 * -EINVAL, -ENOMEM. */
int node_new(const struct node_config *c, wtime now, struct node **ret, struct buf *error);
/* Frees a node that was stopped, and everything that it still has. The plane must be gone. */
void node_free(struct node *n);

/* Applies a new configuration and registry as a difference: unchanged links keep their SAs. Both
 * get owned also on failure. What changed is told in report, a line each. force: also with
 * a registry that loses more than half of the nodes. dry_run: only the report. 0; -EINVAL, -ENOMEM
 * or -EAGAIN (needs force) and nothing changed. With 0 a link may wait for memory: it is made as
 * soon as there is some, and report says so. */
struct node_reload {
	const struct config *config;
	const struct registry *registry;
	bool force, dry_run;
};
int node_reload(struct node *n, const struct node_reload *r, wtime now, struct buf *report);
/* The configuration that is applied; borrowed until the next reload. */
const struct config *node_applied(const struct node *n);
/* Says goodbye: DELETE on every link. Take the actions, then node_free(). */
void node_stop(struct node *n, wtime now);

/* A report of the plane: IKE messages, punted packets, things to free. */
void node_plane_up(struct node *n, const struct plane_up *up, wtime now);
/* The answer to a RESOLVE action; count 0: the name could not be resolved. */
void node_resolved(struct node *n, uint32_t id, const struct ipaddr *address, size_t count,
	wtime now);
/* A local address of the host went away, or came: cached sources are forgotten. */
void node_addresses_changed(struct node *n, wtime now);

/* The answer to a PATH action. */
struct node_path {
	bool excluded;         /* it leads through an interface that may not be used */
	const char *interface; /* its name; borrowed for the call */
	uint32_t mtu;          /* of the interface, or set for the route; 0: not known */
	uint32_t hint; /* what the kernel made of it by ICMP messages, anybody's; 0: nothing */
};
void node_path(struct node *n, uint32_t id, const struct node_path *p, wtime now);
/* Routes or interfaces of the underlay changed: all ways are looked up again. */
void node_paths_changed(struct node *n, wtime now);

/* The connected networks of the host, and the routes that node_kernel() picks: at the start, and
 * whenever they or the picks have changed. Nothing is kept of the argument. */
void node_host(struct node *n, const struct kernel_host *h, wtime now);

bool node_action_next(struct node *n, struct node_action *ret);
wtime node_deadline(const struct node *n);
void node_tick(struct node *n, wtime now);

const struct node_socket *node_sockets(const struct node *n, size_t *ret_n);
const struct kernel_state *node_kernel(const struct node *n);

/* What has been done to the forwarding tables since the start. */
struct node_table_stats {
	size_t prefixes, groups;   /* there are */
	uint64_t prefixes_written; /* changes of a single prefix */
	uint64_t groups_renamed;   /* changes of all prefixes of a group at once */
	uint64_t snapshots;        /* published */
};
void node_table_stats(const struct node *n, struct node_table_stats *ret);

enum { NODE_REPLIES = 8 };
#define NODE_REPLY_US (4 * W_SEC)

/* Facts that only the outside has, for status and drops. */
struct node_outside {
	const struct plane_counters *counters; /* of all plane threads, n_counters */
	size_t n_counters;
	const char *const *warnings; /* lines; NULL-ended */
	const char *crypto;          /* "OpenSSL 3.5.9" */
	wtime started;
	/* of plane.offload, bits as conf_offloads(): switched on; in use (less, when the kernel or
	 * a device refuses); set by command, not by the configuration */
	unsigned int offload_on, offload_used, offload_command;
};

/* Runs one request of the control socket (a JSON object as in the control protocol) and writes the
 * reply. RELOAD is not among them: the outside reads the files. Never fails: errors are replies. 0,
 * or the number of a reply that comes within NODE_REPLY_US as a REPLY action, at most NODE_REPLIES
 * at once; then nothing is in reply. */
uint32_t node_command(struct node *n, struct view request, const struct node_outside *o, wtime now,
	struct buf *reply);

/* ---- for who runs a node ---- */

/* Sets what a plane thread needs to know of the tunnel: ops, and a table of its own for `capacity`
 * inbound SAs. 0 or -ENOMEM. */
int node_tunnel_new(uint32_t capacity, struct plane_config *ret);
/* Frees that table, when the plane is gone; NULL table is fine. */
void node_tunnel_free(struct plane_config *c);

/* Requests of the control socket that are the outside's business. */
enum node_request_type {
	NODE_REQUEST_COMMAND, /* node_command() answers, errors included */
	NODE_REQUEST_RELOAD,  /* dry_run, force */
	NODE_REQUEST_LOG,     /* level */
	NODE_REQUEST_OFFLOAD, /* offload, to */
};

struct node_request {
	enum node_request_type type;
	bool dry_run, force;
	enum conf_log level;
	enum conf_offload offload;
	enum conf_switch to; /* AUTO: as the configuration has it */
};

/* Looks at a request; what cannot be read is a COMMAND. */
void node_request_parse(struct view request, struct node_request *ret);
/* The reply to a reload: changes and warnings are lines, each ended by \n. */
void node_reply_reload(struct buf *reply, struct view changes, struct view warnings);
/* A reply that has nothing to say but the error; NULL: that it was done. */
void node_reply_done(struct buf *reply, const char *error);
