/* The node's forwarding tables, kept as they change and published as copies. A prefix points to a
 * group of next hops: a fixed one (own, unreachable, a static route's, a locator's), or that of all
 * prefixes whose routes go by the same link and have the same second way. What a group stands for
 * is found anew for each snapshot, by the links' state. So a link that is lost changes groups and
 * no prefix: packets take the second way, which Babel has found feasible, before Babel has looked
 * at a single route. Afterwards it tells what it selected; a group all of whose prefixes moved
 * alike is given another name, again without touching them.
 *
 * Of equal prefixes the first counts: own addresses, announced ones, static routes, own locator,
 * what the host's own routes say (redistributed), what Babel selected, locators of nodes behind a
 * link. */
#include "node/node_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum {
	HOP_LOCAL,
	HOP_UNREACHABLE,
	HOP_STATIC,      /* one for each static route, then one for each node of the registry */
	RENAME_MIN = 16, /* a smaller group goes into one that there is already */
};

/* A value of the table of sources that no next hop has: it may send, but there is no way to it. */
#define NO_WAY UINT32_MAX

/* Prefixes that share their fate. */
struct node_group {
	struct hash_node hash; /* by key; several may have one key */
	uint32_t id;
	struct node_ways key, to; /* to: where most of those go that leave */
	size_t members, leaving, votes;
};

static struct node_ways ways_of(const struct node_route *r)
{
	if (r->unreachable)
		return (struct node_ways){NODE_NO_WAY, NODE_NO_WAY};
	return (struct node_ways){r->slot, r->backup};
}

static bool same_ways(const struct node_ways *a, const struct node_ways *b)
{
	return a->first == b->first && a->second == b->second;
}

/* ---- groups ---- */

static uint32_t first_locator(const struct node *n)
{
	return HOP_STATIC + (uint32_t)n->config->static_route_count;
}

static uint32_t first_group(const struct node *n)
{
	return first_locator(n) + (uint32_t)n->registry->node_count;
}

static struct node_group *find_group(const struct node_table *t, const struct node_ways *w)
{
	for (struct hash_node *h = hash_find(&t->by_ways, w, sizeof(*w)); h; h = hash_next(h)) {
		struct node_group *g = container_of(h, struct node_group, hash);

		if (same_ways(&g->key, w))
			return g;
	}
	return NULL;
}

