/* Inbound SAs by SPI: open addressing with linear probing, at most half full, so that a look-up is
 * one or two loads. Removal closes the gap: there are no tombstones. The receiver chooses its SPIs,
 * nobody outside can make them collide. */
#include "esp/priv.h"

#include <errno.h>
#include "base/mem.h"

enum { TABLE_CAPACITY_MAX = 1 << 24 };

struct entry {
	uint32_t spi; /* 0: free (RFC 4303 2.1: SPI 0 is never sent) */
	struct tunnel_sa *sa;
};

struct esp_table {
	uint32_t capacity, used;
	uint32_t mask; /* entries - 1 */
	struct entry entry[];
};

int esp_table_new(uint32_t capacity, struct esp_table **ret)
{
	struct esp_table *t;
	uint32_t n = 2;

	if (capacity == 0 || capacity > TABLE_CAPACITY_MAX)
		return -EINVAL;
	while (n < 2 * capacity)
		n *= 2;
	t = w_calloc(1, sizeof(*t) + n * sizeof(t->entry[0]));
	if (!t)
		return -ENOMEM;
	t->capacity = capacity;
	t->mask = n - 1;
	*ret = t;
	return 0;
}

void esp_table_free(struct esp_table *t)
{
	w_free(t);
}

/* Fibonacci hashing: the high half of the product is well mixed. */
static uint32_t home(const struct esp_table *t, uint32_t spi)
{
	return (uint32_t)(spi * UINT64_C(0x9e3779b97f4a7c15) >> 32) & t->mask;
}

/* The entry of spi, or the free one where it would go. */
static uint32_t probe(const struct esp_table *t, uint32_t spi)
{
	uint32_t i = home(t, spi);

	while (t->entry[i].spi != 0 && t->entry[i].spi != spi)
		i = (i + 1) & t->mask;
	return i;
}

int esp_table_add(void *table, struct tunnel_sa *sa)
{
	struct esp_table *t = table;
	uint32_t spi = esp_sa_spi(sa), i = probe(t, spi);

	if (!sa->inbound)
		return -EINVAL;
	if (t->entry[i].spi == spi)
		return -EEXIST;
	if (t->used == t->capacity)
		return -ENOSPC;
	t->entry[i] = (struct entry){.spi = spi, .sa = sa};
	t->used++;
	return 0;
}

void esp_table_remove(void *table, struct tunnel_sa *sa)
{
	struct esp_table *t = table;
	uint32_t hole = probe(t, esp_sa_spi(sa));

	if (t->entry[hole].sa != sa)
		return;
	/* An entry behind the hole moves into it unless its home lies after the hole. */
	for (uint32_t i = (hole + 1) & t->mask; t->entry[i].spi != 0; i = (i + 1) & t->mask) {
		uint32_t from_home = (i - home(t, t->entry[i].spi)) & t->mask;

		if (from_home >= ((i - hole) & t->mask)) {
			t->entry[hole] = t->entry[i];
			hole = i;
		}
	}
	t->entry[hole] = (struct entry){0};
	t->used--;
}

void esp_demux(void *table, struct tunnel_open *op)
{
	const struct esp_table *t = table;
	struct cur c = cur_of(op->data, op->len);
	uint32_t spi = cur_u32(&c);

	cur_skip(&c, ESP_HEADER - sizeof(spi));
	op->sa = NULL;
	if (c.bad) {
		op->drop = DROP_RUNT;
		return;
	}
	op->sa = spi ? t->entry[probe(t, spi)].sa : NULL;
	op->drop = op->sa ? DROP_NONE : DROP_UNKNOWN_SPI;
}
