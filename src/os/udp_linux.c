/* The linux back end: many datagrams a call, UDP_SEGMENT, UDP_GRO. */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include "base/cur.h"
#include "os/net_linux_priv.h"

enum { UDP_BATCH = 32 };

static void linux_udp_gso(struct os_udp *u, bool on)
{
	u->gso = on && u->gso_can;
}

static void linux_udp_gro(struct os_udp *u, bool on)
{
	int value = on;

	u->gro_can = setsockopt(u->fd, SOL_UDP, UDP_GRO, &value, sizeof(value)) == 0;
	u->gro = on && u->gro_can;
}

static int linux_udp_open(const struct os_udp_config *c, struct os_udp **ret, struct buf *error)
{
	struct os_udp *u;
	int v = 0;
	socklen_t n = sizeof(v);
	int r = os_udp_bind(c, &u, error);

	if (r < 0)
		return r;
	/* UDP_SEGMENT came with Linux 4.18, UDP_GRO with 5.0: without them it goes one by one. */
	u->gso_can = getsockopt(u->fd, SOL_UDP, UDP_SEGMENT, &v, &n) == 0;
	u->gro_can = true;
	linux_udp_gso(u, c->gso);
	if (c->gro)
		linux_udp_gro(u, true);
	*ret = u;
	return 0;
}

