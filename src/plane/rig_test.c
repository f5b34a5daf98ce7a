/* Nodes with a toy tunnel, for the tests of the plane. */
#include "plane/rig_test.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"

/* ---- the toy tunnel ---- */

static uint32_t toy_sum(const uint8_t *p, uint32_t n)
{
	uint32_t sum = 2166136261U;

	for (uint32_t i = 0; i < n; i++)
		sum = (sum ^ p[i]) * 16777619U;
	return sum;
}

static int toy_add(void *table, struct tunnel_sa *sa)
{
	struct toy_table *t = table;
	struct toy_sa *x = (struct toy_sa *)sa;

	for (size_t i = 0; i < RIG_SAS; i++)
		if (t->sa[i] && t->sa[i]->spi == x->spi)
			return -EEXIST;
	for (size_t i = 0; i < RIG_SAS; i++)
		if (!t->sa[i]) {
			t->sa[i] = x;
			return 0;
		}
	return -ENOSPC;
}

static void toy_remove(void *table, struct tunnel_sa *sa)
{
	struct toy_table *t = table;

	for (size_t i = 0; i < RIG_SAS; i++)
		if (t->sa[i] && &t->sa[i]->t == sa)
			t->sa[i] = NULL;
}

static void toy_demux(void *table, struct tunnel_open *op)
{
	struct toy_table *t = table;

	op->drop = DROP_RUNT;
	if (op->len < RIG_HEAD + RIG_TAIL)
		return;
	op->drop = DROP_UNKNOWN_SPI;
	for (size_t i = 0; i < RIG_SAS; i++)
		if (t->sa[i] && t->sa[i]->spi == get_u32(op->data)) {
			op->sa = &t->sa[i]->t;
			op->drop = DROP_NONE;
		}
}

static uint32_t toy_sealed_len(const struct tunnel_sa *sa, uint32_t len)
{
	(void)sa;
	return len + RIG_HEAD + RIG_TAIL;
}

static uint32_t toy_inner_max(const struct tunnel_sa *sa, uint32_t datagram)
{
	(void)sa;
	return datagram - RIG_HEAD - RIG_TAIL;
}

static enum tunnel_limit toy_reserve(struct tunnel_sa *sa, uint32_t n, uint64_t *ret_first)
{
	struct toy_sa *x = (struct toy_sa *)sa;

	if (x->next + n - 1 > x->hard)
		return TUNNEL_HARD;
	*ret_first = x->next;
	x->next += n;
	sa->packets += n;
	sa->highest = x->next - 1;
	return sa->highest >= x->soft ? TUNNEL_SOFT : TUNNEL_OK;
}

static void toy_seal(struct tunnel_seal *op, uint32_t n)
{
	for (; n > 0; n--, op++) {
		uint8_t *d = op->text - RIG_HEAD;

		put_u32(d, ((struct toy_sa *)op->sa)->spi);
		put_u32(d + 4, (uint32_t)op->seq);
		for (uint32_t i = 0; i < op->len; i++)
			op->text[i] ^= 0x5a;
		op->text[op->len] = op->next_header;
		put_u32(op->text + op->len + 1, toy_sum(d, RIG_HEAD + op->len + 1));
		op->sealed = ((struct toy_sa *)op->sa)->broken ? 0 : op->len + RIG_HEAD + RIG_TAIL;
	}
}

static void toy_check(struct tunnel_open *op, uint32_t n)
{
	for (; n > 0; n--, op++)
		op->checked = op->drop == DROP_NONE;
}

static void toy_open(struct tunnel_open *op, uint32_t n)
{
	for (; n > 0; n--, op++) {
		if (op->drop != DROP_NONE)
			continue;
		op->seq = get_u32(op->data + 4);
		op->text = op->data + RIG_HEAD;
		op->text_len = op->len - RIG_HEAD - RIG_TAIL;
		op->next_header = op->text[op->text_len];
		if (toy_sum(op->data, op->len - 4) != get_u32(op->data + op->len - 4)) {
			op->drop = DROP_NOT_AUTHENTIC;
			continue;
		}
		for (uint32_t i = 0; i < op->text_len; i++)
			op->text[i] ^= 0x5a;
		if (op->next_header != 4 && op->next_header != 41 && op->next_header != 59)
			op->drop = DROP_BAD_NEXT_HEADER;
	}
}

static enum drop_reason toy_accept(struct tunnel_open *op)
{
	struct toy_sa *x = (struct toy_sa *)op->sa;
	uint64_t back;

