/* The kernel state that a node wants: what the TUN looks like, and the routes and rules that are
 * ours. A plain description: node/ writes it, os/ makes it so and takes it back. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"

enum { KERNEL_NAME = 16 };

/* A route through the TUN, or an unreachable one when `unreachable`. */
struct kernel_route {
	struct prefix destination;
	struct prefix source; /* IPv6 source-specific; length 0: any */
	struct ipaddr prefer; /* preferred source address; IP_NONE: none */
	uint32_t table;
	uint32_t metric; /* 0: the kernel's default */
	bool unreachable;
};

/* A policy rule, `ip rule` form, for one family. Of packets that come in by an interface, and from
 * and to prefixes, when these are set. */
struct kernel_rule {
	enum ip_family family;
	uint32_t priority;
	uint32_t mark, mask;               /* mask 0: any packet */
	struct prefix source, destination; /* length 0: any */
	char in[KERNEL_NAME];              /* "": any */
	uint32_t table;
	int suppress_prefixlength; /* -1: not set */
};

struct kernel_address {
	struct ipaddr ip;
	uint8_t len;
};

struct kernel_state {
	char tun[KERNEL_NAME];
	uint16_t mtu;
	uint8_t protocol;         /* rtm_protocol of everything that is ours */
	struct ipaddr link_local; /* the TUN's one stable IPv6 link-local address */
	const struct kernel_address *address;
	size_t address_count;
	const struct kernel_route *route;
	size_t route_count;
	const struct kernel_rule *rule;
	size_t rule_count;
	/* These priorities, the first and how many, are ours, also when nothing stands there now.
	 */
	uint32_t rule_priority, rule_priorities;
	/* Nobody is locked out of a LAN: in this table, each connected network of another interface
	 * that lies inside one of the routes gets a `throw` route, so that the look-up goes on to
	 * the rule behind; a route equal to a connected network is left out and reported. 0: no
	 * such table. */
	uint32_t protect_table;
	uint32_t policy_table; /* ours too, also when nothing is in it; 0: none */
	/* What comes out of the TUN and leaves by another interface bears that one's address from
	 * there on, but to `keep`: networks that know the mesh. */
	bool masquerade;
	const struct prefix *keep;
	size_t keep_count;
	/* Packets out of the TUN are to be forwarded, in these families. */
	bool forward4, forward6;
};
