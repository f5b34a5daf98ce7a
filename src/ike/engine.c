/* The engine: datagrams in and out, events, time, the look-up of SAs, and what is answered without
 * an SA. RFC 7296 2.4-2.6, 2.21. It knows no exchange; see sa.c and the file of each exchange. */
#include "ike/ike.h"

#include <errno.h>
#include <stdio.h>
#include "base/mem.h"
#include "ike/sa_priv.h"

enum {
	COOKIE_THRESHOLD = 32,
	HALF_OPEN_MAX = 4096,
	DATAGRAM_MAX = 1280,
	DATAGRAM_MIN = 576,
};

#define ERROR_REPLY_GAP (100 * W_MS)

const char *ike_drop_name(enum ike_drop d)
{
	static const char *const name[] = {
#define X(id, text) [IKE_DROP_##id] = text,
		IKE_DROPS(X)
#undef X
	};

	return d < IKE_DROP_COUNT ? name[d] : "ike-unknown";
}

void ike_drop_count(struct ike *ike, enum ike_drop d)
{
	ike->stats.drops[d]++;
}

static int engine_tables(struct ike *ike)
{
	struct hash *table[] = {&ike->by_id, &ike->by_spi, &ike->by_init, &ike->by_child};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint8_t key[16];
		int err = rng_fill(&ike->config.rng, key, sizeof(key));

		if (err == 0)
			err = hash_init(table[i], key);
		if (err < 0)
			return err;
	}
	return hash_init(&ike->by_departed, ike->by_spi.key);
}

int ike_new(const struct ike_config *config, struct ike **ret)
{
	struct ike *ike = w_calloc(1, sizeof(*ike));
	int err;

	if (!ike)
		return -ENOMEM;
	ike->config = *config;
	if (!ike->config.cookie_threshold)
		ike->config.cookie_threshold = COOKIE_THRESHOLD;
	if (!ike->config.half_open_max)
		ike->config.half_open_max = HALF_OPEN_MAX;
	if (!ike->config.datagram_max)
		ike->config.datagram_max = DATAGRAM_MAX;
	if (ike->config.datagram_max < DATAGRAM_MIN)
		ike->config.datagram_max = DATAGRAM_MIN;
	list_init(&ike->conns);
	list_init(&ike->half_open);
	list_init(&ike->grave);
	list_init(&ike->out);
	list_init(&ike->events);
	list_init(&ike->departed);
	ike->next_child = 1;
	err = engine_tables(ike);
	if (err < 0) {
		ike_free(ike);
		return err;
	}
	*ret = ike;
	return 0;
}

/* Frees the SAs that died in this call, and what ike_output() lent. */
static void engine_reap(struct ike *ike)
{
	list_for_each_safe (it, &ike->grave)
		ike_sa_free(container_of(it, struct ike_sa, node));
}

static void engine_unlend(struct ike *ike)
{
	w_free(ike->lent);
	ike->lent = NULL;
}

void ike_free(struct ike *ike)
{
	if (!ike)
		return;
	list_for_each_safe (it, &ike->conns)
		ike_conn_free(container_of(it, struct ike_conn, node));
	list_for_each_safe (sa, &ike->half_open)
		ike_sa_kill(container_of(sa, struct ike_sa, node));
	engine_reap(ike);
	list_for_each_safe (out, &ike->out) {
		list_del(out);
		w_free(container_of(out, struct ike_out, node));
	}
	list_for_each_safe (ev, &ike->events) {
		list_del(ev);
		w_free_secret(container_of(ev, struct ike_ev, node), sizeof(struct ike_ev));
	}
	engine_unlend(ike);
	hash_done(&ike->by_id);
	hash_done(&ike->by_spi);
	hash_done(&ike->by_init);
	hash_done(&ike->by_child);
	ike_departed_done(ike);
	heap_done(&ike->timers);
	w_free_secret(ike, sizeof(*ike));
}

/* ---- Timers, randomness ---- */
int ike_timer_join(struct ike *ike, struct ike_timer *t)
{
	return heap_push(&ike->timers, &t->node, WTIME_NEVER);
}

void ike_timer_leave(struct ike *ike, struct ike_timer *t)
{
	heap_remove(&ike->timers, &t->node);
}

