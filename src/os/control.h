/* The control socket: requests and replies, one JSON object a line, of which this room knows no
 * more than the line's end. A client that is slow, or silent, or sends too much, is cut off; it
 * never holds the loop up. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/cur.h"
#include "os/loop.h"

enum {
	OS_CONTROL_REQUEST = 65536,     /* bytes a request at most */
	OS_CONTROL_QUEUE = 16 << 20,    /* bytes of a reply at most */
	OS_CONTROL_CLIENTS = 64,        /* at once */
	OS_CONTROL_IDLE_MS = 60 * 1000, /* silent for so long: cut off */
};

/* Who asks, by the kernel's word. */
struct os_peer {
	pid_t pid;
	uid_t uid;
	bool privileged; /* root, the daemon's own user, or of the socket's group */
};

struct os_control_config {
	const char *path;  /* a folder directly in /run is made when it is missing */
	const char *group; /* NULL or one that does not exist: root's alone */
	/* One request (borrowed, without the line's end); the reply goes into reply, the line's end
	 * is added. */
	void (*request)(void *ctx, const struct os_peer *peer, struct view line, struct buf *reply);
	void *ctx;
};

struct os_control;

/* Listens; mode 0660. A socket file that nobody listens at is replaced. 0; -EADDRINUSE when another
 * daemon answers there; or another negative errno; a line in message. A group that does not exist
 * is no failure: then message has a warning. */
int os_control_new(struct os_loop *l, const struct os_control_config *c, struct os_control **ret,
	struct buf *message);
/* To be called by request(), which then leaves its reply alone: it comes by os_control_answer().
 * Until then nothing more of that client is read; others are served. The number names the request
 * and is never 0. */
uint64_t os_control_later(struct os_control *c);
/* The reply to such a request (borrowed); nothing when its client has gone. */
void os_control_answer(struct os_control *c, uint64_t request, struct view reply);
/* Cuts all clients off and removes the socket file. NULL is fine. */
void os_control_free(struct os_control *c);

/* For the tool: connects, sends a request line, waits for the reply line at most timeout_ms,
 * appends it to reply. 0, or a negative errno with a line in error. */
int os_control_call(const char *path, struct view request, int timeout_ms, struct buf *reply,
	struct buf *error);
