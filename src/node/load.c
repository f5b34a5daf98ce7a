/* What links carry, for the speaker: it must know which round trips are made longer by this node's
 * own traffic; what the links' ends say to each other is no load, and a probe of the path's MTU
 * among little else would look like one. Links of one local endpoint most likely share a way out,
 * and count together too. */
#include "node/node_priv.h"

static uint64_t read_counter(const uint64_t *c)
{
	return __atomic_load_n(c, __ATOMIC_RELAXED);
}

static uint64_t sent(const struct node_link *l)
{
	/* the plane counts in the other order: it never seems to be less than nothing */
	uint64_t own = read_counter(&l->state->own_tx_bytes);

	return read_counter(&l->state->tx_bytes) - own;
}

static uint64_t received(const struct node_link *l)
{
	/* the plane counts in the other order: it never seems to be less than nothing */
	uint64_t own = read_counter(&l->state->own_rx_bytes);

	return read_counter(&l->state->rx_bytes) - own;
}

static void of_socket(struct node *n, uint16_t socket, wtime now)
{
	uint64_t bytes[BABEL_METERS] = {0};

	list_for_each (it, &n->links) {
		const struct node_link *l = container_of(it, struct node_link, list);

		if (l->socket != socket)
			continue;
		bytes[BABEL_SHARED_OUT] += sent(l);
		bytes[BABEL_SHARED_IN] += received(l);
	}
	list_for_each (it, &n->links) {
		struct node_link *l = container_of(it, struct node_link, list);

		if (l->socket != socket || !l->speaking || !wtime_due(l->load_at, now))
			continue;
		bytes[BABEL_LINK_OUT] = sent(l);
		bytes[BABEL_LINK_IN] = received(l);
		l->load_at = babel_iface_traffic(n->babel, l->slot + 1, bytes, now);
	}
}

void node_load_tick(struct node *n, wtime now)
{
	for (size_t i = 0; i < n->socket_count; i++)
		of_socket(n, (uint16_t)i, now);
}
