/* IKE_SA_INIT: both sides. RFC 7296 1.2, 2.6 (cookies are in cookie.c), 2.7, 2.10, 2.14; RFC 7383
 * 2.3, RFC 7427 4, RFC 9242 3.1, RFC 6023. Errors in it are not authenticated. The responder keeps
 * nothing for a request that it refuses or asks a cookie of. */
#include "ike/sa_priv.h"

#include <errno.h>
#include <stdio.h>
#include "base/mem.h"

/* ---- Pieces ---- */
struct view ike_nonce_view(const struct ike_nonce *n)
{
	return view_of(n->b, n->n);
}

int ike_nonce_new(struct ike *ike, struct ike_nonce *ret)
{
	int err = rng_fill(&ike->config.rng, ret->b, IKE_NONCE_LEN);

	if (err == 0)
		ret->n = IKE_NONCE_LEN;
	return err;
}

bool ike_nonce_take(const struct ike_msg *m, struct ike_nonce *ret)
{
	const struct ike_payload *p = ike_msg_find(m, IKE_PL_NONCE);

	if (!p || p->body.n < IKE_NONCE_MIN || p->body.n > IKE_NONCE_MAX)
		return false;
	memcpy(ret->b, p->body.p, p->body.n);
	ret->n = p->body.n;
	return true;
}

int ike_buf_set(struct buf *b, struct view v)
{
	buf_free(b);
	buf_add(b, v.p, v.n);
	return b->failed ? -ENOMEM : 0;
}

int ike_offer_body(const struct ike_policy *policy, struct view spi, struct buf *ret)
{
	struct ike_build b;
	struct cur c;
	int err;

	ike_build_begin_inner(&b);
	ike_proposal_offer(&b, policy, spi);
	err = ike_build_finish(&b);
	if (err == 0) {
		c = cur_view(buf_view(&b.out));
		cur_skip(&c, IKE_PAYLOAD_HEADER_LEN);
		err = ike_buf_set(ret, cur_rest(&c));
	}
	ike_build_free(&b);
	return err;
}

bool ike_offer_has_group(struct view offered, uint16_t group)
{
	struct cur at = cur_view(offered);
	struct ike_proposal p;

	while (ike_proposal_next(&at, &p)) {
		struct cur c = cur_view(p.transforms);
		struct ike_transform t;

		while (ike_transform_next(&c, &t))
			if (t.type == IKE_T_KE && t.id == group)
				return true;
	}
	return false;
}

int ike_handshake_new(struct ike_handshake **ret)
{
	struct ike_handshake *hs = w_calloc(1, sizeof(*hs));

	if (!hs)
		return -ENOMEM;
	*ret = hs;
	return 0;
}

void ike_handshake_free(struct ike_handshake *hs)
{
	if (!hs)
		return;
	buf_free(&hs->init_req);
	buf_free(&hs->init_resp);
	buf_free(&hs->offered);
	buf_free(&hs->cookie);
	buf_free(&hs->offer);
	buf_free(&hs->child_offered);
	kex_free(hs->kex);
	w_free_secret(hs, sizeof(*hs));
}

static bool notify_has_identity_hash(const struct ike_msg *m)
{
	struct ike_notify n;
	struct cur c;

	if (!ike_msg_notify(m, IKE_N_SIGNATURE_HASH_ALGORITHMS, &n))
		return false;
	c = cur_view(n.data);
	while (c.n >= 2)
		if (cur_u16(&c) == IKE_HASH_IDENTITY)
			return true;
	return false;
}

/* What both ends announce (RFC 7427 4, RFC 8420 2; RFC 7383 2.3; RFC 9242 3.1). */
static void build_features(struct ike_build *b)
{
	static const uint8_t hash[] = {0, IKE_HASH_IDENTITY};

	ike_build_status(b, IKE_N_FRAGMENTATION_SUPPORTED, (struct view){0});
	ike_build_status(b, IKE_N_SIGNATURE_HASH_ALGORITHMS, view_of(hash, sizeof(hash)));
	ike_build_status(b, IKE_N_INTERMEDIATE_SUPPORTED, (struct view){0});
}

