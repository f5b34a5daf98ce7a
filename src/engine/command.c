/* Requests of the control socket, and reloads. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "os/clock.h"

enum { WARNINGS_MAX = 64 };

/* Of a new configuration, what the engine itself goes by. A level set by command stays until the
 * file says another one than before. */
static void take_over(struct engine *e, enum conf_log log, const char *registry)
{
	if (log != e->log)
		e->config.log.level = (enum os_level)log;
	e->log = log;
	if (e->watched)
		engine_watch(e, registry);
}

int engine_reload(struct engine *e, struct engine_reload *r)
{
	struct node_reload next = {.force = r->force, .dry_run = r->dry_run};
	int err = e->config.load(e->config.load_ctx, &next.config, &next.registry, &r->warnings,
		&r->errors);
	enum conf_log log;
	char *registry;

	if (err < 0)
		return err;
	log = next.config->log;
	registry = next.config->registry ? w_strdup(next.config->registry) : NULL;
	err = node_reload(e->node, &next, os_now(), &r->changes);
	if (err < 0) {
		/* The report says why. */
		buf_add(&r->errors, r->changes.p, r->changes.n);
		if (r->errors.n == 0)
			buf_printf(&r->errors, "reload: %s\n", strerror(-err));
	} else if (!r->dry_run) {
		if (engine_excluded_set(e, node_applied(e->node)) < 0)
			buf_add_str(&r->warnings,
				"out of memory: underlay.exclude_interfaces is as before\n");
		engine_offload_reload(e, node_applied(e->node));
		e->underlay_at = os_now();
		buf_free(&e->warn_reload);
		buf_free(&e->warn_files);
		buf_add(&e->warn_files, r->warnings.p, r->warnings.n);
		if (registry)
			take_over(e, log, registry);
		engine_turn(e); /* who asked sees sockets and kernel as they are to be */
	}
	w_free(registry);
	return err;
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
		buf_free(&e->warn_reload);
		buf_add(&e->warn_reload, r.errors.p, r.errors.n);
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

/* The lines of a text as strings, NULL-ended. The text's line ends become zeros. */
static void lines_of(struct buf *text, const char **ret)
{
	char *at = (char *)text->p;
	size_t n = 0;

	for (size_t i = 0; i < text->n && n < WARNINGS_MAX; i++) {
		if (text->p[i] != '\n')
			continue;
		text->p[i] = 0;
		ret[n++] = at;
		at = (char *)text->p + i + 1;
	}
	ret[n] = NULL;
}

/* id: the reply of that number comes by an action; 0: it is there. */
static void reply_later(struct engine *e, uint32_t id)
{
	size_t i = 0;

	if (!id)
		return;
	while (i + 1 < NODE_REPLIES && e->owed[i].id)
		i++;
	e->owed[i] = (struct engine_owed){.id = id, .request = os_control_later(e->control)};
}

void engine_reply(struct engine *e, const struct node_action *a)
{
	for (size_t i = 0; i < NODE_REPLIES; i++)
		if (e->owed[i].id == a->reply.id) {
			os_control_answer(e->control, e->owed[i].request, a->reply.text);
			e->owed[i] = (struct engine_owed){0};
		}
}

static void request_node(struct engine *e, struct view line, struct buf *reply)
{
	const struct buf *parts[] = {&e->warn_start, &e->warn_files, &e->warn_reload,
		&e->kernel_error, &e->warn_kernel};
	struct plane_counters counters[ENGINE_PLANES + 1] = {{{0}}};
	const char *warnings[WARNINGS_MAX + 1];
	struct buf lines = {0};
	struct node_outside o = {.counters = counters,
		.n_counters = e->planes + 1,
		.warnings = warnings,
		.crypto = e->config.crypto ? crypto_backend_text(e->config.crypto)
					   : crypto_version(),
		.started = e->started,
		.offload_on = e->offload,
		.offload_used = engine_offload_used(e),
		.offload_command = e->offload_command};

	for (uint32_t i = 0; i < e->planes; i++)
		plane_counters(e->plane[i]->plane, &counters[i]);
	counters[e->planes] = e->own;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		buf_add(&lines, parts[i]->p, parts[i]->n);
	engine_updown_warnings(e, &lines);
	engine_exit_warnings(e, &lines);
	engine_forward_warnings(e, &lines);
	if (lines.failed)
		lines.n = 0;
	lines_of(&lines, warnings);
	reply_later(e, node_command(e->node, line, &o, os_now(), reply));
	buf_free(&lines);
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
	case NODE_REQUEST_OFFLOAD:
		engine_offload_command(e, q.offload, q.to);
		node_reply_done(reply, NULL);
		break;
	case NODE_REQUEST_COMMAND:
		request_node(e, line, reply);
		break;
	}
}
