/* Toward the links: packets are written straight into the buffer they are sent from, at the
 * distance of their sealed size, so that a whole batch is one UDP_SEGMENT send. Batches are sealed
 * a few datagrams at a time and when they close; a link has one open batch at a time, so its
 * packets keep their order. */
#include "plane/plane_priv.h"

#include <string.h>

/* Tells once that an SA runs out; a full ring is told again by the next batch. */
static void report_limit(struct plane *p, struct tunnel_sa *sa, enum tunnel_limit limit)
{
	struct plane_up up = {.slot = sa->slot, .child = sa->child};
	bool *told = limit == TUNNEL_HARD ? &sa->hard_reported : &sa->soft_reported;

	up.type = limit == TUNNEL_HARD ? PLANE_UP_HARD_LIMIT : PLANE_UP_SOFT_LIMIT;
	if (*told)
		return;
	*told = p->config.up(p->config.up_ctx, &up);
}

void tx_count(struct plane *p, const struct tx_batch *b, uint32_t n, uint64_t bytes, wtime now)
{
	struct plane_link_state *state = p->slot[b->slot].state;

	plane_count(&p->counters.udp_tx_datagrams, n);
	plane_count(&b->sa->bytes, bytes);
	if (!state)
		return;
	plane_count(&state->tx_packets, n);
	plane_count(&state->tx_bytes, bytes);
	if (b->urgent) {
		plane_count(&state->own_tx_bytes, bytes);
		return;
	}
	__atomic_store_n(&state->last_tx_us, now.us, __ATOMIC_RELAXED);
	if (b->stride > PLANE_LARGE)
		__atomic_store_n(&state->last_large_us, now.us, __ATOMIC_RELAXED);
}

static void count_sent(struct plane *p, const struct tx_batch *b, uint32_t n, wtime now)
{
	bool last = b->sealed + n == b->count;

	tx_count(p, b, n, (uint64_t)(n - 1) * b->inner + (last ? b->last : b->inner), now);
}

/* Lists the datagrams of a batch that are not sealed yet for seal_batch(). */
static void list_seals(struct plane *p, const struct tx_batch *b, uint64_t seq)
{
	for (uint32_t i = b->sealed; i < b->count; i++)
		p->seal[i - b->sealed] = (struct tunnel_seal){
			.sa = b->sa,
			.seq = seq++,
			.text = b->base + (size_t)i * b->stride + b->sa->headroom,
			.len = i + 1 == b->count ? b->last : b->inner,
			.next_header = b->next_header,
		};
}

/* How many of n sealed datagrams, from the first on, came out as they must to go out in one send.
 */
static uint32_t whole_prefix(const struct plane *p, const struct tx_batch *b, uint32_t n,
	uint32_t *ret_len)
{
	uint32_t i = 0, len = 0;

	while (i < n && p->seal[i].sealed != 0) {
		len += p->seal[i].sealed;
		if (p->seal[i++].sealed != b->stride)
			break;
	}
	*ret_len = len;
	return i;
}

enum drop_reason tx_take_numbers(struct plane *p, const struct tx_batch *b, uint32_t n,
	uint64_t *ret_first)
{
	enum tunnel_limit limit = p->config.ops->reserve(b->sa, n, ret_first);

	if (limit != TUNNEL_OK)
		report_limit(p, b->sa, limit);
	return limit == TUNNEL_HARD ? DROP_HARD_LIMIT : DROP_NONE;
}

/* Seals n datagrams that were written, with the next numbers of the SA; how many, and why not all.
 */
static uint32_t seal_next(struct plane *p, struct tx_batch *b, uint32_t n,
	enum drop_reason *ret_drop)
{
	uint32_t good, len;
	uint64_t seq;

	*ret_drop = tx_take_numbers(p, b, n, &seq);
	if (*ret_drop != DROP_NONE)
		return 0;
	list_seals(p, b, seq);
	p->config.ops->seal_batch(p->seal, n);
	good = whole_prefix(p, b, n, &len);
	b->out.len += len;
	b->out.segments = (uint16_t)(b->out.segments + good);
	*ret_drop = good < n ? DROP_TX_ERROR : DROP_NONE;
	return good;
}

/* Seals what was written since the last call. Nothing of a batch goes out behind what could not be
 * sealed. */
void tx_seal_written(struct plane *p, struct tx_batch *b, wtime now)
{
	uint32_t n = b->count - b->sealed, good = 0;

	if (n == 0 || (p->work && share_seal(p, b, n, NULL, 0, now)))
		return;
	if (b->broken == DROP_NONE)
		good = seal_next(p, b, n, &b->broken);
	if (good > 0)
		count_sent(p, b, good, now);
	if (good < n)
		pkt_drop(p, b->broken, n - good);
	b->sealed = b->count;
}

