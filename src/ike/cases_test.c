/* A peer that does odd things: messages made and changed by hand, under the keys of a real SA. What
 * other implementations got wrong, and the rules of RFC 7296 2.21 and 2.25. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "ike/bed_test.h"
#include "ike/sa_priv.h"

/* ---- Making messages ---- */
struct answer {
	struct ike_opened opened;
	struct ike_msg m;
	bool there;
};

static void answer_free(struct answer *a)
{
	ike_opened_free(&a->opened);
	*a = (struct answer){0};
}

static struct ike_sa *sa_of(struct bed *bed, unsigned int which)
{
	struct ike_conn *conn = bed_conn(bed, which);

	return conn->sa ? conn->sa : conn->attempt;
}

static void inject(struct bed *bed, unsigned int to, struct view data)
{
	struct ike_datagram d = {.local = bed->node[to].ep,
		.remote = bed->node[1 - to].ep,
		.data = data};

	ike_input(bed->node[to].ike, &d, bed->now);
}

/* Takes the answer with a message ID out of what a node sends; the rest goes on its way. */
static void take_answer(struct bed *bed, unsigned int from, uint32_t mid, struct answer *ret)
{
	struct ike_sa *sa = sa_of(bed, 1 - from);

	if (!sa->in_responses)
		assert_int_equal(ike_reassembly_new(&sa->in_responses), 0);
	bed_collect(bed);
	list_for_each_safe (it, &bed->wire) {
		struct bed_packet *p = container_of(it, struct bed_packet, node);
		struct ike_msg m;

		if (p->to == from || !(p->h.flags & IKE_FLAG_RESPONSE) || p->h.mid != mid ||
			ret->there)
			continue;
		assert_int_equal(ike_msg_parse(view_of(p->data, p->n), &m), IKE_PARSE_OK);
		ret->there = ike_open(sa->protect, sa->in_responses, &m, &ret->opened) ==
			IKE_OPEN_OK;
		list_del(it);
		w_free(p);
	}
	if (ret->there)
		assert_int_equal(ike_opened_parse(&ret->opened, &ret->m), IKE_PARSE_OK);
}

static void seal_and_inject(struct bed *bed, unsigned int from, uint8_t exchange, uint32_t mid,
	bool response, struct ike_build *b)
{
	struct ike_sa *sa = sa_of(bed, from);
	struct ike_header h = {.spi_i = sa->spi_i,
		.spi_r = sa->spi_r,
		.version = IKE_VERSION,
		.exchange = exchange,
		.mid = mid,
		.flags = (uint8_t)((sa->initiator ? IKE_FLAG_INITIATOR : 0) |
			(response ? IKE_FLAG_RESPONSE : 0))};
	struct ike_sealed s = {0};
	struct ike_inner inner;
	struct view v;
	size_t at = 0;

	assert_int_equal(ike_build_finish(b), 0);
	inner = (struct ike_inner){.first = b->first, .bytes = buf_view(&b->out)};
	assert_int_equal(ike_seal(sa->protect, &bed->node[from].rng, &h, &inner, 1248, &s), 0);
	while (ike_sealed_next(&s, &at, &v))
		inject(bed, 1 - from, v);
	ike_sealed_free(&s);
	ike_build_free(b);
}

/* A request under the keys of a node's SA that its engine knows nothing of, and its answer. */
static void request(struct bed *bed, unsigned int from, uint8_t exchange, struct ike_build *b,
	struct answer *ret)
{
	uint32_t mid = sa_of(bed, from)->next_out++;

	answer_free(ret);
	seal_and_inject(bed, from, exchange, mid, false, b);
	take_answer(bed, 1 - from, mid, ret);
	assert_true(ret->there);
}

static uint16_t error_of(const struct answer *a)
{
	struct ike_notify n;

	return ike_msg_error(&a->m, &n) ? n.type : 0;
}

static void open_up(struct bed *bed, uint64_t seed, enum ike_pq pq)
{
	struct bed_options o = {.seed = seed,
		.passive = {false, true},
		.pq = {pq, pq},
		.dpd_us = 3600 * W_SEC};

	bed_open(bed, &o);
	assert_true(bed_run_until_up(bed, 3 * W_SEC));
	assert_true(bed_is_tidy(bed));
}

struct offer {
	uint32_t spi, rekey;    /* rekey: the SPI in REKEY_SA, 0: none */
	uint16_t ke, groups[2]; /* KE payload's method, transforms of type 4; 0: none */
	uint16_t additional[3];
	int esn; /* bit 0: no, bit 1: yes */
};

