/* A helper process that runs the configured scripts, and nft for an exit. It is forked first of
 * all, before a thread, a key or a descriptor is there that it could inherit, and knows no more
 * than it is told: which paths may be run, and which one to run now. The messages between the two
 * are packets on a socket pair, bounded and checked by the helper.
 *
 * A script is run without a shell and without arguments, in /, with standard input from /dev/null,
 * no descriptors but 0, 1 and 2, and an environment of PATH and what the message says. It has ten
 * seconds; what it writes goes to the log line by line. Scripts of one link run one after the
 * other, those of several links beside each other. */
#pragma once
#include <stdbool.h>
#include "base/addr.h"
#include "base/cur.h"
#include "os/log.h"

struct os_runner;

enum {
	OS_RUNNER_PACKET = 16384, /* bytes of a message at most */
	OS_RUNNER_ENV = 24,       /* variables at most */
	OS_RUNNER_KEY = 512,      /* bytes of a link's name, with its zero */
};

/* Forks; to be called while the process has one thread. 0 or a negative errno. */
int os_runner_new(struct os_runner **ret);
/* Lets the helper end what it has (3 s; then it kills that), logs what it still says, and waits for
 * its end. NULL is fine. */
void os_runner_free(struct os_runner *r, const struct os_log *log);

/* From now on these absolute paths may be run and no others: strings, each ended by a zero. 0;
 * -E2BIG; -EPIPE (the helper is gone) or another negative errno. */
int os_runner_allow(struct os_runner *r, struct view paths);

struct os_runner_script {
	const char *key;  /* the link: for the log, and for the order */
	const char *path; /* one of those allowed */
	struct view env;  /* NAME=value, each ended by a zero; NAME begins with PLUTO_ or WEFT_ */
};

/* Has a script run, after those of the same key. 0; -E2BIG; -EAGAIN (the helper has too much to
 * do); -EPIPE or another negative errno. What becomes of it is in the log. */
int os_runner_run(struct os_runner *r, const struct os_runner_script *s);

/* Network address translation at an exit: packets that come in by the TUN and leave by another
 * interface get an address of that one, but to some prefixes. The helper writes the rules itself
 * and has the program nft read them; they are in one table of their own. What it set up, the helper
 * takes away when weftd ends, however it ends. */
struct os_masquerade {
	const char *tun;
	const char *netns; /* as os_netns_run() has it; NULL: ours */
	bool on;
	const struct prefix *keep;
	size_t keep_count;
};

/* Has it set up (anew) or taken away. 0; -E2BIG; -EAGAIN; -EPIPE or another negative errno. What
 * becomes of it: os_runner_masquerade_done(). */
int os_runner_masquerade(struct os_runner *r, const struct os_masquerade *m);
/* Whether an order was carried out since the last call, by what os_runner_log() read; ret_fault: ""
 * or why it failed, valid until the next. */
bool os_runner_masquerade_done(struct os_runner *r, const char **ret_fault);

/* Can be read when the helper says something; stays the runner's. */
int os_runner_fd(const struct os_runner *r);
/* Logs everything that it said. False: the helper is gone. */
bool os_runner_log(struct os_runner *r, const struct os_log *log);
