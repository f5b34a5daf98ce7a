/* weft.yaml: the tables that say which keys exist, their kinds and bounds, and the checks between
 * them. The manual weft.yaml(5) is their specification. */
#include "conf/config_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

#define SEC INT64_C(1000000)

/* ---- node ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* "auto", or eight bytes as 02:11:…, in lower case. */
static void read_router_id(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	const char *s = doc_string(d, n, "router_id");
	uint8_t id[8];

	if (!s || strcmp(s, "auto") == 0)
		return;
	for (int i = 0; i < 8; i++) {
		const char *p = s + (size_t)i * 3;
		bool last = i == 7;

		if (strlen(s) != 23 || hex_digit(p[0]) < 0 || hex_digit(p[1]) < 0 ||
			p[2] != (last ? 0 : ':')) {
			doc_error(d, n,
				"router_id must be auto, or eight bytes as "
				"02:00:5e:10:00:00:00:01");
			return;
		}
		id[i] = (uint8_t)(hex_digit(p[0]) << 4 | hex_digit(p[1]));
	}
	memcpy(c->node.router_id, id, sizeof(id));
	c->node.has_router_id = true;
}

/* A path. Whoever pastes the key itself must not find it in a message, ever. */
static void read_key(struct doc *d, struct fy_node *n, void *object)
{
	enum { RAW_KEY = 43 }; /* 32 bytes in base64 */
	struct config *c = object;
	const char *s = doc_string(d, n, "node.key");
	bool path = s && (s[0] == '/' || s[0] == '.') && !strpbrk(s, "\n=");

	if (!s)
		return;
	if (strstr(s, "-----") || strchr(s, '\n') ||
		(!path && strlen(s) >= RAW_KEY && doc_looks_secret(s, strlen(s)))) {
		doc_error(d, n,
			"node.key holds a key itself; write the path of the file that it is in");
		return;
	}
	c->node.key = s;
	doc_position(d, n, &c->key_at);
}

static void read_registry(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	c->registry = doc_string(d, n, "registry");
	doc_position(d, n, &c->registry_at);
}

const char *conf_read_name(struct doc *d, struct fy_node *n, const char *where)
{
	const char *s = doc_string(d, n, where);

	if (s && strlen(s) > CONF_NAME_MAX) {
		doc_error(d, n, "%s is longer than %d bytes", where, CONF_NAME_MAX);
		return NULL;
	}
	return s;
}

static void read_organization(struct doc *d, struct fy_node *n, void *object)
{
	((struct config *)object)->node.organization = conf_read_name(d, n, "organization");
}

static void read_common_name(struct doc *d, struct fy_node *n, void *object)
{
	((struct config *)object)->node.name = conf_read_name(d, n, "name");
}

static const struct field node_fields[] = {
	{"organization", FIELD_CUSTOM, .read = read_organization, .required = true},
	{"name", FIELD_CUSTOM, .read = read_common_name, .required = true},
	{"key", FIELD_CUSTOM, .read = read_key, .required = true},
	{"router_id", FIELD_CUSTOM, .read = read_router_id},
	{"transit", FIELD_BOOL, offsetof(struct config, node.transit)},
	{NULL},
};

/* ---- endpoints ---- */

enum ip_family conf_read_family(struct doc *d, struct fy_node *n)
{
	const char *s = doc_string(d, n, "the address family");

	if (s && strcmp(s, "ip4") == 0)
		return IP4;
	if (s && strcmp(s, "ip6") == 0)
		return IP6;
	if (s)
		doc_no_choice(d, n, "the address family", "ip4 or ip6");
	return IP_NONE;
}

static void read_serial(struct doc *d, struct fy_node *n, void *object)
{
	((struct conf_endpoint *)object)->serial = conf_read_name(d, n, "serial");
}

static void read_family(struct doc *d, struct fy_node *n, void *object)
{
	((struct conf_endpoint *)object)->family = conf_read_family(d, n);
}

