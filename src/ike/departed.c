/* What is left of an IKE SA that ended with an answer: the answer. RFC 7296 2.1: a responder keeps
 * its last response for a request that comes again; a DELETE whose answer was lost does, and its
 * sender would ask until it gives up. No keys are kept, so only a repetition of the very same bytes
 * is answered (2.1: retransmissions are bitwise identical), with no more than what was asked for
 * once. There are few of them for a short time; replies in fragments are left out. */
#include "ike/sa_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum { DEPARTED_MAX = 256, DEPARTED_BYTES = 2048 };

struct departed {
	struct list node; /* oldest first */
	struct hash_node by_spi;
	uint64_t own_spi;
	wtime until;
	size_t asked, answered; /* bytes of the request, and of the reply behind it */
	uint8_t data[];
};

static void departed_free(struct ike *ike, struct departed *d)
{
	hash_del(&ike->by_departed, &d->by_spi);
	list_del(&d->node);
	w_free(d);
}

static struct departed *departed_oldest(const struct ike *ike)
{
	return list_empty(&ike->departed) ? NULL
					  : container_of(ike->departed.next, struct departed, node);
}

void ike_departed_keep(struct ike_sa *sa, struct view request, wtime now)
{
	struct ike *ike = sa->ike;
	struct view reply = buf_view(&sa->reply.cut.bytes);
	uint64_t own = ike_sa_own_spi(sa);
	struct departed *d;

	if (sa->reply.cut.count != 1 || request.n + reply.n > DEPARTED_BYTES)
		return;
	if (ike->by_departed.count >= DEPARTED_MAX)
		departed_free(ike, departed_oldest(ike));
	d = w_alloc(sizeof(*d) + request.n + reply.n);
	if (!d || hash_add(&ike->by_departed, &d->by_spi, &own, sizeof(own)) < 0) {
		w_free(d);
		ike_drop_count(ike, IKE_DROP_NO_MEMORY);
		return;
	}
	d->own_spi = own;
	d->until = wtime_add(now, IKE_TIME_DEPARTED);
	d->asked = request.n;
	d->answered = reply.n;
	memcpy(d->data, request.p, request.n);
	memcpy(d->data + request.n, reply.p, reply.n);
	list_add_tail(&ike->departed, &d->node);
}

bool ike_departed_input(struct ike *ike, uint64_t own_spi, const struct ike_datagram *in)
{
	struct hash_node *n;

	for (n = hash_find(&ike->by_departed, &own_spi, sizeof(own_spi)); n; n = hash_next(n)) {
		struct departed *d = container_of(n, struct departed, by_spi);

		if (d->own_spi != own_spi || d->asked != in->data.n ||
			memcmp(d->data, in->data.p, d->asked) != 0)
			continue;
		ike_send(ike, &in->local, &in->remote, view_of(d->data + d->asked, d->answered));
		return true;
	}
	return false;
}

wtime ike_departed_due(const struct ike *ike)
{
	const struct departed *d = departed_oldest(ike);

	return d ? d->until : WTIME_NEVER;
}

void ike_departed_tick(struct ike *ike, wtime now)
{
	while (wtime_due(ike_departed_due(ike), now))
		departed_free(ike, departed_oldest(ike));
}

void ike_departed_done(struct ike *ike)
{
	list_for_each_safe (it, &ike->departed)
		departed_free(ike, container_of(it, struct departed, node));
	hash_done(&ike->by_departed);
}
