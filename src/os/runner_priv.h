/* The messages between weftd and its helper, and the helper's side. */
#pragma once
#include "base/buf.h"
#include "os/runner.h"

enum runner_message {
	RUNNER_ALLOW = 'A', /* paths, each ended by a zero */
	RUNNER_RUN = 'R',   /* key, path, then variables, each ended by a zero */
	RUNNER_NAT = 'N',   /* TUN, namespace or "", then what is kept, each ended by a zero */
	RUNNER_PLAIN = 'P', /* TUN, namespace or "": no such rules */
};

/* From the helper: a line for the log, its level in front ('0' to '3'); or, after RUNNER_NAT, what
 * is wrong with the rules, empty when nothing is. */

enum {
	RUNNER_LINE = 400,         /* bytes of a line to the log, its level in front */
	RUNNER_JOBS = 8,           /* scripts beside each other */
	RUNNER_QUEUE = 1024,       /* that wait */
	RUNNER_LINES = 200,        /* of output that are logged, of one script */
	RUNNER_TIME_US = 10000000, /* a script may take */
	RUNNER_STOP_MS = 3000,     /* all may take at the end */
};

/* The table for a TUN; its name goes into ret. False: the name cannot be written in rules. */
bool masquerade_table(const char *tun, struct buf *ret);
/* What nft has to read, from a message (without its type). NULL, or what is wrong with it; then
 * nothing is to be run. */
const char *masquerade_rules(struct view message, bool on, struct buf *out);

/* The helper: serves the socket until its other end is closed and the scripts have ended. Never
 * returns. */
_Noreturn void runner_child(int fd);