static void take_features(struct ike_sa *sa, const struct ike_msg *m)
{
	struct ike_notify n;

	sa->fragments = ike_msg_notify(m, IKE_N_FRAGMENTATION_SUPPORTED, &n);
	sa->hs->peer_intermediate = ike_msg_notify(m, IKE_N_INTERMEDIATE_SUPPORTED, &n);
	sa->hs->peer_identity_hash = notify_has_identity_hash(m);
}

static void take_choice(struct ike_sa *sa, const struct ike_choice *c)
{
	sa->keys.aead = c->aead;
	sa->keys.prf = c->prf;
	memcpy(sa->kex, c->kex, sizeof(sa->kex));
	sa->kex_count = c->kex_count;
	sa->hs->round = 1;
}

static int derive_keys(struct ike_sa *sa, struct view shared)
{
	const struct ike_seed seed = {.ni = ike_nonce_view(&sa->hs->ni),
		.nr = ike_nonce_view(&sa->hs->nr),
		.spi_i = sa->spi_i,
		.spi_r = sa->spi_r};
	int err = ike_keys_init(&sa->keys, shared, &seed, NULL);

	return err < 0 ? err : ike_sa_protect(sa);
}

int ike_handshake_next(struct ike_sa *sa)
{
	return ike_sa_queue(sa,
		sa->hs->round < sa->kex_count ? IKE_TASK_INTERMEDIATE : IKE_TASK_AUTH, 0);
}

/* ---- Initiator ---- */
static int offer_key_exchange(struct ike_sa *sa, enum kex_id group)
{
	struct ike_handshake *hs = sa->hs;
	uint8_t offer[KEX_PUBLIC_MAX];
	int err;

	kex_free(hs->kex);
	hs->kex = NULL;
	err = kex_offer(group, &sa->ike->config.rng, offer, &hs->kex);
	if (err < 0)
		return err;
	hs->group = group;
	return ike_buf_set(&hs->offer, view_of(offer, kex_info(group)->offer_len));
}

static struct ike_policy initiator_policy(const struct ike_handshake *hs)
{
	return (struct ike_policy){.use = IKE_USE_IKE,
		.post_quantum = hs->post_quantum,
		.additional_ok = true};
}

static int init_prepare(struct ike_sa *sa)
{
	struct ike_policy policy;
	int err = ike_handshake_new(&sa->hs);

	if (err < 0)
		return err;
	sa->hs->post_quantum = sa->conn->c.post_quantum;
	policy = initiator_policy(sa->hs);
	err = ike_nonce_new(sa->ike, &sa->hs->ni);
	if (err == 0)
		err = ike_offer_body(&policy, (struct view){0}, &sa->hs->offered);
	if (err == 0)
		err = offer_key_exchange(sa, ike_proposal_group(&policy));
	return err < 0 ? err : ike_sa_queue(sa, IKE_TASK_INIT, 0);
}

int ike_init_start(struct ike_conn *conn, wtime now)
{
	struct ike_sa *sa;
	uint64_t spi;
	int err = ike_sa_spi_new(conn->ike, &spi);

	if (err == 0)
		err = ike_sa_new(conn->ike, conn, spi, 0, true, &sa);
	if (err < 0)
		return err;
	sa->state = IKE_SA_CONNECTING;
	sa->local = conn->c.local;
	sa->remote = conn->c.remote;
	sa->started = sa->origin_started = now;
	sa->origin_ours = true;
	err = init_prepare(sa);
	if (err < 0) {
		ike_sa_kill(sa);
		return err;
	}
	conn->attempt = sa;
	ike_sa_run(sa, now);
	return 0;
}

