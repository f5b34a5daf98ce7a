/* The way that a link's datagrams take through the underlay, as the outside tells it: an interface
 * that may not be used ends the link's tries; the interface's MTU bounds its datagrams. */
#include "node/node_priv.h"

#include <stdio.h>

enum {
	MTU_LEAST4 = 576, /* RFC 791: what every host takes */
	MTU_LEAST6 = 1280,
	MTU_MOST = 1500,
	HEADERS4 = 28, /* IP and UDP */
	HEADERS6 = 48,
};

uint32_t node_path_headers(const struct node_link *l)
{
	return l->family == IP4 ? HEADERS4 : HEADERS6;
}

uint32_t node_path_least(const struct node_link *l)
{
	return l->family == IP4 ? MTU_LEAST4 : MTU_LEAST6;
}

uint16_t node_link_datagram(const struct node_link *l)
{
	uint32_t mtu = MTU_MOST;

	if (l->pmtu.proven) {
		mtu = l->pmtu.good;
	} else {
		if (l->path_mtu && l->path_mtu < mtu)
			mtu = l->path_mtu;
		if (l->path_hint && l->path_hint < mtu)
			mtu = l->path_hint;
	}
	if (mtu < node_path_least(l))
		mtu = node_path_least(l);
	return (uint16_t)(mtu - node_path_headers(l));
}

void node_path_ask(struct node *n, struct node_link *l, wtime now)
{
	struct node_action a = {.type = NODE_ACTION_PATH};

	l->path_at = wtime_add(now, NODE_PATH_US);
	if (l->remote.ip.family == IP_NONE)
		return;
	a.path.id = l->conn;
	a.path.socket = l->socket;
	a.path.remote = l->remote.ip;
	(void)node_queue(n, &a, NULL, 0);
}

void node_paths_changed(struct node *n, wtime now)
{
	if (n->stopping)
		return;
	list_for_each (it, &n->links)
		node_path_ask(n, container_of(it, struct node_link, list), now);
}

bool node_path_excluded(const struct node *n, const struct ipaddr *remote)
{
	if (n->excluded == 0)
		return false;
	list_for_each (it, &n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);

		if (l->excluded && ipaddr_equal(&l->remote.ip, remote))
			return true;
	}
	return false;
}

static void path_exclude(struct node *n, struct node_link *l, const char *interface, wtime now)
{
	l->excluded = true;
	n->excluded++;
	(void)ike_conn_down(n->ike, l->conn, now);
	node_ike_events(n, now);
	(void)snprintf(l->reason, sizeof(l->reason),
		"its remote address is routed through %.20s, which the configuration excludes",
		interface);
	node_log(n, CONF_LOG_WARNING, "link %s: not tried: %s", l->text, l->reason);
}

static void path_include(struct node *n, struct node_link *l, wtime now)
{
	l->excluded = false;
	n->excluded--;
	l->reason[0] = 0;
	l->resolve_at = now;
	if (!l->admin_down)
		(void)ike_conn_up(n->ike, l->conn, now);
	node_ike_events(n, now);
}

void node_path(struct node *n, uint32_t id, const struct node_path *p, wtime now)
{
	struct node_link *l = node_link_by_conn(n, id);
	uint16_t before;

	if (!l || n->stopping)
		return;
	before = node_link_datagram(l);
	if (p->mtu)
		l->path_mtu = p->mtu;
	l->path_hint = p->hint;
	if (l->pmtu.proven && p->hint && p->hint < l->pmtu.good)
		pmtu_doubt(&l->pmtu);
	if (node_link_datagram(l) != before) {
		node_log(n, CONF_LOG_INFO, "link %s: the path's MTU is %u", l->text,
			node_link_datagram(l) + node_path_headers(l));
		n->snapshot_dirty = true;
	}
	if (p->excluded && !l->excluded)
		path_exclude(n, l, p->interface, now);
	else if (!p->excluded && l->excluded)
		path_include(n, l, now);
}
