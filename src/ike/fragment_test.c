/* Sealing, splitting, opening and putting together: RFC 7383, and what hostile or odd peers send.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "ike/open_priv.h"
#include "ike/protect_priv.h"

enum { PARTS_MAX = 200, BODY_MAX = 4096 };

struct fixture {
	struct rng_seeded seeded;
	struct rng rng;
	struct ike_protect *i, *r; /* initiator sends, responder receives */
	struct ike_reassembly *kept;
	struct ike_header h;
};

static struct fixture *fixture_new(enum aead_id aead)
{
	struct fixture *f = w_calloc(1, sizeof(*f));
	struct ike_keys keys = {.aead = aead, .prf = PRF_HMAC_SHA2_256};

	f->rng = rng_seeded_init(&f->seeded, 7);
	rng_fill(&f->rng, keys.ei, sizeof(keys.ei));
	rng_fill(&f->rng, keys.er, sizeof(keys.er));
	rng_fill(&f->rng, keys.ai, sizeof(keys.ai));
	rng_fill(&f->rng, keys.ar, sizeof(keys.ar));
	assert_int_equal(ike_protect_new(&keys, true, &f->i), 0);
	assert_int_equal(ike_protect_new(&keys, false, &f->r), 0);
	assert_int_equal(ike_reassembly_new(&f->kept), 0);
	f->h = (struct ike_header){.spi_i = 1,
		.spi_r = 2,
		.version = IKE_VERSION,
		.exchange = IKE_INTERMEDIATE,
		.flags = IKE_FLAG_INITIATOR,
		.mid = 1};
	return f;
}

static void fixture_free(struct fixture *f)
{
	ike_protect_free(f->i);
	ike_protect_free(f->r);
	ike_reassembly_free(f->kept);
	w_free(f);
}

/* One datagram into the receiver. */
static enum ike_open_result receive(struct fixture *f, struct view message, struct ike_opened *ret)
{
	struct ike_msg m;

	assert_int_equal(ike_msg_parse(message, &m), IKE_PARSE_OK);
	return ike_open(f->r, f->kept, &m, ret);
}

/* A chain of one KE payload with `size` bytes, in b. */
static struct ike_inner inner_of(struct ike_build *b, size_t size)
{
	uint8_t data[BODY_MAX];

	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 31 + 5);
	ike_build_begin_inner(b);
	ike_build_ke(b, 36, view_of(data, size));
	assert_int_equal(ike_build_finish(b), 0);
	return (struct ike_inner){b->first, buf_view(&b->out)};
}

/* Seals for message_max, receives the parts in the given order (0 forwards, 1 backwards), and
 * compares with the plain form. */
static void round_trip(struct fixture *f, size_t size, size_t message_max, int order)
{
	struct view part[PARTS_MAX];
	struct ike_sealed sealed;
	struct ike_opened o = {0};
	struct buf plain = {0};
	struct ike_build b;
	struct ike_inner inner = inner_of(&b, size);
	struct ike_msg m;
	unsigned int n = 0;

	f->h.mid++;
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &inner, message_max, &sealed), 0);
	for (size_t at = 0; ike_sealed_next(&sealed, &at, &part[n]); n++)
		assert_true(message_max == 0 || part[n].n <= message_max);
	assert_int_equal(n, sealed.count);
	for (unsigned int i = 0; i < n; i++) {
		enum ike_open_result want = i + 1 < n ? IKE_OPEN_INCOMPLETE : IKE_OPEN_OK;

		if (i + 2 < n) /* all but the last are as long as may be, a cipher block apart */
			assert_true(part[i].n + 16 > message_max);
		assert_int_equal(receive(f, part[order ? n - 1 - i : i], &o), want);
	}
	assert_int_equal(ike_plain_form(&f->h, &inner, &plain), 0);
	assert_true(view_equal(buf_view(&plain), buf_view(&o.whole)));
	assert_int_equal(ike_opened_parse(&o, &m), IKE_PARSE_OK);
	assert_int_equal(m.count, 1);
	assert_false(m.payload[0].clear);
	assert_int_equal(ike_ke_read(m.payload[0].body).data.n, size);
	buf_free(&plain);
	ike_opened_free(&o);
	ike_sealed_free(&sealed);
	ike_build_free(&b);
}

