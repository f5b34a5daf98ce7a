/* What happens to a packet that enters the mesh here, and why: the route that decides, those that
 * were not taken, and the way on what its hops answer (hops.c). No figure is made up. */
#include "node/node_priv.h"

#include <math.h>
#include <string.h>
#include "ctl/json.h"
#include "ctl/request.h"

enum { MAP_LOSS_FREE = 2 }; /* per cent: below, a metric is made of round trips alone */

struct trace {
	struct node *n;
	struct ipaddr src, dst;
	struct ipaddr by_src, by_dst;     /* what is routed by: of the outer header, if steered */
	const struct node_policy *policy; /* NULL: none */
	struct node_told told;            /* the route that decides */
	struct babel_route_info learned;  /* told.learned, when it is not NULL */
	bool found, unreachable;
	const char *verdict;
	struct buf reason;
};

/* ---- the decision, as the snapshot has it ---- */

/* Of equal prefixes the first one counts: they are considered in the order that table.c tells. */

static void consider(struct trace *t, const struct node_told *r, bool unreachable)
{
	const struct node_told *best = &t->told;

	if (!prefix_contains(&r->prefix, &t->by_dst) ||
		(r->source.len && !prefix_contains(&r->source, &t->by_src)))
		return;
	if (t->found &&
		(r->prefix.len < best->prefix.len ||
			(r->prefix.len == best->prefix.len && r->source.len <= best->source.len)))
		return;
	t->found = true;
	t->told = *r;
	t->unreachable = unreachable;
}

static void find_fixed(struct trace *t)
{
	const struct config *c = t->n->config;
	struct prefix locator;

	for (size_t i = 0; i < c->tun.address_count; i++)
		consider(t,
			&(struct node_told){.prefix = prefix_of(&c->tun.address[i].ip, 128),
				.origin = "local",
				.selected = true},
			false);
	for (size_t i = 0; i < c->announce_count; i++)
		consider(t,
			&(struct node_told){.prefix = c->announce[i].destination,
				.source = c->announce[i].source,
				.origin = "local",
				.selected = true},
			false);
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct node_link *via = node_static_link(t->n, &c->static_route[i]);

		consider(t,
			&(struct node_told){.prefix = c->static_route[i].prefix,
				.origin = "static",
				.via = via,
				.selected = via != NULL,
				.installed = true},
			!via);
	}
	if (node_locator(t->n, &locator))
		consider(t,
			&(struct node_told){.prefix = locator, .origin = "local", .selected = true},
			true);
	for (size_t i = 0; i < t->n->host.routes; i++) {
		const struct babel_prefix *p = &t->n->host.route[i].prefix;

		consider(t,
			&(struct node_told){.prefix = p->destination,
				.source = p->source,
				.origin = "local",
				.selected = true},
			false);
	}
}

static void find_locators(struct trace *t)
{
	const struct registry *reg = t->n->registry;

	for (size_t i = 0; i < reg->node_count; i++) {
		const struct registry_node *r = &reg->node[i];
		const struct node_link *via = node_table_behind(t->n, r);

		if (via)
			consider(t,
				&(struct node_told){.prefix = r->srv6,
					.origin = "static",
					.via = via,
					.selected = true},
				false);
	}
}

static bool is_steered(const struct trace *t)
{
	return t->policy && t->policy->status == NODE_POLICY_ACTIVE;
}

/* What the policies say: by which addresses the packet is routed. */
static void steer(struct trace *t)
{
	t->by_src = t->src;
	t->by_dst = t->dst;
	t->policy = node_policy_of(t->n, &t->dst, &t->src, &t->by_src);
	if (!is_steered(t))
		t->by_src = t->src;
	else
		t->by_dst = t->policy->segment[0];
}

static bool same_prefix(const struct babel_prefix *p, const struct node_told *r)
{
	return prefix_equal(&p->destination, &r->prefix) && p->source.len == r->source.len &&
		(!p->source.len || prefix_equal(&p->source, &r->source));
}

/* Whether Babel's route leads where packets go: it need not be the selected one, while that one's
 * link is dead. */
static bool is_way(const struct node_told *r, const struct babel_route_info *b)
{
	return r->via ? b->iface == r->via->slot + 1 : b->selected || b->unreachable;
}

