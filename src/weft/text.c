/* Figures for people. */
#include "weft/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *unknown(char out[static TEXT_FIGURE])
{
	strcpy(out, "-");
	return out;
}

const char *text_duration(double seconds, char out[static TEXT_FIGURE])
{
	enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };
	unsigned long long s;

	if (!isfinite(seconds) || seconds > 1e15)
		return unknown(out);
	s = seconds > 0 ? (unsigned long long)seconds : 0;
	if (s >= DAY)
		(void)snprintf(out, TEXT_FIGURE, "%llud %lluh", s / DAY, s % DAY / HOUR);
	else if (s >= HOUR)
		(void)snprintf(out, TEXT_FIGURE, "%lluh %llum", s / HOUR, s % HOUR / MINUTE);
	else if (s >= MINUTE)
		(void)snprintf(out, TEXT_FIGURE, "%llum %llus", s / MINUTE, s % MINUTE);
	else
		(void)snprintf(out, TEXT_FIGURE, "%llus", s);
	return out;
}

const char *text_bytes(double bytes, char out[static TEXT_FIGURE])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	enum { STEP = 1024, UNITS = sizeof(units) / sizeof(units[0]) };
	size_t u = 0;

	if (!isfinite(bytes) || bytes < 0)
		return unknown(out);
	if (bytes < STEP) {
		(void)snprintf(out, TEXT_FIGURE, "%.0f B", bytes);
		return out;
	}
	for (bytes /= STEP; bytes >= STEP && u + 1 < UNITS; u++)
		bytes /= STEP;
	(void)snprintf(out, TEXT_FIGURE, "%.2f %s", bytes, units[u]);
	return out;
}

const char *text_ms(double ms, char out[static TEXT_FIGURE])
{
	if (!isfinite(ms))
		return unknown(out);
	(void)snprintf(out, TEXT_FIGURE,
		ms < 10            ? "%.2f ms"
			: ms < 100 ? "%.1f ms"
				   : "%.0f ms",
		ms);
	return out;
}

const char *text_share(double share, char out[static TEXT_FIGURE])
{
	if (!isfinite(share))
		return unknown(out);
	(void)snprintf(out, TEXT_FIGURE, share > 0 ? "%.1f%%" : "%.0f%%", share * 100);
	return out;
}

const char *text_count(double count, char out[static TEXT_FIGURE])
{
	if (!isfinite(count))
		return unknown(out);
	(void)snprintf(out, TEXT_FIGURE, "%.0f", count);
	return out;
}

double text_number(const struct value *object, const char *key)
{
	return value_number(value_get(object, key), (double)NAN);
}

static const char *known(const char *s)
{
	return s ? s : "-";
}

const char *text_string(const struct value *object, const char *key)
{
	return known(value_string(value_get(object, key)));
}

const char *text_string_at(const struct value *list, size_t i)
{
	return known(value_string(value_at(list, i)));
}
