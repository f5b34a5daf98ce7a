/* The IKE SA: SPIs, message IDs with a window of 1 each way, retransmission, stored replies, and
 * the queue of our own exchanges. RFC 7296 2.1-2.3, 2.6; RFC 7383 2.6. What the exchanges mean is
 * in their own files; the tables here name them. How messages are cut is in cut.c. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"
#include "ike/open_priv.h"

enum { BACKOFF_NUM = 18, BACKOFF_DEN = 10, JITTER_DIV = 10 }; /* times 1.8, give or take a tenth */

#define SOON (10 * W_MS) /* what could not be done when due is tried again */

#define CONFIRM_PAUSE (100 * W_MS)

static const struct ike_task_ops task_ops[IKE_TASK_COUNT] = {
	[IKE_TASK_INIT] = {IKE_SA_INIT, ike_init_build, ike_init_response},
	[IKE_TASK_INTERMEDIATE] = {IKE_INTERMEDIATE, ike_intermediate_build,
		ike_intermediate_response},
	[IKE_TASK_AUTH] = {IKE_AUTH, ike_auth_build, ike_auth_response},
	[IKE_TASK_CHILD_NEW] = {IKE_CREATE_CHILD_SA, ike_create_build, ike_create_response},
	[IKE_TASK_CHILD_REKEY] = {IKE_CREATE_CHILD_SA, ike_create_build, ike_create_response},
	[IKE_TASK_IKE_REKEY] = {IKE_CREATE_CHILD_SA, ike_create_build, ike_create_response},
	[IKE_TASK_FOLLOWUP] = {IKE_FOLLOWUP_KE, ike_followup_build, ike_followup_response},
	[IKE_TASK_CHILD_DELETE] = {IKE_INFORMATIONAL, ike_child_delete_build,
		ike_child_delete_response},
	[IKE_TASK_IKE_DELETE] = {IKE_INFORMATIONAL, ike_delete_build, ike_delete_response},
	[IKE_TASK_DPD] = {IKE_INFORMATIONAL, ike_dpd_build, ike_dpd_response},
};

typedef void request_fn(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply);

static request_fn *request_handler(const struct ike_sa *sa, uint8_t exchange)
{
	if (sa->state == IKE_SA_HALF_OPEN)
		return exchange == IKE_INTERMEDIATE ? ike_intermediate_request
			: exchange == IKE_AUTH      ? ike_auth_request
						    : NULL;
	if (sa->state == IKE_SA_CONNECTING)
		return NULL;
	return exchange == IKE_CREATE_CHILD_SA  ? ike_create_request
		: exchange == IKE_FOLLOWUP_KE   ? ike_followup_request
		: exchange == IKE_INFORMATIONAL ? ike_informational_request
						: NULL;
}

/* ---- The object ---- */
uint64_t ike_sa_own_spi(const struct ike_sa *sa)
{
	return sa->initiator ? sa->spi_i : sa->spi_r;
}

void ike_sa_tell_spi(struct ike_sa *sa, bool known)
{
	if (sa->spi_told == known || !sa->ike->config.spi)
		return;
	sa->spi_told = known;
	sa->ike->config.spi(sa->ike->config.spi_ctx, ike_sa_own_spi(sa), known);
}

struct ike_sa *ike_sa_find(const struct ike *ike, uint64_t own_spi)
{
	struct hash_node *n;

	if (!own_spi)
		return NULL;
	for (n = hash_find(&ike->by_spi, &own_spi, sizeof(own_spi)); n; n = hash_next(n)) {
		struct ike_sa *sa = container_of(n, struct ike_sa, by_spi);

		if (ike_sa_own_spi(sa) == own_spi)
			return sa;
	}
	return NULL;
}

int ike_sa_spi_new(struct ike *ike, uint64_t *ret)
{
	uint64_t spi;

	do {
		int err = rng_fill(&ike->config.rng, &spi, sizeof(spi));

		if (err < 0)
			return err;
	} while (!spi || ike_sa_find(ike, spi));
	*ret = spi;
	return 0;
}

