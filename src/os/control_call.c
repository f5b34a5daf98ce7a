/* The control socket's other end: one request, one reply. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "os/clock.h"
#include "os/control.h"
#include "os/control_priv.h"

enum { CHUNK = 16384 };

int os_control_address(const char *path, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

static int call_wait(int fd, short events, wtime until)
{
	struct pollfd p = {.fd = fd, .events = events};
	int64_t left = wtime_diff(until, os_now()) / W_MS;
	int r = poll(&p, 1, left > 0 ? (int)left : 0);

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

static int call_send(int fd, struct view data, wtime until)
{
	struct cur c = cur_view(data);

	while (c.n > 0) {
		ssize_t put = send(fd, c.p, c.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		int r = 0;

		if (put > 0)
			cur_skip(&c, (size_t)put);
		else if (errno == EAGAIN)
			r = call_wait(fd, POLLOUT, until);
		else if (errno != EINTR)
			r = -errno;
		if (r < 0)
			return r;
	}
	return 0;
}

static int call_receive(int fd, struct buf *reply, wtime until)
{
	uint8_t chunk[CHUNK];

	for (;;) {
		ssize_t got = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		uint8_t *end = got > 0 ? memchr(chunk, '\n', (size_t)got) : NULL;
		int r = 0;

		if (got > 0)
			buf_add(reply, chunk, end ? (size_t)(end - chunk) : (size_t)got);
		if (reply->failed)
			return -ENOMEM;
		if (end)
			return 0;
		if (got == 0)
			return -ECONNRESET;
		if (got < 0 && errno == EAGAIN)
			r = call_wait(fd, POLLIN, until);
		else if (got < 0 && errno != EINTR)
			r = -errno;
		if (r < 0)
			return r;
	}
}

static void call_explain(const char *path, int r, struct buf *error)
{
	if (r == -ENOENT || r == -ECONNREFUSED)
		buf_printf(error,
			"no weftd answers at %s: start it (systemctl start weftd), or "
			"name its socket with --socket",
			path);
	else if (r == -EACCES || r == -EPERM)
		buf_printf(error, "%s: not allowed: be root, or of the socket's group", path);
	else if (r == -ETIMEDOUT)
		buf_printf(error, "%s: weftd does not answer", path);
	else if (r == -ECONNRESET || r == -EPIPE)
		buf_printf(error,
			"%s: weftd closed the connection: only root and the socket's "
			"group may ask",
			path);
	else
		buf_printf(error, "%s: %s", path, strerror(-r));
}

int os_control_call(const char *path, struct view request, int timeout_ms, struct buf *reply,
	struct buf *error)
{
	wtime until = wtime_add(os_now(), timeout_ms * W_MS);
	struct sockaddr_un sun;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : os_control_address(path, &sun);

	if (r == 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		r = -errno;
	if (r == 0)
		r = call_send(fd, request, until);
	if (r == 0)
		r = call_send(fd, view_of("\n", 1), until);
	if (r == 0)
		r = call_receive(fd, reply, until);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		call_explain(path, r, error);
	return r;
}
