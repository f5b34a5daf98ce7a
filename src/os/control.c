/* The control socket's server. */
#include "os/control.h"
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/list.h"
#include "base/mem.h"
#include "os/control_priv.h"
#include "os/loop_priv.h"

enum { BACKLOG = 16, GROUPS_MAX = 64 };

struct os_control {
	uv_pipe_t uv;
	struct os_control_config config;
	char *path;
	gid_t group;
	struct list clients;
	struct client *asking; /* whose request is being answered */
	uint64_t requests;     /* the last number of os_control_later() */
	size_t client_count;
	uv_pipe_t refused; /* a client that there is no memory for */
	bool refusing;     /* it is not closed yet */
	bool refuse_next;  /* and another one waits */
	bool closing;
};

struct client {
	struct list node;
	struct os_control *server;
	uv_pipe_t uv;
	uv_timer_t idle;
	struct os_peer peer;
	uint8_t in[OS_CONTROL_REQUEST];
	size_t in_n;
	size_t queued;
	uint64_t waits;    /* for the reply to that request; 0: for none */
	unsigned int open; /* handles not closed yet */
	bool closing;
};

struct reply {
	uv_write_t uv;
	struct client *client;
	struct buf text;
};

static void server_release(struct os_control *s)
{
	if (!s->closing || s->client_count > 0 || s->refusing)
		return;
	w_free(s->path);
	w_free(s);
}

static void client_closed(uv_handle_t *h)
{
	struct client *c = h->data;
	struct os_control *s = c->server;

	if (--c->open > 0)
		return;
	s->client_count--;
	w_free(c);
	server_release(s);
}

static void client_close(struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	list_del(&c->node);
	uv_close((uv_handle_t *)&c->uv, client_closed);
	uv_close((uv_handle_t *)&c->idle, client_closed);
}

static void client_idle(uv_timer_t *t)
{
	client_close(t->data);
}

static void client_next(struct client *c);

static void reply_sent(uv_write_t *uv, int status)
{
	struct reply *r = uv->data;

	r->client->queued -= r->text.n;
	if (status < 0)
		client_close(r->client);
	else if (!r->client->closing)
		(void)uv_timer_again(&r->client->idle);
	client_next(r->client);
	buf_free(&r->text);
	w_free(r);
}

/* Sends a reply, which gets owned. */
static void client_reply(struct client *c, struct buf *text)
{
	struct reply *r = w_calloc(1, sizeof(*r));
	uv_buf_t b;

	if (text->n == 0 || text->p[text->n - 1] != '\n')
		buf_add_str(text, "\n");
	if (!r || text->failed || c->queued + text->n > OS_CONTROL_QUEUE)
		goto err_close;
	r->client = c;
	r->text = *text;
	b = uv_buf_init((char *)text->p, (unsigned int)text->n);
	r->uv.data = r;
	if (uv_write(&r->uv, (uv_stream_t *)&c->uv, &b, 1, reply_sent) < 0)
		goto err_close;
	c->queued += text->n;
	return;

err_close:
	buf_free(text);
	w_free(r);
	client_close(c);
}

static void client_answer(struct client *c, struct view line)
{
	struct os_control *s = c->server;
	struct buf text = {0};

	s->asking = c;
	s->config.request(s->config.ctx, &c->peer, line, &text);
	s->asking = NULL;
	if (c->waits)
		buf_free(&text);
	else
		client_reply(c, &text);
}

/* Answers the first line that is there. The next one has its turn when the reply is with the
 * kernel: then others were heard as well, and who does not read is not answered. */
static void client_lines(struct client *c)
{
	struct cur left = cur_of(c->in, c->in_n);
	const uint8_t *end;

	while (!c->closing && !c->waits && !c->queued && left.n &&
		(end = memchr(left.p, '\n', left.n))) {
		struct view line = cur_take(&left, (size_t)(end - left.p));

		cur_skip(&left, 1);
		if (line.n)
			client_answer(c, line);
	}
	if (c->closing)
		return;
	memmove(c->in, left.p, left.n);
	c->in_n = left.n;
	if (c->waits || c->queued)
		(void)uv_read_stop((uv_stream_t *)&c->uv);
	else if (c->in_n == sizeof(c->in))
		client_close(c);
}

