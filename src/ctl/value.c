/* JSON read: libfyaml parses, the result is copied into a tree of our own in one arena, so that
 * users see no library. */
#include "ctl/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <libfyaml.h>
#include "base/arena.h"
#include "base/mem.h"

enum { TEXT_MAX = 16 << 20, DEPTH_MAX = 32 };

struct value {
	enum value_type type;
	const char *text;
	double number;
	size_t count;
	struct value *item;
	const char **key;
};

struct value_doc {
	struct arena *arena;
	struct value root;
};

static int copy(struct arena *a, struct fy_node *n, struct value *ret, int depth);

static int copy_scalar(struct arena *a, struct fy_node *n, struct value *ret)
{
	enum fy_node_style style = fy_node_get_style(n);
	size_t len = 0;
	const char *s = fy_node_get_scalar(n, &len);
	char *text = arena_strndup(a, s ? s : "", s ? len : 0);
	char *end;

	if (!text)
		return -ENOMEM;
	if (s && memchr(s, 0, len))
		return -EINVAL;
	ret->text = text;
	if (style == FYNS_DOUBLE_QUOTED) {
		ret->type = VALUE_STRING;
	} else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
		ret->type = VALUE_BOOL;
	} else if (strcmp(text, "null") == 0) {
		ret->type = VALUE_NULL;
	} else {
		ret->number = strtod(text, &end);
		if (*end || !*text)
			return -EINVAL;
		ret->type = VALUE_NUMBER;
	}
	return 0;
}

static int copy_items(struct arena *a, struct fy_node *n, struct value *ret, int depth)
{
	struct fy_node *item;
	void *it = NULL;
	size_t count = (size_t)fy_node_sequence_item_count(n);

	ret->type = VALUE_ARRAY;
	ret->item = arena_calloc(a, count, sizeof(*ret->item));
	if (!ret->item)
		return -ENOMEM;
	while (ret->count < count && (item = fy_node_sequence_iterate(n, &it))) {
		int err = copy(a, item, &ret->item[ret->count++], depth + 1);

		if (err < 0)
			return err;
	}
	return 0;
}

static int copy_members(struct arena *a, struct fy_node *n, struct value *ret, int depth)
{
	struct fy_node_pair *pair;
	void *it = NULL;
	size_t count = (size_t)fy_node_mapping_item_count(n);

	ret->type = VALUE_OBJECT;
	ret->item = arena_calloc(a, count, sizeof(*ret->item));
	ret->key = arena_calloc(a, count, sizeof(*ret->key));
	if (!ret->item || !ret->key)
		return -ENOMEM;
	while (ret->count < count && (pair = fy_node_mapping_iterate(n, &it))) {
		size_t len = 0;
		const char *s = fy_node_get_scalar(fy_node_pair_key(pair), &len);
		int err;

		if (!s || memchr(s, 0, len))
			return -EINVAL;
		ret->key[ret->count] = arena_strndup(a, s, len);
		if (!ret->key[ret->count])
			return -ENOMEM;
		err = copy(a, fy_node_pair_value(pair), &ret->item[ret->count++], depth + 1);
		if (err < 0)
			return err;
	}
	return 0;
}

static int copy(struct arena *a, struct fy_node *n, struct value *ret, int depth)
{
	if (!n || depth > DEPTH_MAX || fy_node_is_alias(n))
		return -EINVAL;
	switch (fy_node_get_type(n)) {
	case FYNT_SCALAR:
		return copy_scalar(a, n, ret);
	case FYNT_SEQUENCE:
		return copy_items(a, n, ret, depth);
	case FYNT_MAPPING:
		return copy_members(a, n, ret, depth);
	}
	return -EINVAL;
}

static int parse(struct view text, struct value_doc *d)
{
	struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_JSON_FORCE};
	struct fy_document *fyd;
	int err;

	if (text.n > TEXT_MAX)
		return -E2BIG;
	if (text.n && memchr(text.p, 0, text.n))
		return -EINVAL;
	fyd = fy_document_build_from_string(&cfg, (const char *)text.p, text.n);
	if (!fyd)
		return -EINVAL;
	err = copy(d->arena, fy_document_root(fyd), &d->root, 0);
	fy_document_destroy(fyd);
	return err;
}

int value_parse(struct view text, struct value_doc **ret)
{
	struct value_doc *d = w_calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	err = arena_new(&d->arena);
	if (!err)
		err = parse(text, d);
	if (err < 0)
		value_free(d);
	else
		*ret = d;
	return err;
}

void value_free(struct value_doc *d)
{
	if (!d)
		return;
	arena_free(d->arena);
	w_free(d);
}

const struct value *value_root(const struct value_doc *d)
{
	return &d->root;
}

enum value_type value_type(const struct value *v)
{
	return v ? v->type : VALUE_NULL;
}

const struct value *value_get(const struct value *v, const char *key)
{
	if (!v || v->type != VALUE_OBJECT)
		return NULL;
	for (size_t i = 0; i < v->count; i++)
		if (strcmp(v->key[i], key) == 0)
			return &v->item[i];
	return NULL;
}

size_t value_count(const struct value *v)
{
	return v ? v->count : 0;
}

const struct value *value_at(const struct value *v, size_t i)
{
	return v && i < v->count ? &v->item[i] : NULL;
}

const char *value_key(const struct value *v, size_t i)
{
	return v && v->type == VALUE_OBJECT && i < v->count ? v->key[i] : NULL;
}

const char *value_string(const struct value *v)
{
	return v && v->type == VALUE_STRING ? v->text : NULL;
}

double value_number(const struct value *v, double other)
{
	return v && v->type == VALUE_NUMBER ? v->number : other;
}

bool value_bool(const struct value *v)
{
	return v && v->type == VALUE_BOOL && strcmp(v->text, "true") == 0;
}
