/* The TUN device: opening and writing, for both back ends. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/net_priv.h"
#include "os/netns.h"

static const char tun_path[] = "/dev/net/tun";

struct tun_job {
	const struct os_tun_config *config;
	bool header, bulk_queue;
	struct os_tun *tun;
	struct buf *error;
};

static int tun_open_device(const char *name, struct buf *error)
{
	int fd = open(tun_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	int r = -errno;

	if (fd >= 0)
		return fd;
	if (r == -ENOENT || r == -ENODEV || r == -ENXIO)
		buf_printf(error,
			"TUN %s: there is no %s: load the module (modprobe tun), or give "
			"the container the device",
			name, tun_path);
	else
		buf_printf(error, "TUN %s: cannot open %s: %s%s", name, tun_path, strerror(-r),
			r == -EACCES || r == -EPERM ? "; this user needs to read and write it, and "
						      "the container to have the device allowed"
						    : "");
	return r;
}

static void tun_explain(const char *name, int r, struct buf *error)
{
	if (r == -EPERM)
		buf_printf(error,
			"TUN %s: not allowed: CAP_NET_ADMIN is needed in this network "
			"namespace; start as root or give the program that capability",
			name);
	else if (r == -EBUSY)
		buf_printf(error,
			"TUN %s: the name is in use by another program (another weftd?): "
			"stop it, or set tun.name to another name",
			name);
	else if (r == -EINVAL)
		buf_printf(error,
			"TUN %s: an interface of that name exists and is no TUN, or the "
			"name is not allowed: set tun.name to another name",
			name);
	else
		buf_printf(error, "TUN %s: %s", name, strerror(-r));
}

/* The device's index; sets its queue length. */
static int tun_set_up(const char *name, int length, uint32_t *ret_ifindex)
{
	struct ifreq ifr = {0};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = 0;

	if (s < 0)
		return -errno;
	strncpy(ifr.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(s, SIOCGIFINDEX, &ifr) < 0)
		r = -errno;
	else
		*ret_ifindex = (uint32_t)ifr.ifr_ifindex;
	ifr.ifr_qlen = length;
	if (r == 0 && ioctl(s, SIOCSIFTXQLEN, &ifr) < 0)
		r = -errno;
	close(s);
	return r;
}

/* One that was there before and does not persist has a program that uses it: where there are
 * several queues the kernel would let us have one of them. */
static bool tun_persists(int fd)
{
	struct ifreq ifr = {0};

	return ioctl(fd, TUNGETIFF, &ifr) == 0 && (unsigned short)ifr.ifr_flags & IFF_PERSIST;
}

/* Makes fd a queue of the device. */
static int tun_set_queue(int fd, const struct os_tun_config *c, bool header, bool many)
{
	struct ifreq ifr = {0};

	strncpy(ifr.ifr_name, c->name, IFNAMSIZ - 1);
	ifr.ifr_flags = (short)(IFF_TUN | IFF_NO_PI | (header ? IFF_VNET_HDR : 0) |
		(many ? IFF_MULTI_QUEUE : 0));
	return ioctl(fd, TUNSETIFF, &ifr) < 0 ? -errno : 0;
}

/* The queue for bulk; -1 when the kernel has no more: all goes without. */
static int tun_open_bulk(const struct os_tun_config *c, bool header)
{
	int fd = open(tun_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && tun_set_queue(fd, c, header, true) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int tun_job(void *ctx)
{
	struct tun_job *job = ctx;
	const struct os_tun_config *c = job->config;
	struct os_tun *t = w_calloc(1, sizeof(*t));
	bool existed;
	int r;

	if (!t)
		return -ENOMEM;
	t->writev = c->writev;
	t->writev_ctx = c->writev_ctx;
	t->header = job->header;
	t->bulk_fd = -1;
	t->fd = tun_open_device(c->name, job->error);
	if (t->fd < 0) {
		r = t->fd;
		goto err_free;
	}
	existed = !c->further && if_nametoindex(c->name) != 0;
	r = tun_set_queue(t->fd, c, job->header, c->many || job->bulk_queue);
	/* One that was made without queues by another has just one. */
	if (r == -EINVAL && job->bulk_queue && !c->many) {
		job->bulk_queue = false;
		r = tun_set_queue(t->fd, c, job->header, false);
	}
	if (r == 0 && existed && !tun_persists(t->fd))
		r = -EBUSY;
	t->length = job->header && c->tso && c->uso ? OS_TUN_QUEUE : OS_TUN_QUEUE_PLAIN;
	if (r == 0)
		r = tun_set_up(c->name, (int)t->length, &t->ifindex);
	if (r < 0) {
		tun_explain(c->name, r, job->error);
		goto err_close;
	}
	if (job->bulk_queue)
		t->bulk_fd = tun_open_bulk(c, job->header);
	job->tun = t;
	return 0;

err_close:
	close(t->fd);
err_free:
	w_free(t);
	return r;
}

int os_tun_attach(const struct os_tun_config *c, bool header, struct os_tun **ret,
	struct buf *error)
{
	struct tun_job job = {.config = c,
		.header = header,
		.bulk_queue = c->bulk_queue && header,
		.error = error};
	int r;

	if (strlen(c->name) >= IFNAMSIZ || c->name[0] == 0 || strchr(c->name, '%') ||
		strchr(c->name, '/')) {
		buf_printf(error,
			"TUN %s: not a name for an interface: at most %d characters, "
			"none of them / or %%",
			c->name, IFNAMSIZ - 1);
		return -EINVAL;
	}
	r = os_netns_run(c->netns, tun_job, &job, error);
	if (r == 0)
		*ret = job.tun;
	return r;
}

void os_tun_close(struct os_tun *t)
{
	if (!t)
		return;
	close(t->fd);
	if (t->bulk_fd >= 0)
		close(t->bulk_fd);
	w_free(t);
}

/* What a flow left behind comes before what follows in its new queue. */
static void tun_moved(struct os_tun *t, bool to_bulk)
{
	if (t->bulk_fd < 0)
		return;
	t->bulk = !to_bulk;
	t->spent = 0;
	t->before = t->length;
}

int os_tun_write_pieces(struct os_tun *t, const struct tun_tx *frame, void *head, size_t head_len)
{
	struct iovec iov[TUN_IOV_MAX + 1];
	int n = 0, fd = frame->bulk && t->bulk_fd >= 0 ? t->bulk_fd : t->fd;
	ssize_t r;

	if (frame->iov_count > TUN_IOV_MAX)
		return -EINVAL;
	if (head_len)
		iov[n++] = (struct iovec){.iov_base = head, .iov_len = head_len};
	for (unsigned int i = 0; i < frame->iov_count; i++) {
		/* writev() reads only; its struct has no const. */
		iov[n].iov_base = (void *)(uintptr_t)frame->iov[i].p;
		iov[n++].iov_len = frame->iov[i].n;
	}
	do {
		r = t->writev ? t->writev(t->writev_ctx, fd, iov, n) : writev(fd, iov, n);
	} while (r < 0 && errno == EINTR);
	if (r >= 0 && frame->moved)
		tun_moved(t, frame->bulk);
	if (r >= 0)
		return 0;
	return errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}
