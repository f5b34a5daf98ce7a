/* Policy rules of other programs that stand in the way of ours (ip-rule(8)). Whoever adds a rule
 * without saying where gets the place before all others, so that the order of starts decides. */
#include <errno.h>
#include <linux/fib_rules.h>
#include <netlink/attr.h>
#include "os/netlink_priv.h"

struct check {
	const struct os_netlink *n;
	const struct kernel_state *want;
	struct buf *warnings;
};

/* The kernel tells of both also where they are not set: as -1 then. */
static bool suppresses_nothing(int attribute, const struct nlattr *a)
{
	return (attribute == FRA_SUPPRESS_PREFIXLEN || attribute == FRA_SUPPRESS_IFGROUP) &&
		netlink_get_u32(a, 0) == UINT32_MAX;
}

/* Whether the packets that rule k is for, by their mark, fall under this one too. */
static bool takes(const struct kernel_rule *k, const struct fib_rule_hdr *f, struct nlattr **a)
{
	static const int narrows[] = {FRA_SRC, FRA_DST, FRA_IIFNAME, FRA_OIFNAME, FRA_L3MDEV,
		FRA_UID_RANGE, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE,
		FRA_SUPPRESS_PREFIXLEN, FRA_SUPPRESS_IFGROUP};
	uint32_t table = netlink_get_u32(a[FRA_TABLE], f->table);
	uint32_t mark = netlink_get_u32(a[FRA_FWMARK], 0);
	uint32_t mask = netlink_get_u32(a[FRA_FWMASK], a[FRA_FWMARK] ? UINT32_MAX : 0);
	bool fits = (k->mark & mask) == mark;

	if (f->action == FR_ACT_GOTO || f->action == FR_ACT_NOP || f->tos ||
		(f->action == FR_ACT_TO_TBL && (table == RT_TABLE_MAIN || table == RT_TABLE_LOCAL)))
		return false;
	for (size_t i = 0; i < sizeof(narrows) / sizeof(*narrows); i++)
		if (a[narrows[i]] && !suppresses_nothing(narrows[i], a[narrows[i]]))
			return false;
	return f->flags & FIB_RULE_INVERT ? !fits : fits;
}

/* The rule of ours that marked packets go by; NULL: none. */
static const struct kernel_rule *marked(const struct check *c, int family)
{
	for (size_t i = 0; i < c->want->rule_count; i++)
		if (c->want->rule[i].mask && netlink_family(c->want->rule[i].family) == family)
			return &c->want->rule[i];
	return NULL;
}

static int check_each(void *ctx, struct nlmsghdr *h)
{
	const struct check *c = ctx;
	const struct fib_rule_hdr *f = nlmsg_data(h);
	struct nlattr *a[FRA_MAX + 1];
	const struct kernel_rule *k;
	uint32_t priority;

	if (!netlink_is(h, RTM_NEWRULE, sizeof(*f)) ||
		nlmsg_parse(h, sizeof(*f), a, FRA_MAX, NULL) < 0)
		return 0;
	priority = netlink_get_u32(a[FRA_PRIORITY], 0);
	if (a[FRA_PROTOCOL] && netlink_get_u8(a[FRA_PROTOCOL], 0) == c->n->protocol)
		return 0;
	k = marked(c, f->family);
	if (priority >= c->n->first_priority && priority <= c->n->last_priority)
		buf_printf(c->warnings,
			"another program has a rule at priority %u, among the mesh's: who comes "
			"first depends on who started first; give one of them other priorities "
			"(routing.rule_priority)\n",
			priority);
	else if (priority && k && priority < k->priority && takes(k, f, a))
		buf_printf(c->warnings,
			"the rule at priority %u of another program comes before the mesh's and "
			"takes the tunnels' own packets: give it a priority after %u, or set "
			"routing.rule_priority to less than %u\n",
			priority, k->priority, priority);
	return 0;
}

int os_rules_check(struct os_netlink *n, const struct kernel_state *want, struct buf *warnings)
{
	struct check c = {.n = n, .want = want, .warnings = warnings};
	int r = 0;

	for (int six = 0; six < 2 && r == 0; six++) {
		struct fib_rule_hdr f = {.family = six ? AF_INET6 : AF_INET};

		r = netlink_request(n, netlink_message(RTM_GETRULE, NLM_F_DUMP, &f, sizeof(f)),
			check_each, &c);
		if (six && (r == -EAFNOSUPPORT || r == -EOPNOTSUPP))
			r = 0;
	}
	return r;
}
