/* The messages between weftd and its helper, and the helper's side. */
#pragma once
#include "os/runner.h"

enum runner_message {
	RUNNER_ALLOW = 'A', /* paths, each ended by a zero */
	RUNNER_RUN = 'R',   /* key, path, then variables, each ended by a zero */
};

enum {
	RUNNER_LINE = 400,         /* bytes of a line to the log, its level in front */
	RUNNER_JOBS = 8,           /* scripts beside each other */
	RUNNER_QUEUE = 1024,       /* that wait */
	RUNNER_LINES = 200,        /* of output that are logged, of one script */
	RUNNER_TIME_US = 10000000, /* a script may take */
	RUNNER_STOP_MS = 3000,     /* all may take at the end */
};

/* The helper: serves the socket until its other end is closed and the scripts have ended. Never
 * returns. */
_Noreturn void runner_child(int fd);
