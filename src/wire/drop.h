/* Every reason for which the data path drops a packet: one list makes the enum, the names that
 * `weft drops` and the metrics show, and the counters. */
#pragma once
#include <stdint.h>

#define WIRE_DROPS(X)                                                                              \
	/* from the underlay */                                                                    \
	X(RUNT, "runt")                             /* shorter than any ESP or IKE header */       \
	X(TRUNCATED, "truncated")                   /* the kernel cut the datagram */              \
	X(EXCLUDED_INTERFACE, "excluded-interface") /* came by one that may not be used */         \
	X(UNKNOWN_SPI, "unknown-spi")                                                              \
	X(REPLAY_OLD, "replay-old") /* left of the window */                                       \
	X(REPLAY_DUPLICATE, "replay-duplicate")                                                    \
	X(NOT_AUTHENTIC, "not-authentic") /* ICV wrong */                                          \
	X(BAD_PADDING, "bad-padding")                                                              \
	X(BAD_NEXT_HEADER, "bad-next-header")                                                      \
	X(DUMMY, "esp-dummy")    /* RFC 4303 2.6: meant to be thrown away */                       \
	X(ECN, "ecn-ce-not-ect") /* RFC 6040 4.2 */                                                \
	/* to the underlay */                                                                      \
	X(NO_SA, "no-sa")                     /* the link has no outbound SA yet */                \
	X(HARD_LIMIT, "sa-hard-limit")        /* sequence numbers used up */                       \
	X(TX_ERROR, "tx-error")               /* the kernel refused a datagram */                  \
	X(TX_BACKPRESSURE, "tx-backpressure") /* no buffer: drop, never wait */                    \
	/* inner packets */                                                                        \
	X(BAD_IP, "bad-ip")           /* header or length wrong */                                 \
	X(BAD_OFFLOAD, "bad-offload") /* virtio header makes no sense */                           \
	X(MARTIAN, "martian")         /* source or destination may not be routed */                \
	X(OWN_SOURCE, "own-source")   /* our own address as source, from a peer */                 \
	X(LINK_LOCAL, "link-local")   /* link-local or UDP 6696, from the TUN */                   \
	X(MULTICAST, "multicast")                                                                  \
	X(LOOP, "loop") /* to an own or a peer's endpoint from the own TUN */                      \
	X(NO_ROUTE, "no-route")                                                                    \
	X(UNREACHABLE, "unreachable") /* the route says so */                                      \
	X(BLACKHOLE, "blackhole")                                                                  \
	X(LINK_DOWN, "link-down") /* the next hop's link is gone */                                \
	X(HOP_LIMIT, "hop-limit")                                                                  \
	X(TOO_BIG, "too-big")                                                                      \
	X(TRANSIT_REFUSED, "transit-refused") /* this node is no transit */                        \
	X(TUN_ERROR, "tun-error")             /* the kernel refused a packet */                    \
	X(AQM, "aqm")                         /* one segment, for a queue that stands */           \
	X(TUN_BACKPRESSURE, "tun-backpressure")                                                    \
	X(ICMP_LIMIT, "icmp-rate-limit") /* an error that was not sent */                          \
	/* segment routing and policies */                                                         \
	X(SRV6_FROM_TUN, "srv6-from-tun")     /* routing header, or to a SID, from the TUN */      \
	X(SRV6_SOURCE, "srv6-source")         /* to a SID, from outside the mesh */                \
	X(SRV6_MALFORMED, "srv6-malformed")   /* routing header makes no sense */                  \
	X(SRV6_UPPER, "srv6-upper-layer")     /* the SID takes no such payload */                  \
	X(SRV6_HMAC, "srv6-hmac")             /* refused by configuration */                       \
	X(SRV6_FRAGMENT, "srv6-fragment")     /* to be decapsulated, but not whole */              \
	X(SRV6_ERROR, "srv6-error")           /* about a steered packet: told to its source */     \
	X(EXIT_REFUSED, "exit-refused")       /* neither announced nor allowed */                  \
	X(POLICY_FALLBACK, "policy-fallback") /* no candidate left, the policy says drop */        \
	/* to the control thread */                                                                \
	X(PUNT_FULL, "punt-full")             /* ring full */                                      \
	X(PUNT_LIMIT, "punt-rate-limit")      /* unknown IKE beyond its token bucket */            \
	X(PUNT_UNEXPECTED, "punt-unexpected") /* link-local traffic nobody asked for */

enum drop_reason {
	DROP_NONE = -1,
#define X(id, name) DROP_##id,
	WIRE_DROPS(X)
#undef X
		DROP_COUNT
};

/* The name as shown, "?" for a number outside the list. */
const char *drop_name(enum drop_reason r);
