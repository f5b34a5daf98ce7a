/* What the rooms esp and wire do, for an oracle to compare: one command a line on stdin, one answer
 * a line on stdout. Bytes are hexadecimal, "-" is none; an answer that begins with '!' is a
 * refusal.
 *
 *   esp-seal SUITE KEY AUTH SPI ESN SEQ NEXT TEXT     -> datagram
 *   esp-open SUITE KEY AUTH SPI ESN DATAGRAM…         -> SEQ:NEXT:TEXT or !reason, for each
 *   icmp-error TYPE SOURCE VALUE CODE PACKET          -> packet
 *   gso TYPE SIZE NEEDS_CSUM START OFFSET FRAME       -> packets
 *   gro PACKET…                                       -> TYPE:SIZE:SEGMENTS:FRAME, for each
 *   ecn OUTER PACKET                                  -> packet
 */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "esp/esp.h"
#include "wire/ecn.h"
#include "wire/gro.h"
#include "wire/gso.h"
#include "wire/icmp.h"
#include "tool.h"

enum { FRAMES = 64 };

static struct tunnel_sa *make_sa(struct tool *t, bool inbound)
{
	struct view key = tool_bytes(t, 2, NULL), auth = tool_bytes(t, 3, NULL);
	struct esp_sa_config c = {.inbound = inbound,
		.spi = (uint32_t)tool_number(t, 4),
		.key = key.p,
		.auth = auth.p,
		.esn = tool_number(t, 5)};
	struct tunnel_sa *sa;

	for (int id = AEAD_NONE + 1; id < AEAD_COUNT; id++) {
		const struct aead_info *info = aead_info((enum aead_id)id);

		if (strcmp(info->name, tool_word(t, 1)) == 0 && info->key_len == key.n &&
			info->auth_key_len == auth.n)
			c.aead = (enum aead_id)id;
	}
	if (esp_sa_new(&c, &sa) < 0)
		tool_fail("no such SA");
	return sa;
}

static void seal(struct tool *t)
{
	struct tunnel_seal op = {.sa = make_sa(t, false),
		.seq = tool_number(t, 6),
		.next_header = (uint8_t)tool_number(t, 7)};

	op.len = (uint32_t)tool_bytes(t, 8, &op.text).n;
	esp_ops()->seal_batch(&op, 1);
	tool_print(op.text - op.sa->headroom, op.sealed);
	esp_sa_free(op.sa);
}

static void open(struct tool *t)
{
	struct tunnel_sa *sa = make_sa(t, true);
	struct esp_table *table;

	if (esp_table_new(1, &table) < 0 || esp_ops()->add(table, sa) < 0)
		tool_fail("no table");
	for (uint32_t i = 6; i < t->words; i++) {
		struct tunnel_open op = {0};

		op.len = (uint32_t)tool_bytes(t, i, &op.data).n;
		esp_ops()->demux(table, &op);
		esp_ops()->open_batch(&op, 1);
		if (esp_ops()->accept(&op) == DROP_NONE) {
			printf("%llu:%u:", (unsigned long long)op.seq, op.next_header);
			tool_print(op.text, op.text_len);
			putchar(' ');
		} else {
			printf("!%s ", drop_name(op.drop));
		}
	}
	esp_table_free(table);
	esp_sa_free(sa);
}

static void icmp_error(struct tool *t)
{
	static const char *const names[] = {[ICMP_TIME_EXCEEDED] = "time-exceeded",
		[ICMP_NO_ROUTE] = "no-route",
		[ICMP_HOST_UNREACHABLE] = "host-unreachable",
		[ICMP_ADMIN_PROHIBITED] = "admin",
		[ICMP_PACKET_TOO_BIG] = "too-big",
		[ICMP_PARAMETER_PROBLEM] = "parameter"};
	uint8_t out[ICMP_ERROR_MAX];
	struct ipaddr source;
	struct ip_view v;
	struct icmp_error e = {.source = &source,
		.about = &v,
		.mtu = (uint32_t)tool_number(t, 3),
		.pointer = (uint32_t)tool_number(t, 3),
		.code = (uint8_t)tool_number(t, 4),
		.packet = tool_bytes(t, 5, NULL)};
	size_t n = 0;

	while (strcmp(names[e.type], tool_word(t, 1)) != 0) {
		if (++e.type > ICMP_PARAMETER_PROBLEM)
			tool_fail("no such error");
	}
	if (ipaddr_parse(tool_word(t, 2), &source) < 0)
		tool_fail("no source");
	if (ip_parse(e.packet, &v) < 0 || icmp_error_build(&e, out, sizeof(out), &n) < 0)
		printf("!refused");
	tool_print(out, n);
}

static void gso(struct tool *t)
{
	struct tun_rx rx = {.gso = {.type = (uint8_t)tool_number(t, 1),
				    .size = (uint16_t)tool_number(t, 2),
				    .needs_csum = tool_number(t, 3),
				    .csum_start = (uint16_t)tool_number(t, 4),
				    .csum_offset = (uint16_t)tool_number(t, 5)}};
	struct gso_split s;
	enum drop_reason r;
	uint8_t *out = w_alloc(UINT16_MAX);

	rx.len = (uint32_t)tool_bytes(t, 6, &rx.data).n;
	r = gso_split_init(&rx, &s);
	if (!out || r != DROP_NONE)
		printf("!%s", drop_name(r));
	for (uint32_t i = 0; r == DROP_NONE && out && i < s.segments; i++) {
		tool_print(out, gso_split_write(&s, i, out));
		putchar(' ');
	}
	w_free(out);
}

static void gro(struct tool *t)
{
	struct tun_tx *frames = w_calloc(FRAMES, sizeof(*frames));
	struct gro g;
	uint32_t n;

	if (!frames)
		tool_fail("no memory");
	gro_init(&g, frames, FRAMES);
	gro_set_merge(&g, true, true);
	for (uint32_t i = 1; i < t->words; i++) {
		struct ip_view v;
		uint8_t *p;
		struct view packet = tool_bytes(t, i, &p);

		if (ip_parse(packet, &v) < 0 || !gro_add(&g, p, &v))
			tool_fail("no packet");
	}
	n = gro_finish(&g);
	for (uint32_t i = 0; i < n; i++) {
		printf("%u:%u:%u:", frames[i].gso.type, frames[i].gso.size, frames[i].segments);
		for (uint32_t k = 0; k < frames[i].iov_count; k++)
			tool_print(frames[i].iov[k].p, frames[i].iov[k].n);
		putchar(' ');
	}
	w_free(frames);
}

static void ecn(struct tool *t)
{
	uint8_t *p;
	struct view packet = tool_bytes(t, 2, &p);
	enum drop_reason r = ecn_decapsulate((uint8_t)tool_number(t, 1), p);

	if (r != DROP_NONE)
		printf("!%s", drop_name(r));
	else
		tool_print(p, packet.n);
}

int main(void)
{
	static const struct tool_command commands[] = {{"esp-seal", seal}, {"esp-open", open},
		{"icmp-error", icmp_error}, {"gso", gso}, {"gro", gro}, {"ecn", ecn}, {0}};

	return tool_main(commands);
}
