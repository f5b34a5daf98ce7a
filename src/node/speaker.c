/* The Babel speaker of a node: an interface for each link that is up, packets through the plane,
 * filters, and what its events mean for the routing table. */
#include "node/node_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "wire/csum.h"
#include "wire/ip.h"

enum {
	TRAFFIC_CLASS = 0xc0, /* CS6, as routing protocols are sent */
	UPDATE_FACTOR = 4,
	LINKS_A_FACTOR = 50, /* so many links more: updates come that much rarer */
	UPDATE_FACTOR_MAX = 40,
};

/* ---- filters; what is refused always comes before the configured ones ---- */

bool node_speaker_own(const struct node *n, const struct babel_prefix *p)
{
	const struct config *c = n->config;
	struct prefix locator;

	if (!p->source.len && node_locator(n, &locator) && prefix_equal(&locator, &p->destination))
		return true;
	for (size_t i = 0; i < c->announce_count; i++)
		if (prefix_equal(&c->announce[i].destination, &p->destination) &&
			c->announce[i].source.len == p->source.len &&
			(!p->source.len || prefix_equal(&c->announce[i].source, &p->source)))
			return true;
	for (size_t i = 0; i < c->tun.address_count; i++) {
		struct prefix own = prefix_of(&c->tun.address[i].ip, 128);

		if (prefix_equal(&own, &p->destination))
			return true;
	}
	return false;
}

/* A host route to an endpoint would draw the underlay into the mesh. */
static bool is_endpoint(struct node *n, const struct prefix *p)
{
	if (p->len != ipaddr_bits(&p->addr))
		return false;
	list_for_each (it, &n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);

		if (ipaddr_equal(&l->remote.ip, &p->addr) || ipaddr_equal(&l->local.ip, &p->addr))
			return true;
	}
	return false;
}

static bool is_unroutable(const struct prefix *p)
{
	return p->len &&
		(ipaddr_is_link_local(&p->addr) || ipaddr_is_multicast(&p->addr) ||
			ipaddr_is_loopback(&p->addr));
}

const struct registry_node *node_speaker_origin(const struct node *n,
	const uint8_t router_id[static 8])
{
	for (size_t i = 0; i < n->registry->node_count; i++)
		if (memcmp(n->router_ids + i * 8, router_id, 8) == 0)
			return &n->registry->node[i];
	return NULL;
}

/* The first rule that fits; NULL: none. */
static const struct conf_filter *rule_for(const struct conf_filter *f, size_t count,
	const struct prefix *p, const struct registry_node *from)
{
	for (size_t i = 0; i < count; i++) {
		unsigned int ge = f[i].ge ? f[i].ge : f[i].prefix.len;
		unsigned int le = f[i].le ? f[i].le
			: f[i].ge         ? ipaddr_bits(&p->addr)
					  : f[i].prefix.len;

		if (!prefix_covers(&f[i].prefix, p) || p->len < ge || p->len > le)
			continue;
		if (f[i].organization &&
			(!from || strcmp(from->organization, f[i].organization) != 0))
			continue;
		return &f[i];
	}
	return NULL;
}

/* With `allow` in the registry a node may announce what lies in it, and nothing else; then an
 * origin that the registry does not know is none either, or any node could announce under a new
 * name what it may not under its own. */
static bool is_allowed(const struct node *n, const struct registry_node *from,
	const struct prefix *p)
{
	if (!from)
		return !n->origins_checked;
	if (!from->has_allow)
		return true;
	for (size_t i = 0; i < from->allow_count; i++)
		if (prefix_covers(&from->allow[i], p))
			return true;
	return from->has_srv6 && prefix_covers(&from->srv6, p);
}

/* From a node that the registry says is no relay comes what it announces itself, and no more. */
static bool is_relayed_by_leaf(const struct node *n, const struct babel_offer *o,
	const struct registry_node *from)
{
	const struct node_link *l = o->iface - 1 < n->slots ? n->slot[o->iface - 1] : NULL;

	return l && !l->transit &&
		(!from || strcmp(from->organization, l->organization) != 0 ||
			strcmp(from->name, l->name) != 0);
}

