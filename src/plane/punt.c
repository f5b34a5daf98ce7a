/* Up to the control side: IKE messages (RFC 7296, behind the non-ESP marker of RFC 3948 2.2), those
 * of unknown SPIs behind a token bucket; and what links carry for their own ends. */
#include "plane/plane_priv.h"

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
	if (!up.established && !bucket_take(&p->ike, now)) {
		pkt_drop(p, DROP_PUNT_LIMIT, 1);
		return;
	}
	if (p->config.up(p->config.up_ctx, &up))
		plane_count(&p->counters.punted, 1);
	else
		pkt_drop(p, DROP_PUNT_FULL, 1);
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

	if (p->config.up(p->config.up_ctx, &up))
		plane_count(&p->counters.punted, 1);
	else
		pkt_drop(p, DROP_PUNT_FULL, 1);
}
