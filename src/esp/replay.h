/* The receive window of one SA (RFC 4303 3.4.3) and the inference of the high half of an extended
 * sequence number (RFC 4303 appendix A2). A ring of bits, one a number. Checking and moving are
 * apart: only an authentic packet may move the window. Not here: re-synchronisation after a loss of
 * 2^32 packets in a row (appendix A3). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { REPLAY_WINDOW_DEFAULT = 4096, REPLAY_WINDOW_MIN = 64, REPLAY_WINDOW_MAX = 1 << 20 };

enum replay_verdict { REPLAY_NEW, REPLAY_OLD, REPLAY_DUPLICATE };

struct replay;

/* A window of `size` numbers (0: the default; MIN .. MAX). 0, -EINVAL, -ENOMEM. */
int replay_new(uint32_t size, struct replay **ret);
void replay_free(struct replay *r); /* NULL is fine */
/* The full number of a packet that carries `low`, by the place of the window. 0, never a number in
 * use, when it would lie after the last number there is. */
uint64_t replay_infer(const struct replay *r, uint32_t low);
/* Where `seq` lies; number 0 is never sent, hence OLD. Moves nothing. */
enum replay_verdict replay_check(const struct replay *r, uint64_t seq);
/* Checks again, and marks a NEW number as seen, moving the window when it is the highest. */
enum replay_verdict replay_accept(struct replay *r, uint64_t seq);
/* The highest number seen, 0 at the start. */
uint64_t replay_highest(const struct replay *r);
