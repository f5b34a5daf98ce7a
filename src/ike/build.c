/* The builder of messages and payload chains. RFC 7296 3. Numbers are written as given: what makes
 * sense is the caller's business. */
#include <errno.h>
#include "ike/codec_priv.h"
#include "ike/payload_priv.h"

enum build_lengths {
	NEXT_AT = 16,   /* next payload in the IKE header */
	LENGTH_AT = 24, /* length in the IKE header */
	NUMBER_MAX = 65535,
	PROPOSAL_LENGTH_AT = 2,
	PROPOSAL_COUNT_AT = 7,
	MORE_PROPOSALS = 2,
	MORE_TRANSFORMS = 3,
	ATTR_FORMAT_TV = 0x8000,
};

static bool build_bad(const struct ike_build *b)
{
	return b->failed || b->out.failed;
}

void ike_build_begin(struct ike_build *b, const struct ike_header *h)
{
	uint8_t *p;

	*b = (struct ike_build){.with_header = true, .next_at = NEXT_AT};
	p = buf_room(&b->out, IKE_HEADER_LEN);
	if (!p)
		return;
	put_u64(p, h->spi_i);
	put_u64(p + 8, h->spi_r);
	p[NEXT_AT] = IKE_PL_NONE;
	p[17] = h->version;
	p[18] = h->exchange;
	p[19] = h->flags;
	put_u32(p + 20, h->mid);
	put_u32(p + LENGTH_AT, IKE_HEADER_LEN);
}

void ike_build_begin_inner(struct ike_build *b)
{
	*b = (struct ike_build){.next_at = SIZE_MAX};
}

void ike_build_open(struct ike_build *b, uint8_t type, uint8_t flags)
{
	uint8_t head[IKE_PAYLOAD_HEADER_LEN] = {IKE_PL_NONE, flags};

	if (build_bad(b))
		return;
	if (b->next_at != SIZE_MAX)
		b->out.p[b->next_at] = type;
	if (b->first == IKE_PL_NONE)
		b->first = type;
	b->payload_at = b->next_at = b->out.n;
	b->proposal_at = b->transform_at = 0;
	buf_add(&b->out, head, sizeof(head));
}

void ike_build_close(struct ike_build *b)
{
	size_t n;

	if (build_bad(b))
		return;
	n = b->out.n - b->payload_at;
	if (n > NUMBER_MAX)
		b->failed = true;
	else
		put_u16(b->out.p + b->payload_at + 2, (uint16_t)n);
}

void ike_build_opaque(struct ike_build *b, uint8_t type, uint8_t flags, struct view body)
{
	ike_build_open(b, type, flags);
	buf_add(&b->out, body.p, body.n);
	ike_build_close(b);
}

void ike_build_sa_open(struct ike_build *b)
{
	ike_build_open(b, IKE_PL_SA, 0);
}

/* Brings the length of the proposal being written up to date. */
static void proposal_grown(struct ike_build *b)
{
	size_t n;

	if (build_bad(b))
		return;
	n = b->out.n - b->proposal_at;
	if (n > NUMBER_MAX)
		b->failed = true;
	else
		put_u16(b->out.p + b->proposal_at + PROPOSAL_LENGTH_AT, (uint16_t)n);
}

void ike_build_proposal(struct ike_build *b, uint8_t number, uint8_t protocol, struct view spi)
{
	uint8_t head[8] = {0, 0, 0, 0, number, protocol, (uint8_t)spi.n, 0};

	if (build_bad(b))
		return;
	if (spi.n > UINT8_MAX) {
		b->failed = true;
		return;
	}
	if (b->proposal_at)
		b->out.p[b->proposal_at] = MORE_PROPOSALS;
	b->proposal_at = b->out.n;
	b->transform_at = 0;
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, spi.p, spi.n);
	proposal_grown(b);
}

void ike_build_transform_raw(struct ike_build *b, const struct ike_transform *t)
{
	uint8_t head[8] = {0, 0, 0, 0, t->type};

	if (build_bad(b))
		return;
	if (!b->proposal_at || b->out.p[b->proposal_at + PROPOSAL_COUNT_AT] == UINT8_MAX ||
		t->attributes.n > NUMBER_MAX - sizeof(head)) {
		b->failed = true;
		return;
	}
	if (b->transform_at)
		b->out.p[b->transform_at] = MORE_TRANSFORMS;
	b->transform_at = b->out.n;
	put_u16(head + 2, (uint16_t)(sizeof(head) + t->attributes.n));
	put_u16(head + 6, t->id);
	b->out.p[b->proposal_at + PROPOSAL_COUNT_AT]++;
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, t->attributes.p, t->attributes.n);
	proposal_grown(b);
}

void ike_build_transform(struct ike_build *b, uint8_t type, uint16_t id, uint16_t key_bits)
{
	struct ike_transform t = {.type = type, .id = id};
	uint8_t attribute[4];

	put_u16(attribute, ATTR_FORMAT_TV | IKE_ATTR_KEY_LENGTH);
	put_u16(attribute + 2, key_bits);
	if (key_bits)
		t.attributes = view_of(attribute, sizeof(attribute));
	ike_build_transform_raw(b, &t);
}

void ike_build_ke(struct ike_build *b, uint16_t method, struct view data)
{
	uint8_t head[4] = {0};

	put_u16(head, method);
	ike_build_open(b, IKE_PL_KE, 0);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, data.p, data.n);
	ike_build_close(b);
}

