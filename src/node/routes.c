/* What the node tells about routes and neighbours: own prefixes, static routes, everything that
 * Babel knows, the routes that were not taken among them. */
#include "node/node_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "ctl/json.h"
#include "ctl/request.h"

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

static void loss_or_null(struct json *j, const char *key, bool known, double loss)
{
	if (known)
		json_real(j, key, loss);
	else
		json_null(j, key);
}

void node_link_metric(const struct node *n, const struct node_link *l, struct json *j)
{
	struct babel_neighbour_info i = {0};
	bool known = node_link_neighbour(n, l->slot, &i);

	rtt_or_null(j, known && i.has_rtt, i.rtt_us);
	loss_or_null(j, "loss", l->has_loss || known, l->has_loss ? l->loss : i.loss);
	loss_or_null(j, "loss_hellos", known, i.loss);
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

enum { ROUTES_A_PART = 4096 }; /* of a reply; the rest is for the asker to ask for */

/* A place in the list of routes: of the fixed ones an index, of the learned ones the speaker's,
 * with this bit. */
#define LEARNED (UINT64_C(1) << 63)

struct walk {
	struct node *n;
	struct json *j;
	wtime now;
	bool any;
	struct prefix filter; /* routes that cover it, or lie in it */
	size_t told;
	struct babel_neighbour_info *best; /* by slot; iface 0: none is known */
};

/* Looks at all neighbours once, not for each route. */
static int best_neighbours(struct walk *w)
{
	struct babel_neighbour_info i;
	size_t it = 0;

	w->best = w_calloc(w->n->slots, sizeof(*w->best));
	if (!w->best)
		return -ENOMEM;
	while (babel_neighbours(w->n->babel, &it, &i)) {
		struct babel_neighbour_info *b = i.iface - 1 < w->n->slots ? &w->best[i.iface - 1]
									   : NULL;

		if (b && (!b->iface || i.cost < b->cost))
			*b = i;
	}
	return 0;
}

static void via_object(const struct node_link *l, const struct babel_neighbour_info *i,
	struct json *j)
{
	if (!l) {
		json_null(j, "via");
		return;
	}
	json_object(j, "via");
	json_string(j, "link", l->text);
	node_peer_object(j, l, false);
	rtt_or_null(j, i->iface && i->has_rtt, i->rtt_us);
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

static void route_object(const char *key, const struct node_told *r,
	const struct babel_neighbour_info *neighbour, wtime now, struct json *j)
{
	char text[PREFIX_TEXT];

	json_object(j, key);
	json_string(j, "prefix", prefix_format(&r->prefix, text));
	json_string(j, "source", r->source.len ? prefix_format(&r->source, text) : NULL);
	json_string(j, "origin", r->origin);
	via_object(r->via, neighbour, j);
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

void node_route_object(const struct node *n, const char *key, const struct node_told *r, wtime now,
	struct json *j)
{
	struct babel_neighbour_info i = {0};

	if (r->via)
		(void)node_link_neighbour(n, r->via->slot, &i);
	route_object(key, r, &i, now, j);
}

static void tell(struct walk *w, const struct node_told *r)
{
	static const struct babel_neighbour_info none;

	if (!w->any && !prefix_covers(&r->prefix, &w->filter) &&
		!prefix_covers(&w->filter, &r->prefix))
		return;
	w->told++;
	route_object(NULL, r, r->via ? &w->best[r->via->slot] : &none, w->now, w->j);
}

/* Fixed route number i; false: there are no more. */
static bool fixed_route(struct walk *w, uint64_t i)
{
	const struct config *c = w->n->config;
	struct node_told r = {.origin = "local", .selected = true};

	if (i < c->tun.address_count) {
		r.prefix = prefix_of(&c->tun.address[i].ip, 128);
		tell(w, &r);
		return true;
	}
	i -= c->tun.address_count;
	if (i < c->announce_count) {
		r.prefix = c->announce[i].destination;
		r.source = c->announce[i].source;
		tell(w, &r);
		return true;
	}
	i -= c->announce_count;
	if (i == 0) {
		if (node_locator(w->n, &r.prefix))
			tell(w, &r);
		return true;
	}
	i--;
	if (i < w->n->host.routes) {
		r.prefix = w->n->host.route[i].prefix.destination;
		r.source = w->n->host.route[i].prefix.source;
		tell(w, &r);
		return true;
	}
	i -= w->n->host.routes;
	if (i >= c->static_route_count)
		return false;
	r.origin = "static";
	r.prefix = c->static_route[i].prefix;
	r.via = node_static_link(w->n, &c->static_route[i]);
	r.selected = r.via != NULL;
	r.installed = true;
	tell(w, &r);
	return true;
}

static void learned_route(struct walk *w, const struct babel_route_info *b)
{
	struct node_told r = {
		.prefix = b->prefix.destination,
		.source = b->prefix.source,
		.origin = "babel",
		.learned = b,
	};

	if (b->own)
		return;
	r.via = b->iface - 1 < w->n->slots ? w->n->slot[b->iface - 1] : NULL;
	r.installed = b->selected && node_kernel_has(w->n, &b->prefix) &&
		node_rib_find(w->n, &b->prefix) != NULL;
	tell(w, &r);
}

/* Tells routes from a place on, a part at most. The place of the next; 0: that was all. */
static uint64_t tell_from(struct walk *w, uint64_t at)
{
	struct babel_route_info b;
	size_t it = (size_t)(at & ~LEARNED);

	for (; !(at & LEARNED); at++) {
		if (w->told == ROUTES_A_PART)
			return at;
		if (!fixed_route(w, at)) {
			it = 0;
			break;
		}
	}
	while (w->told < ROUTES_A_PART) {
		if (!babel_routes(w->n->babel, &it, &b))
			return 0;
		learned_route(w, &b);
	}
	return it | LEARNED;
}

/* The place that an earlier reply named; false: it names none. */
static bool read_place(const char *from, uint64_t *ret)
{
	enum { DIGITS = 16, HEX = 16 };

	if (!from[0]) {
		*ret = 0;
		return true;
	}
	*ret = strtoull(from, NULL, HEX);
	return strlen(from) == DIGITS && strspn(from, "0123456789abcdef") == DIGITS;
}

void node_routes_reply(struct node *n, const struct ctl_request *r, wtime now, struct json *j)
{
	struct walk w = {.n = n, .j = j, .now = now, .any = !r->argument[0]};
	uint64_t at;

	if (!w.any && prefix_parse(r->argument, &w.filter) < 0) {
		json_string(j, "error", "the argument is no address or prefix");
		return;
	}
	if (!read_place(r->from, &at)) {
		json_string(j, "error", "from must be the next of an earlier reply");
		return;
	}
	if (best_neighbours(&w) < 0) {
		json_string(j, "error", "out of memory");
		return;
	}
	json_array(j, "routes");
	at = tell_from(&w, at);
	json_array_end(j);
	if (at)
		json_hex(j, "next", at, 16);
	else
		json_null(j, "next");
	w_free(w.best);
}