int ike_init_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	struct ike_handshake *hs = sa->hs;
	const struct ike_datagram d = {.local = sa->local, .remote = sa->remote};

	(void)t;
	(void)now;
	if (hs->cookie.n)
		ike_build_status(b, IKE_N_COOKIE, buf_view(&hs->cookie));
	ike_build_opaque(b, IKE_PL_SA, 0, buf_view(&hs->offered));
	ike_build_ke(b, kex_info(hs->group)->ike, buf_view(&hs->offer));
	ike_build_nonce(b, ike_nonce_view(&hs->ni));
	build_features(b);
	return ike_natd_build(b, sa->spi_i, 0, &d);
}

/* The same request again, with a cookie or another group (RFC 7296 2.6.1): message ID 0. */
static void init_repeat(struct ike_sa *sa, wtime now)
{
	if (++sa->hs->init_answers > IKE_INIT_ANSWERS_MAX) {
		ike_conn_attempt_failed(sa, "peer keeps asking for another IKE_SA_INIT", now);
		return;
	}
	ike_sa_request_done(sa);
	sa->next_out = 0;
	if (ike_sa_queue(sa, IKE_TASK_INIT, 0) < 0)
		ike_conn_attempt_failed(sa, "out of memory", now);
}

static void init_other_group(struct ike_sa *sa, const struct ike_notify *n, wtime now)
{
	struct cur c = cur_view(n->data);
	uint16_t group = cur_u16(&c);
	enum kex_id id = kex_by_ike(group);

	if (c.bad || id == KEX_NONE || id == sa->hs->group ||
		!ike_offer_has_group(buf_view(&sa->hs->offered), group)) {
		ike_conn_attempt_failed(sa, "peer wants a key exchange that was not offered", now);
		return;
	}
	if (offer_key_exchange(sa, id) < 0)
		ike_conn_attempt_failed(sa, "out of memory", now);
	else
		init_repeat(sa, now);
}

static void init_refused(struct ike_sa *sa, uint16_t type, wtime now)
{
	char text[IKE_REASON_TEXT];

	if (type == IKE_N_NO_PROPOSAL_CHOSEN && sa->hs->post_quantum == IKE_PQ_REQUIRE)
		snprintf(text, sizeof(text),
			"peer offers no ML-KEM key exchange and post_quantum is require");
	else if (type == IKE_N_NO_PROPOSAL_CHOSEN)
		snprintf(text, sizeof(text), "peer accepts none of our IKE proposals");
	else
		snprintf(text, sizeof(text), "peer refused IKE_SA_INIT (notify %u)", type);
	ike_conn_attempt_failed(sa, text, now);
}

/* Answers that are no acceptance. True when the message was one. */
static bool init_response_other(struct ike_sa *sa, const struct ike_rx *rx)
{
	struct ike_notify n;

	if (ike_msg_notify(rx->m, IKE_N_COOKIE, &n) && !ike_msg_find(rx->m, IKE_PL_SA)) {
		if (n.data.n == 0 || n.data.n > IKE_COOKIE_MAX)
			ike_drop_count(sa->ike, IKE_DROP_MALFORMED);
		else if (ike_buf_set(&sa->hs->cookie, n.data) == 0)
			init_repeat(sa, rx->now);
		return true;
	}
	if (!ike_msg_error(rx->m, &n))
		return false;
	if (n.type == IKE_N_INVALID_KE_PAYLOAD)
		init_other_group(sa, &n, rx->now);
	else
		init_refused(sa, n.type, rx->now);
	return true;
}

