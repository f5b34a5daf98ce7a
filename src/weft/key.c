/* weft keygen, weft pubkey: keys without a daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "crypto/crypto.h"
#include "ctl/json.h"
#include "os/clock.h"
#include "os/file.h"
#include "weft/tool.h"

enum { KEY_FILE_MAX = 1 << 16 };

/* Says so when others can read the file that standard output is. */
static void warn_if_open(void)
{
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IRWXO))
		(void)tool_fail("warning: every user can read the file that the key goes to; "
				"chmod 600 it, or call umask 077 first");
}

int tool_keygen(struct tool *t)
{
	struct rng rng = os_rng();
	struct ed25519_key *key;
	char *pem = NULL;
	int err = ed25519_generate(&rng, &key);
	bool wrong;

	(void)t;
	if (err < 0)
		return tool_fail("cannot make a key: %s", strerror(-err));
	err = ed25519_to_pem(key, &pem);
	ed25519_free(key);
	if (err < 0)
		return tool_fail("cannot make a key: %s", strerror(-err));
	warn_if_open();
	(void)setvbuf(stdout, NULL, _IONBF, 0); /* no copy of it stays in a buffer */
	wrong = fputs(pem, stdout) < 0 || fflush(stdout) != 0;
	err = errno;
	w_free_secret(pem, strlen(pem) + 1);
	return wrong ? tool_fail("cannot write the key: %s", strerror(err)) : TOOL_DONE;
}

/* As PEM, or as the JSON string that a registry has. */
static int print_public(const struct ed25519_key *key, bool as_json)
{
	uint8_t raw[ED25519_PUBLIC];
	struct buf out = {0};
	struct json j = json_to(&out);
	char *pem;
	int code;

	ed25519_public(key, raw);
	if (ed25519_public_to_pem(raw, &pem) < 0)
		return tool_fail("cannot write the public key: out of memory");
	if (as_json) {
		json_string(&j, NULL, pem);
		buf_add_str(&out, "\n");
	} else {
		buf_add_str(&out, pem);
	}
	w_free(pem);
	code = tool_print(&out);
	buf_free(&out);
	return code;
}

/* By its descriptor: as a socket, which it is under ssh, standard input cannot be opened by name.
 */
static int read_stdin(struct buf *ret)
{
	uint8_t chunk[4096];

	for (;;) {
		ssize_t got = read(STDIN_FILENO, chunk, sizeof(chunk));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return ret->failed ? -ENOMEM : 0;
		if (ret->n + (size_t)got > KEY_FILE_MAX)
			return -EFBIG;
		buf_add(ret, chunk, (size_t)got);
		w_zeroize(chunk, (size_t)got);
	}
}

int tool_pubkey(struct tool *t)
{
	bool from_stdin = !t->word[0] || strcmp(t->word[0], "-") == 0;
	const char *name = from_stdin ? "standard input" : t->word[0];
	struct buf text = {0};
	struct ed25519_key *key;
	char type[32] = "";
	int err = from_stdin ? read_stdin(&text) : os_file_read(t->word[0], KEY_FILE_MAX, &text);
	int code;

	if (err < 0) {
		buf_free_secret(&text);
		return tool_fail("cannot read %s: %s", name, strerror(-err));
	}
	err = ed25519_from_pem(buf_view(&text), &key, type);
	buf_free_secret(&text);
	if (err == -EKEYREJECTED)
		return tool_fail("%s holds a key of type %s; it must be Ed25519, as weft keygen "
				 "makes",
			name, type);
	if (err < 0)
		return tool_fail(
			"%s holds no private key; it must be PKCS#8 PEM (BEGIN PRIVATE KEY)", name);
	code = print_public(key, t->json);
	ed25519_free(key);
	return code;
}
