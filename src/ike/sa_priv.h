/* What the files of the IKE engine share: the engine, connections, IKE SAs, children, tasks (our
 * own exchanges) and negotiations (CREATE_CHILD_SA with its IKE_FOLLOWUP_KE rounds).
 *
 * Lifetimes: a connection owns its SAs and children; an engine owns half-open responder SAs. A dead
 * SA goes to the engine's grave and is freed when the public call ends, so that an SA pointer stays
 * valid during a call. Children are named by handles across calls and looked up anew. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "ike/codec_priv.h"
#include "ike/ike.h"
#include "ike/keymat_priv.h"
#include "ike/proposal_priv.h"
#include "ike/protect_priv.h"

/* ---- Times ---- */
#define IKE_TIME_EAGER  (10 * W_SEC) /* an attempt sends each second for so long */
#define IKE_TIME_TRIAL  (1 * W_SEC)  /* the peer is asked at another endpoint */
#define IKE_TIME_RESEND (1 * W_SEC)  /* first retransmission */
#define IKE_TIME_RESEND_HEARD                                                                      \
	(2 * W_SEC)                        /* the longest pause while the data path hears the peer \
	                                    */
#define IKE_TIME_HEARD         (5 * W_SEC) /* it does when it has for so long */
#define IKE_TIME_PATIENCE      (180 * W_SEC) /* a request has so long then, at most; */
#define IKE_TIME_PATIENCE_MIN  (20 * W_SEC)  /* at least; */
#define IKE_PATIENCE_DPD       18            /* and in units of the DPD interval */
#define IKE_TIME_BACKOFF_MAX   (60 * W_SEC)
#define IKE_TIME_HALF_OPEN     (30 * W_SEC)  /* a responder waits for IKE_AUTH */
#define IKE_TIME_FOLLOWUP      (20 * W_SEC)  /* RFC 9370 2.2.4: 5 to 20 s */
#define IKE_TIME_OUTBOUND      (10 * W_SEC)  /* a responder sends on a new child at the latest */
#define IKE_TIME_LINGER        (5 * W_SEC)   /* a deleted child still receives */
#define IKE_TIME_DEPARTED      (60 * W_SEC)  /* its last answer outlives an SA */
#define IKE_TIME_CROSSING      (1500 * W_MS) /* the losing SA of crossing starts lives on */
#define IKE_TIME_LOSER_PEER    (3 * W_SEC)   /* the same where the peer is to delete it */
#define IKE_TIME_PEER_DELETE   (20 * W_SEC)  /* the peer has so long to delete what it replaced */
#define IKE_TIME_REPLACED      (30 * W_SEC)
#define IKE_TIME_GRACE         (30 * W_SEC) /* a rekey that is due has so long, at least */
#define IKE_TIME_REPLACING     (5 * W_SEC)  /* a rekey waits for a new SA beside the old one */
#define IKE_TIME_STABLE        (10 * W_SEC) /* an SA that lived so long ends the back-off */
#define IKE_TIME_COOKIE_SECRET (60 * W_SEC)

enum ike_sizes {
	IKE_TRIES = 5,             /* transmissions of a request */
	IKE_TRIES_SUSPECT = 3,     /* from then on a new attempt runs beside it */
	IKE_TRIES_LARGE = 3,       /* transmissions, then it is cut smaller */
	IKE_REPLIES_LARGE = 2,     /* a reply that was asked for again so often is cut smaller */
	IKE_DPD_HEARD = 6,         /* pauses of a check while the data path hears */
	IKE_HALF_OPEN_SOURCE = 64, /* half-open SAs from one address, when room is scarce */
	IKE_NEGS_MAX = 4,          /* half-done negotiations of a peer */
	IKE_EARLY_MAX = 4,         /* SPIs deleted before their CREATE_CHILD_SA answer came */
	IKE_COOKIE_MAX = 64,       /* RFC 7296 2.6 */
	IKE_INIT_ANSWERS_MAX = 4,  /* cookies and group changes in one attempt */
	IKE_CONN_SAS_MAX = 16,     /* IKE SAs of a connection */
	IKE_CHILDREN_MAX = 64,     /* children of a connection */
	IKE_LINK_LEN = 8,
	IKE_TEMPORARY_MAX = 40, /* TEMPORARY_FAILUREs in a row: out of step, RFC 7296 2.25 */
};

