/* The helper process: takes messages, runs scripts and nft, passes on what they say. It trusts
 * nothing that it is sent but the list of paths, and that only as far as they are absolute; the
 * rules for nft are its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/runner_priv.h"

enum { UMASK = 022, EXEC_FAILED = 127, FIRST_FD = 3, ENV_ALL = OS_RUNNER_ENV + 2 };

static const char path_variable[] =
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* A script, or nft, to run; its strings lie in the message. */
struct order {
	struct list list;
	bool nft;          /* else a script */
	struct buf rules;  /* nft's standard input; owned */
	const char *netns; /* for nft; "": ours */
	const char *key, *path;
	char *env[ENV_ALL];
	size_t n;
	char text[];
};

struct job {
	struct order *order; /* owned; NULL: free */
	pid_t pid;
	int out; /* what it writes; -1: closed */
	wtime end;
	bool killed;
	unsigned int lines;
	char line[RUNNER_LINE];
	size_t n;
	char first[RUNNER_LINE / 2]; /* of nft: the first line that it said */
};

struct helper {
	int sock, signals, null;
	bool closing;
	struct buf allowed; /* paths, each ended by a zero */
	struct buf nat;     /* what to take away at the end: the last RUNNER_NAT message */
	struct list queue;
	size_t waiting;
	struct job job[RUNNER_JOBS];
};

