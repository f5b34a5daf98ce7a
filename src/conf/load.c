/* Configuration, private key and registry, loaded together. */
#include "conf/load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"

enum { MESSAGE = 1024 };

struct load {
	const struct conf_files *files;
	const struct conf_source *source;
	struct conf_loaded *l;
	struct conf_errors *errors, *warnings;
};

/* A line about something in the configuration, at its place when that is known. */
__attribute__((format(printf, 4, 5))) static void complain(struct conf_errors *to, const char *file,
	const struct conf_mark *at, const char *fmt, ...)
{
	char message[MESSAGE];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (at && at->line)
		buf_printf(&to->text, "%s:%d:%d: %s\n", file, at->line, at->column, message);
	else
		buf_printf(&to->text, "%s: %s\n", file, message);
	to->count++;
}

static int load_config(struct load *s)
{
	const struct conf_source *from = s->source;
	struct buf text = {0};
	int err = s->files->read(from->config, CONF_FILE_MAX, &text);

	if (err < 0)
		complain(s->errors, from->config, NULL, "cannot read the configuration: %s",
			strerror(-err));
	else if (from->ranet_registry)
		err = config_parse_ranet(buf_view(&text), from->config, from->ranet_registry,
			from->ranet_key, &s->l->config, s->errors);
	else
		err = config_parse(buf_view(&text), from->config, &s->l->config, s->errors);
	if (err < 0 && !s->errors->count)
		complain(s->errors, from->config, NULL, "%s", strerror(-err));
	buf_free_secret(&text); /* who pasted a key into it must not find it in memory */
	return err;
}

static int load_key(struct load *s)
{
	const struct config *c = s->l->config;
	const char *path = c->node.key;
	struct buf pem = {0};
	char type[32] = "";
	int err = s->files->read(path, CONF_KEY_MAX, &pem);

	if (err == -ENOENT)
		complain(s->errors, c->file, &c->key_at,
			"the private key %s does not exist; make one: weft keygen > %s", path,
			path);
	else if (err < 0)
		complain(s->errors, c->file, &c->key_at, "cannot read the private key %s: %s", path,
			strerror(-err));
	if (err < 0)
		goto out;
	err = ed25519_from_pem(buf_view(&pem), &s->l->key, type);
	if (err == -EKEYREJECTED)
		complain(s->errors, path, NULL,
			"holds a key of type %s; it must be Ed25519, as weft keygen makes", type);
	else if (err < 0)
		complain(s->errors, path, NULL,
			"holds no private key; it must be PKCS#8 PEM (BEGIN PRIVATE KEY), as weft "
			"keygen "
			"makes");
	if (!err && s->files->is_public && s->files->is_public(path))
		complain(s->warnings, path, NULL,
			"every user of this host can read the private key; chmod 600 %s", path);
out:
	buf_free_secret(&pem);
	return err;
}

static int load_registry(struct load *s)
{
	const struct config *c = s->l->config;
	struct conf_errors found = {0};
	struct buf text = {0};
	int err = s->files->read(c->registry, CONF_REGISTRY_MAX, &text);

	if (err < 0) {
		complain(s->errors, c->file, &c->registry_at, "cannot read the registry %s: %s",
			c->registry, strerror(-err));
	} else {
		struct conf_errors *to;

		err = registry_parse(buf_view(&text), c->registry, &s->l->registry, &found);
		to = err < 0 ? s->errors : s->warnings;
		buf_add(&to->text, found.text.p, found.text.n);
		to->count += found.count;
		if (err < 0 && !found.count)
			complain(to, c->registry, NULL, "%s", strerror(-err));
	}
	conf_errors_free(&found);
	buf_free(&text);
	return err;
}

static const struct registry_node *find_node(const struct load *s, const char *organization,
	const char *name)
{
	const struct registry *r = s->l->registry;

	for (size_t i = 0; i < r->node_count; i++)
		if (strcmp(r->node[i].name, name) == 0 &&
			(!organization || strcmp(r->node[i].organization, organization) == 0))
			return &r->node[i];
	return NULL;
}

static const struct registry_endpoint *find_endpoint(const struct registry_node *n,
	const char *serial)
{
	for (size_t i = 0; i < n->endpoint_count; i++)
		if (strcmp(n->endpoint[i].serial, serial) == 0)
			return &n->endpoint[i];
	return NULL;
}

