/* All files of a node at once: what a check says, and that it never shows a key. */
#include "conf/load.h"

#include <errno.h>
#include "conf/conf_test.h"

#define ENDPOINT(e)                                                                                \
	"node: {organization: acme, name: sin1, key: key.pem}\n"                                   \
	"registry: registry.json\n"                                                                \
	"endpoints: [{" e "}]\n"
#define CONFIG ENDPOINT("serial: \"0\", family: ip4")
/* RFC 8410 10.3 and 10.1 */
#define PRIVATE                                                                                    \
	"-----BEGIN PRIVATE KEY-----\n"                                                            \
	"MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"                       \
	"-----END PRIVATE KEY-----\n"
#define PUBLIC "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="
#define OTHER  "MCowBQYDK2VwAyEASCV1oi1Fu7jK31pSvMq1ofahu9BRI9O7zsZZ2bpdmJo="
#define OWN                                                                                        \
	"{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"address\": \"203.0.113.1\", "   \
	"\"port\": 13000}"
#define REGISTRY(key, name)                                                                        \
	"[{\"organization\": \"acme\", \"public_key\": \"-----BEGIN PUBLIC KEY-----\\n" key        \
	"\\n-----END PUBLIC KEY-----\", \"nodes\": [{\"common_name\": \"" name                     \
	"\", \"endpoints\": [" OWN "]}]}]"

/* Two organizations with a node b each, and what their locators are. */
#define TWO(one, two)                                                                              \
	"[{\"organization\": \"acme\", \"public_key\": \"-----BEGIN PUBLIC KEY-----\\n" PUBLIC     \
	"\\n-----END PUBLIC KEY-----\", \"nodes\": [{\"common_name\": \"sin1\", \"endpoints\": "   \
	"[" OWN "]},"                                                                              \
	"{\"common_name\": \"b\", \"endpoints\": [" OWN                                            \
	"], \"remarks\": {\"weft\": {\"srv6\": \"" one                                             \
	"\"}}}]}, {\"organization\": \"beta\", \"public_key\": \"-----BEGIN PUBLIC "               \
	"KEY-----\\n" OTHER                                                                        \
	"\\n-----END PUBLIC KEY-----\", \"nodes\": [{\"common_name\": \"b\", \"endpoints\": [], "  \
	"\"remarks\": {\"weft\": {\"srv6\": \"" two "\"}}}]}]"
#define POLICY(exit)                                                                               \
	"srv6: {locator: \"fd00:5:9::/64\"}\n"                                                     \
	"policies: [{name: a, destination: 10.0.0.0/8, exit: " exit "}]\n"

/* What the files of a case hold; NULL: no such file, and the error of reading it. */
struct stand {
	const char *config, *key, *registry;
	int key_error;
	const char *error, *warning; /* expected: NULL none, else the line's beginning */
	const char *part;
};

