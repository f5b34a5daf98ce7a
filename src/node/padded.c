/* The probes of a link's path MTU (RFC 8899 section 6 leaves them to the protocol): echoes as for
 * liveness, padded to the size of the largest packet that a path MTU allows, sealed, and sent whole
 * or not at all. The answer is as long, so that what is found passes both ways. What was found
 * bounds the link's datagrams, and by that the packets inside. To a peer that answers no echo
 * nothing is asked: what the kernel knows holds. */
#include "node/node_priv.h"

#include "base/mem.h"
#include "wire/icmp.h"
#include "wire/ip.h"

enum {
	PADDED_ID = 0x7768,
	BASE4 = 1200, /* RFC 8899 5.1.2, BASE_PLPMTU */
	BASE6 = 1280,
	PATH_UNKNOWN = 1500,
	EMPTY = IP6_HEADER + ICMP_HEADER,
};

/* Larger outer packets are never made: the interface takes no more, or nothing fills them. */
static uint32_t largest(const struct node *n, const struct node_link *l, const struct node_child *c)
{
	uint32_t full = esp_ops()->sealed_len(c->out, n->config->tun.mtu) + node_path_headers(l);
	uint32_t mtu = l->path_mtu ? l->path_mtu : PATH_UNKNOWN;

	return full < mtu ? full : mtu;
}

static void send_probe(struct node *n, struct node_link *l, const struct node_child *c,
	const struct pmtu_probe *p)
{
	uint32_t inner = EMPTY;
	struct icmp_echo e = {
		.src = l->own_link_local,
		.dst = l->heard_link_local,
		.ttl = 255,
		.id = PADDED_ID,
		.seq = p->seq,
	};
	struct node_action a = {.type = NODE_ACTION_PLANE};
	uint8_t *packet;
	size_t len;

	if (p->size)
		inner = esp_ops()->inner_max(c->out, p->size - node_path_headers(l));
	if (inner < EMPTY)
		return;
	packet = w_alloc(inner);
	if (!packet)
		return; /* as if it were lost */
	e.pad = inner - EMPTY;
	a.plane.type = PLANE_DOWN_SEAL;
	a.plane.slot = l->slot;
	a.plane.flags = PLANE_SEAL_WHOLE;
	if (icmp_echo_build(&e, packet, inner, &len) == 0)
		node_seal(n, &a, view_of(packet, len));
	w_free(packet);
}

/* Of the largest packet that a path MTU allows. */
static uint32_t outer_size(const struct node_link *l, const struct node_child *c, uint32_t mtu)
{
	uint32_t inner = esp_ops()->inner_max(c->out, mtu - node_path_headers(l));

	return esp_ops()->sealed_len(c->out, inner) + node_path_headers(l);
}

void node_padded_answer(struct node *n, struct node_link *l, const struct icmp_echo *e, wtime now)
{
	(void)n;
	if (e->reply && e->id == PADDED_ID)
		pmtu_answer(&l->pmtu, e->seq, now);
}

void node_padded_tick(struct node *n, struct node_link *l, wtime now)
{
	const struct node_child *c = node_outbound(l);
	struct pmtu_probe probe[PMTU_PROBES];
	uint16_t before = node_link_mtu(n, l);
	size_t count;

	if (!c || l->dead || !l->answers_echo || l->heard_link_local.family != IP6) {
		pmtu_restart(&l->pmtu);
		return;
	}
	pmtu_bounds(&l->pmtu, node_path_least(l), l->family == IP4 ? BASE4 : BASE6,
		largest(n, l, c));
	count = pmtu_tick(&l->pmtu, __atomic_load_n(&l->state->last_large_us, __ATOMIC_RELAXED),
		now, probe);
	for (size_t i = 0; i < count; i++)
		send_probe(n, l, c, &probe[i]);
	if (node_link_mtu(n, l) == before)
		return;
	n->snapshot_dirty = true;
	node_log(n, CONF_LOG_INFO, "link %s: outer packets of %u bytes pass", l->text,
		outer_size(l, c, l->pmtu.good));
}
