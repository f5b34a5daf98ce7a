/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linkem: a wire between two TAP devices that treats frames badly, as told.
 *
 * Each direction has a line: settings, a random stream of its own and a queue of frames by due
 * time. A frame passes in this order: MTU, loss, duplication, rate and queue limit, CE mark,
 * delay and jitter, reordering. Jitter alone keeps the order; `reorder` holds single frames back
 * so that later ones overtake them.
 *
 * What it does not do: send ICMP (a frame above the MTU just vanishes, as in a black hole),
 * look into VLAN tags, or keep up with gigabits.
 */
#ifndef LINKEM_H
#define LINKEM_H

#include <stddef.h>
#include <stdint.h>

enum {
	LINKEM_FRAME_MAX = 65550,    /* the largest frame that a TAP device hands out */
	LINKEM_QUEUE_FRAMES = 65536, /* hard bound of one direction, whatever the settings */
	LINKEM_ETHER_LEN = 14,
};

/* What a direction does to frames; all zero is a perfect wire. */
struct linkem_settings {
	double delay_ms;    /* one way */
	double jitter_ms;   /* adds a uniform 0..jitter_ms */
	double loss;        /* probability, 0..1; 1 is a cut wire */
	double reorder;     /* probability that a frame is held back */
	double reorder_ms;  /* for how long */
	double duplicate;   /* probability */
	double rate_mbit;   /* 0: no limit; counts the Ethernet frame */
	double queue_bytes; /* waiting for the rate; beyond it frames are dropped; 0: no limit */
	double mtu;         /* largest IP packet; 0: any */
	double ce;          /* probability that an ECT packet is marked CE (RFC 3168) */
	double ce_bytes;    /* marks ECT packets when more than this waits; 0: never */
};

struct linkem_counters {
	uint64_t in, out, bytes_in, bytes_out;
	uint64_t lost, full, too_big, duplicated, reordered, marked, refused;
};

struct linkem_frame {
	int64_t due_ns;
	uint64_t number; /* ties leave in order of arrival */
	uint32_t len;
	uint8_t data[];
};

/* One direction. */
struct linkem_line {
	struct linkem_settings set;
	struct linkem_counters count;
	uint64_t random;
	int64_t sent_ns;    /* when the last frame left the rate limiter */
	int64_t ordered_ns; /* due time of the last frame that keeps the order */
	uint64_t numbers;
	struct linkem_frame **heap; /* LINKEM_QUEUE_FRAMES slots, owned, as are the frames */
	size_t n;
};

/* Prepares a direction with the given seed. Returns 0 or -ENOMEM; linkem_line_close frees. */
int linkem_line_open(struct linkem_line *line, uint64_t seed);
void linkem_line_close(struct linkem_line *line);

/* Takes a frame (copied) at now_ns: queues it once, twice or not at all. */
void linkem_line_put(struct linkem_line *line, int64_t now_ns, const uint8_t *data, size_t len);

/* The frame that is due at now_ns or NULL; the caller gets it owned, to be given to free(). */
struct linkem_frame *linkem_line_take(struct linkem_line *line, int64_t now_ns);

/* When the next frame is due, or INT64_MAX. */
int64_t linkem_line_deadline(const struct linkem_line *line);

/*
 * Sets "key=value key=value ..." (the names of struct linkem_settings) in *set, which stays
 * untouched when a word is wrong. words is cut up. Returns NULL or what is wrong.
 */
const char *linkem_settings_parse(struct linkem_settings *set, char *words);

/* Writes settings and counters as one JSON object, NUL-terminated; returns its length. */
size_t linkem_line_print(const struct linkem_line *line, char *buf, size_t size);

/* The queue: a binary heap by (due_ns, number). push owns the frame; it must not be full. */
void linkem_heap_push(struct linkem_line *line, struct linkem_frame *frame);
struct linkem_frame *linkem_heap_pop(struct linkem_line *line);

#endif
