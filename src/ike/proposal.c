/* Offers, choices and answers in SA payloads. RFC 7296 2.7, 3.3; RFC 9370 2.2.1. */
#include "ike/proposal_priv.h"

#include <errno.h>

enum proposal_numbers {
	TRANSFORM_TYPES = IKE_T_ADDKE7 + 1,
	OFFERED_KEMS = 2, /* of kems[]: an initiator offers ML-KEM-1024 to peers with only that */
};

/* Our taste, best first. */
static const enum aead_id aeads[] = {AEAD_AES256_GCM16, AEAD_AES128_GCM16, AEAD_CHACHA20_POLY1305,
	AEAD_AES256_CBC_SHA256_128, AEAD_AES128_CBC_SHA256_128};
static const enum prf_id prfs[] = {PRF_HMAC_SHA2_512, PRF_HMAC_SHA2_384, PRF_HMAC_SHA2_256};
static const enum kex_id groups[] = {KEX_X25519, KEX_ECP256, KEX_ECP384, KEX_ECP521, KEX_MODP2048};
static const enum kex_id kems[] = {KEX_MLKEM768, KEX_MLKEM1024, KEX_MLKEM512};

enum {
	AEADS = sizeof(aeads) / sizeof(aeads[0]),
	PRFS = sizeof(prfs) / sizeof(prfs[0]),
	GROUPS = sizeof(groups) / sizeof(groups[0]),
	KEMS = sizeof(kems) / sizeof(kems[0]),
};

const char *ike_select_text(enum ike_select s)
{
	static const char *const texts[] = {
		[IKE_SELECT_OK] = "ok",
		[IKE_SELECT_NONE] = "no proposal that we know",
		[IKE_SELECT_GROUP] = "key exchange with another group wanted",
		[IKE_SELECT_CLASSIC] = "peer offers no ML-KEM and post_quantum is require",
		[IKE_SELECT_NO_INTERMEDIATE] = "peer offers only additional key exchanges but does "
					       "not do IKE_INTERMEDIATE",
	};

	return (unsigned int)s <= IKE_SELECT_NO_INTERMEDIATE ? texts[s] : "unknown result";
}

/* ---- Looking into a proposal --------------------------------------------------------------------
 */

/* What a proposal offers, taken down in one walk. */
struct offer {
	bool has[TRANSFORM_TYPES]; /* the type is there, with whatever ID */
	bool aead[AEAD_COUNT];     /* cipher and key length */
	bool integ_none, integ_hmac;
	bool prf[PRF_COUNT];
	bool esn, no_esn;
	uint32_t kex[TRANSFORM_TYPES]; /* of KE and ADDKE: bit (1 << kex_id), KEX_NONE for NONE */
};

static bool is_kex_type(uint8_t type)
{
	return type == IKE_T_KE || (type >= IKE_T_ADDKE1 && type <= IKE_T_ADDKE7);
}

/* Takes down one transform whose attributes are all known. */
static void offer_add(struct offer *o, const struct ike_transform *t)
{
	enum kex_id kex = kex_by_ike(t->id);

	if (t->type == IKE_T_ENCR)
		for (unsigned int i = 0; i < AEADS; i++)
			if (aead_info(aeads[i])->encr == t->id &&
				aead_info(aeads[i])->key_bits == t->key_bits)
				o->aead[aeads[i]] = true;
	if (t->key_bits)
		return;
	if (t->type == IKE_T_PRF)
		for (unsigned int i = 0; i < PRFS; i++)
			if (prf_info(prfs[i])->ike == t->id)
				o->prf[prfs[i]] = true;
	if (t->type == IKE_T_INTEG) {
		o->integ_none |= t->id == IKE_INTEG_NONE;
		o->integ_hmac |= t->id == IKE_INTEG_HMAC_SHA2_256_128;
	}
	if (t->type == IKE_T_ESN) {
		o->esn |= t->id == IKE_ESN_YES;
		o->no_esn |= t->id == IKE_ESN_NO;
	}
	if (is_kex_type(t->type) && (kex != KEX_NONE || t->id == IKE_KE_NONE))
		o->kex[t->type] |= UINT32_C(1) << kex;
}

