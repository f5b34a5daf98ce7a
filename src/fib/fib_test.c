/* The table against a naive model that tries every entry. */
#include "fib/fib.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "base/cur.h"
#include "base/mem.h"
#include "base/rng.h"

static struct fib_entry entry(const char *destination, const char *source, uint32_t value)
{
	struct fib_entry e = {.value = value};

	assert_int_equal(prefix_parse(destination, &e.destination), 0);
	if (source)
		assert_int_equal(prefix_parse(source, &e.source), 0);
	return e;
}

static struct ipaddr addr(const char *s)
{
	struct ipaddr a;

	assert_int_equal(ipaddr_parse(s, &a), 0);
	return a;
}

/* The value found, or -1. */
static int64_t look(const struct fib *f, const char *destination, const char *source)
{
	struct ipaddr d = addr(destination), s = addr(source);
	uint32_t v;

	return fib_lookup(f, &d, &s, &v) ? (int64_t)v : -1;
}

static void longest_prefix_wins(void **state)
{
	struct fib_entry e[] = {
		entry("0.0.0.0/0", NULL, 1),
		entry("10.0.0.0/8", NULL, 2),
		entry("10.1.0.0/16", NULL, 3),
		entry("10.1.2.3", NULL, 4),
		entry("fd00::/8", NULL, 5),
		entry("fd00:1::/64", NULL, 6),
		entry("fd00:1::1", NULL, 7),
	};
	struct fib *f;

	(void)state;
	assert_int_equal(fib_build(e, sizeof(e) / sizeof(e[0]), &f), 0);
	assert_int_equal(fib_count(f), 7);
	assert_int_equal(look(f, "1.1.1.1", "9.9.9.9"), 1);
	assert_int_equal(look(f, "10.2.0.1", "9.9.9.9"), 2);
	assert_int_equal(look(f, "10.1.2.2", "9.9.9.9"), 3);
	assert_int_equal(look(f, "10.1.2.3", "9.9.9.9"), 4);
	assert_int_equal(look(f, "10.1.2.4", "9.9.9.9"), 3);
	assert_int_equal(look(f, "fd00:2::1", "::1"), 5);
	assert_int_equal(look(f, "fd00:1::2", "::1"), 6);
	assert_int_equal(look(f, "fd00:1::1", "::1"), 7);
	assert_int_equal(look(f, "fe00::1", "::1"), -1);
	assert_int_equal(look(f, "fd00:1::1", "1.1.1.1"), -1);
	fib_free(f);
}

/* RFC 9079 section 4: the destination is compared first. */
static void source_misses_fall_back(void **state)
{
	struct fib_entry e[] = {
		entry("::/0", "2001:db8::/48", 1),
		entry("fd00::/8", NULL, 2),
		entry("fd00:1::/32", "fd00:9::/32", 3),
		entry("fd00:1::/32", "fd00:9:9::/48", 4),
		entry("fd00:1:1::/48", "fd00:7::/32", 5),
	};
	struct fib *f;

	(void)state;
	assert_int_equal(fib_build(e, sizeof(e) / sizeof(e[0]), &f), 0);
	assert_int_equal(look(f, "2620::1", "2001:db8::1"), 1);
	assert_int_equal(look(f, "2620::1", "2001:db9::1"), -1);
	assert_int_equal(look(f, "fd00:1:1::1", "fd00:7::1"), 5);
	assert_int_equal(look(f, "fd00:1:1::1", "fd00:9:9::1"), 4);
	assert_int_equal(look(f, "fd00:1:1::1", "fd00:9::1"), 3);
	assert_int_equal(look(f, "fd00:1:1::1", "fd00:8::1"), 2);
	fib_free(f);
}

static void refuses_what_is_no_table(void **state)
{
	struct fib_entry twice[] = {
		entry("10.0.0.0/8", NULL, 1),
		entry("10.0.0.0/8", "0.0.0.0/0", 2),
	};
	struct fib_entry mixed = entry("10.0.0.0/8", "fd00::/8", 1);
	struct fib_entry none = {0}, dirty = entry("10.0.0.0/8", NULL, 1);
	struct fib *f = NULL;

	(void)state;
	dirty.destination.addr.b[3] = 1;
	assert_int_equal(fib_build(twice, 2, &f), -EEXIST);
	assert_int_equal(fib_build(&mixed, 1, &f), -EINVAL);
	assert_int_equal(fib_build(&none, 1, &f), -EINVAL);
	assert_int_equal(fib_build(&dirty, 1, &f), -EINVAL);
	assert_null(f);
	assert_int_equal(fib_build(NULL, 0, &f), 0);
	assert_int_equal(look(f, "1.1.1.1", "1.1.1.1"), -1);
	fib_free(f);
	fib_free(NULL);
}

/* Few distinct bytes, so that prefixes nest and addresses hit. */
static struct ipaddr random_addr(const struct rng *r, uint8_t family)
{
	struct ipaddr a = {.family = family};

