/* The loop's timers, wake-ups, names, file watching, and the control socket with its clients. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <signal.h>
#include <cmocka.h>
#include "base/mem.h"
#include "os/clock.h"
#include "os/control.h"
#include "os/control_priv.h"
#include "os/file.h"
#include "os/loop.h"

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

static void test_file_watch(void **state)
{
	char folder[] = "/tmp/weft-test-XXXXXX", path[64], other[64];
	struct os_file_watch *w;
	struct run r;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/registry.json", folder);
	snprintf(other, sizeof(other), "%s/new", folder);
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
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void test_file_read(void **state)
{
	char path[] = "/tmp/weft-test-XXXXXX";
	int fd = mkstemp(path);
	struct buf text = {0};

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	write_file(path, "abc\n");
	assert_int_equal(os_file_read(path, 4, &text), 0);
	assert_int_equal(text.n, 4);
	assert_int_equal(os_file_read(path, 3, &text), -EFBIG);
	assert_int_equal(os_file_read("/tmp", 3, &text), -EISDIR);
	assert_int_equal(os_file_read("/nonexistent", 3, &text), -ENOENT);
	buf_free(&text);
	assert_int_equal(unlink(path), 0);
}

/* A reload must come to an end whatever lies in the file's place. */
static void test_file_read_of_a_pipe_ends(void **state)
{
	char path[] = "/tmp/weft-test-XXXXXX";
	struct buf text = {0};
	int fd;

	(void)state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(os_file_read(path, 8, &text), 0); /* nobody writes: empty */
	assert_int_equal(text.n, 0);
	fd = open(path, O_RDWR | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "abc", 3), 3);
	assert_int_equal(os_file_read(path, 8, &text), -ETIMEDOUT); /* and no end comes */
	close(fd);
	buf_free(&text);
	assert_int_equal(unlink(path), 0);
}

/* ---- the control socket ---- */

struct server {
	struct run run;
	struct os_wake *stop;
	char path[64];
	struct os_control *control;
	size_t reply_bytes;
	uint64_t waits;
	pthread_t thread;
};

static void answer(void *ctx, const struct os_peer *peer, struct view line, struct buf *reply)
{
	struct server *s = ctx;

	assert_true(peer->privileged);
	assert_int_equal(peer->pid, getpid());
	if (view_equal(line, view_of("wait", 4)))
		s->waits = os_control_later(s->control);
	else if (view_equal(line, view_of("go", 2)))
		os_control_answer(s->control, s->waits, view_of("<waited>", 8));
	if (s->reply_bytes)
		memset(buf_room(reply, s->reply_bytes), 'r', s->reply_bytes);
	else
		buf_printf(reply, "<%.*s>", (int)line.n, (const char *)line.p);
}

static void *serve(void *ctx)
{
	struct server *s = ctx;

	os_loop_run(s->run.loop);
	return NULL;
}