struct ike_nonce {
	uint8_t b[IKE_NONCE_MAX];
	size_t n;
};

/* ---- The engine ---- */
struct ike_out {
	struct list node;
	struct endpoint local, remote;
	size_t n;
	uint8_t data[];
};

struct ike_ev {
	struct list node;
	struct ike_event e;
};

/* The deadline of a connection or an SA. It stays in the heap for the object's life, so that moving
 * it cannot fail; it may fire early, then its owner looks what is due and sets it again. */
struct ike_timer {
	struct heap_node node;
	bool is_conn; /* what it is embedded in */
};

struct ike {
	struct ike_config config;
	struct list conns;    /* struct ike_conn.node */
	struct hash by_id;    /* connections by id */
	struct hash by_spi;   /* IKE SAs by this end's SPI */
	struct hash by_init;  /* responder SAs before IKE_AUTH, by spi_i and address */
	struct hash by_child; /* children by spi_in */
	struct hash by_departed;
	struct list departed;  /* answers of SAs that are gone, oldest first */
	struct list half_open; /* SAs without a connection */
	struct list grave;
	struct list out;      /* struct ike_out.node */
	struct ike_out *lent; /* what ike_output() returned last */
	struct list events;   /* struct ike_ev.node */
	struct heap timers;   /* struct ike_timer.node */
	uint32_t next_child;
	uint8_t cookie_secret[2][32]; /* [0] in use, [1] the one before */
	uint8_t cookie_version;
	wtime cookie_at; /* when [0] was made; has_cookie false: none yet */
	bool has_cookie;
	wtime error_at; /* the next unprotected error reply is allowed from then */
	struct ike_stats stats;
};

/* ---- Connections ---- */
struct ike_conn {
	struct list node;
	struct hash_node by_id;
	struct ike_timer timer;
	struct ike *ike;
	struct ike_conn_config c; /* its ids are owned copies */
	uint8_t *ids;
	struct list sas;        /* struct ike_sa.node: all alive, attempts too */
	struct list children;   /* struct ike_child.node, newest first */
	struct ike_sa *attempt; /* our IKE_SA_INIT that is under way */
	struct ike_sa *sa;      /* the SA in use; NULL: not up */
	bool admin_down;
	bool behind_nat;
	bool was_up;          /* an UP event was given without a DOWN since */
	bool no_child_kex;    /* the peer refused a child with a key exchange */
	unsigned int fails;   /* attempts failed in a row */
	wtime trying_since;   /* begin of the present time without an SA */
	wtime retry_at;       /* next attempt; NEVER: none planned */
	wtime child_retry_at; /* when a missing child is made; NEVER: not wanted */
	unsigned int child_fails;
	uint32_t outbound;      /* child that is sent on, 0: none fit for it */
	uint32_t told_outbound; /* of the last CHILD_OUTBOUND, until its CHILD_DOWN */
	uint32_t outbound_next; /* takes over at outbound_at; 0: none */
	wtime outbound_at;
	wtime heard; /* the data path's word */
	char reason[IKE_REASON_TEXT];
};

enum ike_child_state {
	IKE_CHILD_UP,
	IKE_CHILD_REPLACED, /* the peer rekeyed it and will delete it */
	IKE_CHILD_DELETING, /* our DELETE is queued or out */
	IKE_CHILD_GONE,     /* deleted; receives until down_at */
};

struct ike_child {
	struct list node;
	struct hash_node by_spi;
	struct ike_conn *conn;
	struct ike_sa *sa; /* the SA that manages it; NULL when gone */
	struct ike_child_info info;
	enum ike_child_state state;
	bool confirmed;    /* the peer has it: we began its exchange, or were shown */
	bool redundant;    /* lost a collision: never outbound, its maker deletes it */
	wtime rekey_at;    /* when a rekey is queued; info.rekey_at is what was planned first */
	wtime expire_at;   /* hard end, or end of patience with the peer */
	wtime down_at;     /* GONE: when CHILD_DOWN is due */
	bool has_peer_low; /* the peer's rekey of it was answered: */
	struct ike_nonce peer_low; /* the lower nonce of that exchange */
	uint32_t peer_child;       /* the child that it made, 0: not yet */
	bool asked, ours;          /* made by CREATE_CHILD_SA, not as a rekey; by our request */
	struct ike_nonce made_low; /* asked: the lower nonce of that exchange */
};

