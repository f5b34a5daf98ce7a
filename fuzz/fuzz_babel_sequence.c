/* Speakers on a triangle with a tail, and a liar with the right key. The input says what happens
 * between them: packets lost, links that die, prices and prefixes that change, and packets of
 * whole TLVs that the liar makes and signs. Selected routes are feasible and, for what the honest
 * ones announce, never form a loop (RFC 8966 2.5). One byte of options, then steps. */
#include <string.h>
#include "babel/babel_priv.h"
#include "babel/bed_test.h"
#include "fuzz.h"

enum { NODES = 4, LINKS = 4, LIAR = 6, LIAR_PREFIX = 15, STEPS_MAX = 120, TIME_MAX_S = 600 };
enum { HEARD_MAX = 16, PACKET_MAX = 1400 };

enum step {
	STEP_TIME,
	STEP_LOSE,
	STEP_LINK,
	STEP_DELAY,
	STEP_ORIGINATE,
	STEP_WITHDRAW,
	STEP_LOSS,
	STEP_PRICE,
	STEP_ALIVE,
	STEP_LIE,
	STEP_RAW,
	STEP_COUNT
};

/* A packet that the liar has not looked at yet. */
struct heard {
	struct babel_datagram d;
	uint8_t data[PACKET_MAX];
};

struct bench {
	struct bed bed;
	uint32_t lose; /* bits: which of the next packets are lost */
	/* Signs for the liar, and says hello: a speaker on all links with its address and keys */
	struct babel *pen;
	struct heard heard[HEARD_MAX];
	size_t heard_count;
	bool keyed;
	uint8_t lied; /* a bit for each prefix of honest nodes that the liar spoke of */
};

static const uint8_t ends[LINKS][2] = {{0, 1}, {1, 2}, {2, 0}, {2, 3}};

static bool lose(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct bench *b = t->ctx;
	struct ipaddr liar = bed_address(link, LIAR);
	bool lost = b->lose & 1, multicast = ipaddr_is_multicast(&p->destination);
	struct heard *h = &b->heard[b->heard_count];

	(void)from;
	FUZZ_ASSERT(p->data.n <= PACKET_MAX);
	if (b->heard_count < HEARD_MAX && (multicast || ipaddr_equal(&p->destination, &liar))) {
		memcpy(h->data, p->data.p, p->data.n);
		h->d = (struct babel_datagram){.iface = p->iface,
			.source = p->source,
			.unicast = !multicast,
			.data = view_of(h->data, p->data.n),
			.at = t->now};
		b->heard_count++;
	}
	b->lose >>= 1;
	return lost;
}

static void check_routes(const struct babel *s)
{
	struct babel_neighbour_info n;
	struct babel_route_info r;
	size_t it = 0;

	while (babel_neighbours(s, &it, &n))
		FUZZ_ASSERT(n.cost >= 1);
	for (it = 0; babel_routes(s, &it, &r);)
		FUZZ_ASSERT(!r.selected || r.own || (r.feasible && r.metric != BABEL_INFINITY));
}

/* From each node along the selected routes: to the origin, or to where there is none. */
static void check_loops(struct bench *b)
{
	for (size_t origin = 0; origin < NODES; origin++) {
		struct babel_prefix p = bed_prefix(origin);

		if (b->lied >> origin & 1)
			continue;
		for (size_t from = 0; from < NODES; from++) {
			size_t at = from, hops = 0;

			for (;;) {
				size_t next = bed_next(&b->bed, at, &p);

				if (next == at || next >= NODES)
					break;
				at = next;
				FUZZ_ASSERT(++hops < NODES);
			}
		}
	}
}

static void after(struct bed *t, size_t node)
{
	check_routes(t->node[node].b);
}

/* Keys of one interface; the liar's pen has the same. */
static void key(struct babel_iface_config *c)
{
	c->key_count = 1;
	c->key[0] = (struct babel_key){BABEL_MAC_BLAKE2S, "sixteen bytes it", 16};
}

static void pen_open(struct bench *b)
{
	struct babel_config c = {.rng = b->bed.rng, .router_id = {9, 9}};

	FUZZ_ASSERT(babel_new(&c, b->bed.now, &b->pen) == 0);
	for (size_t link = 0; link < LINKS; link++) {
		struct babel_iface_config f;

		bed_iface(&b->bed, link, LIAR, &f);
		if (b->keyed)
			key(&f);
		FUZZ_ASSERT(babel_iface_add(b->pen, &f, b->bed.now) == 0);
	}
}

