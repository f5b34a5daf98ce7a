/* Forwarding table: a tree of destinations a family, and a tree of sources in each destination that
 * has such (RFC 9079 section 4). */
#include "fib/fib.h"

#include <errno.h>
#include "base/mem.h"
#include "fib/trie_priv.h"

struct fib {
	struct trie_node *v4, *v6;
	size_t count;
};

static struct trie_node **root_of(struct fib *f, uint8_t family)
{
	return family == IP4 ? &f->v4 : &f->v6;
}

static const struct trie_node *tree_of(const struct fib *f, uint8_t family)
{
	return family == IP4 ? f->v4 : f->v6;
}

int fib_new(struct fib **ret)
{
	struct fib *f = w_calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*ret = f;
	return 0;
}

int fib_copy(const struct fib *f, struct fib **ret)
{
	struct fib *g;
	int err = fib_new(&g);

	if (err < 0)
		return err;
	g->v4 = trie_share(f->v4);
	g->v6 = trie_share(f->v6);
	g->count = f->count;
	*ret = g;
	return 0;
}

void fib_free(struct fib *f)
{
	if (!f)
		return;
	trie_free(f->v4);
	trie_free(f->v6);
	w_free(f);
}

size_t fib_count(const struct fib *f)
{
	return f->count;
}

static bool prefix_valid(const struct prefix *p)
{
	struct prefix clean = prefix_of(&p->addr, p->len);

	return p->len <= ipaddr_bits(&p->addr) && prefix_equal(&clean, p);
}

static bool entry_valid(const struct fib_entry *e)
{
	uint8_t family = e->destination.addr.family;

	if ((family != IP4 && family != IP6) || !prefix_valid(&e->destination))
		return false;
	return e->source.addr.family == IP_NONE || e->source.len == 0 ||
		(e->source.addr.family == family && prefix_valid(&e->source));
}

static bool has_source(const struct fib_entry *e)
{
	return e->source.addr.family != IP_NONE && e->source.len > 0;
}

/* Takes a destination's leaf away when nothing is left in it. */
static void leaf_put(struct trie_node **root, const struct trie_key *key, unsigned int len,
	const struct trie_leaf *leaf)
{
	if (!leaf->any && !leaf->sources)
		trie_drop(root, key, len);
}

int fib_set(struct fib *f, const struct fib_entry *e)
{
	struct trie_key d = trie_key_of(&e->destination.addr), s = trie_key_of(&e->source.addr);
	struct trie_leaf *leaf, *at;
	struct trie_node **root;

	if (!entry_valid(e))
		return -EINVAL;
	root = root_of(f, e->destination.addr.family);
	leaf = at = trie_get(root, &d, e->destination.len);
	if (!leaf)
		return -ENOMEM;
	if (has_source(e))
		at = trie_get(&leaf->sources, &s, e->source.len);
	if (!at) {
		leaf_put(root, &d, e->destination.len, leaf);
		return -ENOMEM;
	}
	f->count += !at->any;
	at->any = true;
	at->value = e->value;
	return 0;
}

int fib_remove(struct fib *f, const struct fib_entry *e)
{
	struct trie_key d = trie_key_of(&e->destination.addr), s = trie_key_of(&e->source.addr);
	struct trie_leaf *leaf, *at;
	struct trie_node **root;
	uint32_t value;

	if (!entry_valid(e))
		return -EINVAL;
	if (!fib_find(f, &e->destination, &e->source, &value))
		return -ENOENT;
	root = root_of(f, e->destination.addr.family);
	leaf = at = trie_get(root, &d, e->destination.len);
	if (leaf && has_source(e))
		at = trie_get(&leaf->sources, &s, e->source.len);
	if (!leaf || !at)
		return -ENOMEM;
	at->any = false;
	if (has_source(e))
		trie_drop(&leaf->sources, &s, e->source.len);
	leaf_put(root, &d, e->destination.len, leaf);
	f->count--;
	return 0;
}

int fib_build(const struct fib_entry *entry, size_t n, struct fib **ret)
{
	struct fib *f;
	int err = fib_new(&f);

	if (err < 0)
		return err;
	for (size_t i = 0; !err && i < n; i++) {
		err = fib_set(f, &entry[i]);
		if (!err && f->count != i + 1)
			err = -EEXIST;
	}
	if (err < 0)
		fib_free(f);
	else
		*ret = f;
	return err;
}

bool fib_find(const struct fib *f, const struct prefix *destination, const struct prefix *source,
	uint32_t *ret_value)
{
	struct trie_key d = trie_key_of(&destination->addr), s = trie_key_of(&source->addr);
	const struct trie_leaf *leaf = trie_find(tree_of(f, destination->addr.family), &d,
		destination->len);

	if (leaf && source->addr.family != IP_NONE && source->len)
		leaf = trie_find(leaf->sources, &s, source->len);
	if (!leaf || !leaf->any)
		return false;
	*ret_value = leaf->value;
	return true;
}

bool fib_lookup(const struct fib *f, const struct ipaddr *destination, const struct ipaddr *source,
	uint32_t *ret_value)
{
	const struct trie_leaf *leaf, *from;
	struct trie_key key = trie_key_of(destination);
	struct trie_walk w;

	if (destination->family == IP_NONE || destination->family != source->family)
		return false;
	trie_look(tree_of(f, destination->family), &key, &w);
	while ((leaf = trie_next(&w))) {
		from = NULL;
		if (leaf->sources) {
			key = trie_key_of(source);
			from = trie_longest(leaf->sources, &key);
		}
		if (!from && leaf->any)
			from = leaf;
		if (from) {
			*ret_value = from->value;
			return true;
		}
	}
	return false;
}
