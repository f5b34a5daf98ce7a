/* The choice of a crypto back end at start: see backend.h. */
#include "weftd/backend.h"

#include <errno.h>
#include <string.h>
#include "os/child.h"

enum { SELFTEST_SECONDS = 10 };

static int selftest(void *ctx)
{
	return crypto_selftest(*(enum crypto_backend_id *)ctx);
}

/* What keeps a back end from being used, for people. */
static void explain(int r, int signal_number, struct buf *out)
{
	if (r == -ENOENT)
		buf_add_str(out, "this build does not have it");
	else if (r == -ENOTSUP)
		buf_add_str(out, "the processor lacks AES instructions");
	else if (signal_number)
		buf_printf(out, "its self-test died of signal %d (%s)", signal_number,
			strsignal(signal_number));
	else if (r == -EBADMSG)
		buf_add_str(out, "its self-test gave a wrong answer");
	else
		buf_printf(out, "its self-test failed: %s", strerror(-r));
}

int backend_choose(enum conf_crypto want, struct crypto_backend **ret, struct buf *warnings,
	struct buf *error)
{
	enum crypto_backend_id id = CRYPTO_IPSEC_MB;
	int signal_number = 0, r;

	if (want != CONF_CRYPTO_OPENSSL) {
		r = os_child_run(selftest, &id, SELFTEST_SECONDS, &signal_number);
		if (r == 0)
			r = crypto_backend_new(id, ret);
		if (r == 0)
			return 0;
		if (want == CONF_CRYPTO_IPSEC_MB) {
			buf_add_str(error, "plane.crypto: ipsec-mb cannot be used: ");
			explain(r, signal_number, error);
			buf_add_str(error, "; set plane.crypto to auto or openssl");
			return r;
		}
		if (r != -ENOENT && r != -ENOTSUP) {
			buf_add_str(warnings, "Intel IPsec-MB is not used: ");
			explain(r, signal_number, warnings);
			buf_add_str(warnings, "\n");
		}
	}
	id = CRYPTO_OPENSSL;
	signal_number = 0;
	r = os_child_run(selftest, &id, SELFTEST_SECONDS, &signal_number);
	if (r == 0)
		r = crypto_backend_new(id, ret);
	if (r < 0) {
		buf_add_str(error, "OpenSSL cannot be used: ");
		explain(r, signal_number, error);
	}
	return r;
}
