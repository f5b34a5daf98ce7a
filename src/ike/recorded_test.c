/* A whole recorded conversation (test/vectors/hybrid.txt): every message is parsed and encoded
 * again, every key, IntAuth and AUTH recomputed, every encrypted payload opened and sealed again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/vectors_test.h"
#include "ike/codec_priv.h"
#include "ike/keymat_priv.h"
#include "ike/open_priv.h"
#include "ike/protect_priv.h"

enum { SAS = 3, CHILDREN = 4, FRAGMENT_BYTES = 1248, PRF_LEN = 64, KEY_LEN = 36 };

static int setup(void **state)
{
	*state = vectors_load(WEFT_TEST_DATA "/vectors/hybrid.txt");
	return 0;
}

static int teardown(void **state)
{
	vectors_free(*state);
	return 0;
}

static void assert_view(struct view got, struct view want)
{
	assert_int_equal(got.n, want.n);
	if (got.n)
		assert_memory_equal(got.p, want.p, got.n);
}

/* The recorded keys of an IKE SA after `step` updates. */
static struct ike_keys recorded_keys(const struct vectors *v, unsigned int sa, unsigned int step)
{
	struct ike_keys k = {.aead = AEAD_AES256_GCM16, .prf = PRF_HMAC_SHA2_512};

	memcpy(k.d, vectors_get(v, "sa%u.step%u.sk_d", sa, step).p, PRF_LEN);
	memcpy(k.ei, vectors_get(v, "sa%u.step%u.sk_ei", sa, step).p, KEY_LEN);
	memcpy(k.er, vectors_get(v, "sa%u.step%u.sk_er", sa, step).p, KEY_LEN);
	memcpy(k.pi, vectors_get(v, "sa%u.step%u.sk_pi", sa, step).p, PRF_LEN);
	memcpy(k.pr, vectors_get(v, "sa%u.step%u.sk_pr", sa, step).p, PRF_LEN);
	return k;
}

static struct ike_seed recorded_seed(const struct vectors *v, unsigned int sa)
{
	return (struct ike_seed){
		.ni = vectors_get(v, "sa%u.ni", sa),
		.nr = vectors_get(v, "sa%u.nr", sa),
		.spi_i = vectors_number(vectors_get(v, "sa%u.spi_i", sa)),
		.spi_r = vectors_number(vectors_get(v, "sa%u.spi_r", sa)),
	};
}

static void assert_keys(const struct vectors *v, unsigned int sa, unsigned int step,
	const struct ike_keys *k, const uint8_t *skeyseed)
{
	struct ike_keys want = recorded_keys(v, sa, step);

	assert_view(view_of(skeyseed, PRF_LEN), vectors_get(v, "sa%u.step%u.skeyseed", sa, step));
	assert_memory_equal(k, &want, sizeof(want));
}

static void sk_of_every_sa_is_the_recorded_one(void **state)
{
	const struct vectors *v = *state;
	struct ike_keys k = {.aead = AEAD_AES256_GCM16, .prf = PRF_HMAC_SHA2_512};
	struct ike_seed seed = recorded_seed(v, 0);
	uint8_t skeyseed[PRF_MAX];

	assert_int_equal(ike_keys_init(&k, vectors_get(v, "sa0.step0.shared"), &seed, skeyseed), 0);
	assert_keys(v, 0, 0, &k, skeyseed);
	assert_int_equal(ike_keys_update(&k, vectors_get(v, "sa0.step1.shared"), &seed, skeyseed),
		0);
	assert_keys(v, 0, 1, &k, skeyseed);
	for (unsigned int sa = 1; sa < SAS; sa++) {
		struct ike_keys next = {.aead = k.aead, .prf = k.prf};
		struct view shared[] = {vectors_get(v, "sa%u.step0.sk0", sa),
			vectors_get(v, "sa%u.step0.sk1", sa)};

		seed = recorded_seed(v, sa);
		assert_int_equal(ike_keys_rekey(&next, &k, shared, 2, &seed, skeyseed), 0);
		assert_keys(v, sa, 0, &next, skeyseed);
		k = next;
	}
}

