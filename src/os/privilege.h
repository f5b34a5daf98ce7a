/* What the process may do. */
#pragma once
#include <stdbool.h>
#include "base/buf.h"

struct os_privilege_need {
	bool net_admin;   /* TUN, routes, socket marks */
	bool low_port;    /* a port below 1024 */
	bool other_netns; /* enters a network namespace */
};

/* 0, or -EPERM with one line that names the first missing capability and the cure. */
int os_privilege_check(const struct os_privilege_need *need, struct buf *error);
