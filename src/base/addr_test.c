/* Addresses and prefixes: texts that are and are not one, masks, order, kinds. */
#include "base/addr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct ipaddr ip(const char *s)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(s, &a), 0);
	return a;
}

static struct prefix net(const char *s)
{
	struct prefix p;

	assert_int_equal(prefix_parse(s, &p), 0);
	return p;
}

static void addresses_have_one_text(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"0.0.0.0", "0.0.0.0"},
		{"192.0.2.1", "192.0.2.1"},
		{"255.255.255.255", "255.255.255.255"},
		{"::", "::"},
		{"::1", "::1"},
		{"2001:0DB8::0001", "2001:db8::1"},
		{"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
		{"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	};
	char text[ADDR_TEXT];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ipaddr a = ip(cases[i].in), b;

		assert_string_equal(ipaddr_format(&a, text), cases[i].out);
		b = ip(text);
		assert_true(ipaddr_equal(&a, &b));
	}
	assert_string_equal(ipaddr_format(&(struct ipaddr){0}, text), "-");
}

static void hostile_texts_are_no_address(void **state)
{
	static const char *const texts[] = {"", " ", "1", "1.2.3", "1.2.3.4.5", "256.0.0.1",
		"1.2.3.-4", "01.2.3.4", "1.2.3.4 ", " 1.2.3.4", "0x1.2.3.4", "1.2.3.4/32", ":",
		":::", "1::2::3", "12345::", "::g", "[::1]", "fe80::1%eth0", "::1/128",
		"1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1.2.3", "2001:db8::1\n", "%s%n",
		"example.org"};
	struct ipaddr a = {.family = 77}, before = a;

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(ipaddr_parse(texts[i], &a), -EINVAL);
		assert_memory_equal(&a, &before, sizeof(a));
	}
}

static void prefixes_have_one_text(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"192.0.2.128/25", "192.0.2.128/25"},
		{"192.0.2.1", "192.0.2.1/32"},
		{"::/0", "::/0"},
		{"2001:db8::/32", "2001:db8::/32"},
		{"2001:db8:8000::/33", "2001:db8:8000::/33"},
		{"::1", "::1/128"},
	};
	char text[PREFIX_TEXT];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct prefix p = net(cases[i].in), q;

		assert_string_equal(prefix_format(&p, text), cases[i].out);
		q = net(text);
		assert_true(prefix_equal(&p, &q));
	}
}

static void hostile_texts_are_no_prefix(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{"", -EINVAL},
		{"/", -EINVAL},
		{"/8", -EINVAL},
		{"10.0.0.0/", -EINVAL},
		{"10.0.0.0/33", -EINVAL},
		{"10.0.0.0/08", -EINVAL},
		{"10.0.0.0/-1", -EINVAL},
		{"10.0.0.0/+8", -EINVAL},
		{"10.0.0.0/ 8", -EINVAL},
		{"10.0.0.0/8 ", -EINVAL},
		{"10.0.0.0/8/8", -EINVAL},
		{"10.0.0.0/255.0.0.0", -EINVAL},
		{"10.0.0.0/4294967304", -EINVAL},
		{"10.0.0.0/18446744073709551624", -EINVAL},
		{"2001:db8::/129", -EINVAL},
		{"2001:db8::/1000", -EINVAL},
		{"10.0.0.1/8", -ERANGE},
		{"10.0.0.0/6", -ERANGE},
		{"0.0.0.1/0", -ERANGE},
		{"2001:db8::1/64", -ERANGE},
		{"::1/127", -ERANGE},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/1",
			-EINVAL},
	};
	struct prefix p = {.len = 77}, before = p;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(prefix_parse(cases[i].text, &p), cases[i].want);
		assert_memory_equal(&p, &before, sizeof(p));
	}
}

/* Bit by bit, without the code under test. */
static bool bit(const struct ipaddr *a, unsigned int i)
{
	return a->b[i / 8] >> (7 - i % 8) & 1;
}

static void masks_at_every_length(void **state)
{
	static const char *const texts[] = {"255.255.255.255", "170.85.170.85",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"aaaa:5555:aaaa:5555:aaaa:5555:aaaa:5555"};

	(void)state;
	for (size_t t = 0; t < COUNT(texts); t++) {
		struct ipaddr a = ip(texts[t]);
		unsigned int bits = ipaddr_bits(&a);

		for (unsigned int len = 0; len <= bits; len++) {
			struct prefix p = prefix_of(&a, len);

			assert_int_equal(p.len, len);
			for (unsigned int i = 0; i < bits; i++)
				assert_int_equal(bit(&p.addr, i), i < len && bit(&a, i));
			assert_true(prefix_contains(&p, &a));
			for (unsigned int i = 0; i < bits; i++) {
				struct ipaddr other = a;

				other.b[i / 8] ^= (uint8_t)(0x80 >> i % 8);
				assert_int_equal(prefix_contains(&p, &other), i >= len);
			}
		}
		assert_int_equal(prefix_of(&a, bits + 1).len, bits);
		assert_int_equal(prefix_of(&a, 1000).len, bits);
	}
}

