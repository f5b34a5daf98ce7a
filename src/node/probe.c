/* Liveness of a link: ICMPv6 echo, link-local to link-local,
 * inside ESP. Sent for 500 ms and nothing heard: an echo every 200 ms, from the first late one on
 * with IKE's own check beside it (a peer that follows a NAT's new mapping by IKE alone, as
 * strongSwan does, learns of it so); five lost, and the link is down for Babel. A link that is not
 * in use, over which nobody has sent anything for some seconds and no policy's segments lead, has
 * the peer's next hello to wait for first: two ends with nothing else to say would ask each other
 * all the time. A peer that never answered an echo is judged by hellos and IKE alone; so that this
 * is known of a link that was never quiet, one that comes up is asked at once, and what was known
 * of the peer holds until it is seen to have changed.
 *
 * When one of those echoes is late, those neighbours are asked that the link's routes would go to
 * next, and who is asked looks at its own link in the same way, but at once and with shorter pauses
 * (babel/doubt.c): two nodes know more than one, and without it would take these 1.5 s one after
 * the other. */
#include "node/node_priv.h"

#include "wire/icmp.h"
#include "wire/ip.h"

enum { PROBES_LOST = 5, PROBES_RECENT = 16, GREETINGS = 4, PROBE_ID = 0x7766, PACKET = 128 };

#define QUIET_US (500 * W_MS)
#define PROBE_US (200 * W_MS)
#define QUICK_US (100 * W_MS) /* the same, when a neighbour doubts the link, too */
#define DEAD_US  (1 * W_SEC)  /* between echoes to a link that is down */
#define MUTE_US  (10 * W_SEC) /* and to a peer that never answered one */
#define GREET_US (200 * W_MS) /* until the second greeting; to each further one twice as long */
#define SLACK_US (50 * W_MS)  /* until what was sealed is sent */
#define IDLE_US  (10 * W_SEC) /* nothing sent for others: the link is not in use */

static struct ipaddr all_nodes(void)
{
	const uint8_t b[16] = {0xff, 0x02, [15] = 1};

	return ipaddr_from(IP6, b);
}

/* The round trip as the speaker knows it; a long one where it does not. */
static int64_t way_us(const struct node *n, const struct node_link *l)
{
	struct babel_neighbour_info i;

	return node_link_neighbour(n, l->slot, &i) && i.has_rtt ? i.rtt_us : QUICK_US;
}

static void send_probe(struct node *n, struct node_link *l, wtime now)
{
	struct icmp_echo e = {
		.src = l->own_link_local,
		.dst = l->heard_link_local.family == IP6 ? l->heard_link_local : all_nodes(),
		.ttl = 255,
		.id = PROBE_ID,
		.seq = ++l->probe_seq,
	};
	struct plane_down m = {.type = PLANE_DOWN_SEAL, .slot = l->slot};
	struct node_action a = {.type = NODE_ACTION_PLANE, .plane = m};
	uint8_t packet[PACKET];
	size_t len;

	if (icmp_echo_build(&e, packet, sizeof(packet), &len) < 0)
		return;
	node_seal(n, &a, view_of(packet, len));
	if (!l->probes_out++)
		l->probes_since = now;
	l->probe_next = wtime_add(now, l->doubted && way_us(n, l) < QUICK_US ? QUICK_US : PROBE_US);
}

void node_probe_answer(struct node *n, struct node_link *l, struct view packet, wtime now)
{
	struct icmp_echo e;
	struct ip_view v;

	if (ip_parse(packet, &v) < 0 || v.family != IP6 || icmp_echo_parse(packet, &v, &e) < 0)
		return;
	node_move_answer(n, l, &e, now);
	node_padded_answer(n, l, &e, now);
	/* on a long way the answer comes when others are out already */
	if (!e.reply || e.id != PROBE_ID || (uint16_t)(l->probe_seq - e.seq) >= PROBES_RECENT)
		return;
	l->answers_echo = l->answered = true;
	l->heard_link_local = v.src;
	node_probe_heard(n, l, now);
}

void node_probe_heard(struct node *n, struct node_link *l, wtime now)
{
	l->probes_out = 0;
	l->doubted = l->suspect = false;
	if (!l->dead)
		return;
	l->dead = false;
	node_log(n, CONF_LOG_INFO, "link %s: alive again", l->text);
	node_speaker_alive(n, l, now);
	n->snapshot_dirty = true;
}

/* An echo was not answered although the way is not that long. */
static bool is_late(const struct node *n, const struct node_link *l, wtime now)
{
	return l->probes_out && wtime_diff(now, l->probes_since) >= SLACK_US + way_us(n, l) * 3 / 2;
}

