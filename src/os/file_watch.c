/* Changes of a file, seen through its folder: editors and package managers replace files by rename,
 * which a watch on the file itself would lose. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "os/loop_priv.h"

enum { SETTLE_MS = 200 };

struct os_file_watch {
	uv_fs_event_t uv;
	uv_timer_t settle;
	char *name; /* inside the folder */
	void (*fn)(void *ctx);
	void *ctx;
	unsigned int open; /* handles that libuv has not closed yet */
};

static void settled(uv_timer_t *t)
{
	struct os_file_watch *w = t->data;

	w->fn(w->ctx);
}

static void folder_changed(uv_fs_event_t *e, const char *name, int events, int status)
{
	struct os_file_watch *w = e->data;

	(void)events;
	/* Without a name it may be ours: an overrun, or the folder itself. */
	if (status == 0 && name && strcmp(name, w->name) != 0)
		return;
	(void)uv_timer_start(&w->settle, settled, SETTLE_MS, 0);
}

static void watch_closed(uv_handle_t *h)
{
	struct os_file_watch *w = h->data;

	if (--w->open > 0)
		return;
	w_free(w->name);
	w_free(w);
}

/* Splits "folder/name"; 0 or -ENOMEM. */
static int split_path(const char *path, char **ret_folder, char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	char *folder = slash ? w_memdup(path, n + 2) : w_strdup(".");
	char *name = w_strdup(slash ? slash + 1 : path);

	if (!folder || !name) {
		w_free(folder);
		w_free(name);
		return -ENOMEM;
	}
	if (slash)
		folder[n ? n : 1] = 0;
	*ret_folder = folder;
	*ret_name = name;
	return 0;
}

int os_file_watch_new(struct os_loop *l, const char *path, void (*fn)(void *ctx), void *ctx,
	struct os_file_watch **ret)
{
	struct os_file_watch *w = w_calloc(1, sizeof(*w));
	char *folder = NULL;
	int r;

	if (!w)
		return -ENOMEM;
	w->fn = fn;
	w->ctx = ctx;
	r = split_path(path, &folder, &w->name);
	if (r < 0) {
		w_free(w);
		return r;
	}
	w->open = 2;
	(void)uv_fs_event_init(&l->uv, &w->uv);
	(void)uv_timer_init(&l->uv, &w->settle);
	w->uv.data = w->settle.data = w;
	r = uv_fs_event_start(&w->uv, folder_changed, folder, 0);
	w_free(folder);
	if (r < 0) {
		os_file_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void os_file_watch_free(struct os_file_watch *w)
{
	if (!w)
		return;
	uv_close((uv_handle_t *)&w->uv, watch_closed);
	uv_close((uv_handle_t *)&w->settle, watch_closed);
}
