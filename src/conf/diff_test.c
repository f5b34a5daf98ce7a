/* What differs between two configurations. */
#include "conf/conf_test.h"

#define BASE                                                                                       \
	"node: {organization: acme, name: sin1, key: k}\n"                                         \
	"registry: r.json\n"                                                                       \
	"endpoints: [{serial: \"0\", family: ip4}]\n"

static struct config *parsed(const char *text)
{
	struct conf_errors e = {0};
	struct config *c = NULL;

	if (config_parse(text_view(text), "weft.yaml", &c, &e) < 0)
		fail_msg("%s", error_text(&e));
	conf_errors_free(&e);
	return c;
}

static void expect_diff(const char *a, const char *b, const char *lines)
{
	struct config *one = parsed(a), *two = parsed(b);
	struct buf out = {0};

	assert_int_equal(config_diff(one, two, "changed", &out), 0);
	buf_add(&out, "", 1);
	assert_false(out.failed);
	assert_string_equal((const char *)out.p, lines);
	buf_free(&out);
	config_free(one);
	config_free(two);
}

static void another_form_of_the_same_is_no_difference(void **state)
{
	(void)state;
	expect_diff(BASE, BASE, "");
	expect_diff(BASE, BASE "log: info\nike: {dpd: 10s}\n", "");
	expect_diff(BASE "tun: {mtu: 1400}\n", BASE "announce: []\n", "");
}

static void each_key_that_differs_is_told_once(void **state)
{
	(void)state;
	expect_diff(BASE, BASE "announce: [10.1.0.0/16]\nlog: debug\n",
		"announce: changed\nlog: changed\n");
	expect_diff(BASE "announce: [10.1.0.0/16]\n", BASE "announce: [10.2.0.0/16]\n",
		"announce: changed\n");
	expect_diff(BASE "ike: {dpd: 5s, lifetime: 1h}\n", BASE, "ike: changed\n");
	expect_diff(BASE "babel: {hello: 20ms}\n", BASE "babel: {hello: 20500us}\n",
		"babel: changed\n");
}

/* A list over several lines, and a key that only one of the two has. */
static void what_comes_or_goes_is_told(void **state)
{
	(void)state;
	expect_diff(BASE,
		"node: {organization: acme, name: sin1, key: k}\n"
		"registry: r.json\n"
		"endpoints: [{serial: \"0\", family: ip4}, {serial: \"1\", family: ip6}]\n",
		"endpoints: changed\n");
	expect_diff(BASE, BASE "peers: {exclude: [a]}\n", "peers: changed\n");
	expect_diff(BASE "peers: {exclude: [a]}\n", BASE, "peers: changed\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_form_of_the_same_is_no_difference),
		cmocka_unit_test(each_key_that_differs_is_told_once),
		cmocka_unit_test(what_comes_or_goes_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
