/* The control thread: reports of the plane to the node, deadlines, and what the node asks for.
 *
 * Each turn takes the reports before it looks at the clock's deadlines: after a stall, what arrived
 * in time is heard before anything is declared dead. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "os/clock.h"

void engine_log_lines(const struct engine *e, enum os_level level, const struct buf *text)
{
	struct cur c = cur_of(text->p, text->n);

	while (c.n > 0) {
		const uint8_t *end = memchr(c.p, '\n', c.n);
		struct view v = cur_take(&c, end ? (size_t)(end - c.p) : c.n);

		cur_skip(&c, end ? 1 : 0);
		if (v.n)
			os_log_printf(&e->config.log, level, "%.*s", (int)v.n, (const char *)v.p);
	}
}

/* ---- down ---- */

static bool down_write(struct engine *e, uint32_t plane, const void *bytes, size_t n)
{
	uint8_t *p = ring_reserve(&e->plane[plane]->down, n);

	if (!p)
		return false;
	memcpy(p, bytes, n);
	ring_commit(&e->plane[plane]->down);
	e->written |= UINT32_C(1) << plane;
	return true;
}

static void down_wake(struct engine *e)
{
	for (uint32_t i = 0; e->written && i < e->planes; i++)
		if (e->written & UINT32_C(1) << i)
			engine_plane_wake(e->plane[i]);
	e->written = 0;
}

static void down_retry(struct engine *e, uint32_t plane)
{
	list_for_each_safe (it, &e->pending[plane]) {
		struct engine_pending *q = container_of(it, struct engine_pending, list);

		if (!down_write(e, plane, q->bytes, q->n))
			return;
		list_del(it);
		w_free(q);
	}
}

void engine_down_retry(struct engine *e)
{
	for (uint32_t i = 0; i < e->planes; i++)
		down_retry(e, i);
	down_wake(e);
}

bool engine_down_waits(const struct engine *e)
{
	for (uint32_t i = 0; i < e->planes; i++)
		if (!list_empty(&e->pending[i]))
			return true;
	return false;
}

static int down_to(struct engine *e, uint32_t plane, const struct engine_down *m)
{
	size_t data = m->type == ENGINE_DOWN_PLANE ? m->plane.data.n : 0;
	struct engine_pending *q = w_alloc(sizeof(*q) + sizeof(*m) + data);

	if (!q)
		return -ENOMEM;
	q->n = sizeof(*m) + data;
	memcpy(q->bytes, m, sizeof(*m));
	if (data)
		memcpy(q->bytes + sizeof(*m), m->plane.data.p, data);
	list_add_tail(&e->pending[plane], &q->list);
	down_retry(e, plane);
	return 0;
}

int engine_down_to(struct engine *e, uint32_t plane, const struct engine_down *m)
{
	int r = down_to(e, plane, m);

	down_wake(e);
	return r;
}

/* Which plane a message is for; -1: all. An echo goes its way from any of them. */
static int down_whose(const struct engine *e, const struct engine_down *m)
{
	if (m->type != ENGINE_DOWN_PLANE)
		return -1;
	switch (m->plane.type) {
	case PLANE_DOWN_LINK_ADD:
	case PLANE_DOWN_LINK_REMOVE:
	case PLANE_DOWN_SA_OUTBOUND:
	case PLANE_DOWN_SEAL:
		return (int)(m->plane.slot % e->planes);
	case PLANE_DOWN_SA_ADD:
	case PLANE_DOWN_SA_REMOVE:
		return m->plane.sa ? (int)(m->plane.sa->slot % e->planes) : 0;
	case PLANE_DOWN_ECHO:
		return 0;
	default:
		return -1;
	}
}

static int down(struct engine *e, const struct engine_down *m)
{
	int whose = down_whose(e, m), r = 0;

	if (whose >= 0)
		return down_to(e, (uint32_t)whose, m);
	for (uint32_t i = 0; r == 0 && i < e->planes; i++)
		r = down_to(e, i, m);
	return r;
}

int engine_down(struct engine *e, const struct engine_down *m)
{
	int r = down(e, m);

	down_wake(e);
	return r;
}

/* ---- up ---- */

/* A plane let go of what all were given, each in the same order: true when it was the last. */
static bool up_last(const struct engine *e, uint64_t *gone, uint32_t plane)
{
	uint64_t mine = ++gone[plane];

	for (uint32_t i = 0; i < e->planes; i++)
		if (gone[i] < mine)
			return false;
	return true;
}