static void families_never_mix(void **state)
{
	struct prefix all4 = net("0.0.0.0/0"), all6 = net("::/0");
	struct ipaddr a4 = ip("1.2.3.4"), a6 = ip("102:304::"), none = {0};

	(void)state;
	assert_false(prefix_contains(&all4, &a6));
	assert_false(prefix_contains(&all6, &a4));
	assert_false(prefix_contains(&all4, &none));
	assert_false(prefix_covers(&all4, &all6));
	assert_false(ipaddr_equal(&a4, &a6));
	assert_int_equal(ipaddr_bits(&none), 0);
}

static void covering(void **state)
{
	struct prefix p8 = net("10.0.0.0/8"), p16 = net("10.1.0.0/16"), other = net("11.0.0.0/16");

	(void)state;
	assert_true(prefix_covers(&p8, &p16));
	assert_true(prefix_covers(&p8, &p8));
	assert_false(prefix_covers(&p16, &p8));
	assert_false(prefix_covers(&p8, &other));
}

/* In the order of the table, and a total order. */
static void order(void **state)
{
	static const char *const sorted[] = {"0.0.0.0/0", "0.0.0.0/1", "9.0.0.0/8", "10.0.0.0/8",
		"10.0.0.0/16", "128.0.0.0/1", "::/0", "2001:db8::/32", "2001:db8::/48",
		"fe80::/10"};

	(void)state;
	for (size_t i = 0; i < COUNT(sorted); i++) {
		for (size_t k = 0; k < COUNT(sorted); k++) {
			struct prefix a = net(sorted[i]), b = net(sorted[k]);
			int c = prefix_compare(&a, &b);

			assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
		}
	}
}

static void kinds(void **state)
{
	static const struct {
		const char *text;
		bool link_local, multicast, loopback, unspecified;
	} cases[] = {
		{"169.254.0.1", true, false, false, false},
		{"169.253.0.1", false, false, false, false},
		{"fe80::1", true, false, false, false},
		{"febf::1", true, false, false, false},
		{"fec0::1", false, false, false, false},
		{"224.0.0.1", false, true, false, false},
		{"239.255.255.255", false, true, false, false},
		{"240.0.0.1", false, false, false, false},
		{"ff02::1:6", false, true, false, false},
		{"127.1.2.3", false, false, true, false},
		{"::1", false, false, true, false},
		{"::2", false, false, false, false},
		{"0.0.0.0", false, false, false, true},
		{"::", false, false, false, true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ipaddr a = ip(cases[i].text);

		assert_int_equal(ipaddr_is_link_local(&a), cases[i].link_local);
		assert_int_equal(ipaddr_is_multicast(&a), cases[i].multicast);
		assert_int_equal(ipaddr_is_loopback(&a), cases[i].loopback);
		assert_int_equal(ipaddr_is_unspecified(&a), cases[i].unspecified);
	}
	assert_false(ipaddr_is_unspecified(&(struct ipaddr){0}));
}

static void endpoints(void **state)
{
	struct endpoint a = {.ip = ip("192.0.2.1"), .port = 13000}, b = a;
	struct endpoint c = {.ip = ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), .port = 65535};
	char text[ENDPOINT_TEXT];

	(void)state;
	assert_string_equal(endpoint_format(&a, text), "192.0.2.1:13000");
	assert_string_equal(endpoint_format(&c, text),
		"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
	assert_true(endpoint_equal(&a, &b));
	b.port++;
	assert_false(endpoint_equal(&a, &b));
	b = a;
	b.scope = 2;
	assert_false(endpoint_equal(&a, &b));
	assert_false(endpoint_equal(&a, &c));
}

static void from_bytes(void **state)
{
	static const uint8_t b[16] = {192, 0, 2, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	struct ipaddr a = ipaddr_from(IP4, b), want = ip("192.0.2.1");

	(void)state;
	assert_memory_equal(&a, &want, sizeof(a)); /* the rest is zero */
	a = ipaddr_from(IP6, b);
	assert_memory_equal(a.b, b, sizeof(b));
	assert_int_equal(a.family, IP6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_have_one_text),
		cmocka_unit_test(hostile_texts_are_no_address),
		cmocka_unit_test(prefixes_have_one_text),
		cmocka_unit_test(hostile_texts_are_no_prefix),
		cmocka_unit_test(masks_at_every_length),
		cmocka_unit_test(families_never_mix),
		cmocka_unit_test(covering),
		cmocka_unit_test(order),
		cmocka_unit_test(kinds),
		cmocka_unit_test(endpoints),
		cmocka_unit_test(from_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
