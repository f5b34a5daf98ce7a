/* IKE_AUTH: both sides. RFC 7296 1.2, 2.4 (INITIAL_CONTACT), 2.15, 2.16, 2.21.2; RFC 7427 and 8420
 * (Ed25519 alone), RFC 6023 (an IKE SA without a child is taken). A refused child leaves the IKE SA
 * up; it is tried again later. */
#include "ike/sa_priv.h"

#include <errno.h>
#include <stdio.h>
#include "base/mem.h"

enum { ID_BODY_HEAD = 4 };

#define CHILD_PATIENCE (5 * W_SEC) /* a responder waits so long for the initiator's child */

/* ---- AUTH payloads ---- */
static int id_body(struct view id, struct buf *ret)
{
	const uint8_t head[ID_BODY_HEAD] = {IKE_ID_DER_ASN1_DN};

	buf_add(ret, head, sizeof(head));
	buf_add(ret, id.p, id.n);
	return ret->failed ? -ENOMEM : 0;
}

static struct ike_auth_input auth_input(const struct ike_sa *sa, bool responder, struct view body,
	uint32_t mid)
{
	const struct ike_handshake *hs = sa->hs;

	return (struct ike_auth_input){.responder = responder,
		.message = buf_view(responder ? &hs->init_resp : &hs->init_req),
		.nonce = ike_nonce_view(responder ? &hs->ni : &hs->nr),
		.id_body = body,
		.keys = &sa->keys,
		.int_auth = &hs->int_auth,
		.auth_mid = mid};
}

static int build_auth(struct ike_sa *sa, const struct ike_conn *conn, uint32_t mid,
	struct ike_build *b)
{
	uint8_t data[IKE_AUTH_ED25519_LEN];
	struct ike_auth_input in;
	struct buf body = {0};
	int err = id_body(conn->c.local_id, &body);

	if (err == 0) {
		in = auth_input(sa, !sa->initiator, buf_view(&body), mid);
		err = ike_auth_sign(&in, sa->ike->config.key, data);
	}
	if (err == 0)
		ike_build_auth(b,
			&(struct ike_auth){.method = IKE_AUTH_SIGNATURE,
				.data = view_of(data, sizeof(data))});
	buf_free(&body);
	return err;
}

/* The peer's AUTH over its ID payload (as it came) against the key that we have for it. */
static int verify_auth(struct ike_sa *sa, const struct ike_conn *conn, const struct ike_msg *m,
	uint32_t mid)
{
	const struct ike_payload *id = ike_msg_find(m, sa->initiator ? IKE_PL_IDR : IKE_PL_IDI);
	const struct ike_payload *p = ike_msg_find(m, IKE_PL_AUTH);
	struct ike_auth_input in;
	struct ike_auth auth;

	if (!id || !p)
		return -EPROTO;
	auth = ike_auth_read(p->body);
	if (auth.method != IKE_AUTH_SIGNATURE)
		return -EPROTONOSUPPORT;
	in = auth_input(sa, sa->initiator, id->body, mid);
	return ike_auth_verify(&in, conn->c.remote_key, auth.data);
}

static bool id_is(const struct ike_msg *m, uint8_t type, struct view want)
{
	const struct ike_payload *p = ike_msg_find(m, type);
	struct ike_id id;

	if (!p)
		return false;
	id = ike_id_read(p->body);
	return id.type == IKE_ID_DER_ASN1_DN && view_equal(id.data, want);
}

static void build_id(struct ike_build *b, uint8_t type, struct view id)
{
	ike_build_id(b, type, &(struct ike_id){.type = IKE_ID_DER_ASN1_DN, .data = id});
}

static void handshake_done(struct ike_sa *sa)
{
	ike_handshake_free(sa->hs);
	sa->hs = NULL;
}

