/* weftd: reads its files, starts the engine, and says in one line what is wrong when it cannot. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "conf/conf.h"
#include "conf/load.h"
#include "engine/engine.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/net.h"
#include "os/runner.h"
#include "weftd/backend.h"

enum { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2 };

struct options {
	struct conf_source source;
	struct os_runner *runner;
	uint8_t public_key[ED25519_PUBLIC]; /* of the key in use, once it runs */
	bool check, version, help;
};

static const char usage_text[] =
	"usage: weftd -c FILE [--check]\n"
	"       weftd --ranet-config FILE --ranet-registry FILE --ranet-key FILE [--check]\n"
	"       weftd --version\n";

static const struct conf_files files = {.read = os_file_read, .is_public = os_file_is_public};

/* 0, or -EINVAL with the reason on standard error. */
static int options_check(const struct options *o, bool ranet, int rest)
{
	if (o->version || o->help)
		return 0;
	if (rest > 0) {
		fprintf(stderr, "weftd: nothing but options is taken\n%s", usage_text);
		return -EINVAL;
	}
	if (!o->source.config) {
		fprintf(stderr, "weftd: no configuration was named\n%s", usage_text);
		return -EINVAL;
	}
	if (ranet && (!o->source.ranet_registry || !o->source.ranet_key)) {
		fprintf(stderr,
			"weftd: --ranet-config, --ranet-registry and --ranet-key go "
			"together, without -c\n%s",
			usage_text);
		return -EINVAL;
	}
	return 0;
}

static int options_parse(int argc, char **argv, struct options *o)
{
	enum { CHECK = 256, VERSION, RANET_CONFIG, RANET_REGISTRY, RANET_KEY };
	static const struct option known[] = {
		{"config", required_argument, NULL, 'c'},
		{"check", no_argument, NULL, CHECK},
		{"version", no_argument, NULL, VERSION},
		{"help", no_argument, NULL, 'h'},
		{"ranet-config", required_argument, NULL, RANET_CONFIG},
		{"ranet-registry", required_argument, NULL, RANET_REGISTRY},
		{"ranet-key", required_argument, NULL, RANET_KEY},
		{0},
	};
	bool ranet = false, plain = false;
	int c;

	while ((c = getopt_long(argc, argv, "c:h", known, NULL)) != -1) {
		ranet |= c >= RANET_CONFIG && c <= RANET_KEY;
		plain |= c == 'c';
		switch (c) {
		case 'c':
		case RANET_CONFIG:
			o->source.config = optarg;
			break;
		case RANET_REGISTRY:
			o->source.ranet_registry = optarg;
			break;
		case RANET_KEY:
			o->source.ranet_key = optarg;
			break;
		case CHECK:
			o->check = true;
			break;
		case VERSION:
			o->version = true;
			break;
		case 'h':
			o->help = true;
			break;
		default:
			fputs(usage_text, stderr);
			return -EINVAL;
		}
	}
	if (ranet && plain)
		o->source.ranet_registry = NULL; /* refused below */
	return options_check(o, ranet, argc - optind);
}

static void print_lines(const struct conf_errors *e)
{
	if (e->text.n)
		(void)!fwrite(e->text.p, 1, e->text.n, stderr);
}

/* For the engine's reloads. */
static int load_again(void *ctx, const struct config **ret_config,
	const struct registry **ret_registry, struct buf *warnings, struct buf *errors)
{
	struct conf_errors e = {0}, w = {0};
	const struct options *o = ctx;
	struct conf_loaded l = {0};
	uint8_t key[ED25519_PUBLIC];
	int r = conf_load(&files, &o->source, &l, &e, &w);

	buf_add(warnings, w.text.p, w.text.n);
	buf_add(errors, e.text.p, e.text.n);
	conf_errors_free(&e);
	conf_errors_free(&w);
	if (r < 0)
		return r;
	ed25519_public(l.key, key);
	if (memcmp(key, o->public_key, sizeof(key)) != 0)
		buf_printf(warnings,
			"%s: holds another key than at the start; it is used from the next start "
			"on\n",
			l.config->node.key);
	*ret_config = l.config;
	*ret_registry = l.registry;
	l.config = NULL;
	l.registry = NULL;
	conf_loaded_free(&l);
	return 0;
}

/* Starts and runs with what was loaded; config and registry get owned. */
static int run(struct options *o, struct conf_loaded *l, struct buf *warnings)
{
	struct crypto_backend *crypto = NULL;
	struct engine_config c = {.net = os_net_find(NULL),
		.key = l->key,
		.config = l->config,
		.registry = l->registry,
		.version = WEFT_VERSION,
		.load = load_again,
		.load_ctx = o,
		.runner = o->runner,
		.watch = l->config->registry,
		.sandbox = true,
		.log = os_log_open((enum os_level)l->config->log)};
	struct buf error = {0};
	struct engine *e = NULL;
	int r;

	if (!c.net) {
		fputs("weftd: WEFT_OS names no back end: it is linux or portable\n", stderr);
		return -EINVAL;
	}
	ed25519_public(l->key, o->public_key);
	r = os_protect_memory();
	if (r < 0)
		os_log_printf(&c.log, OS_WARNING, "core dumps cannot be switched off: %s",
			strerror(-r));
	r = backend_choose(l->config->plane.crypto, &crypto, warnings, &error);
	if (r == 0) {
		c.crypto = crypto;
		c.warnings = buf_view(warnings);
		l->config = NULL;
		l->registry = NULL;
		r = engine_new(&c, &e, &error);
	}
	if (r < 0) {
		while (error.n && error.p[error.n - 1] == '\n')
			error.n--;
		fprintf(stderr, "weftd: %.*s\n", (int)error.n, (const char *)error.p);
	} else {
		r = engine_run(e);
	}
	engine_free(e);
	crypto_backend_free(crypto);
	buf_free(&error);
	return r;
}

int main(int argc, char **argv)
{
	struct conf_errors errors = {0}, warnings = {0};
	struct options o = {0};
	struct conf_loaded l = {0};
	struct os_log log;
	int r;

	if (options_parse(argc, argv, &o) < 0)
		return EXIT_USAGE;
	if (o.version) {
		puts("weftd " WEFT_VERSION);
		return EXIT_DONE;
	}
	if (o.help) {
		fputs(usage_text, stdout);
		return EXIT_DONE;
	}
	/* The helper is forked before there is a key in memory. */
	r = o.check ? 0 : os_runner_new(&o.runner);
	if (r < 0) {
		fprintf(stderr, "weftd: cannot fork: %s\n", strerror(-r));
		return EXIT_REFUSED;
	}
	r = conf_load(&files, &o.source, &l, &errors, &warnings);
	if (r < 0) {
		print_lines(&errors);
		if (errors.text.n == 0)
			fputs("weftd: out of memory\n", stderr);
	} else if (o.check) {
		print_lines(&warnings);
	} else {
		r = run(&o, &l, &warnings.text);
	}
	conf_loaded_free(&l);
	conf_errors_free(&errors);
	conf_errors_free(&warnings);
	log = os_log_open(OS_INFO);
	os_runner_free(o.runner, &log);
	return r < 0 ? EXIT_REFUSED : EXIT_DONE;
}
