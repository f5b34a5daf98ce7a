/* The inside of the engine. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "base/list.h"
#include "engine/engine.h"
#include "engine/ring.h"
#include "os/control.h"
#include "os/loop.h"
#include "os/netlink.h"
#include "os/nft.h"

enum {
	ENGINE_PLANES = CONF_THREADS_MAX,
	ENGINE_HELPERS = CONF_THREADS_MAX,
	ENGINE_HAND_RING = 1 << 22, /* packets from one plane thread for another */
	ENGINE_HANDED = 512,        /* such packets a round, from each */
	ENGINE_DOWN_RING = 1 << 20,
	ENGINE_FACTS_RING = 1 << 20,   /* what was let go, limits, moves: small messages */
	ENGINE_KNOWN_RING = 1 << 22,   /* IKE of established SAs, punted packets */
	ENGINE_UNKNOWN_RING = 1 << 19, /* IKE of anybody */
	ENGINE_TUN_READS = 16,         /* a round, at most */
	ENGINE_TUN_READS_MIN = 2,      /* when few wait */
	ENGINE_TUN_FRAMES = 4 * ENGINE_TUN_READS, /* a round, when they are small */
	ENGINE_WAITING = 64,       /* messages that may wait do so until there are so many */
	ENGINE_PAUSE_FRAMES = 8,   /* small ones in a round and nothing else: a short pause, */
	ENGINE_PAUSE_NS = 10000,   /* to which Linux adds up to 50 us, the timer slack */
	ENGINE_FRAME_SMALL = 2048, /* bytes: four such frames count as one */
	ENGINE_LOOK_AFTER = 16,    /* frames and buffers handled between looks at epoll */
	ENGINE_UDP_BUFFERS = 8,    /* a round */
	ENGINE_DOWN_MESSAGES = 64, /* a round */
	ENGINE_UP_MESSAGES = 4096, /* a turn of the control thread */
	ENGINE_SA_CAPACITY = 65536,
	ENGINE_ADDRESSES_US = 1000000,    /* between two looks at the host's addresses */
	ENGINE_TOO_LONG_US = 1000000,     /* between two words that datagrams are too long */
	ENGINE_RESTORE_US = 200000,       /* from the first loss of kernel state to its restoring */
	ENGINE_RESTORE_GAP_US = 1000000,  /* between two such */
	ENGINE_RETRY_US = 2000000,        /* until what the kernel refused is tried again */
	ENGINE_RESTORE_LOG_US = 10000000, /* between two lines about it */
	ENGINE_HOST_US = 500000,          /* between two looks at the host's routes */
	ENGINE_FORWARD_US = 1000000,      /* between two looks at the firewall */
	ENGINE_GRO_US = 1000000,          /* for a socket to run empty */
	ENGINE_TUN_US = 1000000,          /* between two tries to make the TUN again */
	ENGINE_NAT_RETRY_US = 30000000,   /* after rules that could not be set up */
	ENGINE_NAT_ORDER_US = 15000000,   /* the helper may take to set them up */
};

/* The sockets that the plane thread sees: an immutable list, swapped by a message, freed when it
 * came back. */
struct engine_sockets {
	size_t count;
	uint32_t planes;
	struct os_interfaces excluded; /* by which nothing may come; owned */
	/* By index and plane; NULL: none. Owned by the control thread. */
	struct os_udp *udp[];
};

static inline struct os_udp *engine_socket_of(const struct engine_sockets *s, size_t index,
	uint32_t plane)
{
	return s && index < s->count ? s->udp[index * s->planes + plane] : NULL;
}

enum engine_down_type {
	ENGINE_DOWN_PLANE,
	ENGINE_DOWN_SOCKETS,
	ENGINE_DOWN_TUN,
	ENGINE_DOWN_OFFLOAD, /* offload, changed: of plane.offload, what is the plane thread's */
};

struct engine_down {
	enum engine_down_type type;
	struct plane_down plane; /* its data follows this struct */
	const struct engine_sockets *sockets;
	struct os_tun *tun;            /* TUN: to be used from now on */
	unsigned int offload, changed; /* bits as conf_offloads() */
};

enum engine_up_type {
	ENGINE_UP_PLANE,        /* its data follows this struct */
	ENGINE_UP_SOCKETS_GONE, /* sockets */
	ENGINE_UP_LOG,          /* level, text */
	ENGINE_UP_TOO_LONG, /* the kernel refused datagrams that are longer than their way takes */
	ENGINE_UP_TUN_GONE, /* tun: its device is no more */
	ENGINE_UP_TUN_LET_GO, /* tun: another took its place, it can be closed */
};

