/* A seeded generator (xoshiro256** of Blackman and Vigna, public domain) and bounded numbers. */
#include "base/rng.h"

#include <string.h>

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static uint64_t seeded_next(struct rng_seeded *g)
{
	uint64_t *s = g->s;
	const uint64_t result = rotl(s[1] * 5, 7) * 9;
	const uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

static int seeded_fill(void *ctx, void *p, size_t n)
{
	uint8_t *out = p;

	while (n) {
		uint64_t x = seeded_next(ctx);
		size_t k = n < sizeof(x) ? n : sizeof(x);

		memcpy(out, &x, k);
		out += k;
		n -= k;
	}
	return 0;
}

struct rng rng_seeded_init(struct rng_seeded *s, uint64_t seed)
{
	/* splitmix64 spreads the seed over the state */
	for (int i = 0; i < 4; i++) {
		uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		s->s[i] = z ^ (z >> 31);
	}
	return (struct rng){.fill = seeded_fill, .ctx = s};
}

int rng_below(const struct rng *r, uint64_t bound, uint64_t *ret)
{
	const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
	uint64_t x;

	do {
		int err = rng_fill(r, &x, sizeof(x));

		if (err < 0)
			return err;
	} while (x >= limit);
	*ret = x % bound;
	return 0;
}
