/* What a finished CREATE_CHILD_SA negotiation does: a new child, a child in place of another, a new
 * IKE SA. Collisions of rekeys are ended by the nonces. RFC 7296 2.8, 2.8.1, 2.8.2, 2.18, 2.25; RFC
 * 9370 2.2.4.
 *
 * Nothing is lost when the sending side moves: the initiator of a rekey sends on the new child as
 * soon as the answer is there; the responder when the next request (the DELETE of the old child, as
 * a rule) shows that the answer has arrived, or much later. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"

#define RETRY_MIN     (2 * W_SEC) /* after TEMPORARY_FAILURE: RFC 7296 2.25 says wait */
#define RETRY_SPREAD  (3 * W_SEC)
#define RETRY_REFUSED (30 * W_SEC) /* after an error that will stay */

/* ---- Nonces ---- */
int ike_nonce_compare(const struct ike_nonce *a, const struct ike_nonce *b)
{
	int c = memcmp(a->b, b->b, a->n < b->n ? a->n : b->n);

	return c ? c : (a->n > b->n) - (a->n < b->n);
}

const struct ike_nonce *ike_neg_low(const struct ike_neg *neg)
{
	return ike_nonce_compare(&neg->ni, &neg->nr) < 0 ? &neg->ni : &neg->nr;
}

void ike_neg_note_peer(struct ike_sa *sa, const struct ike_neg *neg)
{
	struct ike_child *old;

	if (neg->kind == IKE_NEG_IKE_REKEY) {
		sa->has_peer_low = true;
		sa->peer_low = *ike_neg_low(neg);
	}
	old = neg->kind == IKE_NEG_CHILD_REKEY ? ike_child_find(sa->conn, neg->old_child) : NULL;
	if (old) {
		old->has_peer_low = true;
		old->peer_low = *ike_neg_low(neg);
	}
}

static wtime retry_time(struct ike *ike, int64_t min, wtime now)
{
	return wtime_add(now, min + ike_jitter(ike, RETRY_SPREAD));
}

static void child_rekey_again(struct ike_child *c, int64_t min, wtime now)
{
	if (c->state != IKE_CHILD_UP || c->redundant)
		return;
	c->rekey_at = retry_time(c->conn->ike, min, now);
	ike_conn_wake(c->conn, c->rekey_at);
}

static void ike_rekey_again(struct ike_sa *sa, int64_t min, wtime now)
{
	if (sa->state != IKE_SA_UP)
		return;
	sa->rekey_at = retry_time(sa->ike, min, now);
	ike_sa_wake(sa, sa->rekey_at);
}

void ike_neg_forget_peer(struct ike_sa *sa, const struct ike_neg *neg, wtime now)
{
	struct ike_child *old;

	if (neg->kind == IKE_NEG_IKE_REKEY) {
		sa->has_peer_low = false;
		if (sa->rekey_at.us == WTIME_NEVER.us &&
			!ike_sa_has_task(sa, IKE_TASK_IKE_REKEY, 0))
			ike_rekey_again(sa, 0, now);
	}
	old = neg->kind == IKE_NEG_CHILD_REKEY ? ike_child_find(sa->conn, neg->old_child) : NULL;
	if (!old)
		return;
	old->has_peer_low = false;
	if (old->rekey_at.us == WTIME_NEVER.us &&
		!ike_sa_has_task(sa, IKE_TASK_CHILD_REKEY, neg->old_child))
		child_rekey_again(old, 0, now);
}

bool ike_neg_lost(struct ike_sa *sa, const struct ike_neg *neg)
{
	const struct ike_child *old;

	if (neg->kind == IKE_NEG_IKE_REKEY)
		return sa->has_peer_low && ike_nonce_compare(ike_neg_low(neg), &sa->peer_low) < 0;
	if (neg->kind != IKE_NEG_CHILD_REKEY)
		return false;
	old = ike_child_find(sa->conn, neg->old_child);
	return old && old->has_peer_low && ike_nonce_compare(ike_neg_low(neg), &old->peer_low) < 0;
}

/* ---- Children ---- */
static unsigned int neg_shared(const struct ike_neg *neg, struct view ret[static IKE_KEX_MAX])
{
	for (unsigned int i = 0; i < neg->round; i++)
		ret[i] = view_of(neg->secret[i], neg->secret_len[i]);
	return neg->round;
}

