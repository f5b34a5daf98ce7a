/* For functions that are worth making for more than the least processor: W_WIDE in front of a
 * definition has the compiler make it for each of them, and the loader choose. Thread sanitizer
 * cannot start with such functions, and clang names them as other files do not call them. */
#pragma once
#include <limits.h> /* says whose libc it is */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
	!defined(__SANITIZE_THREAD__)
#define W_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define W_WIDE
#endif
