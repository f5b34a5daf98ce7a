/* The command-line tool: what its commands share. A command returns the exit code of the program:
 * 0 done, 1 refused or failed (one line on standard error), 2 wrong usage. */
#pragma once
#include <stdbool.h>
#include "base/buf.h"
#include "ctl/request.h"
#include "ctl/value.h"

enum tool_exit { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

enum tool_option { TOOL_WAIT = 1, TOOL_DRY_RUN = 2, TOOL_FORCE = 4 };

enum { TOOL_WORDS = 4, TOOL_TIMEOUT_MS = 10000 };

#define TOOL_SOCKET "/run/weft/weft.sock"
#define TOOL_CONFIG "/etc/weft/weft.yaml"

struct tool {
	const char *socket;
	bool json; /* print the daemon's reply as it is */
	bool colour;
	unsigned int options; /* enum tool_option, those that were given */
	double wait_s;
	int timeout_ms;               /* for one answer of the daemon */
	const char *word[TOOL_WORDS]; /* arguments of the command; NULL: not given */
};

struct tool_command {
	const char *name;
	const char *usage; /* its arguments, "[PREFIX]" */
	int (*run)(struct tool *t);
	const char *help;     /* one line */
	unsigned int options; /* those it takes */
	int words_min, words_max;
};

/* All commands; ends with name NULL. */
const struct tool_command *tool_commands(void);

/* Prints "weft: …" as one line on standard error; returns TOOL_FAILED. */
int tool_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- asking the daemon (ask.c) ---- */
struct tool_reply {
	struct buf text; /* the line */
	struct value_doc *doc;
};

/* Asks, and parses the reply. 0; a negative errno with a line in error: no answer, or none that
 * makes sense. The daemon's own refusal is a reply with "error". */
int tool_call(const struct tool *t, const struct ctl_request *q, struct tool_reply *ret,
	struct buf *error);
void tool_reply_free(struct tool_reply *r);
/* Asks; fails with a line when there is no answer or it is a refusal. With --json the reply is
 * printed. TOOL_DONE: ret is made (to be freed). */
int tool_ask(const struct tool *t, const struct ctl_request *q, struct tool_reply *ret);
/* The same for a part of a list: only a refusal is printed. */
int tool_ask_part(const struct tool *t, const struct ctl_request *q, struct tool_reply *ret);
/* What a reply looks like to a person, appended to out. */
typedef void tool_show_fn(const struct value *reply, struct buf *out, bool colour);
/* Asks, and prints the reply as show has it (with --json: as it came). */
int tool_show(const struct tool *t, const struct ctl_request *q, tool_show_fn *show);
/* Prints text as it is; TOOL_DONE, or TOOL_FAILED when it could not be written. */
int tool_print(const struct buf *text);

/* ---- commands ---- */
int tool_status(struct tool *t);
int tool_watch(struct tool *t);
int tool_links(struct tool *t);
int tool_routes(struct tool *t);
int tool_neighbours(struct tool *t);
int tool_trace(struct tool *t);
int tool_ping(struct tool *t);
int tool_policies(struct tool *t);
int tool_drops(struct tool *t);
int tool_reload(struct tool *t);
int tool_rekey(struct tool *t);
int tool_down(struct tool *t);
int tool_up(struct tool *t);
int tool_log(struct tool *t);
int tool_offload(struct tool *t);
int tool_version(struct tool *t);
int tool_keygen(struct tool *t);
int tool_pubkey(struct tool *t);
int tool_config(struct tool *t);
int tool_completions(struct tool *t);