static void client_room(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct client *c = h->data;

	(void)hint;
	*b = uv_buf_init((char *)c->in + c->in_n, (unsigned int)(sizeof(c->in) - c->in_n));
}

static void client_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *b)
{
	struct client *c = stream->data;

	(void)b;
	if (got == 0)
		return;
	if (got < 0) { /* the end, or no room for more: the request is too large */
		client_close(c);
		return;
	}
	(void)uv_timer_again(&c->idle);
	c->in_n += (size_t)got;
	client_lines(c);
}

/* Goes on with a client: with what it has asked meanwhile, then with what comes. */
static void client_next(struct client *c)
{
	if (c->closing || c->waits || c->queued)
		return;
	client_lines(c);
	if (!c->closing && !c->waits && !c->queued &&
		uv_read_start((uv_stream_t *)&c->uv, client_room, client_read) < 0)
		client_close(c);
}

uint64_t os_control_later(struct os_control *s)
{
	s->requests++;
	if (s->asking)
		s->asking->waits = s->requests;
	return s->requests;
}

static struct client *client_waiting(struct os_control *s, uint64_t request)
{
	list_for_each (it, &s->clients) {
		struct client *c = container_of(it, struct client, node);

		if (c->waits == request)
			return c;
	}
	return NULL;
}

void os_control_answer(struct os_control *s, uint64_t request, struct view reply)
{
	struct client *c = client_waiting(s, request);
	struct buf text = {0};

	if (!c)
		return;
	c->waits = 0;
	buf_add(&text, reply.p, reply.n);
	client_reply(c, &text);
}

/* Root, the daemon's own user, or of the group: by SO_PEERCRED and SO_PEERGROUPS. */
static int client_identify(const struct os_control *s, int fd, struct os_peer *ret)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);
	gid_t groups[GROUPS_MAX];
	bool member;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return -errno;
	member = s->group != 0 && cred.gid == s->group;
	n = sizeof(groups);
	if (!member && s->group != 0 && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) == 0)
		for (size_t i = 0; i < n / sizeof(*groups); i++)
			member |= groups[i] == s->group;
	*ret = (struct os_peer){.pid = cred.pid,
		.uid = cred.uid,
		.privileged = cred.uid == 0 || cred.uid == geteuid() || member};
	return 0;
}

static void server_accept(uv_stream_t *stream, int status);

static void refused_closed(uv_handle_t *h)
{
	struct os_control *s = h->data;
	bool next = s->refuse_next && !uv_is_closing((uv_handle_t *)&s->uv);

	s->refusing = s->refuse_next = false;
	if (next)
		server_accept((uv_stream_t *)&s->uv, 0);
	server_release(s);
}

/* A client that there is no memory for hears the end at once. Were it not accepted, libuv would
 * accept nobody any more. */
static void server_refuse(struct os_control *s)
{
	s->refuse_next = s->refusing;
	if (s->refusing)
		return;
	(void)uv_pipe_init(s->uv.loop, &s->refused, 0);
	s->refused.data = s;
	(void)uv_accept((uv_stream_t *)&s->uv, (uv_stream_t *)&s->refused);
	s->refusing = true;
	uv_close((uv_handle_t *)&s->refused, refused_closed);
}

static void server_accept(uv_stream_t *stream, int status)
{
	struct os_control *s = stream->data;
	struct client *c;
	uv_os_fd_t fd;

	if (status < 0)
		return; /* nobody came */
	c = w_calloc(1, sizeof(*c));
	if (!c) {
		server_refuse(s);
		return;
	}
	(void)uv_pipe_init(stream->loop, &c->uv, 0);
	(void)uv_timer_init(stream->loop, &c->idle);
	c->uv.data = c->idle.data = c;
	c->open = 2;
	c->server = s;
	list_add_tail(&s->clients, &c->node);
	s->client_count++;
	if (uv_accept(stream, (uv_stream_t *)&c->uv) < 0 ||
		uv_fileno((uv_handle_t *)&c->uv, &fd) < 0 || s->client_count > OS_CONTROL_CLIENTS ||
		client_identify(s, fd, &c->peer) < 0 || !c->peer.privileged ||
		uv_timer_start(&c->idle, client_idle, OS_CONTROL_IDLE_MS, OS_CONTROL_IDLE_MS) < 0 ||
		uv_read_start((uv_stream_t *)&c->uv, client_room, client_read) < 0)
		client_close(c);
}