static void child_keys_are_the_recorded_ones(void **state)
{
	const struct vectors *v = *state;

	for (unsigned int i = 1; i <= CHILDREN; i++) {
		unsigned int sa = vectors_get(v, "child%u.sa", i).p[0];
		struct ike_keys k = recorded_keys(v, sa, sa == 0 ? 1 : 0);
		struct ike_child_keys asker = {.aead = AEAD_AES256_GCM16}, other = asker;
		struct ike_seed seed = {.ni = vectors_get(v, "child%u.ni", i),
			.nr = vectors_get(v, "child%u.nr", i)};
		size_t n = vectors_has(v, "child%u.sk0", i) ? 2 : 0;
		struct view shared[2] = {0};

		for (size_t s = 0; s < n; s++)
			shared[s] = vectors_get(v, "child%u.sk%zu", i, s);
		assert_int_equal(ike_child_keymat(&k, shared, n, &seed, true, &asker), 0);
		assert_view(view_of(asker.out_key, KEY_LEN), vectors_get(v, "child%u.key_ir", i));
		assert_view(view_of(asker.in_key, KEY_LEN), vectors_get(v, "child%u.key_ri", i));
		assert_int_equal(ike_child_keymat(&k, shared, n, &seed, false, &other), 0);
		assert_memory_equal(other.in_key, asker.out_key, KEY_LEN);
		assert_memory_equal(other.out_key, asker.in_key, KEY_LEN);
	}
}

static void messages_are_encoded_as_they_were(void **state)
{
	const struct vectors *v = *state;
	struct view frames = vectors_get(v, "ike_frames");

	assert_int_equal(frames.n, 44);
	for (size_t i = 0; i < frames.n; i++) {
		struct view message = vectors_get(v, "m%u.message", frames.p[i]);
		struct ike_msg m;
		struct ike_build b;

		assert_int_equal(ike_msg_parse(message, &m), IKE_PARSE_OK);
		assert_int_equal(ike_msg_encode(&m, &b), 0);
		assert_view(buf_view(&b.out), message);
		ike_build_free(&b);
		if (!vectors_has(v, "m%u.inner", frames.p[i]))
			continue;
		message = vectors_get(v, "m%u.inner", frames.p[i]);
		assert_int_equal(ike_inner_parse(vectors_get(v, "m%u.first", frames.p[i]).p[0],
					 message, &m),
			IKE_PARSE_OK);
		assert_int_equal(ike_msg_encode(&m, &b), 0);
		assert_view(buf_view(&b.out), message);
		assert_int_equal(b.first, m.first);
		ike_build_free(&b);
	}
}

/* Contexts of both ends of an IKE SA after `step` updates. */
struct ends {
	struct ike_protect *i, *r;
};

static struct ends ends_new(const struct vectors *v, unsigned int frame)
{
	struct ike_keys k = recorded_keys(v, vectors_get(v, "m%u.sa", frame).p[0],
		vectors_get(v, "m%u.generation", frame).p[0]);
	struct ends e = {0};

	assert_int_equal(ike_protect_new(&k, true, &e.i), 0);
	assert_int_equal(ike_protect_new(&k, false, &e.r), 0);
	return e;
}

static void ends_free(struct ends *e)
{
	ike_protect_free(e->i);
	ike_protect_free(e->r);
}

/* Opens one recorded packet and seals it again with its IV. */
static void open_and_seal(const struct vectors *v, unsigned int frame)
{
	struct view message = vectors_get(v, "m%u.message", frame);
	struct ends e = ends_new(v, frame);
	struct ike_packet packet;
	struct buf text = {0}, again = {0};
	struct ike_protect *sender;
	struct ike_msg m;
	struct cur c;

	assert_int_equal(ike_msg_parse(message, &m), IKE_PARSE_OK);
	sender = m.h.flags & IKE_FLAG_INITIATOR ? e.i : e.r;
	assert_int_equal(ike_open_packet(sender == e.i ? e.r : e.i, &m.enc, &text), IKE_OPEN_OK);
	assert_view(buf_view(&text), vectors_get(v, "m%u.text", frame));
	packet = (struct ike_packet){.h = &m.h,
		.first = m.enc.first,
		.number = m.enc.number,
		.total = m.enc.total,
		.text = buf_view(&text)};
	c = cur_view(m.enc.rest);
	ike_protect_set_counter(sender, cur_u64(&c));
	assert_int_equal(ike_seal_packet(sender, NULL, &packet, &again), 0);
	assert_view(buf_view(&again), message);
	buf_free(&text);
	buf_free(&again);
	ends_free(&e);
}

