/* ESP, sealed and opened: suites, tampering, trailers, limits, extended numbers, table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "esp/esp.h"

enum { HEAD = 64, ROOM = 2048, SPI = 0x11223344 };

static const uint8_t key[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
static const uint8_t auth[64] = {9, 8, 7};

static struct crypto_backend *backend; /* under test */

static struct tunnel_sa *make_sa(struct esp_sa_config c)
{
	struct tunnel_sa *sa;

	if (c.aead == AEAD_NONE)
		c.aead = AEAD_AES256_GCM16;
	if (c.spi == 0)
		c.spi = SPI;
	c.crypto = backend;
	c.key = key;
	c.auth = auth;
	assert_int_equal(esp_sa_new(&c, &sa), 0);
	return sa;
}

/* The two ends of an SA; what config says holds for both. */
struct pair {
	struct tunnel_sa *out, *in;
};

static struct pair make_pair(struct esp_sa_config c)
{
	struct pair p;

	p.out = make_sa(c);
	c.inbound = true;
	p.in = make_sa(c);
	return p;
}

static void free_pair(struct pair p)
{
	esp_sa_free(p.out);
	esp_sa_free(p.in);
}

struct packet {
	uint8_t bytes[ROOM];
	uint8_t *at; /* the datagram */
	uint32_t len;
};

/* An IPv4 or IPv6 packet of len bytes, by its header; the rest counts up. */
static void write_inner(uint8_t *p, uint32_t len, bool v6)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)i;
	p[0] = v6 ? 0x60 : 0x45;
	put_u16(p + (v6 ? 4 : 2), (uint16_t)(v6 ? len - 40 : len));
}

static void seal_text(const struct pair *s, uint64_t seq, uint8_t next, struct packet *p)
{
	struct tunnel_seal op = {.sa = s->out,
		.seq = seq,
		.text = p->bytes + HEAD,
		.len = p->len,
		.next_header = next};

	esp_ops()->seal_batch(&op, 1);
	assert_int_equal(op.sealed, esp_ops()->sealed_len(s->out, p->len));
	p->at = p->bytes + HEAD - s->out->headroom;
	p->len = op.sealed;
}

static void seal_ip(const struct pair *s, uint64_t seq, uint32_t len, bool v6, struct packet *ret)
{
	write_inner(ret->bytes + HEAD, len, v6);
	ret->len = len;
	seal_text(s, seq, v6 ? 41 : 4, ret);
}

/* Opens a copy, so that a packet can be opened again. */
static enum drop_reason open_copy(struct tunnel_sa *in, const struct packet *p,
	struct tunnel_open *ret, uint8_t copy[static ROOM])
{
	memcpy(copy, p->at, p->len);
	*ret = (struct tunnel_open){.sa = in, .data = copy, .len = p->len, .drop = DROP_NONE};
	esp_ops()->open_batch(ret, 1);
	return ret->drop;
}

static enum drop_reason receive(struct tunnel_sa *in, const struct packet *p)
{
	uint8_t copy[ROOM];
	struct tunnel_open op;

	(void)open_copy(in, p, &op, copy);
	return esp_ops()->accept(&op);
}

static void every_suite_seals_and_opens(void **state)
{
	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		for (int esn = 0; esn < 2; esn++) {
			struct pair s = make_pair(
				(struct esp_sa_config){.aead = (enum aead_id)id, .esn = esn});
			uint64_t seq = 0;

			for (uint32_t len = 40; len < 140; len++) {
				struct packet p;
				struct tunnel_open op;
				uint8_t copy[ROOM], plain[ROOM];
				bool v6 = len & 1;

				assert_int_equal(esp_ops()->reserve(s.out, 1, &seq), TUNNEL_OK);
				seal_ip(&s, seq, len, v6, &p);
				write_inner(plain, len, v6);
				assert_true(p.len <= s.out->headroom + len + s.out->tailroom);
				assert_int_equal(open_copy(s.in, &p, &op, copy), DROP_NONE);
				assert_int_equal(op.seq, seq);
				assert_int_equal(op.next_header, v6 ? 41 : 4);
				assert_int_equal(op.text_len, len);
				assert_memory_equal(op.text, plain, len);
				assert_int_equal(esp_ops()->accept(&op), DROP_NONE);
			}
			assert_int_equal(s.in->packets, 100);
			assert_int_equal(s.in->highest, 100);
			assert_int_equal(s.out->highest, 100);
			free_pair(s);
		}
	}
}

