/* The large sets of Wycheproof, NIST ACVP, NIST CAVS and C2SP CCTV, read from the folder that the
 * environment variable WEFT_VECTORS names. Without it the test says that it is skipped. */
#include "crypto/crypto.h"

#include <libfyaml.h>
#include <stdlib.h>
#include <zlib.h>
#include "crypto/priv.h"
#include "crypto/helpers_test.h"

enum { SKIPPED = 77, FIELD = 8192, LINE = 16384, WYCHEPROOF_IV = 96, WYCHEPROOF_TAG = 128 };

/* A hexadecimal field, decoded. */
struct field {
	uint8_t b[FIELD];
	struct view v;
};

static const char *path_of(const char *name, char out[static LINE])
{
	(void)snprintf(out, LINE, "%s/%s", getenv("WEFT_VECTORS"), name);
	return out;
}

/* ---- JSON --------------------------------------------------------------------------------- */
static struct fy_node *member(struct fy_node *map, const char *name)
{
	return fy_node_mapping_lookup_by_string(map, name, strlen(name));
}

static const char *text(struct fy_node *map, const char *name)
{
	struct fy_node *n = member(map, name);
	const char *s = n ? fy_node_get_scalar0(n) : NULL;

	return s ? s : "";
}

static struct view hex(struct fy_node *map, const char *name, struct field *f)
{
	f->v = unhex(text(map, name), f->b, sizeof(f->b));
	return f->v;
}

static bool is_valid(struct fy_node *t)
{
	return strcmp(text(t, "result"), "invalid") != 0;
}

/* Calls check on every test of every group of a file. check says whether it could use the test. */
static void each_test(const char *name, bool (*check)(struct fy_node *group, struct fy_node *t))
{
	struct fy_parse_cfg cfg = {.flags = FYPCF_JSON_FORCE | FYPCF_QUIET};
	char path[LINE];
	struct fy_document *doc = fy_document_build_from_file(&cfg, path_of(name, path));
	struct fy_node *groups, *group, *tests, *t;
	void *at_group = NULL, *at_test;
	int used = 0, all = 0;

	assert_non_null(doc);
	groups = member(fy_document_root(doc), "testGroups");
	while ((group = fy_node_sequence_iterate(groups, &at_group))) {
		tests = member(group, "tests");
		at_test = NULL;
		while ((t = fy_node_sequence_iterate(tests, &at_test))) {
			all++;
			used += check(group, t);
		}
	}
	print_message("%s: %d of %d\n", name, used, all);
	assert_true(used > 0);
	fy_document_destroy(doc);
}

/* ---- AEAD --------------------------------------------------------------------------------- */
static enum aead_id aead_of(struct fy_node *group, bool chacha)
{
	if (atoi(text(group, "ivSize")) != WYCHEPROOF_IV ||
		atoi(text(group, "tagSize")) != WYCHEPROOF_TAG)
		return AEAD_NONE; /* ESP has no other nonces and ICVs */
	if (chacha)
		return AEAD_CHACHA20_POLY1305;
	switch (atoi(text(group, "keySize"))) {
	case 128:
		return AEAD_AES128_GCM16;
	case 256:
		return AEAD_AES256_GCM16;
	default:
		return AEAD_NONE;
	}
}

static void aead_check_by(const struct crypto_backend *backend, enum aead_id id, struct fy_node *t)
{
	struct field key, iv, aad, msg, ct, tag;
	struct aead_op op = {0};

	(void)hex(t, "key", &key);
	(void)hex(t, "iv", &iv);
	(void)hex(t, "msg", &msg);
	(void)hex(t, "ct", &ct);
	(void)hex(t, "tag", &tag);
	op.aad = hex(t, "aad", &aad);
	memcpy(key.b + key.v.n, iv.b, 4); /* the salt */
	op.iv = iv.b + 4;
	assert_int_equal(aead_new(backend, id, view_of(key.b, key.v.n + 4), (struct view){0},
				 AEAD_BOTH, &op.ctx),
		0);
	op.icv = tag.b;
	op.text = ct.b;
	op.text_len = ct.v.n;
	assert_int_equal(aead_open(&op, 1), is_valid(t));
	if (is_valid(t)) {
		assert_hex(ct.b, ct.v.n, text(t, "msg"));
		op.text = msg.b;
		memset(tag.b, 0, sizeof(tag.b));
		assert_int_equal(aead_seal(&op, 1), 1);
		assert_hex(msg.b, msg.v.n, text(t, "ct"));
		assert_hex(tag.b, 16, text(t, "tag"));
	}
	aead_free(op.ctx);
}

