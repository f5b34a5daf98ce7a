/* Which flows are bulk, and that what comes for them goes to the queue for it. */
#include "plane/bulk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "plane/rig_test.h"

enum { STEP = 1000, FRAME = 64000, SOME = 700 };

static const struct tun_rx sparse = {.len = FRAME}, in_bulk = {.len = FRAME, .bulk = true};

enum choice { SPARSE, BULK, TO_SPARSE, TO_BULK };

static enum choice choose(struct bulk *b, uint32_t flow, wtime now)
{
	struct tun_tx frame = {0};

	bulk_choose(b, flow, &frame, now);
	return (enum choice)(frame.bulk + 2 * frame.moved);
}

/* So much that the flow is bulk. */
static void fill(struct bulk *b, uint32_t flow, const struct tun_rx *frame, wtime now)
{
	for (uint32_t sum = 0; sum <= BULK_BYTES; sum += frame->len)
		bulk_count(b, flow, frame, now);
}

static void much_at_once_is_bulk_for_a_while(void **state)
{
	struct bulk b = {0};
	wtime now = {10 * W_SEC};

	(void)state;
	for (uint32_t sum = FRAME; sum <= BULK_BYTES; sum += FRAME) {
		bulk_count(&b, 7, &sparse, now);
		assert_false(bulk_any(&b, now));
		assert_int_equal(choose(&b, 7, now), SPARSE);
		now.us += STEP;
	}
	bulk_count(&b, 7, &sparse, now);
	assert_true(bulk_any(&b, now));
	assert_int_equal(choose(&b, 7, now), TO_BULK);
	assert_int_equal(choose(&b, 7, now), BULK);
	assert_int_equal(choose(&b, 8, now), SPARSE);
	now.us += BULK_FOR_US - 1;
	assert_int_equal(choose(&b, 7, now), BULK);
	now.us += 1;
	assert_false(bulk_any(&b, now));
}

/* It is read from its queue all the while. */
static void what_was_bulk_moves_back(void **state)
{
	struct bulk b = {0};
	wtime now = {10 * W_SEC};

	(void)state;
	fill(&b, 7, &sparse, now);
	assert_int_equal(choose(&b, 7, now), TO_BULK);
	for (int i = 0; i < BULK_FOR_US / BULK_WITHIN_US; i++) {
		now.us += BULK_WITHIN_US + 1;
		bulk_count(&b, 7, &in_bulk, now);
	}
	assert_true(bulk_any(&b, now));
	assert_int_equal(choose(&b, 7, now), TO_SPARSE);
	assert_int_equal(choose(&b, 7, now), SPARSE);
}

/* Another flow stays until the first one's frames from before were read: then something comes from
 * the queue that it moved to, or as much as a queue holds was read. */
static void one_flow_moves_at_a_time(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct bulk b = {0};
		wtime now = {10 * W_SEC};

		fill(&b, 7, &sparse, now);
		fill(&b, 8, &sparse, now);
		assert_int_equal(choose(&b, 7, now), TO_BULK);
		bulk_count(&b, 9, &in_bulk, now); /* before the kernel knew of it */
		now.us += STEP;
		for (int n = 1; n < BULK_WAITING - i; n++) {
			bulk_count(&b, 7, &sparse, now);
			assert_int_equal(choose(&b, 8, now), SPARSE);
			assert_int_equal(choose(&b, 7, now), BULK);
		}
		bulk_count(&b, 9, i ? &in_bulk : &sparse, now);
		assert_int_equal(choose(&b, 8, now), TO_BULK);
	}
}

/* Its answer tells the kernel another queue. What asked a question has nothing waiting. */
static void where_a_flow_begins_is_the_kernels_choice(void **state)
{
	struct tun_rx question = {.len = 100, .bulk = true};
	struct bulk b = {0};
	wtime now = {10 * W_SEC};

	(void)state;
	bulk_count(&b, 7, &question, now);
	assert_true(bulk_any(&b, now));
	assert_int_equal(choose(&b, 7, now), SPARSE);
	bulk_count(&b, 8, &in_bulk, now);
	assert_int_equal(choose(&b, 8, now), TO_SPARSE);
	now.us += BULK_FOR_US;
	assert_false(bulk_any(&b, now));
}

static void much_in_the_long_run_is_not(void **state)
{
	struct bulk b = {0};
	wtime now = {10 * W_SEC};

	(void)state;
	for (int i = 0; i < 1000; i++, now.us += BULK_WITHIN_US / 3) {
		bulk_count(&b, 7, &sparse, now);
		assert_false(bulk_any(&b, now));
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
		for (unsigned int port = 1; port <= SOME; port++) {
			struct packet to = *kinds[i], from;
			uint32_t len, place;

			to.sport = (uint16_t)port;
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
		assert_int_equal(frames[0].moved, i == 0);
		plane_round_done(t->b.plane);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(much_at_once_is_bulk_for_a_while),
		cmocka_unit_test(much_in_the_long_run_is_not),
		cmocka_unit_test(what_was_bulk_moves_back),
		cmocka_unit_test(one_flow_moves_at_a_time),
		cmocka_unit_test(where_a_flow_begins_is_the_kernels_choice),
		cmocka_unit_test(both_directions_are_one_flow),
		cmocka_unit_test_setup_teardown(what_comes_for_bulk_goes_to_its_queue,
			rig_pair_setup, rig_pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
