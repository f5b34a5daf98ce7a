/* A folder of a test's own. */
#pragma once
#include <stddef.h>

enum { SCRATCH_PATH = 512 };

struct scratch {
	char folder[SCRATCH_PATH];
};

/* Makes it in $TMPDIR, or in /tmp. The test fails when that cannot be. */
void scratch_make(struct scratch *s);
/* The path of a file in it. */
void scratch_file(const struct scratch *s, const char *name, char ret[SCRATCH_PATH]);
/* Removes it with the files in it: for a teardown, which runs also when the test failed. */
void scratch_remove(const struct scratch *s);