static int linux_udp_receive(struct os_udp *u, uint8_t *memory, struct udp_rx *ret, size_t max,
	wtime now)
{
	_Alignas(struct cmsghdr) uint8_t control[UDP_BATCH][OS_CONTROL];
	struct mmsghdr m[UDP_BATCH];
	union os_sockaddr from[UDP_BATCH];
	struct iovec iov[UDP_BATCH];
	int got;

	if (max > UDP_BATCH)
		max = UDP_BATCH;
	for (size_t i = 0; i < max; i++) {
		iov[i] = (struct iovec){.iov_base = memory + i * OS_UDP_BUFFER,
			.iov_len = OS_UDP_BUFFER};
		m[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
			.msg_namelen = sizeof(from[i]),
			.msg_iov = &iov[i],
			.msg_iovlen = 1,
			.msg_control = control[i],
			.msg_controllen = OS_CONTROL};
	}
	do {
		got = recvmmsg(u->fd, m, (unsigned int)max, MSG_DONTWAIT, NULL);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	for (int i = 0; i < got; i++) {
		ret[i].data = iov[i].iov_base;
		ret[i].len = m[i].msg_len;
		ret[i].time = now;
		os_udp_parse(u, &m[i].msg_hdr, &ret[i]);
	}
	return got;
}

struct send_batch {
	_Alignas(struct cmsghdr) uint8_t control[UDP_BATCH][OS_CONTROL];
	struct mmsghdr m[UDP_BATCH];
	union os_sockaddr to[UDP_BATCH];
	struct iovec iov[UDP_BATCH];
	unsigned int n;
};

static void batch_add(struct send_batch *b, const struct udp_tx *tx, struct view data,
	uint16_t segment)
{
	unsigned int i = b->n++;

	b->iov[i] = (struct iovec){.iov_base = (void *)(uintptr_t)data.p, .iov_len = data.n};
	b->m[i].msg_hdr = (struct msghdr){.msg_name = &b->to[i],
		.msg_iov = &b->iov[i],
		.msg_iovlen = 1};
	b->m[i].msg_hdr.msg_namelen = os_sockaddr_from(&tx->remote, &b->to[i]);
	os_udp_control(&b->m[i].msg_hdr, b->control[i], tx, true, segment);
}

/* Sends what it can of the batch; how many went, and *ret_error (positive errno) when the next one
 * did not. */
static unsigned int batch_send(struct os_udp *u, struct send_batch *b, int *ret_error)
{
	unsigned int done = 0;

	*ret_error = 0;
	while (done < b->n) {
		int r = sendmmsg(u->fd, b->m + done, b->n - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (r > 0) {
			done += (unsigned int)r;
		} else if (errno != EINTR) {
			*ret_error = errno;
			break;
		}
	}
	return done;
}

static struct view segment_of(const struct udp_tx *tx, size_t i)
{
	size_t size = os_udp_segments(tx) == 1 ? tx->len : tx->seg_size;
	size_t at = i * size;

	return view_of(tx->data + at, tx->len - at < size ? tx->len - at : size);
}

/* The datagrams of one description one by one; false when the socket is full. */
static bool send_singly(struct os_udp *u, const struct udp_tx *tx, struct os_udp_result *result)
{
	size_t n = os_udp_segments(tx);
	size_t i = 0;

	while (i < n) {
		struct send_batch b;
		unsigned int done;
		int error;

		b.n = 0;
		for (size_t j = i; j < n && b.n < UDP_BATCH; j++)
			batch_add(&b, tx, segment_of(tx, j), 0);
		done = batch_send(u, &b, &error);
		result->sent += done;
		i += done;
		if (error == 0)
			continue;
		/* The one that was refused: perhaps its source is gone. */
		if (!os_udp_send_one(u, tx, segment_of(tx, i), result)) {
			result->full += n - i - 1;
			return false;
		}
		i++;
	}
	return true;
}

/* The kernel refused a description: says whether to go on with the next one. */
static bool send_refused(struct os_udp *u, const struct udp_tx *tx, int error,
	struct os_udp_result *result)
{
	size_t n = os_udp_segments(tx);

	if (error == EAGAIN || error == ENOBUFS) {
		result->full += n;
		return false;
	}
	if (n > 1) {
		/* EIO: the device cannot checksum for us, now or ever. EMSGSIZE and EINVAL: a
		 * datagram is larger than the route's MTU, which is this peer's matter alone. */
		if (error == EIO)
			u->gso = false;
		result->gso_refused++;
		result->error = -error;
		return send_singly(u, tx, result);
	}
	return os_udp_send_one(u, tx, segment_of(tx, 0), result);
}

static size_t count_datagrams(const struct udp_tx *tx, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += os_udp_segments(&tx[i]);
	return sum;
}

/* Sends up to UDP_BATCH descriptions, all superpackets or single datagrams; how many were dealt
 * with, and *ret_full. */
static size_t send_some(struct os_udp *u, const struct udp_tx *tx, size_t n,
	struct os_udp_result *result, bool *ret_full)
{
	struct send_batch b;
	unsigned int done;
	int error;

	b.n = 0;
	for (size_t i = 0; i < n && b.n < UDP_BATCH; i++) {
		bool super = os_udp_segments(&tx[i]) > 1;

		if ((super && !u->gso) || tx[i].whole)
			break;
		batch_add(&b, &tx[i], view_of(tx[i].data, tx[i].len),
			super ? (uint16_t)tx[i].seg_size : 0);
	}
	if (b.n == 0 && tx[0].whole) {
		*ret_full = !os_udp_send_whole(u, &tx[0], result);
		return 1;
	}
	if (b.n == 0) {
		*ret_full = !send_singly(u, &tx[0], result);
		return 1;
	}
	done = batch_send(u, &b, &error);
	result->sent += count_datagrams(tx, done);
	if (error == 0)
		return done;
	*ret_full = !send_refused(u, &tx[done], error, result);
	return done + 1;
}

static void linux_udp_send(struct os_udp *u, const struct udp_tx *tx, size_t n,
	struct os_udp_result *result)
{
	bool full = false;
	size_t i = 0;

	while (i < n && !full)
		i += send_some(u, tx + i, n - i, result, &full);
	if (i < n) {
		result->full += count_datagrams(tx + i, n - i);
		result->error = -EAGAIN;
	}
}

const struct os_net *os_net_linux(void)
{
	static const struct os_net net = {
		.name = "linux",
		.tun_open = os_linux_tun_open,
		.tun_read = os_linux_tun_read,
		.tun_write = os_linux_tun_write,
		.tun_offload = os_linux_tun_offload,
		.tun_close = os_tun_close,
		.udp_open = linux_udp_open,
		.udp_receive = linux_udp_receive,
		.udp_send = linux_udp_send,
		.udp_gso = linux_udp_gso,
		.udp_gro = linux_udp_gro,
		.udp_close = os_udp_close,
	};

	return &net;
}
