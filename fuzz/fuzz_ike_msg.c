/* IKE messages: the first byte is 0 for a whole message, else the type of the first payload of a
 * decrypted chain. What parses must encode, the encoding must parse to the same, and proposals must
 * be chosen from and answered without a fault. */
#include "fuzz.h"
#include "ike/codec_priv.h"
#include "ike/payload_priv.h"
#include "ike/proposal_priv.h"

/* Reads every byte that the iterators give. */
static unsigned int look(struct view v)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < v.n; i++)
		sum += v.p[i];
	return sum;
}

static unsigned int walk_sa(struct view body)
{
	struct cur c = cur_view(body);
	struct ike_proposal p;
	struct ike_transform t;
	unsigned int sum = 0;

	while (ike_proposal_next(&c, &p)) {
		struct cur transforms = cur_view(p.transforms);
		unsigned int count = 0;

		sum += look(p.spi);
		for (; ike_transform_next(&transforms, &t); count++)
			sum += look(t.attributes);
		FUZZ_ASSERT(count == p.count);
	}
	FUZZ_ASSERT(c.n == 0);
	return sum;
}

static void choose(struct view body, uint16_t ke)
{
	for (unsigned int n = 0; n < 3 * 3 * 2; n++) {
		struct ike_policy policy = {.use = n % 3,
			.post_quantum = n / 3 % 3,
			.additional_ok = n >= 9};
		struct ike_choice choice, again;
		struct ike_build b;
		struct ike_msg m;
		enum ike_select s = ike_proposal_select(&policy, body, ke, &choice);

		if (s != IKE_SELECT_OK)
			continue;
		ike_build_begin_inner(&b);
		ike_proposal_answer(&b, &choice, view_of(choice.spi, choice.spi_len));
		FUZZ_ASSERT(ike_build_finish(&b) == 0);
		FUZZ_ASSERT(ike_inner_parse(b.first, buf_view(&b.out), &m) == IKE_PARSE_OK);
		FUZZ_ASSERT(choice.kex_count <= IKE_KEX_MAX);
		/* two proposals may have one number: then the answer may not fit the first of them
		 */
		if (ike_proposal_check(&policy, body, m.payload[0].body, &again) == 0)
			FUZZ_ASSERT(again.aead == choice.aead && again.prf == choice.prf);
		ike_build_free(&b);
	}
}

static unsigned int walk(const struct ike_msg *m)
{
	const struct ike_payload *ke = ike_msg_find(m, IKE_PL_KE);
	unsigned int sum = 0, at = 0;
	struct ike_notify n;

	while (ike_notify_next(m, &at, &n))
		sum += look(n.spi) + look(n.data);
	for (unsigned int i = 0; i < m->count; i++) {
		struct view body = m->payload[i].body;

		if (m->payload[i].type == IKE_PL_SA) {
			sum += walk_sa(body);
			choose(body, ke ? ike_ke_read(ke->body).method : 0);
		} else if (m->payload[i].type == IKE_PL_TSI || m->payload[i].type == IKE_PL_TSR) {
			struct cur c = ike_ts_begin(body);
			struct ike_ts ts;

			while (ike_ts_next(&c, &ts))
				sum += look(ts.raw) + ts.start.b[0];
			FUZZ_ASSERT(c.n == 0);
		} else if (m->payload[i].type == IKE_PL_DELETE) {
			struct ike_delete d = ike_delete_read(body);

			for (unsigned int k = 0; k < d.count; k++)
				sum += ike_delete_spi(&d, k);
		} else {
			sum += look(body);
		}
	}
	return sum;
}

/* Encoding is idempotent: what was encoded parses and encodes to the same bytes. */
static void encode_again(const struct ike_msg *m, bool whole)
{
	struct ike_build a, b;
	struct ike_msg again;
	enum ike_parse_error e;

	FUZZ_ASSERT(ike_msg_encode(m, &a) == 0);
	FUZZ_ASSERT(a.out.n == m->bytes.n);
	e = whole ? ike_msg_parse(buf_view(&a.out), &again)
		  : ike_inner_parse(a.first, buf_view(&a.out), &again);
	FUZZ_ASSERT(e == IKE_PARSE_OK);
	FUZZ_ASSERT(again.count == m->count);
	FUZZ_ASSERT(ike_msg_encode(&again, &b) == 0);
	FUZZ_ASSERT(view_equal(buf_view(&a.out), buf_view(&b.out)));
	ike_build_free(&a);
	ike_build_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cur c = cur_of(data, size);
	uint8_t first = cur_u8(&c);
	struct view rest = cur_rest(&c);
	struct ike_msg m;
	enum ike_parse_error e = first ? ike_inner_parse(first, rest, &m) : ike_msg_parse(rest, &m);
	volatile unsigned int seen = 0; /* what is read must not be optimised away */

	FUZZ_ASSERT(e < IKE_PARSE_COUNT && ike_parse_text(e)[0]);
	if (rest.n > IKE_MESSAGE_MAX)
		return 0;
	if (e == IKE_PARSE_OK) {
		seen += walk(&m);
		encode_again(&m, !first);
	}
	if (ike_plain_parse(rest, &m) == IKE_PARSE_OK)
		seen += walk(&m);
	(void)seen;
	return 0;
}
