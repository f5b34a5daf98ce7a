/* Clock, randomness, memory of packets. */
#include "os/clock.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <stdlib.h>

wtime os_now(void)
{
	struct timespec t;

	/* CLOCK_BOOTTIME is in every kernel since 2.6.39: only a broken sandbox refuses it, and
	 * without time nothing here may go on. */
	if (clock_gettime(CLOCK_BOOTTIME, &t) < 0)
		abort();
	return (wtime){(int64_t)t.tv_sec * W_SEC + t.tv_nsec / 1000};
}

uint64_t os_wall_clock_s(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_REALTIME, &t) == 0 ? (uint64_t)t.tv_sec : 0;
}

static int os_rng_fill(void *ctx, void *p, size_t n)
{
	uint8_t *at = p;

	(void)ctx;
	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

struct rng os_rng(void)
{
	return (struct rng){.fill = os_rng_fill};
}

void *os_pool_map(size_t size, bool lock)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* Advice: a kernel that does not take it gives small pages, or a larger core dump. */
	(void)madvise(p, size, MADV_HUGEPAGE);
	(void)madvise(p, size, MADV_DONTDUMP);
	memset(p, 0, size);
	if (lock)
		(void)mlock(p, size);
	return p;
}

void os_pool_unmap(void *pool, size_t size)
{
	if (pool)
		(void)munmap(pool, size);
}

int os_protect_memory(void)
{
	struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return -errno;
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}
