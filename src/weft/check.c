/* weft config check: what weftd --check says, without starting it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "conf/load.h"
#include "os/file.h"
#include "weft/tool.h"

static void print_lines(const struct conf_errors *e, const char *before)
{
	struct cur c = cur_view(buf_view(&e->text));

	while (c.n) {
		const uint8_t *end = memchr(c.p, '\n', c.n);
		size_t n = end ? (size_t)(end - c.p) : c.n;

		(void)fprintf(stderr, "%s%.*s\n", before, (int)n, (const char *)c.p);
		cur_skip(&c, end ? n + 1 : n);
	}
}

int tool_config(struct tool *t)
{
	const struct conf_files files = {.read = os_file_read};
	struct conf_source source = {.config = t->word[1] ? t->word[1] : TOOL_CONFIG};
	struct conf_errors errors = {0}, warnings = {0};
	struct conf_loaded l = {0};
	int err;

	if (strcmp(t->word[0], "check") != 0) {
		(void)tool_fail("unknown command config %.40s; usage: weft config check [FILE]",
			t->word[0]);
		return TOOL_USAGE;
	}
	err = conf_load(&files, &source, &l, &errors, &warnings);
	print_lines(&errors, "");
	print_lines(&warnings, "warning: ");
	if (err == -ENOMEM)
		(void)tool_fail("out of memory");
	conf_loaded_free(&l);
	conf_errors_free(&errors);
	conf_errors_free(&warnings);
	return err < 0 ? TOOL_FAILED : TOOL_DONE;
}
