/* A plane's work done by helpers: which of it, and how it comes back. What goes out keeps its
 * order, because numbers are taken and places in the send given here, before a piece is handed
 * over, and sends are listed as ever; what comes in, because it is checked here before, and
 * accepted here after it was opened, in the order of its coming (RFC 4303 3.4.3: check,
 * authenticate, move the window). Two copies may both pass the check; the second to be accepted is
 * refused. */
#include "plane/plane_priv.h"

#include <string.h>

_Static_assert((int)TX_SEAL_AT <= (int)WORK_DATAGRAMS, "what is sealed at once fits a piece");
_Static_assert((int)OPEN_BATCH <= (int)WORK_DATAGRAMS, "what is opened at once fits a piece");

bool plane_help(struct plane *p, uint32_t number)
{
	return work_do(p->work, p->config.ops, (uint8_t)(1 + number));
}

bool plane_help_wanted(const struct plane *p)
{
	return work_waits(p->work);
}

static void put(struct plane *p)
{
	if (work_put(p->work) >= WORK_CALL && p->config.call)
		p->config.call(p->config.up_ctx);
}

/* What nobody has claimed is done here meanwhile. */
static void wait_for(struct plane *p, const struct work_piece *x)
{
	uint32_t spins = 0;

	while (!work_is_done(x)) {
		if (work_do(p->work, p->config.ops, 0))
			spins = 0;
		else if (++spins > WORK_SPINS && p->config.relax)
			p->config.relax(p->config.up_ctx);
	}
}

/* ---- to be sealed ---- */

/* Only `good` datagrams of a piece can go out: nothing behind them does. */
static void tear(struct plane *p, struct tx_batch *b, const struct work_seal *s, uint32_t good)
{
	uint32_t lost = s->n - good;

	b->torn = true;
	b->broken = DROP_TX_ERROR;
	pkt_drop(p, DROP_TX_ERROR, lost);
	b->out.segments = (uint16_t)(b->out.segments - lost);
	b->out.len -= s->bytes - good * s->stride;
	if (b->out.segments <= 1)
		b->out.seg_size = 0;
	if (b->out.segments == 0 && b->out.data) /* it was closed, and counted: not any more */
		plane_count(&p->counters.udp_tx_sends, (uint64_t)-1);
	if (b->listed)
		p->udp_out[b->at] = b->out;
}

static void settle(struct plane *p, struct tx_batch *b)
{
	struct work *w = p->work;

	while (b->piece) {
		struct work_piece *x = &w->piece[b->piece - 1];
		const struct work_seal *s = &x->s;
		uint32_t good;

		wait_for(p, x);
		good = b->torn ? 0 : s->good;
		if (good > 0)
			tx_count(p, b, good,
				(uint64_t)(good - 1) * s->inner +
					(good == s->n ? s->last : s->inner),
				w->now);
		if (good < s->n)
			tear(p, b, s, good);
		b->piece = s->next;
		w->unsettled--;
	}
}

void share_settle(struct plane *p)
{
	if (!p->work || p->work->unsettled == 0)
		return;
	for (uint32_t i = 0; i < p->batch_count; i++)
		settle(p, &p->batch[i]);
}

void share_round_done(struct plane *p)
{
	if (!p->work)
		return;
	share_settle(p);
	p->work->base = p->work->put;
	p->work->frames = 0;
}

static bool is_settled(const struct work *w, const struct tx_batch *b)
{
	for (uint32_t i = b->piece; i; i = w->piece[i - 1].s.next)
		if (!work_is_done(&w->piece[i - 1]))
			return false;
	return true;
}

size_t plane_udp_wait(struct plane *p, size_t first)
{
	struct work *w = p->work;
	size_t i = first;

	if (!w)
		return p->udp_out_count - first;
	do {
		settle(p, &p->batch[w->of[i++]]);
	} while (i < p->udp_out_count && is_settled(w, &p->batch[w->of[i]]));
	return i - first;
}

/* The n last datagrams of a batch, as a piece. */
static struct work_seal seal_of(const struct plane *p, const struct tx_batch *b, uint32_t n,
	uint64_t seq)
{
	uint32_t tail = b->last == b->inner ? b->stride : p->config.ops->sealed_len(b->sa, b->last);

	return (struct work_seal){
		.sa = b->sa,
		.seq = seq,
		.text = b->base + (size_t)(b->count - n) * b->stride + b->sa->headroom,
		.inner = b->inner,
		.last = b->last,
		.stride = b->stride,
		.bytes = (n - 1) * b->stride + tail,
		.n = (uint16_t)n,
		.next_header = b->next_header,
	};
}

