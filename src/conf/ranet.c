/* ranet's config.json as a configuration: the same identities, endpoints and ports; no prefixes are
 * announced and no addresses are set, since ranet leaves those to others. */
#include <errno.h>
#include <string.h>
#include "conf/config_priv.h"

static void read_serial(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_endpoint *e = object;

	if (fy_node_get_type(n) == FYNT_SCALAR && !doc_is_quoted(n)) {
		doc_error(d, n, "serial_number must be a string, in quotes");
		return;
	}
	e->serial = conf_read_name(d, n, "serial_number");
}

static void read_family(struct doc *d, struct fy_node *n, void *object)
{
	((struct conf_endpoint *)object)->family = conf_read_family(d, n);
}

/* An address, or a prefix (strongSwan takes one as "any address in it"): then any. */
static void read_address(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_endpoint *e = object;
	size_t len = 0;
	const char *s = fy_node_get_type(n) == FYNT_SCALAR ? fy_node_get_scalar(n, &len) : NULL;
	struct prefix p;

	if (s && memchr(s, '/', len))
		(void)doc_prefix(d, n, &p);
	else
		(void)doc_address(d, n, &e->address);
}

static void read_updown(struct doc *d, struct fy_node *n, void *object)
{
	((struct conf_endpoint *)object)->updown = doc_string(d, n, "updown");
}

/* A mark in decimal or hexadecimal, as a string or number. */
static void read_fwmark(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_endpoint *e = object;
	int64_t v;

	if (doc_number(d, n, 0, UINT32_MAX, &v))
		e->fwmark = (uint32_t)v;
}

static const struct field endpoint_fields[] = {
	{"serial_number", FIELD_CUSTOM, .read = read_serial, .required = true},
	{"address_family", FIELD_CUSTOM, .read = read_family, .required = true},
	{"address", FIELD_CUSTOM, .read = read_address},
	{"port", FIELD_U16, offsetof(struct conf_endpoint, port), 1, 65535, .required = true},
	{"updown", FIELD_CUSTOM, .read = read_updown},
	{"fwmark", FIELD_CUSTOM, .read = read_fwmark},
	{NULL},
};

static void read_endpoints(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = conf_endpoint_count(d, n);
	struct fy_node *item;
	void *it = NULL;

	c->endpoint = doc_alloc(d, count, sizeof(*c->endpoint));
	while (c->endpoint && c->endpoint_count < count &&
		(item = fy_node_sequence_iterate(n, &it))) {
		struct conf_endpoint *e = &c->endpoint[c->endpoint_count++];

		doc_position(d, item, &e->at);
		doc_map(d, item, endpoint_fields, e, "an endpoint");
	}
}

static void read_iptfs(struct doc *d, struct fy_node *n, void *object)
{
	size_t len = 0;
	const char *s = fy_node_get_type(n) == FYNT_SCALAR ? fy_node_get_scalar(n, &len) : NULL;

	(void)object;
	if (!s || len != 5 || memcmp(s, "false", 5) != 0)
		doc_error(d, n,
			"experimental.iptfs is not supported; leave it out, peers fall back to "
			"tunnel mode");
}

static const struct field experimental_fields[] = {
	{"iptfs", FIELD_CUSTOM, .read = read_iptfs},
	{NULL},
};

static void read_organization(struct doc *d, struct fy_node *n, void *object)
{
	((struct config *)object)->node.organization = conf_read_name(d, n, "organization");
}

static void read_common_name(struct doc *d, struct fy_node *n, void *object)
{
	((struct config *)object)->node.name = conf_read_name(d, n, "common_name");
}

static const struct field ranet_fields[] = {
	{"organization", FIELD_CUSTOM, .read = read_organization, .required = true},
	{"common_name", FIELD_CUSTOM, .read = read_common_name, .required = true},
	{"endpoints", FIELD_CUSTOM, .read = read_endpoints, .required = true},
	{"experimental", FIELD_MAP, .sub = experimental_fields},
	{NULL},
};

int config_parse_ranet(struct view text, const char *file, const char *registry, const char *key,
	struct config **ret, struct conf_errors *errors)
{
	struct doc d = {.file = file, .errors = errors};
	struct config *c;
	int err = config_new(file, &c);

	if (err < 0)
		return err;
	d.arena = c->arena;
	c->ranet = true;
	c->registry = arena_strndup(d.arena, registry, strlen(registry));
	c->node.key = arena_strndup(d.arena, key, strlen(key));
	err = c->registry && c->node.key ? doc_open(&d, text, true) : -ENOMEM;
	if (!err) {
		doc_map(&d, fy_document_root(d.fyd), ranet_fields, c, "the configuration");
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
