/* Policies and segments through four planes: B in the middle, A, C and D around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "plane/rig_test.h"

enum { A, B, C, D, NODES, SWEEPS = 200, KEPT = 256, POLICIES = 4, SEG_MAX = 8, DATA = 65536 };
enum { SID_EXIT = 1, SID_END = 2, SID_MESH = 3 };

struct net {
	struct rig n[NODES];
	struct plane_srv6 srv6[NODES];
	struct srv6_table *sids[NODES];
	struct fib *space, *mesh, *allow;
	struct policy *policy;
	struct srv6_steer push[POLICIES];
	struct plane_steer steer[POLICIES];
	struct plane_policy_state state[POLICIES];
	/* frames that came out of each TUN */
	size_t got[NODES];
	uint8_t *frame[NODES][KEPT];
	uint32_t frame_len[NODES][KEPT];
	uint64_t sends; /* datagrams of the last pump */
	uint8_t data[DATA];
};

/* ---- the network ---- */

static const struct {
	int node, far;
	unsigned int slot, far_slot;
} wires[] = {{A, B, 0, 0}, {B, A, 0, 0}, {B, C, 1, 0}, {C, B, 0, 1}, {B, D, 2, 0}, {D, B, 0, 2}};

static struct ipaddr addr(const char *s)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(s, &a), 0);
	return a;
}

static struct ipaddr sid_of(int node, int what)
{
	char s[ADDR_TEXT];

	snprintf(s, sizeof(s), "fd00:%x:5::%x", node + 1, what);
	return addr(s);
}

static struct fib *set_of(const char *const *text, size_t n)
{
	struct fib_entry e[16];
	struct fib *f;

	for (size_t i = 0; i < n; i++)
		e[i] = rig_route(text[i], NULL, 0);
	assert_int_equal(fib_build(e, n, &f), 0);
	return f;
}

static struct srv6_table *sids_of(int node)
{
	struct srv6_localsid e[] = {
		{.behaviour = SRV6_END_DT46, .argument = PLANE_TABLE_HOST},
		{.behaviour = SRV6_END},
		{.behaviour = SRV6_END_DT6, .argument = PLANE_TABLE_MESH},
	};
	struct srv6_table *t;

	for (int i = 0; i < 3; i++)
		e[i].sid = (struct prefix){.addr = sid_of(node, i + 1), .len = 128};
	assert_int_equal(srv6_table_build(e, 3, &t), 0);
	return t;
}

/* Routes of a leaf to the others lead through B. */
static void routes(struct net *t, int node)
{
	static const unsigned int leaf[] = {B + 1}, middle[] = {A + 1, C + 1, D + 1};
	struct fib_entry more[8];
	size_t n = 0;
	char s[64];

	for (int i = A; i < NODES && node != B; i++) {
		if (i == node || i == B)
			continue;
		snprintf(s, sizeof(s), "fd00:%x::/32", i + 1);
		more[n++] = rig_route(s, NULL, 0);
		snprintf(s, sizeof(s), "10.%d.0.0/16", i + 1);
		more[n++] = rig_route(s, NULL, 0);
	}
	rig_routes(&t->n[node], (unsigned int)node + 1, node == B ? middle : leaf, more, n);
}

static int setup(void **state)
{
	static const char *const space[] = {"fd00:1:5::/64", "fd00:2:5::/64", "fd00:3:5::/64",
		"fd00:4:5::/64"};
	static const char *const mesh[] = {"fd00:1::/32", "fd00:2::/32", "fd00:3::/32",
		"fd00:4::/32"};
	static const char *const allow[] = {"10.4.0.0/16", "198.51.100.0/24"};
	static const unsigned int one[] = {B + 1}, three[] = {A + 1, C + 1, D + 1};
	static const unsigned int zero[] = {0, 0, 0};
	struct net *t = w_calloc(1, sizeof(*t));

	assert_non_null(t);
	t->space = set_of(space, 4);
	t->mesh = set_of(mesh, 4);
	t->allow = set_of(allow, 2);
	for (int i = A; i < NODES; i++) {
		unsigned int far[] = {i == C ? 1 : i == D ? 2 : 0};

		rig_init(&t->n[i], (unsigned int)i + 1, i == B ? 3 : 1, i == B ? three : one,
			i == B ? zero : far);
		t->sids[i] = sids_of(i);
		t->srv6[i] = (struct plane_srv6){.localsid = t->sids[i],
			.sid_space = t->space,
			.mesh_source = t->mesh,
			.exit_allow = i == D ? t->allow : NULL,
			.source = sid_of(i, 0x100)};
		t->n[i].snapshot.srv6 = &t->srv6[i];
		routes(t, i);
	}
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct net *t = *state;

	for (int i = A; i < NODES; i++) {
		assert_true(rig_balanced(&t->n[i]));
		rig_done(&t->n[i]);
		srv6_table_free(t->sids[i]);
		for (size_t k = 0; k < KEPT; k++)
			w_free(t->frame[i][k]);
	}
	fib_free(t->space);
	fib_free(t->mesh);
	fib_free(t->allow);
	policy_free(t->policy);
	w_free(t);
	return 0;
}

