/* JSON read by RFC 8259. Values are kept on a stack while their array or object is read, and move
 * to the arena as one block when it closes. A library for YAML is not used here: it takes more than
 * JSON, and it writes to standard error what a client sent. */
#include "ctl/value.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { TEXT_MAX = 16 << 20, DEPTH_MAX = 32, MEMBERS_MAX = 4096, NUMBER_MAX = 127 };

struct value {
	enum value_type type;
	bool truth;
	double number;
	const char *text;
	const char *key; /* as a member of an object */
	size_t count;
	struct value *item;
};

struct value_doc {
	struct arena *arena;
	struct value root;
};

struct parser {
	struct cur c;
	struct arena *arena;
	struct value *stack;
	size_t n, cap;
	struct buf text; /* the string in hand */
};

static int peek(const struct parser *p)
{
	return p->c.n ? p->c.p[0] : -1;
}

static void space(struct parser *p)
{
	while (p->c.n && memchr(" \t\r\n", p->c.p[0], 4))
		cur_skip(&p->c, 1);
}

/* Takes c; false when something else is next. */
static bool take(struct parser *p, char c)
{
	if (peek(p) != (unsigned char)c)
		return false;
	cur_skip(&p->c, 1);
	return true;
}

static bool take_word(struct parser *p, const char *word)
{
	size_t n = strlen(word);

	if (p->c.n < n || memcmp(p->c.p, word, n) != 0)
		return false;
	cur_skip(&p->c, n);
	return true;
}

/* ---- strings (RFC 8259 7) ---- */

static int hex4(struct parser *p, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		int c = peek(p), digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			digit = c - 'A' + 10;
		else
			return -EINVAL;
		v = v << 4 | (uint32_t)digit;
		cur_skip(&p->c, 1);
	}
	*ret = v;
	return 0;
}

static void add_utf8(struct buf *b, uint32_t v)
{
	uint8_t out[4];
	size_t n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0x00, 0xc0, 0xe0, 0xf0};

	for (size_t i = n; i-- > 1; v >>= 6)
		out[i] = (uint8_t)(0x80 | (v & 0x3f));
	out[0] = (uint8_t)(lead[n] | v);
	buf_add(b, out, n);
}

static int unicode_escape(struct parser *p)
{
	uint32_t v, low;

	if (hex4(p, &v) < 0 || v == 0 || (v >= 0xdc00 && v < 0xe000))
		return -EINVAL;
	if (v >= 0xd800 && v < 0xdc00) {
		if (!take(p, '\\') || !take(p, 'u') || hex4(p, &low) < 0 || low < 0xdc00 ||
			low >= 0xe000)
			return -EINVAL;
		v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
	}
	add_utf8(&p->text, v);
	return 0;
}

static int escape(struct parser *p)
{
	static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	int c = peek(p);
	const char *at = c > 0 ? strchr(names, c) : NULL;

	if (c < 0)
		return -EINVAL;
	cur_skip(&p->c, 1);
	if (c == 'u')
		return unicode_escape(p);
	if (!at)
		return -EINVAL;
	buf_add(&p->text, bytes + (at - names), 1);
	return 0;
}

static int string(struct parser *p, const char **ret)
{
	const char *copy;

	p->text.n = 0;
	if (!take(p, '"'))
		return -EINVAL;
	while (!take(p, '"')) {
		size_t len = utf8_length(p->c.p, p->c.n);

		if (!len || p->c.p[0] < 0x20)
			return -EINVAL;
		if (take(p, '\\')) {
			if (escape(p) < 0)
				return -EINVAL;
			continue;
		}
		buf_add(&p->text, p->c.p, len);
		cur_skip(&p->c, len);
	}
	if (p->text.failed)
		return -ENOMEM;
	copy = arena_strndup(p->arena, p->text.n ? (const char *)p->text.p : "", p->text.n);
	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

/* ---- numbers (RFC 8259 6) ---- */

/* One digit or more; how many. */
static size_t digits(struct cur *c)
{
	size_t n = 0;

	for (; c->n && c->p[0] >= '0' && c->p[0] <= '9'; n++)
		cur_skip(c, 1);
	return n;
}

static bool skip_one_of(struct cur *c, const char *set)
{
	if (!c->n || !c->p[0] || !strchr(set, c->p[0]))
		return false;
	cur_skip(c, 1);
	return true;
}

static int number(struct parser *p, double *ret)
{
	char text[NUMBER_MAX + 1];
	struct cur c = p->c;
	bool zero;
	size_t n;
	double v;

	(void)skip_one_of(&c, "-");
	zero = c.n && c.p[0] == '0';
	n = digits(&c);
	if (!n || (zero && n > 1) || (skip_one_of(&c, ".") && !digits(&c)))
		return -EINVAL;
	if (skip_one_of(&c, "eE")) {
		(void)skip_one_of(&c, "+-");
		if (!digits(&c))
			return -EINVAL;
	}
	n = p->c.n - c.n;
	if (n > NUMBER_MAX)
		return -EINVAL;
	memcpy(text, p->c.p, n);
	text[n] = 0;
	v = strtod(text, NULL);
	if (!isfinite(v))
		return -EINVAL;
	p->c = c;
	*ret = v;
	return 0;
}

/* ---- values ---- */

static int push(struct parser *p, const struct value *v)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct value *stack = w_realloc(p->stack, cap * sizeof(*stack));

		if (!stack)
			return -ENOMEM;
		p->stack = stack;
		p->cap = cap;
	}
	p->stack[p->n++] = *v;
	return 0;
}