int ike_sa_new(struct ike *ike, struct ike_conn *conn, uint64_t spi_i, uint64_t spi_r,
	bool initiator, struct ike_sa **ret)
{
	struct ike_sa *sa = w_calloc(1, sizeof(*sa));
	uint64_t own = initiator ? spi_i : spi_r;
	int err = -ENOMEM;

	if (!sa)
		return -ENOMEM;
	list_init(&sa->node);
	list_init(&sa->queue);
	list_init(&sa->negs);
	sa->ike = ike;
	sa->conn = conn;
	sa->initiator = initiator;
	sa->spi_i = spi_i;
	sa->spi_r = spi_r;
	sa->resend_at = sa->rekey_at = sa->expire_at = sa->cleanup_at = WTIME_NEVER;
	err = ike_timer_join(ike, &sa->timer);
	if (err < 0)
		goto err_free;
	err = hash_add(&ike->by_spi, &sa->by_spi, &own, sizeof(own));
	if (err < 0)
		goto err_timer;
	list_add_tail(conn ? &conn->sas : &ike->half_open, &sa->node);
	ike->stats.sas++;
	if (conn)
		ike_sa_tell_spi(sa, true);
	*ret = sa;
	return 0;
err_timer:
	ike_timer_leave(ike, &sa->timer);
err_free:
	w_free(sa);
	return err;
}

int ike_sa_protect(struct ike_sa *sa)
{
	struct ike_protect *p;
	int err = ike_protect_new(&sa->keys, sa->initiator, &p);

	if (err < 0)
		return err;
	ike_protect_free(sa->protect_before);
	sa->protect_before = NULL;
	if (sa->initiator) /* nobody is answered in the handshake */
		ike_protect_free(sa->protect);
	else
		sa->protect_before = sa->protect;
	sa->protect = p;
	return 0;
}

void ike_sa_init_done(struct ike_sa *sa)
{
	if (sa->in_init_table)
		hash_del(&sa->ike->by_init, &sa->by_init);
	if (sa->counted_half_open)
		sa->ike->stats.half_open--;
	sa->in_init_table = sa->counted_half_open = false;
}

void ike_sa_kill(struct ike_sa *sa)
{
	struct ike *ike = sa->ike;

	if (sa->state == IKE_SA_DEAD)
		return;
	ike_sa_init_done(sa);
	ike_sa_tell_spi(sa, false);
	hash_del(&ike->by_spi, &sa->by_spi);
	ike_timer_leave(ike, &sa->timer);
	if (sa->conn) {
		list_for_each (it, &sa->conn->children) {
			struct ike_child *c = container_of(it, struct ike_child, node);

			if (c->sa == sa)
				c->sa = NULL;
		}
		if (sa->conn->attempt == sa)
			sa->conn->attempt = NULL;
		if (sa->conn->sa == sa)
			sa->conn->sa = NULL;
	}
	sa->state = IKE_SA_DEAD;
	sa->conn = NULL;
	list_del(&sa->node);
	list_add_tail(&ike->grave, &sa->node);
	ike->stats.sas--;
}

void ike_sa_free(struct ike_sa *sa)
{
	list_del(&sa->node);
	ike_sa_drop_queue(sa);
	ike_task_free(sa->active);
	list_for_each_safe (it, &sa->negs)
		ike_neg_free(container_of(it, struct ike_neg, node));
	ike_sent_free(&sa->request);
	ike_sent_free(&sa->reply);
	ike_handshake_free(sa->hs);
	ike_protect_free(sa->protect);
	ike_protect_free(sa->protect_before);
	ike_reassembly_free(sa->in_requests);
	ike_reassembly_free(sa->in_responses);
	w_free_secret(sa, sizeof(*sa));
}

int64_t ike_grace(int64_t life_us)
{
	int64_t tenth = life_us / JITTER_DIV;

	return tenth > IKE_TIME_GRACE ? tenth : IKE_TIME_GRACE;
}

