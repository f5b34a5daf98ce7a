/* A node: made, fed, run and freed. */
#include "node/node_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

static int start(struct node *n, const struct node_config *c, wtime now, struct buf *error)
{
	const struct ike_config ic = {.rng = c->rng,
		.key = c->key,
		.spi = c->spis ? node_spis_set : NULL,
		.spi_ctx = c->spis,
		.grid_us = NODE_TICK_US,
		.grid_phase = {now.us % NODE_TICK_US}};
	struct buf report = {0};
	int err = node_router_id(c->config, n->router_id);

	if (err < 0) {
		buf_add_str(error, "node.organization and node.name are too long for an identity");
		return err;
	}
	n->phase_us = now.us % NODE_TICK_US;
	n->crypto = c->crypto;
	n->planes = c->planes ? c->planes : 1;
	n->helpers = c->helpers;
	n->version = w_strdup(c->version);
	if (!n->version)
		return -ENOMEM;
	err = ike_new(&ic, &n->ike);
	if (err < 0)
		return err;
	err = node_rib_init(n);
	if (!err)
		err = node_table_init(n);
	if (!err)
		err = node_steer_init(n);
	if (!err)
		err = node_speaker_start(n, now);
	if (err < 0)
		return err;
	err = node_apply(n, c->config, c->registry, now, &report);
	buf_free(&report);
	return !err && n->apply_late ? -ENOMEM : err;
}

int node_new(const struct node_config *c, wtime now, struct node **ret, struct buf *error)
{
	struct node *n = w_calloc(1, sizeof(*n));
	int err = n ? 0 : -ENOMEM;

	if (n) {
		list_init(&n->links);
		list_init(&n->children);
		list_init(&n->actions);
		list_init(&n->snapshots);
		list_init(&n->states);
		list_init(&n->routes);
		list_init(&n->policies);
		list_init(&n->traces);
		n->rng = c->rng;
		n->key = c->key;
		n->config = c->config;
		n->registry = c->registry;
		n->started = now;
		n->epoch_s = c->epoch_s;
		n->seqno_at = wtime_add(now, NODE_SEQNO_US);
		n->tick_at = now;
		err = start(n, c, now, error);
	}
	if (err < 0) {
		if (!error->n)
			buf_add_str(error, strerror(-err));
		if (n) {
			node_free(n);
		} else {
			config_free((struct config *)(uintptr_t)c->config);
			registry_free((struct registry *)(uintptr_t)c->registry);
		}
		return err;
	}
	*ret = n;
	return 0;
}

static void free_actions(struct node *n)
{
	list_for_each_safe (it, &n->actions) {
		struct node_queued *q = container_of(it, struct node_queued, list);

		list_del(&q->list);
		w_free(q->data);
		w_free(q);
	}
	if (n->given) {
		w_free(n->given->data);
		w_free(n->given);
		n->given = NULL;
	}
}

static void state_free(struct plane_link_state *s)
{
	struct node_state *state = container_of(s, struct node_state, s);

	list_del(&state->list);
	w_free(state);
}

void node_free(struct node *n)
{
	if (!n)
		return;
	/* the plane is gone: what it had is ours again */
	list_for_each_safe (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		node_link_remove(n, l, (wtime){0});
	}
	node_hops_free(n);
	free_actions(n);
	list_for_each_safe (it, &n->states)
		state_free(&container_of(it, struct node_state, list)->s);
	list_for_each_safe (it, &n->snapshots)
		node_snapshot_free(&container_of(it, struct node_snapshot, list)->s);
	if (n->policy_names.bucket)
		node_steer_free(n);
	if (n->rib.bucket)
		node_rib_free(n);
	if (n->table.by_ways.bucket)
		node_table_free(n);
	babel_free(n->babel);
	w_free(n->router_ids);
	node_host_free(n);
	ike_free(n->ike);
	node_children_free(n);
	buf_free(&n->datagram);
	for (size_t i = 0; i < n->socket_count; i++)
		w_free(n->socket_serial[i]);
	w_free(n->socket_serial);
	w_free(n->socket);
	w_free(n->slot);
	w_free(n->slot_taken);
	w_free(n->version);
	arena_free(n->kernel_arena);
	config_free((struct config *)(uintptr_t)n->config);
	registry_free((struct registry *)(uintptr_t)n->registry);
	w_free(n);
}