bool node_speaker_refuses(struct node *n, const struct prefix *p)
{
	return is_unroutable(p) || is_endpoint(n, p);
}

static const struct conf_filter *import_rule(const struct node *n, const struct prefix *p,
	const struct registry_node *from)
{
	return rule_for(n->config->routing.import, n->config->routing.import_count, p, from);
}

/* A rule for a wide prefix does not name each network that lies in it. */
static bool is_named(const struct conf_filter *rule, const struct prefix *network)
{
	return rule && rule->accept && prefix_covers(network, &rule->prefix);
}

bool node_speaker_named(const struct node *n, const struct prefix *p,
	const uint8_t router_id[static 8])
{
	const struct prefix *network = node_host_network(n, p);

	return network && is_named(import_rule(n, p, node_speaker_origin(n, router_id)), network);
}

/* Another node has an address of this one's TUN: neither is reached from everywhere. */
static void tell_namesake(struct node *n, const struct babel_offer *o)
{
	const struct prefix *p = &o->prefix.destination;

	if (memcmp(o->router_id, n->router_id, sizeof(n->router_id)) != 0 &&
		node_host_address(n, p))
		node_host_refused(n, o, p);
}

static bool import(void *ctx, const struct babel_offer *o)
{
	struct node *n = ctx;
	const struct prefix *p = &o->prefix.destination, *network;
	const struct registry_node *from = node_speaker_origin(n, o->router_id);
	const struct conf_filter *rule;

	if (node_speaker_refuses(n, p) || !is_allowed(n, from, p) || is_relayed_by_leaf(n, o, from))
		return false;
	if (node_speaker_own(n, &o->prefix)) {
		tell_namesake(n, o);
		return false;
	}
	rule = import_rule(n, p, from);
	network = node_host_network(n, p);
	if (network && !is_named(rule, network)) {
		if (!rule || rule->accept)
			node_host_refused(n, o, network);
		return false;
	}
	/* a default route only by name; whatever else comes in unless a rule says no */
	return rule ? rule->accept : p->len != 0;
}

static const struct conf_filter *export_rule(const struct node *n, const struct prefix *p,
	const uint8_t router_id[static 8])
{
	return rule_for(n->config->routing.export, n->config->routing.export_count, p,
		node_speaker_origin(n, router_id));
}

static bool export(void *ctx, const struct babel_offer *o)
{
	const struct conf_filter *rule = export_rule(ctx, &o->prefix.destination, o->router_id);

	return !rule || rule->accept;
}

bool node_speaker_exports(const struct node *n, const struct prefix *p)
{
	const struct conf_filter *rule = export_rule(n, p, n->router_id);

	return rule && rule->accept;
}

/* ---- start, and what a configuration says ---- */

static int router_ids_build(struct node *n)
{
	const struct registry *r = n->registry;
	uint8_t *ids = w_calloc(r->node_count, 8);

	if (!ids)
		return -ENOMEM;
	n->origins_checked = false;
	for (size_t i = 0; i < r->node_count; i++)
		n->origins_checked |= r->node[i].has_allow;
	for (size_t i = 0; i < r->node_count; i++) {
		struct config c = {.node = {.organization = r->node[i].organization,
					   .name = r->node[i].name,
					   .has_router_id = r->node[i].has_router_id}};

		memcpy(c.node.router_id, r->node[i].router_id, 8);
		if (node_router_id(&c, ids + i * 8) < 0)
			memset(ids + i * 8, 0, 8); /* an identity that no peer can have */
	}
	w_free(n->router_ids);
	n->router_ids = ids;
	return 0;
}

bool node_transit(const struct node *n)
{
	const struct config *c = n->config;

	for (size_t i = 0; i < n->registry->node_count; i++) {
		const struct registry_node *r = &n->registry->node[i];

		if (strcmp(r->organization, c->node.organization) == 0 &&
			strcmp(r->name, c->node.name) == 0)
			return c->node.transit && r->transit;
	}
	return c->node.transit;
}

