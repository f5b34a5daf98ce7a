/* Which library seals packets. */
#pragma once
#include "conf/conf.h"

/* The back end that the configuration asks for, after it proved itself in a child process; auto:
 * the fastest of those that do. A line in warnings when auto passed one over that is not well, one
 * in error on failure. 0 or a negative errno. Before there are threads. */
int backend_choose(enum conf_crypto want, struct crypto_backend **ret, struct buf *warnings,
	struct buf *error);
