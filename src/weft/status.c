/* weft status: the node and a table of its links; --wait: until every link that can be up is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/time.h"
#include "os/clock.h"
#include "weft/link.h"
#include "weft/text.h"
#include "weft/tool.h"

/* Between two questions while waiting, doubled from the first to the last. */
#define WAIT_FIRST (50 * W_MS)
#define WAIT_LAST  (400 * W_MS)

static void line(struct buf *out, const char *label, const char *text)
{
	buf_printf(out, "%-14s ", label);
	table_text(out, text);
	buf_add(out, "\n", 1);
}

static void show_aqm(struct buf *out, const struct value *aqm)
{
	char marked[TEXT_FIGURE], dropped[TEXT_FIGURE];

	buf_printf(out, "%-14s ", "aqm");
	table_text(out, text_string(aqm, "state"));
	buf_printf(out, ", %s marked, ", text_count(text_number(aqm, "marked"), marked));
	buf_printf(out, "%s dropped\n", text_count(text_number(aqm, "dropped"), dropped));
}

static void show_offload(struct buf *out, const struct value *offload)
{
	buf_printf(out, "%-14s ", "offload");
	for (size_t i = 0; i < value_count(offload); i++) {
		const struct value *o = value_at(offload, i);

		buf_add_str(out, i ? ", " : "");
		table_text(out, value_key(offload, i));
		buf_add_str(out, " ");
		table_text(out, text_string(o, "state"));
		buf_add_str(out, value_bool(value_get(o, "by_command")) ? " by command" : "");
	}
	buf_add(out, "\n", 1);
}

static void show_node(struct buf *out, const struct value *s)
{
	const struct value *node = value_get(s, "node"), *tun = value_get(s, "tun");
	const struct value *addresses = value_get(tun, "addresses");
	char text[TEXT_FIGURE];

	buf_printf(out, "%-14s ", "node");
	table_text(out, text_string(node, "organization"));
	buf_add_str(out, "/");
	table_text(out, text_string(node, "name"));
	buf_printf(out, ", up %s\n", text_duration(text_number(node, "uptime_s"), text));
	line(out, "version", text_string(s, "version"));
	line(out, "router id", text_string(node, "router_id"));
	buf_printf(out, "%-14s ", "tun");
	table_text(out, text_string(tun, "name"));
	buf_printf(out, ", mtu %s", text_count(text_number(tun, "mtu"), text));
	for (size_t i = 0; i < value_count(addresses); i++) {
		const char *a = value_string(value_at(addresses, i));

		buf_add_str(out, ", ");
		table_text(out, a ? a : "-");
	}
	buf_add(out, "\n", 1);
	line(out, "crypto", text_string(s, "crypto"));
	line(out, "threads", text_count(text_number(s, "threads"), text));
	if (text_number(s, "helpers") > 0)
		line(out, "helpers", text_count(text_number(s, "helpers"), text));
	show_aqm(out, value_get(s, "aqm"));
	show_offload(out, value_get(s, "offload"));
	line(out, "post-quantum", text_string(s, "post_quantum"));
}

static void show_counts(struct buf *out, const struct value *s)
{
	const struct value *counts = value_get(s, "counts"), *warnings = value_get(s, "warnings");
	char text[TEXT_FIGURE];

	buf_printf(out, "%-14s %s up", "links", text_count(text_number(counts, "links_up"), text));
	buf_printf(out, " of %s\n", text_count(text_number(counts, "links"), text));
	line(out, "routes", text_count(text_number(counts, "routes"), text));
	for (size_t i = 0; i < value_count(warnings); i++) {
		const char *w = value_string(value_at(warnings, i));

		line(out, "warning", w ? w : "-");
	}
}

static void cell_of(struct table *t, struct buf *text)
{
	buf_add(text, "", 1);
	table_cell(t, text->failed ? "-" : (const char *)text->p);
	buf_free(text);
}

