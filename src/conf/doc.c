/* A YAML or JSON document with positions, read by tables of fields. libfyaml does the parsing; here
 * is what makes its documents strict: no anchors, aliases, tags or duplicates, and a position for
 * every complaint. */
#include "conf/doc_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/utf8.h"

enum {
	MESSAGE = 512,
	LINES_MAX = 100, /* errors written out; the rest is only counted */
	SECRET_RUN = 32, /* so many base64 digits in a row may be a key */
	TEXT_MAX = 64 << 20,
	NODE_BYTES = 800, /* of libfyaml for a scalar and its mapping, measured: 744 */
	PARSER_BYTES = 1 << 18,
};

static struct fy_token *any_token(struct fy_node *n)
{
	struct fy_token *t = NULL;
	void *it = NULL;

	/* a mapping or sequence has no token of its own: its first scalar stands for it */
	for (int depth = 0; n && depth < 8; depth++) {
		struct fy_node_pair *pair;

		switch (fy_node_get_type(n)) {
		case FYNT_SCALAR:
			return fy_node_get_scalar_token(n);
		case FYNT_MAPPING:
			it = NULL;
			pair = fy_node_mapping_iterate(n, &it);
			n = pair ? fy_node_pair_key(pair) : NULL;
			break;
		case FYNT_SEQUENCE:
			it = NULL;
			n = fy_node_sequence_iterate(n, &it);
			break;
		}
	}
	return t;
}

static void add_line(struct doc *d, int line, int column, const char *message)
{
	d->failed = true;
	if (d->errors->count++ >= LINES_MAX) {
		if (d->errors->count == LINES_MAX + 1)
			buf_printf(&d->errors->text, "%s: further errors are left out\n", d->file);
		return;
	}
	if (line > 0)
		buf_printf(&d->errors->text, "%s:%d:%d: %s\n", d->file, line, column, message);
	else
		buf_printf(&d->errors->text, "%s: %s\n", d->file, message);
}

static int no_memory(struct doc *d)
{
	d->no_memory = true;
	add_line(d, 0, 0, "out of memory");
	return -ENOMEM;
}

void doc_position(struct doc *d, struct fy_node *n, struct conf_mark *ret)
{
	struct fy_token *t = any_token(n);
	const struct fy_mark *mark;
	enum fy_scalar_style style;

	*ret = (struct conf_mark){0};
	if (!t && d->near)
		t = any_token(d->near);
	mark = t ? fy_token_start_mark(t) : NULL;
	if (!mark)
		return;
	/* the library's mark is behind the quote */
	style = fy_token_scalar_style(t);
	*ret = (struct conf_mark){.line = mark->line + 1, .column = mark->column + 1};
	if ((style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && mark->column > 0)
		ret->column--;
}

struct fy_node *doc_at(struct doc *d, const char *path)
{
	return fy_node_by_path(fy_document_root(d->fyd), path, strlen(path), FYNWF_DONT_FOLLOW);
}

void doc_error(struct doc *d, struct fy_node *at, const char *fmt, ...)
{
	char message[MESSAGE];
	struct conf_mark mark;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	doc_position(d, at, &mark);
	if (!mark.line && at && at == fy_document_root(d->fyd))
		mark = (struct conf_mark){.line = 1, .column = 1}; /* an empty mapping or list */
	add_line(d, mark.line, mark.column, message);
}

#define CONTROL                                                                                    \
	"a line break or another control character in a string; JSON writes a line break as \\n"

/* What the library says, and what would be right where it does not say so. */
static void syntax_error(struct doc *d, const struct fy_diag_error *e)
{
	static const struct {
		const char *theirs, *here;
	} known[] = {
		{"duplicate key", "a key is given twice; give each once"},
		{"Invalid JSON unescaped character", CONTROL},
		{"Multi line double quoted", CONTROL},
		{"Max depth", "nested too deep; no configuration needs more than a few levels"},
	};
	char message[MESSAGE];
	const char *said = e->msg ? e->msg : "unknown";

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(said, known[i].theirs, strlen(known[i].theirs)) == 0) {
			add_line(d, e->line, e->column, known[i].here);
			return;
		}
	(void)snprintf(message, sizeof(message), "the syntax is wrong: %s", said);
	add_line(d, e->line, e->column, message);
}

