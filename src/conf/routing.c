/* The sections `routing` and `babel`: filters, what is redistributed, the metric, MAC keys. */
#include <stdio.h>
#include <string.h>
#include "conf/config_priv.h"

#define MS INT64_C(1000)

/* ---- import, export ---- */

static void read_prefix(struct doc *d, struct fy_node *n, void *object)
{
	(void)doc_prefix(d, n, &((struct conf_filter *)object)->prefix);
}

static void read_action(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_filter *f = object;
	const char *s = doc_string(d, n, "action");

	if (!s)
		return;
	f->accept = strcmp(s, "accept") == 0;
	if (!f->accept && strcmp(s, "reject") != 0)
		doc_no_choice(d, n, "action", "accept or reject");
}

static const struct field filter_fields[] = {
	{"prefix", FIELD_CUSTOM, .read = read_prefix, .required = true},
	{"ge", FIELD_U8, offsetof(struct conf_filter, ge), 1, 128},
	{"le", FIELD_U8, offsetof(struct conf_filter, le), 1, 128},
	{"organization", FIELD_STRING, offsetof(struct conf_filter, organization)},
	{"action", FIELD_CUSTOM, .read = read_action, .required = true},
	{NULL},
};

static void check_bounds(struct doc *d, struct fy_node *at, const struct conf_filter *f)
{
	unsigned int bits = ipaddr_bits(&f->prefix.addr);

	if ((f->ge && f->ge < f->prefix.len) || f->ge > bits || f->le > bits ||
		(f->le && f->le < (f->ge ? f->ge : f->prefix.len)))
		doc_error(d, at, "ge and le must rise from the prefix's own length to at most %u",
			bits);
}

static void read_filters(struct doc *d, struct fy_node *n, const char *where,
	struct conf_filter **ret, size_t *ret_n)
{
	size_t count = doc_sequence(d, n, where);
	struct conf_filter *f = doc_alloc(d, count, sizeof(*f));
	struct fy_node *item;
	void *it = NULL;
	size_t i = 0;

	while (f && i < count && (item = fy_node_sequence_iterate(n, &it))) {
		doc_map(d, item, filter_fields, &f[i], "a filter");
		if (f[i].prefix.addr.family != IP_NONE)
			check_bounds(d, item, &f[i]);
		i++;
	}
	*ret = f;
	*ret_n = i;
}

static void read_import(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	read_filters(d, n, "routing.import", &c->routing.import, &c->routing.import_count);
}

static void read_export(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	read_filters(d, n, "routing.export", &c->routing.export, &c->routing.export_count);
}

/* ---- redistribute ---- */

struct number_name {
	const char *name;
	uint8_t number;
};

static const struct number_name tables[] = {{"default", 253}, {"main", 254}, {NULL, 0}};

/* As iproute2 names them (rt_protos), without those that no route in a table has. */
static const struct number_name protocols[] = {
	{"kernel", 2},
	{"boot", 3},
	{"static", 4},
	{"gated", 8},
	{"ra", 9},
	{"mrt", 10},
	{"zebra", 11},
	{"bird", 12},
	{"dnrouted", 13},
	{"xorp", 14},
	{"ntk", 15},
	{"dhcp", 16},
	{"keepalived", 18},
	{"babel", 42},
	{"openr", 99},
	{"bgp", 186},
	{"isis", 187},
	{"ospf", 188},
	{"rip", 189},
	{"eigrp", 192},
	{NULL, 0},
};

/* A number, or one of these names. */
static void read_number(struct doc *d, struct fy_node *n, const struct number_name *names,
	int64_t max, int64_t *ret)
{
	char shown[DOC_SHOWN_TEXT];
	size_t len = 0;
	const char *s = fy_node_get_scalar(n, &len);

	if (s && len && s[0] >= '0' && s[0] <= '9') {
		(void)doc_number(d, n, 1, max, ret);
		return;
	}
	for (; s && names->name; names++)
		if (strlen(names->name) == len && memcmp(names->name, s, len) == 0) {
			*ret = names->number;
			return;
		}
	doc_error(d, n, "\"%s\" is neither a known name nor a number from 1 to %lld",
		s ? doc_shown(s, len, shown) : "", (long long)max);
}

static void read_table(struct doc *d, struct fy_node *n, void *object)
{
	int64_t v = 0;

	read_number(d, n, tables, UINT32_MAX, &v);
	((struct conf_redistribute *)object)->table = (uint32_t)v;
}

static void read_protocol(struct doc *d, struct fy_node *n, void *object)
{
	int64_t v = 0;

	read_number(d, n, protocols, UINT8_MAX, &v);
	((struct conf_redistribute *)object)->protocol = (uint8_t)v;
}

static const struct field redistribute_fields[] = {
	{"table", FIELD_CUSTOM, .read = read_table, .required = true},
	{"protocol", FIELD_CUSTOM, .read = read_protocol, .required = true},
	{"metric", FIELD_U16, offsetof(struct conf_redistribute, metric), 0, 65534},
	{NULL},
};

