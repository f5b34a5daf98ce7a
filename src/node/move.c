/* A peer that seems to have moved: an authentic packet, newer than all before, came from another
 * endpoint. Whoever carries packets can have one come from where he likes, so the link follows only
 * when the peer has answered from there: an echo inside ESP that is sent nowhere else, or, to one
 * that never answered an echo, IKE's liveness check. Until then the old way is kept. This holds for
 * an end behind a NAT too, which RFC 7296 2.23 keeps from following; sequence check and question
 * make it safe. */
#include "node/node_priv.h"

#include "wire/icmp.h"

enum { MOVE_ID = 0x7767, MOVE_TRIES = 5, PACKET = 128 };

#define MOVE_US (200 * W_MS) /* between questions */

static void ask_echo(struct node *n, struct node_link *l)
{
	struct icmp_echo e = {
		.src = l->own_link_local,
		.dst = l->heard_link_local,
		.ttl = 255,
		.id = MOVE_ID,
		.seq = l->move_seq,
	};
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = l->slot};
	struct node_action a = {.type = NODE_ACTION_PLANE};
	uint8_t packet[PACKET];
	size_t len;

	if (icmp_echo_build(&e, packet, sizeof(packet), &len) < 0)
		return;
	m.remote = l->move_remote;
	m.local = l->move_local;
	a.plane = m;
	node_seal(n, &a, view_of(packet, len));
}

static void ask(struct node *n, struct node_link *l, wtime now)
{
	l->move_tries++;
	l->move_next = wtime_add(now, MOVE_US);
	if (l->outbound && l->answers_echo && l->heard_link_local.family == IP6)
		ask_echo(n, l);
	else if (l->move_tries == 1)
		(void)ike_conn_try_remote(n->ike, l->conn, &l->move_local, &l->move_remote, now);
}

static void forget(struct node_link *l)
{
	l->move_remote = l->move_local = (struct endpoint){0};
	l->move_tries = 0;
}

void node_move_seen(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now)
{
	/* only this end's own address is another, or there was none: nobody is led astray */
	if (endpoint_equal(&l->remote, remote) || l->remote.ip.family == IP_NONE) {
		node_link_moved(n, l, local, remote, now);
		return;
	}
	if (l->move_tries && endpoint_equal(&l->move_remote, remote))
		return;
	l->move_local = *local;
	l->move_remote = *remote;
	l->move_seq++;
	l->move_tries = 0;
	ask(n, l, now);
}

void node_move_answer(struct node *n, struct node_link *l, const struct icmp_echo *e, wtime now)
{
	struct endpoint local = l->move_local, remote = l->move_remote;

	if (!e->reply || e->id != MOVE_ID || e->seq != l->move_seq || !l->move_tries)
		return;
	forget(l);
	node_link_moved(n, l, &local, &remote, now);
}

void node_move_answered(struct node *n, struct node_link *l, const struct endpoint *local,
	const struct endpoint *remote, wtime now)
{
	if (!l->move_tries || !endpoint_equal(&l->move_remote, remote))
		return;
	forget(l);
	node_link_moved(n, l, local, remote, now);
}

void node_move_tick(struct node *n, struct node_link *l, wtime now)
{
	if (!l->move_tries || !wtime_due(l->move_next, now))
		return;
	if (l->move_tries < MOVE_TRIES)
		ask(n, l, now);
	else
		forget(l); /* the next packet from there begins anew */
}
