/* Child SAs: their making, which of them is sent on, their times and their end. RFC 7296 2.8, 2.9,
 * 2.17, 1.4.1. The exchanges that make and rekey them are in auth.c, create.c and rekey.c. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"

enum { JITTER_DIV = 10, ESP_SPI_RESERVED = 255, CHILD_FAILS_SHIFT_MAX = 6, TS_MAX = 255 };

#define CHILD_RETRY    (1 * W_SEC)
#define REKEY_POSTPONE (5 * W_SEC)

/* ---- Look-up ---- */
static struct ike_child *child_by_spi_in(const struct ike *ike, uint32_t spi)
{
	struct hash_node *n = hash_find(&ike->by_child, &spi, sizeof(spi));

	for (; n; n = hash_next(n)) {
		struct ike_child *c = container_of(n, struct ike_child, by_spi);

		if (c->info.spi_in == spi)
			return c;
	}
	return NULL;
}

int ike_child_spi_new(const struct ike_conn *conn, uint32_t *ret)
{
	uint32_t classes = conn->c.spi_classes, spi;
	struct ike *ike = conn->ike;

	do {
		int err = rng_fill(&ike->config.rng, &spi, sizeof(spi));

		if (err < 0)
			return err;
		if (classes > 1)
			spi = spi - spi % classes + conn->c.spi_class; /* may wrap round to few */
	} while (spi <= ESP_SPI_RESERVED || (classes > 1 && spi % classes != conn->c.spi_class) ||
		child_by_spi_in(ike, spi));
	*ret = spi;
	return 0;
}

struct ike_child *ike_child_find(const struct ike_conn *conn, uint32_t handle)
{
	list_for_each (it, &conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		if (handle && c->info.child == handle)
			return c;
	}
	return NULL;
}

struct ike_child *ike_child_by_spi_out(const struct ike_conn *conn, uint32_t spi)
{
	list_for_each (it, &conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		if (c->info.spi_out == spi && c->state != IKE_CHILD_GONE)
			return c;
	}
	return NULL;
}

/* How fit a child is for sending; 0: not at all. */
static int child_rank(const struct ike_child *c)
{
	if (!c->sa || (c->state != IKE_CHILD_UP && c->state != IKE_CHILD_REPLACED))
		return 0;
	if (c->state == IKE_CHILD_REPLACED || c->redundant)
		return 1;
	return c->sa == c->conn->sa ? 3 : 2;
}

struct ike_child *ike_child_newest(const struct ike_conn *conn)
{
	struct ike_child *best = NULL;

	list_for_each (it, &conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		if (child_rank(c) > (best ? child_rank(best) : 0))
			best = c;
	}
	return best;
}

/* ---- Making ---- */
static int child_keys(const struct ike_child_new *n, struct ike_child_keys *ret)
{
	const struct ike_seed seed = {.ni = n->ni,
		.nr = n->nr,
		.spi_i = n->sa->spi_i,
		.spi_r = n->sa->spi_r};

	ret->aead = n->aead;
	return ike_child_keymat(&n->sa->keys, n->shared, n->shared_count, &seed, n->initiator, ret);
}

static int child_emit_up(struct ike_child *c, const struct ike_child_new *n)
{
	struct ike_child_keys keys;
	struct ike_event *e;
	int err = child_keys(n, &keys);

	if (err < 0)
		return err;
	e = ike_emit(c->conn, IKE_EVENT_CHILD_UP);
	if (e) {
		e->child = c->info;
		e->keys = keys;
		e->local = n->sa->local;
		e->remote = n->sa->remote;
	}
	w_zeroize(&keys, sizeof(keys));
	return e ? 0 : -ENOMEM;
}