static int neg_child(struct ike_sa *sa, const struct ike_neg *neg, wtime now,
	struct ike_child **ret)
{
	struct view shared[IKE_KEX_MAX];
	const struct ike_child_new n = {.sa = sa,
		.aead = neg->aead,
		.esn = neg->esn,
		.spi_in = neg->spi_in,
		.spi_out = neg->spi_out,
		.kex = neg->kex,
		.kex_count = neg->kex_count,
		.shared = shared,
		.shared_count = neg_shared(neg, shared),
		.ni = ike_nonce_view(&neg->ni),
		.nr = ike_nonce_view(&neg->nr),
		.initiator = neg->initiator};

	return ike_child_make(&n, now, ret);
}

/* A child lost a collision. Who made it deletes it; after so much patience (us) we do anyway. */
static void child_retire(struct ike_child *c, int64_t patience, wtime now)
{
	c->redundant = true;
	c->expire_at = wtime_add(now, patience);
	ike_conn_wake(c->conn, c->expire_at);
}

/* Our rekey is complete, and perhaps the peer's of the same child. */
static void child_rekeyed_by_us(struct ike_child *c, struct ike_child *old, bool lost, wtime now)
{
	struct ike_child *peers = old ? ike_child_find(c->conn, old->peer_child) : NULL;

	if (lost) { /* RFC 7296 2.8.1: closed by the endpoint that created it */
		c->redundant = true;
		ike_child_delete(c, now);
		return;
	}
	if (peers && peers->state == IKE_CHILD_UP)
		child_retire(peers, IKE_TIME_REPLACED, now);
	ike_child_outbound(c, now);
	if (old)
		ike_child_delete(old, now);
}

static void child_rekeyed_by_peer(struct ike_child *c, struct ike_child *old, wtime now)
{
	if (old && (old->state == IKE_CHILD_UP || old->state == IKE_CHILD_REPLACED)) {
		old->state = IKE_CHILD_REPLACED;
		old->peer_child = c->info.child;
		old->expire_at = wtime_add(now, IKE_TIME_REPLACED);
		ike_conn_wake(c->conn, old->expire_at);
	}
	ike_child_outbound_later(c, wtime_add(now, IKE_TIME_OUTBOUND));
}

/* The child that the other end asked for while c was asked for by this one, or the other way: two
 * requests that cross are answered within the life of one. What is older than that was there when
 * the peer asked for c beside it. */
static struct ike_child *child_crossing(const struct ike_child *c)
{
	list_for_each (it, &c->conn->children) {
		struct ike_child *o = container_of(it, struct ike_child, node);

		if (o->asked && o->ours != c->ours && o->state == IKE_CHILD_UP && !o->redundant &&
			wtime_diff(c->info.created, o->info.created) <= IKE_TIME_PATIENCE)
			return o;
	}
	return NULL;
}

/* A child that was asked for because there was none. Where both ends asked at the same time there
 * are two now, and both would be rekeyed for ever. One ends by the rule for rekeys, that of the
 * lowest nonce, by the endpoint that created it (RFC 7296 2.8.1). If we did, and answer the other
 * one's request now, ours is sent on until the peer must have that answer. */
static void child_asked(struct ike_child *c, const struct ike_neg *neg, wtime now)
{
	struct ike_child *o;
	bool lost;

	c->asked = true;
	c->ours = neg->initiator;
	c->made_low = *ike_neg_low(neg);
	o = child_crossing(c);
	lost = o && ike_nonce_compare(&c->made_low, &o->made_low) < 0;
	if (lost && c->ours) {
		c->redundant = true;
		ike_child_delete(c, now);
		return;
	}
	if (lost) {
		child_retire(c, IKE_TIME_REPLACED, now);
		return;
	}
	if (o)
		child_retire(o, o->ours ? IKE_TIME_OUTBOUND : IKE_TIME_REPLACED, now);
	if (c->ours)
		ike_child_outbound(c, now);
	else
		ike_child_outbound_later(c, wtime_add(now, IKE_TIME_OUTBOUND));
}

static bool was_early_deleted(struct ike_sa *sa, uint32_t spi)
{
	bool found = false;

	for (unsigned int i = 0; i < IKE_EARLY_MAX; i++) {
		found = found || (sa->early_deleted[i] && sa->early_deleted[i] == spi);
		sa->early_deleted[i] = 0;
	}
	return found;
}

static int complete_child(struct ike_sa *sa, struct ike_neg *neg, wtime now)
{
	struct ike_child *c, *old = ike_child_find(sa->conn, neg->old_child);
	bool lost;
	int err;

	if (neg->initiator && was_early_deleted(sa, neg->spi_out)) {
		ike_child_want(sa->conn, 0, now);
		return 0;
	}
	lost = neg->initiator && ike_neg_lost(sa, neg);
	err = neg_child(sa, neg, now, &c);
	if (err < 0)
		return err;
	c->confirmed = neg->initiator;
	if (neg->kind == IKE_NEG_CHILD_REKEY && neg->initiator)
		child_rekeyed_by_us(c, old, lost, now);
	else if (neg->kind == IKE_NEG_CHILD_REKEY)
		child_rekeyed_by_peer(c, old, now);
	else
		child_asked(c, neg, now);
	return 0;
}

