/* What the control socket's two ends share. */
#pragma once
#include <sys/un.h>

/* The address of a path; 0 or -ENAMETOOLONG. */
int os_control_address(const char *path, struct sockaddr_un *ret);