/* ---- IKE SAs ---- */
enum ike_sa_state {
	IKE_SA_CONNECTING, /* we initiated it, not authenticated yet */
	IKE_SA_HALF_OPEN,  /* the peer initiated it, not authenticated yet */
	IKE_SA_UP,
	IKE_SA_REKEYED,  /* has a successor, waits for its DELETE */
	IKE_SA_DELETING, /* our DELETE is queued or out */
	IKE_SA_DEAD,     /* in the grave */
};

/* What only the initial exchanges need. */
struct ike_handshake {
	struct buf init_req, init_resp; /* as sent and received: RealMessage1 and 2 */
	struct buf offered;             /* initiator: the SA body of our request */
	struct buf cookie;
	struct ike_nonce ni, nr;
	struct kex *kex;   /* initiator's pending exchange */
	enum kex_id group; /* of the KE payload in IKE_SA_INIT */
	struct buf offer;  /* initiator: its KE data, the same in each repetition */
	struct ike_int_auth int_auth;
	uint8_t secret[KEX_SECRET_MAX]; /* responder: of the round whose reply goes out */
	unsigned int init_answers;
	unsigned int round;      /* index into kex[] of the next exchange */
	bool peer_identity_hash; /* SIGNATURE_HASH_ALGORITHMS with 5 */
	bool peer_intermediate;
	bool auth_sent;
	uint32_t child_spi;       /* initiator: our inbound SPI; 0: no child asked for */
	struct buf child_offered; /* initiator: the SA body in IKE_AUTH */
	enum ike_pq post_quantum; /* initiator: the policy that the offer was made under */
};

/* A message as it was sent, and what it was made of while it can be cut smaller. */
struct ike_sent {
	struct ike_sealed cut;
	struct ike_header h;
	uint8_t first;
	struct buf text; /* empty: it cannot */
};

struct ike_neg;
struct ike_task;
struct ike_rx;

struct ike_sa {
	struct list node;
	struct hash_node by_spi, by_init;
	bool in_init_table, counted_half_open, spi_told;
	struct ike_timer timer;
	struct ike *ike;
	struct ike_conn *conn; /* NULL for a half-open one */
	enum ike_sa_state state;
	bool initiator; /* of this IKE SA: whose SPI comes first */
	uint64_t spi_i, spi_r;
	struct endpoint local, remote;
	struct ike_keys keys;
	struct ike_protect *protect;
	enum kex_id kex[IKE_KEX_MAX];
	unsigned int kex_count;
	struct ike_handshake *hs; /* until it is up */
	bool fragments;           /* the peer takes SKF */
	bool small;               /* it is cut for the least datagrams from now on */
	bool peer_behind_nat;     /* half-open: for the connection later */
	/* Requests of ours: window 1 */
	uint32_t next_out;       /* message ID of the next request */
	struct ike_task *active; /* the one out has ID next_out - 1 */
	struct list queue;       /* struct ike_task.node */
	struct ike_sent request;
	unsigned int tries;
	wtime resend_at, sent_at;
	int64_t interval;
	/* Where the peer may be instead: requests go there too until then */
	struct endpoint trial_local, trial_remote;
	wtime trial_end; /* 0: nowhere */
	/* Requests of the peer: window 1 */
	uint32_t next_in;                   /* message ID that is expected */
	struct ike_sent reply;              /* to next_in - 1 */
	unsigned int reply_again;           /* how often it was asked for again */
	struct ike_protect *protect_before; /* of that exchange, when the keys moved on after it */
	struct ike_reassembly *in_requests, *in_responses;
	void (*after)(struct ike_sa *sa, wtime now); /* to run when the reply was sent */
	bool mute;                                   /* the reply could not be made: send none */
	/* Negotiations that the peer began and has not ended */
	struct list negs; /* struct ike_neg.node */
	/* Times */
	wtime started, established;
	wtime rekey_at, expire_at;
	wtime cleanup_at; /* we delete it then (a loser, a replaced one) */
	wtime heard;      /* last authentic message */
	/* The initial exchange it stems from, through rekeys: for crossing starts */
	bool origin_ours;
	wtime origin_started, origin_established;
	bool confirmed; /* the peer knows that it is up */
	bool loser;     /* of a crossing start, or replaced by a newer one */
	/* Rekey of this SA by the peer: for collisions */
	bool has_peer_low;
	struct ike_nonce peer_low;
	uint64_t successor;                    /* own SPI of the SA that the peer's rekey made */
	uint32_t early_deleted[IKE_EARLY_MAX]; /* peer SPIs deleted before we knew them */
	unsigned int temporary;                /* TEMPORARY_FAILUREs in a row */
};

