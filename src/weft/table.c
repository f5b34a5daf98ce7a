/* Aligned columns. */
#include "weft/table.h"

#include <string.h>
#include "base/mem.h"

enum { GAP = 2 };

struct cell {
	const char *text;
	size_t width;
	enum table_colour colour;
};

struct row {
	struct row *next;
	struct cell cell[TABLE_COLUMNS];
};

struct table {
	struct arena *arena;
	struct row *first, **last, *now;
	size_t columns, at;
	size_t width[TABLE_COLUMNS];
	bool right[TABLE_COLUMNS];
	bool colour, failed;
};

/* Columns on a terminal: every byte that begins a character. */
static size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

void table_text(struct buf *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		/* C1 controls come as c2 80 .. c2 9f */
		bool c1 = c == 0xc2 && (unsigned char)text[1] >= 0x80 &&
			(unsigned char)text[1] < 0xa0;

		if (c1)
			text++;
		buf_add(out, c1 || c < 0x20 || c == 0x7f ? "?" : text, 1);
	}
}

void table_coloured(struct buf *out, const char *text, enum table_colour c, bool colour)
{
	static const char *const codes[] = {
		[TABLE_GOOD] = "\033[32m",
		[TABLE_BAD] = "\033[31m",
		[TABLE_WAITING] = "\033[33m",
	};

	if (colour && c != TABLE_PLAIN)
		buf_add_str(out, codes[c]);
	table_text(out, text);
	if (colour && c != TABLE_PLAIN)
		buf_add_str(out, "\033[0m");
}

static struct row *new_row(struct table *t)
{
	struct row *r = arena_alloc(t->arena, sizeof(*r));

	if (!r) {
		t->failed = true;
		return NULL;
	}
	*t->last = r;
	t->last = &r->next;
	return r;
}

struct table *table_new(const char *const *head, bool colour)
{
	struct table *t = w_calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (arena_new(&t->arena) < 0) {
		w_free(t);
		return NULL;
	}
	t->last = &t->first;
	t->colour = colour;
	while (t->columns < TABLE_COLUMNS && head[t->columns]) {
		t->right[t->columns] = head[t->columns][0] == '>';
		t->columns++;
	}
	for (size_t i = 0; i < t->columns; i++)
		table_cell(t, head[i] + (t->right[i] ? 1 : 0));
	table_row(t);
	return t;
}

void table_cell_colour(struct table *t, const char *text, enum table_colour colour)
{
	struct buf clean = {0};
	struct cell *c;

	if (!t || t->at == t->columns)
		return;
	if (!t->now)
		t->now = new_row(t);
	if (!t->now)
		return;
	c = &t->now->cell[t->at];
	table_text(&clean, text[0] ? text : "-");
	c->text = clean.failed ? NULL : arena_strndup(t->arena, (const char *)clean.p, clean.n);
	buf_free(&clean);
	if (!c->text) {
		t->failed = true;
		return;
	}
	c->colour = colour;
	c->width = text_width(c->text);
	if (c->width > t->width[t->at])
		t->width[t->at] = c->width;
	t->at++;
}

void table_cell(struct table *t, const char *text)
{
	table_cell_colour(t, text, TABLE_PLAIN);
}

void table_row(struct table *t)
{
	if (!t)
		return;
	t->now = NULL;
	t->at = 0;
}

static void pad(struct buf *out, size_t n)
{
	while (n--)
		buf_add(out, " ", 1);
}

static void print_row(const struct table *t, const struct row *r, struct buf *out)
{
	for (size_t i = 0; i < t->columns && r->cell[i].text; i++) {
		size_t fill = t->width[i] - r->cell[i].width;
		bool end = i + 1 == t->columns || !r->cell[i + 1].text;

		pad(out, i ? GAP : 0);
		pad(out, t->right[i] ? fill : 0);
		table_coloured(out, r->cell[i].text, r->cell[i].colour, t->colour);
		pad(out, t->right[i] || end ? 0 : fill);
	}
	buf_add(out, "\n", 1);
}

bool table_is_empty(const struct table *t)
{
	return t && !t->failed && !t->first->next;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	arena_free(t->arena);
	w_free(t);
}

void table_print(struct table *t, struct buf *out)
{
	if (!t || t->failed)
		out->failed = true;
	for (const struct row *r = t ? t->first : NULL; r && !t->failed; r = r->next)
		print_row(t, r, out);
	table_free(t);
}