static void build_offer(struct bed *bed, struct ike_build *b, const struct offer *o, struct view ke)
{
	uint8_t nonce[IKE_NONCE_LEN], spi[4];

	rng_fill(&bed->node[0].base, nonce, sizeof(nonce));
	put_u32(spi, o->rekey);
	ike_build_begin_inner(b);
	if (o->rekey)
		ike_build_notify(b,
			&(struct ike_notify){.protocol = IKE_PROTO_ESP,
				.type = IKE_N_REKEY_SA,
				.spi = view_of(spi, 4)});
	ike_build_sa_open(b);
	put_u32(spi, o->spi);
	ike_build_proposal(b, 1, IKE_PROTO_ESP, view_of(spi, 4));
	ike_build_transform(b, IKE_T_ENCR, IKE_ENCR_AES_GCM_16, 256);
	for (unsigned int i = 0; i < 2; i++)
		if (o->groups[i])
			ike_build_transform(b, IKE_T_KE, o->groups[i], 0);
	for (uint8_t i = 0; i < 3; i++)
		if (o->additional[i])
			ike_build_transform(b, (uint8_t)(IKE_T_ADDKE1 + i), o->additional[i], 0);
	if (o->esn & 1)
		ike_build_transform(b, IKE_T_ESN, IKE_ESN_NO, 0);
	if (o->esn & 2)
		ike_build_transform(b, IKE_T_ESN, IKE_ESN_YES, 0);
	ike_build_close(b);
	ike_build_nonce(b, view_of(nonce, sizeof(nonce)));
	if (o->ke)
		ike_build_ke(b, o->ke, ke);
	ike_build_ts_any(b, IKE_PL_TSI);
	ike_build_ts_any(b, IKE_PL_TSR);
}

static void build_delete(struct ike_build *b, uint32_t spi)
{
	ike_build_begin_inner(b);
	ike_build_delete(b, &spi, 1);
}

/* ---- Rekeys ---- */
/* Two rekeys of one child, then the old one and the first replacement are deleted. */
static void rekeyed_twice(void **state)
{
	struct answer a = {0};
	struct ike_build b;
	struct bed bed;
	uint32_t old;

	(void)state;
	open_up(&bed, 1, IKE_PQ_OFF);
	old = bed_status(&bed, 0).children[0].spi_in;
	for (uint32_t i = 1; i <= 2; i++) {
		build_offer(&bed, &b, &(struct offer){.spi = 0x1000 + i, .rekey = old, .esn = 3},
			(struct view){0});
		request(&bed, 0, IKE_CREATE_CHILD_SA, &b, &a);
		assert_int_equal(error_of(&a), 0);
	}
	assert_int_equal(bed_status(&bed, 1).child_count, 3);
	build_delete(&b, old);
	request(&bed, 0, IKE_INFORMATIONAL, &b, &a);
	assert_non_null(ike_msg_find(&a.m, IKE_PL_DELETE));
	assert_int_equal(bed_child(&bed, 1, bed.node[1].outbound)->info.spi_out, 0x1002);
	build_delete(&b, 0x1001);
	request(&bed, 0, IKE_INFORMATIONAL, &b, &a);
	assert_int_equal(bed_status(&bed, 1).child_count, 1);
	bed_run(&bed, 20 * W_SEC);
	assert_int_equal(bed_child(&bed, 1, bed.node[1].outbound)->info.spi_out, 0x1002);
	build_delete(&b, 0x1001); /* long gone: an answer without it */
	request(&bed, 0, IKE_INFORMATIONAL, &b, &a);
	assert_null(ike_msg_find(&a.m, IKE_PL_DELETE));
	build_offer(&bed, &b, &(struct offer){.spi = 0x1009, .rekey = old, .esn = 3},
		(struct view){0});
	request(&bed, 0, IKE_CREATE_CHILD_SA, &b, &a);
	assert_int_equal(error_of(&a), IKE_N_CHILD_SA_NOT_FOUND);
	answer_free(&a);
	bed_close(&bed);
}

/* The acceptance of a's CREATE_CHILD_SA (which is on the wire, one key exchange), with this SPI. */
static void accept_by_hand(struct bed *bed, uint32_t spi_value)
{
	struct bed_packet *p = container_of(bed->wire.next, struct bed_packet, node);
	const struct ike_policy policy = {.use = IKE_USE_CHILD,
		.post_quantum = IKE_PQ_OFF,
		.additional_ok = true};
	uint8_t spi[4], nonce[IKE_NONCE_LEN] = {1}, out[KEX_PUBLIC_MAX], secret[KEX_SECRET_MAX];
	struct ike_opened o = {0};
	struct ike_choice choice;
	struct ike_build b;
	struct ike_msg m;
	struct ike_ke ke;

	assert_int_equal(p->h.exchange, IKE_CREATE_CHILD_SA);
	assert_int_equal(ike_msg_parse(view_of(p->data, p->n), &m), IKE_PARSE_OK);
	assert_int_equal(ike_open(sa_of(bed, 1)->protect, NULL, &m, &o), IKE_OPEN_OK);
	assert_int_equal(ike_opened_parse(&o, &m), IKE_PARSE_OK);
	ke = ike_ke_read(ike_msg_find(&m, IKE_PL_KE)->body);
	assert_int_equal(ike_proposal_select(&policy, ike_msg_find(&m, IKE_PL_SA)->body, ke.method,
				 &choice),
		IKE_SELECT_OK);
	assert_int_equal(kex_answer(choice.kex[0], &bed->node[1].rng, ke.data, out, secret), 0);
	put_u32(spi, spi_value);
	ike_build_begin_inner(&b);
	ike_proposal_answer(&b, &choice, view_of(spi, 4));
	ike_build_nonce(&b, view_of(nonce, sizeof(nonce)));
	ike_build_ke(&b, ke.method, view_of(out, kex_info(choice.kex[0])->answer_len));
	ike_build_ts_any(&b, IKE_PL_TSI);
	ike_build_ts_any(&b, IKE_PL_TSR);
	sa_of(bed, 1)->next_in++;
	seal_and_inject(bed, 1, IKE_CREATE_CHILD_SA, p->h.mid, true, &b);
	ike_opened_free(&o);
	list_del(&p->node);
	w_free(p);
}

