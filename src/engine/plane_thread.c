/* The packet loop. Rounds: messages of the control thread, a few frames from the TUN, a few buffers
 * from the sockets, then everything is sealed and sent. What was read empty is not asked again
 * before epoll tells of it: epoll is asked when nothing else is known to wait, which is also how
 * the thread sleeps, and now and then while there is work. Nothing waits for a buffer: what cannot
 * be sent is dropped and counted.
 *
 * Shared with the control thread are the rings and the flags asleep, stop, stopped; everything else
 * belongs to this thread from pthread_create() to pthread_join(). Where there are several, each has
 * a queue of the TUN, a socket of each endpoint and the links whose slots are its (plane/hand.c);
 * they share rings with one another, too. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "os/clock.h"

enum { POOL_ALIGN = 4096, EVENTS = 16 };
/* What a descriptor is to epoll: these, or a socket by index. */
enum { WATCH_EVENT, WATCH_TUN, WATCH_SOCKET };
/* Bits of engine_plane.ready: the TUN's and, shared when they are many, the sockets'. A bit that is
 * lost by sharing comes back with the next look at epoll. */
enum { READY_TUN = 1, READY_SOCKETS = 63 };

bool engine_plane_report(struct engine_plane *t, struct ring *ring, const struct engine_up *up)
{
	size_t n = up->type == ENGINE_UP_PLANE ? up->plane.data.n : 0;
	uint8_t *p = ring_reserve(ring, sizeof(*up) + n);

	if (!p)
		return false;
	memcpy(p, up, sizeof(*up));
	if (n)
		memcpy(p + sizeof(*up), up->plane.data.p, n);
	ring_commit(ring);
	/* The control thread looks at the rings ten times a second of its own accord. */
	if (up->type != ENGINE_UP_PLANE || !up->plane.may_wait || ++t->waiting >= ENGINE_WAITING)
		t->pushed = true;
	return true;
}

static void plane_push_done(struct engine_plane *t)
{
	if (!t->pushed)
		return;
	os_wake_up(t->wake);
	t->pushed = false;
	t->waiting = 0;
}

/* What must not be lost: the control thread never waits for this one, so it will make room. */
static void plane_report_sure(struct engine_plane *t, const struct engine_up *up)
{
	while (!engine_plane_report(t, &t->facts, up)) {
		os_wake_up(t->wake);
		sched_yield();
	}
}

static bool plane_up(void *ctx, const struct plane_up *up)
{
	struct engine_plane *t = ctx;
	struct engine_up m = {.type = ENGINE_UP_PLANE, .plane = *up};

	switch (up->type) {
	case PLANE_UP_IKE:
		return engine_plane_report(t, up->established ? &t->known : &t->unknown, &m);
	case PLANE_UP_LINK:
		return engine_plane_report(t, &t->known, &m);
	case PLANE_UP_SA_GONE:
	case PLANE_UP_LINK_GONE:
	case PLANE_UP_SNAPSHOT_GONE:
		plane_report_sure(t, &m);
		return true;
	default:
		return engine_plane_report(t, &t->facts, &m);
	}
}

static size_t pool_part(size_t n)
{
	return (n + POOL_ALIGN - 1) & ~(size_t)(POOL_ALIGN - 1);
}

static int plane_make_pool(struct engine_plane *t)
{
	size_t plane = pool_part(plane_memory(&t->config));
	size_t tun = pool_part(OS_TUN_BUFFER), udp = pool_part(ENGINE_UDP_BUFFERS * OS_UDP_BUFFER);

	/* With helpers, what was read stays where it is until the round is over. */
	size_t frames = t->config.helpers ? ENGINE_TUN_FRAMES : 1;

	t->pool_size = plane + (frames + 2) * tun + udp;
	t->pool = os_pool_map(t->pool_size, false);
	if (!t->pool)
		return -ENOMEM;
	t->plane = plane_init(&t->config, t->pool);
	t->tun_memory = t->pool + plane;
	t->tun_stride = t->config.helpers ? tun : 0;
	t->whole = t->tun_memory + frames * tun;
	t->piece = t->whole + tun;
	t->udp_memory = t->piece + tun;
	return 0;
}

static uint64_t ready_bit(size_t socket)
{
	return UINT64_C(2) << socket % READY_SOCKETS;
}

static int plane_watch(struct engine_plane *t, int fd, uint64_t what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = what};

	return epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int plane_watch_tun(struct engine_plane *t)
{
	struct os_tun_facts f = os_tun_facts(t->tun);
	int r = plane_watch(t, f.fd, WATCH_TUN);

	return r < 0 || f.bulk_fd < 0 ? r : plane_watch(t, f.bulk_fd, WATCH_TUN);
}

