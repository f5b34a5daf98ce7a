/* Configuration and registry -> sockets and links, as a difference: what did not change keeps its
 * SAs. */
#include "node/node_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"

static bool equal_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* ---- sockets ---- */

static bool same_socket(const struct node *n, size_t i, const struct conf_endpoint *e,
	uint32_t mark)
{
	const struct node_socket *s = &n->socket[i];

	return s->wanted && strcmp(n->socket_serial[i], e->serial) == 0 && s->family == e->family &&
		s->port == e->port && s->fwmark == mark && equal_text(s->interface, e->interface) &&
		ipaddr_equal(&s->address, &e->address);
}

static int grow_sockets(struct node *n)
{
	size_t count = n->socket_count + 1;
	struct node_socket *s = w_realloc(n->socket, count * sizeof(*s));
	char **serial;

	if (!s)
		return -ENOMEM;
	n->socket = s;
	serial = w_realloc(n->socket_serial, count * sizeof(*serial));
	if (!serial)
		return -ENOMEM;
	n->socket_serial = serial;
	n->socket[n->socket_count] = (struct node_socket){0};
	n->socket_serial[n->socket_count] = NULL;
	n->socket_count = count;
	return 0;
}

static int socket_index(struct node *n, const struct conf_endpoint *e, uint32_t mark, size_t *ret)
{
	size_t i;
	int err;

	for (i = 0; i < n->socket_count; i++)
		if (same_socket(n, i, e, mark)) {
			*ret = i;
			return 0;
		}
	for (i = 0; i < n->socket_count && n->socket[i].wanted; i++)
		;
	if (i == UINT16_MAX)
		return -ENOSPC;
	if (i == n->socket_count) {
		err = grow_sockets(n);
		if (err < 0)
			return err;
	}
	w_free(n->socket_serial[i]);
	n->socket_serial[i] = w_strdup(e->serial);
	if (!n->socket_serial[i])
		return -ENOMEM;
	n->socket[i] = (struct node_socket){
		.wanted = true,
		.family = e->family,
		.address = e->address,
		.port = e->port,
		.interface = e->interface, /* lives as long as the configuration that is applied */
		.fwmark = mark,
	};
	*ret = i;
	return 0;
}

static const struct conf_endpoint *find_endpoint(const struct config *c, const char *serial)
{
	for (size_t i = 0; i < c->endpoint_count; i++)
		if (strcmp(c->endpoint[i].serial, serial) == 0)
			return &c->endpoint[i];
	return NULL;
}

static uint32_t mark_of(const struct config *c, const struct conf_endpoint *e)
{
	return e->fwmark ? e->fwmark : c->underlay.fwmark;
}

/* Sockets that the new configuration does not want are given up first, so that a port may move. */
static void give_up_sockets(struct node *n, const struct config *c)
{
	for (size_t i = 0; i < n->socket_count; i++) {
		const struct conf_endpoint *e = n->socket[i].wanted
			? find_endpoint(c, n->socket_serial[i])
			: NULL;

		if (e && same_socket(n, i, e, mark_of(c, e)))
			n->socket[i].interface =
				e->interface; /* the old text goes with its configuration */
		else
			n->socket[i] = (struct node_socket){0};
	}
}

/* The sockets as they were, to go back to when there is no memory for others. */
struct sockets {
	struct node_socket *socket;
	char **serial;
	size_t count;
};

static void sockets_free(const struct sockets *s)
{
	for (size_t i = 0; s->serial && i < s->count; i++)
		w_free(s->serial[i]);
	w_free(s->serial);
	w_free(s->socket);
}

