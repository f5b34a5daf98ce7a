/* SK and SKF payloads: sealing, splitting, opening (RFC 7296 3.14, RFC 5282, RFC 7383 2.5), and the
 * plain form of RFC 9242 3.3.1. Putting fragments together is reassembly.c's. */
#include "ike/protect_priv.h"

#include <errno.h>
#include "base/mem.h"
#include "ike/open_priv.h"

enum protect_sizes {
	FRAGMENT_HEADER_LEN = 4,
	IV_MAX = 16,
	ICV_MAX = 16,
	PAYLOAD_MAX = 65535,
};

struct ike_protect {
	struct aead *out, *in;
	const struct aead_info *info;
	uint64_t counter; /* the next IV of an AEAD */
};

int ike_protect_new(const struct ike_keys *keys, bool initiator, struct ike_protect **ret)
{
	const struct aead_info *info = aead_info(keys->aead);
	struct ike_protect *p;
	int r;

	if (!info)
		return -EINVAL;
	p = w_calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->info = info;
	r = aead_new(NULL, keys->aead, view_of(initiator ? keys->ei : keys->er, info->key_len),
		view_of(initiator ? keys->ai : keys->ar, info->auth_key_len), AEAD_SEALS, &p->out);
	if (!r)
		r = aead_new(NULL, keys->aead,
			view_of(initiator ? keys->er : keys->ei, info->key_len),
			view_of(initiator ? keys->ar : keys->ai, info->auth_key_len), AEAD_OPENS,
			&p->in);
	if (r) {
		ike_protect_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void ike_protect_free(struct ike_protect *p)
{
	if (!p)
		return;
	aead_free(p->out);
	aead_free(p->in);
	w_free_secret(p, sizeof(*p));
}

void ike_protect_set_counter(struct ike_protect *p, uint64_t next)
{
	p->counter = next;
}

/* ---- Sealing ----------------------------------------------------------------------------------
 */

/* Bytes of padding in front of the pad length byte (RFC 7296 3.14). */
static size_t pad_len(const struct aead_info *a, size_t n)
{
	return (a->block - (n + 1) % a->block) % a->block;
}

/* An IV that the suite may use: a counter, or random bytes. */
static int iv_fill(struct ike_protect *p, const struct rng *rng, uint8_t iv[static IV_MAX])
{
	if (!p->info->counter_iv)
		return rng_fill(rng, iv, p->info->iv_len);
	put_u64(iv, p->counter++);
	return 0;
}

int ike_seal_packet(struct ike_protect *p, const struct rng *rng, const struct ike_packet *packet,
	struct buf *ret)
{
	const struct aead_info *a = p->info;
	size_t pad = pad_len(a, packet->text.n);
	size_t head = packet->number ? FRAGMENT_HEADER_LEN : 0;
	struct aead_op op = {.ctx = p->out, .text_len = packet->text.n + pad + 1};
	uint8_t iv[IV_MAX], *aad, *body, *payload;
	struct ike_build b;
	int r = iv_fill(p, rng, iv);

	if (r)
		return r;
	ike_build_begin(&b, packet->h);
	for (unsigned int i = 0; i < packet->clear_count; i++)
		ike_build_opaque(&b, packet->clear[i].type, packet->clear[i].flags,
			packet->clear[i].body);
	ike_build_open(&b, packet->number ? IKE_PL_SKF : IKE_PL_SK, 0);
	body = buf_room(&b.out, head + a->iv_len + op.text_len + a->icv_len);
	if (body)
		memset(body, 0, head + a->iv_len + op.text_len + a->icv_len);
	ike_build_close(&b);
	r = ike_build_finish(&b);
	if (r)
		goto out;
	aad = b.out.p;
	payload = aad + b.payload_at;
	payload[0] = packet->first;
	if (head) {
		put_u16(body, packet->number);
		put_u16(body + 2, packet->total);
	}
	op.aad = view_of(aad, b.payload_at + IKE_PAYLOAD_HEADER_LEN + head);
	memcpy(body + head, iv, a->iv_len);
	op.iv = body + head;
	op.text = body + head + a->iv_len;
	op.icv = op.text + op.text_len;
	if (packet->text.n)
		memcpy(op.text, packet->text.p, packet->text.n);
	op.text[op.text_len - 1] = (uint8_t)pad;
	if (aead_seal(&op, 1) != 1)
		r = op.result;
	else
		buf_add(ret, b.out.p, b.out.n);
	if (!r && ret->failed)
		r = -ENOMEM;
out:
	ike_build_free(&b);
	return r;
}

/* Bytes of a message around and with n bytes of text. */
static size_t packet_len(const struct aead_info *a, bool fragment, size_t n)
{
	return IKE_HEADER_LEN + IKE_PAYLOAD_HEADER_LEN + (fragment ? FRAGMENT_HEADER_LEN : 0) +
		a->iv_len + n + pad_len(a, n) + 1 + a->icv_len;
}

/* The most text that fits in a fragment of message_max bytes; 0: none. */
static size_t fragment_text(const struct aead_info *a, size_t message_max)
{
	size_t around = packet_len(a, true, 0) - pad_len(a, 0) - 1;
	size_t text = message_max > around ? message_max - around : 0;

	text -= text % a->block;
	return text ? text - 1 : 0;
}

/* Seals the whole as `total` fragments of at most `each` bytes (RFC 7383 2.5). */
static int seal_fragments(struct ike_protect *p, const struct rng *rng, struct ike_packet *packet,
	size_t each, struct ike_sealed *ret)
{
	struct cur c = cur_view(packet->text);
	uint8_t first = packet->first;
	int r = 0;

	packet->total = (uint16_t)((packet->text.n + each - 1) / each);
	for (packet->number = 1; !r && packet->number <= packet->total; packet->number++) {
		packet->text = cur_take(&c, c.n < each ? c.n : each);
		packet->first = packet->number == 1 ? first : IKE_PL_NONE;
		r = ike_seal_packet(p, rng, packet, &ret->bytes);
		ret->count++;
	}
	return r;
}

int ike_seal(struct ike_protect *p, const struct rng *rng, const struct ike_header *h,
	const struct ike_inner *inner, size_t message_max, struct ike_sealed *ret)
{
	struct ike_packet packet = {.h = h, .first = inner->first, .text = inner->bytes};
	size_t whole = packet_len(p->info, false, inner->bytes.n);
	size_t each;

	*ret = (struct ike_sealed){0};
	if (message_max == 0 || whole <= message_max) {
		if (whole > PAYLOAD_MAX)
			return -EMSGSIZE;
		ret->count = 1;
		return ike_seal_packet(p, rng, &packet, &ret->bytes);
	}
	each = fragment_text(p->info, message_max);
	if (each == 0 || inner->bytes.n > each * IKE_FRAGMENTS_MAX || whole > PAYLOAD_MAX)
		return -EMSGSIZE;
	return seal_fragments(p, rng, &packet, each, ret);
}

bool ike_sealed_next(const struct ike_sealed *s, size_t *at, struct view *ret)
{
	struct cur c = cur_view(buf_view(&s->bytes));
	struct ike_header h;

	cur_skip(&c, *at);
	if (c.bad || ike_header_parse(view_of(c.p, c.n), &h) != IKE_PARSE_OK || h.length > c.n)
		return false;
	*ret = cur_take(&c, h.length);
	*at += h.length;
	return true;
}

void ike_sealed_free(struct ike_sealed *s)
{
	buf_free(&s->bytes);
	*s = (struct ike_sealed){0};
}

/* ---- Opening ----------------------------------------------------------------------------------
 */

enum ike_open_result ike_open_packet(struct ike_protect *p, const struct ike_encrypted *enc,
	struct buf *ret)
{
	const struct aead_info *a = p->info;
	struct cur c = cur_view(enc->rest);
	struct aead_op op = {.ctx = p->in, .aad = enc->aad};
	uint8_t icv[ICV_MAX];
	struct buf text = {0};
	size_t pad;

	if (enc->rest.n < (size_t)a->iv_len + a->icv_len + 1)
		return IKE_OPEN_SHORT;
	op.text_len = enc->rest.n - a->iv_len - a->icv_len;
	if (op.text_len % a->block)
		return IKE_OPEN_SHORT;
	op.iv = cur_take(&c, a->iv_len).p;
	buf_add(&text, cur_take(&c, op.text_len).p, op.text_len);
	cur_copy(&c, icv, a->icv_len);
	if (text.failed)
		return IKE_OPEN_NO_MEMORY;
	op.text = text.p;
	op.icv = icv;
	if (aead_open(&op, 1) != 1) {
		buf_free_secret(&text);
		return op.result == -EBADMSG ? IKE_OPEN_NOT_AUTHENTIC : IKE_OPEN_CRYPTO;
	}
	pad = (size_t)text.p[text.n - 1] + 1;
	if (pad > text.n) {
		buf_free_secret(&text);
		return IKE_OPEN_PADDING;
	}
	text.n -= pad;
	*ret = text;
	return IKE_OPEN_OK;
}

const char *ike_open_text(enum ike_open_result r)
{
	static const char *const texts[] = {
#define X(id, text) text,
		IKE_OPEN_RESULTS(X)
#undef X
	};

	return (unsigned int)r < IKE_OPEN_COUNT ? texts[r] : "unknown result";
}

/* ---- The plain form (RFC 9242 3.3.1) -----------------------------------------------------------
 */

void ike_plain_begin(struct ike_build *b, const struct ike_msg *m)
{
	ike_build_begin(b, &m->h);
	for (unsigned int i = 0; i < m->count; i++)
		ike_build_opaque(b, m->payload[i].type, m->payload[i].flags, m->payload[i].body);
	ike_build_open(b, IKE_PL_SK, m->enc.flags);
	if (!b->out.failed)
		b->out.p[b->payload_at] = m->enc.first;
}

int ike_plain_finish(struct ike_build *b, struct ike_opened *ret)
{
	int r;

	ike_build_close(b);
	r = ike_build_finish(b);
	if (!r) {
		*ret = (struct ike_opened){.whole = b->out,
			.inner_at = b->payload_at + IKE_PAYLOAD_HEADER_LEN};
		b->out = (struct buf){0};
	}
	ike_build_free(b);
	return r;
}

int ike_plain_form(const struct ike_header *h, const struct ike_inner *inner, struct buf *ret)
{
	struct ike_msg m = {.h = *h, .enc = {.first = inner->first}};
	struct ike_opened o = {0};
	struct ike_build b;
	int r;

	ike_plain_begin(&b, &m);
	buf_add(&b.out, inner->bytes.p, inner->bytes.n);
	r = ike_plain_finish(&b, &o);
	if (!r)
		buf_add(ret, o.whole.p, o.whole.n);
	ike_opened_free(&o);
	return !r && ret->failed ? -ENOMEM : r;
}

void ike_opened_free(struct ike_opened *o)
{
	buf_free_secret(&o->whole);
	*o = (struct ike_opened){0};
}

enum ike_parse_error ike_opened_parse(const struct ike_opened *o, struct ike_msg *ret)
{
	return ike_plain_parse(buf_view(&o->whole), ret);
}