static void plane_forget_tun(struct engine_plane *t)
{
	struct os_tun_facts f = os_tun_facts(t->tun);

	(void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, f.fd, NULL);
	if (f.bulk_fd >= 0)
		(void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, f.bulk_fd, NULL);
}

/* PLANE_MERGE_*, as plane.offload has it. */
static unsigned int merge_kinds(const struct engine_plane *t)
{
	return (t->offload & conf_offload_bit(CONF_MERGE_TCP) ? PLANE_MERGE_TCP : 0U) |
		(t->offload & conf_offload_bit(CONF_MERGE_UDP) ? PLANE_MERGE_UDP : 0U);
}

int engine_plane_init(struct engine_plane *t, const struct engine_config *c)
{
	int r;

	t->net = c->net;
	t->config.up = plane_up;
	t->config.up_ctx = t;
	engine_plane_merge_set(t, merge_kinds(t));
	t->config.segments_max = OS_UDP_SEGMENTS;
	t->tun_reads = ENGINE_TUN_READS_MIN;
	t->tun_empty = true;
	r = ring_init(&t->down, ENGINE_DOWN_RING);
	if (r == 0)
		r = ring_init(&t->facts, ENGINE_FACTS_RING);
	if (r == 0)
		r = ring_init(&t->known, ENGINE_KNOWN_RING);
	if (r == 0)
		r = ring_init(&t->unknown, ENGINE_UNKNOWN_RING);
	if (r == 0)
		r = node_tunnel_new(ENGINE_SA_CAPACITY, &t->config);
	for (uint32_t i = 0; r == 0 && t->config.planes > 1 && i < t->config.planes; i++)
		if (i != t->config.number)
			r = ring_init(&t->hand[i], ENGINE_HAND_RING);
	t->config.hand = engine_plane_hand;
	t->config.call = engine_plane_call;
	t->config.relax = engine_plane_relax;
	t->config.ike_known = node_spis_know;
	t->config.ike_known_ctx = t->spis;
	if (r == 0)
		r = plane_make_pool(t);
	if (r < 0)
		return r;
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0)
		return -errno;
	t->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->event < 0)
		return -errno;
	r = plane_watch(t, t->event, WATCH_EVENT);
	return r < 0 ? r : plane_watch_tun(t);
}

void engine_plane_done(struct engine_plane *t)
{
	if (t->epoll >= 0)
		close(t->epoll);
	if (t->event >= 0)
		close(t->event);
	os_pool_unmap(t->pool, t->pool_size);
	node_tunnel_free(&t->config);
	for (size_t i = 0; i < ENGINE_PLANES; i++)
		ring_done(&t->hand[i]);
	ring_done(&t->down);
	ring_done(&t->facts);
	ring_done(&t->known);
	ring_done(&t->unknown);
}

void engine_plane_wake(struct engine_plane *t)
{
	uint64_t one = 1;

	if (atomic_exchange(&t->asleep, false) && write(t->event, &one, sizeof(one)) < 0 &&
		errno != EAGAIN)
		return; /* an eventfd refuses nothing else */
}

/* Swaps the list of sockets; the old one goes back, and with it what may be closed. */
static void plane_sockets(struct engine_plane *t, const struct engine_sockets *s)
{
	struct engine_up up = {.type = ENGINE_UP_SOCKETS_GONE, .sockets = t->sockets};
	struct os_udp *u;

	for (size_t i = 0; t->sockets && i < t->sockets->count; i++)
		if ((u = engine_socket_of(t->sockets, i, t->config.number)))
			(void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, os_udp_facts(u).fd, NULL);
	for (size_t i = 0; s && i < s->count; i++)
		if ((u = engine_socket_of(s, i, t->config.number)))
			(void)plane_watch(t, os_udp_facts(u).fd, WATCH_SOCKET + i);
	t->sockets = s;
	t->ready &= READY_TUN;
	if (up.sockets)
		plane_report_sure(t, &up);
}

static void plane_tun_gone(struct engine_plane *t)
{
	struct engine_up up = {.type = ENGINE_UP_TUN_GONE, .tun = t->tun};

	t->tun_gone = true;
	t->ready &= ~(uint64_t)READY_TUN;
	plane_forget_tun(t);
	plane_report_sure(t, &up);
}

/* Takes another TUN; the old one goes back to who may close it. */
static void plane_tun(struct engine_plane *t, struct os_tun *tun, wtime now)
{
	struct engine_up up = {.type = ENGINE_UP_TUN_LET_GO, .tun = t->tun};

	if (!t->tun_gone)
		plane_forget_tun(t);
	t->tun = tun;
	t->tun_gone = false;
	t->tun_empty = true;
	engine_plane_merge(t, merge_kinds(t), now);
	t->ready |= READY_TUN;
	plane_report_sure(t, &up);
	if (plane_watch_tun(t) < 0)
		plane_tun_gone(t); /* without memory for it; another is tried later */
}