/* ---- Our exchanges ---- */
enum ike_task_type {
	IKE_TASK_INIT,
	IKE_TASK_INTERMEDIATE,
	IKE_TASK_AUTH,
	IKE_TASK_CHILD_NEW,
	IKE_TASK_CHILD_REKEY,
	IKE_TASK_IKE_REKEY,
	IKE_TASK_FOLLOWUP,
	IKE_TASK_CHILD_DELETE,
	IKE_TASK_IKE_DELETE,
	IKE_TASK_DPD,
	IKE_TASK_COUNT
};

struct ike_task {
	struct list node;
	enum ike_task_type type;
	uint32_t child;      /* CHILD_REKEY, CHILD_DELETE: which */
	struct ike_neg *neg; /* owned; CREATE_CHILD_SA and IKE_FOLLOWUP_KE */
	enum kex_id group; /* CREATE_CHILD_SA: asked for by INVALID_KE_PAYLOAD; KEX_NONE: default */
	bool plain;        /* CHILD_*: without a key exchange */
};

/* A received, authentic, parsed message (IKE_SA_INIT: parsed only). */
struct ike_rx {
	const struct ike_msg *m;
	const struct ike_datagram *d;
	struct view whole; /* the plain form (IKE_SA_INIT: the datagram) */
	wtime now;
};

