/* A registry: refused with lines that say why, or taken, its broken entries left out and named;
 * what stands is whole. */
#include <errno.h>
#include <string.h>
#include "conf/conf.h"
#include "fuzz.h"

static void check_node(const struct registry_node *n)
{
	FUZZ_ASSERT(n->organization && n->organization[0] && n->name && n->name[0]);
	FUZZ_ASSERT(strlen(n->organization) <= 255 && strlen(n->name) <= 255);
	for (size_t i = 0; i < n->endpoint_count; i++) {
		const struct registry_endpoint *e = &n->endpoint[i];

		FUZZ_ASSERT(e->serial && e->serial[0] && e->port);
		FUZZ_ASSERT(e->family == IP4 || e->family == IP6);
		for (size_t k = 0; k < i; k++)
			FUZZ_ASSERT(strcmp(n->endpoint[k].serial, e->serial) != 0);
	}
	for (size_t i = 0; i < n->allow_count; i++)
		FUZZ_ASSERT(n->allow[i].len <= ipaddr_bits(&n->allow[i].addr));
	FUZZ_ASSERT(!n->has_srv6 || (n->srv6.addr.family == IP6 && n->srv6.len <= 112));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_errors errors = {0};
	struct registry *r = NULL;
	int err = registry_parse(view_of(data, size), "f", &r, &errors);

	FUZZ_ASSERT(err == 0 || err == -EINVAL);
	FUZZ_ASSERT(err == 0 || errors.count > 0);
	FUZZ_ASSERT((errors.count > 0) == (errors.text.n > 0));
	for (size_t i = 0; r && i < r->node_count; i++) {
		check_node(&r->node[i]);
		for (size_t k = 0; k < i; k++)
			FUZZ_ASSERT(strcmp(r->node[k].organization, r->node[i].organization) != 0 ||
				strcmp(r->node[k].name, r->node[i].name) != 0);
	}
	registry_free(r);
	conf_errors_free(&errors);
	return 0;
}