/* ---- IKE SAs ---- */
static int rekeyed_keys(const struct ike_sa *sa, const struct ike_neg *neg, struct ike_sa *fresh)
{
	const struct ike_seed seed = {.ni = ike_nonce_view(&neg->ni),
		.nr = ike_nonce_view(&neg->nr),
		.spi_i = neg->spi_i,
		.spi_r = neg->spi_r};
	struct view shared[IKE_KEX_MAX];
	unsigned int n = neg_shared(neg, shared);
	int err;

	fresh->keys.aead = neg->aead;
	fresh->keys.prf = neg->prf;
	err = ike_keys_rekey(&fresh->keys, &sa->keys, shared, n, &seed, NULL);
	return err < 0 ? err : ike_sa_protect(fresh);
}

/* The new SA, up, with message IDs from 0 (RFC 7296 2.18); not in use yet. */
static int rekeyed_sa(struct ike_sa *sa, const struct ike_neg *neg, wtime now, struct ike_sa **ret)
{
	struct ike_sa *fresh;
	int err = ike_sa_new(sa->ike, sa->conn, neg->spi_i, neg->spi_r, neg->initiator, &fresh);

	if (err < 0)
		return err;
	fresh->state = IKE_SA_UP;
	fresh->local = sa->local;
	fresh->remote = sa->remote;
	fresh->fragments = sa->fragments;
	fresh->started = fresh->established = fresh->heard = now;
	fresh->origin_ours = sa->origin_ours;
	fresh->origin_started = sa->origin_started;
	fresh->origin_established = sa->origin_established;
	fresh->loser = sa->loser; /* and ends when that would have ended */
	fresh->cleanup_at = sa->loser ? sa->cleanup_at : WTIME_NEVER;
	fresh->confirmed = true;
	memcpy(fresh->kex, neg->kex, sizeof(fresh->kex));
	fresh->kex_count = neg->kex_count;
	err = rekeyed_keys(sa, neg, fresh);
	if (err < 0) {
		ike_sa_kill(fresh);
		return err;
	}
	ike_sa_lifetime(fresh, now);
	ike_sa_wake(fresh, now); /* for what else it has to wait for */
	*ret = fresh;
	return 0;
}

static void move_queue(struct ike_sa *from, struct ike_sa *to)
{
	list_for_each_safe (it, &from->queue) {
		struct ike_task *t = container_of(it, struct ike_task, node);

		if (t->type == IKE_TASK_CHILD_NEW || t->type == IKE_TASK_CHILD_REKEY ||
			t->type == IKE_TASK_CHILD_DELETE) {
			list_del(&t->node);
			list_add_tail(&to->queue, &t->node);
		}
	}
}

/* What is out about a child may stay without an answer, as after a lost collision of IKE rekeys: it
 * is done again on the other SA, later, unless the answer comes after all. */
static void renew_active(struct ike_sa *from, struct ike_sa *to, wtime now)
{
	const struct ike_task *t = from->active;
	struct ike_child *c;

	if (!t)
		return;
	if (t->type == IKE_TASK_CHILD_DELETE) {
		ike_sa_queue(to, IKE_TASK_CHILD_DELETE, t->child);
	} else if (t->neg && t->neg->kind == IKE_NEG_CHILD_REKEY) {
		c = ike_child_find(from->conn, t->neg->old_child);
		if (c)
			child_rekey_again(c, RETRY_MIN, now);
	} else if (t->neg && t->neg->kind == IKE_NEG_CHILD_NEW) {
		ike_child_want(from->conn, RETRY_MIN, now);
	}
}

void ike_sa_take_over(struct ike_sa *from, struct ike_sa *to, wtime now)
{
	struct ike_conn *conn = from->conn;

	ike_child_move(conn, from, to);
	move_queue(from, to);
	renew_active(from, to, now);
	if (conn->sa == from) {
		conn->sa = to;
		ike_conn_say_up(conn, false);
	}
}

static void ike_rekeyed_by_us(struct ike_sa *sa, struct ike_sa *fresh, bool lost, wtime now)
{
	struct ike_sa *peers = sa->has_peer_low ? ike_sa_find(sa->ike, sa->successor) : NULL;

	if (lost) {
		ike_sa_delete(fresh, now);
		return;
	}
	if (peers && peers->conn == sa->conn) { /* RFC 7296 2.8.2: ours inherits the children */
		ike_sa_take_over(peers, fresh, now);
		peers->loser = true;
		peers->cleanup_at = wtime_add(now, IKE_TIME_REPLACED);
		ike_sa_wake(peers, peers->cleanup_at);
	}
	ike_sa_take_over(sa, fresh, now);
	ike_sa_delete(sa, now);
	ike_sa_run(fresh, now);
}