struct ike_task_ops {
	uint8_t exchange;
	/* Adds the request's payloads to b. 0; -ECANCELED: there is nothing to do any more; other
	 * errors: it cannot be done now. */
	int (*build)(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
	/* The response came. */
	void (*response)(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
};

/* ---- Negotiations in CREATE_CHILD_SA ---- */
enum ike_neg_kind { IKE_NEG_CHILD_NEW, IKE_NEG_CHILD_REKEY, IKE_NEG_IKE_REKEY };

struct ike_neg {
	struct list node;
	enum ike_neg_kind kind;
	bool initiator;     /* of this exchange */
	uint32_t old_child; /* CHILD_REKEY */
	struct ike_nonce ni, nr;
	struct buf offered; /* initiator: SA body */
	enum aead_id aead;
	enum prf_id prf; /* IKE_REKEY */
	bool esn;
	enum kex_id kex[IKE_KEX_MAX];
	unsigned int kex_count, round; /* round: exchanges done */
	struct kex *pending;           /* initiator */
	enum kex_id pending_id;
	uint8_t secret[IKE_KEX_MAX][KEX_SECRET_MAX];
	size_t secret_len[IKE_KEX_MAX];
	uint32_t spi_in, spi_out; /* child */
	uint64_t spi_i, spi_r;    /* IKE_REKEY: of the new SA */
	struct buf link;          /* what goes into the next round's notify */
	wtime expires;            /* responder */
};

/* ---- engine.c ---- */
void ike_drop_count(struct ike *ike, enum ike_drop d);
/* Queues one datagram (copied). */
void ike_send(struct ike *ike, const struct endpoint *local, const struct endpoint *remote,
	struct view data);
/* Queues an event of a connection, zeroed but for type and conn; NULL without memory. */
struct ike_event *ike_emit(struct ike_conn *conn, enum ike_event_type type);
void ike_emit_reason(struct ike_conn *conn, enum ike_event_type type, const char *reason);
/* A random number in [0, bound). 0 when no randomness can be had: for jitter only. */
int64_t ike_jitter(struct ike *ike, int64_t bound);
/* A timer begins, never due; 0 or -ENOMEM. It must leave before it is freed. */
int ike_timer_join(struct ike *ike, struct ike_timer *t);
void ike_timer_leave(struct ike *ike, struct ike_timer *t);
/* Makes it fire at a time, or earlier when that was set. */
void ike_timer_wake(struct ike *ike, struct ike_timer *t, wtime at);
/* An unprotected error reply to a request (rate-limited): RFC 7296 2.21.1, 2.5. */
void ike_reply_error(struct ike *ike, const struct ike_header *h, const struct ike_datagram *d,
	const struct ike_notify *n, wtime now);

/* ---- conn.c, link.c ---- */
struct ike_conn *ike_conn_find(const struct ike *ike, uint32_t id);
/* By identities; local_id empty: any. */
struct ike_conn *ike_conn_by_identity(const struct ike *ike, struct view remote_id,
	struct view local_id, const struct endpoint *remote);
void ike_conn_free(struct ike_conn *conn);
/* Starts an attempt now unless one is under way. */
void ike_conn_start(struct ike_conn *conn, wtime now);
/* Begins to try: at once, and eagerly for a while; when it may. */
void ike_conn_begin(struct ike_conn *conn, wtime now);
/* The UP event of conn->sa; and the end of being up. */
/* anew: the peer holds no other SA (RFC 7296 2.4). */
void ike_conn_say_up(struct ike_conn *conn, bool anew);
void ike_conn_say_down(struct ike_conn *conn, const char *reason);
/* The SA in use seems dead: an attempt starts beside it. */
void ike_conn_suspect(struct ike_conn *conn, wtime now);
/* Our attempt ended without an SA; the SA is killed, the next is planned. */
void ike_conn_attempt_failed(struct ike_sa *sa, const char *reason, wtime now);
/* An SA has come up: settles it with the others, and says so. initial_contact: the peer has no
 * other SAs. */
void ike_conn_sa_up(struct ike_sa *sa, bool initial_contact, wtime now);
/* An SA that was up has ended (deleted, dead): kills it with its children, goes on with what is
 * left, or plans the next attempt. */
void ike_conn_sa_lost(struct ike_sa *sa, const char *reason, wtime now);
void ike_conn_tick(struct ike_conn *conn, wtime now);
void ike_conn_wake(struct ike_conn *conn, wtime at);
/* The post_quantum policy for IKE_SA_INIT requests from an address. From an unknown one nobody is
 * refused for being classic before IKE_AUTH, which tells whose policy and reason that is. */
enum ike_pq ike_conn_responder_pq(const struct ike *ike, const struct endpoint *remote);

/* ---- sa.c ---- */
/* A new SA object, found by its own SPI from now on. conn NULL: half-open. 0, -ENOMEM. */
int ike_sa_new(struct ike *ike, struct ike_conn *conn, uint64_t spi_i, uint64_t spi_r,
	bool initiator, struct ike_sa **ret);
/* It is no half-open one any more: out of that table and count. */
void ike_sa_init_done(struct ike_sa *sa);
/* spi_i or spi_r, by sa->initiator. */
uint64_t ike_sa_own_spi(const struct ike_sa *sa);
/* Tells ike_config.spi, once for each change. */
void ike_sa_tell_spi(struct ike_sa *sa, bool known);
struct ike_sa *ike_sa_find(const struct ike *ike, uint64_t own_spi);
/* An unused own SPI. 0 or the rng's error. */
int ike_sa_spi_new(struct ike *ike, uint64_t *ret);
/* Makes the contexts of sa->keys. */
int ike_sa_protect(struct ike_sa *sa);
/* Takes an SA out of everything, without events, and buries it. Its children must be dealt with. */
void ike_sa_kill(struct ike_sa *sa);
void ike_sa_free(struct ike_sa *sa);
/* Queues a task at the end, unless the same (type and child) is queued or out. 0 or -ENOMEM. */
int ike_sa_queue(struct ike_sa *sa, enum ike_task_type type, uint32_t child);
/* Queues a task at the head; it gets owned. */
void ike_sa_queue_first(struct ike_sa *sa, struct ike_task *t);
struct ike_task *ike_task_new(enum ike_task_type type, uint32_t child);
void ike_task_free(struct ike_task *t);
bool ike_sa_has_task(const struct ike_sa *sa, enum ike_task_type type, uint32_t child);
/* Drops queued tasks (not the active one). */
void ike_sa_drop_queue(struct ike_sa *sa);
/* Sends the next queued request when none is out. */
void ike_sa_run(struct ike_sa *sa, wtime now);
/* The request that is out is answered: drops it. */
void ike_sa_request_done(struct ike_sa *sa);
/* An `after` for SAs whose peer breaks the rules. */
void ike_sa_after_fatal(struct ike_sa *sa, wtime now);
/* The hard end of its lifetime. */
void ike_sa_expire(struct ike_sa *sa, wtime now);
void ike_sa_tick(struct ike_sa *sa, wtime now);
void ike_sa_wake(struct ike_sa *sa, wtime at);
/* A message that belongs to the SA (not IKE_SA_INIT requests). */
void ike_sa_input(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now);
/* Rekey and expiry times from now on. */
void ike_sa_lifetime(struct ike_sa *sa, wtime now);
/* How long an SA outlives its lifetime while it is being rekeyed: all transmissions of a request
 * fit, however short the lifetime is. */
int64_t ike_grace(int64_t life_us);

/* ---- departed.c ---- */
/* Keeps the reply that an SA ended with, and the request that it answers, for repetitions. */
void ike_departed_keep(struct ike_sa *sa, struct view request, wtime now);
/* A message for an SPI that is no SA's: true when it was such a repetition, and was answered. */
bool ike_departed_input(struct ike *ike, uint64_t own_spi, const struct ike_datagram *in);
/* When the next one is let go, and doing so. */
wtime ike_departed_due(const struct ike *ike);
void ike_departed_tick(struct ike *ike, wtime now);
void ike_departed_done(struct ike *ike);

/* ---- cut.c ---- */
struct ike_header ike_sa_header(const struct ike_sa *sa, uint8_t exchange, uint32_t mid,
	bool response);
/* Seals what was built, whose bytes it may take; IKE_INTERMEDIATE goes into IntAuth. *ret must be
 * empty and is freed by the caller with ike_sent_free(), in failure too. 0 or a negative errno. */
int ike_sa_seal(struct ike_sa *sa, const struct ike_header *h, struct ike_build *b,
	struct ike_sent *ret);
void ike_sent_free(struct ike_sent *s);
/* Whether it could be cut smaller. */
bool ike_sent_large(const struct ike_sent *s);
/* Cuts the request that is out for the least datagrams, and what the SA sends later. False: it
 * stays as it is. */
bool ike_sa_request_smaller(struct ike_sa *sa);
/* An authentic packet of a request came: in small fragments, it is answered in such. */
void ike_sa_request_seen(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d);
/* The reply is to go out again, for an authentic repetition of its request: cuts it smaller when
 * that is due. */
void ike_sa_reply_again(struct ike_sa *sa);
void ike_sa_send_sealed(struct ike_sa *sa, const struct ike_sealed *s, const struct endpoint *local,
	const struct endpoint *remote);
/* One message outside the window rules, not kept: the last word of an SA. */
void ike_sa_send_once(struct ike_sa *sa, struct ike_build *b);

/* ---- init.c, natd.c, intermediate.c, auth.c ---- */
void ike_init_request(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now);
int ike_init_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_init_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
/* Makes and sends our IKE_SA_INIT; sets conn->attempt. 0 or a negative errno. */
int ike_init_start(struct ike_conn *conn, wtime now);
int ike_handshake_new(struct ike_handshake **ret);
void ike_handshake_free(struct ike_handshake *hs);
/* The body of the SA payload that a policy offers. 0, -ENOMEM, -EMSGSIZE. */
int ike_offer_body(const struct ike_policy *policy, struct view spi, struct buf *ret);
/* Whether an offer has a key exchange method. */
bool ike_offer_has_group(struct view offered, uint16_t group);
/* Replaces a buffer's bytes. 0 or -ENOMEM. */
int ike_buf_set(struct buf *b, struct view v);
int ike_nonce_new(struct ike *ike, struct ike_nonce *ret);
/* Copies a nonce payload's body. */
bool ike_nonce_take(const struct ike_msg *m, struct ike_nonce *ret);
struct view ike_nonce_view(const struct ike_nonce *n);
/* Queues IKE_INTERMEDIATE or IKE_AUTH, whichever is next. 0 or -ENOMEM. */
int ike_handshake_next(struct ike_sa *sa);

/* NAT detection payloads of a message from local to remote. */
int ike_natd_build(struct ike_build *b, uint64_t spi_i, uint64_t spi_r,
	const struct ike_datagram *d);
/* Whether the peer is behind a NAT, from its payloads in a message of IKE_SA_INIT. */
bool ike_natd_peer_behind(const struct ike_msg *m, const struct ike_datagram *d);

/* cookie.c: whether a request has the right cookie, and the demand for one. */
bool ike_cookie_check(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now);
void ike_cookie_demand(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now);

int ike_intermediate_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_intermediate_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
void ike_intermediate_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply);

int ike_auth_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_auth_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
void ike_auth_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply);

