/* Connections: the engine's interface to its owner for adding, removing, steering and asking. What
 * a connection does by itself is in link.c. */
#include "ike/ike.h"

#include <errno.h>
#include <stdio.h>
#include "base/mem.h"
#include "ike/sa_priv.h"

enum { ID_MAX = 1024 };

#define IKE_LIFETIME   (4 * 3600 * W_SEC)
#define CHILD_LIFETIME (3600 * W_SEC)
#define DPD_IDLE       (10 * W_SEC)
#define LIFETIME_MIN   (1 * W_SEC)

struct ike_conn *ike_conn_find(const struct ike *ike, uint32_t id)
{
	struct hash_node *n = hash_find(&ike->by_id, &id, sizeof(id));

	for (; n; n = hash_next(n)) {
		struct ike_conn *conn = container_of(n, struct ike_conn, by_id);

		if (conn->c.id == id)
			return conn;
	}
	return NULL;
}

struct ike_conn *ike_conn_by_identity(const struct ike *ike, struct view remote_id,
	struct view local_id, const struct endpoint *remote)
{
	struct ike_conn *best = NULL;

	list_for_each (it, &ike->conns) {
		struct ike_conn *conn = container_of(it, struct ike_conn, node);

		if (!view_equal(conn->c.remote_id, remote_id))
			continue;
		if (local_id.n) {
			if (view_equal(conn->c.local_id, local_id))
				return conn;
			continue;
		}
		/* No IDr: the one that talks to that address is meant. */
		if (remote && ipaddr_equal(&conn->c.remote.ip, &remote->ip))
			return conn;
		if (!best)
			best = conn;
	}
	return best;
}

enum ike_pq ike_conn_responder_pq(const struct ike *ike, const struct endpoint *remote)
{
	unsigned int here[3] = {0}, n_here = 0, off = 0, n = 0;

	list_for_each (it, &ike->conns) {
		const struct ike_conn *conn = container_of(it, struct ike_conn, node);

		off += conn->c.post_quantum == IKE_PQ_OFF;
		n++;
		if (ipaddr_equal(&conn->c.remote.ip, &remote->ip)) {
			here[conn->c.post_quantum]++;
			n_here++;
		}
	}
	if (n_here && here[IKE_PQ_REQUIRE] == n_here)
		return IKE_PQ_REQUIRE;
	if (n_here)
		return here[IKE_PQ_OFF] == n_here ? IKE_PQ_OFF : IKE_PQ_PREFER;
	return n && off == n ? IKE_PQ_OFF : IKE_PQ_PREFER;
}

static void conn_take_times(struct ike_conn_config *to, const struct ike_conn_config *from)
{
	to->post_quantum = from->post_quantum;
	to->ike_lifetime_us = from->ike_lifetime_us > 0 ? from->ike_lifetime_us : IKE_LIFETIME;
	to->child_lifetime_us = from->child_lifetime_us > 0 ? from->child_lifetime_us
							    : CHILD_LIFETIME;
	to->dpd_us = from->dpd_us > 0 ? from->dpd_us : DPD_IDLE;
	if (to->ike_lifetime_us < LIFETIME_MIN)
		to->ike_lifetime_us = LIFETIME_MIN;
	if (to->child_lifetime_us < LIFETIME_MIN)
		to->child_lifetime_us = LIFETIME_MIN;
}

static struct ike_conn *conn_new(struct ike *ike, const struct ike_conn_config *config)
{
	struct ike_conn *conn = w_calloc(1, sizeof(*conn));
	size_t local_n = config->local_id.n, remote_n = config->remote_id.n;

	if (!conn)
		return NULL;
	conn->ids = w_alloc(local_n + remote_n);
	if (!conn->ids) {
		w_free(conn);
		return NULL;
	}
	memcpy(conn->ids, config->local_id.p, local_n);
	memcpy(conn->ids + local_n, config->remote_id.p, remote_n);
	conn->c = *config;
	conn->c.local_id = view_of(conn->ids, local_n);
	conn->c.remote_id = view_of(conn->ids + local_n, remote_n);
	conn_take_times(&conn->c, config);
	conn->ike = ike;
	conn->timer.is_conn = true;
	list_init(&conn->sas);
	list_init(&conn->children);
	conn->retry_at = conn->child_retry_at = conn->outbound_at = WTIME_NEVER;
	return conn;
}

