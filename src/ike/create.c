/* CREATE_CHILD_SA: new children, rekeys of children and of the IKE SA, both sides, up to the first
 * key exchange. RFC 7296 1.3, 2.8, 2.25; RFC 9370 2.2.4. IKE_FOLLOWUP_KE is in followup.c, what a
 * finished negotiation does in rekey.c. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"

/* ---- Negotiations ---- */
struct ike_neg *ike_neg_new(enum ike_neg_kind kind, bool initiator)
{
	struct ike_neg *neg = w_calloc(1, sizeof(*neg));

	if (neg) {
		list_init(&neg->node);
		neg->kind = kind;
		neg->initiator = initiator;
		neg->expires = WTIME_NEVER;
	}
	return neg;
}

void ike_neg_free(struct ike_neg *neg)
{
	if (!neg)
		return;
	list_del(&neg->node);
	buf_free(&neg->offered);
	buf_free(&neg->link);
	kex_free(neg->pending);
	w_free_secret(neg, sizeof(*neg));
}

struct ike_neg *ike_neg_find(const struct ike_sa *sa, enum ike_neg_kind kind, uint32_t old_child)
{
	list_for_each (it, &sa->negs) {
		struct ike_neg *neg = container_of(it, struct ike_neg, node);

		if (neg->kind == kind && neg->old_child == old_child)
			return neg;
	}
	return NULL;
}

void ike_neg_tick(struct ike_sa *sa, wtime now)
{
	list_for_each_safe (it, &sa->negs) {
		struct ike_neg *neg = container_of(it, struct ike_neg, node);

		if (!wtime_due(neg->expires, now))
			continue;
		ike_neg_forget_peer(sa, neg, now);
		ike_neg_free(neg);
	}
}

int ike_neg_offer(struct ike_sa *sa, struct ike_neg *neg, enum kex_id id, struct ike_build *b)
{
	uint8_t offer[KEX_PUBLIC_MAX];
	int err;

	kex_free(neg->pending);
	neg->pending = NULL;
	err = kex_offer(id, &sa->ike->config.rng, offer, &neg->pending);
	if (err < 0)
		return err;
	neg->pending_id = id;
	ike_build_ke(b, kex_info(id)->ike, view_of(offer, kex_info(id)->offer_len));
	return 0;
}

/* The peer's KE payload of the round; false: none, or another method. */
static bool neg_ke(const struct ike_neg *neg, const struct ike_msg *m, struct ike_ke *ret)
{
	const struct ike_payload *p = ike_msg_find(m, IKE_PL_KE);

	if (!p || neg->round >= neg->kex_count)
		return false;
	*ret = ike_ke_read(p->body);
	return ret->method == kex_info(neg->kex[neg->round])->ike;
}

static void neg_round_done(struct ike_neg *neg)
{
	neg->secret_len[neg->round] = kex_info(neg->kex[neg->round])->secret_len;
	neg->round++;
}

int ike_neg_finish(struct ike_neg *neg, const struct ike_msg *m)
{
	struct ike_ke ke;
	int err;

	if (!neg_ke(neg, m, &ke) || !neg->pending || neg->pending_id != neg->kex[neg->round])
		return -EPROTO;
	err = kex_finish(neg->pending, ke.data, neg->secret[neg->round]);
	if (err < 0)
		return err;
	kex_free(neg->pending);
	neg->pending = NULL;
	neg_round_done(neg);
	return 0;
}

int ike_neg_answer(struct ike_sa *sa, struct ike_neg *neg, const struct ike_msg *m,
	struct ike_build *reply)
{
	uint8_t answer[KEX_PUBLIC_MAX];
	const struct kex_info *info;
	struct ike_ke ke;
	int err;

	if (!neg_ke(neg, m, &ke))
		return -EPROTO;
	info = kex_info(neg->kex[neg->round]);
	err = kex_answer(neg->kex[neg->round], &sa->ike->config.rng, ke.data, answer,
		neg->secret[neg->round]);
	if (err < 0)
		return err;
	ike_build_ke(reply, info->ike, view_of(answer, info->answer_len));
	neg_round_done(neg);
	return 0;
}