/* ---- child.c ---- */
struct ike_child_new {
	struct ike_sa *sa;
	enum aead_id aead;
	bool esn;
	uint32_t spi_in, spi_out;
	const enum kex_id *kex;
	unsigned int kex_count;
	const struct view *shared; /* secrets of its own exchanges */
	size_t shared_count;
	struct view ni, nr;
	bool initiator; /* of the exchange */
};
/* Derives the keys, makes the child and emits CHILD_UP. 0, -ENOMEM, -EIO, -EEXIST (SPI). */
int ike_child_make(const struct ike_child_new *n, wtime now, struct ike_child **ret);
int ike_child_spi_new(const struct ike_conn *conn, uint32_t *ret);
struct ike_child *ike_child_find(const struct ike_conn *conn, uint32_t handle);
struct ike_child *ike_child_by_spi_out(const struct ike_conn *conn, uint32_t spi);
/* The newest child that can be sent on; NULL: none. */
struct ike_child *ike_child_newest(const struct ike_conn *conn);
/* Deleted: receives a little longer. Picks another outbound child when it was that one. */
void ike_child_gone(struct ike_child *child, wtime now);
/* Removes it at once, with CHILD_DOWN. */
void ike_child_remove(struct ike_child *child);
/* Queues its DELETE. */
void ike_child_delete(struct ike_child *child, wtime now);
void ike_child_outbound(struct ike_child *child, wtime now);
void ike_child_outbound_later(struct ike_child *child, wtime at);
/* A new request came on an SA: with windows of 1 its sender has our last answer, and so the child
 * that this made; it is sent on now. */
