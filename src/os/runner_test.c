/* The helper runs what it may, as it may, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/buf.h"
#include "os/clock.h"
#include "os/runner.h"
#include "os/scratch_test.h"

enum { PATIENCE_MS = 15000, STEP_MS = 100, TEXT = 65536 };

/* The runner's log goes to standard error, which is a file here. */
struct bed {
	struct os_runner *runner;
	struct os_log log;
	struct scratch scratch;
	char script[SCRATCH_PATH], said[SCRATCH_PATH];
	int error; /* the real one */
};

static void write_script(const struct bed *b, const char *text)
{
	FILE *f = fopen(b->script, "we");

	assert_non_null(f);
	assert_true(fprintf(f, "#!/bin/sh\n%s", text) > 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(b->script, 0755), 0);
}

static int setup(void **state)
{
	struct bed *b = calloc(1, sizeof(*b));
	int fd;

	assert_non_null(b);
	b->log.level = OS_DEBUG;
	scratch_make(&b->scratch);
	scratch_file(&b->scratch, "script", b->script);
	scratch_file(&b->scratch, "said", b->said);
	fd = open(b->said, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	b->error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	assert_true(fd >= 0 && b->error >= 0);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	close(fd);
	assert_int_equal(os_runner_new(&b->runner), 0);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bed *b = *state;

	os_runner_free(b->runner, &b->log);
	dup2(b->error, STDERR_FILENO);
	close(b->error);
	scratch_remove(&b->scratch);
	free(b);
	return 0;
}

static void allow(struct bed *b)
{
	assert_int_equal(os_runner_allow(b->runner, view_of(b->script, strlen(b->script) + 1)), 0);
}

static int run(struct bed *b, const char *key, const char *path, struct view env)
{
	struct os_runner_script s = {.key = key, .path = path, .env = env};

	return os_runner_run(b->runner, &s);
}

/* How often the log has a text. */
static unsigned int told(const struct bed *b, const char *text)
{
	static const size_t most = TEXT;
	char *all = calloc(1, most + 1);
	int fd = open(b->said, O_RDONLY | O_CLOEXEC);
	unsigned int n = 0;

	assert_non_null(all);
	assert_true(fd >= 0);
	assert_true(read(fd, all, most) >= 0);
	close(fd);
	for (const char *p = all; (p = strstr(p, text)); p++)
		n++;
	free(all);
	return n;
}

/* Until the log has the text so often. */
static void wait_told(struct bed *b, const char *text, unsigned int times)
{
	for (int i = 0; i < PATIENCE_MS / STEP_MS; i++) {
		struct pollfd p = {.fd = os_runner_fd(b->runner), .events = POLLIN};

		(void)poll(&p, 1, STEP_MS);
		assert_true(os_runner_log(b->runner, &b->log));
		if (told(b, text) >= times)
			return;
	}
	fail_msg("never told: %s", text);
}

static void test_what_a_script_gets(void **state)
{
	static const char env[] = "PLUTO_VERB=up-client\0WEFT_LINK=a b;$(id)";
	struct bed *b = *state;
	int leak = open("/dev/null", O_RDONLY); /* without CLOEXEC, and after the fork */

	write_script(b,
		"echo verb=$PLUTO_VERB link=\"$WEFT_LINK\" args=$# home=${HOME-none}\n"
		"cat && echo stdin at end >&2\n"
		"echo $(ls /proc/self/fd) descriptors\n"
		"pwd\nexit 3\n");
	allow(b);
	assert_int_equal(run(b, "one", b->script, view_of(env, sizeof(env))), 0);
	wait_told(b, "ended with 3", 1);
	assert_int_equal(told(b, "updown one: verb=up-client link=a b;$(id) args=0 home=none\n"),
		1);
	assert_int_equal(told(b, "updown one: stdin at end\n"), 1);
	assert_int_equal(told(b, "updown one: /\n"), 1);
	/* 3 is the folder that ls reads */
	assert_int_equal(told(b, "updown one: 0 1 2 3 descriptors\n"), 1);
	close(leak);
}

static void test_what_is_refused(void **state)
{
	static const char bad_name[] = "LD_PRELOAD=/tmp/x";
	static const char bad_value[] = "WEFT_PEER=a\nb";
	static const char open_end[] = {'W', 'E', 'F', 'T', '_', 'A', '=', '1'};
	static char big[OS_RUNNER_PACKET];
	struct bed *b = *state;

	write_script(b, "echo RAN\n");
	assert_int_equal(run(b, "one", b->script, (struct view){0}), 0);
	wait_told(b, "the configuration does not name it", 1);
	allow(b);
	assert_int_equal(run(b, "one", "/bin/true", (struct view){0}), 0);
	wait_told(b, "the configuration does not name it", 2);
	assert_int_equal(run(b, "one", "script", (struct view){0}), 0);
	wait_told(b, "its path is not absolute", 1);
	assert_int_equal(run(b, "one", b->script, view_of(bad_name, sizeof(bad_name))), 0);
	wait_told(b, "bad name", 1);
	assert_int_equal(run(b, "one", b->script, view_of(bad_value, sizeof(bad_value))), 0);
	wait_told(b, "bad name", 2);
	assert_int_equal(run(b, "one", b->script, view_of(open_end, sizeof(open_end))), 0);
	wait_told(b, "not whole", 1);
	assert_int_equal(run(b, "one", b->script, view_of(big, sizeof(big))), -E2BIG);
	assert_int_equal(told(b, "RAN"), 0);
	/* and it still works */
	assert_int_equal(run(b, "one", b->script, (struct view){0}), 0);
	wait_told(b, "updown one: RAN", 1);
	/* a new list takes the place of the old one */
	assert_int_equal(os_runner_allow(b->runner, (struct view){0}), 0);
	assert_int_equal(run(b, "one", b->script, (struct view){0}), 0);
	wait_told(b, "the configuration does not name it", 3);
}

static void test_order(void **state)
{
	struct bed *b = *state;

	write_script(b, "[ $WEFT_A = 1 ] && sleep 0.5\necho $WEFT_A ended\n");
	allow(b);
	assert_int_equal(run(b, "one", b->script, view_of("WEFT_A=1", 9)), 0);
	assert_int_equal(run(b, "one", b->script, view_of("WEFT_A=2", 9)), 0);
	assert_int_equal(run(b, "two", b->script, view_of("WEFT_A=3", 9)), 0);
	wait_told(b, "3 ended", 1);
	assert_int_equal(told(b, "1 ended"), 0);
	assert_int_equal(told(b, "2 ended"), 0);
	wait_told(b, "1 ended", 1);
	wait_told(b, "2 ended", 1);
}

static void test_too_long_and_too_much(void **state)
{
	struct bed *b = *state;
	wtime begin = os_now();

	write_script(b,
		"[ $WEFT_A = 2 ] && { yes | head -n 5000; exit; }\n"
		"echo pid=$$\nsleep 60 & sleep 60\n");
	allow(b);
	assert_int_equal(run(b, "one", b->script, view_of("WEFT_A=1", 9)), 0);
	assert_int_equal(run(b, "two", b->script, view_of("WEFT_A=2", 9)), 0);
	wait_told(b, "it says more, which is left out", 1);
	assert_true(told(b, ": y\n") <= 200);
	wait_told(b, "was killed: it had 10 s", 1);
	assert_in_range(wtime_diff(os_now(), begin) / W_MS, 9900, 12000);
}

static void test_the_end_waits_for_the_last_scripts(void **state)
{
	struct bed *b = *state;

	write_script(b, "sleep 0.3\necho last words\n");
	allow(b);
	assert_int_equal(run(b, "one", b->script, (struct view){0}), 0);
	os_runner_free(b->runner, &b->log);
	b->runner = NULL;
	assert_int_equal(told(b, "updown one: last words"), 1);
}

static void test_the_end_does_not_wait_for_ever(void **state)
{
	struct bed *b = *state;
	wtime begin = os_now();

	write_script(b, "trap '' TERM\nwhile :; do sleep 1; done\n");
	allow(b);
	assert_int_equal(run(b, "one", b->script, (struct view){0}), 0);
	os_runner_free(b->runner, &b->log);
	b->runner = NULL;
	assert_int_equal(told(b, "are killed"), 1);
	assert_true(wtime_diff(os_now(), begin) < 5 * W_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_a_script_gets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_long_and_too_much, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_end_waits_for_the_last_scripts, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_the_end_does_not_wait_for_ever, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