	if (op->drop != DROP_NONE)
		return op->drop;
	if (op->next_header == 59)
		return DROP_DUMMY;
	if (op->seq > op->sa->highest) {
		uint64_t ahead = op->seq - op->sa->highest;

		x->seen = ahead < 64 ? x->seen << ahead | 1 : 1;
		op->sa->highest = op->seq;
		return DROP_NONE;
	}
	back = op->sa->highest - op->seq;
	if (back >= 64)
		return DROP_REPLAY_OLD;
	if (x->seen >> back & 1)
		return DROP_REPLAY_DUPLICATE;
	x->seen |= UINT64_C(1) << back;
	return DROP_NONE;
}

static const struct tunnel_ops toy_ops = {
	.add = toy_add,
	.remove = toy_remove,
	.demux = toy_demux,
	.sealed_len = toy_sealed_len,
	.inner_max = toy_inner_max,
	.reserve = toy_reserve,
	.seal_batch = toy_seal,
	.check = toy_check,
	.open_batch = toy_open,
	.accept = toy_accept,
};

/* ---- nodes ---- */

static bool rig_on_up(void *ctx, const struct plane_up *up)
{
	struct rig *r = ctx;
	struct rig_up *x;

	if (r->up_full && up->type != PLANE_UP_SA_GONE && up->type != PLANE_UP_LINK_GONE &&
		up->type != PLANE_UP_SNAPSHOT_GONE)
		return false;
	x = &r->up[r->ups++ % RIG_UPS];
	x->up = *up;
	if (up->data.n > 0 && up->data.n <= sizeof(x->data))
		memcpy(x->data, up->data.p, up->data.n);
	x->up.data.p = x->data;
	return true;
}

static bool rig_ike_known(const void *ctx, uint64_t spi_i, uint64_t spi_r)
{
	const struct rig *r = ctx;

	return r->known && r->known(NULL, spi_i, spi_r);
}

void rig_know(struct rig *r, bool (*known)(const void *ctx, uint64_t spi_i, uint64_t spi_r))
{
	r->known = known;
}

uint32_t rig_seal(struct toy_sa *sa, uint8_t *out, const uint8_t *packet, uint32_t len,
	uint8_t next_header)
{
	struct tunnel_seal op = {.sa = &sa->t,
		.text = out + RIG_HEAD,
		.len = len,
		.next_header = next_header};

	assert_int_equal(toy_reserve(&sa->t, 1, &op.seq), TUNNEL_OK);
	memcpy(op.text, packet, len);
	toy_seal(&op, 1);
	return op.sealed;
}

static struct ipaddr addr(const char *s)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(s, &a), 0);
	return a;
}

static struct ipaddr addr_of(const char *form, unsigned int a, unsigned int b)
{
	char s[64];

	snprintf(s, sizeof(s), form, a, b);
	return addr(s);
}

struct fib_entry rig_route(const char *destination, const char *source, uint32_t value)
{
	struct fib_entry e = {.value = value};

	assert_int_equal(prefix_parse(destination, &e.destination), 0);
	if (source)
		assert_int_equal(prefix_parse(source, &e.source), 0);
	return e;
}

static void push(struct rig *r, struct plane_down m)
{
	plane_down(r->plane, &m, r->now);
}

void rig_routes(struct rig *r, unsigned int id, const unsigned int *peers,
	const struct fib_entry *more, size_t n)
{
	struct fib_entry e[2 * RIG_LINKS + 16];
	struct fib *old = r->fib;
	size_t have = 0;
	char s[64];

	for (unsigned int i = 0; i < r->snapshot.link_count; i++) {
		snprintf(s, sizeof(s), "fd00:%x::/32", peers[i]);
		e[have++] = rig_route(s, NULL, i);
		snprintf(s, sizeof(s), "10.%u.0.0/16", peers[i]);
		e[have++] = rig_route(s, NULL, i);
	}
	snprintf(s, sizeof(s), "fd00:%x::/32", id);
	e[have++] = rig_route(s, NULL, RIG_LOCAL);
	for (size_t i = 0; i < n; i++)
		e[have++] = more[i];
	assert_int_equal(fib_build(e, have, &r->fib), 0);
	r->snapshot.fib = r->fib;
	push(r, (struct plane_down){.type = PLANE_DOWN_SNAPSHOT, .snapshot = &r->snapshot});
	fib_free(old);
}