static void read_redistribute(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = doc_sequence(d, n, "routing.redistribute");
	struct conf_redistribute *r;
	struct fy_node *item;
	void *it = NULL;

	if (count > CONF_REDISTRIBUTE_MAX) {
		doc_error(d, n, "at most %d entries", CONF_REDISTRIBUTE_MAX);
		return;
	}
	r = doc_alloc(d, count, sizeof(*r));
	c->routing.redistribute = r;
	while (r && c->routing.redistribute_count < count &&
		(item = fy_node_sequence_iterate(n, &it)))
		doc_map(d, item, redistribute_fields, &r[c->routing.redistribute_count++],
			"an entry of redistribute");
}

static bool is_own_table(const struct config *c, uint32_t table)
{
	return table == c->routing.table || table == c->routing.default_table ||
		table == c->routing.policy_table ||
		(table >= c->routing.source_table &&
			table - c->routing.source_table < CONF_SOURCE_TABLES);
}

/* What this node put there itself would go round. */
static void check_redistribute(struct doc *d, const struct config *c, size_t i)
{
	enum { RT_LOCAL = 255 };
	const struct conf_redistribute *r = &c->routing.redistribute[i];
	char path[48];

	(void)snprintf(path, sizeof(path), "/routing/redistribute/%zu", i);
	if (r->protocol == c->routing.protocol)
		doc_error(d, doc_at(d, path),
			"protocol %u is routing.protocol: what comes from Babel cannot go back",
			(unsigned int)r->protocol);
	else if (is_own_table(c, r->table))
		doc_error(d, doc_at(d, path), "table %u is one of the mesh's own", r->table);
	else if (r->table == RT_LOCAL)
		doc_error(d, doc_at(d, path),
			"table 255 holds this host's own addresses; announce these by name");
}

void conf_check_routing(struct doc *d, const struct config *c)
{
	const uint32_t first = c->routing.source_table;
	const uint32_t own[] = {c->routing.table, c->routing.default_table,
		c->routing.policy_table};

	if (first % CONF_SOURCE_TABLES)
		doc_error(d, doc_at(d, "/routing/source_table"),
			"routing.source_table must be a multiple of %d", CONF_SOURCE_TABLES);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (own[i] >= first && own[i] - first < CONF_SOURCE_TABLES)
			doc_error(d, doc_at(d, "/routing"),
				"routing.source_table and the %d after it must be none of the "
				"other tables",
				CONF_SOURCE_TABLES - 1);
	for (size_t i = 0; i < c->routing.redistribute_count; i++)
		check_redistribute(d, c, i);
}

const struct field conf_routing_fields[] = {
	{"table", FIELD_U32, offsetof(struct config, routing.table), 1, UINT32_MAX},
	{"default_table", FIELD_U32, offsetof(struct config, routing.default_table), 1, UINT32_MAX},
	{"policy_table", FIELD_U32, offsetof(struct config, routing.policy_table), 1, 252},
	{"protocol", FIELD_U8, offsetof(struct config, routing.protocol), 5, 255},
	{"rule_priority", FIELD_U32, offsetof(struct config, routing.rule_priority), 1, 32600},
	{"source_table", FIELD_U32, offsetof(struct config, routing.source_table), 256,
		INT64_C(0xffffffc0)},
	{"redistribute", FIELD_CUSTOM, .read = read_redistribute},
	{"import", FIELD_CUSTOM, .read = read_import},
	{"export", FIELD_CUSTOM, .read = read_export},
	{NULL},
};

/* ---- babel ---- */