int ike_neg_link(struct ike_sa *sa, struct ike_neg *neg, struct ike_build *reply)
{
	uint8_t link[IKE_LINK_LEN];
	int err = rng_fill(&sa->ike->config.rng, link, sizeof(link));

	if (err == 0)
		err = ike_buf_set(&neg->link, view_of(link, sizeof(link)));
	if (err == 0)
		ike_build_status(reply, IKE_N_ADDITIONAL_KEY_EXCHANGE, buf_view(&neg->link));
	return err;
}

static void neg_take_choice(struct ike_neg *neg, const struct ike_choice *c)
{
	struct cur spi = cur_of(c->spi, c->spi_len);

	neg->aead = c->aead;
	neg->prf = c->prf;
	neg->esn = c->esn;
	memcpy(neg->kex, c->kex, sizeof(neg->kex));
	neg->kex_count = c->kex[0] == KEX_NONE ? 0 : c->kex_count;
	if (neg->kind != IKE_NEG_IKE_REKEY)
		neg->spi_out = cur_u32(&spi);
	else if (neg->initiator)
		neg->spi_r = cur_u64(&spi);
	else
		neg->spi_i = cur_u64(&spi);
}

static bool neg_has_peer_spi(const struct ike_neg *neg)
{
	return neg->kind != IKE_NEG_IKE_REKEY ? neg->spi_out != 0
		: neg->initiator              ? neg->spi_r != 0
					      : neg->spi_i != 0;
}

/* A new SPI of ours, and its bytes for the SA payload. */
static int neg_own_spi(struct ike_sa *sa, struct ike_neg *neg, uint8_t ret[static IKE_SPI_LEN],
	size_t *ret_len)
{
	uint64_t spi;
	int err;

	if (neg->kind != IKE_NEG_IKE_REKEY) {
		err = ike_child_spi_new(sa->conn, &neg->spi_in);
		put_u32(ret, neg->spi_in);
		*ret_len = IKE_ESP_SPI_LEN;
		return err;
	}
	err = ike_sa_spi_new(sa->ike, &spi);
	if (err < 0)
		return err;
	if (neg->initiator)
		neg->spi_i = spi;
	else
		neg->spi_r = spi;
	put_u64(ret, spi);
	*ret_len = IKE_SPI_LEN;
	return 0;
}

/* ---- Initiator ---- */
static enum ike_neg_kind task_kind(const struct ike_task *t)
{
	return t->type == IKE_TASK_IKE_REKEY      ? IKE_NEG_IKE_REKEY
		: t->type == IKE_TASK_CHILD_REKEY ? IKE_NEG_CHILD_REKEY
						  : IKE_NEG_CHILD_NEW;
}

/* A peer without perfect forward secrecy gets the form that it can do (unless we require more). */
static struct ike_policy task_policy(const struct ike_sa *sa, const struct ike_task *t)
{
	bool plain = t->plain ||
		(sa->conn->no_child_kex && sa->conn->c.post_quantum != IKE_PQ_REQUIRE);

	return ike_child_policy(sa->conn,
		t->type == IKE_TASK_IKE_REKEY ? IKE_USE_IKE
			: plain               ? IKE_USE_FIRST_CHILD
					      : IKE_USE_CHILD);
}

/* Another SA takes this one's place, or is about to: its initiator has sent IKE_AUTH. What is
 * rekeyed meanwhile would be there twice. */
static bool is_being_replaced(const struct ike_sa *sa)
{
	const struct ike_sa *attempt = sa->conn->attempt;

	return sa->loser || (attempt && attempt->hs->auth_sent);
}

static bool rekey_later(struct ike_sa *sa, struct ike_child *c, int64_t delay_us, wtime now)
{
	wtime at = wtime_add(now, delay_us);

	if (c) {
		c->rekey_at = at;
		ike_conn_wake(c->conn, at);
	} else {
		sa->rekey_at = at;
		ike_sa_wake(sa, at);
	}
	return true;
}

