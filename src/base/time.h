/* Time as a type: microseconds of a clock that runs through suspend (CLOCK_BOOTTIME in os/,
 * virtual in simulations). Never the wall clock. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct {
	int64_t us;
} wtime;

#define WTIME_NEVER ((wtime){INT64_MAX})
#define W_MS        INT64_C(1000)
#define W_SEC       INT64_C(1000000)

/* t + us, saturating; NEVER stays NEVER. */
static inline wtime wtime_add(wtime t, int64_t us)
{
	if (t.us == INT64_MAX || (us > 0 && t.us > INT64_MAX - us))
		return WTIME_NEVER;
	return (wtime){t.us + us};
}

/* a - b in microseconds; both must be real times. */
static inline int64_t wtime_diff(wtime a, wtime b)
{
	return a.us - b.us;
}

static inline bool wtime_before(wtime a, wtime b)
{
	return a.us < b.us;
}

/* True when deadline t has come at now. */
static inline bool wtime_due(wtime t, wtime now)
{
	return t.us <= now.us;
}

static inline wtime wtime_min(wtime a, wtime b)
{
	return a.us < b.us ? a : b;
}
