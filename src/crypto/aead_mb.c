/* AES-GCM (RFC 4106) by Intel IPsec-MB, one buffer a call: the functions are pure over key and
 * context, so that any thread may call them. Not here: the job and burst interfaces, whose manager
 * is one thread's, and which saved little for GCM. */
#include <errno.h>
#include <intel-ipsec-mb.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

enum { KEY_ALIGN = 64, AES128 = 16 };

struct mb {
	IMB_MGR *manager;
};

struct mb_key {
	aes_gcm_enc_dec_t encrypt, decrypt;
	struct gcm_key_data *data; /* in memory, aligned */
	uint8_t nonce[AEAD_NONCE]; /* salt, then the packet's IV */
	uint8_t memory[sizeof(struct gcm_key_data) + KEY_ALIGN];
};

int mb_new(struct mb **ret)
{
	const uint64_t need = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
	struct mb *m = w_calloc(1, sizeof(*m));
	int err = -ENOMEM;

	if (!m)
		return err;
	m->manager = alloc_mb_mgr(0);
	if (!m->manager)
		goto err_free;
	err = -ENOTSUP;
	if ((m->manager->features & need) != need)
		goto err_free;
	init_mb_mgr_auto(m->manager, NULL);
	err = -EIO;
	if (imb_get_errno(m->manager) != 0)
		goto err_free;
	*ret = m;
	return 0;

err_free:
	mb_free(m);
	return err;
}

void mb_free(struct mb *m)
{
	if (m && m->manager)
		free_mb_mgr(m->manager);
	w_free(m);
}

const char *mb_version(const struct mb *m)
{
	(void)m;
	return imb_get_version_str();
}

static void key_free(void *state)
{
	w_free_secret(state, sizeof(struct mb_key));
}

static int mb_seal(void *state, const struct aead_op *op)
{
	struct mb_key *k = state;
	struct gcm_context_data scratch;

	memcpy(k->nonce + AEAD_SALT, op->iv, AEAD_IV);
	k->encrypt(k->data, &scratch, op->text, op->text, op->text_len, k->nonce, op->aad.p,
		op->aad.n, op->icv, AEAD_ICV);
	return 0;
}

static int mb_open(void *state, const struct aead_op *op)
{
	struct mb_key *k = state;
	struct gcm_context_data scratch;
	uint8_t icv[AEAD_ICV];

	memcpy(k->nonce + AEAD_SALT, op->iv, AEAD_IV);
	k->decrypt(k->data, &scratch, op->text, op->text, op->text_len, k->nonce, op->aad.p,
		op->aad.n, icv, AEAD_ICV);
	return w_equal_secret(icv, op->icv, AEAD_ICV) ? 0 : -EBADMSG;
}

int mb_key(const struct mb *m, enum aead_id id, struct view key, struct aead_key *ret)
{
	static const struct aead_method method = {mb_seal, mb_open, key_free};
	struct mb_key *k;

	if (id != AEAD_AES128_GCM16 && id != AEAD_AES256_GCM16)
		return -ENOENT;
	k = w_calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->data = (struct gcm_key_data *)(((uintptr_t)k->memory + KEY_ALIGN - 1) &
		~(uintptr_t)(KEY_ALIGN - 1));
	memcpy(k->nonce, key.p + key.n - AEAD_SALT, AEAD_SALT);
	if (key.n == AES128 + AEAD_SALT) {
		IMB_AES128_GCM_PRE(m->manager, key.p, k->data);
		k->encrypt = m->manager->gcm128_enc;
		k->decrypt = m->manager->gcm128_dec;
	} else {
		IMB_AES256_GCM_PRE(m->manager, key.p, k->data);
		k->encrypt = m->manager->gcm256_enc;
		k->decrypt = m->manager->gcm256_dec;
	}
	*ret = (struct aead_key){.method = &method, .state = k};
	return 0;
}
