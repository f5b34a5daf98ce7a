/* The invariants of a mesh, looked at after every event that could break them:
 *  - the wire: every datagram is a keepalive, IKE (protected, but for what comes before keys are
 *    there), or ESP with a number above the last of its SPI; none has an inner packet in clear;
 *  - keys: no IV and no key used twice, no ESP number taken in twice (books.h);
 *  - inner packets: delivered once, to the node that has the address, without routing headers,
 * never to a SID, and never after too many hops;
 *  - forged datagrams: links, routes, neighbours and policies say the same before and after;
 *  - forwarding: the tables of all nodes together have no loop, to any host, at any time;
 *  - timers: always wanted soon, never again and again at one instant; so many sends a second;
 *  - links: never more than a few child pairs, and exactly one when all is quiet. */
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "books.h"
#include "esp/esp.h"
#include "fib/fib.h"
#include "plane/plane.h"

enum {
	MARKER = 4,
	IKE_HEADER = 28,
	FIRST_PAYLOAD = 16,
	VERSION_AT = 17,
	EXCHANGE_AT = 18,
	LENGTH_AT = 24,
	SK = 46,
	SKF = 53,
	NOTIFY = 41,
	BARE_NOTIFY_MAX = 128,
	EXCHANGE_INIT = 34,
	EXCHANGE_INFORMATIONAL = 37,
	EXCHANGE_INTERMEDIATE = 43,
	EXCHANGE_FOLLOWUP = 44,
	ESP_MIN = 8 + 8 + 16 + 4,
	SPI_MIN = 256,
	SPIS = 1024,   /* that are kept of a node */
	SAME_MAX = 32, /* timer runs at one instant */
	TICKS_MAX = 1000,
	SENDS_MAX = 5000,
	/* A deleted pair receives for 5 s: those of three collisions, two each, and what was there.
	 */
	PAIRS_MAX = 7,
	TTL_MIN = 16,
	TEXT = 512,
	INBOUND = 512,
	SLOTS = 64,
	RECORDS = 256,
};

struct record {
	struct sim_datagram d;
	uint8_t *data;
};

struct watched {
	struct {
		uint32_t spi, seq;
		wtime made;
	} sent[SPIS];
	/* what it opens, and what it seals for, by slot */
	uint32_t inbound[INBOUND], outbound[SLOTS];
	wtime tick_at, links_at;
	int64_t second;
	unsigned int same, ticks, sends;
};

/* Where a node sends what is for another. */
struct hop {
	int next; /* -1: nowhere */
	uint32_t slot;
};

struct watch {
	struct sim *s;
	unsigned int nodes;
	const char *replay;
	struct watched *node;
	struct hop *hop; /* by family, node and destination */
	int liar;        /* to it, what it has announced is its own; -1: nobody lies */
	int64_t life_us; /* of an outbound SA, at most; 0: not looked at */
	bool suspect;    /* the tables have a loop that no packet can take now */
	char *before;
	uint64_t forged, accepted, records;
	struct record record[RECORDS];
	char fault[TEXT];
};

void watch_must(struct watch *w, bool ok, const char *what)
{
	if (ok || w->fault[0])
		return;
	(void)snprintf(w->fault, sizeof(w->fault), "at %.6f s: %s", (double)sim_now(w->s).us / 1e6,
		what);
	if (w->replay) {
		fprintf(stderr, "%s\nrun it again: %s\n", w->fault, w->replay);
		abort();
	}
}

static void node_must(struct watch *w, bool ok, unsigned int i, const char *what)
{
	char text[TEXT];

	if (ok)
		return;
	(void)snprintf(text, sizeof(text), "node %u: %s", i, what);
	watch_must(w, false, text);
}

const char *watch_fault(const struct watch *w)
{
	return w->fault[0] ? w->fault : NULL;
}

void watch_lifetime(struct watch *w, int64_t most_us)
{
	w->life_us = most_us;
}

