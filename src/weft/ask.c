/* One request to the daemon and its reply. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "os/control.h"
#include "weft/table.h"
#include "weft/tool.h"

int tool_fail(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("weft: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	return TOOL_FAILED;
}

int tool_print(const struct buf *text)
{
	if (text->failed)
		return tool_fail("out of memory");
	if (text->n && fwrite(text->p, 1, text->n, stdout) != text->n)
		return tool_fail("cannot write: %s", strerror(errno));
	if (fflush(stdout) != 0)
		return tool_fail("cannot write: %s", strerror(errno));
	return TOOL_DONE;
}

void tool_reply_free(struct tool_reply *r)
{
	value_free(r->doc);
	buf_free(&r->text);
	r->doc = NULL;
}

int tool_call(const struct tool *t, const struct ctl_request *q, struct tool_reply *ret,
	struct buf *error)
{
	struct tool_reply r = {0};
	struct buf request = {0};
	int err;

	ctl_request_write(q, &request);
	if (request.failed) {
		buf_add_str(error, "out of memory");
		return -ENOMEM;
	}
	/* the call ends the line itself */
	err = os_control_call(t->socket, view_of(request.p, request.n - 1), t->timeout_ms, &r.text,
		error);
	buf_free(&request);
	if (!err && value_parse(buf_view(&r.text), &r.doc) < 0) {
		buf_printf(error, "%s: the reply is no JSON: is that weftd's socket?", t->socket);
		err = -EPROTO;
	}
	if (!err && value_number(value_get(value_root(r.doc), "schema"), 0) != 1) {
		buf_printf(error,
			"%s: the reply has another schema: weft and weftd must be of one version",
			t->socket);
		err = -EPROTO;
	}
	if (err < 0)
		tool_reply_free(&r);
	else
		*ret = r;
	return err;
}

/* The daemon's reason, which may be several lines (those of a configuration). */
static int fail_with(const char *reason)
{
	while (*reason) {
		size_t n = strcspn(reason, "\n");
		struct buf line = {0}, clean = {0};

		buf_add(&line, reason, n);
		buf_add(&line, "", 1);
		if (!line.failed)
			table_text(&clean, (const char *)line.p);
		(void)tool_fail("%.*s", (int)clean.n, clean.p ? (const char *)clean.p : "");
		buf_free(&line);
		buf_free(&clean);
		reason += reason[n] ? n + 1 : n;
	}
	return TOOL_FAILED;
}

static int ask(const struct tool *t, const struct ctl_request *q, bool part, struct tool_reply *ret)
{
	struct buf error = {0};
	struct tool_reply r;
	const char *refused;
	int code = TOOL_DONE;

	if (tool_call(t, q, &r, &error) < 0) {
		code = tool_fail("%.*s", (int)error.n, error.p ? (const char *)error.p : "");
		buf_free(&error);
		return code;
	}
	buf_free(&error);
	refused = value_string(value_get(value_root(r.doc), "error"));
	if (t->json && (refused || !part)) {
		buf_add(&r.text, "\n", 1);
		code = tool_print(&r.text);
	}
	if (refused)
		code = fail_with(refused);
	if (code != TOOL_DONE)
		tool_reply_free(&r);
	else
		*ret = r;
	return code;
}

int tool_ask(const struct tool *t, const struct ctl_request *q, struct tool_reply *ret)
{
	return ask(t, q, false, ret);
}

int tool_ask_part(const struct tool *t, const struct ctl_request *q, struct tool_reply *ret)
{
	return ask(t, q, true, ret);
}

int tool_show(const struct tool *t, const struct ctl_request *q, tool_show_fn *show)
{
	struct tool_reply r;
	struct buf out = {0};
	int code = tool_ask(t, q, &r);

	if (code != TOOL_DONE)
		return code;
	if (!t->json) {
		show(value_root(r.doc), &out, t->colour);
		code = tool_print(&out);
	}
	buf_free(&out);
	tool_reply_free(&r);
	return code;
}
