/* Columns are aligned, and nothing that a peer chose reaches the terminal as control. */
#include "weft/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char *const head[] = {"NAME", ">COUNT", "END", NULL};

static void add(struct table *t, const char *a, const char *b, const char *c)
{
	table_cell(t, a);
	table_cell(t, b);
	if (c)
		table_cell(t, c);
	table_row(t);
}

static void expect(struct table *t, const char *text)
{
	struct buf out = {0};

	table_print(t, &out);
	assert_false(out.failed);
	buf_add(&out, "", 1);
	assert_string_equal((const char *)out.p, text);
	buf_free(&out);
}

static void columns_are_aligned(void **state)
{
	struct table *t = table_new(head, false);

	(void)state;
	add(t, "a", "1", "x");
	add(t, "longer name", "12345", NULL);
	expect(t,
		"NAME         COUNT  END\n"
		"a                1  x\n"
		"longer name  12345\n");
}

static void characters_count_not_bytes(void **state)
{
	struct table *t = table_new(head, false);

	(void)state;
	add(t, "Z\xc3\xbcrich", "1", "x");
	add(t, "Berlin", "2", "y");
	expect(t,
		"NAME    COUNT  END\n"
		"Z\xc3\xbcrich      1  x\n"
		"Berlin      2  y\n");
}

static void control_characters_are_replaced(void **state)
{
	struct table *t = table_new(head, true);

	(void)state;
	add(t, "a\033[31m\n", "\xc2\x9b", "\x7f\t");
	expect(t,
		"NAME     COUNT  END\n"
		"a?[31m?      ?  ??\n");
}

static void empty_cells_and_too_many(void **state)
{
	struct table *t = table_new(head, false);

	(void)state;
	table_cell(t, "");
	table_cell(t, "2");
	table_cell(t, "3");
	table_cell(t, "lost");
	table_row(t);
	expect(t, "NAME  COUNT  END\n-         2  3\n");
}

static void colour_only_when_asked(void **state)
{
	struct buf out = {0};

	(void)state;
	table_coloured(&out, "up", TABLE_GOOD, false);
	table_coloured(&out, "up", TABLE_GOOD, true);
	buf_add(&out, "", 1);
	assert_string_equal((const char *)out.p, "up\033[32mup\033[0m");
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_aligned),
		cmocka_unit_test(characters_count_not_bytes),
		cmocka_unit_test(control_characters_are_replaced),
		cmocka_unit_test(empty_cells_and_too_many),
		cmocka_unit_test(colour_only_when_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