static void ike_rekeyed_by_peer(struct ike_sa *sa, struct ike_sa *fresh, wtime now)
{
	sa->successor = ike_sa_own_spi(fresh);
	ike_sa_take_over(sa, fresh, now);
	sa->state = IKE_SA_REKEYED;
	sa->rekey_at = sa->expire_at = WTIME_NEVER;
	sa->cleanup_at = wtime_add(now, IKE_TIME_REPLACED);
	ike_sa_wake(sa, sa->cleanup_at);
}

static int complete_ike(struct ike_sa *sa, struct ike_neg *neg, wtime now)
{
	bool lost = neg->initiator && ike_neg_lost(sa, neg);
	struct ike_sa *fresh;
	int err = rekeyed_sa(sa, neg, now, &fresh);

	if (err < 0)
		return err;
	if (neg->initiator)
		ike_rekeyed_by_us(sa, fresh, lost, now);
	else
		ike_rekeyed_by_peer(sa, fresh, now);
	return 0;
}

int ike_neg_complete(struct ike_sa *sa, struct ike_neg *neg, wtime now)
{
	return neg->kind == IKE_NEG_IKE_REKEY ? complete_ike(sa, neg, now)
					      : complete_child(sa, neg, now);
}

/* ---- Failure ---- */
/* The peer does without key exchanges in children: try that form, if we may. */
static bool retry_plain(struct ike_sa *sa, const struct ike_task *t)
{
	struct ike_task *again;

	if (t->type == IKE_TASK_IKE_REKEY || t->plain || sa->conn->no_child_kex ||
		t->neg->kind == IKE_NEG_IKE_REKEY || sa->conn->c.post_quantum == IKE_PQ_REQUIRE)
		return false;
	again = ike_task_new(t->neg->kind == IKE_NEG_CHILD_REKEY ? IKE_TASK_CHILD_REKEY
								 : IKE_TASK_CHILD_NEW,
		t->child);
	if (!again)
		return false;
	sa->conn->no_child_kex = true;
	again->plain = true;
	ike_sa_queue_first(sa, again);
	return true;
}

static void child_rekey_failed(struct ike_sa *sa, const struct ike_neg *neg, uint16_t type,
	wtime now)
{
	struct ike_child *c = ike_child_find(sa->conn, neg->old_child);

	if (!c || c->state != IKE_CHILD_UP)
		return;                       /* the peer's rekey has won, or it is gone */
	if (type == IKE_N_CHILD_SA_NOT_FOUND) /* RFC 7296 2.25 */
		ike_child_gone(c, now);
	else if (type == IKE_N_TEMPORARY_FAILURE || type == IKE_N_STATE_NOT_FOUND)
		child_rekey_again(c, RETRY_MIN, now);
	else
		child_rekey_again(c, RETRY_REFUSED, now);
}

void ike_neg_failed(struct ike_sa *sa, struct ike_task *t, uint16_t type, wtime now)
{
	const struct ike_neg *neg = t->neg;

	memset(sa->early_deleted, 0, sizeof(sa->early_deleted));
	if (!neg)
		return;
	if (type == IKE_N_TEMPORARY_FAILURE && ++sa->temporary > IKE_TEMPORARY_MAX) {
		ike_sa_expire(sa, now); /* RFC 7296 2.25: out of step for minutes */
		return;
	}
	if (type == IKE_N_NO_PROPOSAL_CHOSEN && retry_plain(sa, t))
		return;
	if (type == IKE_N_NO_PROPOSAL_CHOSEN && sa->conn->c.post_quantum == IKE_PQ_REQUIRE)
		ike_emit_reason(sa->conn, IKE_EVENT_FAILED, IKE_CLASSIC_REFUSED);
	switch (neg->kind) {
	case IKE_NEG_IKE_REKEY:
		ike_rekey_again(sa,
			type == IKE_N_TEMPORARY_FAILURE || type == IKE_N_STATE_NOT_FOUND
				? RETRY_MIN
				: RETRY_REFUSED,
			now);
		break;
	case IKE_NEG_CHILD_REKEY:
		child_rekey_failed(sa, neg, type, now);
		break;
	case IKE_NEG_CHILD_NEW:
		sa->conn->child_fails++;
		ike_child_want(sa->conn, 0, now);
		break;
	}
}