/* Moves switches. What the kernel refused to merge stays refused unless that very switch was moved.
 */
static void plane_offload(struct engine_plane *t, const struct engine_down *m, wtime now)
{
	unsigned int kinds = atomic_load(&t->merging), moved = 0;

	t->offload = m->offload;
	if (m->changed & conf_offload_bit(CONF_MERGE_TCP))
		moved |= PLANE_MERGE_TCP;
	if (m->changed & conf_offload_bit(CONF_MERGE_UDP))
		moved |= PLANE_MERGE_UDP;
	engine_plane_merge(t, (kinds & ~moved) | (merge_kinds(t) & moved), now);
	/* each socket is read, so that udp_gro() sees whether it is empty */
	t->gro_by = wtime_add(now, ENGINE_GRO_US);
	for (size_t i = 0; t->sockets && i < t->sockets->count; i++)
		if (engine_socket_of(t->sockets, i, t->config.number))
			t->ready |= ready_bit(i);
}

static void round_down(struct engine_plane *t, wtime now)
{
	uint8_t *p;
	size_t n;

	for (int i = 0;
		i < ENGINE_DOWN_MESSAGES && !plane_full(t->plane) && (p = ring_peek(&t->down, &n));
		i++) {
		struct engine_down m;

		memcpy(&m, p, sizeof(m));
		if (m.type == ENGINE_DOWN_SOCKETS) {
			/* What was sealed for a socket leaves before the socket does. */
			if (i > 0)
				return;
			plane_sockets(t, m.sockets);
		} else if (m.type == ENGINE_DOWN_TUN) {
			if (i > 0)
				return; /* what was merged for the old one leaves first */
			plane_tun(t, m.tun, now);
		} else if (m.type == ENGINE_DOWN_OFFLOAD) {
			plane_offload(t, &m, now);
		} else {
			m.plane.data = view_of(p + sizeof(m), m.plane.data.n);
			plane_down(t->plane, &m.plane, now);
		}
		ring_consume(&t->down);
	}
}

/* Reads some frames: more a round while rounds find that many, since what is sent together costs
 * less, and few when few wait, since who waits for them is not kept waiting. Small frames are soon
 * dealt with, and many of them make one send: four count as one. */
static void round_tun(struct engine_plane *t, wtime now)
{
	unsigned int n = 0, quarters = 0;
	struct tun_rx frame;

	while (t->ready & READY_TUN && quarters < 4 * t->tun_reads && !plane_full(t->plane)) {
		int r = t->net->tun_read(t->tun, t->tun_memory + n * t->tun_stride, &frame);

		if (r == -EBADFD)
			plane_tun_gone(t);
		if (r <= 0) {
			t->ready &= ~(uint64_t)READY_TUN;
			t->tun_empty = true;
			break;
		}
		/* It came since the queue was empty, perhaps while this thread slept. */
		if (t->tun_empty)
			plane_tun_empty(t->plane, now);
		t->tun_empty = false;
		quarters += frame.len <= ENGINE_FRAME_SMALL ? 1 : 4;
		plane_input_tun(t->plane, &frame, 1, now);
		n++;
	}
	if (quarters >= 4 * t->tun_reads && t->tun_reads < ENGINE_TUN_READS)
		t->tun_reads *= 2;
	else if (quarters < 2 * t->tun_reads && t->tun_reads > ENGINE_TUN_READS_MIN)
		t->tun_reads /= 2;
	t->handled += n;
	t->pause = n >= ENGINE_PAUSE_FRAMES && n == quarters;
}

/* Leaves out what came by an interface that may not be used; an address of such an interface is
 * never answered from. How many are left. */
static int drop_excluded(struct engine_plane *t, struct udp_rx *rx, int n)
{
	const struct os_interfaces *x = &t->sockets->excluded;
	int kept = 0;

	for (int i = 0; i < n; i++) {
		uint32_t size = rx[i].seg_size ? rx[i].seg_size : rx[i].len;

		if (os_interfaces_have(x, rx[i].ifindex)) {
			plane_count_drop(t->plane, DROP_EXCLUDED_INTERFACE,
				size ? (rx[i].len + size - 1) / size : 1);
			continue;
		}
		if (os_interfaces_have_address(x, &rx[i].local.ip))
			rx[i].local.ip = (struct ipaddr){0};
		rx[kept++] = rx[i];
	}
	return kept;
}

