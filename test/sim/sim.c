/* The simulated network, and the loop over virtual time. */
#include "sim.h"
#include "sim_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/mem.h"
#include "esp/esp.h"
#include "wire/icmp.h"

enum { TABLE = 4096, MARKER = 4, PORT = 13000, TUN_FRAME = 2048, HEADERS = 28 };

void sim_must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "simulation: %s\n", what);
		abort();
	}
}

struct ipaddr sim_underlay(unsigned int i)
{
	const uint8_t b[4] = {198, 18, (uint8_t)(i >> 8), (uint8_t)(i + 1)};

	return ipaddr_from(IP4, b);
}

struct endpoint sim_endpoint(unsigned int i)
{
	return (struct endpoint){.ip = sim_underlay(i), .port = PORT};
}

int sim_node_at(const struct sim *s, const struct endpoint *e)
{
	for (unsigned int i = 0; i < s->count; i++)
		if (e->port == PORT && ipaddr_equal(&e->ip, (struct ipaddr[]){sim_underlay(i)}))
			return (int)i;
	return -1;
}

static void note(struct sim *s, const void *p, size_t n)
{
	static const uint8_t key[16] = "fingerprint";
	uint64_t mix[2] = {s->fingerprint, siphash(key, p, n)};

	s->fingerprint = siphash(key, mix, sizeof(mix));
}

static double uniform(struct sim *s)
{
	uint64_t x;

	sim_must(rng_below(&s->rng, UINT64_C(1) << 32, &x) == 0, "random number");
	return (double)x / 4294967296.0;
}

/* ---- the network ---- */

/* How long a datagram waits for a path's rate, its own sending included; -1: the queue is full. */
static int64_t wait_for_rate(struct sim *s, size_t path, uint32_t len)
{
	const struct sim_path *p = &s->path[path];
	wtime begin = wtime_before(s->busy[path], s->now) ? s->now : s->busy[path];

	if (!p->rate)
		return 0;
	if (wtime_diff(begin, s->now) * (int64_t)p->rate / W_SEC > (int64_t)p->queue)
		return -1;
	s->busy[path] = wtime_add(begin, (int64_t)len * W_SEC / (int64_t)p->rate);
	return wtime_diff(s->busy[path], s->now);
}

static void deliver_later(struct sim *s, unsigned int from, unsigned int to, const struct udp_tx *t,
	const uint8_t *data, uint32_t len)
{
	const struct sim_path *p = &s->path[from * s->count + to];
	int64_t jitter = p->jitter_us ? (int64_t)(uniform(s) * (double)p->jitter_us) : 0;
	int64_t wait = wait_for_rate(s, from * s->count + to, len);
	struct sim_event *e = wait < 0 ? NULL : w_calloc(1, sizeof(*e) + len);

	if (wait < 0)
		return;
	sim_must(e != NULL, "memory");
	e->to = to;
	e->from_incarnation = s->node[from].incarnation;
	e->remote = sim_endpoint(from);
	e->tos = t->tos;
	e->len = len;
	memcpy(e->data, data, len);
	sim_must(heap_push(&s->events, &e->timer, wtime_add(s->now, wait + p->delay_us + jitter)) ==
			0,
		"memory");
}

static void send_datagram(struct sim *s, unsigned int from, const struct udp_tx *t,
	const uint8_t *data, uint32_t len)
{
	const struct sim_path *p;
	int peer = sim_node_at(s, &t->remote);
	unsigned int to = (unsigned int)peer;
	bool ike = len > MARKER && memcmp(data, "\0\0\0\0", MARKER) == 0;

	s->node[from].ike_sent += ike;
	s->node[from].udp_sent++;
	if (s->tap.sent)
		s->tap.sent(s->tap.ctx, from, &t->remote, view_of(data, len));
	if (peer < 0)
		return;
	note(s, data, len);
	p = &s->path[from * s->count + to];
	if (p->mtu && len + HEADERS > p->mtu)
		return;
	if (p->cut || (p->loss > 0 && uniform(s) < p->loss))
		return;
	if (s->filter &&
		!s->filter(s->filter_ctx, from, to, ike,
			ike ? view_of(data + MARKER, len - MARKER) : view_of(data, len)))
		return;
	deliver_later(s, from, to, t, data, len);
	if (p->duplicate > 0 && uniform(s) < p->duplicate)
		deliver_later(s, from, to, t, data, len);
}

/* ---- one node's outputs ---- */