/* Policies of A, by destination; as many as there are texts. */
static void policies(struct net *t, const char *const *destination, size_t n)
{
	struct policy_rule r[POLICIES] = {0};

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(prefix_parse(destination[i], &r[i].destination), 0);
		r[i].steer = (uint32_t)i;
		t->steer[i].state = &t->state[i];
	}
	policy_free(t->policy);
	assert_int_equal(policy_build(r, n, &t->policy), 0);
	t->srv6[A].policy = t->policy;
	t->srv6[A].steer = t->steer;
	t->srv6[A].steer_count = POLICIES;
}

/* Steering of policy i: Ends of some nodes, then an exit. */
static void via(struct net *t, int i, const int *node, uint32_t n)
{
	struct ipaddr segment[SEG_MAX];
	struct srv6_steer_config c = {.source = t->srv6[A].source, .segment = segment, .count = n};

	for (uint32_t k = 0; k < n; k++)
		segment[k] = sid_of(node[k], k + 1 == n ? SID_EXIT : SID_END);
	assert_int_equal(srv6_steer_build(&c, &t->push[i]), 0);
	t->steer[i].type = PLANE_STEER_PUSH;
	t->steer[i].push = &t->push[i];
}

static const int abcbd[] = {B, C, B, D};
static const char *const to_d[] = {"fd00:4::/32", "10.4.0.0/16"};

static void steer_abcbd(struct net *t)
{
	policies(t, to_d, 2);
	via(t, 0, abcbd, 4);
	via(t, 1, abcbd, 4);
}

static void keep(struct net *t, int i)
{
	struct rig *r = &t->n[i];

	for (size_t k = 0; k < r->frames && t->got[i] < KEPT; k++) {
		w_free(t->frame[i][t->got[i]]);
		t->frame[i][t->got[i]] = w_memdup(r->frame_data[k], r->frame_len[k]);
		t->frame_len[i][t->got[i]++] = r->frame_len[k];
	}
}

/* Lets everything that is on its way come to its end. */
static void pump(struct net *t)
{
	bool moved = true;

	t->sends = 0;
	for (int sweep = 0; sweep < SWEEPS && moved; sweep++) {
		moved = false;
		for (int i = A; i < NODES; i++) {
			rig_round(&t->n[i]);
			keep(t, i);
			moved = moved || t->n[i].rx_count > 0;
			for (size_t k = 0; k < t->n[i].rx_count; k++)
				t->sends += 1;
			for (size_t w = 0; w < sizeof(wires) / sizeof(wires[0]); w++)
				if (wires[w].node == i)
					rig_carry(&t->n[i], wires[w].slot, &t->n[wires[w].far]);
		}
	}
	assert_false(moved);
}

static void clear(struct net *t)
{
	memset(t->got, 0, sizeof(t->got));
}

static void tun(struct net *t, int node, const struct packet *f)
{
	rig_tun(&t->n[node], t->data, packet_make(t->data, f));
	pump(t);
}

/* A packet that a node's control side sends over its first link, to B or to A from B. */
static void over(struct net *t, int node, const uint8_t *packet, uint32_t len)
{
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .data = view_of(packet, len)};

	plane_down(t->n[node].plane, &m, t->n[node].now);
	pump(t);
}

static const struct packet udp6 = {.version = 6,
	.proto = 17,
	.src = "fd00:1::5",
	.dst = "fd00:4::9",
	.sport = 1000,
	.dport = 2000,
	.len = 200};
