/* The parser against hostile payloads, and the builder against the parser. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "ike/codec_priv.h"
#include "ike/payload_priv.h"

/* Hex with spaces into bytes; returns the number. */
static size_t from_hex(const char *s, uint8_t *out)
{
	size_t n = 0;

	for (; *s; s++) {
		char digits[3] = {s[0], s[1], 0};

		if (*s == ' ')
			continue;
		out[n++] = (uint8_t)strtoul(digits, NULL, 16);
		s++;
	}
	return n;
}

static const struct ike_header header = {.spi_i = 0x0102030405060708,
	.spi_r = 9,
	.version = IKE_VERSION,
	.exchange = IKE_SA_INIT,
	.flags = IKE_FLAG_INITIATOR,
	.mid = 3};

/* Parses a message of one payload, in a block of just its size. */
static enum ike_parse_error parse_one(uint8_t type, uint8_t flags, struct view body)
{
	struct ike_build b;
	enum ike_parse_error e;
	uint8_t *exact;
	struct ike_msg m;

	ike_build_begin(&b, &header);
	ike_build_opaque(&b, type, flags, body);
	assert_int_equal(ike_build_finish(&b), 0);
	exact = w_memdup(b.out.p, b.out.n);
	e = ike_msg_parse(view_of(exact, b.out.n), &m);
	if (e)
		assert_int_equal(m.bad_type, type);
	w_free(exact);
	ike_build_free(&b);
	return e;
}