/* ---- The first child ---- */
static int first_child(struct ike_sa *sa, const struct ike_choice *choice, uint32_t spi_in,
	wtime now, struct ike_child **ret)
{
	struct cur c = cur_of(choice->spi, choice->spi_len);
	const struct ike_child_new n = {.sa = sa,
		.aead = choice->aead,
		.esn = choice->esn,
		.spi_in = spi_in,
		.spi_out = cur_u32(&c),
		.kex = sa->kex,
		.kex_count = sa->kex_count,
		.ni = ike_nonce_view(&sa->hs->ni),
		.nr = ike_nonce_view(&sa->hs->nr),
		.initiator = sa->initiator};

	return n.spi_out ? ike_child_make(&n, now, ret) : -EPROTO;
}

/* The SA in use sends on its child. As the responder of a crossing start the old one goes on for a
 * moment, since the peer may not have our answer yet. */
static void first_child_outbound(struct ike_sa *sa, struct ike_child *c, wtime now)
{
	struct ike_conn *conn = sa->conn;
	bool crossing = false;

	if (conn->sa != sa) {
		if (!conn->outbound)
			ike_child_outbound(c, now);
		return;
	}
	list_for_each (it, &conn->sas) {
		const struct ike_sa *o = container_of(it, struct ike_sa, node);

		crossing = crossing ||
			(o != sa && o->state == IKE_SA_UP && o->origin_ours &&
				wtime_before(sa->origin_started, o->origin_established));
	}
	if (sa->initiator || !crossing)
		ike_child_outbound(c, now);
	else
		ike_child_outbound_later(c, wtime_add(now, IKE_TIME_CROSSING));
}

/* ---- Initiator ---- */
/* RFC 7296 2.4: only when we hold no other SA between these identities. */
static bool first_contact(const struct ike_sa *sa)
{
	list_for_each (it, &sa->conn->sas) {
		const struct ike_sa *o = container_of(it, struct ike_sa, node);

		if (o != sa && o->state != IKE_SA_CONNECTING)
			return false;
	}
	return true;
}

static int build_child_offer(struct ike_sa *sa, struct ike_build *b)
{
	const struct ike_policy policy = ike_child_policy(sa->conn, IKE_USE_FIRST_CHILD);
	uint8_t spi[IKE_ESP_SPI_LEN];
	int err = ike_child_spi_new(sa->conn, &sa->hs->child_spi);

	if (err < 0)
		return err;
	put_u32(spi, sa->hs->child_spi);
	err = ike_offer_body(&policy, view_of(spi, sizeof(spi)), &sa->hs->child_offered);
	if (err < 0)
		return err;
	ike_build_opaque(b, IKE_PL_SA, 0, buf_view(&sa->hs->child_offered));
	ike_build_ts_any(b, IKE_PL_TSI);
	ike_build_ts_any(b, IKE_PL_TSR);
	return 0;
}

int ike_auth_build(struct ike_sa *sa, struct ike_task *t, struct ike_build *b, wtime now)
{
	const struct ike_conn_config *c = &sa->conn->c;
	int err;

	(void)t;
	(void)now;
	sa->hs->auth_sent = true;
	build_id(b, IKE_PL_IDI, c->local_id);
	if (first_contact(sa))
		ike_build_status(b, IKE_N_INITIAL_CONTACT, (struct view){0});
	build_id(b, IKE_PL_IDR, c->remote_id);
	err = build_auth(sa, sa->conn, sa->next_out, b);
	return err < 0 ? err : build_child_offer(sa, b);
}

/* RFC 7296 2.21.2: the responder believes in the SA and has to be told. */
static void tell_auth_failed(struct ike_sa *sa)
{
	struct ike_build b;

	ike_build_begin_inner(&b);
	ike_build_status(&b, IKE_N_AUTHENTICATION_FAILED, (struct view){0});
	ike_sa_send_once(sa, &b);
	ike_build_free(&b);
}

