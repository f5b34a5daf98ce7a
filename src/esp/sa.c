/* SAs: making, freeing, sequence numbers. RFC 4303 3.3.3. */
#include "esp/priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

#define SOFT_DEFAULT     (UINT64_C(3) << 30) /* 0.75 * 2^32 */
#define SOFT_DEFAULT_ESN (UINT64_C(1) << 62)

enum { IV_KEY = 36, KEYS_MAX = 128 };

/* The context that makes the IVs of a suite whose IVs must be unpredictable (RFC 3602 3: AES-CBC).
 * Its key comes from the SA's own keys by prf+, so that it is known to the two ends alone, and is
 * used for nothing else. See seal.c for the IVs. */
static int make_iv_context(const struct esp_sa_config *c, const struct aead_info *info,
	struct aead **ret)
{
	static const char label[] = "weft ESP IV";
	uint8_t keys[KEYS_MAX], iv_key[IV_KEY];
	size_t n = (size_t)info->key_len + info->auth_key_len;
	int err;

	if (n > sizeof(keys))
		return -EINVAL;
	memcpy(keys, c->key, info->key_len);
	if (info->auth_key_len)
		memcpy(keys + info->key_len, c->auth, info->auth_key_len);
	err = prf_plus(PRF_HMAC_SHA2_256, view_of(keys, n), view_of(label, sizeof(label) - 1),
		iv_key, sizeof(iv_key));
	if (err == 0)
		err = aead_new(c->crypto, AEAD_AES256_GCM16, view_of(iv_key, sizeof(iv_key)),
			(struct view){0}, AEAD_SEALS, ret);
	w_zeroize(keys, sizeof(keys));
	w_zeroize(iv_key, sizeof(iv_key));
	return err;
}

static void set_sizes(struct esp_sa *s, const struct aead_info *info)
{
	s->iv_len = info->iv_len;
	s->icv_len = info->icv_len;
	s->is_aead = info->is_aead;
	s->align = info->block > ESP_ALIGN ? info->block : ESP_ALIGN;
	s->sa.headroom = (uint16_t)(ESP_HEADER + info->iv_len);
	s->sa.tailroom = (uint16_t)(s->align - 1 + ESP_TRAILER + info->icv_len);
}

static bool valid(const struct esp_sa_config *c, const struct aead_info *info)
{
	if (!info || info->iv_len > ESP_IV_MAX || info->icv_len > ESP_ICV_MAX)
		return false;
	if (c->spi == 0 || !c->key || (info->auth_key_len && !c->auth))
		return false;
	return c->esn || c->first_seq <= UINT32_MAX;
}

static int make_lane(const struct esp_sa_config *c, const struct aead_info *info,
	struct esp_lane *l)
{
	int err = aead_new(c->crypto, c->aead, view_of(c->key, info->key_len),
		view_of(c->auth, info->auth_key_len), c->inbound ? AEAD_OPENS : AEAD_SEALS,
		&l->aead);

	if (err == 0 && !c->inbound && !info->counter_iv)
		err = make_iv_context(c, info, &l->iv);
	return err;
}

static size_t sa_size(uint8_t lanes)
{
	return sizeof(struct esp_sa) + lanes * sizeof(struct esp_lane);
}

int esp_sa_new(const struct esp_sa_config *c, struct tunnel_sa **ret)
{
	const struct aead_info *info = aead_info(c->aead);
	uint8_t lanes = c->lanes ? c->lanes : 1;
	struct esp_sa *s;
	int err;

	if (!valid(c, info))
		return -EINVAL;
	s = w_calloc(1, sa_size(lanes));
	if (!s)
		return -ENOMEM;
	s->lanes = lanes;
	set_sizes(s, info);
	s->spi = c->spi;
	s->esn = c->esn;
	s->sa.slot = c->slot;
	s->sa.child = c->child;
	s->sa.inbound = c->inbound;
	s->last = c->first_seq ? c->first_seq - 1 : 0;
	s->soft_limit = c->soft_limit ? c->soft_limit : c->esn ? SOFT_DEFAULT_ESN : SOFT_DEFAULT;
	s->sa.highest = c->inbound ? 0 : s->last;
	err = c->inbound ? replay_new(c->window, &s->replay) : 0;
	for (uint8_t i = 0; err == 0 && i < lanes; i++)
		err = make_lane(c, info, &s->lane[i]);
	if (err < 0) {
		esp_sa_free(&s->sa);
		return err;
	}
	*ret = &s->sa;
	return 0;
}

void esp_sa_free(struct tunnel_sa *sa)
{
	struct esp_sa *s = esp_sa_of(sa);

	if (!s)
		return;
	for (uint8_t i = 0; i < s->lanes; i++) {
		aead_free(s->lane[i].aead);
		aead_free(s->lane[i].iv);
	}
	replay_free(s->replay);
	w_free_secret(s, sa_size(s->lanes));
}

uint32_t esp_sa_spi(const struct tunnel_sa *sa)
{
	return esp_sa_of_const(sa)->spi;
}

/* RFC 4303 3.3.3: a number is never used twice under one key; without ESN the last is 2^32 - 1. */
enum tunnel_limit esp_reserve(struct tunnel_sa *sa, uint32_t n, uint64_t *ret_first)
{
	struct esp_sa *s = esp_sa_of(sa);
	uint64_t max = s->esn ? UINT64_MAX : UINT32_MAX;

	if (n > max - s->last)
		return TUNNEL_HARD;
	*ret_first = s->last + 1;
	s->last += n;
	__atomic_store_n(&sa->packets, sa->packets + n, __ATOMIC_RELAXED);
	__atomic_store_n(&sa->highest, s->last, __ATOMIC_RELAXED);
	return s->last >= s->soft_limit ? TUNNEL_SOFT : TUNNEL_OK;
}

const struct tunnel_ops *esp_ops(void)
{
	static const struct tunnel_ops ops = {
		.add = esp_table_add,
		.remove = esp_table_remove,
		.demux = esp_demux,
		.sealed_len = esp_sealed_len,
		.inner_max = esp_inner_max,
		.reserve = esp_reserve,
		.seal_batch = esp_seal_batch,
		.check = esp_check,
		.open_batch = esp_open_batch,
		.accept = esp_accept,
	};

	return &ops;
}