/* UDP_GRO as its switch is, once nothing waits in the socket: the kernel cannot take apart what it
 * joined before. One that never runs empty is switched all the same, after a while. */
static void udp_gro(const struct engine_plane *t, struct os_udp *u, bool empty, wtime now)
{
	struct os_udp_facts f = os_udp_facts(u);
	bool on = t->offload & conf_offload_bit(CONF_UDP_GRO) && f.gro_can;

	if (f.gro != on && (on || empty || wtime_due(t->gro_by, now)))
		t->net->udp_gro(u, on);
}

/* The sockets share the buffers of a round; the first to be read changes by turns. */
static void round_udp(struct engine_plane *t, wtime now)
{
	size_t count = t->sockets ? t->sockets->count : 0;
	struct udp_rx rx[ENGINE_UDP_BUFFERS];
	size_t used = 0;

	for (size_t i = 0; i < count && used < ENGINE_UDP_BUFFERS && !plane_full(t->plane); i++) {
		size_t which = (t->first_socket + i) % count, room = ENGINE_UDP_BUFFERS - used;
		struct os_udp *u = engine_socket_of(t->sockets, which, t->config.number);
		int n;

		if (!u || !(t->ready & ready_bit(which)))
			continue;
		n = t->net->udp_receive(u, t->udp_memory + used * OS_UDP_BUFFER, rx, room, now);
		/* Fewer than there was room for: it is empty, or told of an error. */
		if (n < 0 || (size_t)n < room)
			t->ready &= ~ready_bit(which);
		udp_gro(t, u, n < 0 || (size_t)n < room, now);
		if (n <= 0)
			continue;
		used += (size_t)n;
		n = drop_excluded(t, rx, n);
		if (n > 0)
			plane_input_udp(t->plane, rx, (size_t)n, now);
	}
	t->first_socket++;
	if (used > 0)
		t->pause = false;
	t->handled += (unsigned int)used;
}

/* Asks what can be read; timeout as epoll_wait() has it. */
static void plane_look(struct engine_plane *t, int timeout)
{
	struct epoll_event ev[EVENTS];
	uint64_t count;
	int n = epoll_wait(t->epoll, ev, EVENTS, timeout);

	t->handled = 0;
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u64 == WATCH_EVENT)
			(void)!read(t->event, &count, sizeof(count));
		else if (ev[i].data.u64 == WATCH_TUN)
			t->ready |= READY_TUN;
		else
			t->ready |= ready_bit((size_t)(ev[i].data.u64 - WATCH_SOCKET));
	}
}

/* Sleeps until something can be read or the control thread writes. It looks at the ring after it
 * said that it sleeps: a message written before that is seen here, one after it wakes. */
static void plane_sleep(struct engine_plane *t)
{
	atomic_store(&t->asleep, true);
	if (ring_empty(&t->down) && engine_plane_none_handed(t) && !atomic_load(&t->stop))
		plane_look(t, -1);
	atomic_store(&t->asleep, false);
}

/* Many small frames one after the other come from a program that sends without cease. Who sleeps
 * now is woken by the next of them, at the price of many packets to both; so a few more are let
 * come. Their queue has room for them. */
static void plane_pause(struct engine_plane *t)
{
	const struct timespec some = {.tv_nsec = ENGINE_PAUSE_NS};

	(void)nanosleep(&some, NULL);
	t->pause = false;
	if (!t->tun_gone)
		t->ready |= READY_TUN;
}

static void plane_finish(struct engine_plane *t)
{
	struct plane_down none = {.type = PLANE_DOWN_SNAPSHOT};

	plane_flush(t->plane, os_now());
	engine_plane_send(t);
	engine_plane_hand_over(t);
	/* The tables come back to who made them. */
	plane_down(t->plane, &none, os_now());
	plane_sockets(t, NULL);
	plane_push_done(t);
	atomic_store(&t->stopped, true);
	os_wake_up(t->wake);
}

void *engine_plane_thread(void *arg)
{
	struct engine_plane *t = arg;

	for (;;) {
		wtime now = os_now();
		bool stop = atomic_load(&t->stop), taken;

		round_down(t, now);
		round_tun(t, now);
		round_udp(t, now);
		taken = engine_plane_take(t, now);
		plane_flush(t->plane, now);
		engine_plane_send(t);
		engine_plane_hand_over(t);
		plane_push_done(t);
		if (stop && ring_empty(&t->down))
			break;
		if (t->ready == 0 && t->pause)
			plane_pause(t);
		else if (t->ready == 0 && !taken)
			plane_sleep(t);
		else if (t->handled >= ENGINE_LOOK_AFTER)
			plane_look(t, 0);
	}
	plane_finish(t);
	return NULL;
}
