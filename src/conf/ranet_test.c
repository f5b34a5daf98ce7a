/* ranet's config.json: the identities and endpoints that it means, and its strictness. */
#include "conf/conf_test.h"

#include <errno.h>
#include <stdio.h>

static int parse(const char *text, struct config **ret, struct conf_errors *e)
{
	*ret = NULL;
	return config_parse_ranet(text_view(text), "config.json", "/r.json", "/key.pem", ret, e);
}

static void a_config_is_read(void **state)
{
	static const char text[] =
		"{\"organization\": \"acme\", \"common_name\": \"sin1\", \"endpoints\": [\n"
		"{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"address\": "
		"\"203.0.113.1\","
		" \"port\": 13000, \"updown\": \"/etc/ranet/updown\", \"fwmark\": \"0x52\"},\n"
		"{\"serial_number\": \"1\", \"address_family\": \"ip6\", \"port\": 13000},\n"
		"{\"serial_number\": \"2\", \"address_family\": \"ip4\", \"address\": "
		"\"10.0.0.0/8\","
		" \"port\": 14000, \"updown\": null, \"fwmark\": null}],\n"
		"\"experimental\": {\"iptfs\": false}}";
	char address[ADDR_TEXT];
	struct conf_errors e = {0};
	struct config *c;

	(void)state;
	if (parse(text, &c, &e) < 0)
		fail_msg("%s", error_text(&e));
	assert_true(c->ranet);
	assert_string_equal(c->node.organization, "acme");
	assert_string_equal(c->node.name, "sin1");
	assert_string_equal(c->node.key, "/key.pem");
	assert_string_equal(c->registry, "/r.json");
	assert_int_equal(c->endpoint_count, 3);
	assert_string_equal(ipaddr_format(&c->endpoint[0].address, address), "203.0.113.1");
	assert_int_equal(c->endpoint[0].family, IP4);
	assert_int_equal(c->endpoint[0].fwmark, 0x52);
	assert_string_equal(c->endpoint[0].updown, "/etc/ranet/updown");
	assert_int_equal(c->endpoint[1].family, IP6);
	assert_int_equal(c->endpoint[1].address.family, IP_NONE);
	assert_int_equal(c->endpoint[2].address.family, IP_NONE);
	assert_int_equal(c->endpoint[2].fwmark, 0);
	assert_null(c->endpoint[2].updown);
	assert_int_equal(c->tun.address_count, 0);
	assert_int_equal(c->announce_count, 0);
	config_free(c);
	conf_errors_free(&e);
}

static void mistakes_are_told(void **state)
{
	static const struct {
		const char *text, *begin, *part;
	} t[] = {
		{"{\"common_name\": \"a\", \"endpoints\": [{\"serial_number\": \"0\", "
		 "\"address_family\": \"ip4\", \"port\": 1}]}",
			"config.json:1:2: ", "lacks organization"},
		{"{\"organization\": \"o\", \"common_name\": \"a\", \"endpoints\": []}",
			"config.json:1:43: ", "needs one at least"},
		{"{\"organization\": \"o\", \"common_name\": \"a\", \"endpoints\": "
		 "[{\"serial_number\": 0,\n"
		 "\"address_family\": \"ip4\", \"port\": 1}]}",
			"config.json:1:75: ", "in quotes"},
		{"{\"organization\": \"o\", \"common_name\": \"a\", \"endpoints\": "
		 "[{\"serial_number\": \"0\",\n"
		 "\"address_family\": \"ip4\"}]}",
			"config.json:1:58: ", "lacks port"},
		{"{\"organization\": \"o\", \"common_name\": \"a\", \"endpoints\": "
		 "[{\"serial_number\": \"0\",\n"
		 "\"address_family\": \"ip4\", \"port\": 1, \"x\": 1}]}",
			"config.json:2:37: ", "unknown key \"x\""},
		{"{\"organization\": \"o\", \"common_name\": \"a\", \"endpoints\": "
		 "[{\"serial_number\": \"0\",\n"
		 "\"address_family\": \"ip4\", \"port\": 1}], \"experimental\": {\"iptfs\": true}}",
			"config.json:2:65: ", "iptfs is not supported"},
		{"{\"organization\": \"o\", \"common_name\": \"a\", \"endpoints\": "
		 "[{\"serial_number\": \"0\",\n"
		 "\"address_family\": \"ip4\", \"port\": 1}, {\"serial_number\": \"0\",\n"
		 "\"address_family\": \"ip6\", \"port\": 1}]}",
			"config.json:2:39: ", "used twice"},
		{"organization: o\n", "config.json:1:1: ", "syntax"},
		{"", "config.json:1:1: ", "is empty"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct conf_errors e = {0};
		struct config *c;

		assert_int_equal(parse(t[i].text, &c, &e), -EINVAL);
		assert_null(c);
		expect_one_line(&e, t[i].begin, t[i].part);
		conf_errors_free(&e);
	}
}

/* Another program's dialect of these files: numbers for serials, keys of its own. */
static void a_dialect_is_refused(void **state)
{
	static const char text[] =
		"{\"private_key\": \"/k\", \"organization\": \"example\", \"common_name\": "
		"\"host-01\",\n"
		"\"daemon\": {\"network\": \"fd00::1/64\"}, \"endpoints\": [\n"
		"{\"address\": \"192.0.2.1\", \"port\": 12025, \"serial_number\": 0}]}";
	struct conf_errors e = {0};
	struct config *c;

	(void)state;
	assert_int_equal(parse(text, &c, &e), -EINVAL);
	assert_non_null(strstr(error_text(&e), "config.json:1:2: unknown key \"private_key\""));
	assert_non_null(strstr(error_text(&e), "config.json:2:1: unknown key \"daemon\""));
	assert_non_null(strstr(error_text(&e), "config.json:3:58: serial_number must be a string"));
	assert_non_null(
		strstr(error_text(&e), "config.json:3:2: an endpoint lacks address_family"));
	assert_int_equal(e.count, 4);
	conf_errors_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_config_is_read),
		cmocka_unit_test(mistakes_are_told),
		cmocka_unit_test(a_dialect_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
