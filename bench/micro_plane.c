/* What a packet costs in the data path: superpackets TUN -> seal -> open -> TUN through two planes
 * with ESP, no system calls. Prints nanoseconds a packet for each direction: those of the best
 * round, which is short enough to fall between what else the machine does. And what helpers take
 * over of that, with none, one and two of them, where nothing may be lost or change its order. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/mem.h"
#include "esp/esp.h"
#include "plane/plane.h"
#include "wire/csum.h"
#include "wire/ip.h"

enum { FRAMES = 16, HEADER = 40, ROUNDS = 2000, ROUNDS_SHORT = 50 };
enum { HELPERS = 2, BUFFERS = 8, BATCH = 16, ESP_SEQ_AT = 4, ID_STEP = 64 };

struct node {
	uint32_t helpers;
	struct plane *plane;
	struct plane_link link;
	const struct plane_link *links[1];
	struct plane_link_state state;
	struct plane_snapshot snapshot;
	struct plane_next_hop hop[2];
	struct esp_table *table;
	void *memory;
	struct tunnel_sa *out, *in;
	struct plane_srv6 srv6;
	struct plane_steer steer;
	struct srv6_steer push;
};

/* Ends the program, with what was to be and what is. */
static void must_be(const char *what, uint64_t wanted, uint64_t found)
{
	if (wanted == found)
		return;
	fprintf(stderr, "%s: %llu instead of %llu\n", what, (unsigned long long)found,
		(unsigned long long)wanted);
	abort();
}

/* Ends the program unless all could be made. */
static void must(bool made, const char *what)
{
	if (made)
		return;
	fprintf(stderr, "%s could not be made\n", what);
	abort();
}

static bool ignore_up(void *ctx, const struct plane_up *up)
{
	(void)ctx;
	(void)up;
	return true;
}

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void give_way(void *ctx)
{
	(void)ctx;
	sched_yield();
}

static struct tunnel_sa *sa_new(const struct crypto_backend *crypto, bool inbound, uint32_t spi)
{
	static const uint8_t key[64] = {1, 2, 3};
	struct esp_sa_config c = {.crypto = crypto,
		.inbound = inbound,
		.spi = spi,
		.aead = AEAD_AES256_GCM16,
		.key = key,
		.esn = true,
		.lanes = 1 + HELPERS};
	struct tunnel_sa *sa;

	must(esp_sa_new(&c, &sa) == 0, "an SA");
	return sa;
}

static struct fib_entry route(const char *text, uint32_t value)
{
	struct fib_entry e = {.value = value};

	must(prefix_parse(text, &e.destination) == 0, text);
	return e;
}

static void node_init(struct node *n, const struct crypto_backend *crypto, uint32_t spi_out,
	uint32_t spi_in, bool near)
{
	struct fib_entry e[] = {route("10.1.0.0/16", near), route("10.2.0.0/16", !near),
		route("fd00:2::/32", !near)};
	struct plane_config c = {.ops = esp_ops(),
		.up = ignore_up,
		.merge_tcp = true,
		.merge_udp = true,
		.segments_max = 64,
		.helpers = n->helpers,
		.relax = give_way};
	struct plane_down m = {.type = PLANE_DOWN_LINK_ADD, .state = &n->state};
	wtime now = {1};
	struct fib *fib;

	must(esp_table_new(16, &n->table) == 0 && fib_build(e, 3, &fib) == 0, "tables");
	c.table = n->table;
	n->memory = aligned_alloc(64, (plane_memory(&c) + 63) & ~(size_t)63);
	must(n->memory, "a plane");
	memset(n->memory, 0, plane_memory(&c));
	n->plane = plane_init(&c, n->memory);
	n->hop[0] = (struct plane_next_hop){.type = PLANE_LINK};
	n->hop[1] = (struct plane_next_hop){.type = PLANE_LOCAL};
	n->link = (struct plane_link){.usable = true, .mtu = 1400, .datagram_max = 1452};
	n->links[0] = &n->link;
	n->snapshot = (struct plane_snapshot){.fib = fib,
		.next_hop = n->hop,
		.next_hop_count = 2,
		.link = n->links,
		.link_count = 1,
		.transit = true};
	n->out = sa_new(crypto, false, spi_out);
	n->in = sa_new(crypto, true, spi_in);
	plane_down(n->plane, &m, now);
	m = (struct plane_down){.type = PLANE_DOWN_SA_ADD, .sa = n->in};
	plane_down(n->plane, &m, now);
	m = (struct plane_down){.type = PLANE_DOWN_SA_OUTBOUND, .sa = n->out};
	plane_down(n->plane, &m, now);
	m = (struct plane_down){.type = PLANE_DOWN_SNAPSHOT, .snapshot = &n->snapshot};
	plane_down(n->plane, &m, now);
}