static const struct packet udp4 = {.version = 4,
	.proto = 17,
	.src = "10.1.0.5",
	.dst = "10.4.0.9",
	.sport = 1000,
	.dport = 2000,
	.df = true,
	.len = 200};

/* The ICMP error that came out of a node's TUN as its only frame. */
static const uint8_t *error_at(const struct net *t, int node, uint8_t type, uint8_t code,
	uint32_t word)
{
	const uint8_t *p = t->frame[node][0];
	uint32_t at;

	assert_int_equal(t->got[node], 1);
	at = p[0] >> 4 == 4 ? 20 : 40;
	assert_true(packet_valid(p, t->frame_len[node][0]));
	assert_int_equal(at == 20 ? p[9] : p[6], at == 20 ? 1 : 58);
	assert_int_equal(p[at], type);
	assert_int_equal(p[at + 1], code);
	assert_int_equal(get_u32(p + at + 4), word);
	return p;
}

static uint64_t dropped(const struct net *t)
{
	uint64_t n = 0;

	for (int i = A; i < NODES; i++)
		n += rig_dropped(&t->n[i]);
	return n;
}

/* ---- the way ---- */

static void a_path_may_pass_a_node_twice(void **state)
{
	static const struct packet *const each[] = {&udp4, &udp6};
	struct net *t = *state;

	steer_abcbd(t);
	for (size_t i = 0; i < 2; i++) {
		uint8_t was[256];

		packet_make(was, each[i]);
		clear(t);
		tun(t, A, each[i]);
		assert_int_equal(t->got[D], 1);
		assert_int_equal(t->frame_len[D][0], 200);
		assert_memory_equal(t->frame[D][0], was, 200);
		assert_int_equal(t->sends, 4);
	}
	assert_int_equal(dropped(t), 0);
	/* A -> B -> C -> B -> D, two packets, and no other way. */
	assert_int_equal(t->n[A].state[0].tx_packets, 2);
	assert_int_equal(t->n[B].state[0].rx_packets, 2);
	assert_int_equal(t->n[B].state[0].tx_packets, 0);
	assert_int_equal(t->n[B].state[1].tx_packets, 2);
	assert_int_equal(t->n[C].state[0].rx_packets, 2);
	assert_int_equal(t->n[C].state[0].tx_packets, 2);
	assert_int_equal(t->n[B].state[1].rx_packets, 2);
	assert_int_equal(t->n[B].state[2].tx_packets, 2);
	assert_int_equal(t->n[D].state[0].rx_packets, 2);
	assert_int_equal(t->state[0].packets, 1);
	assert_int_equal(t->state[0].bytes, 200);
	assert_int_equal(t->state[1].packets, 1);
	assert_int_equal(t->state[1].dropped, 0);
}

static void what_no_policy_names_goes_straight(void **state)
{
	struct net *t = *state;
	struct packet f = udp6;

	steer_abcbd(t);
	f.dst = "fd00:3::9";
	tun(t, A, &f);
	assert_int_equal(t->got[C], 1);
	assert_int_equal(t->sends, 2);
	assert_int_equal(t->state[0].packets + t->state[1].packets, 0);
}

static void direct_policies_count(void **state)
{
	struct net *t = *state;

	policies(t, to_d, 2);
	t->steer[0].type = PLANE_STEER_DIRECT;
	tun(t, A, &udp6);
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->sends, 2);
	assert_int_equal(t->state[0].packets, 1);
	assert_int_equal(t->state[0].bytes, 200);
}

static void a_single_exit_needs_no_routing_header(void **state)
{
	static const int d[] = {D};
	struct net *t = *state;

	policies(t, to_d, 2);
	via(t, 0, d, 1);
	assert_int_equal(t->push[0].overhead, 40);
	tun(t, A, &udp6);
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->n[A].state[0].tx_bytes, 240);
}

/* The way of A -> B -> A -> D passes A itself again, with A's own source. */
static void a_path_may_pass_its_head_end(void **state)
{
	static const int bad[] = {B, A, D};
	struct net *t = *state;

	t->srv6[A].source = addr("fd00:1::1"); /* also an address of the host */
	policies(t, to_d, 2);
	via(t, 0, bad, 3);
	tun(t, A, &udp6);
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->sends, 4);
	assert_int_equal(dropped(t), 0);
}

/* Many packets of one superpacket, and the same packets one by one: the same bytes
 * leave. */
