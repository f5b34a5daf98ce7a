/* Between the plane and the control side: messages down, reports up, and what a link's two ends say
 * to each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "plane/rig_test.h"
#include "wire/icmp.h"

enum { A = 1, B = 2 };

static void tun(struct rig_pair *n)
{
	rig_tun(&n->a, n->data, packet_make(n->data, &rig_udp6));
}

static void down(struct rig *r, struct plane_down m)
{
	plane_down(r->plane, &m, r->now);
}

static size_t count_ups(const struct rig *r, enum plane_up_type type)
{
	size_t n = 0;

	for (size_t i = 0; i < r->ups; i++)
		n += r->up[i].up.type == type;
	return n;
}

/* A packet that waits in a batch is sealed with the SA it was meant for, before that goes. */
static void what_waits_is_sealed_before_its_sa_goes(void **state)
{
	struct rig_pair *n = *state;
	struct toy_sa next = n->a.out[0], next_in = n->b.in[0];

	next.spi = next_in.spi = 99;
	down(&n->b, (struct plane_down){.type = PLANE_DOWN_SA_ADD, .sa = &next_in.t});
	tun(n);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_ADD, .sa = &next.t});
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_OUTBOUND, .slot = 0, .sa = &next.t});
	tun(n);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_REMOVE, .sa = &n->a.out[0].t});
	memset(&n->a.out[0], 0xa5, sizeof(n->a.out[0]));
	rig_round(&n->a);
	assert_int_equal(n->a.rx_count, 2);
	assert_int_equal(get_u32(n->a.rx[0].data), A * 16);
	assert_int_equal(get_u32(n->a.rx[1].data), 99);
	assert_int_equal(count_ups(&n->a, PLANE_UP_SA_GONE), 1);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	assert_int_equal(rig_dropped(&n->b), 0);
	/* The one in use goes, too: nothing is left to send with. */
	tun(n);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_REMOVE, .sa = &next.t});
	tun(n);
	rig_round(&n->a);
	assert_int_equal(n->a.rx_count, 1);
	assert_int_equal(rig_drops(&n->a, DROP_NO_SA), 1);
}

static void a_link_that_goes_comes_back_once(void **state)
{
	struct rig_pair *n = *state;

	tun(n);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_LINK_REMOVE, .slot = 0});
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_LINK_REMOVE, .slot = 0});
	tun(n);
	rig_round(&n->a);
	assert_int_equal(n->a.rx_count, 1);
	assert_int_equal(rig_drops(&n->a, DROP_NO_SA), 1);
	assert_int_equal(count_ups(&n->a, PLANE_UP_LINK_GONE), 1);
	assert_ptr_equal(rig_find(&n->a, PLANE_UP_LINK_GONE)->up.state, &n->a.state[0]);
	assert_int_equal(n->a.state[0].tx_packets, 1);
}

static void what_cannot_be_added_comes_back_once(void **state)
{
	struct rig_pair *n = *state;
	struct toy_sa twice = n->a.in[0];
	struct plane_link_state state_of = {0};

	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_ADD, .sa = &twice.t});
	assert_int_equal(n->a.ups, 0);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_REMOVE, .sa = &twice.t});
	assert_int_equal(count_ups(&n->a, PLANE_UP_SA_GONE), 1);
	assert_ptr_equal(n->a.up[0].up.sa, &twice.t);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SA_REMOVE});
	down(&n->a,
		(struct plane_down){.type = PLANE_DOWN_LINK_ADD,
			.slot = PLANE_SLOTS,
			.state = &state_of});
	assert_int_equal(count_ups(&n->a, PLANE_UP_LINK_GONE), 1);
}

static void the_former_snapshot_comes_back(void **state)
{
	struct rig_pair *n = *state;
	struct plane_snapshot next = n->a.snapshot;

	next.generation = 2;
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SNAPSHOT, .snapshot = &next});
	assert_int_equal(n->a.ups, 1);
	assert_int_equal(n->a.up[0].up.type, PLANE_UP_SNAPSHOT_GONE);
	assert_ptr_equal(n->a.up[0].up.snapshot, &n->a.snapshot);
	tun(n);
	rig_round(&n->a);
	assert_int_equal(n->a.rx_count, 1);
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_SNAPSHOT, .snapshot = NULL});
	tun(n);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->a);
	assert_int_equal(rig_drops(&n->a, DROP_NO_ROUTE), 1);
}

/* Told once, and told again when there was no room for it; at the hard one sending ends.
 */
