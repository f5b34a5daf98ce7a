/* registry.json in ranet's format, and what is ours inside a node's remarks. An entry that is
 * broken is left out and named; the others stand. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "base/list.h"
#include "conf/config_priv.h"

struct entry { /* one organization, while it is read */
	const char *organization;
	struct fy_node *nodes;
	uint8_t key[ED25519_PUBLIC];
};

/* ---- small readers ---- */

static bool read_key(struct doc *d, struct fy_node *n, uint8_t ret[static ED25519_PUBLIC])
{
	const char *pem = doc_string(d, n, "public_key");
	char type[32] = "";
	int err;

	if (!pem)
		return false;
	err = ed25519_public_from_pem(view_of(pem, strlen(pem)), ret, type);
	if (err == -EKEYREJECTED)
		doc_error(d, n, "public_key is a key of type %s; it must be Ed25519", type);
	else if (err < 0)
		doc_error(d, n,
			"public_key is no PEM public key (SubjectPublicKeyInfo, BEGIN PUBLIC KEY)");
	return err == 0;
}

static void read_family(struct doc *d, struct fy_node *n, void *object)
{
	((struct registry_endpoint *)object)->family = conf_read_family(d, n);
}

/* ranet wants a string here and refuses a number; so do we. */
static void read_serial(struct doc *d, struct fy_node *n, void *object)
{
	struct registry_endpoint *e = object;

	if (fy_node_get_type(n) == FYNT_SCALAR && !doc_is_quoted(n)) {
		doc_error(d, n, "serial_number must be a string, in quotes");
		return;
	}
	e->serial = conf_read_name(d, n, "serial_number");
}

static void read_address(struct doc *d, struct fy_node *n, void *object)
{
	struct registry_endpoint *e = object;

	e->address = doc_string(d, n, "address");
}

static const struct field endpoint_fields[] = {
	{"serial_number", FIELD_CUSTOM, .read = read_serial, .required = true},
	{"address_family", FIELD_CUSTOM, .read = read_family, .required = true},
	{"address", FIELD_CUSTOM, .read = read_address},
	{"port", FIELD_U16, offsetof(struct registry_endpoint, port), 1, 65535, .required = true},
	{NULL},
};

/* ---- remarks.weft ---- */

static void read_weft_key(struct doc *d, struct fy_node *n, void *object)
{
	(void)read_key(d, n, ((struct registry_node *)object)->key);
}

static void read_weft_srv6(struct doc *d, struct fy_node *n, void *object)
{
	struct registry_node *r = object;

	if (!doc_prefix(d, n, &r->srv6))
		return;
	if (r->srv6.addr.family != IP6 || r->srv6.len > CONF_LOCATOR_MAX || !r->srv6.len ||
		!conf_is_sid(&r->srv6.addr))
		doc_error(d, n, "srv6 must be an IPv6 prefix of unicast, of length 1 to %d",
			CONF_LOCATOR_MAX);
	r->has_srv6 = true;
}

static void read_weft_allow(struct doc *d, struct fy_node *n, void *object)
{
	struct registry_node *r = object;
	size_t count = doc_sequence(d, n, "allow");
	struct fy_node *item;
	void *it = NULL;

	r->allow = doc_alloc(d, count, sizeof(*r->allow));
	r->has_allow = true;
	while (r->allow && r->allow_count < count && (item = fy_node_sequence_iterate(n, &it)))
		(void)doc_prefix(d, item, &r->allow[r->allow_count++]);
}

static void read_weft_router_id(struct doc *d, struct fy_node *n, void *object)
{
	struct registry_node *r = object;
	const char *s = doc_string(d, n, "router_id");
	unsigned int b[8];
	int used = 0;

	if (!s)
		return;
	if (strlen(s) != 23 ||
		sscanf(s, "%2x:%2x:%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4],
			&b[5], &b[6], &b[7], &used) != 8 ||
		used != 23) {
		doc_error(d, n, "router_id must be eight bytes as 02:00:5e:10:00:00:00:01");
		return;
	}
	for (int i = 0; i < 8; i++)
		r->router_id[i] = (uint8_t)b[i];
	r->has_router_id = true;
}