static void a_superpacket_equals_its_segments(void **state)
{
	struct net *t = *state, *u;
	struct packet f = udp6;
	struct gso gso = {.type = GSO_UDP6,
		.needs_csum = true,
		.size = 1000,
		.hdr_len = 48,
		.csum_start = 40,
		.csum_offset = 6};
	const struct rig *a, *b;
	uint8_t one[1100];

	assert_int_equal(setup((void **)&u), 0);
	steer_abcbd(t);
	steer_abcbd(u);
	f.len = 48 + 10 * 1000 + 300;
	packet_make(t->data, &f);
	rig_tun_gso(&t->n[A], t->data, f.len, gso);
	rig_round(&t->n[A]);
	for (uint32_t i = 0; i <= 10; i++) {
		uint32_t n = i < 10 ? 1000 : 300;

		/* the header again, with lengths and checksum of the piece */
		struct packet piece = f;

		piece.len = 48 + n;
		packet_make(one, &piece);
		memcpy(one + 48, t->data + 48 + i * 1000, n);
		put_u16(one + 46, 0);
		put_u16(one + 46,
			(uint16_t)~packet_sum(one + 40, 8 + n,
				packet_sum(one + 8, 32, 17 + 8 + n)));
		rig_tun(&u->n[A], one, piece.len);
	}
	rig_round(&u->n[A]);
	a = &t->n[A];
	b = &u->n[A];
	assert_int_equal(a->rx_count, 1);
	assert_int_equal(b->rx_count, 1);
	assert_int_equal(a->rx[0].len, b->rx[0].len);
	assert_int_equal(a->rx[0].seg_size, b->rx[0].seg_size);
	assert_memory_equal(a->rx[0].data, b->rx[0].data, a->rx[0].len);
	assert_int_equal(t->state[0].packets, 11);
	assert_int_equal(t->state[0].bytes, u->state[0].bytes);
	rig_carry(&t->n[A], 0, &t->n[B]);
	pump(t);
	assert_int_equal(t->n[D].state[0].rx_packets, 11);
	assert_int_equal(teardown((void **)&u), 0);
}

/* RFC 6040: the outer field starts as the inner, and what became of it comes back. */
static void congestion_marks_come_through(void **state)
{
	struct net *t = *state;
	struct packet f = udp4;

	steer_abcbd(t);
	f.tos = 0xb8 | 2;
	rig_tun(&t->n[A], t->data, packet_make(t->data, &f));
	rig_round(&t->n[A]);
	assert_int_equal(t->n[A].rx[0].tos, 2);
	t->n[A].rx[0].tos = 3;
	rig_carry(&t->n[A], 0, &t->n[B]);
	pump(t);
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->frame[D][0][1], 0xb8 | 3);
	assert_true(packet_valid(t->frame[D][0], 200));
}

/* ---- MTU ---- */

static void too_big_is_told_less_the_segments(void **state)
{
	struct net *t = *state;
	struct packet f = udp6, g = udp4;
	uint32_t inner = 1400 - 40 - 8 - 48;

	steer_abcbd(t);
	f.len = g.len = inner;
	tun(t, A, &f);
	tun(t, A, &g);
	assert_int_equal(t->got[D], 2);
	f.len = g.len = inner + 1;
	tun(t, A, &f);
	error_at(t, A, 2, 0, inner);
	clear(t);
	tun(t, A, &g);
	error_at(t, A, 3, 4, inner);
	assert_int_equal(t->state[0].packets, 1);
}

static void ipv4_is_fragmented_before_it_is_steered(void **state)
{
	struct net *t = *state;
	struct packet f = udp4;

	steer_abcbd(t);
	f.df = false;
	f.len = 2000;
	tun(t, A, &f);
	assert_int_equal(dropped(t), 0);
	assert_int_equal(t->got[D], 2);
	assert_int_equal(t->state[1].packets, 2);
	assert_true(t->frame_len[D][0] <= 1304 && t->frame_len[D][1] <= 1304);
}

/* A router on the way says that the outer packet is too big; the quoted inner packet says
 * whom to tell. */
