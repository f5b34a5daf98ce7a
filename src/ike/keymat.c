/* SKEYSEED, SK_*, child keys, IntAuth and the AUTH payload. RFC 7296 2.13-2.18, 5282, 9242, 9370,
 * 7427, 8420. */
#include "ike/keymat_priv.h"

#include <errno.h>
#include "base/mem.h"
#include "ike/codec_priv.h"

enum keymat_sizes {
	SPIS_LEN = 2 * IKE_SPI_LEN,
	SHARED_MAX = IKE_KEX_MAX, /* key exchanges that feed one SA */
	SEED_PARTS_MAX = SHARED_MAX + 2,
	/* prf+ of all SK_*: d, pi, pr; ai, ar, ei, er */
	SK_STREAM_MAX = 3 * PRF_MAX + 4 * IKE_KEY_MAX,
	CHILD_STREAM_MAX = 4 * IKE_KEY_MAX,
	MID_LEN = 4,
};

/* SEQUENCE { OID 1.3.101.112 }: Ed25519 (RFC 8420 A.1). */
static const uint8_t ed25519_algorithm[] = {0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70};

/* {SK_d | SK_ai | SK_ar | SK_ei | SK_er | SK_pi | SK_pr} = prf+(SKEYSEED, Ni | Nr | SPIi | SPIr)
 * (RFC 7296 2.14). */
static int keys_expand(struct ike_keys *k, const uint8_t *skeyseed, size_t skeyseed_len,
	const struct ike_seed *seed)
{
	const struct aead_info *a = aead_info(k->aead);
	const struct prf_info *p = prf_info(k->prf);
	uint8_t stream[SK_STREAM_MAX], spis[SPIS_LEN];
	struct buf all = {0};
	struct cur c;
	size_t n;
	int r;

	if (!a || !p)
		return -EINVAL;
	n = 3 * (size_t)p->len + 2 * ((size_t)a->auth_key_len + a->key_len);
	put_u64(spis, seed->spi_i);
	put_u64(spis + IKE_SPI_LEN, seed->spi_r);
	buf_add(&all, seed->ni.p, seed->ni.n);
	buf_add(&all, seed->nr.p, seed->nr.n);
	buf_add(&all, spis, sizeof(spis));
	r = all.failed
		? -ENOMEM
		: prf_plus(k->prf, view_of(skeyseed, skeyseed_len), buf_view(&all), stream, n);
	buf_free_secret(&all);
	if (!r) {
		c = cur_of(stream, n);
		cur_copy(&c, k->d, p->len);
		cur_copy(&c, k->ai, a->auth_key_len);
		cur_copy(&c, k->ar, a->auth_key_len);
		cur_copy(&c, k->ei, a->key_len);
		cur_copy(&c, k->er, a->key_len);
		cur_copy(&c, k->pi, p->len);
		cur_copy(&c, k->pr, p->len);
	}
	w_zeroize(stream, sizeof(stream));
	return r;
}

/* How SKEYSEED comes about: the PRF and key, and the data in order. */
struct skeyseed_rule {
	enum prf_id prf;
	struct view key;
	struct view part[SEED_PARTS_MAX];
	size_t n;
};

/* SKEYSEED by the rule, then all keys of k from it. */
static int keys_from_rule(struct ike_keys *k, const struct skeyseed_rule *rule,
	const struct ike_seed *seed, uint8_t *skeyseed)
{
	const struct prf_info *p = prf_info(rule->prf);
	struct ike_keys fresh = {.aead = k->aead, .prf = k->prf};
	uint8_t s[PRF_MAX] = {0};
	int r = p ? prf(rule->prf, rule->key, rule->part, rule->n, s) : -EINVAL;

	if (!r)
		r = keys_expand(&fresh, s, p->len, seed);
	if (!r && skeyseed)
		memcpy(skeyseed, s, sizeof(s));
	if (r) {
		w_zeroize(&fresh, sizeof(fresh));
		fresh = (struct ike_keys){.aead = k->aead, .prf = k->prf};
	}
	*k = fresh;
	w_zeroize(&fresh, sizeof(fresh));
	w_zeroize(s, sizeof(s));
	return r;
}