static void node_done(struct node *n)
{
	esp_sa_free(n->in);
	esp_sa_free(n->out);
	esp_table_free(n->table);
	fib_free((struct fib *)(uintptr_t)n->snapshot.fib);
	policy_free((struct policy *)(uintptr_t)n->srv6.policy);
	srv6_table_free((struct srv6_table *)(uintptr_t)n->srv6.localsid);
	fib_free((struct fib *)(uintptr_t)n->srv6.mesh_source);
	free(n->memory);
	free(n);
}

static void frame_make(struct tun_rx *f, uint32_t segments, uint32_t payload)
{
	static const uint8_t src[4] = {10, 1, 0, 5}, dst[4] = {10, 2, 0, 1};
	struct ipaddr s = ipaddr_from(IP4, src), d = ipaddr_from(IP4, dst);
	uint8_t *p;

	*f = (struct tun_rx){.len = HEADER + segments * payload};
	p = f->data = calloc(1, f->len);
	must(p, "a frame");
	p[0] = 0x45;
	put_u16(p + 2, (uint16_t)f->len);
	p[6] = 0x40;
	p[8] = 64;
	p[9] = IP_PROTO_TCP;
	memcpy(p + 12, src, 4);
	memcpy(p + 16, dst, 4);
	ip4_write_checksum(p, IP4_HEADER);
	put_u16(p + 20, 1);
	put_u16(p + 22, 2);
	p[32] = 0x50;
	p[33] = 0x10;
	put_u16(p + 34, 1000);
	put_u16(p + 36, csum_fold(ip_pseudo_sum(&s, &d, IP_PROTO_TCP, f->len - IP4_HEADER)));
	f->gso = (struct gso){.type = segments > 1 ? GSO_TCP4 : GSO_NONE,
		.needs_csum = true,
		.size = segments > 1 ? (uint16_t)payload : 0,
		.hdr_len = HEADER,
		.csum_start = IP4_HEADER,
		.csum_offset = 16};
}

struct times {
	int64_t seal, open;
	uint64_t packets, frames;
};

/* One round on both sides: a's send buffers are b's receive buffers. */
static void round_trip(struct node *a, struct node *b, struct tun_rx *frame, struct times *t)
{
	static struct udp_rx rx[PLANE_UDP_OUT_MAX];
	wtime now = {1000000};
	int64_t began = clock_ns(), middle;
	const struct tun_tx *out;
	const struct udp_tx *tx;
	size_t n;

	plane_input_tun(a->plane, frame, FRAMES, now);
	plane_flush(a->plane, now);
	tx = plane_udp_out(a->plane, &n);
	middle = clock_ns();
	t->seal += middle - began;
	for (size_t i = 0; i < n; i++)
		rx[i] = (struct udp_rx){.data = (uint8_t *)(uintptr_t)tx[i].data,
			.len = tx[i].len,
			.seg_size = tx[i].seg_size};
	began = clock_ns();
	plane_input_udp(b->plane, rx, n, now);
	plane_flush(b->plane, now);
	out = plane_tun_out(b->plane, &n);
	t->open += clock_ns() - began;
	for (size_t i = 0; i < n; i++)
		t->packets += out[i].segments;
	t->frames += n;
	plane_round_done(a->plane);
	plane_round_done(b->plane);
}

static void publish(struct node *n)
{
	struct plane_down m = {.type = PLANE_DOWN_SNAPSHOT, .snapshot = &n->snapshot};

	n->snapshot.srv6 = &n->srv6;
	plane_down(n->plane, &m, (wtime){1});
}