void ike_sa_lifetime(struct ike_sa *sa, wtime now)
{
	int64_t life = sa->conn->c.ike_lifetime_us;

	sa->rekey_at = wtime_add(now, life - ike_jitter(sa->ike, life / JITTER_DIV));
	sa->expire_at = wtime_add(now, life + ike_grace(life));
	ike_sa_wake(sa, sa->rekey_at);
}

/* ---- Tasks ---- */
struct ike_task *ike_task_new(enum ike_task_type type, uint32_t child)
{
	struct ike_task *t = w_calloc(1, sizeof(*t));

	if (t) {
		list_init(&t->node);
		t->type = type;
		t->child = child;
	}
	return t;
}

void ike_task_free(struct ike_task *t)
{
	if (!t)
		return;
	list_del(&t->node);
	ike_neg_free(t->neg);
	w_free(t);
}

bool ike_sa_has_task(const struct ike_sa *sa, enum ike_task_type type, uint32_t child)
{
	if (sa->active && sa->active->type == type && sa->active->child == child)
		return true;
	list_for_each (it, &sa->queue) {
		const struct ike_task *t = container_of(it, struct ike_task, node);

		if (t->type == type && t->child == child)
			return true;
	}
	return false;
}

void ike_sa_queue_first(struct ike_sa *sa, struct ike_task *t)
{
	list_add_head(&sa->queue, &t->node);
}

int ike_sa_queue(struct ike_sa *sa, enum ike_task_type type, uint32_t child)
{
	struct ike_task *t;

	if (ike_sa_has_task(sa, type, child))
		return 0;
	t = ike_task_new(type, child);
	if (!t) {
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
		return -ENOMEM;
	}
	list_add_tail(&sa->queue, &t->node);
	return 0;
}

void ike_sa_drop_queue(struct ike_sa *sa)
{
	list_for_each_safe (it, &sa->queue)
		ike_task_free(container_of(it, struct ike_task, node));
}

/* ---- Sending ---- */
static void sa_plan_resend(struct ike_sa *sa, wtime now)
{
	int64_t tenth = sa->interval / JITTER_DIV;

	sa->resend_at = wtime_add(now, sa->interval - tenth + ike_jitter(sa->ike, 2 * tenth + 1));
	ike_sa_wake(sa, sa->resend_at);
}

/* IKE_SA_INIT goes out as it was built; all else is sealed. */
static int sa_request_bytes(struct ike_sa *sa, const struct ike_header *h, struct ike_build *b)
{
	int err;

	if (h->exchange != IKE_SA_INIT)
		return ike_sa_seal(sa, h, b, &sa->request);
	err = ike_build_finish(b);
	if (err < 0)
		return err;
	buf_free(&sa->hs->init_req);
	buf_add(&sa->hs->init_req, b->out.p, b->out.n);
	buf_add(&sa->request.cut.bytes, b->out.p, b->out.n);
	sa->request.cut.count = 1;
	return sa->hs->init_req.failed || sa->request.cut.bytes.failed ? -ENOMEM : 0;
}

/* To where the peer is, and to where it is asked whether it is there now: a liveness check only
 * there, so that the answer tells. */
static void sa_send_request(struct ike_sa *sa, wtime now)
{
	bool trial = sa->trial_end.us && !wtime_due(sa->trial_end, now);

	if (trial)
		ike_sa_send_sealed(sa, &sa->request.cut, &sa->trial_local, &sa->trial_remote);
	if (!trial || sa->active->type != IKE_TASK_DPD)
		ike_sa_send_sealed(sa, &sa->request.cut, &sa->local, &sa->remote);
}

static int sa_start(struct ike_sa *sa, struct ike_task *t, wtime now)
{
	const struct ike_task_ops *ops = &task_ops[t->type];
	struct ike_header h = ike_sa_header(sa, ops->exchange, sa->next_out, false);
	struct ike_build b;
	int err;

	if (ops->exchange == IKE_SA_INIT)
		ike_build_begin(&b, &h);
	else
		ike_build_begin_inner(&b);
	ike_sent_free(&sa->request);
	err = ops->build(sa, t, &b, now);
	if (err == 0)
		err = sa_request_bytes(sa, &h, &b);
	ike_build_free(&b);
	if (err < 0)
		return err;
	sa->active = t;
	sa->next_out++;
	sa->tries = 1;
	sa->sent_at = now;
	sa->interval = IKE_TIME_RESEND;
	sa_send_request(sa, now);
	sa_plan_resend(sa, now);
	return 0;
}

