/* The whole engine, started and stopped: what fails leaves nothing behind, what stops takes its
 * kernel state back. In a network namespace of the test's own. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/mem.h"
#include "engine/engine.h"
#include "os/clock.h"
#include "os/control.h"

enum { SKIP = 77, TRIES = 100, TEXT = 4096, TIMEOUT_MS = 5000, WAIT_MS = 20 };

static const char config_text[] =
	"node: {organization: acme, name: one, key: /dev/null}\n"
	"registry: /dev/null\n"
	"endpoints: [{serial: \"0\", family: ip4, port: 13000}, "
	"{serial: \"1\", family: ip6, port: 13000}]\n"
	"tun: {name: weft-test0, addresses: [10.66.0.1/32, \"fd00:1::1/128\"]}\n"
	"static_routes: [{prefix: 10.67.0.0/16, node: two}, {prefix: 0.0.0.0/0, node: two}]\n"
	"control: {socket: %s}\n"
	"log: error\n";

struct fixture {
	struct ed25519_key *key;
	char socket[64];
	struct engine_config config;
};

static const struct config *parse_config(const struct fixture *f)
{
	struct conf_errors errors = {0};
	struct config *c = NULL;
	char text[TEXT];
	int n = snprintf(text, sizeof(text), config_text, f->socket);

	if (config_parse(view_of(text, (size_t)n), "test", &c, &errors) < 0)
		fail_msg("%.*s", (int)errors.text.n, (char *)errors.text.p);
	conf_errors_free(&errors);
	return c;
}

static const struct registry *parse_registry(const struct fixture *f)
{
	static const char form[] =
		"[{\"public_key\": \"%s\", \"organization\": \"acme\", "
		"\"nodes\": [{\"common_name\": \"one\", \"endpoints\": [], \"remarks\": {}}, "
		"{\"common_name\": \"two\", \"endpoints\": [{\"serial_number\": \"0\", "
		"\"address_family\": \"ip4\", \"address\": \"192.0.2.1\", \"port\": 13000}], "
		"\"remarks\": {}}]}]";
	struct conf_errors errors = {0};
	struct registry *r = NULL;
	uint8_t public_key[ED25519_PUBLIC];
	char *pem, text[TEXT], line[TEXT] = "";
	size_t at = 0;
	int n;

	ed25519_public(f->key, public_key);
	assert_int_equal(ed25519_public_to_pem(public_key, &pem), 0);
	for (const char *p = pem; *p; p++) {
		if (*p == '\n') {
			line[at++] = '\\';
			line[at++] = 'n';
		} else {
			line[at++] = *p;
		}
	}
	w_free(pem);
	n = snprintf(text, sizeof(text), form, line);
	assert_int_equal(registry_parse(view_of(text, (size_t)n), "test", &r, &errors), 0);
	assert_int_equal(errors.count, 0);
	conf_errors_free(&errors);
	return r;
}

static int load(void *ctx, const struct config **ret_config, const struct registry **ret_registry,
	struct buf *warnings, struct buf *errors)
{
	(void)warnings;
	(void)errors;
	*ret_config = parse_config(ctx);
	*ret_registry = parse_registry(ctx);
	return 0;
}

static void fixture_init(struct fixture *f, const struct os_net *net)
{
	struct rng rng = os_rng();

	memset(f, 0, sizeof(*f));
	assert_int_equal(ed25519_generate(&rng, &f->key), 0);
	snprintf(f->socket, sizeof(f->socket), "/tmp/weft-test-%d.sock", (int)getpid());
	f->config = (struct engine_config){.net = net,
		.key = f->key,
		.version = "test",
		.load = load,
		.load_ctx = f};
	f->config.log.level = OS_ERROR;
}

static int start(struct fixture *f, struct engine **ret, struct buf *error)
{
	f->config.config = parse_config(f);
	f->config.registry = parse_registry(f);
	return engine_new(&f->config, ret, error);
}

static struct buf kernel_now(void)
{
	struct buf b = {0};
	char chunk[TEXT];
	size_t n;
	FILE *f = popen("ip -4 rule; ip -6 rule; ip -4 route show table all; "
			"ip -6 route show table all; ip -o link; ip -o addr",
		"re");

	assert_non_null(f);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		buf_add(&b, chunk, n);
	assert_int_equal(pclose(f), 0);
	buf_add(&b, "", 1);
	return b;
}

static void assert_kernel(struct buf *before)
{
	struct buf after = kernel_now();

	assert_string_equal((char *)before->p, (char *)after.p);
	buf_free(before);
	buf_free(&after);
}

static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Starts that fail at one step of the ladder: one clear line, nothing half done, no descriptor
 * lost. */
static void fail_often(struct fixture *f, const char *want)
{
	struct buf before = kernel_now();
	size_t fds = 0;

	for (int i = 0; i < TRIES; i++) {
		struct buf error = {0};
		struct engine *e = NULL;

		assert_true(start(f, &e, &error) < 0);
		if (i == 0)
			fds = count_fds(); /* libuv keeps a pipe for signals */
		assert_null(e);
		buf_add(&error, "", 1);
		if (!strstr((char *)error.p, want))
			fail_msg("%s", (char *)error.p);
		buf_free(&error);
	}
	assert_int_equal(count_fds(), fds);
	assert_kernel(&before);
}