void ike_child_confirmed(struct ike_sa *sa, wtime now);
/* Chooses an outbound child when there is none. */
void ike_child_pick_outbound(struct ike_conn *conn, wtime now);
void ike_child_tick(struct ike_conn *conn, wtime now);
/* When the connection is up but has no child, one is made after a delay (and a pause that grows
 * with failures). */
void ike_child_want(struct ike_conn *conn, int64_t delay_us, wtime now);
wtime ike_child_next_time(const struct ike_conn *conn);
void ike_child_free(struct ike_child *child);
/* Moves children of an SA to another. */
void ike_child_move(struct ike_conn *conn, const struct ike_sa *from, struct ike_sa *to);
/* Traffic selectors of a request, narrowed to what we take: adds the reply's TSi and TSr. False:
 * TS_UNACCEPTABLE, nothing added. */
bool ike_child_ts_answer(const struct ike_msg *m, struct ike_build *reply);
/* Whether a response has usable selectors. */
bool ike_child_ts_ok(const struct ike_msg *m);
struct ike_policy ike_child_policy(const struct ike_conn *conn, enum ike_sa_use use);

/* ---- create.c: the CREATE_CHILD_SA exchange; followup.c: IKE_FOLLOWUP_KE ---- */
int ike_create_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_create_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
void ike_create_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply);
struct ike_neg *ike_neg_new(enum ike_neg_kind kind, bool initiator);
void ike_neg_free(struct ike_neg *neg);
/* Initiator: offers the next exchange's KE payload. */
int ike_neg_offer(struct ike_sa *sa, struct ike_neg *neg, enum kex_id id, struct ike_build *b);
/* Takes the peer's KE for exchange number neg->round in and keeps the secret. Responder: adds its
 * own KE. 0, -EPROTO, -EBADMSG, … */