static const struct stand stands[] = {
	{CONFIG, PRIVATE, REGISTRY(PUBLIC, "sin1"), 0, NULL, NULL, NULL},
	{NULL, PRIVATE, "[]", 0, "weft.yaml: ", NULL, "cannot read the configuration"},
	{CONFIG "x: 1\n", PRIVATE, "[]", 0, "weft.yaml:4:1: ", NULL, "unknown key"},
	{CONFIG, NULL, "[]", -ENOENT, "weft.yaml:1:45: ", NULL, "weft keygen > key.pem"},
	{CONFIG, NULL, "[]", -EACCES, "weft.yaml:1:45: ", NULL, "Permission denied"},
	{CONFIG, "nonsense", "[]", 0, "key.pem: ", NULL, "holds no private key"},
	{CONFIG, "-----BEGIN PUBLIC KEY-----\n" PUBLIC "\n-----END PUBLIC KEY-----\n", "[]", 0,
		"key.pem: ", NULL, "holds no private key"},
	{CONFIG, PRIVATE, NULL, 0, "weft.yaml:2:11: ", NULL, "cannot read the registry"},
	{CONFIG, PRIVATE, "{}", 0, "registry.json:", NULL, "a list of organizations"},
	{CONFIG, PRIVATE, REGISTRY(PUBLIC, "fra1"), 0, NULL,
		"registry.json: ", "does not have this node, \"sin1\" of organization \"acme\""},
	{CONFIG, PRIVATE, REGISTRY(OTHER, "sin1"), 0, NULL,
		"registry.json: ", "another public key for this node"},
	{ENDPOINT("serial: \"1\", family: ip4"), PRIVATE, REGISTRY(PUBLIC, "sin1"), 0, NULL,
		"weft.yaml:3:14: ", "no endpoint of serial \"1\" and family ip4"},
	{ENDPOINT("serial: \"0\", family: ip6"), PRIVATE, REGISTRY(PUBLIC, "sin1"), 0, NULL,
		"weft.yaml:3:14: ", "no endpoint of serial \"0\" and family ip6"},
	{ENDPOINT("serial: \"0\", family: ip4, port: 13001"), PRIVATE, REGISTRY(PUBLIC, "sin1"), 0,
		NULL,
		"weft.yaml:3:14: ", "listens on port 13001, and the registry tells peers 13000"},
	{CONFIG "peers: {include: [nobody]}\n", PRIVATE, TWO("fd00:5:1::/64", "fd00:5:2::/64"), 0,
		NULL, "weft.yaml: ", "peers lets in no node"},
	{CONFIG "peers: {include: [beta/b]}\n", PRIVATE, TWO("fd00:5:1::/64", "fd00:5:2::/64"), 0,
		NULL, "weft.yaml: ", "no link is made"},
	{CONFIG "static_routes: [{prefix: 10.0.0.0/8, node: tyo1}]\n", PRIVATE,
		REGISTRY(PUBLIC, "sin1"), 0, NULL, "weft.yaml:4:44: ", "the node \"tyo1\""},
	{CONFIG "underlay: {vrf: blue}\n", PRIVATE, REGISTRY(PUBLIC, "sin1"), 0, NULL,
		"weft.yaml: ", "underlay.vrf has no effect"},
	{CONFIG POLICY("beta/b"), PRIVATE, TWO("fd00:5:1::/64", "fd00:5:2::/64"), 0, NULL, NULL,
		NULL},
	{CONFIG POLICY("b"), PRIVATE, TWO("fd00:5:1::/64", "fd00:5:2::/64"), 0, NULL,
		"weft.yaml:5:", "write organization/name"},
	{CONFIG POLICY("c"), PRIVATE, TWO("fd00:5:1::/64", "fd00:5:2::/64"), 0, NULL,
		"weft.yaml:5:", "\"c\" has no SID"},
	{CONFIG POLICY("acme/b"), PRIVATE, TWO("fd00:5:1::/64", "fd00:5::/32"), 0, NULL,
		"registry.json: ", "have SIDs in common"},
	{CONFIG POLICY("acme/b"), PRIVATE, TWO("fd00:5:1::/64", "fd00:5:9::/96"), 0, NULL,
		"registry.json: ", "have SIDs in common"},
};

static const struct stand *now; /* read by the function that stands in for a file system */

static int read_stand(const char *path, size_t limit, struct buf *ret)
{
	const char *text = !strcmp(path, "weft.yaml") ? now->config
		: !strcmp(path, "key.pem")            ? now->key
						      : now->registry;

	assert_true(limit > 0);
	if (!text)
		return now->key_error ? now->key_error : -ENOENT;
	buf_add_str(ret, text);
	return 0;
}

