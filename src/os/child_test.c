/* Work in a child: its answer comes back, and so does news of its death. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include "os/child.h"

static int answer(void *ctx)
{
	return *(int *)ctx;
}

static int die(void *ctx)
{
	raise(*(int *)ctx);
	return 0;
}

static int hang(void *ctx)
{
	(void)ctx;
	for (;;)
		pause();
	return 0;
}

static void answers_come_back(void **state)
{
	static const struct {
		int says, comes;
	} t[] = {{0, 0}, {-EIO, -EIO}, {-EBADMSG, -EBADMSG}, {1, -255}, {-1000, -255}};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int says = t[i].says, signal_number = -1;

		assert_int_equal(os_child_run(answer, &says, 10, &signal_number), t[i].comes);
		assert_int_equal(signal_number, 0);
	}
}

static void deaths_are_told(void **state)
{
	static const int signals[] = {SIGSEGV, SIGILL, SIGKILL, SIGABRT};

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		int number = signals[i], got = 0;

		assert_int_equal(os_child_run(die, &number, 10, &got), -EFAULT);
		assert_int_equal(got, number);
	}
}

static void endless_work_is_ended(void **state)
{
	int got = 0;

	(void)state;
	assert_int_equal(os_child_run(hang, NULL, 1, &got), -EFAULT);
	assert_int_equal(got, SIGALRM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_come_back),
		cmocka_unit_test(deaths_are_told),
		cmocka_unit_test(endless_work_is_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
