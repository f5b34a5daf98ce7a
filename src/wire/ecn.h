/* ECN over tunnels: RFC 6040, normal mode. Of DSCPs RFC 2983's pipe model: the outer one is set, or
 * copied, where the tunnel begins, and dropped where it ends; the inner one is never changed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/drop.h"

enum ecn { ECN_NOT_ECT = 0, ECN_ECT1 = 1, ECN_ECT0 = 2, ECN_CE = 3, ECN_MASK = 3 };

enum { DSCP_SHIFT = 2 }; /* in the TOS byte, RFC 2474 3 */

/* Outer TOS byte for an inner one (RFC 6040 4.1: ECN is copied): DSCP copied, or 0. */
static inline uint8_t ecn_encapsulate(uint8_t inner_tos, bool copy_dscp)
{
	return copy_dscp ? inner_tos : inner_tos & ECN_MASK;
}

/* Brings the ECN field of an outer TOS byte into the inner packet (RFC 6040 4.2, figure 4), whose
 * IPv4 header checksum is mended. The packet must have passed ip_parse(). DROP_NONE, or DROP_ECN
 * and nothing changed: the path was congested, and the inner transport would not understand. */
enum drop_reason ecn_decapsulate(uint8_t outer_tos, uint8_t *packet);
