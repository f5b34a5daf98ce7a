/* Names that a static libcrypto wants of a newer C library than this system's. Built only where
 * they are missing (see meson.build). */
#include <stdlib.h>

long __isoc23_strtol(const char *s, char **end, int base);

/* C23 only adds the prefix 0b to base 0 and 2, which libcrypto does not rely on. */
long __isoc23_strtol(const char *s, char **end, int base)
{
	return strtol(s, end, base);
}
