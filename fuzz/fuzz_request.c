/* JSON, and requests of the control socket: what is taken writes back to JSON that is read equal.
 */
#include <string.h>
#include "ctl/json.h"
#include "ctl/request.h"
#include "ctl/value.h"
#include "fuzz.h"

/* Writes a value as it was read; nesting deeper than the writer goes is left out. */
static void write_value(struct json *j, const char *key, const struct value *v, int depth)
{
	switch (depth < JSON_DEPTH ? value_type(v) : VALUE_NULL) {
	case VALUE_NULL:
		json_null(j, key);
		break;
	case VALUE_BOOL:
		json_bool(j, key, value_bool(v));
		break;
	case VALUE_NUMBER:
		json_real(j, key, value_number(v, 0));
		break;
	case VALUE_STRING:
		json_string(j, key, value_string(v));
		break;
	case VALUE_ARRAY:
		json_array(j, key);
		for (size_t i = 0; i < value_count(v); i++)
			write_value(j, NULL, value_at(v, i), depth + 1);
		json_array_end(j);
		break;
	case VALUE_OBJECT:
		json_object(j, key);
		for (size_t i = 0; i < value_count(v); i++)
			write_value(j, value_key(v, i), value_at(v, i), depth + 1);
		json_object_end(j);
		break;
	}
}

static void write_document(const struct value_doc *d, struct buf *out)
{
	struct json j = json_to(out);

	write_value(&j, NULL, value_root(d), 0);
	FUZZ_ASSERT(!out->failed);
}

static void check_value(struct view text)
{
	struct value_doc *d, *again;
	struct buf once = {0}, twice = {0};

	if (value_parse(text, &d) < 0)
		return;
	write_document(d, &once);
	FUZZ_ASSERT(value_parse(buf_view(&once), &again) == 0);
	write_document(again, &twice);
	FUZZ_ASSERT(once.n == twice.n && memcmp(once.p, twice.p, once.n) == 0);
	value_free(d);
	value_free(again);
	buf_free(&once);
	buf_free(&twice);
}

static void check_request(struct view text)
{
	struct ctl_request r, again;
	struct buf error = {0}, out = {0};

	if (ctl_request_parse(text, &r, &error) < 0) {
		FUZZ_ASSERT(error.n > 0);
		buf_free(&error);
		return;
	}
	FUZZ_ASSERT(error.n == 0);
	ctl_request_write(&r, &out);
	FUZZ_ASSERT(
		ctl_request_parse(buf_view(&out), &again, &error) == 0 || out.n > CTL_REQUEST_MAX);
	if (out.n <= CTL_REQUEST_MAX)
		FUZZ_ASSERT(again.command == r.command && !strcmp(again.argument, r.argument) &&
			again.dry_run == r.dry_run && again.force == r.force);
	buf_free(&error);
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_value(view_of(data, size));
	check_request(view_of(data, size));
	return 0;
}
