/* Sealing: header, IV, padding, trailer, ICV. RFC 4303 3.3; RFC 4106 and RFC 7634 for the AEADs,
 * RFC 3602 and RFC 4868 for AES-CBC with HMAC-SHA2-256-128.
 *
 * IVs. GCM and ChaCha20-Poly1305 need one that never repeats under a key: it is the sequence
 * number, 64 bits (RFC 4106 3.1, RFC 7634 2). AES-CBC needs one that nobody can foretell: it is the
 * AES-256 encryption, under a key of its own (sa.c), of a block that holds the 64-bit sequence
 * number. This is the first method of NIST SP 800-38A appendix C with a separate key: no random
 * numbers are needed on the data path, IVs do not repeat within an SA, and they look random to who
 * has not the key. The block is encrypted by taking the first 16 bytes of an AES-GCM key stream
 * whose nonce is the sequence number. */
#include "esp/priv.h"

#include <string.h>

/* Bytes of padding behind an inner packet of len bytes. */
static uint32_t pad_len(const struct esp_sa *s, uint32_t len)
{
	return (0u - (len + ESP_TRAILER)) & (s->align - 1u);
}

uint32_t esp_sealed_len(const struct tunnel_sa *sa, uint32_t len)
{
	const struct esp_sa *s = esp_sa_of_const(sa);

	return sa->headroom + len + pad_len(s, len) + ESP_TRAILER + s->icv_len;
}

uint32_t esp_inner_max(const struct tunnel_sa *sa, uint32_t datagram)
{
	const struct esp_sa *s = esp_sa_of_const(sa);
	uint32_t around = (uint32_t)sa->headroom + s->icv_len;
	uint32_t text = datagram > around ? (datagram - around) & ~(s->align - 1u) : 0;

	return text > ESP_TRAILER ? text - ESP_TRAILER : 0;
}

/* Writes everything but IV, ciphertext and ICV, and says what the crypto room has to do. */
static void prepare(struct tunnel_seal *op, uint8_t esn[static ESP_ESN_AAD], struct aead_op *ret)
{
	const struct esp_sa *s = esp_sa_of_const(op->sa);
	uint8_t *head = op->text - op->sa->headroom, *iv = head + ESP_HEADER;
	uint32_t pad = pad_len(s, op->len);
	uint8_t *tail = op->text + op->len;

	put_u32(head, s->spi);
	put_u32(head + 4, (uint32_t)op->seq);
	if (!s->lane[op->lane].iv)
		put_u64(iv, op->seq);
	for (uint32_t i = 0; i < pad; i++)
		tail[i] = (uint8_t)(i + 1); /* RFC 4303 2.4 */
	tail[pad] = (uint8_t)pad;
	tail[pad + 1] = op->next_header;
	*ret = (struct aead_op){
		.ctx = s->lane[op->lane].aead,
		.aad = view_of(head, ESP_HEADER),
		.iv = iv,
		.text = op->text,
		.text_len = op->len + pad + ESP_TRAILER,
		.icv = tail + pad + ESP_TRAILER,
	};
	if (s->esn)
		esp_bind_esn(s, op->seq, esn, ret);
}

/* One IV of a suite without counter IV: see above. False when it could not be made. */
static bool make_iv(struct aead *ctx, uint64_t seq, uint8_t iv[static ESP_IV_MAX])
{
	uint8_t counter[sizeof(seq)], unused[ESP_ICV_MAX];
	struct aead_op make = {.ctx = ctx,
		.iv = counter,
		.text = iv,
		.text_len = ESP_IV_MAX,
		.icv = unused};

	put_u64(counter, seq);
	memset(iv, 0, ESP_IV_MAX);
	return aead_seal(&make, 1) == 1;
}

static void seal_some(struct tunnel_seal *op, uint32_t n)
{
	struct aead_op aead[ESP_BATCH];
	struct tunnel_seal *of[ESP_BATCH];
	uint8_t esn[ESP_BATCH][ESP_ESN_AAD];
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct aead *iv = esp_sa_of_const(op[i].sa)->lane[op[i].lane].iv;

		op[i].sealed = 0;
		if (iv && !make_iv(iv, op[i].seq, op[i].text - ESP_IV_MAX))
			continue;
		prepare(&op[i], esn[count], &aead[count]);
		of[count++] = &op[i];
	}
	(void)aead_seal(aead, count); /* each has its result */
	for (uint32_t i = 0; i < count; i++) {
		if (aead[i].result == 0)
			of[i]->sealed = esp_sealed_len(of[i]->sa, of[i]->len);
	}
}

void esp_seal_batch(struct tunnel_seal *op, uint32_t n)
{
	for (uint32_t done = 0; done < n; done += ESP_BATCH)
		seal_some(op + done, n - done < ESP_BATCH ? n - done : ESP_BATCH);
}
