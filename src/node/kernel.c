/* The kernel state that the configuration wants: the TUN's addresses, mesh routes in their tables,
 * and the rules that lead to them. The kernel's IPv4 knows no source in a route: each source prefix
 * gets two tables of its own, one for routes, one for the default route, and rules that lead there
 * from it. Everything of ours leads into the one TUN, where destination and then source decide (RFC
 * 9079 4), so that the kernel needs to know no more than what goes there. */
#include "node/node_priv.h"

#include <string.h>

enum {
	TABLE_MAIN = 254,
	RULES = 6,     /* a family, without those of policies */
	RANKS = 40,    /* places for lengths of policies' destinations, the default aside */
	LENGTHS = 129, /* of prefixes */
	POLICY_ROUTES = 4,
	LAST_METRIC = 1 << 30, /* behind every other route */
	PRIORITIES = RULES + 1 + 2 * RANKS,
};

bool node_adds_source(const struct config *c)
{
	if (c->srv6.source.family != IP6)
		return false;
	for (size_t i = 0; i < c->tun.address_count; i++)
		if (ipaddr_equal(&c->tun.address[i].ip, &c->srv6.source))
			return false;
	return true;
}

static bool build_addresses(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	struct kernel_address *out = arena_calloc(a, c->tun.address_count + 1, sizeof(*out));

	if (!out)
		return false;
	for (size_t i = 0; i < c->tun.address_count; i++)
		out[i] = (struct kernel_address){.ip = c->tun.address[i].ip,
			.len = c->tun.address[i].len};
	k->address = out;
	k->address_count = c->tun.address_count;
	/* Where steered packets come from there is somebody, for errors and for pings. */
	if (node_adds_source(c))
		out[k->address_count++] = (struct kernel_address){.ip = c->srv6.source, .len = 128};
	return true;
}

/* The first TUN address of a family: what the host's own packets come from. */
static struct ipaddr preferred(const struct config *c, uint8_t family)
{
	for (size_t i = 0; i < c->tun.address_count; i++)
		if (c->tun.address[i].ip.family == family)
			return c->tun.address[i].ip;
	return (struct ipaddr){0};
}

static bool is_static(const struct config *c, const struct babel_prefix *p)
{
	for (size_t i = 0; !p->source.len && i < c->static_route_count; i++)
		if (prefix_equal(&c->static_route[i].prefix, &p->destination))
			return true;
	return false;
}

static bool is_by_rule(const struct babel_prefix *p)
{
	return p->source.len && p->destination.addr.family == IP4;
}

/* Its place; NODE_SOURCES: it has none. */
static size_t source_find(const struct node *n, const struct prefix *source)
{
	size_t i = 0;

	while (i < NODE_SOURCES &&
		!(n->source[i].prefix.len && prefix_equal(&n->source[i].prefix, source)))
		i++;
	return i;
}

bool node_kernel_has(const struct node *n, const struct babel_prefix *p)
{
	return !is_by_rule(p) || source_find(n, &p->source) < NODE_SOURCES;
}

/* The table of a prefix; 0: there is none left. */
static uint32_t table_of(struct node *n, const struct babel_prefix *p)
{
	const struct config *c = n->config;
	bool any = p->destination.len == 0;
	size_t i;

	if (!is_by_rule(p))
		return any ? c->routing.default_table : c->routing.table;
	i = source_find(n, &p->source);
	if (i == NODE_SOURCES)
		for (i = 0; i < NODE_SOURCES && n->source[i].prefix.len;)
			i++;
	if (i == NODE_SOURCES)
		return 0;
	n->source[i].prefix = p->source;
	n->source[i].has_default |= any;
	n->source[i].has_routes |= !any;
	return c->routing.source_table + (uint32_t)i * 2 + any;
}

static void sources_begin(struct node *n)
{
	for (size_t i = 0; i < NODE_SOURCES; i++)
		n->source[i].has_routes = n->source[i].has_default = false;
}

static void sources_end(struct node *n)
{
	for (size_t i = 0; i < NODE_SOURCES; i++)
		if (!n->source[i].has_routes && !n->source[i].has_default)
			n->source[i] = (struct node_source){0};
}

/* Everything that a policy's rule brings here goes into the TUN, or nowhere: without a daemon there
 * is no TUN, and what is to be dropped without a way must not leave beside the mesh. */
