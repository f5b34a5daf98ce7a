/* Scenarios at random, many seeds of each, under the eyes of watch.c.
 *
 *	sim_chaos [NAME[=SEEDS]...]     WEFT_SEEDS=FIRST-LAST: these seeds instead
 *
 * Without names: a few seeds of each. A fault tells the line that runs it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "books.h"
#include "chaos.h"

enum { MIXED = CHAOS_ALL & ~(unsigned int)CHAOS_LIE };

#define SHORT_LIVES "ike: {lifetime: 50s, child_lifetime: 20s}\n"
#define HEAL_US     (120 * W_SEC)

/* Two nodes start into each other's attempts, at any distance, in a bad network. */
static void crossing(uint64_t seed)
{
	const struct chaos_options o = {.name = "crossing",
		.seed = seed,
		.nodes = 2,
		.loss = seed % 2 ? 0.2 : 0,
		.duplicate = 0.1,
		.delay_us = 60 * W_MS,
		.jitter_us = seed % 3 ? 0 : 30 * W_MS};
	struct chaos *c = chaos_new(&o);

	sim_start(c->s, 0);
	sim_run(c->s, (int64_t)chaos_below(c, 150 * W_MS));
	sim_start(c->s, 1);
	chaos_await_exact(c, 30 * W_SEC);
	if (seed % 4 == 0) {
		chaos_kill(c, 1);
		sim_run(c->s, (int64_t)chaos_below(c, 3 * W_SEC));
		sim_start(c->s, 1);
	}
	chaos_heal(c, 30 * W_SEC);
	(void)chaos_free(c);
}

