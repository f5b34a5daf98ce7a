/* weft neighbours: who speaks Babel with us, a line each. */
#include <stdio.h>
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

/* The last sixteen hellos, newest first: 1 was heard. */
static const char *reach_text(const struct value *n, char out[static 17])
{
	unsigned int reach = (unsigned int)value_number(value_get(n, "reach"), 0);

	for (int i = 0; i < 16; i++)
		out[i] = reach & (0x8000u >> i) ? '1' : '.';
	out[16] = 0;
	return out;
}

static void show(const struct value *reply, struct buf *out, bool colour)
{
	static const char *const head[] = {"LINK", "ADDRESS", ">RTT", ">RXCOST", ">TXCOST", "REACH",
		NULL};
	const struct value *neighbours = value_get(reply, "neighbours");
	struct table *t;
	char text[TEXT_FIGURE], reach[17];

	if (!value_count(neighbours)) {
		buf_add_str(out, "no neighbours\n");
		return;
	}
	t = table_new(head, colour);
	for (size_t i = 0; i < value_count(neighbours); i++) {
		const struct value *n = value_at(neighbours, i);

		table_cell(t, text_string(n, "link"));
		table_cell(t, text_string(n, "address"));
		table_cell(t, text_ms(text_number(n, "rtt_ms"), text));
		table_cell(t, text_count(text_number(n, "rxcost"), text));
		table_cell(t, text_count(text_number(n, "txcost"), text));
		table_cell(t, reach_text(n, reach));
		table_row(t);
	}
	table_print(t, out);
}

int tool_neighbours(struct tool *t)
{
	const struct ctl_request q = {.command = CTL_NEIGHBOURS};

	return tool_show(t, &q, show);
}
