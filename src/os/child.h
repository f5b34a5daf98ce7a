/* Work whose failure may be a crash, in a process of its own. */
#pragma once

/* Runs work in a child for at most `seconds`, without core dump. What work returned (0 or a
 * negative errno); -EFAULT when it died of a signal, which is then in *ret_signal (SIGALRM: it took
 * too long), else that is 0; or the error of fork(). Before there are threads. */
int os_child_run(int (*work)(void *ctx), void *ctx, unsigned int seconds, int *ret_signal);
