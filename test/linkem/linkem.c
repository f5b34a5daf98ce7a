/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: opens a TAP device in each of two network namespaces, joins them by two lines
 * (linkem.h) and answers on a UNIX socket, a line for a line:
 *
 *	set ab|ba|both key=value ...	ok
 *	show				{"ab": {...}, "ba": {...}}
 *
 * anything wrong gets "error: why". It ends with SIGTERM, or when a device is gone.
 */
#include "linkem.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	CLIENTS = 8,
	LINE_LEN_MAX = 1024,
	READ_BATCH = 64,
	REPLY_MAX = 4096,
};

#define NS_PER_S 1000000000LL

struct end {
	const char *netns; /* path, or NULL: the namespace that the program is in by then */
	const char *dev;
	int fd;
};

struct client {
	int fd; /* -1: free */
	size_t len;
	char line[LINE_LEN_MAX];
};

struct linkem {
	struct end end[2];
	struct linkem_line line[2]; /* [0] from end 0 to end 1, [1] back */
	int listener;
	struct client client[CLIENTS];
	uint8_t frame[LINKEM_FRAME_MAX];
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int fail(const char *what, const char *which)
{
	fprintf(stderr, "linkem: %s %s: %s\n", what, which, strerror(errno));
	return -1;
}

/* Opens end->dev as a TAP device in its namespace; the program stays in that namespace. */
static int end_open(struct end *end)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int ns, r;

	if (end->netns) {
		ns = open(end->netns, O_RDONLY | O_CLOEXEC);
		if (ns < 0)
			return fail("cannot open namespace", end->netns);
		r = setns(ns, CLONE_NEWNET);
		close(ns);
		if (r < 0)
			return fail("cannot enter namespace", end->netns);
	}
	end->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (end->fd < 0)
		return fail("cannot open", "/dev/net/tun");
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", end->dev);
	if (ioctl(end->fd, TUNSETIFF, &ifr) < 0)
		return fail("cannot make TAP device", end->dev);
	return 0;
}

static int listener_open(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		return fail("cannot listen on", path);
	}
	strcpy(sun.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 || listen(fd, CLIENTS) < 0)
		return fail("cannot listen on", path);
	return fd;
}

/* Reads what an end sends, bounded, so that the other end is not starved. */
static int end_read(struct linkem *em, int from, int64_t now)
{
	ssize_t len;
	int i;

	for (i = 0; i < READ_BATCH; i++) {
		len = read(em->end[from].fd, em->frame, sizeof(em->frame));
		if (len < 0)
			return errno == EAGAIN || errno == EINTR
				? 0
				: fail("cannot read", em->end[from].dev);
		linkem_line_put(&em->line[from], now, em->frame, (size_t)len);
	}
	return 0;
}

/* Writes the frames that are due; a device that is down or full refuses, which is counted. */
static void line_flush(struct linkem *em, int from, int64_t now)
{
	struct linkem_line *line = &em->line[from];
	struct linkem_frame *frame;

	while ((frame = linkem_line_take(line, now))) {
		if (write(em->end[!from].fd, frame->data, frame->len) == (ssize_t)frame->len) {
			line->count.out++;
			line->count.bytes_out += frame->len;
		} else {
			line->count.refused++;
		}
		free(frame);
	}
}

static size_t command_show(const struct linkem *em, char *reply, size_t size)
{
	size_t len = (size_t)snprintf(reply, size, "{\"ab\": ");

	len += linkem_line_print(&em->line[0], reply + len, size - len);
	len += (size_t)snprintf(reply + len, size - len, ", \"ba\": ");
	len += linkem_line_print(&em->line[1], reply + len, size - len);
	return len + (size_t)snprintf(reply + len, size - len, "}\n");
}

/* Carries out "set": both directions or none. Returns NULL or what is wrong. */
static const char *command_set(struct linkem *em, const char *which, char *words)
{
	struct linkem_settings want[2] = {em->line[0].set, em->line[1].set};
	int ab = strcmp(which, "ba") != 0, ba = strcmp(which, "ab") != 0;
	const char *wrong = NULL;
	char again[LINE_LEN_MAX];

	if (ab && ba && strcmp(which, "both") != 0)
		return "a direction is ab, ba or both";
	snprintf(again, sizeof(again), "%s", words);
	if (ab)
		wrong = linkem_settings_parse(&want[0], words);
	if (ba && !wrong)
		wrong = linkem_settings_parse(&want[1], again);
	if (wrong)
		return wrong;
	em->line[0].set = want[0];
	em->line[1].set = want[1];
	return NULL;
}

/* Carries out one command; returns the length of the reply, which ends with a newline. */
static size_t command_run(struct linkem *em, char *line, char *reply, size_t size)
{
	char *save = NULL, *verb = strtok_r(line, " ", &save);
	char *which = strtok_r(NULL, " ", &save);
	const char *wrong = "set ab|ba|both key=value..., or show";

	if (verb && strcmp(verb, "show") == 0)
		return command_show(em, reply, size);
	if (verb && which && strcmp(verb, "set") == 0)
		wrong = command_set(em, which, save);
	if (wrong)
		return (size_t)snprintf(reply, size, "error: %s\n", wrong);
	return (size_t)snprintf(reply, size, "ok\n");
}