static void fragmented_equals_whole(void **state)
{
	static const size_t sizes[] = {1, 15, 16, 17, 500, 1088, 1184, 1568, 4000};
	static const size_t maxima[] = {0, 100, 101, 111, 112, 113, 250, 548, 1248, 1232, 9000};

	(void)state;
	for (enum aead_id id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		struct fixture *f = fixture_new(id);

		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (size_t x = 0; x < sizeof(maxima) / sizeof(maxima[0]); x++)
				if (maxima[x] == 0 || maxima[x] > 200 || sizes[s] < 1500)
					round_trip(f, sizes[s], maxima[x], (int)(x + s) % 2);
		fixture_free(f);
	}
}

static void an_empty_message_goes_through(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	struct ike_inner empty = {0};
	struct ike_sealed sealed;
	struct ike_opened o = {0};
	struct ike_msg m;

	(void)state;
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &empty, 1248, &sealed), 0);
	assert_int_equal(sealed.count, 1);
	assert_int_equal(receive(f, buf_view(&sealed.bytes), &o), IKE_OPEN_OK);
	assert_int_equal(ike_opened_parse(&o, &m), IKE_PARSE_OK);
	assert_int_equal(m.count, 0);
	ike_opened_free(&o);
	ike_sealed_free(&sealed);
	fixture_free(f);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	uint8_t *big = w_calloc(1, 70000);
	struct ike_inner inner = {IKE_PL_VENDOR, view_of(big, 4000)};
	struct ike_sealed sealed;

	(void)state;
	/* 60 bytes are header, IV and ICV alone; 61 would hold no text beside the pad length */
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &inner, 61, &sealed), -EMSGSIZE);
	ike_sealed_free(&sealed);
	/* 128 fragments at most */
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &inner, 80, &sealed), -EMSGSIZE);
	ike_sealed_free(&sealed);
	inner.bytes.n = 128 * 19;
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &inner, 80, &sealed), 0);
	assert_int_equal(sealed.count, 128);
	ike_sealed_free(&sealed);
	inner.bytes.n++;
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &inner, 80, &sealed), -EMSGSIZE);
	ike_sealed_free(&sealed);
	inner.bytes.n = 65500;
	assert_int_equal(ike_seal(f->i, &f->rng, &f->h, &inner, 0, &sealed), -EMSGSIZE);
	ike_sealed_free(&sealed);
	w_free(big);
	fixture_free(f);
}

static int rng_broken(void *ctx, void *p, size_t n)
{
	(void)ctx;
	(void)p;
	(void)n;
	return -EAGAIN;
}

static void ivs_are_what_the_cipher_needs(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	const struct rng broken = {.fill = rng_broken};
	struct ike_inner empty = {0};
	struct ike_sealed a, b;
	struct ike_msg ma, mb;

	(void)state;
	/* a counter, without randomness */
	assert_int_equal(ike_seal(f->i, &broken, &f->h, &empty, 0, &a), 0);
	assert_int_equal(ike_seal(f->i, &broken, &f->h, &empty, 0, &b), 0);
	assert_int_equal(ike_msg_parse(buf_view(&a.bytes), &ma), IKE_PARSE_OK);
	assert_int_equal(ike_msg_parse(buf_view(&b.bytes), &mb), IKE_PARSE_OK);
	assert_memory_not_equal(ma.enc.rest.p, mb.enc.rest.p, 8);
	ike_sealed_free(&a);
	ike_sealed_free(&b);
	fixture_free(f);
	/* unpredictable, and an error without randomness */
	f = fixture_new(AEAD_AES256_CBC_SHA256_128);
	assert_int_equal(ike_seal(f->i, &broken, &f->h, &empty, 0, &a), -EAGAIN);
	ike_sealed_free(&a);
	fixture_free(f);
}

