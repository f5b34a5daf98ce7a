/* One echo (RFC 792, RFC 4443 4) through the mesh to a node by its name: to an address that is
 * known to be its own, a host route that it announces or that is configured. */
#include "node/node_priv.h"

#include <string.h>
#include "ctl/json.h"
#include "ctl/request.h"

struct target {
	const char *organization, *name;
	struct ipaddr own, to;
	bool known; /* there is such a node */
};

static bool is_meant(const char *organization, const char *name, const char *argument)
{
	const char *slash = strchr(argument, '/');
	size_t n = slash ? (size_t)(slash - argument) : 0;

	if (!slash)
		return strcmp(name, argument) == 0;
	return strlen(organization) == n && memcmp(organization, argument, n) == 0 &&
		strcmp(name, slash + 1) == 0;
}

/* Takes the address, when it is a host's and this node has one to ask it from. IPv6 goes first. */
static void offer(const struct node *n, const struct prefix *p, struct target *t)
{
	const struct config *c = n->config;

	if (p->len != ipaddr_bits(&p->addr) || t->to.family == IP6 ||
		(t->to.family != IP_NONE && p->addr.family == t->to.family))
		return;
	for (size_t i = 0; i < c->tun.address_count; i++)
		if (c->tun.address[i].ip.family == p->addr.family) {
			t->own = c->tun.address[i].ip;
			t->to = p->addr;
			return;
		}
}

static void find_node(const struct node *n, const char *argument, struct target *t)
{
	const struct registry *reg = n->registry;

	for (size_t i = 0; !t->known && i < reg->node_count; i++)
		if (is_meant(reg->node[i].organization, reg->node[i].name, argument)) {
			t->organization = reg->node[i].organization;
			t->name = reg->node[i].name;
			t->known = true;
		}
}

static void find_address(const struct node *n, struct target *t)
{
	const struct config *c = n->config;

	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct conf_static_route *r = &c->static_route[i];

		if (strcmp(r->node, t->name) == 0 &&
			(!r->organization || strcmp(r->organization, t->organization) == 0))
			offer(n, &r->prefix, t);
	}
	list_for_each (it, &n->routes) {
		const struct node_route *r = container_of(it, struct node_route, list);
		const struct registry_node *from = node_speaker_origin(n, r->router_id);

		if (from && from->name == t->name && !r->unreachable)
			offer(n, &r->prefix.destination, t);
	}
}

uint32_t node_ping(struct node *n, const char *argument, wtime now, struct buf *reply)
{
	struct target t = {0};
	struct node_hops_ask a = {.ping = true};
	char text[ADDR_TEXT];
	uint32_t id;

	find_node(n, argument, &t);
	if (!t.known) {
		ctl_reply_error(reply,
			"the registry has no such node: give a name, or "
			"organization/name");
		return 0;
	}
	find_address(n, &t);
	if (t.to.family == IP_NONE) {
		ctl_reply_error(reply,
			"no address of that node is known here: it announces none of "
			"its own (/128 or /32) of a family that this node has");
		return 0;
	}
	a.json = json_to(&a.text);
	json_object(&a.json, NULL);
	json_int(&a.json, "schema", 1);
	json_object(&a.json, "node");
	json_string(&a.json, "organization", t.organization);
	json_string(&a.json, "name", t.name);
	json_object_end(&a.json);
	json_string(&a.json, "address", ipaddr_format(&t.to, text));
	a.own = a.src = t.own;
	a.dst = t.to;
	id = node_hops_start(n, &a, now);
	if (!id) {
		buf_free(&a.text);
		ctl_reply_error(reply, "too much is asked at once: try again in a few seconds");
	}
	return id;
}