static int take_id(struct node_table *t, struct node_group *g)
{
	enum { FIRST = 16 };
	uint32_t cap = t->group_cap ? t->group_cap * 2 : FIRST;
	struct node_group **more;

	while (t->group_free < t->group_cap && t->group[t->group_free])
		t->group_free++;
	if (t->group_free == t->group_cap) {
		more = w_realloc(t->group, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		memset(more + t->group_cap, 0, (cap - t->group_cap) * sizeof(*more));
		t->group = more;
		t->group_cap = cap;
	}
	g->id = t->group_free;
	return 0;
}

static struct node_group *make_group(struct node_table *t, const struct node_ways *w)
{
	struct node_group *g = w_calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->key = *w;
	if (take_id(t, g) < 0 || hash_add(&t->by_ways, &g->hash, &g->key, sizeof(g->key)) < 0) {
		w_free(g);
		return NULL;
	}
	t->group[g->id] = g;
	t->groups++;
	return g;
}

static void leave_group(struct node_table *t, struct node_route *r)
{
	struct node_group *g = r->group;

	r->group = NULL;
	if (!g || --g->members)
		return;
	hash_del(&t->by_ways, &g->hash);
	t->group[g->id] = NULL;
	t->groups--;
	if (g->id < t->group_free)
		t->group_free = g->id;
	w_free(g);
}

/* It was in the table a moment ago, so there is room for it. */
static void rename_group(struct node_table *t, struct node_group *g)
{
	hash_del(&t->by_ways, &g->hash);
	g->key = g->to;
	(void)hash_add(&t->by_ways, &g->hash, &g->key, sizeof(g->key));
	t->renamed++;
}

/* ---- prefixes ---- */

/* Who may send to SIDs: what the mesh has routes to, default routes aside. */
static bool is_source(const struct node_table *t, const struct fib_entry *e)
{
	return t->sources && e->destination.addr.family == IP6 && e->destination.len &&
		!e->source.len;
}

static bool put(struct node_table *t, const struct fib_entry *e)
{
	t->written++;
	if (fib_set(t->routes, e) == 0 && (!is_source(t, e) || fib_set(t->sources, e) == 0))
		return true;
	t->anew = true; /* no memory: it is made anew, when there is some */
	return false;
}

static bool cut(struct node_table *t, const struct fib_entry *e)
{
	struct fib_entry rest = *e;
	int err = 0;

	t->written++;
	if (fib_remove(t->routes, e) < 0)
		err = -ENOMEM;
	if (!err && is_source(t, e))
		err = fib_find(t->named_sources, &e->destination, &e->source, &rest.value)
			? fib_set(t->sources, &rest)
			: fib_remove(t->sources, e);
	t->anew |= err < 0;
	return !err;
}

static struct fib_entry entry_of(const struct babel_prefix *p, uint32_t value)
{
	struct fib_entry e = {.destination = p->destination, .value = value};

	if (p->source.len)
		e.source = p->source;
	return e;
}

/* Writes a route's prefix, unless it is the node's own or static. */
static bool write_route(struct node *n, const struct node_route *r)
{
	struct node_table *t = &n->table;
	struct fib_entry e = entry_of(&r->prefix, first_group(n) + r->group->id);
	uint32_t old;

	if (fib_find(t->routes, &e.destination, &e.source, &old)) {
		if (old < first_locator(n))
			return true;
		if (old < first_group(n))
			t->locator[old - first_locator(n)] = false;
	}
	return put(t, &e);
}

void node_table_changed(struct node *n, struct node_route *r)
{
	const struct node_ways w = ways_of(r);

	if (list_empty(&r->moved) && (!r->group || !same_ways(&w, &r->group->key)))
		list_add_tail(&n->table.moved, &r->moved);
}

void node_table_gone(struct node *n, struct node_route *r)
{
	struct node_table *t = &n->table;
	uint32_t value;

	list_del(&r->moved);
	if (r->group && !t->anew) {
		struct fib_entry e = entry_of(&r->prefix, first_group(n) + r->group->id);

		if (fib_find(t->routes, &e.destination, &e.source, &value) && value == e.value)
			(void)cut(t, &e);
	}
	leave_group(t, r);
}

bool node_table_waits(const struct node *n)
{
	return !list_empty(&n->table.moved);
}

/* ---- what moved ---- */

/* Counts who leaves each group, and where most of them go (a majority vote). */
static void count_leaving(struct node_table *t)
{
	list_for_each (it, &t->moved) {
		struct node_route *r = container_of(it, struct node_route, moved);
		struct node_group *g = r->group;
		const struct node_ways w = ways_of(r);

		if (!g || same_ways(&w, &g->key))
			continue;
		g->leaving++;
		if (!g->votes)
			g->to = w;
		if (same_ways(&w, &g->to))
			g->votes++;
		else
			g->votes--;
	}
}

static void rename_groups(struct node_table *t)
{
	list_for_each (it, &t->moved) {
		struct node_group *g = container_of(it, struct node_route, moved)->group;

		if (!g || !g->leaving)
			continue;
		if (g->leaving == g->members &&
			(g->members >= RENAME_MIN || !find_group(t, &g->to)))
			rename_group(t, g);
		g->leaving = g->votes = 0;
	}
}

static bool move(struct node *n, struct node_route *r)
{
	struct node_table *t = &n->table;
	const struct node_ways w = ways_of(r);
	struct node_group *g = r->group;

	if (g && same_ways(&w, &g->key))
		return true;
	g = find_group(t, &w);
	if (!g && !(g = make_group(t, &w)))
		return false;
	g->members++;
	leave_group(t, r);
	r->group = g;
	return write_route(n, r);
}

static bool settle(struct node *n)
{
	count_leaving(&n->table);
	rename_groups(&n->table);
	list_for_each_safe (it, &n->table.moved) {
		struct node_route *r = container_of(it, struct node_route, moved);

		if (!move(n, r))
			return false;
		list_del(&r->moved);
	}
	return true;
}

/* ---- what follows from configuration and registry ---- */

/* The first of two equal prefixes counts. */
static bool put_fixed(struct node_table *t, const struct prefix *destination,
	const struct prefix *source, uint32_t value)
{
	struct fib_entry e = {.destination = *destination, .value = value};
	uint32_t there;

	if (source && source->len)
		e.source = *source;
	return fib_find(t->routes, &e.destination, &e.source, &there) || put(t, &e);
}

static bool put_config(struct node *n)
{
	struct node_table *t = &n->table;
	const struct config *c = n->config;
	struct prefix locator;
	bool done = true;

	for (size_t i = 0; done && i < c->tun.address_count; i++) {
		struct prefix p = prefix_of(&c->tun.address[i].ip, 128);

		done = put_fixed(t, &p, NULL, HOP_LOCAL);
	}
	for (size_t i = 0; done && i < c->announce_count; i++)
		done = put_fixed(t, &c->announce[i].destination, &c->announce[i].source, HOP_LOCAL);
	for (size_t i = 0; done && i < c->static_route_count; i++)
		done = put_fixed(t, &c->static_route[i].prefix, NULL, HOP_STATIC + (uint32_t)i);
	if (done &&
		node_locator(n, &locator)) /* SIDs are acted on before; what is none is nowhere */
		done = put_fixed(t, &locator, NULL, HOP_UNREACHABLE);
	for (size_t i = 0; done && i < n->host.routes; i++)
		done = put_fixed(t, &n->host.route[i].prefix.destination,
			&n->host.route[i].prefix.source, HOP_LOCAL);
	return done;
}

void node_table_local(struct node *n, const struct babel_prefix *p, bool there)
{
	struct node_table *t = &n->table;
	struct fib_entry e = entry_of(p, HOP_LOCAL);
	uint32_t old;
	bool found;

	n->snapshot_dirty = true;
	if (t->anew)
		return;
	found = fib_find(t->routes, &e.destination, &e.source, &old);
	if (there && !(found && old < first_locator(n))) {
		if (found && old < first_group(n))
			t->locator[old - first_locator(n)] = false;
		(void)put(t, &e);
	} else if (!there && found && old == HOP_LOCAL) {
		(void)cut(t, &e);
	}
}

/* Locators of the registry and what the configuration names, whether or not there is a way. */
static bool put_sources(struct node *n)
{
	struct node_table *t = &n->table;
	const struct registry *r = n->registry;
	const struct config *c = n->config;

	if (!node_steers(n))
		return true;
	if (fib_new(&t->sources) < 0 || fib_new(&t->named_sources) < 0)
		return false;
	for (size_t i = 0; i < r->node_count + c->srv6.source_count; i++) {
		bool node = i < r->node_count;
		struct fib_entry e = {.value = NO_WAY};

		if (node && !r->node[i].has_srv6)
			continue;
		e.destination = node ? r->node[i].srv6 : c->srv6.sources[i - r->node_count];
		if (fib_set(t->named_sources, &e) < 0 || fib_set(t->sources, &e) < 0)
			return false;
	}
	return true;
}

static void free_tables(struct node_table *t)
{
	fib_free(t->routes);
	fib_free(t->sources);
	fib_free(t->named_sources);
	w_free(t->locator);
	t->routes = t->sources = t->named_sources = NULL;
	t->locator = NULL;
}

static bool make_anew(struct node *n)
{
	struct node_table *t = &n->table;

	free_tables(t);
	t->locator = w_calloc(n->registry->node_count, sizeof(*t->locator));
	t->anew = !t->locator || fib_new(&t->routes) < 0 || !put_sources(n) || !put_config(n);
	list_for_each (it, &n->routes) {
		const struct node_route *r = container_of(it, struct node_route, list);

		if (!t->anew && r->group)
			t->anew = !write_route(n, r);
	}
	return !t->anew;
}

struct node_link *node_table_behind(struct node *n, const struct registry_node *r)
{
	const struct conf_static_route to = {.prefix = r->srv6,
		.organization = r->organization,
		.node = r->name};
	const struct babel_prefix p = {.destination = r->srv6};
	struct node_link *l;

	if (!r->has_srv6 || node_rib_find(n, &p))
		return NULL;
	l = node_static_link(n, &to);
	return l && !l->dead ? l : NULL;
}

static bool put_locators(struct node *n)
{
	struct node_table *t = &n->table;

	for (size_t i = 0; i < n->registry->node_count; i++) {
		const struct prefix *p = &n->registry->node[i].srv6, any = {0};
		const struct fib_entry e = {.destination = *p,
			.value = first_locator(n) + (uint32_t)i};
		bool want = node_table_behind(n, &n->registry->node[i]) != NULL;
		uint32_t there;

		if (want == t->locator[i] || (want && fib_find(t->routes, p, &any, &there)))
			continue;
		if (!(want ? put(t, &e) : cut(t, &e)))
			return false;
		t->locator[i] = want;
	}
	return true;
}

/* ---- snapshots ---- */

static struct node_link *alive(const struct node *n, uint32_t slot)
{
	struct node_link *l = slot < n->slots ? n->slot[slot] : NULL;

	return l && node_link_usable(l) && !l->dead ? l : NULL;
}

static struct plane_next_hop hop_by(const struct node_link *l)
{
	if (!l)
		return (struct plane_next_hop){.type = PLANE_UNREACHABLE};
	return (struct plane_next_hop){.type = PLANE_LINK, .slot = l->slot};
}

/* The first way, when it lives or nothing better does. */
static const struct node_link *way_taken(const struct node *n, const struct node_ways *w)
{
	const struct node_link *first = alive(n, w->first), *second = alive(n, w->second);

	if (!first && !second && w->first < n->slots)
		return n->slot[w->first];
	return first ? first : second;
}

const struct node_link *node_table_way(const struct node *n, const struct node_route *r)
{
	const struct node_ways w = ways_of(r);

	return way_taken(n, &w);
}

static bool build_hops(struct node *n, struct node_snapshot *snap)
{
	const struct node_table *t = &n->table;
	uint32_t first = first_group(n), count = first + t->group_cap;
	struct plane_next_hop *hop = arena_calloc(snap->arena, count, sizeof(*hop));

	if (!hop)
		return false;
	hop[HOP_LOCAL].type = PLANE_LOCAL;
	hop[HOP_UNREACHABLE].type = PLANE_UNREACHABLE;
	for (size_t i = 0; i < n->config->static_route_count; i++)
		hop[HOP_STATIC + i] = hop_by(node_static_link(n, &n->config->static_route[i]));
	for (size_t i = 0; i < n->registry->node_count; i++)
		hop[first_locator(n) + i] = hop_by(
			t->locator[i] ? node_table_behind(n, &n->registry->node[i]) : NULL);
	for (uint32_t i = 0; i < t->group_cap; i++)
		hop[first + i] = t->group[i] ? hop_by(way_taken(n, &t->group[i]->key))
					     : hop_by(NULL);
	snap->s.next_hop = hop;
	snap->s.next_hop_count = count;
	return true;
}

bool node_table_publish(struct node *n, struct node_snapshot *snap)
{
	struct node_table *t = &n->table;

	if ((t->anew && !make_anew(n)) || !settle(n) || !put_locators(n) || !build_hops(n, snap) ||
		fib_copy(t->routes, &snap->fib) < 0 ||
		(t->sources && fib_copy(t->sources, &snap->mesh_source) < 0))
		return false;
	snap->s.fib = snap->fib;
	return true;
}

void node_table_stats(const struct node *n, struct node_table_stats *ret)
{
	*ret = (struct node_table_stats){
		.prefixes = n->table.routes ? fib_count(n->table.routes) : 0,
		.groups = n->table.groups,
		.prefixes_written = n->table.written,
		.groups_renamed = n->table.renamed,
		.snapshots = n->generation,
	};
}

int node_table_init(struct node *n)
{
	uint8_t key[16];
	int err = rng_fill(&n->rng, key, sizeof(key));

	list_init(&n->table.moved);
	n->table.anew = true;
	return err < 0 ? err : hash_init(&n->table.by_ways, key);
}

void node_table_free(struct node *n)
{
	struct node_table *t = &n->table;

	free_tables(t);
	w_free(t->group);
	hash_done(&t->by_ways);
}
