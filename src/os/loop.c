/* The event loop over libuv. Handles are closed by libuv a turn later, so each is a heap object
 * that its close callback frees. */
#include "os/loop.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/mem.h"
#include "os/loop_priv.h"
#include "os/sandbox.h"

enum { PATIENCE_MS = 200, LOOP_FILES = 8 };

struct os_signal {
	uv_signal_t uv;
	void (*fn)(void *ctx);
	void *ctx;
};

struct os_wake {
	uv_async_t uv;
	void (*fn)(void *ctx);
	void *ctx;
};

struct os_watch {
	uv_poll_t uv;
	void (*fn)(void *ctx);
	void *ctx;
};

struct os_timer {
	struct os_watch *watch;
	int fd;
	void (*fn)(void *ctx);
	void *ctx;
};

static void loop_prepare(uv_prepare_t *p)
{
	struct os_loop *l = p->data;

	if (l->idle)
		l->idle(l->idle_ctx);
}

/* libuv aborts when it has no descriptors for what a program has once. */
static int loop_room(void)
{
	int fd[LOOP_FILES], n = 0, r = 0;

	while (n < LOOP_FILES && r == 0) {
		fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd[n] < 0)
			r = -errno;
		else
			n++;
	}
	while (n > 0)
		close(fd[--n]);
	return r;
}

int os_loop_new(struct os_loop **ret)
{
	struct os_loop *l;
	int r = loop_room();

	if (r < 0)
		return r;
	l = w_calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	/* Where calls cannot be filtered the sandbox cannot either, and a ring does no harm. */
	(void)os_sandbox_refuse_rings();
	r = uv_loop_init(&l->uv);
	if (r < 0) {
		w_free(l);
		return r;
	}
	/* libuv writes to sockets whose other end may have gone. */
	(void)signal(SIGPIPE, SIG_IGN);
	list_init(&l->resolves);
	(void)uv_prepare_init(&l->uv, &l->prepare);
	l->prepare.data = l;
	(void)uv_prepare_start(&l->prepare, loop_prepare);
	*ret = l;
	return 0;
}

void os_loop_on_idle(struct os_loop *l, void (*fn)(void *ctx), void *ctx)
{
	l->idle = fn;
	l->idle_ctx = ctx;
}

void os_loop_run(struct os_loop *l)
{
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
}

void os_loop_stop(struct os_loop *l)
{
	uv_stop(&l->uv);
}

void os_loop_free(struct os_loop *l)
{
	if (!l)
		return;
	l->idle = NULL;
	uv_close((uv_handle_t *)&l->prepare, NULL);
	list_for_each (it, &l->resolves)
		os_resolve_forget(it);
	for (int i = 0; i < PATIENCE_MS && !list_empty(&l->resolves); i++) {
		(void)uv_run(&l->uv, UV_RUN_NOWAIT);
		(void)usleep(W_MS);
	}
	/* A look-up whose name server is silent may take half a minute: the process ends before. */
	if (!list_empty(&l->resolves))
		return;
	/* Close callbacks. */
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	(void)uv_loop_close(&l->uv);
	w_free(l);
}

static void handle_closed(uv_handle_t *h)
{
	w_free(h->data);
}

static void watch_ready(uv_poll_t *p, int status, int events)
{
	struct os_watch *w = p->data;

	(void)status;
	(void)events;
	w->fn(w->ctx);
}

int os_watch_new(struct os_loop *l, int fd, void (*fn)(void *ctx), void *ctx, struct os_watch **ret)
{
	struct os_watch *w = w_calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->fn = fn;
	w->ctx = ctx;
	r = uv_poll_init(&l->uv, &w->uv, fd);
	if (r < 0) {
		w_free(w);
		return r;
	}
	w->uv.data = w;
	r = uv_poll_start(&w->uv, UV_READABLE, watch_ready);
	if (r < 0) {
		os_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void os_watch_free(struct os_watch *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->uv, handle_closed);
}

static void timer_ready(void *ctx)
{
	struct os_timer *t = ctx;
	uint64_t count;

	/* Set to a later time meanwhile: nothing to read. */
	if (read(t->fd, &count, sizeof(count)) == sizeof(count))
		t->fn(t->ctx);
}

int os_timer_new(struct os_loop *l, void (*fn)(void *ctx), void *ctx, struct os_timer **ret)
{
	struct os_timer *t = w_calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->fn = fn;
	t->ctx = ctx;
	t->fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	r = t->fd < 0 ? -errno : os_watch_new(l, t->fd, timer_ready, t, &t->watch);
	if (r < 0) {
		if (t->fd >= 0)
			close(t->fd);
		w_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void os_timer_set(struct os_timer *t, wtime at)
{
	struct itimerspec spec = {0};

	if (at.us != WTIME_NEVER.us) {
		int64_t us = at.us > 0 ? at.us : 1; /* all zero would disarm it */

		spec.it_value.tv_sec = us / W_SEC;
		spec.it_value.tv_nsec = us % W_SEC * 1000;
	}
	(void)timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void os_timer_free(struct os_timer *t)
{
	if (!t)
		return;
	os_watch_free(t->watch);
	close(t->fd);
	w_free(t);
}

static void signal_came(uv_signal_t *uv, int number)
{
	struct os_signal *s = uv->data;

	(void)number;
	s->fn(s->ctx);
}

int os_signal_new(struct os_loop *l, int number, void (*fn)(void *ctx), void *ctx,
	struct os_signal **ret)
{
	struct os_signal *s = w_calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->fn = fn;
	s->ctx = ctx;
	r = uv_signal_init(&l->uv, &s->uv);
	if (r < 0) {
		w_free(s);
		return r;
	}
	s->uv.data = s;
	r = uv_signal_start(&s->uv, signal_came, number);
	if (r < 0) {
		os_signal_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void os_signal_free(struct os_signal *s)
{
	if (s)
		uv_close((uv_handle_t *)&s->uv, handle_closed);
}

static void wake_came(uv_async_t *uv)
{
	struct os_wake *w = uv->data;

	w->fn(w->ctx);
}

int os_wake_new(struct os_loop *l, void (*fn)(void *ctx), void *ctx, struct os_wake **ret)
{
	struct os_wake *w = w_calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->fn = fn;
	w->ctx = ctx;
	r = uv_async_init(&l->uv, &w->uv, wake_came);
	if (r < 0) {
		w_free(w);
		return r;
	}
	w->uv.data = w;
	*ret = w;
	return 0;
}

void os_wake_up(struct os_wake *w)
{
	(void)uv_async_send(&w->uv);
}

void os_wake_free(struct os_wake *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->uv, handle_closed);
}