static size_t policy_routes(const struct config *c, struct kernel_route *out)
{
	static const enum ip_family families[] = {IP4, IP6};
	static const uint8_t zero[16];
	bool drop = false;
	size_t n = 0;

	for (size_t i = 0; i < c->policy_count; i++)
		drop |= !c->policy[i].direct;
	for (size_t f = 0; f < 2; f++) {
		const struct kernel_route way = {
			.destination = {.addr = ipaddr_from(families[f], zero)},
			.prefer = preferred(c, families[f]),
			.table = c->routing.policy_table,
		};

		out[n++] = way;
		if (!drop)
			continue;
		out[n] = way;
		out[n].prefer = (struct ipaddr){0};
		out[n].metric = LAST_METRIC;
		out[n++].unreachable = true;
	}
	return n;
}

static bool build_routes(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	struct kernel_route *out = arena_calloc(a,
		c->static_route_count + n->rib.count + POLICY_ROUTES, sizeof(*out));
	uint32_t table;
	size_t count = c->static_route_count;

	if (!out)
		return false;
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct prefix *p = &c->static_route[i].prefix;

		out[i].destination = *p;
		out[i].prefer = preferred(c, p->addr.family);
		out[i].table = p->len ? c->routing.table : c->routing.default_table;
		out[i].protect = p->len != 0;
	}
	sources_begin(n);
	list_for_each (it, &n->routes) {
		const struct node_route *r = container_of(it, struct node_route, list);
		const struct prefix *p = &r->prefix.destination;

		if (is_static(c, &r->prefix) || !(table = table_of(n, &r->prefix)))
			continue;
		out[count++] = (struct kernel_route){
			.destination = *p,
			.source = is_by_rule(&r->prefix) ? (struct prefix){0} : r->prefix.source,
			.prefer = r->unreachable ? (struct ipaddr){0}
						 : preferred(c, p->addr.family),
			.table = table,
			.unreachable = r->unreachable,
			.protect = p->len != 0,
			.over = node_speaker_named(n, p, r->router_id),
		};
	}
	sources_end(n);
	if (c->policy_count)
		count += policy_routes(c, out + count);
	k->route = out;
	k->route_count = count;
	return true;
}

static bool is_of(const struct prefix *p, enum ip_family family)
{
	return p->addr.family == IP_NONE || p->addr.family == family;
}

/* The rules of one family are written one after the other, at rising priorities. */
struct rules {
	const struct node *n;
	const struct kernel_state *k;
	enum ip_family family;
	uint32_t priority; /* of the next */
	struct kernel_rule *out;
	size_t count;
};

static struct kernel_rule *rule_add(struct rules *r, uint32_t table)
{
	struct kernel_rule *k = &r->out[r->count++];

	*k = (struct kernel_rule){.family = r->family,
		.priority = r->priority,
		.table = table,
		.suppress_prefixlength = -1};
	return k;
}

static void rule_next(struct rules *r, uint32_t table)
{
	(void)rule_add(r, table);
	r->priority++;
}

/* Of the main table, what is longer than this. */
static void rule_main_longer(struct rules *r, int length)
{
	rule_add(r, TABLE_MAIN)->suppress_prefixlength = length;
	r->priority++;
}

/* The policies whose destinations have a length of these. */
static void rules_of(struct rules *r, int longest, int shortest)
{
	const struct config *c = r->n->config;

	for (size_t i = 0; i < c->policy_count; i++) {
		const struct conf_policy *p = &c->policy[i];
		struct kernel_rule *k;

		if (!is_of(&p->source, r->family) || !is_of(&p->destination, r->family) ||
			p->destination.len > longest || p->destination.len < shortest ||
			node_policy_direct(r->n, p))
			continue;
		k = rule_add(r, c->routing.policy_table);
		k->source = p->source;
		k->destination = p->destination;
	}
	r->priority++;
}

/* What a policy fits goes into the TUN, unless the host has a longer route for it than the policy's
 * destination: a LAN inside of 0.0.0.0/0 stays the LAN. So, from the longest destination on, by
 * turns the main table's longer routes and the policies. What comes out of the TUN never goes that
 * way: an exit's packets would go round. A policy without a candidate whose packets go as without
 * it has no rule, but its place stays. */
static void policy_rules(struct rules *r)
{
	const struct config *c = r->n->config;
	bool present[LENGTHS] = {0};
	int ranks = 0;

	for (size_t i = 0; i < c->policy_count; i++)
		if (is_of(&c->policy[i].source, r->family) &&
			is_of(&c->policy[i].destination, r->family))
			present[c->policy[i].destination.len] = true;
	memcpy(rule_add(r, TABLE_MAIN)->in, r->k->tun, sizeof(r->k->tun));
	r->priority++;
	for (int len = LENGTHS - 1; len > 0 && ranks < RANKS; len--) {
		if (!present[len])
			continue;
		rule_main_longer(r, len);
		/* The last place takes all that are left, but for the default. */
		rules_of(r, len, ++ranks < RANKS ? len : 1);
	}
	rule_main_longer(r, 0);
	rules_of(r, 0, 0);
}

