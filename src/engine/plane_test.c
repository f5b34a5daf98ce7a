/* The plane thread's edges: merged frames that the TUN refuses, messages that find the ring full.
 * In a network namespace of the test's own. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "wire/gro.h"
#include "wire/packets_test.h"

enum { SKIP = 77, PACKETS = 6, HEAD = 10, ROOM = 2048, MESSAGES = 4000, DATA = 700 };

/* A TUN that refuses merged frames, and keeps what it took. */
struct picky {
	size_t refused, taken;
	struct {
		uint8_t bytes[ROOM];
		size_t n;
	} packet[2 * PACKETS];
};

static ssize_t picky_writev(void *ctx, int fd, const struct iovec *iov, int n)
{
	struct picky *p = ctx;
	const uint8_t *head = iov[0].iov_base;
	struct wcur w;

	(void)fd;
	if (head[1] != 0) { /* gso_type of the virtio-net header */
		p->refused++;
		errno = EINVAL;
		return -1;
	}
	assert_true(p->taken < 2 * PACKETS);
	w = wcur_of(p->packet[p->taken].bytes, ROOM);
	for (int i = 1; i < n; i++)
		wcur_bytes(&w, iov[i].iov_base, iov[i].iov_len);
	p->packet[p->taken++].n = w.len;
	return (ssize_t)(w.len + HEAD);
}

static void plane_open(struct engine_plane *t, struct picky *picky)
{
	struct os_tun_config c = {.name = "weft-test0",
		.tso = true,
		.uso = true,
		.writev = picky_writev,
		.writev_ctx = picky};
	struct engine_config e = {.net = os_net_linux()};
	struct buf error = {0};

	memset(t, 0, sizeof(*t));
	t->epoll = t->event = -1;
	assert_int_equal(e.net->tun_open(&c, &t->tun, &error), 0);
	t->offload = ~0U;
	assert_int_equal(engine_plane_init(t, &e), 0);
	assert_true(t->config.merge_tcp && t->config.merge_udp);
}

static void plane_close(struct engine_plane *t)
{
	engine_plane_done(t);
	os_net_linux()->tun_close(t->tun);
}

static uint64_t drops(const struct engine_plane *t, enum drop_reason r)
{
	struct plane_counters c;

	plane_counters(t->plane, &c);
	return c.drops[r];
}

/* One merged frame of PACKETS packets, whose originals stay in `packet`. */
static void merged(bool udp, bool v6, uint8_t packet[PACKETS][ROOM], uint32_t *ret_len,
	struct tun_tx *ret)
{
	struct gro g;

	gro_init(&g, ret, 1);
	gro_set_merge(&g, true, true);
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct flow_packet f = {.udp = udp,
			.v6 = v6,
			.ttl = 64,
			.df = true,
			.host = 9,
			.sport = 5,
			.dport = 6,
			.seq = 1000 * i,
			.flags = 0x10,
			.payload = 1000};
		struct ip_view v;

		*ret_len = write_packet(&f, packet[i]);
		assert_int_equal(ip_parse(view_of(packet[i], *ret_len), &v), 0);
		assert_true(gro_add(&g, packet[i], &v));
	}
	assert_int_equal(gro_finish(&g), 1);
}

/* The kernel says EINVAL to a merged frame: its packets are written one by one, equal to
 * what came, and that kind is merged no more, which the log says once. */
static void test_refused(void **state)
{
	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		uint8_t packet[PACKETS][ROOM], before[PACKETS][ROOM];
		struct picky picky = {0};
		struct engine_plane t;
		struct engine_up up;
		struct tun_tx frame;
		uint32_t len;
		size_t n;
		uint8_t *p;

		plane_open(&t, &picky);
		merged(kind & 1, kind & 2, before, &len, &frame);
		merged(kind & 1, kind & 2, packet, &len, &frame);
		assert_int_equal(engine_plane_write(&t, &frame, 1),
			kind & 1 ? PLANE_MERGE_UDP : PLANE_MERGE_TCP);
		assert_int_equal(picky.refused, 1);
		assert_int_equal(picky.taken, PACKETS);
		for (size_t i = 0; i < PACKETS; i++) {
			struct ip_view v;

			assert_int_equal(picky.packet[i].n, len);
			assert_int_equal(ip_parse(view_of(picky.packet[i].bytes, len), &v), 0);
			assert_true(checksums_right(picky.packet[i].bytes, len));
			/* The payload counts up; the headers of later ones are as they came. */
			assert_memory_equal(picky.packet[i].bytes + len - 1000,
				before[i] + len - 1000, 1000);
			if (i > 0)
				assert_memory_equal(picky.packet[i].bytes + 12, before[i] + 12,
					len - 12);
		}
		assert_int_equal(drops(&t, DROP_TUN_ERROR), 0);
		engine_plane_merge_off(&t, kind & 1 ? PLANE_MERGE_UDP : PLANE_MERGE_TCP);
		engine_plane_merge_off(&t, kind & 1 ? PLANE_MERGE_UDP : PLANE_MERGE_TCP);
		assert_int_equal(t.config.merge_udp, !(kind & 1));
		assert_int_equal(t.config.merge_tcp, kind & 1);
		p = ring_peek(&t.facts, &n);
		assert_non_null(p);
		memcpy(&up, p, sizeof(up));
		assert_int_equal(up.type, ENGINE_UP_LOG);
		ring_consume(&t.facts);
		assert_null(ring_peek(&t.facts, &n)); /* one line, not two */
		plane_close(&t);
	}
}