static void bodies_are_checked(void **state)
{
	static const struct {
		uint8_t type;
		const char *body;
		enum ike_parse_error want;
	} rows[] = {
		/* SA: one proposal, one transform with a key length */
		{IKE_PL_SA, "00000014 01010001 0000000c 01000014 800e0100", IKE_PARSE_OK},
		{IKE_PL_SA, "00000008 01010000", IKE_PARSE_OK},
		{IKE_PL_SA, "", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010001 0000000c 01000014 800e01", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000013 01010001 0000000c 01000014 800e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010002 0000000c 01000014 800e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010000 0000000c 01000014 800e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "02000014 01010001 0000000c 01000014 800e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010001 0300000c 01000014 800e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010001 00000007 01000014 800e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010001 0000000c 01000014 000e0100", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000014 01010001 0000000c 01000014 000e0000", IKE_PARSE_OK},
		{IKE_PL_SA, "00000014 01010001 0000000c 01000014 800e01000000", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000008 0101ff00", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "00000000 01010000", IKE_PARSE_BAD_SA},
		{IKE_PL_SA, "0000ffff 01010000", IKE_PARSE_BAD_SA},
		/* KE */
		{IKE_PL_KE, "001f0000 aa", IKE_PARSE_OK},
		{IKE_PL_KE, "001f0000", IKE_PARSE_BAD_KE},
		{IKE_PL_KE, "001f", IKE_PARSE_BAD_KE},
		/* ID, AUTH, certificates */
		{IKE_PL_IDI, "09000000 30", IKE_PARSE_OK},
		{IKE_PL_IDR, "090000", IKE_PARSE_BAD_ID},
		{IKE_PL_AUTH, "0e000000", IKE_PARSE_OK},
		{IKE_PL_AUTH, "0e0000", IKE_PARSE_BAD_AUTH},
		{IKE_PL_CERT, "", IKE_PARSE_BAD_CERT},
		{IKE_PL_CERTREQ, "", IKE_PARSE_BAD_CERT},
		/* nonce: 16 to 256 bytes */
		{IKE_PL_NONCE, "000102030405060708090a0b0c0d0e", IKE_PARSE_BAD_NONCE},
		{IKE_PL_NONCE, "000102030405060708090a0b0c0d0e0f", IKE_PARSE_OK},
		/* notify */
		{IKE_PL_NOTIFY, "00004000", IKE_PARSE_OK},
		{IKE_PL_NOTIFY, "000040", IKE_PARSE_BAD_NOTIFY},
		{IKE_PL_NOTIFY, "03044009 0a0b0c0d", IKE_PARSE_OK},
		{IKE_PL_NOTIFY, "03044009 0a0b0c", IKE_PARSE_BAD_NOTIFY},
		{IKE_PL_NOTIFY, "03ff4009 0a0b0c0d", IKE_PARSE_BAD_NOTIFY},
		/* delete */
		{IKE_PL_DELETE, "01000000", IKE_PARSE_OK},
		{IKE_PL_DELETE, "03040001 0a0b0c0d", IKE_PARSE_OK},
		{IKE_PL_DELETE, "03040000", IKE_PARSE_OK},
		{IKE_PL_DELETE, "03040002 0a0b0c0d", IKE_PARSE_BAD_DELETE},
		{IKE_PL_DELETE, "03040001 0a0b0c0d 00", IKE_PARSE_BAD_DELETE},
		{IKE_PL_DELETE, "03020002 0a0b0c0d", IKE_PARSE_BAD_DELETE},
		{IKE_PL_DELETE, "01080001 0102030405060708", IKE_PARSE_BAD_DELETE},
		{IKE_PL_DELETE, "03ffffff", IKE_PARSE_BAD_DELETE},
		/* traffic selectors */
		{IKE_PL_TSI, "01000000 07000010 0000ffff 00000000 ffffffff", IKE_PARSE_OK},
		{IKE_PL_TSI, "01000000 07000010 0000ffff 00000000 ffffff", IKE_PARSE_BAD_TS},
		{IKE_PL_TSI, "02000000 07000010 0000ffff 00000000 ffffffff", IKE_PARSE_BAD_TS},
		{IKE_PL_TSI, "00000000", IKE_PARSE_BAD_TS},
		{IKE_PL_TSR, "01000000 08000010 0000ffff 00000000 ffffffff", IKE_PARSE_BAD_TS},
		{IKE_PL_TSR, "01000000 09000008 0000ffff", IKE_PARSE_OK},
		{IKE_PL_TSR, "01000000 09000007 0000ffff", IKE_PARSE_BAD_TS},
		{IKE_PL_TSR, "01000000 07000010 0000ffff 00000000 ffffffff 00", IKE_PARSE_BAD_TS},
		/* configuration, EAP */
		{IKE_PL_CP, "01000000 00010004 0a000001", IKE_PARSE_OK},
		{IKE_PL_CP, "01000000 00010005 0a000001", IKE_PARSE_BAD_CP},
		{IKE_PL_CP, "01000000 000100", IKE_PARSE_BAD_CP},
		{IKE_PL_EAP, "01000005 01", IKE_PARSE_OK},
		{IKE_PL_EAP, "01000006 01", IKE_PARSE_BAD_EAP},
		{IKE_PL_SKF, "000100", IKE_PARSE_BAD_SK},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t body[512];
		size_t n = from_hex(rows[i].body, body);

		if (parse_one(rows[i].type, 0, view_of(body, n)) != rows[i].want)
			fail_msg("row %zu, %s %s: not %s", i, ike_payload_name(rows[i].type),
				rows[i].body, ike_parse_text(rows[i].want));
	}
}

static void nonce_of_257_bytes_is_refused(void **state)
{
	uint8_t nonce[IKE_NONCE_MAX + 1] = {0};

	(void)state;
	assert_int_equal(parse_one(IKE_PL_NONCE, 0, view_of(nonce, IKE_NONCE_MAX)), IKE_PARSE_OK);
	assert_int_equal(parse_one(IKE_PL_NONCE, 0, view_of(nonce, sizeof(nonce))),
		IKE_PARSE_BAD_NONCE);
}

static void more_proposals_than_numbers_are_refused(void **state)
{
	uint8_t body[8 * 256] = {0};

	(void)state;
	for (size_t n = 128; n <= 256; n += 128) {
		for (size_t i = 0; i < n; i++)
			from_hex(i + 1 < n ? "0200000801010000" : "0000000801010000", body + 8 * i);
		assert_int_equal(parse_one(IKE_PL_SA, 0, view_of(body, 8 * n)),
			n < 256 ? IKE_PARSE_OK : IKE_PARSE_BAD_SA);
	}
	from_hex("0000000801010000", body + 8 * 254);
	assert_int_equal(parse_one(IKE_PL_SA, 0, view_of(body, 8 * 255)), IKE_PARSE_OK);
}

/* RFC 7296 2.5 */
static void unknown_payloads_are_skipped_unless_critical(void **state)
{
	(void)state;
	assert_int_equal(parse_one(200, 0, view_of("x", 1)), IKE_PARSE_OK);
	assert_int_equal(parse_one(200, 0x7f, view_of("x", 1)), IKE_PARSE_OK);
	assert_int_equal(parse_one(200, 0x80, view_of("x", 1)), IKE_PARSE_CRITICAL);
	assert_int_equal(parse_one(1, 0x80, view_of("x", 1)), IKE_PARSE_CRITICAL);
	/* the bit on a known payload says nothing */
	assert_int_equal(parse_one(IKE_PL_VENDOR, 0x80, view_of("x", 1)), IKE_PARSE_OK);
}

static void only_some_payloads_may_repeat(void **state)
{
	size_t n;
	const struct ike_payload_row *rows = ike_payload_rows(&n);
	static const uint8_t sa[] = {0, 0, 0, 8, 1, 1, 0, 0};
	static const uint8_t ts[] = {1, 0, 0, 0, 9, 0, 0, 8, 0, 0, 0, 0};
	static const uint8_t other[16] = {0, 0, 0, 16};

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct view body = view_of(other, sizeof(other));
		struct ike_build b;
		struct ike_msg m;

		if (rows[i].type == IKE_PL_SA)
			body = view_of(sa, sizeof(sa));
		else if (rows[i].type == IKE_PL_TSI || rows[i].type == IKE_PL_TSR)
			body = view_of(ts, sizeof(ts));
		else if (rows[i].type == IKE_PL_DELETE || rows[i].type == IKE_PL_CP)
			body.n = 4;
		if (rows[i].type == IKE_PL_DELETE)
			body = view_of("\1\0\0", 4);
		ike_build_begin_inner(&b);
		ike_build_opaque(&b, rows[i].type, 0, body);
		ike_build_opaque(&b, rows[i].type, 0, body);
		assert_int_equal(ike_build_finish(&b), 0);
		assert_int_equal(ike_inner_parse(b.first, buf_view(&b.out), &m),
			rows[i].once ? IKE_PARSE_DUPLICATE : IKE_PARSE_OK);
		ike_build_free(&b);
	}
}

