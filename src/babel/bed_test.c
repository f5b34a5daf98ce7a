#include "babel/bed_test.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

/* A test has no use for memory that it did not get. */
static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

struct packet {
	struct heap_node due;
	size_t to, link;
	struct ipaddr source;
	bool unicast;
	size_t n;
	uint8_t data[];
};

void bed_begin(struct bed *t, size_t nodes, uint64_t seed)
{
	*t = (struct bed){.nodes = nodes, .now = {1000000}};
	t->rng = rng_seeded_init(&t->seed, seed);
	t->node = must(w_calloc(nodes, sizeof(*t->node)));
	for (size_t i = 0; i < nodes; i++) {
		put_u64(t->node[i].router_id, i + 1);
		t->node[i].off = true;
	}
}

void bed_end(struct bed *t)
{
	for (struct heap_node *it = heap_pop(&t->flying); it; it = heap_pop(&t->flying))
		w_free(container_of(it, struct packet, due));
	for (size_t i = 0; i < t->nodes; i++)
		babel_free(t->node[i].b);
	heap_done(&t->flying);
	heap_done(&t->due);
	w_free(t->node);
	w_free(t->link);
}

double bed_chance(struct bed *t)
{
	uint64_t x = 0;

	(void)rng_below(&t->rng, 1 << 30, &x);
	return (double)x / (1 << 30);
}

void bed_config(struct bed *t, size_t i, struct babel_config *ret)
{
	uint64_t seed = 0;

	(void)rng_below(&t->rng, INT64_MAX, &seed);
	*ret = (struct babel_config){.transit = true,
		.rng = rng_seeded_init(&t->node[i].seed, seed)};
	memcpy(ret->router_id, t->node[i].router_id, 8);
}

static void output(struct bed *t, size_t i);

void bed_start(struct bed *t, size_t i, const struct babel_config *c)
{
	struct babel_config usual;

	bed_config(t, i, &usual);
	if (babel_new(c ? c : &usual, t->now, &t->node[i].b) < 0)
		abort();
	t->node[i].off = false;
	for (size_t k = 0; k < t->links; k++) {
		for (size_t e = 0; e < t->link[k].ends; e++) {
			if (t->link[k].node[e] == i)
				bed_attach(t, k, i);
		}
	}
	bed_touch(t, i);
}

void bed_stop(struct bed *t, size_t i)
{
	babel_free(t->node[i].b);
	t->node[i].b = NULL;
	t->node[i].off = true;
	heap_remove(&t->due, &t->node[i].due);
}

struct ipaddr bed_address(size_t link, size_t node)
{
	uint8_t b[16] = {0xfe, 0x80};

	put_u32(b + 8, (uint32_t)link + 1);
	put_u32(b + 12, (uint32_t)node + 1);
	return ipaddr_from(IP6, b);
}

void bed_iface(struct bed *t, size_t link, size_t node, struct babel_iface_config *ret)
{
	*ret = (struct babel_iface_config){.iface = (uint32_t)link + 1,
		.update_factor = t->update_factor,
		.link_local = bed_address(link, node),
		.tunnel = true,
		.ipv4 = true,
		.mtu = 1400,
		.hello_us = 4 * W_SEC,
		.cost = 8,
		.rtt_max_us = 1024 * W_MS,
		.rtt_cost = 4096};
}

void bed_attach(struct bed *t, size_t link, size_t node)
{
	struct babel_iface_config c;

	bed_iface(t, link, node, &c);
	if (babel_iface_add(t->node[node].b, &c, t->now) < 0)
		abort();
	bed_touch(t, node);
}

size_t bed_lan(struct bed *t, const size_t *nodes, size_t n, int64_t delay_us)
{
	struct bed_link *l;

	t->link = must(w_realloc(t->link, (t->links + 1) * sizeof(*t->link)));
	l = &t->link[t->links++];
	*l = (struct bed_link){.ends = n, .delay_us = delay_us};
	for (size_t i = 0; i < n; i++) {
		l->node[i] = nodes[i];
		if (!t->node[nodes[i]].off)
			bed_attach(t, t->links - 1, nodes[i]);
	}
	return t->links - 1;
}

size_t bed_link(struct bed *t, size_t a, size_t b, int64_t delay_us)
{
	size_t nodes[2] = {a, b};

	return bed_lan(t, nodes, 2, delay_us);
}

struct babel_prefix bed_prefix(size_t i)
{
	uint8_t b[16] = {0x20, 0x01, 0x0d, 0xb8};
	struct ipaddr a;

	put_u16(b + 4, (uint16_t)i);
	a = ipaddr_from(IP6, b);
	return (struct babel_prefix){.destination = prefix_of(&a, 48)};
}

struct babel_prefix bed_parse(const char *destination, const char *source)
{
	struct babel_prefix p = {0};

	if (prefix_parse(destination, &p.destination) < 0 ||
		(source && prefix_parse(source, &p.source) < 0))
		abort();
	return p;
}