/* 0, -EPROTO, or what crypto says. */
static int init_finish(struct ike_sa *sa, const struct ike_rx *rx)
{
	const struct ike_policy policy = initiator_policy(sa->hs);
	uint8_t secret[KEX_SECRET_MAX];
	struct ike_choice choice;
	struct ike_ke ke = ike_ke_read(ike_msg_find(rx->m, IKE_PL_KE)->body);
	int err = ike_proposal_check(&policy, buf_view(&sa->hs->offered),
		ike_msg_find(rx->m, IKE_PL_SA)->body, &choice);

	if (err < 0)
		return err;
	if (choice.kex[0] != sa->hs->group || ke.method != kex_info(choice.kex[0])->ike)
		return -EPROTO;
	take_features(sa, rx->m);
	if (choice.kex_count > 1 && !sa->hs->peer_intermediate)
		return -EPROTO; /* RFC 9370 2.2.1 */
	take_choice(sa, &choice);
	err = kex_finish(sa->hs->kex, ke.data, secret);
	if (err == 0)
		err = derive_keys(sa, view_of(secret, kex_info(sa->hs->group)->secret_len));
	w_zeroize(secret, sizeof(secret));
	return err;
}

void ike_init_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	int err;

	(void)t;
	if (init_response_other(sa, rx))
		return;
	if (!ike_msg_find(rx->m, IKE_PL_SA) || !ike_msg_find(rx->m, IKE_PL_KE) || !rx->m->h.spi_r ||
		!ike_nonce_take(rx->m, &sa->hs->nr)) {
		ike_drop_count(sa->ike, IKE_DROP_MALFORMED); /* anyone may have sent it: wait on */
		return;
	}
	sa->spi_r = rx->m->h.spi_r;
	sa->remote = rx->d->remote;
	if (rx->d->local.ip.family != IP_NONE)
		sa->local = rx->d->local;
	sa->heard = rx->now;
	err = ike_buf_set(&sa->hs->init_resp, rx->whole);
	if (err == 0)
		err = init_finish(sa, rx);
	if (err < 0) {
		ike_conn_attempt_failed(sa, "peer's IKE_SA_INIT answer does not fit our offer",
			rx->now);
		return;
	}
	if (!sa->hs->peer_identity_hash) {
		ike_conn_attempt_failed(sa,
			"peer cannot verify Ed25519 signatures (no identity hash, RFC 8420)",
			rx->now);
		return;
	}
	sa->conn->behind_nat = ike_natd_peer_behind(rx->m, rx->d);
	ike_sa_request_done(sa);
	if (ike_handshake_next(sa) < 0)
		ike_conn_attempt_failed(sa, "out of memory", rx->now);
}

/* ---- Responder ---- */
struct init_key {
	uint64_t spi_i;
	struct endpoint remote;
};

static struct init_key init_key(uint64_t spi_i, const struct endpoint *remote)
{
	struct init_key k;

	memset(&k, 0, sizeof(k)); /* the padding is hashed too */
	k.spi_i = spi_i;
	k.remote.ip.family = remote->ip.family;
	memcpy(k.remote.ip.b, remote->ip.b, sizeof(k.remote.ip.b));
	k.remote.port = remote->port;
	return k;
}

static struct ike_sa *init_find(const struct ike *ike, uint64_t spi_i,
	const struct endpoint *remote)
{
	const struct init_key k = init_key(spi_i, remote);
	struct hash_node *n = hash_find(&ike->by_init, &k, sizeof(k));

	for (; n; n = hash_next(n)) {
		struct ike_sa *sa = container_of(n, struct ike_sa, by_init);

		if (sa->spi_i == spi_i)
			return sa;
	}
	return NULL;
}

/* A repeated request gets the same answer (RFC 7296 2.1); another with the same SPI nothing. */
static void init_again(struct ike_sa *sa, const struct ike_datagram *d)
{
	if (view_equal(buf_view(&sa->hs->init_req), d->data))
		ike_send(sa->ike, &d->local, &d->remote, buf_view(&sa->hs->init_resp));
	else
		ike_drop_count(sa->ike, IKE_DROP_OLD_MESSAGE);
}