/* Puts the piece that was filled in at the end of a batch's. */
static void put_seal(struct plane *p, struct tx_batch *b, const struct work_seal *s, wtime now)
{
	struct work *w = p->work;
	uint16_t number = (uint16_t)(w->put % WORK_PIECES + 1);

	if (b->piece)
		w->piece[b->piece_last - 1].s.next = number;
	else
		b->piece = number;
	b->piece_last = number;
	b->sealed = b->count;
	b->out.len += s->bytes;
	b->out.segments = (uint16_t)(b->out.segments + s->n);
	w->now = now;
	w->unsettled++;
	put(p);
}

/* Once a batch has a piece, all of it that follows is one, too: then it breaks off in one place. */
bool share_seal(struct plane *p, struct tx_batch *b, uint32_t n, const struct gso_split *cut,
	uint32_t segment, wtime now)
{
	struct work_piece *x;
	uint64_t seq;

	if (b->urgent || b->broken != DROP_NONE || (!b->piece && !cut && n < WORK_MIN))
		return false;
	x = work_room(p->work);
	if (!x) {
		settle(p, b);
		return false;
	}
	b->broken = tx_take_numbers(p, b, n, &seq);
	if (b->broken != DROP_NONE) {
		pkt_drop(p, b->broken, n);
		b->sealed = b->count;
		return true;
	}
	x->open = false;
	x->s = seal_of(p, b, n, seq);
	x->s.cut = cut;
	x->s.segment = segment;
	put_seal(p, b, &x->s, now);
	return true;
}

static uint32_t segment_len(const struct gso_split *s, uint32_t i)
{
	return i + 1 < s->segments ? s->seg_len : s->last_len;
}

/* As many segments, from number i on, as make a piece; how many. */
static uint32_t share_some(struct plane *p, const struct gso_split *s, uint32_t i,
	struct tx_ask *ask)
{
	enum drop_reason drop;
	struct tx_batch *b;
	uint32_t n = 1;
	uint8_t *text;

	ask->len = segment_len(s, i);
	ask->more = s->segments - i - 1;
	text = tx_room(p, ask, &drop);
	if (!text) {
		pkt_drop(p, drop, 1);
		return 1;
	}
	b = &p->batch[p->slot[ask->link->slot].open - 1];
	for (; n < WORK_DATAGRAMS && i + n < s->segments; n++) {
		ask->len = segment_len(s, i + n);
		if (!tx_append(p, b, ask))
			break;
	}
	if (share_seal(p, b, n, s, i, ask->now))
		return n;
	for (uint32_t k = 0; k < n; k++)
		gso_split_write(s, i + k, text + (size_t)k * b->stride);
	tx_seal_written(p, b, ask->now);
	return n;
}

bool share_segments(struct plane *p, struct pkt *k, struct tx_ask *ask)
{
	const struct plane_slot *slot = &p->slot[ask->link->slot];
	struct work *w = p->work;
	struct gso_split *s;

	if (k->split->segments < WORK_MIN || w->frames == WORK_FRAMES ||
		hand_elsewhere(p, ask->link))
		return false;
	s = &w->frame[w->frames++];
	*s = *k->split;
	if (slot->open)
		tx_seal_written(p, &p->batch[slot->open - 1], k->now);
	/* As in send_segments() (forward.c), of which this is the other way. */
	if (k->congested)
		pkt_drop(p, DROP_AQM, 1);
	for (uint32_t i = k->congested; i < s->segments;)
		i += share_some(p, s, i, ask);
	return true;
}

/* ---- to be opened ---- */

struct share_open share_open_begin(const struct plane *p, const struct udp_rx *buffer, size_t n)
{
	struct share_open s = {0};
	uint32_t datagrams = 0;

	for (size_t i = 0; p->work && i < n; i++)
		datagrams += buffer[i].seg_size ? buffer[i].len / buffer[i].seg_size : 1;
	s.on = datagrams >= WORK_OPEN_MIN;
	return s;
}

bool share_open(struct plane *p, struct share_open *s, uint32_t n)
{
	struct work_piece *x;

	if (n == 0)
		return true;
	x = work_room(p->work);
	if (!x)
		return false;
	p->config.ops->check(p->open, n);
	x->open = true;
	x->o.n = n;
	memcpy(x->o.op, p->open, n * sizeof(p->open[0]));
	memcpy(x->o.from, p->open_from, n * sizeof(p->open_from[0]));
	/* Those of a call that wait lie side by side: nothing else is put in meanwhile. */
	if (s->at == s->end)
		s->at = p->work->put;
	s->end = p->work->put + 1;
	put(p);
	return true;
}

struct work_open *share_opened(struct plane *p, struct share_open *s)
{
	struct work_piece *x;

	if (s->at == s->end)
		return NULL;
	x = &p->work->piece[s->at++ % WORK_PIECES];
	wait_for(p, x);
	return &x->o;
}
