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

enum { TABLE = 4096, MARKER = 4, PORT = 13000, TUN_FRAME = 2048 };

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
	e->remote = (struct endpoint){.ip = sim_underlay(from), .port = PORT};
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
	unsigned int to = 0;
	bool ike = len > MARKER && memcmp(data, "\0\0\0\0", MARKER) == 0;

	while (to < s->count && !(ipaddr_equal(&t->remote.ip, (struct ipaddr[]){sim_underlay(to)})))
		to++;
	s->node[from].ike_sent += ike;
	s->node[from].udp_sent++;
	if (to == s->count || t->remote.port != PORT)
		return;
	note(s, data, len);
	p = &s->path[from * s->count + to];
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
	case NODE_ACTION_SOCKETS:
	case NODE_ACTION_KERNEL:
	case NODE_ACTION_RESOLVE:
	case NODE_ACTION_PATH:
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
	struct plane_config pc = {.ops = esp_ops(), .up = report, .up_ctx = n, .segments_max = 1};

	list_init(&n->reports);
	sim_must(esp_table_new(TABLE, &n->table) == 0, "memory");
	pc.table = n->table;
	sim_must(posix_memalign(&n->memory, 64, plane_memory(&pc)) == 0, "memory");
	n->plane = plane_init(&pc, n->memory);
	(void)s;
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

static wtime next_time(struct sim *s)
{
	wtime t = wtime_min(heap_next(&s->events), sim_flows_deadline(s));

	for (unsigned int i = 0; i < s->count; i++)
		if (s->node[i].node)
			t = wtime_min(t, node_deadline(s->node[i].node));
	return t;
}

static void arrive(struct sim *s, struct sim_event *e)
{
	struct sim_node *n = &s->node[e->to];

	if (n->node && e->host) {
		struct tun_rx f = {.data = e->data, .len = e->len};

		plane_input_tun(n->plane, &f, 1, s->now);
		sim_settle(s, e->to);
	} else if (n->node) {
		struct udp_rx r = {
			.data = e->data,
			.len = e->len,
			.tos = e->tos,
			.remote = e->remote,
			.local = {.ip = sim_underlay(e->to), .port = PORT},
			.time = s->now,
		};

		plane_input_udp(n->plane, &r, 1, s->now);
		flush_plane(s, e->to);
		(void)take_reports(s, n);
		sim_settle(s, e->to);
	}
	w_free(e);
}

static void step(struct sim *s)
{
	struct heap_node *h;

	while ((h = heap_pop_due(&s->events, s->now)))
		arrive(s, container_of(h, struct sim_event, timer));
	for (unsigned int i = 0; i < s->count; i++)
		if (s->node[i].node && wtime_due(node_deadline(s->node[i].node), s->now)) {
			observe(s, i, SIM_TICK, NULL);
			node_tick(s->node[i].node, s->now);
			sim_settle(s, i);
			observe(s, i, SIM_SETTLED, NULL);
		}
	sim_flows_pump(s);
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

	if (!s->node[i].node)
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

	if (n->node)
		sim_inject(s, from, frame, sim_inner_packet(frame, from, to, family, n->sent++));
}

uint64_t sim_fingerprint(const struct sim *s)
{
	return s->fingerprint;
}
