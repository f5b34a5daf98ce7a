/* Merging: which pairs, and that cutting gives back what was merged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include "base/rng.h"
#include "wire/gro.h"
#include "wire/gso.h"
#include "wire/packets_test.h"

enum {
	PACKETS = 300,
	ROOM = 1600,
	FRAMES = 256,
	FIN = 1,
	SYN = 2,
	RST = 4,
	PSH = 8,
	ACK = 16,
	URG = 32,
	ECE = 64,
	CWR = 128,
};

static uint8_t store[PACKETS][ROOM];
static struct tun_tx frames[FRAMES];

static struct gro fresh(void)
{
	struct gro g;

	gro_init(&g, frames, FRAMES);
	gro_set_merge(&g, true, true);
	return g;
}

static void add(struct gro *g, const struct flow_packet *f, uint32_t slot)
{
	struct ip_view v;
	uint32_t n = write_packet(f, store[slot]);

	assert_int_equal(ip_parse(view_of(store[slot], n), &v), 0);
	assert_true(gro_add(g, store[slot], &v));
}

/* As the data path does it: parsed only when it does not go on with what was before. True when it
 * was not parsed. */
static bool add_straight(struct gro *g, const struct flow_packet *f, uint32_t slot)
{
	uint32_t n = write_packet(f, store[slot]);

	if (gro_join(g, store[slot], n))
		return true;
	add(g, f, slot);
	return false;
}

static const struct flow_packet base = {.ttl = 64,
	.df = true,
	.host = 3,
	.sport = 5000,
	.dport = 443,
	.seq = 1000,
	.ack = 77,
	.flags = ACK,
	.window = 500,
	.tcp_options = 12,
	.payload = 100};

/* The packet that follows f. */
static struct flow_packet after(struct flow_packet f)
{
	f.seq += f.payload;
	f.id++;
	return f;
}

static bool pair_merges(const struct flow_packet *a, const struct flow_packet *b, bool straight)
{
	struct gro g = fresh();
	bool joined = false;
	uint32_t n;

	add(&g, a, 0);
	if (straight)
		joined = add_straight(&g, b, 1);
	else
		add(&g, b, 1);
	n = gro_finish(&g);
	assert_int_equal(joined, straight && n == 1);
	if (n == 1) {
		assert_int_equal(frames[0].segments, 2);
		assert_int_equal(frames[0].iov_count, 2);
		assert_int_not_equal(frames[0].gso.type, GSO_NONE);
		return true;
	}
	/* Header zero unless merged; both packets as they came, in order. */
	assert_int_equal(n, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct flow_packet *f = i ? b : a;
		uint8_t plain[ROOM];
		uint32_t len = write_packet(f, plain);

		assert_memory_equal(&frames[i].gso, &(struct gso){0}, sizeof(struct gso));
		assert_int_equal(frames[i].segments, 1);
		assert_int_equal(frames[i].len, len);
		assert_int_equal(frames[i].iov[0].n, len);
		assert_memory_equal(frames[i].iov[0].p, plain, len);
	}
	return false;
}

