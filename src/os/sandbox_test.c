/* What is given up is gone: each thing is tried in a child of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "os/child.h"
#include "os/sandbox.h"

enum { FAMILIES = 30 };

static int enter(void *ctx)
{
	struct os_sandbox_keep keep = {0};
	struct buf error = {0};
	int (*then)(void) = *(int (**)(void))ctx;
	int r = os_sandbox_enter(&keep, &error);

	buf_free(&error);
	return r < 0 ? r : then();
}

static int run(int (*then)(void), int *ret_signal)
{
	return os_child_run(enter, &then, 10, ret_signal);
}

static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static int try_mount(void)
{
	return result(mount("none", "/mnt", "tmpfs", 0, NULL));
}

static int try_packet_socket(void)
{
	return result(socket(AF_PACKET, SOCK_RAW, 0));
}

static int try_raw_socket(void)
{
	return result(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

static int try_fork(void)
{
	pid_t p = fork();

	if (p == 0)
		_exit(0);
	return result((int)p);
}

static int try_write_and_execute(void)
{
	return mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			MAP_FAILED
		? -errno
		: 0;
}

static int try_make_executable(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -ENOMEM : result(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int try_setuid(void)
{
	return result(setuid(65534));
}

static int try_chroot(void)
{
	return result(chroot("/"));
}

static int try_other_owners_file(void)
{
	/* the owner is somebody else, and nobody but the owner may read */
	return result(open("/tmp/weft-sandbox-test", O_RDONLY));
}

static int try_exec(void)
{
	char *const nothing[] = {NULL};

	return result(execve("/bin/true", nothing, nothing));
}

static int try_ptrace(void)
{
	return result((int)ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static void *thread(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

/* What the daemon does goes on. */
static int try_what_is_needed(void)
{
	static const int family[] = {AF_UNIX, AF_INET, AF_INET6};
	int done = 0, fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC), mark = 1;
	pthread_t t;

	if (fd < 0)
		return -errno;
	close(fd);
	for (size_t i = 0; i < sizeof(family) / sizeof(family[0]); i++) {
		fd = socket(family[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		if (family[i] != AF_UNIX &&
			setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0)
			return -errno;
		close(fd);
	}
	if (pthread_create(&t, NULL, thread, &done) != 0 || pthread_join(t, NULL) != 0)
		return -EAGAIN;
	return done ? 0 : -ESRCH;
}

static int try_capabilities(void)
{
	if (capng_get_caps_process() < 0)
		return -EIO;
	for (unsigned int c = 0; c <= CAP_LAST_CAP; c++) {
		bool may = c == CAP_NET_ADMIN || c == CAP_NET_BIND_SERVICE;

		if (!!capng_have_capability(CAPNG_EFFECTIVE, c) != may ||
			!!capng_have_capability(CAPNG_PERMITTED, c) != may ||
			capng_have_capability(CAPNG_INHERITABLE, c) ||
			capng_have_capability(CAPNG_BOUNDING_SET, c))
			return -(int)(c + 1);
	}
	return 0;
}

static void what_is_forbidden_fails(void **state)
{
	static int (*const forbidden[])(void) = {try_mount, try_packet_socket, try_raw_socket,
		try_fork, try_write_and_execute, try_make_executable, try_setuid, try_chroot};
	int number;

	(void)state;
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		assert_int_equal(run(forbidden[i], &number), -EPERM);
		assert_int_equal(number, 0);
	}
}

static void what_nobody_does_is_the_end(void **state)
{
	int number;

	(void)state;
	assert_int_equal(run(try_exec, &number), -EFAULT);
	assert_int_equal(number, SIGSYS);
	assert_int_equal(run(try_ptrace, &number), -EFAULT);
	assert_int_equal(number, SIGSYS);
}

static void what_is_needed_works(void **state)
{
	int number;

	(void)state;
	assert_int_equal(run(try_what_is_needed, &number), 0);
	assert_int_equal(number, 0);
	assert_int_equal(run(try_capabilities, &number), 0);
}

static void files_are_opened_as_their_owner(void **state)
{
	static const char path[] = "/tmp/weft-sandbox-test";
	int number, fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(run(try_other_owners_file, &number), 0);
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(run(try_other_owners_file, &number), -EACCES);
	assert_int_equal(unlink(path), 0);
}

/* ---- the unit of systemd, which says the same with its own words ---- */

static char *unit_line(const char *key)
{
	static const char path[] = WEFT_TEST_DATA "/../dist/weftd.service.in";
	static char line[1024];
	FILE *f = fopen(path, "re");
	char *found = NULL;

	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	while (!found && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == '=')
			found = line + strlen(key) + 1;
	fclose(f);
	if (!found)
		fail_msg("%s has no %s", path, key);
	return found;
}

/* Whether a line of words separated by spaces has this one, in any case. */
static bool has_word(const char *line, const char *word)
{
	for (size_t n; (n = strcspn(line, " \n")) > 0 || *line; line += n + !!line[n])
		if (n == strlen(word) && strncasecmp(line, word, n) == 0)
			return true;
	return false;
}

static bool unit_has_family(int family)
{
	static const char *const name[FAMILIES] = {[AF_UNIX] = "AF_UNIX",
		[AF_INET] = "AF_INET",
		[AF_INET6] = "AF_INET6",
		[AF_NETLINK] = "AF_NETLINK",
		[AF_PACKET] = "AF_PACKET"};

	return name[family] && has_word(unit_line("RestrictAddressFamilies"), name[family]);
}

/* Minus the first family that one of the two allows alone. */
static int try_families(void)
{
	for (int family = 1; family < FAMILIES; family++) {
		int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		bool may = fd >= 0 || errno != EPERM;

		if (fd >= 0)
			close(fd);
		if (may != unit_has_family(family))
			return -family;
	}
	return 0;
}

static void the_unit_has_the_same_families(void **state)
{
	int number;

	(void)state;
	assert_int_equal(run(try_families, &number), 0);
	assert_int_equal(number, 0);
}

/* The unit may allow more: what is needed until the sandbox is entered. What is kept is allowed. */
static void the_unit_allows_what_is_kept(void **state)
{
	const char *line = unit_line("CapabilityBoundingSet");

	(void)state;
	assert_true(has_word(line, "CAP_NET_ADMIN") && has_word(line, "CAP_NET_BIND_SERVICE"));
	assert_false(has_word(line, "CAP_SYS_ADMIN")); /* with a namespace of its own alone */
	assert_true(has_word(unit_line("MemoryDenyWriteExecute"), "yes"));
	assert_true(has_word(unit_line("NoNewPrivileges"), "yes"));
}

/* A program built with a sanitizer has no filter of system calls. */
static bool filtered(void)
{
	int number;

	return run(try_exec, &number) == -EFAULT;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_needed_works),
		cmocka_unit_test(files_are_opened_as_their_owner),
		cmocka_unit_test(the_unit_allows_what_is_kept),
		cmocka_unit_test(the_unit_has_the_same_families),
		cmocka_unit_test(what_is_forbidden_fails),
		cmocka_unit_test(what_nobody_does_is_the_end),
	};

	if (geteuid() != 0)
		return 77; /* nothing to give up */
	return _cmocka_run_group_tests("sandbox", tests, filtered() ? 6 : 3, NULL, NULL);
}