static void encrypted_payloads_open_and_seal_again(void **state)
{
	const struct vectors *v = *state;
	struct view frames = vectors_get(v, "ike_frames");

	for (size_t i = 0; i < frames.n; i++)
		if (vectors_has(v, "m%u.text", frames.p[i]))
			open_and_seal(v, frames.p[i]);
}

/* A complete message against the record, and sealed for the size that the peers had set. */
static void assert_opened(const struct vectors *v, unsigned int frame, const struct ike_opened *o,
	struct ike_protect *sender)
{
	struct view inner = vectors_get(v, "m%u.inner", frame), part;
	struct view whole = buf_view(&o->whole);
	struct ike_inner chain = {vectors_get(v, "m%u.first", frame).p[0], inner};
	struct ike_sealed sealed;
	struct buf plain = {0};
	struct ike_msg m;
	struct cur c = cur_view(whole);
	size_t at = 0;
	unsigned int count = 0;

	cur_skip(&c, o->inner_at);
	assert_view(cur_rest(&c), inner);
	assert_int_equal(ike_opened_parse(o, &m), IKE_PARSE_OK);
	if (vectors_has(v, "m%u.intauth_a", frame))
		assert_view(view_of(whole.p, o->inner_at), vectors_get(v, "m%u.intauth_a", frame));
	assert_int_equal(ike_plain_form(&m.h, &chain, &plain), 0);
	assert_view(buf_view(&plain), whole);
	buf_free(&plain);
	assert_int_equal(ike_seal(sender, NULL, &m.h, &chain, FRAGMENT_BYTES, &sealed), 0);
	while (ike_sealed_next(&sealed, &at, &part)) {
		struct view recorded = vectors_get(v, "m%u.message",
			frame + 1 - sealed.count + count++);

		assert_int_equal(part.n, recorded.n);
	}
	assert_int_equal(count, sealed.count);
	ike_sealed_free(&sealed);
}

static void whole_messages_come_out_of_reassembly(void **state)
{
	const struct vectors *v = *state;
	struct view frames = vectors_get(v, "ike_frames");
	unsigned int whole = 0;

	for (size_t i = 0; i < frames.n; i++) {
		struct ike_reassembly *r;
		struct ends e;

		if (!vectors_has(v, "m%u.text", frames.p[i]))
			continue;
		assert_int_equal(ike_reassembly_new(&r), 0);
		e = ends_new(v, frames.p[i]);
		for (bool done = false; !done; i += !done) {
			struct ike_opened o = {0};
			struct ike_msg m;
			enum ike_open_result result;
			struct ike_protect *sender, *receiver;

			assert_int_equal(ike_msg_parse(vectors_get(v, "m%u.message", frames.p[i]),
						 &m),
				IKE_PARSE_OK);
			sender = m.h.flags & IKE_FLAG_INITIATOR ? e.i : e.r;
			receiver = sender == e.i ? e.r : e.i;
			result = ike_open(receiver, r, &m, &o);
			done = vectors_has(v, "m%u.inner", frames.p[i]);
			assert_int_equal(result, done ? IKE_OPEN_OK : IKE_OPEN_INCOMPLETE);
			if (done)
				assert_opened(v, frames.p[i], &o, sender);
			whole += done;
			ike_opened_free(&o);
		}
		ends_free(&e);
		ike_reassembly_free(r);
	}
	assert_int_equal(whole, 36);
}

/* The IKE_INTERMEDIATE messages, frames 4 (whole form of 3 and 4) and 5. */
static struct ike_int_auth recorded_int_auth(const struct vectors *v)
{
	struct ike_keys k = recorded_keys(v, 0, 0);
	struct ike_int_auth a = {0};

