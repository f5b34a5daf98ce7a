/* A YAML or JSON document with positions, read by tables of fields. Wraps libfyaml for this room.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <libfyaml.h>
#include "base/arena.h"
#include "conf/conf.h"

enum { DOC_SHOWN = 60, DOC_SHOWN_TEXT = DOC_SHOWN + 32 };

struct doc {
	const char *file;
	struct fy_diag *diag;
	struct fy_document *fyd;
	struct arena *arena;        /* of the object being made; borrowed */
	struct conf_errors *errors; /* borrowed */
	struct fy_node *near;       /* stands in for a value that has no position of its own */
	bool failed;                /* an error was added since the caller last cleared it */
	bool no_memory;
};

/* Opens text; on a syntax error the lines go to errors and -EINVAL is returned. Anchors, aliases,
 * tags and duplicate keys are errors. json: JSON only. */
int doc_open(struct doc *d, struct view text, bool json);
void doc_close(struct doc *d);

/* Adds "file:line:col: message" and sets d->failed. The position is that of `at`, else of d->near,
 * else of the file alone. */
void doc_error(struct doc *d, struct fy_node *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The node at a path, as "/routing/table"; NULL when the text does not have it. */
struct fy_node *doc_at(struct doc *d, const char *path);
/* A value as a message may show it: cut, control characters replaced, and not at all when it looks
 * like key material. Returns out. */
const char *doc_shown(const char *s, size_t n, char out[static DOC_SHOWN_TEXT]);
/* An error: where must be one of choices ("auto, on or off"), and says what stands there instead.
 */
void doc_no_choice(struct doc *d, struct fy_node *n, const char *where, const char *choices);
/* Whether a text looks like a key (PEM, or a long run of base64 or hexadecimal digits). */
bool doc_looks_secret(const char *s, size_t n);
/* Where a node stands in the text; 0:0 when that is not known. */
void doc_position(struct doc *d, struct fy_node *n, struct conf_mark *ret);

enum field_kind {
	FIELD_STRING,   /* const char * */
	FIELD_BOOL,     /* bool */
	FIELD_U16,      /* uint16_t, min..max */
	FIELD_U32,      /* uint32_t, min..max */
	FIELD_U8,       /* uint8_t, min..max */
	FIELD_DURATION, /* int64_t microseconds, min..max */
	FIELD_SWITCH,   /* enum conf_switch */
	FIELD_MAP,      /* a mapping into the same object: sub */
	FIELD_CUSTOM,   /* read() */
	FIELD_IGNORE,   /* accepted, and without meaning here */
};

struct field {
	const char *key;
	enum field_kind kind;
	size_t offset;
	int64_t min, max;
	bool required;
	const struct field *sub; /* FIELD_MAP; ends with key NULL */
	void (*read)(struct doc *d, struct fy_node *value, void *object);
};

/* Reads a mapping into object by a table (ends with key NULL). where: for messages, "node". */
void doc_map(struct doc *d, struct fy_node *n, const struct field *field, void *object,
	const char *where);
/* A text scalar copied to the arena; NULL and an error when it is none or empty. */
const char *doc_string(struct doc *d, struct fy_node *n, const char *where);
/* The number of items, and an error when n is no sequence (then 0). */
size_t doc_sequence(struct doc *d, struct fy_node *n, const char *where);
/* An array of strings. */
void doc_strings(struct doc *d, struct fy_node *n, const char *where, const char ***ret,
	size_t *ret_n);
/* A prefix, or an error that says what is wrong with it. */
bool doc_prefix(struct doc *d, struct fy_node *n, struct prefix *ret);
bool doc_address(struct doc *d, struct fy_node *n, struct ipaddr *ret);
/* A whole number min..max, decimal or 0x hexadecimal. */
bool doc_number(struct doc *d, struct fy_node *n, int64_t min, int64_t max, int64_t *ret);
/* Zeroed memory of the arena; an error on no memory. */
void *doc_alloc(struct doc *d, size_t count, size_t size);
/* Whether the node is written with quotes (JSON: a string, not a number or word). */
bool doc_is_quoted(struct fy_node *n);
