/* Which flows are bulk, and that what comes for them goes to the queue for it. */
#include "plane/bulk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "plane/rig_test.h"

enum { STEP = 1000, FRAME = 64000, SOME = 700 };

static void much_at_once_is_bulk_for_a_while(void **state)
{
	struct bulk b = {0};
	wtime now = {10 * W_SEC};

	(void)state;
	for (uint32_t sum = FRAME; sum <= BULK_BYTES; sum += FRAME) {
		bulk_count(&b, 7, FRAME, now);
		assert_false(bulk_is(&b, 7, now));
		now.us += STEP;
	}
	bulk_count(&b, 7, FRAME, now);
	assert_true(bulk_is(&b, 7, now));
	assert_false(bulk_is(&b, 8, now));
	now.us += BULK_FOR_US - 1;
	assert_true(bulk_is(&b, 7, now));
	now.us += 1;
	assert_false(bulk_is(&b, 7, now));
}

static void much_in_the_long_run_is_not(void **state)
{
	struct bulk b = {0};
	wtime now = {10 * W_SEC};

	(void)state;
	for (int i = 0; i < 1000; i++, now.us += BULK_WITHIN_US / 3) {
		bulk_count(&b, 7, FRAME, now);
		assert_false(bulk_is(&b, 7, now));
	}
}

static struct packet back(const struct packet *f)
{
	struct packet r = *f;

	r.src = f->dst;
	r.dst = f->src;
	r.sport = f->dport;
	r.dport = f->sport;
	return r;
}

static void both_directions_are_one_flow(void **state)
{
	const struct packet *const kinds[] = {&rig_udp4, &rig_udp6};
	uint32_t places[2 * SOME], n = 0, shared = 0;
	uint8_t data[256];
	struct ip_view v;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (uint16_t port = 1; port <= SOME; port++) {
			struct packet to = *kinds[i], from;
			uint32_t len, place;

			to.sport = port;
			from = back(&to);
			len = packet_make(data, &to);
			assert_int_equal(ip_parse(view_of(data, len), &v), 0);
			place = bulk_flow(view_of(data, len), &v);
			assert_in_range(place, 0, BULK_FLOWS - 1);
			len = packet_make(data, &from);
			assert_int_equal(ip_parse(view_of(data, len), &v), 0);
			assert_int_equal(bulk_flow(view_of(data, len), &v), place);
			places[n++] = place;
		}
	}
	/* Flows are spread: few share a place with a given one. */
	for (uint32_t i = 1; i < n; i++)
		shared += places[i] == places[0];
	assert_in_range(shared, 0, 10);
}

/* Of the flow that node 2 sends much of, and of another one. */
static void what_comes_for_bulk_goes_to_its_queue(void **state)
{
	struct rig_pair *t = *state;
	struct packet ack = rig_udp4, other = rig_udp4, much;
	const struct tun_tx *frames;
	size_t n;

	other.sport++;
	much = back(&ack);
	much.len = 1300;
	for (uint32_t sum = 0; sum <= BULK_BYTES; sum += much.len) {
		rig_tun(&t->b, t->data, packet_make(t->data, &much));
		rig_round(&t->b);
	}
	for (int i = 0; i < 2; i++) {
		rig_tun(&t->a, t->data, packet_make(t->data, i ? &other : &ack));
		rig_round(&t->a);
		rig_carry(&t->a, 0, &t->b);
		plane_flush(t->b.plane, t->b.now);
		frames = plane_tun_out(t->b.plane, &n);
		assert_int_equal(n, 1);
		assert_int_equal(frames[0].bulk, i == 0);
		plane_round_done(t->b.plane);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(much_at_once_is_bulk_for_a_while),
		cmocka_unit_test(much_in_the_long_run_is_not),
		cmocka_unit_test(both_directions_are_one_flow),
		cmocka_unit_test_setup_teardown(what_comes_for_bulk_goes_to_its_queue,
			rig_pair_setup, rig_pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