/* A frame that makes no sense when cut is a counted drop, like any other refusal. */
static void test_refused_nonsense(void **state)
{
	struct picky picky = {0};
	struct engine_plane t;
	uint8_t bytes[100] = {0x45};
	struct tun_tx frame = {.iov_count = 1,
		.len = sizeof(bytes),
		.segments = 3,
		.gso = {.type = GSO_TCP4, .size = 10},
		.iov = {{bytes, sizeof(bytes)}}};

	(void)state;
	plane_open(&t, &picky);
	(void)engine_plane_write(&t, &frame, 1);
	assert_int_equal(picky.taken, 0);
	assert_int_equal(drops(&t, DROP_TUN_ERROR), 3);
	plane_close(&t);
}

/* Messages to the plane are never lost, and keep their order, when the ring is full. */
static void test_down_full(void **state)
{
	struct engine_plane *plane = w_calloc(1, sizeof(*plane));
	struct engine e = {.planes = 1, .plane = {plane}};
	uint8_t data[DATA] = {0};
	uint32_t seen = 0;

	(void)state;
	assert_non_null(plane);
	list_init(&e.pending[0]);
	plane->event = -1;
	assert_int_equal(ring_init(&plane->down, ENGINE_DOWN_RING), 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct engine_down m = {.type = ENGINE_DOWN_PLANE,
			.plane = {.type = PLANE_DOWN_SEAL, .slot = i, .data = view_of(data, DATA)}};

		assert_int_equal(engine_down(&e, &m), 0);
	}
	assert_true(engine_down_waits(&e));
	while (seen < MESSAGES) {
		struct engine_down m;
		size_t n;
		uint8_t *p = ring_peek(&plane->down, &n);

		if (!p) {
			engine_down_retry(&e);
			continue;
		}
		memcpy(&m, p, sizeof(m));
		assert_int_equal(n, sizeof(m) + DATA);
		assert_int_equal(m.plane.slot, seen++);
		ring_consume(&plane->down);
	}
	engine_down_retry(&e);
	assert_false(engine_down_waits(&e));
	assert_true(ring_empty(&plane->down));
	ring_done(&plane->down);
	w_free(plane);
}

static bool push_ike(struct engine_plane *t, bool established)
{
	static const uint8_t message[DATA];
	struct plane_up up = {.type = PLANE_UP_IKE,
		.established = established,
		.data = view_of(message, sizeof(message))};

	return t->config.up(t->config.up_ctx, &up);
}

/* Design, threads: what strangers send has a ring of its own, which may be full. */
static void test_strangers_do_not_hold_up_peers(void **state)
{
	struct picky picky = {0};
	struct engine_plane *t = w_alloc(sizeof(*t));
	size_t strangers = 0, n;

	(void)state;
	plane_open(t, &picky);
	while (push_ike(t, false))
		strangers++;
	assert_in_range(strangers, ENGINE_UNKNOWN_RING / (2 * (DATA + sizeof(struct engine_up))),
		ENGINE_UNKNOWN_RING / DATA);
	for (size_t i = 0; i < strangers; i++)
		assert_true(push_ike(t, true));
	assert_non_null(ring_peek(&t->known, &n));
	assert_false(push_ike(t, false));
	plane_close(t);
	w_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_nonsense),
		cmocka_unit_test(test_down_full),
		cmocka_unit_test(test_strangers_do_not_hold_up_peers),
	};

	if (unshare(CLONE_NEWNET) < 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
