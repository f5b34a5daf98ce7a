/* What a suspected link makes a speaker ask, and what a question or a retraction makes its
 * neighbours look at. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "babel/bed_test.h"

enum { HUB, DEAD, NEAR = 2, NEAR_COUNT = 20, NODES = NEAR + NEAR_COUNT };

/* Packets that went out on each link, and the interfaces that each node was told to look at. */
struct watch {
	size_t sent[2 * NODES];
	uint32_t doubt[NODES];
	size_t doubts;
};

static bool count(struct bed *t, size_t link, size_t from, const struct babel_packet *p)
{
	struct watch *w = t->ctx;

	w->sent[link] += from == HUB && !ipaddr_is_multicast(&p->destination);
	return false;
}

static void take_event(struct bed *t, size_t node, const struct babel_event *e)
{
	struct watch *w = t->ctx;

	if (e->type != BABEL_EVENT_DOUBT)
		return;
	w->doubt[node] = e->iface;
	w->doubts++;
}

static void begin(struct bed *t, struct watch *w, size_t nodes)
{
	*w = (struct watch){0};
	bed_begin(t, nodes, 23);
	t->ctx = w;
	t->lose = count;
	t->event = take_event;
	for (size_t i = 0; i < nodes; i++)
		bed_start(t, i, NULL);
	bed_originate(t, DEAD);
}

/* Each node of NEAR stands between the hub and the dead one, nearer to it than the hub is. */
static size_t wheel(struct bed *t, struct watch *w)
{
	size_t direct;

	begin(t, w, NODES);
	direct = bed_link(t, HUB, DEAD, 10 * W_MS);
	for (size_t i = 0; i < NEAR_COUNT; i++) {
		bed_link(t, HUB, NEAR + i, (int64_t)(20 + i) * W_MS);
		bed_link(t, NEAR + i, DEAD, W_MS);
	}
	bed_run(t, 60 * W_SEC);
	*w = (struct watch){0};
	return direct;
}

static void doubt(struct bed *t, size_t link)
{
	babel_iface_doubt(t->node[HUB].b, (uint32_t)link + 1, t->now);
	bed_touch(t, HUB);
	bed_run(t, W_SEC / 2);
}

static void a_few_are_asked_and_look_at_their_own_link(void **state)
{
	struct watch w;
	struct bed t;
	size_t direct = wheel(&t, &w), asked = 0;

	(void)state;
	doubt(&t, direct);
	for (size_t i = 0; i < NEAR_COUNT; i++) {
		asked += w.sent[1 + 2 * i];
		assert_in_range(w.sent[1 + 2 * i], 0, 1);
		assert_int_equal(w.doubt[NEAR + i], w.sent[1 + 2 * i] ? 2 * i + 3 : 0);
	}
	assert_in_range(asked, 1, 8);
	assert_int_equal(w.doubts, asked);
	assert_int_equal(w.sent[1], 1); /* the best of them is among those */
	assert_int_equal(w.sent[direct], 0);
	/* again and again: not more than four on each interface in two seconds */
	for (int i = 0; i < 20; i++)
		babel_iface_doubt(t.node[HUB].b, (uint32_t)direct + 1, t.now);
	bed_touch(&t, HUB);
	bed_run(&t, W_SEC / 2);
	assert_int_equal(w.sent[direct], 0);
	for (size_t i = 0; i < NEAR_COUNT; i++)
		assert_in_range(w.sent[1 + 2 * i], 0, 4);
	bed_end(&t);
}

/* hub - 2 - 3 - dead, and the hub's own link to the dead one. */
static void a_question_goes_on_to_the_last_link(void **state)
{
	struct watch w;
	struct bed t;
	size_t direct;

	(void)state;
	begin(&t, &w, 4);
	direct = bed_link(&t, HUB, DEAD, 31 * W_MS);
	bed_link(&t, HUB, 2, 30 * W_MS);
	bed_link(&t, 2, 3, W_MS);
	bed_link(&t, 3, DEAD, W_MS);
	bed_run(&t, 60 * W_SEC);
	w = (struct watch){0};
	doubt(&t, direct);
	assert_int_equal(w.doubt[2], 3);
	assert_int_equal(w.doubt[3], 4);
	assert_int_equal(w.doubts, 2);
	bed_end(&t);
}

static void a_retraction_is_a_reason_to_look(void **state)
{
	struct watch w;
	struct bed t;
	size_t direct = wheel(&t, &w);

	(void)state;
	/* the best of them loses its link; what the hub has in use goes elsewhere */
	babel_iface_alive(t.node[NEAR].b, 3, false, t.now);
	bed_touch(&t, NEAR);
	bed_run(&t, W_SEC / 10);
	assert_int_equal(w.doubt[HUB], direct + 1);
	for (size_t i = 1; i < NODES; i++)
		assert_int_equal(w.doubt[i], 0);
	/* what is known to be dead is not looked at */
	babel_iface_alive(t.node[HUB].b, (uint32_t)direct + 1, false, t.now);
	w = (struct watch){0};
	babel_iface_doubt(t.node[HUB].b, (uint32_t)direct + 1, t.now);
	bed_touch(&t, HUB);
	bed_run(&t, W_SEC / 20);
	assert_int_equal(w.doubt[HUB], 0);
	bed_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_are_asked_and_look_at_their_own_link),
		cmocka_unit_test(a_question_goes_on_to_the_last_link),
		cmocka_unit_test(a_retraction_is_a_reason_to_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
