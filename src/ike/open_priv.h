/* Between protect.c and reassembly.c: one encrypted payload, and the plain form in steps. */
#pragma once
#include "base/buf.h"
#include "ike/codec_priv.h"
#include "ike/protect_priv.h"

/* Decrypts one encrypted payload and takes its padding off. OK: *ret owns the text (a secret, to be
 * freed by the caller). Else it is untouched. */
enum ike_open_result ike_open_packet(struct ike_protect *p, const struct ike_encrypted *enc,
	struct buf *ret);
/* Starts the plain form of m: header, clear payloads, an open SK payload; append the inner chain to
 * b->out, then finish (or ike_build_free()). */
void ike_plain_begin(struct ike_build *b, const struct ike_msg *m);
/* Moves the bytes to *ret and frees the builder. 0, -ENOMEM, -EMSGSIZE (then *ret is untouched). */
int ike_plain_finish(struct ike_build *b, struct ike_opened *ret);
