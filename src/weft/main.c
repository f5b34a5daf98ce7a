/* weft(1): the command line. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "weft/tool.h"

static const struct tool_command commands[] = {
	{"status", "[--wait SECONDS]", tool_status, "the node and its links at a glance",
		.options = TOOL_WAIT},
	{"watch", "", tool_watch, "the status, again each second"},
	{"links", "", tool_links, "each link with its security associations"},
	{"routes", "[PREFIX]", tool_routes, "routes, or those that cover a prefix or lie in it",
		.words_max = 1},
	{"neighbours", "", tool_neighbours, "who speaks Babel with us, with round trip and costs"},
	{"trace", "SRC DST", tool_trace, "what happens to a packet, and why", .words_min = 2,
		.words_max = 2},
	{"ping", "NODE", tool_ping, "is a node there, and how far is it", .words_min = 1,
		.words_max = 1},
	{"policies", "", tool_policies, "where packets are steered, and how many were"},
	{"drops", "", tool_drops, "packets dropped, by reason"},
	{"reload", "[--dry-run] [--force]", tool_reload, "read configuration and registry again",
		.options = TOOL_DRY_RUN | TOOL_FORCE},
	{"rekey", "PEER", tool_rekey, "new keys for the links with a peer", .words_min = 1,
		.words_max = 1},
	{"down", "PEER", tool_down, "take the links with a peer down, until the next start",
		.words_min = 1, .words_max = 1},
	{"up", "PEER", tool_up, "bring them up again", .words_min = 1, .words_max = 1},
	{"log", "LEVEL", tool_log, "log error, warning, info or debug, until the next start",
		.words_min = 1, .words_max = 1},
	{"offload", "NAME on|off|auto", tool_offload,
		"switch an offload of plane.offload; auto: as the configuration has it",
		.words_min = 2, .words_max = 2},
	{"version", "", tool_version, "the versions of weft and of the running weftd"},
	{"keygen", "", tool_keygen, "a new private key (PKCS#8 PEM) on standard output"},
	{"pubkey", "[FILE]", tool_pubkey,
		"the public key (PEM) of a private key in FILE or on stdin", .words_max = 1},
	{"config", "check [FILE]", tool_config, "check a configuration and the files it names",
		.words_min = 1, .words_max = 2},
	{"completions", "SHELL", tool_completions, "completions for bash, zsh or fish",
		.words_min = 1, .words_max = 1},
	{NULL},
};

const struct tool_command *tool_commands(void)
{
	return commands;
}

static int print_help(void)
{
	struct buf out = {0};
	int code;

	buf_add_str(&out, "usage: weft [--socket PATH] [--json] COMMAND\n\n");
	for (const struct tool_command *c = commands; c->name; c++) {
		struct buf left = {0};

		buf_printf(&left, "%s %s", c->name, c->usage);
		buf_printf(&out, "  %-30.*s %s\n", (int)left.n, left.p ? (const char *)left.p : "",
			c->help);
		buf_free(&left);
	}
	buf_add_str(&out, "\nPEER and NODE are a name or organization/name. See weft(1).\n");
	code = tool_print(&out);
	buf_free(&out);
	return code;
}

static int usage(const struct tool_command *c, const char *what, const char *word)
{
	(void)fprintf(stderr, "weft: %s%s%s; usage: weft %s%s%s%s\n", what, word ? " " : "",
		word ? word : "", c ? c->name : "[--socket PATH] [--json] COMMAND",
		c && c->usage[0] ? " " : "", c ? c->usage : "",
		c ? "" : " (weft --help lists them)");
	return TOOL_USAGE;
}

struct parse {
	struct tool t;
	const struct tool_command *command;
	int words;
	bool help, words_only;
};

static int parse_seconds(struct parse *p, const char *s)
{
	char *end;

	errno = 0;
	p->t.wait_s = s[0] >= '0' && s[0] <= '9' ? strtod(s, &end) : (double)NAN;
	if (!isfinite(p->t.wait_s) || errno || *end || p->t.wait_s > 86400)
		return usage(p->command, "no number of seconds up to 86400:", s);
	p->t.options |= TOOL_WAIT;
	return 0;
}

/* The value of an option, "--x VALUE" or "--x=VALUE"; NULL when word is another option. */
static const char *option_value(const char *word, const char *name, char **argv, int *i)
{
	size_t n = strlen(name);

	if (strncmp(word, name, n) != 0 || (word[n] && word[n] != '='))
		return NULL;
	if (word[n] == '=')
		return word + n + 1;
	return argv[*i + 1] ? argv[++*i] : "";
}

static int parse_option(struct parse *p, char **argv, int *i)
{
	const char *word = argv[*i], *value;

	if (strcmp(word, "--json") == 0) {
		p->t.json = true;
	} else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		p->help = true;
	} else if (strcmp(word, "--dry-run") == 0) {
		p->t.options |= TOOL_DRY_RUN;
	} else if (strcmp(word, "--force") == 0) {
		p->t.options |= TOOL_FORCE;
	} else if ((value = option_value(word, "--socket", argv, i)) != NULL) {
		if (!value[0])
			return usage(p->command, "--socket needs a path", NULL);
		p->t.socket = value;
	} else if ((value = option_value(word, "--wait", argv, i)) != NULL) {
		return parse_seconds(p, value);
	} else {
		return usage(p->command, "unknown option", word);
	}
	return 0;
}

static int parse_word(struct parse *p, const char *word)
{
	if (p->command) {
		if (p->words == TOOL_WORDS)
			return usage(p->command, "too many arguments", NULL);
		p->t.word[p->words++] = word;
		return 0;
	}
	for (p->command = commands; p->command->name; p->command++)
		if (strcmp(p->command->name, word) == 0)
			return 0;
	p->command = NULL;
	return usage(NULL, "unknown command", word);
}

static int parse(struct parse *p, char **argv)
{
	int code = 0;

	for (int i = 1; argv[i] && !code; i++) {
		if (p->words_only || argv[i][0] != '-' || !argv[i][1])
			code = parse_word(p, argv[i]);
		else if (strcmp(argv[i], "--") == 0)
			p->words_only = true;
		else
			code = parse_option(p, argv, &i);
	}
	if (code || p->help)
		return code;
	if (!p->command)
		return usage(NULL, "a command is missing", NULL);
	if (p->t.options & ~p->command->options)
		return usage(p->command, "an option that this command does not have", NULL);
	if (p->words < p->command->words_min)
		return usage(p->command, "an argument is missing", NULL);
	if (p->words > p->command->words_max)
		return usage(p->command, "too many arguments", NULL);
	return 0;
}

int main(int argc, char **argv)
{
	struct parse p = {.t = {.socket = TOOL_SOCKET, .timeout_ms = TOOL_TIMEOUT_MS}};
	const char *no_colour = getenv("NO_COLOR");
	int code;

	if (argc < 1)
		return TOOL_USAGE;
	p.t.colour = isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]);
	code = parse(&p, argv);
	if (code)
		return code;
	return p.help ? print_help() : p.command->run(&p.t);
}