/* ID and AUTH: a number, three reserved bytes, data. */
static void build_numbered(struct ike_build *b, uint8_t type, uint8_t number, struct view data)
{
	uint8_t head[4] = {number};

	ike_build_open(b, type, 0);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, data.p, data.n);
	ike_build_close(b);
}

void ike_build_id(struct ike_build *b, uint8_t type, const struct ike_id *id)
{
	build_numbered(b, type, id->type, id->data);
}

void ike_build_auth(struct ike_build *b, const struct ike_auth *auth)
{
	build_numbered(b, IKE_PL_AUTH, auth->method, auth->data);
}

void ike_build_nonce(struct ike_build *b, struct view nonce)
{
	ike_build_opaque(b, IKE_PL_NONCE, 0, nonce);
}

void ike_build_notify(struct ike_build *b, const struct ike_notify *n)
{
	uint8_t head[4] = {n->protocol, (uint8_t)n->spi.n};

	if (n->spi.n > UINT8_MAX)
		b->failed = true;
	put_u16(head + 2, n->type);
	ike_build_open(b, IKE_PL_NOTIFY, 0);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, n->spi.p, n->spi.n);
	buf_add(&b->out, n->data.p, n->data.n);
	ike_build_close(b);
}

void ike_build_status(struct ike_build *b, uint16_t type, struct view data)
{
	ike_build_notify(b, &(struct ike_notify){.type = type, .data = data});
}

void ike_build_delete(struct ike_build *b, const uint32_t *spis, unsigned int n)
{
	uint8_t head[4] = {n ? IKE_PROTO_ESP : IKE_PROTO_IKE, n ? IKE_ESP_SPI_LEN : 0};

	if (n > NUMBER_MAX)
		b->failed = true;
	put_u16(head + 2, (uint16_t)n);
	ike_build_open(b, IKE_PL_DELETE, 0);
	buf_add(&b->out, head, sizeof(head));
	for (unsigned int i = 0; i < n; i++) {
		uint8_t *p = buf_room(&b->out, IKE_ESP_SPI_LEN);

		if (p)
			put_u32(p, spis[i]);
	}
	ike_build_close(b);
}

static void build_selector(struct ike_build *b, const struct ike_ts *ts)
{
	size_t each = ipaddr_bits(&ts->start) / 8;
	uint8_t head[8] = {ts->type, ts->protocol};

	put_u16(head + 2, (uint16_t)(sizeof(head) + 2 * each));
	put_u16(head + 4, ts->port_start);
	put_u16(head + 6, ts->port_end);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, ts->start.b, each);
	buf_add(&b->out, ts->end.b, each);
}

void ike_build_ts(struct ike_build *b, uint8_t type, const struct ike_ts *ts, unsigned int n)
{
	uint8_t head[4] = {(uint8_t)n};

	if (n > UINT8_MAX)
		b->failed = true;
	ike_build_open(b, type, 0);
	buf_add(&b->out, head, sizeof(head));
	for (unsigned int i = 0; i < n; i++)
		build_selector(b, &ts[i]);
	ike_build_close(b);
}

void ike_build_ts_any(struct ike_build *b, uint8_t type)
{
	struct ike_ts any[] = {
		{.type = IKE_TS_IPV4_RANGE, .port_end = UINT16_MAX},
		{.type = IKE_TS_IPV6_RANGE, .port_end = UINT16_MAX},
	};
	uint8_t low[16] = {0}, high[16];

	memset(high, 0xff, sizeof(high));
	for (unsigned int i = 0; i < 2; i++) {
		any[i].start = ipaddr_from(i ? IP6 : IP4, low);
		any[i].end = ipaddr_from(i ? IP6 : IP4, high);
	}
	ike_build_ts(b, type, any, 2);
}

int ike_build_finish(struct ike_build *b)
{
	if (b->out.failed)
		return -ENOMEM;
	if (b->failed || b->out.n > IKE_MESSAGE_MAX)
		return -EMSGSIZE;
	if (b->with_header)
		put_u32(b->out.p + LENGTH_AT, (uint32_t)b->out.n);
	return 0;
}

void ike_build_free(struct ike_build *b)
{
	buf_free_secret(&b->out);
	*b = (struct ike_build){0};
}

/* The encrypted payload of a parsed message, as it was. */
static void encode_encrypted(struct ike_build *b, const struct ike_encrypted *enc)
{
	uint8_t fragment[4];

	ike_build_open(b, enc->type, enc->flags);
	if (build_bad(b))
		return;
	b->out.p[b->payload_at] = enc->first;
	put_u16(fragment, enc->number);
	put_u16(fragment + 2, enc->total);
	if (enc->type == IKE_PL_SKF)
		buf_add(&b->out, fragment, sizeof(fragment));
	buf_add(&b->out, enc->rest.p, enc->rest.n);
	ike_build_close(b);
}

int ike_msg_encode(const struct ike_msg *m, struct ike_build *b)
{
	if (m->h.version)
		ike_build_begin(b, &m->h);
	else
		ike_build_begin_inner(b);
	for (unsigned int i = 0; i < m->count; i++) {
		const struct ike_payload *p = &m->payload[i];
		const struct ike_payload_row *row = ike_payload_row(p->type);

		ike_build_open(b, p->type, p->flags);
		if (row && row->write)
			row->write(b, p->body);
		else
			buf_add(&b->out, p->body.p, p->body.n);
		ike_build_close(b);
	}
	if (m->enc.type)
		encode_encrypted(b, &m->enc);
	return ike_build_finish(b);
}
