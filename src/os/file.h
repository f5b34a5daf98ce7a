/* Whole small files. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"

/* Appends a file of at most limit bytes to ret (free it with buf_free_secret when the file is a
 * secret). 0; -EFBIG when it is larger, -EISDIR, -ENOMEM, or the errno of open and read. */
int os_file_read(const char *path, size_t limit, struct buf *ret);
/* Whether every user may read a file; false when that cannot be seen. */
bool os_file_is_public(const char *path);
/* Reads a number, as /proc/sys has them. 0, -EINVAL when there is none, or the errno of open. */
int os_file_read_number(const char *path, long *ret);
/* Writes a number there. 0 or a negative errno. */
int os_file_write_number(const char *path, long value);
