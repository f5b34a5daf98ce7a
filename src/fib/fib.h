/* Forwarding table: longest destination prefix, then longest source prefix within it (RFC 9079
 * section 4), IPv4 and IPv6. Prefixes have values that are the caller's: indexes of next-hop
 * groups, so that what a group stands for may change without a prefix being touched.
 *
 * A table is a tree that shares what it has in common with its copies: a copy costs nothing, and a
 * change of the one then copies the few nodes on the way to the changed prefix. What is published
 * is a copy that nobody changes any more; any thread may look up in it, while the owner goes on
 * changing another. Copying, changing and freeing of tables that share nodes belong to one thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"

struct fib;

struct fib_entry {
	struct prefix destination;
	struct prefix source; /* length 0 (or family IP_NONE): any */
	uint32_t value;       /* the caller's: an index of a next-hop group */
};

/* Makes an empty table. 0 or -ENOMEM. */
int fib_new(struct fib **ret);
/* Builds a table from n entries (copied, any order). 0; -EEXIST when two entries have the same
 * prefixes; -EINVAL for a mixed-family entry or host bits that are set; -ENOMEM. */
int fib_build(const struct fib_entry *entry, size_t n, struct fib **ret);
/* Makes a table with the same entries that shares everything with f, in constant time; what is
 * changed in the one is not seen in the other. f itself stays as it is. 0 or -ENOMEM. */
int fib_copy(const struct fib *f, struct fib **ret);
/* Frees the table and what no copy shares. NULL is fine. */
void fib_free(struct fib *f);

/* Puts an entry in, or gives the one with these prefixes another value. 0; -EINVAL as fib_build();
 * -ENOMEM, then nothing has changed. */
int fib_set(struct fib *f, const struct fib_entry *e);
/* Takes the entry with these prefixes out (its value is not looked at). 0; -ENOENT; -EINVAL;
 * -ENOMEM, then nothing has changed. */
int fib_remove(struct fib *f, const struct fib_entry *e);

/* Entries. */
size_t fib_count(const struct fib *f);
/* The value of exactly these prefixes; false when there is none. No allocation. */
bool fib_find(const struct fib *f, const struct prefix *destination, const struct prefix *source,
	uint32_t *ret_value);
/* The value for a packet; false when no entry matches. Backtracks: a destination whose source
 * prefixes all miss falls to the next shorter destination. No allocation. */
bool fib_lookup(const struct fib *f, const struct ipaddr *destination, const struct ipaddr *source,
	uint32_t *ret_value);
