/* Policies: which packet is steered how, by source and destination prefix. Of the rules that match,
 * the one with the longest destination wins, then the longest source, then the first in the file. A
 * set of rules is immutable once built and may be read by any thread. What a rule's steering is,
 * stands in a table of the caller's. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"

enum { POLICY_NAME = 64, POLICY_RULES_MAX = 1 << 20 };

struct policy_rule {
	char name[POLICY_NAME];
	/* Family IP_NONE: any. With both unset the rule is for IPv4 and IPv6; with one set, for its
	 * family. */
	struct prefix source, destination;
	uint32_t steer; /* the caller's: an index of its steerings */
};

struct policy;

/* Builds a set of n rules (copied) in file order. 0; -EINVAL for a rule of two families or with
 * host bits set; -ENOMEM, also for more than POLICY_RULES_MAX rules. */
int policy_build(const struct policy_rule *rule, size_t n, struct policy **ret);
void policy_free(struct policy *p);
/* Rules, in file order. */
size_t policy_count(const struct policy *p);
const struct policy_rule *policy_rule_at(const struct policy *p, size_t i);
/* The rule for a packet; NULL when none matches. No allocation. */
const struct policy_rule *policy_find(const struct policy *p, const struct ipaddr *destination,
	const struct ipaddr *source);
