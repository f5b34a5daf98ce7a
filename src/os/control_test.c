/* The control socket's server, and clients of every kind. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "os/control.h"
#include "os/control_priv.h"
#include "os/loop.h"

enum { REFUSED = 5 };

/* Allocations fail. */
static bool failing;

void *__real_w_calloc(size_t count, size_t size);
void *__wrap_w_calloc(size_t count, size_t size);

void *__wrap_w_calloc(size_t count, size_t size)
{
	return __atomic_load_n(&failing, __ATOMIC_RELAXED) ? NULL : __real_w_calloc(count, size);
}

struct server {
	struct os_loop *loop;
	struct os_wake *stop;
	char path[64];
	struct os_control *control;
	size_t reply_bytes;
	size_t asked; /* requests so far */
	uint64_t waits;
	pthread_t thread;
};

static void answer(void *ctx, const struct os_peer *peer, struct view line, struct buf *reply)
{
	struct server *s = ctx;
	size_t bytes = __atomic_load_n(&s->reply_bytes, __ATOMIC_RELAXED);

	__atomic_add_fetch(&s->asked, 1, __ATOMIC_RELAXED);
	assert_true(peer->privileged);
	assert_int_equal(peer->pid, getpid());
	if (view_equal(line, view_of("wait", 4)))
		__atomic_store_n(&s->waits, os_control_later(s->control), __ATOMIC_RELAXED);
	else if (view_equal(line, view_of("go", 2)))
		os_control_answer(s->control, s->waits, view_of("<waited>", 8));
	if (bytes)
		memset(buf_room(reply, bytes), 'r', bytes);
	else
		buf_printf(reply, "<%.*s>", (int)line.n, (const char *)line.p);
}

static void stop(void *ctx)
{
	struct server *s = ctx;

	os_loop_stop(s->loop);
}

static void *serve(void *ctx)
{
	struct server *s = ctx;

	os_loop_run(s->loop);
	return NULL;
}

static void server_start(struct server *s)
{
	struct os_control_config c = {.request = answer, .ctx = s, .group = "no-such-group-weft"};
	struct buf message = {0};
	struct stat st;

	assert_int_equal(os_loop_new(&s->loop), 0);
	snprintf(s->path, sizeof(s->path), "/tmp/weft-test-%d.sock", (int)getpid());
	c.path = s->path;
	assert_int_equal(os_wake_new(s->loop, stop, s, &s->stop), 0);
	assert_int_equal(os_control_new(s->loop, &c, &s->control, &message), 0);
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
	os_loop_free(s->loop);
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

static void test_calls(void **state)
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
	assert_int_equal(os_control_new(s.loop, &c, &second, &error), -EADDRINUSE);
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
static void test_later(void **state)
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

/* As `socat` and `nc -N` do it: what was asked for comes whole, then the end. */
static void test_half_closed(void **state)
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

/* Who sends too much is cut off; who does not read is not answered further, and makes nobody wait.
 */
static void test_bad_clients(void **state)
{
	struct server s = {.reply_bytes = OS_CONTROL_QUEUE / 4};
	uint8_t *much = w_calloc(1, OS_CONTROL_REQUEST + 1);
	static const char rest[] = "<2>\n<3>\n<4>\n<5>\n<6>\n";
	size_t asked;
	ssize_t got = 0;
	char byte;
	int big, deaf;

	(void)state;
	server_start(&s);
	big = client_connect(&s);
	deaf = client_connect(&s);
	memset(much, 'x', OS_CONTROL_REQUEST);
	assert_int_equal(send(big, much, OS_CONTROL_REQUEST, MSG_NOSIGNAL), OS_CONTROL_REQUEST);
	assert_true(recv(big, &byte, 1, 0) <= 0);
	/* Asks six times before it reads: one reply waits for it, not six. */
	asked = __atomic_load_n(&s.asked, __ATOMIC_RELAXED);
	assert_int_equal(send(deaf, "1\n2\n3\n4\n5\n6\n", 12, MSG_NOSIGNAL), 12);
	while (__atomic_load_n(&s.asked, __ATOMIC_RELAXED) == asked)
		continue;
	__atomic_store_n(&s.reply_bytes, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		ask(&s, "alive", "<alive>");
	assert_int_equal(__atomic_load_n(&s.asked, __ATOMIC_RELAXED), asked + 1 + 3);
	/* It gets all of them when it reads, in order. */
	for (size_t left = OS_CONTROL_QUEUE / 4 + 1; left; left -= (size_t)got) {
		got = recv(deaf, much, left < OS_CONTROL_REQUEST ? left : OS_CONTROL_REQUEST, 0);
		assert_true(got > 0);
	}
	got = recv(deaf, much, sizeof(rest) - 1, MSG_WAITALL);
	assert_int_equal(got, sizeof(rest) - 1);
	assert_memory_equal(much, rest, sizeof(rest) - 1);
	close(big);
	close(deaf);
	server_stop(&s);
	w_free(much);
}

/* Clients that there is no memory for hear the end, several at once too; the next one is served. */
static void test_no_memory(void **state)
{
	struct server s = {0};
	int fd[REFUSED];
	char byte;

	(void)state;
	server_start(&s);
	ask(&s, "hello", "<hello>");
	__atomic_store_n(&failing, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < REFUSED; i++)
		fd[i] = client_connect(&s);
	for (size_t i = 0; i < REFUSED; i++) {
		assert_int_equal(recv(fd[i], &byte, 1, 0), 0);
		close(fd[i]);
	}
	__atomic_store_n(&failing, false, __ATOMIC_RELAXED);
	ask(&s, "hello", "<hello>");
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_half_closed),
		cmocka_unit_test(test_bad_clients),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
