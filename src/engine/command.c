/* Requests of the control socket, and reloads. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "os/clock.h"

enum { WARNINGS_MAX = 64 };

int engine_reload(struct engine *e, struct engine_reload *r)
{
	struct node_reload next = {.force = r->force, .dry_run = r->dry_run};
	int err = e->config.load(e->config.load_ctx, &next.config, &next.registry, &r->warnings,
		&r->errors);

	if (err < 0)
		return err;
	err = node_reload(e->node, &next, os_now(), &r->changes);
	if (err < 0) {
		/* The report says why. */
		buf_add(&r->errors, r->changes.p, r->changes.n);
		if (r->errors.n == 0)
			buf_printf(&r->errors, "reload: %s\n", strerror(-err));
		return err;
	}
	if (!r->dry_run) {
		buf_free(&e->warn_files);
		buf_add(&e->warn_files, r->warnings.p, r->warnings.n);
	}
	return 0;
}

static void reload_free(struct engine_reload *r)
{
	buf_free(&r->changes);
	buf_free(&r->warnings);
	buf_free(&r->errors);
}

void engine_reload_logged(void *engine)
{
	struct engine *e = engine;
	struct engine_reload r = {0};

	if (engine_reload(e, &r) < 0) {
		engine_log_lines(e, OS_ERROR, &r.errors);
		os_log_line(&e->config.log, OS_ERROR,
			"reload: nothing was changed; what was running goes on");
	} else {
		engine_log_lines(e, OS_WARNING, &r.warnings);
		engine_log_lines(e, OS_INFO, &r.changes);
		os_log_line(&e->config.log, OS_INFO, "reload: done");
	}
	reload_free(&r);
}

static void request_reload(struct engine *e, const struct node_request *q, struct buf *reply)
{
	struct engine_reload r = {.force = q->force, .dry_run = q->dry_run};

	if (engine_reload(e, &r) < 0) {
		while (r.errors.n && r.errors.p[r.errors.n - 1] == '\n')
			r.errors.n--;
		buf_add(&r.errors, "", 1);
		node_reply_done(reply, r.errors.failed ? "out of memory" : (char *)r.errors.p);
	} else {
		node_reply_reload(reply, buf_view(&r.changes), buf_view(&r.warnings));
	}
	reload_free(&r);
}

/* The lines of a text as strings, from the n-th on; their number. The text's line ends become
 * zeros. */
static size_t lines_of(struct buf *text, const char **ret, size_t n)
{
	char *at = (char *)text->p;

	for (size_t i = 0; i < text->n && n < WARNINGS_MAX; i++) {
		if (text->p[i] != '\n')
			continue;
		text->p[i] = 0;
		ret[n++] = at;
		at = (char *)text->p + i + 1;
	}
	return n;
}

static void request_node(struct engine *e, struct view line, struct buf *reply)
{
	struct plane_counters counters[2] = {{{0}}};
	const char *warnings[WARNINGS_MAX + 1];
	struct buf files = {0}, kernel = {0};
	struct node_outside o = {.counters = counters,
		.n_counters = 2,
		.warnings = warnings,
		.crypto = e->config.crypto,
		.started = e->started};
	size_t n;

	plane_counters(e->plane.plane, &counters[0]);
	counters[1] = e->own;
	buf_add(&files, e->warn_files.p, e->warn_files.n);
	buf_add(&kernel, e->warn_kernel.p, e->warn_kernel.n);
	n = lines_of(&files, warnings, 0);
	n = lines_of(&kernel, warnings, n);
	warnings[n] = NULL;
	node_command(e->node, line, &o, os_now(), reply);
	buf_free(&files);
	buf_free(&kernel);
}

void engine_request(void *engine, const struct os_peer *peer, struct view line, struct buf *reply)
{
	struct engine *e = engine;
	struct node_request q;

	(void)peer; /* whoever may connect may ask: the socket lets in root and its group alone */
	node_request_parse(line, &q);
	switch (q.type) {
	case NODE_REQUEST_RELOAD:
		request_reload(e, &q, reply);
		break;
	case NODE_REQUEST_LOG:
		e->config.log.level = (enum os_level)q.level;
		node_reply_done(reply, NULL);
		break;
	case NODE_REQUEST_COMMAND:
		request_node(e, line, reply);
		break;
	}
}