static void link_init(struct rig *r, unsigned int id, unsigned int i, unsigned int peer,
	unsigned int far)
{
	r->link[i] = (struct plane_link){
		.slot = i,
		.usable = true,
		.mtu = 1400,
		.datagram_max = 1452,
		.local = {.ip = addr_of("192.0.2.%u", id, 0), .port = (uint16_t)(13000 + i)},
		.remote = {.ip = addr_of("192.0.2.%u", peer, 0), .port = (uint16_t)(13000 + far)},
		.own_link_local = addr_of("fe80::%x:%x", id, i),
		.peer_link_local = addr_of("fe80::%x:%x", peer, far),
	};
	r->links[i] = &r->link[i];
	r->out[i] = (struct toy_sa){
		.t = {.slot = i, .child = 100 + i, .headroom = RIG_HEAD, .tailroom = RIG_TAIL},
		.spi = id * 16 + i,
		.next = 1,
		.soft = UINT64_MAX,
		.hard = UINT32_MAX,
	};
	r->in[i] = (struct toy_sa){.t = {.slot = i, .child = 200 + i, .inbound = true},
		.spi = peer * 16 + far};
	push(r, (struct plane_down){.type = PLANE_DOWN_LINK_ADD, .slot = i, .state = &r->state[i]});
	push(r, (struct plane_down){.type = PLANE_DOWN_SA_ADD, .sa = &r->in[i].t});
	push(r, (struct plane_down){.type = PLANE_DOWN_SA_ADD, .sa = &r->out[i].t});
	push(r, (struct plane_down){.type = PLANE_DOWN_SA_OUTBOUND, .slot = i, .sa = &r->out[i].t});
}

void rig_init(struct rig *r, unsigned int id, unsigned int links, const unsigned int *peers,
	const unsigned int *far)
{
	rig_init_helped(r, id, links, peers, far, 0);
}

static void rig_on_call(void *ctx)
{
	struct rig *r = ctx;

	r->calls++;
}

static void rig_on_relax(void *ctx)
{
	struct rig *r = ctx;

	r->relaxed++;
	if (r->relax)
		r->relax(r);
}

void rig_init_helped(struct rig *r, unsigned int id, unsigned int links, const unsigned int *peers,
	const unsigned int *far, uint32_t helpers)
{
	struct plane_config c = {
		.ops = &toy_ops,
		.table = &r->table,
		.up = rig_on_up,
		.up_ctx = r,
		.ike_known = rig_ike_known,
		.ike_known_ctx = r,
		.merge_tcp = true,
		.merge_udp = true,
		.aqm = true,
		.segments_max = 64,
		.unknown_ike_rate = 10,
		.helpers = helpers,
		.call = rig_on_call,
		.relax = rig_on_relax,
	};

	memset(r, 0, sizeof(*r));
	r->now = (wtime){.us = 1000 * W_SEC};
	r->memory = w_alloc(plane_memory(&c) + 64);
	r->rx = w_calloc(RIG_BUFFERS, sizeof(*r->rx));
	r->rx_data = w_alloc((size_t)RIG_BUFFERS * RIG_FRAME);
	assert_true(r->memory && r->rx && r->rx_data);
	r->plane = plane_init(&c, (void *)(((uintptr_t)r->memory + 63) & ~(uintptr_t)63));
	for (unsigned int i = 0; i < RIG_LINKS; i++)
		r->hop[i] = (struct plane_next_hop){.type = PLANE_LINK, .slot = i};
	r->hop[RIG_LOCAL].type = PLANE_LOCAL;
	r->hop[RIG_UNREACHABLE].type = PLANE_UNREACHABLE;
	r->hop[RIG_BLACKHOLE].type = PLANE_BLACKHOLE;
	for (unsigned int i = 0; i < links; i++)
		link_init(r, id, i, peers[i], far[i]);
	r->own[0] = addr_of("10.%u.0.1", id, 0);
	r->own[1] = addr_of("fd00:%x::1", id, 0);
	r->endpoint[0] = (struct endpoint){.ip = addr("198.51.100.7"), .port = 13000};
	r->snapshot = (struct plane_snapshot){
		.generation = 1,
		.next_hop = r->hop,
		.next_hop_count = RIG_LINKS + 3,
		.link = r->links,
		.link_count = links,
		.own_address = r->own,
		.own_address_count = 2,
		.own_endpoint = r->endpoint,
		.own_endpoint_count = 1,
		.icmp_source4 = r->own[0],
		.icmp_source6 = r->own[1],
		.transit = true,
		.tun_mtu = 1400,
	};
	rig_routes(r, id, peers, NULL, 0);
	r->ups = 0;
}

void rig_done(struct rig *r)
{
	for (size_t i = 0; i < RIG_FRAMES; i++)
		w_free(r->frame_data[i]);
	fib_free(r->fib);
	w_free(r->memory);
	w_free(r->rx);
	w_free(r->rx_data);
}

