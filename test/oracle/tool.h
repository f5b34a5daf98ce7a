/* What the programs for the oracle share: one command a line on stdin, one answer a line on stdout.
 * Bytes are hexadecimal, "-" is none. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"

enum { TOOL_WORDS = 128 };

struct tool {
	char *line;
	char *word[TOOL_WORDS];
	uint32_t words;
	uint8_t *bytes; /* what the words of the line say, one after the other */
	size_t used;
};

struct tool_command {
	const char *name; /* NULL ends a list */
	void (*run)(struct tool *t);
};

/* Says why on stderr, and ends the program. */
void tool_fail(const char *what);
/* Word i of the line (0: the command) as text or number; a missing one ends the program. */
const char *tool_word(const struct tool *t, uint32_t i);
uint64_t tool_number(const struct tool *t, uint32_t i);
/* The bytes of word i, with room in front and behind; valid until the next line. */
struct view tool_bytes(struct tool *t, uint32_t i, uint8_t **ret);
void tool_print(const uint8_t *p, size_t n);
/* Runs every line of stdin; returns main()'s result. */
int tool_main(const struct tool_command *commands);