static void too_big_from_the_way_reaches_the_inner_source(void **state)
{
	struct net *t = *state;
	struct packet f = udp6, g = udp4;
	const uint8_t *p;

	steer_abcbd(t);
	t->n[B].link[2].mtu = 1390;
	f.len = g.len = 1300;
	tun(t, A, &f);
	assert_int_equal(t->got[D], 0);
	p = error_at(t, A, 2, 0, 1390 - 96);
	assert_memory_equal(p + 8, t->n[A].own[1].b, 16);
	packet_make(t->data, &f);
	assert_memory_equal(p + 48, t->data, 500);
	assert_int_equal(t->state[0].path_mtu, 1390);
	assert_int_equal(rig_drops(&t->n[A], DROP_SRV6_ERROR), 1);
	/* From here on it is told at once. */
	clear(t);
	tun(t, A, &f);
	error_at(t, A, 2, 0, 1390 - 96);
	assert_int_equal(t->sends, 0);
	f.len = 1390 - 96;
	clear(t);
	tun(t, A, &f);
	assert_int_equal(t->got[D], 1);
	/* The other policy learns for itself. */
	clear(t);
	tun(t, A, &g);
	p = error_at(t, A, 3, 4, 1390 - 96);
	packet_make(t->data, &g);
	assert_memory_equal(p + 28, t->data, 100);
	/* Ten minutes later the path is tried again. */
	t->n[A].now.us += 601 * W_SEC;
	f.len = 1300;
	clear(t);
	tun(t, A, &f);
	assert_true(t->sends > 0);
}

/* However small the links: 1280 bytes of IPv6 arrive. */
static void the_least_mtu_passes_any_number_of_segments(void **state)
{
	struct net *t = *state;
	struct packet f = udp6;

	steer_abcbd(t);
	for (int i = 0; i < 3; i++)
		t->n[B].link[i].mtu = 1300;
	t->n[A].link[0].mtu = t->n[C].link[0].mtu = 1300;
	f.len = 1280;
	tun(t, A, &f);
	assert_int_equal(t->got[D], 1);
	f.len = 1281;
	clear(t);
	tun(t, A, &f);
	error_at(t, A, 2, 0, 1280);
}

/* The MSS that a SYN which offers 1460 arrives with. */
static uint16_t mss_after(struct net *t, int from, int to, const char *src, const char *dst)
{
	struct packet f = {.version = 4, .proto = 6, .src = src, .dst = dst, .df = true, .len = 44};

	clear(t);
	packet_make(t->data, &f);
	t->data[32] = 6 << 4;
	t->data[33] = 2;
	put_u32(t->data + 40, 0x020405b4);
	put_u16(t->data + 36, 0);
	put_u16(t->data + 36,
		(uint16_t)~packet_sum(t->data + 20, 24, packet_sum(t->data + 12, 8, 6 + 24)));
	rig_tun(&t->n[from], t->data, 44);
	pump(t);
	assert_int_equal(t->got[to], 1);
	assert_true(packet_valid(t->frame[to][0], 44));
	return get_u16(t->frame[to][0] + 42);
}

/* An offer that comes to the head end by the plain way bounds what is steered from there,
 * before any packet is too big. */
static void the_mss_leaves_room_for_segments(void **state)
{
	struct net *t = *state;

	assert_int_equal(mss_after(t, D, A, "10.4.0.9", "10.1.0.1"), 1400 - 40);
	steer_abcbd(t);
	assert_int_equal(mss_after(t, A, D, "10.1.0.5", "10.4.0.9"), 1400 - 96 - 40);
	assert_int_equal(mss_after(t, D, A, "10.4.0.9", "10.1.0.1"), 1400 - 96 - 40);
}

/* ---- errors ---- */

static void an_unreachable_way_is_told_to_the_inner_source(void **state)
{
	struct net *t = *state;
	const uint8_t *p;

	steer_abcbd(t);
	t->n[B].link[2].usable = false;
	tun(t, A, &udp6);
	p = error_at(t, A, 1, 3, 0); /* RFC 2473 8.2 */
	packet_make(t->data, &udp6);
	assert_memory_equal(p + 48, t->data, 200);
	clear(t);
	tun(t, A, &udp4);
	error_at(t, A, 3, 1, 0);
	assert_int_equal(rig_drops(&t->n[B], DROP_LINK_DOWN), 2);
}

static void errors_that_are_about_nothing_of_ours_end(void **state)
{
	struct net *t = *state;
	struct packet f = {.version = 6,
		.proto = 58,
		.src = "fd00:2::1",
		.dst = "fd00:1:5::100",
		.sport = 1 << 8,
		.len = 200};

	steer_abcbd(t);
	over(t, B, t->data, packet_make(t->data, &f));
	assert_int_equal(t->got[A], 0);
	assert_int_equal(rig_drops(&t->n[A], DROP_SRV6_ERROR), 1);
}