void watch_liar(struct watch *w, unsigned int i)
{
	w->liar = (int)i;
}

uint64_t watch_forged(const struct watch *w)
{
	return w->forged;
}

static void check_books(struct watch *w)
{
	const struct books *b = books();

	watch_must(w, !b->iv_again, "an IV was used twice with its key");
	watch_must(w, !b->key_shared, "two contexts sealed with one key");
	watch_must(w, !b->accepted_twice, "an ESP number was taken in twice");
}

/* ---- the wire ---- */

static bool protected_ike(struct view d)
{
	uint8_t exchange = d.p[EXCHANGE_AT], first = d.p[FIRST_PAYLOAD];

	if (d.p[VERSION_AT] != 0x20 || get_u32(d.p + LENGTH_AT) != d.n)
		return false;
	/* refusals, with the exchange of what they answer: RFC 7296 2.5, 2.21 */
	if (exchange == EXCHANGE_INIT || (first == NOTIFY && d.n < BARE_NOTIFY_MAX))
		return true;
	return (first == SK || first == SKF) && exchange > EXCHANGE_INIT &&
		(exchange <= EXCHANGE_INFORMATIONAL || exchange == EXCHANGE_INTERMEDIATE ||
			exchange == EXCHANGE_FOLLOWUP);
}

static void see_sent(void *ctx, unsigned int from, const struct endpoint *to, struct view d)
{
	struct watch *w = ctx;
	struct watched *n = &w->node[from];
	uint32_t spi = d.n >= ESP_MIN ? get_u32(d.p) : 0;

	node_must(w, ++n->sends <= SENDS_MAX, from, "sends without measure");
	node_must(w, !memmem(d.p, d.n, SIM_INNER_MARK, sizeof(SIM_INNER_MARK) - 1), from,
		"an inner packet on the wire");
	/* but for answers to what a stranger asks in IKE */
	node_must(w, sim_node_at(w->s, to) >= 0 || (d.n > MARKER && get_u32(d.p) == 0), from,
		"a datagram to nobody");
	if (d.n == 1 && d.p[0] == 0xff)
		return;
	if (d.n >= MARKER + IKE_HEADER && get_u32(d.p) == 0) {
		node_must(w, protected_ike(view_of(d.p + MARKER, d.n - MARKER)), from,
			"an IKE message that is not protected");
		return;
	}
	node_must(w, spi >= SPI_MIN, from, "a datagram that is neither IKE nor ESP");
	if (spi < SPI_MIN)
		return;
	if (n->sent[spi % SPIS].spi != spi)
		return; /* others have had its place since */
	node_must(w, n->sent[spi % SPIS].seq < get_u32(d.p + 4), from,
		"an ESP number was sent twice");
	node_must(w,
		!w->life_us || wtime_diff(sim_now(w->s), n->sent[spi % SPIS].made) < w->life_us,
		from, "it sends on an SA that is too old");
	n->sent[spi % SPIS].seq = get_u32(d.p + 4);
}

/* ---- inner packets ---- */

static struct ipaddr host(unsigned int i, enum ip_family family)
{
	const uint8_t four[4] = {10, 66, (uint8_t)(i >> 8), (uint8_t)i};
	uint8_t six[16] = {0xfd, 0, 0, 0x66};

	put_u32(six + 12, i + 1);
	return family == IP4 ? ipaddr_from(IP4, four) : ipaddr_from(IP6, six);
}

