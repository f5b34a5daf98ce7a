/* Offers, choices and answers, written as short texts: "encr:12/128 integ:12 | encr:20/256 ...", a
 * proposal between bars, "ke:31" for a transform, "addke1:36", "esn:0". */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ike/proposal_priv.h"

enum { TEXT = 512 };

static const struct {
	const char *name;
	uint8_t type;
} types[] = {
	{"encr", IKE_T_ENCR},
	{"prf", IKE_T_PRF},
	{"integ", IKE_T_INTEG},
	{"ke", IKE_T_KE},
	{"esn", IKE_T_ESN},
	{"addke1", IKE_T_ADDKE1},
	{"addke2", IKE_T_ADDKE1 + 1},
	{"addke3", IKE_T_ADDKE1 + 2},
	{"addke7", IKE_T_ADDKE7},
	{"what", 13},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* One word of the text into a transform. */
static void add_word(struct ike_build *b, const char *word)
{
	char name[16];
	unsigned int id, bits = 0;

	assert_true(sscanf(word, "%15[a-z0-9]:%u/%u", name, &id, &bits) >= 2);
	for (unsigned int i = 0; i < TYPES; i++) {
		if (!strcmp(types[i].name, name)) {
			ike_build_transform(b, types[i].type, (uint16_t)id, (uint16_t)bits);
			return;
		}
	}
	fail_msg("no type %s", name);
}

/* A chain of one SA payload from its text. */
static void sa_build(struct ike_build *b, uint8_t protocol, const char *text)
{
	struct view spi = view_of("\1\2\3\4", protocol == IKE_PROTO_ESP ? 4 : 0);
	char copy[TEXT], *rest, *word;
	uint8_t number = 1;

	assert_true(snprintf(copy, sizeof(copy), "%s", text) < TEXT);
	ike_build_begin_inner(b);
	ike_build_sa_open(b);
	ike_build_proposal(b, number++, protocol, spi);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (!strcmp(word, "|"))
			ike_build_proposal(b, number++, protocol, spi);
		else
			add_word(b, word);
	}
	ike_build_close(b);
	assert_int_equal(ike_build_finish(b), 0);
}

/* The body of the SA payload in a chain; checks that it parses. */
static struct view sa_body(const struct ike_build *b)
{
	struct ike_msg m;

	assert_int_equal(ike_inner_parse(b->first, buf_view(&b->out), &m), IKE_PARSE_OK);
	return ike_msg_find(&m, IKE_PL_SA)->body;
}

/* The text of an SA body. */
static const char *sa_text(struct view body, char out[static TEXT])
{
	struct cur c = cur_view(body);
	struct ike_proposal p;
	size_t n = 0;

	out[0] = 0;
	while (ike_proposal_next(&c, &p)) {
		struct cur transforms = cur_view(p.transforms);
		struct ike_transform t;

		n += (size_t)snprintf(out + n, TEXT - n, "%s", n ? " |" : "");
		while (ike_transform_next(&transforms, &t)) {
			for (unsigned int i = 0; i < TYPES; i++)
				if (types[i].type == t.type)
					n += (size_t)snprintf(out + n, TEXT - n, "%s%s:%u",
						n ? " " : "", types[i].name, t.id);
			if (t.key_bits)
				n += (size_t)snprintf(out + n, TEXT - n, "/%u", t.key_bits);
		}
	}
	return out;
}

#define DEFAULT_CBC "encr:12/128 encr:12/256 integ:12 integ:13 prf:5 prf:6 ke:19 ke:20 ke:31"
#define DEFAULT_GCM "encr:20/128 encr:20/256 encr:28 prf:5 prf:6 prf:7 ke:19 ke:20 ke:31"
#define HYBRID      "encr:20/256 prf:7 ke:31 addke1:36"
#define CLASSIC     "encr:20/256 prf:7 ke:31"
#define ESP_GCM     "encr:20/128 encr:20/256 esn:0"

struct select_row {
	enum ike_sa_use use;
	enum ike_pq pq;
	const char *offer;
	uint16_t ke;
	enum ike_select want;
	const char *answer;
};