void rig_tun_gso(struct rig *r, uint8_t *data, uint32_t len, struct gso gso)
{
	struct tun_rx f = {.data = data, .len = len, .gso = gso};

	if (!r->tun_stands)
		plane_tun_empty(r->plane, r->now);
	plane_input_tun(r->plane, &f, 1, r->now);
}

void rig_tun(struct rig *r, uint8_t *data, uint32_t len)
{
	rig_tun_gso(r, data, len, (struct gso){0});
}

static void keep_frames(struct rig *r)
{
	const struct tun_tx *t = plane_tun_out(r->plane, &r->frames);

	for (size_t i = 0; i < r->frames; i++) {
		struct wcur w;

		w_free(r->frame_data[i]);
		r->frame_data[i] = w_alloc(t[i].len + 1);
		assert_non_null(r->frame_data[i]);
		w = wcur_of(r->frame_data[i], t[i].len);
		for (unsigned int k = 0; k < t[i].iov_count; k++)
			wcur_bytes(&w, t[i].iov[k].p, t[i].iov[k].n);
		assert_false(w.full);
		assert_int_equal(w.len, t[i].len);
		r->frame_len[i] = t[i].len;
		r->frame_gso[i] = t[i].gso;
		r->frame_segments[i] = t[i].segments;
	}
}

void rig_round(struct rig *r)
{
	const struct udp_tx *u;

	plane_flush(r->plane, r->now);
	u = plane_udp_out(r->plane, &r->rx_count);
	assert_true(r->rx_count <= RIG_BUFFERS);
	for (size_t i = 0; i < r->rx_count;) {
		size_t n = plane_udp_wait(r->plane, i);

		assert_true(n >= 1 && i + n <= r->rx_count);
		i += n;
	}
	for (size_t i = 0; i < r->rx_count; i++) {
		uint8_t *data = r->rx_data + i * RIG_FRAME;
		uint32_t size = u[i].seg_size ? u[i].seg_size : u[i].len;

		assert_true(u[i].len <= 65507);
		assert_int_equal(size ? (u[i].len + size - 1) / size : 0, u[i].segments);
		memcpy(data, u[i].data, u[i].len);
		r->rx[i] = (struct udp_rx){
			.data = data,
			.len = u[i].len,
			.seg_size = u[i].seg_size,
			.tos = u[i].tos,
			.socket = (uint16_t)u[i].link, /* for rig_carry() */
			.remote = u[i].local,
			.local = u[i].remote,
			.time = r->now,
		};
	}
	keep_frames(r);
	plane_round_done(r->plane);
}

void rig_carry(struct rig *from, unsigned int slot, struct rig *to)
{
	for (size_t i = 0; i < from->rx_count; i++)
		if (from->rx[i].socket == slot) {
			from->rx[i].socket = 0;
			plane_input_udp(to->plane, &from->rx[i], 1, to->now);
			from->rx[i].socket = UINT16_MAX;
		}
}

uint64_t rig_drops(const struct rig *r, enum drop_reason d)
{
	struct plane_counters c;

	plane_counters(r->plane, &c);
	return c.drops[d];
}

uint64_t rig_dropped(const struct rig *r)
{
	struct plane_counters c;
	uint64_t n = 0;

	plane_counters(r->plane, &c);
	for (size_t i = 0; i < DROP_COUNT; i++)
		n += c.drops[i];
	return n;
}

struct rig_up *rig_find(struct rig *r, enum plane_up_type type)
{
	for (size_t i = 0; i < r->ups && i < RIG_UPS; i++)
		if (r->up[i].up.type == type)
			return &r->up[i];
	return NULL;
}

void rig_inject(struct rig *from, unsigned int slot, struct rig *to, const uint8_t *packet,
	uint32_t len)
{
	push(from,
		(struct plane_down){.type = PLANE_DOWN_SEAL,
			.slot = slot,
			.data = view_of(packet, len)});
	rig_round(from);
	rig_carry(from, slot, to);
	rig_round(to);
}

bool rig_balanced(const struct rig *r)
{
	struct plane_counters c;
	uint64_t in, out;

	plane_counters(r->plane, &c);
	in = c.tun_rx_packets + c.udp_rx_datagrams + c.control_packets + c.icmp_sent + c.fragments +
		c.taken;
	out = c.handed + c.tun_tx_packets + c.udp_tx_datagrams + c.punted + c.keepalives +
		rig_dropped(r) - c.drops[DROP_ICMP_LIMIT];
	return in == out;
}