int ike_keys_init(struct ike_keys *keys, struct view shared, const struct ike_seed *seed,
	uint8_t *skeyseed)
{
	struct skeyseed_rule rule = {.prf = keys->prf, .part = {shared}, .n = 1};
	struct buf nonces = {0};
	int r = -ENOMEM;

	buf_add(&nonces, seed->ni.p, seed->ni.n);
	buf_add(&nonces, seed->nr.p, seed->nr.n);
	rule.key = buf_view(&nonces);
	if (!nonces.failed)
		r = keys_from_rule(keys, &rule, seed, skeyseed);
	buf_free(&nonces);
	return r;
}

int ike_keys_update(struct ike_keys *keys, struct view shared, const struct ike_seed *seed,
	uint8_t *skeyseed)
{
	const struct prf_info *p = prf_info(keys->prf);
	struct skeyseed_rule rule = {.prf = keys->prf,
		.part = {shared, seed->ni, seed->nr},
		.n = 3};
	uint8_t d[PRF_MAX];
	int r;

	memcpy(d, keys->d, sizeof(d));
	rule.key = view_of(d, p ? p->len : 0);
	r = keys_from_rule(keys, &rule, seed, skeyseed);
	w_zeroize(d, sizeof(d));
	return r;
}

/* SK(0) | Ni | Nr | SK(1) | ... SK(n) (RFC 9370 2.2.4); without exchanges Ni | Nr alone. */
static int seed_parts(const struct view *shared, size_t n, const struct ike_seed *seed,
	struct skeyseed_rule *ret)
{
	if (n > SHARED_MAX)
		return -EINVAL;
	ret->n = 0;
	if (n)
		ret->part[ret->n++] = shared[0];
	ret->part[ret->n++] = seed->ni;
	ret->part[ret->n++] = seed->nr;
	for (size_t i = 1; i < n; i++)
		ret->part[ret->n++] = shared[i];
	return 0;
}

int ike_keys_rekey(struct ike_keys *keys, const struct ike_keys *old, const struct view *shared,
	size_t n, const struct ike_seed *seed, uint8_t *skeyseed)
{
	const struct prf_info *p = prf_info(old->prf);
	struct skeyseed_rule rule = {.prf = old->prf};

	/* RFC 7296 2.18: an IKE rekey always has a key exchange; the PRF is the old SA's. */
	if (p && n > 0 && seed_parts(shared, n, seed, &rule) == 0)
		rule.key = view_of(old->d, p->len);
	else
		rule.prf = PRF_NONE; /* refused below */
	return keys_from_rule(keys, &rule, seed, skeyseed);
}

int ike_child_keymat(const struct ike_keys *keys, const struct view *shared, size_t n,
	const struct ike_seed *seed, bool initiator, struct ike_child_keys *ret)
{
	const struct aead_info *a = aead_info(ret->aead);
	const struct prf_info *p = prf_info(keys->prf);
	struct ike_child_keys out = {.aead = ret->aead};
	struct skeyseed_rule parts = {0};
	uint8_t stream[CHILD_STREAM_MAX];
	struct buf all = {0};
	struct cur c;
	size_t len;
	int r;

	if (!a || !p || seed_parts(shared, n, seed, &parts) < 0)
		return -EINVAL;
	len = 2 * ((size_t)a->key_len + a->auth_key_len);
	for (size_t i = 0; i < parts.n; i++)
		buf_add(&all, parts.part[i].p, parts.part[i].n);
	r = all.failed ? -ENOMEM
		       : prf_plus(keys->prf, view_of(keys->d, p->len), buf_view(&all), stream, len);
	buf_free_secret(&all);
	if (!r) {
		/* RFC 7296 2.17: first what the initiator sends under; encryption, then integrity.
		 */
		c = cur_of(stream, len);
		cur_copy(&c, initiator ? out.out_key : out.in_key, a->key_len);
		cur_copy(&c, initiator ? out.out_auth : out.in_auth, a->auth_key_len);
		cur_copy(&c, initiator ? out.in_key : out.out_key, a->key_len);
		cur_copy(&c, initiator ? out.in_auth : out.out_auth, a->auth_key_len);
		*ret = out;
	}
	w_zeroize(&out, sizeof(out));
	w_zeroize(stream, sizeof(stream));
	return r;
}

