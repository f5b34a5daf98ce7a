/* Requests of the control socket, parsed and written. */
#include "ctl/request.h"

#include <errno.h>
#include <string.h>
#include "ctl/json.h"
#include "ctl/value.h"

static const struct {
	const char *name;
	bool changes;
	bool wants_argument, may_argument;
} commands[CTL_COMMAND_COUNT] = {
	[CTL_STATUS] = {"status", false, false, false},
	[CTL_LINKS] = {"links", false, false, false},
	[CTL_ROUTES] = {"routes", false, false, true},
	[CTL_NEIGHBOURS] = {"neighbours", false, false, false},
	[CTL_TRACE] = {"trace", false, true, true},
	[CTL_PING] = {"ping", false, true, true},
	[CTL_POLICIES] = {"policies", false, false, false},
	[CTL_DROPS] = {"drops", false, false, false},
	[CTL_RELOAD] = {"reload", true, false, false},
	[CTL_REKEY] = {"rekey", true, true, true},
	[CTL_DOWN] = {"down", true, true, true},
	[CTL_UP] = {"up", true, true, true},
	[CTL_LOG] = {"log", true, true, true},
	[CTL_OFFLOAD] = {"offload", true, true, true},
	[CTL_VERSION] = {"version", false, false, false},
};

const char *ctl_command_name(enum ctl_command c)
{
	return commands[c].name;
}

bool ctl_command_changes(enum ctl_command c)
{
	return commands[c].changes;
}

static int find_command(const char *name, struct ctl_request *r)
{
	for (int i = 0; name && i < CTL_COMMAND_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0) {
			r->command = (enum ctl_command)i;
			return 0;
		}
	return -EINVAL;
}

static int read_member(const char *key, const struct value *v, struct ctl_request *r,
	struct buf *error)
{
	const char *s = value_string(v);

	if (strcmp(key, "command") == 0) {
		if (find_command(s, r) < 0) {
			buf_printf(error, "unknown command \"%.40s\"", s ? s : "");
			return -EINVAL;
		}
	} else if (strcmp(key, "argument") == 0) {
		if (!s || strlen(s) >= sizeof(r->argument)) {
			buf_printf(error, "argument must be a text of at most %d bytes",
				CTL_ARGUMENT - 1);
			return -EINVAL;
		}
		strcpy(r->argument, s);
	} else if (strcmp(key, "from") == 0) {
		if (!s || strlen(s) >= sizeof(r->from)) {
			buf_add_str(error, "from must be the next of an earlier reply");
			return -EINVAL;
		}
		strcpy(r->from, s);
	} else if (strcmp(key, "dry_run") == 0 && value_type(v) == VALUE_BOOL) {
		r->dry_run = value_bool(v);
	} else if (strcmp(key, "force") == 0 && value_type(v) == VALUE_BOOL) {
		r->force = value_bool(v);
	} else {
		buf_printf(error, "unknown key or wrong type: \"%.40s\"", key);
		return -EINVAL;
	}
	return 0;
}

static bool is_level(const char *s)
{
	static const char *const levels[] = {"error", "warning", "info", "debug"};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (strcmp(levels[i], s) == 0)
			return true;
	return false;
}

static int read_request(const struct value *root, struct ctl_request *ret, struct buf *error)
{
	struct ctl_request r = {.command = CTL_COMMAND_COUNT};

	if (value_type(root) != VALUE_OBJECT) {
		buf_add_str(error, "a request is one JSON object");
		return -EINVAL;
	}
	for (size_t i = 0; i < value_count(root); i++) {
		int err = read_member(value_key(root, i), value_at(root, i), &r, error);

		if (err < 0)
			return err;
	}
	if (r.command == CTL_COMMAND_COUNT) {
		buf_add_str(error, "the request has no command");
		return -EINVAL;
	}
	if (commands[r.command].wants_argument && !r.argument[0]) {
		buf_printf(error, "%s needs an argument", commands[r.command].name);
		return -EINVAL;
	}
	if (!commands[r.command].may_argument && r.argument[0]) {
		buf_printf(error, "%s takes no argument", commands[r.command].name);
		return -EINVAL;
	}
	if (r.command != CTL_ROUTES && r.from[0]) {
		buf_printf(error, "%s takes no from", commands[r.command].name);
		return -EINVAL;
	}
	if (r.command == CTL_LOG && !is_level(r.argument)) {
		buf_printf(error, "\"%.40s\" is no log level; it is error, warning, info or debug",
			r.argument);
		return -EINVAL;
	}
	if (r.command != CTL_RELOAD && (r.dry_run || r.force)) {
		buf_printf(error, "%s takes no dry_run and no force", commands[r.command].name);
		return -EINVAL;
	}
	*ret = r;
	return 0;
}

int ctl_request_parse(struct view text, struct ctl_request *ret, struct buf *error)
{
	struct value_doc *d;
	int err;

	if (text.n > CTL_REQUEST_MAX || value_parse(text, &d) < 0) {
		buf_add_str(error, "the request is no JSON object, or too large");
		return -EINVAL;
	}
	err = read_request(value_root(d), ret, error);
	value_free(d);
	return err;
}

void ctl_request_write(const struct ctl_request *r, struct buf *out)
{
	struct json j = json_to(out);

	json_object(&j, NULL);
	json_string(&j, "command", commands[r->command].name);
	if (r->argument[0])
		json_string(&j, "argument", r->argument);
	if (r->from[0])
		json_string(&j, "from", r->from);
	if (r->dry_run)
		json_bool(&j, "dry_run", true);
	if (r->force)
		json_bool(&j, "force", true);
	json_object_end(&j);
	buf_add(out, "\n", 1);
}

void ctl_reply_error(struct buf *out, const char *text)
{
	struct json j = json_to(out);

	json_object(&j, NULL);
	json_int(&j, "schema", 1);
	json_string(&j, "error", text);
	json_object_end(&j);
	buf_add(out, "\n", 1);
}