/* ---- packets ---- */

uint16_t packet_sum(const uint8_t *p, uint32_t n, uint32_t sum)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* The sum of a transport and its pseudo-header: 0xffff when the checksum in it is right. */
static uint16_t transport_sum(const uint8_t *p, uint32_t len, uint32_t at, uint8_t proto)
{
	bool v4 = p[0] >> 4 == 4;
	uint32_t sum = packet_sum(v4 ? p + 12 : p + 8, v4 ? 8 : 32, proto + len - at);

	return packet_sum(p + at, len - at, sum);
}

static uint32_t checksum_at(uint8_t proto)
{
	return proto == 17 ? 6 : proto == 6 ? 16 : 2;
}

uint32_t packet_make(uint8_t *out, const struct packet *f)
{
	uint32_t at = f->version == 4 ? 20 : 40;
	struct ipaddr src = addr(f->src), dst = addr(f->dst);
	uint8_t hop_limit = f->hop_limit ? f->hop_limit : 64;

	for (uint32_t i = 0; i < f->len; i++)
		out[i] = (uint8_t)(i * 7);
	memset(out, 0, at + 20 < f->len ? at + 20 : f->len);
	if (f->version == 4) {
		out[0] = 0x45;
		out[1] = f->tos;
		put_u16(out + 2, (uint16_t)f->len);
		put_u16(out + 4, f->id);
		put_u16(out + 6, f->df ? 0x4000 : 0);
		out[8] = hop_limit;
		out[9] = f->proto;
		memcpy(out + 12, src.b, 4);
		memcpy(out + 16, dst.b, 4);
		put_u16(out + 10, (uint16_t)~packet_sum(out, 20, 0));
	} else {
		put_u32(out, UINT32_C(6) << 28 | (uint32_t)f->tos << 20 | 0x12345);
		put_u16(out + 4, (uint16_t)(f->len - 40));
		out[6] = f->proto;
		out[7] = hop_limit;
		memcpy(out + 8, src.b, 16);
		memcpy(out + 24, dst.b, 16);
	}
	put_u16(out + at, f->sport);
	put_u16(out + at + 2, f->dport);
	if (f->proto == 17)
		put_u16(out + at + 4, (uint16_t)(f->len - at));
	if (f->proto == 6) {
		out[at + 12] = 5 << 4;
		out[at + 13] = 0x10;
		put_u16(out + at + 14, 1000);
	}
	if (f->proto == 58)
		put_u16(out + at + 2, 0);
	put_u16(out + at + checksum_at(f->proto), 0);
	put_u16(out + at + checksum_at(f->proto),
		(uint16_t)~transport_sum(out, f->len, at, f->proto));
	return f->len;
}

bool packet_valid(const uint8_t *p, uint32_t len)
{
	uint32_t at = p[0] >> 4 == 4 ? (p[0] & 0xfU) * 4 : 40;
	uint8_t proto = p[0] >> 4 == 4 ? p[9] : p[6];

	if (at == 40 ? get_u16(p + 4) + 40U != len : get_u16(p + 2) != len)
		return false;
	if (p[0] >> 4 == 4 && packet_sum(p, at, 0) != 0xffff)
		return false;
	if (proto == 1)
		return packet_sum(p + at, len - at, 0) == 0xffff;
	return transport_sum(p, len, at, proto) == 0xffff;
}

const struct packet rig_udp6 = {.version = 6,
	.proto = 17,
	.src = "fd00:1::5",
	.dst = "fd00:2::1",
	.sport = 1000,
	.dport = 2000,
	.len = 200};
const struct packet rig_babel = {.version = 6,
	.proto = 17,
	.src = "fe80::1:0",
	.dst = "ff02::1:6",
	.sport = 6696,
	.dport = 6696,
	.len = 100};
const struct packet rig_udp4 = {.version = 4,
	.proto = 17,
	.src = "10.1.0.5",
	.dst = "10.2.0.1",
	.sport = 1000,
	.dport = 2000,
	.len = 200};

int rig_pair_setup(void **state)
{
	struct rig_pair *t = w_calloc(1, sizeof(*t));

	assert_non_null(t);
	rig_init(&t->a, 1, 1, (const unsigned int[]){2}, (const unsigned int[]){0});
	rig_init(&t->b, 2, 1, (const unsigned int[]){1}, (const unsigned int[]){0});
	*state = t;
	return 0;
}

int rig_pair_teardown(void **state)
{
	struct rig_pair *t = *state;

	rig_done(&t->a);
	rig_done(&t->b);
	w_free(t);
	return 0;
}