static void pairs_that_differ_in_one_thing(void **state)
{
	struct flow_packet a = base, b = after(a);

	(void)state;
#define PAIR(merges, change)                                                                       \
	do {                                                                                       \
		for (int v6 = 0; v6 < 2; v6++) {                                                   \
			a = base;                                                                  \
			a.v6 = v6;                                                                 \
			b = after(a);                                                              \
			change;                                                                    \
			assert_int_equal(pair_merges(&a, &b, false), merges);                      \
			assert_int_equal(pair_merges(&a, &b, true), merges);                       \
		}                                                                                  \
	} while (0)
	PAIR(true, (void)0);
	PAIR(false, b.ttl--);
	PAIR(false, b.tos ^= 0x20);
	PAIR(false, b.tos ^= 1); /* ECN */
	PAIR(false, b.host++);
	PAIR(false, b.sport++);
	PAIR(false, b.dport++);
	PAIR(false, b.seq++);
	PAIR(false, b.seq--);
	PAIR(false, b.seq = a.seq);
	PAIR(false, b.ack++);
	PAIR(false, b.window++);
	PAIR(false, b.urgent++);
	PAIR(false, b.flags |= URG);
	PAIR(false, a.flags |= URG; b.flags |= URG);
	PAIR(false, b.flags |= CWR);
	PAIR(true, a.flags |= CWR);
	PAIR(false, b.flags |= ECE);
	PAIR(true, a.flags |= ECE; b.flags |= ECE);
	PAIR(false, b.flags |= SYN);
	PAIR(false, a.flags |= SYN);
	PAIR(false, b.flags |= RST);
	PAIR(false, b.flags = 0);
	PAIR(true, b.flags |= FIN);
	PAIR(false, a.flags |= FIN);
	PAIR(true, b.flags |= PSH);
	PAIR(false, a.flags |= PSH); /* PSH in front */
	PAIR(false, b.option_byte = 2);
	PAIR(false, b.tcp_options = 16);
	PAIR(false, a.ip_options = 8);
	PAIR(false, b.ip_options = 8);
	PAIR(false, a.ip_options = 8; b.ip_options = 8);
	PAIR(false, b.bad_csum = true);
	PAIR(false, a.bad_csum = true);
	PAIR(true, b.payload--); /* a shorter one ends the frame */
	PAIR(false, b.payload++);
	PAIR(false, b.payload = 0);
	PAIR(false, a.payload = 0; b.seq = a.seq);
	PAIR(v6, b.df = false; b.id = 9);
	PAIR(v6, b.mf = true);
	PAIR(v6, a.mf = true);
	PAIR(!v6, b.flow_label = 1);
	/* IPv4 identification: with DF any, without DF counting up */
	PAIR(true, b.id = 999);
	PAIR(true, a.df = b.df = false);
	PAIR(v6, a.df = b.df = false; b.id = a.id);
	PAIR(v6, a.df = b.df = false; b.id += 1);
	/* families do not mix */
	PAIR(false, b.v6 = !a.v6);

	PAIR(true, a.udp = b.udp = true);
	PAIR(true, a.udp = b.udp = true; b.payload--);
	PAIR(false, a.udp = b.udp = true; b.payload++);
	PAIR(false, a.udp = b.udp = true; b.payload = 0);
	PAIR(false, a.udp = b.udp = true; b.bad_csum = true);
	PAIR(false, a.udp = b.udp = true; b.no_csum = true);
	PAIR(false, a.udp = b.udp = a.no_csum = b.no_csum = true);
	PAIR(false, a.udp = b.udp = true; b.ttl++);
	PAIR(false, b.udp = true);
#undef PAIR
}

/* Of a packet with one bit wrong somewhere, gro_join() takes no other ones than those that parsing
 * and gro_add() would merge. */
static void straight_takes_what_parsing_takes(void **state)
{
	uint32_t taken = 0;

	(void)state;
	for (uint32_t kind = 0; kind < 4; kind++) {
		struct flow_packet a = base, b;
		uint32_t n;

		a.v6 = kind & 1;
		a.udp = kind & 2;
		b = after(a);
		n = write_packet(&b, store[1]);
		for (uint32_t bit = 0; bit < n * 8; bit++) {
			struct gro g = fresh();
			struct ip_view v;
			bool parsed;

			add(&g, &a, 0);
			write_packet(&b, store[1]);
			store[1][bit / 8] ^= (uint8_t)(1U << bit % 8);
			parsed = ip_parse(view_of(store[1], n), &v) == 0 && v.len == n &&
				gro_add(&g, store[1], &v) && gro_finish(&g) == 1;
			g = fresh();
			add(&g, &a, 0);
			assert_int_equal(gro_join(&g, store[1], n), parsed);
			taken += parsed;
		}
	}
	assert_int_equal(taken, 0); /* each has a checksum that says so */
}

static void each_kind_can_be_switched_off(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 8; k++) {
		struct flow_packet a = base, b;
		struct gro g = fresh();

		a.udp = k & 4;
		b = after(a);
		gro_set_merge(&g, k & 1, k & 2);
		add(&g, &a, 0);
		add(&g, &b, 1);
		assert_int_equal(gro_finish(&g), k & (a.udp ? 2 : 1) ? 1 : 2);
	}
}

static uint32_t flatten(const struct tun_tx *t, uint8_t *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->iov_count; i++) {
		memcpy(out + n, t->iov[i].p, t->iov[i].n);
		n += t->iov[i].n;
	}
	assert_int_equal(n, t->len);
	return n;
}

/* The offload header that the kernel will check (RFC 1071 sum of the pseudo-header, …). */
static void check_offload(const struct tun_tx *t, const uint8_t *p)
{
	struct ip_view v;

	assert_int_equal(ip_parse(view_of(p, t->len), &v), 0);
	assert_int_equal(v.len, t->len);
	assert_true(t->gso.needs_csum);
	assert_int_equal(t->gso.csum_start, v.l4);
	assert_int_equal(get_u16(p + v.l4 + t->gso.csum_offset),
		naive_pseudo(p, v.proto, t->len - v.l4));
	if (v.proto == IP_PROTO_UDP)
		assert_int_equal(get_u16(p + v.l4 + 4), t->len - v.l4);
	else
		assert_int_equal(t->gso.ecn, (p[v.l4 + 13] & CWR) != 0);
	assert_int_equal(t->gso.hdr_len,
		v.l4 + (v.proto == IP_PROTO_UDP ? 8 : p[v.l4 + 12] / 16 * 4));
}

