/* The parser of messages and payload chains (RFC 7296 3.1, 3.2, 3.14; RFC 7383 2.5). Payload bodies
 * are checked through the table of payload.c; nothing is decrypted here. */
#include "ike/codec_priv.h"
#include "ike/payload_priv.h"

const char *ike_parse_text(enum ike_parse_error e)
{
	static const char *const texts[] = {
#define X(id, text) text,
		IKE_PARSE_ERRORS(X)
#undef X
	};

	return (unsigned int)e < IKE_PARSE_COUNT ? texts[e] : "unknown error";
}

enum ike_parse_error ike_header_parse(struct view bytes, struct ike_header *ret)
{
	struct cur c = cur_view(bytes);
	struct ike_header h = {0};

	h.spi_i = cur_u64(&c);
	h.spi_r = cur_u64(&c);
	h.next = cur_u8(&c);
	h.version = cur_u8(&c);
	h.exchange = cur_u8(&c);
	h.flags = cur_u8(&c);
	h.mid = cur_u32(&c);
	h.length = cur_u32(&c);
	if (c.bad)
		return IKE_PARSE_TRUNCATED;
	*ret = h;
	return IKE_PARSE_OK;
}

/* Takes apart the encrypted payload whose generic header was just read. It ends the message. */
static enum ike_parse_error encrypted_parse(struct ike_msg *m, const struct ike_payload *p,
	uint8_t first)
{
	struct cur c = cur_view(p->body);

	m->enc = (struct ike_encrypted){.type = p->type, .first = first, .flags = p->flags};
	if (p->type == IKE_PL_SKF) {
		m->enc.number = cur_u16(&c);
		m->enc.total = cur_u16(&c);
	}
	if (c.bad)
		return IKE_PARSE_BAD_SK;
	m->enc.rest = cur_rest(&c);
	m->enc.aad = view_of(m->bytes.p, m->bytes.n - m->enc.rest.n);
	return IKE_PARSE_OK;
}

/* Checks one payload and adds it to the message. RFC 7296 2.5: unknown payloads are skipped. */
static enum ike_parse_error payload_add(struct ike_msg *m, const struct ike_payload *p)
{
	const struct ike_payload_row *row = ike_payload_row(p->type);

	if (!row && (p->flags & 0x80))
		return IKE_PARSE_CRITICAL;
	if (row && row->once && ike_msg_find(m, p->type))
		return IKE_PARSE_DUPLICATE;
	if (row && (p->body.n < row->min || (row->check && !row->check(p->body))))
		return row->error;
	if (m->count == IKE_PAYLOADS_MAX)
		return IKE_PARSE_TOO_MANY;
	m->payload[m->count++] = *p;
	return IKE_PARSE_OK;
}

/* Walks a chain. encrypted_ok: an SK or SKF payload may end it. */
static enum ike_parse_error chain_parse(struct ike_msg *m, uint8_t first, struct cur *c,
	bool encrypted_ok)
{
	uint8_t type = first;

	while (type != IKE_PL_NONE) {
		struct ike_payload p = {.type = type};
		enum ike_parse_error e;
		uint16_t length;

		m->bad_type = type;
		type = cur_u8(c);
		p.flags = cur_u8(c);
		length = cur_u16(c);
		if (c->bad || length < IKE_PAYLOAD_HEADER_LEN)
			return IKE_PARSE_CHAIN;
		p.body = cur_take(c, length - IKE_PAYLOAD_HEADER_LEN);
		if (c->bad)
			return IKE_PARSE_CHAIN;
		if (p.type == IKE_PL_SK || p.type == IKE_PL_SKF) {
			if (!encrypted_ok)
				return IKE_PARSE_MISPLACED;
			if (c->n > 0)
				return IKE_PARSE_TRAILING;
			return encrypted_parse(m, &p, type);
		}
		e = payload_add(m, &p);
		if (e)
			return e;
	}
	return c->n > 0 ? IKE_PARSE_TRAILING : IKE_PARSE_OK;
}

enum ike_parse_error ike_msg_parse(struct view bytes, struct ike_msg *ret)
{
	struct cur c = cur_view(bytes);
	enum ike_parse_error e;

	*ret = (struct ike_msg){.bytes = bytes};
	e = ike_header_parse(bytes, &ret->h);
	if (e)
		return e;
	cur_skip(&c, IKE_HEADER_LEN);
	ret->first = ret->h.next;
	if ((ret->h.version & 0xf0) != IKE_VERSION)
		return IKE_PARSE_VERSION;
	if (ret->h.length > bytes.n)
		return IKE_PARSE_TRUNCATED;
	if (ret->h.length < bytes.n)
		return IKE_PARSE_LENGTH;
	e = chain_parse(ret, ret->first, &c, true);
	if (!e)
		ret->bad_type = 0;
	return e;
}

enum ike_parse_error ike_inner_parse(uint8_t first, struct view bytes, struct ike_msg *ret)
{
	struct cur c = cur_view(bytes);
	enum ike_parse_error e;

	*ret = (struct ike_msg){.bytes = bytes, .first = first};
	e = chain_parse(ret, first, &c, false);
	if (!e)
		ret->bad_type = 0;
	return e;
}

enum ike_parse_error ike_plain_parse(struct view whole, struct ike_msg *ret)
{
	enum ike_parse_error e = ike_msg_parse(whole, ret);
	struct cur c;

	if (e)
		return e;
	for (unsigned int i = 0; i < ret->count; i++)
		ret->payload[i].clear = true;
	c = cur_view(ret->enc.rest);
	e = chain_parse(ret, ret->enc.first, &c, false);
	if (!e)
		ret->bad_type = 0;
	return e;
}

const struct ike_payload *ike_msg_find(const struct ike_msg *m, uint8_t type)
{
	for (unsigned int i = 0; i < m->count; i++)
		if (m->payload[i].type == type)
			return &m->payload[i];
	return NULL;
}

bool ike_notify_next(const struct ike_msg *m, unsigned int *at, struct ike_notify *ret)
{
	while (*at < m->count) {
		const struct ike_payload *p = &m->payload[(*at)++];

		if (p->type == IKE_PL_NOTIFY) {
			*ret = ike_notify_read(p->body);
			return true;
		}
	}
	return false;
}

bool ike_msg_notify(const struct ike_msg *m, uint16_t type, struct ike_notify *ret)
{
	struct ike_notify n;

	for (unsigned int at = 0; ike_notify_next(m, &at, &n);) {
		if (n.type == type) {
			*ret = n;
			return true;
		}
	}
	return false;
}

bool ike_msg_error(const struct ike_msg *m, struct ike_notify *ret)
{
	struct ike_notify n;

	for (unsigned int at = 0; ike_notify_next(m, &at, &n);) {
		if (n.type < IKE_N_STATUS_FIRST) {
			*ret = n;
			return true;
		}
	}
	return false;
}