static void auth_refused(struct ike_sa *sa, uint16_t type, wtime now)
{
	char text[IKE_REASON_TEXT];

	if (type == IKE_N_AUTHENTICATION_FAILED)
		snprintf(text, sizeof(text),
			"peer refused authentication: it does not know us, has another key for us, "
			"or "
			"its policy forbids the link");
	else
		snprintf(text, sizeof(text), "peer refused IKE_AUTH (notify %u)", type);
	ike_conn_attempt_failed(sa, text, now);
}

static void auth_take_child(struct ike_sa *sa, const struct ike_rx *rx)
{
	const struct ike_policy policy = ike_child_policy(sa->conn, IKE_USE_FIRST_CHILD);
	const struct ike_payload *p = ike_msg_find(rx->m, IKE_PL_SA);
	struct ike_choice choice;
	struct ike_child *c;

	if (!p || !ike_child_ts_ok(rx->m) ||
		ike_proposal_check(&policy, buf_view(&sa->hs->child_offered), p->body, &choice) <
			0 ||
		first_child(sa, &choice, sa->hs->child_spi, rx->now, &c) < 0) {
		sa->conn->child_fails++;
		ike_child_want(sa->conn, 0, rx->now);
		return;
	}
	first_child_outbound(sa, c, rx->now);
}

void ike_auth_response(struct ike_sa *sa, struct ike_task *t, const struct ike_rx *rx)
{
	struct ike_notify n;

	(void)t;
	if (!ike_msg_find(rx->m, IKE_PL_AUTH)) {
		auth_refused(sa, ike_msg_error(rx->m, &n) ? n.type : 0, rx->now);
		return;
	}
	if (!id_is(rx->m, IKE_PL_IDR, sa->conn->c.remote_id)) {
		tell_auth_failed(sa);
		ike_conn_attempt_failed(sa, "another node than the wanted one answers there",
			rx->now);
		return;
	}
	if (verify_auth(sa, sa->conn, rx->m, sa->next_out - 1) < 0) {
		tell_auth_failed(sa);
		ike_conn_attempt_failed(sa, "peer's signature does not fit its public key",
			rx->now);
		return;
	}
	ike_conn_sa_up(sa, false, rx->now);
	auth_take_child(sa, rx);
	handshake_done(sa);
}

/* ---- Responder ---- */
static void after_refusal(struct ike_sa *sa, wtime now)
{
	(void)now;
	sa->ike->stats.handshakes_failed++;
	ike_sa_kill(sa);
}

static void refuse(struct ike_sa *sa, struct ike_conn *conn, const char *reason,
	struct ike_build *reply)
{
	ike_build_status(reply, IKE_N_AUTHENTICATION_FAILED, (struct view){0});
	sa->after = after_refusal;
	if (!conn || conn->sa)
		return; /* a stranger's word changes nothing */
	snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
	ike_emit_reason(conn, IKE_EVENT_FAILED, reason);
}

static bool sa_is_hybrid(const struct ike_sa *sa)
{
	for (unsigned int i = 0; i < sa->kex_count; i++)
		if (kex_info(sa->kex[i])->is_kem)
			return true;
	return false;
}

static unsigned int conn_sa_count(const struct ike_conn *conn)
{
	unsigned int n = 0;

	list_for_each (it, &conn->sas)
		n++;
	return n;
}

/* Why a peer that says to be conn's is refused; NULL: it is not. */
static const char *refusal(struct ike_sa *sa, const struct ike_conn *conn, const struct ike_rx *rx)
{
	if (conn->admin_down)
		return "taken down";
	if (!sa->hs->peer_identity_hash)
		return "peer cannot verify Ed25519 signatures (no identity hash, RFC 8420)";
	if (sa->hs->round < sa->kex_count)
		return "peer left out an additional key exchange";
	switch (verify_auth(sa, conn, rx->m, rx->m->h.mid)) {
	case 0:
		break;
	case -EPROTONOSUPPORT:
		return "peer signs with another algorithm than Ed25519";
	default:
		return "peer's signature does not fit its public key";
	}
	if (conn->c.post_quantum == IKE_PQ_REQUIRE && !sa_is_hybrid(sa))
		return "peer offers no ML-KEM key exchange and post_quantum is require";
	if (conn_sa_count(conn) >= IKE_CONN_SAS_MAX)
		return "peer has too many IKE SAs";
	return NULL;
}

