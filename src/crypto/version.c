/* The name of the library that does the work. */
#include <openssl/crypto.h>
#include "crypto/crypto.h"

const char *crypto_version(void)
{
	return OpenSSL_version(OPENSSL_VERSION);
}