	assert_int_equal(rng_fill(r, a.b, family == IP4 ? 4 : 16), 0);
	for (int i = 0; i < (family == IP4 ? 4 : 16); i++)
		a.b[i] &= i % 2 ? 0x81 : 0x03;
	return a;
}

static struct prefix random_prefix(const struct rng *r, uint8_t family, unsigned int any)
{
	struct ipaddr a = random_addr(r, family);
	uint64_t len, zero;

	assert_int_equal(rng_below(r, ipaddr_bits(&a) + 1, &len), 0);
	assert_int_equal(rng_below(r, any, &zero), 0);
	return prefix_of(&a, zero ? 0 : (unsigned int)len);
}

static bool model_lookup(const struct fib_entry *e, size_t n, const struct ipaddr *d,
	const struct ipaddr *s, uint32_t *ret)
{
	const struct fib_entry *best = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!prefix_contains(&e[i].destination, d) || !prefix_contains(&e[i].source, s))
			continue;
		if (!best || e[i].destination.len > best->destination.len ||
			(e[i].destination.len == best->destination.len &&
				e[i].source.len > best->source.len))
			best = &e[i];
	}
	if (best)
		*ret = best->value;
	return best != NULL;
}

static size_t random_entries(const struct rng *r, struct fib_entry *e, size_t n)
{
	size_t have = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t family = i % 2 ? IP4 : IP6;
		struct fib_entry x = {.destination = random_prefix(r, family, 1),
			.source = random_prefix(r, family, 3),
			.value = (uint32_t)i};
		bool there = false;

		for (size_t k = 0; k < have; k++)
			there |= prefix_equal(&e[k].destination, &x.destination) &&
				prefix_equal(&e[k].source, &x.source);
		if (!there)
			e[have++] = x;
	}
	return have;
}

static void agrees_with_the_model(void **state)
{
	struct rng_seeded seeded;
	struct rng r = rng_seeded_init(&seeded, 7);
	struct fib_entry e[300];
	unsigned int hits = 0;

	(void)state;
	for (int round = 0; round < 100; round++) {
		size_t n = random_entries(&r, e, (size_t)(3 * round));
		struct fib *f;

		assert_int_equal(fib_build(e, n, &f), 0);
		assert_int_equal(fib_count(f), n);
		for (int i = 0; i < 500; i++) {
			uint8_t family = i % 2 ? IP4 : IP6;
			struct ipaddr d = random_addr(&r, family), s = random_addr(&r, family);
			uint32_t got = 0, want = 0;
			bool have = fib_lookup(f, &d, &s, &got);

			assert_int_equal(have, model_lookup(e, n, &d, &s, &want));
			assert_int_equal(got, want);
			hits += have;
		}
		fib_free(f);
	}
	assert_true(hits > 10000);
}

/* ---- versions: a table that changes, and copies of it that must not ---- */

enum { LIVE = 400, VERSIONS = 8 };

struct version {
	struct fib *f;
	struct fib_entry entry[LIVE];
	size_t n;
};

static void version_check(const struct version *v, const struct rng *r, int looks)
{
	assert_int_equal(fib_count(v->f), v->n);
	for (int i = 0; i < looks; i++) {
		uint8_t family = i % 2 ? IP4 : IP6;
		struct ipaddr d = random_addr(r, family), s = random_addr(r, family);
		uint32_t got = 0, want = 0;

		assert_int_equal(fib_lookup(v->f, &d, &s, &got),
			model_lookup(v->entry, v->n, &d, &s, &want));
		assert_int_equal(got, want);
	}
	for (size_t i = 0; i < v->n; i++) {
		uint32_t got;

		assert_true(fib_find(v->f, &v->entry[i].destination, &v->entry[i].source, &got));
		assert_int_equal(got, v->entry[i].value);
	}
}

static size_t version_index(const struct version *v, const struct fib_entry *e)
{
	size_t i = 0;

	while (i < v->n &&
		!(prefix_equal(&v->entry[i].destination, &e->destination) &&
			prefix_equal(&v->entry[i].source, &e->source)))
		i++;
	return i;
}

/* One change of table and model: a new prefix, another value, or one less. */
static void version_change(struct version *v, const struct rng *r, uint32_t value)
{
	struct fib_entry e = {.value = value};
	uint64_t what, at, family;
	size_t i;

	assert_int_equal(rng_below(r, 10, &what), 0);
	assert_int_equal(rng_below(r, 2, &family), 0);
	assert_int_equal(rng_below(r, v->n ? v->n : 1, &at), 0);
	e.destination = random_prefix(r, family ? IP4 : IP6, 1);
	e.source = random_prefix(r, family ? IP4 : IP6, 2);
	if (what < 5 && v->n) {
		e.destination = v->entry[at].destination;
		e.source = v->entry[at].source;
	}
	i = version_index(v, &e);
	if (what < 4 || i == LIVE) {
		assert_int_equal(fib_remove(v->f, &e), i < v->n ? 0 : -ENOENT);
		if (i < v->n)
			v->entry[i] = v->entry[--v->n];
		return;
	}
	assert_int_equal(fib_set(v->f, &e), 0);
	v->entry[i] = e;
	v->n += i == v->n;
}

