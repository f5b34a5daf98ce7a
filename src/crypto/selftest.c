/* Proof at start that a back end computes AES-GCM and ChaCha20-Poly1305 as it must: test cases 4
 * and 16 of the GCM specification (McGrew, Viega: "The Galois/Counter Mode of Operation", appendix
 * B), then every length up to some hundred bytes and some beyond, at changing alignments, against
 * OpenSSL, which has proved itself on the same values; and a forgery of each. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "crypto/crypto.h"

enum {
	KEY_MAX = 36,
	ICV = 16,
	AAD_MAX = 20,
	KNOWN_TEXT = 60,
	DENSE = 320, /* every length up to here */
	TEXT_MAX = 9216,
	SPARSE_STEP = 181, /* then in these steps: all remainders by 16 come to pass */
	ALIGNMENTS = 16,
	ROOM = TEXT_MAX + ALIGNMENTS + ICV,
	KEY_START = 7, /* numbers without meaning */
	TEXT_START = 11,
	STRIDE = 29,
};

struct known {
	enum aead_id id;
	uint8_t key[KEY_MAX]; /* the salt behind it */
	uint8_t cipher[KNOWN_TEXT];
	uint8_t icv[ICV];
};

/* The nonce of both is cafebabe | facedbaddecaf888. */
static const uint8_t known_iv[] = {0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
static const uint8_t known_aad[AAD_MAX] = {0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe,
	0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2};
static const uint8_t known_plain[KNOWN_TEXT] = {0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5,
	0xa5, 0x59, 0x09, 0xc5, 0xaf, 0xf5, 0x26, 0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7,
	0xda, 0x2e, 0x4c, 0x30, 0x3d, 0x8a, 0x31, 0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95, 0x95, 0x68,
	0x09, 0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49, 0xa6, 0xb5, 0x25, 0xb1, 0x6a, 0xed, 0xf5, 0xaa,
	0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39};

static const struct known known[] = {
	{
		.id = AEAD_AES128_GCM16,
		.key = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94,
			0x67, 0x30, 0x83, 0x08, 0xca, 0xfe, 0xba, 0xbe},
		.cipher = {0x42, 0x83, 0x1e, 0xc2, 0x21, 0x77, 0x74, 0x24, 0x4b, 0x72, 0x21, 0xb7,
			0x84, 0xd0, 0xd4, 0x9c, 0xe3, 0xaa, 0x21, 0x2f, 0x2c, 0x02, 0xa4, 0xe0,
			0x35, 0xc1, 0x7e, 0x23, 0x29, 0xac, 0xa1, 0x2e, 0x21, 0xd5, 0x14, 0xb2,
			0x54, 0x66, 0x93, 0x1c, 0x7d, 0x8f, 0x6a, 0x5a, 0xac, 0x84, 0xaa, 0x05,
			0x1b, 0xa3, 0x0b, 0x39, 0x6a, 0x0a, 0xac, 0x97, 0x3d, 0x58, 0xe0, 0x91},
		.icv = {0x5b, 0xc9, 0x4f, 0xbc, 0x32, 0x21, 0xa5, 0xdb, 0x94, 0xfa, 0xe9, 0x5a,
			0xe7, 0x12, 0x1a, 0x47},
	},
	{
		.id = AEAD_AES256_GCM16,
		.key = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94,
			0x67, 0x30, 0x83, 0x08, 0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c,
			0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08, 0xca, 0xfe, 0xba, 0xbe},
		.cipher = {0x52, 0x2d, 0xc1, 0xf0, 0x99, 0x56, 0x7d, 0x07, 0xf4, 0x7f, 0x37, 0xa3,
			0x2a, 0x84, 0x42, 0x7d, 0x64, 0x3a, 0x8c, 0xdc, 0xbf, 0xe5, 0xc0, 0xc9,
			0x75, 0x98, 0xa2, 0xbd, 0x25, 0x55, 0xd1, 0xaa, 0x8c, 0xb0, 0x8e, 0x48,
			0x59, 0x0d, 0xbb, 0x3d, 0xa7, 0xb0, 0x8b, 0x10, 0x56, 0x82, 0x88, 0x38,
			0xc5, 0xf6, 0x1e, 0x63, 0x93, 0xba, 0x7a, 0x0a, 0xbc, 0xc9, 0xf6, 0x62},
		.icv = {0x76, 0xfc, 0x6e, 0xce, 0x0f, 0x4e, 0x17, 0x68, 0xcd, 0xdf, 0x88, 0x53,
			0xbb, 0x2d, 0x55, 0x1b},
	},
};

