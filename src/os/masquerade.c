/* The rules of an exit as nft(8) reads them: one table of the family inet for both protocols, made
 * anew in one transaction, so that there is never half of it. Nothing of others is named in it.
 * Written in the helper process, which takes names and prefixes for it, never rules. */
#include <string.h>
#include "base/addr.h"
#include "os/nft.h"
#include "os/runner_priv.h"
#include "wire/kernel.h"

enum { PRIORITY_SRCNAT = 100, FIXED_RULES = 3 };

static const char name_bytes[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

bool masquerade_table(const char *tun, struct buf *ret)
{
	size_t n = strlen(tun);

	if (n == 0 || n >= KERNEL_NAME || strspn(tun, name_bytes) != n)
		return false;
	buf_add_str(ret, "weft_exit_");
	for (; *tun; tun++)
		buf_add(ret, *tun == '-' ? "_" : tun, 1); /* no letter of a table's name */
	return true;
}

size_t os_masquerade_rules(size_t keeps)
{
	return FIXED_RULES + keeps;
}

/* The next string of a message; NULL: there is none. */
static const char *next_string(struct cur *c)
{
	const uint8_t *end = c->n ? memchr(c->p, 0, c->n) : NULL;

	return end ? (const char *)cur_take(c, (size_t)(end - c->p) + 1).p : NULL;
}

static const char *write_chain(const char *tun, struct cur *c, struct buf *out)
{
	buf_printf(out,
		"\tchain postrouting {\n\t\ttype nat hook postrouting priority %d; policy accept;\n"
		"\t\tiifname != \"%s\" return\n\t\toifname \"%s\" return\n",
		PRIORITY_SRCNAT, tun, tun);
	for (const char *s; (s = next_string(c));) {
		char text[PREFIX_TEXT];
		struct prefix p;

		if (prefix_parse(s, &p) < 0)
			return "a message is not whole";
		buf_printf(out, "\t\t%s daddr %s return\n", p.addr.family == IP4 ? "ip" : "ip6",
			prefix_format(&p, text));
	}
	buf_add_str(out, "\t\tmasquerade\n\t}\n");
	return NULL;
}

const char *masquerade_rules(struct view message, bool on, struct buf *out)
{
	struct cur c = cur_of(message.p, message.n);
	const char *tun = next_string(&c), *netns = next_string(&c), *wrong = NULL;
	struct buf table = {0};

	if (!tun || !netns)
		return "a message is not whole";
	if (!masquerade_table(tun, &table)) {
		buf_free(&table);
		return "the TUN's name has characters that rules cannot have";
	}
	buf_add(&table, "", 1);
	if (table.failed)
		return "out of memory";
	buf_printf(out, "table inet %s\ndelete table inet %s\n", (char *)table.p, (char *)table.p);
	if (on) {
		buf_printf(out, "table inet %s {\n", (char *)table.p);
		wrong = write_chain(tun, &c, out);
		buf_add_str(out, "}\n");
	}
	buf_free(&table);
	return out->failed ? "out of memory" : wrong;
}