/* The first syntax error that the library collected; the others follow from it. */
static void take_diagnostics(struct doc *d)
{
	void *it = NULL;
	struct fy_diag_error *e = fy_diag_errors_iterate(d->diag, &it);

	if (e)
		syntax_error(d, e);
	else
		add_line(d, 1, 1, "holds no YAML or JSON document");
}

/* Text, all of it: the library stops at other bytes and says nothing. */
static bool is_text(struct doc *d, struct view text)
{
	struct cur c = cur_view(text);
	int line = 1, column = 1;

	while (c.n) {
		uint8_t first = c.p[0];
		size_t len = utf8_length(c.p, c.n);

		if (!len || first == 0x7f ||
			(first < 0x20 && first != '\n' && first != '\r' && first != '\t')) {
			add_line(d, line, column,
				len ? "a control character: this is no text file"
				    : "bytes that are not UTF-8: this is no text file");
			return false;
		}
		column++;
		if (first == '\n') {
			line++;
			column = 1;
		}
		cur_skip(&c, len);
	}
	return true;
}

/* Anchors, aliases and tags are refused everywhere in the tree. */
static void refuse_extras(struct doc *d, struct fy_node *n, int depth)
{
	void *it = NULL;
	struct fy_node_pair *pair;
	struct fy_node *item;

	if (!n || depth > 64)
		return;
	if (fy_node_is_alias(n) || fy_node_get_anchor(n))
		doc_error(d, n, "anchors and aliases are not allowed, write the value out");
	if (fy_node_get_tag_token(n))
		doc_error(d, n, "tags are not allowed");
	if (fy_node_get_type(n) == FYNT_MAPPING)
		while ((pair = fy_node_mapping_iterate(n, &it))) {
			d->near = fy_node_pair_key(pair);
			refuse_extras(d, fy_node_pair_key(pair), depth + 1);
			refuse_extras(d, fy_node_pair_value(pair), depth + 1);
			d->near = NULL;
		}
	else if (fy_node_get_type(n) == FYNT_SEQUENCE)
		while ((item = fy_node_sequence_iterate(n, &it)))
			refuse_extras(d, item, depth + 1);
}

/* The library does not check its allocations: without memory it crashes. So what it needs at most
 * is asked for, and given back, before. Each node of a document stands beside one of these
 * characters.
 */
static bool is_memory_for(struct view text)
{
	static const char beside[] = "\n,:[]{}-?";
	size_t need = PARSER_BYTES;
	void *room;

	for (size_t i = 0; i < text.n; i++)
		need += text.p[i] && strchr(beside, text.p[i]) ? NODE_BYTES : 1;
	room = w_alloc(need);
	w_free(room);
	return room != NULL;
}

static int build(struct doc *d, struct view text, bool json)
{
	struct fy_parse_cfg cfg = {
		.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG |
			(json ? FYPCF_JSON_FORCE : FYPCF_JSON_NONE),
		.diag = d->diag,
	};
	struct fy_parser *parser = fy_parser_create(&cfg);
	struct fy_document *more = NULL;

	if (!parser)
		return no_memory(d);
	if (fy_parser_set_string(parser, (const char *)text.p, text.n) < 0) {
		fy_parser_destroy(parser);
		return no_memory(d);
	}
	d->fyd = fy_parse_load_document(parser);
	if (!d->fyd || !fy_document_root(d->fyd)) {
		take_diagnostics(d);
	} else {
		void *it = NULL;

		more = fy_parse_load_document(parser);
		if (more)
			doc_error(d, fy_document_root(more),
				"a second document; one file holds one");
		else if (fy_diag_errors_iterate(d->diag, &it))
			take_diagnostics(d);
	}
	fy_document_destroy(more);
	fy_parser_destroy(parser);
	return d->failed ? -EINVAL : 0;
}

int doc_open(struct doc *d, struct view text, bool json)
{
	struct fy_diag_cfg diag_cfg;
	int err;

	if (text.n > TEXT_MAX) {
		add_line(d, 0, 0, "is larger than 64 MB: not a file of weft's");
		return -EINVAL;
	}
	if (!is_text(d, text))
		return -EINVAL;
	if (!is_memory_for(text))
		return no_memory(d);
	if (!text.n) {
		add_line(d, 1, 1, "is empty: it holds no YAML or JSON document");
		return -EINVAL;
	}
	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL;
	diag_cfg.colorize = false;
	d->diag = fy_diag_create(&diag_cfg);
	if (!d->diag)
		return no_memory(d);
	fy_diag_set_collect_errors(d->diag, true);
	err = build(d, text, json);
	if (err < 0)
		return err;
	refuse_extras(d, fy_document_root(d->fyd), 0);
	return d->failed ? -EINVAL : 0;
}