static bool aead_check(enum aead_id id, struct fy_node *t)
{
	if (id == AEAD_NONE)
		return false;
	for (int i = 0; i < CRYPTO_BACKEND_COUNT; i++) {
		struct crypto_backend *backend;

		if (crypto_backend_new((enum crypto_backend_id)i, &backend) < 0)
			continue;
		aead_check_by(backend, id, t);
		crypto_backend_free(backend);
	}
	return true;
}

static bool gcm_check(struct fy_node *group, struct fy_node *t)
{
	return aead_check(aead_of(group, false), t);
}

static bool chacha_check(struct fy_node *group, struct fy_node *t)
{
	return aead_check(aead_of(group, true), t);
}

static void wycheproof_aead(void **state)
{
	(void)state;
	each_test("wycheproof/aes_gcm_test.json", gcm_check);
	each_test("wycheproof/chacha20_poly1305_test.json", chacha_check);
}

/* ---- X25519 and Ed25519 ------------------------------------------------------------------- */
static bool x25519_check(struct fy_node *group, struct fy_node *t)
{
	static const uint8_t zero[32];
	uint8_t offer[32], answer[32], secret[32] = {0};
	struct field peer, shared;
	struct tape tape;
	struct rng rng = tape_init(&tape, text(t, "private"));
	struct kex *k;
	int want;

	(void)group;
	(void)hex(t, "public", &peer);
	(void)hex(t, "shared", &shared);
	want = memcmp(shared.b, zero, 32) == 0 ? -EBADMSG : 0;
	assert_int_equal(kex_offer(KEX_X25519, &rng, offer, &k), 0);
	assert_int_equal(kex_finish(k, peer.v, secret), want);
	assert_memory_equal(secret, shared.b, 32);
	kex_free(k);
	memset(secret, 0, sizeof(secret));
	rng = tape_init(&tape, text(t, "private"));
	assert_int_equal(kex_answer(KEX_X25519, &rng, peer.v, answer, secret), want);
	assert_memory_equal(secret, shared.b, 32);
	return true;
}

static bool ed25519_check(struct fy_node *group, struct fy_node *t)
{
	struct field public_key, msg, sig;

	assert_int_equal(hex(member(group, "publicKey"), "pk", &public_key).n, ED25519_PUBLIC);
	(void)hex(t, "msg", &msg);
	(void)hex(t, "sig", &sig);
	assert_int_equal(ed25519_verify(public_key.b, msg.v, sig.v), is_valid(t) ? 0 : -EBADMSG);
	return true;
}

static void wycheproof_curves(void **state)
{
	(void)state;
	each_test("wycheproof/x25519_test.json", x25519_check);
	each_test("wycheproof/ed25519_test.json", ed25519_check);
}

/* ---- ML-KEM ------------------------------------------------------------------------------- */
static enum kex_id mlkem_of(const char *parameter_set)
{
	for (int id = KEX_MLKEM512; id <= KEX_MLKEM1024; id++)
		if (strcmp(kex_info((enum kex_id)id)->name, parameter_set) == 0)
			return (enum kex_id)id;
	fail_msg("unknown parameter set %s", parameter_set);
	return KEX_NONE;
}

static struct kex *keygen(enum kex_id id, const char *seed, const char *ek)
{
	uint8_t offer[KEX_PUBLIC_MAX];
	struct tape tape;
	struct rng rng = tape_init(&tape, seed);
	struct kex *k = NULL;

	assert_int_equal(kex_offer(id, &rng, offer, &k), 0);
	if (*ek)
		assert_hex(offer, kex_info(id)->offer_len, ek);
	return k;
}

