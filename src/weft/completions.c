/* weft completions: scripts made from the table of commands. */
#include <string.h>
#include "conf/conf.h"
#include "weft/tool.h"

static void options(struct buf *out, const struct tool_command *c, const char *before)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} all[] = {{TOOL_WAIT, "--wait"}, {TOOL_DRY_RUN, "--dry-run"}, {TOOL_FORCE, "--force"}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (c->options & all[i].bit)
			buf_printf(out, "%s%s", before, all[i].name);
}

/* Words that may follow a command; NULL when they cannot be listed. */
static const char *words_of(const struct tool_command *c)
{
	static const struct {
		const char *name, *words;
	} all[] = {{"log", "error warning info debug"}, {"config", "check"},
		{"offload", " on off auto"}, {"completions", "bash zsh fish"}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i].name, c->name) == 0)
			return all[i].words;
	return NULL;
}

static void words(struct buf *out, const struct tool_command *c)
{
	if (strcmp(c->name, "offload") == 0)
		conf_offload_names(out, " ");
	if (words_of(c))
		buf_add_str(out, words_of(c));
}

static bool takes_file(const struct tool_command *c)
{
	return strcmp(c->name, "pubkey") == 0 || strcmp(c->name, "config") == 0;
}

static void bash(struct buf *out)
{
	buf_add_str(out,
		"_weft()\n{\n"
		"\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tlocal command= list= i\n"
		"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		"\t\tcase ${COMP_WORDS[i]} in\n"
		"\t\t--socket) ((i++)) ;;\n\t\t-*) ;;\n"
		"\t\t*) command=${COMP_WORDS[i]}; break ;;\n"
		"\t\tesac\n\tdone\n"
		"\tif [ \"$before\" = --socket ]; then\n"
		"\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n\t\treturn\n\tfi\n"
		"\tcase $command in\n\t'') list='--socket --json --help");
	for (const struct tool_command *c = tool_commands(); c->name; c++)
		buf_printf(out, " %s", c->name);
	buf_add_str(out, "' ;;\n");
	for (const struct tool_command *c = tool_commands(); c->name; c++) {
		buf_printf(out, "\t%s) list='", c->name);
		words(out, c);
		options(out, c, " ");
		buf_printf(out, "'%s ;;\n",
			takes_file(c) ? "; list+=\" $(compgen -f -- \"$word\")\"" : "");
	}
	buf_add_str(out,
		"\tesac\n\tCOMPREPLY=($(compgen -W \"$list\" -- \"$word\"))\n}\n"
		"complete -F _weft weft\n");
}

static void zsh(struct buf *out)
{
	buf_add_str(out, "#compdef weft\n_weft()\n{\n\tlocal -a commands\n\tcommands=(\n");
	for (const struct tool_command *c = tool_commands(); c->name; c++)
		buf_printf(out, "\t\t'%s:%s'\n", c->name, c->help);
	buf_add_str(out,
		"\t)\n"
		"\t_arguments -C '--socket[control socket]:path:_files' "
		"'--json[print the reply as JSON]' \\\n"
		"\t\t'--help[usage]' '1:command:->command' '*::argument:->argument'\n"
		"\tcase $state in\n"
		"\tcommand) _describe command commands ;;\n"
		"\targument)\n\t\tcase $words[1] in\n");
	for (const struct tool_command *c = tool_commands(); c->name; c++) {
		if (!words_of(c) && !c->options && !takes_file(c))
			continue;
		buf_printf(out, "\t\t%s)", c->name);
		if (words_of(c) || c->options) {
			buf_add_str(out, " compadd -- ");
			words(out, c);
			options(out, c, " ");
			buf_add_str(out, ";");
		}
		buf_add_str(out, takes_file(c) ? " _files ;;\n" : ";\n");
	}
	buf_add_str(out, "\t\tesac ;;\n\tesac\n}\n_weft \"$@\"\n");
}

static void fish(struct buf *out)
{
	buf_add_str(out,
		"complete -c weft -f\n"
		"complete -c weft -l socket -r -F -d 'control socket'\n"
		"complete -c weft -l json -d 'print the reply as JSON'\n");
	for (const struct tool_command *c = tool_commands(); c->name; c++) {
		buf_printf(out, "complete -c weft -n __fish_use_subcommand -a %s -d '%s'\n",
			c->name, c->help);
		if (words_of(c)) {
			buf_printf(out, "complete -c weft -n '__fish_seen_subcommand_from %s' -a '",
				c->name);
			words(out, c);
			buf_add_str(out, "'\n");
		}
		if (takes_file(c))
			buf_printf(out, "complete -c weft -n '__fish_seen_subcommand_from %s' -F\n",
				c->name);
		if (c->options) {
			buf_printf(out, "complete -c weft -n '__fish_seen_subcommand_from %s' -a '",
				c->name);
			options(out, c, " ");
			buf_add_str(out, "'\n");
		}
	}
}

int tool_completions(struct tool *t)
{
	static const struct {
		const char *name;
		void (*write)(struct buf *out);
	} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
	struct buf out = {0};
	int code;

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(shells[i].name, t->word[0]) != 0)
			continue;
		shells[i].write(&out);
		code = tool_print(&out);
		buf_free(&out);
		return code;
	}
	(void)tool_fail("no completions for %.40s; there are bash, zsh and fish", t->word[0]);
	return TOOL_USAGE;
}