/* The peer's DELETEs of the old and of the new child overtake its acceptance. */
static void early_delete(void **state)
{
	struct answer a = {0};
	struct ike_build b;
	struct bed bed;
	uint32_t old;

	(void)state;
	open_up(&bed, 2, IKE_PQ_OFF);
	old = bed_status(&bed, 0).children[0].spi_out;
	assert_int_equal(ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now), 0);
	bed_collect(&bed);
	build_delete(&b, old);
	request(&bed, 1, IKE_INFORMATIONAL, &b, &a);
	assert_non_null(ike_msg_find(&a.m, IKE_PL_DELETE));
	build_delete(&b, 0xabcdef01);
	request(&bed, 1, IKE_INFORMATIONAL, &b, &a);
	assert_null(ike_msg_find(&a.m, IKE_PL_DELETE));
	accept_by_hand(&bed, 0xabcdef01);
	bed_collect(&bed);
	bed_run(&bed, 3 * W_SEC); /* none is left: a new one is made at once */
	assert_int_equal(bed_status(&bed, 0).state, IKE_STATE_UP);
	assert_int_equal(bed_status(&bed, 0).child_count, 1);
	assert_true(bed_can_send(&bed, 0));
	assert_int_not_equal(bed_status(&bed, 0).children[0].spi_out, 0xabcdef01);
	answer_free(&a);
	bed_close(&bed);
}

/* Another group in the KE payload than we take. Every form of sequence numbers.
 */
static void groups_and_esn(void **state)
{
	uint8_t junk[128] = {9};
	struct answer a = {0};
	struct ike_notify n;
	struct ike_build b;
	struct bed bed;

	(void)state;
	open_up(&bed, 3, IKE_PQ_PREFER);
	build_offer(&bed, &b, &(struct offer){.spi = 0x2000, .ke = 2, .groups = {2, 31}, .esn = 1},
		view_of(junk, sizeof(junk)));
	request(&bed, 0, IKE_CREATE_CHILD_SA, &b, &a);
	assert_true(ike_msg_notify(&a.m, IKE_N_INVALID_KE_PAYLOAD, &n));
	assert_int_equal(get_u16(n.data.p), 31);
	build_offer(&bed, &b, &(struct offer){.spi = 0x2001, .ke = 2, .groups = {2}, .esn = 1},
		view_of(junk, sizeof(junk)));
	request(&bed, 0, IKE_CREATE_CHILD_SA, &b, &a);
	assert_int_equal(error_of(&a), IKE_N_NO_PROPOSAL_CHOSEN);
	for (int esn = 0; esn <= 3; esn++) {
		build_offer(&bed, &b, &(struct offer){.spi = 0x2010 + (uint32_t)esn, .esn = esn},
			(struct view){0});
		request(&bed, 0, IKE_CREATE_CHILD_SA, &b, &a);
		assert_int_equal(error_of(&a), 0);
		assert_int_equal(bed_status(&bed, 1).children[0].esn, esn >= 2);
	}
	assert_int_equal(bed_status(&bed, 1).state, IKE_STATE_UP);
	answer_free(&a);
	bed_close(&bed);
}

/* b's engine does not see a's request, which is on the wire; the answer is an error. */
static void refuse_by_hand(struct bed *bed, uint16_t type, struct view data)
{
	struct bed_packet *p = container_of(bed->wire.next, struct bed_packet, node);
	struct ike_build b;

	assert_false(list_empty(&bed->wire));
	ike_build_begin_inner(&b);
	ike_build_status(&b, type, data);
	sa_of(bed, 1)->next_in++;
	seal_and_inject(bed, 1, p->h.exchange, p->h.mid, true, &b);
	list_del(&p->node);
	w_free(p);
}

