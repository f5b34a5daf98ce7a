/* The log: lines on standard error, with the priorities of sd-daemon(3) when the journal reads it.
 */
#pragma once
#include <stdbool.h>

/* Counted as the configuration counts them. */
enum os_level { OS_ERROR, OS_WARNING, OS_INFO, OS_DEBUG };

struct os_log {
	enum os_level level; /* lines above it are left out */
	bool journal;        /* prefix "<N>" */
};

/* A log at a level; whether the journal listens is taken from the environment (JOURNAL_STREAM). */
struct os_log os_log_open(enum os_level level);
/* Writes one line; control characters in it become spaces. One write, so lines never mix. */
void os_log_line(const struct os_log *log, enum os_level level, const char *text);
void os_log_printf(const struct os_log *log, enum os_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