/* The host behind the TUN answers an echo request to an address of its own, as a kernel does. */
static void host_answers(struct sim *s, unsigned int i, const uint8_t *frame, uint32_t len)
{
	struct icmp_echo e;
	struct sim_event *answer;
	struct ipaddr from;
	struct ip_view v;
	size_t n;

	if (ip_parse(view_of(frame, len), &v) < 0 ||
		icmp_echo_parse(view_of(frame, len), &v, &e) < 0 || e.reply ||
		!ipaddr_equal(&e.dst, (struct ipaddr[]){sim_inner_address(i, e.dst.family)}))
		return;
	answer = w_calloc(1, sizeof(*answer) + len);
	sim_must(answer != NULL, "memory");
	answer->to = i;
	answer->host = true;
	from = e.dst;
	e.dst = e.src;
	e.src = from;
	e.reply = true;
	e.ttl = 64;
	sim_must(icmp_echo_build(&e, answer->data, len, &n) == 0, "an echo reply");
	answer->len = (uint32_t)n;
	sim_must(heap_push(&s->events, &answer->timer, s->now) == 0, "memory");
}

static void take_frame(struct sim *s, unsigned int i, const struct tun_tx *f)
{
	struct sim_node *n = &s->node[i];
	uint8_t frame[TUN_FRAME];
	uint32_t len = 0;

	for (unsigned int k = 0; k < f->iov_count && len + f->iov[k].n <= sizeof(frame); k++) {
		memcpy(frame + len, f->iov[k].p, f->iov[k].n);
		len += f->iov[k].n;
	}
	note(s, frame, len);
	if (s->tap.delivered)
		s->tap.delivered(s->tap.ctx, i, view_of(frame, len));
	if (!sim_flow_arrived(s, frame, len))
		sim_inner_arrived(n, frame, len);
	host_answers(s, i, frame, len);
}

static void flush_plane(struct sim *s, unsigned int i)
{
	struct sim_node *n = &s->node[i];
	const struct udp_tx *u;
	const struct tun_tx *f;
	size_t count;

	plane_flush(n->plane, s->now);
	u = plane_udp_out(n->plane, &count);
	for (size_t k = 0; k < count; k++) {
		uint32_t step = u[k].seg_size ? u[k].seg_size : u[k].len;

		for (uint32_t at = 0; at < u[k].len; at += step)
			send_datagram(s, i, &u[k], u[k].data + at,
				u[k].len - at < step ? u[k].len - at : step);
	}
	f = plane_tun_out(n->plane, &count);
	for (size_t k = 0; k < count; k++)
		take_frame(s, i, &f[k]);
	plane_round_done(n->plane);
}

/* Reports are kept until the plane's call has returned, as the rings of the daemon do. */
static bool report(void *ctx, const struct plane_up *up)
{
	struct sim_node *n = ctx;
	struct sim_report *r = w_calloc(1, sizeof(*r) + up->data.n);

	sim_must(r != NULL, "memory");
	r->up = *up;
	if (up->data.n)
		memcpy(r->data, up->data.p, up->data.n);
	r->up.data = view_of(r->data, up->data.n);
	list_add_tail(&n->reports, &r->list);
	return true;
}

static bool take_reports(struct sim *s, struct sim_node *n)
{
	bool any = false;

	list_for_each_safe (it, &n->reports) {
		struct sim_report *r = container_of(it, struct sim_report, list);

		list_del(&r->list);
		node_plane_up(n->node, &r->up, s->now);
		w_free(r);
		any = true;
	}
	return any;
}

static void observe(struct sim *s, unsigned int i, enum sim_moment m,
	const struct plane_snapshot *snapshot)
{
	if (s->observer)
		s->observer(s->observer_ctx, i, m, snapshot);
}

static void act(struct sim *s, unsigned int i, const struct node_action *a)
{
	struct sim_node *n = &s->node[i];
	struct node_path path = {0};
	struct udp_tx t = {0};

	switch (a->type) {
	case NODE_ACTION_UDP:
		t.remote = a->udp.remote;
		send_datagram(s, i, &t, a->udp.data.p, (uint32_t)a->udp.data.n);
		break;
	case NODE_ACTION_PLANE:
		if (a->plane.type == PLANE_DOWN_ECHO && !s->echo.n)
			buf_add(&s->echo, a->plane.data.p, a->plane.data.n);
		if (a->plane.type == PLANE_DOWN_SNAPSHOT)
			observe(s, i, SIM_SNAPSHOT, a->plane.snapshot);
		if (s->tap.plane)
			s->tap.plane(s->tap.ctx, i, &a->plane);
		plane_down(n->plane, &a->plane, s->now);
		break;
	case NODE_ACTION_REPLY:
		sim_must(a->reply.id == s->reply_id, "a reply that nobody waits for");
		s->reply_id = 0;
		buf_add(&s->reply, a->reply.text.p, a->reply.text.n);
		break;
	case NODE_ACTION_LOG:
		if (s->verbose)
			fprintf(stderr, "%10.3f node %u: %s\n", (double)s->now.us / 1e6, i,
				a->log.text);
		break;
	case NODE_ACTION_PATH:
		path.mtu = n->kernel_mtu;
		path.hint = n->kernel_hint;
		node_path(n->node, a->path.id, &path, s->now);
		break;
	case NODE_ACTION_SOCKETS:
	case NODE_ACTION_KERNEL:
	case NODE_ACTION_RESOLVE:
	case NODE_ACTION_SCRIPTS:
	case NODE_ACTION_UPDOWN:
		break;
	}
}

