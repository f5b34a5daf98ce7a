/* Policy rules, as ip-rule(8) has them. Ours bear our protocol number, select by mark, prefixes and
 * interface, and point to one of our tables or stand at one of our priorities, or between some that
 * do. Where they stand: see rule_place.c. */
#include <errno.h>
#include <linux/fib_rules.h>
#include <netlink/attr.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "os/netlink_priv.h"

struct rules {
	struct os_netlink *n;
	const struct kernel_state *want;
	struct kernel_rule *v; /* with our protocol number */
	size_t count;
	struct netlink_others others;
};

static struct prefix rule_prefix(const struct nlattr *a, uint8_t len, int family)
{
	struct ipaddr ip = a ? netlink_get_ip(a, family) : (struct ipaddr){0};

	return ip.family == IP_NONE || !len ? (struct prefix){0} : prefix_of(&ip, len);
}

/* Notes one of our protocol number. 0 or -ENOMEM. */
static int rule_ours(struct rules *all, const struct fib_rule_hdr *f, struct nlattr **a)
{
	struct kernel_rule *grown, got = {.family = f->family == AF_INET ? IP4 : IP6};

	if (a[FRA_OIFNAME])
		return 0;
	got.source = rule_prefix(a[FRA_SRC], f->src_len, f->family);
	got.destination = rule_prefix(a[FRA_DST], f->dst_len, f->family);
	if (a[FRA_IIFNAME])
		(void)nla_strlcpy(got.in, a[FRA_IIFNAME], sizeof(got.in));
	got.priority = netlink_get_u32(a[FRA_PRIORITY], 0);
	got.mark = netlink_get_u32(a[FRA_FWMARK], 0);
	got.mask = netlink_get_u32(a[FRA_FWMASK], 0);
	got.table = netlink_get_u32(a[FRA_TABLE], f->table);
	got.suppress_prefixlength = (int)netlink_get_u32(a[FRA_SUPPRESS_PREFIXLEN], UINT32_MAX);
	grown = w_realloc(all->v, (all->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[all->count++] = got;
	all->v = grown;
	return 0;
}

static int rule_each(void *ctx, struct nlmsghdr *h)
{
	struct rules *all = ctx;
	const struct fib_rule_hdr *f = nlmsg_data(h);
	struct nlattr *a[FRA_MAX + 1];

	if (!netlink_is(h, RTM_NEWRULE, sizeof(*f)) ||
		nlmsg_parse(h, sizeof(*f), a, FRA_MAX, NULL) < 0)
		return 0;
	if (netlink_get_u8(a[FRA_PROTOCOL], 0) == all->n->protocol)
		return rule_ours(all, f, a);
	return netlink_others_add(&all->others, all->want, f, a);
}

/* Whether it stands between rules that lead to our tables: a predecessor's that was killed when its
 * rules stood elsewhere. Ours begin with one before the first of those, and end with one of those.
 */
static bool rule_between(const struct rules *all, uint32_t priority)
{
	const uint32_t span = all->n->span;
	bool before = false, behind = false;

	for (size_t i = 0; i < all->count; i++) {
		uint32_t at = all->v[i].priority;

		if (!netlink_table_is_ours(all->n, all->v[i].table))
			continue;
		before |= at <= priority + 1 && priority + 1 - at < span;
		behind |= at >= priority && at - priority < span;
	}
	return before && behind;
}

/* Leaves those of another program that has the same protocol number out. */
static void rules_keep_ours(struct rules *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct kernel_rule *k = &all->v[i];

		/* swapped, since rule_between() looks at all of them */
		if (netlink_table_is_ours(all->n, k->table) ||
			netlink_set_has(&all->n->priorities, k->priority) ||
			rule_between(all, k->priority)) {
			struct kernel_rule ours = *k;

			*k = all->v[kept];
			all->v[kept++] = ours;
		}
	}
	all->count = kept;
}

static int rule_dump(struct os_netlink *n, int family, struct rules *all)
{
	struct fib_rule_hdr f = {.family = (uint8_t)family};

	return netlink_request(n, netlink_message(RTM_GETRULE, NLM_F_DUMP, &f, sizeof(f)),
		rule_each, all);
}

static int rule_change(struct os_netlink *n, const struct kernel_rule *k, bool add)
{
	struct fib_rule_hdr f = {.family = (uint8_t)netlink_family(k->family),
		.action = FR_ACT_TO_TBL,
		.src_len = k->source.len,
		.dst_len = k->destination.len};
	struct nl_msg *m = netlink_message(add ? RTM_NEWRULE : RTM_DELRULE,
		NLM_F_ACK | (add ? NLM_F_CREATE | NLM_F_EXCL : 0), &f, sizeof(f));
	int r = m ? 0 : -ENOMEM;

	if (r == 0)
		r = nla_put_u32(m, FRA_PRIORITY, k->priority);
	if (r == 0)
		r = nla_put_u32(m, FRA_TABLE, k->table);
	if (r == 0 && k->mask)
		r = nla_put_u32(m, FRA_FWMARK, k->mark);
	if (r == 0 && k->mask)
		r = nla_put_u32(m, FRA_FWMASK, k->mask);
	if (r == 0 && k->suppress_prefixlength >= 0)
		r = nla_put_u32(m, FRA_SUPPRESS_PREFIXLEN, (uint32_t)k->suppress_prefixlength);
	if (r == 0 && k->source.len)
		r = netlink_put_ip(m, FRA_SRC, &k->source.addr);
	if (r == 0 && k->destination.len)
		r = netlink_put_ip(m, FRA_DST, &k->destination.addr);
	if (r == 0 && k->in[0])
		r = nla_put_string(m, FRA_IIFNAME, k->in);
	if (r == 0)
		r = nla_put_u8(m, FRA_PROTOCOL, n->protocol);
	if (r < 0) {
		nlmsg_free(m);
		return -ENOMEM;
	}
	return netlink_request(n, m, NULL, NULL);
}

static int compare_numbers(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

static int compare_prefixes(const struct prefix *a, const struct prefix *b)
{
	return a->len != b->len ? compare_numbers(a->len, b->len)
		: !a->len       ? 0
				: memcmp(a->addr.b, b->addr.b, sizeof(a->addr.b));
}

/* By everything but the priority. */
static int compare_effect(const struct kernel_rule *a, const struct kernel_rule *b)
{
	int r = compare_numbers(a->family, b->family);

	if (!r)
		r = compare_numbers(a->table, b->table);
	if (!r)
		r = compare_prefixes(&a->destination, &b->destination);
	if (!r)
		r = compare_prefixes(&a->source, &b->source);
	if (!r)
		r = compare_numbers(a->mask, b->mask);
	if (!r && a->mask)
		r = compare_numbers(a->mark, b->mark);
	if (!r)
		r = strcmp(a->in, b->in);
	return r ? r
		 : compare_numbers((uint32_t)a->suppress_prefixlength + 1,
			   (uint32_t)b->suppress_prefixlength + 1);
}

static int compare_rules(const void *x, const void *y)
{
	const struct kernel_rule *a = x, *b = y;
	int r = compare_effect(a, b);

	return r ? r : compare_numbers(a->priority, b->priority);
}

static int compare_effects(const void *x, const void *y)
{
	return compare_effect(x, y);
}

static bool rule_in(const struct rules *all, const struct kernel_rule *k)
{
	return all->count && bsearch(k, all->v, all->count, sizeof(*k), compare_rules);
}

/* The same rule stands elsewhere. */
static bool rule_moved(const struct rules *all, const struct kernel_rule *k)
{
	return all->count && bsearch(k, all->v, all->count, sizeof(*k), compare_effects);
}

static int rule_failed(const struct kernel_rule *k, const char *what, int r, struct buf *errors)
{
	return netlink_failed(errors, r, "%s %s rule %u to table %u", what,
		k->family == IP4 ? "IPv4" : "IPv6", k->priority, k->table);
}

static int rules_remove(struct os_netlink *n, const struct rules *have, const struct rules *want,
	bool moved, struct buf *errors)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < have->count; i++) {
		const struct kernel_rule *k = &have->v[i];
		bool elsewhere = rule_moved(want, k);
		int e;

		if (rule_in(want, k) || (!moved && elsewhere))
			continue;
		e = rule_change(n, k, false);
		n->changes += e >= 0 && !elsewhere;
		if (e < 0 && e != -ENOENT)
			r = rule_failed(k, "remove", e, errors);
	}
	return r;
}

