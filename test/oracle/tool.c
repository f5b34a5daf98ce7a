/* Lines in, answers out: see tool.h. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"

enum { LINE = 1 << 20, BYTES = 1 << 19, HEADROOM = 64 };

void tool_fail(const char *what)
{
	fprintf(stderr, "tool: %s\n", what);
	exit(1);
}

const char *tool_word(const struct tool *t, uint32_t i)
{
	if (i >= t->words)
		tool_fail("a word is missing");
	return t->word[i];
}

uint64_t tool_number(const struct tool *t, uint32_t i)
{
	return strtoull(tool_word(t, i), NULL, 0);
}

struct view tool_bytes(struct tool *t, uint32_t i, uint8_t **ret)
{
	const char *s = tool_word(t, i);
	size_t n = strcmp(s, "-") == 0 ? 0 : strlen(s) / 2;
	uint8_t *p = t->bytes + t->used + HEADROOM;

	if (t->used + n + 2 * HEADROOM > BYTES)
		tool_fail("too many bytes");
	for (size_t k = 0; k < n; k++) {
		char pair[3] = {s[2 * k], s[2 * k + 1], 0};

		p[k] = (uint8_t)strtoul(pair, NULL, 16);
	}
	t->used += n + 2 * HEADROOM;
	if (ret)
		*ret = p;
	return view_of(p, n);
}

void tool_print(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", p[i]);
}

static void run(struct tool *t, const struct tool_command *c)
{
	while (c->name && strcmp(c->name, t->word[0]) != 0)
		c++;
	if (!c->name)
		tool_fail("no such command");
	c->run(t);
	putchar('\n');
}

int tool_main(const struct tool_command *commands)
{
	struct tool t = {.line = w_alloc(LINE), .bytes = w_alloc(BYTES)};

	if (!t.line || !t.bytes)
		tool_fail("no memory");
	while (fgets(t.line, LINE, stdin)) {
		char *save = NULL, *at = strtok_r(t.line, " \n", &save);

		t.words = 0;
		t.used = 0;
		for (; at && t.words < TOOL_WORDS; at = strtok_r(NULL, " \n", &save))
			t.word[t.words++] = at;
		if (t.words)
			run(&t, commands);
		fflush(stdout);
	}
	w_free(t.line);
	w_free(t.bytes);
	return 0;
}
