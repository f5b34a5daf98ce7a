/* Folders of tests, see scratch_test.h. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "os/scratch_test.h"

void scratch_make(struct scratch *s)
{
	const char *where = getenv("TMPDIR");
	int n = snprintf(s->folder, sizeof(s->folder), "%s/weft-test-XXXXXX",
		where && *where ? where : "/tmp");

	assert_in_range(n, 1, sizeof(s->folder) - 1);
	assert_non_null(mkdtemp(s->folder));
}

void scratch_file(const struct scratch *s, const char *name, char ret[SCRATCH_PATH])
{
	int n = snprintf(ret, SCRATCH_PATH, "%s/%s", s->folder, name);

	assert_in_range(n, 1, SCRATCH_PATH - 1);
}

void scratch_remove(const struct scratch *s)
{
	DIR *d = opendir(s->folder);
	const struct dirent *e;

	if (d)
		while ((e = readdir(d)))
			(void)unlinkat(dirfd(d), e->d_name, 0); /* fails for . and .. */
	if (d)
		(void)closedir(d);
	assert_int_equal(rmdir(s->folder), 0);
}