static void child_fill(struct ike_child *c, const struct ike_child_new *n, wtime now)
{
	struct ike *ike = n->sa->ike;
	int64_t life = n->sa->conn->c.child_lifetime_us;

	c->conn = n->sa->conn;
	c->sa = n->sa;
	c->confirmed = true; /* in IKE_AUTH: without our answer the peer has no SA to ask on */
	c->rekey_at = wtime_add(now, life - ike_jitter(ike, life / JITTER_DIV));
	c->expire_at = wtime_add(now, life + ike_grace(life));
	c->down_at = WTIME_NEVER;
	c->info = (struct ike_child_info){.child = ike->next_child++,
		.spi_in = n->spi_in,
		.spi_out = n->spi_out,
		.aead = n->aead,
		.esn = n->esn,
		.created = now,
		.rekey_at = c->rekey_at};
	if (!ike->next_child)
		ike->next_child = 1;
	for (unsigned int i = 0; i < n->kex_count && i < IKE_KEX_MAX; i++)
		c->info.kex[i] = n->kex[i];
}

int ike_child_make(const struct ike_child_new *n, wtime now, struct ike_child **ret)
{
	struct ike *ike = n->sa->ike;
	struct ike_child *c;
	int err;

	if (child_by_spi_in(ike, n->spi_in))
		return -EEXIST;
	c = w_calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	child_fill(c, n, now);
	err = hash_add(&ike->by_child, &c->by_spi, &n->spi_in, sizeof(n->spi_in));
	if (err < 0) {
		w_free(c);
		return err;
	}
	list_add_head(&c->conn->children, &c->node);
	err = child_emit_up(c, n);
	if (err < 0) {
		ike_child_free(c);
		return err;
	}
	c->conn->child_fails = 0;
	c->conn->child_retry_at = WTIME_NEVER;
	ike_conn_wake(c->conn, c->rekey_at);
	*ret = c;
	return 0;
}

/* ---- Which one is sent on ---- */
static void child_emit(const struct ike_child *c, enum ike_event_type type)
{
	struct ike_event *e = ike_emit(c->conn, type);

	if (e)
		e->child = c->info;
}

void ike_child_outbound(struct ike_child *child, wtime now)
{
	struct ike_conn *conn = child->conn;

	(void)now;
	conn->outbound_next = 0;
	conn->outbound_at = WTIME_NEVER;
	if (conn->outbound == child->info.child)
		return;
	conn->outbound = conn->told_outbound = child->info.child;
	child_emit(child, IKE_EVENT_CHILD_OUTBOUND);
}

void ike_child_outbound_later(struct ike_child *child, wtime at)
{
	struct ike_conn *conn = child->conn;

	if (!conn->outbound) {
		ike_child_outbound(child, at);
		return;
	}
	conn->outbound_next = child->info.child;
	conn->outbound_at = at;
	ike_conn_wake(conn, at);
}

void ike_child_confirmed(struct ike_sa *sa, wtime now)
{
	struct ike_child *next;

	if (!sa->conn)
		return;
	list_for_each (it, &sa->conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		c->confirmed = c->confirmed || c->sa == sa;
	}
	next = ike_child_find(sa->conn, sa->conn->outbound_next);
	if (next && next->sa == sa && child_rank(next) >= 2)
		ike_child_outbound(next, now);
}

void ike_child_pick_outbound(struct ike_conn *conn, wtime now)
{
	struct ike_child *next = ike_child_find(conn, conn->outbound_next);

	if (!next || child_rank(next) < 2)
		next = ike_child_newest(conn);
	if (next)
		ike_child_outbound(next, now);
	else
		conn->outbound = conn->outbound_next = 0;
}

/* ---- The end ---- */
void ike_child_free(struct ike_child *child)
{
	hash_del(&child->conn->ike->by_child, &child->by_spi);
	list_del(&child->node);
	w_free_secret(child, sizeof(*child));
}

static void child_forget_outbound(struct ike_child *c)
{
	if (c->conn->outbound == c->info.child)
		c->conn->outbound = 0;
	if (c->conn->outbound_next == c->info.child) {
		c->conn->outbound_next = 0;
		c->conn->outbound_at = WTIME_NEVER;
	}
}

