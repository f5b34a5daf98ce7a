/* Packets to send: what is due on an interface is bundled into as few as the MTU allows. Hellos and
 * IHUs are written with the time of output (RFC 9616 3.4); an IHU never goes without a Hello. */
#include "babel/babel_priv.h"

#include <string.h>
#include "base/mem.h"

static const uint8_t group[16] = {0xff, 0x02, [13] = 0x01, [15] = 0x06};

void babel_out_schedule(struct babel *b, struct babel_iface *ifc)
{
	wtime at = wtime_min(ifc->misc_at, ifc->urgent_at);

	if (ifc->ready)
		return;
	for (int i = 0; i < BABEL_LANES; i++)
		at = wtime_min(at, ifc->lane_at[i]);
	babel_timer_set(b, &ifc->out, wtime_min(at, ifc->again_at));
}

void babel_out_ready(struct babel *b, struct babel_iface *ifc)
{
	if (ifc->ready)
		return;
	ifc->ready = true;
	list_add_tail(&b->ready, &ifc->ready_link);
}

void babel_out_fire(struct babel *b, struct babel_timer *t, wtime now)
{
	(void)now;
	babel_out_ready(b, container_of(t, struct babel_iface, out));
}

void babel_unicast_flag(struct babel *b, struct babel_neighbour *n, wtime now)
{
	if (list_empty(&n->unicast_link))
		list_add_tail(&n->ifc->unicast, &n->unicast_link);
	babel_iface_soon(b, n->ifc, 0, now);
}

void babel_unicast(struct babel *b, struct babel_neighbour *n, struct view tlvs, wtime now)
{
	if (n->queue.n + tlvs.n > BABEL_QUEUE_MAX) {
		babel_drop(b, BABEL_DROP_NO_MEMORY);
		return;
	}
	buf_add(&n->queue, tlvs.p, tlvs.n);
	if (n->queue.failed) {
		babel_drop(b, BABEL_DROP_NO_MEMORY);
		buf_free(&n->queue);
		return;
	}
	babel_unicast_flag(b, n, now);
}

static void begin(struct babel *b, const struct babel_iface *ifc, struct babel_build *w)
{
	size_t room = ifc->c.mtu < b->packet_cap ? ifc->c.mtu : b->packet_cap;

	babel_build_begin(w, b->packet, room - babel_mac_overhead(ifc), false);
}

/* Moves whole TLVs from a queue into the packet, as many as fit. True when the queue is empty. */
static bool take_queue(struct buf *q, struct babel_build *w)
{
	struct cur c = cur_view(buf_view(q));
	size_t left;

	while (c.n) {
		struct cur peek = c;
		struct view tlv;

		cur_skip(&peek, 1);
		tlv = view_of(c.p, (size_t)cur_u8(&peek) + BABEL_TLV_HEADER);
		if (w->w.cap - w->w.len < tlv.n && !babel_build_empty(w))
			break;
		wcur_view(&w->w, tlv); /* larger than any packet: it is lost */
		w->w.full = false;
		cur_skip(&c, tlv.n);
	}
	left = c.n;
	if (!left) {
		buf_free(q);
		return true;
	}
	memmove(q->p, c.p, left);
	q->n = left;
	return false;
}

/* One packet to a single neighbour. */
static bool unicast(struct babel *b, struct babel_iface *ifc, struct babel_build *w,
	struct ipaddr *ret, wtime now)
{
	while (!list_empty(&ifc->unicast)) {
		struct babel_neighbour *n = container_of(ifc->unicast.next, struct babel_neighbour,
			unicast_link);

		begin(b, ifc, w);
		babel_mac_write(b, n, w, now);
		*ret = n->addr;
		if (take_queue(&n->queue, w))
			list_del(&n->unicast_link);
		if (!babel_build_empty(w))
			return true;
	}
	return false;
}

static bool write_hello(struct babel *b, struct babel_iface *ifc, struct babel_build *w, wtime now)
{
	if (!babel_build_hello(w, ifc->hello_seqno, babel_centiseconds(ifc->c.hello_us),
		    babel_timestamp(b, now)))
		return false;
	ifc->hello_seqno++;
	ifc->hello_last = now;
	ifc->hello_due = false;
	return true;
}

static bool write_ihu(const struct babel *b, struct babel_neighbour *n, struct babel_build *w,
	wtime now)
{
	enum { IHU_TIMES = 3 }; /* RFC 8966 appendix B */
	struct babel_ihu i = {.to = n->addr,
		.rxcost = b->stopped ? BABEL_INFINITY : n->rxcost,
		.interval = babel_centiseconds(n->ifc->c.hello_us * IHU_TIMES),
		.has_time = n->has_time && wtime_diff(now, n->receive_at) < BABEL_RTT_VOID_US,
		.origin = n->origin,
		.receive = n->receive,
		.loss = (uint16_t)(babel_neighbour_loss_in(n) * UINT16_MAX),
		.loss_of_hellos = n->ifc->loss_in < 0};

	if (!babel_build_ihu(w, &i))
		return false;
	n->ihu_due = false;
	return true;
}