static void chains_are_checked(void **state)
{
	uint8_t many[4 * (IKE_PAYLOADS_MAX + 1)];
	struct ike_msg m;
	uint8_t bytes[64];
	size_t n;

	(void)state;
	/* payload length under 4, over the end, bytes after the last, cut header */
	n = from_hex("00000003", bytes);
	assert_int_equal(ike_inner_parse(43, view_of(bytes, n), &m), IKE_PARSE_CHAIN);
	n = from_hex("00000005", bytes);
	assert_int_equal(ike_inner_parse(43, view_of(bytes, n), &m), IKE_PARSE_CHAIN);
	n = from_hex("00000004 00", bytes);
	assert_int_equal(ike_inner_parse(43, view_of(bytes, n), &m), IKE_PARSE_TRAILING);
	n = from_hex("2b000004 000000", bytes);
	assert_int_equal(ike_inner_parse(43, view_of(bytes, n), &m), IKE_PARSE_CHAIN);
	assert_int_equal(ike_inner_parse(0, view_of(bytes, 1), &m), IKE_PARSE_TRAILING);
	assert_int_equal(ike_inner_parse(0, view_of(NULL, 0), &m), IKE_PARSE_OK);
	/* no encrypted payload within one */
	n = from_hex("00000008 00000000", bytes);
	assert_int_equal(ike_inner_parse(IKE_PL_SK, view_of(bytes, n), &m), IKE_PARSE_MISPLACED);
	assert_int_equal(ike_inner_parse(IKE_PL_SKF, view_of(bytes, n), &m), IKE_PARSE_MISPLACED);
	/* one payload too many */
	for (size_t i = 0; i < sizeof(many); i += 4)
		from_hex(i + 4 < sizeof(many) ? "2b000004" : "00000004", many + i);
	assert_int_equal(ike_inner_parse(43, view_of(many, sizeof(many)), &m), IKE_PARSE_TOO_MANY);
	assert_int_equal(ike_inner_parse(43, view_of(many + 4, sizeof(many) - 4), &m),
		IKE_PARSE_OK);
	assert_int_equal(m.count, IKE_PAYLOADS_MAX);
}

