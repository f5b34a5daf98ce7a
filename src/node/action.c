/* What the node asks the outside to do, queued in order. */
#include "node/node_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"

bool node_queue(struct node *n, const struct node_action *a, const void *data, size_t len)
{
	struct node_queued *q = w_calloc(1, sizeof(*q));

	if (!q || (len && !(q->data = w_memdup(data, len)))) {
		w_free(q);
		n->out_of_memory++;
		return false;
	}
	q->action = *a;
	list_add_tail(&n->actions, &q->list);
	return true;
}

bool node_to_plane(struct node *n, const struct plane_down *m)
{
	struct node_action a = {.type = NODE_ACTION_PLANE, .plane = *m};

	return node_queue(n, &a, NULL, 0);
}

void node_log(struct node *n, enum conf_log level, const char *fmt, ...)
{
	char text[512];
	struct node_action a = {.type = NODE_ACTION_LOG, .log = {.level = level}};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (node_queue(n, &a, text, strlen(text) + 1)) {
		struct node_queued *q = container_of(n->actions.prev, struct node_queued, list);

		q->action.log.text = q->data;
	}
}

void node_seal(struct node *n, const struct node_action *a, struct view packet)
{
	if (node_queue(n, a, packet.p, packet.n)) {
		struct node_queued *q = container_of(n->actions.prev, struct node_queued, list);

		q->action.plane.data = view_of(q->data, packet.n);
	}
}

void node_reply(struct node *n, uint32_t id, struct view text)
{
	struct node_action a = {.type = NODE_ACTION_REPLY, .reply = {.id = id}};

	if (node_queue(n, &a, text.p, text.n)) {
		struct node_queued *q = container_of(n->actions.prev, struct node_queued, list);

		q->action.reply.text = view_of(q->data, text.n);
	}
}

static void release_given(struct node *n)
{
	if (!n->given)
		return;
	w_free(n->given->data);
	w_free(n->given);
	n->given = NULL;
}

static bool queued_next(struct node *n, struct node_action *ret)
{
	if (list_empty(&n->actions))
		return false;
	n->given = container_of(n->actions.next, struct node_queued, list);
	list_del(&n->given->list);
	*ret = n->given->action;
	return true;
}

/* The socket for a local endpoint: its port and family, and its address where two share a port. */
static bool socket_for(const struct node *n, const struct endpoint *local, uint16_t *ret)
{
	for (size_t i = 0; i < n->socket_count; i++) {
		const struct node_socket *s = &n->socket[i];

		if (s->wanted && s->port == local->port && s->family == local->ip.family &&
			(s->address.family == IP_NONE || ipaddr_equal(&s->address, &local->ip))) {
			*ret = (uint16_t)i;
			return true;
		}
	}
	return false;
}

/* The next IKE datagram, the non-ESP marker in front (RFC 3948 2.2). */
static bool ike_next(struct node *n, struct node_action *ret)
{
	struct ike_datagram d;

	while (ike_output(n->ike, &d)) {
		struct endpoint local = d.local;
		uint16_t socket;

		if (local.ip.family == IP_NONE)
			local.ip.family = d.remote.ip.family;
		if (!socket_for(n, &local, &socket) || node_path_excluded(n, &d.remote.ip))
			continue;
		buf_free(&n->datagram);
		buf_add(&n->datagram, "\0\0\0\0", 4);
		buf_add(&n->datagram, d.data.p, d.data.n);
		if (n->datagram.failed) {
			buf_free(&n->datagram);
			n->out_of_memory++;
			continue;
		}
		*ret = (struct node_action){.type = NODE_ACTION_UDP};
		ret->udp.socket = socket;
		ret->udp.local = d.local;
		if (ipaddr_is_unspecified(&d.local.ip))
			ret->udp.local.ip = (struct ipaddr){0};
		ret->udp.remote = d.remote;
		ret->udp.data = buf_view(&n->datagram);
		return true;
	}
	return false;
}

/* The kernel's state, which is told as a whole: the longer it is, the rarer. */
static void kernel_next(struct node *n)
{
	struct node_action a = {.type = NODE_ACTION_KERNEL};

	if (!n->kernel_dirty || !wtime_due(n->kernel_at, n->now))
		return;
	n->kernel_dirty = false;
	n->kernel_at = wtime_add(n->now, (int64_t)n->rib.count * NODE_KERNEL_US);
	n->kernel_late = !node_kernel_build(n) || !node_queue(n, &a, NULL, 0);
}

bool node_action_next(struct node *n, struct node_action *ret)
{
	release_given(n);
	if (queued_next(n, ret))
		return true;
	if (n->snapshot_dirty && !n->stopping)
		node_snapshot_send(n);
	if (queued_next(n, ret))
		return true;
	if (n->links_late && !n->stopping) { /* when the plane goes round them already */
		node_speaker_late(n, n->now);
		if (n->snapshot_dirty)
			node_snapshot_send(n);
	}
	kernel_next(n);
	if (queued_next(n, ret))
		return true;
	return ike_next(n, ret);
}