/* A Hello, and the IHUs that are due; those that do not fit go with another Hello. True when none
 * is left. */
static bool write_hellos(struct babel *b, struct babel_iface *ifc, struct babel_build *w, wtime now)
{
	bool hello = false;

	if (ifc->hello_due)
		hello = write_hello(b, ifc, w, now);
	list_for_each (it, &ifc->neighbours) {
		struct babel_neighbour *n = container_of(it, struct babel_neighbour, by_iface);

		if (!n->ihu_due || !n->known)
			continue;
		if (!hello && !write_hello(b, ifc, w, now))
			return false;
		hello = true;
		if (!write_ihu(b, n, w, now))
			return false;
	}
	return true;
}

static bool write_refused(struct babel_iface *ifc, struct babel_build *w)
{
	while (ifc->refused_count) {
		struct babel_update u = {.prefix = ifc->refused[ifc->refused_count - 1],
			.interval = ifc->interval_cs,
			.metric = BABEL_INFINITY};

		if (!babel_build_update(w, &u))
			return false;
		ifc->refused_count--;
	}
	w_free(ifc->refused);
	ifc->refused = NULL;
	return true;
}

static bool write_misc(struct babel *b, struct babel_iface *ifc, struct babel_build *w, wtime now)
{
	if (!write_hellos(b, ifc, w, now))
		return false;
	if (ifc->wildcard_due) {
		if (!babel_build_route_request(w, NULL))
			return false;
		ifc->wildcard_due = false;
	}
	if (ifc->goodbyes) {
		if (!babel_build_wildcard_retraction(w, ifc->interval_cs))
			return false;
		ifc->goodbyes--;
		if (ifc->goodbyes)
			return false; /* the next one in a packet of its own */
	}
	if (!take_queue(&ifc->queue, w))
		return false;
	return write_refused(ifc, w);
}

/* A hello's packet stays small whatever goes with it: a way that loses large ones alone
 * does not seem to lose hellos. */
static void keep_small(const struct babel_iface *ifc, struct babel_build *w)
{
	size_t small = BABEL_MTU_MIN - babel_mac_overhead(ifc);

	small = small > w->w.len ? small : w->w.len;
	w->w.cap = small < w->w.cap ? small : w->w.cap;
}

static bool multicast(struct babel *b, struct babel_iface *ifc, struct babel_build *w, wtime now)
{
	uint16_t hello = ifc->hello_seqno;

	begin(b, ifc, w);
	if (wtime_due(ifc->misc_at, now))
		ifc->misc_at = write_misc(b, ifc, w, now) ? WTIME_NEVER : now;
	if (ifc->hello_seqno != hello)
		keep_small(ifc, w);
	if (!b->stopped)
		babel_write_updates(b, ifc, w, now);
	return !babel_build_empty(w);
}

static bool due(const struct babel_iface *ifc, wtime now)
{
	return !list_empty(&ifc->unicast) || wtime_due(ifc->misc_at, now) ||
		wtime_due(ifc->urgent_at, now) ||
		wtime_due(ifc->lane_at[BABEL_LANE_TRIGGER], now) ||
		wtime_due(ifc->lane_at[BABEL_LANE_DUMP], now) || wtime_due(ifc->again_at, now);
}

static bool next_packet(struct babel *b, struct babel_iface *ifc, wtime now,
	struct babel_packet *ret)
{
	while (due(ifc, now)) {
		struct ipaddr to = ipaddr_from(IP6, group);
		struct babel_build w;

		if (!unicast(b, ifc, &w, &to, now) && !multicast(b, ifc, &w, now))
			continue;
		if (!babel_mac_sign(b, ifc, &w, &to))
			continue;
		b->stats.packets_out++;
		b->stats.bytes_out += w.w.len;
		*ret = (struct babel_packet){.iface = ifc->c.iface,
			.source = ifc->c.link_local,
			.destination = to,
			.data = wcur_written(&w.w)};
		return true;
	}
	return false;
}

bool babel_output(struct babel *b, wtime now, struct babel_packet *ret)
{
	while (!list_empty(&b->ready)) {
		struct babel_iface *ifc = container_of(b->ready.next, struct babel_iface,
			ready_link);

		if (next_packet(b, ifc, now, ret))
			return true;
		list_del(&ifc->ready_link);
		ifc->ready = false;
		babel_out_schedule(b, ifc);
	}
	return false;
}
