/* Runs a target over the files of folders (and single files): a plain program for a compiler
 * without libFuzzer, and a test of every seed. Fails when there is nothing to run. */
#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include "fuzz.h"

enum { PATH_LEN = 4096, INPUT_MAX = 1 << 20 };

static bool run_file(const char *path)
{
	uint8_t *data = malloc(INPUT_MAX), *exact;
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f || !data) {
		fprintf(stderr, "replay: cannot read %s\n", path);
		if (f)
			fclose(f);
		free(data);
		return false;
	}
	n = fread(data, 1, INPUT_MAX, f);
	fclose(f);
	exact = malloc(n ? n : 1); /* so that a sanitizer sees a read past the end */
	if (exact) {
		memcpy(exact, data, n);
		LLVMFuzzerTestOneInput(exact, n);
	}
	free(data);
	free(exact);
	return exact != NULL;
}

/* The number of files run in a folder; negative when one could not be read. */
static int run_folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int count = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)) && count >= 0) {
		char name[PATH_LEN];

		if (e->d_name[0] == '.')
			continue;
		if (snprintf(name, sizeof(name), "%s/%s", path, e->d_name) >= PATH_LEN ||
			!run_file(name))
			count = -1;
		else
			count++;
	}
	closedir(d);
	return count;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;
		bool folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
		int count = folder ? run_folder(argv[i]) : run_file(argv[i]) ? 1 : -1;

		if (count < 0)
			return 1;
		total += count;
	}
	printf("replay: %d inputs\n", total);
	return total > 0 ? 0 : 1;
}
