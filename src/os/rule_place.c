/* Where our rules stand. A tunnel that takes all the host's packets (wg-quick) has a rule for
 * whatever lacks its own mark, and lets the kernel choose its priority: that is in front of all
 * others then. Started before us it comes behind our rules, started later before them, and
 * everything of ours would go into that tunnel. So ours go in front of it, all together and in
 * their order, as if it had been there first; and back, when it is gone. Rules of others that say
 * no such thing stay where they are in relation to ours, since somebody chose their places. */
#include <errno.h>
#include <netlink/attr.h>
#include "base/mem.h"
#include "os/netlink_priv.h"

enum { FRONT = 16 }; /* priorities that are left to those who come later */

/* The kernel tells of both also where they are not set: as -1 then. */
static bool suppresses_nothing(int attribute, const struct nlattr *a)
{
	return (attribute == FRA_SUPPRESS_PREFIXLEN || attribute == FRA_SUPPRESS_IFGROUP) &&
		netlink_get_u32(a, 0) == UINT32_MAX;
}

bool netlink_rule_takes(uint32_t packets, const struct fib_rule_hdr *f, struct nlattr **a)
{
	static const int narrows[] = {FRA_SRC, FRA_DST, FRA_IIFNAME, FRA_OIFNAME, FRA_L3MDEV,
		FRA_UID_RANGE, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE,
		FRA_SUPPRESS_PREFIXLEN, FRA_SUPPRESS_IFGROUP};
	uint32_t table = netlink_get_u32(a[FRA_TABLE], f->table);
	uint32_t mark = netlink_get_u32(a[FRA_FWMARK], 0);
	uint32_t mask = netlink_get_u32(a[FRA_FWMASK], a[FRA_FWMARK] ? UINT32_MAX : 0);
	bool fits = (packets & mask) == mark;

	if (f->action == FR_ACT_GOTO || f->action == FR_ACT_NOP || f->tos ||
		(f->action == FR_ACT_TO_TBL && (table == RT_TABLE_MAIN || table == RT_TABLE_LOCAL)))
		return false;
	for (size_t i = 0; i < sizeof(narrows) / sizeof(*narrows); i++)
		if (a[narrows[i]] && !suppresses_nothing(narrows[i], a[narrows[i]]))
			return false;
	return f->flags & FIB_RULE_INVERT ? !fits : fits;
}

const struct kernel_rule *netlink_marked(const struct kernel_state *want, int family)
{
	for (size_t i = 0; i < want->rule_count; i++)
		if (want->rule[i].mask && netlink_family(want->rule[i].family) == family)
			return &want->rule[i];
	return NULL;
}

int netlink_others_add(struct netlink_others *o, const struct kernel_state *want,
	const struct fib_rule_hdr *f, struct nlattr **a)
{
	const struct kernel_rule *k = netlink_marked(want, f->family);
	struct netlink_other *grown = w_realloc(o->v, (o->n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[o->n++] = (struct netlink_other){.priority = netlink_get_u32(a[FRA_PRIORITY], 0),
		.takes_all = k && f->action == FR_ACT_TO_TBL && f->flags & FIB_RULE_INVERT &&
			a[FRA_FWMARK] && netlink_rule_takes(k->mark, f, a)};
	o->v = grown;
	return 0;
}

/* The lowest of their priorities from first to last; takes_all: of those alone. 0: none. */
static uint32_t others_first(const struct netlink_others *o, uint32_t first, uint32_t last,
	bool takes_all)
{
	uint32_t lowest = 0;

	for (size_t i = 0; i < o->n; i++)
		if (o->v[i].priority >= first && o->v[i].priority <= last &&
			(!takes_all || o->v[i].takes_all) && (!lowest || o->v[i].priority < lowest))
			lowest = o->v[i].priority;
	return lowest;
}

uint32_t netlink_rules_shift(const struct os_netlink *n, const struct netlink_others *o)
{
	const uint32_t room = n->last_priority - n->first_priority + 1;
	uint32_t front = others_first(o, 1, n->last_priority, true);
	uint32_t in_way = front;

	/* A place in front of it where all of ours stand without another among them. */
	while (in_way >= FRONT + room) {
		front = in_way - room;
		in_way = others_first(o, front, front + room - 1, false);
		if (!in_way)
			return n->first_priority - front;
	}
	return 0;
}
