/* Ed25519 against RFC 8032 7.1 and RFC 8410 10, and keys and signatures that must be refused. */
#include "crypto/crypto.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include "base/mem.h"
#include "crypto/helpers_test.h"

static const struct {
	const char *seed, *public_key, *message, *signature;
} cases[] = {
	{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
		"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
		"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
		"5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
	{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
		"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
		"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
		"085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
	{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
		"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
		"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
		"18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
	{"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
		"ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
		"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
		"2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
		"dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
		"09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"},
};

/* RFC 8410 10.3 and 10.1. */
static const char private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
	"-----END PRIVATE KEY-----\n";
static const char public_pem[] = "-----BEGIN PUBLIC KEY-----\n"
				 "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
				 "-----END PUBLIC KEY-----\n";

static void signs_and_verifies_the_examples(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t seed[32], public_key[ED25519_PUBLIC], sig[ED25519_SIGNATURE], text[64];
		struct view message = unhex(cases[i].message, text, sizeof(text));
		struct ed25519_key *k;

		(void)unhex(cases[i].seed, seed, sizeof(seed));
		assert_int_equal(ed25519_from_seed(seed, &k), 0);
		ed25519_public(k, public_key);
		assert_hex(public_key, sizeof(public_key), cases[i].public_key);
		assert_int_equal(ed25519_sign(k, message, sig), 0);
		assert_hex(sig, sizeof(sig), cases[i].signature);
		assert_int_equal(ed25519_verify(public_key, message, view_of(sig, sizeof(sig))), 0);
		ed25519_free(k);
	}
}

/* Every bit of the signature counts, and of the key and the message. */
static void refuses_what_was_changed(void **state)
{
	uint8_t public_key[ED25519_PUBLIC], sig[ED25519_SIGNATURE + 1] = {0}, text[2];
	struct view message = unhex(cases[2].message, text, sizeof(text));

	(void)state;
	(void)unhex(cases[2].public_key, public_key, sizeof(public_key));
	(void)unhex(cases[2].signature, sig, sizeof(sig));
	for (int bit = 0; bit < ED25519_SIGNATURE * 8; bit++) {
		sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(ed25519_verify(public_key, message, view_of(sig, 64)), -EBADMSG);
		sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	text[0] ^= 1;
	assert_int_equal(ed25519_verify(public_key, message, view_of(sig, 64)), -EBADMSG);
	text[0] ^= 1;
	assert_int_equal(ed25519_verify(public_key, message, view_of(sig, 63)), -EBADMSG);
	assert_int_equal(ed25519_verify(public_key, message, view_of(sig, 65)), -EBADMSG);
	assert_int_equal(ed25519_verify(public_key, message, view_of(NULL, 0)), -EBADMSG);
	assert_int_equal(ed25519_verify(public_key, view_of(text, 1), view_of(sig, 64)), -EBADMSG);
	public_key[0] ^= 1;
	assert_int_not_equal(ed25519_verify(public_key, message, view_of(sig, 64)), 0);
	public_key[0] ^= 1;
	assert_int_equal(ed25519_verify(public_key, message, view_of(sig, 64)), 0);
}

static void reads_and_writes_pem(void **state)
{
	uint8_t a[ED25519_PUBLIC], b[ED25519_PUBLIC];
	struct ed25519_key *k;
	char type[32], *text;

	(void)state;
	assert_int_equal(ed25519_from_pem(view_of(private_pem, strlen(private_pem)), &k, type), 0);
	assert_int_equal(ed25519_public_from_pem(view_of(public_pem, strlen(public_pem)), a, type),
		0);
	ed25519_public(k, b);
	assert_memory_equal(a, b, sizeof(a));
	assert_hex(a, sizeof(a),
		"19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1");
	assert_int_equal(ed25519_to_pem(k, &text), 0);
	assert_string_equal(text, private_pem);
	w_free_secret(text, strlen(text) + 1);
	assert_int_equal(ed25519_public_to_pem(a, &text), 0);
	assert_string_equal(text, public_pem);
	w_free(text);
	ed25519_free(k);
}

static void generates_from_the_rng(void **state)
{
	uint8_t public_key[ED25519_PUBLIC];
	struct ed25519_key *k = NULL;
	struct tape tape;
	struct rng rng = tape_init(&tape, cases[0].seed);

	(void)state;
	assert_int_equal(ed25519_generate(&rng, &k), 0);
	ed25519_public(k, public_key);
	assert_hex(public_key, sizeof(public_key), cases[0].public_key);
	ed25519_free(k);
	k = NULL;
	assert_int_equal(ed25519_generate(&rng, &k), -EAGAIN);
	assert_null(k);
	ed25519_free(NULL);
}

static void private_refused(const char *pem, size_t n, int want, const char *want_type)
{
	struct ed25519_key *k = NULL;
	char type[32] = "";

	assert_int_equal(ed25519_from_pem(view_of(pem, n), &k, type), want);
	assert_null(k);
	assert_string_equal(type, want_type);
}

static void public_refused(const char *pem, size_t n, int want, const char *want_type)
{
	uint8_t out[ED25519_PUBLIC] = {0}, zero[ED25519_PUBLIC] = {0};
	char type[32] = "";

	assert_int_equal(ed25519_public_from_pem(view_of(pem, n), out, type), want);
	assert_memory_equal(out, zero, sizeof(out));
	assert_string_equal(type, want_type);
}

static void refuses_what_is_no_key(void **state)
{
	(void)state;
	private_refused("", 0, -EINVAL, "");
	private_refused("not a key", 9, -EINVAL, "");
	for (size_t n = 1; n < sizeof(private_pem) - 27; n++)
		private_refused(private_pem, n, -EINVAL, "");
	private_refused(public_pem, strlen(public_pem), -EINVAL, "");
	public_refused("", 0, -EINVAL, "");
	public_refused(private_pem, strlen(private_pem), -EINVAL, "");
	for (size_t n = 1; n < sizeof(public_pem) - 26; n++)
		public_refused(public_pem, n, -EINVAL, "");
}

/* Frees pkey. Its private and public PEM are refused under the name of its type. */
static void type_refused(EVP_PKEY *pkey, const char *type)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long n;

	assert_non_null(pkey);
	assert_int_equal(PEM_write_bio_PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL), 1);
	n = BIO_get_mem_data(bio, &text);
	private_refused(text, (size_t)n, -EKEYREJECTED, type);
	BIO_free(bio);
	bio = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_PUBKEY(bio, pkey), 1);
	n = BIO_get_mem_data(bio, &text);
	public_refused(text, (size_t)n, -EKEYREJECTED, type);
	BIO_free(bio);
	EVP_PKEY_free(pkey);
}

static void names_keys_of_other_types(void **state)
{
	(void)state;
	type_refused(EVP_RSA_gen(2048), "RSA");
	type_refused(EVP_EC_gen("P-256"), "EC");
	type_refused(EVP_PKEY_Q_keygen(NULL, NULL, "X25519"), "X25519");
}

static void does_not_read_encrypted_keys(void **state)
{
	static char secret[] = "secret";
	BIO *bio = BIO_new(BIO_s_mem());
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	char *text;
	long n;

	(void)state;
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, pkey, EVP_aes_256_cbc(), secret, 6,
				 NULL, NULL),
		1);
	n = BIO_get_mem_data(bio, &text);
	private_refused(text, (size_t)n, -EINVAL, "");
	BIO_free(bio);
	EVP_PKEY_free(pkey);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_and_verifies_the_examples),
		cmocka_unit_test(refuses_what_was_changed),
		cmocka_unit_test(reads_and_writes_pem),
		cmocka_unit_test(generates_from_the_rng),
		cmocka_unit_test(refuses_what_is_no_key),
		cmocka_unit_test(names_keys_of_other_types),
		cmocka_unit_test(does_not_read_encrypted_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