static void select_one(const struct select_row *row)
{
	bool ike = row->use == IKE_USE_IKE;
	struct ike_policy policy = {.use = row->use,
		.post_quantum = row->pq,
		.additional_ok = true};
	struct ike_choice choice = {0};
	struct ike_build b, answer;
	char text[TEXT];
	enum ike_select s;

	sa_build(&b, ike ? IKE_PROTO_IKE : IKE_PROTO_ESP, row->offer);
	s = ike_proposal_select(&policy, sa_body(&b), row->ke, &choice);
	if (s != row->want)
		fail_msg("%s, KE %u: %s, not %s", row->offer, row->ke, ike_select_text(s),
			ike_select_text(row->want));
	if (s == IKE_SELECT_OK || s == IKE_SELECT_GROUP) {
		ike_build_begin_inner(&answer);
		ike_proposal_answer(&answer, &choice, view_of("\5\6\7\10", ike ? 0 : 4));
		assert_int_equal(ike_build_finish(&answer), 0);
		assert_string_equal(sa_text(sa_body(&answer), text), row->answer);
		/* what we answer, we would take as an answer */
		if (s == IKE_SELECT_OK) {
			assert_int_equal(ike_proposal_check(&policy, sa_body(&b), sa_body(&answer),
						 &choice),
				0);
			assert_int_equal(choice.kex_count ? kex_info(choice.kex[0])->ike : row->ke,
				row->ke);
		}
		ike_build_free(&answer);
	}
	ike_build_free(&b);
}

static void select_rows(const struct select_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		select_one(&rows[i]);
}

