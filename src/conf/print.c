/* A configuration printed back as YAML, complete with its defaults. */
#include <errno.h>
#include "conf/config_priv.h"

/* A text in double quotes, escaped as JSON does (which is YAML). */
void conf_print_text(struct buf *b, const char *s)
{
	buf_add(b, "\"", 1);
	for (; *s; s++) {
		unsigned char ch = (unsigned char)*s;

		if (ch == '"' || ch == '\\')
			buf_printf(b, "\\%c", ch);
		else if (ch < 0x20 || ch == 0x7f)
			buf_printf(b, "\\u%04x", ch);
		else
			buf_add(b, s, 1);
	}
	buf_add(b, "\"", 1);
}

static void key_text(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_printf(b, "%s: ", key);
	conf_print_text(b, value);
}

void conf_print_duration(struct buf *b, const char *key, int64_t us)
{
	static const struct {
		const char *unit;
		int64_t us;
	} units[] = {{"h", INT64_C(3600000000)}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000},
		{"us", 1}};
	size_t i = 0;

	while (us % units[i].us)
		i++;
	buf_printf(b, "%s: %lld%s", key, (long long)(us / units[i].us), units[i].unit);
}

static void strings(struct buf *b, const char *key, const char **s, size_t n)
{
	buf_printf(b, "%s: [", key);
	for (size_t i = 0; i < n; i++) {
		buf_add_str(b, i ? ", " : "");
		conf_print_text(b, s[i]);
	}
	buf_add_str(b, "]");
}

static void print_node(const struct config *c, struct buf *b)
{
	buf_add_str(b, "node: {");
	key_text(b, "organization", c->node.organization);
	buf_add_str(b, ", ");
	key_text(b, "name", c->node.name);
	buf_add_str(b, ", ");
	key_text(b, "key", c->node.key);
	buf_add_str(b, ", router_id: ");
	if (c->node.has_router_id) {
		for (int i = 0; i < 8; i++)
			buf_printf(b, "%s%02x", i ? ":" : "\"", c->node.router_id[i]);
		buf_add_str(b, "\"");
	} else {
		buf_add_str(b, "auto");
	}
	buf_printf(b, ", transit: %s}\n", c->node.transit ? "true" : "false");
	key_text(b, "registry", c->registry);
	buf_add_str(b, "\n");
}

static void print_endpoints(const struct config *c, struct buf *b)
{
	char text[ADDR_TEXT];

	buf_add_str(b, "endpoints:\n");
	for (size_t i = 0; i < c->endpoint_count; i++) {
		const struct conf_endpoint *e = &c->endpoint[i];

		buf_add_str(b, "  - {");
		key_text(b, "serial", e->serial);
		buf_printf(b, ", family: %s", e->family == IP4 ? "ip4" : "ip6");
		if (e->address.family != IP_NONE)
			buf_printf(b, ", address: \"%s\"", ipaddr_format(&e->address, text));
		buf_printf(b, ", port: %u", (unsigned int)e->port);
		key_text(b, e->interface ? ", interface" : "", e->interface);
		if (e->fwmark)
			buf_printf(b, ", fwmark: 0x%x", e->fwmark);
		key_text(b, e->updown ? ", updown" : "", e->updown);
		buf_add_str(b, "}\n");
	}
}

static void print_tun(const struct config *c, struct buf *b)
{
	char text[ADDR_TEXT];

	buf_add_str(b, "tun: {");
	key_text(b, "name", c->tun.name);
	buf_printf(b, ", mtu: %u, addresses: [", (unsigned int)c->tun.mtu);
	for (size_t i = 0; i < c->tun.address_count; i++)
		buf_printf(b, "%s\"%s/%u\"", i ? ", " : "",
			ipaddr_format(&c->tun.address[i].ip, text),
			(unsigned int)c->tun.address[i].len);
	buf_add_str(b, "]");
	key_text(b, c->tun.netns ? ", netns" : "", c->tun.netns);
	buf_add_str(b, "}\nunderlay: {");
	strings(b, "exclude_interfaces", c->underlay.exclude_interface,
		c->underlay.exclude_interface_count);
	buf_printf(b, ", fwmark: 0x%x/0x%x", c->underlay.fwmark, c->underlay.fwmask);
	if (c->underlay.copy_dscp)
		buf_add_str(b, ", dscp: copy");
	else
		buf_printf(b, ", dscp: %u", (unsigned int)c->underlay.dscp);
	key_text(b, c->underlay.netns ? ", netns" : "", c->underlay.netns);
	key_text(b, c->underlay.vrf ? ", vrf" : "", c->underlay.vrf);
	buf_add_str(b, "}\n");
}