/* A text with its ICV behind it. */
static struct aead_op op_of(struct aead *ctx, uint8_t *text, size_t n, struct view aad,
	const uint8_t *iv)
{
	return (struct aead_op){.ctx = ctx,
		.aad = aad,
		.iv = iv,
		.text = text,
		.text_len = n,
		.icv = text + n};
}

static bool known_well(const struct crypto_backend *b, const struct known *k)
{
	uint8_t text[KNOWN_TEXT + ICV];
	struct aead_op op;
	struct aead *a;
	bool well;

	if (aead_new(b, k->id, view_of(k->key, aead_info(k->id)->key_len), (struct view){0},
		    AEAD_BOTH, &a) < 0)
		return false;
	memcpy(text, known_plain, KNOWN_TEXT);
	op = op_of(a, text, KNOWN_TEXT, view_of(known_aad, AAD_MAX), known_iv);
	well = aead_seal(&op, 1) == 1 && memcmp(text, k->cipher, KNOWN_TEXT) == 0 &&
		memcmp(op.icv, k->icv, ICV) == 0 && aead_open(&op, 1) == 1 &&
		memcmp(text, known_plain, KNOWN_TEXT) == 0;
	aead_free(a);
	return well;
}

/* Memory for one text in three forms: sealed by the one, by the other, as it was. */
struct work {
	struct aead *tested, *other;
	uint8_t one[ROOM], two[ROOM], plain[ROOM], aad[AAD_MAX];
};

static void fill(uint8_t *p, size_t n, size_t from)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(from + i * STRIDE + (i >> 8));
}

/* One length: both seal alike, the tested one opens it, and opens nothing that was changed. */
static bool length_well(struct work *w, size_t n, size_t aad)
{
	uint8_t *text = w->one + n % ALIGNMENTS;
	struct view v = view_of(w->aad, aad);
	struct aead_op one = op_of(w->tested, text, n, v, w->plain);
	struct aead_op two = op_of(w->other, w->two, n, v, w->plain);

	memcpy(text, w->plain, n);
	memcpy(w->two, w->plain, n);
	if (aead_seal(&one, 1) != 1 || aead_seal(&two, 1) != 1 ||
		memcmp(text, w->two, n + ICV) != 0)
		return false;
	if (aead_open(&one, 1) != 1 || memcmp(text, w->plain, n) != 0)
		return false;
	memcpy(text, w->two, n + ICV);
	text[n + n % ICV] ^= 1;
	if (aead_open(&one, 1) != 0 || one.result != -EBADMSG)
		return false;
	memcpy(text, w->two, n + ICV);
	if (n)
		text[n / 2] ^= 1;
	return n == 0 || aead_open(&one, 1) == 0;
}

static bool lengths_well(struct work *w)
{
	for (size_t n = 0; n <= TEXT_MAX; n += n < DENSE ? 1 : SPARSE_STEP)
		if (!length_well(w, n, n % 2 ? 8 : 12)) /* as ESP has them: RFC 4106 5 */
			return false;
	return true;
}

static int suite_test(const struct crypto_backend *b, enum aead_id id, struct work *w)
{
	uint8_t key[KEY_MAX];
	struct view v = view_of(key, aead_info(id)->key_len), none = {0};
	int err;

	fill(key, sizeof(key), KEY_START);
	fill(w->plain, sizeof(w->plain), TEXT_START);
	err = aead_new(b, id, v, none, AEAD_BOTH, &w->tested);
	if (err < 0)
		return err;
	err = aead_new(NULL, id, v, none, AEAD_BOTH, &w->other);
	if (err == 0 && !lengths_well(w))
		err = -EBADMSG;
	aead_free(w->tested);
	aead_free(w->other);
	w->tested = w->other = NULL;
	return err;
}

int crypto_selftest(enum crypto_backend_id id)
{
	struct crypto_backend *b;
	struct work *w;
	int err = crypto_backend_new(id, &b);

	if (err < 0)
		return err;
	w = w_calloc(1, sizeof(*w));
	if (!w)
		err = -ENOMEM;
	for (size_t i = 0; err == 0 && i < sizeof(known) / sizeof(known[0]); i++)
		if (!known_well(b, &known[i]) || !known_well(NULL, &known[i]))
			err = -EBADMSG;
	for (int s = AEAD_AES128_GCM16; err == 0 && s <= AEAD_CHACHA20_POLY1305; s++)
		err = suite_test(b, (enum aead_id)s, w);
	w_free(w);
	crypto_backend_free(b);
	return err;
}