/* Seals the rest, and makes a send of it. */
static void batch_seal(struct plane *p, struct tx_batch *b, wtime now)
{
	/* What is behind it in the buffer is free for the next batch, from a cache line on. */
	p->buffer_used[b->buffer] = b->start +
		((b->used + WORK_LINE - 1) & ~(uint32_t)(WORK_LINE - 1));
	tx_seal_written(p, b, now);
	b->out.data = b->base;
	b->out.seg_size = b->out.segments > 1 ? b->stride : 0;
	if (b->out.segments > 0)
		plane_count(&p->counters.udp_tx_sends, 1);
}

void tx_close(struct plane *p, struct plane_slot *slot, wtime now)
{
	if (slot->open == 0)
		return;
	batch_seal(p, &p->batch[slot->open - 1], now);
	slot->open = 0;
}

static uint8_t outer_tos(const struct plane *p, uint8_t inner)
{
	const struct plane_snapshot *s = p->snapshot;

	return (uint8_t)(ecn_encapsulate(inner, s->copy_dscp) | s->dscp << DSCP_SHIFT);
}

uint8_t *tx_append(struct plane *p, struct tx_batch *b, const struct tx_ask *ask)
{
	uint32_t at = (uint32_t)b->count * b->stride, sealed;

	if (b->last != b->inner || ask->len > b->inner || b->count >= p->segments_max ||
		b->out.tos != outer_tos(p, ask->tos) || b->next_header != ask->next_header)
		return NULL;
	sealed = ask->len == b->inner ? b->stride : p->config.ops->sealed_len(b->sa, ask->len);
	if (at + sealed > b->room)
		return NULL;
	b->count++;
	b->last = ask->len;
	b->used = at + sealed;
	return b->base + at + b->sa->headroom;
}

/* The used bytes were rounded up, and may be a little more than there are. */
static uint32_t buffer_left(const struct plane *p, uint32_t i)
{
	return p->buffer_used[i] < TX_BUFFER_BYTES ? TX_BUFFER_BYTES - p->buffer_used[i] : 0;
}

/* A piece of a buffer for a new batch: what is left of the link's last one when that is enough for
 * all that is known to follow, else a fresh one, else what is left. -1: there is none. */
static int buffer_pick(struct plane *p, const struct plane_slot *slot, const struct tx_ask *ask,
	uint32_t sealed)
{
	uint64_t want = (uint64_t)sealed * (ask->more + 1);
	uint32_t left = slot->buffer ? buffer_left(p, slot->buffer) : 0;

	if (ask->urgent)
		return buffer_left(p, 0) >= sealed ? 0 : -1;
	if (want > TX_SEND_BYTES)
		want = TX_SEND_BYTES / sealed * sealed;
	if (left >= want)
		return slot->buffer;
	if (p->buffer_count < TX_BUFFERS)
		return (int)p->buffer_count++;
	return left >= sealed ? slot->buffer : -1;
}

static struct tx_batch *batch_open(struct plane *p, const struct tx_ask *ask,
	struct plane_slot *slot, struct tunnel_sa *sa)
{
	uint32_t sealed = p->config.ops->sealed_len(sa, ask->len), left;
	struct tx_batch *b;
	int buffer;

	if (sealed == 0 || sealed > TX_SEND_BYTES)
		return NULL;
	if (p->batch_count >= PLANE_UDP_OUT_MAX ||
		(!ask->urgent &&
			p->batch_count - p->urgent_count >= PLANE_UDP_OUT_MAX - TX_URGENT_SENDS))
		return NULL;
	buffer = buffer_pick(p, slot, ask, sealed);
	if (buffer < 0)
		return NULL;
	left = buffer_left(p, (uint32_t)buffer);
	b = &p->batch[p->batch_count++];
	*b = (struct tx_batch){
		.base = p->buffer[buffer] + p->buffer_used[buffer],
		.buffer = (uint32_t)buffer,
		.start = p->buffer_used[buffer],
		.sa = sa,
		.slot = ask->link->slot,
		.stride = sealed,
		.inner = ask->len,
		.last = ask->len,
		.used = sealed,
		.room = left < TX_SEND_BYTES ? left : TX_SEND_BYTES,
		.count = 1,
		.broken = DROP_NONE,
		.next_header = ask->next_header,
		.urgent = ask->urgent,
		.out = {.tos = outer_tos(p, ask->tos),
			.whole = ask->whole,
			.socket = ask->link->socket,
			.link = ask->link->slot,
			.remote = ask->link->remote,
			.local = ask->link->local},
	};
	if (ask->urgent)
		p->urgent_count++;
	else
		slot->buffer = (uint16_t)buffer;
	return b;
}

