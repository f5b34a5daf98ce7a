/* What the helper has nft read: its own rules, whatever it is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "os/nft.h"
#include "os/runner_priv.h"

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

static void test_on(void **state)
{
	static const char message[] = "weft-0\0\0"
				      "10.2.0.0/24\0"
				      "2001:db8::/32";
	struct buf out = {0};
	const char *text;

	(void)state;
	assert_null(masquerade_rules(view_of(message, sizeof(message)), true, &out));
	buf_add(&out, "", 1);
	text = (const char *)out.p;
	/* one transaction: whatever was there goes, all that is wanted comes */
	assert_int_equal(strncmp(text,
				 "table inet weft_exit_weft_0\n"
				 "delete table inet weft_exit_weft_0\n"
				 "table inet weft_exit_weft_0 {\n",
				 30),
		0);
	assert_non_null(strstr(text, "iifname != \"weft-0\" return\n"));
	assert_non_null(strstr(text, "oifname \"weft-0\" return\n"));
	assert_non_null(strstr(text, "\tip daddr 10.2.0.0/24 return\n"));
	assert_non_null(strstr(text, "\tip6 daddr 2001:db8::/32 return\n"));
	assert_non_null(strstr(text, "\tmasquerade\n"));
	assert_int_equal(count(text, "return\n") + count(text, "masquerade\n"),
		os_masquerade_rules(2));
	buf_free(&out);
}

static void test_off(void **state)
{
	static const char message[] = "weft0\0";
	struct buf out = {0};

	(void)state;
	assert_null(masquerade_rules(view_of(message, sizeof(message)), false, &out));
	buf_add(&out, "", 1);
	assert_string_equal((const char *)out.p,
		"table inet weft_exit_weft0\ndelete table inet weft_exit_weft0\n");
	buf_free(&out);
}

static void test_nothing_but_names_and_prefixes(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} bad[] = {
		{"", 0},
		{"weft0", 5},
		{"weft0\0", 6},
		{"\0", 2},
		{"a\"\nflush ruleset\n\0", 19},
		{"weft*\0", 7},
		{"weft0\0\0flush ruleset\0", 21},
		{"weft0\0\0"
		 "10.0.0.0/8 accept\0",
			25},
		{"weft0\0\0"
		 "10.0.0.1/8\0",
			18},
		{"sixteenbytesname\0", 18},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct buf out = {0};

		assert_non_null(masquerade_rules(view_of(bad[i].text, bad[i].n), true, &out));
		buf_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_on),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_nothing_but_names_and_prefixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
