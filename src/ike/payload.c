/* Payload bodies: the table of their checks and writers, and the readers. RFC 7296 3.3-3.16. What
 * a payload means is decided elsewhere; the encrypted payloads are codec.c's and protect.c's. */
#include "ike/payload_priv.h"

enum payload_lengths {
	PROPOSAL_LEN = 8,
	TRANSFORM_LEN = 8,
	TS_LEN = 8,
	IP4_LEN = 4,
	IP6_LEN = 16,
	MORE_PROPOSALS = 2,
	MORE_TRANSFORMS = 3,
	ATTR_FORMAT_TV = 0x8000,
};

/* ---- SA (RFC 7296 3.3) ---------------------------------------------------------------------- */

/* One attribute (3.3.5): type and value, or type, length and value. */
static void attribute_read(struct cur *c, struct ike_transform *t)
{
	uint16_t type = cur_u16(c);
	uint16_t value = cur_u16(c);

	if (type == (ATTR_FORMAT_TV | IKE_ATTR_KEY_LENGTH) && t->key_bits == 0) {
		t->key_bits = value;
		return;
	}
	t->unknown_attribute = true;
	if (!(type & ATTR_FORMAT_TV))
		cur_skip(c, value);
}

/* Reads one transform (3.3.2); false when it is malformed. */
static bool transform_read(struct cur *c, struct ike_transform *ret)
{
	struct ike_transform t = {0};
	struct cur attributes;
	uint8_t more = cur_u8(c);
	uint16_t length;

	cur_skip(c, 1);
	length = cur_u16(c);
	t.type = cur_u8(c);
	cur_skip(c, 1);
	t.id = cur_u16(c);
	if (c->bad || length < TRANSFORM_LEN)
		return false;
	t.attributes = cur_take(c, length - TRANSFORM_LEN);
	if (c->bad || more != (c->n > 0 ? MORE_TRANSFORMS : 0))
		return false;
	attributes = cur_view(t.attributes);
	while (attributes.n > 0 && !attributes.bad)
		attribute_read(&attributes, &t);
	if (attributes.bad)
		return false;
	*ret = t;
	return true;
}

/* Reads one proposal (3.3.1) without looking at its transforms; false when it is malformed. */
static bool proposal_read(struct cur *c, struct ike_proposal *ret)
{
	struct ike_proposal p = {0};
	uint8_t more = cur_u8(c), spi_len;
	uint16_t length;

	cur_skip(c, 1);
	length = cur_u16(c);
	p.number = cur_u8(c);
	p.protocol = cur_u8(c);
	spi_len = cur_u8(c);
	p.count = cur_u8(c);
	if (c->bad || length < PROPOSAL_LEN + spi_len)
		return false;
	p.spi = cur_take(c, spi_len);
	p.transforms = cur_take(c, length - PROPOSAL_LEN - spi_len);
	if (c->bad || more != (c->n > 0 ? MORE_PROPOSALS : 0))
		return false;
	*ret = p;
	return true;
}

static bool sa_check(struct view body)
{
	struct cur c = cur_view(body);
	struct ike_proposal p;
	struct ike_transform t;
	unsigned int count = 0;

	do {
		struct cur transforms;

		/* they are numbered from 1 in a byte (3.3.1): more would only cost time */
		if (count++ == UINT8_MAX || !proposal_read(&c, &p))
			return false;
		transforms = cur_view(p.transforms);
		for (unsigned int i = 0; i < p.count; i++)
			if (!transform_read(&transforms, &t))
				return false;
		if (transforms.n > 0)
			return false;
	} while (c.n > 0);
	return true;
}

static void sa_write(struct ike_build *b, struct view body)
{
	struct cur c = cur_view(body);
	struct ike_proposal p;
	struct ike_transform t;

	while (ike_proposal_next(&c, &p)) {
		struct cur transforms = cur_view(p.transforms);

		ike_build_proposal(b, p.number, p.protocol, p.spi);
		while (ike_transform_next(&transforms, &t))
			ike_build_transform_raw(b, &t);
	}
}

bool ike_proposal_next(struct cur *c, struct ike_proposal *ret)
{
	return c->n > 0 && proposal_read(c, ret);
}

bool ike_transform_next(struct cur *c, struct ike_transform *ret)
{
	return c->n > 0 && transform_read(c, ret);
}

/* ---- KE, ID, AUTH, Nonce (3.4, 3.5, 3.8, 3.9) ------------------------------------------------ */

struct ike_ke ike_ke_read(struct view body)
{
	struct cur c = cur_view(body);
	struct ike_ke ke = {.method = cur_u16(&c)};

