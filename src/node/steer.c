/* Policies and segments of a node: names become SIDs, of each policy's candidates the first whose
 * SIDs all have a route is taken (RFC 9256 2.9 has more on candidates), and what the plane needs of
 * it goes into the snapshot. The node's own SIDs are made from its locator: ::1 End.DT46, ::2 End,
 * ::3 End.DT6, ::4 End.DT4 (RFC 8986 4.1, 4.6 - 4.8). */
#include "node/node_priv.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "ctl/json.h"

enum { SID_EXIT = 1, SID_END = 2, SID_EXIT6 = 3, SID_EXIT4 = 4, SIDS_OWN = 4 };

struct steering {
	struct node *n;
	struct node_snapshot *snap;
	struct plane_srv6 *out;
	struct prefix locator; /* length 0: none */
};

/* ---- locators and SIDs ---- */

static bool is_self(const struct node *n, const struct registry_node *r)
{
	return strcmp(r->name, n->config->node.name) == 0 &&
		strcmp(r->organization, n->config->node.organization) == 0;
}

bool node_locator(const struct node *n, struct prefix *ret)
{
	if (n->config->srv6.locator.len) {
		*ret = n->config->srv6.locator;
		return true;
	}
	for (size_t i = 0; i < n->registry->node_count; i++) {
		const struct registry_node *r = &n->registry->node[i];

		if (r->has_srv6 && is_self(n, r)) {
			*ret = r->srv6;
			return true;
		}
	}
	return false;
}

static struct ipaddr sid_at(const struct prefix *locator, uint8_t number)
{
	struct ipaddr a = locator->addr;

	a.b[15] = number;
	return a;
}

static bool is_named(const struct registry_node *r, const char *text)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : 0;

	return strcmp(r->name, slash ? slash + 1 : text) == 0 &&
		(!slash ||
			(strlen(r->organization) == len &&
				memcmp(r->organization, text, len) == 0));
}

/* The SID that a waypoint's or exit's name stands for. */
static bool resolve(const struct steering *s, const struct conf_hop *h, uint8_t number,
	struct ipaddr *ret)
{
	const struct config *c = s->n->config;
	const struct registry *r = s->n->registry;

	if (h->sid.family != IP_NONE) {
		*ret = h->sid;
		return true;
	}
	for (size_t i = 0; i < c->srv6.sid_count; i++)
		if (strcmp(c->srv6.sid[i].name, h->text) == 0) {
			*ret = c->srv6.sid[i].sid;
			return true;
		}
	for (size_t i = 0; i < r->node_count; i++) {
		const struct registry_node *x = &r->node[i];
		bool self = is_self(s->n, x) && s->locator.len;

		if (!is_named(x, h->text) || (!x->has_srv6 && !self))
			continue;
		*ret = sid_at(self ? &s->locator : &x->srv6, number);
		return true;
	}
	return false;
}

static bool is_own(const struct steering *s, const struct ipaddr *sid)
{
	return s->locator.len && prefix_contains(&s->locator, sid);
}

/* The next hop of a SID, not by a default route. Who may send to SIDs is named by prefixes, too,
 * that have no way of their own: then a shorter one has. */
static bool way_to(const struct steering *s, const struct ipaddr *sid, uint32_t *ret)
{
	const struct prefix any = {0};

	if (!fib_lookup(s->snap->mesh_source, sid, &s->out->source, ret))
		return false;
	for (uint8_t len = 127; len > 0 && *ret >= s->snap->s.next_hop_count; len--) {
		struct prefix p = prefix_of(sid, len);

		(void)fib_find(s->snap->fib, &p, &any, ret);
	}
	return *ret < s->snap->s.next_hop_count;
}

/* The link that a route to the SID leads over; NULL: none. */
static const struct plane_link *link_to(const struct steering *s, const struct ipaddr *sid)
{
	const struct plane_snapshot *p = &s->snap->s;
	uint32_t value;

	if (!way_to(s, sid, &value) || p->next_hop[value].type != PLANE_LINK)
		return NULL;
	return p->link[p->next_hop[value].slot];
}

/* A route leads to the SID, over a link that lives. */
static bool is_reachable(const struct steering *s, const struct ipaddr *sid)
{
	const struct plane_link *l;

	if (is_own(s, sid))
		return true;
	l = link_to(s, sid);
	return l && l->usable;
}

/* ---- candidates ---- */

/* The segments of a candidate, own ones left out at the front. False: a name has no SID. */
static bool segments_of(const struct steering *s, const struct conf_candidate *c,
	struct node_policy *p)
{
	struct ipaddr sid;

