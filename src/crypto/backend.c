/* The choice of the library that seals and opens packets, and the proof that it does it right. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

struct crypto_backend {
	enum crypto_backend_id id;
	struct mb *mb;
	char text[128];
};

int crypto_backend_new(enum crypto_backend_id id, struct crypto_backend **ret)
{
	struct crypto_backend *b;
	int err = 0;

	if (id < 0 || id >= CRYPTO_BACKEND_COUNT)
		return -EINVAL;
	b = w_calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->id = id;
	if (id == CRYPTO_IPSEC_MB)
		err = mb_new(&b->mb);
	if (err < 0) {
		w_free(b);
		return err;
	}
	if (b->mb)
		snprintf(b->text, sizeof(b->text), "Intel IPsec-MB %s for AES-GCM, %s",
			mb_version(b->mb), crypto_version());
	else
		snprintf(b->text, sizeof(b->text), "%s", crypto_version());
	*ret = b;
	return 0;
}

void crypto_backend_free(struct crypto_backend *b)
{
	if (!b)
		return;
	mb_free(b->mb);
	w_free(b);
}

enum crypto_backend_id crypto_backend_id_of(const struct crypto_backend *b)
{
	return b->id;
}

const char *crypto_backend_text(const struct crypto_backend *b)
{
	return b->text;
}

int crypto_backend_key(const struct crypto_backend *b, enum aead_id id, struct view key,
	struct aead_key *ret)
{
	return b->mb ? mb_key(b->mb, id, key, ret) : -ENOENT;
}
