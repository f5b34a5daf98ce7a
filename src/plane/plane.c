/* The spine of the data path: the table of stages and edges, rounds, and the control side's
 * messages. */
#include "plane/plane_priv.h"

#include <string.h>

static plane_stage_fn *const stages[STAGE_COUNT] = {
	[STAGE_TUN_PARSE] = stage_tun_parse,
	[STAGE_TUN_GUARD] = stage_tun_guard,
	[STAGE_STEER] = stage_steer,
	[STAGE_TUN_ROUTE] = stage_route,
	[STAGE_LINK_PARSE] = stage_link_parse,
	[STAGE_LINK_GUARD] = stage_link_guard,
	[STAGE_LINK_ROUTE] = stage_route,
	[STAGE_LINK_LOCAL] = stage_link_local,
	[STAGE_LOCALSID] = stage_localsid,
	[STAGE_EXIT] = stage_exit,
	[STAGE_TRANSIT] = stage_transit,
	[STAGE_CLAMP] = stage_clamp,
	[STAGE_CLAMP_LOCAL] = stage_clamp,
	[STAGE_FIT] = stage_fit,
	[STAGE_FRAGMENT] = stage_fragment,
	[STAGE_SEND] = stage_send,
	[STAGE_DELIVER] = stage_deliver,
	[STAGE_ICMP] = stage_icmp,
	[STAGE_DROP] = stage_drop,
};

#define DROPS .next[EDGE_DROP] = STAGE_DROP, .next[EDGE_ICMP] = STAGE_ICMP

/* Where each edge of each stage leads; an edge that is not named ends the walk. */
static const struct {
	uint8_t next[EDGE_COUNT];
} edges[STAGE_COUNT] = {
	[STAGE_TUN_PARSE] = {DROPS, .next[EDGE_NEXT] = STAGE_TUN_GUARD},
	[STAGE_TUN_GUARD] = {DROPS, .next[EDGE_NEXT] = STAGE_TUN_ROUTE,
		.next[EDGE_ASIDE] = STAGE_STEER},
	[STAGE_STEER] = {DROPS, .next[EDGE_NEXT] = STAGE_TUN_ROUTE},
	[STAGE_TUN_ROUTE] = {DROPS, .next[EDGE_NEXT] = STAGE_CLAMP},
	[STAGE_LINK_PARSE] = {DROPS, .next[EDGE_NEXT] = STAGE_LINK_GUARD},
	[STAGE_LINK_GUARD] = {DROPS, .next[EDGE_NEXT] = STAGE_LINK_ROUTE,
		.next[EDGE_ASIDE] = STAGE_LINK_LOCAL, .next[EDGE_SID] = STAGE_LOCALSID,
		.next[EDGE_EXIT] = STAGE_EXIT},
	[STAGE_LINK_ROUTE] = {DROPS, .next[EDGE_NEXT] = STAGE_TRANSIT,
		.next[EDGE_LOCAL] = STAGE_CLAMP_LOCAL},
	[STAGE_LINK_LOCAL] = {DROPS},
	[STAGE_LOCALSID] = {DROPS, .next[EDGE_NEXT] = STAGE_LINK_ROUTE,
		.next[EDGE_LOCAL] = STAGE_CLAMP_LOCAL, .next[EDGE_SID] = STAGE_LINK_GUARD,
		.next[EDGE_ASIDE] = STAGE_LINK_PARSE},
	[STAGE_EXIT] = {DROPS, .next[EDGE_LOCAL] = STAGE_CLAMP_LOCAL},
	[STAGE_TRANSIT] = {DROPS, .next[EDGE_NEXT] = STAGE_CLAMP},
	[STAGE_CLAMP] = {DROPS, .next[EDGE_NEXT] = STAGE_FIT},
	[STAGE_CLAMP_LOCAL] = {DROPS, .next[EDGE_NEXT] = STAGE_DELIVER},
	[STAGE_FIT] = {DROPS, .next[EDGE_NEXT] = STAGE_SEND, .next[EDGE_ASIDE] = STAGE_FRAGMENT},
	[STAGE_FRAGMENT] = {DROPS},
	[STAGE_SEND] = {DROPS},
	[STAGE_DELIVER] = {DROPS},
	[STAGE_ICMP] = {DROPS},
};

void plane_walk(struct plane *p, struct pkt *k, enum plane_stage stage)
{
	do {
		enum plane_edge edge = stages[stage](p, k);

		stage = (enum plane_stage)edges[stage].next[edge];
	} while (stage != STAGE_END);
}

