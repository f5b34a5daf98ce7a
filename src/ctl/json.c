/* JSON written into a buffer (RFC 8259). */
#include "ctl/json.h"

#include <math.h>
#include <string.h>

struct json json_to(struct buf *out)
{
	return (struct json){.out = out};
}

static void escaped(struct buf *b, const char *s)
{
	buf_add(b, "\"", 1);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			buf_printf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			buf_printf(b, "\\u%04x", c);
		else
			buf_add(b, s, 1);
	}
	buf_add(b, "\"", 1);
}

static void start(struct json *j, const char *key)
{
	if (j->comma[j->depth])
		buf_add(j->out, ",", 1);
	j->comma[j->depth] = true;
	if (key) {
		escaped(j->out, key);
		buf_add(j->out, ":", 1);
	}
}

static void open_level(struct json *j, const char *key, const char *bracket)
{
	start(j, key);
	buf_add(j->out, bracket, 1);
	if (j->depth == JSON_DEPTH) {
		j->out->failed = true;
		return;
	}
	j->comma[++j->depth] = false;
}

static void close_level(struct json *j, const char *bracket)
{
	buf_add(j->out, bracket, 1);
	if (j->depth)
		j->depth--;
}

void json_object(struct json *j, const char *key)
{
	open_level(j, key, "{");
}

void json_object_end(struct json *j)
{
	close_level(j, "}");
}

void json_array(struct json *j, const char *key)
{
	open_level(j, key, "[");
}

void json_array_end(struct json *j)
{
	close_level(j, "]");
}

void json_string(struct json *j, const char *key, const char *value)
{
	start(j, key);
	if (value)
		escaped(j->out, value);
	else
		buf_add_str(j->out, "null");
}

void json_int(struct json *j, const char *key, int64_t value)
{
	start(j, key);
	buf_printf(j->out, "%lld", (long long)value);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	start(j, key);
	buf_printf(j->out, "%llu", (unsigned long long)value);
}

void json_real(struct json *j, const char *key, double value)
{
	start(j, key);
	if (isfinite(value))
		buf_printf(j->out, "%.6g", value);
	else
		buf_add_str(j->out, "null");
}

void json_bool(struct json *j, const char *key, bool value)
{
	start(j, key);
	buf_add_str(j->out, value ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
	start(j, key);
	buf_add_str(j->out, "null");
}

void json_hex(struct json *j, const char *key, uint64_t value, int digits)
{
	start(j, key);
	buf_printf(j->out, "\"%0*llx\"", digits, (unsigned long long)value);
}
