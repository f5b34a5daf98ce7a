/* weft trace: what happens to a packet, and why. */
#include <stdio.h>
#include <string.h>
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

static void line(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "%-12s ", name);
	table_text(out, text);
	buf_add_str(out, "\n");
}

static const char *peer_text(const struct value *peer, struct buf *room)
{
	buf_free(room);
	if (!value_string(value_get(peer, "name")))
		return "-";
	buf_printf(room, "%s/%s", text_string(peer, "organization"), text_string(peer, "name"));
	buf_add(room, "", 1);
	return room->failed ? "-" : (const char *)room->p;
}

static void show_hops(const struct value *hops, struct buf *out, bool colour)
{
	static const char *const head[] = {"HOP", "NODE", "ADDRESS", ">RTT", "KNOWN", NULL};
	struct table *t = table_new(head, colour);
	char text[TEXT_FIGURE];
	struct buf room = {0};

	for (size_t i = 0; i < value_count(hops); i++) {
		const struct value *h = value_at(hops, i);

		table_cell(t, text_count((double)i, text));
		table_cell(t, peer_text(value_get(h, "node"), &room));
		table_cell(t, text_string(h, "address"));
		table_cell(t, text_ms(text_number(h, "rtt_ms"), text));
		table_cell(t, text_string(h, "source"));
		table_row(t);
	}
	table_print(t, out);
	buf_free(&room);
}

static void show_alternatives(const struct value *list, struct buf *out, bool colour)
{
	static const char *const head[] = {"NOT BY", ">METRIC", "BECAUSE", NULL};
	struct table *t;
	char text[TEXT_FIGURE];

	if (!value_count(list))
		return;
	buf_add_str(out, "\n");
	t = table_new(head, colour);
	for (size_t i = 0; i < value_count(list); i++) {
		const struct value *a = value_at(list, i);

		table_cell(t, text_string(value_get(a, "via"), "link"));
		table_cell(t, text_count(text_number(a, "metric"), text));
		table_cell(t, text_string(a, "why_not"));
		table_row(t);
	}
	table_print(t, out);
}

static void show(const struct value *r, struct buf *out, bool colour)
{
	const struct value *route = value_get(r, "route"), *segments = value_get(r, "segments");
	char text[TEXT_FIGURE];

	line(out, "verdict", text_string(r, "verdict"));
	line(out, "reason", text_string(r, "reason"));
	if (value_string(value_get(r, "policy")))
		line(out, "policy", text_string(r, "policy"));
	for (size_t i = 0; i < value_count(segments); i++)
		line(out, "segment", text_string_at(segments, i));
	if (value_string(value_get(route, "prefix"))) {
		line(out, "route", text_string(route, "prefix"));
		if (value_string(value_get(route, "source")))
			line(out, "from", text_string(route, "source"));
		line(out, "origin", text_string(route, "origin"));
		line(out, "metric", text_count(text_number(route, "metric"), text));
	}
	line(out, "estimated", text_ms(text_number(r, "estimated_rtt_ms"), text));
	buf_add_str(out, "\n");
	show_hops(value_get(r, "hops"), out, colour);
	show_alternatives(value_get(r, "alternatives"), out, colour);
}

int tool_trace(struct tool *t)
{
	struct ctl_request q = {.command = CTL_TRACE};
	int n;

	n = snprintf(q.argument, sizeof(q.argument), "%s %s", t->word[0], t->word[1]);
	if (n < 0 || (size_t)n >= sizeof(q.argument))
		return tool_fail("these are no addresses; write them as 10.1.0.1 10.2.0.1");
	return tool_show(t, &q, show);
}