int ike_conn_add(struct ike *ike, const struct ike_conn_config *config, wtime now)
{
	struct ike_conn *conn;
	int err;

	if (!config->id || !config->local_id.n || !config->remote_id.n ||
		config->local_id.n > ID_MAX || config->remote_id.n > ID_MAX)
		return -EINVAL;
	if (ike_conn_find(ike, config->id) ||
		ike_conn_by_identity(ike, config->remote_id, config->local_id, NULL))
		return -EEXIST;
	conn = conn_new(ike, config);
	if (!conn)
		return -ENOMEM;
	err = ike_timer_join(ike, &conn->timer);
	if (err < 0)
		goto err_free;
	err = hash_add(&ike->by_id, &conn->by_id, &conn->c.id, sizeof(conn->c.id));
	if (err < 0)
		goto err_timer;
	list_add_tail(&ike->conns, &conn->node);
	ike_conn_begin(conn, now);
	return 0;
err_timer:
	ike_timer_leave(ike, &conn->timer);
err_free:
	w_free(conn->ids);
	w_free(conn);
	return err;
}

void ike_conn_free(struct ike_conn *conn)
{
	list_for_each_safe (c, &conn->children)
		ike_child_free(container_of(c, struct ike_child, node));
	list_for_each_safe (sa, &conn->sas)
		ike_sa_kill(container_of(sa, struct ike_sa, node));
	hash_del(&conn->ike->by_id, &conn->by_id);
	ike_timer_leave(conn->ike, &conn->timer);
	list_del(&conn->node);
	w_free(conn->ids);
	w_free(conn);
}

static void sa_say_goodbye(struct ike_sa *sa)
{
	struct ike_build b;

	if (sa->state != IKE_SA_UP)
		return;
	ike_build_begin_inner(&b);
	ike_build_delete(&b, NULL, 0);
	ike_sa_send_once(sa, &b);
	ike_build_free(&b);
}

void ike_conn_remove(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	(void)now;
	if (!conn)
		return;
	list_for_each (it, &conn->sas)
		sa_say_goodbye(container_of(it, struct ike_sa, node));
	list_for_each_safe (c, &conn->children)
		ike_child_remove(container_of(c, struct ike_child, node));
	ike_conn_say_down(conn, "connection removed");
	ike_conn_free(conn);
}

int ike_conn_up(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	conn->admin_down = false;
	if (conn->sa || conn->attempt)
		return 0;
	if (conn->c.remote.ip.family == IP_NONE)
		return -EDESTADDRREQ;
	conn->trying_since = now;
	conn->fails = 0;
	ike_conn_start(conn, now);
	return 0;
}

int ike_conn_down(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	conn->admin_down = true;
	conn->retry_at = conn->child_retry_at = WTIME_NEVER;
	list_for_each_safe (it, &conn->sas) {
		struct ike_sa *sa = container_of(it, struct ike_sa, node);

		if (sa->state == IKE_SA_UP)
			ike_sa_delete(sa, now);
		else if (sa->state == IKE_SA_CONNECTING)
			ike_sa_kill(sa);
	}
	list_for_each_safe (c, &conn->children)
		ike_child_remove(container_of(c, struct ike_child, node));
	ike_conn_say_down(conn, "taken down");
	return 0;
}

int ike_conn_set_remote(struct ike *ike, uint32_t id, const struct endpoint *remote, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);
	bool same, tries;

	if (!conn)
		return -ENOENT;
	same = endpoint_equal(&conn->c.remote, remote);
	conn->c.remote = *remote;
	list_for_each (it, &conn->sas) {
		struct ike_sa *sa = container_of(it, struct ike_sa, node);

		if (sa->state != IKE_SA_CONNECTING && remote->ip.family != IP_NONE)
			sa->remote = *remote;
	}
	if (same)
		return 0;
	tries = conn->attempt || !conn->sa;
	if (conn->attempt)
		ike_sa_kill(conn->attempt);
	if (tries)
		ike_conn_begin(conn, now);
	return 0;
}

int ike_conn_update(struct ike *ike, const struct ike_conn_config *config, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, config->id);

	if (!conn)
		return -ENOENT;
	conn_take_times(&conn->c, config);
	if (conn->sa)
		ike_sa_wake(conn->sa, now); /* looks at the idle time anew */
	return 0;
}