static void sizes_fit_each_other(void **state)
{
	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		struct tunnel_sa *sa = make_sa((struct esp_sa_config){.aead = (enum aead_id)id});
		const struct tunnel_ops *ops = esp_ops();

		assert_int_equal(ops->inner_max(sa, 0), 0);
		assert_int_equal(ops->inner_max(sa, 20), 0);
		for (uint32_t room = 64; room < 1500; room++) {
			uint32_t len = ops->inner_max(sa, room);

			assert_true(ops->sealed_len(sa, len) <= room);
			assert_true(ops->sealed_len(sa, len + 1) > room);
		}
		esp_sa_free(sa);
	}
}

static void any_changed_byte_is_refused(void **state)
{
	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		struct pair s = make_pair((struct esp_sa_config){.aead = (enum aead_id)id});
		struct packet p;

		seal_ip(&s, 7, 60, false, &p);
		for (uint32_t i = 0; i < p.len; i++) {
			p.at[i] ^= 0x10;
			assert_int_equal(receive(s.in, &p), DROP_NOT_AUTHENTIC);
			p.at[i] ^= 0x10;
		}
		for (uint32_t len = p.len; p.len > 0; p.len--) {
			if (p.len != len)
				assert_int_not_equal(receive(s.in, &p), DROP_NONE);
			if (p.len < 8 + 2 + 16)
				assert_int_equal(receive(s.in, &p), DROP_RUNT);
		}
		assert_int_equal(s.in->highest, 0);
		seal_ip(&s, 7, 60, false, &p);
		assert_int_equal(receive(s.in, &p), DROP_NONE);
		free_pair(s);
	}
}

static void wrong_keys_or_spi_do_not_open(void **state)
{
	struct pair s = make_pair((struct esp_sa_config){.esn = true});
	struct pair plain = make_pair((struct esp_sa_config){.esn = false});
	struct packet p;

	(void)state;
	seal_ip(&s, 1, 60, false, &p);
	assert_int_equal(receive(plain.in, &p), DROP_NOT_AUTHENTIC);
	assert_int_equal(receive(s.in, &p), DROP_NONE);
	free_pair(s);
	free_pair(plain);
}

static void old_and_duplicate_are_told_apart(void **state)
{
	struct pair s = make_pair((struct esp_sa_config){.window = 64});
	struct packet p;

	(void)state;
	seal_ip(&s, 100, 60, false, &p);
	assert_int_equal(receive(s.in, &p), DROP_NONE);
	assert_int_equal(receive(s.in, &p), DROP_REPLAY_DUPLICATE);
	seal_ip(&s, 37, 60, false, &p);
	assert_int_equal(receive(s.in, &p), DROP_NONE);
	seal_ip(&s, 36, 60, false, &p);
	assert_int_equal(receive(s.in, &p), DROP_REPLAY_OLD);
	seal_ip(&s, 0, 60, false, &p);
	assert_int_equal(receive(s.in, &p), DROP_REPLAY_OLD);
	free_pair(s);
}

/* Two copies in one batch both pass open, which moves no window; accept lets one through. */
static void copies_in_one_batch(void **state)
{
	struct pair s = make_pair((struct esp_sa_config){.window = 64});
	struct tunnel_open op[2];
	uint8_t copy[2][ROOM];
	struct packet p;

	(void)state;
	seal_ip(&s, 5, 60, false, &p);
	for (int i = 0; i < 2; i++) {
		memcpy(copy[i], p.at, p.len);
		op[i] = (struct tunnel_open){.sa = s.in,
			.data = copy[i],
			.len = p.len,
			.drop = DROP_NONE};
	}
	esp_ops()->open_batch(op, 2);
	assert_int_equal(op[0].drop, DROP_NONE);
	assert_int_equal(op[1].drop, DROP_NONE);
	assert_int_equal(esp_ops()->accept(&op[0]), DROP_NONE);
	assert_int_equal(esp_ops()->accept(&op[1]), DROP_REPLAY_DUPLICATE);
	assert_int_equal(s.in->packets, 1);
	free_pair(s);
}

