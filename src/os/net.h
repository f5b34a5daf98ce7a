/* TUN devices and UDP sockets behind one vtable with two back ends: `linux` (virtio-net header with
 * TSO and USO, many datagrams a call, UDP_SEGMENT, UDP_GRO) and `portable` (one packet a call).
 * Knows no protocol. An object belongs to one thread, but udp_send may be called by any.
 * Errors for people are one line without an end of line. All descriptors are close-on-exec. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/addr.h"
#include "base/buf.h"
#include "base/time.h"
#include "wire/frame.h"

struct iovec;

enum {
	OS_TUN_BUFFER = 66048, /* bytes that tun_read wants: a superpacket and its header */
	OS_UDP_BUFFER = 65536, /* bytes a receive buffer: never less, or UDP_GRO cuts data off */
	OS_UDP_SEGMENTS = 64,  /* datagrams that every kernel with UDP_SEGMENT takes at once */
	OS_TUN_QUEUE = 100,    /* txqueuelen when frames are superpackets of 64 KB */
	OS_TUN_QUEUE_PLAIN = 1000, /* when they are single packets */
	OS_TUN_TURN = 32768,       /* bytes, or one frame, before the other queue has its turn */
};

struct os_tun_config {
	const char *name;
	const char *netns; /* NULL: ours */
	bool many;         /* one of several queues of the device, each opened by itself; */
	bool further;      /* not the first of them: the device is this program's already */
	bool tso, uso;     /* offer them to the kernel, when it takes them */
	bool bulk_queue;   /* one for bulk beside it, with header and where the kernel can */
	/* How frames are written; NULL: writev(). Tests put their own here. */
	ssize_t (*writev)(void *ctx, int fd, const struct iovec *iov, int n);
	void *writev_ctx;
};

struct os_tun_facts {
	int fd;      /* to poll; stays the TUN's */
	int bulk_fd; /* of the queue for bulk, to be polled too; -1: there is none */
	uint32_t ifindex;
	bool header;               /* frames carry offload facts: merged ones may be written */
	bool tso, uso;             /* what the kernel took; may change by tun_offload() */
	bool merge_tcp, merge_udp; /* it knows merged frames of these */
};

struct os_udp_config {
	uint16_t index;        /* goes into udp_rx.socket */
	enum ip_family family; /* IP4 or IP6: a socket has one */
	struct ipaddr address; /* IP_NONE: any */
	uint16_t port;         /* 0: any free one */
	const char *interface; /* NULL: any */
	const char *netns;     /* NULL: ours */
	uint32_t mark;         /* 0: none */
	/* One of so many sockets with all the above the same, opened one after the other: a
	 * datagram goes to that whose place in the row is its first 32 bits modulo the number,
	 * which is the first for IKE behind its marker. 0 or 1: there is just one. */
	uint32_t siblings;
	bool further;  /* not the first of them: the port is this program's already */
	bool gso, gro; /* use them, when the kernel has them */
};

struct os_udp_facts {
	int fd; /* to poll; stays the socket's */
	uint16_t port;
	bool gso, gro; /* in use; may change by udp_gso(), udp_gro() */
	bool gro_can;  /* as far as is known */
};

/* What became of a udp_send, in datagrams; added to what is there. */
struct os_udp_result {
	uint64_t sent;
	uint64_t full;        /* dropped: no buffer space */
	uint64_t failed;      /* refused by the kernel */
	uint64_t gso_refused; /* superpackets that went one by one instead */
	uint64_t unpinned;    /* sent without the pinned source, which is gone */
	int error;            /* the last one: negative errno, 0 */
};

struct os_tun;
struct os_udp;

struct os_net {
	const char *name;
	/* Makes the TUN, or attaches to one of that name. 0 or a negative errno and a line in
	 * error. */
	int (*tun_open)(const struct os_tun_config *c, struct os_tun **ret, struct buf *error);
	/* Reads one frame into memory (OS_TUN_BUFFER bytes, borrowed; ret points into it), of two
	 * queues by turns of OS_TUN_TURN bytes. 1; 0 when none waits; or a negative errno (-EBADFD:
	 * the device was deleted). */
	int (*tun_read)(struct os_tun *t, uint8_t *memory, struct tun_rx *ret);
	/* Writes one frame; by way of the queue for bulk, the kernel puts there what follows of
	 * its flow the other way. With `moved` the queue that the flow leaves is read first, until
	 * it is empty or a queue's length of frames were read. 0; -EAGAIN: no room, drop it;
	 * -EINVAL for a merged frame: the kernel does not take it, write its packets one by one; or
	 * another negative errno. */
	int (*tun_write)(struct os_tun *t, const struct tun_tx *frame);
	/* Another choice of c->tso and c->uso, of the whole device, by any thread; what waits to be
	 * read stays as it is, and so does the length of the device's queue: the kernel drops
	 * packets while it changes. 0 or a negative errno. */
	int (*tun_offload)(struct os_tun *t, const struct os_tun_config *c);
	/* Closes; NULL is fine. */
	void (*tun_close)(struct os_tun *t);

	int (*udp_open)(const struct os_udp_config *c, struct os_udp **ret, struct buf *error);
	/* Receives up to max buffers into memory (max * OS_UDP_BUFFER bytes, borrowed; ret[] points
	 * into it). The count, 0 when nothing waits, or a negative errno. */
	int (*udp_receive)(struct os_udp *u, uint8_t *memory, struct udp_rx *ret, size_t max,
		wtime now);
	/* Sends n descriptions in order; their .socket is not looked at. What is not `whole` may be
	 * fragmented on its way, by this host only where the interface is too narrow or, with IPv6,
	 * an ICMP message came. Falls back to one datagram a call when the kernel refuses a
	 * superpacket, and to the kernel's choice of source when the pinned one is gone. Never
	 * waits. */
	void (*udp_send)(struct os_udp *u, const struct udp_tx *tx, size_t n,
		struct os_udp_result *result);
	/* Switches UDP_SEGMENT, also again after a device refused it; by any thread. */
	void (*udp_gso)(struct os_udp *u, bool on);
	/* Switches UDP_GRO, by the thread that receives, once it found nothing to receive: what the
	 * kernel joined before it is switched off cannot be taken apart after. */
	void (*udp_gro)(struct os_udp *u, bool on);
	void (*udp_close)(struct os_udp *u);
};

const struct os_net *os_net_linux(void);
const struct os_net *os_net_portable(void);
/* By name; NULL or "": what the environment variable WEFT_OS says, else `linux`. NULL when there is
 * none of that name. */
const struct os_net *os_net_find(const char *name);

struct os_tun_facts os_tun_facts(const struct os_tun *t);
struct os_udp_facts os_udp_facts(const struct os_udp *u);

/* Finds the program that has a UDP port: "name (pid N)" appended to ret; nothing when unknown. */
void os_udp_port_owner(uint16_t port, struct buf *ret);
