/* Rules and routes that another program took away or replaced (a network manager that deletes what
 * it does not know, `ip rule flush`), and the TUN's name and being up, are put back: soon, all at
 * once, and not more than once a second, so that a program that deletes for ever costs little. */
#include <string.h>
#include "engine/engine_priv.h"
#include "os/clock.h"

static void kernel_lost(void *ctx)
{
	struct engine *e = ctx;

	wtime soon = wtime_add(os_now(), ENGINE_RESTORE_US);

	if (e->restore_at.us == WTIME_NEVER.us)
		e->restore_at = wtime_before(soon, e->restore_next) ? e->restore_next : soon;
}

void engine_restore_start(struct engine *e)
{
	int r = os_kernel_watch_new(e->loop, e->netlink, kernel_lost, e, &e->kernel_watch);

	if (r < 0)
		os_log_printf(&e->config.log, OS_WARNING,
			"changes of rules and routes by other programs cannot be watched: %s",
			strerror(-r));
}

void engine_restore(struct engine *e, wtime now)
{
	if (!wtime_due(e->restore_at, now) || e->stopping)
		return;
	e->restore_next = wtime_add(now, ENGINE_RESTORE_GAP_US);
	engine_kernel(e);
	if (e->kernel_refused) {
		e->restore_at = wtime_add(now, ENGINE_RETRY_US);
		return;
	}
	e->restore_at = WTIME_NEVER;
	/* Events that were lost may have told of nothing of ours; what went with an address was
	 * perhaps put back with it. */
	if (e->restore_changes == 0 && wtime_diff(now, e->mended_at) > ENGINE_RESTORE_GAP_US)
		return;
	e->mended_at = (wtime){0};
	e->restore_changes = 0;
	e->restored++;
	if (!wtime_due(e->restore_log_at, now))
		return;
	os_log_printf(&e->config.log, OS_WARNING,
		"another program took away rules, routes or addresses of the mesh: "
		"restored (%u time%s)",
		e->restored, e->restored == 1 ? "" : "s");
	e->restore_log_at = wtime_add(now, ENGINE_RESTORE_LOG_US);
	e->restored = 0;
}