void bed_originate(struct bed *t, size_t i)
{
	struct babel_prefix p = bed_prefix(i);

	if (babel_originate(t->node[i].b, &p, 0, t->now) < 0)
		abort();
	bed_touch(t, i);
}

static void fly(struct bed *t, size_t link, size_t to, const struct babel_packet *p)
{
	const struct bed_link *l = &t->link[link];
	int64_t us = l->delay_us;
	struct packet *q;

	if (l->loss > 0 && bed_chance(t) < l->loss)
		return;
	if (l->jitter_us)
		us += (int64_t)(bed_chance(t) * (double)l->jitter_us);
	q = must(w_calloc(1, sizeof(*q) + p->data.n));
	q->to = to;
	q->link = link;
	q->source = p->source;
	q->unicast = !ipaddr_is_multicast(&p->destination);
	q->n = p->data.n;
	memcpy(q->data, p->data.p, p->data.n);
	if (heap_push(&t->flying, &q->due, wtime_add(t->now, us)) < 0)
		abort();
}

static void send_out(struct bed *t, size_t from, const struct babel_packet *p)
{
	size_t link = p->iface - 1;
	struct bed_link *l = &t->link[link];
	bool multicast = ipaddr_is_multicast(&p->destination);

	if (l->down || (multicast && l->drop_multicast) || (t->lose && t->lose(t, link, from, p)))
		return;
	for (size_t e = 0; e < l->ends; e++) {
		struct ipaddr a = bed_address(link, l->node[e]);

		if (l->node[e] == from || t->node[l->node[e]].off)
			continue;
		if (multicast || ipaddr_equal(&a, &p->destination))
			fly(t, link, l->node[e], p);
	}
}

static void output(struct bed *t, size_t i)
{
	struct bed_node *n = &t->node[i];
	struct babel_packet p;
	struct babel_event e;

	babel_tick(n->b, t->now);
	while (babel_output(n->b, t->now, &p))
		send_out(t, i, &p);
	while (babel_event_next(n->b, &e)) {
		n->events++;
		if (t->event)
			t->event(t, i, &e);
	}
	if (heap_push(&t->due, &n->due, babel_deadline(n->b)) < 0)
		abort();
	if (t->after)
		t->after(t, i);
}

void bed_touch(struct bed *t, size_t i)
{
	output(t, i);
}

static void deliver(struct bed *t, struct packet *q)
{
	struct babel_datagram d = {.iface = (uint32_t)q->link + 1,
		.source = q->source,
		.unicast = q->unicast,
		.data = view_of(q->data, q->n),
		.at = t->now};

	if (t->node[q->to].off || t->link[q->link].down)
		return;
	babel_input(t->node[q->to].b, &d, t->now);
	output(t, q->to);
}

/* The next thing that happens until end; false: nothing does. */
static bool step(struct bed *t, wtime end)
{
	wtime a = heap_next(&t->due), b = heap_next(&t->flying);
	wtime at = wtime_min(a, b);

	if (wtime_before(end, at))
		return false;
	if (wtime_before(t->now, at))
		t->now = at;
	t->steps++;
	if (wtime_before(a, b)) {
		struct heap_node *it = heap_peek(&t->due);

		output(t, (size_t)(container_of(it, struct bed_node, due) - t->node));
	} else {
		struct packet *q = container_of(heap_pop(&t->flying), struct packet, due);

		deliver(t, q);
		w_free(q);
	}
	return true;
}

void bed_run(struct bed *t, int64_t us)
{
	wtime end = wtime_add(t->now, us);

	while (step(t, end))
		;
	t->now = end;
}

int64_t bed_until(struct bed *t, bool (*done)(struct bed *t), int64_t us)
{
	wtime begin = t->now, end = wtime_add(t->now, us);

	while (!done(t)) {
		if (!step(t, end))
			return -1;
	}
	return wtime_diff(t->now, begin);
}

bool bed_route(struct bed *t, size_t i, const struct babel_prefix *p, struct babel_route_info *ret)
{
	size_t it = 0;

	while (babel_routes(t->node[i].b, &it, ret)) {
		if (ret->selected && prefix_equal(&ret->prefix.destination, &p->destination) &&
			prefix_equal(&ret->prefix.source, &p->source))
			return true;
	}
	return false;
}

size_t bed_next(struct bed *t, size_t i, const struct babel_prefix *p)
{
	struct babel_route_info r;

	if (t->node[i].off || !bed_route(t, i, p, &r))
		return SIZE_MAX;
	return r.own ? i : get_u32(r.neighbour.b + 12) - 1;
}

bool bed_neighbour(struct bed *t, size_t i, size_t link, size_t other,
	struct babel_neighbour_info *ret)
{
	struct ipaddr a = bed_address(link, other);
	size_t it = 0;

	while (babel_neighbours(t->node[i].b, &it, ret)) {
		if (ret->iface == link + 1 && ipaddr_equal(&ret->address, &a))
			return true;
	}
	return false;
}