	cur_skip(&c, 2);
	ke.data = cur_rest(&c);
	return ke;
}

static void ke_write(struct ike_build *b, struct view body)
{
	struct ike_ke ke = ike_ke_read(body);
	uint8_t head[4] = {0};

	put_u16(head, ke.method);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, ke.data.p, ke.data.n);
}

struct ike_id ike_id_read(struct view body)
{
	struct cur c = cur_view(body);
	struct ike_id id = {.type = cur_u8(&c)};

	cur_skip(&c, 3);
	id.data = cur_rest(&c);
	return id;
}

/* ID and AUTH have the same form: a number, three reserved bytes, data. */
static void numbered_write(struct ike_build *b, struct view body)
{
	struct ike_id id = ike_id_read(body);
	uint8_t head[4] = {id.type};

	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, id.data.p, id.data.n);
}

struct ike_auth ike_auth_read(struct view body)
{
	struct ike_id same = ike_id_read(body);

	return (struct ike_auth){.method = same.type, .data = same.data};
}

static bool nonce_check(struct view body)
{
	return body.n <= IKE_NONCE_MAX;
}

/* ---- Notify and Delete (3.10, 3.11) ---------------------------------------------------------- */

static bool notify_check(struct view body)
{
	struct cur c = cur_view(body);
	uint8_t spi_len;

	cur_skip(&c, 1);
	spi_len = cur_u8(&c);
	cur_skip(&c, 2 + (size_t)spi_len);
	return !c.bad;
}

struct ike_notify ike_notify_read(struct view body)
{
	struct cur c = cur_view(body);
	struct ike_notify n = {.protocol = cur_u8(&c)};
	uint8_t spi_len = cur_u8(&c);

	n.type = cur_u16(&c);
	n.spi = cur_take(&c, spi_len);
	n.data = cur_rest(&c);
	return n;
}

static void notify_write(struct ike_build *b, struct view body)
{
	struct ike_notify n = ike_notify_read(body);
	uint8_t head[4] = {n.protocol, (uint8_t)n.spi.n};

	put_u16(head + 2, n.type);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, n.spi.p, n.spi.n);
	buf_add(&b->out, n.data.p, n.data.n);
}

struct ike_delete ike_delete_read(struct view body)
{
	struct cur c = cur_view(body);
	struct ike_delete d = {.protocol = cur_u8(&c)};

	d.spi_len = cur_u8(&c);
	d.count = cur_u16(&c);
	d.spis = cur_rest(&c);
	return d;
}

static bool delete_check(struct view body)
{
	struct ike_delete d = ike_delete_read(body);

	if (d.spis.n != (size_t)d.count * d.spi_len)
		return false;
	if (d.protocol == IKE_PROTO_IKE)
		return d.spi_len == 0 && d.count == 0;
	if (d.protocol == IKE_PROTO_ESP || d.protocol == IKE_PROTO_AH)
		return d.spi_len == IKE_ESP_SPI_LEN;
	return true;
}

static void delete_write(struct ike_build *b, struct view body)
{
	struct ike_delete d = ike_delete_read(body);
	uint8_t head[4] = {d.protocol, d.spi_len};

	put_u16(head + 2, d.count);
	buf_add(&b->out, head, sizeof(head));
	buf_add(&b->out, d.spis.p, d.spis.n);
}

uint32_t ike_delete_spi(const struct ike_delete *d, unsigned int n)
{
	struct cur c = cur_view(d->spis);

	if (d->spi_len != IKE_ESP_SPI_LEN || n >= d->count)
		return 0;
	cur_skip(&c, (size_t)n * IKE_ESP_SPI_LEN);
	return cur_u32(&c);
}

/* ---- Traffic selectors (3.13) ---------------------------------------------------------------- */

static bool ts_read(struct cur *c, struct ike_ts *ret)
{
	struct ike_ts ts = {0};
	struct cur whole = *c, addresses;
	uint16_t length;
	size_t each = 0;

	ts.type = cur_u8(c);
	ts.protocol = cur_u8(c);
	length = cur_u16(c);
	ts.port_start = cur_u16(c);
	ts.port_end = cur_u16(c);
	if (c->bad || length < TS_LEN)
		return false;
	addresses = cur_sub(c, length - TS_LEN);
	if (c->bad)
		return false;
	if (ts.type == IKE_TS_IPV4_RANGE)
		each = IP4_LEN;
	else if (ts.type == IKE_TS_IPV6_RANGE)
		each = IP6_LEN;
	if (each && addresses.n != 2 * each)
		return false;
	if (each) {
		enum ip_family family = each == IP4_LEN ? IP4 : IP6;

		ts.start = ipaddr_from(family, cur_take(&addresses, each).p);
		ts.end = ipaddr_from(family, cur_take(&addresses, each).p);
	}
	ts.raw = cur_take(&whole, length);
	*ret = ts;
	return true;
}

