/* ICMP (RFC 792, RFC 1812 4.3) and ICMPv6 (RFC 4443): the errors of a router, and echo. Whole IP
 * packets are built. Not here: rate limits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/cur.h"
#include "wire/ip.h"

enum icmp_error_type {
	ICMP_TIME_EXCEEDED,     /* hop limit: v4 11/0, v6 3/0 */
	ICMP_NO_ROUTE,          /* v4 3/0, v6 1/0 */
	ICMP_HOST_UNREACHABLE,  /* v4 3/1, v6 1/3 */
	ICMP_ADMIN_PROHIBITED,  /* v4 3/13, v6 1/1 */
	ICMP_PACKET_TOO_BIG,    /* v4 3/4 (RFC 1191), v6 2/0 */
	ICMP_PARAMETER_PROBLEM, /* v4 12/0, v6 4/code */
};

enum {
	ICMP_ERROR_MAX = IP6_MTU_MIN, /* an error is never longer: RFC 4443 2.4 (c) */
	ICMP4_ERROR_MAX = 576,        /* RFC 1812 4.3.2.3 */
};

struct icmp_error {
	enum icmp_error_type type;
	struct view packet;          /* what it is about, an IP packet; its family is the error's */
	const struct ip_view *about; /* as ip_parse() has it */
	const struct ipaddr *source; /* of the error, of the same family */
	uint32_t mtu;                /* PACKET_TOO_BIG */
	uint32_t pointer;            /* PARAMETER_PROBLEM */
	uint8_t code;                /* PARAMETER_PROBLEM, IPv6: RFC 4443 3.4, RFC 8986 10.5 */
};

/* True when an error about the packet may be sent: RFC 4443 2.4 (e), RFC 1812 4.3.2.7. */
bool icmp_error_allowed(const struct icmp_error *e);
/* Builds the error, quoting as much of the packet as fits, in cap bytes (ICMP_ERROR_MAX are
 * enough). 0 and the length; -EPERM when it may not be sent, -EINVAL for a source of another
 * family, -ENOSPC. */
int icmp_error_build(const struct icmp_error *e, uint8_t *out, size_t cap, size_t *ret_len);

struct icmp_echo {
	struct ipaddr src, dst; /* of one family */
	bool reply;
	uint8_t ttl; /* or hop limit */
	uint16_t id, seq;
	struct view data; /* borrowed */
	uint32_t pad;     /* build: zero bytes behind the data */
};

/* Builds an echo request or reply. 0 and the length; -EINVAL, -ENOSPC. */
int icmp_echo_build(const struct icmp_echo *e, uint8_t *out, size_t cap, size_t *ret_len);
/* Reads an echo request or reply; data points into the packet. -EBADMSG when it is none, a
 * fragment, or the checksum is wrong. */
int icmp_echo_parse(struct view packet, const struct ip_view *v, struct icmp_echo *ret);

/* ICMP or ICMPv6 errors as they come in. */
struct icmp_told {
	enum icmp_error_type type; /* of an unreachable: as near as there is one */
	struct view quote;         /* the packet it is about, the end may be missing; borrowed */
};

/* Reads an error. -EBADMSG when it is none, a fragment, or the checksum is wrong. */
int icmp_error_parse(struct view packet, const struct ip_view *v, struct icmp_told *ret);

/* Reads what an error quotes, when that is an echo request without IP options: data is as much as
 * was quoted, its checksum field as it stands there (it cannot be checked). -EBADMSG: it is
 * something else. */
int icmp_echo_quoted(struct view quote, struct icmp_echo *ret, uint16_t *ret_checksum);
