/* Datagram packetization layer path MTU discovery (RFC 8899). The search of section 5.3 is made for
 * few rounds instead of few probes: eight sizes are tried at once, those that pass raise the lower
 * end, those that were missed often enough lower the upper one, and new sizes between the two take
 * their places. The largest possible size goes first and alone, so that on most paths one probe is
 * all. The size in use is checked while large packets are sent (4.3: black holes): it falls in one
 * step, to what was found, since whoever is told of a smaller one keeps to it for minutes. Which
 * losses are by chance is known from probes of sizes that pass: the more of those get lost, the
 * more misses a size needs. Not here: what a probe is; the sizes of more than one path. */
#include "node/pmtu.h"

#include <string.h>

enum {
	MISSES = 3,       /* RFC 8899 5.1.2, MAX_PROBES */
	MISSES_MORE = 2,  /* for each loss among the last probes of a size that passes */
	MISSES_MOST = 14, /* whatever the loss */
	VOIDS = 5,        /* rounds without an answer at all, after which the link is left alone */
};

#define ROUND_US      (200 * W_MS) /* between rounds */
#define GRACE_US      (100 * W_MS) /* for what is overtaken by the small probe */
#define WAIT_US       (1 * W_SEC)  /* until it is known how long an answer takes */
#define WAIT_LEAST_US (300 * W_MS)
#define WAIT_MOST_US  (10 * W_SEC)
#define CONFIRM_US    (2500 * W_MS)
#define DOUBT_US      (1 * W_SEC)
#define SILENT_US     (5 * W_SEC)
#define RISE_US       (60 * W_SEC)
#define RISE_MOST_US  (600 * W_SEC) /* RFC 8899 5.1.1, PMTU_RAISE_TIMER */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void pmtu_restart(struct pmtu *p)
{
	p->kind = PMTU_IDLE;
	p->out = false;
	p->restart = true;
}

void pmtu_doubt(struct pmtu *p)
{
	p->doubted = true;
}

void pmtu_bounds(struct pmtu *p, uint32_t floor, uint32_t base, uint32_t top)
{
	uint32_t was = p->top;

	top = least(top > floor ? top : floor, PMTU_MOST);
	p->floor = floor;
	p->base = base;
	p->top = top;
	if (!was) {
		p->good = least(top, PMTU_START);
		p->wait_us = WAIT_US;
		p->rise_us = RISE_US;
	}
	if (top == was)
		return;
	p->good = least(p->good, top);
	if (top > was || p->kind != PMTU_IDLE)
		pmtu_restart(p);
}

static void remember(struct pmtu *p, bool lost)
{
	p->history = p->history << 1 | lost;
}

/* How often a size must be missed: seldom by mistake, of a size in use that everybody is told of.
 */
static unsigned int misses_needed(const struct pmtu *p, uint32_t size)
{
	unsigned int lost = (unsigned int)__builtin_popcountll(p->history);
	unsigned int n = MISSES + MISSES_MORE * lost - (size != p->good);

	return n < MISSES_MOST ? n : MISSES_MOST;
}

static void rung_add(struct pmtu *p, uint32_t size)
{
	p->rung[p->rungs++] = (struct pmtu_rung){.size = size};
}

/* New sizes between what passes and the smallest that is tried. Where nothing has passed yet the
 * base goes with them, and below that the floor. */
static void fill(struct pmtu *p)
{
	uint32_t above = p->hi, low = p->lo, room = PMTU_RUNGS - p->rungs;

	for (unsigned int i = 0; i < p->rungs; i++)
		above = least(above, p->rung[i].size);
	if (!low)
		low = (above > p->base ? p->base : p->floor) - 1;
	if (above <= low + 1)
		return;
	room = least(room, above - low - 1);
	for (uint32_t i = 1; i <= room; i++)
		rung_add(p, i == 1 && !p->lo ? low + 1 : low + (above - low) * i / (room + 1));
}

/* Leaves out what is decided. */
static void prune(struct pmtu *p)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < p->rungs; i++)
		if (p->rung[i].size > p->lo && p->rung[i].size < p->hi)
			p->rung[kept++] = p->rung[i];
	p->rungs = kept;
}

static void begin(struct pmtu *p, enum pmtu_kind kind, uint32_t limit, wtime now)
{
	p->kind = kind;
	p->lo = kind == PMTU_RISE ? p->good : 0;
	p->hi = limit + 1;
	p->rungs = p->rounds = p->voids = 0;
	p->out = false;
	p->sent_at = wtime_add(now, -ROUND_US);
	rung_add(p, limit);
	if (kind == PMTU_CHECK && limit > p->good)
		rung_add(p, p->good);
	if (kind == PMTU_RISE)
		fill(p);
}

/* Is there a reason to begin? */
static bool begin_due(struct pmtu *p, int64_t large_us, wtime now)
{
	if (p->restart) {
		p->restart = false;
		begin(p, PMTU_CHECK, p->top, now);
		return true;
	}
	if (p->doubted && wtime_due(p->doubted_at, now)) {
		p->doubted = false;
		p->doubted_at = wtime_add(now, DOUBT_US);
		begin(p, PMTU_CHECK, p->good, now);
		return true;
	}
	/* RFC 8899 5.2: in SEARCH_COMPLETE the size is confirmed, while it is in use */
	if (large_us > p->checked_at.us && wtime_diff(now, p->checked_at) >= CONFIRM_US) {
		begin(p, PMTU_CHECK, p->good, now);
		return true;
	}
	if (p->good < p->top && wtime_due(p->rise_at, now)) {
		begin(p, PMTU_RISE, p->top, now);
		return true;
	}
	return false;
}