void doc_close(struct doc *d)
{
	fy_document_destroy(d->fyd);
	if (d->diag)
		fy_diag_destroy(d->diag);
	d->fyd = NULL;
	d->diag = NULL;
}

void *doc_alloc(struct doc *d, size_t count, size_t size)
{
	void *p = arena_calloc(d->arena, count, size);

	if (!p)
		(void)no_memory(d);
	return p;
}

static const char *scalar(struct fy_node *n, size_t *ret_n)
{
	*ret_n = 0;
	if (!n || fy_node_get_type(n) != FYNT_SCALAR)
		return NULL;
	return fy_node_get_scalar(n, ret_n);
}

bool doc_is_quoted(struct fy_node *n)
{
	enum fy_node_style s = fy_node_get_style(n);

	return s == FYNS_SINGLE_QUOTED || s == FYNS_DOUBLE_QUOTED;
}

static bool is_digit64(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		c == '+' || c == '/' || c == '=' || c == '_';
}

bool doc_looks_secret(const char *s, size_t n)
{
	size_t run = 0;

	for (size_t i = 0; i < n; i++) {
		run = is_digit64(s[i]) ? run + 1 : 0;
		if (run >= SECRET_RUN || (n - i >= 5 && memcmp(s + i, "-----", 5) == 0))
			return true;
	}
	return false;
}

const char *doc_shown(const char *s, size_t n, char out[static DOC_SHOWN_TEXT])
{
	size_t i;

	if (doc_looks_secret(s, n)) {
		strcpy(out, "(not shown: may be a key)");
		return out;
	}
	for (i = 0; i < n && i < DOC_SHOWN; i++)
		out[i] = (unsigned char)s[i] < 0x20 || (unsigned char)s[i] >= 0x7f ? '?' : s[i];
	memcpy(out + i, n > DOC_SHOWN ? "..." : "", n > DOC_SHOWN ? 4 : 1);
	return out;
}

const char *doc_string(struct doc *d, struct fy_node *n, const char *where)
{
	size_t len;
	const char *s = scalar(n, &len);
	char *copy;

	if (!s || (!len && !doc_is_quoted(n))) {
		doc_error(d, n, "%s must be a text", where);
		return NULL;
	}
	if (!len || memchr(s, 0, len)) {
		doc_error(d, n, "%s is empty, or holds a zero byte", where);
		return NULL;
	}
	copy = arena_strndup(d->arena, s, len);
	if (!copy)
		(void)no_memory(d);
	return copy;
}

bool doc_number(struct doc *d, struct fy_node *n, int64_t min, int64_t max, int64_t *ret)
{
	char text[DOC_SHOWN_TEXT], *end;
	size_t len;
	const char *s = scalar(n, &len);
	long long v;

	if (s && len && len <= 20 && s[0] >= '0' && s[0] <= '9') {
		(void)doc_shown(s, len, text);
		errno = 0;
		v = strtoll(text, &end, len > 2 && (s[1] == 'x' || s[1] == 'X') ? 16 : 10);
		if (!*end && !errno && v >= min && v <= max) {
			*ret = v;
			return true;
		}
	}
	doc_error(d, n, "\"%s\" is no whole number from %lld to %lld",
		doc_shown(s ? s : "", len, text), (long long)min, (long long)max);
	return false;
}

/* "90s", "10ms", "4h": a whole number and a unit. */
static bool duration(struct doc *d, struct fy_node *n, const struct field *f, int64_t *ret)
{
	static const struct {
		const char *unit;
		int64_t us;
	} units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000},
		{"h", INT64_C(3600000000)}, {"d", INT64_C(86400000000)}};
	char text[DOC_SHOWN_TEXT];
	size_t len, i = 0;
	const char *s = scalar(n, &len);
	int64_t v = 0;

	for (; s && i < len && i < 10 && s[i] >= '0' && s[i] <= '9'; i++)
		v = v * 10 + (s[i] - '0');
	for (size_t u = 0; i && u < sizeof(units) / sizeof(units[0]); u++) {
		if (strlen(units[u].unit) != len - i || memcmp(units[u].unit, s + i, len - i) != 0)
			continue;
		if (v > INT64_MAX / units[u].us || v * units[u].us < f->min ||
			v * units[u].us > f->max)
			break;
		*ret = v * units[u].us;
		return true;
	}
	doc_error(d, n,
		"%s: \"%s\" is no duration from %llds to %llds; write a number and a unit, as "
		"500ms, 10s, 4h",
		f->key, doc_shown(s ? s : "", len, text), (long long)(f->min / 1000000),
		(long long)(f->max / 1000000));
	return false;
}

