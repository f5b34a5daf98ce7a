/* A child process for work that may crash. */
#include "os/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_MAX = 255 };

/* The signals by which it may end do what they do by default, whatever this process had set. */
static void child_work(int (*work)(void *ctx), void *ctx, unsigned int seconds)
{
	static const int fatal[] = {SIGALRM, SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGABRT};
	const struct rlimit none = {0};
	sigset_t set;
	int r;

	(void)setrlimit(RLIMIT_CORE, &none);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		(void)signal(fatal[i], SIG_DFL);
		sigaddset(&set, fatal[i]);
	}
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(seconds);
	r = work(ctx);
	_exit(r < 0 && r >= -STATUS_MAX ? -r : r != 0 ? STATUS_MAX : 0);
}

int os_child_run(int (*work)(void *ctx), void *ctx, unsigned int seconds, int *ret_signal)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		child_work(work, ctx, seconds);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	*ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return *ret_signal ? -EFAULT : -WEXITSTATUS(status);
}