static void limits_are_told_once(void **state)
{
	struct rig_pair *n = *state;

	n->a.out[0].soft = 3;
	n->a.out[0].hard = 6;
	for (int i = 1; i <= 10; i++) {
		n->a.up_full = i <= 4;
		tun(n);
		rig_round(&n->a);
		assert_int_equal(count_ups(&n->a, PLANE_UP_SOFT_LIMIT), i > 4);
		assert_int_equal(count_ups(&n->a, PLANE_UP_HARD_LIMIT), i > 6);
	}
	assert_int_equal(rig_find(&n->a, PLANE_UP_SOFT_LIMIT)->up.child, 100);
	assert_int_equal(rig_drops(&n->a, DROP_HARD_LIMIT), 4);
	assert_int_equal(n->a.out[0].next, 7);
}

/* Carries one packet whose outer source is port, and returns how often a move was told by now. */
static size_t from_port(struct rig_pair *n, uint16_t port)
{
	tun(n);
	rig_round(&n->a);
	n->a.rx[0].remote.port = port;
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	return count_ups(&n->b, PLANE_UP_REMOTE);
}

static void a_peer_that_moved_is_told_with_measure(void **state)
{
	struct rig_pair *n = *state;

	assert_int_equal(from_port(n, 13000), 0);
	assert_int_equal(from_port(n, 14000), 1);
	assert_int_equal(n->b.up[0].up.remote.port, 14000);
	assert_int_equal(n->b.up[0].up.slot, 0);
	assert_int_equal(from_port(n, 14000), 1);
	assert_int_equal(from_port(n, 14001), 2);
	assert_int_equal(from_port(n, 14001), 2);
	n->b.now.us += W_SEC;
	assert_int_equal(from_port(n, 14001), 3);
}

/* A question whether the peer is elsewhere now goes there, and what follows goes as before. */
static void one_packet_goes_elsewhere(void **state)
{
	struct rig_pair *n = *state;
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = 0};
	uint8_t packet[40] = {0x60, [6] = 59, 255, 0xfe, 0x80, [24] = 0xfe, 0x80};

	m.data = view_of(packet, sizeof(packet));
	m.remote = n->a.link[0].remote;
	m.remote.port = 14000;
	down(&n->a, m);
	m.remote = (struct endpoint){0};
	down(&n->a, m);
	rig_round(&n->a);
	assert_int_equal(n->a.rx_count, 2);
	assert_int_equal(n->a.rx[0].local.port, 14000);
	assert_int_equal(n->a.rx[1].local.port, 13000);
}

/* An old packet that comes late from elsewhere says nothing about where the peer is. */
static void late_packets_move_nobody(void **state)
{
	struct rig_pair *n = *state;
	struct udp_rx late;
	uint8_t copy[512];

	tun(n);
	rig_round(&n->a);
	late = n->a.rx[0];
	memcpy(copy, late.data, late.len);
	late.data = copy;
	late.socket = 0;
	late.remote.port = 666;
	assert_int_equal(from_port(n, 13000), 0);
	plane_input_udp(n->b.plane, &late, 1, n->b.now);
	rig_round(&n->b);
	assert_int_equal(rig_dropped(&n->b), 0);
	assert_int_equal(count_ups(&n->b, PLANE_UP_REMOTE), 0);
}

static bool known(const void *ctx, uint64_t spi_i, uint64_t spi_r)
{
	(void)ctx;
	return spi_i == 1 && spi_r == 2;
}

static void ike(struct rig *r, uint64_t spi_i, uint64_t spi_r)
{
	uint8_t m[4 + 28 + 3] = {0};
	struct udp_rx b = {.data = m, .len = sizeof(m), .time = r->now, .socket = 5};

	put_u64(m + 4, spi_i);
	put_u64(m + 12, spi_r);
	plane_input_udp(r->plane, &b, 1, r->now);
}

static size_t refused(const struct rig_pair *n)
{
	return rig_drops(&n->b, DROP_PUNT_LIMIT);
}

