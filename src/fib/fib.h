/* Forwarding table: longest destination prefix, then longest source prefix within it (RFC 9079
 * section 4), IPv4 and IPv6. A table is immutable once built and may be read by any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"

struct fib;

struct fib_entry {
	struct prefix destination;
	struct prefix source; /* length 0 (or family IP_NONE): any */
	uint32_t value;       /* the caller's: an index of a next hop */
};

/* Builds a table from n entries (copied, any order). 0; -EEXIST when two entries have the same
 * prefixes; -EINVAL for a mixed-family entry; -ENOMEM. */
int fib_build(const struct fib_entry *entry, size_t n, struct fib **ret);
void fib_free(struct fib *f);
size_t fib_count(const struct fib *f);

/* The value for a packet; false when no entry matches. Backtracks: a destination whose source
 * prefixes all miss falls to the next shorter destination. No allocation. */
bool fib_lookup(const struct fib *f, const struct ipaddr *destination, const struct ipaddr *source,
	uint32_t *ret_value);