/* An outer packet by hand: from a source to a SID, with what stands behind the header. */
static uint32_t outer(uint8_t *p, const char *src, const struct ipaddr *dst, uint8_t next,
	uint32_t payload)
{
	struct ipaddr s = addr(src);

	memset(p, 0, 40);
	p[0] = 0x60;
	put_u16(p + 4, (uint16_t)payload);
	p[6] = next;
	p[7] = 64;
	memcpy(p + 8, s.b, 16);
	memcpy(p + 24, dst->b, 16);
	return 40 + payload;
}

/* Ends of B and C in turn, for ever as far as the hop limit is concerned. */
static void two_sids_that_point_at_each_other_die_by_hop_limit(void **state)
{
	struct net *t = *state;
	struct ipaddr b = sid_of(B, SID_END), c = sid_of(C, SID_END);
	uint8_t *p = t->data;
	uint32_t len = outer(p, "fd00:1::5", &b, 43, 8 + 16 * 80 + 40);
	const uint8_t *e;

	p[40] = IP_PROTO_NONE;
	p[41] = 160;
	p[42] = 4;
	p[43] = 80;
	p[44] = 79;
	for (int i = 0; i < 80; i++)
		memcpy(p + 48 + 16 * i, i % 2 ? c.b : b.b, 16);
	t->n[A].link[0].mtu = t->n[B].link[1].mtu = t->n[C].link[0].mtu = 2000;
	over(t, A, p, len);
	/* B, C, B, C ...: 63 hops are taken, the 64th End, which is C's, has none left. One more
	 * comes from C to B: the error. */
	assert_int_equal(t->n[C].state[0].rx_packets, 32);
	assert_int_equal(t->n[B].state[1].rx_packets, 31 + 1);
	assert_int_equal(rig_drops(&t->n[C], DROP_HOP_LIMIT), 1);
	e = error_at(t, A, 3, 0, 0);
	assert_memory_equal(e + 8, t->n[C].own[1].b, 16);
	assert_int_equal(e[48 + 7], 1);
}

/* Out of the segments at the exit's host the packet is the kernel's; back in the mesh it
 * is a packet in transit. */
static void hops_are_taken_where_a_packet_goes_on(void **state)
{
	struct net *t = *state;
	struct ipaddr host = sid_of(D, SID_EXIT), mesh = sid_of(B, SID_MESH),
		      end = sid_of(B, SID_END);
	const unsigned int middle = B + 1;
	struct packet f = udp6;
	struct fib_entry own[1];

	f.hop_limit = 1;
	over(t, A, t->data, outer(t->data, "fd00:1::5", &host, 41, packet_make(t->data + 40, &f)));
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->frame[D][0][7], 1);
	clear(t);
	over(t, A, t->data, outer(t->data, "fd00:1::5", &mesh, 41, packet_make(t->data + 40, &f)));
	assert_int_equal(t->got[D], 0);
	error_at(t, A, 3, 0, 0);
	f.hop_limit = 9;
	clear(t);
	over(t, A, t->data, outer(t->data, "fd00:1::5", &mesh, 41, packet_make(t->data + 40, &f)));
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->frame[D][0][7], 8);
	/* IPv4, its header's checksum mended: at an End it is in transit as well */
	own[0] = rig_route("10.4.0.0/16", NULL, RIG_LOCAL);
	rig_routes(&t->n[D], D + 1, &middle, own, 1);
	f = udp4;
	f.hop_limit = 9;
	clear(t);
	over(t, A, t->data, outer(t->data, "fd00:1::5", &end, 4, packet_make(t->data + 40, &f)));
	assert_int_equal(t->got[D], 1);
	assert_int_equal(t->frame[D][0][8], 8);
	assert_true(packet_valid(t->frame[D][0], t->frame_len[D][0]));
	f.hop_limit = 1;
	clear(t);
	over(t, A, t->data, outer(t->data, "fd00:1::5", &end, 4, packet_make(t->data + 40, &f)));
	assert_int_equal(t->got[D], 0);
}

/* ---- what may not pass ---- */