static void encapsulates(enum kex_id id, const char *ek, const char *m, const char *c,
	const char *secret)
{
	uint8_t answer[KEX_PUBLIC_MAX], out[KEX_SECRET_MAX];
	struct field offer;
	struct tape tape;
	struct rng rng = tape_init(&tape, m);
	struct view v = unhex(ek, offer.b, sizeof(offer.b));

	if (!*secret) {
		assert_int_equal(kex_answer(id, &rng, v, answer, out), -EBADMSG);
		return;
	}
	assert_int_equal(kex_answer(id, &rng, v, answer, out), 0);
	assert_hex(answer, kex_info(id)->answer_len, c);
	assert_hex(out, 32, secret);
}

/* With an expanded decapsulation key, which only libcrypto reads; NULL secret: must fail. */
static void decapsulates(enum kex_id id, const char *dk, const char *c, const char *secret)
{
	const struct kex_method m = {.info = *kex_info(id)};
	struct field key, answer;
	struct view v = unhex(dk, key.b, sizeof(key.b)), a = unhex(c, answer.b, sizeof(answer.b));
	EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key_ex(NULL, m.info.name, NULL, v.p, v.n);
	uint8_t out[32];

	if (secret) {
		assert_non_null(pkey);
		assert_int_equal(kex_mlkem_decapsulate(&m, pkey, a, out), 0);
		assert_hex(out, sizeof(out), secret);
	} else if (pkey) {
		assert_int_not_equal(kex_mlkem_decapsulate(&m, pkey, a, out), 0);
	}
	EVP_PKEY_free(pkey);
}

static bool mlkem_check(struct fy_node *group, struct fy_node *t)
{
	enum kex_id id = mlkem_of(text(group, "parameterSet"));
	uint8_t out[32] = {0};
	struct field c;
	struct kex *k;

	if (strlen(text(t, "seed")) != 128)
		return false; /* a seed of another length cannot be put in */
	k = keygen(id, text(t, "seed"), text(t, "ek"));
	assert_int_equal(kex_finish(k, hex(t, "c", &c), out), is_valid(t) ? 0 : -EBADMSG);
	if (is_valid(t))
		assert_hex(out, sizeof(out), text(t, "K"));
	kex_free(k);
	return true;
}

static bool mlkem_keygen_check(struct fy_node *group, struct fy_node *t)
{
	kex_free(keygen(mlkem_of(text(group, "parameterSet")), text(t, "seed"), text(t, "ek")));
	return true;
}

static bool mlkem_encaps_check(struct fy_node *group, struct fy_node *t)
{
	encapsulates(mlkem_of(text(group, "parameterSet")), text(t, "ek"), text(t, "m"),
		text(t, "c"), is_valid(t) ? text(t, "K") : "");
	return true;
}

static bool mlkem_decaps_check(struct fy_node *group, struct fy_node *t)
{
	decapsulates(mlkem_of(text(group, "parameterSet")), text(t, "dk"), text(t, "c"),
		is_valid(t) ? text(t, "K") : NULL);
	return true;
}

static void wycheproof_mlkem(void **state)
{
	(void)state;
	each_test("wycheproof/mlkem_768_test.json", mlkem_check);
	each_test("wycheproof/mlkem_1024_test.json", mlkem_check);
	each_test("wycheproof/mlkem_768_keygen_seed_test.json", mlkem_keygen_check);
	each_test("wycheproof/mlkem_1024_keygen_seed_test.json", mlkem_keygen_check);
	each_test("wycheproof/mlkem_768_encaps_test.json", mlkem_encaps_check);
	each_test("wycheproof/mlkem_1024_encaps_test.json", mlkem_encaps_check);
	each_test("wycheproof/mlkem_768_semi_expanded_decaps_test.json", mlkem_decaps_check);
	each_test("wycheproof/mlkem_1024_semi_expanded_decaps_test.json", mlkem_decaps_check);
}

static bool acvp_keygen_check(struct fy_node *group, struct fy_node *t)
{
	char seed[129];

	(void)snprintf(seed, sizeof(seed), "%s%s", text(t, "d"), text(t, "z"));
	kex_free(keygen(mlkem_of(text(group, "parameterSet")), seed, text(t, "ek")));
	return true;
}

