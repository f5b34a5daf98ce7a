/* The interface table (RFC 8966 3.2.3): configuration, hellos (3.4.1), what the caller knows of the
 * link. */
#include "babel/babel_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum {
	DEFAULT_FACTOR = 4,
	JITTER_PARTS = 16, /* hellos come early by up to this part of the interval */
	ANSWER_SPREAD_US = 20000,
	HELLO_MIN_US = 10000,
	KEY_SHA256_MAX = BABEL_KEY_MAX,
	KEY_BLAKE2S_MAX = 32,
};

struct babel_iface *babel_iface_find(const struct babel *b, uint32_t iface)
{
	for (struct hash_node *it = hash_find(&b->ifaces, &iface, sizeof(iface)); it;
		it = hash_next(it)) {
		struct babel_iface *ifc = container_of(it, struct babel_iface, hash);

		if (ifc->c.iface == iface)
			return ifc;
	}
	return NULL;
}

void babel_iface_soon(struct babel *b, struct babel_iface *ifc, int64_t us, wtime now)
{
	ifc->misc_at = wtime_min(ifc->misc_at, wtime_add(now, us));
	babel_out_schedule(b, ifc);
}

/* Never later than was announced (RFC 8966 3.4.1): by the grid it comes sooner. */
static void hello_next(struct babel *b, struct babel_iface *ifc, wtime now)
{
	int64_t us = ifc->c.hello_us;

	babel_timer_early(b, &ifc->hello, now, us - babel_random(b, us / JITTER_PARTS));
}

static void hello_fire(struct babel *b, struct babel_timer *t, wtime now)
{
	struct babel_iface *ifc = container_of(t, struct babel_iface, hello);

	if (b->stopped)
		return;
	hello_next(b, ifc, now);
	ifc->hello_due = true;
	list_for_each (it, &ifc->neighbours)
		container_of(it, struct babel_neighbour, by_iface)->ihu_due = true;
	babel_iface_soon(b, ifc, 0, now);
	/* a dump that is due before the next hello goes with this one */
	if (wtime_before(ifc->update.at, ifc->hello.at))
		babel_update_fire(b, &ifc->update, now);
}

/* Somebody new is there: says hello before it is time, but not in bursts. */
void babel_hello_soon(struct babel *b, struct babel_iface *ifc, wtime now)
{
	int64_t since = ifc->hello_last.us < 0 ? INT64_MAX : wtime_diff(now, ifc->hello_last);
	int64_t gap = ifc->c.hello_us / JITTER_PARTS;
	int64_t wait = babel_random(b, ANSWER_SPREAD_US);

	if (since < gap)
		wait += gap - since;
	ifc->hello_due = true;
	hello_next(b, ifc, now);
	babel_iface_soon(b, ifc, wait, now);
}

int babel_iface_grow(struct babel_iface *ifc, size_t old_words, size_t words)
{
	for (int k = 0; k < BABEL_BIT_COUNT; k++) {
		uint64_t *more = w_realloc(ifc->bits[k], words * sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + old_words, 0, (words - old_words) * sizeof(*more));
		ifc->bits[k] = more;
	}
	return 0;
}

static bool keys_valid(const struct babel_iface_config *c)
{
	if (c->key_count > BABEL_KEYS_MAX)
		return false;
	for (int i = 0; i < c->key_count; i++) {
		const struct babel_key *k = &c->key[i];
		bool blake = k->algorithm == BABEL_MAC_BLAKE2S;

		if (!blake && k->algorithm != BABEL_MAC_HMAC_SHA256)
			return false;
		if (!k->len || k->len > (blake ? KEY_BLAKE2S_MAX : KEY_SHA256_MAX))
			return false;
	}
	return true;
}

static bool valid(const struct babel_iface_config *c)
{
	return c->link_local.family == IP6 && ipaddr_is_link_local(&c->link_local) &&
		(c->own4.family == IP_NONE || c->own4.family == IP4) && c->mtu >= BABEL_MTU_MIN &&
		c->hello_us >= HELLO_MIN_US && c->cost >= 1 && c->cost < BABEL_INFINITY &&
		c->rtt_min_us >= 0 && (!c->rtt_cost || c->rtt_max_us > c->rtt_min_us) &&
		keys_valid(c);
}

static void take_config(struct babel_iface *ifc, const struct babel_iface_config *c)
{
	ifc->c = *c;
	if (!ifc->c.update_factor)
		ifc->c.update_factor = DEFAULT_FACTOR;
}

static int packet_room(struct babel *b, size_t n)
{
	uint8_t *more;

	if (n <= b->packet_cap)
		return 0;
	more = w_realloc(b->packet, n);
	if (!more)
		return -ENOMEM;
	b->packet = more;
	b->packet_cap = n;
	return 0;
}

/* As after a start: the seqno says so to the others (RFC 8966 A.1). */
static void say_hello(struct babel *b, struct babel_iface *ifc, wtime now)
{
	ifc->hello_seqno = (uint16_t)babel_random(b, 1 << 16);
	ifc->hello_due = ifc->wildcard_due = true;
	/* who still believes in routes through a former life of ours must not: that life's
	 * feasibility distances are lost, and nothing else would keep us from a loop through them
	 */
	ifc->goodbyes = 1;
	ifc->hello_last = (wtime){-1};
	hello_next(b, ifc, now);
	babel_iface_soon(b, ifc, 0, now);
	babel_dump_start(b, ifc, true, now);
}