struct refused {
	enum drop_reason reason;
	const char *src; /* of the outer packet, from C to D's SID over B */
	int sid;
	uint8_t next; /* behind the outer header */
	uint8_t bytes[8];
	const char *inner_src, *inner_dst;
	int error; /* type of the ICMPv6 error that goes back, 0: none */
	uint8_t code;
	uint32_t word;
};

static const struct refused rows[] = {
	/* from outside the mesh */
	{DROP_SRV6_SOURCE, "2001:db8::1", SID_EXIT, 41, {0}, "fd00:3::5", "fd00:4::9", 0, 0, 0},
	{DROP_SRV6_SOURCE, "2001:db8::1", SID_END, 41, {0}, "fd00:3::5", "fd00:4::9", 0, 0, 0},
	/* an exit that is not allowed */
	{DROP_EXIT_REFUSED, "fd00:3::5", SID_EXIT, 41, {0}, "fd00:3::5", "2001:db8::1", 0, 0, 0},
	{DROP_EXIT_REFUSED, "fd00:3::5", SID_EXIT, 4, {0}, "10.3.0.5", "203.0.113.1", 0, 0, 0},
	{DROP_EXIT_REFUSED, "fd00:3::5", SID_EXIT, 4, {0}, "10.3.0.5", "10.3.0.9", 0, 0, 0},
	/* wrong for the SID: RFC 8986 4.1.1 */
	{DROP_SRV6_UPPER, "fd00:3::5", SID_MESH, 4, {0}, "10.3.0.5", "10.4.0.9", 4, 4, 40},
	{DROP_SRV6_UPPER, "fd00:3::5", SID_EXIT, 17, {0}, NULL, NULL, 4, 4, 40},
	{DROP_SRV6_UPPER, "fd00:3::5", SID_END, 58, {128}, NULL, NULL, 4, 4, 40},
	/* headers that lie */
	{DROP_SRV6_MALFORMED, "fd00:3::5", SID_END, 43, {59, 0, 4, 1, 0}, NULL, NULL, 4, 0, 43},
	{DROP_SRV6_MALFORMED, "fd00:3::5", SID_EXIT, 43, {59, 0, 4, 1, 0}, NULL, NULL, 4, 0, 43},
	{DROP_SRV6_FRAGMENT, "fd00:3::5", SID_EXIT, 44, {41, 0, 0, 1}, NULL, NULL, 0, 0, 0},
	/* what may not come out of it */
	{DROP_OWN_SOURCE, "fd00:3::5", SID_EXIT, 41, {0}, "fd00:4::1", "fd00:4::9", 0, 0, 0},
	{DROP_MARTIAN, "fd00:3::5", SID_EXIT, 41, {0}, "::1", "fd00:4::9", 0, 0, 0},
	{DROP_LINK_LOCAL, "fd00:3::5", SID_EXIT, 41, {0}, "fe80::1", "fd00:4::9", 0, 0, 0},
	{DROP_BAD_IP, "fd00:3::5", SID_EXIT, 41, {0}, "10.3.0.5", "10.4.0.9", 0, 0, 0},
};

static void what_a_sid_refuses(void **state)
{
	struct net *t = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct refused *r = &rows[i];
		struct ipaddr sid = sid_of(D, r->sid);
		struct packet f = {.proto = 17,
			.src = r->inner_src,
			.dst = r->inner_dst,
			.len = 100};
		uint64_t before = dropped(t), mine = rig_drops(&t->n[D], r->reason);
		uint32_t n = 8;

		clear(t);
		memset(t->data, 0, 200);
		memcpy(t->data + 40, r->bytes, 8);
		if (r->inner_src) {
			f.version = strchr(r->inner_src, ':') ? 6 : 4;
			n = packet_make(t->data + 40, &f);
		}
		over(t, C, t->data, outer(t->data, r->src, &sid, r->next, n));
		if (rig_drops(&t->n[D], r->reason) != mine + 1 || dropped(t) != before + 1)
			fail_msg("row %zu: not %s", i, drop_name(r->reason));
		assert_int_equal(t->got[D], 0);
		assert_int_equal(t->sends, r->error ? 4 : 2);
		if (r->error)
			error_at(t, C, (uint8_t)r->error, r->code, r->word);
	}
}