/* ---- Sequences of fragments -------------------------------------------------------------------
 */

/* Makes one fragment (total 0: an SK), flips its last byte when broken, and receives it. */
static enum ike_open_result receive_fragment(struct fixture *f, uint16_t number, uint16_t total,
	bool broken, struct ike_opened *ret)
{
	struct ike_packet packet = {.h = &f->h,
		.first = IKE_PL_VENDOR,
		.text = view_of("\0\0\0\5x", 5)};
	struct buf bytes = {0};
	enum ike_open_result result;

	if (number > 1) {
		packet.first = IKE_PL_NONE;
		packet.text.n = 0;
	}
	/* number 0 is an SK for ike_seal_packet(): make it 1 and change it, checks come before */
	packet.number = total && !number ? 1 : number;
	packet.total = total;
	assert_int_equal(ike_seal_packet(f->i, &f->rng, &packet, &bytes), 0);
	if (total && !number)
		put_u16(bytes.p + 32, 0);
	if (broken)
		bytes.p[bytes.n - 1] ^= 1;
	result = receive(f, buf_view(&bytes), ret);
	buf_free(&bytes);
	return result;
}

struct step {
	uint32_t mid;
	uint16_t number, total;
	enum ike_open_result want;
};

static void run_steps(const struct step *step, size_t n)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);

	for (size_t i = 0; i < n; i++) {
		bool broken = step[i].want == IKE_OPEN_NOT_AUTHENTIC;
		struct ike_opened o = {0};
		enum ike_open_result got;

		f->h.mid = step[i].mid;
		got = receive_fragment(f, step[i].number, step[i].total, broken, &o);
		if (got != step[i].want)
			fail_msg("step %zu, %u/%u: %s, not %s", i, step[i].number, step[i].total,
				ike_open_text(got), ike_open_text(step[i].want));
		assert_int_equal(o.whole.p != NULL, got == IKE_OPEN_OK);
		ike_opened_free(&o);
	}
	fixture_free(f);
}

#define RUN(...)                                                                                   \
	run_steps((struct step[]){__VA_ARGS__},                                                    \
		sizeof((struct step[]){__VA_ARGS__}) / sizeof(struct step))

static void totals_do_not_mix(void **state)
{
	(void)state;
	RUN({1, 1, 3, IKE_OPEN_INCOMPLETE}, {1, 2, 3, IKE_OPEN_INCOMPLETE},
		{1, 2, 2, IKE_OPEN_FRAGMENT_LOWER_TOTAL}, {1, 3, 3, IKE_OPEN_OK});
	RUN({1, 1, 2, IKE_OPEN_INCOMPLETE}, {1, 1, 5, IKE_OPEN_INCOMPLETE},
		{1, 2, 2, IKE_OPEN_FRAGMENT_LOWER_TOTAL}, {1, 2, 5, IKE_OPEN_INCOMPLETE},
		{1, 5, 5, IKE_OPEN_INCOMPLETE}, {1, 4, 5, IKE_OPEN_INCOMPLETE},
		{1, 3, 5, IKE_OPEN_OK});
	RUN({1, 2, 3, IKE_OPEN_INCOMPLETE}, {1, 2, 3, IKE_OPEN_FRAGMENT_DUPLICATE},
		{1, 1, 3, IKE_OPEN_INCOMPLETE}, {1, 3, 3, IKE_OPEN_OK});
	RUN({1, 1, 1, IKE_OPEN_OK});
}

static void numbers_are_checked(void **state)
{
	(void)state;
	RUN({1, 0, 2, IKE_OPEN_FRAGMENT_ZERO}, {1, 3, 2, IKE_OPEN_FRAGMENT_ABOVE},
		{1, 1, 65535, IKE_OPEN_FRAGMENT_TOTAL_LIMIT},
		{1, 1, IKE_FRAGMENTS_MAX + 1, IKE_OPEN_FRAGMENT_TOTAL_LIMIT},
		{1, 1, IKE_FRAGMENTS_MAX, IKE_OPEN_INCOMPLETE});
}