uint16_t node_speaker_seqno(const struct node *n, wtime now)
{
	uint64_t s = n->epoch_s + (uint64_t)(wtime_diff(now, n->started) / W_SEC);

	return (uint16_t)(s / NODE_SEQNO_S);
}

int node_speaker_start(struct node *n, wtime now)
{
	struct babel_config bc = {
		.rng = n->rng,
		.first_seqno = node_speaker_seqno(n, now),
		.transit = node_transit(n),
		.grid_us = NODE_TICK_US,
		.grid_phase = {n->phase_us},
		.import = import,
		.export = export,
		.filter_ctx = n,
	};

	memcpy(bc.router_id, n->router_id, sizeof(bc.router_id));
	return babel_new(&bc, now, &n->babel);
}

static int originate_all(struct node *n, wtime now)
{
	const struct config *c = n->config;
	struct babel_prefix locator = {0};
	int err = 0;

	for (size_t i = 0; !err && i < c->tun.address_count; i++) {
		struct babel_prefix p = {.destination = prefix_of(&c->tun.address[i].ip, 128)};

		err = babel_originate(n->babel, &p, 0, now);
	}
	for (size_t i = 0; !err && i < c->announce_count; i++) {
		struct babel_prefix p = {c->announce[i].destination, c->announce[i].source};

		err = babel_originate(n->babel, &p, 0, now);
	}
	if (!err && node_locator(n, &locator.destination))
		err = babel_originate(n->babel, &locator, 0, now);
	return err;
}

/* Withdraws what an older configuration announced and this one does not. */
static void withdraw_old(struct node *n, wtime now)
{
	struct babel_route_info r;
	size_t it = 0;

	while (babel_routes(n->babel, &it, &r))
		if (r.own && !node_speaker_own(n, &r.prefix) &&
			!node_host_announces(n, &r.prefix)) {
			babel_withdraw(n->babel, &r.prefix, now);
			it = 0;
		}
}

/* Everything that the filters' answers follow from, as one number. */
static int fingerprint(const struct node *n, uint8_t ret[static 32])
{
	const struct config *c = n->config;
	struct buf b = {0};
	struct view v;
	int err = -ENOMEM;

	for (int k = 0; k < 2; k++) {
		const struct conf_filter *f = k ? c->routing.export : c->routing.import;
		size_t count = k ? c->routing.export_count : c->routing.import_count;

		for (size_t i = 0; i < count; i++) {
			buf_add(&b, &f[i].prefix, sizeof(f[i].prefix));
			buf_printf(&b, "%d/%u/%u/%d/%s;", k, (unsigned int)f[i].ge,
				(unsigned int)f[i].le, (int)f[i].accept,
				f[i].organization ? f[i].organization : "");
		}
	}
	for (size_t i = 0; i < c->announce_count; i++)
		buf_add(&b, &c->announce[i], sizeof(c->announce[i]));
	for (size_t i = 0; i < c->tun.address_count; i++)
		buf_add(&b, &c->tun.address[i].ip, sizeof(c->tun.address[i].ip));
	for (size_t i = 0; i < n->registry->node_count; i++) {
		const struct registry_node *r = &n->registry->node[i];

		buf_printf(&b, "%s/%s/%d/%d;", r->organization, r->name, (int)r->transit,
			(int)r->has_allow);
		buf_add(&b, n->router_ids + i * 8, 8);
		buf_add(&b, r->allow, r->allow_count * sizeof(*r->allow));
		buf_add(&b, &r->srv6, sizeof(r->srv6));
	}
	v = buf_view(&b);
	if (!b.failed)
		err = hash_sha256(&v, 1, ret);
	buf_free(&b);
	return err;
}

/* Asks neighbours anew only when the answers may differ: a reload without a change is silent. */
static int refilter(struct node *n, wtime now)
{
	uint8_t print[32];
	int err = fingerprint(n, print);

	if (err < 0 || memcmp(print, n->filter_print, sizeof(print)) == 0)
		return err;
	memcpy(n->filter_print, print, sizeof(print));
	babel_refilter(n->babel, now);
	return 0;
}