/* Takes a proposal down. False when protocol, SPI length or transform types do not fit the use (RFC
 * 7296 3.3.1, 3.3.3: a proposal with a type that is not understood is refused as a whole). */
static bool offer_read(const struct ike_policy *policy, const struct ike_proposal *p,
	struct offer *ret)
{
	bool ike = policy->use == IKE_USE_IKE;
	struct cur c = cur_view(p->transforms);
	struct ike_transform t;

	*ret = (struct offer){0};
	if (p->protocol != (ike ? IKE_PROTO_IKE : IKE_PROTO_ESP))
		return false;
	if (p->spi.n != (ike ? IKE_SPI_LEN : IKE_ESP_SPI_LEN) && !(ike && p->spi.n == 0))
		return false;
	while (ike_transform_next(&c, &t)) {
		if (t.type < IKE_T_ENCR || t.type > IKE_T_ADDKE7)
			return false;
		if (t.type == (ike ? IKE_T_ESN : IKE_T_PRF))
			return false;
		ret->has[t.type] = true;
		if (!t.unknown_attribute)
			offer_add(ret, &t);
	}
	return true;
}

static bool offers_none(const struct offer *o, uint8_t type)
{
	return o->kex[type] & (UINT32_C(1) << KEX_NONE);
}

static bool offers_kex(const struct ike_policy *policy, const struct offer *o, uint8_t type,
	enum kex_id id)
{
	uint32_t bit = UINT32_C(1) << id;

	return (policy->kex_allowed == 0 || (policy->kex_allowed & bit)) && (o->kex[type] & bit);
}

/* ---- Choosing from one proposal
 * ------------------------------------------------------------------ */

/* A choice in the making, and how good it is. */
struct candidate {
	struct ike_choice choice;
	bool wrong_group;       /* the KE payload is for another group than kex[0] */
	unsigned int aead_rank; /* index in aeads[] */
};

static void answer_add(struct ike_choice *c, uint8_t type, uint16_t id, uint16_t key_bits)
{
	c->answer[c->answer_count++] = (struct ike_transform){.type = type,
		.id = id,
		.key_bits = key_bits};
}

static void kex_add(struct ike_choice *c, uint8_t type, enum kex_id id)
{
	c->kex[c->kex_count++] = id;
	answer_add(c, type, kex_info(id)->ike, 0);
}

/* Cipher and integrity: AEADs go with no integrity transform or NONE (RFC 5282 8, RFC 7296 3.3.3),
 * AES-CBC only with one. */
static bool choose_aead(const struct offer *o, struct candidate *c)
{
	bool no_integ = !o->has[IKE_T_INTEG] || o->integ_none;

	for (unsigned int i = 0; i < AEADS; i++) {
		const struct aead_info *a = aead_info(aeads[i]);

		if (!o->aead[aeads[i]] || (a->is_aead ? !no_integ : !o->integ_hmac))
			continue;
		c->choice.aead = aeads[i];
		c->aead_rank = i;
		answer_add(&c->choice, IKE_T_ENCR, a->encr, a->key_bits);
		if (!a->is_aead)
			answer_add(&c->choice, IKE_T_INTEG, a->integ, 0);
		return true;
	}
	return false;
}

static bool choose_prf(const struct offer *o, struct candidate *c)
{
	for (unsigned int i = 0; i < PRFS; i++) {
		if (o->prf[prfs[i]]) {
			c->choice.prf = prfs[i];
			answer_add(&c->choice, IKE_T_PRF, prf_info(prfs[i])->ike, 0);
			return true;
		}
	}
	return false;
}

/* A transform of type NONE is answered as such, a type that was not offered not at all. */
static void answer_none(const struct offer *o, uint8_t type, struct candidate *c)
{
	if (offers_none(o, type))
		answer_add(&c->choice, type, IKE_KE_NONE, 0);
}

static bool is_group(enum kex_id id)
{
	return id != KEX_NONE && !kex_info(id)->is_kem;
}

