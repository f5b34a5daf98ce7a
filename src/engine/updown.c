/* Scripts of endpoints, by way of the helper process. */
#include <errno.h>
#include <string.h>
#include "engine/engine_priv.h"

#define ENDED                                                                                      \
	"the helper process has ended: no updown scripts are run any more, and nothing is done "   \
	"about exit.masquerade; start again"

static void runner_says(void *ctx)
{
	struct engine *e = ctx;

	bool alive = os_runner_log(e->config.runner, &e->config.log);

	engine_exit_told(e);
	if (alive)
		return;
	os_watch_free(e->runner_watch);
	e->runner_watch = NULL;
	os_log_line(&e->config.log, OS_ERROR, ENDED);
}

void engine_updown_warnings(const struct engine *e, struct buf *lines)
{
	if (e->config.runner && !e->runner_watch)
		buf_add_str(lines, ENDED "\n");
}

int engine_updown_start(struct engine *e)
{
	if (!e->config.runner)
		return 0;
	return os_watch_new(e->loop, os_runner_fd(e->config.runner), runner_says, e,
		&e->runner_watch);
}

static void not_run(const struct engine *e, const char *what, int r)
{
	os_log_printf(&e->config.log, OS_WARNING, "updown %s: not run: %s", what,
		r == -EAGAIN          ? "the helper process has too much to do"
			: r == -E2BIG ? "its names and paths are too long"
				      : strerror(-r));
}

void engine_updown_scripts(struct engine *e, const struct node_action *a)
{
	int r = e->config.runner ? os_runner_allow(e->config.runner, a->scripts) : 0;

	if (r < 0)
		not_run(e, "scripts", r);
}

void engine_updown_run(struct engine *e, const struct node_action *a)
{
	struct os_runner_script s = {.key = a->updown.link,
		.path = a->updown.script,
		.env = a->updown.env};
	int r = e->config.runner ? os_runner_run(e->config.runner, &s) : -ENOTSUP;

	if (r < 0)
		not_run(e, a->updown.link, r);
}
