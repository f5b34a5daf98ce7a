/* All files of a node read and checked together: configuration, private key, registry. Both
 * programs use it, so that a check says what a start would say. The files are read by a function
 * of the caller: this room does no I/O. */
#pragma once
#include "conf/conf.h"

enum { CONF_FILE_MAX = 1 << 20, CONF_KEY_MAX = 1 << 16, CONF_REGISTRY_MAX = 64 << 20 };

struct conf_files {
	/* Appends a file of at most limit bytes to ret; 0 or a negative errno. */
	int (*read)(const char *path, size_t limit, struct buf *ret);
	/* Whether every user may read a file. NULL: that is not looked at. */
	bool (*is_public)(const char *path);
};

struct conf_source {
	const char *config;         /* weft.yaml, or ranet's config.json */
	const char *ranet_registry; /* not NULL: config is ranet's, and these are its other files */
	const char *ranet_key;
};

struct conf_loaded {
	struct config *config;
	struct registry *registry;
	struct ed25519_key *key;
};

/* Reads all three. 0: ret is made, and warnings has a line for each registry entry left out and for
 * what looks wrong without being so. -EINVAL: nothing is made, errors has the reasons, warnings
 * what else was seen. -ENOMEM. The text of the key is zeroed. */
int conf_load(const struct conf_files *files, const struct conf_source *source,
	struct conf_loaded *ret, struct conf_errors *errors, struct conf_errors *warnings);
/* Frees what is not NULL. */
void conf_loaded_free(struct conf_loaded *l);
