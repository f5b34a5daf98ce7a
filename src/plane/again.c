/* Who asked in vain lately. A flood comes from sources that are made up anew for each message; who
 * asks twice is there. The filter forgets by generations, and takes no memory before the first
 * message is refused. */
#include "plane/plane_priv.h"

#include <string.h>

#define GENERATION_US (2 * W_SEC)

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static void turn(struct again *a, wtime now)
{
	if (a->since_us && now.us - a->since_us < GENERATION_US)
		return;
	if (!a->since_us || now.us - a->since_us >= 2 * GENERATION_US)
		memset(a->bit[a->present], 0, sizeof(a->bit[0]));
	a->present ^= 1;
	memset(a->bit[a->present], 0, sizeof(a->bit[0]));
	a->since_us = now.us;
}

bool again_refused(struct again *a, const struct endpoint *from, uint64_t spi, wtime now)
{
	uint64_t h = mix(spi, from->port);
	bool was[2] = {true, true};

	turn(a, now);
	h = mix(mix(h, get_u64(from->ip.b)), get_u64(from->ip.b + 8));
	for (unsigned int i = 0; i < 2; i++, h >>= 32) {
		uint64_t bit = UINT64_C(1) << (h & 63);
		size_t word = (h >> 6) % AGAIN_WORDS;

		was[0] &= !!(a->bit[0][word] & bit);
		was[1] &= !!(a->bit[1][word] & bit);
		a->bit[a->present][word] |= bit;
	}
	return was[0] || was[1];
}