void sim_settle(struct sim *s, unsigned int i)
{
	struct sim_node *n = &s->node[i];
	struct node_action a;
	bool more = true;

	while (n->node && more) {
		more = false;
		while (node_action_next(n->node, &a)) {
			act(s, i, &a);
			more = true;
		}
		flush_plane(s, i);
		more |= take_reports(s, n);
	}
}

/* ---- start and end ---- */

void sim_plane_start(struct sim *s, unsigned int i)
{
	struct sim_node *n = &s->node[i];
	struct plane_config pc = {
		.ops = s->options.ops ? s->options.ops : esp_ops(),
		.up = report,
		.up_ctx = n,
		.segments_max = 1,
	};

	list_init(&n->reports);
	sim_must(esp_table_new(TABLE, &n->table) == 0, "memory");
	pc.table = n->table;
	sim_must(posix_memalign(&n->memory, 64, plane_memory(&pc)) == 0, "memory");
	n->plane = plane_init(&pc, n->memory);
}

void sim_kill(struct sim *s, unsigned int i)
{
	struct sim_node *n = &s->node[i];

	if (!n->node)
		return;
	node_free(n->node); /* frees what the plane had, too */
	n->node = NULL;
	list_for_each_safe (it, &n->reports) {
		struct sim_report *r = container_of(it, struct sim_report, list);

		list_del(&r->list);
		if (r->up.type == PLANE_UP_SNAPSHOT_GONE)
			n->orphan_snapshots++;
		w_free(r);
	}
	esp_table_free(n->table);
	free(n->memory);
	n->plane = NULL;
	n->incarnation++;
	n->frozen = false;
	sim_backlog_free(n);
}

void sim_stop(struct sim *s, unsigned int i)
{
	if (!s->node[i].node)
		return;
	node_stop(s->node[i].node, s->now);
	sim_settle(s, i);
	sim_kill(s, i);
}

/* ---- time ---- */

static bool awake(const struct sim_node *n)
{
	return n->node && !n->frozen;
}

static wtime next_time(struct sim *s)
{
	wtime t = wtime_min(heap_next(&s->events), sim_flows_deadline(s));

	for (unsigned int i = 0; i < s->count; i++)
		if (awake(&s->node[i]))
			t = wtime_min(t, node_deadline(s->node[i].node));
	return t;
}

static void receive(struct sim *s, struct sim_event *e, wtime came)
{
	struct sim_node *n = &s->node[e->to];
	struct udp_rx r = {
		.data = e->data,
		.len = e->len,
		.tos = e->tos,
		.remote = e->remote,
		.local = sim_endpoint(e->to),
		.time = came,
	};

	plane_input_udp(n->plane, &r, 1, s->now);
	flush_plane(s, e->to);
	(void)take_reports(s, n);
	sim_settle(s, e->to);
}

static void read_now(struct sim *s, struct sim_event *e, wtime came)
{
	/* opening decrypts in place: who watches has the datagram as it came */
	uint8_t *copy = s->tap.arrived ? w_memdup(e->data, e->len) : NULL;
	const struct sim_datagram d = {e->to, e->remote, e->forged, view_of(copy, e->len)};

	if (s->tap.arriving && copy)
		s->tap.arriving(s->tap.ctx, &d);
	receive(s, e, came);
	if (copy)
		s->tap.arrived(s->tap.ctx, &d);
	w_free(copy);
	w_free(e);
}

static void arrive(struct sim *s, struct sim_event *e)
{
	struct sim_node *n = &s->node[e->to];

	if (awake(n) && e->host) {
		struct tun_rx f = {.data = e->data, .len = e->len};

		plane_input_tun(n->plane, &f, 1, s->now);
		sim_settle(s, e->to);
		w_free(e);
	} else if (awake(n)) {
		read_now(s, e, s->now);
	} else if (n->node && !e->host && n->backlog_room) {
		n->backlog_room--;
		e->came = s->now;
		list_add_tail(&n->backlog, &e->list);
	} else {
		w_free(e);
	}
}

