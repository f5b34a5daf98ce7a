/* The log: lines on standard error. */
#include "os/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const level_priorities[] = {"<3>", "<4>", "<6>", "<7>"}; /* sd-daemon(3) */

struct os_log os_log_open(enum os_level level)
{
	return (struct os_log){.level = level, .journal = getenv("JOURNAL_STREAM") != NULL};
}

void os_log_line(const struct os_log *log, enum os_level level, const char *text)
{
	char line[LINE_MAX_BYTES];
	const char *head = log->journal ? level_priorities[level] : "weftd: ";
	int n;

	if (level > log->level)
		return;
	if (log->journal || level == OS_INFO)
		n = snprintf(line, sizeof(line) - 1, "%s%s", head, text);
	else
		n = snprintf(line, sizeof(line) - 1, "%s%s: %s", head, level_names[level], text);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 127)
			line[i] = ' ';
	line[n] = '\n';
	/* A log that nobody takes is no reason to stop. */
	if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
		return;
}

void os_log_printf(const struct os_log *log, enum os_level level, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES];
	va_list ap;

	if (level > log->level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	os_log_line(log, level, text);
}