void ike_sa_run(struct ike_sa *sa, wtime now)
{
	while (sa->state != IKE_SA_DEAD && !sa->active && !list_empty(&sa->queue)) {
		struct ike_task *t = container_of(sa->queue.next, struct ike_task, node);
		int err;

		list_del(&t->node);
		err = sa_start(sa, t, now);
		if (err == 0)
			return;
		ike_task_free(t);
		if (err == -ECANCELED)
			continue;
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
		if (sa->state == IKE_SA_CONNECTING)
			ike_conn_attempt_failed(sa, "this end could not build a request", now);
	}
}

void ike_sa_request_done(struct ike_sa *sa)
{
	ike_task_free(sa->active);
	sa->active = NULL;
	sa->resend_at = WTIME_NEVER;
	ike_sent_free(&sa->request);
	ike_reassembly_free(sa->in_responses);
	sa->in_responses = NULL;
}

/* ---- Retransmission ---- */
static void sa_give_up(struct ike_sa *sa, wtime now)
{
	bool handshake = sa->state == IKE_SA_CONNECTING;

	if (handshake)
		ike_conn_attempt_failed(sa,
			sa->active->type == IKE_TASK_INIT
				? "peer does not answer"
				: "peer stopped answering in the handshake",
			now);
	else
		ike_conn_sa_lost(sa, "peer does not answer", now);
}

/* While a link has just begun to be tried, IKE_SA_INIT goes out each second; later attempts are
 * short ones, with growing pauses between them. */
static bool init_resend(struct ike_sa *sa, wtime now)
{
	wtime eager_end = wtime_add(sa->conn->trying_since, IKE_TIME_EAGER);

	if (wtime_before(sa->started, eager_end)) {
		sa->interval = IKE_TIME_RESEND;
		return wtime_before(now, eager_end);
	}
	sa->interval = sa->interval * BACKOFF_NUM / BACKOFF_DEN;
	return sa->tries < IKE_TRIES_SUSPECT;
}

/* For how long a request is repeated to a peer that the data path hears: who asks more often also
 * wants to know sooner that only the peer's data path is left. */
static int64_t sa_patience(const struct ike_conn *conn)
{
	int64_t us = IKE_PATIENCE_DPD * conn->c.dpd_us;

	if (us < IKE_TIME_PATIENCE_MIN)
		return IKE_TIME_PATIENCE_MIN;
	return us < IKE_TIME_PATIENCE ? us : IKE_TIME_PATIENCE;
}

/* The data path hears the peer, so it lives (RFC 7296 2.4), and requests or their answers are lost
 * in a path that is too full: what matters is that one of many comes through. */
static bool sa_heard_meanwhile(const struct ike_sa *sa, wtime now)
{
	const struct ike_sa *used = sa->conn->sa;
	/* or was until the peer's rekey, whose answer the peer may not have */
	bool in_use = used &&
		(sa == used ||
			(sa->state == IKE_SA_REKEYED && sa->successor == ike_sa_own_spi(used)));

	return in_use && wtime_diff(now, sa->conn->heard) <= IKE_TIME_HEARD &&
		wtime_diff(now, sa->sent_at) < sa_patience(sa->conn);
}

/* RFC 7383 2.5.2: the larger datagrams are tried a few times within seconds; then the timers begin
 * anew with the smaller ones. */
static bool sa_probes(struct ike_sa *sa)
{
	if (!ike_sent_large(&sa->request) || sa->tries > IKE_TRIES_LARGE)
		return false;
	if (sa->tries == IKE_TRIES_LARGE) {
		if (!ike_sa_request_smaller(sa))
			return false;
		sa->tries = 0;
	}
	sa->interval = IKE_TIME_RESEND;
	return true;
}

