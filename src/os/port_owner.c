/* Who has a UDP port: /proc/net/udp names the socket's inode, /proc/PID/fd who holds it. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "os/file.h"
#include "os/net.h"

enum { TABLE_MAX = 4 << 20, TEXT = 320, INODES = 16 };

struct inodes {
	unsigned long v[INODES];
	size_t n;
};

static void inodes_of_port(const char *path, uint16_t port, struct inodes *ret)
{
	struct buf text = {0};
	char *line, *save = NULL;

	if (os_file_read(path, TABLE_MAX, &text) == 0) {
		buf_add(&text, "", 1);
		line = text.failed ? NULL : strtok_r((char *)text.p, "\n", &save);
		for (; line && ret->n < INODES; line = strtok_r(NULL, "\n", &save)) {
			unsigned int local;
			unsigned long inode;

			/* "sl: local:port remote:port st tx:rx tr:when retrnsmt uid timeout inode"
			 */
			if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %*u %*u %lu",
				    &local, &inode) == 2 &&
				local == port && inode != 0)
				ret->v[ret->n++] = inode;
		}
	}
	buf_free(&text);
}

static bool inodes_have(const struct inodes *in, const char *link)
{
	unsigned long inode;

	if (sscanf(link, "socket:[%lu]", &inode) != 1)
		return false;
	for (size_t i = 0; i < in->n; i++)
		if (in->v[i] == inode)
			return true;
	return false;
}

static bool process_has(const char *pid, const struct inodes *in)
{
	char path[TEXT], link[TEXT];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	d = opendir(path);
	if (!d)
		return false;
	while (!found && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = 0;
		found = inodes_have(in, link);
	}
	closedir(d);
	return found;
}

static void process_name(const char *pid, struct buf *ret)
{
	char path[TEXT];
	struct buf name = {0};

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	if (os_file_read(path, TEXT, &name) == 0 && name.n > 1)
		buf_printf(ret, "%.*s ", (int)name.n - 1, (const char *)name.p);
	buf_printf(ret, "(pid %s)", pid);
	buf_free(&name);
}

void os_udp_port_owner(uint16_t port, struct buf *ret)
{
	struct inodes in = {0};
	struct dirent *e;
	DIR *d;

	inodes_of_port("/proc/thread-self/net/udp", port, &in);
	inodes_of_port("/proc/thread-self/net/udp6", port, &in);
	d = in.n ? opendir("/proc") : NULL;
	if (!d)
		return;
	while ((e = readdir(d))) {
		if (isdigit((unsigned char)e->d_name[0]) && process_has(e->d_name, &in)) {
			process_name(e->d_name, ret);
			break;
		}
	}
	closedir(d);
}
