/* The key exchange methods of IKEv2 behind one pair of calls: Diffie-Hellman over X25519 (RFC
 * 8031), the NIST curves (RFC 5903) and MODP-2048 (RFC 3526), and ML-KEM (FIPS 203, draft-ietf-
 * ipsecme-ikev2-mlkem). Here are the table and the checks that all share. */
#include "crypto/crypto.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/priv.h"

struct kex {
	const struct kex_method *method;
	EVP_PKEY *key; /* freeing it zeroes the private part */
};

static const struct kex_method methods[KEX_COUNT] = {
	[KEX_X25519] = {{"X25519", 31, 32, 32, 32, false}, "X25519", NULL, kex_x25519_generate,
		kex_raw_peer},
	[KEX_ECP256] = {{"ECP-256", 19, 64, 64, 32, false}, "EC", "P-256", kex_ecp_generate,
		kex_ecp_peer},
	[KEX_ECP384] = {{"ECP-384", 20, 96, 96, 48, false}, "EC", "P-384", kex_ecp_generate,
		kex_ecp_peer},
	[KEX_ECP521] = {{"ECP-521", 21, 132, 132, 66, false}, "EC", "P-521", kex_ecp_generate,
		kex_ecp_peer},
	[KEX_MODP2048] = {{"MODP-2048", 14, 256, 256, 256, false}, "DH", "modp_2048",
		kex_modp_generate, kex_modp_peer},
	[KEX_MLKEM512] = {{"ML-KEM-512", 35, 800, 768, 32, true}, "ML-KEM-512", NULL,
		kex_mlkem_generate, kex_raw_peer},
	[KEX_MLKEM768] = {{"ML-KEM-768", 36, 1184, 1088, 32, true}, "ML-KEM-768", NULL,
		kex_mlkem_generate, kex_raw_peer},
	[KEX_MLKEM1024] = {{"ML-KEM-1024", 37, 1568, 1568, 32, true}, "ML-KEM-1024", NULL,
		kex_mlkem_generate, kex_raw_peer},
};

const struct kex_info *kex_info(enum kex_id id)
{
	return id > KEX_NONE && id < KEX_COUNT ? &methods[id].info : NULL;
}

enum kex_id kex_by_ike(uint16_t transform_id)
{
	for (int id = KEX_NONE + 1; id < KEX_COUNT; id++)
		if (methods[id].info.ike == transform_id)
			return (enum kex_id)id;
	return KEX_NONE;
}

int kex_raw_peer(const struct kex_method *m, struct view public_key, EVP_PKEY **ret)
{
	/* for ML-KEM this has the modulus check of FIPS 203 7.2 */
	EVP_PKEY *peer = EVP_PKEY_new_raw_public_key_ex(NULL, m->type, NULL, public_key.p,
		public_key.n);

	if (!peer)
		return -EBADMSG;
	*ret = peer;
	return 0;
}

int kex_offer(enum kex_id id, const struct rng *rng, uint8_t *offer, struct kex **ret)
{
	struct kex *k;
	int err;

	if (!kex_info(id))
		return -EINVAL;
	crypto_ready();
	k = w_calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->method = &methods[id];
	err = k->method->generate(k->method, rng, offer, &k->key);
	if (err < 0) {
		kex_free(k);
		return err;
	}
	*ret = k;
	return 0;
}

int kex_answer(enum kex_id id, const struct rng *rng, struct view offer, uint8_t *answer,
	uint8_t *secret)
{
	const struct kex_method *m;
	uint8_t own[KEX_PUBLIC_MAX];
	EVP_PKEY *peer = NULL, *key = NULL;
	int err;

	if (!kex_info(id))
		return -EINVAL;
	m = &methods[id];
	if (offer.n != m->info.offer_len)
		return -EBADMSG;
	crypto_ready();
	err = m->peer(m, offer, &peer);
	if (err < 0)
		return err;
	if (m->info.is_kem) {
		err = kex_mlkem_encapsulate(m, rng, peer, own, secret);
	} else {
		err = m->generate(m, rng, own, &key);
		if (err == 0)
			err = kex_dh_agree(m, key, peer, secret);
	}
	if (err == 0)
		memcpy(answer, own, m->info.answer_len);
	EVP_PKEY_free(key);
	EVP_PKEY_free(peer);
	return err;
}

int kex_finish(struct kex *k, struct view answer, uint8_t *secret)
{
	const struct kex_method *m = k->method;
	EVP_PKEY *peer = NULL;
	int err;

	if (answer.n != m->info.answer_len) /* for ML-KEM: FIPS 203 7.3 */
		return -EBADMSG;
	if (m->info.is_kem)
		return kex_mlkem_decapsulate(m, k->key, answer, secret);
	err = m->peer(m, answer, &peer);
	if (err == 0)
		err = kex_dh_agree(m, k->key, peer, secret);
	EVP_PKEY_free(peer);
	return err;
}

void kex_free(struct kex *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->key);
	w_free(k);
}
