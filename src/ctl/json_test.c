/* JSON written: escapes, commas, and no figure where none is known. */
#include "ctl/json.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "ctl/value.h"

static void expect(struct buf *b, const char *text)
{
	buf_add(b, "", 1);
	assert_false(b->failed);
	assert_string_equal((const char *)b->p, text);
	buf_free(b);
}

static void every_kind_of_value(void **state)
{
	struct buf b = {0};
	struct json j = json_to(&b);

	(void)state;
	json_object(&j, NULL);
	json_string(&j, "s", "text");
	json_string(&j, "n", NULL);
	json_int(&j, "i", INT64_MIN);
	json_uint(&j, "u", UINT64_MAX);
	json_real(&j, "r", 0.25);
	json_real(&j, "nan", (double)NAN);
	json_real(&j, "inf", (double)-INFINITY);
	json_bool(&j, "t", true);
	json_bool(&j, "f", false);
	json_null(&j, "z");
	json_hex(&j, "spi", 0xabcu, 8);
	json_object_end(&j);
	expect(&b,
		"{\"s\":\"text\",\"n\":null,\"i\":-9223372036854775808,"
		"\"u\":18446744073709551615,\"r\":0.25,\"nan\":null,\"inf\":null,\"t\":true,"
		"\"f\":false,\"z\":null,\"spi\":\"00000abc\"}");
}

static void commas_stand_between(void **state)
{
	struct buf b = {0};
	struct json j = json_to(&b);

	(void)state;
	json_object(&j, NULL);
	json_array(&j, "a");
	json_array_end(&j);
	json_array(&j, "b");
	json_int(&j, NULL, 1);
	json_int(&j, NULL, 2);
	json_object(&j, NULL);
	json_object_end(&j);
	json_object(&j, NULL);
	json_null(&j, "x");
	json_object_end(&j);
	json_array_end(&j);
	json_null(&j, "c");
	json_object_end(&j);
	expect(&b, "{\"a\":[],\"b\":[1,2,{},{\"x\":null}],\"c\":null}");
}

static void texts_are_escaped(void **state)
{
	static const struct {
		const char *text, *json;
	} t[] = {
		{"", "\"\""},
		{"a\"b", "\"a\\\"b\""},
		{"\\", "\"\\\\\""},
		{"/", "\"/\""},
		{"\n\r\t\b\f", "\"\\n\\u000d\\u0009\\u0008\\u000c\""},
		{"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
		{"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
			"\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\""},
		/* bytes that are no UTF-8 become U+FFFD, so that a reply is always JSON */
		{"a\xff"
		 "b",
			"\"a\xef\xbf\xbd"
			"b\""},
		{"\xc3", "\"\xef\xbf\xbd\""},
		{"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct buf b = {0};
		struct json j = json_to(&b);

		json_string(&j, NULL, t[i].text);
		expect(&b, t[i].json);
	}
}

static void keys_are_escaped(void **state)
{
	struct buf b = {0};
	struct json j = json_to(&b);

	(void)state;
	json_object(&j, NULL);
	json_int(&j, "a\"\n", 1);
	json_object_end(&j);
	expect(&b, "{\"a\\\"\\n\":1}");
}

static void too_deep_fails_the_buffer(void **state)
{
	struct buf b = {0};
	struct json j = json_to(&b);

	(void)state;
	for (int i = 0; i < JSON_DEPTH; i++)
		json_array(&j, NULL);
	assert_false(b.failed);
	json_array(&j, NULL);
	assert_true(b.failed);
	buf_free(&b);
}

static void written_numbers_read_back_equal(void **state)
{
	static const double numbers[] = {0, 0.1, 1.0 / 3, 12345678.9, 4294967296.5, 1e-9, 1e15,
		123456, 1234567, 86399.999999, -0.5};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct buf b = {0};
		struct json j = json_to(&b);
		struct value_doc *d;

		json_real(&j, NULL, numbers[i]);
		assert_int_equal(value_parse(buf_view(&b), &d), 0);
		assert_true(value_number(value_root(d), -1) == numbers[i]);
		value_free(d);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_value),
		cmocka_unit_test(commas_stand_between),
		cmocka_unit_test(texts_are_escaped),
		cmocka_unit_test(keys_are_escaped),
		cmocka_unit_test(too_deep_fails_the_buffer),
		cmocka_unit_test(written_numbers_read_back_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
