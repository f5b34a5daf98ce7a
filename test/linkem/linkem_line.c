/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of the wire: which frames pass, when, and how often. CE marks by RFC 3168 5 and,
 * for the IPv4 header checksum, RFC 1624.
 */
#include "linkem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ETHERTYPE_AT = 12,
	ETHERTYPE_IP4 = 0x0800,
	ETHERTYPE_IP6 = 0x86dd,
	IP4_LEN = 20,
	IP4_SUM_AT = 10,
	IP6_LEN = 40,
	ECN_MASK = 3,
	ECN_NOT_ECT = 0,
	ECN_CE = 3,
};

#define NS_PER_MS 1e6

struct setting {
	const char *name;
	size_t offset;
	double max;
};

#define SETTING(field, max)                                                                        \
	{                                                                                          \
#field, offsetof(struct linkem_settings, field), max                               \
	}

static const struct setting settings[] = {
	SETTING(delay_ms, 60000),
	SETTING(jitter_ms, 60000),
	SETTING(loss, 1),
	SETTING(reorder, 1),
	SETTING(reorder_ms, 60000),
	SETTING(duplicate, 1),
	SETTING(rate_mbit, 1e6),
	SETTING(queue_bytes, 1e9),
	SETTING(mtu, 65535),
	SETTING(ce, 1),
	SETTING(ce_bytes, 1e9),
};

enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };

int linkem_line_open(struct linkem_line *line, uint64_t seed)
{
	memset(line, 0, sizeof(*line));
	line->random = seed;
	line->heap = calloc(LINKEM_QUEUE_FRAMES, sizeof(struct linkem_frame *));
	return line->heap ? 0 : -ENOMEM;
}

void linkem_line_close(struct linkem_line *line)
{
	struct linkem_frame *frame;

	while ((frame = linkem_heap_pop(line)))
		free(frame);
	free(line->heap);
	line->heap = NULL;
}

