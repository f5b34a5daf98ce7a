/* IKEv2 (RFC 7296) without I/O: one engine holds the connections of a node and every IKE SA.
 * Datagrams, time and randomness come in as arguments; datagrams and events go out. Beyond RFC
 * 7296: RFC 7383 (fragmentation), 7427 and 8420 (Ed25519 signatures), 9242 (IKE_INTERMEDIATE), 9370
 * (additional key exchanges), 5282 (AEAD in IKE), 6023 (childless, accepted).
 *
 * A connection is one wanted link between a local and a remote identity. The engine initiates it,
 * keeps it (retry for ever, rekey, DPD), accepts it from the peer, and ends crossing initiations in
 * one IKE SA and one child pair. It never touches ESP: keys go out in events. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/cur.h"
#include "base/rng.h"
#include "base/time.h"
#include "crypto/crypto.h"

struct ike;

enum ike_pq { IKE_PQ_PREFER, IKE_PQ_REQUIRE, IKE_PQ_OFF };

enum { IKE_KEX_MAX = 8, IKE_REASON_TEXT = 160 };

struct ike_config {
	struct rng rng;
	const struct ed25519_key *key; /* borrowed for the engine's life: the organization's key */
	/* Half-open responder SAs from which on a cookie is asked for (RFC 7296 2.6); 0:
	 * default 32. */
	uint32_t cookie_threshold;
	/* Half-open responder SAs at most; beyond, IKE_SA_INIT is dropped; 0: default 4096. From
	 * half of it on, one address gets no more than 64. */
	uint32_t half_open_max;
	/* Largest IP datagram that IKE sends (fragment size, RFC 7383 2.5.1); 0: default 1280. */
	uint32_t datagram_max;
	/* Told, with our SPI, when an SA begins that we know the peer of (ours from the start, one
	 * of a peer when it has authenticated itself), and when it ends. NULL: nobody listens. */
	void (*spi)(void *ctx, uint64_t own_spi, bool known);
	void *spi_ctx;
	/* A liveness check may come a little late: at a multiple of grid_us after grid_phase, so
	 * that one wake-up serves many; 0, or dpd_us less than 20 times that: at its own time. */
	int64_t grid_us;
	wtime grid_phase;
};

struct ike_conn_config {
	uint32_t id;                     /* the caller's, unique, not 0 */
	struct view local_id, remote_id; /* ID_DER_ASN1_DN contents (copied) */
	uint8_t remote_key[ED25519_PUBLIC];
	struct endpoint local;  /* address may be IP_NONE or unspecified: any */
	struct endpoint remote; /* IP_NONE: unknown, only answer */
	/* Inbound SPIs of its children leave this number when divided by spi_classes; 0 classes:
	 * any. */
	uint32_t spi_class, spi_classes;
	bool initiate; /* false: wait for the peer */
	enum ike_pq post_quantum;
	int64_t ike_lifetime_us;   /* rekey at this age minus jitter; 0: default 4 h */
	int64_t child_lifetime_us; /* the same; 0: default 1 h */
	int64_t dpd_us;            /* idle time before a liveness check; 0: default 10 s */
};

/* Makes an engine. The config is copied. 0, -ENOMEM, or the rng's error. */
int ike_new(const struct ike_config *config, struct ike **ret);
/* Frees everything at once, sending nothing. Keys are zeroed. NULL is fine. */
void ike_free(struct ike *ike);

/* Adds a connection; it starts at now when it initiates. 0, -EEXIST (id or identity pair), -EINVAL,
 * -ENOMEM. */
int ike_conn_add(struct ike *ike, const struct ike_conn_config *config, wtime now);
/* Removes a connection: a DELETE is queued for an established SA (sent once, not retransmitted),
 * everything pending is dropped, CHILD_DOWN and DOWN events follow. Unknown ids are ignored. */
void ike_conn_remove(struct ike *ike, uint32_t id, wtime now);
/* Brings a connection up: initiates now unless it is up or trying. -ENOENT, -EDESTADDRREQ (no
 * remote address), 0. */
int ike_conn_up(struct ike *ike, uint32_t id, wtime now);
/* Takes a connection down: DELETE, and neither initiates nor accepts until ike_conn_up(). -ENOENT,
 * 0. */
