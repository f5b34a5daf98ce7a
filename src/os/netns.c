/* Network namespaces: setns(2) is a thread's matter, so a thread goes there and does the work; what
 * it opens stays behind and is the caller's. */
#include "os/netns.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 256 };

struct netns_job {
	int fd, enter_error, result;
	int (*fn)(void *ctx);
	void *ctx;
};

static void *netns_thread(void *arg)
{
	struct netns_job *job = arg;

	if (setns(job->fd, CLONE_NEWNET) < 0)
		job->enter_error = -errno;
	else
		job->result = job->fn(job->ctx);
	return NULL;
}

int os_netns_run(const char *netns, int (*fn)(void *ctx), void *ctx, struct buf *error)
{
	struct netns_job job = {.fn = fn, .ctx = ctx};
	char path[PATH_BYTES];
	pthread_t thread;
	int r;

	if (!netns)
		return fn(ctx);
	if (snprintf(path, sizeof(path), "%s%s", strchr(netns, '/') ? "" : "/run/netns/", netns) >=
		(int)sizeof(path)) {
		buf_printf(error, "network namespace %s: the name is too long", netns);
		return -ENAMETOOLONG;
	}
	job.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (job.fd < 0) {
		r = -errno;
		buf_printf(error, "network namespace %s: %s: %s; make it with: ip netns add %s",
			netns, path, strerror(-r), netns);
		return r;
	}
	r = -pthread_create(&thread, NULL, netns_thread, &job);
	if (r == 0)
		r = -pthread_join(thread, NULL);
	close(job.fd);
	if (r < 0 || job.enter_error < 0) {
		r = r < 0 ? r : job.enter_error;
		buf_printf(error, "network namespace %s: cannot enter: %s%s", netns, strerror(-r),
			r == -EPERM ? "; CAP_SYS_ADMIN is needed" : "");
		return r;
	}
	return job.result;
}