static void headers_are_checked(void **state)
{
	struct ike_build b;
	struct ike_header h;
	struct ike_msg m;
	struct view all;

	(void)state;
	ike_build_begin(&b, &header);
	ike_build_opaque(&b, IKE_PL_SK, 0, view_of("12345678", 8));
	assert_int_equal(ike_build_finish(&b), 0);
	all = buf_view(&b.out);
	assert_int_equal(ike_msg_parse(all, &m), IKE_PARSE_OK);
	assert_int_equal(m.h.spi_i, header.spi_i);
	assert_int_equal(m.h.spi_r, header.spi_r);
	assert_int_equal(m.h.mid, header.mid);
	assert_int_equal(m.h.length, all.n);
	assert_int_equal(m.enc.type, IKE_PL_SK);
	assert_int_equal(m.enc.rest.n, 8);
	assert_int_equal(m.enc.aad.n, 32);
	assert_int_equal(ike_header_parse(view_of(all.p, 27), &h), IKE_PARSE_TRUNCATED);
	assert_int_equal(ike_header_parse(view_of(all.p, 28), &h), IKE_PARSE_OK);
	b.out.p[17] = 0x2f;
	assert_int_equal(ike_msg_parse(all, &m), IKE_PARSE_OK);
	b.out.p[17] = 0x30;
	assert_int_equal(ike_msg_parse(all, &m), IKE_PARSE_VERSION);
	assert_int_equal(m.h.mid, header.mid); /* for the reply */
	b.out.p[17] = 0x20;
	b.out.p[27]++;
	assert_int_equal(ike_msg_parse(all, &m), IKE_PARSE_TRUNCATED);
	b.out.p[27] -= 2;
	assert_int_equal(ike_msg_parse(all, &m), IKE_PARSE_LENGTH);
	/* something after the encrypted payload */
	ike_build_free(&b);
	ike_build_begin(&b, &header);
	ike_build_opaque(&b, IKE_PL_SK, 0, view_of("12345678", 8));
	ike_build_opaque(&b, IKE_PL_VENDOR, 0, view_of("1", 1));
	assert_int_equal(ike_build_finish(&b), 0);
	assert_int_equal(ike_msg_parse(buf_view(&b.out), &m), IKE_PARSE_TRAILING);
	ike_build_free(&b);
}

/* Everything that can be built is read as it was said. */
static void built_payloads_are_read_back(void **state)
{
	const uint32_t spis[] = {0x01020304, 0xfffefdfc};
	struct ike_notify n = {.protocol = IKE_PROTO_ESP,
				  .type = IKE_N_REKEY_SA,
				  .spi = view_of("\1\2\3\4", 4)},
			  got;
	struct ike_id id = {IKE_ID_DER_ASN1_DN, view_of("dn", 2)};
	struct ike_auth auth = {IKE_AUTH_SIGNATURE, view_of("sig", 3)};
	struct ike_transform t;
	struct ike_proposal p;
	struct ike_delete d;
	struct ike_build b;
	struct ike_msg m;
	struct ike_ts ts;
	struct cur c;

	(void)state;
	ike_build_begin_inner(&b);
	ike_build_id(&b, IKE_PL_IDI, &id);
	ike_build_auth(&b, &auth);
	ike_build_notify(&b, &n);
	ike_build_status(&b, IKE_N_COOKIE, view_of("cookie", 6));
	ike_build_status(&b, IKE_N_NO_PROPOSAL_CHOSEN, view_of(NULL, 0));
	ike_build_sa_open(&b);
	ike_build_proposal(&b, 1, IKE_PROTO_ESP, view_of("\1\2\3\4", 4));
	ike_build_transform(&b, IKE_T_ENCR, IKE_ENCR_AES_GCM_16, 256);
	ike_build_transform(&b, IKE_T_ESN, IKE_ESN_NO, 0);
	ike_build_proposal(&b, 2, IKE_PROTO_ESP, view_of("\1\2\3\4", 4));
	ike_build_transform(&b, IKE_T_ENCR, IKE_ENCR_CHACHA20_POLY1305, 0);
	ike_build_close(&b);
	ike_build_ke(&b, 31, view_of("public", 6));
	ike_build_nonce(&b, view_of("0123456789abcdef", 16));
	ike_build_ts_any(&b, IKE_PL_TSI);
	ike_build_ts_any(&b, IKE_PL_TSR);
	ike_build_delete(&b, spis, 2);
	ike_build_delete(&b, NULL, 0);
	assert_int_equal(ike_build_finish(&b), 0);
	assert_int_equal(ike_inner_parse(b.first, buf_view(&b.out), &m), IKE_PARSE_OK);
	assert_int_equal(m.count, 12);
	assert_true(view_equal(ike_id_read(m.payload[0].body).data, id.data));
	assert_true(view_equal(ike_auth_read(m.payload[1].body).data, auth.data));
	assert_true(ike_msg_notify(&m, IKE_N_REKEY_SA, &got));
	assert_true(view_equal(got.spi, n.spi));
	assert_true(ike_msg_notify(&m, IKE_N_COOKIE, &got));
	assert_true(view_equal(got.data, view_of("cookie", 6)));
	assert_true(ike_msg_error(&m, &got));
	assert_int_equal(got.type, IKE_N_NO_PROPOSAL_CHOSEN);
	assert_false(ike_msg_notify(&m, IKE_N_INITIAL_CONTACT, &got));
	c = cur_view(ike_msg_find(&m, IKE_PL_SA)->body);
	assert_true(ike_proposal_next(&c, &p));
	assert_int_equal(p.count, 2);
	assert_true(ike_proposal_next(&c, &p));
	assert_int_equal(p.number, 2);
	assert_false(ike_proposal_next(&c, &p));
	c = cur_view(p.transforms);
	assert_true(ike_transform_next(&c, &t));
	assert_int_equal(t.id, IKE_ENCR_CHACHA20_POLY1305);
	assert_false(ike_transform_next(&c, &t));
	assert_int_equal(ike_ke_read(ike_msg_find(&m, IKE_PL_KE)->body).method, 31);
	c = ike_ts_begin(ike_msg_find(&m, IKE_PL_TSR)->body);
	assert_true(ike_ts_next(&c, &ts));
	assert_int_equal(ts.start.family, IP4);
	assert_true(ike_ts_next(&c, &ts));
	assert_int_equal(ts.end.b[15], 0xff);
	assert_int_equal(ts.port_end, 65535);
	assert_false(ike_ts_next(&c, &ts));
	d = ike_delete_read(m.payload[10].body);
	assert_int_equal(ike_delete_spi(&d, 0), spis[0]);
	assert_int_equal(ike_delete_spi(&d, 1), spis[1]);
	assert_int_equal(ike_delete_spi(&d, 2), 0);
	assert_int_equal(ike_delete_read(m.payload[11].body).protocol, IKE_PROTO_IKE);
	ike_build_free(&b);
}

