/* Work inside another network namespace. */
#pragma once
#include "base/buf.h"

/* Runs fn(ctx) on a thread of its own inside a namespace (a name below /run/netns, or a path with a
 * slash; NULL: right here, no thread) and waits for it. Sockets and devices that it makes stay
 * there. fn's result; or a negative errno with a line in error when the namespace cannot be
 * entered. */
int os_netns_run(const char *netns, int (*fn)(void *ctx), void *ctx, struct buf *error);