static bool request_resend(struct ike_sa *sa, wtime now)
{
	if (sa_probes(sa))
		return true;
	sa->interval = sa->interval * BACKOFF_NUM / BACKOFF_DEN;
	if (!sa_heard_meanwhile(sa, now))
		return sa->tries < IKE_TRIES;
	sa->interval = sa->interval < IKE_TIME_RESEND_HEARD ? sa->interval : IKE_TIME_RESEND_HEARD;
	return true;
}

static void sa_resend(struct ike_sa *sa, wtime now)
{
	struct ike_conn *conn = sa->conn;
	bool again = sa->active->type == IKE_TASK_INIT ? init_resend(sa, now)
						       : request_resend(sa, now);
	bool suspect;

	if (!again) {
		sa_give_up(sa, now);
		return;
	}
	sa->tries++;
	sa_send_request(sa, now);
	sa_plan_resend(sa, now);
	suspect = sa->tries >= IKE_TRIES_SUSPECT &&
		(sa->tries > IKE_TRIES_LARGE || !ike_sent_large(&sa->request));
	if (sa == conn->sa && suspect && conn->c.initiate && wtime_before(conn->heard, sa->sent_at))
		ike_conn_suspect(conn, now);
}

/* ---- Time ---- */
void ike_sa_wake(struct ike_sa *sa, wtime at)
{
	if (sa->state != IKE_SA_DEAD)
		ike_timer_wake(sa->ike, &sa->timer, at);
}

static wtime sa_next_time(const struct ike_sa *sa)
{
	wtime t = wtime_min(sa->resend_at, sa->expire_at);

	t = wtime_min(t, sa->cleanup_at);
	if (sa->state == IKE_SA_UP) {
		t = wtime_min(t, sa->rekey_at);
		if (!sa->active)
			t = wtime_min(t, ike_dpd_due(sa));
	}
	list_for_each (it, &sa->negs)
		t = wtime_min(t, container_of(it, struct ike_neg, node)->expires);
	return t;
}

/* ---- Receiving ---- */
/* The buffers are made for a message's first fragment that comes, and go with the message. NULL:
 * fragments are not taken. */
static struct ike_reassembly *sa_reassembly(struct ike_sa *sa, struct ike_reassembly **r,
	const struct ike_msg *m)
{
	if (sa->fragments && m->enc.type == IKE_PL_SKF && !*r && ike_reassembly_new(r) < 0)
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
	return *r;
}

static void count_open(struct ike_sa *sa, enum ike_open_result r)
{
	switch (r) {
	case IKE_OPEN_OK:
	case IKE_OPEN_INCOMPLETE:
		return;
	case IKE_OPEN_NOT_AUTHENTIC:
		ike_drop_count(sa->ike, IKE_DROP_NOT_AUTHENTIC);
		return;
	case IKE_OPEN_NO_MEMORY:
	case IKE_OPEN_CRYPTO:
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
		return;
	case IKE_OPEN_NOT_ENCRYPTED:
	case IKE_OPEN_SHORT:
	case IKE_OPEN_PADDING:
		ike_drop_count(sa->ike, IKE_DROP_MALFORMED);
		return;
	default:
		ike_drop_count(sa->ike, IKE_DROP_FRAGMENT);
	}
}

/* An authentic, new message: the peer lives, and perhaps somewhere else. Before the SA is up its
 * endpoint follows (RFC 7296 2.23); later the owner decides. */
static void sa_touch(struct ike_sa *sa, const struct ike_datagram *d, bool response, wtime now)
{
	bool answered = response && sa->trial_end.us &&
		endpoint_equal(&sa->trial_remote, &d->remote);

	sa->heard = now;
	sa->confirmed = sa->confirmed || sa->state == IKE_SA_UP;
	if (d->local.ip.family != IP_NONE)
		sa->local = d->local;
	if (endpoint_equal(&sa->remote, &d->remote))
		return;
	if (sa->state == IKE_SA_CONNECTING || sa->state == IKE_SA_HALF_OPEN) {
		sa->remote = d->remote;
	} else if (sa->conn) {
		struct ike_event *e = ike_emit(sa->conn,
			answered ? IKE_EVENT_REMOTE_ANSWERED : IKE_EVENT_REMOTE_SEEN);

		if (answered)
			sa->trial_end = (wtime){0};

		if (e) {
			e->local = d->local;
			e->remote = d->remote;
		}
	}
}