static int sockets_keep(const struct node *n, struct sockets *ret)
{
	struct sockets s = {.count = n->socket_count};
	bool ok;

	s.socket = w_memdup(n->socket, s.count * sizeof(*s.socket));
	s.serial = w_calloc(s.count, sizeof(*s.serial));
	ok = s.socket && s.serial;
	for (size_t i = 0; ok && i < s.count; i++) {
		s.serial[i] = w_strdup(n->socket_serial[i]);
		ok = s.serial[i];
	}
	if (!ok) {
		sockets_free(&s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

static void sockets_restore(struct node *n, const struct sockets *s)
{
	sockets_free(&(struct sockets){n->socket, n->socket_serial, n->socket_count});
	n->socket = s->socket;
	n->socket_serial = s->serial;
	n->socket_count = s->count;
}

/* ---- links ---- */

static struct node_link *find_link(struct node *n, const struct node_link_want *w)
{
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (l->socket == w->socket && strcmp(l->local_serial, w->local->serial) == 0 &&
			strcmp(l->remote_serial, w->remote->serial) == 0 &&
			strcmp(l->name, w->node->name) == 0 &&
			strcmp(l->organization, w->node->organization) == 0 &&
			l->family == w->local->family &&
			memcmp(l->key, w->node->key, sizeof(l->key)) == 0)
			return l;
	}
	return NULL;
}

struct pass {
	struct node *n;
	wtime now;
	struct buf *report;
	bool late; /* there was no memory for something */
	int (*each)(struct pass *p, const struct node_link_want *w);
};

static int mark_kept(struct pass *p, const struct node_link_want *w)
{
	struct node_link *l = find_link(p->n, w);

	if (l)
		l->keep = true;
	return 0;
}

static int make_or_update(struct pass *p, const struct node_link_want *w)
{
	struct node_link *l = find_link(p->n, w);
	int err;

	if (l) {
		/* in the order of the files, as a fresh start would have them */
		list_del(&l->list);
		list_add_tail(&p->n->links, &l->list);
		p->late |= node_link_update(p->n, l, w, p->now, p->report) == -ENOMEM;
		return 0;
	}
	err = node_link_new(p->n, w, p->now, &l);
	p->late |= err == -ENOMEM;
	if (err < 0)
		buf_printf(p->report, "link %s/%s:%s-%s: not made%s: %s\n", w->node->organization,
			w->node->name, w->local->serial, w->remote->serial,
			err == -ENOMEM ? " yet" : "", strerror(-err));
	else
		buf_printf(p->report, "link %s: added\n", l->text);
	return 0;
}

/* Every local endpoint with every remote endpoint of its family. */
static int for_each_want(struct pass *p, const struct config *c, const struct registry *r)
{
	for (size_t i = 0; i < r->node_count; i++) {
		const struct registry_node *node = &r->node[i];

		if (conf_is_self(c, node) || !conf_wants_peer(c, node))
			continue;
		for (size_t k = 0; k < c->endpoint_count; k++)
			for (size_t m = 0; m < node->endpoint_count; m++) {
				struct node_link_want w = {&c->endpoint[k], node,
					&node->endpoint[m], 0};
				size_t socket;
				int err;

				if (w.local->family != w.remote->family)
					continue;
				err = socket_index(p->n, w.local, mark_of(c, w.local), &socket);
				if (err < 0)
					return err;
				w.socket = (uint16_t)socket;
				err = p->each(p, &w);
				if (err < 0)
					return err;
			}
	}
	return 0;
}

static int all_sockets(struct node *n, const struct config *c)
{
	size_t socket;

	for (size_t k = 0; k < c->endpoint_count; k++) {
		int err = socket_index(n, &c->endpoint[k], mark_of(c, &c->endpoint[k]), &socket);

		if (err < 0)
			return err;
	}
	return 0;
}

/* What can fail for want of memory: nothing is changed then. */
static int prepare(struct pass *p, const struct config *c, const struct registry *r)
{
	struct node_action anew = {.type = NODE_ACTION_SOCKETS};
	struct node *n = p->n;
	struct sockets before;
	int err = sockets_keep(n, &before);

	if (err < 0)
		return err;
	list_for_each (it, &n->links)
		container_of(it, struct node_link, list)->keep = false;
	p->each = mark_kept;
	give_up_sockets(n, c);
	err = all_sockets(n, c);
	if (!err)
		err = for_each_want(p, c, r);
	if (!err && !node_queue(n, &anew, NULL, 0))
		err = -ENOMEM;
	if (err < 0)
		sockets_restore(n, &before);
	else
		sockets_free(&before);
	return err;
}

/* Makes and updates all that the configuration wants. */
static void make_all(struct pass *p)
{
	struct node *n = p->n;

	p->each = make_or_update;
	/* its sockets are there, and that was all that can fail */
	p->late |= for_each_want(p, n->config, n->registry) < 0;
	p->late |= node_speaker_apply(n, p->now) < 0;
	n->snapshot_dirty = true;
	n->apply_late = p->late;
}

void node_apply_late(struct node *n, wtime now)
{
	struct buf report = {0};
	struct pass pass = {.n = n, .now = now, .report = &report};

	make_all(&pass);
	buf_free(&report);
}

int node_apply(struct node *n, const struct config *c, const struct registry *r, wtime now,
	struct buf *report)
{
	struct pass pass = {.n = n, .now = now, .report = report};
	int err = prepare(&pass, c, r);

	if (err < 0)
		return err;
	node_scripts(n, n->config == c ? NULL : n->config, c);
	list_for_each_safe (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (!l->keep) {
			buf_printf(report, "link %s: removed\n", l->text);
			node_link_remove(n, l, now);
		}
	}
	n->config = c;
	n->registry = r;
	n->table.anew = true;
	make_all(&pass);
	if (n->apply_late)
		buf_add_str(report,
			"out of memory: what is missing is made as soon as there is some\n");
	node_scripts(n, NULL, c);
	n->kernel_dirty = true;
	n->kernel_at = (wtime){0}; /* who asked for it waits */
	return 0;
}

/* ---- reload ---- */

static int refuse_restart(struct buf *report, const char *what)
{
	buf_printf(report, "%s changed: that needs a restart; nothing was changed\n", what);
	return -EINVAL;
}

static int check_fixed(const struct config *a, const struct config *b, struct buf *report)
{
	if (!equal_text(a->node.organization, b->node.organization) ||
		!equal_text(a->node.name, b->node.name))
		return refuse_restart(report, "node.organization or node.name");
	if (!equal_text(a->node.key, b->node.key))
		return refuse_restart(report, "node.key");
	if (a->node.has_router_id != b->node.has_router_id ||
		memcmp(a->node.router_id, b->node.router_id, sizeof(a->node.router_id)) != 0)
		return refuse_restart(report, "node.router_id");
	if (!equal_text(a->tun.name, b->tun.name) || !equal_text(a->tun.netns, b->tun.netns))
		return refuse_restart(report, "tun.name or tun.netns");
	if (!equal_text(a->underlay.netns, b->underlay.netns) ||
		!equal_text(a->underlay.vrf, b->underlay.vrf))
		return refuse_restart(report, "underlay.netns or underlay.vrf");
	if (!equal_text(a->control.socket, b->control.socket) ||
		!equal_text(a->control.group, b->control.group))
		return refuse_restart(report, "control.socket or control.group");
	if (a->plane.crypto != b->plane.crypto)
		return refuse_restart(report, "plane.crypto");
	if (a->plane.threads != b->plane.threads)
		return refuse_restart(report, "plane.threads");
	if (a->plane.helpers != b->plane.helpers)
		return refuse_restart(report, "plane.helpers");
	if (a->plane.aqm != b->plane.aqm)
		return refuse_restart(report, "plane.aqm");
	if (a->routing.table != b->routing.table ||
		a->routing.default_table != b->routing.default_table ||
		a->routing.policy_table != b->routing.policy_table ||
		a->routing.protocol != b->routing.protocol ||
		a->routing.source_table != b->routing.source_table)
		return refuse_restart(report,
			"routing.table, default_table, policy_table, source_table or protocol");
	return 0;
}

/* The node of the same organization and name; NULL: none. */
static const struct registry_node *find_node(const struct registry *r,
	const struct registry_node *x)
{
	for (size_t i = 0; i < r->node_count; i++)
		if (strcmp(r->node[i].name, x->name) == 0 &&
			strcmp(r->node[i].organization, x->organization) == 0)
			return &r->node[i];
	return NULL;
}

/* A registry that loses more than half of its nodes at once is more likely broken than meant. */
static bool loses_most(const struct registry *old, const struct registry *r)
{
	size_t lost = 0;

	for (size_t i = 0; i < old->node_count; i++)
		lost += !find_node(r, &old->node[i]);
	return lost * 2 > old->node_count;
}

static void dry_report(struct node *n, const struct node_reload *r, struct buf *report)
{
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);
		struct registry_node old = {.organization = l->organization, .name = l->name};
		const struct registry_node *now = find_node(r->registry, &old);

		if (!now || !conf_wants_peer(r->config, now) ||
			!find_endpoint(r->config, l->local_serial))
			buf_printf(report, "link %s: would be removed\n", l->text);
		else if (memcmp(l->key, now->key, sizeof(l->key)) != 0)
			buf_printf(report,
				"link %s: would be made anew: the peer has another key\n", l->text);
	}
	for (size_t i = 0; i < r->registry->node_count; i++) {
		const struct registry_node *x = &r->registry->node[i];

		if (!find_node(n->registry, x) && !conf_is_self(r->config, x) &&
			conf_wants_peer(r->config, x))
			buf_printf(report, "node %s/%s: would be added\n", x->organization,
				x->name);
	}
}

