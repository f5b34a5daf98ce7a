/* The tables that the plane reads, built from the present state: own addresses and announced
 * prefixes are local, a static route leads to a link of its node. */
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

struct builder {
	struct node *n;
	struct node_snapshot *snap;
	struct fib_entry *entry;
	size_t entries;
	struct plane_next_hop *hop;
};

enum { HOP_LOCAL, HOP_UNREACHABLE, HOP_FIRST_LINK };

struct node_link *node_static_link(struct node *n, const struct conf_static_route *r)
{
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (strcmp(l->name, r->node) == 0 &&
			(!r->organization || strcmp(l->organization, r->organization) == 0) &&
			node_link_usable(l))
			return l;
	}
	return NULL;
}

uint16_t node_link_mtu(const struct node *n, const struct node_link *l)
{
	uint32_t mtu = n->config->tun.mtu;

	list_for_each (it, &n->children) {
		const struct node_child *c = container_of(it, struct node_child, list);
		uint32_t inner;

		if (c->child != l->outbound || !c->out)
			continue;
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

static void add_entry(struct builder *b, const struct prefix *destination,
	const struct prefix *source, uint32_t value)
{
	struct fib_entry *e = &b->entry[b->entries];

	/* the first of two equal prefixes counts: own addresses, then announced, then static */
	for (size_t i = 0; i < b->entries; i++)
		if (prefix_equal(&b->entry[i].destination, destination) &&
			b->entry[i].source.len == (source ? source->len : 0) &&
			(!b->entry[i].source.len || prefix_equal(&b->entry[i].source, source)))
			return;
	e->destination = *destination;
	e->source = source && source->len ? *source : (struct prefix){0};
	e->value = value;
	b->entries++;
}

/* Next hops stand by slot: the routes of a link have one in common. */
static uint32_t hop_of(const struct node_link *l)
{
	return l ? HOP_FIRST_LINK + l->slot : HOP_UNREACHABLE;
}

/* What Babel selected, unless a prefix of the same name is our own or static. */
static void add_learned(struct builder *b)
{
	size_t fixed = b->entries;

	list_for_each (it, &b->n->routes) {
		const struct node_route *r = container_of(it, struct node_route, list);
		struct node_link *l = r->unreachable ? NULL : b->n->slot[r->slot];
		struct fib_entry *e = &b->entry[b->entries];
		bool taken = false;

		for (size_t i = 0; !taken && i < fixed; i++)
			taken = prefix_equal(&b->entry[i].destination, &r->prefix.destination) &&
				b->entry[i].source.len == r->prefix.source.len &&
				(!r->prefix.source.len ||
					prefix_equal(&b->entry[i].source, &r->prefix.source));
		if (taken)
			continue;
		e->destination = r->prefix.destination;
		e->source = r->prefix.source.len ? r->prefix.source : (struct prefix){0};
		e->value = hop_of(l);
		b->entries++;
	}
}

/* The locator of a node that Babel does not tell of is behind a link with it. */
static void add_locators(struct builder *b)
{
	const struct registry *reg = b->n->registry;

	for (size_t i = 0; i < reg->node_count; i++) {
		const struct registry_node *r = &reg->node[i];
		const struct conf_static_route to = {.prefix = r->srv6,
			.organization = r->organization,
			.node = r->name};
		struct node_link *l = r->has_srv6 ? node_static_link(b->n, &to) : NULL;
		const struct babel_prefix p = {.destination = r->srv6};

		if (l && !l->dead && !node_rib_find(b->n, &p))
			add_entry(b, &r->srv6, NULL, hop_of(l));
	}
}

static bool build_routes(struct builder *b)
{
	const struct config *c = b->n->config;
	size_t max = c->tun.address_count + c->announce_count + c->static_route_count +
		b->n->rib.count + 1 + b->n->registry->node_count;
	struct prefix locator;

	b->entry = arena_calloc(b->snap->arena, max, sizeof(*b->entry));
	b->hop = arena_calloc(b->snap->arena, HOP_FIRST_LINK + b->n->slots, sizeof(*b->hop));
	if (!b->entry || !b->hop)
		return false;
	b->hop[HOP_LOCAL].type = PLANE_LOCAL;
	b->hop[HOP_UNREACHABLE].type = PLANE_UNREACHABLE;
	for (uint32_t slot = 0; slot < b->n->slots; slot++)
		b->hop[HOP_FIRST_LINK + slot] = (struct plane_next_hop){.type = PLANE_LINK,
			.slot = slot};
	for (size_t i = 0; i < c->tun.address_count; i++) {
		struct prefix p = prefix_of(&c->tun.address[i].ip, 128);

		add_entry(b, &p, NULL, HOP_LOCAL);
	}
	for (size_t i = 0; i < c->announce_count; i++)
		add_entry(b, &c->announce[i].destination, &c->announce[i].source, HOP_LOCAL);
	for (size_t i = 0; i < c->static_route_count; i++)
		add_entry(b, &c->static_route[i].prefix, NULL,
			hop_of(node_static_link(b->n, &c->static_route[i])));
	if (node_locator(b->n, &locator)) /* SIDs are acted on before; what is none is nowhere */
		add_entry(b, &locator, NULL, HOP_UNREACHABLE);
	add_learned(b);
	add_locators(b);
	if (fib_build(b->entry, b->entries, &b->snap->fib) < 0)
		return false;
	b->snap->s.fib = b->snap->fib;
	b->snap->s.next_hop = b->hop;
	b->snap->s.next_hop_count = HOP_FIRST_LINK + b->n->slots;
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
	struct ipaddr *own = arena_calloc(b->snap->arena, c->tun.address_count, sizeof(*own));
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
	qsort(own, c->tun.address_count, sizeof(*own), compare_addresses);
	s->own_address = own;
	s->own_address_count = (uint32_t)c->tun.address_count;
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
	if (!build_links(&b) || !build_routes(&b) || !build_own(&b) ||
		!node_steer_build(n, snap, &(struct node_routes){b.entry, b.entries}) ||
		!node_to_plane(n, &m)) {
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