static bool ts_check(struct view body)
{
	struct cur c = cur_view(body);
	unsigned int count = cur_u8(&c);
	struct ike_ts ts;

	cur_skip(&c, 3);
	for (unsigned int i = 0; i < count; i++)
		if (!ts_read(&c, &ts))
			return false;
	return count > 0 && !c.bad && c.n == 0;
}

struct cur ike_ts_begin(struct view body)
{
	struct cur c = cur_view(body);

	cur_skip(&c, 4);
	return c;
}

bool ike_ts_next(struct cur *c, struct ike_ts *ret)
{
	return c->n > 0 && ts_read(c, ret);
}

static void ts_write(struct ike_build *b, struct view body)
{
	struct cur c = ike_ts_begin(body);
	size_t count_at = b->out.n;
	uint8_t head[4] = {0};
	struct ike_ts ts;

	buf_add(&b->out, head, sizeof(head));
	while (ike_ts_next(&c, &ts)) {
		buf_add(&b->out, ts.raw.p, ts.raw.n);
		if (!b->out.failed)
			b->out.p[count_at]++;
	}
}

/* ---- CP and EAP (3.15, 3.16): only their form, none is acted on ------------------------------ */

static bool cp_check(struct view body)
{
	struct cur c = cur_view(body);

	cur_skip(&c, 4);
	while (c.n > 0 && !c.bad) {
		cur_skip(&c, 2);
		cur_skip(&c, cur_u16(&c));
	}
	return !c.bad;
}

static bool eap_check(struct view body)
{
	struct cur c = cur_view(body);

	cur_skip(&c, 2);
	return cur_u16(&c) == body.n;
}

/* ---- The table --------------------------------------------------------------------------------
 */

static const struct ike_payload_row rows[] = {
	{IKE_PL_SA, true, "SA", PROPOSAL_LEN, IKE_PARSE_BAD_SA, sa_check, sa_write},
	{IKE_PL_KE, true, "KE", 5, IKE_PARSE_BAD_KE, NULL, ke_write},
	{IKE_PL_IDI, true, "IDi", 4, IKE_PARSE_BAD_ID, NULL, numbered_write},
	{IKE_PL_IDR, true, "IDr", 4, IKE_PARSE_BAD_ID, NULL, numbered_write},
	{IKE_PL_CERT, false, "CERT", 1, IKE_PARSE_BAD_CERT, NULL, NULL},
	{IKE_PL_CERTREQ, false, "CERTREQ", 1, IKE_PARSE_BAD_CERT, NULL, NULL},
	{IKE_PL_AUTH, true, "AUTH", 4, IKE_PARSE_BAD_AUTH, NULL, numbered_write},
	{IKE_PL_NONCE, true, "Nonce", IKE_NONCE_MIN, IKE_PARSE_BAD_NONCE, nonce_check, NULL},
	{IKE_PL_NOTIFY, false, "N", 4, IKE_PARSE_BAD_NOTIFY, notify_check, notify_write},
	{IKE_PL_DELETE, false, "D", 4, IKE_PARSE_BAD_DELETE, delete_check, delete_write},
	{IKE_PL_VENDOR, false, "V", 0, IKE_PARSE_OK, NULL, NULL},
	{IKE_PL_TSI, true, "TSi", 4, IKE_PARSE_BAD_TS, ts_check, ts_write},
	{IKE_PL_TSR, true, "TSr", 4, IKE_PARSE_BAD_TS, ts_check, ts_write},
	{IKE_PL_CP, true, "CP", 4, IKE_PARSE_BAD_CP, cp_check, NULL},
	{IKE_PL_EAP, true, "EAP", 4, IKE_PARSE_BAD_EAP, eap_check, NULL},
};

const struct ike_payload_row *ike_payload_rows(size_t *ret_n)
{
	*ret_n = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

const struct ike_payload_row *ike_payload_row(uint8_t type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == type)
			return &rows[i];
	return NULL;
}

const char *ike_payload_name(uint8_t type)
{
	const struct ike_payload_row *row = ike_payload_row(type);

	if (row)
		return row->name;
	return type == IKE_PL_SK ? "SK" : type == IKE_PL_SKF ? "SKF" : "unknown";
}
