/* From the sockets: IKE behind its marker and keepalives are told from tunnel datagrams (RFC 3948
 * 2.2, 2.3), those are opened in batches and accepted in order, and what was inside is looked at:
 * who may say that, and where may it go. */
#include "plane/plane_priv.h"

enum { KEEPALIVE = 0xff };

/* FNV-1a: to tell an address from the last one is all that it is for; who finds two that look the
 * same gains a second. */
#define FNV_START UINT32_C(2166136261)
#define FNV_PRIME UINT32_C(16777619)

static uint32_t hash_address(uint32_t hash, const struct ipaddr *a)
{
	for (size_t i = 0; i < sizeof(a->b); i++)
		hash = (hash ^ a->b[i]) * FNV_PRIME;
	return hash;
}

/* Tells the control side that a link's peer seems to have moved: once for an address, or each
 * second while it goes on. */
static void report_remote(struct plane *p, const struct plane_link *link, const struct udp_rx *b,
	wtime now)
{
	struct plane_slot *slot = &p->slot[link->slot];
	uint32_t hash = FNV_START ^ b->remote.port ^ (uint32_t)b->socket << 16;
	struct plane_up up = {
		.type = PLANE_UP_REMOTE,
		.slot = link->slot,
		.socket = b->socket,
		.remote = b->remote,
		.local = b->local,
		.time = b->time,
	};

	hash = hash_address(hash_address(hash, &b->remote.ip), &b->local.ip);
	if (slot->remote_hash == hash && now.us - slot->remote_told_us < REMOTE_REPORT_US)
		return;
	if (!p->config.up(p->config.up_ctx, &up))
		return; /* the next packet tells it */
	slot->remote_hash = hash;
	slot->remote_told_us = now.us;
}

static bool endpoint_moved(const struct plane_link *link, const struct udp_rx *b)
{
	if (!endpoint_equal(&link->remote, &b->remote))
		return true;
	return link->local.ip.family != IP_NONE && b->local.ip.family != IP_NONE &&
		!ipaddr_equal(&link->local.ip, &b->local.ip);
}

/* True when the packet goes on with the flow of the one before it, out of the same buffer, which is
 * on its way to the TUN: every stage would say of it what it said of that one. (Its outer ECN is
 * that one's, and to bring it in once more changes nothing.) */
static bool goes_on(struct plane *p, const struct tunnel_open *op, const struct plane_link *link,
	const struct udp_rx *b)
{
	return p->run.from == b && p->run.link == link && p->run.next_header == op->next_header &&
		gro_join(&p->gro, op->text, op->text_len);
}

/* The long way of an authentic inner packet. */
static void walk_inner(struct plane *p, const struct tunnel_open *op, const struct plane_link *link,
	const struct udp_rx *b, wtime now)
{
	struct pkt k = {
		.data = op->text,
		.len = op->text_len,
		.segments = 1,
		.in = link,
		.from = b,
		.now = now,
		.time = b->time,
		.outer_tos = b->tos,
		.next_header = op->next_header,
	};

	/* Each is looked at until the newest one came from where the link is thought to lead. */
	if (op->seq != op->sa->highest) {
		k.from = NULL;
	} else if (endpoint_moved(link, b)) {
		report_remote(p, link, b, now);
		k.from = NULL;
	}
	plane_walk(p, &k, STAGE_LINK_PARSE);
}

/* One authentic inner packet. */
static void input_inner(struct plane *p, const struct tunnel_open *op, const struct udp_rx *b,
	wtime now)
{
	const struct plane_link *link = plane_link_of(p, op->sa->slot);
	struct plane_link_state *state = op->sa->slot < PLANE_SLOTS ? p->slot[op->sa->slot].state
								    : NULL;

	if (state) {
		plane_count(&state->rx_packets, 1);
		plane_count(&state->rx_bytes, op->text_len);
		__atomic_store_n(&state->last_rx_us, now.us, __ATOMIC_RELAXED);
	}
	if (!link) {
		pkt_drop(p, DROP_LINK_DOWN, 1);
		return;
	}
	if (!goes_on(p, op, link, b))
		walk_inner(p, op, link, b, now);
}

static void accept_opened(struct plane *p, struct tunnel_open *open,
	const struct udp_rx *const *from, uint32_t n, wtime now)
{
	for (uint32_t i = 0; i < n; i++) {
		struct tunnel_open *op = &open[i];
		enum drop_reason r = op->sa ? p->config.ops->accept(op) : op->drop;

		if (r != DROP_NONE)
			pkt_drop(p, r, 1);
		else
			input_inner(p, op, from[i], now);
	}
}

