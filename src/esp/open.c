/* Opening: window check, authentication and decryption, trailer; then, in order, the window moves.
 * RFC 4303 3.4. A packet that is authentic but ill-formed inside moves the window (3.4.3: it does
 * when the ICV is right), dummies too. */
#include "esp/priv.h"

static enum drop_reason drop_of(enum replay_verdict v)
{
	if (v == REPLAY_NEW)
		return DROP_NONE;
	return v == REPLAY_OLD ? DROP_REPLAY_OLD : DROP_REPLAY_DUPLICATE;
}

/* Reads the frame, finds the full sequence number, checks the window. False: op->drop is set. */
static bool check(struct tunnel_open *op)
{
	const struct esp_sa *s = esp_sa_of_const(op->sa);
	struct cur c = cur_of(op->data, op->len);
	struct view header = cur_take(&c, ESP_HEADER);
	uint32_t around = ESP_HEADER + s->iv_len + s->icv_len;

	op->checked = true;
	if (c.bad || op->len < around + ESP_TRAILER) {
		op->drop = DROP_RUNT;
		return false;
	}
	op->seq = get_u32(header.p + sizeof(s->spi));
	if (s->esn)
		op->seq = replay_infer(s->replay, (uint32_t)op->seq);
	op->drop = drop_of(replay_check(s->replay, op->seq));
	if (op->drop != DROP_NONE)
		return false;
	op->text = op->data + ESP_HEADER + s->iv_len;
	op->text_len = op->len - around;
	return true;
}

void esp_check(struct tunnel_open *op, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (op[i].drop == DROP_NONE)
			(void)check(&op[i]);
}

/* What the crypto room has to do for a datagram that passed the window. */
static void prepare(const struct tunnel_open *op, uint8_t esn[static ESP_ESN_AAD],
	struct aead_op *ret)
{
	const struct esp_sa *s = esp_sa_of_const(op->sa);

	*ret = (struct aead_op){
		.ctx = s->lane[op->lane].aead,
		.aad = view_of(op->data, ESP_HEADER),
		.iv = op->data + ESP_HEADER,
		.text = op->text,
		.text_len = op->text_len,
		.icv = op->text + op->text_len,
	};
	if (s->esn)
		esp_bind_esn(s, op->seq, esn, ret);
}

/* RFC 4303 2.4: 1, 2, 3, … */
static bool padding_well(struct view pad)
{
	for (size_t i = 0; i < pad.n; i++) {
		if (pad.p[i] != i + 1)
			return false;
	}
	return true;
}

/* Cuts TFC padding (RFC 4303 2.7): an inner packet is as long as it says. */
static enum drop_reason cut_by_ip_length(struct tunnel_open *op)
{
	enum { IP4_LENGTH_AT = 2, IP6_LENGTH_AT = 4, IP4_HEADER = 20, IP6_HEADER = 40 };
	struct cur c = cur_of(op->text, op->text_len);
	uint8_t version = cur_u8(&c) >> 4;
	uint32_t len;

	if (version != (op->next_header == ESP_NEXT_IPV4 ? 4 : 6))
		return DROP_BAD_IP;
	if (version == 4) {
		cur_skip(&c, IP4_LENGTH_AT - 1);
		len = cur_u16(&c);
	} else {
		cur_skip(&c, IP6_LENGTH_AT - 1);
		len = IP6_HEADER + (uint32_t)cur_u16(&c);
	}
	if (c.bad || len < IP4_HEADER || len > op->text_len)
		return DROP_BAD_IP;
	op->text_len = len;
	return DROP_NONE;
}

/* RFC 4303 3.4.4: trailer of an authentic packet. */
static enum drop_reason read_trailer(struct tunnel_open *op)
{
	struct cur c = cur_of(op->text, op->text_len - ESP_TRAILER);
	uint8_t pad = op->text[op->text_len - ESP_TRAILER];
	struct view text, padding;

	op->next_header = op->text[op->text_len - 1];
	op->text_len -= ESP_TRAILER;
	/* RFC 4303 2.6: the rest of a dummy need not be well-formed; accept() throws it away. */
	if (op->next_header == ESP_NEXT_NONE)
		return DROP_NONE;
	if (pad > c.n)
		return DROP_BAD_PADDING;
	text = cur_take(&c, c.n - pad);
	padding = cur_rest(&c);
	if (!padding_well(padding))
		return DROP_BAD_PADDING;
	if (op->next_header != ESP_NEXT_IPV4 && op->next_header != ESP_NEXT_IPV6)
		return DROP_BAD_NEXT_HEADER;
	op->text_len = (uint32_t)text.n;
	return cut_by_ip_length(op);
}

static void open_some(struct tunnel_open *op, uint32_t n)
{
	struct aead_op aead[ESP_BATCH];
	struct tunnel_open *of[ESP_BATCH];
	uint8_t esn[ESP_BATCH][ESP_ESN_AAD];
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (op[i].drop != DROP_NONE || (!op[i].checked && !check(&op[i])))
			continue;
		prepare(&op[i], esn[count], &aead[count]);
		of[count++] = &op[i];
	}
	(void)aead_open(aead, count); /* each has its result */
	for (uint32_t i = 0; i < count; i++)
		of[i]->drop = aead[i].result == 0 ? read_trailer(of[i]) : DROP_NOT_AUTHENTIC;
}

void esp_open_batch(struct tunnel_open *op, uint32_t n)
{
	for (uint32_t done = 0; done < n; done += ESP_BATCH)
		open_some(op + done, n - done < ESP_BATCH ? n - done : ESP_BATCH);
}

static bool is_authentic(enum drop_reason r)
{
	return r == DROP_NONE || r == DROP_BAD_PADDING || r == DROP_BAD_NEXT_HEADER ||
		r == DROP_BAD_IP;
}

enum drop_reason esp_accept(struct tunnel_open *op)
{
	struct esp_sa *s;
	enum drop_reason r;

	if (!is_authentic(op->drop))
		return op->drop;
	s = esp_sa_of(op->sa);
	r = drop_of(replay_accept(s->replay, op->seq));
	if (r != DROP_NONE)
		return op->drop = r;
	__atomic_store_n(&op->sa->highest, replay_highest(s->replay), __ATOMIC_RELAXED);
	__atomic_store_n(&op->sa->numbers, op->sa->numbers + 1, __ATOMIC_RELAXED);
	if (op->drop == DROP_NONE && op->next_header == ESP_NEXT_NONE)
		op->drop = DROP_DUMMY;
	if (op->drop != DROP_NONE)
		return op->drop;
	__atomic_store_n(&op->sa->packets, op->sa->packets + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&op->sa->bytes, op->sa->bytes + op->text_len, __ATOMIC_RELAXED);
	return DROP_NONE;
}
