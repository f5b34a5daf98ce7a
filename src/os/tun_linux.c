/* The TUN with virtio-net headers (VIRTIO 1.3, 5.1.6): superpackets in and out. */
#include <errno.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/net_linux_priv.h"

/* Older headers lack what the running kernel may have. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

enum { TUN_HEAD_ROOM = 16 }; /* the header ends here, so that the packet is aligned */

/* Asks for what is wanted, then for less: USO came with Linux 6.2, and both of its families go
 * together. */
static int tun_ask(struct os_tun *t, bool tso, bool uso)
{
	const unsigned int want_tso = tso ? TUN_F_TSO4 | TUN_F_TSO6 : 0;
	const unsigned int ecn = tso ? TUN_F_TSO_ECN : 0;

	if (uso &&
		ioctl(t->fd, TUNSETOFFLOAD,
			TUN_F_CSUM | want_tso | ecn | TUN_F_USO4 | TUN_F_USO6) == 0) {
		t->tso = tso;
		t->uso = true;
		return 0;
	}
	t->uso = false;
	if (tso &&
		(ioctl(t->fd, TUNSETOFFLOAD, TUN_F_CSUM | want_tso | ecn) == 0 ||
			ioctl(t->fd, TUNSETOFFLOAD, TUN_F_CSUM | want_tso) == 0)) {
		t->tso = true;
		return 0;
	}
	t->tso = false;
	/* Plain packets with complete checksums: what a new device does anyway. */
	return ioctl(t->fd, TUNSETOFFLOAD, 0) < 0 ? -errno : 0;
}

/* A kernel that hands a kind of superpackets over takes such, too. */
static void tun_probe(struct os_tun *t)
{
	(void)tun_ask(t, true, true);
	t->merge_tcp = t->tso;
	t->merge_udp = t->uso;
}

int os_linux_tun_offload(struct os_tun *t, const struct os_tun_config *c)
{
	return tun_ask(t, c->tso, c->uso);
}

int os_linux_tun_open(const struct os_tun_config *c, struct os_tun **ret, struct buf *error)
{
	struct os_tun *t;
	int r = os_tun_attach(c, true, &t, error);

	if (r < 0)
		return r;
	tun_probe(t);
	if (!c->tso || !c->uso)
		(void)tun_ask(t, c->tso, c->uso);
	*ret = t;
	return 0;
}

static void tun_gso(const struct virtio_net_hdr *h, const uint8_t *packet, size_t n,
	struct gso *ret)
{
	bool six = n > 0 && packet[0] >> 4 == 6;

	*ret = (struct gso){.needs_csum = h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.ecn = h->gso_type & VIRTIO_NET_HDR_GSO_ECN};
	if (ret->needs_csum) {
		ret->csum_start = h->csum_start;
		ret->csum_offset = h->csum_offset;
	}
	switch (h->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		ret->type = GSO_TCP4;
		break;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		ret->type = GSO_TCP6;
		break;
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		ret->type = six ? GSO_UDP6 : GSO_UDP4;
		break;
	default:
		return;
	}
	ret->size = h->gso_size;
	ret->hdr_len = h->hdr_len;
}

static void tun_turn(struct os_tun *t)
{
	t->bulk = !t->bulk && t->bulk_fd >= 0;
	t->spent = 0;
	t->before = 0;
}

static bool tun_turn_over(struct os_tun *t, uint32_t got)
{
	t->spent += got;
	return t->before ? --t->before == 0 : t->spent >= OS_TUN_TURN;
}

/* A frame of the queue whose turn it is, or else of the other. Its bytes, or a negative errno. */
static ssize_t tun_read_next(struct os_tun *t, uint8_t *at, size_t room, bool *ret_bulk)
{
	int queues = t->bulk_fd >= 0 ? 2 : 1;
	ssize_t got;

	do {
		*ret_bulk = t->bulk;
		do {
			got = read(t->bulk ? t->bulk_fd : t->fd, at, room);
		} while (got < 0 && errno == EINTR);
		if (got < 0 && errno != EAGAIN)
			return -errno;
		if (got < 0 || tun_turn_over(t, (uint32_t)got))
			tun_turn(t);
	} while (got < 0 && --queues > 0);
	return got < 0 ? -EAGAIN : got;
}

int os_linux_tun_read(struct os_tun *t, uint8_t *memory, struct tun_rx *ret)
{
	struct virtio_net_hdr h;
	uint8_t *at = memory + TUN_HEAD_ROOM - sizeof(h);
	bool bulk;
	ssize_t got = tun_read_next(t, at, OS_TUN_BUFFER - (TUN_HEAD_ROOM - sizeof(h)), &bulk);

	if (got < 0)
		return got == -EAGAIN ? 0 : (int)got;
	if ((size_t)got < sizeof(h))
		return -EIO;
	memcpy(&h, at, sizeof(h));
	ret->bulk = bulk;
	ret->data = memory + TUN_HEAD_ROOM;
	ret->len = (uint32_t)((size_t)got - sizeof(h));
	tun_gso(&h, ret->data, ret->len, &ret->gso);
	return 1;
}

int os_linux_tun_write(struct os_tun *t, const struct tun_tx *frame)
{
	static const uint8_t types[] = {
		[GSO_NONE] = VIRTIO_NET_HDR_GSO_NONE,
		[GSO_TCP4] = VIRTIO_NET_HDR_GSO_TCPV4,
		[GSO_TCP6] = VIRTIO_NET_HDR_GSO_TCPV6,
		[GSO_UDP4] = VIRTIO_NET_HDR_GSO_UDP_L4,
		[GSO_UDP6] = VIRTIO_NET_HDR_GSO_UDP_L4,
	};
	const struct gso *g = &frame->gso;
	struct virtio_net_hdr h = {0};

	if (g->type > GSO_UDP6)
		return -EINVAL;
	h.gso_type = types[g->type];
	if (g->needs_csum) {
		h.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		h.csum_start = g->csum_start;
		h.csum_offset = g->csum_offset;
	}
	if (g->type != GSO_NONE) {
		h.gso_size = g->size;
		h.hdr_len = g->hdr_len;
		if (g->ecn)
			h.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
	}
	return os_tun_write_pieces(t, frame, &h, sizeof(h));
}