enum plane_edge stage_drop(struct plane *p, struct pkt *k)
{
	pkt_drop(p, k->drop, k->segments);
	return EDGE_DONE;
}

void plane_count_segmented(struct plane *p, const struct udp_tx *tx)
{
	struct plane_link_state *state = p->slot[tx->link].state;

	if (state)
		plane_count(&state->segmented, tx->segments);
}

const struct plane_link *plane_link_of(const struct plane *p, uint32_t slot)
{
	const struct plane_snapshot *s = p->snapshot;

	return s && slot < s->link_count && slot < PLANE_SLOTS ? s->link[slot] : NULL;
}

size_t plane_memory(const struct plane_config *c)
{
	return sizeof(struct plane) + (c->helpers ? sizeof(struct work) : 0);
}

static struct bucket bucket_of(uint32_t rate, uint32_t burst)
{
	return (struct bucket){.rate = rate, .burst = burst, .level = (int64_t)burst * 1000000};
}

struct plane *plane_init(const struct plane_config *c, void *memory)
{
	struct plane *p = memory;
	uint32_t ike = c->unknown_ike_rate ? c->unknown_ike_rate : IKE_RATE;

	/* Buffers are written before they are read: their pages are the caller's to touch. So is
	 * the filter, whose pages are touched when the first message is refused. */
	memset(p, 0, offsetof(struct plane, again.bit));
	p->config = *c;
	for (unsigned int i = 0; i < IKE_CLASSES; i++)
		p->ike[i] = bucket_of(ike, ike);
	p->icmp = bucket_of(ICMP_RATE, ICMP_BURST);
	p->segments_max = c->segments_max > TX_SEGMENTS_MAX ? TX_SEGMENTS_MAX : c->segments_max;
	if (p->segments_max == 0)
		p->segments_max = 1;
	gro_init(&p->gro, p->tun_out, PLANE_TUN_OUT_MAX);
	gro_set_merge(&p->gro, c->merge_tcp, c->merge_udp);
	p->aqm.on = c->aqm;
	if (c->helpers) {
		_Static_assert(sizeof(struct plane) % WORK_LINE == 0, "work lies behind it");
		p->work = (struct work *)(p + 1);
		work_init(p->work);
	}
	tx_reset(p);
	return p;
}

/* ---- rounds ---- */

bool plane_full(const struct plane *p)
{
	return p->batch_count - p->urgent_count + TX_SPARE > PLANE_UDP_OUT_MAX - TX_URGENT_SENDS ||
		p->buffer_count + TX_BUFFERS_SPARE > TX_BUFFERS ||
		p->buffer_used[0] > TX_BUFFER_BYTES / 2 || p->urgent_count > TX_URGENT_SENDS / 2 ||
		p->gro.count + TX_SPARE > PLANE_TUN_OUT_MAX;
}

void plane_flush(struct plane *p, wtime now)
{
	uint32_t had = p->tun_out_count, n;

	tx_flush(p, now);
	n = gro_finish(&p->gro);
	for (uint32_t i = had; i < n; i++)
		plane_count(&p->counters.tun_tx_packets, p->tun_out[i].segments);
	plane_count(&p->counters.tun_tx_frames, n - had);
	p->tun_out_count = n;
}

const struct udp_tx *plane_udp_out(const struct plane *p, size_t *ret_n)
{
	*ret_n = p->udp_out_count;
	return p->udp_out;
}

const struct tun_tx *plane_tun_out(const struct plane *p, size_t *ret_n)
{
	*ret_n = p->tun_out_count;
	return p->tun_out;
}

void plane_round_done(struct plane *p)
{
	share_round_done(p);
	tx_reset(p);
	gro_reset(&p->gro);
	p->tun_out_count = 0;
	p->icmp_count = 0;
}

/* ---- counters ---- */

void plane_count_drop(struct plane *p, enum drop_reason r, uint64_t n)
{
	if (r >= 0 && r < DROP_COUNT)
		pkt_drop(p, r, n);
}

void plane_counters(const struct plane *p, struct plane_counters *ret)
{
	const uint64_t *from = (const uint64_t *)&p->counters;
	uint64_t *to = (uint64_t *)ret;

	_Static_assert(sizeof(struct plane_counters) % sizeof(uint64_t) == 0, "counters only");
	for (size_t i = 0; i < sizeof(*ret) / sizeof(uint64_t); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}