static void read_endpoint_address(struct doc *d, struct fy_node *n, void *object)
{
	(void)doc_address(d, n, &((struct conf_endpoint *)object)->address);
}

static const struct field endpoint_fields[] = {
	{"serial", FIELD_CUSTOM, .read = read_serial, .required = true},
	{"family", FIELD_CUSTOM, .read = read_family, .required = true},
	{"address", FIELD_CUSTOM, .read = read_endpoint_address},
	{"port", FIELD_U16, offsetof(struct conf_endpoint, port), 1, 65535},
	{"interface", FIELD_STRING, offsetof(struct conf_endpoint, interface)},
	{"fwmark", FIELD_U32, offsetof(struct conf_endpoint, fwmark), 1, UINT32_MAX},
	{"updown", FIELD_STRING, offsetof(struct conf_endpoint, updown)},
	{NULL},
};

size_t conf_endpoint_count(struct doc *d, struct fy_node *n)
{
	size_t count = doc_sequence(d, n, "endpoints");

	if (!count && n && fy_node_get_type(n) == FYNT_SEQUENCE)
		doc_error(d, n, "endpoints is empty; a node needs one at least");
	return count;
}

static void read_endpoints(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = conf_endpoint_count(d, n);
	struct fy_node *item;
	void *it = NULL;

	c->endpoint = doc_alloc(d, count, sizeof(*c->endpoint));
	if (!c->endpoint)
		return;
	while (c->endpoint_count < count && (item = fy_node_sequence_iterate(n, &it))) {
		struct conf_endpoint *e = &c->endpoint[c->endpoint_count++];

		e->port = CONF_PORT;
		doc_position(d, item, &e->at);
		doc_map(d, item, endpoint_fields, e, "an endpoint");
		if (e->address.family != IP_NONE && e->family != IP_NONE &&
			e->address.family != e->family)
			doc_error(d, item, "endpoint \"%.40s\": its address is not of its family",
				e->serial ? e->serial : "?");
	}
}

/* ---- peers, tun, underlay ---- */

static void read_include(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	doc_strings(d, n, "peers.include", &c->peers.include, &c->peers.include_count);
}

static void read_exclude(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	doc_strings(d, n, "peers.exclude", &c->peers.exclude, &c->peers.exclude_count);
}

static const struct field peers_fields[] = {
	{"include", FIELD_CUSTOM, .read = read_include},
	{"exclude", FIELD_CUSTOM, .read = read_exclude},
	{NULL},
};

/* "fd00:1::1/128": an address with the length of its network. */
static bool interface_address(struct doc *d, struct fy_node *n, struct conf_tun_address *ret)
{
	const char *s = doc_string(d, n, "an address of the TUN");
	const char *slash = s ? strchr(s, '/') : NULL;
	size_t host = slash ? (size_t)(slash - s) : s ? strlen(s) : 0;
	char text[ADDR_TEXT], shown[DOC_SHOWN_TEXT];
	unsigned int len = 0;

	if (!s)
		return false;
	if (host < sizeof(text)) {
		memcpy(text, s, host);
		text[host] = 0;
		if (!ipaddr_parse(text, &ret->ip)) {
			unsigned int bits = ipaddr_bits(&ret->ip);
			const char *p = slash ? slash + 1 : "";

			for (; *p >= '0' && *p <= '9' && len <= bits; p++)
				len = len * 10 + (unsigned int)(*p - '0');
			if (!*p && (!slash || (p > slash + 1 && len <= bits))) {
				ret->len = (uint8_t)(slash ? len : bits);
				return true;
			}
		}
	}
	doc_error(d, n, "\"%s\" is no address with a prefix length, as 10.66.0.1/32",
		doc_shown(s, strlen(s), shown));
	return false;
}

