/* weft config check: what weftd --check says, without starting it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "conf/load.h"
#include "os/file.h"
#include "weft/tool.h"

static void print_lines(const struct conf_errors *e)
{
	if (e->text.n && fwrite(e->text.p, 1, e->text.n, stderr) != e->text.n)
		(void)tool_fail("cannot write");
}

int tool_config(struct tool *t)
{
	const struct conf_files files = {.read = os_file_read, .is_public = os_file_is_public};
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
	print_lines(&errors);
	print_lines(&warnings);
	if (err == -ENOMEM)
		(void)tool_fail("out of memory");
	conf_loaded_free(&l);
	conf_errors_free(&errors);
	conf_errors_free(&warnings);
	return err < 0 ? TOOL_FAILED : TOOL_DONE;
}