static void bench_open(struct bench *b, uint8_t options)
{
	struct bed *t = &b->bed;

	memset(b, 0, sizeof(*b));
	b->keyed = options & 1;
	bed_begin(t, NODES, options);
	t->ctx = b;
	t->lose = lose;
	t->after = after;
	for (size_t i = 0; i < LINKS; i++)
		bed_link(t, ends[i][0], ends[i][1], (1 + (int64_t)i) * 2 * W_MS);
	for (size_t i = 0; i < NODES; i++) {
		bed_start(t, i, NULL);
		bed_originate(t, i);
	}
	pen_open(b);
	for (size_t i = 0; i < LINKS && b->keyed; i++) {
		for (size_t e = 0; e < 2; e++) {
			struct babel_iface_config f;

			bed_iface(t, i, ends[i][e], &f);
			key(&f);
			FUZZ_ASSERT(babel_iface_update(t->node[ends[i][e]].b, &f, t->now) == 0);
			bed_touch(t, ends[i][e]);
		}
	}
	if (options & 2)
		bed_run(t, 30 * W_SEC);
}

/* ---- The liar ---- */
static struct babel_prefix lie_prefix(struct bench *b, uint8_t which)
{
	if ((which & 15) < NODES && which & 0x80)
		b->lied |= (uint8_t)(1U << (which & 15));
	else
		which = LIAR_PREFIX;
	return bed_prefix(which & 15);
}

static void lie_update(struct bench *b, struct cur *c, struct babel_build *w)
{
	struct babel_update u = {.prefix = lie_prefix(b, cur_u8(c)),
		.interval = cur_u16(c),
		.seqno = cur_u16(c),
		.metric = cur_u16(c),
		.router_id = {cur_u8(c)}};

	u.router_id[7] = 1;
	(void)babel_build_update(w, &u);
}

static void lie_request(struct bench *b, struct cur *c, struct babel_build *w)
{
	struct babel_seqno_request r = {.prefix = lie_prefix(b, cur_u8(c)),
		.seqno = cur_u16(c),
		.hop_count = cur_u8(c)};

	memcpy(r.router_id, b->bed.node[cur_u8(c) % NODES].router_id, sizeof(r.router_id));
	if (r.hop_count == 0)
		(void)babel_build_route_request(w, r.seqno & 1 ? NULL : &r.prefix);
	else
		(void)babel_build_seqno_request(w, &r);
}

/* One TLV of the liar's. */
static void lie_tlv(struct bench *b, const struct ipaddr *to, struct cur *c, struct babel_build *w)
{
	struct babel_ihu ihu = {.to = *to};
	uint8_t type = cur_u8(c);

	switch (type & 7) {
	case 0:
		(void)babel_build_hello(w, cur_u16(c), cur_u16(c), (uint32_t)b->bed.now.us);
		break;
	case 1:
		ihu.rxcost = cur_u16(c);
		ihu.interval = cur_u16(c);
		ihu.has_time = type & 8;
		ihu.origin = cur_u32(c);
		ihu.receive = cur_u32(c);
		ihu.loss = cur_u16(c);
		(void)babel_build_ihu(w, &ihu);
		break;
	case 2:
	case 3:
		lie_update(b, c, w);
		break;
	case 4:
		lie_request(b, c, w);
		break;
	case 5:
		(void)babel_build_wildcard_retraction(w, cur_u16(c));
		break;
	default: /* of any type: challenges and counters among them */
		(void)babel_build_bytes(w, cur_u8(c), (struct view){0},
			cur_take(c, (type >> 3) < c->n ? type >> 3 : c->n));
		break;
	}
}

/* The pen hears what was said since it last did, and its answers are heard. */
static void pen_speaks(struct bench *b)
{
	size_t count = b->heard_count;
	struct babel_packet p;
	struct babel_event event;

	for (size_t i = 0; i < count; i++)
		babel_input(b->pen, &b->heard[i].d, b->bed.now);
	b->heard_count = 0;
	babel_tick(b->pen, b->bed.now);
	while (babel_event_next(b->pen, &event))
		;
	while (babel_output(b->pen, b->bed.now, &p)) {
		struct babel_datagram d = {.iface = p.iface,
			.source = p.source,
			.unicast = !ipaddr_is_multicast(&p.destination),
			.data = p.data,
			.at = b->bed.now};

		for (size_t e = 0; e < 2; e++) {
			size_t node = ends[p.iface - 1][e];
			struct ipaddr a = bed_address(p.iface - 1, node);

			if (!d.unicast || ipaddr_equal(&a, &p.destination))
				babel_input(b->bed.node[node].b, &d, b->bed.now);
		}
	}
	for (size_t i = 0; i < NODES; i++)
		bed_touch(&b->bed, i);
}