static void ask_ike(struct node *n, struct node_link *l, wtime now)
{
	if (l->asked_ike || (l->probes_out < PROBES_LOST && !is_late(n, l, now)))
		return;
	l->asked_ike = true;
	(void)ike_conn_probe(n->ike, l->conn, now);
}

static void judge(struct node *n, struct node_link *l, wtime now)
{
	if (l->probes_out < PROBES_LOST || l->dead || !l->answers_echo)
		return;
	l->dead = true;
	node_log(n, CONF_LOG_INFO, "link %s: nothing is heard: down for routing", l->text);
	node_speaker_alive(n, l, now);
	/* one that has not been heard since it is up may not have our last message yet */
	if (l->heard_us >= l->up_since.us)
		(void)ike_conn_judged_down(n->ike, l->conn, now);
	n->snapshot_dirty = true;
}

/* Those that routes would go to next may not know more, and are asked. */
static void suspect(struct node *n, struct node_link *l, wtime now)
{
	if (l->suspect || l->dead || !l->answers_echo || !is_late(n, l, now))
		return;
	l->suspect = true;
	babel_iface_doubt(n->babel, l->slot + 1, now);
}

/* Does the peer answer an echo at all? One that did so before may have become another. The end that
 * has the keys first greets one that is still installing them, and that greeting is lost: the next
 * one comes soon, since until it is known that the peer answers, a cut is noticed by IKE alone, ten
 * times later. On a way whose round trip is longer than the first pauses, the last pause is long
 * enough to be fair: 3 s in all. */
static void greet(struct node *n, struct node_link *l, wtime now)
{
	int64_t pause_us = GREET_US << l->greetings >> 1;
	unsigned int out = l->probes_out;
	wtime next = l->probe_next;

	if (!l->outbound || l->answered ||
		(l->greetings && !wtime_due(wtime_add(l->greeted_at, pause_us), now)))
		return;
	if (l->greetings >= GREETINGS) {
		l->answers_echo &= l->heard_us <= l->greeted_at.us;
		return;
	}
	l->greetings++;
	l->greeted_at = now;
	send_probe(n, l, now);
	l->probes_out = out; /* it says nothing about being alive */
	l->probe_next = next;
}

static void probe(struct node *n, struct node_link *l, wtime now)
{
	if (!wtime_due(l->probe_next, now))
		return;
	suspect(n, l, now);
	ask_ike(n, l, now);
	judge(n, l, now);
	send_probe(n, l, now);
	if (l->probes_out > PROBES_LOST)
		l->probe_next = wtime_add(now, l->answers_echo ? DEAD_US : MUTE_US);
}

/* Since the link is up. The first packet that nothing answered counts, not the last one heard; both
 * may have one and the same time of the plane. What the ends say to each other counts as sent while
 * the link is in use, or doubted, or has not shown yet that the peer answers. */
static bool quiet(const struct node *n, struct node_link *l, int64_t rx, wtime now)
{
	int64_t tx = __atomic_load_n(&l->state->last_tx_us, __ATOMIC_RELAXED);
	int64_t up = l->up_since.us, heard = rx > up ? rx : up;
	bool idle = (tx < up || now.us - tx >= IDLE_US) && l->chosen_by != n->generation;

	if (!l->quiet_since && tx >= heard)
		l->quiet_since = tx;
	if (l->quiet_since)
		heard = l->quiet_since;
	else if (!l->answers_echo || (l->answered && idle && l->doubted_us < heard))
		heard += n->config->babel.hello_us;
	return now.us - heard >= QUIET_US;
}

void node_probe_tick(struct node *n, struct node_link *l, wtime now)
{
	int64_t rx = __atomic_load_n(&l->state->last_rx_us, __ATOMIC_RELAXED);

	greet(n, l, now);
	if (rx > l->heard_us) {
		l->heard_us = rx;
		l->asked_ike = false;
		ike_conn_heard(n->ike, l->conn, (wtime){rx});
		node_probe_heard(n, l, now);
		l->quiet_since = 0;
		return;
	}
	if (!l->doubted && (!l->outbound || !quiet(n, l, rx, now)))
		return;
	l->doubted |= l->doubted_us >= rx && l->answers_echo;
	probe(n, l, now);
}

void node_probe_doubted(struct node *n, struct node_link *l, wtime now)
{
	int64_t rx = __atomic_load_n(&l->state->last_rx_us, __ATOMIC_RELAXED);

	if (!l->outbound || l->dead || l->doubted || !l->answers_echo)
		return;
	l->doubted_us = now.us;
	if (now.us - rx < QUIET_US)
		return;
	l->doubted = true;
	l->probe_next = wtime_min(l->probe_next, now);
	probe(n, l, now);
}