static void see_delivered(void *ctx, unsigned int i, struct view f)
{
	enum { ROUTING = 43, V4_DST = 16, V6_DST = 24, V4 = 20, V6 = 40, V4_TTL = 8, V6_TTL = 7 };
	struct watch *w = ctx;
	bool four = f.n >= V4 && f.p[0] >> 4 == 4;
	struct ipaddr own = host(i, four ? IP4 : IP6), dst;

	node_must(w, four || (f.n >= V6 && f.p[0] >> 4 == 6), i, "no IP packet was delivered");
	if (w->fault[0])
		return;
	dst = ipaddr_from(four ? IP4 : IP6, f.p + (four ? V4_DST : V6_DST));
	node_must(w, ipaddr_equal(&dst, &own) || (int)i == w->liar, i,
		"a packet of another was delivered");
	node_must(w, four || f.p[6] != ROUTING, i, "a routing header was delivered");
	node_must(w, f.p[four ? V4_TTL : V6_TTL] >= TTL_MIN, i, "a packet made too many hops");
}

/* ---- forwarding ---- */

static struct hop *hop_of(struct watch *w, enum ip_family family, unsigned int i, unsigned int to)
{
	return &w->hop[((family == IP4 ? 0 : w->nodes) + i) * w->nodes + to];
}

static uint32_t *inbound(struct watched *n, uint32_t spi)
{
	for (unsigned int i = 0; i < INBOUND; i++)
		if (n->inbound[i] == spi)
			return &n->inbound[i];
	return NULL;
}

static void see_plane(void *ctx, unsigned int i, const struct plane_down *m)
{
	struct watch *w = ctx;
	struct watched *n = &w->node[i];
	uint32_t *place;

	if (m->type == PLANE_DOWN_SA_OUTBOUND) {
		node_must(w, m->slot < SLOTS, i, "too many slots for who watches");
		n->outbound[m->slot % SLOTS] = m->sa ? esp_sa_spi(m->sa) : 0;
	} else if (m->type == PLANE_DOWN_SA_ADD && !m->sa->inbound) {
		uint32_t spi = esp_sa_spi(m->sa);

		n->sent[spi % SPIS].spi = spi;
		n->sent[spi % SPIS].seq = 0;
		n->sent[spi % SPIS].made = sim_now(w->s);
	} else if (m->type == PLANE_DOWN_SA_ADD) {
		place = inbound(n, 0);
		node_must(w, place != NULL, i, "it has many SAs");
		if (place)
			*place = esp_sa_spi(m->sa);
	} else if (m->type == PLANE_DOWN_SA_REMOVE && m->sa && m->sa->inbound) {
		place = inbound(n, esp_sa_spi(m->sa));
		if (place)
			*place = 0;
	}
}

static struct hop look_up(struct watch *w, const struct plane_snapshot *p, const struct ipaddr *to)
{
	const struct ipaddr any = {.family = to->family};
	struct hop h = {.next = -1};
	const struct plane_link *l;
	uint32_t v;

	if (!fib_lookup(p->fib, to, &any, &v) || p->next_hop[v].type != PLANE_LINK ||
		p->next_hop[v].slot >= p->link_count)
		return h;
	h.slot = p->next_hop[v].slot;
	l = p->link[h.slot];
	if (l && l->usable)
		h.next = sim_node_at(w->s, &l->remote);
	return h;
}

/* What a node seals for the next one is opened there: not when that one has started anew. */
static bool passes(struct watch *w, unsigned int from, const struct hop *h)
{
	uint32_t spi = w->node[from].outbound[h->slot % SLOTS];

	return spi && inbound(&w->node[h->next], spi);
}

