/* What a connection does by itself: it tries for ever with growing pauses, settles crossing initial
 * exchanges and replaced SAs, and goes on when an SA is lost.
 *
 * Crossing initial exchanges (RFC 7296 has no rule for them): two SAs cross when the later one's
 * IKE_SA_INIT reached an end before the earlier one was up there. Then the SA whose initiator has
 * the lower identity wins, at both ends. Otherwise the newer SA wins: its initiator had lost the
 * older one, or judged it dead. The initiator of the loser deletes it, in a crossing after a short
 * time in which both receive; the other end does so only when that does not happen soon: there are
 * peers without this rule. */
#include "ike/sa_priv.h"

#include <errno.h>
#include <stdio.h>

enum { BACKOFF_SHIFT_MAX = 6, BACKOFF_JITTER_DIV = 4 };

#define BACKOFF_FIRST (1 * W_SEC)
#define SOON          (10 * W_MS)

void ike_conn_wake(struct ike_conn *conn, wtime at)
{
	ike_timer_wake(conn->ike, &conn->timer, at);
}

static void conn_reason(struct ike_conn *conn, const char *reason)
{
	snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
}

/* ---- Trying ---- */
static void conn_back_off(struct ike_conn *conn, wtime now)
{
	unsigned int shift = conn->fails > 0 ? conn->fails - 1 : 0;
	int64_t pause;

	if (shift > BACKOFF_SHIFT_MAX)
		shift = BACKOFF_SHIFT_MAX;
	pause = BACKOFF_FIRST << shift;
	if (pause > IKE_TIME_BACKOFF_MAX)
		pause = IKE_TIME_BACKOFF_MAX;
	pause -= ike_jitter(conn->ike, pause / BACKOFF_JITTER_DIV);
	conn->retry_at = wtime_add(now, pause);
	ike_conn_wake(conn, conn->retry_at);
}

static bool conn_may_try(const struct ike_conn *conn)
{
	return !conn->admin_down && conn->c.initiate && conn->c.remote.ip.family != IP_NONE;
}

void ike_conn_start(struct ike_conn *conn, wtime now)
{
	if (conn->attempt)
		return;
	conn->retry_at = WTIME_NEVER;
	if (ike_init_start(conn, now) == 0)
		return;
	ike_drop_count(conn->ike, IKE_DROP_NO_MEMORY);
	conn->fails++;
	conn_back_off(conn, now);
}

void ike_conn_begin(struct ike_conn *conn, wtime now)
{
	conn->trying_since = now;
	conn->fails = 0;
	if (conn_may_try(conn))
		ike_conn_start(conn, now);
}

void ike_conn_suspect(struct ike_conn *conn, wtime now)
{
	if (!conn->attempt)
		ike_conn_begin(conn, now);
}

void ike_conn_attempt_failed(struct ike_sa *sa, const char *reason, wtime now)
{
	struct ike_conn *conn = sa->conn;

	ike_sa_kill(sa);
	conn->ike->stats.handshakes_failed++;
	conn->fails++;
	if (conn->sa)
		return; /* it was only made beside one that lives */
	conn_reason(conn, reason);
	ike_emit_reason(conn, IKE_EVENT_FAILED, reason);
	if (conn_may_try(conn))
		conn_back_off(conn, now);
}