/* Numbers 2^32 - 2 … 2^32 + 2 in every order, each suite: all are accepted once. */
static void extended_numbers_over_the_wrap(void **state)
{
	enum { N = 5 };
	const uint64_t base = (UINT64_C(1) << 32) - 2;

	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		struct esp_sa_config c = {.aead = (enum aead_id)id, .esn = true, .window = 64};
		struct packet before, p[N];
		struct pair s = make_pair(c);

		seal_ip(&s, base - 1, 60, false, &before);
		for (int i = 0; i < N; i++)
			seal_ip(&s, base + (uint64_t)i, 60, false, &p[i]);
		for (int order = 0; order < 120; order++) {
			int left[N] = {0, 1, 2, 3, 4}, rest = order;

			esp_sa_free(s.in);
			c.inbound = true;
			s.in = make_sa(c);
			assert_int_equal(receive(s.in, &before), DROP_NONE);
			for (int n = N; n > 0; n--) {
				int pick = rest % n, which = left[pick];

				rest /= n;
				left[pick] = left[n - 1];
				assert_int_equal(receive(s.in, &p[which]), DROP_NONE);
				assert_int_equal(receive(s.in, &p[which]), DROP_REPLAY_DUPLICATE);
			}
			assert_int_equal(s.in->highest, base + N - 1);
		}
		free_pair(s);
	}
}

static void wrong_high_half_fails_and_moves_nothing(void **state)
{
	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		struct pair s = make_pair((struct esp_sa_config){.aead = (enum aead_id)id,
			.esn = true,
			.window = 1024});
		struct packet p;

		seal_ip(&s, 5000, 60, false, &p);
		assert_int_equal(receive(s.in, &p), DROP_NONE);
		/* The receiver takes its low half for 5001; the sender means another. */
		seal_ip(&s, (UINT64_C(1) << 32) + 5001, 60, false, &p);
		assert_int_equal(receive(s.in, &p), DROP_NOT_AUTHENTIC);
		assert_int_equal(s.in->highest, 5000);
		/* Left of the window is taken for the next subspace: fails, too. */
		seal_ip(&s, 5000 - 1024, 60, false, &p);
		assert_int_equal(receive(s.in, &p), DROP_NOT_AUTHENTIC);
		assert_int_equal(s.in->highest, 5000);
		seal_ip(&s, 5001, 60, false, &p);
		assert_int_equal(receive(s.in, &p), DROP_NONE);
		/* A jump of 2^31 is right of the window. */
		seal_ip(&s, 5001 + (UINT64_C(1) << 31), 60, false, &p);
		assert_int_equal(receive(s.in, &p), DROP_NONE);
		free_pair(s);
	}
}

/* From 2^32 - 1000 without ESN. No number is used twice, none after the last. */
static void numbers_end_without_wrap(void **state)
{
	const uint64_t first = (UINT64_C(1) << 32) - 1000;
	struct tunnel_sa *sa = make_sa((struct esp_sa_config){.first_seq = first});
	uint64_t seq = 0, taken = 0, expect = first;

	(void)state;
	assert_int_equal(esp_ops()->reserve(sa, 1001, &seq), TUNNEL_HARD);
	while (esp_ops()->reserve(sa, 3, &seq) == TUNNEL_SOFT) {
		assert_int_equal(seq, expect);
		expect += 3;
		taken += 3;
	}
	assert_int_equal(taken, 999);
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_SOFT);
	assert_int_equal(seq, UINT32_MAX);
	for (int i = 0; i < 3; i++)
		assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_HARD);
	assert_int_equal(seq, UINT32_MAX);
	assert_int_equal(sa->highest, UINT32_MAX);
	assert_int_equal(sa->packets, 1000);
	esp_sa_free(sa);
}

