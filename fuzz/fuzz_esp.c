/* ESP datagrams. The first byte says how the rest is used: as it is, or as the text (padding and
 * trailer included) of a packet with a right ICV, so that the fuzzer gets behind the authentication
 * with trailers that no honest sender writes. Both directions have keys that are known. */
#include "fuzz.h"

#include <string.h>
#include "esp/esp.h"

enum { DATA_MAX = 4096, SPI = 0x01020304, SUITE_MASK = 7, ESN = 0x10, RAW = 0x20, DUMMY = 59 };

static const uint8_t zeros[64];

/* Header, IV and a right ICV around the text. Returns the datagram's length. */
static uint32_t wrap(enum aead_id id, bool esn, struct view text, uint8_t *out)
{
	const struct aead_info *info = aead_info(id);
	uint8_t aad[12] = {0};
	size_t n = text.n - text.n % info->block;
	struct aead_op op = {.iv = out + 8,
		.text = out + 8 + info->iv_len,
		.text_len = n,
		.icv = out + 8 + info->iv_len + n,
		.aad = view_of(out, 8)};

	put_u32(out, SPI);
	put_u32(out + 4, 1);
	memset(out + 8, 7, info->iv_len);
	memcpy(op.text, text.p, n);
	put_u32(aad, SPI);
	put_u32(aad + 8, 1);
	if (esn && info->is_aead)
		op.aad = view_of(aad, sizeof(aad));
	else if (esn)
		op.trailer = view_of(aad + 4, 4);
	FUZZ_ASSERT(aead_new(NULL, id, view_of(zeros, info->key_len),
			    view_of(zeros, info->auth_key_len), AEAD_BOTH, &op.ctx) == 0);
	FUZZ_ASSERT(aead_seal(&op, 1) == 1);
	aead_free(op.ctx);
	return (uint32_t)(8 + info->iv_len + n + info->icv_len);
}

static void check(const struct tunnel_open *op, const uint8_t *data, uint32_t len)
{
	if (op->drop != DROP_NONE || op->next_header == DUMMY)
		return;
	/* What is let through lies inside the datagram and is as long as its header says. */
	FUZZ_ASSERT(op->text >= data && op->text + op->text_len <= data + len);
	FUZZ_ASSERT(op->text_len >= 20);
	FUZZ_ASSERT(op->text[0] >> 4 == (op->next_header == 4 ? 4 : 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t datagram[DATA_MAX + 128];
	enum aead_id id;
	struct tunnel_sa *sa;
	struct esp_table *table;
	struct tunnel_open op = {.data = datagram};
	bool authentic, esn;

	if (size < 1 || size > DATA_MAX)
		return 0;
	id = (enum aead_id)(1 + (data[0] & SUITE_MASK) % (AEAD_COUNT - 1));
	esn = data[0] & ESN;
	authentic = !(data[0] & RAW);
	if (authentic) {
		op.len = wrap(id, esn, view_of(data + 1, size - 1), datagram);
	} else {
		memcpy(datagram, data + 1, size - 1);
		op.len = (uint32_t)size - 1;
	}
	FUZZ_ASSERT(esp_sa_new(&(struct esp_sa_config){.inbound = true,
				       .spi = SPI,
				       .aead = id,
				       .key = zeros,
				       .auth = zeros,
				       .esn = esn},
			    &sa) == 0);
	FUZZ_ASSERT(esp_table_new(4, &table) == 0);
	FUZZ_ASSERT(esp_ops()->add(table, sa) == 0);
	esp_ops()->demux(table, &op);
	esp_ops()->open_batch(&op, 1);
	FUZZ_ASSERT(!authentic || op.drop != DROP_NOT_AUTHENTIC);
	check(&op, datagram, op.len);
	(void)esp_ops()->accept(&op);
	FUZZ_ASSERT(!authentic || op.drop == DROP_RUNT || sa->highest == 1);
	esp_ops()->remove(table, sa);
	esp_table_free(table);
	esp_sa_free(sa);
	return 0;
}
