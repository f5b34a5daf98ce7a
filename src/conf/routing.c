/* The sections `routing` and `babel`: filters, the metric, MAC keys. */
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
		doc_error(d, n, "action must be accept or reject");
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

const struct field conf_routing_fields[] = {
	{"table", FIELD_U32, offsetof(struct config, routing.table), 1, UINT32_MAX},
	{"default_table", FIELD_U32, offsetof(struct config, routing.default_table), 1, UINT32_MAX},
	{"policy_table", FIELD_U32, offsetof(struct config, routing.policy_table), 1, 252},
	{"protocol", FIELD_U8, offsetof(struct config, routing.protocol), 5, 255},
	{"rule_priority", FIELD_U32, offsetof(struct config, routing.rule_priority), 1, 32600},
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
		"rule_priority: %u",
		c->routing.table, c->routing.default_table, c->routing.policy_table,
		(unsigned int)c->routing.protocol, c->routing.rule_priority);
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