static const struct field rtt_fields[] = {
	{"min", FIELD_DURATION, offsetof(struct config, babel.rtt_min_us), 0, 60000 * MS},
	{"max", FIELD_DURATION, offsetof(struct config, babel.rtt_max_us), 1 * MS, 60000 * MS},
	{"cost", FIELD_U16, offsetof(struct config, babel.rtt_cost), 0, 65534},
	{NULL},
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* A key is never shown in a message, right or wrong. */
static void read_key(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_mac_key *k = object;
	const char *s = doc_string(d, n, "key");
	size_t len = s ? strlen(s) : 0;

	if (!s)
		return;
	for (size_t i = 0; i < len; i++)
		if (digit(s[i]) < 0)
			len = 1;
	if (len % 2 || len < 32 || len / 2 > sizeof(k->key)) {
		doc_error(d, n, "key must be 16 to %zu bytes in hexadecimal (not shown here)",
			sizeof(k->key));
		return;
	}
	for (size_t i = 0; i < len / 2; i++)
		k->key[i] = (uint8_t)(digit(s[2 * i]) << 4 | digit(s[2 * i + 1]));
	k->len = (uint8_t)(len / 2);
}

static void read_algorithm(struct doc *d, struct fy_node *n, void *object)
{
	const char *s = doc_string(d, n, "algorithm");

	(void)object;
	if (s && strcmp(s, "hmac-sha256") != 0)
		doc_error(d, n, "algorithm must be hmac-sha256");
}

static const struct field key_fields[] = {
	{"algorithm", FIELD_CUSTOM, .read = read_algorithm, .required = true},
	{"key", FIELD_CUSTOM, .read = read_key, .required = true},
	{NULL},
};

static void read_mac_keys(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = doc_sequence(d, n, "babel.mac_keys");
	struct fy_node *item;
	void *it = NULL;

	if (count > CONF_MAC_KEYS) {
		doc_error(d, n, "at most %d keys: the one in use and those of a roll-over",
			CONF_MAC_KEYS);
		return;
	}
	while (c->babel.mac_key_count < count && (item = fy_node_sequence_iterate(n, &it)))
		doc_map(d, item, key_fields, &c->babel.mac_key[c->babel.mac_key_count++],
			"a MAC key");
}

const struct field conf_babel_fields[] = {
	{"hello", FIELD_DURATION, offsetof(struct config, babel.hello_us), 20 * MS, 600000 * MS},
	{"cost", FIELD_U16, offsetof(struct config, babel.cost), 1, 65534},
	{"rtt", FIELD_MAP, .sub = rtt_fields},
	{"mac_keys", FIELD_CUSTOM, .read = read_mac_keys},
	{"accept_unsigned", FIELD_BOOL, offsetof(struct config, babel.accept_unsigned)},
	{NULL},
};

void conf_routing_defaults(struct config *c)
{
	c->routing.table = 252;
	c->routing.default_table = 253;
	c->routing.policy_table = 251;
	c->routing.protocol = 157;
	c->routing.rule_priority = 5200;
	c->routing.source_table = 25216;
	c->babel.hello_us = 4000 * MS;
	c->babel.cost = 8;
	c->babel.rtt_max_us = 1024 * MS;
	c->babel.rtt_cost = 4096;
}

/* ---- printed back ---- */

static void print_filters(struct buf *b, const char *key, const struct conf_filter *f, size_t n)
{
	char text[PREFIX_TEXT];

	buf_printf(b, ", %s: [", key);
	for (size_t i = 0; i < n; i++) {
		buf_printf(b, "%s{prefix: \"%s\"", i ? ", " : "",
			prefix_format(&f[i].prefix, text));
		if (f[i].ge)
			buf_printf(b, ", ge: %u", (unsigned int)f[i].ge);
		if (f[i].le)
			buf_printf(b, ", le: %u", (unsigned int)f[i].le);
		if (f[i].organization) {
			buf_add_str(b, ", organization: ");
			conf_print_text(b, f[i].organization);
		}
		buf_printf(b, ", action: %s}", f[i].accept ? "accept" : "reject");
	}
	buf_add_str(b, "]");
}

void conf_print_routing(const struct config *c, struct buf *b)
{
	buf_printf(b,
		"routing: {table: %u, default_table: %u, policy_table: %u, protocol: %u, "
		"rule_priority: %u, source_table: %u, redistribute: [",
		c->routing.table, c->routing.default_table, c->routing.policy_table,
		(unsigned int)c->routing.protocol, c->routing.rule_priority,
		c->routing.source_table);
	for (size_t i = 0; i < c->routing.redistribute_count; i++)
		buf_printf(b, "%s{table: %u, protocol: %u, metric: %u}", i ? ", " : "",
			c->routing.redistribute[i].table,
			(unsigned int)c->routing.redistribute[i].protocol,
			(unsigned int)c->routing.redistribute[i].metric);
	buf_add_str(b, "]");
	print_filters(b, "import", c->routing.import, c->routing.import_count);
	print_filters(b, "export", c->routing.export, c->routing.export_count);
	buf_add_str(b, "}\nbabel: {");
	conf_print_duration(b, "hello", c->babel.hello_us);
	buf_printf(b, ", cost: %u, rtt: {", (unsigned int)c->babel.cost);
	conf_print_duration(b, "min", c->babel.rtt_min_us);
	conf_print_duration(b, ", max", c->babel.rtt_max_us);
	buf_printf(b, ", cost: %u}", (unsigned int)c->babel.rtt_cost);
	buf_add_str(b, ", mac_keys: [");
	for (size_t i = 0; i < c->babel.mac_key_count; i++) {
		buf_printf(b, "%s{algorithm: hmac-sha256, key: \"", i ? ", " : "");
		for (unsigned int k = 0; k < c->babel.mac_key[i].len; k++)
			buf_printf(b, "%02x", c->babel.mac_key[i].key[k]);
		buf_add_str(b, "\"}");
	}
	buf_printf(b, "], accept_unsigned: %s}\n", c->babel.accept_unsigned ? "true" : "false");
}
