/* What the host has beside the mesh. The networks that it is connected to are not learned from
 * others, unless `import` names them: who announces them would take the LAN away. The routes that
 * `routing.redistribute` picks are announced as the node's own, as long as the host has them. What
 * Babel brought cannot come back that way: it bears the mesh's protocol, lies in the mesh's tables
 * and leads into the TUN, and each of these keeps it out (the first two conf/, the third os/). */
#include "node/node_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "ctl/json.h"

enum { LINE = 512 };

const struct prefix *node_host_network(const struct node *n, const struct prefix *p)
{
	for (size_t i = 0; p->len && i < n->host.networks; i++)
		if (prefix_covers(&n->host.network[i], p))
			return &n->host.network[i];
	return NULL;
}

/* ---- what was refused ---- */

bool node_host_address(const struct node *n, const struct prefix *p)
{
	const struct config *c = n->config;

	for (size_t i = 0; i < c->tun.address_count; i++)
		if (ipaddr_equal(&c->tun.address[i].ip, &p->addr))
			return p->len == ipaddr_bits(&p->addr);
	return false;
}

/* Whether what it was refused for is still there. */
static bool still_refused(const struct node *n, const struct node_refused *r)
{
	if (prefix_equal(&r->prefix, &r->network) && node_host_address(n, &r->prefix))
		return true;
	for (size_t i = 0; i < n->host.networks; i++)
		if (prefix_equal(&n->host.network[i], &r->network))
			return true;
	return false;
}

static void refused_line(const struct node *n, const struct node_refused *r, char *line,
	size_t size)
{
	const struct registry_node *from = node_speaker_origin(n, r->router_id);
	char what[PREFIX_TEXT], near[PREFIX_TEXT];
	int len = snprintf(line, size,
		"%s, announced by %s%s%s, is not installed: ", prefix_format(&r->prefix, what),
		from ? from->organization : "an unknown node", from ? "/" : "",
		from ? from->name : "");

	if (len < 0 || (size_t)len >= size)
		return;
	line += len;
	size -= (size_t)len;
	if (prefix_equal(&r->prefix, &r->network) && node_host_address(n, &r->prefix))
		(void)snprintf(line, size,
			"it is this node's own in tun.addresses; each node "
			"needs its own");
	else
		(void)snprintf(line, size,
			"this host is connected to %s; to take it all the same name it in "
			"routing.import",
			prefix_format(&r->network, near));
}

void node_host_refused(struct node *n, const struct babel_offer *o, const struct prefix *network)
{
	struct node_host *h = &n->host;
	size_t known = h->refusals < NODE_REFUSED ? h->refusals : NODE_REFUSED;
	struct node_refused r = {.prefix = o->prefix.destination,
		.network = *network,
		.at = h->now};
	char line[LINE];
	size_t oldest = 0;

	memcpy(r.router_id, o->router_id, sizeof(r.router_id));
	for (size_t i = 0; i < known; i++) {
		if (prefix_equal(&h->refused[i].prefix, &r.prefix) &&
			memcmp(h->refused[i].router_id, r.router_id, sizeof(r.router_id)) == 0) {
			h->refused[i] = r;
			return;
		}
		if (wtime_before(h->refused[i].at, h->refused[oldest].at))
			oldest = i;
	}
	h->refused[known < NODE_REFUSED ? known : oldest] = r;
	/* more of them than are remembered are told of once */
	if (h->refusals++ < NODE_REFUSED) {
		refused_line(n, &r, line, sizeof(line));
		node_log(n, CONF_LOG_WARNING, "%s", line);
	}
}

void node_host_warnings(const struct node *n, wtime now, struct json *j)
{
	const int64_t memory = node_speaker_memory_us(n);
	char line[LINE];

	for (size_t i = 0; i < NODE_REFUSED && i < n->host.refusals; i++)
		if (wtime_diff(now, n->host.refused[i].at) < memory &&
			still_refused(n, &n->host.refused[i])) {
			refused_line(n, &n->host.refused[i], line, sizeof(line));
			json_string(j, NULL, line);
		}
}

static bool was_refused_for(const struct node_host *h, const struct prefix *network)
{
	if (h->refusals > NODE_REFUSED)
		return true; /* perhaps */
	for (size_t i = 0; i < h->refusals; i++)
		if (prefix_equal(&h->refused[i].network, network))
			return true;
	return false;
}

static void forget_refused(struct node *n)
{
	struct node_host *h = &n->host;
	size_t kept = 0, known = h->refusals < NODE_REFUSED ? h->refusals : NODE_REFUSED;

	for (size_t i = 0; i < known; i++)
		if (still_refused(n, &h->refused[i]))
			h->refused[kept++] = h->refused[i];
	h->refusals = kept;
}

/* ---- connected networks ---- */

static bool has_network(const struct prefix *v, size_t n, const struct prefix *p)
{
	for (size_t i = 0; i < n; i++)
		if (prefix_equal(&v[i], p))
			return true;
	return false;
}

static bool knows_route_in(const struct node *n, const struct prefix *network)
{
	struct babel_route_info r;
	size_t it = 0;

	while (babel_routes(n->babel, &it, &r))
		if (!r.own && r.prefix.destination.len &&
			prefix_covers(network, &r.prefix.destination))
			return true;
	return false;
}