/* splitmix64, as a number in [0, 1) */
static double line_chance(struct linkem_line *line)
{
	uint64_t z = line->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Sets CE on an ECT packet; returns whether it did. */
static int frame_mark(uint8_t *data, size_t len)
{
	unsigned type = (unsigned)data[ETHERTYPE_AT] << 8 | data[ETHERTYPE_AT + 1];
	uint8_t *ip = data + LINKEM_ETHER_LEN;
	uint32_t sum;
	unsigned ecn;

	if (type == ETHERTYPE_IP6 && len >= LINKEM_ETHER_LEN + IP6_LEN) {
		ecn = ip[1] >> 4 & ECN_MASK;
		if (ecn == ECN_NOT_ECT || ecn == ECN_CE)
			return 0;
		ip[1] |= ECN_CE << 4;
		return 1;
	}
	if (type != ETHERTYPE_IP4 || len < LINKEM_ETHER_LEN + IP4_LEN)
		return 0;
	ecn = ip[1] & ECN_MASK;
	if (ecn == ECN_NOT_ECT || ecn == ECN_CE)
		return 0;
	/* RFC 1624 3: HC' = ~(~HC + ~m + m'), and here m' = m + (CE - ecn) */
	sum = (~((uint32_t)ip[IP4_SUM_AT] << 8 | ip[IP4_SUM_AT + 1]) & 0xffff) + ECN_CE - ecn;
	sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
	ip[1] |= ECN_CE;
	ip[IP4_SUM_AT] = (uint8_t)(sum >> 8);
	ip[IP4_SUM_AT + 1] = (uint8_t)sum;
	return 1;
}

/* What chance decided for a frame; always drawn whole, so settings do not shift the stream. */
struct draw {
	double loss, duplicate, jitter, reorder, ce;
};

static struct draw line_draw(struct linkem_line *line)
{
	struct draw draw;

	draw.loss = line_chance(line);
	draw.duplicate = line_chance(line);
	draw.jitter = line_chance(line);
	draw.reorder = line_chance(line);
	draw.ce = line_chance(line);
	return draw;
}

/* Passes the rate limiter: when the frame has left it, or -1 if the queue has no room. */
static int64_t line_rate(struct linkem_line *line, int64_t now_ns, size_t len, double *ret_waiting)
{
	double ns_per_byte = line->set.rate_mbit > 0 ? 8000 / line->set.rate_mbit : 0;
	int64_t start = line->sent_ns > now_ns ? line->sent_ns : now_ns;
	double waiting;

	if (ns_per_byte <= 0) {
		line->sent_ns = now_ns;
		*ret_waiting = 0;
		return now_ns;
	}
	waiting = (double)(start - now_ns) / ns_per_byte;
	if (line->set.queue_bytes > 0 && waiting + (double)len > line->set.queue_bytes)
		return -1;
	line->sent_ns = start + (int64_t)((double)len * ns_per_byte);
	*ret_waiting = waiting;
	return line->sent_ns;
}

static void line_queue(struct linkem_line *line, int64_t now_ns, const struct draw *draw,
	const uint8_t *data, size_t len)
{
	struct linkem_frame *frame = NULL;
	double waiting = 0;
	int64_t due = -1;

	if (line->n < LINKEM_QUEUE_FRAMES)
		due = line_rate(line, now_ns, len, &waiting);
	if (due >= 0)
		frame = malloc(sizeof(*frame) + len);
	if (!frame) {
		line->count.full++;
		return;
	}
	memcpy(frame->data, data, len);
	frame->len = (uint32_t)len;
	frame->number = line->numbers++;
	if (draw->ce < line->set.ce || (line->set.ce_bytes > 0 && waiting > line->set.ce_bytes))
		line->count.marked += (uint64_t)frame_mark(frame->data, len);
	due += (int64_t)((line->set.delay_ms + draw->jitter * line->set.jitter_ms) * NS_PER_MS);
	if (draw->reorder < line->set.reorder) {
		due += (int64_t)(line->set.reorder_ms * NS_PER_MS);
		line->count.reordered++;
	} else {
		if (line->set.jitter_ms > 0 && due < line->ordered_ns)
			due = line->ordered_ns;
		line->ordered_ns = due;
	}
	frame->due_ns = due;
	linkem_heap_push(line, frame);
}

void linkem_line_put(struct linkem_line *line, int64_t now_ns, const uint8_t *data, size_t len)
{
	struct draw draw = line_draw(line);

	line->count.in++;
	line->count.bytes_in += len;
	if (len < LINKEM_ETHER_LEN ||
		(line->set.mtu > 0 && (double)(len - LINKEM_ETHER_LEN) > line->set.mtu)) {
		line->count.too_big++;
		return;
	}
	if (draw.loss < line->set.loss) {
		line->count.lost++;
		return;
	}
	line_queue(line, now_ns, &draw, data, len);
	if (draw.duplicate < line->set.duplicate) {
		line->count.duplicated++;
		line_queue(line, now_ns, &draw, data, len);
	}
}

struct linkem_frame *linkem_line_take(struct linkem_line *line, int64_t now_ns)
{
	if (linkem_line_deadline(line) > now_ns)
		return NULL;
	return linkem_heap_pop(line);
}

int64_t linkem_line_deadline(const struct linkem_line *line)
{
	return line->n > 0 ? line->heap[0]->due_ns : INT64_MAX;
}

static double *setting_of(struct linkem_settings *set, const struct setting *s)
{
	return (double *)(void *)((char *)set + s->offset);
}

const char *linkem_settings_parse(struct linkem_settings *set, char *words)
{
	struct linkem_settings want = *set;
	char *word, *save = NULL, *value, *end;
	double number;
	size_t i;

	for (word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		value = strchr(word, '=');
		if (!value)
			return "a setting is key=value";
		*value++ = '\0';
		for (i = 0; i < N_SETTINGS && strcmp(word, settings[i].name) != 0; i++)
			;
		if (i == N_SETTINGS)
			return "no such setting";
		number = strtod(value, &end);
		if (end == value || *end || !(number >= 0 && number <= settings[i].max))
			return "a value is not a number or out of range";
		*setting_of(&want, &settings[i]) = number;
	}
	*set = want;
	return NULL;
}

size_t linkem_line_print(const struct linkem_line *line, char *buf, size_t size)
{
	const struct linkem_counters *c = &line->count;
	struct linkem_settings set = line->set;
	size_t i, len = 0;

	len += (size_t)snprintf(buf, size, "{");
	for (i = 0; i < N_SETTINGS; i++)
		len += (size_t)snprintf(buf + len, size - len, "\"%s\": %g, ", settings[i].name,
			*setting_of(&set, &settings[i]));
	len += (size_t)snprintf(buf + len, size - len,
		"\"in\": %llu, \"out\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu, "
		"\"lost\": %llu, \"full\": %llu, \"too_big\": %llu, \"duplicated\": %llu, "
		"\"reordered\": %llu, \"marked\": %llu, \"refused\": %llu, \"queued\": %zu}",
		(unsigned long long)c->in, (unsigned long long)c->out,
		(unsigned long long)c->bytes_in, (unsigned long long)c->bytes_out,
		(unsigned long long)c->lost, (unsigned long long)c->full,
		(unsigned long long)c->too_big, (unsigned long long)c->duplicated,
		(unsigned long long)c->reordered, (unsigned long long)c->marked,
		(unsigned long long)c->refused, line->n);
	return len;
}