	for (unsigned int frame = 4; frame <= 5; frame++) {
		struct view head = vectors_get(v, "m%u.intauth_a", frame);
		struct view inner = vectors_get(v, "m%u.inner", frame);
		struct buf whole = {0};

		buf_add(&whole, head.p, head.n);
		buf_add(&whole, inner.p, inner.n);
		assert_int_equal(ike_int_auth_add(&a, &k, frame == 5, buf_view(&whole)), 0);
		buf_free(&whole);
	}
	return a;
}

static void int_auth_is_the_recorded_one(void **state)
{
	const struct vectors *v = *state;
	struct ike_int_auth a = recorded_int_auth(v);

	assert_view(view_of(a.i, PRF_LEN), vectors_get(v, "m4.intauth"));
	assert_view(view_of(a.r, PRF_LEN), vectors_get(v, "m5.intauth"));
	assert_int_equal(a.rounds, 1);
}

/* The AUTH payload of frame 6 (initiator) or 7 (responder). */
static void check_auth(const struct vectors *v, bool responder)
{
	unsigned int frame = responder ? 7 : 6;
	struct ike_int_auth int_auth = recorded_int_auth(v);
	struct ike_keys keys = recorded_keys(v, 0, 1);
	struct ike_auth_input in = {
		.responder = responder,
		.message = vectors_get(v, responder ? "m2.message" : "m1.message"),
		.nonce = vectors_get(v, responder ? "sa0.ni" : "sa0.nr"),
		.keys = &keys,
		.int_auth = &int_auth,
		.auth_mid = 2,
	};
	struct ed25519_key *key;
	uint8_t data[IKE_AUTH_ED25519_LEN], public_key[ED25519_PUBLIC];
	struct buf octets = {0};
	struct ike_auth auth;
	struct ike_msg m;

	assert_int_equal(ike_inner_parse(vectors_get(v, "m%u.first", frame).p[0],
				 vectors_get(v, "m%u.inner", frame), &m),
		IKE_PARSE_OK);
	in.id_body = ike_msg_find(&m, responder ? IKE_PL_IDR : IKE_PL_IDI)->body;
	auth = ike_auth_read(ike_msg_find(&m, IKE_PL_AUTH)->body);
	assert_int_equal(auth.method, IKE_AUTH_SIGNATURE);
	assert_int_equal(ike_auth_octets(&in, &octets), 0);
	assert_view(buf_view(&octets), vectors_get(v, "m%u.auth_octets", frame));
	buf_free(&octets);
	assert_int_equal(ed25519_from_seed(vectors_get(v, "sign.%c.seed", responder ? 'b' : 'a').p,
				 &key),
		0);
	ed25519_public(key, public_key);
	assert_int_equal(ike_auth_verify(&in, public_key, auth.data), 0);
	assert_int_equal(ike_auth_sign(&in, key, data), 0);
	assert_view(view_of(data, sizeof(data)), auth.data);
	ed25519_free(key);
	/* one bit less in what is signed, or no IntAuth: refused */
	in.auth_mid = 3;
	assert_int_equal(ike_auth_verify(&in, public_key, auth.data), -EBADMSG);
	in.auth_mid = 2;
	in.int_auth = NULL;
	assert_int_equal(ike_auth_verify(&in, public_key, auth.data), -EBADMSG);
	/* an AUTH payload with an empty signature, cut algorithm, another algorithm */
	assert_int_equal(ike_auth_verify(&in, public_key, view_of(NULL, 0)), -EINVAL);
	assert_int_equal(ike_auth_verify(&in, public_key, view_of(data, 8)), -EINVAL);
	assert_int_equal(ike_auth_verify(&in, public_key, view_of(data, 4)), -EINVAL);
	data[7] ^= 1;
	assert_int_equal(ike_auth_verify(&in, public_key, view_of(data, sizeof(data))),
		-EPROTONOSUPPORT);
}

static void auth_payloads_verify_and_are_made_again(void **state)
{
	check_auth(*state, false);
	check_auth(*state, true);
}