static void find_learned(struct trace *t)
{
	struct babel_route_info b;
	size_t it = 0;

	list_for_each (at, &t->n->routes) {
		const struct node_route *r = container_of(at, struct node_route, list);

		consider(t,
			&(struct node_told){.prefix = r->prefix.destination,
				.source = r->prefix.source,
				.origin = "babel",
				.via = node_table_way(t->n, r),
				.installed = node_kernel_has(t->n, &r->prefix)},
			r->unreachable);
	}
	if (!t->found || strcmp(t->told.origin, "babel") != 0)
		return;
	while (babel_routes(t->n->babel, &it, &b))
		if (same_prefix(&b.prefix, &t->told) && is_way(&t->told, &b)) {
			t->learned = b;
			t->told.learned = &t->learned;
			if (b.selected)
				return;
		}
}

static bool is_endpoint(const struct trace *t)
{
	list_for_each (it, &t->n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);

		if (ipaddr_equal(&l->remote.ip, &t->by_dst) ||
			ipaddr_equal(&l->local.ip, &t->by_dst))
			return true;
	}
	return false;
}

static void judge(struct trace *t)
{
	const struct node_link *l = t->told.via;
	const char *peer = l ? l->name : "";

	if (ipaddr_is_link_local(&t->dst) || ipaddr_is_multicast(&t->dst)) {
		t->verdict = "refused";
		buf_add_str(&t->reason, "link-local and multicast packets do not enter the mesh");
	} else if (node_is_sid(t->n, &t->dst)) {
		t->verdict = "refused";
		buf_add_str(&t->reason,
			"the destination is a SID: only segment routing sends there (RFC 8754 "
			"5.1)");
	} else if (t->policy && !is_steered(t) && !t->policy->direct) {
		t->verdict = "refused";
		buf_printf(&t->reason,
			"no candidate of the policy \"%s\" is left, and its fallback is drop",
			t->policy->name);
	} else if (!t->found) {
		t->verdict = "no-route";
		buf_add_str(&t->reason, "no route of the mesh covers the destination");
	} else if (strcmp(t->told.origin, "local") == 0 && t->unreachable) {
		t->verdict = "unreachable";
		buf_add_str(&t->reason, "it lies in this node's own locator, and no SID is there");
	} else if (strcmp(t->told.origin, "local") == 0) {
		t->verdict = "local";
		buf_add_str(&t->reason, "the destination is this node's own");
	} else if (t->unreachable && t->told.learned) {
		t->verdict = "unreachable";
		buf_add_str(&t->reason,
			"the route was lost; it is held as unreachable so that no shorter prefix "
			"makes a loop of it (RFC 8966 2.8)");
	} else if (t->unreachable || !l) {
		t->verdict = "unreachable";
		buf_add_str(&t->reason, "no link to the node of the static route is up");
	} else if (!node_link_usable(l) || l->dead) {
		t->verdict = "unreachable";
		buf_printf(&t->reason, "the link %s is down", l->text);
	} else {
		t->verdict = "link";
		if (is_steered(t))
			buf_printf(&t->reason,
				"steered by the policy \"%s\"; to its first segment ",
				t->policy->name);
		if (t->told.learned && !t->learned.selected)
			buf_printf(&t->reason, "by %s: the link of the route selected is down",
				peer);
		else if (t->told.learned && t->learned.advertised)
			buf_printf(&t->reason, "by the relay %s, with the lowest metric", peer);
		else
			buf_printf(&t->reason, "directly to %s", peer);
		if (is_endpoint(t))
			buf_add_str(&t->reason,
				"; but what goes to the endpoint itself is dropped as a loop");
	}
}

/* ---- what else there was ---- */

static const char *why_not(const struct trace *t, const struct babel_route_info *b)
{
	if (t->found && strcmp(t->told.origin, "static") == 0)
		return "a static route for the same prefix goes first";
	if (t->found && strcmp(t->told.origin, "local") == 0)
		return "the prefix is this node's own";
	if (b->selected)
		return "its link is down, and Babel has not selected anew yet";
	if (b->advertised == BABEL_INFINITY)
		return "the neighbour has taken it back";
	if (b->metric == BABEL_INFINITY)
		return "the link to the neighbour is down for routing";
	if (!b->feasible)
		return "not feasible: it may lead back here (RFC 8966 2.4)";
	if (t->told.learned && b->metric >= t->learned.metric)
		return "its metric is not lower";
	return "its metric is lower, but not by enough or not for long enough";
}