/* A peer among made-up ones gets through when it asks again; each kind has its own measure. */
static void who_asks_again_is_heard(void **state)
{
	struct rig_pair *n = *state;
	size_t ups;

	for (uint64_t spi = 100; spi < 1000; spi++)
		ike(&n->b, spi, 0);
	ike(&n->b, 7, 0);
	ups = count_ups(&n->b, PLANE_UP_IKE);
	assert_int_equal(ups, 10);
	assert_int_equal(refused(n), 891);
	ike(&n->b, 7, 0);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), ups + 1);
	/* of a handshake that goes on */
	ike(&n->b, 7, 8);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), ups + 2);
	/* it is remembered for some seconds, not for ever */
	ike(&n->b, 8, 0);
	n->b.now.us += W_SEC;
	for (uint64_t spi = 1000; spi < 1100; spi++)
		ike(&n->b, spi, 0);
	ups = count_ups(&n->b, PLANE_UP_IKE);
	ike(&n->b, 8, 0);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), ups + 1);
	n->b.now.us += 10 * W_SEC;
	for (uint64_t spi = 1100; spi < 1200; spi++)
		ike(&n->b, spi, 0);
	ups = count_ups(&n->b, PLANE_UP_IKE);
	ike(&n->b, 9, 0);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), ups);
}

/* Unknown SPIs are limited, established ones are not. */
static void ike_goes_up(void **state)
{
	struct rig_pair *n = *state;

	for (unsigned int i = 0; i < 15; i++)
		ike(&n->b, 100 + i, 8);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), 10);
	assert_int_equal(rig_drops(&n->b, DROP_PUNT_LIMIT), 5);
	assert_int_equal(n->b.up[0].up.data.n, 31);
	assert_int_equal(n->b.up[0].up.socket, 5);
	assert_false(n->b.up[0].up.established);
	rig_know(&n->b, known);
	ike(&n->b, 1, 2);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), 11);
	assert_true(n->b.up[10].up.established);
	n->b.now.us += W_SEC / 2;
	for (unsigned int i = 0; i < 15; i++)
		ike(&n->b, 200 + i, 8);
	assert_int_equal(count_ups(&n->b, PLANE_UP_IKE), 16);
}

static void keepalives_are_not_drops(void **state)
{
	struct rig_pair *n = *state;
	uint8_t keepalive = 0xff;
	struct udp_rx b = {.data = &keepalive, .len = 1};
	struct plane_counters c;

	plane_input_udp(n->b.plane, &b, 1, n->b.now);
	plane_counters(n->b.plane, &c);
	assert_int_equal(c.keepalives, 1);
	assert_int_equal(rig_dropped(&n->b), 0);
	assert_true(rig_balanced(&n->b));
}

static void echo(struct rig_pair *n, const char *dst, uint8_t type)
{
	struct packet f = {.version = 6,
		.proto = 58,
		.src = "fe80::1:0",
		.dst = dst,
		.sport = (uint16_t)(type << 8),
		.hop_limit = 255,
		.len = 120};

	rig_inject(&n->a, 0, &n->b, n->data, packet_make(n->data, &f));
}

/* A request to the own address, or to all nodes, is answered from the own address. */
static void echo_requests_are_answered(void **state)
{
	static const char *const dst[] = {"fe80::2:0", "ff02::1"};
	struct rig_pair *n = *state;

	for (size_t i = 0; i < 2; i++) {
		const uint8_t *p;

		echo(n, dst[i], 128);
		assert_int_equal(n->b.ups, 0);
		assert_int_equal(n->b.rx_count, 1);
		n->a.ups = 0;
		rig_carry(&n->b, 0, &n->a);
		assert_int_equal(n->a.ups, 1);
		assert_int_equal(n->a.up[0].up.type, PLANE_UP_LINK);
		p = n->a.up[0].data;
		assert_int_equal(n->a.up[0].up.data.n, 120);
		assert_true(packet_valid(p, 120));
		assert_int_equal(p[40], 129);
		assert_memory_equal(p + 8, n->b.link[0].own_link_local.b, 16);
		assert_memory_equal(p + 24, n->a.link[0].own_link_local.b, 16);
		assert_memory_equal(p + 44, n->data + 44, 76);
		rig_round(&n->a);
	}
	assert_true(rig_balanced(&n->a) && rig_balanced(&n->b));
}

static void echo_replies_go_up(void **state)
{
	struct rig_pair *n = *state;

	echo(n, "fe80::2:0", 129);
	assert_int_equal(n->b.ups, 1);
	assert_int_equal(n->b.up[0].up.type, PLANE_UP_LINK);
	assert_int_equal(n->b.rx_count, 0);
	echo(n, "fe80::99", 129);
	assert_int_equal(n->b.ups, 1);
	assert_int_equal(rig_drops(&n->b, DROP_PUNT_UNEXPECTED), 1);
}

