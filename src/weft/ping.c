/* weft ping: is a node there, through the mesh, and how far is it. */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

enum { PINGS = 4 };

static int show(const struct tool *t, const struct value *r)
{
	double ms = text_number(r, "rtt_ms");
	struct buf out = {0};
	char text[TEXT_FIGURE];
	int code;

	if (t->json)
		return TOOL_DONE;
	table_text(&out, text_string(value_get(r, "node"), "organization"));
	buf_add_str(&out, "/");
	table_text(&out, text_string(value_get(r, "node"), "name"));
	buf_add_str(&out, " (");
	table_text(&out, text_string(r, "address"));
	buf_add_str(&out, "): ");
	table_text(&out, isfinite(ms) ? text_ms(ms, text) : text_string(r, "reason"));
	buf_add_str(&out, "\n");
	code = tool_print(&out);
	buf_free(&out);
	return code;
}

int tool_ping(struct tool *t)
{
	struct ctl_request q = {.command = CTL_PING};
	const struct timespec second = {.tv_sec = 1};
	bool answered = false;
	int code = TOOL_DONE, n;

	n = snprintf(q.argument, sizeof(q.argument), "%s", t->word[0]);
	if (n < 0 || (size_t)n >= sizeof(q.argument))
		return tool_fail("that is no name of a node");
	for (int i = 0; i < PINGS && code == TOOL_DONE; i++) {
		struct tool_reply r;

		if (i > 0)
			(void)nanosleep(&second, NULL);
		code = tool_ask(t, &q, &r);
		if (code != TOOL_DONE)
			return code;
		code = show(t, value_root(r.doc));
		answered |= isfinite(text_number(value_root(r.doc), "rtt_ms"));
		tool_reply_free(&r);
	}
	if (code == TOOL_DONE && !answered)
		return tool_fail("no answer; `weft trace` shows how far packets come");
	return code;
}