/* Equal but for the IPv4 identification of a packet with DF. */
static void assert_same_packet(const uint8_t *got, const uint8_t *want, uint32_t n)
{
	uint8_t a[ROOM], b[ROOM];

	memcpy(a, got, n);
	memcpy(b, want, n);
	if (a[0] >> 4 == 4 && (b[6] & 0x40)) {
		memset(a + 4, 0, 2);
		memset(b + 4, 0, 2);
		memset(a + 10, 0, 2);
		memset(b + 10, 0, 2);
	}
	assert_memory_equal(a, b, n);
}

/* What went in, to be found again flow by flow. */
struct sent {
	struct flow_packet f;
	bool found;
};

static bool same_flow(const struct flow_packet *a, const struct flow_packet *b)
{
	return a->v6 == b->v6 && a->udp == b->udp && a->sport == b->sport;
}

/* Cuts all frames and finds every packet again; within a flow, in the order sent. */
static void check_frames(uint32_t n, struct sent *sent, uint32_t count)
{
	static uint8_t flat[70000], packet[70000], want[70000];
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct tun_rx rx = {.data = flat,
			.len = flatten(&frames[i], flat),
			.gso = frames[i].gso};
		struct gso_split s;

		if (rx.gso.type != GSO_NONE)
			check_offload(&frames[i], flat);
		assert_int_equal(gso_split_init(&rx, &s), DROP_NONE);
		assert_int_equal(s.segments, frames[i].segments);
		for (uint32_t k = 0; k < s.segments; k++) {
			uint32_t len = gso_split_write(&s, k, packet), j = 0;
			uint16_t sport = get_u16(packet + s.view.l4);

			/* the first of its flow that was not found yet */
			while (j < count &&
				(sent[j].found || sent[j].f.sport != sport ||
					sent[j].f.v6 != (s.view.family == IP6) ||
					sent[j].f.udp != (s.view.proto == IP_PROTO_UDP)))
				j++;
			assert_true(j < count);
			assert_int_equal(len, write_packet(&sent[j].f, want));
			assert_same_packet(packet, want, len);
			sent[j].found = true;
			found++;
		}
	}
	assert_int_equal(found, count);
}

/* Mutates a packet of a flow, mostly not at all. */
static void mutate(const struct rng *rng, struct flow_packet *f)
{
	uint64_t kind;

	assert_int_equal(rng_below(rng, 60, &kind), 0);
	switch (kind) {
	case 0:
		f->ttl--;
		break;
	case 1:
		f->tos ^= 3;
		break;
	case 2:
		f->flags |= PSH;
		break;
	case 3:
		f->flags |= FIN;
		break;
	case 4:
		f->flags |= CWR;
		break;
	case 5:
		f->flags ^= ECE;
		break;
	case 6:
		f->bad_csum = true;
		break;
	case 7:
		f->no_csum = f->udp;
		break;
	case 8:
		f->payload = f->payload / 2;
		break;
	case 9:
		f->payload = 0;
		break;
	case 10:
		f->payload += 10;
		break;
	case 11:
		f->seq += 5;
		break;
	case 12:
		f->ack++;
		break;
	case 13:
		f->window++;
		break;
	case 14:
		f->option_byte = 7;
		break;
	case 15:
		f->tcp_options = 0;
		break;
	case 16:
		f->ip_options = 8;
		break;
	case 17:
		f->df = !f->df;
		break;
	case 18:
		f->id = 7;
		break;
	case 19:
		f->flow_label ^= 1;
		break;
	case 20:
		f->flags |= SYN;
		break;
	case 21:
		f->flags |= URG;
		break;
	case 22:
		f->urgent = 1;
		break;
	default:
		break;
	}
}