/* The group: the KE payload's when it may be, else our first (then INVALID_KE_PAYLOAD, RFC 7296
 * 1.3: only after the proposal matched), else none for a child. */
static bool choose_group(const struct ike_policy *policy, const struct offer *o, uint16_t ke_method,
	struct candidate *c)
{
	enum kex_id sent = kex_by_ike(ke_method);
	bool none_ok = policy->use != IKE_USE_IKE &&
		(!o->has[IKE_T_KE] || offers_none(o, IKE_T_KE));

	if (ke_method && is_group(sent) && offers_kex(policy, o, IKE_T_KE, sent)) {
		kex_add(&c->choice, IKE_T_KE, sent);
		return true;
	}
	for (unsigned int i = 0; i < GROUPS && !(none_ok && ke_method == 0); i++) {
		if (offers_kex(policy, o, IKE_T_KE, groups[i])) {
			kex_add(&c->choice, IKE_T_KE, groups[i]);
			c->wrong_group = true;
			return true;
		}
	}
	if (none_ok)
		answer_none(o, IKE_T_KE, c);
	return none_ok;
}

static bool kex_taken(const struct ike_choice *c, enum kex_id id)
{
	for (unsigned int i = 0; i < c->kex_count; i++)
		if (c->kex[i] == id)
			return true;
	return false;
}

/* Chooses for ADDKE types from `type` on so that no method occurs twice (RFC 9370 2.2.2), NONE
 * last. Backtracks: at most three methods are known, so the depth that branches is three. */
static bool choose_additional(const struct ike_policy *policy, const struct offer *o, uint8_t type,
	struct candidate *c)
{
	bool none_only = policy->post_quantum == IKE_PQ_OFF || !policy->additional_ok ||
		c->choice.kex_count == 0;
	struct candidate before = *c;

	if (type > IKE_T_ADDKE7)
		return true;
	if (!o->has[type])
		return choose_additional(policy, o, type + 1, c);
	for (unsigned int i = 0; i < KEMS && !none_only; i++) {
		if (!offers_kex(policy, o, type, kems[i]) || kex_taken(&c->choice, kems[i]))
			continue;
		kex_add(&c->choice, type, kems[i]);
		if (choose_additional(policy, o, type + 1, c))
			return true;
		*c = before;
	}
	if (!offers_none(o, type))
		return false;
	answer_add(&c->choice, type, IKE_KE_NONE, 0);
	if (choose_additional(policy, o, type + 1, c))
		return true;
	*c = before;
	return false;
}

/* All key exchanges. In IKE_AUTH a child has none, whatever is offered (RFC 7296 1.2). */
static bool choose_kex(const struct ike_policy *policy, const struct offer *o, uint16_t ke_method,
	struct candidate *c)
{
	if (policy->use == IKE_USE_FIRST_CHILD) {
		for (uint8_t type = IKE_T_KE; type <= IKE_T_ADDKE7; type++)
			if (type != IKE_T_ESN)
				answer_none(o, type, c);
		return true;
	}
	if (!choose_group(policy, o, ke_method, c) ||
		!choose_additional(policy, o, IKE_T_ADDKE1, c))
		return false;
	return policy->post_quantum != IKE_PQ_REQUIRE || c->choice.kex_count > 1;
}

/* ESN when offered; a missing type 5 means none (RFC 7296 3.3.2). */
static bool choose_esn(const struct offer *o, struct candidate *c)
{
	if (!o->has[IKE_T_ESN])
		return true;
	if (!o->esn && !o->no_esn)
		return false;
	c->choice.esn = o->esn;
	answer_add(&c->choice, IKE_T_ESN, c->choice.esn ? IKE_ESN_YES : IKE_ESN_NO, 0);
	return true;
}

static bool choose(const struct ike_policy *policy, const struct ike_proposal *p,
	uint16_t ke_method, struct candidate *ret)
{
	struct candidate c = {.choice = {.number = p->number, .protocol = p->protocol}};
	struct cur spi = cur_view(p->spi);
	struct offer o;

	if (!offer_read(policy, p, &o) || !choose_aead(&o, &c))
		return false;
	c.choice.spi_len = (uint8_t)p->spi.n;
	cur_copy(&spi, c.choice.spi, p->spi.n);
	if (policy->use == IKE_USE_IKE ? !choose_prf(&o, &c) : !choose_esn(&o, &c))
		return false;
	if (!choose_kex(policy, &o, ke_method, &c))
		return false;
	*ret = c;
	return true;
}

