/* weft policies: a line each, and the segments in use. */
#include <stdio.h>
#include <string.h>
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

static const char *any(const struct value *policy, const char *key)
{
	const char *s = text_string(policy, key);

	return strcmp(s, "-") ? s : "any";
}

static void segments(const struct value *policy, struct buf *out)
{
	const struct value *list = value_get(policy, "segments");

	for (size_t i = 0; i < value_count(list); i++)
		buf_printf(out, "%s%s", i ? " " : "", text_string_at(list, i));
	buf_add(out, "", 1);
}

static void show(const struct value *reply, struct buf *out, bool colour)
{
	static const char *const head[] = {"POLICY", "SOURCE", "DESTINATION", "STATE", ">CANDIDATE",
		">PACKETS", ">BYTES", ">DROPPED", "SEGMENTS", NULL};
	const struct value *policies = value_get(reply, "policies");
	struct table *t;
	char text[TEXT_FIGURE];

	if (!value_count(policies)) {
		buf_add_str(out, "no policies\n");
		return;
	}
	t = table_new(head, colour);
	for (size_t i = 0; i < value_count(policies); i++) {
		const struct value *p = value_at(policies, i);
		const char *state = text_string(p, "state");
		struct buf list = {0};

		segments(p, &list);
		table_cell(t, text_string(p, "name"));
		table_cell(t, any(p, "source"));
		table_cell(t, any(p, "destination"));
		table_cell_colour(t, state, strcmp(state, "active") ? TABLE_BAD : TABLE_PLAIN);
		table_cell(t, text_count(text_number(p, "candidate"), text));
		table_cell(t, text_count(text_number(p, "packets"), text));
		table_cell(t, text_count(text_number(p, "bytes"), text));
		table_cell(t, text_count(text_number(p, "dropped"), text));
		table_cell(t, list.failed ? "" : (const char *)list.p);
		table_row(t);
		out->failed |= list.failed;
		buf_free(&list);
	}
	table_print(t, out);
}

int tool_policies(struct tool *t)
{
	const struct ctl_request q = {.command = CTL_POLICIES};

	return tool_show(t, &q, show);
}
