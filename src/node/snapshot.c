/* The snapshots that the plane reads: links, own addresses and endpoints as they are now, tables as
 * table.c has them. */
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

struct builder {
	struct node *n;
	struct node_snapshot *snap;
};

struct node_link *node_static_link(struct node *n, const struct conf_static_route *r)
{
	struct node_link *silent = NULL;

	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (strcmp(l->name, r->node) == 0 &&
			(!r->organization || strcmp(l->organization, r->organization) == 0) &&
			node_link_usable(l)) {
			if (!l->dead)
				return l;
			if (!silent)
				silent = l;
		}
	}
	return silent;
}

uint16_t node_link_mtu(const struct node *n, const struct node_link *l)
{
	const struct node_child *c = node_outbound(l);
	uint32_t mtu = n->config->tun.mtu, inner;

	if (c) {
		inner = esp_ops()->inner_max(c->out, node_link_datagram(l));
		if (inner < mtu)
			mtu = inner;
	}
	return (uint16_t)mtu;
}

static bool build_links(struct builder *b)
{
	struct node *n = b->n;
	const struct plane_link **table = arena_calloc(b->snap->arena, n->slots, sizeof(*table));

	if (!table)
		return false;
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);
		struct plane_link *p = arena_alloc(b->snap->arena, sizeof(*p));

		if (!p)
			return false;
		p->slot = l->slot;
		p->usable = node_link_usable(l) && !l->dead;
		p->socket = l->socket;
		p->datagram_max = node_link_datagram(l);
		p->mtu = node_link_mtu(n, l);
		p->local = l->local;
		if (ipaddr_is_unspecified(&p->local.ip))
			p->local.ip = (struct ipaddr){0};
		p->remote = l->remote;
		p->own_link_local = l->own_link_local;
		p->peer_link_local = l->peer_link_local;
		table[l->slot] = p;
	}
	b->snap->s.link = table;
	b->snap->s.link_count = n->slots;
	return true;
}

static int compare_addresses(const void *a, const void *b)
{
	return ipaddr_compare(a, b);
}

static int compare_endpoints(const void *a, const void *b)
{
	const struct endpoint *x = a, *y = b;
	int c = ipaddr_compare(&x->ip, &y->ip);

	return c ? c : (int)x->port - (int)y->port;
}

static bool build_own(struct builder *b)
{
	struct node *n = b->n;
	const struct config *c = n->config;
	struct plane_snapshot *s = &b->snap->s;
	struct ipaddr *own = arena_calloc(b->snap->arena, c->tun.address_count + 1, sizeof(*own));
	struct endpoint *ends;
	size_t links = 0;

	list_for_each (it, &n->links)
		links++;
	ends = arena_calloc(b->snap->arena, links * 2, sizeof(*ends));
	if (!own || !ends)
		return false;
	for (size_t i = 0; i < c->tun.address_count; i++) {
		own[i] = c->tun.address[i].ip;
		if (own[i].family == IP4 && s->icmp_source4.family == IP_NONE)
			s->icmp_source4 = own[i];
		if (own[i].family == IP6 && s->icmp_source6.family == IP_NONE)
			s->icmp_source6 = own[i];
	}
	s->copy_dscp = c->underlay.copy_dscp;
	s->dscp = c->underlay.dscp;
	s->own_address_count = (uint32_t)c->tun.address_count;
	if (node_adds_source(c))
		own[s->own_address_count++] = c->srv6.source;
	qsort(own, s->own_address_count, sizeof(*own), compare_addresses);
	s->own_address = own;
	list_for_each (it, &n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);

		if (l->remote.ip.family != IP_NONE)
			ends[s->own_endpoint_count++] = l->remote;
		if (l->local.ip.family != IP_NONE && !ipaddr_is_unspecified(&l->local.ip))
			ends[s->own_endpoint_count++] = l->local;
	}
	qsort(ends, s->own_endpoint_count, sizeof(*ends), compare_endpoints);
	s->own_endpoint = ends;
	return true;
}

void node_snapshot_send(struct node *n)
{
	struct node_snapshot *snap = w_calloc(1, sizeof(*snap));
	struct builder b = {.n = n, .snap = snap};
	struct plane_down m = {.type = PLANE_DOWN_SNAPSHOT};

	if (snap)
		list_init(&snap->list);
	if (!snap || arena_new(&snap->arena) < 0) {
		w_free(snap);
		n->out_of_memory++;
		return;
	}
	list_add_tail(&n->snapshots, &snap->list);
	snap->s.generation = ++n->generation;
	snap->s.transit = node_transit(n);
	snap->s.tun_mtu = n->config->tun.mtu;
	m.snapshot = &snap->s;
	if (!build_links(&b) || !node_table_publish(n, snap) || !build_own(&b) ||
		!node_steer_build(n, snap) || !node_to_plane(n, &m)) {
		n->out_of_memory++; /* the plane keeps the last one; the next change tries again */
		node_snapshot_free(&snap->s);
		return;
	}
	n->snapshot_dirty = false;
}

void node_snapshot_free(const struct plane_snapshot *s)
{
	struct node_snapshot *snap;

	if (!s)
		return;
	snap = container_of((void *)(uintptr_t)s, struct node_snapshot, s);
	list_del(&snap->list);
	node_steer_release(snap);
	fib_free(snap->fib);
	arena_free(snap->arena);
	w_free(snap);
}
