/* JSON read: a parsed value to walk, strict and bounded. Wraps libfyaml for this room and for the
 * command-line tool. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"

struct value_doc;
struct value; /* belongs to its document */

enum value_type { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_OBJECT };

/* Parses one JSON value (at most 16 MB, nesting at most 32 deep). 0, -EINVAL, -E2BIG, -ENOMEM. */
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