static void input_response_opened(struct ike_sa *sa, const struct ike_opened *o,
	const struct ike_datagram *d, wtime now)
{
	struct ike_task *t = sa->active;
	struct ike_msg m;

	sa_touch(sa, d, true, now);
	if (ike_opened_parse(o, &m) != IKE_PARSE_OK) {
		/* RFC 7296 2.21.3: an authentic response that makes no sense ends the SA. */
		ike_drop_count(sa->ike, IKE_DROP_MALFORMED);
		if (sa->state == IKE_SA_CONNECTING)
			ike_conn_attempt_failed(sa, "peer sent a malformed response", now);
		else
			ike_conn_sa_lost(sa, "peer sent a malformed response", now);
		return;
	}
	sa->active = NULL;
	ike_sa_request_done(sa);
	task_ops[t->type].response(sa, t,
		&(struct ike_rx){.m = &m, .d = d, .whole = buf_view(&o->whole), .now = now});
	ike_task_free(t);
	ike_sa_run(sa, now);
}

/* One more fragment of the answer is there: the peer lives, and is asked for the others as if for
 * the first time. */
static void response_comes(struct ike_sa *sa, wtime now)
{
	sa->tries = 1;
	sa->interval = IKE_TIME_RESEND;
	sa_plan_resend(sa, now);
}

static void input_response(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now)
{
	struct ike_opened o = {0};
	enum ike_open_result r;

	if (!sa->active || m->h.mid != sa->next_out - 1 ||
		m->h.exchange != task_ops[sa->active->type].exchange) {
		ike_drop_count(sa->ike, IKE_DROP_OLD_MESSAGE);
		return;
	}
	if (sa->active->type == IKE_TASK_INIT) {
		ike_init_response(sa, sa->active,
			&(struct ike_rx){.m = m, .d = d, .whole = d->data, .now = now});
		ike_sa_run(sa, now);
		return;
	}
	r = ike_open(sa->protect, sa_reassembly(sa, &sa->in_responses, m), m, &o);
	count_open(sa, r);
	if (r == IKE_OPEN_OK)
		input_response_opened(sa, &o, d, now);
	else if (r == IKE_OPEN_INCOMPLETE && sa->state >= IKE_SA_UP)
		response_comes(sa, now);
	ike_opened_free(&o);
}

/* An authentic request whose payloads do not parse. RFC 7296 2.21.3: INVALID_SYNTAX ends the SA. */
static void request_malformed(struct ike_sa *sa, const struct ike_msg *m, enum ike_parse_error e,
	struct ike_build *reply)
{
	ike_drop_count(sa->ike, IKE_DROP_MALFORMED);
	if (e == IKE_PARSE_CRITICAL) {
		ike_build_status(reply, IKE_N_UNSUPPORTED_CRITICAL_PAYLOAD,
			view_of(&m->bad_type, 1));
		return;
	}
	ike_build_status(reply, IKE_N_INVALID_SYNTAX, (struct view){0});
	sa->after = ike_sa_after_fatal;
}

void ike_sa_after_fatal(struct ike_sa *sa, wtime now)
{
	if (sa->state == IKE_SA_HALF_OPEN)
		ike_sa_kill(sa);
	else
		ike_conn_sa_lost(sa, "peer sent a malformed request", now);
}