/* A policy of a for all that goes to b: through two Ends of b, out at its End.DT46. */
static void steer(struct node *a, struct node *b)
{
	struct policy_rule rule = {.destination = route("10.2.0.0/16", 0).destination};
	struct srv6_localsid sid[3] = {{.behaviour = SRV6_END}, {.behaviour = SRV6_END},
		{.behaviour = SRV6_END_DT46, .argument = PLANE_TABLE_HOST}};
	struct fib_entry mesh = route("fd00::/16", 0);
	struct ipaddr segment[3];
	struct srv6_steer_config c = {.source = {.family = IP6, .b = {0xfd, 0, 0, 1}},
		.segment = segment,
		.count = 3};
	struct srv6_table *table;
	struct policy *policy;
	struct fib *set;

	for (uint8_t i = 0; i < 3; i++) {
		segment[i] = (struct ipaddr){.family = IP6, .b = {0xfd, 0, 0, 2, [15] = i + 1}};
		sid[i].sid = (struct prefix){.addr = segment[i], .len = 128};
	}
	must(policy_build(&rule, 1, &policy) == 0 && srv6_steer_build(&c, &a->push) == 0 &&
			srv6_table_build(sid, 3, &table) == 0 && fib_build(&mesh, 1, &set) == 0,
		"a steered path");
	a->steer = (struct plane_steer){.type = PLANE_STEER_PUSH, .push = &a->push};
	a->srv6 = (struct plane_srv6){.policy = policy, .steer = &a->steer, .steer_count = 1};
	b->srv6 = (struct plane_srv6){.localsid = table, .mesh_source = set};
	publish(a);
	publish(b);
}

static void measure(const struct crypto_backend *crypto, uint32_t segments, uint32_t payload,
	int rounds, bool steered)
{
	struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct tun_rx frame[FRAMES];
	struct times t = {0}, best = {0};

	must(a && b, "nodes");
	node_init(a, crypto, 1000, 2000, true);
	node_init(b, crypto, 2000, 1000, false);
	if (steered)
		steer(a, b);
	for (size_t i = 0; i < FRAMES; i++)
		frame_make(&frame[i], segments, payload);
	for (int i = 0; i < rounds; i++) {
		t = (struct times){0};
		round_trip(a, b, frame, &t);
		must_be("packets", (uint64_t)FRAMES * segments, t.packets);
		if (i == 0 || t.seal < best.seal)
			best.seal = t.seal;
		if (i == 0 || t.open < best.open)
			best.open = t.open;
	}
	printf("%4u x %4u%s: seal %4lld ns, open %4lld ns a packet; %.1f packets a TUN frame\n",
		segments, payload + HEADER, steered ? " by 3 segments" : "",
		(long long)(best.seal / (int64_t)t.packets),
		(long long)(best.open / (int64_t)t.packets), (double)t.packets / (double)t.frames);
	for (size_t i = 0; i < FRAMES; i++)
		free(frame[i].data);
	node_done(a);
	node_done(b);
}

/* ---- helpers ---- */

/* A thread that works for both planes. */
struct helper {
	struct node *a, *b;
	uint32_t number;
	_Atomic bool *stop;
	pthread_t thread;
	uint64_t did; /* pieces */
};

static void *help(void *arg)
{
	struct helper *h = arg;

	while (!atomic_load(h->stop)) {
		bool some = plane_help(h->a->plane, h->number);

		some |= plane_help(h->b->plane, h->number);
		h->did += some;
		if (!some)
			sched_yield();
	}
	return NULL;
}

struct parts {
	int64_t give, sealed, pure, opened; /* ns of a round */
};

/* The sends of a round as their receiver's buffers, whose datagrams have numbers without a gap. */
static size_t receive(const struct udp_tx *tx, size_t n, uint32_t *seq, struct udp_rx *rx)
{
	for (size_t i = 0; i < n; i++) {
		rx[i] = (struct udp_rx){.data = (uint8_t *)(uintptr_t)tx[i].data,
			.len = tx[i].len,
			.seg_size = tx[i].seg_size};
		for (uint32_t at = 0; at < tx[i].len; at += tx[i].seg_size)
			must_be("sequence number", ++*seq, get_u32(tx[i].data + at + ESP_SEQ_AT));
	}
	return n;
}

/* The time of authenticating and decrypting alone, of copies of the datagrams. */
static int64_t open_alone(struct node *b, const struct udp_rx *rx, size_t n)
{
	static uint8_t copy[BATCH][2048];
	struct tunnel_open op[BATCH];
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		for (uint32_t at = 0; at < rx[i].len;) {
			uint32_t count = 0;
			int64_t began;

			for (; count < BATCH && at < rx[i].len; count++, at += rx[i].seg_size) {
				memcpy(copy[count], rx[i].data + at, rx[i].seg_size);
				op[count] = (struct tunnel_open){.data = copy[count],
					.len = rx[i].seg_size};
				esp_ops()->demux(b->table, &op[count]);
			}
			esp_ops()->check(op, count);
			began = clock_ns();
			esp_ops()->open_batch(op, count);
			sum += clock_ns() - began;
		}
	return sum;
}

static void best_of(int64_t *best, int64_t now, bool first)
{
	if (first || now < *best)
		*best = now;
}