static void soft_limit_is_told(void **state)
{
	struct tunnel_sa *sa = make_sa((struct esp_sa_config){.soft_limit = 10});
	uint64_t seq;

	(void)state;
	assert_int_equal(esp_ops()->reserve(sa, 9, &seq), TUNNEL_OK);
	assert_int_equal(seq, 1);
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_SOFT);
	assert_int_equal(seq, 10);
	esp_sa_free(sa);
	sa = make_sa((struct esp_sa_config){.first_seq = (UINT64_C(3) << 30) - 1});
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_OK);
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_SOFT);
	esp_sa_free(sa);
	sa = make_sa((struct esp_sa_config){.esn = true, .first_seq = UINT32_MAX});
	assert_int_equal(esp_ops()->reserve(sa, 2, &seq), TUNNEL_OK);
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_OK);
	assert_int_equal(seq, (UINT64_C(1) << 32) + 1);
	esp_sa_free(sa);
	sa = make_sa((struct esp_sa_config){.esn = true, .first_seq = UINT64_MAX});
	assert_int_equal(esp_ops()->reserve(sa, 2, &seq), TUNNEL_HARD);
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_SOFT);
	assert_int_equal(esp_ops()->reserve(sa, 1, &seq), TUNNEL_HARD);
	esp_sa_free(sa);
}

/* AES-CBC: no two IVs alike, none to be foretold from the number. */
static void cbc_ivs_differ(void **state)
{
	struct pair s = make_pair((struct esp_sa_config){.aead = AEAD_AES256_CBC_SHA256_128});
	uint8_t iv[64][16];

	(void)state;
	for (uint32_t i = 0; i < 64; i++) {
		struct packet p;

		seal_ip(&s, i + 1, 60, false, &p);
		memcpy(iv[i], p.at + 8, 16);
		for (uint32_t k = 0; k < i; k++)
			assert_memory_not_equal(iv[i], iv[k], 8);
	}
	free_pair(s);
}

/* Opens a packet whose text, trailer included, is as given: what a sender with the keys could
 * write. */
static enum drop_reason open_raw(const uint8_t *text, uint32_t len, struct tunnel_open *ret,
	uint8_t data[static ROOM])
{
	struct tunnel_sa *in = make_sa((struct esp_sa_config){.inbound = true});
	struct aead_op op = {.text = data + 16,
		.text_len = len,
		.aad = view_of(data, 8),
		.iv = data + 8,
		.icv = data + 16 + len};
	enum drop_reason r;

	assert_int_equal(aead_new(NULL, AEAD_AES256_GCM16, view_of(key, 36), (struct view){0},
				 AEAD_BOTH, &op.ctx),
		0);
	put_u32(data, SPI);
	put_u32(data + 4, 1);
	put_u64(data + 8, 0x0123456789abcdef);
	memcpy(data + 16, text, len);
	assert_int_equal(aead_seal(&op, 1), 1);
	aead_free(op.ctx);
	*ret = (struct tunnel_open){.sa = in,
		.data = data,
		.len = 16 + len + 16,
		.drop = DROP_NONE};
	esp_ops()->open_batch(ret, 1);
	r = esp_ops()->accept(ret);
	/* Authentic is authentic: the window has moved, whatever was inside. */
	assert_int_equal(in->highest, 1);
	assert_int_equal(in->packets, r == DROP_NONE);
	esp_sa_free(in);
	ret->sa = NULL;
	return r;
}