static const struct field weft_fields[] = {
	{"public_key", FIELD_CUSTOM, .read = read_weft_key},
	{"srv6", FIELD_CUSTOM, .read = read_weft_srv6},
	{"allow", FIELD_CUSTOM, .read = read_weft_allow},
	{"router_id", FIELD_CUSTOM, .read = read_weft_router_id},
	{"transit", FIELD_BOOL, offsetof(struct registry_node, transit)},
	{NULL},
};

/* remarks may hold anything; only the key "weft" is ours. */
static void read_remarks(struct doc *d, struct fy_node *n, void *object)
{
	struct fy_node_pair *pair;
	void *it = NULL;

	if (fy_node_get_type(n) != FYNT_MAPPING)
		return;
	while ((pair = fy_node_mapping_iterate(n, &it))) {
		size_t len = 0;
		const char *s = fy_node_get_scalar(fy_node_pair_key(pair), &len);

		if (s && len == 4 && memcmp(s, "weft", 4) == 0)
			doc_map(d, fy_node_pair_value(pair), weft_fields, object, "remarks.weft");
	}
}

/* ---- nodes ---- */

/* An address that the family cannot have is as good as none: told, and the peer may still come. */
static void check_address(struct doc *d, struct fy_node *n, const struct registry_endpoint *e)
{
	struct ipaddr a;
	char text[DOC_SHOWN_TEXT];

	if (e->address && !ipaddr_parse(e->address, &a) && a.family != e->family)
		doc_error(d, n,
			"endpoint \"%.40s\": its address %s is not of its family: nobody can "
			"reach it there",
			e->serial, doc_shown(e->address, strlen(e->address), text));
}

/* Reads the endpoints that are right; a broken one is left out and named. */
static void read_endpoints(struct doc *d, struct fy_node *n, void *object)
{
	struct registry_node *r = object;
	size_t count = doc_sequence(d, n, "endpoints");
	struct fy_node *item;
	void *it = NULL;
	bool failed = d->failed;

	r->endpoint = doc_alloc(d, count, sizeof(*r->endpoint));
	while (r->endpoint && (item = fy_node_sequence_iterate(n, &it))) {
		struct registry_endpoint e = {0};

		d->failed = false;
		doc_map(d, item, endpoint_fields, &e, "an endpoint");
		for (size_t i = 0; !d->failed && i < r->endpoint_count; i++)
			if (strcmp(r->endpoint[i].serial, e.serial) == 0)
				doc_error(d, item,
					"serial_number \"%.40s\" is used twice in one node",
					e.serial);
		if (!d->failed && r->endpoint_count < count) {
			r->endpoint[r->endpoint_count++] = e;
			check_address(d, item, &e);
		}
	}
	d->failed = failed;
}

static void read_common_name(struct doc *d, struct fy_node *n, void *object)
{
	((struct registry_node *)object)->name = conf_read_name(d, n, "common_name");
}

static const struct field node_fields[] = {
	{"common_name", FIELD_CUSTOM, .read = read_common_name, .required = true},
	{"endpoints", FIELD_CUSTOM, .read = read_endpoints, .required = true},
	{"remarks", FIELD_CUSTOM, .read = read_remarks},
	{NULL},
};

/* ---- what was there before ---- */

struct seen {
	struct hash_node node;
	const char *organization, *name; /* name "": the organization itself */
};

struct reading {
	struct doc *d;
	struct registry *r;
	struct hash seen;
};

/* Remembers a name; true when it was there already, or memory ran out (then said). */
static bool seen_before(struct reading *g, const char *organization, const char *name)
{
	struct seen *s;
	struct buf key = {0};
	bool found = false, failed;

	buf_add(&key, organization, strlen(organization) + 1);
	buf_add_str(&key, name);
	failed = key.failed;
	for (struct hash_node *n = failed ? NULL : hash_find(&g->seen, key.p, key.n); n;
		n = hash_next(n)) {
		s = container_of(n, struct seen, node);
		found |= !strcmp(s->organization, organization) && !strcmp(s->name, name);
	}
	if (!found && !failed) {
		s = doc_alloc(g->d, 1, sizeof(*s));
		failed = !s;
		if (s) {
			*s = (struct seen){.organization = organization, .name = name};
			failed = hash_add(&g->seen, &s->node, key.p, key.n) < 0;
		}
	}
	buf_free(&key);
	g->d->no_memory |= failed;
	return found || failed;
}

