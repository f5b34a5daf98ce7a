/* Figures read well, and unknown ones are never made up. */
#include "weft/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

typedef const char *figure_fn(double, char *);

static void expect(figure_fn *fn, double value, const char *text)
{
	char out[TEXT_FIGURE];

	assert_string_equal(fn(value, out), text);
}

static void durations(void **state)
{
	(void)state;
	expect(text_duration, 0, "0s");
	expect(text_duration, -3, "0s");
	expect(text_duration, 59.9, "59s");
	expect(text_duration, 60, "1m 0s");
	expect(text_duration, 3599, "59m 59s");
	expect(text_duration, 3600 * 4 + 300, "4h 5m");
	expect(text_duration, 86400 * 2 + 3 * 3600, "2d 3h");
}

static void sizes(void **state)
{
	(void)state;
	expect(text_bytes, 0, "0 B");
	expect(text_bytes, 1023, "1023 B");
	expect(text_bytes, 1024, "1.00 KiB");
	expect(text_bytes, 1536.0 * 1024, "1.50 MiB");
	expect(text_bytes, 9007199254740992.0, "8.00 PiB");
	expect(text_bytes, 1e24, "867361.74 EiB");
	expect(text_bytes, -1, "-");
}

static void others(void **state)
{
	(void)state;
	expect(text_ms, 0.4321, "0.43 ms");
	expect(text_ms, 12.34, "12.3 ms");
	expect(text_ms, 140.4, "140 ms");
	expect(text_share, 0, "0%");
	expect(text_share, 0.015, "1.5%");
	expect(text_count, 4294967296.0, "4294967296");
}

static void unknown_is_a_dash(void **state)
{
	figure_fn *const all[] = {text_duration, text_bytes, text_ms, text_share, text_count};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		expect(all[i], (double)NAN, "-");
		expect(all[i], (double)INFINITY, "-");
	}
	assert_true(isnan(text_number(NULL, "x")));
	assert_string_equal(text_string(NULL, "x"), "-");
	assert_string_equal(text_string_at(NULL, 0), "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(sizes),
		cmocka_unit_test(others),
		cmocka_unit_test(unknown_is_a_dash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