void doc_no_choice(struct doc *d, struct fy_node *n, const char *where, const char *choices)
{
	char text[DOC_SHOWN_TEXT];
	size_t len;
	const char *s = scalar(n, &len);

	if (s)
		doc_error(d, n, "%s must be %s, not \"%s\"%s", where, choices,
			doc_shown(s, len, text), doc_is_quoted(n) ? " (in quotes)" : "");
	else
		doc_error(d, n, "%s must be %s", where, choices);
}

static bool boolean(struct doc *d, struct fy_node *n, const char *where, bool *ret)
{
	size_t len;
	const char *s = scalar(n, &len);
	bool yes = s && len == 4 && memcmp(s, "true", 4) == 0;

	if (!s || doc_is_quoted(n) || (!yes && !(len == 5 && memcmp(s, "false", 5) == 0))) {
		doc_no_choice(d, n, where, "true or false");
		return false;
	}
	*ret = yes;
	return true;
}

static void read_switch(struct doc *d, struct fy_node *n, const char *where, enum conf_switch *ret)
{
	static const char *const words[] = {"auto", "on", "off"};
	size_t len;
	const char *s = scalar(n, &len);

	for (int i = 0; s && i < 3; i++)
		if (strlen(words[i]) == len && memcmp(words[i], s, len) == 0) {
			*ret = (enum conf_switch)i;
			return;
		}
	doc_no_choice(d, n, where, "auto, on or off");
}

static void read_field(struct doc *d, struct fy_node *v, const struct field *f, void *object)
{
	unsigned char *at = (unsigned char *)object + f->offset;
	int64_t number;

	switch (f->kind) {
	case FIELD_STRING:
		*(const char **)(void *)at = doc_string(d, v, f->key);
		break;
	case FIELD_BOOL:
		(void)boolean(d, v, f->key, (bool *)at);
		break;
	case FIELD_U8:
		if (doc_number(d, v, f->min, f->max, &number))
			*(uint8_t *)at = (uint8_t)number;
		break;
	case FIELD_U16:
		if (doc_number(d, v, f->min, f->max, &number))
			*(uint16_t *)(void *)at = (uint16_t)number;
		break;
	case FIELD_U32:
		if (doc_number(d, v, f->min, f->max, &number))
			*(uint32_t *)(void *)at = (uint32_t)number;
		break;
	case FIELD_DURATION:
		(void)duration(d, v, f, (int64_t *)(void *)at);
		break;
	case FIELD_SWITCH:
		read_switch(d, v, f->key, (enum conf_switch *)(void *)at);
		break;
	case FIELD_MAP:
		doc_map(d, v, f->sub, object, f->key);
		break;
	case FIELD_CUSTOM:
		f->read(d, v, object);
		break;
	case FIELD_IGNORE:
		break;
	}
}

static const struct field *find_field(const struct field *field, const char *s, size_t n)
{
	for (; field->key; field++)
		if (strlen(field->key) == n && memcmp(field->key, s, n) == 0)
			return field;
	return NULL;
}

static void unknown_key(struct doc *d, struct fy_node *key, const struct field *field,
	const char *where)
{
	char text[DOC_SHOWN_TEXT];
	size_t len;
	const char *s = scalar(key, &len);
	struct buf known = {0};

	if (!s) {
		doc_error(d, key, "a key of %s is no text", where);
		return;
	}
	for (const struct field *f = field; f->key; f++)
		buf_printf(&known, "%s%s", known.n ? ", " : "", f->key);
	doc_error(d, key, "unknown key \"%s\" in %s; known: %s", doc_shown(s, len, text), where,
		known.p ? (const char *)known.p : "none");
	buf_free(&known);
}

/* "key:" and nothing behind it. */
static bool is_missing(struct fy_node *n)
{
	size_t len;

	return !n ||
		(fy_node_get_type(n) == FYNT_SCALAR && !doc_is_quoted(n) &&
			(!scalar(n, &len) || !len));
}