/* Whether there is still something to do, and no exchange of the peer's that does it already. */
static bool task_is_moot(struct ike_sa *sa, const struct ike_task *t, wtime now)
{
	struct ike_child *c = NULL;

	if (sa->state != IKE_SA_UP)
		return true;
	if (t->type == IKE_TASK_CHILD_NEW)
		return sa->loser || ike_child_newest(sa->conn);
	if (t->type == IKE_TASK_CHILD_REKEY) {
		c = ike_child_find(sa->conn, t->child);
		if (!c || c->state != IKE_CHILD_UP || c->redundant)
			return true;
		if (!c->confirmed) /* the peer may not even have it yet, if our answer was lost */
			return rekey_later(sa, c, IKE_TIME_OUTBOUND, now);
	}
	if (is_being_replaced(sa))
		return rekey_later(sa, c, IKE_TIME_REPLACING, now);
	if (ike_neg_find(sa, c ? IKE_NEG_CHILD_REKEY : IKE_NEG_IKE_REKEY, t->child))
		return rekey_later(sa, c, IKE_TIME_FOLLOWUP, now);
	return false;
}

static void build_rekey_notify(struct ike_sa *sa, uint32_t child, struct ike_build *b)
{
	const struct ike_child *c = ike_child_find(sa->conn, child);
	uint8_t spi[IKE_ESP_SPI_LEN];

	put_u32(spi, c->info.spi_in); /* RFC 7296 1.3.3: the one that we would receive on */
	ike_build_notify(b,
		&(struct ike_notify){.protocol = IKE_PROTO_ESP,
			.type = IKE_N_REKEY_SA,
			.spi = view_of(spi, sizeof(spi))});
}

int ike_create_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	const struct ike_policy policy = task_policy(sa, t);
	uint8_t spi[IKE_SPI_LEN];
	enum kex_id group;
	size_t spi_len;
	int err;

	if (task_is_moot(sa, t, now))
		return -ECANCELED;
	ike_neg_free(t->neg);
	t->neg = ike_neg_new(task_kind(t), true);
	if (!t->neg)
		return -ENOMEM;
	t->neg->old_child = t->child;
	err = neg_own_spi(sa, t->neg, spi, &spi_len);
	if (err == 0)
		err = ike_nonce_new(sa->ike, &t->neg->ni);
	if (err == 0)
		err = ike_offer_body(&policy, view_of(spi, spi_len), &t->neg->offered);
	if (err < 0)
		return err;
	if (t->type == IKE_TASK_CHILD_REKEY)
		build_rekey_notify(sa, t->child, b);
	ike_build_opaque(b, IKE_PL_SA, 0, buf_view(&t->neg->offered));
	ike_build_nonce(b, ike_nonce_view(&t->neg->ni));
	group = t->group != KEX_NONE ? t->group : ike_proposal_group(&policy);
	if (policy.use != IKE_USE_FIRST_CHILD) {
		err = ike_neg_offer(sa, t->neg, group, b);
		if (err < 0)
			return err;
	}
	if (t->type != IKE_TASK_IKE_REKEY) {
		ike_build_ts_any(b, IKE_PL_TSI);
		ike_build_ts_any(b, IKE_PL_TSR);
	}
	return 0;
}

/* Reads an acceptance. 0 or -EPROTO, … */
static int create_accepted(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	const struct ike_policy policy = task_policy(sa, t);
	const struct ike_payload *p = ike_msg_find(rx->m, IKE_PL_SA);
	struct ike_choice choice;
	int err;

	if (!p || !ike_nonce_take(rx->m, &t->neg->nr))
		return -EPROTO;
	if (t->type != IKE_TASK_IKE_REKEY && !ike_child_ts_ok(rx->m))
		return -EPROTO;
	err = ike_proposal_check(&policy, buf_view(&t->neg->offered), p->body, &choice);
	if (err < 0)
		return err;
	neg_take_choice(t->neg, &choice);
	if (!neg_has_peer_spi(t->neg))
		return -EPROTO;
	return t->neg->kex_count ? ike_neg_finish(t->neg, rx->m) : 0;
}

