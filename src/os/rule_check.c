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
	bool overlap; /* was told: once for all rules of that program */
};

static bool marks_overlap(const struct kernel_rule *k, struct nlattr **a)
{
	return netlink_marks_overlap(k->mark, k->mask, netlink_get_u32(a[FRA_FWMARK], 0),
		netlink_get_u32(a[FRA_FWMASK], UINT32_MAX));
}

static int check_each(void *ctx, struct nlmsghdr *h)
{
	struct check *c = ctx;
	const struct fib_rule_hdr *f = nlmsg_data(h);
	struct nlattr *a[FRA_MAX + 1];
	const struct kernel_rule *k;
	uint32_t priority, first, last;

	if (!netlink_is(h, RTM_NEWRULE, sizeof(*f)) ||
		nlmsg_parse(h, sizeof(*f), a, FRA_MAX, NULL) < 0)
		return 0;
	priority = netlink_get_u32(a[FRA_PRIORITY], 0);
	if (a[FRA_PROTOCOL] && netlink_get_u8(a[FRA_PROTOCOL], 0) == c->n->protocol)
		return 0;
	k = netlink_marked(c->want, f->family);
	first = c->n->first_priority - c->n->shift;
	last = c->n->last_priority - c->n->shift;
	if (priority >= first && priority <= last)
		buf_printf(c->warnings,
			"another program has a rule at priority %u, among the mesh's: who comes "
			"first depends on who started first; give one of them other priorities "
			"(routing.rule_priority)\n",
			priority);
	else if (priority && k && priority < first && netlink_rule_takes(k->mark, f, a))
		buf_printf(c->warnings,
			"the rule at priority %u of another program comes before the mesh's and "
			"takes the tunnels' own packets: give it a priority after %u, or set "
			"routing.rule_priority to less than %u\n",
			priority, k->priority, priority);
	else if (k && !c->overlap && marks_overlap(k, a)) {
		c->overlap = true;
		buf_printf(c->warnings,
			"the rule at priority %u of another program selects by the mark 0x%x/0x%x, "
			"which packets of the tunnels cannot be told from: give one of them "
			"another (underlay.fwmark)\n",
			priority, netlink_get_u32(a[FRA_FWMARK], 0),
			netlink_get_u32(a[FRA_FWMASK], UINT32_MAX));
	}
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
