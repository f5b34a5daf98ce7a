/* The sections `srv6`, `policies` and `exit`: segments, who is steered where, and what an exit
 * takes out (RFC 8986, RFC 9256 for the terms). */
#include <stdio.h>
#include <string.h>
#include "conf/config_priv.h"

/* ---- srv6 ---- */

bool conf_is_sid(const struct ipaddr *a)
{
	return a->family == IP6 && !ipaddr_is_multicast(a) && !ipaddr_is_link_local(a) &&
		!ipaddr_is_loopback(a) && !ipaddr_is_unspecified(a);
}

static void read_locator(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	if (!doc_prefix(d, n, &c->srv6.locator))
		return;
	if (c->srv6.locator.len > CONF_LOCATOR_MAX || !c->srv6.locator.len ||
		!conf_is_sid(&c->srv6.locator.addr))
		doc_error(d, n,
			"srv6.locator must be an IPv6 prefix of length %d at most, as "
			"fd00:5:1::/64",
			CONF_LOCATOR_MAX);
}

static bool read_sid(struct doc *d, struct fy_node *n, const char *where, struct ipaddr *ret)
{
	if (!doc_address(d, n, ret))
		return false;
	if (!conf_is_sid(ret))
		doc_error(d, n, "%s must be an IPv6 unicast address", where);
	return conf_is_sid(ret);
}

static void read_source(struct doc *d, struct fy_node *n, void *object)
{
	(void)read_sid(d, n, "srv6.source", &((struct config *)object)->srv6.source);
}

static void read_prefixes(struct doc *d, struct fy_node *n, const char *where, struct prefix **ret,
	size_t *ret_n)
{
	size_t count = doc_sequence(d, n, where), i = 0;
	struct prefix *p = doc_alloc(d, count, sizeof(*p));
	struct fy_node *item;
	void *it = NULL;

	while (p && i < count && (item = fy_node_sequence_iterate(n, &it)))
		if (!doc_prefix(d, item, &p[i++]))
			break;
	for (size_t k = 0; k < i; k++)
		for (size_t m = 0; m < k; m++)
			if (prefix_equal(&p[m], &p[k]))
				doc_error(d, n, "%s has a prefix twice", where);
	*ret = p;
	*ret_n = i;
}

static void read_sources(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	read_prefixes(d, n, "srv6.sources", &c->srv6.sources, &c->srv6.source_count);
	for (size_t i = 0; i < c->srv6.source_count; i++)
		if (c->srv6.sources[i].addr.family == IP4)
			doc_error(d, n, "srv6.sources must be IPv6 prefixes");
}

/* One of two words. */
static void read_choice(struct doc *d, struct fy_node *n, const char *where,
	const char *const word[2], bool *ret)
{
	const char *s = doc_string(d, n, where);

	if (!s)
		return;
	*ret = strcmp(s, word[1]) == 0;
	if (!*ret && strcmp(s, word[0]) != 0)
		doc_error(d, n, "%s must be %s or %s", where, word[0], word[1]);
}

static void read_compat(struct doc *d, struct fy_node *n, void *object)
{
	static const char *const words[] = {"rfc", "linux"};

	read_choice(d, n, "srv6.compat", words, &((struct config *)object)->srv6.linux_compat);
}

static void read_encap(struct doc *d, struct fy_node *n, void *object)
{
	static const char *const words[] = {"red", "full"};

	read_choice(d, n, "srv6.encap", words, &((struct config *)object)->srv6.encap_full);
}

static void read_hmac(struct doc *d, struct fy_node *n, void *object)
{
	static const char *const words[] = {"skip", "refuse"};

	read_choice(d, n, "srv6.hmac", words, &((struct config *)object)->srv6.refuse_hmac);
}

static void read_sids(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	struct fy_node_pair *pair;
	void *it = NULL;
	int count;

	if (fy_node_get_type(n) != FYNT_MAPPING) {
		doc_error(d, n, "srv6.sids must be a mapping of names to SIDs");
		return;
	}
	count = fy_node_mapping_item_count(n);
	c->srv6.sid = doc_alloc(d, count > 0 ? (size_t)count : 0, sizeof(*c->srv6.sid));
	while (c->srv6.sid && (int)c->srv6.sid_count < count &&
		(pair = fy_node_mapping_iterate(n, &it))) {
		struct conf_sid *s = &c->srv6.sid[c->srv6.sid_count++];
		struct ipaddr a;

		s->name = doc_string(d, fy_node_pair_key(pair), "a name in srv6.sids");
		if (s->name && !ipaddr_parse(s->name, &a))
			doc_error(d, fy_node_pair_key(pair), "a name in srv6.sids is an address");
		(void)read_sid(d, fy_node_pair_value(pair), "a SID", &s->sid);
	}
}

const struct field conf_srv6_fields[] = {
	{"locator", FIELD_CUSTOM, .read = read_locator},
	{"source", FIELD_CUSTOM, .read = read_source},
	{"sources", FIELD_CUSTOM, .read = read_sources},
	{"compat", FIELD_CUSTOM, .read = read_compat},
	{"encap", FIELD_CUSTOM, .read = read_encap},
	{"hmac", FIELD_CUSTOM, .read = read_hmac},
	{"sids", FIELD_CUSTOM, .read = read_sids},
	{NULL},
};