static void read_tun_addresses(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = doc_sequence(d, n, "tun.addresses");
	struct fy_node *item;
	void *it = NULL;

	c->tun.address = doc_alloc(d, count, sizeof(*c->tun.address));
	while (c->tun.address && c->tun.address_count < count &&
		(item = fy_node_sequence_iterate(n, &it))) {
		struct conf_tun_address *a = &c->tun.address[c->tun.address_count++];

		if (!interface_address(d, item, a))
			continue;
		if (ipaddr_is_link_local(&a->ip) || ipaddr_is_multicast(&a->ip) ||
			ipaddr_is_loopback(&a->ip) || ipaddr_is_unspecified(&a->ip))
			doc_error(d, item,
				"the TUN cannot have a link-local, multicast, loopback or "
				"unspecified address; its link-local one is made by weftd");
		for (size_t i = 0; i + 1 < c->tun.address_count; i++)
			if (ipaddr_equal(&c->tun.address[i].ip, &a->ip))
				doc_error(d, item, "an address of the TUN is given twice");
	}
}

/* As the kernel has it (IFNAMSIZ); '%' would make it count. */
static void read_tun_name(struct doc *d, struct fy_node *n, void *object)
{
	static const char *const reserved[] = {"lo", "all", "default", ".", ".."};
	enum { NAME_MAX_BYTES = 15 };
	struct config *c = object;
	const char *s = doc_string(d, n, "tun.name");
	char shown[DOC_SHOWN_TEXT];

	if (!s)
		return;
	if (strlen(s) > NAME_MAX_BYTES || strpbrk(s, "/: \t\r\n\v\f%")) {
		doc_error(d, n, "tun.name \"%s\" is no interface name (at most 15 characters)",
			doc_shown(s, strlen(s), shown));
		return;
	}
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (strcmp(s, reserved[i]) == 0)
			doc_error(d, n, "tun.name \"%s\" is reserved; take another, as weft0", s);
	c->tun.name = s;
}

static const struct field tun_fields[] = {
	{"name", FIELD_CUSTOM, .read = read_tun_name},
	{"mtu", FIELD_U16, offsetof(struct config, tun.mtu), CONF_MTU_MIN, CONF_MTU_MAX},
	{"addresses", FIELD_CUSTOM, .read = read_tun_addresses},
	{"netns", FIELD_STRING, offsetof(struct config, tun.netns)},
	{NULL},
};

static void read_exclude_interfaces(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	doc_strings(d, n, "underlay.exclude_interfaces", &c->underlay.exclude_interface,
		&c->underlay.exclude_interface_count);
}

/* "0x51/0xff", or a mark alone. */
static void read_fwmark(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	const char *s = doc_string(d, n, "underlay.fwmark");
	unsigned long v[2] = {0, 0xffffffff};
	const char *p = s;

	for (int i = 0; s && i < 2; i++) {
		char *end;

		errno = 0;
		v[i] = *p >= '0' && *p <= '9' ? strtoul(p, &end, 0) : ULONG_MAX;
		if (v[i] > UINT32_MAX || errno) {
			p = NULL;
			break;
		}
		p = end;
		if (*p != '/')
			break;
		p++;
	}
	if (!s)
		return;
	if (!p || *p || !v[0] || (v[0] & ~v[1])) {
		doc_error(d, n,
			"underlay.fwmark must be a mark and a mask that covers it, as 0x51/0xff");
		return;
	}
	c->underlay.fwmark = (uint32_t)v[0];
	c->underlay.fwmask = (uint32_t)v[1];
}

/* "copy", or a code point of six bits (RFC 2474). */
static void read_dscp(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	const char *s = doc_string(d, n, "underlay.dscp");
	unsigned long v = ULONG_MAX;
	char *end = NULL;

	if (!s)
		return;
	c->underlay.copy_dscp = strcmp(s, "copy") == 0;
	if (c->underlay.copy_dscp)
		return;
	errno = 0;
	if (*s >= '0' && *s <= '9')
		v = strtoul(s, &end, 0);
	if (errno || v > CONF_DSCP_MAX || *end) {
		doc_error(d, n, "underlay.dscp must be copy or 0 to %d, not \"%s\"", CONF_DSCP_MAX,
			s);
		return;
	}
	c->underlay.dscp = (uint8_t)v;
}