static void hmacs_are_refused_when_told_so(void **state)
{
	struct net *t = *state;
	struct ipaddr end = sid_of(B, SID_END), next = sid_of(D, SID_END);
	uint8_t *p = t->data;
	uint32_t len = outer(p, "fd00:1::5", &end, 43, 8 + 24 + 40);

	memset(p + 40, 0, 72);
	memcpy(p + 40, (const uint8_t[]){59, 3, 4, 1, 0}, 5);
	memcpy(p + 48, next.b, 16);
	p[64] = 5;
	p[65] = 6;
	over(t, A, p, len);
	assert_int_equal(t->n[D].state[0].rx_packets, 1);
	t->srv6[B].refuse_hmac = true;
	over(t, A, p, len);
	assert_int_equal(t->n[D].state[0].rx_packets, 1);
	assert_int_equal(rig_drops(&t->n[B], DROP_SRV6_HMAC), 1);
}

static void the_tun_speaks_no_segments(void **state)
{
	struct net *t = *state;
	struct ipaddr host = addr("fd00:4::9");
	struct packet f = udp6;
	uint32_t len;

	/* to a SID, an own one and another's */
	f.dst = "fd00:4:5::1";
	tun(t, A, &f);
	f.dst = "fd00:1:5::2";
	tun(t, A, &f);
	/* a routing header, used up or not, behind others or not */
	for (uint8_t left = 0; left < 2; left++)
		for (int options = 0; options < 2; options++) {
			uint8_t *p = t->data + 40;

			len = outer(t->data, "fd00:1::5", &host, options ? 60 : 43, 40);
			memset(p, 0, 40);
			if (options) {
				p[0] = 43;
				p += 8;
			}
			memcpy(p, (const uint8_t[]){59, 2, 4, left, 0}, 5);
			rig_tun(&t->n[A], t->data, len);
			pump(t);
		}
	assert_int_equal(t->got[A] + t->got[D] + t->sends, 0);
	assert_int_equal(rig_drops(&t->n[A], DROP_SRV6_FROM_TUN), 6);
	assert_int_equal(dropped(t), 6);
}

static void a_policy_without_a_candidate_drops(void **state)
{
	struct net *t = *state;

	policies(t, to_d, 2);
	t->steer[0].type = PLANE_STEER_DROP;
	tun(t, A, &udp6);
	assert_int_equal(t->sends + t->got[A], 0);
	assert_int_equal(rig_drops(&t->n[A], DROP_POLICY_FALLBACK), 1);
	assert_int_equal(t->state[0].dropped, 1);
	assert_int_equal(t->state[0].packets, 0);
}

/* A SID that is also an address of the host is a host's address for ICMPv6. */
static void icmpv6_reaches_a_sid_that_is_an_address(void **state)
{
	struct net *t = *state;
	struct packet f = {.version = 6,
		.proto = 58,
		.src = "fd00:1::5",
		.dst = "fd00:4:5::1",
		.sport = 128 << 8,
		.len = 100};

	t->n[D].own[1] = addr("fd00:4:5::1");
	over(t, A, t->data, packet_make(t->data, &f));
	assert_int_equal(t->got[D], 1);
	/* An error about a steered packet is not for the host, but all else to that address is. */
	t->n[D].own[1] = t->srv6[D].source;
	f.dst = "fd00:4:5::100";
	over(t, A, t->data, packet_make(t->data, &f));
	assert_int_equal(t->got[D], 2);
	assert_int_equal(dropped(t), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_path_may_pass_a_node_twice),
		T(what_no_policy_names_goes_straight),
		T(direct_policies_count),
		T(a_single_exit_needs_no_routing_header),
		T(a_path_may_pass_its_head_end),
		T(a_superpacket_equals_its_segments),
		T(congestion_marks_come_through),
		T(too_big_is_told_less_the_segments),
		T(ipv4_is_fragmented_before_it_is_steered),
		T(too_big_from_the_way_reaches_the_inner_source),
		T(the_least_mtu_passes_any_number_of_segments),
		T(the_mss_leaves_room_for_segments),
		T(an_unreachable_way_is_told_to_the_inner_source),
		T(errors_that_are_about_nothing_of_ours_end),
		T(two_sids_that_point_at_each_other_die_by_hop_limit),
		T(hops_are_taken_where_a_packet_goes_on),
		T(what_a_sid_refuses),
		T(hmacs_are_refused_when_told_so),
		T(the_tun_speaks_no_segments),
		T(a_policy_without_a_candidate_drops),
		T(icmpv6_reaches_a_sid_that_is_an_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