int ike_int_auth_add(struct ike_int_auth *a, const struct ike_keys *keys, bool response,
	struct view whole)
{
	const struct prf_info *p = prf_info(keys->prf);
	uint8_t *running = response ? a->r : a->i;
	bool *has = response ? &a->has_r : &a->has_i;
	uint8_t out[PRF_MAX] = {0};
	struct view part[2];
	int r;

	if (!p)
		return -EINVAL;
	part[0] = view_of(running, *has ? p->len : 0);
	part[1] = whole;
	r = prf(keys->prf, view_of(response ? keys->pr : keys->pi, p->len), part, 2, out);
	if (r)
		return r;
	memcpy(running, out, sizeof(out));
	*has = true;
	if (response)
		a->rounds++;
	return 0;
}

int ike_auth_octets(const struct ike_auth_input *in, struct buf *ret)
{
	const struct ike_keys *k = in->keys;
	const struct prf_info *p = prf_info(k->prf);
	uint8_t maced_id[PRF_MAX], mid[MID_LEN];
	int r;

	if (!p)
		return -EINVAL;
	r = prf(k->prf, view_of(in->responder ? k->pr : k->pi, p->len), &in->id_body, 1, maced_id);
	if (r)
		return r;
	buf_add(ret, in->message.p, in->message.n);
	buf_add(ret, in->nonce.p, in->nonce.n);
	buf_add(ret, maced_id, p->len);
	/* RFC 9242 3.3.2, and only when an IKE_INTERMEDIATE exchange took place */
	if (in->int_auth && in->int_auth->rounds) {
		put_u32(mid, in->auth_mid);
		buf_add(ret, in->int_auth->i, p->len);
		buf_add(ret, in->int_auth->r, p->len);
		buf_add(ret, mid, sizeof(mid));
	}
	return ret->failed ? -ENOMEM : 0;
}

int ike_auth_sign(const struct ike_auth_input *in, const struct ed25519_key *key,
	uint8_t ret[static IKE_AUTH_ED25519_LEN])
{
	uint8_t data[IKE_AUTH_ED25519_LEN] = {sizeof(ed25519_algorithm)};
	struct buf octets = {0};
	int r = ike_auth_octets(in, &octets);

	memcpy(data + 1, ed25519_algorithm, sizeof(ed25519_algorithm));
	if (!r)
		r = ed25519_sign(key, buf_view(&octets), data + 1 + sizeof(ed25519_algorithm));
	buf_free(&octets);
	if (!r)
		memcpy(ret, data, sizeof(data));
	return r;
}

int ike_auth_verify(const struct ike_auth_input *in,
	const uint8_t public_key[static ED25519_PUBLIC], struct view data)
{
	struct cur c = cur_view(data);
	struct view algorithm = cur_take(&c, cur_u8(&c));
	struct view signature = cur_rest(&c);
	struct buf octets = {0};
	int r;

	if (c.bad || algorithm.n == 0 || signature.n == 0)
		return -EINVAL;
	if (!view_equal(algorithm, view_of(ed25519_algorithm, sizeof(ed25519_algorithm))))
		return -EPROTONOSUPPORT;
	if (signature.n != ED25519_SIGNATURE)
		return -EBADMSG;
	r = ike_auth_octets(in, &octets);
	if (!r)
		r = ed25519_verify(public_key, buf_view(&octets), signature);
	buf_free(&octets);
	return r;
}
