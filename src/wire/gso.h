/* Superpackets from the TUN (TCP segmentation offload, UDP segmentation offload) cut into the
 * packets they stand for, each written straight to where it is to be sealed; and checksums that the
 * kernel left to be completed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/drop.h"
#include "wire/frame.h"
#include "wire/ip.h"

enum {
	GSO_HEADER_MAX = 256,    /* IP and transport header bytes of a superpacket */
	GSO_SEGMENTS_MAX = 2048, /* more is no honest superpacket */
};

/* A frame ready to be cut. Callers read segments, seg_len, last_len and view. */
struct gso_split {
	uint32_t segments;   /* 1 for a plain packet */
	uint32_t seg_len;    /* bytes of every packet but the last */
	uint32_t last_len;   /* bytes of the last packet (of the only one) */
	struct ip_view view; /* of the frame as it came; len is the superpacket's */

	/* private */
	const uint8_t *packet;
	uint8_t type;  /* enum gso_type */
	bool no_csum;  /* UDP over IPv4 without checksum: stays so */
	bool complete; /* plain packet: the checksum is to be completed */
	uint16_t csum_at, csum_start;
	uint32_t header_len; /* IP and transport header */
	uint32_t size;       /* payload bytes of every packet but the last */
	uint32_t seq;        /* TCP */
	uint64_t ip_sum;     /* IPv4 header without length, ID and checksum */
	uint64_t l4_sum; /* pseudo-header and transport header without what differs by segment */
	uint8_t header[GSO_HEADER_MAX];
};

/* Checks a frame whose offload header may say anything: lengths are taken from the packet itself,
 * and what the offload header says has to fit. DROP_NONE and the view of its IP header,
 * DROP_BAD_IP, or DROP_BAD_OFFLOAD. */
enum drop_reason gso_check(const struct tun_rx *f, struct ip_view *ret);

/* Checks the frame and readies it. The frame's data is borrowed until the last write, and must not
 * change any more (TTL and ECN are to be set before). Reasons as gso_check(). */
enum drop_reason gso_split_init(const struct tun_rx *f, struct gso_split *ret);

/* Writes packet i (0 … segments - 1) to dst (room for seg_len bytes or last_len; must not overlap
 * the frame), complete with checksums, and returns its length. Any order, any number of times. */
uint32_t gso_split_write(const struct gso_split *s, uint32_t i, uint8_t *dst);

/* Completes the checksum of a plain packet (type GSO_NONE) where it stands, when needs_csum asks
 * for it, and clears needs_csum. Reasons as gso_check(). */
enum drop_reason gso_complete(struct tun_rx *f);