/* A peer without key exchanges in its children gets that form, unless we require more. */
static void peer_without_pfs(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct ike_conn_status s;
		struct bed bed;
		uint32_t spi;

		open_up(&bed, 30 + i, i ? IKE_PQ_REQUIRE : IKE_PQ_PREFER);
		spi = bed_status(&bed, 0).children[0].spi_in;
		assert_int_equal(ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now), 0);
		bed_collect(&bed);
		refuse_by_hand(&bed, IKE_N_NO_PROPOSAL_CHOSEN, (struct view){0});
		bed_run(&bed, 10 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		s = bed_status(&bed, 0);
		assert_int_equal(s.children[0].spi_in == spi, i == 1);
		if (!i)
			assert_int_equal(s.children[0].kex[0], KEX_NONE); /* and status says so */
		bed_run(&bed, 60 * W_SEC); /* require: tried again later, in full */
		s = bed_status(&bed, 0);
		assert_int_not_equal(s.children[0].spi_in, spi);
		assert_int_equal(s.children[0].kex[1], i ? KEX_MLKEM768 : KEX_NONE);
		bed_close(&bed);
	}
}

/* The initiator's side of INVALID_KE_PAYLOAD, CHILD_SA_NOT_FOUND, TEMPORARY_FAILURE (2.25). */
static void refused_rekeys(void **state)
{
	static const uint16_t type[] = {IKE_N_INVALID_KE_PAYLOAD, IKE_N_CHILD_SA_NOT_FOUND,
		IKE_N_TEMPORARY_FAILURE, IKE_N_NO_ADDITIONAL_SAS, 77};

	(void)state;
	for (unsigned int i = 0; i < sizeof(type) / sizeof(type[0]); i++) {
		struct bed bed;
		uint32_t spi;

		open_up(&bed, 40 + i, IKE_PQ_PREFER);
		spi = bed_status(&bed, 0).children[0].spi_in;
		assert_int_equal(ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now), 0);
		bed_collect(&bed);
		refuse_by_hand(&bed, type[i], view_of("\0\23", i ? 0 : 2));
		bed_run(&bed,
			W_SEC); /* not at once, but for a child that the peer says is not there */
		assert_int_equal(bed_status(&bed, 0).children[0].spi_in != spi,
			type[i] == IKE_N_CHILD_SA_NOT_FOUND);
		assert_true(bed_can_send(&bed, 0));
		bed_run(&bed, 50 * W_SEC);
		assert_int_not_equal(bed_status(&bed, 0).children[0].spi_in, spi);
		assert_int_equal(bed_status(&bed, 0).child_count, 1);
		assert_int_equal(bed.node[0].downs, 0);
		bed_close(&bed);
	}
}

/* One IKE_FOLLOWUP_KE round by hand. */
static void followup(struct bed *bed, enum kex_id id, struct view link, struct answer *ret)
{
	uint8_t offer[KEX_PUBLIC_MAX];
	struct ike_build b;
	struct kex *kex;

	assert_int_equal(kex_offer(id, &bed->node[0].rng, offer, &kex), 0);
	ike_build_begin_inner(&b);
	ike_build_ke(&b, kex_info(id)->ike, view_of(offer, kex_info(id)->offer_len));
	ike_build_status(&b, IKE_N_ADDITIONAL_KEY_EXCHANGE, link);
	kex_free(kex);
	request(bed, 0, IKE_FOLLOWUP_KE, &b, ret);
}

static void start_hybrid(struct bed *bed, uint32_t spi, const uint16_t additional[3],
	struct answer *ret)
{
	struct offer o = {.spi = spi, .ke = 31, .groups = {31}, .esn = 3};
	uint8_t offer[KEX_PUBLIC_MAX];
	struct ike_build b;
	struct kex *kex;

	memcpy(o.additional, additional, sizeof(o.additional));
	assert_int_equal(kex_offer(KEX_X25519, &bed->node[0].rng, offer, &kex), 0);
	build_offer(bed, &b, &o, view_of(offer, 32));
	kex_free(kex);
	request(bed, 0, IKE_CREATE_CHILD_SA, &b, ret);
	assert_int_equal(error_of(ret), 0);
}

static struct view link_of(const struct answer *a, uint8_t copy[static 64])
{
	struct ike_notify n;

	if (!ike_msg_notify(&a->m, IKE_N_ADDITIONAL_KEY_EXCHANGE, &n))
		return (struct view){0};
	memcpy(copy, n.data.p, n.data.n);
	return view_of(copy, n.data.n);
}