/* RFC 7296 1.3: the responder names another group of our offer; once. */
static bool create_other_group(struct ike_sa *sa, struct ike_task *t, const struct ike_notify *n)
{
	struct cur c = cur_view(n->data);
	uint16_t group = cur_u16(&c);
	struct ike_task *again;

	if (c.bad || t->group != KEX_NONE || kex_by_ike(group) == KEX_NONE ||
		kex_by_ike(group) == t->neg->pending_id ||
		!ike_offer_has_group(buf_view(&t->neg->offered), group))
		return false;
	again = ike_task_new(t->type, t->child);
	if (!again)
		return false;
	again->group = kex_by_ike(group);
	again->plain = t->plain;
	ike_sa_queue_first(sa, again);
	return true;
}

int ike_neg_go_on(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	struct ike_notify n;
	struct ike_task *next;
	int err;

	if (t->neg->round == t->neg->kex_count)
		return ike_neg_complete(sa, t->neg, rx->now);
	if (!ike_msg_notify(rx->m, IKE_N_ADDITIONAL_KEY_EXCHANGE, &n))
		return -EPROTO;
	err = ike_buf_set(&t->neg->link, n.data);
	if (err < 0)
		return err;
	/* RFC 9370 2.2.4: whoever used the lowest nonce just stops here. */
	if (ike_neg_lost(sa, t->neg))
		return 0;
	next = ike_task_new(IKE_TASK_FOLLOWUP, t->child);
	if (!next)
		return -ENOMEM;
	next->neg = t->neg;
	t->neg = NULL;
	ike_sa_queue_first(sa, next);
	return 0;
}

void ike_create_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	struct ike_notify n;

	if (ike_msg_error(rx->m, &n)) {
		if (n.type == IKE_N_INVALID_KE_PAYLOAD && create_other_group(sa, t, &n))
			return;
		ike_neg_failed(sa, t, n.type, rx->now);
		return;
	}
	sa->temporary = 0;
	if (create_accepted(sa, t, rx) < 0 || ike_neg_go_on(sa, t, rx) < 0)
		ike_neg_failed(sa, t, 0, rx->now);
}

/* ---- Responder ---- */
static enum ike_neg_kind request_kind(const struct ike_msg *m, struct ike_notify *ret_rekey)
{
	const struct ike_payload *p = ike_msg_find(m, IKE_PL_SA);
	struct ike_proposal first;
	struct cur c = cur_view(p->body);

	if (ike_proposal_next(&c, &first) && first.protocol == IKE_PROTO_IKE)
		return IKE_NEG_IKE_REKEY;
	return ike_msg_notify(m, IKE_N_REKEY_SA, ret_rekey) ? IKE_NEG_CHILD_REKEY
							    : IKE_NEG_CHILD_NEW;
}

/* What our exchange that is out does; NULL: none that matters here. */
static const struct ike_neg *active_neg(const struct ike_sa *sa)
{
	return sa->active ? sa->active->neg : NULL;
}

static unsigned int conn_child_count(const struct ike_conn *conn)
{
	unsigned int n = 0;

	list_for_each (it, &conn->children)
		n++;
	return n;
}

/* RFC 7296 2.25.1: a request to rekey a child. */
static uint16_t refuse_child_rekey(const struct ike_sa *sa, const struct ike_child *c)
{
	const struct ike_neg *own = active_neg(sa);

	if (!c)
		return IKE_N_CHILD_SA_NOT_FOUND;
	if (c->state == IKE_CHILD_DELETING)
		return IKE_N_TEMPORARY_FAILURE;
	/* RFC 9370 2.2.4: our rekey of it is past CREATE_CHILD_SA. */
	if (own && sa->active->type == IKE_TASK_FOLLOWUP && own->old_child == c->info.child)
		return IKE_N_TEMPORARY_FAILURE;
	return 0;
}

