/* Active queue management for the TUN's queue (RFC 7567), whose length a program cannot ask for. A
 * queue that was seen empty a moment ago holds nothing older than that moment: so the time since
 * then bounds how long its packets wait, and a queue that stands is one that is not seen empty for
 * long. The law by which congestion is then told is CoDel's (RFC 8289 section 5). Told is one
 * packet at a time: marked CE where the sender understands it (RFC 3168 section 5), else one
 * segment is dropped. Not here: a queue, and the marking itself (ingress.c, forward.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/time.h"

enum {
	AQM_TARGET_US = 5000,     /* a queue that is empty as often does not stand */
	AQM_INTERVAL_US = 100000, /* from when it began to stand to the first mark */
	/* bytes: what is smaller is never marked, since it is an ACK, DNS, a ping or Babel's */
	AQM_BULK = 512,
	AQM_COUNT_MAX = 1 << 16,
};

/* All zero: off. */
struct aqm {
	bool on;
	bool marking;   /* the queue stands, and its senders were told already */
	wtime empty;    /* when the queue was last seen empty */
	wtime next;     /* marking: of the next mark */
	uint32_t count; /* of marks since it stands */
};

/* The queue is empty. */
void aqm_empty(struct aqm *a, wtime now);
/* A frame of so many bytes was read: true when it is to be marked now. */
bool aqm_due(struct aqm *a, uint32_t len, wtime now);
