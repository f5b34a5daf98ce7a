/* IKE_INTERMEDIATE: the additional key exchanges of the initial exchanges. RFC 9242, RFC
 * 9370 2.2.2. Each message is taken into IntAuth under the keys that protect it; then SK_* move on.
 */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"

/* The new SK_* after exchange number hs->round. */
static int keys_move_on(struct ike_sa *sa, struct view shared)
{
	const struct ike_seed seed = {.ni = ike_nonce_view(&sa->hs->ni),
		.nr = ike_nonce_view(&sa->hs->nr),
		.spi_i = sa->spi_i,
		.spi_r = sa->spi_r};
	int err = ike_keys_update(&sa->keys, shared, &seed, NULL);

	if (err == 0)
		err = ike_sa_protect(sa);
	if (err == 0)
		sa->hs->round++;
	return err;
}

/* The peer's KE payload of this round. */
static bool round_ke(const struct ike_sa *sa, const struct ike_msg *m, struct ike_ke *ret)
{
	const struct ike_payload *p = ike_msg_find(m, IKE_PL_KE);

	if (!p || sa->hs->round >= sa->kex_count)
		return false;
	*ret = ike_ke_read(p->body);
	return ret->method == kex_info(sa->kex[sa->hs->round])->ike;
}

/* ---- Initiator ---- */
int ike_intermediate_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	enum kex_id id = sa->kex[sa->hs->round];
	uint8_t offer[KEX_PUBLIC_MAX];
	int err;

	(void)t;
	(void)now;
	kex_free(sa->hs->kex);
	sa->hs->kex = NULL;
	err = kex_offer(id, &sa->ike->config.rng, offer, &sa->hs->kex);
	if (err == 0)
		ike_build_ke(b, kex_info(id)->ike, view_of(offer, kex_info(id)->offer_len));
	return err;
}

void ike_intermediate_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	uint8_t secret[KEX_SECRET_MAX];
	struct ike_notify n;
	struct ike_ke ke;
	int err;

	(void)t;
	if (ike_msg_error(rx->m, &n)) {
		ike_conn_attempt_failed(sa, "peer refused an additional key exchange", rx->now);
		return;
	}
	err = ike_int_auth_add(&sa->hs->int_auth, &sa->keys, true, rx->whole);
	if (err == 0)
		err = round_ke(sa, rx->m, &ke) ? kex_finish(sa->hs->kex, ke.data, secret) : -EPROTO;
	if (err == 0)
		err = keys_move_on(sa,
			view_of(secret, kex_info(sa->kex[sa->hs->round])->secret_len));
	w_zeroize(secret, sizeof(secret));
	if (err == 0)
		err = ike_handshake_next(sa);
	if (err < 0)
		ike_conn_attempt_failed(sa, "an additional key exchange went wrong", rx->now);
}

/* ---- Responder ---- */
static void after_failure(struct ike_sa *sa, wtime now)
{
	(void)now;
	sa->ike->stats.handshakes_failed++;
	ike_sa_kill(sa);
}

/* The reply went out under the old keys; what comes next uses the new ones. */
static void after_round(struct ike_sa *sa, wtime now)
{
	struct ike_handshake *hs = sa->hs;
	int err = keys_move_on(sa, view_of(hs->secret, kex_info(sa->kex[hs->round])->secret_len));

	w_zeroize(hs->secret, sizeof(hs->secret));
	if (err < 0)
		after_failure(sa, now);
}

void ike_intermediate_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	uint8_t answer[KEX_PUBLIC_MAX];
	const struct kex_info *info;
	struct ike_ke ke;
	int err = ike_int_auth_add(&sa->hs->int_auth, &sa->keys, false, rx->whole);

	if (err == 0 && !round_ke(sa, rx->m, &ke))
		err = -EPROTO;
	if (err == 0)
		err = kex_answer(sa->kex[sa->hs->round], &sa->ike->config.rng, ke.data, answer,
			sa->hs->secret);
	if (err < 0) {
		ike_drop_count(sa->ike, IKE_DROP_MALFORMED);
		ike_build_status(reply, IKE_N_INVALID_SYNTAX, (struct view){0});
		sa->after = after_failure;
		return;
	}
	info = kex_info(sa->kex[sa->hs->round]);
	ike_build_ke(reply, info->ike, view_of(answer, info->answer_len));
	sa->after = after_round;
}