/* ---- exit ---- */

static void read_allow(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;

	read_prefixes(d, n, "exit.allow", &c->exit.allow, &c->exit.allow_count);
}

const struct field conf_exit_fields[] = {
	{"allow", FIELD_CUSTOM, .read = read_allow},
	{"masquerade", FIELD_BOOL, offsetof(struct config, exit.masquerade)},
	{NULL},
};

/* ---- policies ---- */

/* "tyo1", "acme/tyo1" or a SID. */
static void read_hop(struct doc *d, struct fy_node *n, const char *where, struct conf_hop *h)
{
	const char *s = doc_string(d, n, where), *slash = s ? strchr(s, '/') : NULL;

	if (!s)
		return;
	doc_position(d, n, &h->at);
	h->text = s;
	if (!ipaddr_parse(s, &h->sid)) {
		if (!conf_is_sid(&h->sid))
			doc_error(d, n, "a SID in %s must be an IPv6 unicast address", where);
		return;
	}
	h->sid = (struct ipaddr){0};
	if (slash == s || (slash && (!slash[1] || strchr(slash + 1, '/'))))
		doc_error(d, n, "%s must be a name, organization/name or a SID", where);
}

static void read_via(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_candidate *c = object;
	size_t count = doc_sequence(d, n, "via");
	struct fy_node *item;
	void *it = NULL;

	if (count >= CONF_SEGMENTS_MAX) {
		doc_error(d, n, "at most %d waypoints", CONF_SEGMENTS_MAX - 1);
		return;
	}
	c->via = doc_alloc(d, count, sizeof(*c->via));
	while (c->via && c->via_count < count && (item = fy_node_sequence_iterate(n, &it)))
		read_hop(d, item, "via", &c->via[c->via_count++]);
}

static void read_exit(struct doc *d, struct fy_node *n, void *object)
{
	read_hop(d, n, "exit", &((struct conf_candidate *)object)->exit);
}

static const struct field candidate_fields[] = {
	{"via", FIELD_CUSTOM, .read = read_via},
	{"exit", FIELD_CUSTOM, .read = read_exit},
	{NULL},
};

static void read_candidates(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_policy *p = object;
	size_t count = doc_sequence(d, n, "candidates");
	struct fy_node *item;
	void *it = NULL;

	p->candidate = doc_alloc(d, count, sizeof(*p->candidate));
	while (p->candidate && p->candidate_count < count &&
		(item = fy_node_sequence_iterate(n, &it))) {
		struct conf_candidate *c = &p->candidate[p->candidate_count++];

		doc_map(d, item, candidate_fields, c, "a candidate");
		if (!c->via_count && !c->exit.text)
			doc_error(d, item, "a candidate needs via, exit or both");
	}
}

static void read_direct_via(struct doc *d, struct fy_node *n, void *object)
{
	read_via(d, n, &((struct conf_policy *)object)->only);
}

static void read_direct_exit(struct doc *d, struct fy_node *n, void *object)
{
	read_exit(d, n, &((struct conf_policy *)object)->only);
}

static void read_policy_source(struct doc *d, struct fy_node *n, void *object)
{
	(void)doc_prefix(d, n, &((struct conf_policy *)object)->source);
}

static void read_policy_destination(struct doc *d, struct fy_node *n, void *object)
{
	(void)doc_prefix(d, n, &((struct conf_policy *)object)->destination);
}

static void read_fallback(struct doc *d, struct fy_node *n, void *object)
{
	struct conf_policy *p = object;
	const char *s = doc_string(d, n, "fallback");

	if (!s)
		return;
	p->direct = strcmp(s, "direct") == 0;
	if (!p->direct && strcmp(s, "drop") != 0)
		doc_no_choice(d, n, "fallback", "drop or direct");
}

static const struct field policy_fields[] = {
	{"name", FIELD_STRING, offsetof(struct conf_policy, name), .required = true},
	{"source", FIELD_CUSTOM, .read = read_policy_source},
	{"destination", FIELD_CUSTOM, .read = read_policy_destination, .required = true},
	{"candidates", FIELD_CUSTOM, .read = read_candidates},
	{"via", FIELD_CUSTOM, .read = read_direct_via},
	{"exit", FIELD_CUSTOM, .read = read_direct_exit},
	{"fallback", FIELD_CUSTOM, .read = read_fallback},
	{NULL},
};

static void check_policy(struct doc *d, struct fy_node *at, struct conf_policy *p)
{
	bool only = p->only.via_count || p->only.exit.text;

	if (p->name && strlen(p->name) >= CONF_POLICY_NAME)
		doc_error(d, at, "a policy's name has at most %d bytes", CONF_POLICY_NAME - 1);
	if (p->source.addr.family && p->destination.addr.family &&
		p->source.addr.family != p->destination.addr.family)
		doc_error(d, at, "source and destination of a policy must be of one family");
	if (only && p->candidate_count)
		doc_error(d, at, "a policy has candidates, or via and exit of its own, not both");
	else if (only) {
		p->candidate = doc_alloc(d, 1, sizeof(*p->candidate));
		if (p->candidate)
			p->candidate[p->candidate_count++] = p->only;
	} else if (!p->candidate_count)
		doc_error(d, at, "a policy needs candidates, or via or exit");
}

