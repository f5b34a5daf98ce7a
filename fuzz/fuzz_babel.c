/* Babel packets, one or many: each starts with a byte that says where it comes from and how far
 * time goes on before it, and two bytes of length. What the speaker sends must parse. */
#include <string.h>
#include "babel/babel_priv.h"
#include "fuzz.h"

enum { STEP_US = 100000 };

static void drain(struct babel *b, wtime now, struct babel_parsed *p)
{
	struct babel_packet out;
	struct babel_event e;

	babel_tick(b, now);
	while (babel_output(b, now, &out)) {
		FUZZ_ASSERT(out.data.n <= 1400);
		FUZZ_ASSERT(babel_parse(out.data, &out.source, p) == BABEL_PARSE_OK);
		FUZZ_ASSERT(p->malformed == 0 && p->mandatory == 0);
	}
	while (babel_event_next(b, &e))
		FUZZ_ASSERT(e.type <= BABEL_EVENT_DOUBT);
	FUZZ_ASSERT(babel_deadline(b).us >= now.us);
}

static struct babel *make(struct rng_seeded *seed, wtime now)
{
	struct babel_config c = {.rng = rng_seeded_init(seed, 1),
		.router_id = {1},
		.transit = true};
	struct babel_prefix own = {0};
	struct babel *b = NULL;

	FUZZ_ASSERT(babel_new(&c, now, &b) == 0);
	for (uint32_t i = 1; i <= 2; i++) {
		struct babel_iface_config f = {.iface = i,
			.link_local = {.family = IP6, .b = {0xfe, 0x80, [15] = (uint8_t)i}},
			.tunnel = i == 1,
			.ipv4 = true,
			.mtu = 1400,
			.hello_us = 4 * W_SEC,
			.cost = 8,
			.rtt_max_us = 1024 * W_MS,
			.rtt_cost = 4096};

		FUZZ_ASSERT(babel_iface_add(b, &f, now) == 0);
	}
	(void)prefix_parse("2001:db8::/32", &own.destination);
	FUZZ_ASSERT(babel_originate(b, &own, 0, now) == 0);
	return b;
}

static void walk(const struct babel *b)
{
	struct babel_neighbour_info n;
	struct babel_route_info r;
	struct babel_stats s;
	size_t it = 0, routes = 0;

	while (babel_neighbours(b, &it, &n))
		FUZZ_ASSERT(n.cost >= 1);
	for (it = 0; babel_routes(b, &it, &r);) {
		FUZZ_ASSERT(!r.selected || r.own || (r.feasible && r.metric != BABEL_INFINITY));
		routes += !r.own && !r.unreachable;
	}
	babel_stats(b, &s);
	FUZZ_ASSERT(s.routes == routes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cur c = cur_of(data, size);
	struct babel_parsed p = {0};
	struct rng_seeded seed;
	wtime now = {W_SEC};
	struct babel *b = make(&seed, now);

	while (c.n && !c.bad) {
		uint8_t how = cur_u8(&c);
		uint16_t n = cur_u16(&c);
		struct babel_datagram d = {.iface = how & 1 ? 1 : 2,
			.source = {.family = IP6,
				.b = {0xfe, 0x80, [14] = 1, [15] = (how >> 1) & 3}},
			.unicast = how & 8};

		d.data = cur_take(&c, n < c.n ? n : c.n);
		now = wtime_add(now, (int64_t)(how >> 4) * (how >> 4) * STEP_US);
		d.at = now;
		drain(b, now, &p);
		babel_input(b, &d, now);
		drain(b, now, &p);
		walk(b);
	}
	now = wtime_add(now, 10 * W_SEC);
	drain(b, now, &p);
	babel_stop(b, now);
	drain(b, now, &p);
	babel_parsed_free(&p);
	babel_free(b);
	return 0;
}