static void trailers_are_checked(void **state)
{
	uint8_t text[400], data[ROOM];
	struct tunnel_open op;

	(void)state;
	/* 20 bytes of IPv4, padding 1 2, pad length, next header */
	write_inner(text, 20, false);
	memcpy(text + 20, (uint8_t[]){1, 2, 2, 4}, 4);
	assert_int_equal(open_raw(text, 24, &op, data), DROP_NONE);
	assert_int_equal(op.text_len, 20);
	text[21] = 3;
	assert_int_equal(open_raw(text, 24, &op, data), DROP_BAD_PADDING);
	memcpy(text + 20, (uint8_t[]){1, 2, 23, 4}, 4);
	assert_int_equal(open_raw(text, 24, &op, data), DROP_BAD_PADDING);
	memcpy(text + 20, (uint8_t[]){1, 2, 255, 4}, 4);
	assert_int_equal(open_raw(text, 24, &op, data), DROP_BAD_PADDING);
	memcpy(text + 20, (uint8_t[]){1, 2, 2, 6}, 4);
	assert_int_equal(open_raw(text, 24, &op, data), DROP_BAD_NEXT_HEADER);
	memcpy(text + 20, (uint8_t[]){1, 2, 2, 41}, 4);
	assert_int_equal(open_raw(text, 24, &op, data), DROP_BAD_IP); /* IPv4 in "IPv6" */
	memcpy(text + 20, (uint8_t[]){9, 9, 77, 59}, 4);
	assert_int_equal(open_raw(text, 24, &op, data), DROP_DUMMY);
	/* as much padding as there can be */
	write_inner(text, 20, false);
	for (int i = 0; i < 255; i++)
		text[20 + i] = (uint8_t)(i + 1);
	memcpy(text + 275, (uint8_t[]){255, 4}, 2);
	assert_int_equal(open_raw(text, 277, &op, data), DROP_NONE);
	assert_int_equal(op.text_len, 20);
	/* an inner packet shorter than its header */
	put_u16(text + 2, 19);
	assert_int_equal(open_raw(text, 277, &op, data), DROP_BAD_IP);
	/* nothing but a trailer */
	assert_int_equal(open_raw((const uint8_t[]){0, 4}, 2, &op, data), DROP_BAD_IP);
	assert_int_equal(open_raw((const uint8_t[]){0, 59}, 2, &op, data), DROP_DUMMY);
}

static void tfc_padding_is_cut(void **state)
{
	struct pair s = make_pair((struct esp_sa_config){0});
	struct tunnel_open op;
	uint8_t copy[ROOM];
	struct packet p;

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		memset(p.bytes, 0xee, sizeof(p.bytes));
		write_inner(p.bytes + HEAD, 60, v6);
		p.len = 1000;
		seal_text(&s, 1, v6 ? 41 : 4, &p);
		assert_int_equal(open_copy(s.in, &p, &op, copy), DROP_NONE);
		assert_int_equal(op.text_len, 60);
	}
	/* An inner packet that says it is longer than what came. */
	write_inner(p.bytes + HEAD, 61, false);
	p.len = 60;
	seal_text(&s, 1, 4, &p);
	assert_int_equal(open_copy(s.in, &p, &op, copy), DROP_BAD_IP);
	free_pair(s);
}

static void dummies_move_the_window(void **state)
{
	struct pair s = make_pair((struct esp_sa_config){0});
	struct packet p;

	(void)state;
	memset(p.bytes, 0, sizeof(p.bytes));
	p.len = 0;
	seal_text(&s, 3, 59, &p);
	assert_int_equal(receive(s.in, &p), DROP_DUMMY);
	assert_int_equal(receive(s.in, &p), DROP_REPLAY_DUPLICATE);
	assert_int_equal(s.in->highest, 3);
	assert_int_equal(s.in->packets, 0);
	free_pair(s);
}

/* Several SAs at once, more operations than one call to the crypto room takes, some dropped before.
 */
