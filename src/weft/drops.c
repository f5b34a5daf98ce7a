/* weft drops: the counters that are not zero, largest first. */
#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

struct drop {
	const char *reason;
	double count;
};

static int by_count(const void *a, const void *b)
{
	const struct drop *x = a, *y = b;

	return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

static void show(const struct value *reply, struct buf *out, bool colour)
{
	static const char *const head[] = {"REASON", ">PACKETS", NULL};
	const struct value *drops = value_get(reply, "drops");
	size_t n = value_count(drops), used = 0;
	struct drop *list = w_calloc(n ? n : 1, sizeof(*list));
	struct table *t;
	char text[TEXT_FIGURE];

	if (!list) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		double count = value_number(value_at(drops, i), (double)NAN);

		if (value_key(drops, i) && count > 0)
			list[used++] = (struct drop){value_key(drops, i), count};
	}
	qsort(list, used, sizeof(*list), by_count);
	if (!used) {
		buf_add_str(out, "nothing was dropped\n");
		w_free(list);
		return;
	}
	t = table_new(head, colour);
	for (size_t i = 0; i < used; i++) {
		table_cell(t, list[i].reason);
		table_cell(t, text_count(list[i].count, text));
		table_row(t);
	}
	table_print(t, out);
	w_free(list);
}

int tool_drops(struct tool *t)
{
	const struct ctl_request q = {.command = CTL_DROPS};

	return tool_show(t, &q, show);
}