/* Ten nodes, every pair of them, all at once. */
static void cold(uint64_t seed)
{
	const struct chaos_options o = {.name = "cold",
		.seed = seed,
		.nodes = 10,
		.loss = 0.1,
		.duplicate = 0.05,
		.delay_us = 40 * W_MS,
		.jitter_us = 20 * W_MS,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_await_exact(c, 60 * W_SEC);
	chaos_heal(c, 60 * W_SEC);
	(void)chaos_free(c);
}

/* Fifty rekeys at least, many of them from both ends at once, with messages lost and the link going
 * up and down. */
static void rekeys(uint64_t seed)
{
	const struct chaos_options o = {.name = "rekeys",
		.seed = seed,
		.nodes = 2,
		.yaml = SHORT_LIVES,
		.loss = 0.2,
		.duplicate = 0.1,
		.delay_us = 30 * W_MS,
		.jitter_us = 20 * W_MS,
		.start = true};
	struct chaos *c = chaos_new(&o);
	uint64_t before;

	chaos_await_exact(c, 30 * W_SEC);
	before = books()->contexts;
	/* a rekey makes four contexts, two an end */
	while (books()->contexts - before < 4 * 50)
		chaos_storm(c,
			CHAOS_REKEY | CHAOS_TRAFFIC | CHAOS_PATH |
				(seed % 2 ? CHAOS_CUT | CHAOS_MEND : 0),
			10, 2 * W_SEC);
	chaos_heal(c, HEAL_US);
	(void)chaos_free(c);
}

/* A lossy mesh whose nodes come and go. */
static void lossy(uint64_t seed)
{
	const struct chaos_options o = {.name = "lossy",
		.seed = seed,
		.nodes = 6,
		.loss = 0.2,
		.duplicate = 0.1,
		.delay_us = 50 * W_MS,
		.jitter_us = 30 * W_MS,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_storm(c, CHAOS_KILL | CHAOS_STOP | CHAOS_START | CHAOS_TRAFFIC | CHAOS_PATH, 40,
		3 * W_SEC);
	chaos_heal(c, HEAL_US);
	(void)chaos_free(c);
}

/* Two halves that lose each other, and find each other again. */
static void split(uint64_t seed)
{
	const struct chaos_options o = {.name = "split",
		.seed = seed,
		.nodes = 8,
		.degree = 4,
		.loss = 0.05,
		.delay_us = 30 * W_MS,
		.jitter_us = 10 * W_MS,
		.steer = seed % 2,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_await_exact(c, 30 * W_SEC);
	for (int round = 0; round < 2; round++) {
		chaos_event(c, CHAOS_PARTITION);
		chaos_storm(c, CHAOS_TRAFFIC, 5, 20 * W_SEC);
		chaos_heal(c, HEAL_US);
	}
	(void)chaos_free(c);
}

/* Forged datagrams all the time, and a peer that announces what it may not. */
static void liars(uint64_t seed)
{
	const struct chaos_options o = {.name = "liars",
		.seed = seed,
		.nodes = 5,
		.yaml = seed % 2 ? SHORT_LIVES : NULL,
		.loss = 0.05,
		.duplicate = 0.1,
		.delay_us = 20 * W_MS,
		.jitter_us = 20 * W_MS,
		.liar = true,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_storm(c, CHAOS_LIE | CHAOS_TRAFFIC, 10, 100 * W_MS);
	chaos_await_exact(c, HEAL_US);
	chaos_storm(c, CHAOS_LIE | CHAOS_TRAFFIC | CHAOS_REKEY, 40, 2 * W_SEC);
	chaos_storm(c, CHAOS_LIE | CHAOS_TRAFFIC | CHAOS_REKEY | CHAOS_KILL | CHAOS_START, 20,
		2 * W_SEC);
	chaos_heal(c, HEAL_US);
	(void)chaos_free(c);
}

/* Everything happens to a few nodes. */
static void storm(uint64_t seed)
{
	const struct chaos_options o = {.name = "storm",
		.seed = seed,
		.nodes = 3 + (unsigned int)(seed % 6),
		.degree = seed % 2 ? 0 : 3,
		.yaml = seed % 3 ? NULL : SHORT_LIVES,
		.loss = 0.2,
		.duplicate = 0.1,
		.delay_us = 80 * W_MS,
		.jitter_us = 40 * W_MS,
		.steer = seed % 4 < 2,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_storm(c, MIXED, 60, 3 * W_SEC);
	chaos_heal(c, HEAL_US);
	chaos_storm(c, CHAOS_ALL, 30, 3 * W_SEC);
	chaos_heal(c, HEAL_US);
	(void)chaos_free(c);
}

/* And to fifty. */
static void fifty(uint64_t seed)
{
	const struct chaos_options o = {.name = "fifty",
		.seed = seed,
		.nodes = 50,
		.degree = 5,
		.loss = 0.2,
		.duplicate = 0.05,
		.delay_us = 60 * W_MS,
		.jitter_us = 20 * W_MS,
		.steer = true,
		.start = true};
	struct chaos *c = chaos_new(&o);

	chaos_await_exact(c, 60 * W_SEC);
	chaos_storm(c, CHAOS_ALL, 80, 2 * W_SEC);
	chaos_heal(c, HEAL_US);
	(void)chaos_free(c);
}

static const struct scenario {
	const char *name;
	void (*run)(uint64_t seed);
	unsigned int seeds;
} scenarios[] = {
	{"crossing", crossing, 20},
	{"cold", cold, 1},
	{"rekeys", rekeys, 2},
	{"lossy", lossy, 2},
	{"split", split, 2},
	{"liars", liars, 2},
	{"storm", storm, 2},
	{"fifty", fifty, 1},
};

enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

static void run(const struct scenario *sc, uint64_t first, uint64_t last)
{
	for (uint64_t seed = first; seed <= last; seed++)
		sc->run(seed);
	printf("%s: seeds %" PRIu64 "-%" PRIu64 "\n", sc->name, first, last);
	(void)fflush(stdout);
}

static bool run_argument(const char *argument, uint64_t first, uint64_t last)
{
	size_t n = strcspn(argument, "=");

	for (unsigned int i = 0; i < SCENARIOS; i++)
		if (strlen(scenarios[i].name) == n && !strncmp(scenarios[i].name, argument, n)) {
			unsigned int seeds = scenarios[i].seeds;

			if (argument[n])
				seeds = (unsigned int)strtoul(argument + n + 1, NULL, 10);
			run(&scenarios[i], last ? first : 1, last ? last : seeds);
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	const char *seeds = getenv("WEFT_SEEDS");
	uint64_t first = 0, last = 0;
	char *end;

	if (seeds) {
		first = last = strtoull(seeds, &end, 10);
		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
	}
	for (int i = 1; i < argc; i++)
		if (!run_argument(argv[i], first, last)) {
			fprintf(stderr, "no scenario %s\n", argv[i]);
			return 2;
		}
	for (unsigned int i = 0; argc == 1 && i < SCENARIOS; i++)
		(void)run_argument(scenarios[i].name, first, last);
	return 0;
}