void conf_read_policies(struct doc *d, struct fy_node *n, void *object)
{
	struct config *c = object;
	size_t count = doc_sequence(d, n, "policies");
	struct fy_node *item;
	void *it = NULL;

	c->policy = doc_alloc(d, count, sizeof(*c->policy));
	while (c->policy && c->policy_count < count && (item = fy_node_sequence_iterate(n, &it))) {
		struct conf_policy *p = &c->policy[c->policy_count++];

		doc_map(d, item, policy_fields, p, "a policy");
		check_policy(d, item, p);
		for (size_t i = 0; p->name && i + 1 < c->policy_count; i++)
			if (c->policy[i].name && strcmp(c->policy[i].name, p->name) == 0)
				doc_error(d, item, "two policies have the name \"%.60s\"", p->name);
	}
}

/* ---- the whole ---- */

void conf_check_steering(struct doc *d, const struct config *c)
{
	bool source = c->srv6.source.family || c->srv6.locator.len;

	for (size_t i = 0; i < c->tun.address_count; i++)
		source |= c->tun.address[i].ip.family == IP6;
	if (c->policy_count && !source)
		doc_error(d, doc_at(d, "/policies"),
			"steered packets need a source: give srv6.source, srv6.locator or an IPv6 "
			"address in tun.addresses");
	if (c->routing.policy_table == c->routing.table ||
		c->routing.policy_table == c->routing.default_table)
		doc_error(d, doc_at(d, "/routing"),
			"routing.policy_table must differ from the other tables");
}

/* ---- printed back ---- */

static void print_prefixes(struct buf *b, const char *key, const struct prefix *p, size_t n)
{
	char text[PREFIX_TEXT];

	buf_printf(b, "%s: [", key);
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s\"%s\"", i ? ", " : "", prefix_format(&p[i], text));
	buf_add_str(b, "]");
}

static void print_candidate(struct buf *b, const struct conf_candidate *c)
{
	buf_add_str(b, "{");
	if (c->via_count) {
		buf_add_str(b, "via: [");
		for (size_t i = 0; i < c->via_count; i++) {
			buf_add_str(b, i ? ", " : "");
			conf_print_text(b, c->via[i].text);
		}
		buf_add_str(b, c->exit.text ? "], " : "]");
	}
	if (c->exit.text) {
		buf_add_str(b, "exit: ");
		conf_print_text(b, c->exit.text);
	}
	buf_add_str(b, "}");
}

static void print_policy(struct buf *b, const struct conf_policy *p)
{
	char text[PREFIX_TEXT];

	buf_add_str(b, "  - {name: ");
	conf_print_text(b, p->name);
	if (p->source.addr.family)
		buf_printf(b, ", source: \"%s\"", prefix_format(&p->source, text));
	buf_printf(b, ", destination: \"%s\", candidates: [", prefix_format(&p->destination, text));
	for (size_t i = 0; i < p->candidate_count; i++) {
		buf_add_str(b, i ? ", " : "");
		print_candidate(b, &p->candidate[i]);
	}
	buf_printf(b, "], fallback: %s}\n", p->direct ? "direct" : "drop");
}

void conf_print_steering(const struct config *c, struct buf *b)
{
	char text[PREFIX_TEXT];

	buf_add_str(b, "srv6: {");
	if (c->srv6.locator.len)
		buf_printf(b, "locator: \"%s\", ", prefix_format(&c->srv6.locator, text));
	if (c->srv6.source.family)
		buf_printf(b, "source: \"%s\", ", ipaddr_format(&c->srv6.source, text));
	print_prefixes(b, "sources", c->srv6.sources, c->srv6.source_count);
	buf_printf(b, ", compat: %s, encap: %s, hmac: %s, sids: {",
		c->srv6.linux_compat ? "linux" : "rfc", c->srv6.encap_full ? "full" : "red",
		c->srv6.refuse_hmac ? "refuse" : "skip");
	for (size_t i = 0; i < c->srv6.sid_count; i++) {
		buf_add_str(b, i ? ", " : "");
		conf_print_text(b, c->srv6.sid[i].name);
		buf_printf(b, ": \"%s\"", ipaddr_format(&c->srv6.sid[i].sid, text));
	}
	buf_add_str(b, "}}\n");
	if (c->policy_count)
		buf_add_str(b, "policies:\n");
	for (size_t i = 0; i < c->policy_count; i++)
		print_policy(b, &c->policy[i]);
	buf_add_str(b, "exit: {");
	print_prefixes(b, "allow", c->exit.allow, c->exit.allow_count);
	buf_printf(b, ", masquerade: %s}\n", c->exit.masquerade ? "true" : "false");
}
