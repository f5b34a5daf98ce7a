/* One link: made from a local and a remote endpoint, bound to an IKE connection and a slot of the
 * plane; its addresses, names and liveness. */
#include "node/node_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"

static void link_free(struct node_link *l)
{
	if (!l)
		return;
	w_free(l->text);
	w_free(l->organization);
	w_free(l->name);
	w_free(l->local_serial);
	w_free(l->remote_serial);
	w_free(l->address);
	w_free(l->updown);
	w_free(l);
}

static bool copy_texts(struct node_link *l, const struct node_link_want *w)
{
	struct buf text = {0};

	buf_printf(&text, "%s/%s:%s-%s", w->node->organization, w->node->name, w->local->serial,
		w->remote->serial);
	l->text = text.failed ? NULL : w_strdup((const char *)text.p);
	buf_free(&text);
	l->organization = w_strdup(w->node->organization);
	l->name = w_strdup(w->node->name);
	l->local_serial = w_strdup(w->local->serial);
	l->remote_serial = w_strdup(w->remote->serial);
	l->address = w->remote->address ? w_strdup(w->remote->address) : NULL;
	l->updown = w->local->updown ? w_strdup(w->local->updown) : NULL;
	return l->text && l->organization && l->name && l->local_serial && l->remote_serial &&
		(l->address || !w->remote->address) && (l->updown || !w->local->updown);
}

/* A free slot; grows the table. */
static int take_slot(struct node *n, struct node_link *l)
{
	enum { FIRST_SLOTS = 16 };
	uint32_t s = 0;

	while (s < n->slots && n->slot_taken[s])
		s++;
	if (s == PLANE_SLOTS)
		return -ENOSPC;
	if (s == n->slots) {
		uint32_t slots = n->slots ? n->slots * 2 : FIRST_SLOTS;
		struct node_link **slot = w_realloc(n->slot, slots * sizeof(*slot));
		bool *taken;

		if (!slot)
			return -ENOMEM;
		n->slot = slot;
		taken = w_realloc(n->slot_taken, slots * sizeof(*taken));
		if (!taken)
			return -ENOMEM;
		n->slot_taken = taken;
		memset(slot + n->slots, 0, (slots - n->slots) * sizeof(*slot));
		memset(taken + n->slots, 0, (slots - n->slots) * sizeof(*taken));
		n->slots = slots;
	}
	n->slot[s] = l;
	n->slot_taken[s] = true;
	l->slot = s;
	return 0;
}

static void conn_config(const struct node *n, const struct node_link *l,
	const struct node_id *local, const struct node_id *remote, struct ike_conn_config *ret)
{
	static const enum ike_pq pq[] = {
		[CONF_PQ_PREFER] = IKE_PQ_PREFER,
		[CONF_PQ_REQUIRE] = IKE_PQ_REQUIRE,
		[CONF_PQ_OFF] = IKE_PQ_OFF,
	};
	const struct config *c = n->config;

	*ret = (struct ike_conn_config){
		.id = l->conn,
		.local_id = view_of(local->der, local->len),
		.remote_id = view_of(remote->der, remote->len),
		.local = {.ip = l->bind, .port = l->local_port},
		.remote = l->remote,
		.spi_class = l->slot % n->planes,
		.spi_classes = n->planes,
		.initiate = l->address != NULL,
		.post_quantum = pq[c->ike.post_quantum],
		.ike_lifetime_us = c->ike.lifetime_us,
		.child_lifetime_us = c->ike.child_lifetime_us,
		.dpd_us = c->ike.dpd_us,
	};
	memcpy(ret->remote_key, l->key, sizeof(ret->remote_key));
}

static int identities(const struct node *n, const struct node_link *l, struct node_id *local,
	struct node_id *remote)
{
	int err = node_identity(n->config->node.organization, n->config->node.name, l->local_serial,
		local);

	return err < 0 ? err : node_identity(l->organization, l->name, l->remote_serial, remote);
}