int node_speaker_apply(struct node *n, wtime now)
{
	int err = router_ids_build(n);

	if (err < 0)
		return err;
	babel_transit(n->babel, node_transit(n), now);
	withdraw_old(n, now);
	err = originate_all(n, now);
	if (!err)
		err = refilter(n, now);
	list_for_each (it, &n->links)
		node_speaker_link(n, container_of(it, struct node_link, list), now);
	return err;
}

/* ---- interfaces ---- */

static struct babel_key mac_key(const struct conf_mac_key *k)
{
	struct babel_key key = {.algorithm = BABEL_MAC_HMAC_SHA256, .len = k->len};

	memcpy(key.key, k->key, k->len);
	return key;
}

/* Full dumps grow with links times routes: they are sent the more rarely. */
static uint8_t update_factor(const struct node *n)
{
	size_t links = 0, factor;

	list_for_each (it, &n->links)
		links++;
	factor = UPDATE_FACTOR + UPDATE_FACTOR * links / LINKS_A_FACTOR;
	return (uint8_t)(factor < UPDATE_FACTOR_MAX ? factor : UPDATE_FACTOR_MAX);
}

int64_t node_speaker_memory_us(const struct node *n)
{
	return n->config->babel.hello_us * UPDATE_FACTOR_MAX;
}

static void iface_config(const struct node *n, const struct node_link *l,
	struct babel_iface_config *ret)
{
	const struct config *c = n->config;

	*ret = (struct babel_iface_config){
		.iface = l->slot + 1,
		.link_local = l->own_link_local,
		.tunnel = true,
		.ipv4 = true,
		.mtu = c->tun.mtu,
		.hello_us = c->babel.hello_us,
		.cost = c->babel.cost,
		.rtt_min_us = c->babel.rtt_min_us,
		.rtt_max_us = c->babel.rtt_max_us,
		.rtt_cost = c->babel.rtt_cost,
	};
	ret->update_factor = update_factor(n);
	ret->key_count = (uint8_t)c->babel.mac_key_count;
	for (size_t i = 0; i < c->babel.mac_key_count; i++)
		ret->key[i] = mac_key(&c->babel.mac_key[i]);
	ret->accept_unsigned = c->babel.accept_unsigned;
}

/* What a link's end means for the routes over it. */
static void tell_late(struct node *n, struct node_link *l, wtime now)
{
	if (!l->late)
		return;
	l->late = false;
	if (l->speaking && !node_link_usable(l)) {
		babel_iface_remove(n->babel, l->slot + 1, now);
		l->speaking = l->has_loss = false;
	} else if (l->speaking) {
		babel_iface_alive(n->babel, l->slot + 1, !l->dead, now);
	}
}

/* To select anew takes the longer the more routes there are. Where each goes meanwhile is known
 * before: so the plane is told first, and the speaker when the node has nothing else to hand out.
 */
static void is_late(struct node *n, struct node_link *l)
{
	l->late = true;
	n->links_late = true;
	n->snapshot_dirty = true;
}

void node_speaker_late(struct node *n, wtime now)
{
	n->links_late = false;
	list_for_each (it, &n->links)
		tell_late(n, container_of(it, struct node_link, list), now);
	node_speaker_run(n, now);
}

void node_speaker_alive(struct node *n, struct node_link *l, wtime now)
{
	if (!l->speaking)
		return;
	if (l->dead)
		is_late(n, l);
	else if (l->late)
		l->late = false; /* it never heard of the death */
	else
		babel_iface_alive(n->babel, l->slot + 1, true, now);
}