static const struct field underlay_fields[] = {
	{"dscp", FIELD_CUSTOM, .read = read_dscp},
	{"exclude_interfaces", FIELD_CUSTOM, .read = read_exclude_interfaces},
	{"fwmark", FIELD_CUSTOM, .read = read_fwmark},
	{"netns", FIELD_STRING, offsetof(struct config, underlay.netns)},
	{"vrf", FIELD_STRING, offsetof(struct config, underlay.vrf)},
	{NULL},
};

/* ---- announce, static_routes ---- */

static void refuse_unroutable(struct doc *d, struct fy_node *n, const struct prefix *p)
{
	if (p->len &&
		(ipaddr_is_link_local(&p->addr) || ipaddr_is_multicast(&p->addr) ||
			ipaddr_is_loopback(&p->addr)))
		doc_error(d, n, "a link-local, multicast or loopback prefix cannot be routed");
}

static void read_announce_prefix(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_announce *a = object;

	if (doc_prefix(d, n, &a->destination))
		refuse_unroutable(d, n, &a->destination);
}

static void read_announce_source(struct doc *d, struct fy_node *n, void *object)
{
	(void)doc_prefix(d, n, &((struct conf_announce *)object)->source);
}

static const struct field announce_fields[] = {
	{"prefix", FIELD_CUSTOM, .read = read_announce_prefix, .required = true},
	{"source", FIELD_CUSTOM, .read = read_announce_source},
	{NULL},
};

static void read_announce(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = doc_sequence(d, n, "announce");
	struct fy_node *item;
	void *it = NULL;

	c->announce = doc_alloc(d, count, sizeof(*c->announce));
	while (c->announce && c->announce_count < count &&
		(item = fy_node_sequence_iterate(n, &it))) {
		struct conf_announce *a = &c->announce[c->announce_count++];

		if (fy_node_get_type(item) == FYNT_SCALAR)
			read_announce_prefix(d, item, a);
		else
			doc_map(d, item, announce_fields, a, "an announced prefix");
		if (a->source.len && a->source.addr.family != a->destination.addr.family)
			doc_error(d, item, "prefix and source must be of one family");
		for (size_t i = 0; i + 1 < c->announce_count; i++)
			if (prefix_equal(&c->announce[i].destination, &a->destination) &&
				prefix_equal(&c->announce[i].source, &a->source))
				doc_error(d, item, "a prefix is announced twice");
	}
}

static void read_static_prefix(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_static_route *r = object;

	if (doc_prefix(d, n, &r->prefix))
		refuse_unroutable(d, n, &r->prefix);
}

/* "fra1" or "acme/fra1". */
static void read_static_node(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_static_route *r = object;
	const char *s = doc_string(d, n, "node");
	const char *slash = s ? strchr(s, '/') : NULL;

	if (!s)
		return;
	r->node = slash ? slash + 1 : s;
	r->organization = slash ? arena_strndup(d->arena, s, (size_t)(slash - s)) : NULL;
	doc_position(d, n, &r->node_at);
	if (!*r->node || (slash && slash == s))
		doc_error(d, n, "node must be a name, or organization/name");
}

static const struct field static_fields[] = {
	{"prefix", FIELD_CUSTOM, .read = read_static_prefix, .required = true},
	{"node", FIELD_CUSTOM, .read = read_static_node, .required = true},
	{NULL},
};

static void read_static_routes(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = doc_sequence(d, n, "static_routes");
	struct fy_node *item;
	void *it = NULL;

	c->static_route = doc_alloc(d, count, sizeof(*c->static_route));
	while (c->static_route && c->static_route_count < count &&
		(item = fy_node_sequence_iterate(n, &it))) {
		struct conf_static_route *r = &c->static_route[c->static_route_count++];

		doc_map(d, item, static_fields, r, "a static route");
		for (size_t i = 0; i + 1 < c->static_route_count; i++)
			if (prefix_equal(&c->static_route[i].prefix, &r->prefix))
				doc_error(d, item, "two static routes have the same prefix");
	}
}

