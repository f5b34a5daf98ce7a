/* The sections srv6, policies and exit: read, printed back, refused with a reason and a place. */
#include "conf/conf_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEAD                                                                                       \
	"node: {organization: acme, name: sin1, key: k}\nregistry: r\n"                            \
	"endpoints: [{serial: \"0\", family: ip4}]\n"                                              \
	"tun: {addresses: [\"fd00:1::1/128\"]}\n"

static const char full[] = HEAD
	"srv6: {locator: \"fd00:5:1::/64\", source: \"fd00:5:1::100\", sources: [\"fd00:9::/48\"], "
	"compat: linux, encap: full, hmac: refuse, "
	"sids: {tyo1: \"fd00:5:2::2\", acme/fra1: \"fd00:5:3::2\"}}\n"
	"policies:\n"
	"  - {name: long, source: 10.1.0.0/16, destination: 0.0.0.0/0, candidates: [{via: [tyo1, "
	"acme/hkg1, tyo1], exit: lax1}, {exit: \"fd00:7::1\"}], fallback: direct}\n"
	"  - {name: short, destination: \"fd00:8::/32\", via: [tyo1]}\n"
	"exit: {allow: [0.0.0.0/0, \"2001:db8::/32\"], masquerade: true}\n";

static struct config *parse(struct view text)
{
	struct conf_errors e = {0};
	struct config *c = NULL;

	if (config_parse(text, "weft.yaml", &c, &e) < 0)
		fail_msg("%s", error_text(&e));
	conf_errors_free(&e);
	return c;
}

static void check_full(const struct config *c)
{
	const struct conf_policy *p = c->policy;

	assert_int_equal(c->srv6.locator.len, 64);
	assert_int_equal(c->srv6.source.b[14], 1);
	assert_int_equal(c->srv6.source_count, 1);
	assert_true(c->srv6.linux_compat && c->srv6.encap_full && c->srv6.refuse_hmac);
	assert_int_equal(c->srv6.sid_count, 2);
	assert_string_equal(c->srv6.sid[1].name, "acme/fra1");
	assert_int_equal(c->policy_count, 2);
	assert_string_equal(p[0].name, "long");
	assert_int_equal(p[0].candidate_count, 2);
	assert_int_equal(p[0].candidate[0].via_count, 3);
	assert_string_equal(p[0].candidate[0].via[1].text, "acme/hkg1");
	assert_string_equal(p[0].candidate[0].exit.text, "lax1");
	assert_int_equal(p[0].candidate[0].exit.sid.family, IP_NONE);
	assert_int_equal(p[0].candidate[1].exit.sid.family, IP6);
	assert_true(p[0].direct);
	assert_int_equal(p[1].source.addr.family, IP_NONE);
	assert_int_equal(p[1].candidate_count, 1);
	assert_string_equal(p[1].candidate[0].via[0].text, "tyo1");
	assert_null(p[1].candidate[0].exit.text);
	assert_false(p[1].direct);
	assert_int_equal(c->exit.allow_count, 2);
	assert_true(c->exit.masquerade);
}

static void all_is_read_and_printed_back(void **state)
{
	struct config *c = parse(text_view(full)), *again;
	struct buf b = {0}, twice = {0};

	(void)state;
	check_full(c);
	assert_int_equal(config_print(c, &b), 0);
	again = parse(buf_view(&b));
	check_full(again);
	assert_int_equal(config_print(again, &twice), 0);
	assert_true(view_equal(buf_view(&b), buf_view(&twice)));
	buf_free(&b);
	buf_free(&twice);
	config_free(c);
	config_free(again);
}

static void without_them_there_is_nothing(void **state)
{
	struct config *c = parse(text_view(HEAD));

	(void)state;
	assert_int_equal(c->policy_count, 0);
	assert_int_equal(c->srv6.locator.len, 0);
	assert_int_equal(c->exit.allow_count, 0);
	assert_false(c->exit.masquerade);
	assert_int_equal(c->routing.policy_table, 251);
	config_free(c);
}

