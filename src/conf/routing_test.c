/* The sections routing and babel: read, printed back, refused with a reason. */
#include "conf/conf_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEAD                                                                                       \
	"node: {organization: acme, name: sin1, key: k}\nregistry: r\n"                            \
	"endpoints: [{serial: \"0\", family: ip4}]\n"
#define SECRET "00112233445566778899aabbccddeeff"

static struct config *parse(const char *text)
{
	struct conf_errors e = {0};
	struct config *c = NULL;

	if (config_parse(text_view(text), "weft.yaml", &c, &e) < 0)
		fail_msg("%s", error_text(&e));
	conf_errors_free(&e);
	return c;
}

static void defaults_are_those_of_the_manual(void **state)
{
	struct config *c = parse(HEAD);

	(void)state;
	assert_int_equal(c->babel.hello_us, 4000000);
	assert_int_equal(c->babel.cost, 8);
	assert_int_equal(c->babel.rtt_min_us, 0);
	assert_int_equal(c->babel.rtt_max_us, 1024000);
	assert_int_equal(c->babel.rtt_cost, 4096);
	assert_int_equal(c->babel.mac_key_count, 0);
	assert_int_equal(c->routing.import_count, 0);
	config_free(c);
}

static const char full[] = HEAD
	"routing: {table: 100, import: [{prefix: 10.0.0.0/8, ge: 16, le: 24, organization: acme, "
	"action: accept}, {prefix: \"::/0\", action: reject}], export: [{prefix: 0.0.0.0/0, le: "
	"32, "
	"action: accept}], redistribute: [{table: main, protocol: bird}, {table: 100001, protocol: "
	"200, metric: 7}]}\n"
	"babel: {hello: 500ms, cost: 96, rtt: {min: 10ms, max: 120ms, cost: 96}, mac_keys: "
	"[{algorithm: hmac-sha256, key: \"" SECRET "\"}], accept_unsigned: true}\n";

static void check_full(const struct config *c)
{
	assert_int_equal(c->routing.import_count, 2);
	assert_int_equal(c->routing.import[0].ge, 16);
	assert_int_equal(c->routing.import[0].le, 24);
	assert_string_equal(c->routing.import[0].organization, "acme");
	assert_true(c->routing.import[0].accept);
	assert_false(c->routing.import[1].accept);
	assert_int_equal(c->routing.export_count, 1);
	assert_int_equal(c->routing.redistribute_count, 2);
	assert_int_equal(c->routing.redistribute[0].table, 254);
	assert_int_equal(c->routing.redistribute[0].protocol, 12);
	assert_int_equal(c->routing.redistribute[0].metric, 0);
	assert_int_equal(c->routing.redistribute[1].table, 100001);
	assert_int_equal(c->routing.redistribute[1].protocol, 200);
	assert_int_equal(c->routing.redistribute[1].metric, 7);
	assert_int_equal(c->babel.hello_us, 500000);
	assert_int_equal(c->babel.rtt_min_us, 10000);
	assert_int_equal(c->babel.rtt_cost, 96);
	assert_int_equal(c->babel.mac_key_count, 1);
	assert_int_equal(c->babel.mac_key[0].len, 16);
	assert_int_equal(c->babel.mac_key[0].key[15], 0xff);
	assert_true(c->babel.accept_unsigned);
}

static void every_key_is_read_and_printed_back(void **state)
{
	struct config *c = parse(full), *again;
	struct buf b = {0};

	(void)state;
	check_full(c);
	assert_int_equal(config_print(c, &b), 0);
	again = parse((const char *)b.p);
	check_full(again);
	buf_free(&b);
	config_free(again);
	config_free(c);
}

static void mistakes_are_named_where_they_are(void **state)
{
	static const struct {
		const char *text, *begin, *part;
	} rows[] = {
		{"babel: {cost: 0}\n", "weft.yaml:4:15: ", "1 to 65534"},
		{"babel: {hello: 5}\n", "weft.yaml:4:16: ", "duration"},
		{"babel: {rtt: {min: 2s, max: 1s}}\n", "weft.yaml:4:", "less than"},
		{"babel: {speed: 1}\n", "weft.yaml:4:9: ", "unknown key"},
		{"babel: {mac_keys: [{algorithm: md5, key: \"" SECRET "\"}]}\n",
			"weft.yaml:4:32: ", "hmac-sha256"},
		{"babel: {mac_keys: [{algorithm: hmac-sha256, key: \"12\"}]}\n",
			"weft.yaml:4:", "16 to 64 bytes"},
		{"routing: {import: [{prefix: 10.0.0.0/8, ge: 4, action: accept}]}\n",
			"weft.yaml:4:", "ge and le"},
		{"routing: {import: [{prefix: 10.0.0.0/8, le: 40, action: accept}]}\n",
			"weft.yaml:4:", "ge and le"},
		{"routing: {import: [{prefix: 10.0.0.0/8, action: allow}]}\n",
			"weft.yaml:4:", "accept or reject"},
		{"routing: {export: [{action: accept}]}\n", "weft.yaml:4:", "lacks prefix"},
		{"routing: {redistribute: [{table: main}]}\n", "weft.yaml:4:", "lacks protocol"},
		{"routing: {redistribute: [{table: main, protocol: quagga}]}\n",
			"weft.yaml:4:50: ", "\"quagga\" is neither a known name nor a number"},
		{"routing: {redistribute: [{table: local, protocol: kernel}]}\n",
			"weft.yaml:4:34: ", "\"local\" is neither"},
		{"routing: {redistribute: [{table: 255, protocol: 2}]}\n",
			"weft.yaml:4:", "host's own addresses"},
		{"routing: {redistribute: [{table: main, protocol: 157}]}\n",
			"weft.yaml:4:", "cannot go back"},
		{"routing: {table: 9, redistribute: [{table: 9, protocol: bird}]}\n",
			"weft.yaml:4:", "mesh's own"},
		{"routing: {redistribute: [{table: 25220, protocol: bird}]}\n",
			"weft.yaml:4:", "mesh's own"},
		{"routing: {source_table: 25217}\n", "weft.yaml:4:", "multiple of 64"},
		{"routing: {source_table: 6400, table: 6463}\n",
			"weft.yaml:4:", "none of the other tables"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf_errors e = {0};
		struct config *c = NULL;
		char text[1024];

		(void)snprintf(text, sizeof(text), "%s%s", HEAD, rows[i].text);
		assert_int_equal(config_parse(text_view(text), "weft.yaml", &c, &e), -EINVAL);
		expect_one_line(&e, rows[i].begin, rows[i].part);
		conf_errors_free(&e);
	}
}

static void a_mac_key_is_never_shown(void **state)
{
	static const char text[] = HEAD "babel: {mac_keys: [{algorithm: hmac-sha256, key: \"" SECRET
					"0\"}]}\n";
	struct conf_errors e = {0};
	struct config *c = NULL;

	(void)state;
	assert_int_equal(config_parse(text_view(text), "weft.yaml", &c, &e), -EINVAL);
	assert_null(strstr(error_text(&e), "0011"));
	conf_errors_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_manual),
		cmocka_unit_test(every_key_is_read_and_printed_back),
		cmocka_unit_test(mistakes_are_named_where_they_are),
		cmocka_unit_test(a_mac_key_is_never_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