/* Greets the other end with a Babel body; whether what goes up there may wait. */
static bool greeting_waits(struct rig_pair *n, int64_t after_us, struct view body)
{
	uint32_t len = packet_make(n->data, &rig_babel);

	memset(n->data + 48, 0, len - 48);
	memcpy(n->data + 48, body.p, body.n);
	n->a.now.us += after_us;
	n->b.now = n->a.now;
	n->b.ups = 0;
	rig_inject(&n->a, 0, &n->b, n->data, len);
	assert_int_equal(n->b.ups, 1);
	assert_int_equal(n->b.up[0].up.type, PLANE_UP_LINK);
	rig_round(&n->b);
	return n->b.up[0].up.may_wait;
}

/* What comes between two hellos, what tells of a route and what is cut short is heard at once; so
 * is the first hello, and one after a hello that did not come. */
static void only_a_hello_on_time_may_wait(void **state)
{
	static const uint8_t hello[] = {42, 2, 0, 13, 17, 2, 0, 1, 0, 4, 6, 0, 0, 0, 1, 1, 144};
	static const uint8_t update[] = {42, 2, 0, 13, 17, 2, 0, 1, 0, 8, 6, 0, 0, 0, 1, 1, 144};
	static const uint8_t cut[] = {42, 2, 0, 12, 17, 2, 0, 1, 0, 4, 6, 0, 0, 0, 1, 1, 144};
	struct view v = view_of(hello, sizeof(hello));
	struct rig_pair *n = *state;

	n->a.now.us += 100 * W_SEC;
	assert_false(greeting_waits(n, 0, v));
	assert_true(greeting_waits(n, 4 * W_SEC, v));
	assert_false(greeting_waits(n, W_SEC / 2, v));
	assert_true(greeting_waits(n, 4 * W_SEC, v));
	assert_false(greeting_waits(n, 4 * W_SEC, view_of(update, sizeof(update))));
	assert_false(greeting_waits(n, 4 * W_SEC, view_of(cut, sizeof(cut))));
	assert_false(greeting_waits(n, 8 * W_SEC, v));
	assert_true(greeting_waits(n, 4 * W_SEC, v));
}

/* ---- echoes ---- */

static uint32_t probe(uint8_t *out, bool reply, uint8_t ttl, uint16_t id)
{
	struct icmp_echo e = {.reply = reply, .ttl = ttl, .id = id, .data = view_of("12345678", 8)};
	size_t len;

	assert_int_equal(ipaddr_parse(reply ? "fd00:2::1" : "fd00:1::1", &e.src), 0);
	assert_int_equal(ipaddr_parse(reply ? "fd00:1::1" : "fd00:2::1", &e.dst), 0);
	assert_int_equal(icmp_echo_build(&e, out, 256, &len), 0);
	return (uint32_t)len;
}

static void ids(struct rig *r, const char *bytes, size_t n)
{
	down(r, (struct plane_down){.type = PLANE_DOWN_ECHO_IDS, .data = view_of(bytes, n)});
}

static void an_echo_goes_as_if_from_the_tun(void **state)
{
	struct rig_pair *n = *state;
	uint32_t len = probe(n->data, false, 7, 0x4142);

	down(&n->a, (struct plane_down){.type = PLANE_DOWN_ECHO, .data = view_of(n->data, len)});
	rig_round(&n->a);
	rig_carry(&n->a, 0, &n->b);
	rig_round(&n->b);
	assert_int_equal(n->b.frames, 1);
	assert_memory_equal(n->b.frame_data[0], n->data, len);
	/* no error to the host, when it cannot go */
	n->a.link[0].usable = false;
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_ECHO, .data = view_of(n->data, len)});
	rig_round(&n->a);
	assert_int_equal(n->a.frames, 0);
	assert_int_equal(rig_drops(&n->a, DROP_LINK_DOWN), 1);
	/* and nothing that is no packet */
	down(&n->a, (struct plane_down){.type = PLANE_DOWN_ECHO, .data = view_of(n->data, 47)});
	assert_int_equal(rig_drops(&n->a, DROP_BAD_IP), 1);
	assert_true(rig_balanced(&n->a) && rig_balanced(&n->b));
}

