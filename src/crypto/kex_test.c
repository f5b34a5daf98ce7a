/* Diffie-Hellman against the examples of the RFCs, and what must be refused. */
#include "crypto/crypto.h"
#include "crypto/kex_vectors.h"
#include "crypto/helpers_test.h"

enum { CASES = sizeof(dh_cases) / sizeof(dh_cases[0]) };

static struct kex *offer_of(const struct dh_case *c, uint8_t *offer)
{
	struct tape tape;
	struct rng rng = tape_init(&tape, c->initiator);
	struct kex *k = NULL;

	assert_int_equal(kex_offer(c->id, &rng, offer, &k), 0);
	return k;
}

static void examples_give_their_values(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		const struct dh_case *c = &dh_cases[i];
		const struct kex_info *info = kex_info(c->id);
		uint8_t offer[KEX_PUBLIC_MAX], answer[KEX_PUBLIC_MAX], secret[KEX_SECRET_MAX];
		struct kex *k = offer_of(c, offer);
		struct tape tape;
		struct rng rng = tape_init(&tape, c->responder);

		print_message("%s: %s\n", info->name, c->name);
		assert_hex(offer, info->offer_len, c->offer);
		assert_int_equal(kex_answer(c->id, &rng, view_of(offer, info->offer_len), answer,
					 secret),
			0);
		assert_hex(answer, info->answer_len, c->answer);
		assert_hex(secret, info->secret_len, c->secret);
		memset(secret, 0, sizeof(secret));
		assert_int_equal(kex_finish(k, view_of(answer, info->answer_len), secret), 0);
		assert_hex(secret, info->secret_len, c->secret);
		kex_free(k);
	}
}

/* Both sides refuse v as the peer's value, and write nothing. */
static void refused(enum kex_id id, struct view v)
{
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 3);
	uint8_t offer[KEX_PUBLIC_MAX], answer[KEX_PUBLIC_MAX] = {0}, secret[KEX_SECRET_MAX] = {0};
	uint8_t zero[KEX_PUBLIC_MAX] = {0};
	struct kex *k;

	assert_int_equal(kex_answer(id, &rng, v, answer, secret), -EBADMSG);
	assert_memory_equal(answer, zero, sizeof(answer));
	assert_memory_equal(secret, zero, sizeof(secret));
	assert_int_equal(kex_offer(id, &rng, offer, &k), 0);
	assert_int_equal(kex_finish(k, v, secret), -EBADMSG);
	assert_memory_equal(secret, zero, sizeof(secret));
	kex_free(k);
}

static void wrong_lengths_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		uint8_t v[KEX_PUBLIC_MAX];
		size_t n = unhex(dh_cases[i].answer, v, sizeof(v)).n;

		refused(dh_cases[i].id, view_of(v, n - 1));
		refused(dh_cases[i].id, view_of(v, n + 1));
		refused(dh_cases[i].id, view_of(NULL, 0));
	}
}

/* RFC 7748 6.1: the points whose order divides the cofactor give zero. */
static void x25519_refuses_points_of_small_order(void **state)
{
	static const char *const points[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		uint8_t v[32];

		refused(KEX_X25519, unhex(points[i], v, sizeof(v)));
		v[31] |= 0x80; /* the top bit is ignored (RFC 7748 5) */
		refused(KEX_X25519, view_of(v, sizeof(v)));
	}
}

static void points_off_the_curve_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		uint8_t v[KEX_PUBLIC_MAX];
		struct view whole;

		if (dh_cases[i].id < KEX_ECP256 || dh_cases[i].id > KEX_ECP521)
			continue;
		whole = unhex(dh_cases[i].answer, v, sizeof(v));
		v[whole.n - 1] ^= 1; /* y */
		refused(dh_cases[i].id, whole);
		v[whole.n - 1] ^= 1;
		v[whole.n / 2 - 1] ^= 1; /* x */
		refused(dh_cases[i].id, whole);
		memset(v, 0, whole.n);
		refused(dh_cases[i].id, whole);
		memset(v, 0xff, whole.n); /* not reduced */
		refused(dh_cases[i].id, whole);
	}
}