uint8_t *tx_room(struct plane *p, const struct tx_ask *ask, enum drop_reason *ret_drop)
{
	struct plane_slot *slot = &p->slot[ask->link->slot];
	struct tunnel_sa *sa = slot->state ? slot->state->outbound : NULL;
	struct tx_batch *b = NULL;
	uint8_t *text;

	if (hand_elsewhere(p, ask->link)) {
		*ret_drop = DROP_LINK_DOWN; /* urgent ones are the owner's */
		return ask->urgent ? NULL : hand_room(p, ask, ret_drop);
	}
	if (slot->open && !ask->urgent) {
		b = &p->batch[slot->open - 1];
		/* While the processor still has them at hand. */
		if (b->count - b->sealed >= TX_SEAL_AT)
			tx_seal_written(p, b, ask->now);
		text = tx_append(p, b, ask);
		if (text)
			return text;
		tx_close(p, slot, ask->now);
	}
	if (!sa) {
		*ret_drop = DROP_NO_SA;
		return NULL;
	}
	b = batch_open(p, ask, slot, sa);
	if (!b) {
		*ret_drop = DROP_TX_BACKPRESSURE;
		return NULL;
	}
	if (!ask->urgent)
		slot->open = (uint16_t)(b - p->batch + 1);
	return b->base + sa->headroom;
}

void tx_seal_urgent(struct plane *p, wtime now)
{
	batch_seal(p, &p->batch[p->batch_count - 1], now);
}

void tx_undo_urgent(struct plane *p)
{
	p->batch_count--;
	p->urgent_count--;
}

/* Makes a batch the next send of the round; both sides of that are kept, for a helper's result that
 * changes it later. */
static void list_send(struct plane *p, struct tx_batch *b)
{
	if (p->work)
		p->work->of[p->udp_out_count] = (uint16_t)(b - p->batch);
	b->at = (uint16_t)p->udp_out_count;
	p->udp_out[p->udp_out_count++] = b->out;
	b->listed = true;
}

/* Lists sealed batches of one kind in the order of their making. */
static void list_all(struct plane *p, bool urgent)
{
	for (uint32_t i = 0; i < p->batch_count; i++)
		if (p->batch[i].urgent == urgent && p->batch[i].out.segments > 0)
			list_send(p, &p->batch[i]);
}

/* The same for bulk, a turn of some bytes for each link and then again: who sends little does not
 * wait behind another's burst. A link's own sends keep their order. */
static void list_by_turns(struct plane *p)
{
	bool more = true;

	for (uint64_t turn = TX_TURN_BYTES; more; turn += TX_TURN_BYTES) {
		more = false;
		for (uint32_t i = 0; i < p->batch_count; i++) {
			struct tx_batch *b = &p->batch[i];

			if (b->urgent || b->listed || b->out.segments == 0)
				continue;
			if (b->ahead < turn)
				list_send(p, b);
			else
				more = true;
		}
	}
}

/* What each batch's link sends ahead of it; true when there are several links. */
static bool count_ahead(struct plane *p)
{
	uint32_t first = UINT32_MAX;
	bool several = false;

	for (uint32_t i = 0; i < p->batch_count; i++) {
		p->slot[p->batch[i].slot].sent = 0;
		p->batch[i].listed = false;
	}
	for (uint32_t i = 0; i < p->batch_count; i++) {
		struct tx_batch *b = &p->batch[i];

		if (b->urgent)
			continue;
		if (first == UINT32_MAX)
			first = b->slot;
		several |= b->slot != first;
		b->ahead = p->slot[b->slot].sent;
		p->slot[b->slot].sent += b->out.len;
	}
	return several;
}

void tx_flush(struct plane *p, wtime now)
{
	for (uint32_t i = 0; i < p->batch_count; i++) {
		struct plane_slot *slot = &p->slot[p->batch[i].slot];

		if (slot->open == i + 1)
			tx_close(p, slot, now);
	}
	p->udp_out_count = 0;
	list_all(p, true);
	if (count_ahead(p))
		list_by_turns(p);
	else
		list_all(p, false);
}

void tx_reset(struct plane *p)
{
	for (uint32_t i = 0; i < p->batch_count; i++) {
		p->slot[p->batch[i].slot].open = 0;
		p->slot[p->batch[i].slot].buffer = 0;
	}
	memset(p->buffer_used, 0, sizeof(p->buffer_used));
	p->batch_count = p->urgent_count = p->udp_out_count = 0;
	p->buffer_count = 1;
}