static bool acvp_check(struct fy_node *group, struct fy_node *t)
{
	enum kex_id id = mlkem_of(text(group, "parameterSet"));
	bool encapsulation = strcmp(text(group, "function"), "encapsulation") == 0;

	if (encapsulation)
		encapsulates(id, text(t, "ek"), text(t, "m"), text(t, "c"), text(t, "k"));
	decapsulates(id, text(encapsulation ? t : group, "dk"), text(t, "c"), text(t, "k"));
	return true;
}

static void acvp_mlkem(void **state)
{
	(void)state;
	each_test("acvp-mlkem/key-gen.json", acvp_keygen_check);
	each_test("acvp-mlkem/encap-decap.json", acvp_check);
}

/* ---- "name = value" files ------------------------------------------------------------------ */
enum { NAMES = 11 };

/* Reads one line; when it sets one of names, its value goes to that place of values (LINE bytes
 * each). The index, NAMES for any other line, -1 at the end. */
static int read_line(gzFile f, const char *const *names, char (*values)[LINE])
{
	static char line[LINE];
	char *end;

	if (!gzgets(f, line, sizeof(line)))
		return -1;
	line[strcspn(line, "\r\n")] = 0;
	end = strstr(line, " = ");
	for (int i = 0; end && i < NAMES && names[i]; i++) {
		if (strlen(names[i]) == (size_t)(end - line) &&
			strncmp(names[i], line, strlen(names[i])) == 0) {
			(void)snprintf(values[i], LINE, "%s", end + 3);
			return i;
		}
	}
	if (line[0] == '[')
		(void)snprintf(values[NAMES], LINE, "%s", line);
	return NAMES;
}

/* CCTV's keys, one a line, each with another coefficient or value that is not reduced. */
static void cctv_modulus(void **state)
{
	static const char *const sets[] = {"512", "768", "1024"};
	static char line[LINE];
	char name[64], path[LINE];

	(void)state;
	for (int i = 0; i < 3; i++) {
		int used = 0;
		gzFile f;

		(void)snprintf(name, sizeof(name), "cctv/ML-KEM-%s.txt.gz", sets[i]);
		f = gzopen(path_of(name, path), "r");
		assert_non_null(f);
		while (gzgets(f, line, sizeof(line))) {
			line[strcspn(line, "\r\n")] = 0;
			assert_int_equal(strlen(line),
				kex_info((enum kex_id)(KEX_MLKEM512 + i))->offer_len * 2);
			encapsulates((enum kex_id)(KEX_MLKEM512 + i), line, "00", "", "");
			used++;
		}
		gzclose(f);
		print_message("%s: %d\n", name, used);
		assert_true(used > 0);
	}
}

/* CCTV wrote its files before FIPS 203 gave key generation a domain separator: d and z do not lead
 * to these keys, all else holds. */
static void cctv(void **state)
{
	static const char *const forms[] = {"ML-KEM-%s.txt", "ML-KEM_strcmp_ML-KEM-%s.txt",
		"ML-KEM_unluckysample_ML-KEM-%s.txt"};
	static const char *const sets[] = {"512", "768", "1024"};
	static const char *const names[NAMES] = {"ek", "dk", "m", "c", "K"};
	static char values[NAMES + 1][LINE];
	char name[64], path[LINE];

	(void)state;
	for (int i = 0; i < 9; i++) {
		enum kex_id id = (enum kex_id)(KEX_MLKEM512 + i % 3);
		gzFile f;

		(void)snprintf(path, sizeof(path), "%s/cctv/", getenv("WEFT_VECTORS"));
		(void)snprintf(name, sizeof(name), forms[i / 3], sets[i % 3]);
		(void)strncat(path, name, sizeof(path) - strlen(path) - 1);
		memset(values, 0, sizeof(values));
		f = gzopen(path, "r");
		assert_non_null(f);
		while (read_line(f, names, values) >= 0)
			;
		gzclose(f);
		if (*values[0])
			encapsulates(id, values[0], values[2], values[3], values[4]);
		decapsulates(id, values[1], values[3], values[4]);
		print_message("%s\n", name);
	}
}

