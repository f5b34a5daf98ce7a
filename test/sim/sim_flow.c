/* Flows in the manner of TCP between nodes of a simulation: a window that grows by acknowledgements
 * as slow start and CUBIC (RFC 9438) say, falls once a window with a loss, and starts anew after a
 * second of silence. What is lost is not sent again: there is always more to send. */
#include "sim.h"
#include "sim_priv.h"

#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "wire/csum.h"

enum { PORT_DATA = 7001, PORT_ACK = 7002, HEAD = 28, ACK = HEAD + 16, SEQS = 1 << 14, AHEAD = 3 };

#define RTO_US (1 * W_SEC)

struct sim_flow {
	struct list list;
	struct sim_flow_options o;
	bool stopped;
	uint64_t next, base, highest; /* to send; not below: acknowledged or lost; acknowledged */
	uint8_t done[SEQS];           /* by number modulo SEQS: acknowledged */
	double window, threshold, most;
	wtime epoch, heard, pace;
	uint64_t recovery; /* a loss below it was seen already */
	uint64_t acked;
	uint64_t ack[64]; /* numbers that the far end has yet to acknowledge */
	size_t acks;
};

static uint32_t packet(uint8_t *out, const struct sim_flow *f, bool ack, uint64_t number)
{
	unsigned int from = ack ? f->o.to : f->o.from, to = ack ? f->o.from : f->o.to;
	uint16_t len = ack ? ACK : f->o.bytes;
	const uint8_t ip[20] = {0x45, 0, (uint8_t)(len >> 8), (uint8_t)len, 0, 0, 0x40, 0, 64, 17,
		0, 0, 10, 66, (uint8_t)(from >> 8), (uint8_t)from, 10, 66, (uint8_t)(to >> 8),
		(uint8_t)to};

	memset(out, 0, len);
	memcpy(out, ip, sizeof(ip));
	put_u16(out + 10, csum_finish(csum_add(0, out, sizeof(ip))));
	put_u16(out + 20, f->o.id);
	put_u16(out + 22, ack ? PORT_ACK : PORT_DATA);
	put_u16(out + 24, (uint16_t)(len - 20));
	put_u64(out + HEAD, number); /* a UDP checksum of 0: none */
	return len;
}

struct sim_flow *sim_flow_start(struct sim *s, const struct sim_flow_options *o)
{
	struct sim_flow *f = w_calloc(1, sizeof(*f));

	sim_must(f != NULL, "memory");
	f->o = *o;
	f->o.id = ++s->flow_ids;
	f->window = 10;
	f->threshold = SEQS;
	f->heard = f->pace = s->now;
	list_add_tail(&s->flows, &f->list);
	return f;
}

void sim_flow_stop(struct sim_flow *f)
{
	f->stopped = true;
}

uint64_t sim_flow_acked(const struct sim_flow *f)
{
	return f->acked;
}

void sim_flows_free(struct sim *s)
{
	list_for_each_safe (it, &s->flows) {
		list_del(it);
		w_free(container_of(it, struct sim_flow, list));
	}
}

static void grow(struct sim_flow *f, wtime now)
{
	double t, k, target;

	if (f->window < f->threshold) {
		f->window += 1;
		return;
	}
	if (!f->epoch.us) {
		f->epoch = now;
		f->most = f->most > f->window ? f->most : f->window;
	}
	t = (double)wtime_diff(now, f->epoch) / 1e6;
	k = cbrt(f->most * 0.3 / 0.4);
	target = 0.4 * pow(t - k, 3) + f->most;
	f->window += target > f->window ? (target - f->window) / f->window : 0.01 / f->window;
}

static void fall(struct sim_flow *f)
{
	f->most = f->window;
	f->window = f->window * 0.7 > 2 ? f->window * 0.7 : 2;
	f->threshold = f->window;
	f->epoch = (wtime){0};
	f->recovery = f->next;
}

static void acknowledged(struct sim_flow *f, uint64_t number, wtime now)
{
	if (number < f->base || number >= f->next || f->done[number % SEQS])
		return;
	f->done[number % SEQS] = 1;
	f->acked++;
	f->heard = now;
	f->highest = number > f->highest ? number : f->highest;
	while (f->base < f->next && (f->done[f->base % SEQS] || f->base + AHEAD < f->highest)) {
		if (!f->done[f->base % SEQS] && f->base >= f->recovery)
			fall(f);
		f->base++;
	}
	if (f->base >= f->recovery)
		grow(f, now);
}

bool sim_flow_arrived(struct sim *s, const uint8_t *frame, uint32_t len)
{
	uint16_t port = len >= ACK && frame[0] == 0x45 && frame[9] == 17 ? get_u16(frame + 22) : 0;

	if (port != PORT_DATA && port != PORT_ACK)
		return false;
	list_for_each (it, &s->flows) {
		struct sim_flow *f = container_of(it, struct sim_flow, list);

		if (f->o.id != get_u16(frame + 20))
			continue;
		if (port == PORT_ACK)
			acknowledged(f, get_u64(frame + HEAD), s->now);
		else if (f->acks < sizeof(f->ack) / sizeof(f->ack[0]))
			f->ack[f->acks++] = get_u64(frame + HEAD);
	}
	return true;
}

static bool may_send(const struct sim_flow *f, wtime now)
{
	double window = f->o.window && f->o.window < f->window ? f->o.window : f->window;

	if (f->stopped || f->next - f->base >= SEQS - 1)
		return false;
	return f->o.rate ? wtime_due(f->pace, now) : (double)(f->next - f->base) < window;
}

static void pump(struct sim *s, struct sim_flow *f)
{
	uint8_t frame[2048];

	while (f->acks) {
		uint64_t number = f->ack[--f->acks];

		sim_inject(s, f->o.to, frame, packet(frame, f, true, number));
	}
	if (!f->o.rate && f->next > f->base && wtime_due(wtime_add(f->heard, RTO_US), s->now)) {
		f->base = f->recovery = f->next;
		f->threshold = f->window / 2 > 2 ? f->window / 2 : 2;
		f->window = 2;
		f->epoch = (wtime){0};
		f->heard = s->now;
	}
	while (may_send(f, s->now)) {
		if (f->next == f->base)
			f->heard = s->now;
		f->done[f->next % SEQS] = 0;
		f->pace = f->o.rate
			? wtime_add(f->pace, (int64_t)f->o.bytes * W_SEC / (int64_t)f->o.rate)
			: s->now;
		if (f->o.rate && f->next - f->base > SEQS / 2)
			f->base = f->next - SEQS / 2;
		sim_inject(s, f->o.from, frame, packet(frame, f, false, f->next++));
	}
}

void sim_flows_pump(struct sim *s)
{
	list_for_each (it, &s->flows)
		pump(s, container_of(it, struct sim_flow, list));
}

wtime sim_flows_deadline(const struct sim *s)
{
	wtime t = WTIME_NEVER;

	list_for_each (it, &s->flows) {
		const struct sim_flow *f = container_of(it, struct sim_flow, list);

		if (f->acks || may_send(f, s->now))
			return s->now;
		if (f->stopped)
			continue;
		if (f->o.rate)
			t = wtime_min(t, f->pace);
		else if (f->next > f->base)
			t = wtime_min(t, wtime_add(f->heard, RTO_US));
	}
	return t;
}