void node_speaker_link(struct node *n, struct node_link *l, wtime now)
{
	struct babel_iface_config ic;
	bool up = node_link_usable(l);

	if (!up && l->speaking) {
		is_late(n, l);
	} else if (up) {
		if (l->late) { /* it came back as another: what was before is over */
			babel_iface_remove(n->babel, l->slot + 1, now);
			l->late = l->speaking = l->has_loss = false;
		}
		if (!l->speaking)
			l->load_at = now;
		iface_config(n, l, &ic);
		if (l->speaking)
			(void)babel_iface_update(n->babel, &ic, now);
		else if (babel_iface_add(n->babel, &ic, now) == 0)
			l->speaking = true;
		else
			n->out_of_memory++;
		w_zeroize(&ic, sizeof(ic)); /* it has the MAC keys */
	}
}

/* Its first packet would say so, too (RFC 8966 A.1), but that one may be lost. A new life has no
 * feasibility distances, so that what we believe of the former one can be half of a loop. */
void node_speaker_anew(struct node *n, struct node_link *l, wtime now)
{
	if (!l->speaking)
		return;
	babel_iface_remove(n->babel, l->slot + 1, now);
	l->late = l->speaking = l->has_loss = false;
	node_speaker_link(n, l, now);
	if (l->speaking && l->dead)
		babel_iface_alive(n->babel, l->slot + 1, false, now);
}

/* ---- packets ---- */

void node_speaker_input(struct node *n, struct node_link *l, struct view packet, wtime at,
	wtime now)
{
	struct babel_datagram d = {.iface = l->slot + 1, .at = at};
	struct cur c = cur_view(packet);
	uint16_t src, dst;
	struct ip_view v;

	if (!l->speaking || ip_parse(packet, &v) < 0 || v.family != IP6 ||
		v.proto != IP_PROTO_UDP || ip_is_fragment(&v) ||
		!ip_ports(packet, &v, &src, &dst) || dst != BABEL_PORT)
		return;
	cur_skip(&c, (size_t)v.l4 + UDP_HEADER);
	if (c.bad)
		return;
	d.data = view_of(c.p, v.len - v.l4 - UDP_HEADER);
	d.source = v.src;
	d.unicast = !ipaddr_is_multicast(&v.dst);
	n->host.now = now;
	babel_input(n->babel, &d, now);
}

/* UDP from port 6696 to port 6696, hop limit 1 (RFC 8966 4). */
static void send_packet(struct node *n, const struct babel_packet *p)
{
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = p->iface - 1};
	struct node_action a = {.type = NODE_ACTION_PLANE, .plane = m};
	uint16_t len = (uint16_t)(UDP_HEADER + p->data.n);
	struct buf b = {0};
	uint8_t *h = buf_room(&b, IP6_HEADER + (size_t)len);

	if (!h) {
		n->out_of_memory++;
		return;
	}
	memset(h, 0, IP6_HEADER + UDP_HEADER);
	put_u32(h, UINT32_C(6) << 28 | TRAFFIC_CLASS << 20);
	put_u16(h + 4, len);
	h[6] = IP_PROTO_UDP;
	h[7] = 1;
	memcpy(h + 8, p->source.b, 16);
	memcpy(h + 24, p->destination.b, 16);
	put_u16(h + IP6_HEADER, BABEL_PORT);
	put_u16(h + IP6_HEADER + 2, BABEL_PORT);
	put_u16(h + IP6_HEADER + 4, len);
	memcpy(h + IP6_HEADER + UDP_HEADER, p->data.p, p->data.n);
	put_u16(h + IP6_HEADER + 6,
		csum_finish(csum_add(ip_pseudo_sum(&p->source, &p->destination, IP_PROTO_UDP, len),
			h + IP6_HEADER, len)));
	node_seal(n, &a, buf_view(&b));
	buf_free(&b);
}

static void take_events(struct node *n, wtime now)
{
	struct babel_event e;

	while (babel_event_next(n->babel, &e)) {
		struct node_link *l = e.type == BABEL_EVENT_DOUBT ? n->slot[e.iface - 1] : NULL;

		if (l)
			node_probe_doubted(n, l, now);
		else
			node_rib_event(n, &e, now);
	}
}

void node_speaker_run(struct node *n, wtime now)
{
	struct babel_packet p;

	take_events(n, now);
	while (babel_output(n->babel, now, &p))
		send_packet(n, &p);
	take_events(n, now);
}
