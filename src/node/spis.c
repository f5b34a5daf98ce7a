/* The table of IKE SPIs: rows of a few places, chosen by bits of the SPI, which is random (it is
 * ours). A reader sees each place whole, before or after a change, and needs no more than that. */
#include "node/spis.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include "base/mem.h"

enum { ROWS = 2048, PLACES = 8 }; /* a thousand links fill an eighth */

struct node_spis {
	_Atomic uint64_t place[ROWS][PLACES]; /* 0: free */
};

int node_spis_new(struct node_spis **ret)
{
	struct node_spis *s = w_calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*ret = s;
	return 0;
}

void node_spis_free(struct node_spis *s)
{
	w_free(s);
}

/* Puts `to` where `from` is. */
static void replace(struct node_spis *s, uint64_t row, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < PLACES; i++) {
		_Atomic uint64_t *p = &s->place[row % ROWS][i];

		if (atomic_load_explicit(p, memory_order_relaxed) != from)
			continue;
		atomic_store_explicit(p, to, memory_order_relaxed);
		return;
	}
}

void node_spis_set(void *spis, uint64_t own_spi, bool known)
{
	replace(spis, own_spi, known ? 0 : own_spi, known ? own_spi : 0);
}

static bool has(const struct node_spis *s, uint64_t spi)
{
	for (size_t i = 0; spi && i < PLACES; i++)
		if (atomic_load_explicit(&s->place[spi % ROWS][i], memory_order_relaxed) == spi)
			return true;
	return false;
}

bool node_spis_know(const void *spis, uint64_t spi_i, uint64_t spi_r)
{
	return has(spis, spi_i) || has(spis, spi_r);
}
