/* ESP of a peer whose keys are known: UDP payloads that its link takes (RFC 4303, RFC 4106, without
 * extended sequence numbers). */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct sealed;

/* Keys from a line "SPI KEY", both in hexadecimal, the key of AES-256-GCM-16 with its salt. NULL:
 * neither. */
struct sealed *sealed_new(const char *line);

/* Writes the payload that carries an inner IPv6 packet of n bytes; room for SEALED_MORE beyond
 * those. Each has the next sequence number. Returns its length; 0: it could not be sealed. */
enum { SEALED_MORE = 64 };
size_t sealed_make(struct sealed *s, const uint8_t *inner, size_t n, uint8_t *payload);