/* Three additional exchanges; late, repeated and unknown ones. */
static void followups(void **state)
{
	static const uint16_t three[3] = {35, 36, 37}, one[3] = {36};
	static const enum kex_id ids[3] = {KEX_MLKEM512, KEX_MLKEM768, KEX_MLKEM1024};
	uint8_t copy[64], old_copy[64];
	struct answer a = {0};
	struct view link, old;
	struct bed bed;

	(void)state;
	open_up(&bed, 4, IKE_PQ_PREFER);
	start_hybrid(&bed, 0x3000, three, &a);
	for (unsigned int i = 0; i < 3; i++) {
		link = link_of(&a, copy);
		assert_true(link.n > 0);
		followup(&bed, ids[i], link, &a);
		assert_int_equal(error_of(&a), 0);
	}
	assert_int_equal(link_of(&a, old_copy).n, 0); /* the last answer has none */
	assert_int_equal(bed_status(&bed, 1).children[0].kex[3], KEX_MLKEM1024);
	assert_int_equal(bed_status(&bed, 1).child_count, 2);
	followup(&bed, KEX_MLKEM1024, link, &a); /* it is over */
	assert_int_equal(error_of(&a), IKE_N_STATE_NOT_FOUND);
	start_hybrid(&bed, 0x3001, one, &a);
	old = link_of(&a, old_copy);
	followup(&bed, KEX_MLKEM768, view_of("wrong", 5), &a);
	assert_int_equal(error_of(&a), IKE_N_STATE_NOT_FOUND);
	followup(&bed, KEX_MLKEM768, (struct view){0}, &a);
	assert_int_equal(error_of(&a), IKE_N_STATE_NOT_FOUND);
	bed_run(&bed, 21 * W_SEC);
	followup(&bed, KEX_MLKEM768, old, &a); /* too late */
	assert_int_equal(error_of(&a), IKE_N_STATE_NOT_FOUND);
	start_hybrid(&bed, 0x3002, one, &a);
	followup(&bed, KEX_MLKEM512, link_of(&a, copy), &a); /* not what was agreed on */
	assert_int_equal(error_of(&a), IKE_N_NO_PROPOSAL_CHOSEN);
	assert_int_equal(bed_status(&bed, 1).child_count, 2);
	assert_true(list_empty(&bed_conn(&bed, 1)->sa->negs));
	assert_int_equal(bed_status(&bed, 1).state, IKE_STATE_UP);
	answer_free(&a);
	bed_close(&bed);
}

/* ---- Changing messages ---- */
/* The message that is on the wire next, opened under the receiver's keys. */
static struct bed_packet *open_next(struct bed *bed, struct ike_sa *receiver, struct answer *ret)
{
	struct bed_packet *p = container_of(bed->wire.next, struct bed_packet, node);

	assert_false(list_empty(&bed->wire));
	assert_int_equal(ike_msg_parse(view_of(p->data, p->n), &ret->m), IKE_PARSE_OK);
	assert_int_equal(ike_open(receiver->protect, NULL, &ret->m, &ret->opened), IKE_OPEN_OK);
	assert_int_equal(ike_opened_parse(&ret->opened, &ret->m), IKE_PARSE_OK);
	list_del(&p->node);
	return p;
}

/* The link is the responder's affair: any length, echoed byte for byte. */
static void link_of_any_length(void **state)
{
	static const size_t length[] = {0, 1, 64, 300};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		uint8_t blob[300];
		struct answer a = {0};
		struct bed_packet *p;
		struct ike_build b;
		struct bed bed;

		memset(blob, 0x5a + (int)i, sizeof(blob));
		open_up(&bed, 5, IKE_PQ_PREFER);
		assert_int_equal(ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now), 0);
		bed_step(&bed);
		p = open_next(&bed, sa_of(&bed, 0), &a);
		ike_build_begin_inner(&b);
		for (unsigned int k = 0; k < a.m.count; k++) {
			const struct ike_payload *pl = &a.m.payload[k];

			if (pl->type == IKE_PL_NOTIFY &&
				ike_notify_read(pl->body).type == IKE_N_ADDITIONAL_KEY_EXCHANGE)
				ike_build_status(&b, IKE_N_ADDITIONAL_KEY_EXCHANGE,
					view_of(blob, length[i]));
			else
				ike_build_opaque(&b, pl->type, 0, pl->body);
		}
		seal_and_inject(&bed, 1, IKE_CREATE_CHILD_SA, p->h.mid, true, &b);
		answer_free(&a);
		w_free(p);
		assert_int_equal(sa_of(&bed, 0)->active->type, IKE_TASK_FOLLOWUP);
		assert_true(view_equal(buf_view(&sa_of(&bed, 0)->active->neg->link),
			view_of(blob, length[i])));
		bed_run(&bed, 2 * W_SEC); /* the real responder does not know it */
		assert_int_equal(bed_status(&bed, 0).state, IKE_STATE_UP);
		bed_run(&bed, 60 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		bed_close(&bed);
	}
}

enum auth_change {
	AUTH_BAD_TS,
	AUTH_NO_CHILD,
	AUTH_BAD_SUITE,
	AUTH_EMPTY,
	AUTH_MORE,
	AUTH_CHANGES
};