void ike_child_remove(struct ike_child *child)
{
	child_emit(child, IKE_EVENT_CHILD_DOWN);
	child_forget_outbound(child);
	if (child->conn->told_outbound == child->info.child)
		child->conn->told_outbound = 0;
	ike_child_free(child);
}

void ike_child_gone(struct ike_child *child, wtime now)
{
	struct ike_conn *conn = child->conn;

	if (child->state == IKE_CHILD_GONE)
		return;
	child->state = IKE_CHILD_GONE;
	child->sa = NULL;
	child->down_at = wtime_add(now, IKE_TIME_LINGER);
	ike_conn_wake(conn, child->down_at);
	child_forget_outbound(child);
	if (!conn->outbound)
		ike_child_pick_outbound(conn, now);
	ike_child_want(conn, 0, now);
}

void ike_child_delete(struct ike_child *child, wtime now)
{
	struct ike_conn *conn = child->conn;

	if (child->state == IKE_CHILD_GONE || child->state == IKE_CHILD_DELETING)
		return;
	if (!child->sa || child->sa->state != IKE_SA_UP ||
		ike_sa_queue(child->sa, IKE_TASK_CHILD_DELETE, child->info.child) < 0) {
		ike_child_gone(child, now);
		return;
	}
	child->state = IKE_CHILD_DELETING;
	child->expire_at = WTIME_NEVER;
	ike_sa_wake(child->sa, now);
	if (conn->outbound == child->info.child)
		ike_child_pick_outbound(conn, now);
}

void ike_child_move(struct ike_conn *conn, const struct ike_sa *from, struct ike_sa *to)
{
	list_for_each (it, &conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		if (c->sa == from)
			c->sa = to;
	}
}

/* ---- Having one ---- */
static bool conn_has_child(const struct ike_conn *conn)
{
	list_for_each (it, &conn->children)
		if (child_rank(container_of(it, struct ike_child, node)))
			return true;
	return false;
}

void ike_child_want(struct ike_conn *conn, int64_t delay_us, wtime now)
{
	unsigned int shift = conn->child_fails;
	int64_t pause = 0;

	if (!conn->sa || conn_has_child(conn) || conn->child_retry_at.us != WTIME_NEVER.us)
		return;
	if (shift > CHILD_FAILS_SHIFT_MAX)
		shift = CHILD_FAILS_SHIFT_MAX;
	if (shift)
		pause = CHILD_RETRY << shift;
	pause += ike_jitter(conn->ike, pause / JITTER_DIV);
	if (pause > IKE_TIME_BACKOFF_MAX)
		pause = IKE_TIME_BACKOFF_MAX;
	conn->child_retry_at = wtime_add(now, pause > delay_us ? pause : delay_us);
	ike_conn_wake(conn, conn->child_retry_at);
}

/* ---- Time ---- */
static void child_rekey_due(struct ike_child *c, wtime now)
{
	c->rekey_at = WTIME_NEVER;
	if (c->redundant)
		return; /* its maker deletes it */
	if (!c->sa || c->sa->state != IKE_SA_UP ||
		ike_neg_find(c->sa, IKE_NEG_CHILD_REKEY, c->info.child)) {
		c->rekey_at = wtime_add(now, REKEY_POSTPONE);
		return;
	}
	if (ike_sa_queue(c->sa, IKE_TASK_CHILD_REKEY, c->info.child) < 0)
		c->rekey_at = wtime_add(now, REKEY_POSTPONE);
	ike_sa_wake(c->sa, now);
}

static void child_due(struct ike_child *c, wtime now)
{
	if (c->state == IKE_CHILD_GONE) {
		if (wtime_due(c->down_at, now))
			ike_child_remove(c);
		return;
	}
	if (c->state == IKE_CHILD_UP && wtime_due(c->rekey_at, now))
		child_rekey_due(c, now);
	if (wtime_due(c->expire_at, now)) {
		ike_child_delete(c, now);
		ike_child_want(c->conn, 0, now);
	}
}