/* ---- routing, ike, plane, control, log ---- */

static void read_pq(struct doc *d, struct fy_node *n, void *object)
{
	static const char *const words[] = {"prefer", "require", "off"};
	struct config *c = object;
	const char *s = doc_string(d, n, "post_quantum");

	for (int i = 0; s && i < 3; i++)
		if (strcmp(words[i], s) == 0) {
			c->ike.post_quantum = (enum conf_pq)i;
			return;
		}
	if (s)
		doc_no_choice(d, n, "post_quantum", "prefer, require or off");
}

static const struct field ike_fields[] = {
	{"post_quantum", FIELD_CUSTOM, .read = read_pq},
	{"lifetime", FIELD_DURATION, offsetof(struct config, ike.lifetime_us), 5 * SEC,
		7 * 86400 * SEC},
	{"child_lifetime", FIELD_DURATION, offsetof(struct config, ike.child_lifetime_us), 5 * SEC,
		7 * 86400 * SEC},
	{"dpd", FIELD_DURATION, offsetof(struct config, ike.dpd_us), 1 * SEC, 86400 * SEC},
	{NULL},
};

static const struct field offload_fields[] = {
	{"tun_gso", FIELD_SWITCH, offsetof(struct config, plane.tun_gso)},
	{"udp_gso", FIELD_SWITCH, offsetof(struct config, plane.offload[CONF_UDP_GSO])},
	{"udp_gro", FIELD_SWITCH, offsetof(struct config, plane.offload[CONF_UDP_GRO])},
	{"tun_tso", FIELD_SWITCH, offsetof(struct config, plane.offload[CONF_TUN_TSO])},
	{"tun_uso", FIELD_SWITCH, offsetof(struct config, plane.offload[CONF_TUN_USO])},
	{"merge_tcp", FIELD_SWITCH, offsetof(struct config, plane.offload[CONF_MERGE_TCP])},
	{"merge_udp", FIELD_SWITCH, offsetof(struct config, plane.offload[CONF_MERGE_UDP])},
	{NULL},
};

static void read_crypto(struct doc *d, struct fy_node *n, void *object)
{
	static const char *const words[] = {"auto", "openssl", "ipsec-mb"};
	struct config *c = object;
	const char *s = doc_string(d, n, "crypto");

	for (int i = 0; s && i < 3; i++)
		if (strcmp(words[i], s) == 0) {
			c->plane.crypto = (enum conf_crypto)i;
			return;
		}
	if (s)
		doc_no_choice(d, n, "crypto", "auto, openssl or ipsec-mb");
}

/* A number of threads, at least `least`, or what stands for auto. */
static void read_thread_count(struct doc *d, struct fy_node *n, const char *key, uint32_t least,
	uint32_t automatic, uint32_t *ret)
{
	const char *s = doc_string(d, n, key);
	uint32_t count = 0;

	if (!s)
		return;
	if (strcmp(s, "auto") == 0) {
		*ret = automatic;
		return;
	}
	for (size_t i = 0; s[i] && count <= CONF_THREADS_MAX; i++)
		count = s[i] >= '0' && s[i] <= '9' ? count * 10 + (uint32_t)(s[i] - '0')
						   : CONF_THREADS_MAX + 1;
	if (count < least || count > CONF_THREADS_MAX)
		doc_no_choice(d, n, key,
			least ? "auto or a number from 1 to 16" : "auto or a number from 0 to 16");
	else
		*ret = count;
}

static void read_threads(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	read_thread_count(d, n, "threads", 1, 0, &c->plane.threads);
}

static void read_helpers(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	read_thread_count(d, n, "helpers", 0, CONF_HELPERS_AUTO, &c->plane.helpers);
}