/* ---- IKEv2 key derivation ------------------------------------------------------------------ */
enum { NI, NR, GIR, GIR_NEW, SPI_I, SPI_R, SKEYSEED, DKM, CHILD, CHILD_DH, REKEY };

static struct view join(struct field *f, const struct view *v, size_t n)
{
	struct wcur w = wcur_of(f->b, sizeof(f->b));

	for (size_t i = 0; i < n; i++)
		wcur_view(&w, v[i]);
	assert_false(w.full);
	return wcur_written(&w);
}

static void expands_to(enum prf_id id, struct view key, struct view seed, const char *want)
{
	uint8_t out[FIELD];

	assert_int_equal(prf_plus(id, key, seed, out, strlen(want) / 2), 0);
	assert_hex(out, strlen(want) / 2, want);
}

/* RFC 7296 2.14, 2.17, 2.18. */
static void kdf_check(enum prf_id id, char (*values)[LINE])
{
	static struct field in[NAMES], key, seed;
	size_t len = prf_info(id)->len;
	uint8_t out[PRF_MAX];
	struct view nonces, sk_d;

	for (int i = 0; i < NAMES; i++)
		in[i].v = unhex(values[i], in[i].b, sizeof(in[i].b));
	nonces = join(&key, (struct view[]){in[NI].v, in[NR].v}, 2);
	assert_int_equal(prf(id, nonces, &in[GIR].v, 1, out), 0);
	assert_hex(out, len, values[SKEYSEED]);
	expands_to(id, view_of(out, len),
		join(&seed, (struct view[]){in[NI].v, in[NR].v, in[SPI_I].v, in[SPI_R].v}, 4),
		values[DKM]);
	sk_d = view_of(in[DKM].b, len);
	expands_to(id, sk_d, nonces, values[CHILD]);
	expands_to(id, sk_d, join(&seed, (struct view[]){in[GIR_NEW].v, in[NI].v, in[NR].v}, 3),
		values[CHILD_DH]);
	assert_int_equal(prf(id, sk_d, (struct view[]){in[GIR_NEW].v, in[NI].v, in[NR].v}, 3, out),
		0);
	assert_hex(out, len, values[REKEY]);
}

static void cavs_ikev2(void **state)
{
	static const char *const names[NAMES] = {"Ni", "Nr", "g^ir", "g^ir (new)", "SPIi", "SPIr",
		"SKEYSEED", "DKM", "DKM(Child SA)", "DKM(Child SA D-H)", "SKEYSEED(Rekey)"};
	static char values[NAMES + 1][LINE];
	enum prf_id id = PRF_NONE;
	char path[LINE];
	int at, used = 0;
	gzFile f = gzopen(path_of("nss-ike/ikev2.fax.gz", path), "r");

	(void)state;
	assert_non_null(f);
	while ((at = read_line(f, names, values)) >= 0) {
		if (strncmp(values[NAMES], "[SHA-", 5) == 0)
			id = strcmp(values[NAMES], "[SHA-256]") == 0      ? PRF_HMAC_SHA2_256
				: strcmp(values[NAMES], "[SHA-384]") == 0 ? PRF_HMAC_SHA2_384
				: strcmp(values[NAMES], "[SHA-512]") == 0 ? PRF_HMAC_SHA2_512
									  : PRF_NONE;
		if (at != REKEY || id == PRF_NONE)
			continue;
		kdf_check(id, values);
		used++;
	}
	gzclose(f);
	print_message("ikev2.fax: %d\n", used);
	assert_true(used > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wycheproof_aead),
		cmocka_unit_test(wycheproof_curves),
		cmocka_unit_test(wycheproof_mlkem),
		cmocka_unit_test(acvp_mlkem),
		cmocka_unit_test(cctv_modulus),
		cmocka_unit_test(cctv),
		cmocka_unit_test(cavs_ikev2),
	};

	if (!getenv("WEFT_VECTORS")) {
		print_message("skipped: WEFT_VECTORS names no folder of vectors\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
