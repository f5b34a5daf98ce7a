/* The registry in ranet's format: what is right stands, whatever is broken beside it. */
#include "conf/conf_test.h"

#include <errno.h>
#include <stdio.h>
#include "base/mem.h"

#define PEM(b64) "-----BEGIN PUBLIC KEY-----\\n" b64 "\\n-----END PUBLIC KEY-----"
#define KEY_A    PEM("MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=")
#define KEY_B    PEM("MCowBQYDK2VwAyEASCV1oi1Fu7jK31pSvMq1ofahu9BRI9O7zsZZ2bpdmJo=")
#define KEY_X    PEM("MCowBQYDK2VuAyEABWltR/or3nfzGXvb6JZmmXadvkkY2+zbfkoF9Sxuc2g=")

#define NODE(name, rest)                                                                           \
	"{\"common_name\": \"" name "\", \"endpoints\": [{\"serial_number\": \"0\", "              \
	"\"address_family\": \"ip4\", \"address\": \"192.0.2.1\", \"port\": 13000}]" rest "}"
#define ORG(name, key, nodes)                                                                      \
	"{\"public_key\": \"" key "\", \"organization\": \"" name "\", \"nodes\": [" nodes "]}"

static const uint8_t key_a[ED25519_PUBLIC] = {0x19, 0xbf, 0x44, 0x09, 0x69, 0x84, 0xcd, 0xfe, 0x85,
	0x41, 0xba, 0xc1, 0x67, 0xdc, 0x3b, 0x96, 0xc8, 0x50, 0x86, 0xaa, 0x30, 0xb6, 0xb6, 0xcb,
	0x0c, 0x5c, 0x38, 0xad, 0x70, 0x31, 0x66, 0xe1};

static struct registry *parse(const char *text, struct conf_errors *e)
{
	struct registry *r = NULL;
	int err = registry_parse(text_view(text), "registry.json", &r, e);

	assert_int_equal(err, 0);
	assert_non_null(r);
	return r;
}

static const struct registry_node *find(const struct registry *r, const char *organization,
	const char *name)
{
	for (size_t i = 0; i < r->node_count; i++)
		if (!strcmp(r->node[i].organization, organization) &&
			!strcmp(r->node[i].name, name))
			return &r->node[i];
	return NULL;
}

static void everything_is_read(void **state)
{
	static const char text[] = "[" ORG("acme", KEY_A,
		"{\"common_name\": \"sin1\", \"endpoints\": ["
		"{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"address\": "
		"\"192.0.2.1\", \"port\": 1},"
		"{\"serial_number\": \"1\", \"address_family\": \"ip6\", \"address\": "
		"\"sin.example\", \"port\": 2},"
		"{\"serial_number\": \"2\", \"address_family\": \"ip6\", \"address\": null, "
		"\"port\": 3},"
		"{\"serial_number\": \"3\", \"address_family\": \"ip6\", \"port\": 65535}],"
		"\"remarks\": {\"other\": [1, {\"x\": null}], \"weft\": {\"public_key\": \"" KEY_B
		"\","
		"\"srv6\": \"fd00:5:1::/64\", \"allow\": [\"10.0.0.0/8\", \"fd00::/16\"],"
		"\"router_id\": \"02:00:5e:10:00:00:00:01\", \"transit\": false}}}," NODE("fra1",
			"")) "]";
	struct conf_errors e = {0};
	struct registry *r = parse(text, &e);
	const struct registry_node *n = find(r, "acme", "sin1"), *plain = find(r, "acme", "fra1");

	(void)state;
	assert_string_equal(error_text(&e), "");
	assert_int_equal(r->node_count, 2);
	assert_int_equal(n->endpoint_count, 4);
	assert_int_equal(n->endpoint[0].family, IP4);
	assert_string_equal(n->endpoint[0].address, "192.0.2.1");
	assert_string_equal(n->endpoint[1].address, "sin.example");
	assert_null(n->endpoint[2].address);
	assert_null(n->endpoint[3].address);
	assert_int_equal(n->endpoint[3].port, 65535);
	assert_memory_not_equal(n->key, key_a, sizeof(key_a));
	assert_true(n->has_srv6 && n->srv6.len == 64);
	assert_true(n->has_allow && n->allow_count == 2);
	assert_true(n->has_router_id && n->router_id[7] == 1);
	assert_false(n->transit);
	assert_memory_equal(plain->key, key_a, sizeof(key_a));
	assert_true(plain->transit);
	assert_false(plain->has_srv6 || plain->has_allow || plain->has_router_id);
	registry_free(r);
	conf_errors_free(&e);
}

