/* Inside policy: a look-up whose cost does not grow with the number of rules. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "fib/fib.h"

struct tuple_table;

/* Builds a table from n entries of one family without duplicates. 0 and *ret, which is NULL when
 * there are so many pairs of prefix lengths that a walk over them would not pay; -ENOMEM. */
int tuple_build(const struct fib_entry *entry, size_t n, struct tuple_table **ret);
void tuple_free(struct tuple_table *t);
/* The value of the entry with the longest destination, then the longest source; false: none. */
bool tuple_find(const struct tuple_table *t, const struct ipaddr *destination,
	const struct ipaddr *source, uint32_t *ret);