static void each_case_says_what_is_wrong(void **state)
{
	const struct conf_files files = {.read = read_stand};
	const struct conf_source source = {.config = "weft.yaml"};

	(void)state;
	for (size_t i = 0; i < sizeof(stands) / sizeof(stands[0]); i++) {
		struct conf_errors errors = {0}, warnings = {0};
		struct conf_loaded l = {0};
		int err;

		now = &stands[i];
		err = conf_load(&files, &source, &l, &errors, &warnings);
		assert_int_equal(err, now->error ? -EINVAL : 0);
		if (now->error)
			expect_one_line(&errors, now->error, now->part);
		else
			assert_string_equal(error_text(&errors), "");
		if (now->warning)
			expect_one_line(&warnings, now->warning, now->part);
		else
			assert_string_equal(error_text(&warnings), "");
		assert_true(
			err ? !l.config && !l.key && !l.registry : l.config && l.key && l.registry);
		assert_null(strstr(error_text(&errors), "MC4CAQ"));
		conf_loaded_free(&l);
		conf_errors_free(&errors);
		conf_errors_free(&warnings);
	}
}

static bool is_public(const char *path)
{
	return strcmp(path, "key.pem") == 0;
}

static void a_key_that_all_can_read_is_told(void **state)
{
	static const struct stand stand = {CONFIG, PRIVATE, REGISTRY(PUBLIC, "sin1"), 0, NULL, NULL,
		NULL};
	const struct conf_files files = {.read = read_stand, .is_public = is_public};
	const struct conf_source source = {.config = "weft.yaml"};
	struct conf_errors errors = {0}, warnings = {0};
	struct conf_loaded l = {0};

	(void)state;
	now = &stand;
	assert_int_equal(conf_load(&files, &source, &l, &errors, &warnings), 0);
	expect_one_line(&warnings, "key.pem: ", "chmod 600 key.pem");
	conf_loaded_free(&l);
	conf_errors_free(&errors);
	conf_errors_free(&warnings);
}

static void ranet_makes_no_link_with_a_namesake(void **state)
{
	static const struct stand stand =
		{"{\"organization\": \"beta\", \"common_name\": \"b\", \"endpoints\": "
		 "[{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"port\": 13000}]}",
			PRIVATE, TWO("fd00:5:1::/64", "fd00:5:2::/64"), 0, NULL, NULL, NULL};
	const struct conf_files files = {.read = read_stand};
	const struct conf_source source = {.config = "weft.yaml",
		.ranet_registry = "registry.json",
		.ranet_key = "key.pem"};
	struct conf_errors errors = {0}, warnings = {0};
	struct conf_loaded l = {0};

	(void)state;
	now = &stand;
	assert_int_equal(conf_load(&files, &source, &l, &errors, &warnings), 0);
	assert_non_null(strstr(error_text(&warnings),
		"\"b\" of organization \"acme\" has this node's name"));
	conf_loaded_free(&l);
	conf_errors_free(&errors);
	conf_errors_free(&warnings);
}

static void ranets_files_are_loaded(void **state)
{
	static const struct stand stand =
		{"{\"organization\": \"acme\", \"common_name\": \"sin1\", \"endpoints\": "
		 "[{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"port\": 13000}]}",
			PRIVATE, REGISTRY(PUBLIC, "sin1"), 0, NULL, NULL, NULL};
	const struct conf_files files = {.read = read_stand};
	const struct conf_source source = {.config = "weft.yaml",
		.ranet_registry = "registry.json",
		.ranet_key = "key.pem"};
	struct conf_errors errors = {0}, warnings = {0};
	struct conf_loaded l = {0};

	(void)state;
	now = &stand;
	assert_int_equal(conf_load(&files, &source, &l, &errors, &warnings), 0);
	assert_string_equal(error_text(&errors), "");
	assert_string_equal(error_text(&warnings), "");
	assert_true(l.config->ranet);
	conf_loaded_free(&l);
	conf_errors_free(&errors);
	conf_errors_free(&warnings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_says_what_is_wrong),
		cmocka_unit_test(a_key_that_all_can_read_is_told),
		cmocka_unit_test(ranet_makes_no_link_with_a_namesake),
		cmocka_unit_test(ranets_files_are_loaded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
