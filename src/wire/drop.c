/* Names of the drop reasons. */
#include "wire/drop.h"

const char *drop_name(enum drop_reason r)
{
	static const char *const names[DROP_COUNT] = {
#define X(id, name) [DROP_##id] = name,
		WIRE_DROPS(X)
#undef X
	};

	return r >= 0 && r < DROP_COUNT ? names[r] : "?";
}