/* ---- Settling ---- */
static int view_order(struct view a, struct view b)
{
	int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* Whether `fresh`, just up, wins against another one that is up. */
static bool fresh_wins(const struct ike_sa *fresh, const struct ike_sa *other, bool crossing)
{
	const struct ike_conn_config *c = &fresh->conn->c;
	bool we_are_lower = view_order(c->local_id, c->remote_id) < 0;

	if (!crossing || fresh->origin_ours == other->origin_ours)
		return true;
	return fresh->origin_ours == we_are_lower;
}

static void sa_loses(struct ike_sa *loser, bool ours_to_delete, wtime now)
{
	loser->loser = true;
	loser->cleanup_at = wtime_add(now,
		ours_to_delete ? IKE_TIME_CROSSING : IKE_TIME_LOSER_PEER);
	ike_sa_wake(loser, loser->cleanup_at);
}

/* Whether the initial exchanges of two SAs crossed. */
static bool sas_crossed(const struct ike_sa *fresh, const struct ike_sa *other)
{
	return wtime_before(fresh->origin_started, other->origin_established);
}

static bool sa_is_rival(const struct ike_sa *fresh, const struct ike_sa *other)
{
	return other != fresh && other->state == IKE_SA_UP && !other->loser;
}

static bool conn_fresh_wins(const struct ike_sa *fresh)
{
	list_for_each (it, &fresh->conn->sas) {
		const struct ike_sa *other = container_of(it, struct ike_sa, node);

		if (sa_is_rival(fresh, other) &&
			!fresh_wins(fresh, other, sas_crossed(fresh, other)))
			return false;
	}
	return true;
}

static void conn_settle(struct ike_sa *fresh, bool wins, bool initial_contact, wtime now)
{
	list_for_each_safe (it, &fresh->conn->sas) {
		struct ike_sa *other = container_of(it, struct ike_sa, node);
		bool crossed;

		if (!sa_is_rival(fresh, other))
			continue;
		crossed = sas_crossed(fresh, other);
		if (!crossed && initial_contact) /* RFC 7296 2.4: older ones go without a word */
			ike_conn_sa_lost(other, "peer has started anew", now);
		else if (!crossed)
			sa_loses(other, fresh->origin_ours, now);
		else if (wins)
			sa_loses(other, other->origin_ours, now);
	}
	if (!wins)
		sa_loses(fresh, fresh->origin_ours, now);
}

void ike_conn_say_up(struct ike_conn *conn, bool anew)
{
	struct ike_event *e = ike_emit(conn, IKE_EVENT_UP);

	conn->was_up = true;
	conn->reason[0] = '\0';
	if (e) {
		e->anew = anew;
		e->local = conn->sa->local;
		e->remote = conn->sa->remote;
	}
}

void ike_conn_say_down(struct ike_conn *conn, const char *reason)
{
	conn->sa = NULL;
	conn_reason(conn, reason);
	if (conn->was_up)
		ike_emit_reason(conn, IKE_EVENT_DOWN, reason);
	conn->was_up = false;
}

void ike_conn_sa_up(struct ike_sa *sa, bool initial_contact, wtime now)
{
	struct ike_conn *conn = sa->conn;
	struct ike_sa *attempt = conn->attempt;
	bool wins;

	ike_sa_init_done(sa);
	ike_sa_tell_spi(sa, true);
	sa->state = IKE_SA_UP;
	sa->established = sa->origin_established = sa->heard = now;
	sa->expire_at = WTIME_NEVER;
	ike_sa_lifetime(sa, now);
	conn->ike->stats.handshakes_ok++;
	if (attempt == sa)
		conn->attempt = NULL;
	else if (attempt && !attempt->hs->auth_sent)
		ike_sa_kill(attempt); /* the peer knows nothing of it that would last */
	conn->retry_at = WTIME_NEVER;
	wins = conn_fresh_wins(sa);
	if (wins)
		conn->sa = sa;
	conn_settle(sa, wins, initial_contact, now);
	if (!wins)
		return;
	conn->no_child_kex = false;
	if (!sa->origin_ours)
		conn->behind_nat = sa->peer_behind_nat;
	ike_conn_say_up(conn, initial_contact);
}

/* ---- Losing ---- */
static struct ike_sa *conn_other_sa(const struct ike_conn *conn, const struct ike_sa *not_this)
{
	struct ike_sa *best = NULL;

	list_for_each (it, &conn->sas) {
		struct ike_sa *sa = container_of(it, struct ike_sa, node);

		if (sa != not_this && sa->state == IKE_SA_UP)
			best = sa; /* the list is in order of their making */
	}
	return best;
}

static void sa_drop_children(struct ike_conn *conn, const struct ike_sa *sa, bool at_once,
	wtime now)
{
	list_for_each_safe (it, &conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		if (at_once && (c->sa == sa || !c->sa))
			ike_child_remove(c);
		else if (c->sa == sa)
			ike_child_gone(c, now);
	}
}

/* The connection has no SA any more. One that did not last long counts as a failed attempt, so that
 * two ends which undo each other's work do not do it at full speed. */
static void conn_is_down(struct ike_conn *conn, wtime established, const char *reason, wtime now)
{
	conn->child_retry_at = WTIME_NEVER;
	ike_conn_say_down(conn, reason);
	if (!conn_may_try(conn) || conn->attempt)
		return;
	if (wtime_diff(now, established) >= IKE_TIME_STABLE) {
		ike_conn_begin(conn, now);
		return;
	}
	conn->trying_since = now;
	conn->fails++;
	conn_back_off(conn, now);
}

void ike_conn_sa_lost(struct ike_sa *sa, const char *reason, wtime now)
{
	struct ike_conn *conn = sa->conn;
	struct ike_sa *next = conn_other_sa(conn, sa);
	wtime established = sa->established;
	bool used = conn->sa == sa;

	sa_drop_children(conn, sa, used && !next, now);
	ike_sa_kill(sa);
	if (!used)
		return;
	if (!next) {
		conn_is_down(conn, established, reason, now);
		return;
	}
	conn->sa = next;
	next->loser = false;
	next->cleanup_at = WTIME_NEVER;
	ike_child_pick_outbound(conn, now);
	ike_child_want(conn, 0, now);
	ike_conn_say_up(conn, false);
}

void ike_sa_expire(struct ike_sa *sa, wtime now)
{
	struct ike_build b;

	ike_build_begin_inner(&b);
	ike_build_delete(&b, NULL, 0);
	if (sa->state == IKE_SA_UP || sa->state == IKE_SA_REKEYED)
		ike_sa_send_once(sa, &b);
	ike_build_free(&b);
	ike_conn_sa_lost(sa, "the IKE SA's lifetime is over", now);
}

/* ---- Time ---- */
void ike_conn_tick(struct ike_conn *conn, wtime now)
{
	wtime next;

	if (wtime_due(conn->retry_at, now)) {
		conn->retry_at = WTIME_NEVER;
		if (!conn->sa && conn_may_try(conn))
			ike_conn_start(conn, now);
	}
	ike_child_tick(conn, now);
	next = wtime_min(conn->retry_at, ike_child_next_time(conn));
	if (wtime_due(next, now))
		next = wtime_add(now, SOON);
	ike_conn_wake(conn, next);
}