void ike_child_tick(struct ike_conn *conn, wtime now)
{
	struct ike_child *next;

	if (wtime_due(conn->outbound_at, now)) {
		next = ike_child_find(conn, conn->outbound_next);
		conn->outbound_next = 0;
		conn->outbound_at = WTIME_NEVER;
		if (next && child_rank(next) >= 2)
			ike_child_outbound(next, now);
	}
	list_for_each_safe (it, &conn->children)
		child_due(container_of(it, struct ike_child, node), now);
	if (!wtime_due(conn->child_retry_at, now))
		return;
	conn->child_retry_at = WTIME_NEVER;
	if (conn->sa && !conn_has_child(conn)) {
		ike_sa_queue(conn->sa, IKE_TASK_CHILD_NEW, 0);
		ike_sa_run(conn->sa, now);
	}
}

wtime ike_child_next_time(const struct ike_conn *conn)
{
	wtime t = wtime_min(conn->outbound_at, conn->child_retry_at);

	list_for_each (it, &conn->children) {
		const struct ike_child *c = container_of(it, struct ike_child, node);

		if (c->state == IKE_CHILD_GONE)
			t = wtime_min(t, c->down_at);
		else
			t = wtime_min(t, c->expire_at);
		if (c->state == IKE_CHILD_UP)
			t = wtime_min(t, c->rekey_at);
	}
	return t;
}

/* ---- Traffic selectors ---- */
struct ike_policy ike_child_policy(const struct ike_conn *conn, enum ike_sa_use use)
{
	return (struct ike_policy){.use = use,
		.post_quantum = conn->c.post_quantum,
		.additional_ok = true};
}

/* A selector that means something: of a known type, and not upside down. */
static bool ts_usable(const struct ike_ts *ts)
{
	return ts->start.family != IP_NONE && ipaddr_compare(&ts->start, &ts->end) <= 0 &&
		ts->port_start <= ts->port_end;
}

static unsigned int ts_collect(struct view body, struct ike_ts ret[static TS_MAX])
{
	struct cur c = ike_ts_begin(body);
	struct ike_ts ts;
	unsigned int n = 0;

	while (ike_ts_next(&c, &ts))
		if (ts_usable(&ts) && n < TS_MAX)
			ret[n++] = ts;
	return n;
}

bool ike_child_ts_answer(const struct ike_msg *m, struct ike_build *reply)
{
	const struct ike_payload *i = ike_msg_find(m, IKE_PL_TSI), *r = ike_msg_find(m, IKE_PL_TSR);
	struct ike_ts *ts;
	unsigned int n_i = 0, n_r = 0;

	if (!i || !r)
		return false;
	ts = w_alloc(2 * TS_MAX * sizeof(*ts));
	if (ts) {
		/* We take all addresses: what the peer asks for is the narrowed answer (2.9). */
		n_i = ts_collect(i->body, ts);
		n_r = ts_collect(r->body, ts + TS_MAX);
		if (n_i && n_r) {
			ike_build_ts(reply, IKE_PL_TSI, ts, n_i);
			ike_build_ts(reply, IKE_PL_TSR, ts + TS_MAX, n_r);
		}
	}
	w_free(ts);
	return n_i && n_r;
}

static bool ts_any_usable(const struct ike_payload *p)
{
	struct cur c;
	struct ike_ts ts;

	if (!p)
		return false;
	c = ike_ts_begin(p->body);
	while (ike_ts_next(&c, &ts))
		if (ts_usable(&ts))
			return true;
	return false;
}

bool ike_child_ts_ok(const struct ike_msg *m)
{
	return ts_any_usable(ike_msg_find(m, IKE_PL_TSI)) &&
		ts_any_usable(ike_msg_find(m, IKE_PL_TSR));
}