static void run_timers(struct sim *s, unsigned int i)
{
	observe(s, i, SIM_TICK, NULL);
	node_tick(s->node[i].node, s->now);
	sim_settle(s, i);
	observe(s, i, SIM_SETTLED, NULL);
}

static void step(struct sim *s)
{
	struct heap_node *h;

	while ((h = heap_pop_due(&s->events, s->now)))
		arrive(s, container_of(h, struct sim_event, timer));
	for (unsigned int i = 0; i < s->count; i++)
		if (awake(&s->node[i]) && wtime_due(node_deadline(s->node[i].node), s->now))
			run_timers(s, i);
	sim_flows_pump(s);
}

/* ---- strangers, and nodes that stand still ---- */

void sim_forge(struct sim *s, unsigned int to, const struct endpoint *remote, struct view data)
{
	struct sim_event *e = w_calloc(1, sizeof(*e) + data.n);

	sim_must(e != NULL, "memory");
	e->to = to;
	e->forged = true;
	e->remote = *remote;
	e->len = (uint32_t)data.n;
	if (data.n)
		memcpy(e->data, data.p, data.n);
	arrive(s, e);
}

void sim_freeze(struct sim *s, unsigned int i, unsigned int backlog)
{
	s->node[i].frozen = s->node[i].node != NULL;
	s->node[i].backlog_room = backlog;
}

void sim_thaw(struct sim *s, unsigned int i, bool timers_first)
{
	struct sim_node *n = &s->node[i];

	if (!n->frozen)
		return;
	n->frozen = false;
	if (timers_first)
		run_timers(s, i);
	list_for_each_safe (it, &n->backlog) {
		struct sim_event *e = container_of(it, struct sim_event, list);

		list_del(&e->list);
		read_now(s, e, e->came);
	}
}

bool sim_frozen(const struct sim *s, unsigned int i)
{
	return s->node[i].frozen;
}

void sim_backlog_free(struct sim_node *n)
{
	list_for_each_safe (it, &n->backlog) {
		struct sim_event *e = container_of(it, struct sim_event, list);

		list_del(&e->list);
		w_free(e);
	}
}

void sim_tap_set(struct sim *s, const struct sim_tap *t)
{
	s->tap = *t;
}

bool sim_run_until(struct sim *s, int64_t us, bool (*done)(struct sim *s))
{
	wtime end = wtime_add(s->now, us);
	wtime check = s->now;

	for (;;) {
		wtime t = next_time(s);

		if (done && wtime_due(check, s->now)) {
			if (done(s))
				return true;
			check = wtime_add(s->now, 20 * W_MS);
		}
		if (done)
			t = wtime_min(t, check);
		if (wtime_before(end, t)) {
			s->now = end;
			return done ? done(s) : true;
		}
		if (wtime_before(s->now, t))
			s->now = t;
		step(s);
	}
}

void sim_run(struct sim *s, int64_t us)
{
	(void)sim_run_until(s, us, NULL);
}

wtime sim_now(const struct sim *s)
{
	return s->now;
}

void sim_path_set(struct sim *s, unsigned int from, unsigned int to, const struct sim_path *p)
{
	s->path[from * s->count + to] = *p;
}

void sim_kernel_mtu(struct sim *s, unsigned int i, uint32_t mtu, uint32_t hint)
{
	s->node[i].kernel_mtu = mtu;
	s->node[i].kernel_hint = hint;
	if (!s->node[i].node)
		return;
	node_paths_changed(s->node[i].node, s->now);
	sim_settle(s, i);
}

void sim_filter_set(struct sim *s, sim_filter f, void *ctx)
{
	s->filter = f;
	s->filter_ctx = ctx;
}

void sim_observe(struct sim *s, sim_observer f, void *ctx)
{
	s->observer = f;
	s->observer_ctx = ctx;
}

void sim_inject(struct sim *s, unsigned int i, uint8_t *frame, uint32_t len)
{
	struct tun_rx f = {.data = frame, .len = len};

	if (!awake(&s->node[i]))
		return;
	plane_input_tun(s->node[i].plane, &f, 1, s->now);
	flush_plane(s, i);
	(void)take_reports(s, &s->node[i]);
	sim_settle(s, i);
}

void sim_send(struct sim *s, unsigned int from, unsigned int to, enum ip_family family)
{
	struct sim_node *n = &s->node[from];
	uint8_t frame[TUN_FRAME];

	if (awake(n))
		sim_inject(s, from, frame, sim_inner_packet(frame, from, to, family, n->sent++));
}

uint64_t sim_fingerprint(const struct sim *s)
{
	return s->fingerprint;
}