struct engine_up {
	enum engine_up_type type;
	struct plane_up plane;
	const struct engine_sockets *sockets;
	struct os_tun *tun;
	enum os_level level;
	char text[200];
};

/* A thread that works for the plane threads. Its flags are shared, the rest is its own. */
struct engine_helper {
	_Atomic bool asleep, stop;
	uint32_t number, planes;
	struct engine_plane *const *plane;
	pthread_t thread;
	bool runs;
	int event; /* wakes it */
};

/* What the plane thread works with; the rings and flags are shared, the rest is its own. */
struct engine_plane {
	const struct os_net *net;
	struct os_tun *tun;
	struct plane *plane;
	struct plane_config config;
	const struct engine_sockets *sockets;
	uint8_t *pool, *tun_memory, *udp_memory, *whole, *piece;
	size_t pool_size;
	size_t tun_stride; /* from the buffer of a frame to the next one's; 0: there is one */
	int epoll;
	bool pushed; /* something went up in this round that the control thread is woken for */
	unsigned int waiting; /* went up since without waking it */
	bool tun_gone;
	bool tun_empty;         /* when it was last looked at */
	bool pause;             /* before it sleeps */
	unsigned int offload;   /* switched on: bits as conf_offloads() */
	wtime gro_by;           /* then UDP_GRO is switched at last, see udp_gro() */
	wtime too_long_at;      /* not before it is TOO_LONG told again */
	size_t first_socket;    /* who is read first, by turns */
	uint64_t ready;         /* what is not known to be empty: see plane_thread.c */
	unsigned int tun_reads; /* of the next round, at most */
	unsigned int handled;   /* since epoll was asked */

	struct ring down, facts, known, unknown;
	struct ring hand[ENGINE_PLANES];    /* packets from other plane threads, by their numbers */
	struct engine_plane *const *planes; /* all of them, by number; config.planes */
	struct engine_helper *helper;       /* config.helpers */
	uint32_t writing, written;    /* bits: whose ring has an uncommitted packet, has new ones */
	const struct node_spis *spis; /* written by the control thread; borrowed */
	struct os_wake *wake;         /* the control thread */
	int event;                    /* wakes the plane thread */
	_Atomic bool asleep, stop, stopped;
	_Atomic unsigned int merging; /* PLANE_MERGE_*: what it does merge */
};

/* A socket as it was opened. */
struct engine_socket {
	struct os_udp *udp;                     /* of plane 0; NULL: none is open */
	struct os_udp *more[ENGINE_PLANES - 1]; /* of the others */
	struct node_socket as;                  /* interface: owned copy */
};

struct engine_pending {
	struct list list;
	size_t n;
	uint8_t bytes[];
};

/* A reply that the node owes a client of the control socket. */
struct engine_owed {
	uint32_t id;      /* the node's; 0: free */
	uint64_t request; /* the socket's */
};

struct engine {
	struct engine_config config;
	struct node *node;
	struct os_loop *loop;
	struct os_timer *timer;
	struct os_signal *signal[3];
	struct os_control *control;
	struct engine_owed owed[NODE_REPLIES];
	struct os_netlink *netlink;
	struct os_address_watch *addresses;
	struct os_kernel_watch *kernel_watch;
	struct os_route_watch *host_watch; /* of the TUN's namespace */
	bool host_changed;                 /* look at the host's routes, from host_at on */
	wtime host_at;
	struct os_tun *tun; /* the newest; the plane thread's, or on its way there */
	bool tun_lost;      /* its device is gone: another is made, from tun_at on */
	wtime tun_at;
	struct os_watch *runner_watch;
	/* the rules of an exit: who looks after them; what the helper was told last; when to look
	 * whether they are there (NEVER: no reason), not before nat_next */
	struct os_nft *nft;
	struct buf nat_told;
	wtime nat_at, nat_next, nat_patience; /* patience: with the helper, which is at it */
	long nat_rules;
	bool nat_failed;
	struct os_netlink *underlay; /* for questions */
	struct os_route_watch *route_watch;
	char **excluded_name; /* interfaces that are no underlay */
	size_t excluded_names;
	struct os_interfaces excluded; /* what they are now */
	bool excluded_dirty;           /* the plane thread knows others */
	bool underlay_changed;         /* routes or interfaces: look, from underlay_at on */
	wtime underlay_at;
	struct os_file_watch *watch;
	char *tun_netns, *underlay_netns, *underlay_vrf;
	/* of plane.offload, bits as conf_offloads(): switched on, in the configuration, and those
	 * that a command set */
	unsigned int offload, offload_conf, offload_command;