static void input_request_opened(struct ike_sa *sa, const struct ike_opened *o,
	const struct ike_datagram *d, wtime now)
{
	struct ike_header h;
	struct ike_build reply;
	struct ike_msg m;
	enum ike_parse_error e = ike_opened_parse(o, &m);
	request_fn *handle = request_handler(sa, m.h.exchange);

	if (e != IKE_PARSE_OK && sa->state == IKE_SA_HALF_OPEN && e != IKE_PARSE_CRITICAL) {
		ike_drop_count(sa->ike, IKE_DROP_MALFORMED); /* not authenticated: no word */
		return;
	}
	sa_touch(sa, d, false, now);
	ike_child_confirmed(sa, now);
	h = ike_sa_header(sa, m.h.exchange, sa->next_in++, true);
	ike_sent_free(&sa->reply);
	ike_protect_free(sa->protect_before);
	sa->protect_before = NULL;
	sa->reply_again = 0;
	sa->after = NULL;
	ike_build_begin_inner(&reply);
	if (e != IKE_PARSE_OK) {
		request_malformed(sa, &m, e, &reply);
	} else if (!handle) {
		ike_drop_count(sa->ike, IKE_DROP_UNEXPECTED);
		ike_build_status(&reply, IKE_N_INVALID_SYNTAX, (struct view){0});
	} else {
		handle(sa,
			&(struct ike_rx){.m = &m, .d = d, .whole = buf_view(&o->whole), .now = now},
			&reply);
	}
	if (sa->mute)
		sa->mute = false;
	else if (ike_sa_seal(sa, &h, &reply, &sa->reply) == 0)
		ike_sa_send_sealed(sa, &sa->reply.cut, &d->local, &d->remote);
	else
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
	ike_build_free(&reply);
	if (sa->after)
		sa->after(sa, now);
	if (sa->state == IKE_SA_DEAD)
		ike_departed_keep(sa, d->data, now);
	ike_sa_run(sa, now);
}

static bool is_first_part(const struct ike_msg *m)
{
	return m->enc.type != IKE_PL_SKF || m->enc.number == 1;
}

/* Whether the peer made this repetition of the request that was answered last. In a handshake the
 * keys may be others since. */
static bool is_repeated(struct ike_sa *sa, const struct ike_msg *m)
{
	struct ike_protect *p = sa->protect_before ? sa->protect_before : sa->protect;
	struct buf text = {0};
	enum ike_open_result r = ike_open_packet(p, &m->enc, &text);

	count_open(sa, r);
	buf_free_secret(&text);
	return r == IKE_OPEN_OK;
}

/* RFC 7296 2.1: a repeated request gets the reply that it got. Of a repeated message in fragments
 * the first one triggers it (RFC 7383 2.6.1). Else whoever sees the SPIs could have long replies
 * sent to anybody with short requests. */
static void request_again(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d)
{
	if (!sa->reply.cut.count || !is_first_part(m)) {
		ike_drop_count(sa->ike, IKE_DROP_OLD_MESSAGE);
	} else if (is_repeated(sa, m)) {
		ike_sa_request_seen(sa, m, d);
		ike_sa_reply_again(sa);
		ike_sa_send_sealed(sa, &sa->reply.cut, &d->local, &d->remote);
	}
}

static void input_request(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now)
{
	struct ike_opened o = {0};
	enum ike_open_result r;

	if (sa->next_in && m->h.mid == sa->next_in - 1) {
		request_again(sa, m, d);
		return;
	}
	if (m->h.mid != sa->next_in) {
		ike_drop_count(sa->ike,
			m->h.mid < sa->next_in ? IKE_DROP_OLD_MESSAGE : IKE_DROP_WINDOW);
		return;
	}
	if (sa->state == IKE_SA_CONNECTING ||
		(sa->state == IKE_SA_HALF_OPEN && !request_handler(sa, m->h.exchange))) {
		ike_drop_count(sa->ike, IKE_DROP_UNEXPECTED);
		return;
	}
	r = ike_open(sa->protect, sa_reassembly(sa, &sa->in_requests, m), m, &o);
	count_open(sa, r);
	if (r == IKE_OPEN_OK) {
		ike_reassembly_free(sa->in_requests);
		sa->in_requests = NULL;
	}
	if (r == IKE_OPEN_OK || r == IKE_OPEN_INCOMPLETE)
		ike_sa_request_seen(sa, m, d);
	if (r == IKE_OPEN_OK)
		input_request_opened(sa, &o, d, now);
	ike_opened_free(&o);
}

