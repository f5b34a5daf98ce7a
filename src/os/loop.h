/* The control thread's event loop (libuv underneath): timers by wtime, descriptors, signals,
 * wake-ups by other threads, names, changes of files. Everything but os_wake_up() belongs to the
 * loop's thread. A handle is made for one loop and must be freed before it; freeing inside its own
 * callback is allowed; NULL is fine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/addr.h"
#include "base/time.h"

struct os_loop;
struct os_timer;
struct os_watch;
struct os_signal;
struct os_wake;
struct os_file_watch;

/* 0, -ENOMEM, or the error of the system. From then on the calling thread and those it starts get
 * no io_uring, see os_sandbox_refuse_rings(). */
int os_loop_new(struct os_loop **ret);
/* Frees the loop. Look-ups that still run get 200 ms, their callbacks are not called; with one that
 * takes longer the loop's memory is left to the end of the process. */
void os_loop_free(struct os_loop *l);
/* Runs until os_loop_stop(). */
void os_loop_run(struct os_loop *l);
void os_loop_stop(struct os_loop *l);
/* Called once a turn of the loop, after the callbacks and before it sleeps. */
void os_loop_on_idle(struct os_loop *l, void (*fn)(void *ctx), void *ctx);

/* One timer on CLOCK_BOOTTIME: it also fires when its time passed in suspend. */
int os_timer_new(struct os_loop *l, void (*fn)(void *ctx), void *ctx, struct os_timer **ret);
/* Fires once at t (WTIME_NEVER: not at all); takes the place of an earlier time. */
void os_timer_set(struct os_timer *t, wtime at);
void os_timer_free(struct os_timer *t);

/* Calls fn when fd (borrowed) can be read, or has an error. */
int os_watch_new(struct os_loop *l, int fd, void (*fn)(void *ctx), void *ctx,
	struct os_watch **ret);
void os_watch_free(struct os_watch *w);

int os_signal_new(struct os_loop *l, int number, void (*fn)(void *ctx), void *ctx,
	struct os_signal **ret);
void os_signal_free(struct os_signal *s);

/* fn runs on the loop's thread soon after any thread called os_wake_up(); calls may be merged. */
int os_wake_new(struct os_loop *l, void (*fn)(void *ctx), void *ctx, struct os_wake **ret);
void os_wake_up(struct os_wake *w);
void os_wake_free(struct os_wake *w);

/* Looks a host name up without blocking the loop; family IP4 or IP6. fn gets the addresses
 * (borrowed for the call), count 0 when there are none. 0 or a negative errno (then fn is not
 * called). */
enum { OS_RESOLVE_MAX = 16 };
typedef void os_resolved_fn(void *ctx, uint32_t id, const struct ipaddr *address, size_t count);
struct os_resolve {
	const char *name;
	enum ip_family family;
	uint32_t id;
	os_resolved_fn *fn;
	void *ctx;
};
int os_resolve(struct os_loop *l, const struct os_resolve *r);

/* Calls fn when the file may have changed: written, or replaced by rename, or created. The folder
 * is watched, so the file need not exist. Several changes within 200 ms are one call. */
int os_file_watch_new(struct os_loop *l, const char *path, void (*fn)(void *ctx), void *ctx,
	struct os_file_watch **ret);
void os_file_watch_free(struct os_file_watch *w);