int ike_conn_down(struct ike *ike, uint32_t id, wtime now);
/* Where to send from now on (a name's new address, a moved endpoint): established SAs use it for
 * their next message; a connection that is trying starts again. An equal one changes nothing.
 * -ENOENT, 0. */
int ike_conn_set_remote(struct ike *ike, uint32_t id, const struct endpoint *remote, wtime now);
/* Changes lifetimes, dpd and post_quantum for SAs to come; identities and keys cannot change
 * (remove and add). -ENOENT, 0. */
int ike_conn_update(struct ike *ike, const struct ike_conn_config *config, wtime now);
/* Rekeys the IKE SA, or the newest child. 0; -ENOENT unknown; -ENOTCONN not up; -EBUSY an exchange
 * of that kind is under way. */
int ike_conn_rekey_ike(struct ike *ike, uint32_t id, wtime now);
int ike_conn_rekey_child(struct ike *ike, uint32_t id, wtime now);
/* Sends a liveness check now (unless one is out). -ENOENT, -ENOTCONN, 0. */
int ike_conn_probe(struct ike *ike, uint32_t id, wtime now);
/* Has the peer asked at another endpoint whether it is there: the request that is out, or a
 * liveness check, goes to remote too for a second. REMOTE_ANSWERED follows when the answer comes
 * from there. -ENOENT, -ENOTCONN, -ENOMEM, 0. */
int ike_conn_try_remote(struct ike *ike, uint32_t id, const struct endpoint *local,
	const struct endpoint *remote, wtime now);
/* The data path judges the link down: a new IKE_SA_INIT at once, and each second for 10 s, beside
 * the SA that may live; that one goes when the new one authenticates. Nothing when an attempt is
 * under way. -ENOENT; -EDESTADDRREQ: the connection does not initiate, has no remote address or is
 * down by hand; 0. */
int ike_conn_judged_down(struct ike *ike, uint32_t id, wtime now);
/* The data path says: packets were received on the connection's SAs at time t (puts DPD off). */
void ike_conn_heard(struct ike *ike, uint32_t id, wtime t);
/* The data path says: a child has used up its soft limit; rekeys it if it is still the newest. */
void ike_child_soft_limit(struct ike *ike, uint32_t child, wtime now);

/* A UDP datagram, without the 4-byte non-ESP marker (RFC 3948 2.2), which the caller strips and
 * adds: it is on every IKE message. */
struct ike_datagram {
	struct endpoint local, remote; /* local.ip may be IP_NONE: let the kernel choose */
	struct view data;
};

/* One received datagram. Hostile until authenticated. Borrowed for the call. */
void ike_input(struct ike *ike, const struct ike_datagram *d, wtime now);
/* The next datagram to send; the bytes stay valid until the next call into the engine. False: none.
 */
bool ike_output(struct ike *ike, struct ike_datagram *ret);
/* When ike_tick() is next wanted; WTIME_NEVER: not at all. */
wtime ike_deadline(const struct ike *ike);
/* Runs what is due at now. */
void ike_tick(struct ike *ike, wtime now);
/* True when spi (the receiver's own, from the header) belongs to an SA past IKE_AUTH: the data path
 * keeps such messages apart from floods. */
bool ike_spi_established(const struct ike *ike, uint64_t spi_i, uint64_t spi_r);

enum ike_event_type {
	IKE_EVENT_NONE,
	IKE_EVENT_UP,             /* an IKE SA is established, or rekeyed (then: replaced) */
	IKE_EVENT_DOWN,           /* the connection has no IKE SA any more; reason says why */
	IKE_EVENT_FAILED,         /* an attempt failed, or new keys for what is up were refused; the
	                           * next follows with back-off */
	IKE_EVENT_CHILD_UP,       /* install both directions; receive at once; do not send yet */
	IKE_EVENT_CHILD_OUTBOUND, /* send on this child from now on */
	IKE_EVENT_CHILD_DOWN,     /* remove both directions */
	IKE_EVENT_REMOTE_SEEN,    /* an authentic, new message came from another address */
	IKE_EVENT_REMOTE_ANSWERED, /* the peer answered from where ike_conn_try_remote() asked */
};

