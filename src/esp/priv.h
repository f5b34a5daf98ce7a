/* What the files of this room share. Not for other rooms. */
#pragma once
#include "esp/esp.h"
#include "esp/replay.h"

enum esp_sizes {
	ESP_HEADER = 8,  /* SPI, sequence number */
	ESP_TRAILER = 2, /* pad length, next header */
	ESP_ALIGN = 4,   /* RFC 4303 2.4: the trailer ends on a 4-byte boundary */
	ESP_NEXT_IPV4 = 4,
	ESP_NEXT_IPV6 = 41,
	ESP_NEXT_NONE = 59, /* RFC 4303 2.6: dummy packet */
	ESP_IV_MAX = 16,
	ESP_ICV_MAX = 16,
	ESP_ESN_AAD = 12, /* RFC 4106 5: SPI, 64-bit number */
	ESP_BATCH = 64,   /* operations handed to the crypto room at once */
};

/* What one thread at a time may use. */
struct esp_lane {
	struct aead *aead;
	struct aead *iv; /* outbound, suites whose IV must be unpredictable: makes the IVs */
};

struct esp_sa {
	struct tunnel_sa sa; /* first: the plane's view */
	uint32_t spi;
	bool esn, is_aead;
	uint8_t iv_len, icv_len;
	uint8_t align; /* text length with padding and trailer is a multiple */
	uint8_t lanes;
	uint64_t last;         /* outbound: last number taken */
	uint64_t soft_limit;   /* outbound: numbers from here on are beyond it */
	struct replay *replay; /* inbound */
	struct esp_lane lane[];
};

static inline struct esp_sa *esp_sa_of(struct tunnel_sa *sa)
{
	return (struct esp_sa *)sa;
}

static inline const struct esp_sa *esp_sa_of_const(const struct tunnel_sa *sa)
{
	return (const struct esp_sa *)sa;
}

/* With extended numbers the high half is authenticated but not sent: inside the AAD of an AEAD (RFC
 * 4106 5, RFC 7634 2.1), behind the ciphertext otherwise (RFC 4303 2.2.1). esn lives as long as op.
 */
static inline void esp_bind_esn(const struct esp_sa *s, uint64_t seq,
	uint8_t esn[static ESP_ESN_AAD], struct aead_op *op)
{
	put_u32(esn, s->spi);
	put_u64(esn + sizeof(s->spi), seq);
	if (s->is_aead)
		op->aad = view_of(esn, ESP_ESN_AAD);
	else
		op->trailer = view_of(esn + sizeof(s->spi), sizeof(uint32_t));
}

/* Operations of struct tunnel_ops, by file: table.c, seal.c, open.c. */
int esp_table_add(void *table, struct tunnel_sa *sa);
void esp_table_remove(void *table, struct tunnel_sa *sa);
void esp_demux(void *table, struct tunnel_open *op);
uint32_t esp_sealed_len(const struct tunnel_sa *sa, uint32_t len);
uint32_t esp_inner_max(const struct tunnel_sa *sa, uint32_t datagram);
enum tunnel_limit esp_reserve(struct tunnel_sa *sa, uint32_t n, uint64_t *ret_first);
void esp_seal_batch(struct tunnel_seal *op, uint32_t n);
void esp_check(struct tunnel_open *op, uint32_t n);
void esp_open_batch(struct tunnel_open *op, uint32_t n);
enum drop_reason esp_accept(struct tunnel_open *op);