static void many_fragments_are_taken(void **state)
{
	static const uint16_t totals[] = {40, 64, IKE_FRAGMENTS_MAX};

	(void)state;
	for (size_t t = 0; t < sizeof(totals) / sizeof(totals[0]); t++) {
		struct step steps[IKE_FRAGMENTS_MAX];

		for (uint16_t i = 0; i < totals[t]; i++)
			steps[i] = (struct step){1, totals[t] - i, totals[t],
				i + 1 < totals[t] ? IKE_OPEN_INCOMPLETE : IKE_OPEN_OK};
		run_steps(steps, totals[t]);
	}
}

static void a_new_message_clears_the_old(void **state)
{
	(void)state;
	RUN({5, 2, 2, IKE_OPEN_INCOMPLETE}, {6, 1, 2, IKE_OPEN_INCOMPLETE}, {6, 2, 2, IKE_OPEN_OK});
	RUN({5, 2, 3, IKE_OPEN_INCOMPLETE}, {6, 2, 2, IKE_OPEN_INCOMPLETE}, {6, 1, 2, IKE_OPEN_OK});
	RUN({6, 1, 2, IKE_OPEN_INCOMPLETE}, {5, 1, 2, IKE_OPEN_FRAGMENT_OLD},
		{6, 2, 2, IKE_OPEN_OK});
	/* an SK of the message, or of a later one, ends it */
	RUN({6, 1, 2, IKE_OPEN_INCOMPLETE}, {6, 0, 0, IKE_OPEN_OK}, {6, 2, 2, IKE_OPEN_INCOMPLETE});
	RUN({6, 1, 2, IKE_OPEN_INCOMPLETE}, {5, 0, 0, IKE_OPEN_OK}, {6, 2, 2, IKE_OPEN_OK});
}

static void forged_fragments_change_nothing(void **state)
{
	(void)state;
	RUN({5, 1, 2, IKE_OPEN_INCOMPLETE}, {9, 1, 2, IKE_OPEN_NOT_AUTHENTIC},
		{5, 1, 9, IKE_OPEN_NOT_AUTHENTIC}, {5, 2, 2, IKE_OPEN_NOT_AUTHENTIC},
		{6, 0, 0, IKE_OPEN_NOT_AUTHENTIC}, {5, 2, 2, IKE_OPEN_OK});
}

static void memory_is_bounded(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	uint8_t *text = w_calloc(1, 1000);
	unsigned int taken = 0;

	(void)state;
	for (uint16_t i = IKE_FRAGMENTS_MAX; i > 0; i--) {
		struct ike_packet packet = {.h = &f->h,
			.number = i,
			.total = IKE_FRAGMENTS_MAX,
			.text = view_of(text, 1000)};
		struct ike_opened o = {0};
		struct buf bytes = {0};
		enum ike_open_result result;

		assert_int_equal(ike_seal_packet(f->i, &f->rng, &packet, &bytes), 0);
		result = receive(f, buf_view(&bytes), &o);
		taken += result == IKE_OPEN_INCOMPLETE;
		if (taken * 1000 + 1000 > IKE_REASSEMBLY_MAX && result != IKE_OPEN_INCOMPLETE)
			assert_int_equal(result, IKE_OPEN_FRAGMENT_MEMORY);
		assert_null(o.whole.p);
		buf_free(&bytes);
	}
	assert_int_equal(taken, IKE_REASSEMBLY_MAX / 1000);
	w_free(text);
	fixture_free(f);
}