/* RFC 7296 2.25: requests that cannot be done now. 0: this one can. */
static uint16_t refuse_now(const struct ike_sa *sa, enum ike_neg_kind kind,
	const struct ike_child *c)
{
	const struct ike_neg *own = active_neg(sa);

	if (sa->state != IKE_SA_UP || (kind != IKE_NEG_CHILD_NEW && is_being_replaced(sa)))
		return IKE_N_TEMPORARY_FAILURE;
	if (kind == IKE_NEG_IKE_REKEY) {
		if (own &&
			(own->kind != IKE_NEG_IKE_REKEY || sa->active->type == IKE_TASK_FOLLOWUP))
			return IKE_N_TEMPORARY_FAILURE;
		return sa->active && sa->active->type == IKE_TASK_CHILD_DELETE
			? IKE_N_TEMPORARY_FAILURE
			: 0;
	}
	if ((own && own->kind == IKE_NEG_IKE_REKEY) || ike_neg_find(sa, IKE_NEG_IKE_REKEY, 0))
		return IKE_N_TEMPORARY_FAILURE;
	if (conn_child_count(sa->conn) >= IKE_CHILDREN_MAX)
		return IKE_N_NO_ADDITIONAL_SAS;
	return kind == IKE_NEG_CHILD_REKEY ? refuse_child_rekey(sa, c) : 0;
}

static void refuse_select(const struct ike_sa *sa, enum ike_select s,
	const struct ike_choice *choice, struct ike_build *reply)
{
	uint8_t group[2];

	if (s == IKE_SELECT_CLASSIC)
		ike_emit_reason(sa->conn, IKE_EVENT_FAILED, IKE_CLASSIC_REFUSED);
	if (s != IKE_SELECT_GROUP) {
		ike_build_status(reply, IKE_N_NO_PROPOSAL_CHOSEN, (struct view){0});
		return;
	}
	put_u16(group, kex_info(choice->kex[0])->ike);
	ike_build_status(reply, IKE_N_INVALID_KE_PAYLOAD, view_of(group, sizeof(group)));
}

/* Fills in the negotiation and the reply. 0 or an error, then the reply is worthless. */
static int answer_build(struct ike_sa *sa, struct ike_neg *neg, const struct ike_choice *choice,
	const struct ike_rx *rx, struct ike_build *reply)
{
	uint8_t spi[IKE_SPI_LEN];
	size_t spi_len;
	int err;

	neg_take_choice(neg, choice);
	if (!neg_has_peer_spi(neg) || !ike_nonce_take(rx->m, &neg->ni))
		return -EPROTO;
	err = neg_own_spi(sa, neg, spi, &spi_len);
	if (err == 0)
		err = ike_nonce_new(sa->ike, &neg->nr);
	if (err < 0)
		return err;
	ike_proposal_answer(reply, choice, view_of(spi, spi_len));
	ike_build_nonce(reply, ike_nonce_view(&neg->nr));
	if (neg->kex_count) {
		err = ike_neg_answer(sa, neg, rx->m, reply);
		if (err < 0)
			return err;
	}
	if (neg->kind != IKE_NEG_IKE_REKEY && !ike_child_ts_answer(rx->m, reply))
		return -EPROTO;
	return neg->round < neg->kex_count ? ike_neg_link(sa, neg, reply) : 0;
}

/* Half done: waits for IKE_FOLLOWUP_KE; the oldest of too many goes. Else: done. */
static int answer_keep(struct ike_sa *sa, struct ike_neg *neg, wtime now)
{
	unsigned int n = 0;

	if (neg->round == neg->kex_count)
		return ike_neg_complete(sa, neg, now);
	list_for_each (it, &sa->negs)
		n++;
	if (n >= IKE_NEGS_MAX)
		ike_neg_free(container_of(sa->negs.next, struct ike_neg, node));
	neg->expires = wtime_add(now, IKE_TIME_FOLLOWUP);
	list_add_tail(&sa->negs, &neg->node);
	return 0;
}

