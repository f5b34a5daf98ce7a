/* Addresses, prefixes and UDP endpoints, IPv4 and IPv6, with their texts. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ip_family { IP_NONE = 0, IP4 = 4, IP6 = 6 };

/* Bytes in network order; an IPv4 address fills b[0..3], the rest is zero. family IP_NONE: unset.
 */
struct ipaddr {
	uint8_t family; /* enum ip_family */
	uint8_t b[16];
};

/* The host bits are always zero (prefix_parse refuses others). */
struct prefix {
	struct ipaddr addr;
	uint8_t len;
};

struct endpoint {
	struct ipaddr ip;
	uint16_t port;  /* host order */
	uint32_t scope; /* interface index of a link-local address, else 0 */
};

enum { ADDR_TEXT = 48, PREFIX_TEXT = 52, ENDPOINT_TEXT = 72 };

/* Parses "192.0.2.1" or "2001:db8::1" whole (no zone, no brackets). 0 or -EINVAL. */
int ipaddr_parse(const char *s, struct ipaddr *ret);
/* Writes the text (RFC 5952) to out and returns out; "-" for IP_NONE. */
const char *ipaddr_format(const struct ipaddr *a, char out[static ADDR_TEXT]);
bool ipaddr_equal(const struct ipaddr *a, const struct ipaddr *b);
/* Total order: family, then bytes; negative, 0, positive. */
int ipaddr_compare(const struct ipaddr *a, const struct ipaddr *b);
/* Makes an address from 4 (IP4) or 16 (IP6) bytes. */
struct ipaddr ipaddr_from(enum ip_family family, const void *bytes);
/* Address length in bits: 32 or 128; 0 for IP_NONE. */
unsigned int ipaddr_bits(const struct ipaddr *a);
bool ipaddr_is_link_local(const struct ipaddr *a); /* 169.254/16, fe80::/10 */
bool ipaddr_is_multicast(const struct ipaddr *a);
bool ipaddr_is_loopback(const struct ipaddr *a);
bool ipaddr_is_unspecified(const struct ipaddr *a);

/* Parses "10.0.0.0/8"; a bare address is a host prefix. -EINVAL when it is no prefix, -ERANGE when
 * host bits are set. */
int prefix_parse(const char *s, struct prefix *ret);
const char *prefix_format(const struct prefix *p, char out[static PREFIX_TEXT]);
bool prefix_equal(const struct prefix *a, const struct prefix *b);
int prefix_compare(const struct prefix *a, const struct prefix *b);
bool prefix_contains(const struct prefix *p, const struct ipaddr *a);
/* True when q lies wholly in p (equal counts). */
bool prefix_covers(const struct prefix *p, const struct prefix *q);
/* The prefix of a whose length is len (host bits cleared; len is capped at the address's bits). */
struct prefix prefix_of(const struct ipaddr *a, unsigned int len);

/* "192.0.2.1:13000", "[2001:db8::1]:13000". */
const char *endpoint_format(const struct endpoint *e, char out[static ENDPOINT_TEXT]);
bool endpoint_equal(const struct endpoint *a, const struct endpoint *b);