/* The link of IKE_FOLLOWUP_KE is opaque data of any length. */
static void additional_key_exchange_links_are_opaque(void **state)
{
	static const size_t sizes[] = {0, 1, 64, 300};
	uint8_t link[300];

	(void)state;
	for (size_t i = 0; i < sizeof(link); i++)
		link[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ike_build b;
		struct ike_notify n;
		struct ike_msg m;

		ike_build_begin_inner(&b);
		ike_build_status(&b, IKE_N_ADDITIONAL_KEY_EXCHANGE, view_of(link, sizes[i]));
		assert_int_equal(ike_build_finish(&b), 0);
		assert_int_equal(ike_inner_parse(b.first, buf_view(&b.out), &m), IKE_PARSE_OK);
		assert_true(ike_msg_notify(&m, IKE_N_ADDITIONAL_KEY_EXCHANGE, &n));
		assert_true(view_equal(n.data, view_of(link, sizes[i])));
		ike_build_free(&b);
	}
}

static void too_long_bodies_fail_in_finish(void **state)
{
	uint8_t *big = w_calloc(1, 70000);
	struct ike_build b;

	(void)state;
	ike_build_begin_inner(&b);
	ike_build_opaque(&b, IKE_PL_VENDOR, 0, view_of(big, 65532));
	ike_build_status(&b, IKE_N_COOKIE, view_of(NULL, 0));
	assert_int_equal(ike_build_finish(&b), -EMSGSIZE);
	ike_build_free(&b);
	ike_build_begin_inner(&b);
	ike_build_sa_open(&b);
	ike_build_transform(&b, 1, 2, 3); /* without a proposal */
	ike_build_close(&b);
	assert_int_equal(ike_build_finish(&b), -EMSGSIZE);
	ike_build_free(&b);
	w_free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_checked),
		cmocka_unit_test(nonce_of_257_bytes_is_refused),
		cmocka_unit_test(more_proposals_than_numbers_are_refused),
		cmocka_unit_test(unknown_payloads_are_skipped_unless_critical),
		cmocka_unit_test(only_some_payloads_may_repeat),
		cmocka_unit_test(chains_are_checked),
		cmocka_unit_test(headers_are_checked),
		cmocka_unit_test(built_payloads_are_read_back),
		cmocka_unit_test(additional_key_exchange_links_are_opaque),
		cmocka_unit_test(too_long_bodies_fail_in_finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
