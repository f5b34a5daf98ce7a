/* The scripts of endpoints: which there are, and what one is told when its link comes up or goes
 * down. The PLUTO_ variables are those of strongSwan's updown scripts that have a meaning here: the
 * mesh has one interface, and no policies of the kernel. */
#include "node/node_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

static void add_scripts(const struct config *c, struct buf *b)
{
	for (size_t i = 0; c && i < c->endpoint_count; i++)
		if (c->endpoint[i].updown)
			buf_add(b, c->endpoint[i].updown, strlen(c->endpoint[i].updown) + 1);
}

void node_scripts(struct node *n, const struct config *old, const struct config *c)
{
	struct node_action a = {.type = NODE_ACTION_SCRIPTS};
	struct buf b = {0};

	add_scripts(old, &b);
	add_scripts(c, &b);
	if (b.failed) {
		n->out_of_memory++;
	} else if ((b.n || n->has_scripts) && node_queue(n, &a, b.p, b.n)) {
		struct node_queued *q = container_of(n->actions.prev, struct node_queued, list);

		n->has_scripts = b.n > 0;
		q->action.scripts = view_of(q->data, b.n);
	}
	buf_free(&b);
}

/* NAME=value and its zero. Control characters in names of a registry become question marks. */
static void add_variable(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, "%s=", name);
	for (const unsigned char *p = (const unsigned char *)value; *p; p++)
		buf_add(b, *p < ' ' || *p == 0x7f ? "?" : (const char *)p, 1);
	buf_add(b, "", 1);
}

static void add_address(struct buf *b, const char *name, const struct ipaddr *a)
{
	char text[ADDR_TEXT] = "";

	if (a->family != IP_NONE && !ipaddr_is_unspecified(a))
		(void)ipaddr_format(a, text);
	add_variable(b, name, text);
}

/* As strongSwan prints an ASN.1 DN. */
static void add_identity(struct buf *b, const char *name, const char *const part[3])
{
	struct buf id = {0};

	buf_printf(&id, "O=%s, CN=%s, serialNumber=%s", part[0], part[1], part[2]);
	if (id.failed)
		b->failed = true;
	else
		add_variable(b, name, (const char *)id.p);
	buf_free(&id);
}

static void add_facts(const struct node *n, const struct node_link *l, bool up, struct buf *b)
{
	const struct config *c = n->config;
	const char *const own[] = {c->node.organization, c->node.name, l->local_serial};
	const char *const peer[] = {l->organization, l->name, l->remote_serial};
	struct buf full = {0};

	add_variable(b, "PLUTO_VERB", up ? "up-client" : "down-client");
	add_variable(b, "PLUTO_CONNECTION", l->text);
	add_variable(b, "PLUTO_INTERFACE", c->tun.name);
	add_address(b, "PLUTO_ME", &l->local.ip);
	add_address(b, "PLUTO_PEER", &l->remote.ip);
	add_identity(b, "PLUTO_MY_ID", own);
	add_identity(b, "PLUTO_PEER_ID", peer);
	add_variable(b, "WEFT_VERB", up ? "up" : "down");
	add_variable(b, "WEFT_LINK", l->text);
	buf_printf(&full, "%s/%s", l->organization, l->name);
	if (full.failed)
		b->failed = true;
	else
		add_variable(b, "WEFT_PEER", (const char *)full.p);
	buf_free(&full);
	add_variable(b, "WEFT_TUN", c->tun.name);
	add_address(b, "WEFT_LINK_LOCAL", &l->own_link_local);
	add_address(b, "WEFT_PEER_LINK_LOCAL", &l->peer_link_local);
}

void node_updown(struct node *n, struct node_link *l, bool up)
{
	struct node_action a = {.type = NODE_ACTION_UPDOWN};
	struct buf b = {0};
	size_t link, script;

	if (!l->updown || l->script_up == up)
		return;
	l->script_up = up;
	buf_add(&b, l->text, strlen(l->text) + 1);
	link = b.n;
	buf_add(&b, l->updown, strlen(l->updown) + 1);
	script = b.n;
	add_facts(n, l, up, &b);
	if (b.failed) {
		n->out_of_memory++;
	} else if (node_queue(n, &a, b.p, b.n)) {
		struct node_queued *q = container_of(n->actions.prev, struct node_queued, list);
		struct cur c = cur_of(q->data, b.n);

		q->action.updown.link = (const char *)cur_take(&c, link).p;
		q->action.updown.script = (const char *)cur_take(&c, script - link).p;
		q->action.updown.env = view_of(c.p, c.n);
	}
	buf_free(&b);
}

int node_updown_set(struct node *n, struct node_link *l, const char *script)
{
	char *copy;

	if (script && l->updown && strcmp(script, l->updown) == 0)
		return 0;
	copy = script ? w_strdup(script) : NULL;
	if (script && !copy)
		return -ENOMEM;
	node_updown(n, l, false);
	w_free(l->updown);
	l->updown = copy;
	if (l->outbound)
		node_updown(n, l, true);
	return 0;
}