/* From the source prefixes of IPv4 routes to their tables, beside the rule for those without. */
static void source_rules(struct rules *r, bool defaults)
{
	for (size_t i = 0; r->family == IP4 && i < NODE_SOURCES; i++) {
		const struct node_source *s = &r->n->source[i];

		if (defaults ? s->has_default : s->has_routes)
			rule_add(r, r->n->config->routing.source_table + (uint32_t)i * 2 + defaults)
				->source = s->prefix;
	}
}

static bool build_picks(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	const size_t count = c->routing.redistribute_count;
	struct kernel_pick *out = arena_calloc(a, count, sizeof(*out));

	if (!out)
		return false;
	for (size_t i = 0; i < count; i++)
		out[i] = (struct kernel_pick){c->routing.redistribute[i].table,
			c->routing.redistribute[i].protocol};
	k->pick = out;
	k->pick_count = count;
	return true;
}

static bool build_rules(struct node *n, struct arena *a, struct kernel_state *k)
{
	static const enum ip_family families[] = {IP4, IP6};
	const struct config *c = n->config;
	struct rules r = {.n = n, .k = k};

	r.out = arena_calloc(a, (RULES + RANKS + 1 + c->policy_count + NODE_SOURCES) * 2,
		sizeof(*r.out));
	if (!r.out)
		return false;
	for (size_t f = 0; f < 2; f++) {
		struct kernel_rule *first;

		r.family = families[f];
		r.priority = c->routing.rule_priority;
		first = rule_add(&r, TABLE_MAIN);
		first->mark = c->underlay.fwmark;
		first->mask = c->underlay.fwmask;
		r.priority++;
		source_rules(&r, false);
		rule_next(&r, c->routing.table);
		if (c->policy_count)
			policy_rules(&r);
		else
			rule_main_longer(&r, 0);
		source_rules(&r, true);
		rule_next(&r, c->routing.default_table);
	}
	k->rule = r.out;
	k->rule_count = r.count;
	k->rule_priority = c->routing.rule_priority;
	k->rule_priorities = PRIORITIES;
	return true;
}

static void want_forwarding(struct kernel_state *k, const struct prefix *p)
{
	k->forward4 |= p->addr.family == IP4;
	k->forward6 |= p->addr.family == IP6;
}

/* Announced networks have a way back into the mesh; a default route that is announced is the way to
 * those that have none. */
static bool build_exit(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	struct prefix *keep = arena_calloc(a, c->announce_count + n->host.routes, sizeof(*keep));

	if (!keep)
		return false;
	for (size_t i = 0; i < c->announce_count; i++)
		if (c->announce[i].destination.len)
			keep[k->keep_count++] = c->announce[i].destination;
	for (size_t i = 0; c->exit.masquerade && i < n->host.routes; i++)
		if (n->host.route[i].prefix.destination.len)
			keep[k->keep_count++] = n->host.route[i].prefix.destination;
	k->keep = keep;
	k->masquerade = c->exit.masquerade;
	k->forward4 = k->forward6 = k->masquerade && !c->exit.allow_count;
	for (size_t i = 0; i < c->exit.allow_count; i++)
		want_forwarding(k, &c->exit.allow[i]);
	for (size_t i = 0; i < c->announce_count; i++)
		if (c->announce[i].destination.len < ipaddr_bits(&c->announce[i].destination.addr))
			want_forwarding(k, &c->announce[i].destination);
	return true;
}

bool node_kernel_build(struct node *n)
{
	struct kernel_state k = {.mtu = n->config->tun.mtu,
		.protocol = n->config->routing.protocol};
	uint8_t ll[16] = {0xfe, 0x80};
	struct arena *a;

	if (arena_new(&a) < 0) {
		n->out_of_memory++;
		return false;
	}
	strncpy(k.tun, n->config->tun.name, sizeof(k.tun) - 1);
	memcpy(ll + 8, n->router_id, sizeof(n->router_id));
	k.link_local = ipaddr_from(IP6, ll);
	k.policy_table = n->config->routing.policy_table;
	k.source_table = n->config->routing.source_table;
	k.source_tables = CONF_SOURCE_TABLES;
	if (!build_addresses(n, a, &k) || !build_routes(n, a, &k) || !build_rules(n, a, &k) ||
		!build_exit(n, a, &k) || !build_picks(n, a, &k)) {
		arena_free(a);
		n->out_of_memory++;
		return false;
	}
	arena_free(n->kernel_arena);
	n->kernel_arena = a;
	n->kernel = k;
	return true;
}

const struct kernel_state *node_kernel(const struct node *n)
{
	return &n->kernel;
}
