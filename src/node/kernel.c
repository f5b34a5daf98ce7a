/* The kernel state that the configuration wants: the TUN's addresses, mesh routes in their tables,
 * and the rules that lead to them. */
#include "node/node_priv.h"

#include <string.h>

enum { TABLE_MAIN = 254, RULES = 4 /* a family, without those of policies */ };

static bool build_addresses(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	struct kernel_address *out = arena_calloc(a, c->tun.address_count, sizeof(*out));

	if (!out)
		return false;
	for (size_t i = 0; i < c->tun.address_count; i++)
		out[i] = (struct kernel_address){.ip = c->tun.address[i].ip,
			.len = c->tun.address[i].len};
	k->address = out;
	k->address_count = c->tun.address_count;
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

bool node_kernel_has(const struct babel_prefix *p)
{
	return !p->source.len || p->destination.addr.family == IP6;
}

/* Everything that a policy's rule brings here goes into the TUN. */
static size_t policy_routes(const struct config *c, struct kernel_route *out)
{
	static const enum ip_family families[] = {IP4, IP6};
	static const uint8_t zero[16];

	for (size_t f = 0; f < 2; f++)
		out[f] = (struct kernel_route){
			.destination = {.addr = ipaddr_from(families[f], zero)},
			.prefer = preferred(c, families[f]),
			.table = c->routing.policy_table,
		};
	return 2;
}

static bool build_routes(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	struct kernel_route *out = arena_calloc(a, c->static_route_count + n->rib.count + 2,
		sizeof(*out));
	size_t count = c->static_route_count;

	if (!out)
		return false;
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct prefix *p = &c->static_route[i].prefix;

		out[i].destination = *p;
		out[i].prefer = preferred(c, p->addr.family);
		out[i].table = p->len ? c->routing.table : c->routing.default_table;
	}
	list_for_each (it, &n->routes) {
		const struct node_route *r = container_of(it, struct node_route, list);
		const struct prefix *p = &r->prefix.destination;

		if (is_static(c, &r->prefix) || !node_kernel_has(&r->prefix))
			continue;
		out[count++] = (struct kernel_route){
			.destination = *p,
			.source = r->prefix.source,
			.prefer = r->unreachable ? (struct ipaddr){0}
						 : preferred(c, p->addr.family),
			.table = p->len ? c->routing.table : c->routing.default_table,
			.unreachable = r->unreachable,
		};
	}
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

/* What a policy fits goes into the TUN where the host's own routes, the default one aside, have
 * nothing for it. What comes out of the TUN never does: an exit's packets would go round. A policy
 * without a candidate whose packets go as without it has no rule. */
static void policy_rules(const struct node *n, struct kernel_state *k, struct kernel_rule *out)
{
	static const enum ip_family families[] = {IP4, IP6};
	const struct config *c = n->config;
	const uint32_t priority = c->routing.rule_priority + RULES;

	for (size_t f = 0; f < 2; f++) {
		struct kernel_rule *r = &out[k->rule_count++];

		*r = (struct kernel_rule){.family = families[f],
			.priority = priority,
			.table = TABLE_MAIN,
			.suppress_prefixlength = -1};
		memcpy(r->in, k->tun, sizeof(r->in));
		for (size_t i = 0; i < c->policy_count; i++) {
			const struct conf_policy *p = &c->policy[i];

			if (!is_of(&p->source, families[f]) ||
				!is_of(&p->destination, families[f]) || node_policy_direct(n, p))
				continue;
			out[k->rule_count++] = (struct kernel_rule){.family = families[f],
				.priority = priority + 1,
				.source = p->source,
				.destination = p->destination,
				.table = c->routing.policy_table,
				.suppress_prefixlength = -1};
		}
	}
}

static bool build_rules(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	const struct kernel_rule rules[RULES] = {
		{.mark = c->underlay.fwmark,
			.mask = c->underlay.fwmask,
			.table = TABLE_MAIN,
			.suppress_prefixlength = -1},
		{.table = c->routing.table, .suppress_prefixlength = -1},
		{.table = TABLE_MAIN, .suppress_prefixlength = 0},
		{.table = c->routing.default_table, .suppress_prefixlength = -1},
	};
	const size_t count = RULES;
	static const enum ip_family families[] = {IP4, IP6};
	struct kernel_rule *out = arena_calloc(a, (count + 1 + c->policy_count) * 2, sizeof(*out));

	if (!out)
		return false;
	for (size_t f = 0; f < 2; f++)
		for (size_t i = 0; i < count; i++) {
			struct kernel_rule *r = &out[k->rule_count++];

			*r = rules[i];
			r->family = families[f];
			r->priority = c->routing.rule_priority + (uint32_t)i;
		}
	if (c->policy_count)
		policy_rules(n, k, out);
	k->rule = out;
	return true;
}

/* Announced networks have a way back into the mesh; a default route that is announced is the way to
 * those that have none. */
static bool build_exit(struct node *n, struct arena *a, struct kernel_state *k)
{
	const struct config *c = n->config;
	struct prefix *keep = arena_calloc(a, c->announce_count, sizeof(*keep));

	if (!keep)
		return false;
	for (size_t i = 0; i < c->announce_count; i++)
		if (c->announce[i].destination.len)
			keep[k->keep_count++] = c->announce[i].destination;
	k->keep = keep;
	k->masquerade = c->exit.masquerade;
	k->forward4 = k->forward6 = k->masquerade && !c->exit.allow_count;
	for (size_t i = 0; i < c->exit.allow_count; i++) {
		k->forward4 |= c->exit.allow[i].addr.family == IP4;
		k->forward6 |= c->exit.allow[i].addr.family == IP6;
	}
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
	k.protect_table = n->config->routing.table;
	k.policy_table = n->config->routing.policy_table;
	if (!build_addresses(n, a, &k) || !build_routes(n, a, &k) || !build_rules(n, a, &k) ||
		!build_exit(n, a, &k)) {
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