static void start_address(struct node_link *l)
{
	struct ipaddr a;

	l->remote = (struct endpoint){.port = l->remote_port};
	l->is_name = false;
	if (!l->address)
		return;
	if (ipaddr_parse(l->address, &a) < 0)
		l->is_name = true;
	else if (a.family == l->family)
		l->remote.ip = a;
}

static int hand_to_plane(struct node *n, struct node_link *l)
{
	struct plane_down m = {.type = PLANE_DOWN_LINK_ADD, .slot = l->slot};

	struct node_state *state = w_calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	m.state = &state->s;
	if (!node_to_plane(n, &m)) {
		w_free(state);
		return -ENOMEM;
	}
	list_add_tail(&n->states, &state->list);
	l->state = &state->s;
	return 0;
}

static int link_start(struct node *n, struct node_link *l, wtime now)
{
	struct node_id local, remote;
	struct ike_conn_config cc;
	int err = identities(n, l, &local, &remote);

	if (err < 0)
		return err;
	if (node_link_local(&local, &remote, &l->own_link_local) < 0 ||
		node_link_local(&remote, &local, &l->peer_link_local) < 0)
		return -EIO;
	start_address(l);
	l->local = (struct endpoint){.ip = l->bind, .port = l->local_port};
	l->conn = ++n->last_conn;
	err = take_slot(n, l);
	if (err < 0)
		return err;
	err = hand_to_plane(n, l);
	if (err < 0) {
		n->slot[l->slot] = NULL;
		n->slot_taken[l->slot] = false;
		return err;
	}
	list_add_tail(&n->links, &l->list);
	conn_config(n, l, &local, &remote, &cc);
	node_path_ask(n, l, now); /* known before the first datagram leaves */
	return ike_conn_add(n->ike, &cc, now);
}

int node_link_new(struct node *n, const struct node_link_want *w, wtime now, struct node_link **ret)
{
	struct node_link *l = w_calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	list_init(&l->list);
	if (!copy_texts(l, w)) {
		link_free(l);
		return -ENOMEM;
	}
	memcpy(l->key, w->node->key, sizeof(l->key));
	l->transit = w->node->transit;
	l->family = w->local->family;
	l->socket = w->socket;
	l->bind = w->local->address;
	l->local_port = w->local->port;
	l->remote_port = w->remote->port;
	l->resolve_at = now;
	l->keep = true;
	err = link_start(n, l, now);
	if (err < 0) {
		if (l->state)
			node_link_remove(n, l, now);
		else
			link_free(l);
		return err;
	}
	n->snapshot_dirty = true;
	*ret = l;
	return 0;
}

void node_link_remove(struct node *n, struct node_link *l, wtime now)
{
	struct plane_down m = {.type = PLANE_DOWN_LINK_REMOVE, .slot = l->slot};

	ike_conn_remove(n->ike, l->conn, now);
	node_ike_events(n, now); /* the children's end, while the link is still there */
	if (l->speaking)
		babel_iface_remove(n->babel, l->slot + 1, now);
	node_speaker_run(n, now); /* its routes, before the slot is another link's */
	n->slot[l->slot] = NULL;
	n->excluded -= l->excluded;
	n->snapshot_dirty = true;
	(void)node_to_plane(n, &m); /* without memory the slot stays taken, which is safe */
	list_del(&l->list);
	link_free(l);
}

int node_link_update(struct node *n, struct node_link *l, const struct node_link_want *w, wtime now,
	struct buf *report)
{
	struct node_id local, remote;
	struct ike_conn_config cc;
	const char *address = w->remote->address;
	bool same = (!address && !l->address) ||
		(address && l->address && !strcmp(address, l->address));
	int err;

	if (!same || l->remote_port != w->remote->port) {
		char *copy = address ? w_strdup(address) : NULL;

		if (address && !copy)
			return -ENOMEM;
		buf_printf(report, "link %s: address %s -> %s\n", l->text,
			l->address ? l->address : "none", address ? address : "none");
		w_free(l->address);
		l->address = copy;
		l->remote_port = w->remote->port;
		start_address(l);
		l->resolved_count = 0;
		l->resolve_at = now;
		node_path_ask(n, l, now);
		if (l->remote.ip.family != IP_NONE)
			(void)ike_conn_set_remote(n->ike, l->conn, &l->remote, now);
		n->snapshot_dirty = true;
	}
	l->transit = w->node->transit;
	err = node_updown_set(n, l, w->local->updown);
	if (!err)
		err = identities(n, l, &local, &remote);
	if (err < 0)
		return err;
	conn_config(n, l, &local, &remote, &cc);
	return ike_conn_update(n->ike, &cc, now);
}

