/* Figures for people. An unknown one, NaN here and null in a reply, is "-". */
#pragma once
#include "ctl/value.h"

enum { TEXT_FIGURE = 32 };

/* Seconds as "12s", "3m 20s", "4h 5m", "2d 3h". */
const char *text_duration(double seconds, char out[static TEXT_FIGURE]);
/* Bytes as "512 B", "1.21 MiB". */
const char *text_bytes(double bytes, char out[static TEXT_FIGURE]);
/* Milliseconds as "0.43 ms", "12.3 ms", "140 ms". */
const char *text_ms(double ms, char out[static TEXT_FIGURE]);
/* A share of one as "0%", "1.5%". */
const char *text_share(double share, char out[static TEXT_FIGURE]);
/* A whole number. */
const char *text_count(double count, char out[static TEXT_FIGURE]);
/* A number of a reply, NaN when it is not known. */
double text_number(const struct value *object, const char *key);
/* A string of a reply, "-" when it is not known. */
const char *text_string(const struct value *object, const char *key);
const char *text_string_at(const struct value *list, size_t i);