	struct engine_plane *plane[ENGINE_PLANES]; /* owned */
	pthread_t thread[ENGINE_PLANES];
	struct engine_helper helper[ENGINE_HELPERS];
	uint32_t helpers;
	uint32_t planes, threads;                                            /* of them run */
	uint64_t snapshots_gone[ENGINE_PLANES], sockets_gone[ENGINE_PLANES]; /* reports so far */
	struct node_spis *spis;
	struct os_wake *wake;
	bool plane_done;
	uint32_t written; /* bits: planes that have messages and were not woken for them */

	struct engine_socket *socket;
	size_t socket_count;
	const struct engine_sockets *published; /* the newest list, the plane thread's */
	bool sockets_wait;                      /* a list with sockets to be closed is on its way */

	/* messages for which a ring had no room, in order, by plane */
	struct list pending[ENGINE_PLANES];
	struct plane_counters own; /* drops of the control thread */
	wtime started, timer_at, addresses_at;
	bool starting, stopping, addresses_changed;
	bool kernel_refused; /* at the last try; kernel_error says what */
	/* kernel state that another program took away: when to restore it (NEVER: nothing is
	 * missing), not before restore_next; restored since the last line about it */
	wtime restore_at, restore_next, restore_log_at;
	uint32_t rules_at; /* where ours stand in front of their place; 0: in their place */
	wtime forward_at;  /* when to look at the firewall again, for status */
	struct buf warn_forward;
	struct buf kernel_error; /* what the kernel refuses at present, lines; for status */
	uint32_t restored, restore_changes; /* changes: since restore_at was set */
	wtime mended_at;  /* when something was put right because addresses changed */
	int failed;       /* negative errno */
	struct buf error; /* lines, while starting */
	/* lines for status: of the start, of the files as last read, of a reload by itself that was
	 * refused, of the kernel, of an exit */
	struct buf warn_start, warn_files, warn_reload, warn_kernel, warn_exit;
	char *watched;     /* the path of the registry */
	enum conf_log log; /* as last configured */
};

/* The socket of a plane as opened; NULL: there is none. */
static inline struct os_udp *engine_udp(const struct engine *e, size_t i, uint32_t plane)
{
	return plane ? e->socket[i].more[plane - 1] : e->socket[i].udp;
}

/* ---- plane thread ---- */
/* Memory, plane, epoll; the TUN is there already. 0 or a negative errno. */
int engine_plane_init(struct engine_plane *t, const struct engine_config *c);
/* Packets for others are theirs now. */
void engine_plane_hand_over(struct engine_plane *t);
/* Packets of others; false when none waits. */
bool engine_plane_take(struct engine_plane *t, wtime now);
bool engine_plane_none_handed(const struct engine_plane *t);
/* plane_config.hand */
uint8_t *engine_plane_hand(void *plane, uint32_t number, const struct plane_handed *h);
/* plane_config.call, plane_config.relax */
void engine_plane_call(void *plane);
void engine_plane_relax(void *plane);
/* The helpers' threads: before those of the planes start, after they ended. */
int engine_helpers_start(struct engine *e);
void engine_helpers_stop(struct engine *e);
void engine_plane_done(struct engine_plane *t);
/* The thread. */
void *engine_plane_thread(void *plane);
/* Sends what the plane has for the sockets and the TUN. */
void engine_plane_send(struct engine_plane *t);
/* Writes frames to the TUN; merged ones that it does not take are cut again. The kinds that it
 * refused, as PLANE_MERGE_*. */
unsigned int engine_plane_write(struct engine_plane *t, const struct tun_tx *f, size_t n);
/* Merges those kinds no more; a line for the log, once. Between rounds only. */
void engine_plane_merge_off(struct engine_plane *t, unsigned int kinds);
/* Notes which kinds are to be merged, PLANE_MERGE_*, as far as the TUN takes them. */
void engine_plane_merge_set(struct engine_plane *t, unsigned int kinds);
/* And tells the plane. */
void engine_plane_merge(struct engine_plane *t, unsigned int kinds, wtime now);
/* Report to the control thread (the plane's own reports come by the callback). False: no room. */
bool engine_plane_report(struct engine_plane *t, struct ring *ring, const struct engine_up *up);
/* Wakes it from the control side, when it sleeps. */
void engine_plane_wake(struct engine_plane *t);

/* ---- control thread ---- */
/* Everything that can be done now: reports, deadlines, actions. */
void engine_turn(struct engine *e);
/* Hands a message to the plane threads that it concerns, now or as soon as there is room: what is
 * of a link to that link's, the rest to all. 0 or -ENOMEM. */