struct node_link *node_link_by_conn(struct node *n, uint32_t conn)
{
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (l->conn == conn)
			return l;
	}
	return NULL;
}

bool node_link_usable(const struct node_link *l)
{
	return l->outbound && l->remote.ip.family != IP_NONE;
}

void node_link_moved(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now)
{
	bool moved = !endpoint_equal(&l->remote, remote);

	if (!moved && ipaddr_equal(&l->local.ip, &local->ip))
		return;
	if (moved && l->remote.ip.family != IP_NONE) {
		char from[ENDPOINT_TEXT], to[ENDPOINT_TEXT];

		node_log(n, CONF_LOG_INFO, "link %s: endpoint %s -> %s", l->text,
			endpoint_format(&l->remote, from), endpoint_format(remote, to));
	}
	l->remote = *remote;
	l->local.ip = local->ip;
	if (moved) {
		pmtu_restart(&l->pmtu);
		(void)ike_conn_set_remote(n->ike, l->conn, remote, now);
		node_path_ask(n, l, now);
	}
	n->snapshot_dirty = true;
}

static void ask_name(struct node *n, struct node_link *l, wtime now)
{
	struct node_action a = {.type = NODE_ACTION_RESOLVE};

	a.resolve.id = l->conn;
	a.resolve.family = l->family;
	if (!node_queue(n, &a, l->address, strlen(l->address) + 1))
		return;
	struct node_queued *q = container_of(n->actions.prev, struct node_queued, list);

	q->action.resolve.name = q->data;
	l->resolving = true;
	l->resolve_at = wtime_add(now, NODE_RESOLVE_US);
}

void node_link_tick(struct node *n, struct node_link *l, wtime now)
{
	/* names are looked up before the first try and while the link is not up; what works is kept
	 */
	if (l->is_name && !l->resolving && !l->outbound && !l->admin_down &&
		wtime_due(l->resolve_at, now))
		ask_name(n, l, now);
	if (wtime_due(l->path_at, now))
		node_path_ask(n, l, now);
	if (l->child_retry_at.us && wtime_due(l->child_retry_at, now)) {
		l->child_retry_at = (wtime){0};
		(void)ike_conn_rekey_child(n->ike, l->conn, now);
	}
	node_probe_tick(n, l, now);
	node_padded_tick(n, l, now);
	node_move_tick(n, l, now);
	node_loss_tick(n, l, now);
}

void node_resolved(struct node *n, uint32_t id, const struct ipaddr *address, size_t count,
	wtime now)
{
	struct node_link *l = node_link_by_conn(n, id);

	if (!l)
		return;
	l->resolving = false;
	if (!count) {
		/* never deletes what works */
		l->resolve_at = wtime_add(now, NODE_RESOLVE_AGAIN_US);
		(void)snprintf(l->reason, sizeof(l->reason),
			"%.100s: the name could not be resolved", l->address);
		return;
	}
	l->resolved_count = count < NODE_ADDRESSES ? count : NODE_ADDRESSES;
	memcpy(l->resolved, address, l->resolved_count * sizeof(*address));
	if (l->outbound)
		return;
	for (size_t i = 0; i < l->resolved_count; i++)
		if (ipaddr_equal(&l->resolved[i], &l->remote.ip) && l->resolved_count == 1)
			return;
	/* another one than the last that failed, when there is one */
	l->resolved_at = (l->resolved_at + 1) % l->resolved_count;
	l->remote.ip = l->resolved[l->resolved_at];
	l->remote.port = l->remote_port;
	node_path_ask(n, l, now);
	(void)ike_conn_set_remote(n->ike, l->conn, &l->remote, now);
	n->snapshot_dirty = true;
}
