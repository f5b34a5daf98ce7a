/* A configuration, weft's and ranet's: refused with lines that say why, or taken; then it prints to
 * a text that reads back to one that prints the same. */
#include <errno.h>
#include <string.h>
#include "conf/conf.h"
#include "fuzz.h"

static void check_errors(const struct conf_errors *e)
{
	FUZZ_ASSERT(e->count > 0 && !e->text.failed);
	FUZZ_ASSERT(e->text.n && e->text.p[e->text.n - 1] == '\n');
	FUZZ_ASSERT(!memchr(e->text.p, 0, e->text.n));
	for (size_t i = 0; i < e->text.n; i++)
		FUZZ_ASSERT(e->text.p[i] >= 0x20 || e->text.p[i] == '\n');
}

static void check_config(const struct config *c)
{
	struct conf_errors errors = {0};
	struct buf once = {0}, twice = {0};
	struct config *again = NULL;

	FUZZ_ASSERT(config_print(c, &once) == 0);
	if (config_parse(buf_view(&once), "printed", &again, &errors) < 0) {
		fprintf(stderr, "%.*s%.*s", (int)once.n, (const char *)once.p, (int)errors.text.n,
			(const char *)errors.text.p);
		FUZZ_ASSERT(!"what was printed is refused");
	}
	FUZZ_ASSERT(config_print(again, &twice) == 0);
	FUZZ_ASSERT(once.n == twice.n && memcmp(once.p, twice.p, once.n) == 0);
	config_free(again);
	conf_errors_free(&errors);
	buf_free(&once);
	buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int ranet = 0; ranet < 2; ranet++) {
		struct view text = view_of(data, size);
		struct conf_errors errors = {0};
		struct config *c = NULL;
		int err = ranet ? config_parse_ranet(text, "f", "registry", "key", &c, &errors)
				: config_parse(text, "f", &c, &errors);

		FUZZ_ASSERT(err == 0 || err == -EINVAL);
		if (err < 0)
			check_errors(&errors);
		else
			check_config(c);
		config_free(c);
		conf_errors_free(&errors);
	}
	return 0;
}
