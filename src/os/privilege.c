/* Capabilities, by name. */
#include "os/privilege.h"
#include <cap-ng.h>
#include <errno.h>

static int privilege_have(unsigned int capability, const char *name, const char *what,
	struct buf *error)
{
	if (capng_have_capability(CAPNG_EFFECTIVE, capability))
		return 0;
	buf_printf(error,
		"%s is missing: it is needed %s; start as root, or give the program the "
		"capability (systemd: AmbientCapabilities=%s)",
		name, what, name);
	return -EPERM;
}

int os_privilege_check(const struct os_privilege_need *need, struct buf *error)
{
	int r = 0;

	if (capng_get_caps_process() < 0) {
		buf_printf(error, "cannot read the capabilities of this process");
		return -EPERM;
	}
	if (need->net_admin)
		r = privilege_have(CAP_NET_ADMIN, "CAP_NET_ADMIN",
			"to make the TUN interface, routes and rules", error);
	if (r == 0 && need->low_port)
		r = privilege_have(CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE",
			"for UDP ports below 1024", error);
	if (r == 0 && need->other_netns)
		r = privilege_have(CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
			"to enter another network namespace", error);
	return r;
}