static void remarks_of_others_are_free(void **state)
{
	static const char *const remarks[] = {"null", "\"text\"", "[1]", "7", "{}",
		"{\"weft\": {}}", "{\"a\": {\"b\": [null, true, 1.5e3]}}"};

	(void)state;
	for (size_t i = 0; i < sizeof(remarks) / sizeof(remarks[0]); i++) {
		char text[1024];
		struct conf_errors e = {0};
		struct registry *r;

		(void)snprintf(text, sizeof(text),
			"[" ORG("acme", KEY_A, NODE("a", ", \"remarks\": %s")) "]", remarks[i]);
		r = parse(text, &e);
		assert_string_equal(error_text(&e), "");
		assert_int_equal(r->node_count, 1);
		registry_free(r);
		conf_errors_free(&e);
	}
}

/* ---- broken entries ---- */

/* Each stands between two good organizations; these must be whole, the line must name it. */
static const struct {
	const char *entry, *part;
	size_t nodes; /* of organization "mid" that stand nevertheless */
} broken[] = {
	{"7", "an organization must be a mapping", 0},
	{"null", "an organization must be a mapping", 0},
	{"[]", "an organization must be a mapping", 0},
	{"{\"organization\": \"mid\", \"nodes\": []}", "lacks public_key", 0},
	{"{\"public_key\": \"" KEY_B "\", \"nodes\": []}", "lacks organization", 0},
	{"{\"public_key\": \"" KEY_B "\", \"organization\": \"mid\"}", "lacks nodes", 0},
	{"{\"public_key\": \"" KEY_B "\", \"organization\": \"mid\", \"nodes\": {}}",
		"must be a list", 0},
	{"{\"public_key\": \"" KEY_B "\", \"organization\": \"mid\", \"nodes\": [], \"x\": 1}",
		"unknown key \"x\" in an organization; known: public_key", 0},
	{ORG("mid", "nonsense", NODE("a", "")), "no PEM public key", 0},
	{ORG("mid", KEY_X, NODE("a", "")), "X25519; it must be Ed25519", 0},
	{ORG("", KEY_B, NODE("a", "")), "organization is empty", 0},
	{ORG("m\\u0000d", KEY_B, NODE("a", "")), "zero byte", 0},
	{ORG("left", KEY_B, NODE("a", "")), "organization \"left\" is there twice", 0},
	{ORG("mid", KEY_B, "7, " NODE("b", "")), "a node must be a mapping", 1},
	{ORG("mid", KEY_B, NODE("a", "") ", " NODE("a", "") ", " NODE("b", "")),
		"node \"a\" of organization \"mid\" is there twice; the first one counts", 2},
	{ORG("mid", KEY_B, "{\"endpoints\": []}, " NODE("b", "")), "lacks common_name", 1},
	{ORG("mid", KEY_B, "{\"common_name\": \"a\"}, " NODE("b", "")), "lacks endpoints", 1},
	{ORG("mid", KEY_B, NODE("a", ", \"extra\": 1") ", " NODE("b", "")), "unknown key \"extra\"",
		1},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": 7}") ", " NODE("b", "")),
		"remarks.weft must be a mapping", 1},
	{ORG("mid", KEY_B,
		 NODE("a", ", \"remarks\": {\"weft\": {\"srv7\": 1}}") ", " NODE("b", "")),
		"unknown key \"srv7\" in remarks.weft; known: public_key, srv6, allow", 1},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"srv6\": \"10.0.0.0/8\"}}")),
		"srv6 must be an IPv6 prefix", 0},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"srv6\": \"::/0\"}}")),
		"srv6 must be an IPv6 prefix of unicast", 0},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"srv6\": \"ff05::/64\"}}")),
		"srv6 must be an IPv6 prefix of unicast", 0},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"allow\": [\"x\"]}}")),
		"\"x\" is no prefix", 0},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"router_id\": \"0x:1\"}}")),
		"eight bytes", 0},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"public_key\": \"" KEY_X "\"}}")),
		"it must be Ed25519", 0},
	{ORG("mid", KEY_B, NODE("a", ", \"remarks\": {\"weft\": {\"transit\": 1}}")),
		"true or false", 0},
};