static void read_node(struct reading *g, struct fy_node *item, const struct entry *e)
{
	struct registry_node n = {.organization = e->organization, .transit = true};
	struct doc *d = g->d;

	d->failed = false;
	memcpy(n.key, e->key, sizeof(n.key));
	doc_map(d, item, node_fields, &n, "a node");
	if (d->failed)
		return;
	if (seen_before(g, n.organization, n.name)) {
		doc_error(d, item,
			"node \"%.60s\" of organization \"%.60s\" is there twice; the first one "
			"counts",
			n.name, n.organization);
		return;
	}
	g->r->node[g->r->node_count++] = n;
}

/* ---- organizations ---- */

static void read_entry_key(struct doc *d, struct fy_node *n, void *object)
{
	struct entry *e = object;

	(void)read_key(d, n, e->key);
}

static void read_entry_organization(struct doc *d, struct fy_node *n, void *object)
{
	((struct entry *)object)->organization = conf_read_name(d, n, "organization");
}

static void read_entry_nodes(struct doc *d, struct fy_node *n, void *object)
{
	struct entry *e = object;

	(void)doc_sequence(d, n, "nodes");
	e->nodes = n;
}

static const struct field entry_fields[] = {
	{"public_key", FIELD_CUSTOM, .read = read_entry_key, .required = true},
	{"organization", FIELD_CUSTOM, .read = read_entry_organization, .required = true},
	{"nodes", FIELD_CUSTOM, .read = read_entry_nodes, .required = true},
	{NULL},
};

/* How many node objects the document has at most: the size of the array. */
static size_t count_nodes(struct fy_node *root)
{
	struct fy_node *item, *nodes;
	void *it = NULL;
	size_t n = 0;

	while ((item = fy_node_sequence_iterate(root, &it))) {
		if (fy_node_get_type(item) != FYNT_MAPPING)
			continue;
		nodes = fy_node_mapping_lookup_by_string(item, "nodes", 5);
		if (nodes && fy_node_get_type(nodes) == FYNT_SEQUENCE)
			n += (size_t)fy_node_sequence_item_count(nodes);
	}
	return n;
}

static void read_entry(struct reading *g, struct fy_node *item)
{
	struct doc *d = g->d;
	struct entry e = {0};
	struct fy_node *node;
	void *it = NULL;

	d->failed = false;
	doc_map(d, item, entry_fields, &e, "an organization");
	if (d->failed)
		return;
	if (seen_before(g, e.organization, "")) {
		doc_error(d, item, "organization \"%.60s\" is there twice; the first one counts",
			e.organization);
		return;
	}
	while ((node = fy_node_sequence_iterate(e.nodes, &it)))
		read_node(g, node, &e);
}

static int read_all(struct doc *d, struct registry *r)
{
	static const uint8_t key[16]; /* whoever writes a registry may also make it large */
	struct fy_node *root = fy_document_root(d->fyd), *item;
	struct reading g = {.d = d, .r = r};
	void *it = NULL;

	if (fy_node_get_type(root) != FYNT_SEQUENCE) {
		doc_error(d, root, "a registry is a list of organizations");
		return -EINVAL;
	}
	if (hash_init(&g.seen, key) < 0)
		return -ENOMEM;
	r->node = doc_alloc(d, count_nodes(root), sizeof(*r->node));
	while (r->node && (item = fy_node_sequence_iterate(root, &it)))
		read_entry(&g, item);
	hash_done(&g.seen);
	return d->no_memory ? -ENOMEM : 0;
}

int registry_parse(struct view text, const char *file, struct registry **ret,
	struct conf_errors *errors)
{
	struct doc d = {.file = file, .errors = errors};
	struct registry *r;
	int err;

	if (arena_new(&d.arena) < 0)
		return -ENOMEM;
	r = arena_alloc(d.arena, sizeof(*r));
	if (!r) {
		arena_free(d.arena);
		return -ENOMEM;
	}
	r->arena = d.arena;
	err = doc_open(&d, text, true);
	if (!err)
		err = read_all(&d, r);
	doc_close(&d);
	if (err < 0)
		registry_free(r);
	else
		*ret = r;
	return err;
}

void registry_free(struct registry *r)
{
	if (r)
		arena_free(r->arena);
}