/* "key: null": as if the key were not there. */
static bool is_null(struct fy_node *n)
{
	size_t len;
	const char *s = scalar(n, &len);

	return s && !doc_is_quoted(n) &&
		((len == 4 && memcmp(s, "null", 4) == 0) || (len == 1 && s[0] == '~'));
}

static void read_value(struct doc *d, struct fy_node *key, struct fy_node *v, const struct field *f,
	void *object)
{
	struct fy_node *near = d->near;

	d->near = key;
	if (f->kind != FIELD_IGNORE && (is_missing(v) || (f->required && is_null(v))))
		doc_error(d, key, "%s has no value", f->key);
	else if (!is_null(v))
		read_field(d, v, f, object);
	d->near = near;
}

void doc_map(struct doc *d, struct fy_node *n, const struct field *field, void *object,
	const char *where)
{
	enum { FIELDS_MAX = 64 };
	bool seen[FIELDS_MAX] = {false};
	struct fy_node_pair *pair;
	void *it = NULL;

	if (!n || fy_node_get_type(n) != FYNT_MAPPING) {
		doc_error(d, n, "%s must be a mapping of keys to values", where);
		return;
	}
	while ((pair = fy_node_mapping_iterate(n, &it))) {
		struct fy_node *key = fy_node_pair_key(pair);
		size_t len;
		const char *s = scalar(key, &len);
		const struct field *f = s ? find_field(field, s, len) : NULL;

		if (!f) {
			unknown_key(d, key, field, where);
			continue;
		}
		if (seen[f - field]) {
			doc_error(d, key, "%s is given twice in %s", f->key, where);
			continue;
		}
		seen[f - field] = true;
		read_value(d, key, fy_node_pair_value(pair), f, object);
	}
	for (const struct field *f = field; f->key; f++)
		if (f->required && !seen[f - field])
			doc_error(d, n, "%s lacks %s", where, f->key);
}

size_t doc_sequence(struct doc *d, struct fy_node *n, const char *where)
{
	if (!n || fy_node_get_type(n) != FYNT_SEQUENCE) {
		doc_error(d, n, "%s must be a list", where);
		return 0;
	}
	return (size_t)fy_node_sequence_item_count(n);
}

void doc_strings(struct doc *d, struct fy_node *n, const char *where, const char ***ret,
	size_t *ret_n)
{
	size_t count = doc_sequence(d, n, where), i = 0;
	const char **out = doc_alloc(d, count, sizeof(*out));
	struct fy_node *item;
	void *it = NULL;

	if (!count || !out)
		return;
	while ((item = fy_node_sequence_iterate(n, &it)) && i < count)
		out[i++] = doc_string(d, item, where);
	*ret = out;
	*ret_n = i;
}

bool doc_prefix(struct doc *d, struct fy_node *n, struct prefix *ret)
{
	char text[DOC_SHOWN_TEXT], whole[PREFIX_TEXT], fixed[PREFIX_TEXT];
	size_t len;
	const char *s = scalar(n, &len);
	struct prefix p;
	int err = -EINVAL;

	if (s && len && len < sizeof(whole)) {
		memcpy(whole, s, len);
		whole[len] = 0;
		err = memchr(s, 0, len) ? -EINVAL : prefix_parse(whole, &p);
	}
	if (!err) {
		*ret = p;
		return true;
	}
	if (err == -ERANGE) {
		char *slash = strchr(whole, '/');
		struct ipaddr a;

		*slash = 0;
		if (!ipaddr_parse(whole, &a)) {
			p = prefix_of(&a, (unsigned int)strtoul(slash + 1, NULL, 10));
			doc_error(d, n,
				"\"%s\" has bits behind its prefix length; the prefix is %s",
				doc_shown(s, len, text), prefix_format(&p, fixed));
			return false;
		}
	}
	doc_error(d, n, "\"%s\" is no prefix; write one as 10.1.0.0/16 or fd00:1::/64",
		doc_shown(s ? s : "", len, text));
	return false;
}

bool doc_address(struct doc *d, struct fy_node *n, struct ipaddr *ret)
{
	char text[DOC_SHOWN_TEXT], whole[ADDR_TEXT];
	size_t len;
	const char *s = scalar(n, &len);

	if (s && len && len < sizeof(whole) && !memchr(s, 0, len)) {
		memcpy(whole, s, len);
		whole[len] = 0;
		if (!ipaddr_parse(whole, ret))
			return true;
	}
	doc_error(d, n, "\"%s\" is no IPv4 or IPv6 address", doc_shown(s ? s : "", len, text));
	return false;
}