static void iface_free(struct babel *b, struct babel_iface *ifc)
{
	babel_timer_done(b, &ifc->hello);
	babel_timer_done(b, &ifc->update);
	babel_timer_done(b, &ifc->out);
	list_del(&ifc->ready_link);
	list_del(&ifc->doubt);
	babel_lanes_leave(ifc);
	w_free(ifc->refused);
	for (int k = 0; k < BABEL_BIT_COUNT; k++)
		w_free(ifc->bits[k]);
	buf_free(&ifc->queue);
	w_free_secret(ifc, sizeof(*ifc));
}

int babel_iface_add(struct babel *b, const struct babel_iface_config *c, wtime now)
{
	struct babel_iface *ifc;

	if (!valid(c))
		return -EINVAL;
	if (babel_iface_find(b, c->iface))
		return -EEXIST;
	ifc = w_calloc(1, sizeof(*ifc));
	if (!ifc)
		return -ENOMEM;
	take_config(ifc, c);
	list_init(&ifc->neighbours);
	list_init(&ifc->unicast);
	list_init(&ifc->ready_link);
	list_init(&ifc->doubt);
	ifc->loss_in = -1;
	ifc->dump_next = BABEL_NO_DUMP;
	ifc->misc_at = ifc->urgent_at = ifc->again_at = WTIME_NEVER;
	for (int i = 0; i < BABEL_LANES; i++) {
		ifc->lane_at[i] = WTIME_NEVER;
		list_init(&ifc->lane_wait[i]);
	}
	if (packet_room(b, c->mtu) < 0 || babel_iface_grow(ifc, 0, b->dest_words) < 0 ||
		babel_timer_init(b, &ifc->hello, hello_fire) < 0 ||
		babel_timer_init(b, &ifc->update, babel_update_fire) < 0 ||
		babel_timer_init(b, &ifc->out, babel_out_fire) < 0 || babel_mac_index(b, ifc) < 0 ||
		hash_add(&b->ifaces, &ifc->hash, &ifc->c.iface, sizeof(ifc->c.iface)) < 0) {
		iface_free(b, ifc);
		return -ENOMEM;
	}
	list_add_tail(&b->iface_list, &ifc->all);
	b->iface_count++;
	b->settled = wtime_min(b->settled, wtime_add(now, BABEL_SETTLE_US));
	say_hello(b, ifc, now);
	return 0;
}

int babel_iface_update(struct babel *b, const struct babel_iface_config *c, wtime now)
{
	struct babel_iface *ifc = babel_iface_find(b, c->iface);
	bool other;

	if (!valid(c))
		return -EINVAL;
	if (!ifc)
		return -ENOENT;
	if (packet_room(b, c->mtu) < 0)
		return -ENOMEM;
	other = !ipaddr_equal(&c->link_local, &ifc->c.link_local);
	/* with other keys the packet counter goes on: no pair of index and counter is used twice,
	 * and the neighbours need not challenge (RFC 8967 5) */
	take_config(ifc, c);
	if (other) {
		while (!list_empty(&ifc->neighbours))
			babel_neighbour_flush(b,
				container_of(ifc->neighbours.next, struct babel_neighbour,
					by_iface),
				now);
		say_hello(b, ifc, now);
		return 0;
	}
	list_for_each (it, &ifc->neighbours)
		babel_neighbour_recost(b, container_of(it, struct babel_neighbour, by_iface), true,
			now);
	babel_hello_soon(b, ifc, now);
	babel_dump_start(b, ifc, false, now);
	return 0;
}

void babel_iface_remove(struct babel *b, uint32_t iface, wtime now)
{
	struct babel_iface *ifc = babel_iface_find(b, iface);

	if (!ifc)
		return;
	while (!list_empty(&ifc->neighbours))
		babel_neighbour_flush(b,
			container_of(ifc->neighbours.next, struct babel_neighbour, by_iface), now);
	hash_del(&b->ifaces, &ifc->hash);
	list_del(&ifc->all);
	b->iface_count--;
	iface_free(b, ifc);
}

static void recost_all(struct babel *b, struct babel_iface *ifc, wtime now)
{
	list_for_each (it, &ifc->neighbours)
		babel_neighbour_recost(b, container_of(it, struct babel_neighbour, by_iface), true,
			now);
}

void babel_iface_alive(struct babel *b, uint32_t iface, bool alive, wtime now)
{
	struct babel_iface *ifc = babel_iface_find(b, iface);

	if (!ifc || ifc->dead == !alive)
		return;
	ifc->dead = !alive;
	recost_all(b, ifc, now);
	/* one direction may work still: then the other end learns from the IHU that it is not heard
	 */
	list_for_each (it, &ifc->neighbours)
		container_of(it, struct babel_neighbour, by_iface)->ihu_due = true;
	if (!alive) {
		babel_iface_soon(b, ifc, 0, now);
		return;
	}
	babel_hello_soon(b, ifc, now);
	babel_dump_start(b, ifc, true, now);
}

void babel_iface_loss(struct babel *b, uint32_t iface, double in, wtime now)
{
	struct babel_iface *ifc = babel_iface_find(b, iface);

	if (!ifc)
		return;
	ifc->loss_in = babel_load_loss(ifc, ifc->loss_in, in, false, now);
	recost_all(b, ifc, now);
}