static void modp_refuses_degenerate_values(void **state)
{
	uint8_t v[256] = {0}, prime[256];
	struct view all = view_of(v, sizeof(v));

	(void)state;
	refused(KEX_MODP2048, all); /* 0 */
	v[255] = 1;
	refused(KEX_MODP2048, all);
	memset(v, 0xff, sizeof(v)); /* above p */
	refused(KEX_MODP2048, all);
	(void)unhex("ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74"
		    "020bbea63b139b22514a08798e3404ddef9519b3cd3a431b302b0a6df25f1437"
		    "4fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed"
		    "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf05"
		    "98da48361c55d39a69163fa8fd24cf5f83655d23dca3ad961c62f356208552bb"
		    "9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b"
		    "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf695581718"
		    "3995497cea956ae515d2261898fa051015728e5a8aacaa68ffffffffffffffff",
		prime, sizeof(prime));
	refused(KEX_MODP2048, view_of(prime, sizeof(prime)));
	prime[255] -= 1; /* p - 1, of order 2 */
	refused(KEX_MODP2048, view_of(prime, sizeof(prime)));
}

/* A scalar of 0, of n, or above n is drawn again; the example's scalar comes next. */
static void scalars_out_of_range_are_drawn_again(void **state)
{
	static const char n_256[] =
		"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
	static const char ones[] =
		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
	static const char zeros[] =
		"0000000000000000000000000000000000000000000000000000000000000000";
	uint8_t offer[KEX_PUBLIC_MAX];
	char text[4 * 64 + 1];
	struct tape tape;
	struct rng rng;
	struct kex *k;

	(void)state;
	assert_int_equal(dh_cases[1].id, KEX_ECP256);
	(void)snprintf(text, sizeof(text), "%s%s%s%s", n_256, ones, zeros, dh_cases[1].initiator);
	rng = tape_init(&tape, text);
	assert_int_equal(kex_offer(KEX_ECP256, &rng, offer, &k), 0);
	assert_hex(offer, 64, dh_cases[1].offer);
	kex_free(k);
}

static void failures_of_the_rng_come_through(void **state)
{
	uint8_t offer[KEX_PUBLIC_MAX], answer[KEX_PUBLIC_MAX], secret[KEX_SECRET_MAX];
	struct rng_seeded seeded;
	struct rng good = rng_seeded_init(&seeded, 9), bad;
	struct tape tape;
	struct kex *k = NULL, *other;

	(void)state;
	for (int id = KEX_NONE + 1; id < KEX_COUNT; id++) {
		bad = tape_init(&tape, "00");
		assert_int_equal(kex_offer((enum kex_id)id, &bad, offer, &k), -EAGAIN);
		assert_null(k);
		assert_int_equal(kex_offer((enum kex_id)id, &good, offer, &other), 0);
		assert_int_equal(kex_answer((enum kex_id)id, &bad,
					 view_of(offer, kex_info((enum kex_id)id)->offer_len),
					 answer, secret),
			-EAGAIN);
		kex_free(other);
	}
}

static void numbers_of_ike(void **state)
{
	static const uint16_t ids[] = {31, 19, 20, 21, 14, 35, 36, 37};
	struct rng_seeded seeded;
	struct rng rng = rng_seeded_init(&seeded, 9);
	uint8_t b[KEX_PUBLIC_MAX];
	struct kex *k = NULL;

	(void)state;
	for (int i = 0; i < 8; i++) {
		assert_int_equal(kex_info((enum kex_id)(i + 1))->ike, ids[i]);
		assert_int_equal(kex_by_ike(ids[i]), i + 1);
		assert_true(kex_info((enum kex_id)(i + 1))->offer_len <= KEX_PUBLIC_MAX);
	}
	assert_int_equal(kex_by_ike(0), KEX_NONE);
	assert_int_equal(kex_by_ike(2), KEX_NONE);
	assert_null(kex_info(KEX_NONE));
	assert_null(kex_info(KEX_COUNT));
	assert_int_equal(kex_offer(KEX_NONE, &rng, b, &k), -EINVAL);
	assert_int_equal(kex_answer(KEX_COUNT, &rng, view_of(b, 1), b, b), -EINVAL);
	kex_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_give_their_values),
		cmocka_unit_test(wrong_lengths_are_refused),
		cmocka_unit_test(x25519_refuses_points_of_small_order),
		cmocka_unit_test(points_off_the_curve_are_refused),
		cmocka_unit_test(modp_refuses_degenerate_values),
		cmocka_unit_test(scalars_out_of_range_are_drawn_again),
		cmocka_unit_test(failures_of_the_rng_come_through),
		cmocka_unit_test(numbers_of_ike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