static void cut_messages_are_refused(void **state)
{
	const struct vectors *v = *state;
	struct view frames = vectors_get(v, "ike_frames");

	for (size_t i = 0; i < frames.n; i++) {
		struct view whole = vectors_get(v, "m%u.message", frames.p[i]);
		struct ike_msg m;

		for (size_t n = 0; n < whole.n; n++) {
			uint8_t *cut = w_memdup(whole.p, n);

			assert_int_equal(ike_msg_parse(view_of(cut, n), &m), IKE_PARSE_TRUNCATED);
			if (n >= IKE_HEADER_LEN) {
				/* a header that agrees does not help: the chain is cut */
				put_u32(cut + 24, (uint32_t)n);
				assert_true(ike_msg_parse(view_of(cut, n), &m) != IKE_PARSE_OK);
			}
			w_free(cut);
		}
		if (!vectors_has(v, "m%u.inner", frames.p[i]))
			continue;
		whole = vectors_get(v, "m%u.inner", frames.p[i]);
		for (size_t n = 0; n < whole.n; n++) {
			uint8_t *cut = w_memdup(whole.p, n);

			assert_true(ike_inner_parse(vectors_get(v, "m%u.first", frames.p[i]).p[0],
					    view_of(cut, n), &m) != IKE_PARSE_OK);
			w_free(cut);
		}
	}
}

/* Parses, and when that succeeds encodes: whatever comes, nothing may break. */
static void parse_anything(uint8_t first, struct view bytes)
{
	struct ike_msg m;
	struct ike_build b = {0};
	enum ike_parse_error e = first ? ike_inner_parse(first, bytes, &m)
				       : ike_msg_parse(bytes, &m);

	assert_true(e < IKE_PARSE_COUNT);
	if (e == IKE_PARSE_OK) {
		assert_int_equal(ike_msg_encode(&m, &b), 0);
		assert_int_equal(b.out.n, bytes.n);
	}
	ike_build_free(&b);
}

static void flipped_bits_break_nothing(void **state)
{
	const struct vectors *v = *state;
	struct view frames = vectors_get(v, "ike_frames");

	for (size_t i = 0; i < frames.n; i++) {
		bool inner = vectors_has(v, "m%u.inner", frames.p[i]);
		struct view whole = vectors_get(v, inner ? "m%u.inner" : "m%u.message",
			frames.p[i]);
		uint8_t first = inner ? vectors_get(v, "m%u.first", frames.p[i]).p[0] : 0;
		uint8_t *bytes = w_memdup(whole.p, whole.n);

		for (size_t bit = 0; bit < 8 * whole.n; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			parse_anything(first, view_of(bytes, whole.n));
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		w_free(bytes);
	}
}

static void flipped_bits_are_not_authentic(void **state)
{
	const struct vectors *v = *state;
	struct view whole = vectors_get(v, "m6.message");
	struct ends e = ends_new(v, 6);
	uint8_t *bytes = w_memdup(whole.p, whole.n);

	for (size_t bit = 0; bit < 8 * whole.n; bit++) {
		struct ike_opened o = {0};
		struct ike_msg m;

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (ike_msg_parse(view_of(bytes, whole.n), &m) == IKE_PARSE_OK &&
			m.enc.type == IKE_PL_SK)
			assert_int_equal(ike_open(e.r, NULL, &m, &o), IKE_OPEN_NOT_AUTHENTIC);
		assert_null(o.whole.p);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	w_free(bytes);
	ends_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sk_of_every_sa_is_the_recorded_one),
		cmocka_unit_test(child_keys_are_the_recorded_ones),
		cmocka_unit_test(messages_are_encoded_as_they_were),
		cmocka_unit_test(encrypted_payloads_open_and_seal_again),
		cmocka_unit_test(whole_messages_come_out_of_reassembly),
		cmocka_unit_test(int_auth_is_the_recorded_one),
		cmocka_unit_test(auth_payloads_verify_and_are_made_again),
		cmocka_unit_test(cut_messages_are_refused),
		cmocka_unit_test(flipped_bits_break_nothing),
		cmocka_unit_test(flipped_bits_are_not_authentic),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
