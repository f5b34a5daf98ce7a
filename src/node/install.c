/* IKE's events made real: children become SAs of the plane, in the order that loses no packet:
 * inbound first, outbound when IKE says so, the old ones when it says so. */
#include "node/node_priv.h"

#include <stdio.h>
#include <string.h>
#include "base/mem.h"

static struct node_child *find_child(struct node *n, uint32_t child)
{
	list_for_each (it, &n->children) {
		struct node_child *c = container_of(it, struct node_child, list);

		if (c->child == child)
			return c;
	}
	return NULL;
}

static void drop_if_gone(struct node_child *c)
{
	if (c->in || c->out)
		return;
	list_del(&c->list);
	w_free(c);
}

/* Of the numbers that an inbound SA's peer used, those that did not come. */
static uint64_t lost_of(const struct tunnel_sa *in)
{
	uint64_t numbers = __atomic_load_n(&in->numbers, __ATOMIC_RELAXED);
	uint64_t highest = __atomic_load_n(&in->highest, __ATOMIC_RELAXED);

	return highest > numbers ? highest - numbers : 0;
}

/* An SA goes, what it lost stays counted. */
static void lost_count(struct node *n, const struct tunnel_sa *in)
{
	struct node_link *l = in->slot < n->slots ? n->slot[in->slot] : NULL;

	if (l)
		l->lost += lost_of(in);
}

uint64_t node_lost(const struct node *n, const struct node_link *l)
{
	uint64_t lost = l->lost;

	list_for_each (it, &n->children) {
		const struct node_child *c = container_of(it, struct node_child, list);

		if (c->slot == l->slot && c->in)
			lost += lost_of(c->in);
	}
	return lost;
}

void node_sa_gone(struct node *n, struct tunnel_sa *sa)
{
	struct node_child *c = find_child(n, sa->child);

	if (c) {
		if (c->in == sa) {
			lost_count(n, sa);
			c->in = NULL;
		}
		if (c->out == sa)
			c->out = NULL;
		drop_if_gone(c);
	}
	esp_sa_free(sa);
}

void node_children_free(struct node *n)
{
	list_for_each_safe (it, &n->children) {
		struct node_child *c = container_of(it, struct node_child, list);

		esp_sa_free(c->in);
		esp_sa_free(c->out);
		list_del(&c->list);
		w_free(c);
	}
}

static int make_sas(const struct node *n, const struct ike_event *e, struct node_child *c)
{
	struct esp_sa_config sc = {
		.crypto = n->crypto,
		.inbound = true,
		.spi = e->child.spi_in,
		.aead = e->child.aead,
		.key = e->keys.in_key,
		.auth = e->keys.in_auth,
		.esn = e->child.esn,
		.slot = c->slot,
		.child = c->child,
		.lanes = (uint8_t)(1 + n->helpers),
	};
	int err = esp_sa_new(&sc, &c->in);

	if (err < 0)
		return err;
	sc.inbound = false;
	sc.spi = e->child.spi_out;
	sc.key = e->keys.out_key;
	sc.auth = e->keys.out_auth;
	err = esp_sa_new(&sc, &c->out);
	if (err < 0) {
		esp_sa_free(c->in);
		c->in = NULL;
	}
	return err;
}

static void child_up(struct node *n, struct node_link *l, const struct ike_event *e, wtime now)
{
	struct node_child *c = w_calloc(1, sizeof(*c));
	struct plane_down m = {.type = PLANE_DOWN_SA_ADD, .slot = l->slot};

	if (!c) {
		n->out_of_memory++;
		return;
	}
	c->child = e->child.child;
	c->slot = l->slot;
	list_init(&c->list);
	if (make_sas(n, e, c) < 0) {
		node_log(n, CONF_LOG_ERROR, "link %s: no ESP SA could be made", l->text);
		l->child_retry_at = wtime_add(now, NODE_CHILD_RETRY_US);
		w_free(c);
		return;
	}
	list_add_tail(&n->children, &c->list);
	m.sa = c->in;
	(void)node_to_plane(n, &m);
	m.sa = c->out;
	(void)node_to_plane(n, &m);
	node_link_moved(n, l, &e->local, &e->remote, now);
	node_probe_heard(n, l, now); /* keys were just agreed on over it */
}