static void finish(struct pmtu *p, wtime now)
{
	uint32_t found = p->lo ? p->lo : p->floor;
	bool in_vain = p->kind == PMTU_RISE && found == p->good;

	if (in_vain)
		p->rise_us = p->rise_us * 2 < RISE_MOST_US ? p->rise_us * 2 : RISE_MOST_US;
	else if (found != p->good)
		p->rise_us = RISE_US;
	if (in_vain || found != p->good || !p->proven)
		p->rise_at = wtime_add(now, p->rise_us);
	p->good = least(found, p->top);
	p->proven = true;
	p->kind = PMTU_IDLE;
	p->out = false;
	p->checked_at = now;
}

/* Nobody answers: that is no matter of sizes. */
static void give_up(struct pmtu *p, wtime now)
{
	p->kind = PMTU_IDLE;
	p->out = false;
	p->checked_at = now;
	p->rise_at = wtime_add(now, p->rise_us);
	p->doubted_at = wtime_add(now, SILENT_US);
	p->doubted = true;
}

static void count_misses(struct pmtu *p)
{
	for (unsigned int i = 0; i < p->rungs; i++)
		if (p->rung[i].size > p->lo &&
			++p->rung[i].misses >= misses_needed(p, p->rung[i].size))
			p->hi = least(p->hi, p->rung[i].size);
}

/* The round is over: what does it say? */
static void judge(struct pmtu *p, wtime now)
{
	bool first = p->rounds++ == 0;

	p->out = false;
	count_misses(p);
	prune(p);
	/* larger ones are asked for now and then, and nobody waits for them */
	if (first && p->kind == PMTU_RISE && p->lo == p->good) {
		finish(p, now);
		return;
	}
	if (p->hi - p->lo > 1)
		fill(p);
	if (!p->rungs)
		finish(p, now);
}

/* Looks whether the round on its way has said all that it will say. */
static void look(struct pmtu *p, wtime now)
{
	prune(p);
	if (!p->rungs) {
		judge(p, now);
	} else if (p->heard && wtime_diff(now, p->heard_at) >= GRACE_US) {
		remember(p, false);
		p->voids = 0;
		judge(p, now);
	} else if (!p->heard && wtime_diff(now, p->sent_at) >= p->wait_us) {
		remember(p, true);
		p->out = false;
		if (++p->voids >= VOIDS)
			give_up(p, now);
	}
}

static uint16_t number(struct pmtu *p, uint32_t size)
{
	p->sent[++p->seq % PMTU_SEQS] = size;
	return p->seq;
}

static size_t send_round(struct pmtu *p, wtime now, struct pmtu_probe *ret)
{
	bool asked = false;
	size_t n = 0;

	for (unsigned int i = 0; i < p->rungs; i++) {
		ret[n].size = p->rung[i].size;
		ret[n++].seq = number(p, p->rung[i].size);
		asked |= p->rung[i].size == p->good;
	}
	/* until the search is over, one answer is enough to keep what there is: it is asked for
	 * twice once it was missed */
	if (p->lo < p->good && (!asked || p->rounds))
		ret[n++] = (struct pmtu_probe){.seq = number(p, p->good), .size = p->good};
	p->small = number(p, 0);
	ret[n++] = (struct pmtu_probe){.seq = p->small};
	p->heard = false;
	p->out = true;
	p->sent_at = now;
	return n;
}

size_t pmtu_tick(struct pmtu *p, int64_t large_us, wtime now,
	struct pmtu_probe ret[static PMTU_PROBES])
{
	if (p->kind != PMTU_IDLE && p->out)
		look(p, now);
	if (p->kind == PMTU_IDLE && !begin_due(p, large_us, now))
		return 0;
	if (p->out || wtime_diff(now, p->sent_at) < ROUND_US)
		return 0;
	return send_round(p, now, ret);
}

/* A size passed that was missed before: those were lost by chance. */
static void note_chance(struct pmtu *p, uint32_t size)
{
	for (unsigned int i = 0; i < p->rungs; i++)
		for (unsigned int m = 0; p->rung[i].size <= size && m < p->rung[i].misses; m++)
			remember(p, true);
}

void pmtu_answer(struct pmtu *p, uint16_t seq, wtime now)
{
	uint32_t size = p->sent[seq % PMTU_SEQS];

	if ((uint16_t)(p->seq - seq) >= PMTU_SEQS || p->kind == PMTU_IDLE)
		return;
	if (size > p->lo) {
		note_chance(p, size);
		p->lo = size;
		if (p->hi <= size)
			p->hi = size + 1;
		prune(p);
	}
	if (size == 0 && seq != p->small) { /* on a very long way */
		p->wait_us = p->wait_us * 2 < WAIT_MOST_US ? p->wait_us * 2 : WAIT_MOST_US;
	} else if (size == 0 && p->out && !p->heard) {
		p->heard = true;
		p->heard_at = now;
		p->wait_us = 2 * wtime_diff(now, p->sent_at) + WAIT_LEAST_US;
	}
}