static void ike_is_selected(void **state)
{
	static const struct select_row rows[] = {
		/* AEAD though CBC comes first, with the group of the KE payload */
		{IKE_USE_IKE, IKE_PQ_PREFER, DEFAULT_CBC " | " DEFAULT_GCM, 19, IKE_SELECT_OK,
			"encr:20/256 prf:7 ke:19"},
		{IKE_USE_IKE, IKE_PQ_PREFER, DEFAULT_CBC " | " DEFAULT_GCM, 31, IKE_SELECT_OK,
			"encr:20/256 prf:7 ke:31"},
		{IKE_USE_IKE, IKE_PQ_PREFER, DEFAULT_CBC, 31, IKE_SELECT_OK,
			"encr:12/256 integ:12 prf:6 ke:31"},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:28 prf:5 ke:14", 14, IKE_SELECT_OK,
			"encr:28 prf:5 ke:14"},
		/* hybrid before classic in whatever order, unless switched off */
		{IKE_USE_IKE, IKE_PQ_PREFER, HYBRID " | " CLASSIC, 31, IKE_SELECT_OK, HYBRID},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " | " HYBRID, 31, IKE_SELECT_OK, HYBRID},
		{IKE_USE_IKE, IKE_PQ_REQUIRE, CLASSIC " | " HYBRID, 31, IKE_SELECT_OK, HYBRID},
		{IKE_USE_IKE, IKE_PQ_OFF, HYBRID " | " CLASSIC, 31, IKE_SELECT_OK, CLASSIC},
		{IKE_USE_IKE, IKE_PQ_OFF, HYBRID, 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_REQUIRE, CLASSIC, 31, IKE_SELECT_CLASSIC, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC, 31, IKE_SELECT_OK, CLASSIC},
		/* ADDKE with NONE */
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " addke1:0", 31, IKE_SELECT_OK,
			CLASSIC " addke1:0"},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " addke1:0 addke1:35", 31, IKE_SELECT_OK,
			CLASSIC " addke1:35"},
		{IKE_USE_IKE, IKE_PQ_OFF, CLASSIC " addke1:35 addke1:0", 31, IKE_SELECT_OK,
			CLASSIC " addke1:0"},
		{IKE_USE_IKE, IKE_PQ_REQUIRE, CLASSIC " addke1:0", 31, IKE_SELECT_CLASSIC, NULL},
		{IKE_USE_IKE, IKE_PQ_REQUIRE, CLASSIC " addke1:0 addke2:37", 31, IKE_SELECT_OK,
			CLASSIC " addke1:0 addke2:37"},
		/* several, none twice */
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " addke1:36 addke1:37 addke2:36", 31,
			IKE_SELECT_OK, CLASSIC " addke1:37 addke2:36"},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " addke1:35 addke2:36 addke7:37", 31,
			IKE_SELECT_OK, CLASSIC " addke1:35 addke2:36 addke7:37"},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " addke1:36 addke2:36", 31, IKE_SELECT_NONE,
			NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " addke1:19", 31, IKE_SELECT_NONE, NULL},
		/* ML-KEM alone is not for the KE payload */
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/256 prf:7 ke:36", 36, IKE_SELECT_NONE, NULL},
		/* the wrong group: ours is named; what we know is taken */
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/256 prf:7 ke:15 ke:31", 15, IKE_SELECT_GROUP,
			CLASSIC},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/256 prf:7 ke:20 ke:19", 31, IKE_SELECT_GROUP,
			"encr:20/256 prf:7 ke:19"},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/256 prf:7 ke:15", 15, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC, 0, IKE_SELECT_GROUP, CLASSIC},
		/* integrity: none or NONE for an AEAD, needed for CBC */
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " integ:0", 31, IKE_SELECT_OK, CLASSIC},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " integ:12", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:12/256 prf:7 ke:31", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:12/256 integ:0 prf:7 ke:31", 31, IKE_SELECT_NONE,
			NULL},
		/* incomplete, unknown, of the other protocol */
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/256 ke:31", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, "prf:7 ke:31", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/256 prf:7", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20/192 prf:7 ke:31", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, "encr:20 prf:7 ke:31", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " what:1", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " esn:0", 31, IKE_SELECT_NONE, NULL},
		{IKE_USE_IKE, IKE_PQ_PREFER, CLASSIC " what:1 | " CLASSIC, 31, IKE_SELECT_OK,
			CLASSIC},
	};

	(void)state;
	select_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void children_are_selected(void **state)
{
	static const struct select_row rows[] = {
		/* in IKE_AUTH: no key exchange, whatever is listed; require holds for the IKE SA */
		{IKE_USE_FIRST_CHILD, IKE_PQ_REQUIRE, ESP_GCM, 0, IKE_SELECT_OK,
			"encr:20/256 esn:0"},
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:20/256 ke:31 ke:0 esn:1", 0,
			IKE_SELECT_OK, "encr:20/256 esn:1 ke:0"},
		/* {0}, {1}, {0,1}, none */
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:20/256 esn:1", 0, IKE_SELECT_OK,
			"encr:20/256 esn:1"},
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:20/256 esn:0 esn:1", 0, IKE_SELECT_OK,
			"encr:20/256 esn:1"},
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:20/256", 0, IKE_SELECT_OK,
			"encr:20/256"},
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:20/256 esn:7", 0, IKE_SELECT_NONE, NULL},
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:12/128 integ:12 esn:0 | " ESP_GCM, 0,
			IKE_SELECT_OK, "encr:20/256 esn:0"},
		{IKE_USE_FIRST_CHILD, IKE_PQ_PREFER, "encr:20/256 prf:7 esn:0", 0, IKE_SELECT_NONE,
			NULL},
		/* CREATE_CHILD_SA without PFS, with a list and NONE, hybrid */
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM, 0, IKE_SELECT_OK, "encr:20/256 esn:0"},
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:19 ke:31 ke:0", 19, IKE_SELECT_OK,
			"encr:20/256 esn:0 ke:19"},
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:19 ke:0", 0, IKE_SELECT_OK,
			"encr:20/256 esn:0 ke:0"},
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:31 addke1:36", 31, IKE_SELECT_OK,
			"encr:20/256 esn:0 ke:31 addke1:36"},
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:31 | " ESP_GCM " ke:31 addke1:36", 31,
			IKE_SELECT_OK, "encr:20/256 esn:0 ke:31 addke1:36"},
		{IKE_USE_CHILD, IKE_PQ_REQUIRE, ESP_GCM, 0, IKE_SELECT_CLASSIC, NULL},
		{IKE_USE_CHILD, IKE_PQ_REQUIRE, ESP_GCM " ke:31", 31, IKE_SELECT_CLASSIC, NULL},
		{IKE_USE_CHILD, IKE_PQ_OFF, ESP_GCM " ke:31 addke1:36 | " ESP_GCM " ke:31", 31,
			IKE_SELECT_OK, "encr:20/256 esn:0 ke:31"},
		/* additional exchanges hang on a first one */
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:0 addke1:36", 0, IKE_SELECT_NONE, NULL},
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:31", 0, IKE_SELECT_GROUP,
			"encr:20/256 esn:0 ke:31"},
		{IKE_USE_CHILD, IKE_PQ_PREFER, ESP_GCM " ke:15 ke:31", 15, IKE_SELECT_GROUP,
			"encr:20/256 esn:0 ke:31"},
	};

	(void)state;
	select_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