static void versions_stay_while_newer_ones_are_made(void **state)
{
	struct version *now = w_calloc(VERSIONS + 1, sizeof(*now)), *old = now + 1;
	struct rng_seeded seeded;
	struct rng r = rng_seeded_init(&seeded, 77);

	(void)state;
	assert_non_null(now);
	assert_int_equal(fib_new(&now->f), 0);
	for (uint32_t round = 0; round < 400; round++) {
		struct version *v = &old[round * 5 % VERSIONS];

		for (uint32_t i = 0; i < 1 + round % 20; i++)
			version_change(now, &r, round * 100 + i);
		if (v->f)
			version_check(v, &r, 20);
		fib_free(v->f);
		*v = *now;
		assert_int_equal(fib_copy(now->f, &v->f), 0);
		version_check(now, &r, 20);
	}
	for (int i = 0; i < VERSIONS; i++)
		version_check(&old[i], &r, 200);
	while (now->n) { /* down to nothing; the copies have all of it still */
		struct fib_entry e = now->entry[--now->n];

		assert_int_equal(fib_remove(now->f, &e), 0);
	}
	version_check(now, &r, 200);
	fib_free(now->f);
	for (int i = 0; i < VERSIONS; i++) {
		version_check(&old[i], &r, 200);
		fib_free(old[i].f);
	}
	w_free(now);
}

/* Every length alone and nested in all others: the steps of the tree have no seams. */
static void all_lengths_nest(void **state)
{
	static const char *const to[] = {"213.170.85.42", "d5aa:552a:7f00:1:ff:8001:aaaa:5555"};

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct ipaddr a = addr(to[k]), any = {.family = a.family};
		unsigned int bits = ipaddr_bits(&a);
		struct fib *f;
		uint32_t v;

		assert_int_equal(fib_new(&f), 0);
		for (unsigned int len = 0; len <= bits; len++) {
			struct fib_entry e = {.destination = prefix_of(&a, len), .value = len};

			assert_int_equal(fib_set(f, &e), 0);
			assert_true(fib_lookup(f, &a, &any, &v));
			assert_int_equal(v, len);
		}
		for (unsigned int len = 0; len < bits; len++) { /* the first bit after it differs */
			struct ipaddr b = a;

			b.b[len / 8] ^= (uint8_t)(0x80 >> len % 8);
			assert_true(fib_lookup(f, &b, &any, &v));
			assert_int_equal(v, len);
		}
		for (unsigned int len = 0; len <= bits; len++) {
			struct fib_entry e = {.destination = prefix_of(&a, len)};

			assert_int_equal(fib_remove(f, &e), 0);
			assert_int_equal(fib_lookup(f, &a, &any, &v), len < bits);
		}
		assert_int_equal(fib_count(f), 0);
		fib_free(f);
	}
}

/* Not a bound that a busy machine could break: the figure is printed, the limit is far off. */
static void looks_up_fast(void **state)
{
	static const size_t sizes[] = {1000, 100000};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		size_t n = sizes[k];
		struct fib_entry *e = w_calloc(n, sizeof(*e));
		struct ipaddr s = addr("fd00::1");
		uint64_t sum = 0;
		struct fib *f;
		clock_t began;
		double ns;

		assert_non_null(e);
		for (size_t i = 0; i < n; i++) {
			struct ipaddr a = addr("fd00::");

			put_u32(a.b + 2, (uint32_t)(i * 2654435761U));
			e[i] = (struct fib_entry){.destination = prefix_of(&a, 48),
				.value = (uint32_t)i};
		}
		assert_int_equal(fib_build(e, n, &f), 0);
		began = clock();
		for (size_t i = 0; i < 1000000; i++) {
			uint32_t v;

			sum += fib_lookup(f, &e[i * 7919 % n].destination.addr, &s, &v);
		}
		ns = (double)(clock() - began) * 1e9 / CLOCKS_PER_SEC / 1e6;
		print_message("%zu prefixes: %.0f ns\n", n, ns);
		assert_int_equal(sum, 1000000);
		assert_true(ns < 10000);
		fib_free(f);
		w_free(e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(longest_prefix_wins),
		cmocka_unit_test(source_misses_fall_back),
		cmocka_unit_test(refuses_what_is_no_table),
		cmocka_unit_test(agrees_with_the_model),
		cmocka_unit_test(versions_stay_while_newer_ones_are_made),
		cmocka_unit_test(all_lengths_nest),
		cmocka_unit_test(looks_up_fast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
