/* A token bucket: so many a second, so many at once. */
#include "plane/plane_priv.h"

enum { TOKEN = 1000000 };

bool bucket_take(struct bucket *b, wtime now)
{
	int64_t passed = now.us - b->last_us;

	if (passed > 0) {
		if (passed > W_SEC)
			passed = W_SEC;
		b->level += passed * b->rate;
		if (b->level > (int64_t)b->burst * TOKEN)
			b->level = (int64_t)b->burst * TOKEN;
		b->last_us = now.us;
	}
	if (b->level < TOKEN)
		return false;
	b->level -= TOKEN;
	return true;
}