static void server_start(struct server *s)
{
	struct os_control_config c = {.request = answer, .ctx = s, .group = "no-such-group-weft"};
	struct buf message = {0};
	struct stat st;

	run_start(&s->run);
	snprintf(s->path, sizeof(s->path), "/tmp/weft-test-%d.sock", (int)getpid());
	c.path = s->path;
	assert_int_equal(os_wake_new(s->run.loop, called, &s->run, &s->stop), 0);
	assert_int_equal(os_control_new(s->run.loop, &c, &s->control, &message), 0);
	assert_non_null(strstr((char *)message.p, "no-such-group-weft"));
	buf_free(&message);
	assert_int_equal(stat(s->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
	os_wake_up(s->stop);
	assert_int_equal(pthread_join(s->thread, NULL), 0);
	os_wake_free(s->stop);
	os_control_free(s->control);
	os_loop_free(s->run.loop);
	assert_int_equal(access(s->path, F_OK), -1);
}

static int client_connect(const struct server *s)
{
	struct sockaddr_un sun;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(os_control_address(s->path, &sun), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static void ask(const struct server *s, const char *request, const char *want)
{
	struct buf reply = {0}, error = {0};

	assert_int_equal(os_control_call(s->path, view_of(request, strlen(request)), 5000, &reply,
				 &error),
		0);
	assert_true(view_equal(buf_view(&reply), view_of(want, strlen(want))));
	buf_free(&reply);
	buf_free(&error);
}

static void test_control(void **state)
{
	struct server s = {0};
	struct buf reply = {0}, error = {0};
	struct os_control *second = NULL;
	struct os_control_config c = {.request = answer};

	(void)state;
	server_start(&s);
	c.path = s.path;
	ask(&s, "hello", "<hello>");
	/* A second daemon finds out. */
	assert_int_equal(os_control_new(s.run.loop, &c, &second, &error), -EADDRINUSE);
	assert_non_null(strstr((char *)error.p, "another weftd"));
	buf_free(&error);
	ask(&s, "still here", "<still here>");
	server_stop(&s);
	assert_int_equal(os_control_call(s.path, view_of("x", 1), 100, &reply, &error), -ENOENT);
	assert_non_null(strstr((char *)error.p, "no weftd answers"));
	buf_free(&error);
	buf_free(&reply);
}

/* Who waits for a reply holds nobody up, and what it asked behind it is answered in its turn. */
static void test_control_later(void **state)
{
	static const char want[] = "<waited>\n<after>\n";
	struct server s = {0};
	char got[sizeof(want)] = "";
	size_t n = 0;
	ssize_t r;
	int fd;

	(void)state;
	server_start(&s);
	fd = client_connect(&s);
	assert_int_equal(write(fd, "wait\nafter\n", 11), 11);
	while (__atomic_load_n(&s.waits, __ATOMIC_RELAXED) == 0)
		ask(&s, "hello", "<hello>");
	assert_int_equal(recv(fd, got, sizeof(got), MSG_DONTWAIT), -1);
	ask(&s, "go", "<go>");
	while (n < sizeof(want) - 1 && (r = read(fd, got + n, sizeof(got) - 1 - n)) > 0)
		n += (size_t)r;
	assert_string_equal(got, want);
	/* one that has gone meanwhile */
	assert_int_equal(write(fd, "wait\n", 5), 5);
	ask(&s, "hello", "<hello>");
	close(fd);
	ask(&s, "go", "<go>");
	ask(&s, "hello", "<hello>");
	server_stop(&s);
}

/* Clients that send too much, or never read, are cut off, and nobody else notices. */
/* As `socat` and `nc -N` do it: what was asked for comes whole, then the end. */
static void test_control_half_closed(void **state)
{
	struct server s = {.reply_bytes = OS_CONTROL_QUEUE / 4};
	static uint8_t chunk[65536];
	size_t sum = 0;
	ssize_t got;
	int fd;

	(void)state;
	server_start(&s);
	fd = client_connect(&s);
	assert_int_equal(write(fd, "a\n", 2), 2);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	while ((got = read(fd, chunk, sizeof(chunk))) > 0)
		sum += (size_t)got;
	assert_int_equal(got, 0);
	assert_int_equal(sum, s.reply_bytes + 1);
	close(fd);
	server_stop(&s);
}

static void test_control_bad_clients(void **state)
{
	struct server s = {.reply_bytes = OS_CONTROL_QUEUE / 4};
	uint8_t *much = w_calloc(1, OS_CONTROL_REQUEST + 1);
	char byte;
	int big, deaf;

	(void)state;
	server_start(&s);
	big = client_connect(&s);
	deaf = client_connect(&s);
	memset(much, 'x', OS_CONTROL_REQUEST);
	assert_int_equal(send(big, much, OS_CONTROL_REQUEST, MSG_NOSIGNAL), OS_CONTROL_REQUEST);
	assert_true(recv(big, &byte, 1, 0) <= 0);
	/* Asks for more than may wait, and reads nothing until it was cut off. */
	assert_int_equal(send(deaf, "1\n2\n3\n4\n5\n6\n", 12, MSG_NOSIGNAL), 12);
	while (recv(deaf, much, OS_CONTROL_REQUEST, 0) > 0)
		continue;
	s.reply_bytes = 0;
	ask(&s, "alive", "<alive>");
	close(big);
	close(deaf);
	server_stop(&s);
	w_free(much);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timer),
		cmocka_unit_test(test_wake_and_signal),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_file_watch),
		cmocka_unit_test(test_file_read),
		cmocka_unit_test(test_file_read_of_a_pipe_ends),
		cmocka_unit_test(test_control),
		cmocka_unit_test(test_control_later),
		cmocka_unit_test(test_control_half_closed),
		cmocka_unit_test(test_control_bad_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