/* KE 20, offered 20 and 31, only 31 allowed here: 31 is named. */
static void the_allowed_group_is_named(void **state)
{
	struct ike_policy policy = {.use = IKE_USE_CHILD,
		.additional_ok = true,
		.kex_allowed = 1 << KEX_X25519};
	struct ike_choice choice;
	struct ike_build b;

	(void)state;
	sa_build(&b, IKE_PROTO_ESP, ESP_GCM " ke:20 ke:31");
	assert_int_equal(ike_proposal_select(&policy, sa_body(&b), 20, &choice), IKE_SELECT_GROUP);
	assert_int_equal(choice.kex[0], KEX_X25519);
	assert_memory_equal(choice.spi, "\1\2\3\4", 4);
	ike_build_free(&b);
}

static void hybrid_needs_intermediate(void **state)
{
	struct ike_policy policy = {.use = IKE_USE_IKE};
	struct ike_choice choice;
	struct ike_build b;

	(void)state;
	sa_build(&b, IKE_PROTO_IKE, HYBRID);
	assert_int_equal(ike_proposal_select(&policy, sa_body(&b), 31, &choice),
		IKE_SELECT_NO_INTERMEDIATE);
	ike_build_free(&b);
	sa_build(&b, IKE_PROTO_IKE, HYBRID " | " CLASSIC);
	assert_int_equal(ike_proposal_select(&policy, sa_body(&b), 31, &choice), IKE_SELECT_OK);
	assert_int_equal(choice.kex_count, 1);
	policy.post_quantum = IKE_PQ_REQUIRE;
	assert_int_equal(ike_proposal_select(&policy, sa_body(&b), 31, &choice),
		IKE_SELECT_NO_INTERMEDIATE);
	ike_build_free(&b);
}

static void offers_are_as_designed(void **state)
{
	static const struct {
		enum ike_sa_use use;
		enum ike_pq pq;
		bool additional_ok;
		const char *want;
	} rows[] = {
		{IKE_USE_IKE, IKE_PQ_PREFER, true, HYBRID " addke1:37 | " CLASSIC},
		{IKE_USE_IKE, IKE_PQ_REQUIRE, true, HYBRID " addke1:37"},
		{IKE_USE_IKE, IKE_PQ_OFF, true, CLASSIC},
		{IKE_USE_IKE, IKE_PQ_PREFER, false, CLASSIC},
		{IKE_USE_FIRST_CHILD, IKE_PQ_REQUIRE, true, "encr:20/256 esn:1 esn:0"},
		{IKE_USE_CHILD, IKE_PQ_PREFER, true,
			"encr:20/256 ke:31 esn:1 esn:0 addke1:36 addke1:37 | "
			"encr:20/256 ke:31 esn:1 esn:0 | encr:20/256 esn:1 esn:0"},
		{IKE_USE_CHILD, IKE_PQ_REQUIRE, true,
			"encr:20/256 ke:31 esn:1 esn:0 addke1:36 addke1:37"},
		{IKE_USE_CHILD, IKE_PQ_OFF, true,
			"encr:20/256 ke:31 esn:1 esn:0 | encr:20/256 esn:1 esn:0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ike_policy policy = {.use = rows[i].use,
			.post_quantum = rows[i].pq,
			.additional_ok = rows[i].additional_ok};
		struct ike_choice choice;
		struct ike_build b;
		char text[TEXT];
		struct view spi = view_of("\1\2\3\4", rows[i].use == IKE_USE_IKE ? 0 : 4);

		ike_build_begin_inner(&b);
		ike_proposal_offer(&b, &policy, spi);
		assert_int_equal(ike_build_finish(&b), 0);
		assert_string_equal(sa_text(sa_body(&b), text), rows[i].want);
		/* both ends of ours agree */
		assert_int_equal(ike_proposal_select(&policy, sa_body(&b),
					 rows[i].use == IKE_USE_FIRST_CHILD ? 0 : 31, &choice),
			IKE_SELECT_OK);
		assert_int_equal(choice.aead, AEAD_AES256_GCM16);
		ike_build_free(&b);
	}
}

