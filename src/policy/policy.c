/* Matching: of rules with the same prefixes only the first in the file goes in; the others are
 * found by a hash of their prefixes where people's few prefix lengths allow it, else by a
 * forwarding table, which looks up by longest destination, then longest source, too. */
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include "base/mem.h"
#include "fib/fib.h"
#include "policy/tuple_priv.h"

struct policy {
	struct policy_rule *rule;
	size_t n;
	/* Values are indexes of rule[]. A family without its table is looked up in fib. */
	struct tuple_table *v4, *v6;
	struct fib *fib;
};

static struct prefix any(uint8_t family)
{
	return (struct prefix){.addr = {.family = family}};
}

/* The entries of one rule, one or two; negative when it makes no sense. */
static int entries_of(const struct policy_rule *r, uint32_t index, struct fib_entry out[static 2])
{
	static const uint8_t families[2] = {IP4, IP6};
	uint8_t s = r->source.addr.family, d = r->destination.addr.family;
	int n = 0;

	if (s != IP_NONE && d != IP_NONE && s != d)
		return -EINVAL;
	for (size_t i = 0; i < 2; i++) {
		uint8_t family = families[i];

		if ((s != IP_NONE && s != family) || (d != IP_NONE && d != family))
			continue;
		out[n++] = (struct fib_entry){
			.destination = d != IP_NONE ? r->destination : any(family),
			.source = s != IP_NONE ? r->source : any(family),
			.value = index,
		};
	}
	return n;
}

/* By prefixes, then file order. */
static int entry_compare(const void *a, const void *b)
{
	const struct fib_entry *x = a, *y = b;
	int r = prefix_compare(&x->destination, &y->destination);

	if (r == 0)
		r = prefix_compare(&x->source, &y->source);
	if (r == 0)
		r = x->value < y->value ? -1 : x->value > y->value;
	return r;
}

/* Leaves the first of each run of equal prefixes; returns how many are left. */
static size_t unique(struct fib_entry *e, size_t n)
{
	size_t kept = 0;

	qsort(e, n, sizeof(*e), entry_compare);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !prefix_equal(&e[kept - 1].destination, &e[i].destination) ||
			!prefix_equal(&e[kept - 1].source, &e[i].source))
			e[kept++] = e[i];
	return kept;
}

/* Sorted entries have IPv4 first. */
static int build_tables(const struct fib_entry *e, size_t n, struct policy *p)
{
	size_t v4 = 0;
	int r;

	while (v4 < n && e[v4].destination.addr.family == IP4)
		v4++;
	r = fib_build(e, n, &p->fib);
	if (r == 0)
		r = tuple_build(e, v4, &p->v4);
	if (r == 0)
		r = tuple_build(e + v4, n - v4, &p->v6);
	return r;
}

static int build(const struct policy_rule *rule, size_t n, struct policy *p)
{
	struct fib_entry *e = w_calloc(n ? 2 * n : 1, sizeof(*e));
	size_t have = 0;
	int r = 0;

	if (!e)
		return -ENOMEM;
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = entries_of(&rule[i], (uint32_t)i, &e[have]);
		if (r > 0)
			have += (size_t)r;
	}
	if (r >= 0)
		r = build_tables(e, have > 1 ? unique(e, have) : have, p);
	w_free(e);
	return r;
}

int policy_build(const struct policy_rule *rule, size_t n, struct policy **ret)
{
	struct policy *p;
	int r;

	if (n > POLICY_RULES_MAX)
		return -ENOMEM;
	p = w_calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->n = n;
	p->rule = n ? w_memdup(rule, n * sizeof(*rule)) : w_alloc(1);
	r = p->rule ? build(rule, n, p) : -ENOMEM;
	if (r < 0) {
		policy_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	tuple_free(p->v4);
	tuple_free(p->v6);
	fib_free(p->fib);
	w_free(p->rule);
	w_free(p);
}

size_t policy_count(const struct policy *p)
{
	return p->n;
}

const struct policy_rule *policy_rule_at(const struct policy *p, size_t i)
{
	return i < p->n ? &p->rule[i] : NULL;
}

const struct policy_rule *policy_find(const struct policy *p, const struct ipaddr *destination,
	const struct ipaddr *source)
{
	const struct tuple_table *t = destination->family == IP4 ? p->v4 : p->v6;
	uint32_t i;

	if (destination->family == IP_NONE || destination->family != source->family)
		return NULL;
	if (t ? tuple_find(t, destination, source, &i)
	      : fib_lookup(p->fib, destination, source, &i))
		return &p->rule[i];
	return NULL;
}