/* Peers know an endpoint by what the registry has of it. */
static void check_endpoints(struct load *s, const struct registry_node *own)
{
	const struct config *c = s->l->config;

	for (size_t i = 0; i < c->endpoint_count; i++) {
		const struct conf_endpoint *e = &c->endpoint[i];
		const struct registry_endpoint *r = find_endpoint(own, e->serial);

		if (!r || r->family != e->family)
			complain(s->warnings, c->file, &e->at,
				"the registry has no endpoint of serial \"%.60s\" and family ip%d "
				"for this node: peers will refuse it",
				e->serial, e->family == IP4 ? 4 : 6);
		else if (r->address && r->port != e->port)
			complain(s->warnings, c->file, &e->at,
				"endpoint \"%.60s\" listens on port %u, and the registry tells "
				"peers %u: they reach it only where a NAT translates that",
				e->serial, e->port, r->port);
	}
}

static bool has_family(const struct config *c, const struct registry_node *n)
{
	for (size_t i = 0; i < c->endpoint_count; i++)
		for (size_t k = 0; k < n->endpoint_count; k++)
			if (c->endpoint[i].family == n->endpoint[k].family)
				return true;
	return false;
}

/* A registry of others, and a link with none of them. */
static void check_links(struct load *s)
{
	const struct config *c = s->l->config;
	const struct registry *r = s->l->registry;
	const struct registry_node *namesake = NULL;
	size_t others = 0, wanted = 0, links = 0;

	for (size_t i = 0; i < r->node_count; i++) {
		const struct registry_node *n = &r->node[i];
		bool other = strcmp(n->organization, c->node.organization) != 0;

		if (conf_is_self(c, n)) {
			if (other)
				namesake = n;
			continue;
		}
		others++;
		if (!conf_wants_peer(c, n))
			continue;
		wanted++;
		links += has_family(c, n);
	}
	if (namesake)
		complain(s->warnings, c->registry, NULL,
			"\"%.60s\" of organization \"%.60s\" has this node's name: as ranet does, "
			"no link is made with it",
			namesake->name, namesake->organization);
	if (others && !wanted)
		complain(s->warnings, c->file, NULL,
			"peers lets in no node of the registry: no link is made");
	else if (others && !links)
		complain(s->warnings, c->file, NULL,
			"no other node of the registry has an endpoint of a family that endpoints "
			"has: no link is made");
}

/* What may be meant so, and mostly is not. */
static void check_together(struct load *s)
{
	const struct config *c = s->l->config;
	const struct registry_node *own = find_node(s, c->node.organization, c->node.name);
	uint8_t key[ED25519_PUBLIC];

	ed25519_public(s->l->key, key);
	if (!own)
		complain(s->warnings, c->registry, NULL,
			"does not have this node, \"%.60s\" of organization \"%.60s\": peers will "
			"refuse it",
			c->node.name, c->node.organization);
	else if (memcmp(own->key, key, sizeof(key)) != 0)
		complain(s->warnings, c->registry, NULL,
			"has another public key for this node than belongs to %s: peers will "
			"refuse it; "
			"weft pubkey %s prints the right one",
			c->node.key, c->node.key);
	if (own)
		check_endpoints(s, own);
	check_links(s);
	for (size_t i = 0; i < c->static_route_count; i++) {
		const struct conf_static_route *r = &c->static_route[i];

		if (!find_node(s, r->organization, r->node))
			complain(s->warnings, c->file, &r->node_at,
				"static_routes names the node \"%.60s\", which the registry does "
				"not have",
				r->node);
	}
}

/* How many SIDs a name may stand for. */
static unsigned int count_sids(const struct load *s, const struct conf_hop *h)
{
	const struct config *c = s->l->config;
	const struct registry *r = s->l->registry;
	const char *slash = strchr(h->text, '/');
	unsigned int n = 0;

	for (size_t i = 0; i < c->srv6.sid_count; i++)
		if (strcmp(c->srv6.sid[i].name, h->text) == 0)
			return 1;
	for (size_t i = 0; i < r->node_count; i++)
		n += r->node[i].has_srv6 &&
			strcmp(r->node[i].name, slash ? slash + 1 : h->text) == 0 &&
			(!slash ||
				(strlen(r->node[i].organization) == (size_t)(slash - h->text) &&
					memcmp(r->node[i].organization, h->text,
						(size_t)(slash - h->text)) == 0));
	return n;
}