static void refused(const char *more, const char *place, const char *why)
{
	struct conf_errors e = {0};
	struct buf text = {0};
	struct config *c = NULL;

	buf_printf(&text, HEAD "%s", more);
	assert_int_equal(config_parse(buf_view(&text), "weft.yaml", &c, &e), -EINVAL);
	if (!strstr(error_text(&e), place) || !strstr(error_text(&e), why))
		fail_msg("%s: expected %s … %s", error_text(&e), place, why);
	buf_free(&text);
	conf_errors_free(&e);
}

static void mistakes_are_named_with_their_place(void **state)
{
	(void)state;
	refused("srv6: {locator: \"fd00::/120\"}\n", "weft.yaml:5:17:", "length 112 at most");
	refused("srv6: {locator: 10.0.0.0/8}\n", "weft.yaml:5:17:", "IPv6 prefix");
	refused("srv6: {source: 10.0.0.1}\n", "weft.yaml:5:16:", "IPv6 unicast");
	refused("srv6: {source: \"ff02::1\"}\n", "weft.yaml:5:16:", "IPv6 unicast");
	refused("srv6: {compat: bsd}\n", "weft.yaml:5:16:", "rfc or linux");
	refused("srv6: {encap: inline}\n", "weft.yaml:5:15:", "red or full");
	refused("srv6: {hmac: check}\n", "weft.yaml:5:14:", "skip or refuse");
	refused("srv6: {sids: {a: fe80}}\n", "weft.yaml:5:18:", "address");
	refused("srv6: {sids: [a]}\n", "weft.yaml:5:15:", "mapping");
	refused("exit: {masquerade: maybe}\n", "weft.yaml:5:20:", "masquerade");
	refused("exit: {nat: true}\n", "weft.yaml:5:8:", "nat");
	refused("policies: [{name: a, exit: b}]\n", "weft.yaml:5:", "destination");
	refused("policies: [{name: a, destination: 0.0.0.0/0}]\n", "weft.yaml:5:", "candidates");
	refused("policies: [{name: a, destination: 0.0.0.0/0, candidates: [{}]}]\n",
		"weft.yaml:5:", "via, exit or both");
	refused("policies: [{name: a, destination: 0.0.0.0/0, candidates: [{exit: b}], exit: c}]\n",
		"weft.yaml:5:", "not both");
	refused("policies: [{name: a, destination: 0.0.0.0/0, source: \"::/0\", exit: b}]\n",
		"weft.yaml:5:", "one family");
	refused("policies: [{name: a, destination: 0.0.0.0/0, exit: \"b/\"}]\n",
		"weft.yaml:5:52:", "organization/name or a SID");
	refused("policies: [{name: a, destination: 0.0.0.0/0, exit: 10.0.0.1}]\n",
		"weft.yaml:5:52:", "IPv6 unicast");
	refused("policies: [{name: a, destination: 0.0.0.0/0, exit: b, fallback: up}]\n",
		"weft.yaml:5:65:", "drop or direct");
	refused("policies: [{name: a, destination: 0.0.0.0/0, exit: b}, {name: a, destination: "
		"\"::/0\", exit: b}]\n",
		"weft.yaml:5:", "the name \"a\"");
	refused("policies: [{name: a, destination: 0.0.0.0/0, exit: b}]\n"
		"routing: {policy_table: 252}\n",
		"weft.yaml:6:", "policy_table must differ");
	/* also without policies: a reload may bring some */
	refused("routing: {table: 251}\n", "weft.yaml:5:", "policy_table must differ");
	refused("routing: {policy_table: 20, default_table: 20}\n",
		"weft.yaml:5:", "policy_table must differ");
}

static void steered_packets_need_a_source(void **state)
{
	struct conf_errors e = {0};
	struct config *c = NULL;

	(void)state;
	assert_int_equal(
		config_parse(text_view(
				     "node: {organization: acme, name: sin1, key: k}\nregistry: r\n"
				     "endpoints: [{serial: \"0\", family: ip4}]\n"
				     "policies: [{name: a, destination: 0.0.0.0/0, exit: b}]\n"),
			"weft.yaml", &c, &e),
		-EINVAL);
	assert_non_null(strstr(error_text(&e), "srv6.source"));
	conf_errors_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_read_and_printed_back),
		cmocka_unit_test(without_them_there_is_nothing),
		cmocka_unit_test(mistakes_are_named_with_their_place),
		cmocka_unit_test(steered_packets_need_a_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
