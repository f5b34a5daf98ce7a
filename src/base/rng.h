/* Randomness as an argument: the operating system's in a daemon, a seeded generator in tests. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct rng {
	/* Fills n bytes; 0, or a negative errno when no randomness can be had. */
	int (*fill)(void *ctx, void *p, size_t n);
	void *ctx; /* borrowed */
};

/* A deterministic generator for tests and simulations (xoshiro256**; not for keys in use). */
struct rng_seeded {
	uint64_t s[4];
};

static inline int rng_fill(const struct rng *r, void *p, size_t n)
{
	return r->fill(r->ctx, p, n);
}

/* A number in 0 .. bound-1 (bound > 0) in *ret; 0 or a negative errno. */
int rng_below(const struct rng *r, uint64_t bound, uint64_t *ret);
/* Seeds state s and returns an rng that reads from it (s is borrowed, and must live on). */
struct rng rng_seeded_init(struct rng_seeded *s, uint64_t seed);