void ike_timer_wake(struct ike *ike, struct ike_timer *t, wtime at)
{
	if (wtime_before(at, t->node.at))
		(void)heap_push(&ike->timers, &t->node, at); /* it is in: cannot fail */
}

/* The next timer that is due, set to never; NULL: none. */
static struct ike_timer *timer_due(struct ike *ike, wtime now)
{
	struct heap_node *n = heap_peek(&ike->timers);

	if (!n || !wtime_due(n->at, now))
		return NULL;
	(void)heap_push(&ike->timers, n, WTIME_NEVER); /* it is in: cannot fail */
	return container_of(n, struct ike_timer, node);
}

int64_t ike_jitter(struct ike *ike, int64_t bound)
{
	uint64_t x;

	if (bound <= 0 || rng_below(&ike->config.rng, (uint64_t)bound, &x) < 0)
		return 0;
	return (int64_t)x;
}

/* ---- Out ---- */
void ike_send(struct ike *ike, const struct endpoint *local, const struct endpoint *remote,
	struct view data)
{
	struct ike_out *o;

	if (remote->ip.family == IP_NONE || !data.n)
		return;
	o = w_alloc(sizeof(*o) + data.n);
	if (!o) {
		ike_drop_count(ike, IKE_DROP_NO_MEMORY);
		return;
	}
	o->local = *local;
	o->remote = *remote;
	o->n = data.n;
	memcpy(o->data, data.p, data.n);
	list_add_tail(&ike->out, &o->node);
}

bool ike_output(struct ike *ike, struct ike_datagram *ret)
{
	engine_unlend(ike);
	if (list_empty(&ike->out))
		return false;
	ike->lent = container_of(ike->out.next, struct ike_out, node);
	list_del(&ike->lent->node);
	ret->local = ike->lent->local;
	ret->remote = ike->lent->remote;
	ret->data = view_of(ike->lent->data, ike->lent->n);
	return true;
}

void ike_reply_error(struct ike *ike, const struct ike_header *h, const struct ike_datagram *d,
	const struct ike_notify *n, wtime now)
{
	struct ike_build b;
	struct ike_header reply = *h;

	if (!wtime_due(ike->error_at, now))
		return;
	ike->error_at = wtime_add(now, ERROR_REPLY_GAP);
	reply.version = IKE_VERSION;
	reply.flags = IKE_FLAG_RESPONSE;
	if (!(h->flags & IKE_FLAG_INITIATOR))
		reply.flags |= IKE_FLAG_INITIATOR;
	ike_build_begin(&b, &reply);
	ike_build_notify(&b, n);
	if (ike_build_finish(&b) == 0)
		ike_send(ike, &d->local, &d->remote, buf_view(&b.out));
	ike_build_free(&b);
}

/* ---- Events ---- */
struct ike_event *ike_emit(struct ike_conn *conn, enum ike_event_type type)
{
	struct ike_ev *ev = w_calloc(1, sizeof(*ev));

	if (!ev) {
		ike_drop_count(conn->ike, IKE_DROP_NO_MEMORY);
		return NULL;
	}
	ev->e.type = type;
	ev->e.conn = conn->c.id;
	list_add_tail(&conn->ike->events, &ev->node);
	return &ev->e;
}

void ike_emit_reason(struct ike_conn *conn, enum ike_event_type type, const char *reason)
{
	struct ike_event *e = ike_emit(conn, type);

	if (e)
		snprintf(e->reason, sizeof(e->reason), "%s", reason);
}

bool ike_event_next(struct ike *ike, struct ike_event *ret)
{
	struct ike_ev *ev;

	engine_unlend(ike);
	if (list_empty(&ike->events))
		return false;
	ev = container_of(ike->events.next, struct ike_ev, node);
	list_del(&ev->node);
	*ret = ev->e;
	w_free_secret(ev, sizeof(*ev));
	return true;
}

void ike_event_wipe(struct ike_event *e)
{
	w_zeroize(e, sizeof(*e));
}

/* ---- In ---- */
static bool header_is_init_request(const struct ike_header *h)
{
	return h->exchange == IKE_SA_INIT && !(h->flags & IKE_FLAG_RESPONSE);
}

