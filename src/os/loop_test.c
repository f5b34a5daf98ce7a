/* The loop's timers, wake-ups, names and file watching. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <signal.h>
#include <cmocka.h>
#include "os/clock.h"
#include "os/file.h"
#include "os/loop.h"
#include "os/scratch_test.h"

struct run {
	struct os_loop *loop;
	unsigned int calls, want;
	wtime at;
	size_t addresses;
	struct ipaddr first;
};

static void called(void *ctx)
{
	struct run *r = ctx;

	r->at = os_now();
	if (++r->calls >= r->want)
		os_loop_stop(r->loop);
}

static void run_start(struct run *r)
{
	*r = (struct run){.want = 1};
	assert_int_equal(os_loop_new(&r->loop), 0);
}

static void test_timer(void **state)
{
	struct os_timer *t;
	struct run r;
	wtime start;

	(void)state;
	run_start(&r);
	assert_int_equal(os_timer_new(r.loop, called, &r, &t), 0);
	start = os_now();
	os_timer_set(t, wtime_add(start, 500 * W_SEC));
	os_timer_set(t, wtime_add(start, 20 * W_MS));
	os_loop_run(r.loop);
	assert_true(wtime_diff(r.at, start) >= 20 * W_MS);
	os_timer_set(t, (wtime){1}); /* long past: at once */
	os_loop_run(r.loop);
	assert_int_equal(r.calls, 2);
	os_timer_free(t);
	os_loop_free(r.loop);
}

/* How many descriptors of this process are io_urings. */
static unsigned int count_rings(void)
{
	char path[64], target[64];
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t len;

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len <= 0)
			continue;
		target[len] = 0;
		n += strstr(target, "io_uring") != NULL;
	}
	return n;
}

/* The sandbox refuses io_uring, and libuv aborts where a ring that it has is refused. */
static void test_no_ring(void **state)
{
	struct run r;

	(void)state;
	run_start(&r);
	assert_int_equal(count_rings(), 0);
	os_loop_free(r.loop);
}

static void *wake_from_thread(void *wake)
{
	os_wake_up(wake);
	return NULL;
}

static void test_wake_and_signal(void **state)
{
	struct os_signal *s;
	struct os_wake *w;
	pthread_t thread;
	struct run r;

	(void)state;
	run_start(&r);
	assert_int_equal(os_wake_new(r.loop, called, &r, &w), 0);
	assert_int_equal(os_signal_new(r.loop, SIGHUP, called, &r, &s), 0);
	assert_int_equal(pthread_create(&thread, NULL, wake_from_thread, w), 0);
	os_loop_run(r.loop);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(r.calls, 1);
	assert_int_equal(kill(getpid(), SIGHUP), 0);
	r.want = 2;
	os_loop_run(r.loop);
	assert_int_equal(r.calls, 2);
	os_wake_free(w);
	os_signal_free(s);
	os_loop_free(r.loop);
}

static void resolved(void *ctx, uint32_t id, const struct ipaddr *address, size_t count)
{
	struct run *r = ctx;

	assert_int_equal(id, 7);
	r->addresses = count;
	if (count)
		r->first = address[0];
	called(ctx);
}

static void test_resolve(void **state)
{
	struct ipaddr want;
	struct run r;
	struct os_resolve what = {.name = "127.0.0.5",
		.family = IP4,
		.id = 7,
		.fn = resolved,
		.ctx = &r};

	(void)state;
	run_start(&r);
	assert_int_equal(ipaddr_parse("127.0.0.5", &want), 0);
	assert_int_equal(os_resolve(r.loop, &what), 0);
	os_loop_run(r.loop);
	assert_int_equal(r.addresses, 1);
	assert_true(ipaddr_equal(&r.first, &want));
	what.family = IP6; /* there is no such address of that family */
	assert_int_equal(os_resolve(r.loop, &what), 0);
	os_loop_run(r.loop);
	assert_int_equal(r.addresses, 0);
	what.family = IP4;
	assert_int_equal(os_resolve(r.loop, &what), 0);
	os_loop_free(r.loop); /* under way: forgotten */
	assert_int_equal(r.calls, 2);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	scratch_make(s);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	scratch_remove(*state);
	free(*state);
	return 0;
}

static void test_file_watch(void **state)
{
	char path[SCRATCH_PATH], other[SCRATCH_PATH];
	struct os_file_watch *w;
	struct run r;

	scratch_file(*state, "registry.json", path);
	scratch_file(*state, "new", other);
	run_start(&r);
	assert_int_equal(os_file_watch_new(r.loop, path, called, &r, &w), 0);
	write_file(path, "1");
	os_loop_run(r.loop);
	write_file(other, "2");
	assert_int_equal(rename(other, path), 0);
	os_loop_run(r.loop);
	assert_int_equal(r.calls, 2);
	os_file_watch_free(w);
	os_loop_free(r.loop);
}

static void test_file_read(void **state)
{
	const struct scratch *s = *state;
	struct buf text = {0};
	char path[SCRATCH_PATH];

	scratch_file(s, "file", path);
	write_file(path, "abc\n");
	assert_int_equal(os_file_read(path, 4, &text), 0);
	assert_int_equal(text.n, 4);
	assert_int_equal(os_file_read(path, 3, &text), -EFBIG);
	assert_int_equal(os_file_read(s->folder, 3, &text), -EISDIR);
	assert_int_equal(os_file_read("/nonexistent", 3, &text), -ENOENT);
	buf_free(&text);
	assert_int_equal(chmod(path, 0640), 0);
	assert_false(os_file_is_public(path));
	assert_int_equal(chmod(path, 0644), 0);
	assert_true(os_file_is_public(path));
	assert_int_equal(unlink(path), 0);
	assert_false(os_file_is_public(path));
}

/* A reload must come to an end whatever lies in the file's place. */
static void test_file_read_of_a_pipe_ends(void **state)
{
	char path[SCRATCH_PATH];
	struct buf text = {0};
	int fd;

	scratch_file(*state, "pipe", path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(os_file_read(path, 8, &text), 0); /* nobody writes: empty */
	assert_int_equal(text.n, 0);
	fd = open(path, O_RDWR | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "abc", 3), 3);
	assert_int_equal(os_file_read(path, 8, &text), -ETIMEDOUT); /* and no end comes */
	close(fd);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_ring),
		cmocka_unit_test(test_timer),
		cmocka_unit_test(test_wake_and_signal),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test_setup_teardown(test_file_watch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_read_of_a_pipe_ends, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
