/* Captures of other implementations' IKEv2, from the folder that the environment variable
 * WEFT_VECTORS names (without it the test says that it is skipped): every message parses and
 * encodes as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/vectors_test.h"
#include "ike/codec_priv.h"

enum { PORT_IKE = 500, PORT_NAT = 4500, LINK_ETHERNET = 1, BLOCK_SECTION = 0x0a0d0d0a };

struct tally {
	unsigned int good, bad;
};

/* The captures were written by little-endian machines. */
static uint32_t little(struct cur *c)
{
	return __builtin_bswap32(cur_u32(c));
}

static void message(struct view v, struct tally *t)
{
	struct ike_msg m;
	struct ike_build b;
	enum ike_parse_error e = ike_msg_parse(v, &m);

	if (e) {
		print_message("  exchange %u: %s, payload %u\n", m.h.exchange, ike_parse_text(e),
			m.bad_type);
		t->bad++;
		return;
	}
	t->good++;
	assert_int_equal(ike_msg_encode(&m, &b), 0);
	assert_true(view_equal(buf_view(&b.out), v));
	ike_build_free(&b);
}

/* One captured frame: IPv4, UDP on IKE's ports, then the message. */
static void frame(struct cur c, bool ethernet, struct tally *t)
{
	struct cur udp;
	uint16_t source, destination, length;
	size_t header;

	cur_skip(&c, ethernet ? 12 : 0);
	if (ethernet && cur_u16(&c) != 0x0800)
		return;
	cur_skip(&c, ethernet ? 0 : 4);
	header = (cur_u8(&c) & 15U) * 4;
	cur_skip(&c, 8);
	if (cur_u8(&c) != 17)
		return;
	cur_skip(&c, header - 10);
	source = cur_u16(&c);
	destination = cur_u16(&c);
	length = cur_u16(&c);
	cur_skip(&c, 2);
	udp = cur_sub(&c, length - 8U);
	if (udp.bad)
		return;
	if (source == PORT_NAT || destination == PORT_NAT) {
		if (cur_u32(&udp) != 0 || udp.n < IKE_HEADER_LEN)
			return;
	} else if (source != PORT_IKE && destination != PORT_IKE) {
		return;
	}
	message(cur_rest(&udp), t);
}

static void read_pcapng(struct cur c, struct tally *t)
{
	while (c.n >= 12) {
		uint32_t type = little(&c), length = little(&c);
		struct cur block = cur_sub(&c, length - 8);

		if (type == 6) {
			cur_skip(&block, 12);
			length = little(&block);
			cur_skip(&block, 4);
			frame(cur_sub(&block, length), true, t);
		}
	}
}

static void read_pcap(struct cur c, struct tally *t)
{
	bool ethernet;

	cur_skip(&c, 20);
	ethernet = little(&c) == LINK_ETHERNET;
	while (c.n > 0) {
		uint32_t length;

		cur_skip(&c, 8);
		length = little(&c);
		cur_skip(&c, 4);
		frame(cur_sub(&c, length), ethernet, t);
	}
}

static struct tally capture(const char *name)
{
	struct tally t = {0};
	char path[4096];
	struct buf file;
	struct cur c;

	snprintf(path, sizeof(path), "%s/ike-esp/%s", getenv("WEFT_VECTORS"), name);
	file = vectors_file(path);
	c = cur_view(buf_view(&file));
	if (get_u32(file.p) == BLOCK_SECTION)
		read_pcapng(c, &t);
	else
		read_pcap(c, &t);
	buf_free(&file);
	print_message("%s: %u messages, %u refused\n", name, t.good, t.bad);
	return t;
}

static void captured_messages_are_encoded_as_they_were(void **state)
{
	static const struct {
		const char *name;
		struct tally want;
	} rows[] = {
		{"ikev2four.pcap", {21, 0}},
		{"ikev2pI2.pcap", {2, 0}},
		{"ikev2_nat_t.pcapng", {30, 0}},
		/* the one is a vendor's own form of fragment: payload 127, and no chain behind it
	         */
		{"ipsec_isakmp_esp.pcap", {518, 1}},
	};

	(void)state;
	if (!getenv("WEFT_VECTORS")) {
		print_message("skipped: WEFT_VECTORS names no folder of vectors\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tally t = capture(rows[i].name);

		assert_int_equal(t.good, rows[i].want.good);
		assert_int_equal(t.bad, rows[i].want.bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_messages_are_encoded_as_they_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
