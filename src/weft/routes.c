/* weft routes: a line each. */
#include <math.h>
#include <string.h>
#include "ctl/json.h"
#include "weft/table.h"
#include "weft/text.h"
#include "weft/tool.h"

/* Whole numbers below are written without a fraction or an exponent, as they came. */
#define TOOL_EXACT 9007199254740992.0 /* 2^53 */

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

static void add_rows(struct table *t, const struct value *routes)
{
	char text[TEXT_FIGURE];

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
}

static void copy_number(struct json *j, const char *key, double x)
{
	if (fabs(x) < TOOL_EXACT && x == floor(x))
		json_int(j, key, (int64_t)x);
	else
		json_real(j, key, x);
}

/* Writes a value of a reply as it came. */
static void copy(struct json *j, const char *key, const struct value *v)
{
	switch (value_type(v)) {
	case VALUE_NULL:
		json_null(j, key);
		break;
	case VALUE_BOOL:
		json_bool(j, key, value_bool(v));
		break;
	case VALUE_NUMBER:
		copy_number(j, key, value_number(v, 0));
		break;
	case VALUE_STRING:
		json_string(j, key, value_string(v));
		break;
	case VALUE_ARRAY:
		json_array(j, key);
		for (size_t i = 0; i < value_count(v); i++)
			copy(j, NULL, value_at(v, i));
		json_array_end(j);
		break;
	case VALUE_OBJECT:
		json_object(j, key);
		for (size_t i = 0; i < value_count(v); i++)
			copy(j, value_key(v, i), value_at(v, i));
		json_object_end(j);
		break;
	}
}

/* The list comes in parts: asks for one after the other, and makes rows of them, or one text. */
static int ask_all(struct tool *t, struct ctl_request *q, struct table *rows, struct json *j)
{
	bool more = true;
	int code = TOOL_DONE;

	while (code == TOOL_DONE && more) {
		const struct value *routes;
		struct tool_reply r;
		const char *next;

		code = tool_ask_part(t, q, &r);
		if (code != TOOL_DONE)
			break;
		next = value_string(value_get(value_root(r.doc), "next"));
		more = next && strlen(next) < sizeof(q->from);
		if (more)
			strcpy(q->from, next);
		routes = value_get(value_root(r.doc), "routes");
		for (size_t i = 0; t->json && i < value_count(routes); i++)
			copy(j, NULL, value_at(routes, i));
		if (!t->json)
			add_rows(rows, routes);
		tool_reply_free(&r);
	}
	return code;
}

int tool_routes(struct tool *t)
{
	static const char *const head[] = {"PREFIX", "SOURCE", "ORIGIN", "VIA", ">RTT", ">METRIC",
		"STATE", ">AGE", NULL};
	struct ctl_request q = {.command = CTL_ROUTES};
	struct buf out = {0};
	struct json j = json_to(&out);
	struct table *rows;
	int code;

	if (t->word[0] && strlen(t->word[0]) >= sizeof(q.argument))
		return tool_fail("\"%.40s…\" is no prefix; write one as 10.1.0.0/16", t->word[0]);
	if (t->word[0])
		strcpy(q.argument, t->word[0]);
	rows = table_new(head, t->colour);
	json_object(&j, NULL);
	json_int(&j, "schema", 1);
	json_array(&j, "routes");
	code = ask_all(t, &q, rows, &j);
	json_array_end(&j);
	json_null(&j, "next");
	json_object_end(&j);
	buf_add(&out, "\n", 1);
	if (!t->json)
		buf_free(&out);
	if (t->json) {
		table_free(rows);
	} else if (table_is_empty(rows)) {
		buf_add_str(&out, "no routes\n");
		table_free(rows);
	} else {
		table_print(rows, &out);
	}
	if (code == TOOL_DONE)
		code = tool_print(&out);
	buf_free(&out);
	return code;
}
