/* The clock, randomness and memory that the operating system gives. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/rng.h"
#include "base/time.h"

/* Now, by CLOCK_BOOTTIME: it runs through suspend and is never set. */
wtime os_now(void);
/* Seconds since 1970 by the wall clock, which may jump: for what must differ between two lives of
 * the process, never for intervals. */
uint64_t os_wall_clock_s(void);
/* Randomness of the kernel (getrandom). */
struct rng os_rng(void);

/* Maps `size` bytes of zeroed memory for packet buffers: on huge pages where the kernel has them,
 * touched already (no page fault later), left out of core dumps. lock: also kept from swap, when
 * the limit allows it. Borrow it until os_pool_unmap(). NULL: no memory. */
void *os_pool_map(size_t size, bool lock);
/* Gives a pool back; NULL is fine. size as mapped. */
void os_pool_unmap(void *pool, size_t size);
/* Keeps the process's memory, which has keys in it, out of core dumps and debuggers of others. 0 or
 * a negative errno. */
int os_protect_memory(void);
