/* The routing table: what Babel has selected, by prefix, with the link that carries it. */
#include "node/node_priv.h"

#include <string.h>
#include "base/mem.h"

/* What identifies a route, as bytes for the hash. */
struct rib_key {
	uint8_t bytes[36];
};

static struct rib_key key_of(const struct babel_prefix *p)
{
	struct rib_key k = {{p->destination.addr.family, p->destination.len, p->source.len}};

	memcpy(k.bytes + 4, p->destination.addr.b, 16);
	if (p->source.len)
		memcpy(k.bytes + 20, p->source.addr.b, 16);
	return k;
}

static bool same(const struct babel_prefix *a, const struct babel_prefix *b)
{
	const struct rib_key x = key_of(a), y = key_of(b);

	return memcmp(&x, &y, sizeof(x)) == 0;
}

struct node_route *node_rib_find(const struct node *n, const struct babel_prefix *p)
{
	const struct rib_key k = key_of(p);

	for (struct hash_node *h = hash_find(&n->rib, &k, sizeof(k)); h; h = hash_next(h)) {
		struct node_route *r = container_of(h, struct node_route, hash);

		if (same(&r->prefix, p))
			return r;
	}
	return NULL;
}

static struct node_route *make(struct node *n, const struct babel_prefix *p)
{
	const struct rib_key k = key_of(p);
	struct node_route *r = w_calloc(1, sizeof(*r));

	if (!r || hash_add(&n->rib, &r->hash, &k, sizeof(k)) < 0) {
		w_free(r);
		n->out_of_memory++;
		return NULL;
	}
	r->prefix = *p;
	r->backup = NODE_NO_WAY;
	list_init(&r->moved);
	list_add_tail(&n->routes, &r->list);
	return r;
}

static void drop(struct node *n, struct node_route *r)
{
	node_table_gone(n, r);
	hash_del(&n->rib, &r->hash);
	list_del(&r->list);
	w_free(r);
}

void node_rib_event(struct node *n, const struct babel_event *e, wtime now)
{
	struct node_route *r;
	bool moved;

	if (e->type == BABEL_EVENT_NEIGHBOUR || e->type == BABEL_EVENT_DOUBT)
		return;
	r = node_rib_find(n, &e->prefix);
	if (e->type == BABEL_EVENT_GONE) {
		if (r)
			drop(n, r);
		n->kernel_dirty |= r != NULL;
		n->snapshot_dirty |= r != NULL;
		return;
	}
	moved = !r || r->unreachable != (e->type == BABEL_EVENT_UNREACHABLE) ||
		(e->type == BABEL_EVENT_ROUTE && r->slot != e->iface - 1);
	/* the kernel has one TUN: only coming, going and unreachable concern it */
	n->kernel_dirty |= !r || r->unreachable != (e->type == BABEL_EVENT_UNREACHABLE);
	if (!r && !(r = make(n, &e->prefix)))
		return;
	if (moved) {
		r->since = now;
		n->route_changes++;
		n->snapshot_dirty = true;
	}
	r->unreachable = e->type == BABEL_EVENT_UNREACHABLE;
	r->metric = e->metric;
	r->seqno = e->seqno;
	memcpy(r->router_id, e->router_id, sizeof(r->router_id));
	if (!r->unreachable) {
		r->slot = e->iface - 1;
		r->backup = e->backup_iface ? e->backup_iface - 1 : NODE_NO_WAY;
	}
	node_table_changed(n, r);
}

int node_rib_init(struct node *n)
{
	uint8_t key[16];
	int err = rng_fill(&n->rng, key, sizeof(key));

	list_init(&n->routes);
	return err < 0 ? err : hash_init(&n->rib, key);
}

void node_rib_free(struct node *n)
{
	list_for_each_safe (it, &n->routes)
		drop(n, container_of(it, struct node_route, list));
	hash_done(&n->rib);
}