int ike_conn_rekey_ike(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	if (!conn->sa)
		return -ENOTCONN;
	if (ike_sa_busy(conn->sa, IKE_NEG_IKE_REKEY, 0))
		return -EBUSY;
	if (ike_sa_queue(conn->sa, IKE_TASK_IKE_REKEY, 0) < 0)
		return -ENOMEM;
	ike_sa_run(conn->sa, now);
	return 0;
}

static int conn_rekey(struct ike_conn *conn, struct ike_child *c, wtime now)
{
	if (!c || c->state != IKE_CHILD_UP || !c->sa)
		return -ENOTCONN;
	if (ike_sa_busy(c->sa, IKE_NEG_CHILD_REKEY, c->info.child))
		return -EBUSY;
	if (ike_sa_queue(c->sa, IKE_TASK_CHILD_REKEY, c->info.child) < 0)
		return -ENOMEM;
	ike_sa_run(c->sa, now);
	ike_conn_wake(conn, now);
	return 0;
}

int ike_conn_rekey_child(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	return conn->sa ? conn_rekey(conn, ike_child_newest(conn), now) : -ENOTCONN;
}

void ike_child_soft_limit(struct ike *ike, uint32_t child, wtime now)
{
	list_for_each (it, &ike->conns) {
		struct ike_conn *conn = container_of(it, struct ike_conn, node);
		struct ike_child *c = ike_child_find(conn, child);

		if (c && c == ike_child_newest(conn))
			(void)conn_rekey(conn, c, now); /* busy or gone: nothing to do */
		if (c)
			return;
	}
}

int ike_conn_probe(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	if (!conn->sa)
		return -ENOTCONN;
	if (!conn->sa->active && list_empty(&conn->sa->queue)) {
		if (ike_sa_queue(conn->sa, IKE_TASK_DPD, 0) < 0)
			return -ENOMEM;
		ike_sa_run(conn->sa, now);
	}
	return 0;
}

int ike_conn_try_remote(struct ike *ike, uint32_t id, const struct endpoint *local,
	const struct endpoint *remote, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	if (!conn->sa)
		return -ENOTCONN;
	return ike_dpd_elsewhere(conn->sa, local, remote, now);
}

int ike_conn_judged_down(struct ike *ike, uint32_t id, wtime now)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	if (conn->admin_down || !conn->c.initiate || conn->c.remote.ip.family == IP_NONE)
		return -EDESTADDRREQ;
	ike_conn_suspect(conn, now);
	return 0;
}

void ike_conn_heard(struct ike *ike, uint32_t id, wtime t)
{
	struct ike_conn *conn = ike_conn_find(ike, id);

	if (conn && wtime_before(conn->heard, t))
		conn->heard = t;
}

/* ---- Status ---- */
static void status_sa(const struct ike_sa *sa, struct ike_sa_info *ret)
{
	*ret = (struct ike_sa_info){.spi_i = sa->spi_i,
		.spi_r = sa->spi_r,
		.initiator = sa->initiator,
		.aead = sa->keys.aead,
		.prf = sa->keys.prf,
		.created = sa->established,
		.rekey_at = sa->rekey_at};
	memcpy(ret->kex, sa->kex, sizeof(ret->kex));
}

int ike_conn_status(const struct ike *ike, uint32_t id, struct ike_conn_status *ret)
{
	const struct ike_conn *conn = ike_conn_find(ike, id);

	if (!conn)
		return -ENOENT;
	memset(ret, 0, sizeof(*ret));
	ret->state = conn->sa                                          ? IKE_STATE_UP
		: conn->attempt || conn->retry_at.us != WTIME_NEVER.us ? IKE_STATE_CONNECTING
								       : IKE_STATE_DOWN;
	ret->admin_down = conn->admin_down;
	ret->behind_nat = conn->behind_nat;
	if (!conn->sa)
		snprintf(ret->reason, sizeof(ret->reason), "%s", conn->reason);
	ret->has_sa = conn->sa;
	if (conn->sa)
		status_sa(conn->sa, &ret->sa);
	list_for_each (it, &conn->sas)
		ret->sa_count += container_of(it, struct ike_sa, node)->state != IKE_SA_CONNECTING;
	list_for_each (c, &conn->children) {
		const struct ike_child *child = container_of(c, struct ike_child, node);

		if (child->state == IKE_CHILD_GONE)
			continue;
		if (ret->child_count < IKE_STATUS_CHILDREN)
			ret->children[ret->child_count] = child->info;
		ret->child_count++;
	}
	ret->outbound_child = conn->told_outbound;
	return 0;
}