static void print_routes(const struct config *c, struct buf *b)
{
	char text[PREFIX_TEXT];

	buf_add_str(b, "announce: [");
	for (size_t i = 0; i < c->announce_count; i++) {
		const struct conf_announce *a = &c->announce[i];

		buf_printf(b, "%s{prefix: \"%s\"", i ? ", " : "",
			prefix_format(&a->destination, text));
		if (a->source.len)
			buf_printf(b, ", source: \"%s\"", prefix_format(&a->source, text));
		buf_add_str(b, "}");
	}
	buf_add_str(b, "]\nstatic_routes: [");
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct conf_static_route *r = &c->static_route[i];

		buf_printf(b, "%s{prefix: \"%s\", node: ", i ? ", " : "",
			prefix_format(&r->prefix, text));
		if (r->organization) {
			struct buf name = {0};

			buf_printf(&name, "%s/%s", r->organization, r->node);
			if (name.failed)
				b->failed = true;
			else
				conf_print_text(b, (const char *)name.p);
			buf_free(&name);
		} else {
			conf_print_text(b, r->node);
		}
		buf_add_str(b, "}");
	}
	buf_add_str(b, "]\n");
	conf_print_routing(c, b);
}

int config_print(const struct config *c, struct buf *b)
{
	static const char *const crypto[] = {"auto", "openssl", "ipsec-mb"};
	static const char *const pq[] = {"prefer", "require", "off"};
	static const char *const sw[] = {"auto", "on", "off"};
	static const char *const log[] = {"error", "warning", "info", "debug"};

	print_node(c, b);
	print_endpoints(c, b);
	if (c->peers.include || c->peers.exclude) {
		const char *all[] = {"*"};

		buf_add_str(b, "peers: {");
		strings(b, "include", c->peers.include ? c->peers.include : all,
			c->peers.include ? c->peers.include_count : 1);
		buf_add_str(b, ", ");
		strings(b, "exclude", c->peers.exclude, c->peers.exclude_count);
		buf_add_str(b, "}\n");
	}
	print_tun(c, b);
	print_routes(c, b);
	buf_printf(b, "ike: {post_quantum: %s, ", pq[c->ike.post_quantum]);
	conf_print_duration(b, "lifetime", c->ike.lifetime_us);
	conf_print_duration(b, ", child_lifetime", c->ike.child_lifetime_us);
	conf_print_duration(b, ", dpd", c->ike.dpd_us);
	buf_add_str(b, "}\n");
	conf_print_steering(c, b);
	buf_add_str(b, "plane: {threads: ");
	if (c->plane.threads)
		buf_printf(b, "%u, ", c->plane.threads);
	else
		buf_add_str(b, "auto, ");
	if (c->plane.helpers == CONF_HELPERS_AUTO)
		buf_add_str(b, "helpers: auto, ");
	else
		buf_printf(b, "helpers: %u, ", c->plane.helpers);
	buf_printf(b, "crypto: %s, offload: {tun_gso: %s", crypto[c->plane.crypto],
		sw[c->plane.tun_gso]);
	for (unsigned int i = 0; i < CONF_OFFLOADS; i++)
		buf_printf(b, ", %s: %s", conf_offload_name((enum conf_offload)i),
			sw[c->plane.offload[i]]);
	buf_printf(b, "}, aqm: %s}\ncontrol: {", sw[c->plane.aqm]);
	key_text(b, "socket", c->control.socket);
	key_text(b, ", group", c->control.group);
	buf_printf(b, "}\nlog: %s\n", log[c->log]);
	return b->failed ? -ENOMEM : 0;
}