	p->segment_count = 0;
	for (size_t i = 0; i < c->via_count + (c->exit.text != NULL); i++) {
		bool via = i < c->via_count;

		if (!resolve(s, via ? &c->via[i] : &c->exit, via ? SID_END : SID_EXIT, &sid))
			return false;
		if (p->segment_count || !is_own(s, &sid))
			p->segment[p->segment_count++] = sid;
	}
	return true;
}

static bool all_reachable(const struct steering *s, const struct node_policy *p)
{
	for (uint32_t i = 0; i < p->segment_count; i++)
		if (!is_reachable(s, &p->segment[i]))
			return false;
	return p->segment_count > 0;
}

/* Whether these links live is what the choice depends on, also while nothing is steered. */
static void mark_links(const struct steering *s, const struct node_policy *p)
{
	for (uint32_t i = 0; i < p->segment_count; i++) {
		const struct plane_link *l = link_to(s, &p->segment[i]);

		if (l && s->n->slot[l->slot])
			s->n->slot[l->slot]->chosen_by = s->snap->s.generation;
	}
}

static void choose(const struct steering *s, const struct conf_policy *c, struct node_policy *p)
{
	bool resolved = false;

	for (size_t i = 0; i < c->candidate_count; i++) {
		if (!segments_of(s, &c->candidate[i], p))
			continue;
		resolved = true;
		if (all_reachable(s, p)) {
			p->candidate = (int)i;
			p->status = NODE_POLICY_ACTIVE;
			mark_links(s, p);
			return;
		}
	}
	p->candidate = -1;
	p->segment_count = 0;
	p->status = resolved ? NODE_POLICY_FALLBACK : NODE_POLICY_UNRESOLVED;
}

/* ---- policies over time ---- */

