/* A bounded ring of messages between two threads: one writes, one reads, neither waits. Messages
 * are runs of bytes, aligned to 8, that are written and read where they lie. */
#pragma once
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_LINE = 64 }; /* bytes of a cache line */

struct ring {
	uint8_t *data;
	size_t size; /* a power of two */

	/* writer */
	alignas(RING_LINE) _Atomic size_t tail; /* bytes ever written */
	size_t head_seen;                       /* head as it last was */
	size_t reserved;                        /* bytes of the message being written; 0: none */
	size_t skip;                            /* bytes left unused before it */
	size_t look;                            /* tail at which it may begin at the front again */
	/* Position of what lies at the front of data; the writer's while the ring is empty, and
	 * handed over with tail. */
	size_t front;

	/* reader */
	alignas(RING_LINE) _Atomic size_t head; /* bytes ever read */
	size_t tail_seen;
};

/* Makes an empty ring of at least `size` bytes. 0, -EINVAL, -ENOMEM. */
int ring_init(struct ring *r, size_t size);
/* Frees its memory; a ring of zeros is fine. */
void ring_done(struct ring *r);

/* Writer: room for a message of n bytes (borrowed until ring_commit()), or NULL when there is none
 * now. A reservation that is not committed is forgotten at the next one. */
void *ring_reserve(struct ring *r, size_t n);
/* Writer: hands the reserved message over. */
void ring_commit(struct ring *r);

/* Reader: the oldest message (borrowed until ring_consume()) and its length, or NULL. */
void *ring_peek(struct ring *r, size_t *ret_n);
/* Reader: frees the room of the message last peeked. */
void ring_consume(struct ring *r);
/* Either side: false means that a message waits (or did, a moment ago, for the writer). */
bool ring_empty(const struct ring *r);
