/* When to tell senders of a standing queue: see aqm.h. */
#include "plane/aqm.h"

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
		bool again = a->count > 2 && wtime_diff(now, a->next) < 8 * AQM_INTERVAL_US;

		a->count = again ? a->count - 2 : 1;
		a->marking = true;
	} else if (!wtime_due(a->next, now)) {
		return false;
	} else if (a->count < AQM_COUNT_MAX) {
		a->count++;
	}
	a->next = wtime_add(now, AQM_INTERVAL_US * 16 / root(256 * a->count));
	return true;
}
