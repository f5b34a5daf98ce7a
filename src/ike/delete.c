/* INFORMATIONAL with DELETE, and the other requests of that exchange. RFC 7296 1.4, 1.4.1, 2.25. A
 * deleted child receives a few seconds longer, for the packets that are on their way. */
#include "ike/sa_priv.h"

#include <errno.h>

enum { DELETED_MAX = IKE_CHILDREN_MAX };

/* ---- Initiator ---- */
int ike_child_delete_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	const struct ike_child *c = ike_child_find(sa->conn, t->child);

	(void)now;
	if (!c || c->state != IKE_CHILD_DELETING)
		return -ECANCELED;
	ike_build_delete(b, &c->info.spi_in, 1);
	return 0;
}

void ike_child_delete_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	struct ike_child *c = ike_child_find(sa->conn, t->child);

	if (c)
		ike_child_gone(c, rx->now);
}

void ike_sa_delete(struct ike_sa *sa, wtime now)
{
	struct ike_conn *conn = sa->conn;

	if (sa->state == IKE_SA_DELETING || sa->state == IKE_SA_DEAD)
		return;
	sa->state = IKE_SA_DELETING;
	sa->cleanup_at = sa->rekey_at = sa->expire_at = WTIME_NEVER;
	if (conn->sa == sa)
		conn->sa = NULL;
	list_for_each_safe (it, &conn->children) {
		struct ike_child *c = container_of(it, struct ike_child, node);

		if (c->sa == sa)
			ike_child_gone(c, now);
	}
	ike_sa_drop_queue(sa);
	if (ike_sa_queue(sa, IKE_TASK_IKE_DELETE, 0) < 0)
		ike_conn_sa_lost(sa, "out of memory", now);
	else
		ike_sa_run(sa, now);
}

int ike_delete_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	(void)sa;
	(void)t;
	(void)now;
	ike_build_delete(b, NULL, 0);
	return 0;
}

void ike_delete_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	(void)t;
	ike_conn_sa_lost(sa, "deleted by this end", rx->now);
}

/* ---- Responder ---- */
/* RFC 7296 2.8.2: the peer deletes the IKE SA that its own rekey made, for it has lost a collision
 * that we cannot see yet, as the answer to our rekey is on its way. The old SA goes on until then.
 */
static void go_back(struct ike_sa *sa, wtime now)
{
	list_for_each (it, &sa->conn->sas) {
		struct ike_sa *old = container_of(it, struct ike_sa, node);

		if (old->state != IKE_SA_REKEYED || old->successor != ike_sa_own_spi(sa) ||
			!old->active || old->active->type != IKE_TASK_IKE_REKEY)
			continue;
		old->state = IKE_SA_UP;
		old->cleanup_at = WTIME_NEVER;
		old->successor = 0;
		ike_sa_lifetime(old, now);
		ike_sa_take_over(sa, old, now);
		return;
	}
}

static void after_delete(struct ike_sa *sa, wtime now)
{
	go_back(sa, now);
	ike_conn_sa_lost(sa, "peer closed the connection", now);
}

static void after_auth_failed(struct ike_sa *sa, wtime now)
{
	ike_conn_sa_lost(sa, "peer refused our authentication", now);
}

/* A DELETE that overtook the answer to our CREATE_CHILD_SA names an SPI that we do not know yet. */
static void note_early_delete(struct ike_sa *sa, uint32_t spi)
{
	if (!sa->active || !sa->active->neg)
		return;
	for (unsigned int i = 0; i < IKE_EARLY_MAX; i++) {
		if (sa->early_deleted[i])
			continue;
		sa->early_deleted[i] = spi;
		return;
	}
}

/* RFC 7296 1.4.1: the SPIs are those that the peer receives on. A child that we are deleting
 * ourselves is not named in the reply (2.25.1). */
static unsigned int delete_child(struct ike_sa *sa, uint32_t spi, uint32_t *ret, wtime now)
{
	struct ike_child *c = ike_child_by_spi_out(sa->conn, spi);
	bool ours;

	if (!c) {
		note_early_delete(sa, spi);
		return 0;
	}
	ours = c->state == IKE_CHILD_DELETING;
	*ret = c->info.spi_in;
	ike_child_gone(c, now);
	return ours ? 0 : 1;
}

static void take_deletes(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	uint32_t spi[DELETED_MAX];
	unsigned int n = 0;

	for (unsigned int i = 0; i < rx->m->count; i++) {
		struct ike_delete d;

		if (rx->m->payload[i].type != IKE_PL_DELETE)
			continue;
		d = ike_delete_read(rx->m->payload[i].body);
		if (d.protocol == IKE_PROTO_IKE)
			sa->after = after_delete;
		if (d.protocol != IKE_PROTO_ESP)
			continue;
		for (unsigned int k = 0; k < d.count && n < DELETED_MAX; k++)
			n += delete_child(sa, ike_delete_spi(&d, k), &spi[n], rx->now);
	}
	if (n && sa->after != after_delete)
		ike_build_delete(reply, spi, n);
}

void ike_informational_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	struct ike_notify n;

	take_deletes(sa, rx, reply);
	/* Status notifies and other errors are no reason to act (RFC 7296 3.10.1). */
	if (!sa->after && ike_msg_notify(rx->m, IKE_N_AUTHENTICATION_FAILED, &n))
		sa->after = after_auth_failed;
}
