/* JSON written into a buffer, with the commas and escapes right. Numbers are written so that they
 * read back equal. A value that is not known is null, never an invented figure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"

enum { JSON_DEPTH = 16 };

struct json {
	struct buf *out; /* borrowed */
	unsigned int depth;
	bool comma[JSON_DEPTH + 1];
};

struct json json_to(struct buf *out);
/* key NULL inside arrays and for the outermost value. */
void json_object(struct json *j, const char *key);
void json_object_end(struct json *j);
void json_array(struct json *j, const char *key);
void json_array_end(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL: null */
void json_int(struct json *j, const char *key, int64_t value);
void json_uint(struct json *j, const char *key, uint64_t value);
void json_real(struct json *j, const char *key, double value); /* NaN, infinite: null */
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* SPIs: lower-case hexadecimal of `digits` digits, as a string. */
void json_hex(struct json *j, const char *key, uint64_t value, int digits);
