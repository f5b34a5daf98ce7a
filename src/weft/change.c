/* The commands that change something: reload, rekey, down, up, log. */
#include <stdio.h>
#include <string.h>
#include "conf/conf.h"
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

/* One line of a list of a reply each, with a word before it. */
static void lines(struct buf *out, const struct value *list, const char *before)
{
	for (size_t i = 0; i < value_count(list); i++) {
		const char *s = value_string(value_at(list, i));

		if (!s)
			continue;
		buf_add_str(out, before);
		table_text(out, s);
		buf_add(out, "\n", 1);
	}
}

int tool_reload(struct tool *t)
{
	struct ctl_request q = {
		.command = CTL_RELOAD,
		.dry_run = t->options & TOOL_DRY_RUN,
		.force = t->options & TOOL_FORCE,
	};
	struct tool_reply r;
	struct buf out = {0};
	const struct value *changes;
	int code = tool_ask(t, &q, &r);

	if (code != TOOL_DONE)
		return code;
	changes = value_get(value_root(r.doc), "changes");
	lines(&out, value_get(value_root(r.doc), "warnings"), "warning: ");
	lines(&out, changes, "");
	if (!value_count(changes))
		buf_add_str(&out, q.dry_run ? "nothing would change\n" : "nothing changed\n");
	if (!t->json)
		code = tool_print(&out);
	buf_free(&out);
	tool_reply_free(&r);
	return code;
}

/* A command on a peer; done: what to say after "links: ". */
static int on_peer(struct tool *t, enum ctl_command command, const char *done)
{
	struct ctl_request q = {.command = command};
	struct tool_reply r;
	struct buf out = {0};
	char text[TEXT_FIGURE];
	double links;
	int code;

	if (!t->word[0][0] || strlen(t->word[0]) >= sizeof(q.argument))
		return tool_fail("\"%.40s\" is no peer; weft links shows them", t->word[0]);
	strcpy(q.argument, t->word[0]);
	code = tool_ask(t, &q, &r);
	if (code != TOOL_DONE)
		return code;
	links = text_number(value_root(r.doc), "links");
	table_text(&out, t->word[0]);
	buf_printf(&out, ": %s %s %s\n", text_count(links, text), links == 1 ? "link" : "links",
		done);
	if (!t->json)
		code = tool_print(&out);
	buf_free(&out);
	tool_reply_free(&r);
	return code;
}

int tool_rekey(struct tool *t)
{
	return on_peer(t, CTL_REKEY, "being rekeyed");
}

int tool_down(struct tool *t)
{
	return on_peer(t, CTL_DOWN, "taken down");
}

int tool_up(struct tool *t)
{
	return on_peer(t, CTL_UP, "brought up");
}

int tool_log(struct tool *t)
{
	struct ctl_request q = {.command = CTL_LOG};
	enum conf_log level;
	struct tool_reply r;
	int code;

	if (conf_log_parse(t->word[0], &level) < 0) {
		(void)tool_fail("no log level: %.40s; usage: weft log error|warning|info|debug",
			t->word[0]);
		return TOOL_USAGE;
	}
	strcpy(q.argument, t->word[0]);
	code = tool_ask(t, &q, &r);
	if (code == TOOL_DONE)
		tool_reply_free(&r);
	return code;
}

static int no_such_offload(const char *name, const char *to)
{
	struct buf names = {0};

	conf_offload_names(&names, "|");
	(void)tool_fail("no such switch: %.20s %.20s; usage: weft offload %.*s on|off|auto", name,
		to, (int)names.n, names.p ? (const char *)names.p : "");
	buf_free(&names);
	return TOOL_USAGE;
}

int tool_offload(struct tool *t)
{
	struct ctl_request q = {.command = CTL_OFFLOAD};
	enum conf_offload which;
	struct tool_reply r;
	struct buf out = {0};
	const char *to = t->word[1];
	int code;

	if (conf_offload_parse(t->word[0], &which) < 0 ||
		(strcmp(to, "on") != 0 && strcmp(to, "off") != 0 && strcmp(to, "auto") != 0))
		return no_such_offload(t->word[0], to);
	(void)snprintf(q.argument, sizeof(q.argument), "%s %s", conf_offload_name(which), to);
	code = tool_ask(t, &q, &r);
	if (code != TOOL_DONE)
		return code;
	tool_reply_free(&r);
	buf_printf(&out,
		strcmp(to, "auto") == 0
			? "%s: as the configuration has it\n"
			: "%s: %s, until the next start or a reload that finds it changed in "
			  "the configuration\n",
		conf_offload_name(which), to);
	if (!t->json)
		code = tool_print(&out);
	buf_free(&out);
	return code;
}

int tool_version(struct tool *t)
{
	struct ctl_request q = {.command = CTL_VERSION};
	struct tool_reply r;
	struct buf out = {0}, error = {0};
	int code;

	if (t->json) {
		code = tool_ask(t, &q, &r);
		if (code == TOOL_DONE)
			tool_reply_free(&r);
		return code;
	}
	buf_add_str(&out, "weft " WEFT_VERSION "\nweftd ");
	if (tool_call(t, &q, &r, &error) == 0) {
		table_text(&out, text_string(value_root(r.doc), "version"));
		tool_reply_free(&r);
	} else {
		buf_printf(&out, "- (%.*s)", (int)error.n, error.p ? (const char *)error.p : "");
	}
	buf_add(&out, "\n", 1);
	code = tool_print(&out);
	buf_free(&out);
	buf_free(&error);
	return code;
}
