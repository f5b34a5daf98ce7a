/* Requests of the control socket: one JSON object on a line, {"command": "status", …}. Shared by
 * both programs. */
#pragma once
#include <stdbool.h>
#include "base/buf.h"
#include "base/cur.h"

enum { CTL_ARGUMENT = 256, CTL_FROM = 24, CTL_REQUEST_MAX = 4096 };

enum ctl_command {
	CTL_STATUS,
	CTL_LINKS,
	CTL_ROUTES, /* argument: an address or prefix, or none */
	CTL_NEIGHBOURS,
	CTL_TRACE, /* argument: two addresses, "SRC DST" */
	CTL_PING,  /* argument: a node */
	CTL_POLICIES,
	CTL_DROPS,
	CTL_RELOAD,  /* dry_run, force */
	CTL_REKEY,   /* argument: a peer */
	CTL_DOWN,    /* argument: a peer */
	CTL_UP,      /* argument: a peer */
	CTL_LOG,     /* argument: a level */
	CTL_OFFLOAD, /* argument: "NAME on", off or auto */
	CTL_VERSION,
	CTL_COMMAND_COUNT
};

struct ctl_request {
	enum ctl_command command;
	char argument[CTL_ARGUMENT]; /* "" when there is none */
	bool dry_run, force;
	char from[CTL_FROM]; /* routes: the `next` of the part before; "": the first part */
};

const char *ctl_command_name(enum ctl_command c);
/* True for a command that changes something: root or the group only. */
bool ctl_command_changes(enum ctl_command c);
/* Parses a request; unknown keys are errors. 0, or -EINVAL with a line for people in error. */
int ctl_request_parse(struct view text, struct ctl_request *ret, struct buf *error);
/* Writes a request as one line, newline included. */
void ctl_request_write(const struct ctl_request *r, struct buf *out);
/* Writes the reply {"schema": 1, "error": text}, newline included. */
void ctl_reply_error(struct buf *out, const char *text);