static void random_traffic_comes_back(void **state)
{
	static struct sent sent[PACKETS];
	struct rng_seeded seed;
	struct rng rng = rng_seeded_init(&seed, 66);
	uint32_t merged = 0, straight = 0;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		struct flow_packet flow[12];
		uint64_t flows, which;
		struct gro g = fresh();
		uint32_t n;

		assert_int_equal(rng_below(&rng, 12, &flows), 0);
		for (uint32_t i = 0; i < 12; i++) {
			flow[i] = base;
			flow[i].v6 = i & 1;
			flow[i].udp = i & 2;
			flow[i].df = i & 4;
			flow[i].sport = (uint16_t)(5000 + i);
			flow[i].id = 0xfff0;
			flow[i].seq = 0xffffff00;
		}
		for (uint32_t i = 0; i < FRAMES; i++) {
			struct flow_packet *f;

			assert_int_equal(rng_below(&rng, flows + 1, &which), 0);
			f = &flow[which];
			sent[i] = (struct sent){.f = *f};
			sent[i].f.fill = (uint8_t)i;
			mutate(&rng, &sent[i].f);
			assert_true(same_flow(f, &sent[i].f));
			if (round % 2)
				straight += add_straight(&g, &sent[i].f, i);
			else
				add(&g, &sent[i].f, i);
			f->seq = sent[i].f.seq + sent[i].f.payload;
			f->id = (uint16_t)(sent[i].f.id + 1);
		}
		n = gro_finish(&g);
		merged += FRAMES - n;
		check_frames(n, sent, FRAMES);
	}
	assert_true(merged > 200 * FRAMES / 4);
	assert_true(straight > merged / 20);
}

static void limits_of_a_frame(void **state)
{
	static struct sent sent[130];
	struct gro g = fresh();
	struct flow_packet f = base;
	uint32_t n;

	(void)state;
	for (uint32_t i = 0; i < 130; i++) {
		sent[i] = (struct sent){.f = f};
		add(&g, &f, i);
		f = after(f);
	}
	n = gro_finish(&g);
	assert_int_equal(n, 3);
	assert_int_equal(frames[0].segments, GRO_SEGMENTS_MAX);
	assert_int_equal(frames[2].segments, 2);
	check_frames(n, sent, 130);
	/* 65,535 bytes */
	g = fresh();
	f = base;
	f.payload = 1448;
	for (uint32_t i = 0; i < 60; i++) {
		sent[i] = (struct sent){.f = f};
		add(&g, &f, i);
		f = after(f);
	}
	n = gro_finish(&g);
	assert_int_equal(n, 2);
	assert_int_equal(frames[0].segments, (65535 - 52) / 1448);
	check_frames(n, sent, 60);
}

/* A bad segment in the middle: what is before is merged, it passes alone, the rest is merged again.
 */
static void bad_checksum_in_the_middle(void **state)
{
	static struct sent sent[9];
	struct gro g = fresh();
	struct flow_packet f = base;
	uint32_t n;

	(void)state;
	for (uint32_t i = 0; i < 9; i++) {
		sent[i] = (struct sent){.f = f};
		sent[i].f.bad_csum = i == 4;
		add(&g, &sent[i].f, i);
		f = after(f);
	}
	n = gro_finish(&g);
	assert_int_equal(n, 3);
	assert_int_equal(frames[0].segments, 4);
	assert_int_equal(frames[1].gso.type, GSO_NONE);
	assert_int_equal(frames[2].segments, 4);
	check_frames(n, sent, 9);
}

static void full_and_begun_again(void **state)
{
	struct gro g;
	struct flow_packet f = base, other = base;
	struct ip_view v;
	uint32_t n;

	(void)state;
	gro_init(&g, frames, 1);
	gro_set_merge(&g, true, true);
	add(&g, &f, 0);
	other.sport++;
	n = write_packet(&other, store[1]);
	assert_int_equal(ip_parse(view_of(store[1], n), &v), 0);
	assert_false(gro_add(&g, store[1], &v));
	f = after(f);
	add(&g, &f, 2); /* joins the frame that is there */
	assert_int_equal(gro_finish(&g), 1);
	gro_reset(&g);
	f = after(f);
	add(&g, &f, 0);
	assert_int_equal(gro_finish(&g), 1);
	assert_int_equal(frames[0].gso.type, GSO_NONE);
	assert_int_equal(frames[0].segments, 1);
}

/* A later fragment of the same hosts is not overtaken by what comes after it. */
static void fragments_keep_their_place(void **state)
{
	struct gro g = fresh();
	struct flow_packet a = base, b = after(a);
	struct ip_view v;
	uint32_t n;

	(void)state;
	add(&g, &a, 0);
	n = write_packet(&a, store[1]);
	put_u16(store[1] + 6, 0x0010);
	ip4_write_checksum(store[1], IP4_HEADER);
	assert_int_equal(ip_parse(view_of(store[1], n), &v), 0);
	assert_true(gro_add(&g, store[1], &v));
	add(&g, &b, 2);
	assert_int_equal(gro_finish(&g), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_that_differ_in_one_thing),
		cmocka_unit_test(straight_takes_what_parsing_takes),
		cmocka_unit_test(each_kind_can_be_switched_off),
		cmocka_unit_test(random_traffic_comes_back),
		cmocka_unit_test(limits_of_a_frame),
		cmocka_unit_test(bad_checksum_in_the_middle),
		cmocka_unit_test(full_and_begun_again),
		cmocka_unit_test(fragments_keep_their_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
