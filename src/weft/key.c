/* weft keygen, weft pubkey: keys without a daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "crypto/crypto.h"
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

static int print_public(const struct ed25519_key *key)
{
	uint8_t raw[ED25519_PUBLIC];
	struct buf out = {0};
	char *pem;
	int code;

	ed25519_public(key, raw);
	if (ed25519_public_to_pem(raw, &pem) < 0)
		return tool_fail("cannot write the public key: out of memory");
	buf_add_str(&out, pem);
	w_free(pem);
	code = tool_print(&out);
	buf_free(&out);
	return code;
}

int tool_pubkey(struct tool *t)
{
	bool from_stdin = !t->word[0] || strcmp(t->word[0], "-") == 0;
	const char *path = from_stdin ? "/dev/stdin" : t->word[0];
	const char *name = from_stdin ? "standard input" : path;
	struct buf text = {0};
	struct ed25519_key *key;
	char type[32] = "";
	int err = os_file_read(path, KEY_FILE_MAX, &text), code;

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
	code = print_public(key);
	ed25519_free(key);
	return code;
}
