/* JSON written into a buffer (RFC 8259). */
#include "ctl/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cur.h"
#include "base/utf8.h"

struct json json_to(struct buf *out)
{
	return (struct json){.out = out};
}

/* Bytes that are no UTF-8 become U+FFFD: a reply is JSON whatever a name holds. */
static void escaped(struct buf *b, const char *s)
{
	struct cur c = cur_of(s, strlen(s));

	buf_add(b, "\"", 1);
	while (c.n) {
		uint8_t first = c.p[0];
		size_t len = utf8_length(c.p, c.n);

		if (!len)
			buf_add_str(b, "\xef\xbf\xbd");
		else if (first == '"' || first == '\\')
			buf_printf(b, "\\%c", first);
		else if (first == '\n')
			buf_add_str(b, "\\n");
		else if (first < 0x20 || first == 0x7f)
			buf_printf(b, "\\u%04x", first);
		else
			buf_add(b, c.p, len);
		cur_skip(&c, len ? len : 1);
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
	enum { DIGITS_MIN = 6, DIGITS_MAX = 17 }; /* of a double: 17 always suffice */
	char text[40];
	int digits = DIGITS_MIN;

	start(j, key);
	if (!isfinite(value)) {
		buf_add_str(j->out, "null");
		return;
	}
	do {
		(void)snprintf(text, sizeof(text), "%.*g", digits, value);
	} while (strtod(text, NULL) != value && digits++ < DIGITS_MAX);
	buf_add_str(j->out, text);
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
