/* What the parts of the loop share. */
#pragma once
#include <uv.h>
#include "base/list.h"
#include "os/loop.h"

struct os_loop {
	uv_loop_t uv;
	uv_prepare_t prepare;
	void (*idle)(void *ctx);
	void *idle_ctx;
	struct list resolves;
};

/* Drops the callback of a look-up under way (its list node). */
void os_resolve_forget(struct list *node);
