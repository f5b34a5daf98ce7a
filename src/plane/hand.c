/* Between the planes of one daemon: a link belongs to one of them, which has its SAs and so is the
 * only one to give out its sequence numbers and to count for it. What another plane has for the
 * link is written, ready to be sealed, to where that plane's thread finds it. */
#include "plane/plane_priv.h"

#include <string.h>

bool hand_elsewhere(const struct plane *p, const struct plane_link *link)
{
	return p->config.planes > 1 && link->slot % p->config.planes != p->config.number;
}

uint8_t *hand_room(struct plane *p, const struct tx_ask *ask, enum drop_reason *ret_drop)
{
	struct plane_handed h = {
		.slot = ask->link->slot,
		.len = ask->len,
		.more = ask->more,
		.tos = ask->tos,
		.next_header = ask->next_header,
	};
	uint8_t *at = p->config.hand(p->config.up_ctx, ask->link->slot % p->config.planes, &h);

	if (at)
		plane_count(&p->counters.handed, 1);
	else
		*ret_drop = DROP_TX_BACKPRESSURE;
	return at;
}

void plane_input_handed(struct plane *p, const struct plane_handed *h, const uint8_t *data,
	wtime now)
{
	struct tx_ask ask = {
		.link = plane_link_of(p, h->slot),
		.len = h->len,
		.more = h->more,
		.tos = h->tos,
		.next_header = h->next_header,
		.now = now,
	};
	enum drop_reason drop = DROP_LINK_DOWN;
	uint8_t *text = NULL;

	plane_count(&p->counters.taken, 1);
	if (ask.link && ask.link->usable)
		text = tx_room(p, &ask, &drop);
	if (text)
		memcpy(text, data, h->len);
	else
		pkt_drop(p, drop, 1);
}