static int rules_add(struct os_netlink *n, const struct rules *have, const struct rules *want,
	struct buf *errors)
{
	int r = 0;

	for (size_t i = 0; i < want->count; i++) {
		int e;

		if (rule_in(have, &want->v[i]))
			continue;
		e = rule_change(n, &want->v[i], true);
		n->changes += e >= 0 && !rule_moved(have, &want->v[i]);
		/* Someone else has the very same rule: it does what we want. */
		if (e < 0 && e != -EEXIST)
			r = netlink_first(r, rule_failed(&want->v[i], "add", e, errors));
	}
	return r;
}

/* The rules that the kernel has, and those that are wanted where they are to stand, in order. */
static int rules_read(struct os_netlink *n, const struct kernel_state *want, struct rules *ret_have,
	struct rules *ret_want)
{
	int r = rule_dump(n, AF_INET, ret_have);
	int six = rule_dump(n, AF_INET6, ret_have);

	/* A kernel without IPv6 has no such rules. */
	if (r == 0 && six != -EAFNOSUPPORT && six != -EOPNOTSUPP)
		r = six;
	rules_keep_ours(ret_have);
	n->shift = netlink_rules_shift(n, &ret_have->others);
	if (r == 0 && want->rule_count) {
		ret_want->v = w_alloc(want->rule_count * sizeof(*ret_want->v));
		if (!ret_want->v)
			return -ENOMEM;
		memcpy(ret_want->v, want->rule, want->rule_count * sizeof(*ret_want->v));
		ret_want->count = want->rule_count;
		for (size_t i = 0; i < ret_want->count; i++)
			ret_want->v[i].priority -= n->shift;
		qsort(ret_want->v, ret_want->count, sizeof(*ret_want->v), compare_rules);
	}
	if (ret_have->count)
		qsort(ret_have->v, ret_have->count, sizeof(*ret_have->v), compare_rules);
	return r;
}

int netlink_rule_apply(struct os_netlink *n, const struct kernel_state *want, bool add,
	struct buf *errors)
{
	struct rules have = {.n = n, .want = want}, wanted = {.n = n};
	int r = rules_read(n, want, &have, &wanted);

	if (r < 0) {
		r = netlink_failed(errors, r, "read the rules");
	} else {
		if (add)
			r = rules_add(n, &have, &wanted, errors);
		r = netlink_first(r, rules_remove(n, &have, &wanted, add, errors));
	}
	w_free(have.v);
	w_free(have.others.v);
	w_free(wanted.v);
	return r;
}
