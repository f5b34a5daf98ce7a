/* What goes to and comes from a TUN device: an IP packet, or a superpacket that stands for many
 * (TSO/USO), described as by a virtio-net header; and datagrams from and to UDP sockets. Plain
 * descriptions of memory that somebody else owns. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/time.h"

enum gso_type { GSO_NONE, GSO_TCP4, GSO_TCP6, GSO_UDP4, GSO_UDP6 };

/* Offload facts of one frame, as the virtio-net header has them (host order). All zero: a plain
 * packet with complete checksums. */
struct gso {
	uint8_t type;         /* enum gso_type */
	bool needs_csum;      /* the checksum field holds the pseudo-header sum only */
	bool ecn;             /* TSO_ECN: CWR on the first segment only */
	uint16_t size;        /* payload bytes a segment */
	uint16_t hdr_len;     /* IP and transport header bytes (a hint: never trusted unchecked) */
	uint16_t csum_start;  /* from the start of the packet */
	uint16_t csum_offset; /* from csum_start */
};

/* One frame read from the TUN; data may be changed in place by the reader's callee. */
struct tun_rx {
	uint8_t *data;
	uint32_t len;
	struct gso gso;
	bool bulk; /* it was in the queue for bulk (os/net.h) */
};

struct wire_iov {
	const uint8_t *p;
	uint32_t n;
};

enum { TUN_IOV_MAX = 66 };

/* One frame to write to the TUN: pieces in order. The memory stays valid until the caller that
 * produced the frame is entered again. */
struct tun_tx {
	struct gso gso;
	uint16_t iov_count;
	uint32_t len; /* sum of the pieces */
	uint16_t segments;
	bool bulk;  /* of a flow of which much is read: for the queue for bulk (os/net.h) */
	bool moved; /* the flow's frames wait in the other queue: to be read before this one's */
	struct wire_iov iov[TUN_IOV_MAX];
};

/* One receive buffer from a UDP socket: one datagram, or several of seg_size bytes (the last may be
 * shorter) when UDP_GRO joined them. All of them share what is said here. */
struct udp_rx {
	uint8_t *data;
	uint32_t len;
	uint32_t seg_size; /* 0: one datagram */
	bool truncated;
	uint8_t tos;            /* DSCP and ECN of the outer header */
	uint16_t socket;        /* index of the socket it came from */
	struct endpoint remote; /* where it came from */
	struct endpoint local;  /* the address it was sent to (PKTINFO), and our port */
	uint32_t ifindex;       /* the interface it came in by */
	wtime time;             /* when it was read */
};

/* One send: segments of seg_size bytes (the last may be shorter) by UDP_SEGMENT, or one by one. */
struct udp_tx {
	const uint8_t *data;
	uint32_t len;
	uint32_t seg_size; /* 0 or len: one datagram */
	uint8_t tos;
	bool whole; /* never fragmented, and whatever the kernel knows of the path: one datagram */
	uint16_t socket;
	uint16_t segments;
	uint32_t link; /* slot it is counted against */
	struct endpoint remote;
	struct endpoint local; /* source to pin; ip IP_NONE: the kernel's choice */
};