/* Which end's packets go under which keys: "in" is what this end receives. */
struct ike_child_keys {
	enum aead_id aead;
	uint8_t in_key[64], in_auth[64], out_key[64], out_auth[64]; /* lengths: aead_info() */
};

struct ike_child_info {
	uint32_t child;           /* the engine's handle, never 0, not used twice in a run */
	uint32_t spi_in, spi_out; /* host order */
	enum aead_id aead;
	bool esn;
	enum kex_id kex[IKE_KEX_MAX]; /* the key exchanges that fed it, classic first; KEX_NONE
	                               * ends; a first child lists those of its IKE SA */
	wtime created, rekey_at;
};

struct ike_event {
	enum ike_event_type type;
	uint32_t conn;
	struct ike_child_info child;   /* CHILD_* */
	struct ike_child_keys keys;    /* CHILD_UP; zero it after use: ike_event_wipe() */
	struct endpoint local, remote; /* CHILD_UP, UP, REMOTE_*: of the message that did it */
	bool anew; /* UP: the peer says that it holds no other SA (RFC 7296 2.4): it may have a new
	            * life that knows nothing of what it said before */
	char reason[IKE_REASON_TEXT]; /* DOWN, FAILED: one line for people, e.g. "peer offers no
	                               * ML-KEM and post_quantum is require" */
};

/* The next event in order; false: none. */
bool ike_event_next(struct ike *ike, struct ike_event *ret);
void ike_event_wipe(struct ike_event *e);

enum ike_state { IKE_STATE_DOWN, IKE_STATE_CONNECTING, IKE_STATE_UP };

struct ike_sa_info {
	uint64_t spi_i, spi_r;
	bool initiator;
	enum aead_id aead;
	enum prf_id prf;
	enum kex_id kex[IKE_KEX_MAX];
	wtime created, rekey_at;
};

enum { IKE_STATUS_CHILDREN = 8 };

struct ike_conn_status {
	enum ike_state state;
	bool admin_down;
	bool behind_nat; /* the peer: its NAT detection hash did not match, and it was not
	                  * the zero-port form that peers send to force encapsulation */
	char reason[IKE_REASON_TEXT]; /* why it is not up; "" when it is */
	bool has_sa;
	struct ike_sa_info sa;    /* the SA in use */
	unsigned int sa_count;    /* IKE SAs alive, the one in use among them */
	unsigned int child_count; /* children alive, also beyond the array */
	struct ike_child_info children[IKE_STATUS_CHILDREN]; /* newest first */
	uint32_t outbound_child; /* of the last CHILD_OUTBOUND, until its CHILD_DOWN; 0: none */
};

/* -ENOENT or 0. */
int ike_conn_status(const struct ike *ike, uint32_t id, struct ike_conn_status *ret);

/* Counted reasons for which a datagram or message was not acted on. */
#define IKE_DROPS(X)                                                                               \
	X(TRUNCATED, "ike-truncated")                                                              \
	X(MALFORMED, "ike-malformed")                                                              \
	X(VERSION, "ike-version")                                                                  \
	X(UNKNOWN_SPI, "ike-unknown-spi")                                                          \
	X(NOT_AUTHENTIC, "ike-not-authentic")                                                      \
	X(OLD_MESSAGE, "ike-old-message")                                                          \
	X(WINDOW, "ike-outside-window")                                                            \
	X(FRAGMENT, "ike-bad-fragment")                                                            \
	X(HALF_OPEN_LIMIT, "ike-half-open-limit")                                                  \
	X(BAD_COOKIE, "ike-bad-cookie")                                                            \
	X(UNEXPECTED, "ike-unexpected-exchange")                                                   \
	X(NO_MEMORY, "ike-no-memory")

enum ike_drop {
#define X(id, name) IKE_DROP_##id,
	IKE_DROPS(X)
#undef X
		IKE_DROP_COUNT
};

const char *ike_drop_name(enum ike_drop d);

struct ike_stats {
	uint64_t drops[IKE_DROP_COUNT];
	uint64_t handshakes_ok,
		handshakes_failed; /* IKE SAs established and attempts that failed */
	uint32_t half_open;
	uint32_t sas;
	bool cookies_on;
};

void ike_stats(const struct ike *ike, struct ike_stats *ret);
