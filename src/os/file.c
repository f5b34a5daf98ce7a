/* Whole small files. */
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 4096, NUMBER_MAX = 32, PIPE_WAIT_MS = 1000 };

/* A pipe in the place of a file: its writer has a second, not the whole life of the caller. */
static int file_wait(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, PIPE_WAIT_MS);

	if (n < 0 && errno != EINTR)
		return -errno;
	return n == 0 ? -ETIMEDOUT : 0;
}

static int file_read_fd(int fd, size_t limit, struct buf *ret)
{
	uint8_t chunk[CHUNK];
	size_t total = 0;

	for (;;) {
		ssize_t got = read(fd, chunk, sizeof(chunk));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN) {
			int r = file_wait(fd);

			if (r < 0)
				return r;
			continue;
		}
		if (got < 0)
			return -errno;
		if (got == 0)
			return ret->failed ? -ENOMEM : 0;
		total += (size_t)got;
		if (total > limit)
			return -EFBIG;
		buf_add(ret, chunk, (size_t)got);
		explicit_bzero(chunk, (size_t)got);
	}
}

int os_file_read(const char *path, size_t limit, struct buf *ret)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r;

	if (fd < 0)
		return -errno;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && S_ISDIR(st.st_mode))
		r = -EISDIR;
	if (r == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > limit)
		r = -EFBIG;
	if (r == 0)
		r = file_read_fd(fd, limit, ret);
	close(fd);
	return r;
}

bool os_file_is_public(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && (st.st_mode & S_IROTH);
}

int os_file_read_number(const char *path, long *ret)
{
	char text[NUMBER_MAX], *end;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	long v;

	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return -EINVAL;
	text[got] = 0;
	v = strtol(text, &end, 10);
	if (end == text)
		return -EINVAL;
	*ret = v;
	return 0;
}

int os_file_write_number(const char *path, long value)
{
	char text[NUMBER_MAX];
	int n = snprintf(text, sizeof(text), "%ld\n", value);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t put;
	int r;

	if (fd < 0)
		return -errno;
	put = write(fd, text, (size_t)n);
	r = put == n ? 0 : put < 0 ? -errno : -EIO;
	close(fd);
	return r;
}