static struct node_policy *find_policy(const struct node *n, const char *name)
{
	for (struct hash_node *h = hash_find(&n->policy_names, name, strlen(name)); h;
		h = hash_next(h)) {
		struct node_policy *p = container_of(h, struct node_policy, hash);

		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

static struct node_policy *make_policy(struct node *n, const char *name)
{
	struct node_policy *p = w_calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->node = n;
	p->name = w_strdup(name);
	if (!p->name || hash_add(&n->policy_names, &p->hash, name, strlen(name)) < 0) {
		w_free(p->name);
		w_free(p);
		return NULL;
	}
	list_add_tail(&n->policies, &p->list);
	return p;
}

static void free_unused(struct node_policy *p)
{
	if (p->wanted || p->snapshots)
		return;
	hash_del(&p->node->policy_names, &p->hash);
	list_del(&p->list);
	w_free(p->name);
	w_free(p);
}

static void sweep(struct node *n)
{
	list_for_each_safe (it, &n->policies) {
		struct node_policy *p = container_of(it, struct node_policy, list);

		p->wanted = p->wanted_next;
		free_unused(p);
	}
}

int node_steer_init(struct node *n)
{
	uint8_t key[16];
	int err = rng_fill(&n->rng, key, sizeof(key));

	return err < 0 ? err : hash_init(&n->policy_names, key);
}

void node_steer_free(struct node *n)
{
	list_for_each (it, &n->policies)
		container_of(it, struct node_policy, list)->wanted_next = false;
	sweep(n);
	hash_done(&n->policy_names);
}

void node_steer_release(struct node_snapshot *snap)
{
	for (size_t i = 0; i < snap->policies; i++) {
		snap->policy[i]->snapshots--;
		free_unused(snap->policy[i]);
	}
	policy_free(snap->rules);
	srv6_table_free(snap->localsid);
	fib_free(snap->sid_space);
	fib_free(snap->mesh_source);
	fib_free(snap->exit_allow);
}

static bool build_steer(const struct steering *s, const struct conf_policy *c,
	struct node_policy *p, struct plane_steer *out)
{
	bool was_direct = p->direct;
	struct srv6_steer_config sc = {
		.source = s->out->source,
		.segment = p->segment,
		.mode = s->n->config->srv6.encap_full ? SRV6_ENCAPS : SRV6_ENCAPS_RED,
		.linux_compat = s->n->config->srv6.linux_compat,
		.copy_dscp = s->n->config->underlay.copy_dscp,
	};
	struct srv6_steer *push = arena_alloc(s->snap->arena, sizeof(*push));

	if (!push)
		return false;
	choose(s, c, p);
	sc.count = p->segment_count;
	/* A SID that cannot be one takes its policy down, not the others. */
	if (p->status == NODE_POLICY_ACTIVE && srv6_steer_build(&sc, push) < 0) {
		p->candidate = -1;
		p->segment_count = 0;
		p->status = NODE_POLICY_UNRESOLVED;
	}
	p->direct = p->status != NODE_POLICY_ACTIVE && c->direct;
	s->n->kernel_dirty |= p->direct != was_direct;
	out->state = &p->s;
	out->type = p->direct ? PLANE_STEER_DIRECT : PLANE_STEER_DROP;
	if (p->status != NODE_POLICY_ACTIVE)
		return true;
	out->type = PLANE_STEER_PUSH;
	out->push = push;
	return true;
}

static bool build_policies(const struct steering *s)
{
	const struct config *c = s->n->config;
	struct node_snapshot *snap = s->snap;
	struct policy_rule *rule = arena_calloc(snap->arena, c->policy_count, sizeof(*rule));
	struct plane_steer *steer = arena_calloc(snap->arena, c->policy_count, sizeof(*steer));

	snap->policy = arena_calloc(snap->arena, c->policy_count, sizeof(struct node_policy *));
	if (!rule || !steer || !snap->policy)
		return false;
	for (size_t i = 0; i < c->policy_count; i++) {
		const struct conf_policy *want = &c->policy[i];
		struct node_policy *p = find_policy(s->n, want->name);

		if (!p && !(p = make_policy(s->n, want->name)))
			return false;
		p->wanted_next = true;
		p->snapshots++;
		snap->policy[snap->policies++] = p;
		if (!build_steer(s, want, p, &steer[i]))
			return false;
		strncpy(rule[i].name, want->name, sizeof(rule[i].name) - 1);
		rule[i].source = want->source;
		rule[i].destination = want->destination;
		rule[i].steer = (uint32_t)i;
	}
	s->out->steer = steer;
	s->out->steer_count = (uint32_t)c->policy_count;
	if (c->policy_count && policy_build(rule, c->policy_count, &snap->rules) < 0)
		return false;
	s->out->policy = snap->rules;
	return true;
}

/* ---- own SIDs, and sets ---- */

static bool build_localsid(const struct steering *s)
{
	const struct ipaddr exit = sid_at(&s->locator, SID_EXIT),
			    end = sid_at(&s->locator, SID_END),
			    exit6 = sid_at(&s->locator, SID_EXIT6),
			    exit4 = sid_at(&s->locator, SID_EXIT4);
	const struct srv6_localsid own[] = {
		{prefix_of(&exit, 128), SRV6_END_DT46, PLANE_TABLE_HOST},
		{prefix_of(&end, 128), SRV6_END, PLANE_TABLE_MESH},
		{prefix_of(&exit6, 128), SRV6_END_DT6, PLANE_TABLE_HOST},
		{prefix_of(&exit4, 128), SRV6_END_DT4, PLANE_TABLE_HOST},
	};

	if (!s->locator.len)
		return true;
	if (srv6_table_build(own, sizeof(own) / sizeof(own[0]), &s->snap->localsid) < 0)
		return false;
	s->out->localsid = s->snap->localsid;
	return true;
}

/* Equal prefixes stand side by side. */
static int compare_entries(const void *a, const void *b)
{
	const struct fib_entry *x = a, *y = b;
	int r = prefix_compare(&x->destination, &y->destination);

	return r ? r : (x->value > y->value) - (x->value < y->value);
}

static bool build_set(struct fib_entry *e, size_t n, struct fib **ret)
{
	size_t kept = 0;

	qsort(e, n, sizeof(*e), compare_entries);
	for (size_t i = 0; i < n; i++)
		if (!kept || !prefix_equal(&e[kept - 1].destination, &e[i].destination))
			e[kept++] = e[i];
	return fib_build(e, kept, ret) == 0;
}

static void add_sids(struct fib_entry *e, size_t *n, const struct prefix *locator)
{
	for (uint8_t i = 1; i <= SIDS_OWN; i++) {
		struct ipaddr sid = sid_at(locator, i);

		e[(*n)++].destination = prefix_of(&sid, 128);
	}
}

static bool build_sid_space(const struct steering *s)
{
	const struct config *c = s->n->config;
	const struct registry *r = s->n->registry;
	size_t max = SIDS_OWN * (r->node_count + 1) + c->srv6.sid_count, n = 0;
	struct fib_entry *e = arena_calloc(s->snap->arena, max, sizeof(*e));

	if (!e)
		return false;
	if (s->locator.len)
		add_sids(e, &n, &s->locator);
	for (size_t i = 0; i < r->node_count; i++)
		if (r->node[i].has_srv6)
			add_sids(e, &n, &r->node[i].srv6);
	for (size_t i = 0; i < c->srv6.sid_count; i++)
		e[n++].destination = prefix_of(&c->srv6.sid[i].sid, 128);
	if (!build_set(e, n, &s->snap->sid_space))
		return false;
	s->out->sid_space = s->snap->sid_space;
	return true;
}

static bool build_exit(const struct steering *s)
{
	const struct config *c = s->n->config;
	struct fib_entry *e = arena_calloc(s->snap->arena, c->exit.allow_count, sizeof(*e));

	if (!e)
		return false;
	for (size_t i = 0; i < c->exit.allow_count; i++)
		e[i].destination = c->exit.allow[i];
	if (!build_set(e, c->exit.allow_count, &s->snap->exit_allow))
		return false;
	s->out->exit_allow = s->snap->exit_allow;
	return true;
}

/* ---- the whole ---- */

static struct ipaddr source_of(const struct steering *s)
{
	const struct config *c = s->n->config;

	if (c->srv6.source.family != IP_NONE)
		return c->srv6.source;
	if (s->locator.len)
		return sid_at(&s->locator, SID_EXIT);
	for (size_t i = 0; i < c->tun.address_count; i++)
		if (c->tun.address[i].ip.family == IP6)
			return c->tun.address[i].ip;
	return (struct ipaddr){0};
}

bool node_steers(const struct node *n)
{
	if (n->config->policy_count || n->config->srv6.locator.len || n->config->srv6.sid_count)
		return true;
	for (size_t i = 0; i < n->registry->node_count; i++)
		if (n->registry->node[i].has_srv6)
			return true;
	return false;
}

bool node_steer_build(struct node *n, struct node_snapshot *snap)
{
	struct steering s = {.n = n, .snap = snap};
	bool done = true;

	list_for_each (it, &n->policies)
		container_of(it, struct node_policy, list)->wanted_next = false;
	if (node_steers(n)) {
		s.out = arena_alloc(snap->arena, sizeof(*s.out));
		if (!s.out)
			return false;
		(void)node_locator(n, &s.locator);
		s.out->source = source_of(&s);
		s.out->refuse_hmac = n->config->srv6.refuse_hmac;
		s.out->mesh_source = snap->mesh_source;
		done = build_localsid(&s) && build_sid_space(&s) && build_exit(&s) &&
			build_policies(&s);
		snap->s.srv6 = s.out;
	}
	if (done)
		sweep(n);
	return done;
}

bool node_policy_direct(const struct node *n, const struct conf_policy *c)
{
	const struct node_policy *p = find_policy(n, c->name);

	return p && p->direct;
}

const struct node_policy *node_policy_of(const struct node *n, const struct ipaddr *dst,
	const struct ipaddr *src, struct ipaddr *ret_source)
{
	const struct node_snapshot *snap = container_of(n->snapshots.prev, struct node_snapshot,
		list);
	const struct policy_rule *r;

	if (list_empty(&n->snapshots) || !snap->rules)
		return NULL;
	r = policy_find(snap->rules, dst, src);
	if (!r)
		return NULL;
	*ret_source = snap->s.srv6->source;
	return snap->policy[r->steer];
}

bool node_is_sid(const struct node *n, const struct ipaddr *a)
{
	const struct node_snapshot *snap = container_of(n->snapshots.prev, struct node_snapshot,
		list);
	uint32_t value;

	return !list_empty(&n->snapshots) && snap->sid_space &&
		fib_lookup(snap->sid_space, a, a, &value);
}

static uint64_t count(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void prefix_or_null(struct json *j, const char *key, const struct prefix *p)
{
	char text[PREFIX_TEXT];

	json_string(j, key, p->addr.family != IP_NONE ? prefix_format(p, text) : NULL);
}

static void policy_object(const struct node *n, const struct conf_policy *c, struct json *j)
{
	static const char *const status[] = {"unresolved", "fallback", "active"};
	const struct node_policy *p = find_policy(n, c->name);
	char text[ADDR_TEXT];

	if (!p)
		return; /* no snapshot could be made with it yet */
	json_object(j, NULL);
	json_string(j, "name", c->name);
	prefix_or_null(j, "source", &c->source);
	prefix_or_null(j, "destination", &c->destination);
	if (p->candidate >= 0)
		json_int(j, "candidate", p->candidate);
	else
		json_null(j, "candidate");
	json_array(j, "segments");
	for (uint32_t i = 0; i < p->segment_count; i++)
		json_string(j, NULL, ipaddr_format(&p->segment[i], text));
	json_array_end(j);
	json_string(j, "state", status[p->status]);
	json_string(j, "fallback", c->direct ? "direct" : "drop");
	json_uint(j, "packets", count(&p->s.packets));
	json_uint(j, "bytes", count(&p->s.bytes));
	json_uint(j, "dropped", count(&p->s.dropped));
	json_object_end(j);
}

void node_policies_reply(struct node *n, struct json *j)
{
	json_array(j, "policies");
	for (size_t i = 0; i < n->config->policy_count; i++)
		policy_object(n, &n->config->policy[i], j);
	json_array_end(j);
}
