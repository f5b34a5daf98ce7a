/* weft watch: the status again each second, until it is interrupted or the daemon goes. */
#include <stdio.h>
#include <time.h>
#include "weft/tool.h"

#define SCREEN_CLEAR "\033[H\033[2J"

int tool_watch(struct tool *t)
{
	const struct timespec second = {.tv_sec = 1};
	int code;

	do {
		if (t->colour)
			(void)fputs(SCREEN_CLEAR, stdout);
		code = tool_status(t);
		if (code == TOOL_DONE && !t->colour && !t->json)
			(void)fputs("\n", stdout);
		if (code == TOOL_DONE)
			(void)nanosleep(&second, NULL);
	} while (code == TOOL_DONE);
	return code;
}
