/* Requests of the control socket: taken whole or refused with a reason. */
#include "ctl/request.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "ctl/value.h"

static void good_requests(void **state)
{
	static const struct {
		const char *text;
		struct ctl_request r;
	} t[] = {
		{"{\"command\":\"status\"}", {.command = CTL_STATUS}},
		{" {\"command\": \"links\"}\n", {.command = CTL_LINKS}},
		{"{\"command\":\"routes\"}", {.command = CTL_ROUTES}},
		{"{\"argument\":\"::/0\",\"command\":\"routes\"}",
			{CTL_ROUTES, "::/0", false, false}},
		{"{\"command\":\"routes\",\"from\":\"8000000300000001\"}",
			{.command = CTL_ROUTES, .from = "8000000300000001"}},
		{"{\"command\":\"trace\",\"argument\":\"10.1.0.1 10.2.0.1\"}",
			{.command = CTL_TRACE, .argument = "10.1.0.1 10.2.0.1"}},
		{"{\"command\":\"drops\"}", {.command = CTL_DROPS}},
		{"{\"command\":\"reload\",\"dry_run\":true}", {CTL_RELOAD, "", true, false}},
		{"{\"command\":\"reload\",\"force\":true,\"dry_run\":false}",
			{CTL_RELOAD, "", false, true}},
		{"{\"command\":\"rekey\",\"argument\":\"acme/fra1\"}",
			{.command = CTL_REKEY, .argument = "acme/fra1"}},
		{"{\"command\":\"down\",\"argument\":\"fra1\"}",
			{.command = CTL_DOWN, .argument = "fra1"}},
		{"{\"command\":\"up\",\"argument\":\"\\u00fc\"}",
			{.command = CTL_UP, .argument = "\xc3\xbc"}},
		{"{\"command\":\"log\",\"argument\":\"debug\"}",
			{.command = CTL_LOG, .argument = "debug"}},
		{"{\"command\":\"version\"}", {.command = CTL_VERSION}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ctl_request r;
		struct buf error = {0};

		if (ctl_request_parse(view_of(t[i].text, strlen(t[i].text)), &r, &error) < 0)
			fail_msg("%s: %.*s", t[i].text, (int)error.n, (const char *)error.p);
		assert_int_equal(r.command, t[i].r.command);
		assert_string_equal(r.argument, t[i].r.argument);
		assert_int_equal(r.dry_run, t[i].r.dry_run);
		assert_int_equal(r.force, t[i].r.force);
		assert_int_equal(error.n, 0);
	}
}

static void bad_requests(void **state)
{
	static const struct {
		const char *text, *part;
	} t[] = {
		{"", "no JSON object"},
		{"status", "no JSON object"},
		{"{\"command\":\"status\"", "no JSON object"},
		{"{\"command\":\"status\",\"command\":\"drops\"}", "no JSON object"},
		{"{\"command\":\"status\"} {}", "no JSON object"},
		{"[]", "one JSON object"},
		{"\"status\"", "one JSON object"},
		{"null", "one JSON object"},
		{"{}", "no command"},
		{"{\"argument\":\"x\"}", "no command"},
		{"{\"command\":\"stat\"}", "unknown command \"stat\""},
		{"{\"command\":\"\"}", "unknown command"},
		{"{\"command\":7}", "unknown command"},
		{"{\"command\":null}", "unknown command"},
		{"{\"command\":\"status\",\"x\":1}", "\"x\""},
		{"{\"command\":\"status\",\"argument\":\"x\"}", "takes no argument"},
		{"{\"command\":\"trace\"}", "needs an argument"},
		{"{\"command\":\"links\",\"from\":\"1\"}", "takes no from"},
		{"{\"command\":\"routes\",\"from\":1}", "must be the next"},
		{"{\"command\":\"routes\",\"from\":\"0123456789012345678901234\"}",
			"must be the next"},
		{"{\"command\":\"rekey\"}", "needs an argument"},
		{"{\"command\":\"rekey\",\"argument\":\"\"}", "needs an argument"},
		{"{\"command\":\"rekey\",\"argument\":7}", "must be a text"},
		{"{\"command\":\"rekey\",\"argument\":null}", "must be a text"},
		{"{\"command\":\"reload\",\"dry_run\":1}", "\"dry_run\""},
		{"{\"command\":\"reload\",\"force\":\"true\"}", "\"force\""},
		{"{\"command\":\"log\",\"argument\":\"loud\"}", "no log level"},
		{"{\"command\":\"status\",\"force\":true}", "takes no"},
		{"{\"command\":\"drops\",\"dry_run\":true}", "takes no"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ctl_request r = {.command = CTL_UP};
		struct buf error = {0};

		if (ctl_request_parse(view_of(t[i].text, strlen(t[i].text)), &r, &error) != -EINVAL)
			fail_msg("taken: %s", t[i].text);
		buf_add(&error, "", 1);
		if (!strstr((const char *)error.p, t[i].part))
			fail_msg("%s: %s", t[i].text, (const char *)error.p);
		assert_int_equal(r.command, CTL_UP); /* untouched */
		buf_free(&error);
	}
}

static void sizes_are_bounded(void **state)
{
	struct ctl_request r;

	(void)state;
	for (int i = 0; i < 3; i++) {
		size_t length = i == 0 ? CTL_ARGUMENT - 1 : i == 1 ? CTL_ARGUMENT : CTL_REQUEST_MAX;
		struct buf text = {0}, error = {0};

		buf_add_str(&text, "{\"command\":\"up\",\"argument\":\"");
		memset(buf_room(&text, length), 'x', length);
		buf_add_str(&text, "\"}");
		assert_int_equal(ctl_request_parse(buf_view(&text), &r, &error),
			i == 0 ? 0 : -EINVAL);
		assert_true(i == 0 ? strlen(r.argument) == length : error.n > 0);
		buf_free(&text);
		buf_free(&error);
	}
}

static void what_is_written_reads_back(void **state)
{
	(void)state;
	for (int c = 0; c < CTL_COMMAND_COUNT; c++) {
		struct ctl_request q = {.command = (enum ctl_command)c}, r;
		struct buf text = {0}, error = {0};

		if (c == CTL_RELOAD)
			q.dry_run = q.force = true;
		if (c == CTL_UP || c == CTL_DOWN || c == CTL_REKEY || c == CTL_LOG ||
			c == CTL_OFFLOAD || c == CTL_ROUTES || c == CTL_TRACE || c == CTL_PING)
			strcpy(q.argument, "a \"b\"\\\n/\xc3\xbc");
		if (c == CTL_LOG)
			strcpy(q.argument, "warning");
		ctl_request_write(&q, &text);
		assert_false(text.failed);
		assert_ptr_equal(memchr(text.p, '\n', text.n), text.p + text.n - 1);
		assert_int_equal(ctl_request_parse(buf_view(&text), &r, &error), 0);
		assert_int_equal(r.command, q.command);
		assert_string_equal(r.argument, q.argument);
		assert_int_equal(r.dry_run, q.dry_run);
		assert_int_equal(r.force, q.force);
		buf_free(&text);
	}
}

static void commands_have_names_and_rights(void **state)
{
	(void)state;
	for (int c = 0; c < CTL_COMMAND_COUNT; c++) {
		bool changes = c == CTL_RELOAD || c == CTL_REKEY || c == CTL_DOWN || c == CTL_UP ||
			c == CTL_LOG || c == CTL_OFFLOAD;

		assert_non_null(ctl_command_name((enum ctl_command)c));
		assert_int_equal(ctl_command_changes((enum ctl_command)c), changes);
	}
}

static void errors_are_one_line_of_json(void **state)
{
	struct buf b = {0};
	struct value_doc *d;

	(void)state;
	ctl_reply_error(&b, "line\nand \"quote\"");
	assert_ptr_equal(memchr(b.p, '\n', b.n), b.p + b.n - 1);
	assert_int_equal(value_parse(buf_view(&b), &d), 0);
	assert_true(value_number(value_get(value_root(d), "schema"), 0) == 1);
	assert_string_equal(value_string(value_get(value_root(d), "error")), "line\nand \"quote\"");
	value_free(d);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_requests),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(what_is_written_reads_back),
		cmocka_unit_test(commands_have_names_and_rights),
		cmocka_unit_test(errors_are_one_line_of_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