static void answers_are_checked(void **state)
{
	static const struct {
		enum ike_sa_use use;
		const char *answer;
		uint8_t number;
		int want;
	} rows[] = {
		{IKE_USE_IKE, HYBRID, 1, 0},
		{IKE_USE_IKE, CLASSIC " addke1:37", 1, 0}, /* of a peer with nothing smaller */
		{IKE_USE_IKE, CLASSIC, 2, 0},
		{IKE_USE_IKE, CLASSIC, 1, -EPROTO},              /* ADDKE1 left out */
		{IKE_USE_IKE, HYBRID, 2, -EPROTO},               /* not in proposal 2 */
		{IKE_USE_IKE, HYBRID, 3, -EPROTO},               /* no such proposal */
		{IKE_USE_IKE, HYBRID " | " CLASSIC, 1, -EPROTO}, /* two */
		{IKE_USE_IKE, HYBRID " addke1:36", 1, -EPROTO},  /* a type twice */
		{IKE_USE_IKE, CLASSIC " addke1:0", 2, -EPROTO},  /* NONE was not offered */
		{IKE_USE_IKE, "encr:20/128 prf:7 ke:31", 2, -EPROTO},
		{IKE_USE_IKE, "encr:20/256 prf:6 ke:31", 2, -EPROTO},
		{IKE_USE_IKE, "encr:20/256 prf:7 ke:19", 2, -EPROTO},
		{IKE_USE_IKE, "encr:20/256 ke:31", 2, -EPROTO},
		{IKE_USE_IKE, "", 2, -EPROTO},
		{IKE_USE_FIRST_CHILD, "encr:20/256 esn:0", 1, 0},
		{IKE_USE_FIRST_CHILD, "encr:20/256 esn:1", 1, 0},
		{IKE_USE_FIRST_CHILD, "encr:20/256", 1, 0}, /* no type 5: no ESN */
		{IKE_USE_FIRST_CHILD, "encr:20/256 esn:0 esn:1", 1, -EPROTO},
		{IKE_USE_FIRST_CHILD, "encr:20/256 ke:31 esn:0", 1, -EPROTO},
		{IKE_USE_CHILD, "encr:20/256 ke:31 esn:1 addke1:36", 1, 0},
		{IKE_USE_CHILD, "encr:20/256 ke:31 esn:1", 2, 0},
		{IKE_USE_CHILD, "encr:20/256 esn:0", 3, 0},
		{IKE_USE_CHILD, "encr:20/256 esn:0", 2, -EPROTO},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool ike = rows[i].use == IKE_USE_IKE;
		struct ike_policy policy = {.use = rows[i].use, .additional_ok = true};
		struct ike_choice choice = {.number = 99};
		struct ike_build offer, answer;

		ike_build_begin_inner(&offer);
		ike_proposal_offer(&offer, &policy, view_of("\1\2\3\4", ike ? 0 : 4));
		assert_int_equal(ike_build_finish(&offer), 0);
		sa_build(&answer, ike ? IKE_PROTO_IKE : IKE_PROTO_ESP, rows[i].answer);
		answer.out.p[8] = rows[i].number;
		if (ike_proposal_check(&policy, sa_body(&offer), sa_body(&answer), &choice) !=
			rows[i].want)
			fail_msg("row %zu: %s", i, rows[i].answer);
		assert_int_equal(choice.number, rows[i].want ? 99 : rows[i].number);
		ike_build_free(&offer);
		ike_build_free(&answer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ike_is_selected),
		cmocka_unit_test(children_are_selected),
		cmocka_unit_test(the_allowed_group_is_named),
		cmocka_unit_test(hybrid_needs_intermediate),
		cmocka_unit_test(offers_are_as_designed),
		cmocka_unit_test(answers_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