/* A refusal, without any state (RFC 7296 1.2, 2.7). */
static void init_refuse(struct ike *ike, const struct ike_rx *rx, enum ike_select s,
	const struct ike_choice *choice)
{
	uint8_t group[2];
	struct ike_header h = rx->m->h;
	struct ike_build b;

	h.flags = IKE_FLAG_RESPONSE;
	ike_build_begin(&b, &h);
	if (s == IKE_SELECT_GROUP) {
		put_u16(group, kex_info(choice->kex[0])->ike);
		ike_build_status(&b, IKE_N_INVALID_KE_PAYLOAD, view_of(group, sizeof(group)));
	} else {
		ike_build_status(&b, IKE_N_NO_PROPOSAL_CHOSEN, (struct view){0});
	}
	if (ike_build_finish(&b) == 0)
		ike_send(ike, &rx->d->local, &rx->d->remote, buf_view(&b.out));
	ike_build_free(&b);
}

static int init_answer_build(struct ike_sa *sa, const struct ike_choice *choice, struct view ke,
	const struct ike_datagram *d)
{
	const struct ike_header h = {.spi_i = sa->spi_i,
		.spi_r = sa->spi_r,
		.version = IKE_VERSION,
		.exchange = IKE_SA_INIT,
		.flags = IKE_FLAG_RESPONSE};
	struct ike_build b;
	int err;

	ike_build_begin(&b, &h);
	ike_proposal_answer(&b, choice, (struct view){0});
	ike_build_ke(&b, kex_info(choice->kex[0])->ike, ke);
	ike_build_nonce(&b, ike_nonce_view(&sa->hs->nr));
	build_features(&b);
	ike_build_status(&b, IKE_N_CHILDLESS_SUPPORTED, (struct view){0});
	err = ike_natd_build(&b, sa->spi_i, sa->spi_r, d);
	if (err == 0)
		err = ike_build_finish(&b);
	if (err == 0)
		err = ike_buf_set(&sa->hs->init_resp, buf_view(&b.out));
	ike_build_free(&b);
	return err;
}

static int init_answer(struct ike_sa *sa, const struct ike_rx *rx, const struct ike_choice *choice)
{
	struct ike_ke ke = ike_ke_read(ike_msg_find(rx->m, IKE_PL_KE)->body);
	const struct kex_info *info = kex_info(choice->kex[0]);
	uint8_t answer[KEX_PUBLIC_MAX], secret[KEX_SECRET_MAX];
	int err = ike_handshake_new(&sa->hs);

	if (err < 0)
		return err;
	take_features(sa, rx->m);
	take_choice(sa, choice);
	if (!ike_nonce_take(rx->m, &sa->hs->ni))
		return -EPROTO;
	err = ike_nonce_new(sa->ike, &sa->hs->nr);
	if (err == 0)
		err = ike_buf_set(&sa->hs->init_req, rx->whole);
	if (err == 0)
		err = kex_answer(choice->kex[0], &sa->ike->config.rng, ke.data, answer, secret);
	if (err == 0) {
		err = init_answer_build(sa, choice, view_of(answer, info->answer_len), rx->d);
		if (err == 0)
			err = derive_keys(sa, view_of(secret, info->secret_len));
		w_zeroize(secret, sizeof(secret));
	}
	return err;
}

static int init_accept(struct ike *ike, const struct ike_rx *rx, const struct ike_choice *choice)
{
	const struct init_key key = init_key(rx->m->h.spi_i, &rx->d->remote);
	struct ike_sa *sa;
	uint64_t spi;
	int err = ike_sa_spi_new(ike, &spi);

	if (err == 0)
		err = ike_sa_new(ike, NULL, rx->m->h.spi_i, spi, false, &sa);
	if (err < 0)
		return err;
	sa->state = IKE_SA_HALF_OPEN;
	sa->counted_half_open = true;
	ike->stats.half_open++;
	sa->local = rx->d->local;
	sa->remote = rx->d->remote;
	sa->started = sa->origin_started = sa->heard = rx->now;
	sa->next_in = 1;
	sa->expire_at = wtime_add(rx->now, IKE_TIME_HALF_OPEN);
	err = init_answer(sa, rx, choice);
	if (err == 0)
		err = hash_add(&ike->by_init, &sa->by_init, &key, sizeof(key));
	if (err < 0) {
		ike_sa_kill(sa);
		return err;
	}
	sa->in_init_table = true;
	sa->peer_behind_nat = ike_natd_peer_behind(rx->m, rx->d);
	ike_send(ike, &rx->d->local, &rx->d->remote, buf_view(&sa->hs->init_resp));
	ike_sa_wake(sa, sa->expire_at);
	return 0;
}

