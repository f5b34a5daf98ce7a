/* What the parts of os/netlink.h share. */
#pragma once
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include "os/netlink.h"

/* One list of numbers that were ever asked for. */
struct netlink_set {
	uint32_t *v;
	size_t n;
};

struct os_netlink {
	struct nl_sock *sock;
	char *netns;
	uint32_t ifindex;       /* of the TUN; 0: not looked up yet */
	bool bound;             /* it is that device, whatever its name became */
	char name[KERNEL_NAME]; /* that it was to have, and its MTU, last */
	uint32_t mtu;
	uint8_t protocol;          /* of what is ours; 0: nothing was applied */
	struct netlink_set tables; /* where our routes may be */
	struct netlink_set priorities;
	uint32_t first_priority, last_priority; /* of the last state */
	uint32_t span;                          /* how many priorities rules may take, at most */
	uint32_t shift;         /* our rules stand so far in front of that: see rule_place.c */
	uint32_t mark, mask;    /* of the tunnels' own packets; mask 0: none */
	uint32_t range, ranged; /* and in so many tables from this one on */
	struct kernel_address *added; /* addresses that we put on the TUN */
	size_t added_count;
	struct netlink_routes *applied; /* see netlink_route.c; NULL: none */
	uint32_t changes;               /* made by the last apply */
};

/* Names a failed step: "what: text" as a line. Returns r. */
int netlink_failed(struct buf *errors, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The first error of two. */
static inline int netlink_first(int a, int b)
{
	return a < 0 ? a : b;
}

/* A message with its fixed header (copied). NULL without memory. */
struct nl_msg *netlink_message(int type, int flags, const void *header, size_t n);
/* Sends a message (gets owned; NULL: -ENOMEM), takes the replies. 0 or the kernel's negative errno.
 */
typedef int netlink_each(void *ctx, struct nlmsghdr *h);
int netlink_request(struct os_netlink *n, struct nl_msg *m, netlink_each *each, void *ctx);
bool netlink_set_has(const struct netlink_set *s, uint32_t v);
int netlink_set_add(struct netlink_set *s, uint32_t v);
bool netlink_table_is_ours(const struct os_netlink *n, uint32_t table);
/* Adds an address attribute of its length. */
int netlink_put_ip(struct nl_msg *m, int attribute, const struct ipaddr *a);
/* Whether it is a message of this type with its whole header. */
bool netlink_is(const struct nlmsghdr *h, int type, size_t header);
/* What is in an attribute of exactly that size; `otherwise` when it has another, or there is none.
 */
uint32_t netlink_get_u32(const struct nlattr *a, uint32_t otherwise);
uint8_t netlink_get_u8(const struct nlattr *a, uint8_t otherwise);
/* An address attribute; IP_NONE when it is none of that family. */
struct ipaddr netlink_get_ip(const struct nlattr *a, int family);

static inline int netlink_family(enum ip_family f)
{
	return f == IP4 ? AF_INET : AF_INET6;
}

int netlink_link_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors);
int netlink_address_apply(struct os_netlink *n, const struct kernel_state *want,
	struct buf *errors);
/* Stale rules are removed, those that only move to another priority aside; with add, those too,
 * after what is missing was made. */
int netlink_rule_apply(struct os_netlink *n, const struct kernel_state *want, bool add,
	struct buf *errors);

/* A rule of another program. */
struct netlink_other {
	uint32_t priority;
	bool takes_all; /* all packets but those of one mark, the mesh's own too (rule_place.c) */
};

struct netlink_others {
	struct netlink_other *v; /* owned */
	size_t n;
};

/* Adds one, of attributes a. 0 or -ENOMEM. */
int netlink_others_add(struct netlink_others *o, const struct kernel_state *want,
	const struct fib_rule_hdr *f, struct nlattr **a);
/* By how much the priorities of our rules must be lower than the state's, so that no rule that
 * takes all stands before them; 0 also when there is no room. */
uint32_t netlink_rules_shift(const struct os_netlink *n, const struct netlink_others *o);
/* Whether packets that are marked so fall under the rule, whatever else they are like, and would
 * not go by the main table then. */
bool netlink_rule_takes(uint32_t mark, const struct fib_rule_hdr *f, struct nlattr **a);

/* Whether packets with the one mark (bits of the mask) are taken for those of the other. */
static inline bool netlink_marks_overlap(uint32_t mark, uint32_t mask, uint32_t other,
	uint32_t other_mask)
{
	return mark && other && ((other & mask) == mark || (mark & other_mask) == other);
}

/* The rule of the state that marked packets go by; NULL: none. */
const struct kernel_rule *netlink_marked(const struct kernel_state *want, int family);

int netlink_route_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors);
/* What the namespace is connected to by other interfaces than the TUN; *ret gets owned, to be freed
 * with w_free(). 0 or a negative errno. */
int netlink_networks(struct os_netlink *n, struct prefix **ret, size_t *ret_n);
/* The prefix of a route's attribute (NULL: zeros). */
struct prefix netlink_get_prefix(const struct nlattr *a, int family, uint8_t len);
void netlink_routes_free(struct netlink_routes *r);
