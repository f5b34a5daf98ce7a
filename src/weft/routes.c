/* weft routes: a line each. */
#include <string.h>
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

/* The link names the peer too. */
static const char *via_text(const struct value *route)
{
	const struct value *via = value_get(route, "via");

	return text_string(via, "link");
}

/* A learned route without a metric was taken back by its neighbour, or that is not heard. */
static bool usable(const struct value *route)
{
	bool learned = strcmp(text_string(route, "origin"), "babel") == 0;

	return value_bool(value_get(route, "feasible")) &&
		(!learned || value_type(value_get(route, "metric")) != VALUE_NULL);
}

static const char *flags(const struct value *route)
{
	if (!value_bool(value_get(route, "selected")))
		return usable(route) ? "spare" : "unusable";
	return value_bool(value_get(route, "installed")) ? "installed" : "selected";
}

static void show(const struct value *routes, struct buf *out, bool colour)
{
	static const char *const head[] = {"PREFIX", "SOURCE", "ORIGIN", "VIA", ">RTT", ">METRIC",
		"STATE", ">AGE", NULL};
	struct table *t;
	char text[TEXT_FIGURE];

	if (!value_count(routes)) {
		buf_add_str(out, "no routes\n");
		return;
	}
	t = table_new(head, colour);
	for (size_t i = 0; i < value_count(routes); i++) {
		const struct value *r = value_at(routes, i);
		const char *state = flags(r);

		table_cell(t, text_string(r, "prefix"));
		table_cell(t, text_string(r, "source"));
		table_cell(t, text_string(r, "origin"));
		table_cell(t, via_text(r));
		table_cell(t, text_ms(text_number(value_get(r, "via"), "rtt_ms"), text));
		table_cell(t, text_count(text_number(r, "metric"), text));
		table_cell_colour(t, state, strcmp(state, "unusable") ? TABLE_PLAIN : TABLE_BAD);
		table_cell(t, text_duration(text_number(r, "age_s"), text));
		table_row(t);
	}
	table_print(t, out);
}

int tool_routes(struct tool *t)
{
	struct ctl_request q = {.command = CTL_ROUTES};
	struct tool_reply r;
	struct buf out = {0};
	int code;

	if (t->word[0] && strlen(t->word[0]) >= sizeof(q.argument))
		return tool_fail("\"%.40s…\" is no prefix; write one as 10.1.0.0/16", t->word[0]);
	if (t->word[0])
		strcpy(q.argument, t->word[0]);
	code = tool_ask(t, &q, &r);
	if (code != TOOL_DONE)
		return code;
	if (!t->json) {
		show(value_get(value_root(r.doc), "routes"), &out, t->colour);
		code = tool_print(&out);
	}
	buf_free(&out);
	tool_reply_free(&r);
	return code;
}