static const struct field plane_fields[] = {
	{"threads", FIELD_CUSTOM, .read = read_threads},
	{"helpers", FIELD_CUSTOM, .read = read_helpers},
	{"crypto", FIELD_CUSTOM, .read = read_crypto},
	{"offload", FIELD_MAP, .sub = offload_fields},
	{"aqm", FIELD_SWITCH, offsetof(struct config, plane.aqm)},
	{NULL},
};

static const struct field control_fields[] = {
	{"socket", FIELD_STRING, offsetof(struct config, control.socket)},
	{"group", FIELD_STRING, offsetof(struct config, control.group)},
	{NULL},
};

int conf_log_parse(const char *word, enum conf_log *ret)
{
	static const char *const words[] = {"error", "warning", "info", "debug"};

	for (int i = 0; i < 4; i++)
		if (strcmp(words[i], word) == 0) {
			*ret = (enum conf_log)i;
			return 0;
		}
	return -EINVAL;
}

static void read_log(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	const char *s = doc_string(d, n, "log");

	if (s && conf_log_parse(s, &c->log) < 0)
		doc_no_choice(d, n, "log", "error, warning, info or debug");
}

static const struct field config_fields[] = {
	{"node", FIELD_MAP, .sub = node_fields, .required = true},
	{"registry", FIELD_CUSTOM, .read = read_registry, .required = true},
	{"endpoints", FIELD_CUSTOM, .read = read_endpoints, .required = true},
	{"peers", FIELD_MAP, .sub = peers_fields},
	{"tun", FIELD_MAP, .sub = tun_fields},
	{"underlay", FIELD_MAP, .sub = underlay_fields},
	{"announce", FIELD_CUSTOM, .read = read_announce},
	{"static_routes", FIELD_CUSTOM, .read = read_static_routes},
	{"routing", FIELD_MAP, .sub = conf_routing_fields},
	{"babel", FIELD_MAP, .sub = conf_babel_fields},
	{"ike", FIELD_MAP, .sub = ike_fields},
	{"srv6", FIELD_MAP, .sub = conf_srv6_fields},
	{"policies", FIELD_CUSTOM, .read = conf_read_policies},
	{"exit", FIELD_MAP, .sub = conf_exit_fields},
	{"plane", FIELD_MAP, .sub = plane_fields},
	{"control", FIELD_MAP, .sub = control_fields},
	{"log", FIELD_CUSTOM, .read = read_log},
	{NULL},
};

/* ---- the whole ---- */

int config_new(const char *file, struct config **ret)
{
	struct arena *a;
	struct config *c;

	if (arena_new(&a) < 0)
		return -ENOMEM;
	c = arena_alloc(a, sizeof(*c));
	if (!c || !(c->file = arena_strndup(a, file, strlen(file)))) {
		arena_free(a);
		return -ENOMEM;
	}
	c->arena = a;
	c->node.transit = true;
	c->plane.threads = 1;
	c->tun.name = "weft0";
	c->tun.mtu = 1400;
	c->underlay.fwmark = 0x51;
	c->underlay.fwmask = 0xff;
	conf_routing_defaults(c);
	c->ike.lifetime_us = 4 * 3600 * SEC;
	c->ike.child_lifetime_us = 3600 * SEC;
	c->ike.dpd_us = 10 * SEC;
	c->control.socket = "/run/weft/weft.sock";
	c->control.group = "weft";
	c->log = CONF_LOG_INFO;
	*ret = c;
	return 0;
}

static void check_tables(struct doc *d, const struct config *c)
{
	enum { RT_DEFAULT = 253, RT_LOCAL = 255 };
	uint32_t t = c->routing.table, other = c->routing.default_table;

	if (t == other)
		doc_error(d, doc_at(d, "/routing"),
			"routing.table and routing.default_table must differ");
	else if (t >= RT_DEFAULT && t <= RT_LOCAL)
		doc_error(d, doc_at(d, "/routing/table"),
			"routing table %u belongs to the system; take another", t);
	else if (other > RT_DEFAULT && other <= RT_LOCAL)
		doc_error(d, doc_at(d, "/routing/default_table"),
			"routing table %u belongs to the system; take another", other);
}

