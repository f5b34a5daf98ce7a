/* Two engines in one process: see bed_test.h. */
#include "ike/bed_test.h"

#include <assert.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "ike/sa_priv.h"

static int bed_rng(void *ctx, void *p, size_t n)
{
	struct bed_node *node = ctx;
	int err = rng_fill(&node->base, p, n);

	if (err == 0 && n == IKE_NONCE_LEN && node->first_byte >= 0)
		*(uint8_t *)p = (uint8_t)node->first_byte;
	return err;
}

static void bed_spi(void *ctx, uint64_t own_spi, bool known)
{
	struct bed_node *node = ctx;

	assert_int_not_equal(own_spi, 0);
	node->spis += known ? 1 : -1;
}

static void bed_engine(struct bed *bed, unsigned int which, const struct bed_options *o)
{
	struct bed_node *n = &bed->node[which];
	struct ike_config c = {.rng = n->rng,
		.key = n->key,
		.cookie_threshold = o->cookie_threshold,
		.half_open_max = o->half_open_max,
		.datagram_max = o->datagram_max,
		.spi = bed_spi,
		.spi_ctx = n,
		.grid_us = o->grid_us,
		.grid_phase = {o->grid_phase_us}};

	assert_int_equal(ike_new(&c, &n->ike), 0);
}

void bed_add_conn(struct bed *bed, unsigned int which, const struct bed_options *o)
{
	struct bed_node *n = &bed->node[which], *peer = &bed->node[1 - which];
	struct ike_conn_config c = {.id = BED_CONN,
		.local_id = view_of(n->id, n->id_len),
		.remote_id = view_of(peer->id, peer->id_len),
		.local = n->ep,
		.remote = peer->ep,
		.initiate = !o->passive[which],
		.post_quantum = o->pq[which],
		.ike_lifetime_us = o->ike_lifetime_us,
		.child_lifetime_us = o->child_lifetime_us,
		.dpd_us = o->dpd_us,
		.spi_class = o->spi_classes > 1,
		.spi_classes = o->spi_classes};

	memcpy(c.remote_key, peer->public_key, sizeof(c.remote_key));
	assert_int_equal(ike_conn_add(n->ike, &c, bed->now), 0);
	bed_collect(bed);
}

void bed_open(struct bed *bed, const struct bed_options *o)
{
	memset(bed, 0, sizeof(*bed));
	list_init(&bed->wire);
	bed->now = (wtime){1000 * W_SEC};
	bed->delay_us = o->delay_us ? o->delay_us : 10 * W_MS;
	for (unsigned int i = 0; i < 2; i++) {
		struct bed_node *n = &bed->node[i];

		n->first_byte = -1;
		n->base = rng_seeded_init(&n->seeded, o->seed * 2 + i + 1);
		n->rng = (struct rng){.fill = bed_rng, .ctx = n};
		assert_int_equal(ed25519_generate(&n->rng, &n->key), 0);
		ed25519_public(n->key, n->public_key);
		n->id_len = (size_t)snprintf((char *)n->id, sizeof(n->id), "0: identity of node %c",
			'a' + (int)i);
		n->ep = (struct endpoint){.ip = {.family = IP4, .b = {192, 0, 2, (uint8_t)(i + 1)}},
			.port = 13000};
		bed_engine(bed, i, o);
	}
	for (unsigned int i = 0; i < 2; i++)
		bed_add_conn(bed, i, o);
}

void bed_restart(struct bed *bed, unsigned int which, const struct bed_options *o)
{
	struct bed_node *n = &bed->node[which];

	ike_free(n->ike);
	for (unsigned int i = 0; i < n->child_count; i++)
		n->child[i].up = false;
	n->outbound = 0;
	bed_engine(bed, which, o);
}

void bed_close(struct bed *bed)
{
	for (unsigned int i = 0; i < 2; i++) {
		ike_free(bed->node[i].ike);
		ed25519_free(bed->node[i].key);
	}
	list_for_each_safe (it, &bed->wire) {
		list_del(it);
		w_free(container_of(it, struct bed_packet, node));
	}
}

/* ---- The wire ---- */
static void wire_add(struct bed *bed, const struct bed_packet *p, int64_t delay)
{
	struct bed_packet *q = w_memdup(p, sizeof(*p) + p->n);
	struct list *at = bed->wire.prev;

	assert_non_null(q);
	q->at = wtime_add(bed->now, delay);
	while (at != &bed->wire &&
		wtime_before(q->at, container_of(at, struct bed_packet, node)->at))
		at = at->prev;
	list_add_head(at, &q->node);
}