static void open_flush(struct plane *p, uint32_t n, wtime now)
{
	if (n == 0)
		return;
	p->config.ops->open_batch(p->open, n);
	accept_opened(p, p->open, p->open_from, n, now);
}

/* What was handed to helpers, in the order in which it came. */
static void accept_shared(struct plane *p, struct share_open *s, wtime now)
{
	struct work_open *o;

	while ((o = share_opened(p, s)))
		accept_opened(p, o->op, o->from, o->n, now);
}

/* Opens what waits, or hands it over. */
static void open_some(struct plane *p, struct share_open *s, uint32_t n, wtime now)
{
	if (s->on && share_open(p, s, n))
		return;
	accept_shared(p, s, now);
	open_flush(p, n, now);
}

/* One datagram; true when it became operation number n. */
static bool input_datagram(struct plane *p, const struct udp_rx *b, uint8_t *data, uint32_t len,
	uint32_t n, wtime now)
{
	struct cur c = cur_of(data, len);
	uint32_t marker;

	if (len == 1 && data[0] == KEEPALIVE) {
		plane_count(&p->counters.keepalives, 1);
		return false;
	}
	marker = cur_u32(&c);
	if (c.bad) {
		pkt_drop(p, DROP_RUNT, 1);
		return false;
	}
	if (marker == 0) {
		punt_ike(p, b, cur_rest(&c), now);
		return false;
	}
	p->open[n] = (struct tunnel_open){.data = data, .len = len, .drop = DROP_NONE};
	p->open_from[n] = b;
	p->config.ops->demux(p->config.table, &p->open[n]);
	return true;
}

void plane_input_udp(struct plane *p, struct udp_rx *buffer, size_t n, wtime now)
{
	struct share_open share = share_open_begin(p, buffer, n);
	uint32_t waiting = 0;

	p->run.from = NULL;
	for (size_t i = 0; i < n; i++) {
		struct udp_rx *b = &buffer[i];
		uint32_t size = b->seg_size ? b->seg_size : b->len, at = 0;

		plane_count(&p->counters.udp_rx_buffers, 1);
		do {
			uint32_t len = b->len - at < size ? b->len - at : size;

			plane_count(&p->counters.udp_rx_datagrams, 1);
			if (b->truncated)
				pkt_drop(p, DROP_TRUNCATED, 1);
			else if (input_datagram(p, b, b->data + at, len, waiting, now))
				waiting++;
			if (waiting == OPEN_BATCH) {
				open_some(p, &share, waiting, now);
				waiting = 0;
			}
			at += len;
		} while (at < b->len);
	}
	open_some(p, &share, waiting, now);
	accept_shared(p, &share, now);
}

enum plane_edge stage_link_parse(struct plane *p, struct pkt *k)
{
	enum drop_reason r;

	if (ip_parse(view_of(k->data, k->len), &k->ip) < 0)
		return edge_drop(k, DROP_BAD_IP);
	if (k->next_header != (k->ip.family == IP4 ? IP_PROTO_IP4 : IP_PROTO_IP6))
		return edge_drop(k, DROP_BAD_IP);
	k->len = k->ip.len;
	r = ecn_decapsulate(k->outer_tos, k->data);
	if (r != DROP_NONE)
		return edge_drop(k, r);
	k->ip.tos = (uint8_t)(k->ip.family == IP4 ? k->data[1] : get_u16(k->data) >> 4);
	k->pair = pair_look(p, &k->ip, pkt_use(k));
	return EDGE_NEXT;
}

/* What a peer may not say, and what is between the two ends of the link alone. */
enum plane_edge stage_link_guard(struct plane *p, struct pkt *k)
{
	unsigned int f = k->pair->flags;

	(void)p;
	if (f & (PAIR_SRC_MARTIAN | PAIR_DST_MARTIAN))
		return edge_drop(k, DROP_MARTIAN);
	if (f & PAIR_SRC_LINK_LOCAL && f & PAIR_DST_LINK_LOCAL)
		return EDGE_ASIDE;
	if (f & (PAIR_SRC_LINK_LOCAL | PAIR_DST_LINK_LOCAL))
		return edge_drop(k, DROP_LINK_LOCAL);
	if (f & PAIR_DST_MULTICAST)
		return edge_drop(k, DROP_MULTICAST);
	/* A path may lead through its own head end. */
	if (f & PAIR_SRC_OWN && !(f & PAIR_DST_SID) && !k->hopped)
		return edge_drop(k, DROP_OWN_SOURCE);
	if (f & (PAIR_DST_SID | PAIR_DST_STEER_SOURCE))
		return EDGE_SID;
	return k->exit ? EDGE_EXIT : EDGE_NEXT;
}