static void fragments_need_to_be_agreed_on(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	struct ike_packet packet = {.h = &f->h, .number = 1, .total = 1};
	struct ike_opened o = {0};
	struct buf bytes = {0};
	struct ike_msg m;

	(void)state;
	assert_int_equal(ike_seal_packet(f->i, &f->rng, &packet, &bytes), 0);
	assert_int_equal(ike_msg_parse(buf_view(&bytes), &m), IKE_PARSE_OK);
	assert_int_equal(ike_open(f->r, NULL, &m, &o), IKE_OPEN_NOT_ENCRYPTED);
	buf_free(&bytes);
	fixture_free(f);
}

/* ---- Clear payloads in front -------------------------------------------------------- */

/* A message of a clear notify and a chain, as one SK (parts 1) or three SKFs, into part[]. */
static void seal_with_clear(struct fixture *f, unsigned int parts, struct buf part[3])
{
	static const uint8_t chain[] = {0, 0, 0, 9, 'h', 'e', 'l', 'l', 'o'};
	struct ike_payload clear = {.type = IKE_PL_NOTIFY, .body = view_of("\0\0\100\6more", 8)};
	struct cur c = cur_of(chain, sizeof(chain));

	for (unsigned int i = 0; i < parts; i++) {
		struct ike_packet packet = {.h = &f->h,
			.first = i ? IKE_PL_NONE : IKE_PL_VENDOR,
			.clear = &clear,
			.clear_count = i == 0};

		packet.text = parts == 1 ? cur_rest(&c) : cur_take(&c, 3);
		packet.number = parts == 1 ? 0 : (uint16_t)(i + 1);
		packet.total = parts == 1 ? 0 : (uint16_t)parts;
		part[i] = (struct buf){0};
		assert_int_equal(ike_seal_packet(f->i, &f->rng, &packet, &part[i]), 0);
	}
}

static void clear_payloads_are_kept_in_any_order(void **state)
{
	static const unsigned int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0},
		{2, 0, 1}, {2, 1, 0}};
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	struct ike_opened whole = {0};
	struct buf one[3], part[3];
	struct ike_msg m;

	(void)state;
	seal_with_clear(f, 1, one);
	assert_int_equal(receive(f, buf_view(&one[0]), &whole), IKE_OPEN_OK);
	assert_int_equal(ike_opened_parse(&whole, &m), IKE_PARSE_OK);
	assert_int_equal(m.count, 2);
	assert_int_equal(m.payload[0].type, IKE_PL_NOTIFY);
	assert_true(m.payload[0].clear);
	assert_int_equal(m.payload[1].type, IKE_PL_VENDOR);
	assert_false(m.payload[1].clear);
	assert_true(view_equal(m.payload[1].body, view_of("hello", 5)));
	buf_free(&one[0]);
	seal_with_clear(f, 3, part);
	for (unsigned int o = 0; o < 6; o++) {
		struct ike_opened joined = {0};

		for (unsigned int i = 0; i < 3; i++)
			assert_int_equal(receive(f, buf_view(&part[orders[o][i]]), &joined),
				i < 2 ? IKE_OPEN_INCOMPLETE : IKE_OPEN_OK);
		assert_true(view_equal(buf_view(&joined.whole), buf_view(&whole.whole)));
		assert_int_equal(joined.inner_at, whole.inner_at);
		ike_opened_free(&joined);
	}
	for (unsigned int i = 0; i < 3; i++)
		buf_free(&part[i]);
	ike_opened_free(&whole);
	fixture_free(f);
}

static void clear_payloads_go_in_fragment_one_only(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);
	struct ike_payload clear = {.type = IKE_PL_VENDOR, .body = view_of("x", 1)};
	struct ike_packet packet = {.h = &f->h,
		.number = 2,
		.total = 2,
		.clear = &clear,
		.clear_count = 1};
	struct ike_opened o = {0};
	struct buf bytes = {0};

	(void)state;
	assert_int_equal(ike_seal_packet(f->i, &f->rng, &packet, &bytes), 0);
	assert_int_equal(receive(f, buf_view(&bytes), &o), IKE_OPEN_FRAGMENT_CLEAR);
	buf_free(&bytes);
	fixture_free(f);
}