/* Removes the socket that a dead daemon left; what is no socket stays. */
static int server_unlink_stale(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	return unlink(path) < 0 ? -errno : 0;
}

/* /run is empty after a boot: a folder directly in it is made when it is missing. Others are their
 * owner's business. 0 or a negative errno. */
static int server_folder(struct sockaddr_un at)
{
	static const char run[] = "/run/";
	char *name = at.sun_path + sizeof(run) - 1, *slash;

	if (strncmp(at.sun_path, run, sizeof(run) - 1) != 0)
		return 0;
	slash = strchr(name, '/');
	if (!slash || slash == name || strchr(slash + 1, '/'))
		return 0;
	*slash = '\0';
	return mkdir(at.sun_path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* The socket file with its mode and group, before anybody can connect. */
static int server_bind(int fd, const struct os_control_config *c, gid_t *ret_group,
	struct buf *message)
{
	struct sockaddr_un sun;
	struct group *g = NULL;
	mode_t old;
	int r = os_control_address(c->path, &sun);

	if (r == 0)
		r = server_folder(sun);
	if (r < 0)
		return r;
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return -EADDRINUSE;
	if (errno != ENOENT && errno != ECONNREFUSED)
		return -errno;
	if (errno == ECONNREFUSED && (r = server_unlink_stale(c->path)) < 0)
		return r;
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	*ret_group = 0;
	if (c->group && *c->group) {
		g = getgrnam(c->group);
		if (!g)
			buf_printf(message,
				"control.group: there is no group %s: the control "
				"socket is root's alone (groupadd --system %s)",
				c->group, c->group);
		else if (chown(c->path, (uid_t)-1, g->gr_gid) < 0)
			buf_printf(message, "control.group: cannot give %s to group %s: %s",
				c->path, c->group, strerror(errno));
		else
			*ret_group = g->gr_gid;
	}
	return chmod(c->path, 0660) < 0 ? -errno : 0;
}

static void server_closed(uv_handle_t *h)
{
	struct os_control *s = h->data;

	s->closing = true;
	server_release(s);
}

static void server_explain(const char *path, int r, struct buf *message)
{
	buf_free(message);
	if (r == -EADDRINUSE)
		buf_printf(message,
			"control socket %s: another weftd answers there: stop it, or "
			"set control.socket to another path",
			path);
	else if (r == -ENOENT)
		buf_printf(message,
			"control socket %s: its folder does not exist: make it, or set "
			"control.socket to another path",
			path);
	else
		buf_printf(message, "control socket %s: %s", path, strerror(-r));
}

int os_control_new(struct os_loop *l, const struct os_control_config *config,
	struct os_control **ret, struct buf *message)
{
	struct os_control *s = w_calloc(1, sizeof(*s));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0 ? -errno : 0;

	if (!s || r < 0) {
		r = r < 0 ? r : -ENOMEM;
		goto err_free;
	}
	s->config = *config;
	list_init(&s->clients);
	s->path = w_strdup(config->path);
	r = s->path ? server_bind(fd, config, &s->group, message) : -ENOMEM;
	if (r < 0)
		goto err_free;
	(void)uv_pipe_init(&l->uv, &s->uv, 0);
	s->uv.data = s;
	r = uv_pipe_open(&s->uv, fd);
	if (r == 0) {
		fd = -1;
		r = uv_listen((uv_stream_t *)&s->uv, BACKLOG, server_accept);
	}
	if (r < 0) {
		server_explain(config->path, r, message);
		if (fd >= 0)
			close(fd);
		uv_close((uv_handle_t *)&s->uv, server_closed);
		return r;
	}
	s->config.path = s->path;
	*ret = s;
	return 0;

err_free:
	server_explain(config->path, r, message);
	if (fd >= 0)
		close(fd);
	if (s)
		w_free(s->path);
	w_free(s);
	return r;
}

void os_control_free(struct os_control *s)
{
	if (!s)
		return;
	(void)unlink(s->path);
	list_for_each_safe (it, &s->clients)
		client_close(container_of(it, struct client, node));
	uv_close((uv_handle_t *)&s->uv, server_closed);
}
