/* The kernel's nftables, looked at: whether the rules of an exit (os/runner.h sets them up) are
 * there, and when something may have taken them away. Changes nothing. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "os/loop.h"

/* The number of rules that an exit has, with so many prefixes that are kept. */
size_t os_masquerade_rules(size_t keeps);

struct os_nft;

/* Looks after the rules for a TUN in a namespace (NULL: ours). fn (NULL: nobody; then the loop may
 * be NULL too) is called when a table, chain or rule of anybody was deleted, or events were lost. 0
 * or a negative errno; -EPROTONOSUPPORT and the like: the kernel has no nftables. */
struct os_nft_config {
	const char *netns, *tun;
	void (*fn)(void *ctx);
	void *ctx;
};
int os_nft_new(struct os_loop *l, const struct os_nft_config *c, struct os_nft **ret);
void os_nft_free(struct os_nft *n);

/* The number of rules in the table; 0 without one. Or a negative errno. */
long os_nft_rules(const struct os_nft *n);