/* RFC 7296 2.5: a higher major version in a request is answered; a lower one cannot be. */
static void input_version(struct ike *ike, const struct ike_header *h, const struct ike_datagram *d,
	wtime now)
{
	struct ike_notify n = {.type = IKE_N_INVALID_MAJOR_VERSION};

	ike_drop_count(ike, IKE_DROP_VERSION);
	if (h->version > IKE_VERSION && !(h->flags & IKE_FLAG_RESPONSE))
		ike_reply_error(ike, h, d, &n, now);
}

static void input_malformed(struct ike *ike, const struct ike_msg *m, enum ike_parse_error e,
	const struct ike_datagram *d, wtime now)
{
	/* RFC 7296 2.5: the type of the payload that we do not know goes into the notify. */
	struct ike_notify n = {.type = IKE_N_UNSUPPORTED_CRITICAL_PAYLOAD,
		.data = view_of(&m->bad_type, 1)};

	ike_drop_count(ike, e == IKE_PARSE_TRUNCATED ? IKE_DROP_TRUNCATED : IKE_DROP_MALFORMED);
	if (e == IKE_PARSE_CRITICAL && header_is_init_request(&m->h))
		ike_reply_error(ike, &m->h, d, &n, now);
}

static void input_dispatch(struct ike *ike, const struct ike_header *h,
	const struct ike_datagram *d, wtime now)
{
	/* RFC 7296 3.1: the initiator bit says whose SPI is whose. */
	uint64_t own = h->flags & IKE_FLAG_INITIATOR ? h->spi_r : h->spi_i;
	struct ike_msg m;
	struct ike_sa *sa = NULL;
	enum ike_parse_error e;

	if (!header_is_init_request(h)) {
		sa = ike_sa_find(ike, own);
		if (!sa) {
			if (!ike_departed_input(ike, own, d))
				ike_drop_count(ike, IKE_DROP_UNKNOWN_SPI);
			return;
		}
	}
	e = ike_msg_parse(d->data, &m);
	if (e != IKE_PARSE_OK) {
		input_malformed(ike, &m, e, d, now);
		return;
	}
	if (sa)
		ike_sa_input(sa, &m, d, now);
	else
		ike_init_request(ike, &m, d, now);
}

void ike_input(struct ike *ike, const struct ike_datagram *d, wtime now)
{
	struct ike_header h;

	engine_unlend(ike);
	if (ike_header_parse(d->data, &h) != IKE_PARSE_OK)
		ike_drop_count(ike, IKE_DROP_TRUNCATED);
	else if (h.version >> 4 != IKE_VERSION >> 4)
		input_version(ike, &h, d, now);
	else if (h.spi_i == 0)
		ike_drop_count(ike, IKE_DROP_MALFORMED);
	else
		input_dispatch(ike, &h, d, now);
	engine_reap(ike);
}

/* ---- Time ---- */
wtime ike_deadline(const struct ike *ike)
{
	return wtime_min(heap_next(&ike->timers), ike_departed_due(ike));
}

void ike_tick(struct ike *ike, wtime now)
{
	struct ike_timer *t;

	engine_unlend(ike);
	while ((t = timer_due(ike, now))) {
		if (t->is_conn)
			ike_conn_tick(container_of(t, struct ike_conn, timer), now);
		else
			ike_sa_tick(container_of(t, struct ike_sa, timer), now);
	}
	ike_departed_tick(ike, now);
	engine_reap(ike);
}

/* ---- Facts ---- */
bool ike_spi_established(const struct ike *ike, uint64_t spi_i, uint64_t spi_r)
{
	const struct ike_sa *sa = ike_sa_find(ike, spi_r);

	if (!sa || sa->spi_i != spi_i)
		sa = ike_sa_find(ike, spi_i);
	return sa && sa->spi_i == spi_i && sa->spi_r == spi_r && sa->state != IKE_SA_CONNECTING &&
		sa->state != IKE_SA_HALF_OPEN;
}

void ike_stats(const struct ike *ike, struct ike_stats *ret)
{
	*ret = ike->stats;
	ret->cookies_on = ike->stats.half_open >= ike->config.cookie_threshold;
}