static bool same_socket(const struct conf_endpoint *a, const struct conf_endpoint *b)
{
	return a->family == b->family && a->port == b->port &&
		(a->address.family == IP_NONE || b->address.family == IP_NONE ||
			ipaddr_equal(&a->address, &b->address));
}

/* Endpoint i against those before it. */
static void check_endpoint(struct doc *d, const struct config *c, size_t i)
{
	const struct conf_endpoint *e = &c->endpoint[i];
	char path[32];

	(void)snprintf(path, sizeof(path), "/endpoints/%zu", i);
	if (e->updown && e->updown[0] != '/')
		doc_error(d, doc_at(d, path),
			"updown \"%.60s\" is no absolute path, as /etc/weft/updown", e->updown);
	for (const struct conf_endpoint *other = c->endpoint; other < e; other++) {
		if (strcmp(other->serial, e->serial) == 0)
			doc_error(d, doc_at(d, path),
				"endpoint serial \"%.40s\" is used twice; each needs its own",
				e->serial);
		else if (same_socket(e, other))
			doc_error(d, doc_at(d, path),
				"endpoints \"%.40s\" and \"%.40s\" both want port %u; give one "
				"another "
				"port or address",
				other->serial, e->serial, (unsigned int)e->port);
		else
			continue;
		return;
	}
}

void config_check(struct doc *d, const struct config *c)
{
	check_tables(d, c);
	conf_check_routing(d, c);
	conf_check_steering(d, c);
	if (c->babel.rtt_min_us >= c->babel.rtt_max_us)
		doc_error(d, doc_at(d, "/babel/rtt"),
			"babel.rtt.min must be less than babel.rtt.max");
	for (size_t i = 0; i < c->endpoint_count; i++)
		check_endpoint(d, c, i);
}

int config_parse(struct view text, const char *file, struct config **ret,
	struct conf_errors *errors)
{
	struct doc d = {.file = file, .errors = errors};
	struct config *c;
	int err = config_new(file, &c);

	if (err < 0)
		return err;
	d.arena = c->arena;
	err = doc_open(&d, text, false);
	if (!err) {
		doc_map(&d, fy_document_root(d.fyd), config_fields, c, "the configuration");
		if (!d.failed)
			config_check(&d, c);
		err = d.no_memory ? -ENOMEM : d.failed ? -EINVAL : 0;
	}
	doc_close(&d);
	if (err < 0)
		config_free(c);
	else
		*ret = c;
	return err;
}

void config_free(struct config *c)
{
	if (c)
		arena_free(c->arena);
}

void conf_errors_free(struct conf_errors *e)
{
	buf_free(&e->text);
	e->count = 0;
}

bool conf_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *back = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			back = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++back;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool conf_is_self(const struct config *c, const struct registry_node *r)
{
	return strcmp(r->name, c->node.name) == 0 &&
		(c->ranet || strcmp(r->organization, c->node.organization) == 0);
}

bool conf_wants_peer(const struct config *c, const struct registry_node *r)
{
	char full[2 * CONF_NAME_MAX + 2];
	bool in = c->peers.include_count == 0, out = false;

	(void)snprintf(full, sizeof(full), "%s/%s", r->organization, r->name);
	for (size_t i = 0; i < c->peers.include_count; i++)
		in |= conf_glob(c->peers.include[i], r->name) ||
			conf_glob(c->peers.include[i], full);
	for (size_t i = 0; i < c->peers.exclude_count; i++)
		out |= conf_glob(c->peers.exclude[i], r->name) ||
			conf_glob(c->peers.exclude[i], full);
	return in && !out;
}
