/* ESP (RFC 4303) in UDP (RFC 3948), tunnel mode, both directions: implements struct tunnel_ops.
 * SAs are made and freed by the control thread; sequence numbers, replay windows and counters
 * belong to the plane thread that has the SA. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"
#include "crypto/crypto.h"
#include "wire/tunnel.h"

struct esp_sa_config {
	const struct crypto_backend *crypto; /* NULL: OpenSSL. Borrowed, outlives the SA */
	bool inbound;
	uint32_t spi; /* host order */
	enum aead_id aead;
	const uint8_t *key, *auth; /* lengths as aead_info() says; copied into the context */
	bool esn;
	uint32_t slot, child;
	uint8_t lanes;       /* threads that may seal or open for it at once; 0: one */
	uint32_t window;     /* inbound: replay window, packets; 0: default 4096 */
	uint64_t first_seq;  /* outbound: first number to use, 0 means 1; tests start elsewhere */
	uint64_t soft_limit; /* outbound: the sequence number from which on reserve() says SOFT; 0:
	                      * default (0.75 * 2^32 without ESN, 2^62 with it) */
};

/* Makes an SA. The sum of the object is fixed at this call: no allocation later. 0, -EINVAL,
 * -ENOMEM, -EIO. */
int esp_sa_new(const struct esp_sa_config *c, struct tunnel_sa **ret);
/* Zeroes keys and frees; NULL is fine. Only after the plane has let go of it. */
void esp_sa_free(struct tunnel_sa *sa);
/* The SA's SPI in host order. */
uint32_t esp_sa_spi(const struct tunnel_sa *sa);

/* The inbound table of one plane thread: SPI -> SA, room for `capacity` SAs. */
struct esp_table;
int esp_table_new(uint32_t capacity, struct esp_table **ret);
void esp_table_free(struct esp_table *t); /* frees the table, not the SAs */

/* The operations; `table` arguments are struct esp_table. */
const struct tunnel_ops *esp_ops(void);