static void client_drop(struct client *client)
{
	close(client->fd);
	client->fd = -1;
	client->len = 0;
}

static void client_accept(struct linkem *em)
{
	int i, fd = accept4(em->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (i = 0; i < CLIENTS; i++) {
		if (em->client[i].fd < 0) {
			em->client[i].fd = fd;
			return;
		}
	}
	close(fd);
}

static void client_read(struct linkem *em, struct client *client)
{
	char reply[REPLY_MAX], *end;
	size_t size;
	ssize_t len;

	len = read(client->fd, client->line + client->len, sizeof(client->line) - client->len);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len <= 0) {
		client_drop(client);
		return;
	}
	client->len += (size_t)len;
	while ((end = memchr(client->line, '\n', client->len))) {
		*end++ = '\0';
		size = command_run(em, client->line, reply, sizeof(reply));
		if (send(client->fd, reply, size, MSG_NOSIGNAL) != (ssize_t)size) {
			client_drop(client);
			return;
		}
		client->len -= (size_t)(end - client->line);
		memmove(client->line, end, client->len);
	}
	if (client->len == sizeof(client->line))
		client_drop(client);
}

/* Waits for a frame, a due time or a command; 0 or -1. */
static int linkem_wait(const struct linkem *em, struct pollfd *fds)
{
	struct timespec wait, *limit = NULL;
	int64_t due, back, now;
	int i;

	for (i = 0; i < 2; i++)
		fds[i] = (struct pollfd){.fd = em->end[i].fd, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = em->listener, .events = POLLIN};
	for (i = 0; i < CLIENTS; i++)
		fds[3 + i] = (struct pollfd){.fd = em->client[i].fd, .events = POLLIN};
	due = linkem_line_deadline(&em->line[0]);
	back = linkem_line_deadline(&em->line[1]);
	due = back < due ? back : due;
	if (due != INT64_MAX) {
		now = now_ns();
		due = due > now ? due - now : 0;
		wait = (struct timespec){due / NS_PER_S, due % NS_PER_S};
		limit = &wait;
	}
	if (ppoll(fds, 3 + CLIENTS, limit, NULL) < 0 && errno != EINTR)
		return fail("cannot", "poll");
	return 0;
}

static int linkem_turn(struct linkem *em)
{
	struct pollfd fds[3 + CLIENTS];
	int64_t now;
	int i;

	if (linkem_wait(em, fds) < 0)
		return -1;
	now = now_ns();
	for (i = 0; i < 2; i++) {
		if (fds[i].revents & (POLLERR | POLLNVAL)) {
			fprintf(stderr, "linkem: %s is gone\n", em->end[i].dev);
			return -1;
		}
		if (fds[i].revents && end_read(em, i, now) < 0)
			return -1;
	}
	for (i = 0; i < CLIENTS; i++)
		if (em->client[i].fd >= 0 && fds[3 + i].revents)
			client_read(em, &em->client[i]);
	if (fds[2].revents)
		client_accept(em);
	line_flush(em, 0, now);
	line_flush(em, 1, now);
	return 0;
}

static int linkem_run(struct linkem *em, const char *control, uint64_t seed)
{
	int i;

	for (i = 0; i < CLIENTS; i++)
		em->client[i].fd = -1;
	if (linkem_line_open(&em->line[0], seed) < 0 || linkem_line_open(&em->line[1], ~seed) < 0)
		return fail("cannot get", "memory");
	/* the default of 50 us would be added to every delay */
	if (prctl(PR_SET_TIMERSLACK, 1) < 0)
		return fail("cannot set", "timer slack");
	if (end_open(&em->end[0]) < 0 || end_open(&em->end[1]) < 0)
		return -1;
	em->listener = listener_open(control);
	if (em->listener < 0)
		return -1;
	while (linkem_turn(em) == 0)
		;
	return -1;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: linkem --control SOCKET [--seed N] [--netns-a PATH] --tap-a DEV "
		"[--netns-b PATH] --tap-b DEV\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"control", required_argument, NULL, 'c'},
		{"seed", required_argument, NULL, 's'},
		{"netns-a", required_argument, NULL, 'n'},
		{"tap-a", required_argument, NULL, 't'},
		{"netns-b", required_argument, NULL, 'N'},
		{"tap-b", required_argument, NULL, 'T'},
		{0},
	};
	struct linkem em = {0};
	const char *control = NULL;
	uint64_t seed = 1;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'c':
			control = optarg;
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			em.end[0].netns = optarg;
			break;
		case 't':
			em.end[0].dev = optarg;
			break;
		case 'N':
			em.end[1].netns = optarg;
			break;
		case 'T':
			em.end[1].dev = optarg;
			break;
		default:
			return usage();
		}
	}
	if (!control || !em.end[0].dev || !em.end[1].dev || optind != argc)
		return usage();
	return linkem_run(&em, control, seed) < 0;
}