static void change_auth(struct ike_build *b, const struct ike_payload *p, enum auth_change change)
{
	static const uint8_t bad_ts[] = {1, 0, 0, 0, 99, 0, 0, 8, 0, 0, 255, 255};
	bool ts = p->type == IKE_PL_TSI || p->type == IKE_PL_TSR;

	if (change == AUTH_BAD_TS && ts) {
		ike_build_opaque(b, p->type, 0, view_of(bad_ts, sizeof(bad_ts)));
	} else if (change == AUTH_NO_CHILD && (ts || p->type == IKE_PL_SA)) {
		return;
	} else if (change == AUTH_BAD_SUITE && p->type == IKE_PL_SA) {
		ike_build_sa_open(b);
		ike_build_proposal(b, 1, IKE_PROTO_ESP, view_of("\1\2\3\4", 4));
		ike_build_transform(b, IKE_T_ENCR, 3, 0);
		ike_build_close(b);
	} else if (change == AUTH_EMPTY && p->type == IKE_PL_AUTH) {
		ike_build_auth(b, &(struct ike_auth){.method = IKE_AUTH_SIGNATURE});
	} else {
		ike_build_opaque(b, p->type, 0, p->body);
	}
	if (change == AUTH_MORE && p->type == IKE_PL_AUTH) { /* as strongSwan's, and unknown */
		ike_build_status(b, IKE_N_EAP_ONLY_AUTHENTICATION, (struct view){0});
		ike_build_status(b, IKE_N_MESSAGE_ID_SYNC_SUPPORTED, (struct view){0});
		ike_build_status(b, 40001, view_of("what is this", 12));
		ike_build_opaque(b, 200, 0, view_of("a payload of the future", 23));
	}
}

/* A child that is refused leaves the IKE SA up, and is tried again. */
static void odd_auth(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < AUTH_CHANGES; i++) {
		struct bed_options o = {.seed = 60 + i, .passive = {false, true}};
		struct answer a = {0};
		struct bed_packet *p;
		struct ike_build b;
		struct bed bed;
		struct ike_sa *half;

		bed_open(&bed, &o);
		while (container_of(bed.wire.next, struct bed_packet, node)->h.exchange != IKE_AUTH)
			assert_true(bed_step(&bed));
		half = container_of(bed.node[1].ike->half_open.next, struct ike_sa, node);
		p = open_next(&bed, half, &a);
		ike_build_begin_inner(&b);
		for (unsigned int k = 0; k < a.m.count; k++)
			change_auth(&b, &a.m.payload[k], (enum auth_change)i);
		seal_and_inject(&bed, 0, IKE_AUTH, p->h.mid, false, &b);
		answer_free(&a);
		w_free(p);
		bed_run(&bed, 200 * W_MS);
		assert_int_equal(bed_status(&bed, 0).state == IKE_STATE_UP, i != AUTH_EMPTY);
		assert_int_equal(bed.node[0].fails, i == AUTH_EMPTY);
		bed_run(&bed, 15 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs, 0);
		bed_close(&bed);
	}
}

/* Puts other hash algorithms into the IKE_SA_INIT message on the wire; n 0: no notify at all. */
static void change_hashes(struct bed_packet **at, const uint8_t *hash, size_t n)
{
	struct bed_packet *p = *at, *q;
	struct ike_build b;
	struct ike_msg m;

	assert_int_equal(ike_msg_parse(view_of(p->data, p->n), &m), IKE_PARSE_OK);
	ike_build_begin(&b, &m.h);
	for (unsigned int k = 0; k < m.count; k++) {
		const struct ike_payload *pl = &m.payload[k];

		if (pl->type != IKE_PL_NOTIFY ||
			ike_notify_read(pl->body).type != IKE_N_SIGNATURE_HASH_ALGORITHMS)
			ike_build_opaque(&b, pl->type, 0, pl->body);
		else if (n)
			ike_build_status(&b, IKE_N_SIGNATURE_HASH_ALGORITHMS, view_of(hash, n));
	}
	assert_int_equal(ike_build_finish(&b), 0);
	q = w_alloc(sizeof(*q) + b.out.n);
	assert_non_null(q);
	*q = *p;
	q->n = b.out.n;
	memcpy(q->data, b.out.p, b.out.n);
	ike_build_free(&b);
	list_add_head(&p->node, &q->node);
	list_del(&p->node);
	w_free(p);
	*at = q;
}

/* What a peer must be able to verify. */
static void hash_algorithms(void **state)
{
	static const uint8_t hashes[] = {0, 2, 0, 3, 0, 4, 0, 5};
	static const struct {
		size_t from, n;
		bool ok;
	} row[] = {{0, 0, false}, {0, 6, false}, {6, 2, true}, {4, 4, true}, {0, 8, true}};

	(void)state;
	for (unsigned int i = 0; i < 2 * 5; i++) {
		struct bed_options o = {.seed = 70 + i, .passive = {false, true}};
		struct bed_packet *p;
		struct ike_sa *sa;
		struct bed bed;

		bed_open(&bed, &o);
		if (i / 5)
			bed_step(&bed);
		p = container_of(bed.wire.next, struct bed_packet, node);
		assert_int_equal(p->h.exchange, IKE_SA_INIT);
		change_hashes(&p, hashes + row[i % 5].from, row[i % 5].n);
		sa = i / 5 ? container_of(bed.node[1].ike->half_open.next, struct ike_sa, node)
			   : sa_of(&bed, 0);
		ike_buf_set(i / 5 ? &sa->hs->init_resp : &sa->hs->init_req,
			view_of(p->data, p->n)); /* as if its sender had meant it */
		bed_run(&bed, 200 * W_MS);
		assert_int_equal(bed_status(&bed, 0).state == IKE_STATE_UP, row[i % 5].ok);
		if (!row[i % 5].ok)
			assert_non_null(strstr(bed_status(&bed, i / 5 ? 0 : 1).reason,
				"cannot verify Ed25519"));
		bed_close(&bed);
	}
}