static void init_select(struct ike *ike, const struct ike_rx *rx)
{
	struct ike_ke ke = ike_ke_read(ike_msg_find(rx->m, IKE_PL_KE)->body);
	struct ike_choice choice;
	struct ike_notify n;
	const struct ike_policy policy = {.use = IKE_USE_IKE,
		.post_quantum = ike_conn_responder_pq(ike, &rx->d->remote),
		.additional_ok = ike_msg_notify(rx->m, IKE_N_INTERMEDIATE_SUPPORTED, &n)};
	enum ike_select s = ike_proposal_select(&policy, ike_msg_find(rx->m, IKE_PL_SA)->body,
		ke.method, &choice);
	int err;

	if (s != IKE_SELECT_OK) {
		ike->stats.handshakes_failed += s != IKE_SELECT_GROUP;
		init_refuse(ike, rx, s, &choice);
		return;
	}
	err = init_accept(ike, rx, &choice);
	if (err < 0)
		ike_drop_count(ike,
			err == -EBADMSG || err == -EPROTO ? IKE_DROP_MALFORMED
							  : IKE_DROP_NO_MEMORY);
}

/* Half-open SAs from one address, or from one /64 in IPv6. */
static uint32_t init_count_from(const struct ike *ike, const struct ipaddr *ip)
{
	size_t bytes = ip->family == IP6 ? 8 : 4;
	uint32_t n = 0;

	list_for_each (it, &ike->half_open) {
		const struct ike_sa *sa = container_of(it, struct ike_sa, node);

		n += sa->remote.ip.family == ip->family &&
			memcmp(sa->remote.ip.b, ip->b, bytes) == 0;
	}
	return n;
}

/* When half of the room is taken, an address that has its part gets no more (RFC 8019 4.5). Before
 * that, many peers behind one NAT may start at once: a cookie is all that is asked of them. */
static bool init_has_room(const struct ike *ike, const struct ipaddr *ip)
{
	if (ike->stats.half_open >= ike->config.half_open_max)
		return false;
	return ike->stats.half_open < ike->config.half_open_max / 2 ||
		init_count_from(ike, ip) < IKE_HALF_OPEN_SOURCE;
}

/* RFC 7296 2.6: above the threshold a cookie comes first, and nothing is kept before it. */
static bool init_admit(struct ike *ike, const struct ike_rx *rx)
{
	if (ike->stats.half_open >= ike->config.cookie_threshold &&
		!ike_cookie_check(ike, rx->m, rx->d, rx->now)) {
		ike_cookie_demand(ike, rx->m, rx->d, rx->now);
		return false;
	}
	if (!init_has_room(ike, &rx->d->remote.ip)) {
		ike_drop_count(ike, IKE_DROP_HALF_OPEN_LIMIT);
		return false;
	}
	return true;
}

void ike_init_request(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now)
{
	const struct ike_rx rx = {.m = m, .d = d, .whole = d->data, .now = now};
	struct ike_sa *sa;

	if (!(m->h.flags & IKE_FLAG_INITIATOR) || m->h.mid != 0 || m->h.spi_r != 0 ||
		!ike_msg_find(m, IKE_PL_SA) || !ike_msg_find(m, IKE_PL_KE) ||
		!ike_msg_find(m, IKE_PL_NONCE) || m->enc.type != IKE_PL_NONE) {
		ike_drop_count(ike, IKE_DROP_MALFORMED);
		return;
	}
	sa = init_find(ike, m->h.spi_i, &d->remote);
	if (sa)
		init_again(sa, d);
	else if (init_admit(ike, &rx))
		init_select(ike, &rx);
}