/* ---- Odd encrypted payloads --------------------------------------------------------------------
 */

/* An SK of `n` bytes after its header, whatever they are. */
static enum ike_open_result open_raw(struct fixture *f, size_t n)
{
	uint8_t body[128] = {0};
	struct ike_opened o = {0};
	enum ike_open_result result;
	struct ike_build b;

	ike_build_begin(&b, &f->h);
	ike_build_opaque(&b, IKE_PL_SK, 0, view_of(body, n));
	assert_int_equal(ike_build_finish(&b), 0);
	result = receive(f, buf_view(&b.out), &o);
	ike_build_free(&b);
	return result;
}

static void short_encrypted_payloads_are_refused(void **state)
{
	struct fixture *f = fixture_new(AEAD_AES256_GCM16);

	(void)state;
	for (size_t n = 0; n < 25; n++)
		assert_int_equal(open_raw(f, n), IKE_OPEN_SHORT);
	assert_int_equal(open_raw(f, 25), IKE_OPEN_NOT_AUTHENTIC);
	fixture_free(f);
	f = fixture_new(AEAD_AES128_CBC_SHA256_128);
	for (size_t n = 0; n < 48; n++)
		assert_int_equal(open_raw(f, n), IKE_OPEN_SHORT);
	assert_int_equal(open_raw(f, 48), IKE_OPEN_NOT_AUTHENTIC);
	assert_int_equal(open_raw(f, 49), IKE_OPEN_SHORT);
	fixture_free(f);
}

/* Authentic, but its pad length says more than there is. */
static void pad_length_over_the_start_is_refused(void **state)
{
	uint8_t message[28 + 4 + 8 + 3 + 16] = {0}, key[36] = {0};
	struct ike_keys keys = {.aead = AEAD_AES256_GCM16, .prf = PRF_HMAC_SHA2_256};
	struct ike_protect *p;
	struct ike_opened o = {0};
	struct ike_msg m;
	struct aead *a;
	struct aead_op op = {.aad = view_of(message, 32),
		.iv = message + 32,
		.text = message + 40,
		.text_len = 3,
		.icv = message + 43};

	(void)state;
	message[16] = IKE_PL_SK;
	message[17] = IKE_VERSION;
	put_u32(message + 24, sizeof(message));
	put_u16(message + 30, sizeof(message) - 28);
	assert_int_equal(aead_new(NULL, keys.aead, view_of(key, 36), view_of(NULL, 0), AEAD_BOTH,
				 &a),
		0);
	assert_int_equal(ike_protect_new(&keys, true, &p), 0);
	for (uint8_t pad = 2; pad < 4; pad++) {
		message[40] = message[41] = 0;
		message[42] = pad;
		op.ctx = a;
		assert_int_equal(aead_seal(&op, 1), 1);
		assert_int_equal(ike_msg_parse(view_of(message, sizeof(message)), &m),
			IKE_PARSE_OK);
		assert_int_equal(ike_open(p, NULL, &m, &o),
			pad == 2 ? IKE_OPEN_OK : IKE_OPEN_PADDING);
		ike_opened_free(&o);
	}
	aead_free(a);
	ike_protect_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fragmented_equals_whole),
		cmocka_unit_test(an_empty_message_goes_through),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(ivs_are_what_the_cipher_needs),
		cmocka_unit_test(totals_do_not_mix),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(many_fragments_are_taken),
		cmocka_unit_test(a_new_message_clears_the_old),
		cmocka_unit_test(forged_fragments_change_nothing),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(fragments_need_to_be_agreed_on),
		cmocka_unit_test(clear_payloads_are_kept_in_any_order),
		cmocka_unit_test(clear_payloads_go_in_fragment_one_only),
		cmocka_unit_test(short_encrypted_payloads_are_refused),
		cmocka_unit_test(pad_length_over_the_start_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