/* A line for the log; one for which there is no room is lost, as nobody must wait for the log. */
static void __attribute__((format(printf, 3, 4)))
say(const struct helper *h, enum os_level level, const char *fmt, ...)
{
	char line[RUNNER_LINE];
	va_list ap;
	int n;

	line[0] = (char)('0' + level);
	va_start(ap, fmt);
	n = vsnprintf(line + 1, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = n + 1 < RUNNER_LINE ? n + 1 : RUNNER_LINE - 1;
	(void)!send(h->sock, line, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void order_free(struct order *o)
{
	buf_free(&o->rules);
	w_free(o);
}

/* What becomes of an order about rules; "": it is done. */
static void nat_done(const struct helper *h, const char *fault)
{
	char line[RUNNER_LINE];
	int n = snprintf(line, sizeof(line), "%c%s", RUNNER_NAT, fault);

	if (n > 0)
		(void)!send(h->sock, line, n < RUNNER_LINE ? (size_t)n : RUNNER_LINE - 1,
			MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- messages ---- */

static bool is_allowed(const struct helper *h, const char *path)
{
	struct cur c = cur_of(h->allowed.p, h->allowed.n);
	size_t n = strlen(path) + 1;

	while (c.n > 0) {
		const uint8_t *end = memchr(c.p, 0, c.n);
		struct view v = cur_take(&c, end ? (size_t)(end - c.p) + 1 : c.n);

		if (v.n == n && memcmp(v.p, path, n) == 0)
			return true;
	}
	return false;
}

static bool is_variable(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	if ((strncmp(s, "PLUTO_", 6) != 0 && strncmp(s, "WEFT_", 5) != 0) || s[n] != '=')
		return false;
	for (const unsigned char *p = (const unsigned char *)s + n; *p; p++)
		if (*p < ' ' || *p == 0x7f)
			return false;
	return true;
}

/* Cuts the message into its strings; NULL: what is wrong with it is said. */
static const char *order_parse(struct order *o, size_t n)
{
	char *at = o->text, *end = o->text + n;

	if (n == 0 || end[-1] != 0)
		return "a message is not whole";
	o->key = at;
	at += strlen(at) + 1;
	if (at == end || strlen(o->key) >= OS_RUNNER_KEY)
		return "a message is not whole";
	o->path = at;
	at += strlen(at) + 1;
	o->env[o->n++] = (char *)(uintptr_t)path_variable;
	for (; at != end; at += strlen(at) + 1) {
		if (o->n == ENV_ALL - 1)
			return "it has too many variables";
		if (!is_variable(at))
			return "a variable has a bad name, or control characters in its value";
		o->env[o->n++] = at;
	}
	return o->path[0] == '/' ? NULL : "its path is not absolute";
}

static void message_run(struct helper *h, const char *text, size_t n)
{
	struct order *o = w_calloc(1, sizeof(*o) + n + 1);
	const char *wrong;

	if (!o) {
		say(h, OS_WARNING, "updown: out of memory, a script is not run");
		return;
	}
	memcpy(o->text, text, n);
	wrong = order_parse(o, n);
	if (!wrong && !is_allowed(h, o->path))
		wrong = "the configuration does not name it";
	if (!wrong && h->waiting == RUNNER_QUEUE)
		wrong = "too many are waiting";
	if (wrong) {
		say(h, OS_WARNING, "updown %s: %s is not run: %s", o->key ? o->key : "?",
			o->path ? o->path : "a script", wrong);
		order_free(o);
		return;
	}
	list_add_tail(&h->queue, &o->list);
	h->waiting++;
}

/* An order with nft's rules, to the front: no script holds it up. One that waits is outdated. */
static void message_nat(struct helper *h, struct view m, bool on)
{
	struct order *o = w_calloc(1, sizeof(*o) + m.n + 1);
	const char *wrong = "out of memory";

	if (o) {
		memcpy(o->text, m.p, m.n);
		o->nft = true;
		o->key = o->path = "nft";
		o->env[o->n++] = (char *)(uintptr_t)path_variable;
		wrong = masquerade_rules(view_of(o->text, m.n), on, &o->rules);
	}
	if (wrong) {
		if (o)
			order_free(o);
		nat_done(h, wrong);
		return;
	}
	o->netns = o->text + strlen(o->text) + 1;
	list_for_each_safe (it, &h->queue) {
		struct order *old = container_of(it, struct order, list);

		if (!old->nft)
			continue;
		list_del(it);
		h->waiting--;
		order_free(old);
	}
	list_add_head(&h->queue, &o->list);
	h->waiting++;
	buf_free(&h->nat);
	if (on)
		buf_add(&h->nat, m.p, m.n);
}

/* weftd has ended, or ends: what was set up goes. */
static void nat_withdraw(struct helper *h)
{
	struct buf last = h->nat;

	h->nat = (struct buf){0};
	if (last.n && !last.failed)
		message_nat(h, buf_view(&last), false);
	buf_free(&last);
}

static void message_allow(struct helper *h, const char *text, size_t n)
{
	buf_free(&h->allowed);
	if (n && text[n - 1] == 0)
		buf_add(&h->allowed, text, n);
	if (h->allowed.failed)
		buf_free(&h->allowed);
}

static void message_read(struct helper *h)
{
	char packet[OS_RUNNER_PACKET];
	ssize_t n = recv(h->sock, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		h->closing = true;
	if (h->closing)
		nat_withdraw(h);
	if (n <= 0 || n > (ssize_t)sizeof(packet))
		return;
	if (packet[0] == RUNNER_ALLOW)
		message_allow(h, packet + 1, (size_t)n - 1);
	else if (packet[0] == RUNNER_RUN)
		message_run(h, packet + 1, (size_t)n - 1);
	else if (packet[0] == RUNNER_NAT || packet[0] == RUNNER_PLAIN)
		message_nat(h, view_of(packet + 1, (size_t)n - 1), packet[0] == RUNNER_NAT);
}

/* ---- jobs ---- */

/* A file in memory with the rules; negative: errno says why there is none. */
static int rules_file(const struct buf *rules)
{
	int fd = memfd_create("rules", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, rules->p, rules->n) == (ssize_t)rules->n &&
		lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	return -1;
}

static bool enter_netns(const char *netns)
{
	char path[256];
	int fd;

	if (!netns[0])
		return true;
	(void)snprintf(path, sizeof(path), "%s%s", strchr(netns, '/') ? "" : "/run/netns/", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
}

static void job_exec_nft(const struct order *o)
{
	static const char *const argv[] = {"nft", "-f", "-", NULL};
	int rules = rules_file(&o->rules);

	if (enter_netns(o->netns) && rules >= 0 && dup2(rules, 0) == 0 &&
		close_range(FIRST_FD, UINT32_MAX, 0) == 0 && clearenv() == 0 &&
		putenv((char *)(uintptr_t)path_variable) == 0)
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
}

/* In the script's process, until exec. */
static _Noreturn void job_exec(const struct helper *h, const struct order *o, int out)
{
	char *const argv[] = {(char *)(uintptr_t)o->path, NULL};
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		(void)signal(ignored[i], SIG_DFL);
	(void)setpgid(0, 0);
	(void)umask(UMASK);
	if (chdir("/") != 0 || dup2(h->null, 0) != 0 || dup2(out, 1) != 1 || dup2(out, 2) != 2)
		_exit(EXEC_FAILED);
	if (o->nft)
		job_exec_nft(o);
	else if (close_range(FIRST_FD, UINT32_MAX, 0) == 0)
		(void)execve(o->path, argv, o->env);
	(void)dprintf(2, "cannot be run: %s\n", strerror(errno));
	_exit(EXEC_FAILED);
}

static int job_start(struct helper *h, struct job *j, struct order *o)
{
	int pipes[2];

	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	/* The script's end is an ordinary one. */
	(void)fcntl(pipes[1], F_SETFL, 0);
	j->pid = fork();
	if (j->pid == 0)
		job_exec(h, o, pipes[1]);
	close(pipes[1]);
	if (j->pid < 0) {
		int error = -errno;

		close(pipes[0]);
		return error;
	}
	(void)setpgid(j->pid, j->pid);
	j->order = o;
	j->out = pipes[0];
	j->end = wtime_add(os_now(), RUNNER_TIME_US);
	j->killed = false;
	j->lines = 0;
	j->n = 0;
	j->first[0] = 0;
	return 0;
}

static bool key_runs(const struct helper *h, const char *key)
{
	for (size_t i = 0; i < RUNNER_JOBS; i++)
		if (h->job[i].order && strcmp(h->job[i].order->key, key) == 0)
			return true;
	return false;
}

static struct job *job_free(struct helper *h)
{
	for (size_t i = 0; i < RUNNER_JOBS; i++)
		if (!h->job[i].order)
			return &h->job[i];
	return NULL;
}

/* Starts what can be started, the oldest first. */
static void queue_run(struct helper *h)
{
	list_for_each_safe (it, &h->queue) {
		struct order *o = container_of(it, struct order, list);
		struct job *j = job_free(h);
		int error;

		if (!j)
			return;
		if (key_runs(h, o->key))
			continue;
		list_del(&o->list);
		h->waiting--;
		error = job_start(h, j, o);
		if (error < 0) {
			say(h, OS_WARNING, "%s%s: %s is not run: %s", o->nft ? "" : "updown ",
				o->key, o->path, strerror(-error));
			if (o->nft)
				nat_done(h, strerror(-error));
			order_free(o);
		}
	}
}

static void job_line(struct helper *h, struct job *j)
{
	if (j->order->nft) {
		if (!j->first[0])
			(void)snprintf(j->first, sizeof(j->first), "%.*s", (int)j->n, j->line);
	} else if (j->lines++ < RUNNER_LINES)
		say(h, OS_INFO, "updown %s: %.*s", j->order->key, (int)j->n, j->line);
	else if (j->lines == RUNNER_LINES + 1)
		say(h, OS_WARNING, "updown %s: it says more, which is left out", j->order->key);
	j->n = 0;
}

static void job_read(struct helper *h, struct job *j)
{
	char chunk[4096];
	ssize_t n = read(j->out, chunk, sizeof(chunk));

	for (ssize_t i = 0; i < n; i++) {
		if (chunk[i] != '\n')
			j->line[j->n++] = chunk[i];
		if (chunk[i] == '\n' || j->n == sizeof(j->line))
			job_line(h, j);
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		close(j->out);
		j->out = -1;
	}
}

static void nft_ended(const struct helper *h, const struct job *j, int status)
{
	char fault[RUNNER_LINE / 2 + 64] = "";

	if (j->killed)
		(void)snprintf(fault, sizeof(fault), "nft was killed: it had %d s",
			(int)(RUNNER_TIME_US / W_SEC));
	else if (WIFSIGNALED(status))
		(void)snprintf(fault, sizeof(fault), "nft ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		(void)snprintf(fault, sizeof(fault), "nft %s",
			j->first[0] ? j->first : "refused the rules");
	nat_done(h, fault);
}

static void job_ended(struct helper *h, struct job *j, int status)
{
	const struct order *o = j->order;

	for (int i = 0; i < RUNNER_LINES && j->out >= 0; i++) {
		struct pollfd p = {.fd = j->out, .events = POLLIN};

		if (poll(&p, 1, 0) <= 0)
			break;
		job_read(h, j);
	}
	if (j->n)
		job_line(h, j);
	if (j->out >= 0)
		close(j->out);
	if (o->nft)
		nft_ended(h, j, status);
	else if (j->killed)
		say(h, OS_WARNING, "updown %s: %s was killed: it had %d s", o->key, o->path,
			(int)(RUNNER_TIME_US / W_SEC));
	else if (WIFSIGNALED(status))
		say(h, OS_WARNING, "updown %s: %s ended by signal %d", o->key, o->path,
			WTERMSIG(status));
	else if (WEXITSTATUS(status))
		say(h, OS_WARNING, "updown %s: %s ended with %d", o->key, o->path,
			WEXITSTATUS(status));
	order_free(j->order);
	*j = (struct job){0};
}

static void reap(struct helper *h)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < RUNNER_JOBS; i++)
			if (h->job[i].order && h->job[i].pid == pid)
				job_ended(h, &h->job[i], status);
}

static void jobs_kill(struct helper *h, bool all)
{
	wtime now = os_now();

	for (size_t i = 0; i < RUNNER_JOBS; i++) {
		struct job *j = &h->job[i];

		if (!j->order || j->killed || (!all && !wtime_due(j->end, now)))
			continue;
		(void)kill(-j->pid, SIGKILL);
		j->killed = true;
	}
}

/* ---- the loop ---- */

static bool busy(const struct helper *h)
{
	for (size_t i = 0; i < RUNNER_JOBS; i++)
		if (h->job[i].order)
			return true;
	return !list_empty(&h->queue);
}

/* Milliseconds until the next script's time is over; -1: never. */
static int patience(const struct helper *h)
{
	wtime next = WTIME_NEVER;
	int64_t us;

	for (size_t i = 0; i < RUNNER_JOBS; i++)
		if (h->job[i].order && !h->job[i].killed)
			next = wtime_min(next, h->job[i].end);
	if (next.us == WTIME_NEVER.us)
		return -1;
	us = wtime_diff(next, os_now());
	return us > 0 ? (int)(us / W_MS) + 1 : 0;
}

static void signals_read(struct helper *h)
{
	struct signalfd_siginfo s;

	while (read(h->signals, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGUSR1) {
			jobs_kill(h, true);
			_exit(0);
		}
	}
	reap(h);
}

static void turn(struct helper *h)
{
	enum { SOCK, SIGNALS, FIRST };
	struct pollfd p[FIRST + RUNNER_JOBS];

	p[SOCK] = (struct pollfd){.fd = h->closing ? -1 : h->sock, .events = POLLIN};
	p[SIGNALS] = (struct pollfd){.fd = h->signals, .events = POLLIN};
	for (size_t i = 0; i < RUNNER_JOBS; i++)
		p[FIRST + i] = (struct pollfd){.fd = h->job[i].order ? h->job[i].out : -1,
			.events = POLLIN};
	if (poll(p, FIRST + RUNNER_JOBS, patience(h)) < 0) {
		if (errno != EINTR)
			_exit(1); /* more entries than descriptors are allowed: no use */
		return;
	}
	for (size_t i = 0; i < RUNNER_JOBS; i++)
		if (p[FIRST + i].revents)
			job_read(h, &h->job[i]);
	if (p[SIGNALS].revents)
		signals_read(h);
	if (p[SOCK].revents)
		message_read(h);
	jobs_kill(h, false);
	queue_run(h);
}

_Noreturn void runner_child(int fd)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
	struct helper h = {.sock = 3};
	sigset_t mine;

	/* Whoever stops weftd may stop all of its processes: the last scripts run all the same. */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)prctl(PR_SET_NAME, "weft-updown");
	(void)setpgid(0, 0);
	sigemptyset(&mine);
	sigaddset(&mine, SIGCHLD);
	sigaddset(&mine, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &mine, NULL);
	if (fd != h.sock && dup3(fd, h.sock, O_CLOEXEC) < 0)
		_exit(1);
	if (close_range(h.sock + 1, UINT32_MAX, 0) < 0)
		_exit(1);
	h.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	h.signals = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
	if (h.null < 0 || h.signals < 0)
		_exit(1);
	list_init(&h.queue);
	while (!h.closing || busy(&h))
		turn(&h);
	buf_free(&h.allowed);
	_exit(0);
}
