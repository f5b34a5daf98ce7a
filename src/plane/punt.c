/* Up to the control side: IKE messages (RFC 7296, behind the non-ESP marker of RFC 3948 2.2), those
 * of unknown SPIs behind token buckets; and what links carry for their own ends. */
#include "plane/plane_priv.h"

/* A cookie is the first payload of its message (RFC 7296 2.6): where the header names that payload,
 * and what of its own header stands in front of its type (RFC 7296 3.1, 3.10). */
enum {
	PAYLOAD_NOTIFY = 41,
	COOKIE = 16390,
	NEXT_PAYLOAD_AT = 16,
	NOTIFY_TYPE_AT = 6,
};

/* A Babel packet's header, and the types of TLVs that a greeting may have (RFC 8966 4.2, 4.6; PC:
 * RFC 8967 6.2). */
enum { BABEL_MAGIC = 42, BABEL_VERSION = 2 };
enum { PAD1 = 0, PADN = 1, HELLO = 4, IHU = 5, PC = 17 };

/* A hello that comes so long after the last word of its neighbour says that all is as it was. One
 * that comes earlier belongs to a conversation, and after a later one something is new. */
#define HELLO_ALONE_US (1 * W_SEC)
#define HELLO_LATE_US  (6 * W_SEC)

/* Of one link: 2000 a second, of which a paced dump of 100,000 routes takes fewer; 1024 at once, in
 * which a speaker retracts 100,000 routes that went together, since what is lost then is held until
 * it expires; and a half of the ring at most. What is larger than others counts as several. */
enum { PUNT_US = 500, PUNT_BURST_US = 1024 * PUNT_US, PUNT_BYTES = 2048 };

void punt_up(struct plane *p, const struct plane_up *up)
{
	if (p->config.up(p->config.up_ctx, up))
		plane_count(&p->counters.punted, 1);
	else
		pkt_drop(p, DROP_PUNT_FULL, 1);
}

static enum ike_class classify(struct view message, uint64_t spi_r)
{
	struct cur c = cur_view(message);

	if (spi_r)
		return IKE_GOES_ON;
	cur_skip(&c, NEXT_PAYLOAD_AT);
	if (cur_u8(&c) != PAYLOAD_NOTIFY)
		return IKE_FIRST;
	cur_skip(&c, IKE_HEADER - (NEXT_PAYLOAD_AT + 1) + NOTIFY_TYPE_AT);
	return cur_u16(&c) == COOKIE && !c.bad ? IKE_COOKIE : IKE_FIRST;
}

/* What has no token of its kind is remembered: an honest peer sends it again in a second, and then
 * it has a bucket that a flood from made-up sources does not empty. */
static bool may_come(struct plane *p, const struct udp_rx *b, struct view data, uint64_t spi_i,
	uint64_t spi_r, wtime now)
{
	return bucket_take(&p->ike[classify(data, spi_r)], now) ||
		(again_refused(&p->again, &b->remote, spi_i, now) &&
			bucket_take(&p->ike[IKE_AGAIN], now));
}

void punt_ike(struct plane *p, const struct udp_rx *b, struct view data, wtime now)
{
	struct cur c = cur_view(data);
	uint64_t spi_i = cur_u64(&c), spi_r = cur_u64(&c);
	struct plane_up up = {
		.type = PLANE_UP_IKE,
		.socket = b->socket,
		.remote = b->remote,
		.local = b->local,
		.time = b->time,
		.data = data,
	};

	if (data.n < IKE_HEADER) {
		pkt_drop(p, DROP_RUNT, 1);
		return;
	}
	up.established = p->config.ike_known &&
		p->config.ike_known(p->config.ike_known_ctx, spi_i, spi_r);
	if (!up.established && !may_come(p, b, data, spi_i, spi_r, now)) {
		pkt_drop(p, DROP_PUNT_LIMIT, 1);
		return;
	}
	punt_up(p, &up);
}

/* One peer, whatever it sends, leaves room in the ring and time for what the others say. */
static bool link_may_talk(struct plane_slot *slot, uint32_t len, wtime now)
{
	int64_t until = slot->punted_until_us > now.us ? slot->punted_until_us : now.us;

	until += PUNT_US * (int64_t)(1 + len / PUNT_BYTES);
	if (until - now.us > PUNT_BURST_US)
		return false;
	slot->punted_until_us = until;
	return true;
}

/* A Babel packet (RFC 8966 4.2) whose body has Hello and IHU alone, beside padding and the packet
 * counter (RFC 8967 6.2). What is malformed is no such. */
static bool is_greeting(const struct pkt *k)
{
	struct view packet = view_of(k->data, k->len);
	struct cur c = cur_view(packet);
	uint16_t src, dst;
	bool hello = false;

	if (k->ip.proto != IP_PROTO_UDP || ip_is_fragment(&k->ip) ||
		!ip_ports(packet, &k->ip, &src, &dst) || dst != BABEL_PORT)
		return false;
	cur_skip(&c, (size_t)k->ip.l4 + UDP_HEADER);
	if (cur_u16(&c) != (BABEL_MAGIC << 8 | BABEL_VERSION))
		return false;
	c = cur_sub(&c, cur_u16(&c));
	while (c.n > 0 && !c.bad) {
		uint8_t type = cur_u8(&c);

		if (type != PAD1 && type != PADN && type != HELLO && type != IHU && type != PC)
			return false;
		hello |= type == HELLO;
		if (type != PAD1)
			cur_skip(&c, cur_u8(&c));
	}
	return hello && !c.bad;
}

/* Whether the control thread need not be woken for what came from a link; remembers when it did. */
static bool may_wait(struct plane_slot *slot, const struct pkt *k)
{
	int64_t since = k->now.us - slot->punted_us;

	slot->punted_us = k->now.us;
	return since >= HELLO_ALONE_US && since <= HELLO_LATE_US && is_greeting(k);
}

void punt_link(struct plane *p, const struct pkt *k)
{
	struct plane_up up = {
		.type = PLANE_UP_LINK,
		.slot = k->in->slot,
		.socket = k->in->socket,
		.remote = k->in->remote,
		.local = k->in->local,
		.time = k->time,
		.data = view_of(k->data, k->len),
	};

	if (!link_may_talk(&p->slot[k->in->slot], k->len, k->now)) {
		pkt_drop(p, DROP_PUNT_LIMIT, 1);
		return;
	}
	up.may_wait = may_wait(&p->slot[k->in->slot], k);
	punt_up(p, &up);
}