/* The values above `from` become the items of ret. */
static int pop_items(struct parser *p, size_t from, struct value *ret)
{
	size_t count = p->n - from;

	ret->item = arena_calloc(p->arena, count ? count : 1, sizeof(*ret->item));
	if (!ret->item)
		return -ENOMEM;
	if (count)
		memcpy(ret->item, p->stack + from, count * sizeof(*ret->item));
	ret->count = count;
	p->n = from;
	return 0;
}

static int value(struct parser *p, int depth, struct value *ret);

static bool has_key(const struct parser *p, size_t from, const char *key)
{
	for (size_t i = from; i < p->n; i++)
		if (strcmp(p->stack[i].key, key) == 0)
			return true;
	return false;
}

static int member_key(struct parser *p, size_t from, const char **ret)
{
	int err = string(p, ret);

	if (err < 0)
		return err;
	space(p);
	if (!take(p, ':') || p->n - from == MEMBERS_MAX || has_key(p, from, *ret))
		return -EINVAL;
	space(p);
	return 0;
}

/* What stands between the brackets, and the closing one. */
static int items(struct parser *p, int depth, char close, struct value *ret)
{
	size_t from = p->n;
	int err;

	if (depth == DEPTH_MAX)
		return -EINVAL;
	space(p);
	if (take(p, close))
		return pop_items(p, from, ret);
	do {
		struct value v = {0};
		const char *key = NULL;

		space(p);
		err = close == '}' ? member_key(p, from, &key) : 0;
		if (!err)
			err = value(p, depth + 1, &v);
		v.key = key;
		if (!err)
			err = push(p, &v);
		if (err < 0)
			return err;
		space(p);
	} while (take(p, ','));
	return take(p, close) ? pop_items(p, from, ret) : -EINVAL;
}

static int value(struct parser *p, int depth, struct value *ret)
{
	if (take(p, '{')) {
		ret->type = VALUE_OBJECT;
		return items(p, depth, '}', ret);
	}
	if (take(p, '[')) {
		ret->type = VALUE_ARRAY;
		return items(p, depth, ']', ret);
	}
	if (peek(p) == '"') {
		ret->type = VALUE_STRING;
		return string(p, &ret->text);
	}
	ret->truth = take_word(p, "true");
	if (ret->truth || take_word(p, "false")) {
		ret->type = VALUE_BOOL;
		return 0;
	}
	if (take_word(p, "null")) {
		ret->type = VALUE_NULL;
		return 0;
	}
	ret->type = VALUE_NUMBER;
	return number(p, &ret->number);
}

static int parse(struct view text, struct value_doc *d)
{
	struct parser p = {.c = cur_view(text), .arena = d->arena};
	int err;

	if (text.n > TEXT_MAX)
		return -E2BIG;
	space(&p);
	err = value(&p, 0, &d->root);
	space(&p);
	if (!err && p.c.n)
		err = -EINVAL;
	w_free(p.stack);
	buf_free(&p.text);
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
		if (strcmp(v->item[i].key, key) == 0)
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
	return v && v->type == VALUE_OBJECT && i < v->count ? v->item[i].key : NULL;
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
	return v && v->type == VALUE_BOOL && v->truth;
}
