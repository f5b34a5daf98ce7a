/* The portable back end: plain TUN, one packet a call, no offload. What any POSIX system with a TUN
 * and packet info can do; on Linux it is the plain road that the other one is measured against. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/cur.h"
#include "os/net_priv.h"

static int portable_tun_open(const struct os_tun_config *c, struct os_tun **ret, struct buf *error)
{
	return os_tun_attach(c, false, ret, error);
}

static int portable_tun_read(struct os_tun *t, uint8_t *memory, struct tun_rx *ret)
{
	ssize_t got;

	do {
		got = read(t->fd, memory, OS_TUN_BUFFER);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	*ret = (struct tun_rx){.data = memory, .len = (uint32_t)got};
	return 1;
}

static int portable_tun_write(struct os_tun *t, const struct tun_tx *frame)
{
	if (frame->gso.type != GSO_NONE || frame->gso.needs_csum)
		return -EINVAL;
	return os_tun_write_pieces(t, frame, NULL, 0);
}

static int portable_udp_open(const struct os_udp_config *c, struct os_udp **ret, struct buf *error)
{
	return os_udp_bind(c, ret, error);
}

static int portable_udp_receive(struct os_udp *u, uint8_t *memory, struct udp_rx *ret, size_t max,
	wtime now)
{
	_Alignas(struct cmsghdr) uint8_t control[OS_CONTROL];
	union os_sockaddr from;
	size_t n = 0;

	while (n < max) {
		struct iovec iov = {.iov_base = memory + n * OS_UDP_BUFFER,
			.iov_len = OS_UDP_BUFFER};
		struct msghdr m = {.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control)};
		ssize_t got = recvmsg(u->fd, &m, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno != EAGAIN && n == 0)
			return -errno;
		if (got < 0)
			break;
		ret[n].data = iov.iov_base;
		ret[n].len = (uint32_t)got;
		ret[n].time = now;
		os_udp_parse(u, &m, &ret[n]);
		n++;
	}
	return (int)n;
}

static void portable_udp_send(struct os_udp *u, const struct udp_tx *tx, size_t n,
	struct os_udp_result *result)
{
	bool room = true;

	for (size_t i = 0; i < n; i++) {
		size_t count = os_udp_segments(&tx[i]);
		struct cur c = cur_of(tx[i].data, tx[i].len);

		for (size_t j = 0; j < count; j++) {
			size_t size = j + 1 < count ? tx[i].seg_size : c.n;
			struct view data = cur_take(&c, size);

			if (room && tx[i].whole)
				room = os_udp_send_whole(u, &tx[i], result);
			else if (room)
				room = os_udp_send_one(u, &tx[i], data, result);
			else
				result->full++;
		}
	}
	if (!room)
		result->error = -EAGAIN;
}

/* There is nothing to switch. */
static int portable_tun_offload(struct os_tun *t, const struct os_tun_config *c)
{
	(void)t;
	(void)c;
	return 0;
}

static void portable_udp_switch(struct os_udp *u, bool on)
{
	(void)u;
	(void)on;
}

const struct os_net *os_net_portable(void)
{
	static const struct os_net net = {
		.name = "portable",
		.tun_open = portable_tun_open,
		.tun_read = portable_tun_read,
		.tun_write = portable_tun_write,
		.tun_offload = portable_tun_offload,
		.tun_close = os_tun_close,
		.udp_open = portable_udp_open,
		.udp_receive = portable_udp_receive,
		.udp_send = portable_udp_send,
		.udp_gso = portable_udp_switch,
		.udp_gro = portable_udp_switch,
		.udp_close = os_udp_close,
	};

	return &net;
}