static void up_one(struct engine *e, uint32_t plane, const uint8_t *p)
{
	struct engine_up m;

	memcpy(&m, p, sizeof(m));
	switch (m.type) {
	case ENGINE_UP_PLANE:
		if (m.plane.type == PLANE_UP_SNAPSHOT_GONE && !up_last(e, e->snapshots_gone, plane))
			break;
		m.plane.data.p = p + sizeof(m);
		node_plane_up(e->node, &m.plane, os_now());
		break;
	case ENGINE_UP_SOCKETS_GONE:
		if (up_last(e, e->sockets_gone, plane))
			engine_sockets_gone(e, m.sockets);
		break;
	case ENGINE_UP_TOO_LONG:
		e->underlay_changed = true;
		break;
	case ENGINE_UP_LOG:
		os_log_line(&e->config.log, m.level, m.text);
		break;
	case ENGINE_UP_TUN_GONE:
		engine_tun_gone(e, m.tun);
		break;
	case ENGINE_UP_TUN_LET_GO:
		e->config.net->tun_close(m.tun);
		break;
	}
}

/* True when nothing is left of a plane. */
static bool up_drain_one(struct engine *e, uint32_t plane)
{
	struct engine_plane *t = e->plane[plane];
	struct ring *rings[] = {&t->facts, &t->known, &t->unknown};

	for (size_t i = 0; i < sizeof(rings) / sizeof(*rings); i++) {
		uint8_t *p;
		size_t n;

		for (int j = 0; (p = ring_peek(rings[i], &n)); j++) {
			if (j == ENGINE_UP_MESSAGES)
				return false;
			up_one(e, plane, p);
			ring_consume(rings[i]);
		}
	}
	return true;
}

static bool up_drain(struct engine *e)
{
	bool all = true;

	for (uint32_t i = 0; i < e->planes; i++)
		all &= up_drain_one(e, i);
	return all;
}

/* ---- actions ---- */

static void resolved(void *ctx, uint32_t id, const struct ipaddr *address, size_t count)
{
	struct engine *e = ctx;

	node_resolved(e->node, id, address, count, os_now());
}

static void action_resolve(struct engine *e, const struct node_action *a)
{
	struct os_resolve what = {.name = a->resolve.name,
		.family = a->resolve.family,
		.id = a->resolve.id,
		.fn = resolved,
		.ctx = e};

	if (os_resolve(e->loop, &what) < 0)
		node_resolved(e->node, a->resolve.id, NULL, 0, os_now());
}

static void action_plane(struct engine *e, const struct node_action *a)
{
	struct engine_down m = {.type = ENGINE_DOWN_PLANE, .plane = a->plane};

	if (down(e, &m) == 0)
		return;
	/* Node and plane would disagree from here on: a clean start is the only way back. */
	os_log_line(&e->config.log, OS_ERROR, "out of memory for a message to the data path");
	e->failed = -ENOMEM;
	os_loop_stop(e->loop);
}

static void action_one(struct engine *e, const struct node_action *a)
{
	switch (a->type) {
	case NODE_ACTION_UDP:
		engine_send(e, a);
		break;
	case NODE_ACTION_PLANE:
		action_plane(e, a);
		break;
	case NODE_ACTION_SOCKETS:
		engine_sockets_update(e);
		break;
	case NODE_ACTION_KERNEL:
		if (e->stopping)
			break;
		engine_kernel(e);
		engine_host_picks(e);
		break;
	case NODE_ACTION_RESOLVE:
		action_resolve(e, a);
		break;
	case NODE_ACTION_PATH:
		engine_path(e, a);
		break;
	case NODE_ACTION_SCRIPTS:
		engine_updown_scripts(e, a);
		break;
	case NODE_ACTION_UPDOWN:
		engine_updown_run(e, a);
		break;
	case NODE_ACTION_REPLY:
		engine_reply(e, a);
		break;
	case NODE_ACTION_LOG:
		os_log_line(&e->config.log, (enum os_level)a->log.level, a->log.text);
		break;
	}
}

/* Many messages in a row to a plane wake it once: the hellos to all neighbours are sent together.
 * It does not wait for what may take longer than a message. */
static void actions(struct engine *e)
{
	struct node_action a;

	while (e->failed == 0 && node_action_next(e->node, &a)) {
		if (a.type != NODE_ACTION_PLANE)
			down_wake(e);
		action_one(e, &a);
	}
	down_wake(e);
}