/* One round; what came out is whole, and in the order of what went in. */
static struct parts round_helped(struct node *a, struct node *b, struct tun_rx *frame,
	uint32_t *seq)
{
	static struct udp_rx rx[PLANE_UDP_OUT_MAX];
	wtime now = {1000000};
	int64_t began = clock_ns();
	const struct tun_tx *out;
	const struct udp_tx *tx;
	struct parts p;
	size_t n;

	plane_input_tun(a->plane, frame, FRAMES, now);
	p.give = clock_ns() - began;
	plane_flush(a->plane, now);
	tx = plane_udp_out(a->plane, &n);
	for (size_t i = 0; i < n;)
		i += plane_udp_wait(a->plane, i);
	p.sealed = clock_ns() - began;
	n = receive(tx, n, seq, rx);
	p.pure = open_alone(b, rx, n);
	began = clock_ns();
	for (size_t i = 0; i < n; i += BUFFERS)
		plane_input_udp(b->plane, rx + i, n - i < BUFFERS ? n - i : BUFFERS, now);
	plane_flush(b->plane, now);
	out = plane_tun_out(b->plane, &n);
	p.opened = clock_ns() - began;
	must_be("frames", FRAMES, n);
	for (size_t i = 0; i < n; i++) {
		must_be("segments of a frame", 45, out[i].segments);
		must_be("identification of a frame", i * ID_STEP, get_u16(out[i].iov[0].p + 4));
	}
	plane_round_done(a->plane);
	plane_round_done(b->plane);
	return p;
}

static void measure_helped(const struct crypto_backend *crypto, uint32_t helpers, int rounds)
{
	struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct tun_rx frame[FRAMES];
	struct helper h[HELPERS];
	struct parts best = {0};
	_Atomic bool stop = false;
	uint32_t seq = 0;
	const int64_t packets = FRAMES * 45;

	must(a && b, "nodes");
	a->helpers = b->helpers = HELPERS;
	node_init(a, crypto, 1000, 2000, true);
	node_init(b, crypto, 2000, 1000, false);
	for (size_t i = 0; i < FRAMES; i++) {
		frame_make(&frame[i], 45, 1360);
		put_u16(frame[i].data + 4, (uint16_t)(i * ID_STEP));
		ip4_write_checksum(frame[i].data, IP4_HEADER);
	}
	for (uint32_t i = 0; i < helpers; i++) {
		h[i] = (struct helper){.a = a, .b = b, .number = i, .stop = &stop};
		must(pthread_create(&h[i].thread, NULL, help, &h[i]) == 0, "a thread");
	}
	for (int i = 0; i < rounds; i++) {
		struct parts p = round_helped(a, b, frame, &seq);

		best_of(&best.give, p.give, i == 0);
		best_of(&best.sealed, p.sealed, i == 0);
		best_of(&best.pure, p.pure, i == 0);
		best_of(&best.opened, p.opened, i == 0);
	}
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < helpers; i++)
		(void)pthread_join(h[i].thread, NULL);
	must_be("packets opened", (uint64_t)rounds * (uint64_t)packets, b->in->packets);
	printf("  %u helpers: handed over %lld ns, all sealed %lld ns; all opened %lld ns (of it "
	       "decrypting %lld ns) a packet\n",
		helpers, (long long)(best.give / packets), (long long)(best.sealed / packets),
		(long long)(best.opened / packets), (long long)(best.pure / packets));
	for (size_t i = 0; i < FRAMES; i++)
		free(frame[i].data);
	node_done(a);
	node_done(b);
}

/* With any argument one short run, for the tests: nothing may be lost. */
int main(int argc, char **argv)
{
	int rounds = argc > 1 ? ROUNDS_SHORT : ROUNDS;

	(void)argv;
	for (int id = 0; id < CRYPTO_BACKEND_COUNT; id++) {
		struct crypto_backend *b;

		if (crypto_backend_new((enum crypto_backend_id)id, &b) < 0)
			continue;
		printf("AES-256-GCM by %s\n", crypto_backend_text(b));
		measure(b, 45, 1360, rounds, false);
		measure(b, 1, 1360, rounds, false);
		measure(b, 1, 24, rounds, false);
		measure(b, 45, 1280, rounds, false);
		measure(b, 45, 1280, rounds, true);
		measure(b, 1, 24, rounds, true);
		for (uint32_t n = 0; n <= HELPERS; n++)
			measure_helped(b, n, rounds);
		crypto_backend_free(b);
	}
	return 0;
}
