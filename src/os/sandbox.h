/* What the process gives up once everything is open: capabilities, and system calls that nothing it
 * still does needs. */
#pragma once
#include <stdbool.h>
#include "base/buf.h"

struct os_sandbox_keep {
	bool other_netns; /* it enters network namespaces later on */
};

/* Makes io_uring_setup() fail with ENOSYS in this thread and in those it starts, for good, and sets
 * no_new_privs. What goes through a ring is seen by no filter of system calls, so the sandbox
 * refuses rings; but libuv makes one for each loop from 1.49 on, whatever its environment says, and
 * aborts when one that it has is refused. To be called before there is a loop. A negative errno
 * when the kernel filters no calls. */
int os_sandbox_refuse_rings(void);

/* Drops all capabilities but CAP_NET_ADMIN, CAP_NET_BIND_SERVICE and, when wanted, CAP_SYS_ADMIN,
 * for good; from then on files are opened as their owner only. Then allows a fixed list of system
 * calls: others fail with EPERM, those by which programs are run or processes looked into end the
 * process (SIGSYS). A program built with a sanitizer keeps its system calls, which the sanitizer
 * needs. Before there is another thread: capabilities are a thread's. 0; -EPERM or another negative
 * errno with one line in error: then the process must not go on. */
int os_sandbox_enter(const struct os_sandbox_keep *keep, struct buf *error);

/* Keeps all pages of the process, keys among them, out of swap space. A negative errno when the
 * system lets it keep only those that are there now, or none. */
int os_lock_memory(void);
