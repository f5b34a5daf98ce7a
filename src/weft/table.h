/* Columns, aligned. Cells come from a daemon and so from other hosts: control characters in them
 * are shown as '?', so that none reaches the terminal. */
#pragma once
#include <stdbool.h>
#include "base/arena.h"
#include "base/buf.h"

enum { TABLE_COLUMNS = 12 };

enum table_colour { TABLE_PLAIN, TABLE_GOOD, TABLE_BAD, TABLE_WAITING };

struct table;

/* A table with a head, ended by NULL; a head that begins with '>' is set to the right. NULL
 * without memory; then the calls below do nothing, and table_print() fails buf. */
struct table *table_new(const char *const *head, bool colour);
/* Adds a cell to the row in hand, left to right; it is copied. */
void table_cell(struct table *t, const char *text);
void table_cell_colour(struct table *t, const char *text, enum table_colour colour);
/* Ends the row. */
void table_row(struct table *t);
/* True when no row was added (false without memory: table_print() says so). */
bool table_is_empty(const struct table *t);
/* Frees a table that is not to be printed. NULL is fine. */
void table_free(struct table *t);
/* Appends the table to out and frees it. */
void table_print(struct table *t, struct buf *out);

/* Appends text with control characters shown as '?'. */
void table_text(struct buf *out, const char *text);
/* The same in a colour, when colour is on. */
void table_coloured(struct buf *out, const char *text, enum table_colour c, bool colour);
