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
	/* Nobody is locked out of a LAN: each connected network of another interface that lies
	 * inside the route gets a `throw` route beside it, so that the look-up goes on to the rule
	 * behind; and a route equal to a connected network is left out and reported, */
	bool protect;
	bool over; /* unless it is wanted in spite of that */
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

/* The routes of a protocol in a table. */
struct kernel_pick {
	uint32_t table;
	uint8_t protocol;
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
	/* Ours too, also when nothing is in them: a table (0: none), and as many from another one
	 * on, a power of two that the first is a multiple of (0: none). */
	uint32_t policy_table, source_table, source_tables;
	const struct kernel_pick *pick; /* routes of the host's own to tell the node of */
	size_t pick_count;
	/* What comes out of the TUN and leaves by another interface bears that one's address from
	 * there on, but to `keep`: networks that know the mesh. */
	bool masquerade;
	const struct prefix *keep;
	size_t keep_count;
	/* Packets out of the TUN are to be forwarded, in these families. */
	bool forward4, forward6;
};

struct kernel_picked {
	struct prefix destination, source;
	struct kernel_pick from;
};

/* What the host has beside us: the networks that it is connected to by other interfaces, and what
 * was picked. */
struct kernel_host {
	const struct prefix *network;
	size_t network_count;
	const struct kernel_picked *route;
	size_t route_count;
};