static void answer(struct ike_sa *sa, struct ike_neg *neg, const struct ike_choice *choice,
	const struct ike_rx *rx, struct ike_build *reply)
{
	struct ike_build b;
	int err;

	ike_build_begin_inner(&b);
	err = answer_build(sa, neg, choice, rx, &b);
	if (err == 0) {
		ike_neg_note_peer(sa, neg);
		err = answer_keep(sa, neg, rx->now);
		if (err < 0)
			ike_neg_forget_peer(sa, neg, rx->now);
	}
	if (err == 0) {
		ike_build_free(reply);
		*reply = b; /* moved */
	} else {
		ike_build_free(&b);
		ike_build_status(reply,
			err == -EPROTO || err == -EBADMSG ? IKE_N_INVALID_SYNTAX
							  : IKE_N_TEMPORARY_FAILURE,
			(struct view){0});
	}
	if (list_empty(&neg->node))
		ike_neg_free(neg);
}

static void refuse_with(uint16_t type, const struct ike_notify *rekey, struct ike_build *reply)
{
	struct ike_notify n = {.type = type};

	if (type == IKE_N_CHILD_SA_NOT_FOUND) { /* RFC 7296 2.25: names what was meant */
		n.protocol = rekey->protocol;
		n.spi = rekey->spi;
	}
	ike_build_notify(reply, &n);
}

static uint32_t notify_spi(const struct ike_notify *n)
{
	struct cur c = cur_view(n->spi);

	return c.n == IKE_ESP_SPI_LEN ? cur_u32(&c) : 0;
}

void ike_create_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	const struct ike_payload *ke = ike_msg_find(rx->m, IKE_PL_KE);
	struct ike_policy policy = ike_child_policy(sa->conn, IKE_USE_CHILD);
	struct ike_notify rekey = {0};
	struct ike_child *old = NULL;
	struct ike_choice choice;
	enum ike_neg_kind kind;
	enum ike_select s;
	struct ike_neg *neg;
	uint16_t error;

	if (!ike_msg_find(rx->m, IKE_PL_SA) || !ike_msg_find(rx->m, IKE_PL_NONCE)) {
		ike_build_status(reply, IKE_N_INVALID_SYNTAX, (struct view){0});
		return;
	}
	kind = request_kind(rx->m, &rekey);
	if (kind == IKE_NEG_CHILD_REKEY)
		old = ike_child_by_spi_out(sa->conn, notify_spi(&rekey));
	error = refuse_now(sa, kind, old);
	if (!error && kind != IKE_NEG_IKE_REKEY && !ike_child_ts_ok(rx->m))
		error = IKE_N_TS_UNACCEPTABLE;
	if (error) {
		refuse_with(error, &rekey, reply);
		return;
	}
	if (kind == IKE_NEG_IKE_REKEY)
		policy.use = IKE_USE_IKE;
	s = ike_proposal_select(&policy, ike_msg_find(rx->m, IKE_PL_SA)->body,
		ke ? ike_ke_read(ke->body).method : 0, &choice);
	if (s != IKE_SELECT_OK) {
		refuse_select(sa, s, &choice, reply);
		return;
	}
	neg = ike_neg_new(kind, false);
	if (!neg) {
		ike_build_status(reply, IKE_N_TEMPORARY_FAILURE, (struct view){0});
		return;
	}
	neg->old_child = old ? old->info.child : 0;
	answer(sa, neg, &choice, rx, reply);
}

bool ike_sa_busy(const struct ike_sa *sa, enum ike_neg_kind kind, uint32_t child)
{
	enum ike_task_type type = kind == IKE_NEG_IKE_REKEY ? IKE_TASK_IKE_REKEY
							    : IKE_TASK_CHILD_REKEY;
	const struct ike_neg *own = active_neg(sa);

	return ike_sa_has_task(sa, type, child) || ike_neg_find(sa, kind, child) ||
		(own && own->kind == kind && own->old_child == child);
}
