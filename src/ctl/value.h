/* JSON read: a parsed value to walk, by RFC 8259, strictly and within bounds. Duplicate keys are
 * refused (RFC 8259 4: names should be unique), and so are texts with a zero character. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"

struct value_doc;
struct value; /* belongs to its document */

enum value_type { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_OBJECT };

/* Parses one JSON value (at most 16 MB, arrays and objects at most 32 deep, an object of at most
 * 4096 members, a number of at most 127 bytes that a double can hold). 0, -EINVAL, -E2BIG, -ENOMEM;
 * ret is untouched on failure. */
int value_parse(struct view text, struct value_doc **ret);
void value_free(struct value_doc *d);
const struct value *value_root(const struct value_doc *d);

/* All of the following take NULL as a value that is null. */
enum value_type value_type(const struct value *v);
/* A member of an object; NULL when there is none, or v is no object. */
const struct value *value_get(const struct value *v, const char *key);
/* Members of an object or items of an array. */
size_t value_count(const struct value *v);
const struct value *value_at(const struct value *v, size_t i);
/* The key of member i of an object; NULL otherwise. */
const char *value_key(const struct value *v, size_t i);
/* The text of a string; NULL otherwise. Lives with the document. */
const char *value_string(const struct value *v);
/* The number; otherwise `other`. */
double value_number(const struct value *v, double other);
bool value_bool(const struct value *v);