/* ---- Choosing among proposals
 * -------------------------------------------------------------------- */

/* Is a better than b, which came earlier? Hybrid, then the cipher, then no second round trip. */
static bool candidate_better(const struct candidate *a, const struct candidate *b)
{
	bool hybrid_a = a->choice.kex_count > 1, hybrid_b = b->choice.kex_count > 1;
	bool kex_a = a->choice.kex_count > 0, kex_b = b->choice.kex_count > 0;

	if (hybrid_a != hybrid_b)
		return hybrid_a;
	if (kex_a != kex_b)
		return kex_a;
	if (a->aead_rank != b->aead_rank)
		return a->aead_rank < b->aead_rank;
	return !a->wrong_group && b->wrong_group;
}

static bool choose_best(const struct ike_policy *policy, struct view sa_body, uint16_t ke_method,
	struct candidate *ret)
{
	struct cur c = cur_view(sa_body);
	struct ike_proposal p;
	struct candidate best, next;
	bool found = false;

	while (ike_proposal_next(&c, &p)) {
		if (!choose(policy, &p, ke_method, &next))
			continue;
		if (!found || candidate_better(&next, &best))
			best = next;
		found = true;
	}
	if (found)
		*ret = best;
	return found;
}

/* Nothing was found: would something else than the peer's list have to change? */
static enum ike_select why_none(const struct ike_policy *policy, struct view sa_body,
	uint16_t ke_method)
{
	struct ike_policy other = *policy;
	struct candidate c;

	other.additional_ok = true;
	if (!policy->additional_ok && choose_best(&other, sa_body, ke_method, &c))
		return IKE_SELECT_NO_INTERMEDIATE;
	other.post_quantum = IKE_PQ_PREFER;
	if (policy->post_quantum == IKE_PQ_REQUIRE && choose_best(&other, sa_body, ke_method, &c))
		return IKE_SELECT_CLASSIC;
	return IKE_SELECT_NONE;
}

enum ike_select ike_proposal_select(const struct ike_policy *policy, struct view sa_body,
	uint16_t ke_method, struct ike_choice *ret)
{
	struct candidate c;

	if (!choose_best(policy, sa_body, ke_method, &c))
		return why_none(policy, sa_body, ke_method);
	*ret = c.choice;
	return c.wrong_group ? IKE_SELECT_GROUP : IKE_SELECT_OK;
}

void ike_proposal_answer(struct ike_build *b, const struct ike_choice *choice, struct view spi)
{
	ike_build_sa_open(b);
	ike_build_proposal(b, choice->number, choice->protocol, spi);
	for (unsigned int i = 0; i < choice->answer_count; i++) {
		const struct ike_transform *t = &choice->answer[i];

		ike_build_transform(b, t->type, t->id, t->key_bits);
	}
	ike_build_close(b);
}

/* ---- Our offers
 * ------------------------------------------------------------------------------------ */

/* One proposal: n exchanges (0: none, 1: classic, 2: hybrid). */
static void offer_one(struct ike_build *b, const struct ike_policy *policy, uint8_t number,
	struct view spi, unsigned int exchanges)
{
	const struct aead_info *a = aead_info(aeads[0]);
	bool ike = policy->use == IKE_USE_IKE;

	ike_build_proposal(b, number, ike ? IKE_PROTO_IKE : IKE_PROTO_ESP, spi);
	ike_build_transform(b, IKE_T_ENCR, a->encr, a->key_bits);
	if (ike)
		ike_build_transform(b, IKE_T_PRF, prf_info(prfs[0])->ike, 0);
	if (exchanges > 0)
		ike_build_transform(b, IKE_T_KE, kex_info(groups[0])->ike, 0);
	if (!ike) {
		ike_build_transform(b, IKE_T_ESN, IKE_ESN_YES, 0);
		ike_build_transform(b, IKE_T_ESN, IKE_ESN_NO, 0);
	}
	for (unsigned int i = 0; i < OFFERED_KEMS && exchanges > 1; i++)
		ike_build_transform(b, IKE_T_ADDKE1, kex_info(kems[i])->ike, 0);
}

