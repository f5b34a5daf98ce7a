/* From samples of the round trip to the one that costs are made of.
 *
 * Smoothing is RFC 9616 4.1 with its alpha of 0.836. Two rules are added. The step rule: three
 * samples in a row far off on one side, where none of the (up to) twelve before has been, replace
 * the smoothed value, so that a real change is believed after three hellos. The noise rule: the
 * value that costs use stays while the smoothed one is no farther from it than noise explains, so
 * that two paths whose round trips swing about one mean keep their order, and a steady link causes
 * no updates. */
#include "babel/babel_priv.h"

#include <string.h>

enum {
	PER_MILLE = 1000,
	KEEP = 836, /* alpha, per mille */
	STEP_MIN_US = 2000,
	NOISE_MIN_US = 250, /* one unit of the default map */
	NOISE_MEMORY = 16,  /* samples */
	OUTLIER_TIMES = 4,
	RUN_MAX = 64, /* samples of the mean */
};

/* The three newest samples against the smoothed value and those before them. */
static bool is_step(const struct babel_rtt *r)
{
	int64_t off = r->smoothed / 2 > STEP_MIN_US ? r->smoothed / 2 : STEP_MIN_US;
	bool above = r->sample[0] > r->smoothed;
	int64_t low = INT64_MAX, high = INT64_MIN;

	if (r->count <= BABEL_RTT_STEP)
		return false;
	for (int i = BABEL_RTT_STEP; i < r->count; i++) {
		low = r->sample[i] < low ? r->sample[i] : low;
		high = r->sample[i] > high ? r->sample[i] : high;
	}
	for (int i = 0; i < BABEL_RTT_STEP; i++) {
		int64_t x = r->sample[i];

		if (above ? x - r->smoothed <= off || x <= high
			  : r->smoothed - x <= off || x >= low)
			return false;
	}
	return true;
}

static int64_t distance(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

/* Mean difference of neighbouring samples: a slow change hardly adds to it, one spike little. */
static void learn_noise(struct babel_rtt *r)
{
	int64_t diff = distance(r->sample[0], r->sample[1]);
	int64_t most = r->deviation * OUTLIER_TIMES + STEP_MIN_US;

	if (r->seen > BABEL_RTT_STEP && diff > most)
		diff = most;
	r->deviation += (diff - r->deviation) / (r->seen - 1);
}

static void restart(struct babel_rtt *r, int64_t us, wtime at)
{
	*r = (struct babel_rtt){.valid = true,
		.smoothed = us,
		.used = us,
		.mean = us,
		.at = at,
		.sample = {us},
		.count = 1,
		.seen = 1,
		.run = 1};
}

/* What the costs use: corrected when the smoothed value is farther off than noise explains, and at
 * some points after that, when the mean since then is known better. */
static void use(struct babel_rtt *r)
{
	/* The smoothed value's own deviation is a quarter of the difference of neighbouring
	 * samples: this is more than four times that. */
	int64_t noise = r->deviation + r->deviation / 5;
	bool refine = r->run < RUN_MAX && (r->run & (r->run + 1)) == 0;

	noise = noise > NOISE_MIN_US ? noise : NOISE_MIN_US;
	if (distance(r->smoothed, r->mean) > noise) { /* it has changed */
		r->mean = r->used = r->smoothed;
		r->run = 1;
	} else if (refine || distance(r->smoothed, r->used) > noise) {
		r->used = r->mean;
	}
}

bool babel_rtt_sample(struct babel_rtt *r, int64_t us, wtime at)
{
	if (!r->valid) {
		restart(r, us, at);
		return true;
	}
	memmove(r->sample + 1, r->sample, sizeof(r->sample) - sizeof(r->sample[0]));
	r->sample[0] = us;
	if (r->count < BABEL_RTT_PAST + BABEL_RTT_STEP)
		r->count++;
	r->at = at;
	if (is_step(r)) { /* what was before says nothing about what is now */
		restart(r, us, at);
		return true;
	}
	r->smoothed = (r->smoothed * KEEP + us * (PER_MILLE - KEEP)) / PER_MILLE;
	r->run += r->run < RUN_MAX;
	r->mean += (us - r->mean) / r->run;
	r->seen += r->seen < NOISE_MEMORY;
	learn_noise(r);
	use(r);
	return false;
}
