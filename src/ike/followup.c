/* IKE_FOLLOWUP_KE: the additional key exchanges after CREATE_CHILD_SA. RFC 9370 2.2.4. The link
 * that ties them together is the responder's: opaque and of any length to the initiator. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"

/* ---- Initiator ---- */
int ike_followup_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	struct ike_neg *neg = t->neg;
	const struct ike_child *old;
	int err;

	(void)now;
	if (sa->state != IKE_SA_UP)
		return -ECANCELED;
	if (neg->kind == IKE_NEG_CHILD_REKEY) {
		old = ike_child_find(sa->conn, neg->old_child);
		if (!old || old->state != IKE_CHILD_UP)
			return -ECANCELED; /* the peer was faster, or wants it gone */
	}
	err = ike_neg_offer(sa, neg, neg->kex[neg->round], b);
	if (err == 0)
		ike_build_status(b, IKE_N_ADDITIONAL_KEY_EXCHANGE, buf_view(&neg->link));
	return err;
}

void ike_followup_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	struct ike_notify n;

	if (ike_msg_error(rx->m, &n))
		ike_neg_failed(sa, t, n.type, rx->now);
	else if (ike_neg_finish(t->neg, rx->m) < 0 || ike_neg_go_on(sa, t, rx) < 0)
		ike_neg_failed(sa, t, 0, rx->now);
}

/* ---- Responder ---- */
static struct ike_neg *neg_by_link(const struct ike_sa *sa, struct view link)
{
	list_for_each (it, &sa->negs) {
		struct ike_neg *neg = container_of(it, struct ike_neg, node);

		if (view_equal(buf_view(&neg->link), link))
			return neg;
	}
	return NULL;
}

static void followup_end(struct ike_sa *sa, struct ike_neg *neg, wtime now, int err)
{
	if (err < 0)
		ike_neg_forget_peer(sa, neg, now);
	ike_neg_free(neg);
}

void ike_followup_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	struct ike_notify n;
	struct ike_neg *neg = NULL;
	struct ike_build b;
	int err;

	if (ike_msg_notify(rx->m, IKE_N_ADDITIONAL_KEY_EXCHANGE, &n))
		neg = neg_by_link(sa, n.data);
	if (!neg) {
		ike_build_status(reply, IKE_N_STATE_NOT_FOUND, (struct view){0});
		return;
	}
	ike_build_begin_inner(&b);
	err = ike_neg_answer(sa, neg, rx->m, &b);
	if (err == 0 && neg->round < neg->kex_count) {
		err = ike_neg_link(sa, neg, &b);
		neg->expires = wtime_add(rx->now, IKE_TIME_FOLLOWUP);
	} else if (err == 0) {
		list_del(&neg->node);
		err = ike_neg_complete(sa, neg, rx->now);
		followup_end(sa, neg, rx->now, err);
		neg = NULL;
	}
	if (err == 0) {
		ike_build_free(reply);
		*reply = b; /* moved */
		return;
	}
	ike_build_free(&b);
	if (neg)
		followup_end(sa, neg, rx->now, err);
	ike_build_status(reply, IKE_N_NO_PROPOSAL_CHOSEN, (struct view){0});
}