static void alternatives(const struct trace *t, struct json *j)
{
	struct babel_route_info b;
	size_t it = 0;

	json_array(j, "alternatives");
	while (t->found && babel_routes(t->n->babel, &it, &b)) {
		const struct node_link *l = b.iface - 1 < t->n->slots ? t->n->slot[b.iface - 1]
								      : NULL;
		bool taken = t->told.learned && b.iface == t->learned.iface &&
			ipaddr_equal(&b.neighbour, &t->learned.neighbour);

		if (b.own || taken || !l || !same_prefix(&b.prefix, &t->told))
			continue;
		json_object(j, NULL);
		json_object(j, "via");
		json_string(j, "link", l->text);
		node_peer_object(j, l, false);
		json_object_end(j);
		if (b.metric == BABEL_INFINITY)
			json_null(j, "metric");
		else
			json_uint(j, "metric", b.metric);
		json_string(j, "why_not", why_not(t, &b));
		json_object_end(j);
	}
	json_array_end(j);
}

/* ---- how far it is ---- */

/* The round trip of the link as measured, and what the neighbour's metric is worth in round trips
 * by the map, which all nodes of a mesh have in common. A metric does not say of how many links it
 * is made: that of one link is taken off, so each relay behind the first counts as the round trip
 * that its link's fixed cost is worth. Not known when the map has an end that was reached, when a
 * link loses packets, when there is no map. */
static bool estimate(const struct trace *t, double *ret_ms)
{
	const struct config *c = t->n->config;
	int64_t span = c->babel.rtt_max_us - c->babel.rtt_min_us;
	struct babel_neighbour_info i;
	double us;

	/* of the way beyond the first segment nothing is known */
	if (is_steered(t) || strcmp(t->verdict, "link") != 0 ||
		!node_link_neighbour(t->n, t->told.via->slot, &i) || !i.has_rtt)
		return false;
	us = (double)i.rtt_us;
	if (t->told.learned && t->learned.advertised) {
		int64_t rest = (int64_t)t->learned.advertised - c->babel.cost;

		if (!c->babel.rtt_cost || span <= 0 || i.loss * 100 > MAP_LOSS_FREE ||
			(t->told.via->has_loss && t->told.via->loss * 100 > MAP_LOSS_FREE) ||
			i.rtt_us >= c->babel.rtt_max_us || rest < 0 || rest >= c->babel.rtt_cost)
			return false;
		us += (double)c->babel.rtt_min_us +
			(double)rest * (double)span / (double)c->babel.rtt_cost;
	}
	*ret_ms = us / 1000;
	return true;
}

/* An address of this node's own to ask from: the packet's, when it is one. */
static const struct ipaddr *own_address(const struct trace *t)
{
	const struct config *c = t->n->config;
	const struct ipaddr *own = NULL;

	for (size_t i = 0; i < c->tun.address_count; i++) {
		const struct ipaddr *a = &c->tun.address[i].ip;

		if (ipaddr_equal(a, &t->src))
			return a;
		if (!own && a->family == t->dst.family)
			own = a;
	}
	return own;
}

static void own_hop(const struct trace *t, struct json *j)
{
	const struct config *c = t->n->config;
	const struct ipaddr *own = own_address(t);
	char text[ADDR_TEXT];

	json_object(j, NULL);
	json_object(j, "node");
	json_string(j, "organization", c->node.organization);
	json_string(j, "name", c->node.name);
	json_object_end(j);
	json_string(j, "address", own ? ipaddr_format(own, text) : NULL);
	json_null(j, "rtt_ms");
	json_string(j, "source", "local");
	json_object_end(j);
}