/* Whether the filters answer otherwise now about something that is known or was refused. */
static bool answers_change(const struct node *n, const struct kernel_host *now)
{
	const struct node_host *was = &n->host;

	for (size_t i = 0; i < was->networks; i++)
		if (!has_network(now->network, now->network_count, &was->network[i]) &&
			was_refused_for(was, &was->network[i]))
			return true;
	for (size_t i = 0; i < now->network_count; i++)
		if (!has_network(was->network, was->networks, &now->network[i]) &&
			knows_route_in(n, &now->network[i]))
			return true;
	return false;
}

static void take_networks(struct node *n, const struct kernel_host *h, wtime now)
{
	struct prefix *copy;
	bool changed;

	if (h->network_count == n->host.networks &&
		(!h->network_count ||
			memcmp(h->network, n->host.network, h->network_count * sizeof(*copy)) == 0))
		return;
	copy = w_calloc(h->network_count, sizeof(*copy));
	if (!copy) {
		n->out_of_memory++;
		return;
	}
	if (h->network_count)
		memcpy(copy, h->network, h->network_count * sizeof(*copy));
	changed = answers_change(n, h);
	w_free(n->host.network);
	n->host.network = copy;
	n->host.networks = h->network_count;
	forget_refused(n);
	n->kernel_dirty = true; /* what lies in them stands aside there */
	if (changed)
		babel_refilter(n->babel, now);
}

/* ---- redistributed routes ---- */

static int announced_compare(const void *pa, const void *pb)
{
	const struct node_announced *a = pa, *b = pb;
	int r = prefix_compare(&a->prefix.destination, &b->prefix.destination);

	if (r == 0)
		r = a->prefix.source.len - b->prefix.source.len;
	if (r == 0 && a->prefix.source.len)
		r = prefix_compare(&a->prefix.source, &b->prefix.source);
	return r;
}

static bool announced_find(const struct node_host *h, const struct babel_prefix *p)
{
	const struct node_announced key = {.prefix = *p};

	return h->routes && bsearch(&key, h->route, h->routes, sizeof(key), announced_compare);
}

bool node_host_announces(const struct node *n, const struct babel_prefix *p)
{
	return announced_find(&n->host, p);
}

static const struct conf_redistribute *entry_of(const struct config *c,
	const struct kernel_pick *from)
{
	for (size_t i = 0; i < c->routing.redistribute_count; i++)
		if (c->routing.redistribute[i].table == from->table &&
			c->routing.redistribute[i].protocol == from->protocol)
			return &c->routing.redistribute[i];
	return NULL;
}

/* The default route goes out by name alone, as it comes in. */
static bool may_announce(struct node *n, const struct babel_prefix *p)
{
	return !node_speaker_refuses(n, &p->destination) && !node_speaker_own(n, p) &&
		(p->destination.len || p->source.len || node_speaker_exports(n, &p->destination));
}

/* Sorted, each prefix once, with its lowest metric. */
static size_t announced_sort(struct node_announced *v, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(v, n, sizeof(*v), announced_compare);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || announced_compare(&v[kept - 1], &v[i]) != 0)
			v[kept++] = v[i];
		else if (v[i].metric < v[kept - 1].metric)
			v[kept - 1].metric = v[i].metric;
	}
	return kept;
}

static void take_routes(struct node *n, const struct kernel_host *h, wtime now)
{
	struct node_announced *wanted = w_calloc(h->route_count, sizeof(*wanted));
	struct node_host old = n->host;
	size_t count = 0;
	int err = 0;

	if (!wanted) {
		n->out_of_memory++;
		return;
	}
	for (size_t i = 0; i < h->route_count; i++) {
		const struct conf_redistribute *e = entry_of(n->config, &h->route[i].from);
		struct babel_prefix p = {h->route[i].destination, h->route[i].source};

		if (e && may_announce(n, &p))
			wanted[count++] = (struct node_announced){p, e->metric};
	}
	n->host.route = wanted;
	n->host.routes = announced_sort(wanted, count);
	for (size_t i = 0; i < old.routes; i++)
		if (!node_host_announces(n, &old.route[i].prefix) &&
			!node_speaker_own(n, &old.route[i].prefix)) {
			babel_withdraw(n->babel, &old.route[i].prefix, now);
			node_table_local(n, &old.route[i].prefix, false);
		}
	for (size_t i = 0; i < n->host.routes && !err; i++) {
		err = babel_originate(n->babel, &wanted[i].prefix, wanted[i].metric, now);
		if (!announced_find(&old, &wanted[i].prefix))
			node_table_local(n, &wanted[i].prefix, true);
	}
	if (err < 0)
		n->out_of_memory++;
	if (old.routes != n->host.routes ||
		(old.routes && memcmp(old.route, wanted, old.routes * sizeof(*wanted)) != 0))
		n->kernel_dirty |= n->config->exit.masquerade; /* it spares them */
	w_free(old.route);
}

void node_host(struct node *n, const struct kernel_host *h, wtime now)
{
	if (n->stopping)
		return;
	n->host.now = now;
	take_networks(n, h, now);
	take_routes(n, h, now);
	node_speaker_run(n, now);
}

void node_host_free(struct node *n)
{
	w_free(n->host.network);
	w_free(n->host.route);
}
