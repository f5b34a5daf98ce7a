/* A weft at work: one control thread (the caller's: event loop, node) and the plane's threads
 * (packet loops; `plane.threads` of them, with `plane.helpers`), and bounded rings between them.
 * Start-up is a ladder: what fails takes everything before it back. */
#pragma once
#include "base/buf.h"
#include "node/node.h"
#include "os/log.h"
#include "os/net.h"
#include "os/runner.h"

struct engine;

struct engine_config {
	const struct os_net *net;
	struct os_log log;
	const struct ed25519_key *key;       /* borrowed for the engine's life */
	const struct config *config;         /* gets owned */
	const struct registry *registry;     /* gets owned */
	const char *version;                 /* borrowed */
	const struct crypto_backend *crypto; /* for packets; borrowed for the engine's life */
	/* Reads the files again, for a reload: makes both (which then get owned), a line for each
	 * warning. 0, or a negative errno with lines in errors. */
	int (*load)(void *ctx, const struct config **ret_config,
		const struct registry **ret_registry, struct buf *warnings, struct buf *errors);
	void *load_ctx;
	struct os_runner *runner; /* borrowed for the engine's life; NULL: scripts are not run */
	const char *watch;    /* a file whose change is a reload too (the registry); NULL: none */
	struct view warnings; /* lines, for status; borrowed for the call of engine_new() */
	/* Gives up, for good and for the whole process, what is not needed once everything is open:
	 * see os/sandbox.h. */
	bool sandbox;
};

/* Takes everything that is needed, in order: privilege, node, control socket, UDP sockets, TUN,
 * kernel state. On failure nothing of it is left, and error has a line (or more, each ended by \n):
 * what, where, what to do. */
int engine_new(const struct engine_config *c, struct engine **ret, struct buf *error);
/* Works until SIGTERM or SIGINT, then says goodbye to the peers and takes the kernel state back.
 * 0; or a negative errno when it had to give up (told in the log). */
int engine_run(struct engine *e);
/* Frees; NULL is fine. */
void engine_free(struct engine *e);