static void check_hop(struct load *s, const struct conf_hop *h)
{
	unsigned int n = h->text && h->sid.family == IP_NONE ? count_sids(s, h) : 1;

	if (n == 0)
		complain(s->warnings, s->l->config->file, &h->at,
			"\"%.60s\" has no SID: the registry needs remarks.weft.srv6 for such a "
			"node, "
			"or srv6.sids the name",
			h->text);
	else if (n > 1)
		complain(s->warnings, s->l->config->file, &h->at,
			"\"%.60s\" is a node of several organizations; the first of the registry "
			"is taken: write organization/name",
			h->text);
}

static bool overlap(const struct prefix *a, const struct prefix *b)
{
	return prefix_covers(a, b) || prefix_covers(b, a);
}

/* Two nodes with the same SIDs: what is for one may come to the other. The first such pair. */
static void check_locators(struct load *s)
{
	const struct registry *r = s->l->registry;
	const struct config *c = s->l->config;

	for (size_t i = 0; i < r->node_count; i++) {
		const struct registry_node *x = &r->node[i], *y = NULL;
		bool self = strcmp(x->name, c->node.name) == 0 &&
			strcmp(x->organization, c->node.organization) == 0;

		for (size_t k = 0; k < i && !y; k++)
			if (x->has_srv6 && r->node[k].has_srv6 &&
				overlap(&x->srv6, &r->node[k].srv6))
				y = &r->node[k];
		if (!y && x->has_srv6 && !self && c->srv6.locator.len &&
			overlap(&x->srv6, &c->srv6.locator))
			y = find_node(s, c->node.organization, c->node.name);
		if (!y)
			continue;
		complain(s->warnings, c->registry, NULL,
			"the locators of \"%.60s\" and \"%.60s\" have SIDs in common", y->name,
			x->name);
		return;
	}
}

static void check_policies(struct load *s)
{
	const struct config *c = s->l->config;

	for (size_t i = 0; i < c->policy_count; i++)
		for (size_t k = 0; k < c->policy[i].candidate_count; k++) {
			const struct conf_candidate *x = &c->policy[i].candidate[k];

			for (size_t m = 0; m < x->via_count; m++)
				check_hop(s, &x->via[m]);
			check_hop(s, &x->exit);
		}
}

/* What is read and does nothing yet must not look as if it did. */
static void check_effect(struct load *s)
{
	const struct config *c = s->l->config;
	const struct registry_node *own = find_node(s, c->node.organization, c->node.name);

	if (c->exit.allow_count && !c->srv6.locator.len && (!own || !own->has_srv6))
		complain(s->warnings, c->file, NULL,
			"exit.allow has no effect without a locator: give srv6.locator, or the "
			"registry this node's remarks.weft.srv6");
	if (c->underlay.vrf)
		complain(s->warnings, c->file, NULL,
			"underlay.vrf has no effect in this version; use an endpoint's interface");
}

int conf_load(const struct conf_files *files, const struct conf_source *source,
	struct conf_loaded *ret, struct conf_errors *errors, struct conf_errors *warnings)
{
	struct conf_loaded l = {0};
	struct load s = {files, source, &l, errors, warnings};
	int err = load_config(&s);

	if (!err) {
		int key = load_key(&s), registry = load_registry(&s);

		err = key < 0 ? key : registry;
	}
	if (!err) {
		check_together(&s);
		check_policies(&s);
		check_locators(&s);
		check_effect(&s);
	}
	if (!err && (errors->text.failed || warnings->text.failed))
		err = -ENOMEM;
	if (err < 0) {
		conf_loaded_free(&l);
		return err == -ENOMEM ? -ENOMEM : -EINVAL;
	}
	*ret = l;
	return 0;
}

void conf_loaded_free(struct conf_loaded *l)
{
	config_free(l->config);
	registry_free(l->registry);
	ed25519_free(l->key);
	*l = (struct conf_loaded){0};
}
