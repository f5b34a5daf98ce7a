/* JSON read: what RFC 8259 allows and nothing else, within bounds. */
#include "ctl/value.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"

static int parse(const char *text, struct value_doc **ret)
{
	*ret = NULL;
	return value_parse(view_of(text, strlen(text)), ret);
}

static const char whole[] =
	"{\"s\":\"a\\u00e9\\n\\\"\\\\\\/\",\"n\":-1.5e3,\"z\":null,\"t\":true,\"f\":false,"
	"\"a\":[1,[],{}],\"o\":{\"k\":\"\"}}";

static void every_kind_is_read(void **state)
{
	struct value_doc *d;
	const struct value *r;

	(void)state;
	assert_int_equal(parse(whole, &d), 0);
	r = value_root(d);
	assert_int_equal(value_type(r), VALUE_OBJECT);
	assert_int_equal(value_count(r), 7);
	assert_string_equal(value_key(r, 0), "s");
	assert_string_equal(value_string(value_get(r, "s")), "a\xc3\xa9\n\"\\/");
	assert_true(value_number(value_get(r, "n"), 0) == -1500);
	assert_int_equal(value_type(value_get(r, "z")), VALUE_NULL);
	assert_true(value_bool(value_get(r, "t")));
	assert_false(value_bool(value_get(r, "f")));
	assert_int_equal(value_count(value_get(r, "a")), 3);
	assert_true(value_number(value_at(value_get(r, "a"), 0), 0) == 1);
	assert_int_equal(value_type(value_at(value_get(r, "a"), 1)), VALUE_ARRAY);
	assert_string_equal(value_string(value_get(value_get(r, "o"), "k")), "");
	value_free(d);
}

static void what_is_not_there_is_null(void **state)
{
	struct value_doc *d;
	const struct value *r;

	(void)state;
	assert_int_equal(parse("{\"a\":\"text\"}", &d), 0);
	r = value_root(d);
	assert_null(value_get(r, "b"));
	assert_null(value_get(value_get(r, "a"), "b"));
	assert_null(value_at(r, 1));
	assert_null(value_key(r, 1));
	assert_null(value_string(r));
	assert_int_equal(value_type(NULL), VALUE_NULL);
	assert_int_equal(value_count(NULL), 0);
	assert_null(value_get(NULL, "a"));
	assert_true(value_number(value_get(r, "a"), 7) == 7);
	assert_false(value_bool(value_get(r, "a")));
	value_free(d);
	value_free(NULL);
}

static void scalars_are_documents(void **state)
{
	static const char *const texts[] = {"null", "true", "0", "-0.5", "1e5", "\"x\"", " [] ",
		"{}\n"};
	struct value_doc *d;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(parse(texts[i], &d), 0);
		value_free(d);
	}
}

static void what_is_no_json_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		" ",
		"{",
		"[",
		"[1",
		"[1,",
		"[1,]",
		"{\"a\"",
		"{\"a\":",
		"{\"a\":1",
		"{\"a\":1,}",
		"{,}",
		"[,]",
		"}",
		"]",
		"{]",
		"[}",
		"[1 2]",
		"{\"a\" 1}",
		"{a:1}",
		"{'a':1}",
		"['a']",
		"[a]",
		"{1:2}",
		"{null:1}",
		"{[]:1}",
		"nul",
		"tru",
		"True",
		"NULL",
		"yes",
		"~",
		"undefined",
		"[1] [2]",
		"[1]x",
		"{} {}",
		"1 2",
		"// c\n1",
		"# c\n1",
		"[1] # c",
		"/* c */ 1",
		"{\"a\":1,\"a\":2}",
		"{\"a\":1,\"\\u0061\":2}",
		"\"a",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\\ud800\"",
		"\"\\ud800\\u0041\"",
		"\"\\udc00\"",
		"\"a\nb\"",
		"\"a\tb\"",
		"\"\x01\"",
		"01",
		"+1",
		"1.",
		".5",
		"1e",
		"1e+",
		"0x10",
		"NaN",
		"Infinity",
		"-Infinity",
		"inf",
		"nan",
		"--1",
		"1_000",
		"-",
		"&a 1",
		"*a",
		"!!str 1",
		"- a",
		"a: b",
		"? a",
		"---\n1",
		"1\n...\n",
		"%YAML 1.2\n---\n1",
		"|\n a",
		">\n a",
		"\"\\u0000\"",
		"{\"\\u0000\":1}",
		"\xef\xbb\xbf"
		"1",
		"\"\xff\"",
		"\"\xc0\xaf\"",
		"\"\xed\xa0\x80\"",
		"\xc2\xa0"
		"1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct value_doc *d;
		int err = parse(texts[i], &d);

		if (err != -EINVAL || d)
			fail_msg("taken: \"%s\" (%d)", texts[i], err);
	}
}

static void a_zero_byte_is_refused(void **state)
{
	struct value_doc *d = NULL;

	(void)state;
	assert_int_equal(value_parse(view_of("[1]\0", 4), &d), -EINVAL);
	assert_int_equal(value_parse(view_of("\"\0\"", 3), &d), -EINVAL);
	assert_null(d);
}

static void every_truncation_is_refused(void **state)
{
	struct value_doc *d = NULL;

	(void)state;
	for (size_t n = 0; n < sizeof(whole) - 1; n++)
		assert_int_equal(value_parse(view_of(whole, n), &d), -EINVAL);
}

static int parse_depth(size_t depth, char open, char close)
{
	char *text = w_alloc(2 * depth + 1);
	struct value_doc *d = NULL;
	int err;

	assert_non_null(text);
	memset(text, open, depth);
	memset(text + depth, close, depth);
	err = value_parse(view_of(text, 2 * depth), &d);
	value_free(d);
	w_free(text);
	return err;
}

static void depth_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(parse_depth(32, '[', ']'), 0);
	assert_int_equal(parse_depth(33, '[', ']'), -EINVAL);
	assert_int_equal(parse_depth(1000000, '[', ']'), -EINVAL);
	assert_int_equal(parse_depth(1000000, '{', '}'), -EINVAL);
}

static void size_is_bounded(void **state)
{
	enum { LARGE = (16 << 20) + 1 };
	char *text = w_alloc(LARGE);
	struct value_doc *d = NULL;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', LARGE);
	text[0] = '1';
	assert_int_equal(value_parse(view_of(text, LARGE), &d), -E2BIG);
	assert_null(d);
	w_free(text);
}

static void huge_numbers_are_not_made_up(void **state)
{
	struct value_doc *d;

	(void)state;
	assert_int_equal(parse("[18446744073709551615, 1e308, -1e308, 1e-400]", &d), 0);
	assert_true(value_number(value_at(value_root(d), 0), 0) == 18446744073709551616.0);
	assert_true(value_number(value_at(value_root(d), 3), 1) == 0);
	value_free(d);
	assert_int_equal(parse("\"\\ud83d\\ude00\"", &d), 0);
	assert_string_equal(value_string(value_root(d)), "\xf0\x9f\x98\x80");
	value_free(d);
	assert_int_equal(parse("1e309", &d), -EINVAL);
	assert_int_equal(parse("-1e999999999", &d), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_read),
		cmocka_unit_test(what_is_not_there_is_null),
		cmocka_unit_test(scalars_are_documents),
		cmocka_unit_test(what_is_no_json_is_refused),
		cmocka_unit_test(a_zero_byte_is_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(size_is_bounded),
		cmocka_unit_test(huge_numbers_are_not_made_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
