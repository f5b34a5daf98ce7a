/* The table of our own IKE SPIs. */
#include "node/spis.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static void an_spi_is_known_while_it_is_set(void **state)
{
	struct node_spis *s = NULL;

	(void)state;
	assert_int_equal(node_spis_new(&s), 0);
	assert_false(node_spis_know(s, 5, 6));
	node_spis_set(s, 6, true);
	assert_true(node_spis_know(s, 5, 6));
	assert_true(node_spis_know(s, 6, 5));
	assert_false(node_spis_know(s, 5, 7));
	node_spis_set(s, 6, false);
	assert_false(node_spis_know(s, 5, 6));
	node_spis_free(s);
	node_spis_free(NULL);
}

static void nothing_is_never_known(void **state)
{
	struct node_spis *s = NULL;

	(void)state;
	assert_int_equal(node_spis_new(&s), 0);
	assert_false(node_spis_know(s, 0, 0));
	node_spis_free(s);
}

/* A full row: what found no room stays unknown, and what leaves makes room. */
static void a_full_row_forgets_nobody(void **state)
{
	const uint64_t step = 1 << 20; /* of one row */
	struct node_spis *s = NULL;

	(void)state;
	assert_int_equal(node_spis_new(&s), 0);
	for (uint64_t i = 1; i <= 9; i++)
		node_spis_set(s, i * step, true);
	for (uint64_t i = 1; i <= 8; i++)
		assert_true(node_spis_know(s, 0, i * step));
	assert_false(node_spis_know(s, 0, 9 * step));
	node_spis_set(s, 9 * step, false);
	node_spis_set(s, 3 * step, false);
	node_spis_set(s, 10 * step, true);
	assert_true(node_spis_know(s, 10 * step, 0));
	assert_false(node_spis_know(s, 3 * step, 0));
	assert_true(node_spis_know(s, 8 * step, 0));
	node_spis_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_spi_is_known_while_it_is_set),
		cmocka_unit_test(nothing_is_never_known),
		cmocka_unit_test(a_full_row_forgets_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