static void wire_send(struct bed *bed, unsigned int from, const struct ike_datagram *d)
{
	struct bed_packet *p = w_alloc(sizeof(*p) + d->data.n);

	assert_non_null(p);
	p->to = 1 - from;
	p->from = bed->node[from].ep;
	p->target = d->remote;
	p->n = d->data.n;
	memcpy(p->data, d->data.p, d->data.n);
	assert_int_equal(ike_header_parse(view_of(p->data, p->n), &p->h), IKE_PARSE_OK);
	bed->packets[from]++;
	assert_true(d->data.n <= 1280 - 28 - 4 || p->h.exchange == IKE_SA_INIT);
	switch (bed->filter ? bed->filter(bed, p) : BED_PASS) {
	case BED_DROP:
		break;
	case BED_TWICE:
		wire_add(bed, p, bed->delay_us);
		wire_add(bed, p, bed->delay_us);
		break;
	case BED_SLOW:
		wire_add(bed, p, bed->delay_us + 1300 * W_MS);
		break;
	case BED_PASS:
		wire_add(bed, p, bed->delay_us);
		break;
	}
	w_free(p);
}

bool bed_is(const struct bed_packet *p, enum ike_exchange exchange, bool response)
{
	return p->h.exchange == exchange && !!(p->h.flags & IKE_FLAG_RESPONSE) == response;
}

/* ---- Events ---- */
static struct bed_child *node_child(struct bed_node *n, uint32_t handle)
{
	for (unsigned int i = 0; i < n->child_count; i++)
		if (n->child[i].info.child == handle && n->child[i].up)
			return &n->child[i];
	return NULL;
}

const struct bed_child *bed_child(const struct bed *bed, unsigned int which, uint32_t handle)
{
	const struct bed_node *n = &bed->node[which];

	for (unsigned int i = 0; i < n->child_count; i++)
		if (n->child[i].info.child == handle && n->child[i].up)
			return &n->child[i];
	return NULL;
}

static void child_up(struct bed_node *n, const struct ike_event *e)
{
	struct bed_child *c = NULL;

	for (unsigned int i = 0; i < n->child_count && !c; i++)
		if (!n->child[i].up)
			c = &n->child[i];
	if (!c) {
		assert_true(n->child_count < BED_CHILDREN);
		c = &n->child[n->child_count++];
	}
	*c = (struct bed_child){.up = true, .info = e->child, .keys = e->keys};
}

static void take_event(struct bed_node *n, const struct ike_event *e)
{
	struct bed_child *c = e->child.child ? node_child(n, e->child.child) : NULL;

	assert_int_equal(e->conn, BED_CONN);
	switch (e->type) {
	case IKE_EVENT_CHILD_UP:
		assert_null(c);
		child_up(n, e);
		break;
	case IKE_EVENT_CHILD_OUTBOUND:
		assert_non_null(c); /* never send on what is not installed */
		n->outbound = e->child.child;
		break;
	case IKE_EVENT_CHILD_DOWN:
		assert_non_null(c);
		c->up = false;
		if (n->outbound == e->child.child)
			n->outbound = 0;
		break;
	case IKE_EVENT_UP:
		n->ups++;
		break;
	case IKE_EVENT_DOWN:
		n->downs++;
		snprintf(n->reason, sizeof(n->reason), "%s", e->reason);
		break;
	case IKE_EVENT_FAILED:
		n->fails++;
		snprintf(n->reason, sizeof(n->reason), "%s", e->reason);
		break;
	case IKE_EVENT_REMOTE_SEEN:
		n->seen++;
		break;
	case IKE_EVENT_REMOTE_ANSWERED:
		n->answered++;
		break;
	default:
		fail();
	}
}

void bed_collect(struct bed *bed)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct bed_node *n = &bed->node[i];
		struct ike_conn_status s;
		struct ike_datagram d;
		struct ike_event e;

		if (!n->ike)
			continue;
		while (ike_event_next(n->ike, &e)) {
			take_event(n, &e);
			ike_event_wipe(&e);
		}
		while (ike_output(n->ike, &d))
			wire_send(bed, i, &d);
		/* what status says is sent on is what the data path was told */
		if (ike_conn_status(n->ike, BED_CONN, &s) == 0)
			assert_int_equal(s.outbound_child, n->outbound);
	}
}

/* ---- Data ---- */
bool bed_can_send(struct bed *bed, unsigned int from)
{
	const struct bed_child *out = bed_child(bed, from, bed->node[from].outbound);
	struct bed_node *to = &bed->node[1 - from];

	if (!out)
		return false;
	for (unsigned int i = 0; i < to->child_count; i++) {
		const struct bed_child *in = &to->child[i];

		if (in->up && in->info.spi_in == out->info.spi_out)
			return in->keys.aead == out->keys.aead && in->info.esn == out->info.esn &&
				memcmp(in->keys.in_key, out->keys.out_key,
					sizeof(in->keys.in_key)) == 0;
	}
	return false;
}