int ike_neg_finish(struct ike_neg *neg, const struct ike_msg *m);
int ike_neg_answer(struct ike_sa *sa, struct ike_neg *neg, const struct ike_msg *m,
	struct ike_build *reply);
/* Initiator, after a round: the next one, the end, or (a lost collision) nothing. */
int ike_neg_go_on(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
/* Responder: a new link, added to the reply. */
int ike_neg_link(struct ike_sa *sa, struct ike_neg *neg, struct ike_build *reply);
/* Whether such an exchange is queued, out, or half done by the peer. */
bool ike_sa_busy(const struct ike_sa *sa, enum ike_neg_kind kind, uint32_t child);
/* The lower of a negotiation's two nonces. */
const struct ike_nonce *ike_neg_low(const struct ike_neg *neg);
/* Octet by octet, a prefix is lower (RFC 7296 2.8.1). */
int ike_nonce_compare(const struct ike_nonce *a, const struct ike_nonce *b);
void ike_neg_tick(struct ike_sa *sa, wtime now);
/* A peer's negotiation that has the old child, or (0) rekeys the IKE SA. */
struct ike_neg *ike_neg_find(const struct ike_sa *sa, enum ike_neg_kind kind, uint32_t old_child);

int ike_followup_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_followup_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
void ike_followup_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply);

/* Why CREATE_CHILD_SA fails in either direction when only one end has post_quantum require. */
#define IKE_CLASSIC_REFUSED                                                                        \
	"new keys are refused: peer has no ML-KEM for them and post_quantum is require"

/* ---- rekey.c: what a finished negotiation does ---- */
/* Everything of `from` (children, tasks about them, being in use) is `to`'s from now on. */
void ike_sa_take_over(struct ike_sa *from, struct ike_sa *to, wtime now);
/* All exchanges of a negotiation are done. */
int ike_neg_complete(struct ike_sa *sa, struct ike_neg *neg, wtime now);
/* Initiator, when all four nonces are known: true when ours is the one to give up (RFC 7296 2.8).
 */
bool ike_neg_lost(struct ike_sa *sa, const struct ike_neg *neg);
/* The peer's rekey was answered: notes its nonces on what it rekeys. */
void ike_neg_note_peer(struct ike_sa *sa, const struct ike_neg *neg);
/* A negotiation of the peer's came to nothing. */
void ike_neg_forget_peer(struct ike_sa *sa, const struct ike_neg *neg, wtime now);
/* Our negotiation came to nothing; type: the error notify, 0: something else. */
void ike_neg_failed(struct ike_sa *sa, struct ike_task *t, uint16_t type, wtime now);

/* ---- delete.c, dpd.c: INFORMATIONAL ---- */
int ike_child_delete_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_child_delete_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
int ike_delete_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_delete_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
void ike_informational_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply);
/* Queues the DELETE of the IKE SA, dropping what is queued before it. */
void ike_sa_delete(struct ike_sa *sa, wtime now);
int ike_dpd_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now);
void ike_dpd_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx);
/* When a liveness check is due. */
wtime ike_dpd_due(const struct ike_sa *sa);
/* Asks the peer at another endpoint whether it is there, for IKE_TIME_TRIAL. 0 or -ENOMEM. */
int ike_dpd_elsewhere(struct ike_sa *sa, const struct endpoint *local,
	const struct endpoint *remote, wtime now);
