/* What the node tells about routes and neighbours: own prefixes, static routes, everything that
 * Babel knows, the routes that were not taken among them. */
#include "node/node_priv.h"

#include <stdio.h>
#include <string.h>
#include "ctl/json.h"

static double ms(int64_t us)
{
	return (double)us / 1000.0;
}

bool node_link_neighbour(const struct node *n, uint32_t slot, struct babel_neighbour_info *ret)
{
	struct babel_neighbour_info i;
	size_t it = 0;
	bool found = false;

	while (babel_neighbours(n->babel, &it, &i))
		if (i.iface == slot + 1 && (!found || i.cost < ret->cost)) {
			*ret = i;
			found = true;
		}
	return found;
}

static void cost_or_null(struct json *j, const char *key, bool known, uint16_t cost)
{
	if (known && cost != BABEL_INFINITY)
		json_uint(j, key, cost);
	else
		json_null(j, key);
}

static void rtt_or_null(struct json *j, bool known, int64_t us)
{
	if (known)
		json_real(j, "rtt_ms", ms(us));
	else
		json_null(j, "rtt_ms");
}

void node_link_metric(const struct node *n, const struct node_link *l, struct json *j)
{
	struct babel_neighbour_info i = {0};
	bool known = node_link_neighbour(n, l->slot, &i);

	rtt_or_null(j, known && i.has_rtt, i.rtt_us);
	if (l->has_loss)
		json_real(j, "loss", l->loss);
	else if (known)
		json_real(j, "loss", i.loss);
	else
		json_null(j, "loss");
	cost_or_null(j, "cost", known, i.cost);
	cost_or_null(j, "rxcost", known, i.rxcost);
	cost_or_null(j, "txcost", known, i.txcost);
}

void node_neighbours_reply(struct node *n, struct json *j)
{
	struct babel_neighbour_info i;
	char text[ADDR_TEXT];
	size_t it = 0;

	json_array(j, "neighbours");
	while (babel_neighbours(n->babel, &it, &i)) {
		const struct node_link *l = i.iface - 1 < n->slots ? n->slot[i.iface - 1] : NULL;

		if (!l)
			continue;
		json_object(j, NULL);
		json_string(j, "link", l->text);
		node_peer_object(j, l, false);
		json_string(j, "address", ipaddr_format(&i.address, text));
		rtt_or_null(j, i.has_rtt, i.rtt_us);
		cost_or_null(j, "rxcost", true, i.rxcost);
		cost_or_null(j, "txcost", true, i.txcost);
		json_uint(j, "reach", i.reach);
		json_object_end(j);
	}
	json_array_end(j);
}

/* ---- routes ---- */

struct walk {
	struct node *n;
	struct json *j;
	wtime now;
	bool any;
	struct prefix filter; /* routes that cover it, or lie in it */
};

static void via_object(const struct node *n, const struct node_told *r, struct json *j)
{
	struct babel_neighbour_info i = {0};
	bool known;

	if (!r->via) {
		json_null(j, "via");
		return;
	}
	known = node_link_neighbour(n, r->via->slot, &i) && i.has_rtt;
	json_object(j, "via");
	json_string(j, "link", r->via->text);
	node_peer_object(j, r->via, false);
	rtt_or_null(j, known, i.rtt_us);
	json_object_end(j);
}

static void learned_members(const struct babel_route_info *b, struct json *j)
{
	const uint8_t *id = b->router_id;
	char text[24];

	(void)snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", id[0], id[1],
		id[2], id[3], id[4], id[5], id[6], id[7]);
	cost_or_null(j, "metric", true, b->metric);
	json_uint(j, "seqno", b->seqno);
	json_string(j, "router_id", text);
	json_bool(j, "selected", b->selected);
	json_bool(j, "feasible", b->feasible);
}

void node_route_object(const struct node *n, const char *key, const struct node_told *r, wtime now,
	struct json *j)
{
	char text[PREFIX_TEXT];

	json_object(j, key);
	json_string(j, "prefix", prefix_format(&r->prefix, text));
	json_string(j, "source", r->source.len ? prefix_format(&r->source, text) : NULL);
	json_string(j, "origin", r->origin);
	via_object(n, r, j);
	if (r->learned) {
		learned_members(r->learned, j);
	} else {
		json_null(j, "metric");
		json_null(j, "seqno");
		json_null(j, "router_id");
		json_bool(j, "selected", r->selected);
		json_bool(j, "feasible", r->selected);
	}
	json_bool(j, "installed", r->installed);
	if (r->learned)
		json_real(j, "age_s", (double)wtime_diff(now, r->learned->since) / (double)W_SEC);
	else
		json_null(j, "age_s");
	json_object_end(j);
}

static void tell(struct walk *w, const struct node_told *r)
{
	if (w->any || prefix_covers(&r->prefix, &w->filter) ||
		prefix_covers(&w->filter, &r->prefix))
		node_route_object(w->n, NULL, r, w->now, w->j);
}

static void fixed_routes(struct walk *w)
{
	const struct config *c = w->n->config;
	struct prefix locator;

	for (size_t i = 0; i < c->tun.address_count; i++)
		tell(w,
			&(struct node_told){.prefix = prefix_of(&c->tun.address[i].ip, 128),
				.origin = "local",
				.selected = true});
	for (size_t i = 0; i < c->announce_count; i++)
		tell(w,
			&(struct node_told){.prefix = c->announce[i].destination,
				.source = c->announce[i].source,
				.origin = "local",
				.selected = true});
	if (node_locator(w->n, &locator))
		tell(w,
			&(struct node_told){.prefix = locator,
				.origin = "local",
				.selected = true});
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct node_link *via = node_static_link(w->n, &c->static_route[i]);

		tell(w,
			&(struct node_told){.prefix = c->static_route[i].prefix,
				.origin = "static",
				.via = via,
				.selected = via != NULL,
				.installed = true});
	}
}

static void learned_routes(struct walk *w)
{
	struct babel_route_info b;
	size_t it = 0;

	while (babel_routes(w->n->babel, &it, &b)) {
		struct node_told r = {
			.prefix = b.prefix.destination,
			.source = b.prefix.source,
			.origin = "babel",
			.learned = &b,
		};

		if (b.own)
			continue;
		r.via = b.iface - 1 < w->n->slots ? w->n->slot[b.iface - 1] : NULL;
		r.installed = b.selected && node_kernel_has(&b.prefix) &&
			node_rib_find(w->n, &b.prefix) != NULL;
		tell(w, &r);
	}
}

void node_routes_reply(struct node *n, const char *argument, wtime now, struct json *j)
{
	struct walk w = {.n = n, .j = j, .now = now, .any = !argument[0]};

	if (!w.any && prefix_parse(argument, &w.filter) < 0) {
		json_string(j, "error", "the argument is no address or prefix");
		return;
	}
	json_array(j, "routes");
	fixed_routes(&w);
	learned_routes(&w);
	json_array_end(j);
}