static struct ike_conn *auth_conn(const struct ike_sa *sa, const struct ike_msg *m)
{
	const struct ike_payload *p = ike_msg_find(m, IKE_PL_IDI);
	const struct ike_payload *to = ike_msg_find(m, IKE_PL_IDR);
	struct ike_id id, idr = {0};

	if (!p)
		return NULL;
	id = ike_id_read(p->body);
	if (to)
		idr = ike_id_read(to->body);
	if (id.type != IKE_ID_DER_ASN1_DN || !id.data.n)
		return NULL;
	if (to && (idr.type != IKE_ID_DER_ASN1_DN || !idr.data.n))
		return NULL;
	return ike_conn_by_identity(sa->ike, id.data, idr.data, &sa->remote);
}

/* The child that an IKE_AUTH request asks for; 0 or the error notify to send. */
static uint16_t answer_child(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	const struct ike_policy policy = ike_child_policy(sa->conn, IKE_USE_FIRST_CHILD);
	uint8_t spi[IKE_ESP_SPI_LEN];
	struct ike_choice choice;
	struct ike_child *c;
	uint32_t spi_in;

	if (ike_proposal_select(&policy, ike_msg_find(rx->m, IKE_PL_SA)->body, 0, &choice) !=
		IKE_SELECT_OK)
		return IKE_N_NO_PROPOSAL_CHOSEN;
	if (!ike_child_ts_ok(rx->m))
		return IKE_N_TS_UNACCEPTABLE;
	if (ike_child_spi_new(sa->conn, &spi_in) < 0 ||
		first_child(sa, &choice, spi_in, rx->now, &c) < 0)
		return IKE_N_NO_PROPOSAL_CHOSEN;
	put_u32(spi, spi_in);
	ike_proposal_answer(reply, &choice, view_of(spi, sizeof(spi)));
	ike_child_ts_answer(rx->m, reply);
	first_child_outbound(sa, c, rx->now);
	return 0;
}

static void after_up(struct ike_sa *sa, wtime now)
{
	(void)now;
	handshake_done(sa);
}

static void auth_accept(struct ike_sa *sa, struct ike_conn *conn, const struct ike_rx *rx,
	struct ike_build *reply)
{
	struct ike_notify n;
	uint16_t error = 0;

	list_del(&sa->node);
	list_add_tail(&conn->sas, &sa->node);
	sa->conn = conn;
	ike_conn_sa_up(sa, ike_msg_notify(rx->m, IKE_N_INITIAL_CONTACT, &n), rx->now);
	sa->after = after_up;
	if (ike_msg_find(rx->m, IKE_PL_SA)) /* RFC 6023: without it, no child is asked for */
		error = answer_child(sa, rx, reply);
	if (error)
		ike_build_status(reply, error, (struct view){0});
	ike_child_want(conn, CHILD_PATIENCE, rx->now);
}

void ike_auth_request(struct ike_sa *sa, const struct ike_rx *rx, struct ike_build *reply)
{
	struct ike_conn *conn = auth_conn(sa, rx->m);
	const char *why = conn ? refusal(sa, conn, rx) : "peer is not known";
	int err;

	if (why) {
		refuse(sa, conn, why, reply);
		return;
	}
	build_id(reply, IKE_PL_IDR, conn->c.local_id);
	err = build_auth(sa, conn, rx->m->h.mid, reply);
	if (err < 0) { /* nothing of the reply is sent: the peer tries again */
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
		sa->after = after_refusal;
		sa->mute = true;
		return;
	}
	auth_accept(sa, conn, rx, reply);
}