static void answers_to_its_identifier_go_up(void **state)
{
	struct rig_pair *n = *state;
	uint32_t len = probe(n->data, true, 64, 0x4142);

	ids(&n->a, "ABCD", 4);
	rig_inject(&n->b, 0, &n->a, n->data, len);
	assert_int_equal(count_ups(&n->a, PLANE_UP_ECHO), 1);
	assert_memory_equal(rig_find(&n->a, PLANE_UP_ECHO)->data, n->data, len);
	assert_int_equal(n->a.frames, 0);
	/* another's are the host's; and so are all, when nobody asks any more */
	len = probe(n->data, true, 64, 0x4145);
	rig_inject(&n->b, 0, &n->a, n->data, len);
	assert_int_equal(n->a.frames, 1);
	ids(&n->a, "", 0);
	len = probe(n->data, true, 64, 0x4142);
	rig_inject(&n->b, 0, &n->a, n->data, len);
	assert_int_equal(n->a.frames, 1);
	assert_int_equal(count_ups(&n->a, PLANE_UP_ECHO), 1);
	assert_true(rig_balanced(&n->a));
}

static void errors_about_its_identifier_go_up(void **state)
{
	struct rig_pair *n = *state;
	struct ipaddr router;
	struct ip_view v;
	struct icmp_error e = {.type = ICMP_TIME_EXCEEDED, .source = &router, .about = &v};
	uint8_t error[ICMP_ERROR_MAX];
	struct plane_echo_answer a;
	size_t len;

	assert_int_equal(ipaddr_parse("fd00:2::9", &router), 0);
	e.packet = view_of(n->data, probe(n->data, false, 1, 0x4142));
	assert_int_equal(ip_parse(e.packet, &v), 0);
	assert_int_equal(icmp_error_build(&e, error, sizeof(error), &len), 0);
	rig_inject(&n->b, 0, &n->a, error, (uint32_t)len);
	assert_int_equal(n->a.frames, 1);
	ids(&n->a, "AB", 2);
	rig_inject(&n->b, 0, &n->a, error, (uint32_t)len);
	assert_int_equal(count_ups(&n->a, PLANE_UP_ECHO), 1);
	assert_int_equal(plane_echo_read(view_of(error, len), NULL, &a), 0);
	assert_true(!a.reply && !a.steered && a.error == ICMP_TIME_EXCEEDED);
	assert_true(ipaddr_equal(&a.from, &router) && a.echo.id == 0x4142);
	/* no room above: lost, and counted */
	n->a.up_full = true;
	rig_inject(&n->b, 0, &n->a, error, (uint32_t)len);
	assert_int_equal(rig_drops(&n->a, DROP_PUNT_FULL), 1);
	assert_true(rig_balanced(&n->a));
}

/* Echo replies of b's link that go up, of so many. */
static size_t gone_up(struct rig_pair *n, int sent)
{
	size_t ups = 0;

	for (int i = 0; i < sent; i++) {
		n->b.ups = 0;
		echo(n, "fe80::2:0", 129);
		ups += n->b.ups;
	}
	return ups;
}

/* What a peer sends for the control side alone has a measure: at once, and in the long run. */
static void one_peer_does_not_fill_the_ring(void **state)
{
	struct rig_pair *n = *state;
	size_t ups = 0;

	assert_int_equal(gone_up(n, 3000), 1024);
	assert_int_equal(rig_drops(&n->b, DROP_PUNT_LIMIT), 3000 - 1024);
	n->b.now.us += 10 * W_MS;
	assert_int_equal(gone_up(n, 500), 20);
	n->b.now.us += W_SEC;
	assert_int_equal(gone_up(n, 3000), 1024);
	for (int i = 0; i < 100; i++) {
		n->b.now.us += 10 * W_MS;
		ups += gone_up(n, 100);
	}
	assert_int_equal(ups, 2000);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_pair_setup, rig_pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_waits_is_sealed_before_its_sa_goes),
		T(a_link_that_goes_comes_back_once),
		T(what_cannot_be_added_comes_back_once),
		T(the_former_snapshot_comes_back),
		T(limits_are_told_once),
		T(a_peer_that_moved_is_told_with_measure),
		T(one_packet_goes_elsewhere),
		T(late_packets_move_nobody),
		T(ike_goes_up),
		T(who_asks_again_is_heard),
		T(keepalives_are_not_drops),
		T(echo_requests_are_answered),
		T(echo_replies_go_up),
		T(only_a_hello_on_time_may_wait),
		T(an_echo_goes_as_if_from_the_tun),
		T(answers_to_its_identifier_go_up),
		T(errors_about_its_identifier_go_up),

		T(one_peer_does_not_fill_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