static void show_links(struct buf *out, const struct value *links, bool colour)
{
	static const char *const head[] = {"PEER", "STATE", ">SINCE", "REMOTE", ">RTT", ">LOSS",
		">RECEIVED", ">SENT", "REASON", NULL};
	struct table *t;
	char text[TEXT_FIGURE];

	if (!value_count(links))
		return;
	buf_add(out, "\n", 1);
	t = table_new(head, colour);
	for (size_t i = 0; i < value_count(links); i++) {
		const struct value *l = value_at(links, i);
		const char *state = text_string(l, "state");
		struct buf peer = {0}, remote = {0};

		link_peer(&peer, l);
		cell_of(t, &peer);
		table_cell_colour(t, state, link_colour(state));
		table_cell(t, text_duration(text_number(l, "since_s"), text));
		link_endpoint(&remote, value_get(l, "remote"));
		cell_of(t, &remote);
		table_cell(t, text_ms(text_number(l, "rtt_ms"), text));
		table_cell(t, text_share(text_number(l, "loss"), text));
		table_cell(t, text_bytes(text_number(value_get(l, "rx"), "bytes"), text));
		table_cell(t, text_bytes(text_number(value_get(l, "tx"), "bytes"), text));
		if (link_reason(l)[0])
			table_cell(t, link_reason(l));
		table_row(t);
	}
	table_print(t, out);
}

/* A link that is down waits for nothing that this node could do: it was taken down, or the peer
 * has no address and must come. */
static bool still_waited(const struct value *link)
{
	const char *state = text_string(link, "state");

	return strcmp(state, "up") != 0 && strcmp(state, "down") != 0;
}

static size_t waited(const struct value *links)
{
	size_t n = 0;

	for (size_t i = 0; i < value_count(links); i++)
		n += still_waited(value_at(links, i));
	return n;
}

static int fail_waiting(const struct tool *t, const struct value *links)
{
	struct buf out = {0};
	bool first = true;
	int code;

	for (size_t i = 0; i < value_count(links); i++) {
		const struct value *l = value_at(links, i);

		if (!still_waited(l))
			continue;
		buf_add_str(&out, first ? "" : "; ");
		table_text(&out, text_string(l, "id"));
		buf_add_str(&out, link_reason(l)[0] ? ": " : "");
		table_text(&out, link_reason(l));
		first = false;
	}
	code = tool_fail("not up after %g s: %.*s", t->wait_s, (int)out.n,
		out.p ? (const char *)out.p : "");
	buf_free(&out);
	return code;
}

static void pause_for(int64_t us)
{
	struct timespec ts = {.tv_sec = us / W_SEC, .tv_nsec = us % W_SEC * 1000};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* Asks until all is up or the time is over. A daemon that does not answer yet may be starting. */
static int wait_up(const struct tool *t)
{
	const struct ctl_request q = {.command = CTL_STATUS};
	wtime end = wtime_add(os_now(), (int64_t)(t->wait_s * (double)W_SEC));
	struct tool asking = *t;
	int64_t gap = WAIT_FIRST;

	for (;;) {
		struct buf error = {0};
		struct tool_reply r = {0};
		int err, code = -1;
		bool over;
		const struct value *links;
		int64_t left = wtime_diff(end, os_now());

		/* one that hangs does not make the wait longer than a second more */
		if (left < (TOOL_TIMEOUT_MS - 1000) * W_MS)
			asking.timeout_ms = (int)(left > 0 ? left / W_MS : 0) + 1000;
		err = tool_call(&asking, &q, &r, &error);
		over = wtime_due(end, os_now());
		links = err ? NULL : value_get(value_root(r.doc), "links");
		if (err == -EACCES || err == -EPERM || err == -EPROTO || (err < 0 && over))
			code = tool_fail("%.*s", (int)error.n,
				error.p ? (const char *)error.p : "");
		else if (!err && !waited(links))
			code = TOOL_DONE;
		else if (over)
			code = fail_waiting(t, links);
		buf_free(&error);
		tool_reply_free(&r);
		if (code >= 0)
			return code;
		left = wtime_diff(end, os_now());
		pause_for(left <= 0 ? 0 : left < gap ? left : gap);
		gap = gap * 2 > WAIT_LAST ? WAIT_LAST : gap * 2;
	}
}

static void show(const struct value *s, struct buf *out, bool colour)
{
	show_node(out, s);
	show_counts(out, s);
	show_links(out, value_get(s, "links"), colour);
}

int tool_status(struct tool *t)
{
	const struct ctl_request q = {.command = CTL_STATUS};
	int code = t->options & TOOL_WAIT ? wait_up(t) : TOOL_DONE;

	return code == TOOL_DONE ? tool_show(t, &q, show) : code;
}