int engine_down(struct engine *e, const struct engine_down *m);
/* To one of them. */
int engine_down_to(struct engine *e, uint32_t plane, const struct engine_down *m);
/* True when a message still waits for room. */
bool engine_down_waits(const struct engine *e);
/* Hands over what waited for room. */
void engine_down_retry(struct engine *e);
/* Makes the open sockets those that the node wants. While starting, a failure is fatal. */
void engine_sockets_update(struct engine *e);
/* The list came back: what it has beyond the present one can be closed. */
void engine_sockets_gone(struct engine *e, const struct engine_sockets *s);
void engine_sockets_close(struct engine *e);
/* Sends one datagram of the node. */
void engine_send(struct engine *e, const struct node_action *a);
/* Applies the node's kernel state. */
void engine_kernel(struct engine *e);
/* Watches for kernel state that another program takes away; a failure is a warning. */
void engine_restore_start(struct engine *e);
/* Restores it when that is due. */
void engine_restore(struct engine *e, wtime now);
/* ---- host.c ---- */
/* A line for each chain of the firewall that drops what this node is to forward. */
void engine_forward_warnings(struct engine *e, struct buf *lines);
/* Watches the host's routes; a failure is a warning. */
void engine_host_watch(struct engine *e);
/* The node picks others. */
void engine_host_picks(struct engine *e);
/* Reads them for the node, when they changed and not too often. */
void engine_host(struct engine *e, wtime now);
/* ---- offload.c ---- */
/* Sets the switches before anything is opened. */
void engine_offload_start(struct engine *e, const struct config *c);
/* Switches what the new configuration has otherwise than the old one. */
void engine_offload_reload(struct engine *e, const struct config *c);
/* Switches one by command; AUTO: to what the configuration has. */
void engine_offload_command(struct engine *e, enum conf_offload which, enum conf_switch to);
/* What is in use: bits as conf_offloads(). */
unsigned int engine_offload_used(const struct engine *e);
/* ---- tun.c ---- */
/* How the TUN is to be. */
struct os_tun_config engine_tun_config(const struct engine *e, const struct config *c);
/* Makes the TUN that the configuration wants, a queue for each plane. 0 or a negative errno with a
 * line in error. */
int engine_tun_open(struct engine *e, const struct config *c,
	struct os_tun *ret[static ENGINE_PLANES], struct buf *error);
/* The device of this TUN was deleted: another takes its place soon. */
void engine_tun_gone(struct engine *e, const struct os_tun *tun);
/* Makes it again, when that is due. */
void engine_tun(struct engine *e, wtime now);
/* ---- exit.c ---- */
/* Has the rules of an exit set up, or taken away, as the node wants them now. */
void engine_exit_apply(struct engine *e);
/* Looks whether they are still there, when that is due. */
void engine_exit(struct engine *e, wtime now);
/* The helper said something: perhaps about them. */
void engine_exit_told(struct engine *e);
/* Lines about what keeps an exit from working now. */
void engine_exit_warnings(const struct engine *e, struct buf *lines);
void engine_exit_stop(struct engine *e);
/* ---- underlay.c ---- */
int engine_underlay_start(struct engine *e, const struct config *c);
/* Watches routes and interfaces; a failure is a warning. */
void engine_underlay_watch(struct engine *e);
void engine_underlay_stop(struct engine *e);
/* Takes the names of excluded interfaces from a configuration. 0 or -ENOMEM. */
int engine_excluded_set(struct engine *e, const struct config *c);
/* Looks at the underlay again, when something changed and not too often. */
void engine_underlay(struct engine *e, wtime now);
/* Answers a PATH action. */
void engine_path(struct engine *e, const struct node_action *a);
/* The helper that runs scripts: its words go to the log, wishes of the node go to it. */
int engine_updown_start(struct engine *e);
/* Adds what status has to say of them: whether the helper process is gone. */
void engine_updown_warnings(const struct engine *e, struct buf *lines);
void engine_updown_scripts(struct engine *e, const struct node_action *a);
void engine_updown_run(struct engine *e, const struct node_action *a);
/* Reads the files again and applies them. */
struct engine_reload {
	bool force, dry_run;
	struct buf changes, warnings, errors; /* lines */
};
/* Has the registry of this path watched from now on (NULL: none); a failure is a warning. */
void engine_watch(struct engine *e, const char *path);
int engine_reload(struct engine *e, struct engine_reload *r);
/* A reload that nobody waits for: the result goes to the log. */
void engine_reload_logged(void *engine);
/* A reply came that a request waited for. */
void engine_reply(struct engine *e, const struct node_action *a);
/* A request of the control socket. */
void engine_request(void *engine, const struct os_peer *peer, struct view line, struct buf *reply);
/* Each line of text to the log. */
void engine_log_lines(const struct engine *e, enum os_level level, const struct buf *text);