void ike_proposal_offer(struct ike_build *b, const struct ike_policy *policy, struct view spi)
{
	bool require = policy->post_quantum == IKE_PQ_REQUIRE;
	uint8_t number = 1;

	ike_build_sa_open(b);
	if (policy->use == IKE_USE_FIRST_CHILD) {
		offer_one(b, policy, number, spi, 0);
	} else {
		if (require || (policy->post_quantum != IKE_PQ_OFF && policy->additional_ok))
			offer_one(b, policy, number++, spi, 2);
		if (!require)
			offer_one(b, policy, number++, spi, 1);
		if (!require && policy->use == IKE_USE_CHILD)
			offer_one(b, policy, number, spi, 0);
	}
	ike_build_close(b);
}

enum kex_id ike_proposal_group(const struct ike_policy *policy)
{
	return policy->use == IKE_USE_FIRST_CHILD ? KEX_NONE : groups[0];
}

/* ---- The responder's answer
 * -------------------------------------------------------------------------- */

static bool proposal_by_number(struct view sa_body, uint8_t number, struct ike_proposal *ret)
{
	struct cur c = cur_view(sa_body);
	struct ike_proposal p;

	while (ike_proposal_next(&c, &p)) {
		if (p.number == number) {
			*ret = p;
			return true;
		}
	}
	return false;
}

/* Does the proposal (one of ours: short) have this transform? */
static bool has_transform(const struct ike_proposal *p, uint8_t type, uint16_t id,
	uint16_t key_bits)
{
	struct cur c = cur_view(p->transforms);
	struct ike_transform t;

	while (ike_transform_next(&c, &t))
		if (t.type == type && t.id == id && t.key_bits == key_bits)
			return true;
	return false;
}

/* The answer has one transform a type, each one that was offered, and none is missing but those
 * that may be: NONE (0) of integrity and key exchange, no ESN (0). */
static bool answer_is_subset(const struct ike_proposal *offered, const struct ike_proposal *answer)
{
	bool seen[TRANSFORM_TYPES] = {0};
	struct cur c = cur_view(answer->transforms);
	struct ike_transform t;

	while (ike_transform_next(&c, &t)) {
		if (t.type >= TRANSFORM_TYPES || seen[t.type] || t.unknown_attribute ||
			!has_transform(offered, t.type, t.id, t.key_bits))
			return false;
		seen[t.type] = true;
	}
	c = cur_view(offered->transforms);
	while (ike_transform_next(&c, &t)) {
		bool optional = t.type >= IKE_T_INTEG && has_transform(offered, t.type, 0, 0);

		if (!seen[t.type] && !optional)
			return false;
	}
	return true;
}

/* The transform ID of a type in a proposal, 0 when there is none. */
static uint16_t transform_of(const struct ike_proposal *p, uint8_t type)
{
	struct cur c = cur_view(p->transforms);
	struct ike_transform t;

	while (ike_transform_next(&c, &t))
		if (t.type == type)
			return t.id;
	return 0;
}

int ike_proposal_check(const struct ike_policy *policy, struct view offered_body,
	struct view answer_body, struct ike_choice *ret)
{
	struct cur c = cur_view(answer_body);
	struct ike_proposal offered, answer;
	struct candidate chosen;

	if (!ike_proposal_next(&c, &answer) || c.n > 0)
		return -EPROTO;
	if (!proposal_by_number(offered_body, answer.number, &offered))
		return -EPROTO;
	if (answer.protocol != offered.protocol || !answer_is_subset(&offered, &answer))
		return -EPROTO;
	if (!choose(policy, &answer, transform_of(&answer, IKE_T_KE), &chosen) ||
		chosen.wrong_group)
		return -EPROTO;
	*ret = chosen.choice;
	return 0;
}
