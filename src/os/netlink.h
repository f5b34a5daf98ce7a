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
 * included. The TUN must exist. Goes on after a failure; 0 or the first negative errno, and a line
 * (ended by \n) in errors for each; also for a route that is left out because it is a network of
 * the host itself, which is no failure. */
int os_netlink_apply(struct os_netlink *n, const struct kernel_state *want, struct buf *errors);
/* Takes back everything that apply() made, by the marks that it bears. As apply(). */
int os_netlink_withdraw(struct os_netlink *n, struct buf *errors);

/* Calls fn when another program took away something that was applied: a rule or a route of ours, an
 * address of the TUN, or its being up (or when events were lost, so that it may have). n (borrowed)
 * must have been applied once, and outlives the watch. 0 or a negative errno. */
struct os_kernel_watch;
int os_kernel_watch_new(struct os_loop *l, const struct os_netlink *n, void (*fn)(void *ctx),
	void *ctx, struct os_kernel_watch **ret);
void os_kernel_watch_free(struct os_kernel_watch *w);

/* Calls fn soon after local addresses of the namespace came or went (or when events were lost). */
struct os_address_watch;
int os_address_watch_new(struct os_loop *l, const char *netns, void (*fn)(void *ctx), void *ctx,
	struct os_address_watch **ret);
void os_address_watch_free(struct os_address_watch *w);

/* Says where strict reverse path filtering of the namespace would drop answers because the state
 * routes the default into the TUN: a line for each interface, naming it and the sysctl. */
void os_reverse_path_check(const char *netns, const struct kernel_state *want,
	struct buf *warnings);