static void no_loop(struct watch *w, enum ip_family family, unsigned int i, unsigned int to)
{
	const struct hop *h = hop_of(w, family, i, to);
	char text[TEXT];
	unsigned int at = i, hops = 0;
	bool closed = true;
	size_t n = (size_t)snprintf(text, sizeof(text), "a forwarding loop to %u:", to);

	for (; h->next >= 0 && at != to && hops <= w->nodes; hops++) {
		if (n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %u", at);
		closed &= passes(w, at, h);
		at = (unsigned int)h->next;
		h = hop_of(w, family, at, to);
	}
	if (hops <= w->nodes)
		return;
	w->suspect = true;
	watch_must(w, !closed, text);
}

static void see_snapshot(struct watch *w, unsigned int i, const struct plane_snapshot *p)
{
	static const enum ip_family family[] = {IP4, IP6};

	for (unsigned int f = 0; f < 2; f++)
		for (unsigned int to = 0; to < w->nodes; to++) {
			const struct ipaddr dst = host(to, family[f]);
			struct hop *h = hop_of(w, family[f], i, to);
			struct hop now = {.next = -1};

			if (to != i)
				now = look_up(w, p, &dst);
			if (now.next == h->next && now.slot == h->slot)
				continue;
			*h = now;
			no_loop(w, family[f], i, to);
		}
}

/* A loop of the tables may have become one of packets. */
static void look_again(struct watch *w)
{
	if (!w->suspect)
		return;
	w->suspect = false;
	for (unsigned int i = 0; i < w->nodes; i++)
		for (unsigned int to = 0; to < w->nodes; to++) {
			no_loop(w, IP4, i, to);
			no_loop(w, IP6, i, to);
		}
}

/* ---- forged datagrams ---- */

/* What node i says of itself; of links only those that are up, when only_up. */
static char *account(struct watch *w, unsigned int i, bool only_up)
{
	static const char *const command[] = {"routes", "neighbours", "policies"};
	struct buf b = {0};
	const char *p = sim_command(w->s, i, "links", NULL), *end;

	for (p = strstr(p, "{\"id\":"); p; p = end) {
		size_t n;

		end = strstr(p + 1, "{\"id\":");
		n = end ? (size_t)(end - p) : strlen(p);
		if (!only_up || memmem(p, n, "\"state\":\"up\"", 12))
			buf_add(&b, p, n);
	}
	for (size_t k = 0; k < sizeof(command) / sizeof(command[0]); k++)
		buf_add_str(&b, sim_command(w->s, i, command[k], NULL));
	buf_add(&b, "", 1);
	return (char *)b.p;
}

/* IKE_SA_INIT comes before there are keys: what it can do is to spoil an attempt. */
static bool is_init(struct view d)
{
	return d.n >= MARKER + IKE_HEADER && get_u32(d.p) == 0 &&
		d.p[MARKER + EXCHANGE_AT] == EXCHANGE_INIT;
}

static void see_arriving(void *ctx, const struct sim_datagram *d)
{
	struct watch *w = ctx;

	w->accepted = books()->accepted;
	if (d->forged)
		w->before = account(w, d->to, is_init(d->data));
}

/* ESP that came before its SA was there is new when it comes again: it is left out. */
static void keep(struct watch *w, const struct sim_datagram *d)
{
	struct record *r = &w->record[w->records % RECORDS];
	bool ike = d->data.n >= MARKER && get_u32(d->data.p) == 0;

	if (!ike && books()->accepted == w->accepted)
		return;
	w_free(r->data);
	r->d = *d;
	r->data = w_memdup(d->data.p, d->data.n);
	if (!r->data)
		abort();
	r->d.data.p = r->data;
	w->records++;
}

bool watch_record(const struct watch *w, uint64_t pick, struct sim_datagram *ret)
{
	uint64_t n = w->records < RECORDS ? w->records : RECORDS;

	if (n)
		*ret = w->record[pick % n].d;
	return n != 0;
}

static void see_arrived(void *ctx, const struct sim_datagram *d)
{
	struct watch *w = ctx;
	char *after;

	check_books(w);
	look_again(w);
	node_must(w, sim_duplicates(w->s, d->to) == 0, d->to, "a packet was delivered twice");
	if (!d->forged) {
		keep(w, d);
		return;
	}
	w->forged++;
	after = account(w, d->to, is_init(d->data));
	if (strcmp(w->before, after) != 0 && w->replay)
		fprintf(stderr, "before: %s\nafter:  %s\n", w->before, after);
	node_must(w, strcmp(w->before, after) == 0, d->to, "a forged datagram changed its state");
	w_free(w->before);
	w_free(after);
	w->before = NULL;
}

/* ---- timers and links ---- */

static void count_tick(struct watch *w, unsigned int i, wtime now)
{
	struct watched *n = &w->node[i];

	n->same = n->tick_at.us == now.us ? n->same + 1 : 0;
	n->tick_at = now;
	if (n->second != now.us / W_SEC) {
		n->second = now.us / W_SEC;
		n->ticks = n->sends = 0;
	}
	node_must(w, n->same < SAME_MAX && ++n->ticks < TICKS_MAX, i, "its timers never rest");
}

static void check_links(struct watch *w, unsigned int i)
{
	const char *p = sim_command(w->s, i, "links", NULL);

	for (unsigned int pairs = 0; (p = strpbrk(p + 1, "{"));) {
		if (strncmp(p, "{\"id\":", 6) == 0)
			pairs = 0;
		else if (strncmp(p, "{\"suite\":", 9) == 0)
			pairs++;
		node_must(w, pairs <= 1 + PAIRS_MAX, i, "a link has many pairs"); /* and IKE's */
	}
}

static void see_node(void *ctx, unsigned int i, enum sim_moment m, const struct plane_snapshot *p)
{
	struct watch *w = ctx;
	wtime now = sim_now(w->s);

	if (m == SIM_SNAPSHOT)
		see_snapshot(w, i, p);
	if (m == SIM_TICK)
		count_tick(w, i, now);
	if (m != SIM_SETTLED)
		return;
	node_must(w, wtime_diff(node_deadline(sim_node(w->s, i)), now) <= W_SEC, i,
		"its timers are never due");
	check_books(w);
	look_again(w);
	if (wtime_diff(now, w->node[i].links_at) < W_SEC)
		return;
	w->node[i].links_at = now;
	check_links(w, i);
}

void watch_quiet(struct watch *w, const bool *adjacent)
{
	bool exact = sim_pairs_exact(w->s, adjacent);

	if (!exact && w->replay)
		sim_pairs_tell(w->s, adjacent);
	watch_must(w, exact, "a link has not one pair that both ends send on");
	for (unsigned int i = 0; i < w->nodes; i++)
		if (sim_node(w->s, i))
			check_links(w, i);
}

void watch_gone(struct watch *w, unsigned int i)
{
	struct watched *n = &w->node[i];

	for (unsigned int to = 0; to < w->nodes; to++)
		*hop_of(w, IP4, i, to) = *hop_of(w, IP6, i, to) = (struct hop){.next = -1};
	memset(n->inbound, 0, sizeof(n->inbound));
	memset(n->outbound, 0, sizeof(n->outbound));
	n->same = 0;
}

struct watch *watch_new(struct sim *s, unsigned int nodes, const char *replay)
{
	struct watch *w = w_calloc(1, sizeof(*w));
	const struct sim_tap tap = {w, see_sent, see_arriving, see_arrived, see_plane,
		see_delivered};

	if (!w)
		abort();
	w->s = s;
	w->nodes = nodes;
	w->replay = replay;
	w->liar = -1;
	w->node = w_calloc(nodes, sizeof(*w->node));
	w->hop = w_calloc(2 * (size_t)nodes * nodes, sizeof(*w->hop));
	if (!w->node || !w->hop)
		abort();
	for (unsigned int i = 0; i < nodes; i++)
		watch_gone(w, i);
	sim_tap_set(s, &tap);
	sim_observe(s, see_node, w);
	return w;
}

void watch_free(struct watch *w)
{
	sim_tap_set(w->s, &(struct sim_tap){0});
	sim_observe(w->s, NULL, NULL);
	w_free(w->node);
	w_free(w->hop);
	w_free(w->before);
	for (unsigned int i = 0; i < RECORDS; i++)
		w_free(w->record[i].data);
	w_free(w);
}
