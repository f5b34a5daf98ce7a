/* The table of payload types: one row a type, between the parser, the builder and the fuzzers. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cur.h"
#include "ike/codec_priv.h"

struct ike_payload_row {
	uint8_t type;               /* enum ike_payload_type */
	bool once;                  /* at most one in a message */
	const char *name;           /* as in RFC 7296: "SA", "KE", ... */
	size_t min;                 /* bytes of the body, at least */
	enum ike_parse_error error; /* what a bad body is called */
	/* True when the whole body is well-formed. NULL: whatever has min bytes. */
	bool (*check)(struct view body);
	/* Writes the decoded body again into the open payload. NULL: copies it. */
	void (*write)(struct ike_build *b, struct view body);
};

/* All rows (the encrypted payloads have none: the parser takes them apart). */
const struct ike_payload_row *ike_payload_rows(size_t *ret_n);
/* The row of a type, NULL when it is unknown. */
const struct ike_payload_row *ike_payload_row(uint8_t type);
/* "SA", ..., "SK", "SKF", or "unknown". */
const char *ike_payload_name(uint8_t type);