/* The hop that is known without asking, with the round trip of its link. */
static void link_hop(const struct trace *t, struct json *j)
{
	const struct node_link *l = t->told.via;
	struct babel_neighbour_info i = {0};
	bool known = node_link_neighbour(t->n, l->slot, &i);
	char text[ADDR_TEXT];

	json_object(j, NULL);
	json_object(j, "node");
	json_string(j, "organization", l->organization);
	json_string(j, "name", l->name);
	json_object_end(j);
	json_string(j, "address", known ? ipaddr_format(&i.address, text) : NULL);
	json_real(j, "rtt_ms", known && i.has_rtt ? (double)i.rtt_us / 1000 : (double)NAN);
	json_string(j, "source", "local");
	json_object_end(j);
}

/* Everything up to the hops, of which the first is this node. */
static void decision(struct trace *t, wtime now, struct json *j)
{
	char text[ADDR_TEXT];
	double ms;

	json_object(j, NULL);
	json_int(j, "schema", 1);
	json_string(j, "source", ipaddr_format(&t->src, text));
	json_string(j, "destination", ipaddr_format(&t->dst, text));
	json_string(j, "policy", t->policy ? t->policy->name : NULL);
	json_array(j, "segments");
	for (uint32_t i = 0; is_steered(t) && i < t->policy->segment_count; i++)
		json_string(j, NULL, ipaddr_format(&t->policy->segment[i], text));
	json_array_end(j);
	if (t->found)
		node_route_object(t->n, "route", &t->told, now, j);
	else
		json_null(j, "route");
	alternatives(t, j);
	if (estimate(t, &ms))
		json_real(j, "estimated_rtt_ms", ms);
	else
		json_null(j, "estimated_rtt_ms");
	json_array(j, "hops");
	own_hop(t, j);
}

/* Asks the hops; 0: they cannot be asked. */
static uint32_t ask_hops(struct trace *t, const struct json *j, struct buf *reply, wtime now)
{
	const struct ipaddr *own = own_address(t);
	struct node_hops_ask a = {
		.src = t->src,
		.dst = t->dst,
		.via = t->told.via,
		.verdict = t->verdict,
		.text = *reply,
		.reason = t->reason,
		.json = *j,
	};
	uint32_t id;

	if (!own) {
		buf_add_str(&t->reason,
			"; hops are not asked: this node has no address of that "
			"family");
		return 0;
	}
	a.own = *own;
	if (is_steered(t))
		a.outer = t->by_src;
	id = node_hops_start(t->n, &a, now);
	if (!id) {
		buf_add_str(&t->reason, "; hops are not asked: other traces are under way");
		return 0;
	}
	*reply = t->reason = (struct buf){0};
	return id;
}

static uint32_t tell(struct trace *t, wtime now, struct buf *reply)
{
	struct json j = json_to(reply);
	uint32_t id;

	decision(t, now, &j);
	if (strcmp(t->verdict, "link") == 0) {
		id = ask_hops(t, &j, reply, now);
		if (id)
			return id;
		link_hop(t, &j);
	}
	json_array_end(&j);
	buf_add(&t->reason, "", 1);
	json_string(&j, "verdict", t->verdict);
	json_string(&j, "reason", t->reason.failed ? "out of memory" : (char *)t->reason.p);
	json_object_end(&j);
	buf_add_str(reply, "\n");
	return 0;
}

/* "SRC DST" */
static const char *read_addresses(struct trace *t, const char *argument)
{
	const char *space = strchr(argument, ' ');
	char src[CTL_ARGUMENT];

	if (!space)
		return "trace wants two addresses: SRC DST";
	memcpy(src, argument, (size_t)(space - argument));
	src[space - argument] = 0;
	if (ipaddr_parse(src, &t->src) < 0 || ipaddr_parse(space + 1, &t->dst) < 0)
		return "trace wants two addresses, as 10.1.0.1 10.2.0.1";
	if (t->src.family != t->dst.family)
		return "the two addresses are of different families";
	return NULL;
}

uint32_t node_trace(struct node *n, const char *argument, wtime now, struct buf *reply)
{
	struct trace t = {.n = n};
	const char *error = read_addresses(&t, argument);
	uint32_t id;

	if (error) {
		ctl_reply_error(reply, error);
		return 0;
	}
	steer(&t);
	find_fixed(&t);
	find_locators(&t);
	find_learned(&t);
	judge(&t);
	id = tell(&t, now, reply);
	buf_free(&t.reason);
	return id;
}
