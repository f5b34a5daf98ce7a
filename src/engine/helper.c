/* Helpers: threads that do work of the plane threads (plane/work.h). Any helper does any plane's,
 * the oldest first. One that finds none for a while sleeps, and is woken when much waits; nobody
 * depends on that, as a plane does itself what no helper claimed. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "engine/engine_priv.h"

/* Looks before it gives way to who wants its core, and how often it does that before it sleeps:
 * each time takes about a microsecond. */
enum { LOOKS = 64, YIELDS = 64 };

void engine_plane_call(void *plane)
{
	struct engine_plane *t = plane;
	uint64_t one = 1;

	for (uint32_t i = 0; i < t->config.helpers; i++) {
		struct engine_helper *h = &t->helper[i];

		if (!atomic_load_explicit(&h->asleep, memory_order_relaxed) ||
			!atomic_exchange(&h->asleep, false))
			continue;
		if (write(h->event, &one, sizeof(one)) < 0 && errno != EAGAIN)
			return; /* an eventfd refuses nothing else */
		return;
	}
}

void engine_plane_relax(void *plane)
{
	(void)plane;
	sched_yield();
}

static bool help_all(struct engine_helper *h)
{
	bool some = false;

	for (uint32_t i = 0; i < h->planes; i++)
		while (plane_help(h->plane[i]->plane, h->number))
			some = true;
	return some;
}

static bool wanted(const struct engine_helper *h)
{
	for (uint32_t i = 0; i < h->planes; i++)
		if (plane_help_wanted(h->plane[i]->plane))
			return true;
	return false;
}

static void helper_sleep(struct engine_helper *h)
{
	uint64_t count;

	atomic_store(&h->asleep, true);
	if (!wanted(h) && !atomic_load(&h->stop))
		(void)!read(h->event, &count, sizeof(count));
	atomic_store(&h->asleep, false);
}

static void *helper_thread(void *helper)
{
	struct engine_helper *h = helper;
	uint32_t looks = 0;

	while (!atomic_load_explicit(&h->stop, memory_order_relaxed)) {
		if (help_all(h)) {
			looks = 0;
		} else if (++looks == LOOKS * YIELDS) {
			helper_sleep(h);
			looks = 0;
		} else if (looks % LOOKS == 0) {
			sched_yield();
		}
	}
	return NULL;
}

int engine_helpers_start(struct engine *e)
{
	char name[16];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < e->helpers; i++) {
		struct engine_helper *h = &e->helper[i];

		h->number = i;
		h->plane = e->plane;
		h->planes = e->planes;
		h->event = eventfd(0, EFD_CLOEXEC);
		if (h->event < 0)
			return -errno;
		r = -pthread_create(&h->thread, NULL, helper_thread, h);
		h->runs = r == 0;
		if (r < 0)
			return r;
		(void)snprintf(name, sizeof(name), "weft-helper%u", i);
		(void)pthread_setname_np(h->thread, name);
	}
	return 0;
}

void engine_helpers_stop(struct engine *e)
{
	uint64_t one = 1;

	for (uint32_t i = 0; i < e->helpers; i++) {
		struct engine_helper *h = &e->helper[i];

		atomic_store(&h->stop, true);
		if (h->runs && write(h->event, &one, sizeof(one)) == sizeof(one))
			(void)pthread_join(h->thread, NULL);
		h->runs = false;
		if (h->event >= 0)
			close(h->event);
		h->event = -1;
	}
}
