/* What a round produced: datagrams to the sockets, frames to the TUN. What the kernel refuses is
 * counted; a merged frame that it refuses as such is cut again, and merging is switched off. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/engine_priv.h"
#include "os/clock.h"
#include "wire/gso.h"

static void send_log(struct engine_plane *t, enum os_level level, const char *text)
{
	struct engine_up up = {.type = ENGINE_UP_LOG, .level = level};

	snprintf(up.text, sizeof(up.text), "%s", text);
	/* A line that finds no room is not worth waiting for. */
	(void)engine_plane_report(t, &t->facts, &up);
}

/* A route's MTU became smaller, or a link's way another one: the control thread looks. */
static void send_too_long(struct engine_plane *t)
{
	struct engine_up up = {.type = ENGINE_UP_TOO_LONG};
	wtime now = os_now();

	if (wtime_due(t->too_long_at, now) && engine_plane_report(t, &t->facts, &up))
		t->too_long_at = wtime_add(now, ENGINE_TOO_LONG_US);
}

static void send_udp_run(struct engine_plane *t, const struct udp_tx *tx, size_t n)
{
	struct os_udp *u = engine_socket_of(t->sockets, tx->socket, t->config.number);
	struct os_udp_result r = {0};
	bool gso;

	if (!u) {
		for (size_t i = 0; i < n; i++)
			plane_count_drop(t->plane, DROP_TX_ERROR, tx[i].segments);
		return;
	}
	gso = os_udp_facts(u).gso;
	t->net->udp_send(u, tx, n, &r);
	for (size_t i = 0; gso && i < n; i++)
		if (tx[i].segments > 1)
			plane_count_segmented(t->plane, &tx[i]);
	if (r.failed)
		plane_count_drop(t->plane, DROP_TX_ERROR, r.failed);
	if (r.full)
		plane_count_drop(t->plane, DROP_TX_BACKPRESSURE, r.full);
	if (r.error == -EMSGSIZE || (r.gso_refused && r.error == -EINVAL))
		send_too_long(t);
	if (gso && !os_udp_facts(u).gso)
		send_log(t, OS_WARNING,
			"UDP segmentation offload: the device refuses it; "
			"datagrams are sent one by one from now on");
}

static void send_udp(struct engine_plane *t)
{
	size_t n, i = 0;
	const struct udp_tx *tx = plane_udp_out(t->plane, &n);

	while (i < n) {
		size_t run = 1, ready = plane_udp_wait(t->plane, i);

		while (run < ready && tx[i + run].socket == tx[i].socket && tx[i + run].segments)
			run++;
		if (tx[i].segments) /* else nothing of it could be sealed */
			send_udp_run(t, tx + i, run);
		i += run;
	}
}

static void tun_refused(struct engine_plane *t, int r, uint64_t packets)
{
	plane_count_drop(t->plane, r == -EAGAIN ? DROP_TUN_BACKPRESSURE : DROP_TUN_ERROR, packets);
}

/* The pieces of a frame in one place. */
static bool frame_gather(const struct tun_tx *f, uint8_t *whole, struct tun_rx *ret)
{
	struct wcur w = wcur_of(whole, OS_TUN_BUFFER);

	for (unsigned int i = 0; i < f->iov_count; i++)
		wcur_bytes(&w, f->iov[i].p, f->iov[i].n);
	*ret = (struct tun_rx){.data = whole, .len = (uint32_t)w.len, .gso = f->gso};
	return !w.full;
}

static void send_cut(struct engine_plane *t, const struct tun_tx *f)
{
	struct gso_split split;
	struct tun_rx whole;

	if (!frame_gather(f, t->whole, &whole) || gso_split_init(&whole, &split) != DROP_NONE) {
		plane_count_drop(t->plane, DROP_TUN_ERROR, f->segments);
		return;
	}
	for (uint32_t i = 0; i < split.segments; i++) {
		struct tun_tx one = {.iov_count = 1,
			.segments = 1,
			.bulk = f->bulk,
			.moved = f->moved && i == 0};
		int r;

		one.len = gso_split_write(&split, i, t->piece);
		one.iov[0] = (struct wire_iov){t->piece, one.len};
		r = t->net->tun_write(t->tun, &one);
		if (r < 0)
			tun_refused(t, r, 1);
	}
}

unsigned int engine_plane_write(struct engine_plane *t, const struct tun_tx *f, size_t n)
{
	unsigned int refused = 0;

	for (size_t i = 0; i < n; i++) {
		int r = t->tun_gone ? -EBADFD : t->net->tun_write(t->tun, &f[i]);
		bool tcp = f[i].gso.type == GSO_TCP4 || f[i].gso.type == GSO_TCP6;

		if (r == 0)
			continue;
		if (r != -EINVAL || f[i].gso.type == GSO_NONE) {
			tun_refused(t, r, f[i].segments);
			continue;
		}
		send_cut(t, &f[i]);
		refused |= tcp ? PLANE_MERGE_TCP : PLANE_MERGE_UDP;
	}
	return refused;
}

void engine_plane_merge_set(struct engine_plane *t, unsigned int kinds)
{
	struct os_tun_facts f = os_tun_facts(t->tun);

	if (!f.merge_tcp)
		kinds &= ~(unsigned int)PLANE_MERGE_TCP;
	if (!f.merge_udp)
		kinds &= ~(unsigned int)PLANE_MERGE_UDP;
	t->config.merge_tcp = kinds & PLANE_MERGE_TCP;
	t->config.merge_udp = kinds & PLANE_MERGE_UDP;
	atomic_store(&t->merging, kinds);
}

void engine_plane_merge(struct engine_plane *t, unsigned int kinds, wtime now)
{
	struct plane_down m = {.type = PLANE_DOWN_MERGE};

	engine_plane_merge_set(t, kinds);
	m.flags = atomic_load(&t->merging);
	plane_down(t->plane, &m, now);
}

void engine_plane_merge_off(struct engine_plane *t, unsigned int kinds)
{
	unsigned int left = atomic_load(&t->merging) & ~kinds;

	if (kinds & PLANE_MERGE_TCP && t->config.merge_tcp)
		send_log(t, OS_WARNING,
			"TUN: the kernel refuses merged TCP packets; they are "
			"written one by one from now on");
	if (kinds & PLANE_MERGE_UDP && t->config.merge_udp)
		send_log(t, OS_WARNING,
			"TUN: the kernel refuses merged UDP packets; they are "
			"written one by one from now on");
	engine_plane_merge(t, left, os_now());
}

void engine_plane_send(struct engine_plane *t)
{
	const struct tun_tx *frames;
	unsigned int refused;
	size_t n;

	send_udp(t);
	frames = plane_tun_out(t->plane, &n);
	refused = engine_plane_write(t, frames, n);
	plane_round_done(t->plane);
	if (refused)
		engine_plane_merge_off(t, refused);
}
