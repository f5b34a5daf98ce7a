/* What the back ends of os/net.h share. */
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "os/net.h"

struct os_tun {
	int fd;
	int bulk_fd;    /* -1: there is none */
	bool bulk;      /* its turn */
	uint32_t spent; /* bytes of the turn */
	/* A flow left the queue whose turn it is: so many frames may be from before that, 0: none
	 * are. The turn ends without them. */
	uint32_t before;
	uint32_t length; /* frames that a queue holds */
	uint32_t ifindex;
	bool header, merge_tcp, merge_udp;
	_Atomic bool tso, uso;
	ssize_t (*writev)(void *ctx, int fd, const struct iovec *iov, int n);
	void *writev_ctx;
};

struct os_udp {
	int fd;
	uint16_t index, port;
	uint8_t family;
	_Atomic bool gso; /* switched off when a device cannot do it */
	bool gso_can;
	_Atomic bool gro, gro_can;
};

union os_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

enum { OS_CONTROL = 128 }; /* bytes of ancillary data a message, in and out */

/* Opens a TUN with these extra flags of TUNSETIFF; plain frames, the queue set. */
int os_tun_attach(const struct os_tun_config *c, bool header, struct os_tun **ret,
	struct buf *error);
void os_tun_close(struct os_tun *t);
/* Writes the pieces of a frame, `head` (head_len bytes, 0: none) in front. As tun_write. */
int os_tun_write_pieces(struct os_tun *t, const struct tun_tx *frame, void *head, size_t head_len);

/* Opens and binds a socket with everything but the offloads set. */
int os_udp_bind(const struct os_udp_config *c, struct os_udp **ret, struct buf *error);
void os_udp_close(struct os_udp *u);

/* An endpoint as a socket address; its length. */
socklen_t os_sockaddr_from(const struct endpoint *e, union os_sockaddr *ret);
struct endpoint os_sockaddr_endpoint(const union os_sockaddr *a);
/* The number of datagrams in a send. */
static inline size_t os_udp_segments(const struct udp_tx *tx)
{
	if (tx->seg_size == 0 || tx->seg_size >= tx->len)
		return 1;
	return (tx->len + tx->seg_size - 1) / tx->seg_size;
}

/* Ancillary data of one datagram, or of a superpacket when segment is not 0: TOS, source to pin
 * (unless pin is false). buffer: OS_CONTROL bytes, aligned for struct cmsghdr. */
void os_udp_control(struct msghdr *m, void *buffer, const struct udp_tx *tx, bool pin,
	uint16_t segment);
/* Fills what the ancillary data of a received message says. */
void os_udp_parse(const struct os_udp *u, struct msghdr *m, struct udp_rx *ret);
/* One datagram that is not to be fragmented (udp_tx.whole). As os_udp_send_one(). */
bool os_udp_send_whole(struct os_udp *u, const struct udp_tx *tx, struct os_udp_result *result);
/* One datagram by sendmsg, without the pin when its source is gone. Counts into result; false when
 * the socket is full. */
bool os_udp_send_one(struct os_udp *u, const struct udp_tx *tx, struct view data,
	struct os_udp_result *result);