const struct node_child *node_outbound(const struct node_link *l)
{
	return l->current && l->current->out ? l->current : NULL;
}

static void child_outbound(struct node *n, struct node_link *l, const struct ike_event *e,
	wtime now)
{
	struct node_child *c = find_child(n, e->child.child);
	struct plane_down m = {.type = PLANE_DOWN_SA_OUTBOUND, .slot = l->slot};
	bool first = !l->outbound;

	if (!c || !c->out)
		return;
	m.sa = c->out;
	if (!node_to_plane(n, &m))
		return;
	l->outbound = c->child;
	l->current = c;
	l->reason[0] = 0;
	if (first) {
		l->up_since = now;
		l->dead = false;
		l->probes_out = 0;
		l->quiet_since = 0;
		l->answered = l->doubted = l->suspect = false;
		l->greetings = 0;
		l->probe_next = now;
		n->snapshot_dirty = true;
		node_speaker_link(n, l, now);
		node_log(n, CONF_LOG_INFO, "link %s: up", l->text);
		node_updown(n, l, true);
	}
}

static void child_down(struct node *n, struct node_link *l, const struct ike_event *e, wtime now)
{
	struct node_child *c = find_child(n, e->child.child);
	struct plane_down m = {.type = PLANE_DOWN_SA_OUTBOUND};

	if (l && l->outbound == e->child.child) {
		l->outbound = 0;
		l->current = NULL;
		n->snapshot_dirty = true;
		node_speaker_link(n, l, now);
		m.slot = l->slot;
		(void)node_to_plane(n, &m);
		node_updown(n, l, false);
	}
	if (!c || c->removed)
		return;
	c->removed = true;
	m = (struct plane_down){.type = PLANE_DOWN_SA_REMOVE, .slot = c->slot, .sa = c->in};
	(void)node_to_plane(n, &m);
	m.sa = c->out;
	(void)node_to_plane(n, &m);
}

static void link_down(struct node *n, struct node_link *l, const struct ike_event *e, wtime now)
{
	(void)snprintf(l->reason, sizeof(l->reason), "%s", e->reason);
	node_log(n, e->type == IKE_EVENT_DOWN ? CONF_LOG_INFO : CONF_LOG_DEBUG, "link %s: %s%s%s",
		l->text, e->type == IKE_EVENT_DOWN ? "down" : "attempt failed",
		e->reason[0] ? ": " : "", e->reason);
	/* another address of the name, when there is one, before its next try */
	if (e->type == IKE_EVENT_FAILED && l->is_name)
		l->resolve_at = wtime_min(l->resolve_at, now);
}

static void handle(struct node *n, const struct ike_event *e, wtime now)
{
	struct node_link *l = node_link_by_conn(n, e->conn);

	if (e->type == IKE_EVENT_CHILD_DOWN) {
		child_down(n, l, e, now);
		return;
	}
	if (!l)
		return;
	switch (e->type) {
	case IKE_EVENT_CHILD_UP:
		child_up(n, l, e, now);
		break;
	case IKE_EVENT_CHILD_OUTBOUND:
		child_outbound(n, l, e, now);
		break;
	case IKE_EVENT_UP: /* a whole handshake went that way */
		node_link_moved(n, l, &e->local, &e->remote, now);
		if (e->anew || l->dead)
			node_speaker_anew(n, l, now);
		break;
	case IKE_EVENT_REMOTE_SEEN:
		node_move_seen(n, l, &e->local, &e->remote, now);
		break;
	case IKE_EVENT_REMOTE_ANSWERED:
		node_move_answered(n, l, &e->local, &e->remote, now);
		break;
	case IKE_EVENT_DOWN:
	case IKE_EVENT_FAILED:
		link_down(n, l, e, now);
		break;
	case IKE_EVENT_CHILD_DOWN:
	case IKE_EVENT_NONE:
		break;
	}
}

void node_ike_events(struct node *n, wtime now)
{
	struct ike_event e;

	while (ike_event_next(n->ike, &e)) {
		handle(n, &e, now);
		ike_event_wipe(&e);
	}
}