/* ---- Errors ---- */
static void errors_on_an_sa(void **state)
{
	struct answer a = {0};
	struct ike_notify n;
	struct ike_build b;
	struct bed bed;

	(void)state;
	open_up(&bed, 7, IKE_PQ_PREFER);
	ike_build_begin_inner(&b);
	ike_build_opaque(&b, 201, 0x80, view_of("unknown and critical", 20));
	request(&bed, 0, IKE_INFORMATIONAL, &b, &a);
	assert_true(ike_msg_notify(&a.m, IKE_N_UNSUPPORTED_CRITICAL_PAYLOAD, &n));
	assert_int_equal(n.data.p[0], 201);
	ike_build_begin_inner(&b);
	ike_build_status(&b, 40002, view_of("status", 6));
	ike_build_status(&b, 999, view_of("error", 5));
	request(&bed, 0, IKE_INFORMATIONAL, &b, &a);
	assert_int_equal(a.m.count, 0);
	ike_build_begin_inner(&b);
	request(&bed, 0, IKE_AUTH, &b, &a); /* again: it makes no sense, and changes nothing */
	assert_int_equal(error_of(&a), IKE_N_INVALID_SYNTAX);
	assert_int_equal(bed_status(&bed, 1).state, IKE_STATE_UP);
	ike_build_begin_inner(&b);
	ike_build_opaque(&b, IKE_PL_NOTIFY, 0, view_of("\3", 1)); /* broken */
	request(&bed, 0, IKE_INFORMATIONAL, &b, &a);
	assert_int_equal(error_of(&a), IKE_N_INVALID_SYNTAX);
	assert_int_equal(bed_status(&bed, 1).state, IKE_STATE_DOWN);
	answer_free(&a);
	bed_close(&bed);
}

static void errors_without_an_sa(void **state)
{
	uint8_t msg[IKE_HEADER_LEN] = {1, 2, 3, 4, 5, 6, 7, 8, [17] = 0x30, [18] = IKE_SA_INIT,
		[19] = IKE_FLAG_INITIATOR, [27] = IKE_HEADER_LEN};
	struct bed_options o = {.seed = 12, .passive = {true, true}};
	struct ike_stats st;
	struct bed bed;

	(void)state;
	bed_open(&bed, &o);
	for (unsigned int i = 0; i < 50; i++)
		inject(&bed, 1, view_of(msg, sizeof(msg)));
	bed_collect(&bed);
	assert_int_equal(bed.packets[1], 1); /* INVALID_MAJOR_VERSION, rarely */
	msg[17] = IKE_VERSION;
	inject(&bed, 1, view_of(msg, sizeof(msg)));
	msg[18] = IKE_INFORMATIONAL;
	inject(&bed, 1, view_of(msg, sizeof(msg)));
	inject(&bed, 1, view_of(msg, 20));
	bed_collect(&bed);
	assert_int_equal(bed.packets[1], 1);
	ike_stats(bed.node[1].ike, &st);
	assert_int_equal(st.drops[IKE_DROP_VERSION], 50);
	assert_int_equal(st.drops[IKE_DROP_MALFORMED], 1);
	assert_int_equal(st.drops[IKE_DROP_UNKNOWN_SPI], 1);
	assert_int_equal(st.drops[IKE_DROP_TRUNCATED], 1);
	assert_int_equal(st.sas, 0);
	bed_close(&bed);
}

