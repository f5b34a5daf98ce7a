/* weftd's side of the helper that runs scripts and nft. */
#include "os/runner.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/runner_priv.h"

struct os_runner {
	int fd;
	pid_t pid;
	bool nat_done; /* since it was asked */
	char nat_fault[RUNNER_LINE];
};

int os_runner_new(struct os_runner **ret)
{
	struct os_runner *r = w_calloc(1, sizeof(*r));
	int pair[2];

	if (!r)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		int error = -errno;

		w_free(r);
		return error;
	}
	r->pid = fork();
	if (r->pid == 0)
		runner_child(pair[1]);
	close(pair[1]);
	r->fd = pair[0];
	if (r->pid < 0) {
		int error = -errno;

		close(r->fd);
		w_free(r);
		return error;
	}
	*ret = r;
	return 0;
}

static int runner_send(struct os_runner *r, const struct buf *b)
{
	if (b->failed)
		return -ENOMEM;
	if (b->n > OS_RUNNER_PACKET)
		return -E2BIG;
	while (send(r->fd, b->p, b->n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return 0;
}

int os_runner_allow(struct os_runner *r, struct view paths)
{
	const uint8_t type = RUNNER_ALLOW;
	struct buf b = {0};
	int error;

	buf_add(&b, &type, 1);
	buf_add(&b, paths.p, paths.n);
	error = runner_send(r, &b);
	buf_free(&b);
	return error;
}

int os_runner_run(struct os_runner *r, const struct os_runner_script *s)
{
	const uint8_t type = RUNNER_RUN;
	struct buf b = {0};
	int error;

	buf_add(&b, &type, 1);
	buf_add(&b, s->key, strlen(s->key) + 1);
	buf_add(&b, s->path, strlen(s->path) + 1);
	buf_add(&b, s->env.p, s->env.n);
	error = runner_send(r, &b);
	buf_free(&b);
	return error;
}

static void add_string(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s) + 1);
}

int os_runner_masquerade(struct os_runner *r, const struct os_masquerade *m)
{
	const uint8_t type = m->on ? RUNNER_NAT : RUNNER_PLAIN;
	char text[PREFIX_TEXT];
	struct buf b = {0};
	int error;

	buf_add(&b, &type, 1);
	add_string(&b, m->tun);
	add_string(&b, m->netns ? m->netns : "");
	for (size_t i = 0; m->on && i < m->keep_count; i++)
		add_string(&b, prefix_format(&m->keep[i], text));
	error = runner_send(r, &b);
	buf_free(&b);
	return error;
}

bool os_runner_masquerade_done(struct os_runner *r, const char **ret_fault)
{
	bool done = r->nat_done;

	r->nat_done = false;
	*ret_fault = r->nat_fault;
	return done;
}

int os_runner_fd(const struct os_runner *r)
{
	return r->fd;
}

bool os_runner_log(struct os_runner *r, const struct os_log *log)
{
	char line[RUNNER_LINE + 1];

	for (;;) {
		ssize_t n = recv(r->fd, line, RUNNER_LINE, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		if (n == 0)
			return false;
		line[n] = 0;
		if (line[0] == RUNNER_NAT) {
			r->nat_done = true;
			memcpy(r->nat_fault, line + 1, (size_t)n);
			continue;
		}
		os_log_line(log, line[0] == '0' + OS_WARNING ? OS_WARNING : OS_INFO, line + 1);
	}
}

void os_runner_free(struct os_runner *r, const struct os_log *log)
{
	wtime end = wtime_add(os_now(), RUNNER_STOP_MS * W_MS);
	bool told = false;

	if (!r)
		return;
	(void)shutdown(r->fd, SHUT_WR);
	while (os_runner_log(r, log)) {
		struct pollfd p = {.fd = r->fd, .events = POLLIN};
		int64_t left = wtime_diff(end, os_now()) / W_MS;

		if (left <= 0 && !told) {
			os_log_line(log, OS_WARNING,
				"scripts that have not ended are killed: weftd stops");
			(void)kill(r->pid, SIGUSR1);
			told = true;
		}
		(void)poll(&p, 1, left > 0 ? (int)left : RUNNER_STOP_MS);
	}
	close(r->fd);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w_free(r);
}