static void test_port_in_use(void **state)
{
	struct os_udp_config c = {.family = IP6, .port = 13000};
	struct os_udp *busy;
	struct buf error = {0};
	struct fixture f;

	(void)state;
	fixture_init(&f, os_net_linux());
	assert_int_equal(f.config.net->udp_open(&c, &busy, &error), 0);
	fail_often(&f, "the port is in use by");
	f.config.net->udp_close(busy);
	ed25519_free(f.key);
}

static void test_tun_in_use(void **state)
{
	struct os_tun_config c = {.name = "weft-test0"};
	struct os_tun *busy;
	struct buf error = {0};
	struct fixture f;

	(void)state;
	fixture_init(&f, os_net_portable());
	assert_int_equal(f.config.net->tun_open(&c, &busy, &error), 0);
	fail_often(&f, "the name is in use");
	f.config.net->tun_close(busy);
	ed25519_free(f.key);
}

static void test_no_control_folder(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, os_net_linux());
	strcpy(f.socket, "/nonexistent-weft/weft.sock");
	fail_often(&f, "its folder does not exist");
	ed25519_free(f.key);
}

/* ---- a whole life ---- */

/* Runs on threads other than the test's: what is wrong ends the process. */
static void must(bool right, const char *what)
{
	if (right)
		return;
	print_error("%s\n", what);
	abort();
}

static void ask(const struct fixture *f, const char *request, const char *want)
{
	struct buf reply = {0}, error = {0};

	must(os_control_call(f->socket, view_of(request, strlen(request)), TIMEOUT_MS, &reply,
		     &error) == 0,
		request);
	buf_add(&reply, "", 1);
	must(strstr((char *)reply.p, want), (char *)reply.p);
	buf_free(&reply);
}

/* What a user does meanwhile; the engine answers as soon as it runs. */
static void *user(void *ctx)
{
	const struct fixture *f = ctx;
	struct buf during;

	ask(f, "{\"command\": \"version\"}", "\"version\":\"test\"");
	ask(f, "{\"command\": \"drops\"}", "\"tx-error\":");
	ask(f, "{\"command\": \"reload\", \"dry_run\": true}", "\"changes\":[]");
	ask(f, "{\"command\": \"reload\"}", "\"changes\":[]");
	ask(f, "{\"command\": \"log\", \"argument\": \"error\"}", "{\"schema\":1}");
	ask(f, "{\"command\": \"log\", \"argument\": \"loud\"}", "is no log level");
	ask(f, "no JSON", "error");
	ask(f, "{\"command\": \"status\"}", "\"name\":\"one\"");
	during = kernel_now();
	must(strstr((char *)during.p, "10.67.0.0/16 dev weft-test0 table 252"), (char *)during.p);
	must(strstr((char *)during.p, "default dev weft-test0 table default"), (char *)during.p);
	buf_free(&during);
	must(kill(getpid(), SIGTERM) == 0, "kill");
	return NULL;
}

/* Runs an engine of each back end while `meanwhile` is at it, and until that stops it: then nothing
 * is left behind. */
static void live(void *(*meanwhile)(void *))
{
	for (int i = 0; i < 2; i++) {
		struct buf before = kernel_now(), error = {0};
		size_t fds = count_fds();
		struct engine *e = NULL;
		struct fixture f;
		pthread_t thread;

		fixture_init(&f, i ? os_net_portable() : os_net_linux());
		if (start(&f, &e, &error) < 0)
			fail_msg("%.*s", (int)error.n, (char *)error.p);
		assert_int_equal(pthread_create(&thread, NULL, meanwhile, &f), 0);
		assert_int_equal(engine_run(e), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		engine_free(e);
		assert_int_equal(access(f.socket, F_OK), -1);
		assert_int_equal(count_fds(), fds);
		assert_kernel(&before);
		ed25519_free(f.key);
	}
}

static void test_life(void **state)
{
	(void)state;
	live(user);
}

static bool kernel_shows(const char *text)
{
	struct buf b = kernel_now();
	bool found = strstr((char *)b.p, text);

	buf_free(&b);
	return found;
}

static void wait_kernel(const char *text)
{
	for (int i = 0; i < TIMEOUT_MS / WAIT_MS && !kernel_shows(text); i++)
		(void)usleep(WAIT_MS * 1000);
	must(kernel_shows(text), text);
}

/* The interface is taken away under the engine, and given another name: each time it is back with
 * all that belongs to it. At last it is taken away as the engine stops. */
static void *trouble_tun(void *ctx)
{
	static const char *const what[] = {"ip link del weft-test0",
		"ip link set weft-test0 down; ip link set weft-test0 name weft-test9",
		"ip link del weft-test0"};

	for (size_t i = 0; i < sizeof(what) / sizeof(*what); i++) {
		ask(ctx, "{\"command\": \"version\"}", "test");
		must(system(what[i]) == 0, what[i]);
		wait_kernel("10.67.0.0/16 dev weft-test0 table 252");
		wait_kernel("fd00:1::1");
		must(!kernel_shows("weft-test9"), "the name is back");
	}
	must(system("ip link del weft-test0") == 0, "the last");
	must(kill(getpid(), SIGTERM) == 0, "kill");
	return NULL;
}

static void test_tun_taken_away(void **state)
{
	(void)state;
	live(trouble_tun);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_port_in_use),
		cmocka_unit_test(test_tun_in_use),
		cmocka_unit_test(test_no_control_folder),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_tun_taken_away),
	};

	if (unshare(CLONE_NEWNET) < 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return SKIP;
	if (system("ip link set lo up") != 0)
		return SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