static void broken_entries_leave_the_others(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct buf text = {0};
		struct conf_errors e = {0};
		struct registry *r;

		buf_printf(&text, "[\n%s,\n%s,\n%s]", ORG("left", KEY_A, NODE("a", "")),
			broken[i].entry, ORG("right", KEY_A, NODE("a", "")));
		r = parse((const char *)text.p, &e);
		expect_one_line(&e,
			strcmp(broken[i].entry, "[]") ? "registry.json:3:" : "registry.json",
			broken[i].part);
		if (r->node_count != 2 + broken[i].nodes || !find(r, "left", "a") ||
			!find(r, "right", "a"))
			fail_msg("%zu nodes stand after %s", r->node_count, broken[i].entry);
		registry_free(r);
		conf_errors_free(&e);
		buf_free(&text);
	}
}

static void broken_endpoints_leave_the_others(void **state)
{
	static const struct {
		const char *endpoint, *part;
	} t[] = {
		{"7", "an endpoint must be a mapping"},
		{"{\"address_family\": \"ip4\", \"port\": 1}", "lacks serial_number"},
		{"{\"serial_number\": 1, \"address_family\": \"ip4\", \"port\": 1}", "in quotes"},
		{"{\"serial_number\": \"1\", \"port\": 1}", "lacks address_family"},
		{"{\"serial_number\": \"1\", \"address_family\": \"ip5\", \"port\": 1}",
			"ip4 or ip6"},
		{"{\"serial_number\": \"1\", \"address_family\": \"ip4\"}", "lacks port"},
		{"{\"serial_number\": \"1\", \"address_family\": \"ip4\", \"port\": 0}",
			"from 1 to 65535"},
		{"{\"serial_number\": \"1\", \"address_family\": \"ip4\", \"port\": 1, \"mtu\": 1}",
			"unknown key \"mtu\""},
		{"{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"port\": 1}",
			"used twice"},
		{"{\"serial_number\": \"1\", \"address_family\": \"ip4\", \"port\": 1, "
		 "\"address\": [1]}",
			"address must be a text"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct buf text = {0};
		struct conf_errors e = {0};
		struct registry *r;

		buf_printf(&text,
			"[" ORG("acme", KEY_A,
				"{\"common_name\": \"n\", \"endpoints\": ["
				"{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"port\": "
				"1},\n%s,\n"
				"{\"serial_number\": \"9\", \"address_family\": \"ip6\", \"port\": "
				"1}]}") "]",
			t[i].endpoint);
		r = parse((const char *)text.p, &e);
		expect_one_line(&e, "registry.json:2:", t[i].part);
		assert_int_equal(r->node_count, 1);
		assert_int_equal(r->node[0].endpoint_count, 2);
		registry_free(r);
		conf_errors_free(&e);
		buf_free(&text);
	}
}

/* ranet takes such an endpoint for one without an address; so do we, and say so. */
static void an_address_of_another_family_is_told(void **state)
{
	static const char text[] = "[" ORG("acme", KEY_A,
		"{\"common_name\": \"n\", \"endpoints\": [\n{\"serial_number\": \"0\", "
		"\"address_family\": \"ip4\", \"address\": \"2001:db8::1\", \"port\": 1}]}") "]";
	struct conf_errors e = {0};
	struct registry *r = parse(text, &e);

	(void)state;
	expect_one_line(&e, "registry.json:2:", "2001:db8::1 is not of its family");
	assert_int_equal(r->node[0].endpoint_count, 1);
	registry_free(r);
	conf_errors_free(&e);
}

/* A key pasted as it is printed. */
static void a_line_break_in_a_text_is_told(void **state)
{
	struct conf_errors e = {0};
	struct registry *r = NULL;

	(void)state;
	assert_int_equal(registry_parse(text_view("[{\"public_key\": \"-----BEGIN\n\"}]"), "r", &r,
				 &e),
		-EINVAL);
	expect_one_line(&e, "r:", "JSON writes a line break as \\n");
	conf_errors_free(&e);
}

static void what_is_no_registry_fails(void **state)
{
	static const char *const texts[] = {"", " ", "{}", "7", "null", "\"x\"", "[", "[{]", "[{}",
		"[{\"a\": 1,}]", "[1] [2]", "[1]x", "[{\"a\": 1, \"a\": 2}]", "[a]", "['a']",
		"- a\n", "[&a 1]", "[\"\xff\"]", "[\x01]"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct conf_errors e = {0};
		struct registry *r = NULL;
		int err = registry_parse(text_view(texts[i]), "r", &r, &e);

		if (err != -EINVAL || r || e.count == 0)
			fail_msg("%s: %d, %zu errors", texts[i], err, e.count);
		conf_errors_free(&e);
	}
}

static void an_empty_registry_is_one(void **state)
{
	struct conf_errors e = {0};
	struct registry *r = parse("[]", &e);

	(void)state;
	assert_int_equal(r->node_count, 0);
	assert_int_equal(e.count, 0);
	registry_free(r);
}

static void truncation_does_no_harm(void **state)
{
	static const char text[] = "[" ORG("acme", KEY_A,
		NODE("a", ", \"remarks\": {\"weft\": {}}")) "]";

	(void)state;
	for (size_t n = 0; n + 1 < sizeof(text) - 1; n++) {
		struct conf_errors e = {0};
		struct registry *r = NULL;

		assert_int_equal(registry_parse(view_of(text, n), "r", &r, &e), -EINVAL);
		conf_errors_free(&e);
	}
}

static void ten_thousand_nodes_are_read(void **state)
{
	enum { NODES = 10000 };
	struct buf text = {0};
	struct conf_errors e = {0};
	struct registry *r;

	(void)state;
	buf_add_str(&text,
		"[{\"public_key\": \"" KEY_A "\", \"organization\": \"acme\", \"nodes\": [");
	for (int i = 0; i < NODES; i++)
		buf_printf(&text, "%s" NODE("n%d", ""), i ? ",\n" : "", i % (NODES - 1));
	buf_add_str(&text, "]}]");
	r = parse((const char *)text.p, &e);
	assert_int_equal(r->node_count, NODES - 1);
	assert_int_equal(e.count, 1);
	registry_free(r);
	conf_errors_free(&e);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_read),
		cmocka_unit_test(remarks_of_others_are_free),
		cmocka_unit_test(broken_entries_leave_the_others),
		cmocka_unit_test(broken_endpoints_leave_the_others),
		cmocka_unit_test(an_address_of_another_family_is_told),
		cmocka_unit_test(a_line_break_in_a_text_is_told),
		cmocka_unit_test(what_is_no_registry_fails),
		cmocka_unit_test(an_empty_registry_is_one),
		cmocka_unit_test(truncation_does_no_harm),
		cmocka_unit_test(ten_thousand_nodes_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