/* Data packets take no time: an SA that is sent on must be there at the other end. The initiator of
 * a first child waits for the answer, so this is as strict as a link of no length. */
static void bed_data(struct bed *bed)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (!bed->node[i].outbound)
			continue;
		bed->sent_data++;
		if (bed_can_send(bed, i))
			ike_conn_heard(bed->node[1 - i].ike, BED_CONN, bed->now);
		else
			bed->lost_data++;
	}
	bed->data_at = wtime_add(bed->now, bed->data_us);
}

/* ---- Time ---- */
static struct bed_packet *wire_first(struct bed *bed)
{
	return list_empty(&bed->wire) ? NULL
				      : container_of(bed->wire.next, struct bed_packet, node);
}

static void wire_deliver(struct bed *bed, struct bed_packet *p)
{
	struct bed_node *n = &bed->node[p->to];
	const struct ike_datagram d = {.local = n->ep,
		.remote = p->from,
		.data = view_of(p->data, p->n)};

	list_del(&p->node);
	if (n->ike && endpoint_equal(&p->target, &n->ep))
		ike_input(n->ike, &d, bed->now);
	w_free(p);
	bed_collect(bed);
}

bool bed_step(struct bed *bed)
{
	struct bed_packet *p;

	bed_collect(bed);
	p = wire_first(bed);
	if (!p)
		return false;
	if (wtime_before(bed->now, p->at))
		bed->now = p->at;
	wire_deliver(bed, p);
	return true;
}

static wtime bed_next(struct bed *bed)
{
	struct bed_packet *p = wire_first(bed);
	wtime t = p ? p->at : WTIME_NEVER;

	for (unsigned int i = 0; i < 2; i++)
		if (bed->node[i].ike)
			t = wtime_min(t, ike_deadline(bed->node[i].ike));
	return bed->data_us ? wtime_min(t, bed->data_at) : t;
}

/* One thing that happens at or before `end`. */
static bool bed_once(struct bed *bed, wtime end)
{
	struct bed_packet *p;
	wtime t;

	bed_collect(bed);
	t = bed_next(bed);
	if (t.us > end.us)
		return false;
	if (wtime_before(bed->now, t))
		bed->now = t;
	if (bed->data_us && wtime_due(bed->data_at, bed->now))
		bed_data(bed);
	p = wire_first(bed);
	if (p && wtime_due(p->at, bed->now))
		wire_deliver(bed, p);
	else
		for (unsigned int i = 0; i < 2; i++)
			if (bed->node[i].ike && wtime_due(ike_deadline(bed->node[i].ike), bed->now))
				ike_tick(bed->node[i].ike, bed->now);
	bed_collect(bed);
	return true;
}

void bed_run(struct bed *bed, int64_t us)
{
	wtime end = wtime_add(bed->now, us);

	while (bed_once(bed, end))
		;
	bed->now = end;
}

bool bed_run_until_up(struct bed *bed, int64_t us)
{
	wtime end = wtime_add(bed->now, us);

	while (!bed_can_send(bed, 0) || !bed_can_send(bed, 1))
		if (!bed_once(bed, end))
			return false;
	return true;
}

/* ---- Looking ---- */
struct ike_conn_status bed_status(struct bed *bed, unsigned int which)
{
	struct ike_conn_status s;

	assert_int_equal(ike_conn_status(bed->node[which].ike, BED_CONN, &s), 0);
	return s;
}

struct ike_conn *bed_conn(struct bed *bed, unsigned int which)
{
	return ike_conn_find(bed->node[which].ike, BED_CONN);
}

bool bed_is_tidy(struct bed *bed)
{
	struct ike_conn_status a = bed_status(bed, 0), b = bed_status(bed, 1);

	return a.state == IKE_STATE_UP && b.state == IKE_STATE_UP && a.sa_count == 1 &&
		b.sa_count == 1 && a.child_count == 1 && b.child_count == 1 &&
		a.sa.spi_i == b.sa.spi_i && a.sa.spi_r == b.sa.spi_r &&
		a.children[0].spi_in == b.children[0].spi_out &&
		a.children[0].spi_out == b.children[0].spi_in &&
		a.outbound_child == a.children[0].child &&
		b.outbound_child == b.children[0].child && bed_can_send(bed, 0) &&
		bed_can_send(bed, 1);
}
