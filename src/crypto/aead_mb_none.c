/* Where the build has no Intel IPsec-MB (another processor, or no library): it is not there. */
#include <errno.h>
#include "crypto/priv.h"

int mb_new(struct mb **ret)
{
	(void)ret;
	return -ENOENT;
}

void mb_free(struct mb *m)
{
	(void)m;
}

const char *mb_version(const struct mb *m)
{
	(void)m;
	return "";
}

int mb_key(const struct mb *m, enum aead_id id, struct view key, struct aead_key *ret)
{
	(void)m;
	(void)id;
	(void)key;
	(void)ret;
	return -ENOENT;
}