static void large_mixed_batches(void **state)
{
	enum { N = 150 };
	static struct packet p[N];
	static struct tunnel_seal seal[N];
	static struct tunnel_open open[N];
	struct pair s[AEAD_COUNT - 1];
	struct esp_table *t;

	(void)state;
	assert_int_equal(esp_table_new(8, &t), 0);
	for (uint32_t i = 0; i < AEAD_COUNT - 1; i++) {
		s[i] = make_pair((struct esp_sa_config){.aead = (enum aead_id)(i + 1),
			.spi = SPI + i,
			.esn = i & 1});
		assert_int_equal(esp_ops()->add(t, s[i].in), 0);
	}
	for (uint32_t i = 0; i < N; i++) {
		struct pair *of = &s[i % (AEAD_COUNT - 1)];

		write_inner(p[i].bytes + HEAD, 40 + i, i & 1);
		seal[i] = (struct tunnel_seal){.sa = of->out,
			.seq = i + 1,
			.text = p[i].bytes + HEAD,
			.len = 40 + i,
			.next_header = i & 1 ? 41 : 4};
	}
	esp_ops()->seal_batch(seal, N);
	for (uint32_t i = 0; i < N; i++) {
		open[i] = (struct tunnel_open){.data = seal[i].text - seal[i].sa->headroom,
			.len = seal[i].sealed};
		if (i % 50 == 7)
			open[i].data[2] ^= 1;
		esp_ops()->demux(t, &open[i]);
	}
	esp_ops()->open_batch(open, N);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(esp_ops()->accept(&open[i]),
			i % 50 == 7 ? DROP_UNKNOWN_SPI : DROP_NONE);
		if (i % 50 != 7)
			assert_int_equal(open[i].text_len, 40 + i);
	}
	for (uint32_t i = 0; i < AEAD_COUNT - 1; i++)
		free_pair(s[i]);
	esp_table_free(t);
}

/* Whichever lane works, the result is the same; what the SA's thread checked, another lane opens
 * without a look at the window. */
static void lanes_do_the_same(void **state)
{
	enum { LANES = 3, LEN = 300 };

	(void)state;
	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		struct pair s = make_pair((struct esp_sa_config){.aead = (enum aead_id)id,
			.esn = true,
			.lanes = LANES});
		struct packet p[LANES];
		struct tunnel_open op[LANES];

		for (uint8_t i = 0; i < LANES; i++) {
			struct tunnel_seal seal = {.sa = s.out,
				.seq = 7,
				.text = p[i].bytes + HEAD,
				.len = LEN,
				.next_header = 4,
				.lane = i};

			write_inner(seal.text, LEN, false);
			esp_ops()->seal_batch(&seal, 1);
			p[i].at = seal.text - s.out->headroom;
			p[i].len = seal.sealed;
			assert_int_equal(p[i].len, p[0].len);
			assert_memory_equal(p[i].at, p[0].at, p[0].len);
			op[i] = (struct tunnel_open){.sa = s.in,
				.data = p[i].at,
				.len = p[i].len,
				.lane = i,
				.drop = DROP_NONE};
		}
		/* All three are new to the window until the first of them moves it. */
		esp_ops()->check(op, LANES);
		for (uint8_t i = 0; i < LANES; i++) {
			assert_int_equal(op[i].drop, DROP_NONE);
			assert_int_equal(op[i].seq, 7);
		}
		assert_int_equal(receive(s.in, &p[0]), DROP_NONE);
		esp_ops()->open_batch(op, LANES);
		for (uint8_t i = 0; i < LANES; i++) {
			assert_int_equal(op[i].drop, DROP_NONE);
			assert_int_equal(op[i].text_len, LEN);
			assert_int_equal(esp_ops()->accept(&op[i]), DROP_REPLAY_DUPLICATE);
		}
		free_pair(s);
	}
}

static enum drop_reason demux_spi(struct esp_table *t, uint32_t spi, struct tunnel_sa **ret)
{
	uint8_t data[8] = {0};
	struct tunnel_open op = {.data = data, .len = sizeof(data)};

	put_u32(data, spi);
	esp_ops()->demux(t, &op);
	*ret = op.sa;
	return op.drop;
}