/* Of a repeated message in fragments, the first one gets the stored answer at once. */
static void repeated_fragments(void **state)
{
	struct bed_packet *p[2];
	struct bed bed;
	unsigned int sent;

	(void)state;
	open_up(&bed, 13, IKE_PQ_PREFER);
	assert_int_equal(ike_conn_rekey_child(bed.node[0].ike, BED_CONN, bed.now), 0);
	bed_collect(&bed);
	while (container_of(bed.wire.next, struct bed_packet, node)->h.exchange != IKE_FOLLOWUP_KE)
		assert_true(bed_step(&bed));
	p[0] = container_of(bed.wire.next, struct bed_packet, node);
	p[1] = container_of(p[0]->node.next, struct bed_packet, node);
	list_del(&p[0]->node);
	list_del(&p[1]->node);
	for (unsigned int i = 0; i < 2; i++)
		inject(&bed, 1, view_of(p[i]->data, p[i]->n));
	bed_collect(&bed);
	sent = bed.packets[1];
	inject(&bed, 1, view_of(p[1]->data, p[1]->n));
	bed_collect(&bed);
	assert_int_equal(bed.packets[1], sent);
	p[0]->data[p[0]->n - 1] ^= 1; /* one that anybody can make */
	inject(&bed, 1, view_of(p[0]->data, p[0]->n));
	bed_collect(&bed);
	assert_int_equal(bed.packets[1], sent);
	p[0]->data[p[0]->n - 1] ^= 1;
	inject(&bed, 1, view_of(p[0]->data, p[0]->n));
	bed_collect(&bed);
	assert_int_equal(bed.packets[1], sent + 1);
	bed_run(&bed, 10 * W_SEC);
	assert_true(bed_is_tidy(&bed));
	w_free(p[0]);
	w_free(p[1]);
	bed_close(&bed);
}

/* A message from elsewhere is told and answered there; requests go where they went before. */
static void another_address(void **state)
{
	struct endpoint elsewhere = {.ip = {.family = IP4, .b = {198, 51, 100, 7}}, .port = 999};
	struct ike_sealed s = {0};
	struct ike_inner inner = {0};
	struct ike_datagram d;
	struct ike_header h;
	struct ike_sa *sa;
	struct bed bed;
	struct view v;
	size_t at = 0;

	(void)state;
	open_up(&bed, 14, IKE_PQ_PREFER);
	sa = sa_of(&bed, 0);
	h = (struct ike_header){.spi_i = sa->spi_i,
		.spi_r = sa->spi_r,
		.version = IKE_VERSION,
		.exchange = IKE_INFORMATIONAL,
		.mid = sa->next_out++,
		.flags = IKE_FLAG_INITIATOR};
	assert_int_equal(ike_seal(sa->protect, &bed.node[0].rng, &h, &inner, 0, &s), 0);
	assert_true(ike_sealed_next(&s, &at, &v));
	d = (struct ike_datagram){.local = bed.node[1].ep, .remote = elsewhere, .data = v};
	ike_input(bed.node[1].ike, &d, bed.now);
	assert_true(ike_output(bed.node[1].ike, &d));
	assert_true(endpoint_equal(&d.remote, &elsewhere));
	bed_collect(&bed);
	assert_int_equal(bed.node[1].seen, 1);
	assert_true(endpoint_equal(&sa_of(&bed, 1)->remote, &bed.node[0].ep));
	ike_conn_set_remote(bed.node[1].ike, BED_CONN, &elsewhere, bed.now);
	assert_true(endpoint_equal(&sa_of(&bed, 1)->remote, &elsewhere));
	ike_sealed_free(&s);
	bed_close(&bed);
}

/* Everything that is sent arrives damaged as well, many times: nothing breaks, nothing changes. */
static enum bed_action damage(struct bed *bed, const struct bed_packet *p)
{
	uint8_t copy[2048];
	uint64_t at, bit;

	assert_true(p->n <= sizeof(copy));
	for (unsigned int i = 0; i < 40; i++) {
		memcpy(copy, p->data, p->n);
		for (unsigned int k = 0; k <= i % 3; k++) {
			rng_below(&bed->node[0].base, p->n, &at);
			rng_below(&bed->node[0].base, 8, &bit);
			copy[at] ^= (uint8_t)(1U << bit);
		}
		rng_below(&bed->node[0].base, p->n, &at);
		inject(bed, p->to, view_of(copy, i % 5 ? p->n : at));
	}
	return BED_PASS;
}

static void damaged(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 5; seed++) {
		struct bed_options o = {.seed = 900 + seed};
		struct bed bed;

		bed_open(&bed, &o);
		bed_run(&bed, 5 * W_SEC);
		bed.filter = damage;
		ike_conn_rekey_ike(bed.node[0].ike, BED_CONN, bed.now);
		bed_run(&bed, 15 * W_SEC);
		ike_conn_rekey_child(bed.node[1].ike, BED_CONN, bed.now);
		bed_run(&bed, 15 * W_SEC);
		bed.filter = NULL;
		bed_run(&bed, 60 * W_SEC);
		assert_true(bed_is_tidy(&bed));
		assert_int_equal(bed.node[0].downs + bed.node[1].downs, 0);
		bed_close(&bed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rekeyed_twice),
		cmocka_unit_test(early_delete),
		cmocka_unit_test(groups_and_esn),
		cmocka_unit_test(peer_without_pfs),
		cmocka_unit_test(refused_rekeys),
		cmocka_unit_test(followups),
		cmocka_unit_test(link_of_any_length),
		cmocka_unit_test(odd_auth),
		cmocka_unit_test(hash_algorithms),
		cmocka_unit_test(errors_on_an_sa),
		cmocka_unit_test(errors_without_an_sa),
		cmocka_unit_test(repeated_fragments),
		cmocka_unit_test(another_address),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