void ike_sa_input(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now)
{
	bool init = sa->active && sa->active->type == IKE_TASK_INIT;

	/* The other end's messages carry the other end's role, and both SPIs. */
	if (!!(m->h.flags & IKE_FLAG_INITIATOR) == sa->initiator || m->h.spi_i != sa->spi_i ||
		(!init && m->h.spi_r != sa->spi_r)) {
		ike_drop_count(sa->ike, IKE_DROP_UNEXPECTED);
		return;
	}
	if (m->h.flags & IKE_FLAG_RESPONSE)
		input_response(sa, m, d, now);
	else
		input_request(sa, m, d, now);
	if (sa->state != IKE_SA_DEAD)
		ike_sa_wake(sa, sa_next_time(sa));
}

/* ---- Due ---- */
/* The loser of a crossing start stays until the peer is known to have the winner, so that it is not
 * left without any: our answer to its IKE_AUTH may be lost. */
static bool loser_must_wait(struct ike_sa *sa, wtime now)
{
	struct ike_sa *winner = sa->conn->sa;

	if (!sa->loser || !winner || winner == sa || winner->confirmed || winner->initiator ||
		wtime_due(wtime_add(winner->established, IKE_TIME_PEER_DELETE), now))
		return false;
	ike_sa_queue(winner, IKE_TASK_DPD, 0);
	ike_sa_run(winner, now);
	sa->cleanup_at = wtime_add(now, CONFIRM_PAUSE);
	return true;
}

static void sa_tick_up(struct ike_sa *sa, wtime now)
{
	if (wtime_due(sa->rekey_at, now)) {
		sa->rekey_at = WTIME_NEVER;
		ike_sa_queue(sa, IKE_TASK_IKE_REKEY, 0);
	}
	if (wtime_due(sa->cleanup_at, now)) {
		if (!loser_must_wait(sa, now))
			ike_sa_delete(sa, now);
	} else if (wtime_due(ike_dpd_due(sa), now) && !sa->active && list_empty(&sa->queue)) {
		ike_sa_queue(sa, IKE_TASK_DPD, 0);
	}
}

/* Nothing came on the SA that the peer's rekey made: the peer may not have our answer, and asks for
 * it on the old one as long as it hears our data. */
static bool peer_may_ask_again(struct ike_sa *sa, wtime now)
{
	const struct ike_sa *fresh = ike_sa_find(sa->ike, sa->successor);

	if (!fresh || fresh->heard.us != fresh->established.us ||
		wtime_diff(now, fresh->established) > IKE_TIME_PATIENCE)
		return false;
	sa->cleanup_at = wtime_add(now, IKE_TIME_REPLACED);
	return true;
}

void ike_sa_tick(struct ike_sa *sa, wtime now)
{
	wtime next;

	if (sa->active && wtime_due(sa->resend_at, now))
		sa_resend(sa, now);
	if (sa->state != IKE_SA_DEAD && wtime_due(sa->expire_at, now)) {
		if (sa->state == IKE_SA_HALF_OPEN) {
			sa->ike->stats.handshakes_failed++;
			ike_sa_kill(sa);
		} else {
			ike_sa_expire(sa, now);
		}
	}
	if (sa->state == IKE_SA_DEAD)
		return;
	ike_neg_tick(sa, now);
	if (sa->state == IKE_SA_UP)
		sa_tick_up(sa, now);
	else if (sa->state == IKE_SA_REKEYED && wtime_due(sa->cleanup_at, now) &&
		!peer_may_ask_again(sa, now))
		ike_sa_delete(sa, now);
	ike_sa_run(sa, now);
	if (sa->state == IKE_SA_DEAD)
		return;
	next = sa_next_time(sa);
	ike_sa_wake(sa, wtime_due(next, now) ? wtime_add(now, SOON) : next);
}