/* Adding, finding and removing, against what a plain array says. */
static void table_finds_what_it_holds(void **state)
{
	enum { N = 64, SPIS = 200 };
	struct tunnel_sa *sa[SPIS], *got;
	bool in[SPIS] = {false};
	uint32_t held = 0, draw = 1;
	struct esp_table *t;

	(void)state;
	assert_int_equal(esp_table_new(0, &t), -EINVAL);
	assert_int_equal(esp_table_new(N, &t), 0);
	for (uint32_t i = 0; i < SPIS; i++)
		sa[i] = make_sa((struct esp_sa_config){.inbound = true,
			.spi = 256 + i * 1024,
			.window = 64});
	for (uint32_t step = 0; step < 20000; step++) {
		draw = draw * 1664525 + 1013904223;
		uint32_t i = (draw >> 8) % SPIS;

		if (in[i]) {
			assert_int_equal(esp_ops()->add(t, sa[i]), -EEXIST);
			esp_ops()->remove(t, sa[i]);
		} else {
			assert_int_equal(esp_ops()->add(t, sa[i]), held < N ? 0 : -ENOSPC);
			if (held == N)
				continue;
		}
		held += in[i] ? -1u : 1u;
		in[i] = !in[i];
		for (uint32_t k = 0; k < SPIS && step % 64 == 0; k++) {
			assert_int_equal(demux_spi(t, 256 + k * 1024, &got),
				in[k] ? DROP_NONE : DROP_UNKNOWN_SPI);
			assert_ptr_equal(got, in[k] ? sa[k] : NULL);
		}
	}
	assert_int_equal(demux_spi(t, 0, &got), DROP_UNKNOWN_SPI);
	assert_int_equal(demux_spi(t, 77, &got), DROP_UNKNOWN_SPI);
	for (uint32_t i = 0; i < SPIS; i++)
		esp_sa_free(sa[i]);
	esp_table_free(t);
}

static void configurations_are_checked(void **state)
{
	struct esp_sa_config c = {.spi = SPI, .aead = AEAD_AES128_CBC_SHA256_128, .key = key};
	struct tunnel_sa *sa = NULL;
	struct esp_table *t;
	uint8_t few[7] = {0};
	struct tunnel_open op = {.data = few, .len = sizeof(few)};

	(void)state;
	assert_int_equal(esp_sa_new(&c, &sa), -EINVAL); /* no integrity key */
	c.auth = auth;
	c.spi = 0;
	assert_int_equal(esp_sa_new(&c, &sa), -EINVAL);
	c.spi = SPI;
	c.first_seq = UINT64_C(1) << 32;
	assert_int_equal(esp_sa_new(&c, &sa), -EINVAL); /* not without ESN */
	c.first_seq = 0;
	c.aead = AEAD_COUNT;
	assert_int_equal(esp_sa_new(&c, &sa), -EINVAL);
	assert_null(sa);
	esp_sa_free(NULL);
	esp_table_free(NULL);
	assert_int_equal(esp_table_new(1, &t), 0);
	sa = make_sa((struct esp_sa_config){0});
	assert_int_equal(esp_ops()->add(t, sa), -EINVAL); /* outbound */
	esp_ops()->remove(t, sa);
	esp_ops()->demux(t, &op);
	assert_int_equal(op.drop, DROP_RUNT);
	esp_sa_free(sa);
	esp_table_free(t);
}

/* Every test with every back end that is here. */
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_suite_seals_and_opens),
		cmocka_unit_test(sizes_fit_each_other),
		cmocka_unit_test(any_changed_byte_is_refused),
		cmocka_unit_test(wrong_keys_or_spi_do_not_open),
		cmocka_unit_test(old_and_duplicate_are_told_apart),
		cmocka_unit_test(copies_in_one_batch),
		cmocka_unit_test(extended_numbers_over_the_wrap),
		cmocka_unit_test(wrong_high_half_fails_and_moves_nothing),
		cmocka_unit_test(numbers_end_without_wrap),
		cmocka_unit_test(soft_limit_is_told),
		cmocka_unit_test(cbc_ivs_differ),
		cmocka_unit_test(trailers_are_checked),
		cmocka_unit_test(tfc_padding_is_cut),
		cmocka_unit_test(dummies_move_the_window),
		cmocka_unit_test(large_mixed_batches),
		cmocka_unit_test(lanes_do_the_same),
		cmocka_unit_test(table_finds_what_it_holds),
		cmocka_unit_test(configurations_are_checked),
	};

	int failed = 0;

	for (int id = 0; id < CRYPTO_BACKEND_COUNT; id++) {
		if (crypto_backend_new((enum crypto_backend_id)id, &backend) < 0)
			continue;
		print_message("%s\n", crypto_backend_text(backend));
		failed += cmocka_run_group_tests(tests, NULL, NULL);
		crypto_backend_free(backend);
	}
	return failed;
}