void engine_turn(struct engine *e)
{
	wtime now, deadline;
	bool drained;

	engine_down_retry(e);
	drained = up_drain(e);
	now = os_now();
	if (e->addresses_changed && !e->stopping && wtime_due(e->addresses_at, now)) {
		e->addresses_changed = false;
		e->addresses_at = wtime_add(now, ENGINE_ADDRESSES_US);
		node_addresses_changed(e->node, now);
		engine_kernel(e);
		if (os_netlink_changes(e->netlink))
			e->mended_at = now;
		engine_sockets_update(e);
		e->underlay_changed = true;
	}
	engine_underlay(e, now);
	engine_tun(e, now);
	engine_host(e, now);
	engine_restore(e, now);
	engine_exit(e, now);
	actions(e); /* a new link's way is known before its first datagram is made */
	if (drained && wtime_due(node_deadline(e->node), now))
		node_tick(e->node, now);
	actions(e);
	if (!drained || engine_down_waits(e))
		os_wake_up(e->wake); /* once more, before it sleeps */
	deadline = wtime_min(node_deadline(e->node), wtime_min(e->restore_at, e->nat_at));
	if (e->addresses_changed)
		deadline = wtime_min(deadline, e->addresses_at);
	if (e->underlay_changed)
		deadline = wtime_min(deadline, e->underlay_at);
	if (e->host_changed && !e->tun_lost)
		deadline = wtime_min(deadline, e->host_at);
	if (e->tun_lost)
		deadline = wtime_min(deadline, e->tun_at);
	if (e->timer && deadline.us != e->timer_at.us) {
		e->timer_at = deadline;
		os_timer_set(e->timer, deadline);
	}
}

/* ---- kernel state ---- */

/* What is not as it should be is tried again: no event tells when the kernel would take it. Said
 * once, however often it fails. */
static void kernel_refused(struct engine *e, struct buf *lines)
{
	if (!view_equal(buf_view(lines), buf_view(&e->kernel_error)))
		engine_log_lines(e, OS_ERROR, lines);
	buf_free(&e->kernel_error);
	e->kernel_error = *lines;
	*lines = (struct buf){0};
	e->kernel_refused = true;
	if (e->restore_at.us == WTIME_NEVER.us)
		e->restore_at = wtime_add(os_now(), ENGINE_RETRY_US);
}

static void tell_place(struct engine *e, const struct kernel_state *want)
{
	uint32_t at = os_netlink_priority(e->netlink);

	if (at == want->rule_priority)
		at = 0;
	if (at != e->rules_at)
		os_log_printf(&e->config.log, OS_INFO,
			at ? "another tunnel's rule takes all packets: the mesh's rules stand in "
			     "front of it, from priority %u on"
			   : "the mesh's rules stand at their place again, from priority %u on",
			at ? at : want->rule_priority);
	e->rules_at = at;
}

void engine_kernel(struct engine *e)
{
	const struct kernel_state *want = node_kernel(e->node);
	struct buf lines = {0}, warnings = {0};
	int r;

	if (e->tun_lost)
		return; /* all of it, once there is a device again */
	e->kernel_refused = false;
	r = os_netlink_apply(e->netlink, want, &lines);
	if (r == -ENODEV && !e->starting) {
		engine_tun_gone(e, e->tun);
		buf_free(&lines);
		return;
	}
	if (e->restore_at.us != WTIME_NEVER.us)
		e->restore_changes += os_netlink_changes(e->netlink);
	/* A filter that is not replaced lets less through: then restoring comes later. */
	if (e->kernel_watch && os_kernel_watch_update(e->kernel_watch) < 0)
		buf_add_str(&lines, "changes of rules and routes cannot be watched any more\n");
	if (r < 0 && e->starting) {
		buf_add(&e->error, lines.p, lines.n);
		e->failed = r;
	} else if (r < 0) {
		kernel_refused(e, &lines);
	} else {
		buf_free(&e->kernel_error);
		buf_add(&warnings, lines.p, lines.n);
	}
	tell_place(e, want);
	os_reverse_path_check(e->underlay_netns, want, &warnings);
	r = os_rules_check(e->netlink, want, &warnings);
	if (r < 0)
		buf_printf(&warnings, "the rules of others cannot be read: %s\n", strerror(-r));
	/* Said once, not at every change of an address. */
	if (!view_equal(buf_view(&warnings), buf_view(&e->warn_kernel)))
		engine_log_lines(e, OS_WARNING, &warnings);
	buf_free(&lines);
	buf_free(&e->warn_kernel);
	e->warn_kernel = warnings;
	engine_exit_apply(e);
}