void node_stop(struct node *n, wtime now)
{
	/* neighbours first, while the links still carry it */
	babel_stop(n->babel, now);
	node_speaker_run(n, now);
	n->stopping = true;
	list_for_each (it, &n->links)
		(void)ike_conn_down(n->ike, container_of(it, struct node_link, list)->conn, now);
	node_ike_events(n, now);
}

static void ike_message(struct node *n, const struct plane_up *up, wtime now)
{
	const struct ike_datagram d = {.local = up->local, .remote = up->remote, .data = up->data};

	ike_input(n->ike, &d, now);
}

static struct node_link *link_at(struct node *n, uint32_t slot)
{
	return slot < n->slots ? n->slot[slot] : NULL;
}

static void link_packet(struct node *n, const struct plane_up *up, wtime now)
{
	struct node_link *l = link_at(n, up->slot);

	if (!l || n->stopping)
		return;
	node_speaker_input(n, l, up->data, up->time, now);
	node_probe_answer(n, l, up->data, now);
}

void node_plane_up(struct node *n, const struct plane_up *up, wtime now)
{
	struct node_link *l = link_at(n, up->slot);

	n->now = now;
	switch (up->type) {
	case PLANE_UP_IKE:
		ike_message(n, up, now);
		break;
	case PLANE_UP_REMOTE:
		if (l && !n->stopping)
			node_move_seen(n, l, &up->local, &up->remote, now);
		break;
	case PLANE_UP_SOFT_LIMIT:
	case PLANE_UP_HARD_LIMIT:
		ike_child_soft_limit(n->ike, up->child, now);
		break;
	case PLANE_UP_SA_GONE:
		node_sa_gone(n, up->sa);
		break;
	case PLANE_UP_LINK_GONE:
		state_free(up->state);
		if (up->slot < n->slots && !n->slot[up->slot])
			n->slot_taken[up->slot] = false;
		break;
	case PLANE_UP_SNAPSHOT_GONE:
		node_snapshot_free(up->snapshot);
		break;
	case PLANE_UP_LINK:
		link_packet(n, up, now);
		break;
	case PLANE_UP_ECHO:
		node_hops_answer(n, up->data, up->time, now);
		break;
	}
	node_ike_events(n, now);
	node_speaker_run(n, now);
}

void node_addresses_changed(struct node *n, wtime now)
{
	(void)now;
	/* a cached source may be gone: let the kernel choose until the peer's next packet says */
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		l->local.ip = l->bind;
	}
	n->snapshot_dirty = true;
}

wtime node_deadline(const struct node *n)
{
	wtime at = wtime_min(wtime_min(ike_deadline(n->ike), babel_deadline(n->babel)), n->tick_at);

	if (!list_empty(&n->traces))
		at = wtime_min(at, n->traces_at);
	return n->kernel_dirty ? wtime_min(at, n->kernel_at) : at;
}

void node_tick(struct node *n, wtime now)
{
	n->now = now;
	ike_tick(n->ike, now);
	babel_tick(n->babel, now);
	node_ike_events(n, now);
	node_speaker_run(n, now);
	node_hops_tick(n, now);
	if (!wtime_due(n->tick_at, now) || n->stopping)
		return;
	/* on the grid of the speaker's timers, of which many come with it */
	n->tick_at = wtime_add(now,
		NODE_TICK_US - (now.us + NODE_TICK_US - n->phase_us) % NODE_TICK_US);
	if (wtime_due(n->seqno_at, now)) {
		n->seqno_at = wtime_add(now, NODE_SEQNO_US);
		babel_seqno_at_least(n->babel, node_speaker_seqno(n, now));
	}
	n->kernel_dirty |= n->kernel_late;
	if (n->apply_late)
		node_apply_late(n, now);
	n->snapshot_dirty |= node_table_waits(n);
	list_for_each (it, &n->links)
		node_link_tick(n, container_of(it, struct node_link, list), now);
	node_load_tick(n, now);
	node_ike_events(n, now);
	node_speaker_run(n, now);
}

const struct node_socket *node_sockets(const struct node *n, size_t *ret_n)
{
	*ret_n = n->socket_count;
	return n->socket;
}
