/* Where two configurations differ, told by the keys at the top of the file: they are compared as
 * they print, so that a default that is written out makes no difference. */
#include <errno.h>
#include "conf/config_priv.h"

/* One key at the top of a printed configuration, with everything below it. */
struct section {
	struct view key, whole;
};

static bool begins_section(const uint8_t *line)
{
	return *line != ' ' && *line != '\n';
}

/* The next section; false at the end. A printed configuration ends with a line's end. */
static bool section_next(struct cur *c, struct section *ret)
{
	struct cur at = *c;
	const uint8_t *colon = c->n ? memchr(c->p, ':', c->n) : NULL;

	if (!colon)
		return false;
	ret->key = view_of(c->p, (size_t)(colon - c->p));
	do {
		const uint8_t *end = memchr(at.p, '\n', at.n);

		cur_skip(&at, end ? (size_t)(end - at.p) + 1 : at.n);
	} while (at.n && !begins_section(at.p));
	ret->whole = cur_take(c, c->n - at.n);
	return true;
}

static bool section_find(struct view text, struct view key, struct section *ret)
{
	struct cur c = cur_view(text);

	while (section_next(&c, ret))
		if (view_equal(ret->key, key))
			return true;
	return false;
}

/* A line for each section of a that b has otherwise, or, when `missing`, not at all. */
static void tell(struct view a, struct view b, bool missing, const char *what, struct buf *out)
{
	struct cur c = cur_view(a);
	struct section mine, other;

	while (section_next(&c, &mine)) {
		bool found = section_find(b, mine.key, &other);

		if (missing ? !found : !found || !view_equal(mine.whole, other.whole))
			buf_printf(out, "%.*s: %s\n", (int)mine.key.n, (const char *)mine.key.p,
				what);
	}
}

int config_diff(const struct config *a, const struct config *b, const char *what, struct buf *out)
{
	struct buf one = {0}, two = {0};
	int err = config_print(a, &one);

	if (err == 0)
		err = config_print(b, &two);
	if (err == 0) {
		tell(buf_view(&two), buf_view(&one), false, what, out);
		tell(buf_view(&one), buf_view(&two), true, what, out);
		err = out->failed ? -ENOMEM : 0;
	}
	buf_free_secret(&one);
	buf_free_secret(&two);
	return err;
}