static void lie(struct bench *b, size_t link, uint8_t how, struct cur *c)
{
	uint8_t bytes[PACKET_MAX];
	size_t to = ends[link][how & 1];
	struct babel_iface *ifc;
	struct ipaddr all = {.family = IP6, .b = {0xff, 0x02, [13] = 1, [15] = 6}};
	struct ipaddr target = bed_address(link, to);
	struct babel_datagram d = {.iface = (uint32_t)link + 1,
		.source = bed_address(link, LIAR),
		.unicast = how & 2,
		.at = b->bed.now};
	struct babel_build w;
	uint32_t number = (uint32_t)link + 1;

	pen_speaks(b);
	ifc = babel_iface_find(b->pen, number);
	FUZZ_ASSERT(ifc);
	babel_build_begin(&w, bytes, sizeof(bytes) - babel_mac_overhead(ifc), false);
	for (unsigned int i = 0; i <= how >> 4; i++)
		lie_tlv(b, &target, c, &w);
	FUZZ_ASSERT(babel_mac_sign(b->pen, ifc, &w, how & 2 ? &target : &all));
	d.data = wcur_written(&w.w);
	babel_input(b->bed.node[to].b, &d, b->bed.now);
	bed_touch(&b->bed, to);
}

/* Bytes as they are, from the liar. */
static void raw(struct bench *b, size_t link, uint8_t how, struct view data)
{
	struct babel_datagram d = {.iface = (uint32_t)link + 1,
		.source = bed_address(link, LIAR),
		.data = data,
		.at = b->bed.now};
	size_t to = ends[link][how & 1];

	babel_input(b->bed.node[to].b, &d, b->bed.now);
	bed_touch(&b->bed, to);
}

/* ---- Steps ---- */
static void price(struct bench *b, size_t link, uint8_t arg)
{
	struct babel_iface_config f;
	size_t node = ends[link][arg & 1];

	bed_iface(&b->bed, link, node, &f);
	if (b->keyed)
		key(&f);
	f.cost = (uint16_t)(1 + (arg >> 1) * 4);
	FUZZ_ASSERT(babel_iface_update(b->bed.node[node].b, &f, b->bed.now) == 0);
	bed_touch(&b->bed, node);
}

static void step(struct bench *b, struct cur *c)
{
	uint8_t op = cur_u8(c), arg = cur_u8(c);
	struct bed *t = &b->bed;
	size_t link = op >> 4 & 3, node = op >> 4 & 3;
	struct babel_prefix own = bed_prefix(node);

	switch ((op & 15) % STEP_COUNT) {
	case STEP_TIME:
		bed_run(t, (1 + (arg & 15)) * W_MS << ((arg >> 4) * 3 / 4));
		break;
	case STEP_LOSE:
		b->lose = cur_u32(c);
		break;
	case STEP_LINK:
		t->link[link].down = arg & 1;
		break;
	case STEP_DELAY:
		t->link[link].delay_us = (1 + arg) * W_MS;
		t->link[link].jitter_us = op & 0x40 ? arg * W_MS : 0;
		break;
	case STEP_ORIGINATE:
		FUZZ_ASSERT(babel_originate(t->node[node].b, &own, arg, t->now) == 0);
		bed_touch(t, node);
		break;
	case STEP_WITHDRAW:
		babel_withdraw(t->node[node].b, &own, t->now);
		bed_touch(t, node);
		break;
	case STEP_LOSS:
		babel_iface_loss(t->node[ends[link][arg & 1]].b, (uint32_t)link + 1,
			(arg >> 1) / 127.0, t->now);
		bed_touch(t, ends[link][arg & 1]);
		break;
	case STEP_PRICE:
		price(b, link, arg);
		break;
	case STEP_ALIVE:
		babel_iface_alive(t->node[ends[link][arg & 1]].b, (uint32_t)link + 1, arg & 2,
			t->now);
		bed_touch(t, ends[link][arg & 1]);
		break;
	case STEP_LIE:
		lie(b, link, arg, c);
		break;
	case STEP_RAW:
		raw(b, link, op >> 7, cur_take(c, arg < c->n ? arg : c->n));
		break;
	}
	check_loops(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cur c = cur_of(data, size);
	struct bench b;
	wtime end;

	bench_open(&b, cur_u8(&c));
	end = wtime_add(b.bed.now, TIME_MAX_S * W_SEC);
	for (unsigned int i = 0; i < STEPS_MAX && c.n && !c.bad; i++) {
		if (wtime_before(end, b.bed.now))
			break;
		step(&b, &c);
	}
	babel_free(b.pen);
	bed_end(&b.bed);
	return 0;
}