const struct config *node_applied(const struct node *n)
{
	return n->config;
}

static void release(const struct node_reload *r)
{
	config_free((struct config *)(uintptr_t)r->config);
	registry_free((struct registry *)(uintptr_t)r->registry);
}

int node_reload(struct node *n, const struct node_reload *r, wtime now, struct buf *report)
{
	const struct config *old_config = n->config;
	const struct registry *old_registry = n->registry;
	int err = check_fixed(n->config, r->config, report);

	if (!err && !r->force && loses_most(n->registry, r->registry)) {
		buf_add_str(report,
			"the new registry has lost more than half of the nodes; nothing was "
			"changed: use --force when that is meant\n");
		err = -EAGAIN;
	}
	if (!err)
		err = config_diff(n->config, r->config, r->dry_run ? "would change" : "changed",
			report);
	if (err < 0 || r->dry_run) {
		if (!err)
			dry_report(n, r, report);
		release(r);
		return err;
	}
	err = node_apply(n, r->config, r->registry, now, report);
	if (err < 0) {
		buf_free(report); /* what would have changed */
		buf_printf(report, "%s: nothing was changed\n", strerror(-err));
		release(r);
		return err;
	}
	release(&(struct node_reload){.config = old_config, .registry = old_registry});
	return 0;
}
