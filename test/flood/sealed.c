/* See sealed.h. */
#include "sealed.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"

enum { KEY = 36, HEADER = 8, IV = 8, TRAILER = 2, ALIGN = 4, NEXT_IPV6 = 41 };
enum { FIRST = 1 << 20 }; /* above all that the peer has sent itself */

struct sealed {
	struct aead *aead;
	uint32_t spi, sequence;
};

struct sealed *sealed_new(const char *line)
{
	struct sealed *s = calloc(1, sizeof(*s));
	uint8_t key[KEY];
	unsigned int byte;
	int at = 0;

	if (!s || sscanf(line, "%x %n", &s->spi, &at) != 1 || !at)
		goto wrong;
	for (size_t i = 0; i < KEY; i++, at += 2) {
		if (sscanf(line + at, "%2x", &byte) != 1)
			goto wrong;
		key[i] = (uint8_t)byte;
	}
	s->sequence = FIRST;
	if (aead_new(NULL, AEAD_AES256_GCM16, view_of(key, KEY), view_of(NULL, 0), AEAD_SEALS,
		    &s->aead) < 0)
		goto wrong;
	return s;
wrong:
	free(s);
	return NULL;
}

size_t sealed_make(struct sealed *s, const uint8_t *inner, size_t n, uint8_t *payload)
{
	size_t pad = (ALIGN - (n + TRAILER) % ALIGN) % ALIGN, text = n + pad + TRAILER;
	uint8_t *p = payload + HEADER + IV;
	struct aead_op op = {.ctx = s->aead,
		.aad = view_of(payload, HEADER),
		.iv = payload + HEADER,
		.text = p,
		.text_len = text,
		.icv = p + text};
	uint32_t head[] = {htonl(s->spi), htonl(s->sequence), 0, htonl(s->sequence)};

	s->sequence++;
	memcpy(payload, head, sizeof(head)); /* the number is the IV, too */
	memcpy(p, inner, n);
	for (size_t i = 0; i < pad; i++)
		p[n + i] = (uint8_t)(i + 1);
	p[n + pad] = (uint8_t)pad;
	p[n + pad + 1] = NEXT_IPV6;
	return aead_seal(&op, 1) == 1 ? HEADER + IV + text + aead_info(AEAD_AES256_GCM16)->icv_len
				      : 0;
}
