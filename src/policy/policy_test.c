/* Policies against a naive reference: every rule looked at, in file order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/rng.h"
#include "policy/policy.h"

enum { RULES = 300, LOOKUPS = 20000 };

static struct policy_rule rule(const char *name, const char *source, const char *destination)
{
	struct policy_rule r = {0};

	snprintf(r.name, sizeof(r.name), "%s", name);
	if (source)
		assert_int_equal(prefix_parse(source, &r.source), 0);
	if (destination)
		assert_int_equal(prefix_parse(destination, &r.destination), 0);
	return r;
}

static struct ipaddr addr(const char *s)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(s, &a), 0);
	return a;
}

static const char *find(const struct policy *p, const char *source, const char *destination)
{
	struct ipaddr s = addr(source), d = addr(destination);
	const struct policy_rule *r = policy_find(p, &d, &s);

	return r ? r->name : "-";
}

static void the_most_specific_rule_wins(void **state)
{
	static const struct {
		const char *source, *destination, *name;
	} rows[] = {
		{"10.1.2.3", "8.8.8.8", "lan-out"},
		{"10.1.9.3", "8.8.8.8", "lan-9-out"},
		{"10.2.0.1", "8.8.8.8", "-"},
		{"10.2.0.1", "10.9.0.1", "to-9"},
		/* The destination counts before the source. */
		{"10.1.9.3", "10.9.0.1", "to-9"},
		{"10.1.9.3", "10.9.0.7", "host-from-lan"},
		/* That host's rule is for others, the next shorter one takes it. */
		{"10.2.0.1", "10.9.0.7", "to-9"},
		{"fd00:1::1", "2001:db8::1", "six"},
		{"fd00:2::1", "2001:db8::1", "-"},
	};
	struct policy_rule rules[] = {
		rule("lan-out", "10.1.0.0/16", "0.0.0.0/0"),
		rule("lan-9-out", "10.1.9.0/24", NULL),
		rule("to-9", NULL, "10.9.0.0/24"),
		rule("to-9-later", "0.0.0.0/0", "10.9.0.0/24"),
		rule("host-from-lan", "10.1.0.0/16", "10.9.0.7/32"),
		rule("six", "fd00:1::/32", NULL),
	};
	struct policy *p;

	(void)state;
	assert_int_equal(policy_build(rules, 6, &p), 0);
	assert_int_equal(policy_count(p), 6);
	assert_string_equal(policy_rule_at(p, 3)->name, "to-9-later");
	assert_null(policy_rule_at(p, 6));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(find(p, rows[i].source, rows[i].destination), rows[i].name);
	policy_free(p);
}

static void a_rule_without_prefixes_is_for_both_families(void **state)
{
	struct policy_rule r = rule("all", NULL, NULL);
	struct policy *p;

	(void)state;
	assert_int_equal(policy_build(&r, 1, &p), 0);
	assert_string_equal(find(p, "10.0.0.1", "10.0.0.2"), "all");
	assert_string_equal(find(p, "fd00::1", "fd00::2"), "all");
	policy_free(p);
}

static void no_rules_match_nothing(void **state)
{
	struct policy *p;

	(void)state;
	assert_int_equal(policy_build(NULL, 0, &p), 0);
	assert_string_equal(find(p, "10.0.0.1", "10.0.0.2"), "-");
	policy_free(p);
	policy_free(NULL);
}

static void rules_that_make_no_sense_are_refused(void **state)
{
	struct policy_rule mixed = rule("mixed", "10.0.0.0/8", "fd00::/8"), bits = mixed;
	struct policy *p = NULL;

	(void)state;
	assert_int_equal(policy_build(&mixed, 1, &p), -EINVAL);
	bits.destination = bits.source;
	bits.destination.addr.b[3] = 1;
	assert_int_equal(policy_build(&bits, 1, &p), -EINVAL);
	assert_null(p);
}

/* ---- the reference ---- */

static bool matches(const struct prefix *p, const struct ipaddr *a)
{
	return p->addr.family == IP_NONE || prefix_contains(p, a);
}

static const struct policy_rule *naive(const struct policy_rule *r, size_t n,
	const struct ipaddr *d, const struct ipaddr *s)
{
	const struct policy_rule *best = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!matches(&r[i].destination, d) || !matches(&r[i].source, s))
			continue;
		if (!best || r[i].destination.len > best->destination.len ||
			(r[i].destination.len == best->destination.len &&
				r[i].source.len > best->source.len))
			best = &r[i];
	}
	return best;
}

static uint32_t below(const struct rng *rng, uint64_t bound)
{
	uint64_t v;

	assert_int_equal(rng_below(rng, bound, &v), 0);
	return (uint32_t)v;
}

/* Addresses from a small space, so that prefixes nest and are hit. */
static struct ipaddr some_address(const struct rng *rng)
{
	struct ipaddr a = {.family = below(rng, 2) ? IP4 : IP6};

	a.b[0] = a.family == IP4 ? 10 : 0xfd;
	for (size_t i = 1; i < 4; i++)
		a.b[i] = (uint8_t)below(rng, 3);
	return a;
}

/* few: of a handful of lengths, as people write them. */
static struct prefix some_prefix(const struct rng *rng, uint8_t family, bool few)
{
	struct ipaddr a = some_address(rng);

	if (below(rng, 8) == 0)
		return (struct prefix){0};
	a.family = family;
	a.b[0] = family == IP4 ? 10 : 0xfd;
	return prefix_of(&a, few ? 16 + 8 * below(rng, 3) : below(rng, 33));
}

static void as_the_reference_says(void **state)
{
	struct policy_rule *r = w_calloc(RULES, sizeof(*r));
	struct rng_seeded seeded;
	struct rng seed = rng_seeded_init(&seeded, 7), *rng = &seed;
	unsigned int hits = 0;

	(void)state;
	assert_non_null(r);
	for (int round = 0; round < 6; round++) {
		struct policy *p;

		for (uint32_t i = 0; i < RULES; i++) {
			uint8_t family = below(rng, 2) ? IP4 : IP6;

			r[i] = (struct policy_rule){.steer = i};
			r[i].source = some_prefix(rng, family, round % 2);
			r[i].destination = some_prefix(rng, family, round % 2);
		}
		assert_int_equal(policy_build(r, RULES, &p), 0);
		for (int i = 0; i < LOOKUPS; i++) {
			struct ipaddr d = some_address(rng), s = some_address(rng);
			const struct policy_rule *want, *got;

			s.family = d.family;
			s.b[0] = d.b[0];
			want = naive(r, RULES, &d, &s);
			got = policy_find(p, &d, &s);
			assert_int_equal(got ? got->steer : UINT32_MAX,
				want ? want->steer : UINT32_MAX);
			hits += got != NULL;
		}
		policy_free(p);
	}
	assert_true(hits > LOOKUPS);
	w_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_most_specific_rule_wins),
		cmocka_unit_test(a_rule_without_prefixes_is_for_both_families),
		cmocka_unit_test(no_rules_match_nothing),
		cmocka_unit_test(rules_that_make_no_sense_are_refused),
		cmocka_unit_test(as_the_reference_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
