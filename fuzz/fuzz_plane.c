/* Two nodes' data paths on one link. The input is frames from the TUN (superpackets among them),
 * datagrams from anywhere, packets that the other end made up and sealed with the right key, and
 * what one end sends given to the other, or not. Whatever comes in is accounted for. The tunnel is
 * the toy of the tests: ESP has a target of its own. */
#include "fuzz.h"

#include <string.h>
#include "base/cur.h"
#include "base/mem.h"
#include "plane/rig_test.h"

enum { STEPS_MAX = 64, PACKET_MAX = 4000, NAMES = 8 };

enum step { STEP_FRAME, STEP_PACKET, STEP_SEALED, STEP_RAW, STEP_CARRY, STEP_TIME, STEP_COUNT };

struct bench {
	struct rig node[2];
};

static void round_of(struct bench *b, unsigned int i)
{
	rig_round(&b->node[i]);
	FUZZ_ASSERT(rig_balanced(&b->node[i]));
}

/* In a block of its size, so that a read past the end is seen. */
static uint8_t *copy(struct view v, uint32_t more)
{
	uint8_t *p = w_alloc(v.n + more);

	FUZZ_ASSERT(p);
	if (v.n)
		memcpy(p, v.p, v.n);
	return p;
}

static struct view take(struct cur *c)
{
	uint16_t n = cur_u16(c);

	return cur_take(c, n < c->n ? n : c->n);
}

static struct gso offload(struct cur *c)
{
	struct gso g = {.type = cur_u8(c) % 6};
	uint8_t flags = cur_u8(c);

	g.needs_csum = flags & 1;
	g.ecn = flags & 2;
	g.size = cur_u16(c);
	g.hdr_len = cur_u8(c);
	g.csum_start = cur_u8(c);
	g.csum_offset = cur_u8(c);
	return g;
}

static void frame(struct bench *b, unsigned int i, struct cur *c)
{
	struct gso g = offload(c);
	struct view v = take(c);
	uint8_t *p = copy(v, 0);

	rig_tun_gso(&b->node[i], p, (uint32_t)v.n, g);
	w_free(p);
	round_of(b, i);
}

/* A packet that is nearly right, with two bytes changed; returns its length. */
static uint32_t packet(struct cur *c, uint8_t out[static PACKET_MAX])
{
	static const char *const name6[NAMES] = {"fd00:1::5", "fd00:2::1", "fd00:77::1",
		"fe80::1:0", "ff02::1:6", "fe80::2:0", "::1", "fd00:2::9"};
	static const char *const name4[NAMES] = {"10.1.0.5", "10.2.0.1", "127.0.0.1", "224.0.0.1",
		"198.51.100.7", "10.2.0.9", "10.1.0.1", "10.77.0.1"};
	static const uint8_t proto[] = {6, 17, 58, 1};
	uint8_t flags = cur_u8(c), ends = cur_u8(c);
	struct packet f = {.version = flags & 1 ? 6 : 4,
		.df = flags & 2,
		.proto = proto[flags >> 2 & 3],
		.hop_limit = flags >> 4 & 3,
		.tos = cur_u8(c),
		.src = flags & 1 ? name6[ends & 7] : name4[ends & 7],
		.dst = flags & 1 ? name6[ends >> 3 & 7] : name4[ends >> 3 & 7],
		.sport = cur_u16(c),
		.dport = flags & 64 ? 6696 : 13000,
		.len = 60 + cur_u16(c) % (PACKET_MAX - 60)};

	packet_make(out, &f);
	for (int i = 0; i < 2; i++) {
		uint16_t at = cur_u16(c);

		out[at % f.len] ^= cur_u8(c);
	}
	return f.len;
}

static void tun_packet(struct bench *b, unsigned int i, struct cur *c)
{
	uint8_t bytes[PACKET_MAX];
	uint32_t len = packet(c, bytes);
	uint8_t *p = copy(view_of(bytes, len), 0);

	rig_tun_gso(&b->node[i], p, len, cur_u8(c) & 1 ? offload(c) : (struct gso){0});
	w_free(p);
	round_of(b, i);
}

/* What the other end sealed: a packet that is nearly right, or anything. */
static void sealed(struct bench *b, unsigned int i, uint8_t how, struct cur *c)
{
	struct rig *from = &b->node[1 - i], *to = &b->node[i];
	uint8_t bytes[PACKET_MAX];
	struct view taken = how & 1 ? view_of(bytes, packet(c, bytes)) : take(c);
	struct view v = taken.n ? taken : view_of(bytes, 0);
	uint8_t next = v.n && v.p[0] >> 4 == 6 ? 41 : 4;
	uint8_t *d = copy(v, RIG_HEAD + RIG_TAIL);
	struct udp_rx rx = {.data = d, .time = to->now, .tos = cur_u8(c)};

	rx.remote = how & 4 ? to->endpoint[0] : to->link[0].remote;
	rx.local = to->link[0].local;
	rx.len = rig_seal(&from->out[0], d, v.p, (uint32_t)v.n, how & 2 ? cur_u8(c) : next);
	plane_input_udp(to->plane, &rx, 1, to->now);
	round_of(b, i);
	w_free(d);
}

static void raw(struct bench *b, unsigned int i, uint8_t how, struct cur *c)
{
	struct rig *to = &b->node[i];
	uint16_t size = cur_u16(c);
	struct view v = take(c);
	uint8_t *d = copy(v, 0);
	struct udp_rx rx = {.data = d,
		.len = (uint32_t)v.n,
		.seg_size = size < v.n ? size : 0,
		.truncated = how & 1,
		.remote = to->link[0].remote,
		.local = to->link[0].local,
		.time = to->now};

	plane_input_udp(to->plane, &rx, 1, to->now);
	round_of(b, i);
	w_free(d);
}

static void step(struct bench *b, struct cur *c)
{
	uint8_t op = cur_u8(c), arg = cur_u8(c);
	unsigned int i = op >> 7;

	switch ((op & 0x7f) % STEP_COUNT) {
	case STEP_FRAME:
		frame(b, i, c);
		break;
	case STEP_PACKET:
		tun_packet(b, i, c);
		break;
	case STEP_SEALED:
		sealed(b, i, arg, c);
		break;
	case STEP_RAW:
		raw(b, i, arg, c);
		break;
	case STEP_CARRY:
		rig_carry(&b->node[1 - i], 0, &b->node[i]);
		round_of(b, i);
		break;
	case STEP_TIME:
		b->node[0].now = wtime_add(b->node[0].now, arg * arg * W_MS);
		b->node[1].now = b->node[0].now;
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cur c = cur_of(data, size);
	struct bench *b = w_alloc(sizeof(*b));

	FUZZ_ASSERT(b);
	rig_init(&b->node[0], 1, 1, (const unsigned int[]){2}, (const unsigned int[]){0});
	rig_init(&b->node[1], 2, 1, (const unsigned int[]){1}, (const unsigned int[]){0});
	for (unsigned int i = 0; i < STEPS_MAX && c.n && !c.bad; i++)
		step(b, &c);
	rig_done(&b->node[0]);
	rig_done(&b->node[1]);
	w_free(b);
	return 0;
}
