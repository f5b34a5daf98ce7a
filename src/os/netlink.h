/* Makes the kernel's state what a node wants it to be, and takes it back: the TUN's link,
 * addresses, routes and rules. Only what carries our protocol number, in the tables and at the
 * priorities that were asked for, is ever changed or removed; what is there already stays
 * untouched. */
#pragma once
#include "base/buf.h"
#include "os/loop.h"
#include "wire/kernel.h"

struct os_netlink;

/* netns: where the TUN is; NULL: ours. 0 or a negative errno with a line in error. */
int os_netlink_open(const char *netns, struct os_netlink **ret, struct buf *error);
/* Closes; changes nothing in the kernel. NULL is fine. */
void os_netlink_close(struct os_netlink *n);

/* Applies the state as a difference against what the kernel has, leftovers of a killed predecessor
 * included. The TUN must exist (-ENODEV when one that is bound does not). What another program put
 * in the place of a route that an earlier apply() made is replaced. Goes on after a failure; 0 or
 * the first negative errno, and a line (ended by \n) in errors for each; also for a route that is
 * left out because it is a network of the host itself, which is no failure. */
int os_netlink_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors);
/* The TUN is this device from now on, whatever name it has: one that was renamed gets the name of
 * the state back. Without it apply() finds the device by its name. */
void os_netlink_bind(struct os_netlink *n, uint32_t ifindex);
/* How many things the last apply() changed in the kernel. Rules that only moved do not count. */
uint32_t os_netlink_changes(const struct os_netlink *n);
/* Where the first of our rules stands since the last apply(): where the state says, or before that,
 * when all of them had to go in front of a rule of another program that takes all packets which do
 * not bear its own mark. */
uint32_t os_netlink_priority(const struct os_netlink *n);
/* Takes back everything that apply() made, by the marks that it bears. As apply(). */
int os_netlink_withdraw(struct os_netlink *n, struct buf *errors);

/* Calls fn when another program put a rule before or among ours, or took it back there, or took
 * away or replaced something that was applied: a rule or a route of ours, an address of the TUN,
 * its name, its MTU or its being up, the TUN itself (or when events were lost, so that it may
 * have). n (borrowed) must have been applied once, and outlives the watch. 0 or a negative errno.
 */
struct os_kernel_watch;
int os_kernel_watch_new(struct os_loop *l, const struct os_netlink *n, void (*fn)(void *ctx),
	void *ctx, struct os_kernel_watch **ret);
/* After an apply() with other tables or another TUN: watches these. 0 or a negative errno. */
int os_kernel_watch_update(struct os_kernel_watch *w);
void os_kernel_watch_free(struct os_kernel_watch *w);

/* Where a datagram would go. n may be one of the underlay's namespace to which nothing was ever
 * applied. 0; -ENETUNREACH and the like: nowhere; or another negative errno. */
struct os_path_ask {
	struct ipaddr remote;
	uint32_t mark;    /* of the socket; 0: none */
	uint32_t ifindex; /* that the socket is bound to; 0: any */
};
struct os_path {
	uint32_t ifindex;
	uint32_t mtu;     /* of the interface, or what the route is set to */
	uint32_t learned; /* what an ICMP message made of it for now; 0: nothing */
	char interface[KERNEL_NAME];
};
int os_netlink_path(struct os_netlink *n, const struct os_path_ask *ask, struct os_path *ret);

/* Reads what the host has beside us; to be freed. n has been applied or bound: what leads into the
 * TUN is left out. 0 or a negative errno. */
int os_host_read(struct os_netlink *n, const struct kernel_pick *pick, size_t picks,
	struct kernel_host *ret);
/* Frees what os_host_read() put there. */
void os_host_free(struct kernel_host *h);

/* Calls fn soon after routes or interfaces of the namespace changed, and then not more than once a
 * second. */
struct os_route_watch;
int os_route_watch_new(struct os_loop *l, const char *netns, void (*fn)(void *ctx), void *ctx,
	struct os_route_watch **ret);
/* From now on only for interfaces, and for routes that os_host_read() with these would read. 0 or a
 * negative errno. */
int os_route_watch_pick(struct os_route_watch *w, const struct kernel_pick *pick, size_t picks);
void os_route_watch_free(struct os_route_watch *w);

/* The numbers and addresses that interfaces of these names have now; those that are not there are
 * left out. */
struct os_interfaces {
	uint32_t *ifindex;
	size_t ifindexes;
	struct ipaddr *address;
	size_t addresses;
};
/* 0 or a negative errno. */
int os_interfaces_read(const char *netns, const char *const *name, size_t n,
	struct os_interfaces *ret);
/* A copy. 0 or -ENOMEM. */
int os_interfaces_copy(const struct os_interfaces *i, struct os_interfaces *ret);
/* Frees what is in it. */
void os_interfaces_free(struct os_interfaces *i);
bool os_interfaces_equal(const struct os_interfaces *a, const struct os_interfaces *b);
bool os_interfaces_have(const struct os_interfaces *i, uint32_t ifindex);
bool os_interfaces_have_address(const struct os_interfaces *i, const struct ipaddr *a);

/* Calls fn soon after local addresses of the namespace came or went (or when events were lost). */
struct os_address_watch;
int os_address_watch_new(struct os_loop *l, const char *netns, void (*fn)(void *ctx), void *ctx,
	struct os_address_watch **ret);
void os_address_watch_free(struct os_address_watch *w);

/* Says which rules of other programs stand among those of the state, or before them so that the
 * tunnels' own packets, which the state marks, go by them: a line each. The state has been applied.
 * 0 or a negative errno. */
int os_rules_check(struct os_netlink *n, const struct kernel_state *want, struct buf *warnings);

/* Says which chains of the namespace's firewall drop what is forwarded: a line each. 0 or a
 * negative errno; a kernel without nf_tables has none. */
int os_forward_check(const char *netns, struct buf *warnings);

/* Says where strict reverse path filtering of the namespace would drop answers because the state
 * routes the default into the TUN: a line for each interface, naming it and the sysctl. */
void os_reverse_path_check(const char *netns, const struct kernel_state *want,
	struct buf *warnings);
/* Says where the kernel does not forward what comes out of the TUN although the state needs it: a
 * line with the sysctl. Nothing is switched on. netns: the TUN's. */
void os_forwarding_check(const char *netns, const struct kernel_state *want, struct buf *warnings);
