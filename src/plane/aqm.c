/* When to tell senders of a standing queue: see aqm.h. */
#include "plane/aqm.h"

/* A queue that stands again so soon after the last mark is the same one; and the square root of a
 * count is taken in sixteenths. */
enum { AGAIN_INTERVALS = 8, ROOT_ONE = 16 };

/* The integer square root, rounded down; x is small. */
static uint32_t root(uint32_t x)
{
	uint32_t r = 0;

	for (uint32_t bit = 1U << 15; bit; bit >>= 1)
		if ((uint64_t)(r + bit) * (r + bit) <= x)
			r += bit;
	return r;
}

void aqm_empty(struct aqm *a, wtime now)
{
	a->empty = now;
	a->marking = false;
}

bool aqm_due(struct aqm *a, uint32_t len, wtime now)
{
	if (!a->on || len < AQM_BULK || wtime_diff(now, a->empty) < AQM_TARGET_US + AQM_INTERVAL_US)
		return false;
	if (!a->marking) {
		/* It stood a moment ago: go on near the rate that was needed then (RFC 8289 5.3).
		 */
		bool again = a->count > 2 &&
			wtime_diff(now, a->next) < AGAIN_INTERVALS * AQM_INTERVAL_US;

		a->count = again ? a->count - 2 : 1;
		a->marking = true;
	} else if (!wtime_due(a->next, now)) {
		return false;
	} else if (a->count < AQM_COUNT_MAX) {
		a->count++;
	}
	a->next = wtime_add(now, AQM_INTERVAL_US * ROOT_ONE / root(ROOT_ONE * ROOT_ONE * a->count));
	return true;
}
