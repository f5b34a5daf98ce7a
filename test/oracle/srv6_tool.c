/* What the room srv6 does, for an oracle to compare; an answer that begins with '!' is a refusal.
 *
 *   push MODE COMPAT SOURCE SEGMENT,SEGMENT… PACKET   -> packet with its segments
 *   sid BEHAVIOUR REFUSE_HMAC PACKET                  -> forward PACKET, inner PACKET, upper
 * OFFSET, !REASON, or !REASON ICMP CODE POINTER error SOURCE PACKET -> TYPE MTU OVERHEAD INNER
 *
 * MODE is encap or encap.red, COMPAT rfc, rfc-dscp or linux, BEHAVIOUR as RFC 8986 names it.
 */
#include <stdio.h>
#include "srv6/srv6.h"
#include "tool.h"

static struct ipaddr address(const char *text)
{
	struct ipaddr a = {0};

	if (ipaddr_parse(text, &a) < 0)
		tool_fail("no address");
	return a;
}

static void push(struct tool *t)
{
	struct ipaddr segment[SRV6_SEGMENTS_MAX];
	struct srv6_steer_config c = {.segment = segment,
		.mode = strcmp(tool_word(t, 1), "encap") == 0 ? SRV6_ENCAPS : SRV6_ENCAPS_RED,
		.linux_compat = strcmp(tool_word(t, 2), "linux") == 0,
		.copy_dscp = strcmp(tool_word(t, 2), "rfc-dscp") == 0,
		.source = address(tool_word(t, 3))};
	struct view packet = tool_bytes(t, 5, NULL);
	char *save = NULL, *at = strtok_r(t->word[4], ",", &save);
	uint8_t out[SRV6_PUSH_MAX];
	struct srv6_stamp stamp;
	struct srv6_steer s;
	struct ip_view v;

	for (; at && c.count < SRV6_SEGMENTS_MAX; at = strtok_r(NULL, ",", &save))
		segment[c.count++] = address(at);
	if (srv6_steer_build(&c, &s) < 0 || ip_parse(packet, &v) < 0) {
		printf("!invalid");
		return;
	}
	stamp = srv6_stamp_of(&s, packet, &v);
	srv6_push(&s, &stamp, v.len, out);
	tool_print(out, s.overhead);
	tool_print(packet.p, v.len);
}

static enum srv6_behaviour behaviour(const char *name)
{
	for (int b = 0; b < SRV6_BEHAVIOURS; b++)
		if (strcmp(srv6_behaviour_name((enum srv6_behaviour)b), name) == 0)
			return (enum srv6_behaviour)b;
	tool_fail("no such behaviour");
	return SRV6_BEHAVIOURS;
}

static void sid(struct tool *t)
{
	struct srv6_localsid entry = {.behaviour = behaviour(tool_word(t, 1))};
	uint8_t *p;
	struct view packet = tool_bytes(t, 3, &p);
	struct srv6_result r;
	struct ip_view v;

	if (ip_parse(packet, &v) < 0) {
		printf("!invalid");
		return;
	}
	r = srv6_process(&entry, tool_number(t, 2), p, &v);
	switch (r.verdict) {
	case SRV6_FORWARD:
		printf("forward ");
		tool_print(p, v.len);
		break;
	case SRV6_INNER:
		printf("inner ");
		tool_print(p + r.at, v.len - r.at);
		break;
	case SRV6_UPPER:
		printf("upper %u", r.at);
		break;
	case SRV6_REFUSE:
		printf("!%s", drop_name(r.drop));
		if (r.send)
			printf(" %s %u %u",
				r.icmp == ICMP_TIME_EXCEEDED ? "time-exceeded" : "parameter",
				r.code, r.pointer);
		break;
	}
}

static void error(struct tool *t)
{
	struct ipaddr source = address(tool_word(t, 1));
	struct view packet = tool_bytes(t, 2, NULL);
	struct srv6_error e;
	struct ip_view v;

	if (ip_parse(packet, &v) < 0 || srv6_error_parse(packet, &v, &source, &e) < 0) {
		printf("!none");
		return;
	}
	printf("%s %u %u ", e.type == ICMP_PACKET_TOO_BIG ? "too-big" : "host-unreachable", e.mtu,
		e.overhead);
	tool_print(e.inner.p, e.inner.n);
}

int main(void)
{
	static const struct tool_command commands[] = {{"push", push}, {"sid", sid},
		{"error", error}, {0}};

	return tool_main(commands);
}
