/* Identities as ranet builds them, and what is derived from them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "node/node_priv.h"

static void expect(const char *org, const char *name, const char *serial, const char *hex)
{
	struct node_id id;
	char got[2 * NODE_ID_MAX + 1];

	assert_int_equal(node_identity(org, name, serial, &id), 0);
	for (size_t i = 0; i < id.len; i++)
		(void)snprintf(got + 2 * i, 3, "%02x", id.der[i]);
	assert_string_equal(got, hex);
}

static void the_name_is_the_one_that_ranet_builds(void **state)
{
	(void)state;
	expect("acme organization", "some server", "0",
		"303e311a3018060355040a0c1161636d65206f7267616e697a6174696f6e3114301206035504030c0b"
		"736f6d"
		"6520736572766572310a30080603550405130130");
	expect("org a", "node a", "1",
		"302d310e300c060355040a0c056f72672061310f300d06035504030c066e6f64652061310a30080603"
		"55040"
		"5130131");
}

static void long_names_have_long_lengths(void **state)
{
	struct node_id id;
	char name[301];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[300] = 0;
	assert_int_equal(node_identity("o", name, "0", &id), 0);
	/* SEQUENCE of two bytes of length, which counts all that follows */
	assert_int_equal(id.der[0], 0x30);
	assert_int_equal(id.der[1], 0x82);
	assert_int_equal(get_u16(id.der + 2), id.len - 4);
	name[130] = 0;
	assert_int_equal(node_identity("o", name, NULL, &id), 0);
	assert_int_equal(id.der[1], 0x81);
	assert_int_equal(id.der[2], id.len - 3);
}

static void a_name_that_is_too_long_is_refused(void **state)
{
	struct node_id id;
	char name[1025];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[1024] = 0;
	assert_int_equal(node_identity("o", name, "0", &id), -E2BIG);
	name[1000] = 0;
	assert_int_equal(node_identity("o", name, "0", &id), -E2BIG);
}

static void both_ends_know_each_others_link_local_address(void **state)
{
	struct node_id a, b, c;
	struct ipaddr ab, ba, again, ac;

	(void)state;
	assert_int_equal(node_identity("o", "a", "0", &a), 0);
	assert_int_equal(node_identity("o", "b", "0", &b), 0);
	assert_int_equal(node_identity("o", "b", "1", &c), 0);
	assert_int_equal(node_link_local(&a, &b, &ab), 0);
	assert_int_equal(node_link_local(&b, &a, &ba), 0);
	assert_int_equal(node_link_local(&a, &b, &again), 0);
	assert_int_equal(node_link_local(&a, &c, &ac), 0);
	assert_true(ipaddr_is_link_local(&ab) && ab.family == IP6);
	assert_true(ipaddr_equal(&ab, &again));
	assert_false(ipaddr_equal(&ab, &ba));
	assert_false(ipaddr_equal(&ab, &ac));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_name_is_the_one_that_ranet_builds),
		cmocka_unit_test(long_names_have_long_lengths),
		cmocka_unit_test(a_name_that_is_too_long_is_refused),
		cmocka_unit_test(both_ends_know_each_others_link_local_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
