/* What a policy costs: the look-up among few and many policies, and the segments in front of a
 * packet. Prints CPU nanoseconds; the best of several runs, since others use the machine, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "policy/policy.h"
#include "srv6/srv6.h"

enum { FLOWS = 1024, ROUNDS = 200, RUNS = 20, PUSHES = 100000, INNER = 1300 };

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Policy i of n: a /24 of destinations for a LAN. */
static struct policy *make(uint32_t n)
{
	struct policy_rule *r = calloc(n, sizeof(*r));
	struct policy *p;

	if (!r)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		uint32_t net = i * 2654435761U >> 8;
		uint8_t d[4] = {(uint8_t)(1 + (net >> 16) % 200), (uint8_t)(net >> 8), (uint8_t)net,
			0};
		static const uint8_t s[4] = {10, 1, 0, 0};
		struct ipaddr da = ipaddr_from(IP4, d), sa = ipaddr_from(IP4, s);

		r[i].destination = prefix_of(&da, 24);
		r[i].source = prefix_of(&sa, 16);
		r[i].steer = i;
	}
	if (policy_build(r, n, &p) < 0)
		abort();
	free(r);
	return p;
}

/* Nanoseconds of one look-up: packets of many flows, each to a policy of its own where there are as
 * many, in no order. The plane asks once for a run of packets of one flow. */
static double look(uint32_t n, int runs)
{
	static struct ipaddr destination[FLOWS];
	static const uint8_t s[4] = {10, 1, 2, 3};
	struct ipaddr source = ipaddr_from(IP4, s);
	struct policy *p = make(n);
	int64_t best = INT64_MAX;
	uint32_t hits = 0;

	for (uint32_t i = 0; i < FLOWS; i++) {
		destination[i] = policy_rule_at(p, (i * 40503U >> 3) % n)->destination.addr;
		destination[i].b[3] = (uint8_t)i;
	}
	for (int run = 0; run < runs; run++) {
		int64_t began = clock_ns(), took;

		for (int k = 0; k < ROUNDS; k++)
			for (uint32_t i = 0; i < FLOWS; i++)
				hits += policy_find(p, &destination[i], &source) != NULL;
		took = clock_ns() - began;
		best = took < best ? took : best;
	}
	if (hits != (uint32_t)runs * ROUNDS * FLOWS)
		abort();
	policy_free(p);
	return (double)best / (ROUNDS * FLOWS);
}

static double push(uint32_t segments, int runs)
{
	static uint8_t packet[INNER], out[SRV6_PUSH_MAX];
	struct ipaddr segment[16];
	struct srv6_steer_config c = {.segment = segment, .count = segments};
	struct srv6_stamp t;
	struct srv6_steer s;
	struct ip_view v;
	int64_t best = INT64_MAX;

	for (int i = 0; i < 16; i++)
		segment[i] = (struct ipaddr){.family = IP6, .b = {0xfd, [15] = (uint8_t)i}};
	c.source = segment[0];
	packet[0] = 0x60;
	put_u16(packet + 4, INNER - IP6_HEADER);
	packet[6] = IP_PROTO_UDP;
	packet[8] = packet[24] = 0xfd;
	if (srv6_steer_build(&c, &s) < 0 || ip_parse(view_of(packet, INNER), &v) < 0)
		abort();
	for (int run = 0; run < runs; run++) {
		int64_t began = clock_ns(), took;

		for (int i = 0; i < PUSHES; i++) {
			packet[41] = (uint8_t)i;
			t = srv6_stamp_of(&s, view_of(packet, INNER), &v);
			srv6_push(&s, &t, INNER, out);
		}
		took = clock_ns() - began;
		best = took < best ? took : best;
	}
	return (double)best / PUSHES;
}

/* With any argument one short run, for the tests. */
int main(int argc, char **argv)
{
	int runs = argc > 1 ? 1 : RUNS;
	double few = look(10, runs), many = look(10000, runs);

	(void)argv;
	printf("policies: %.1f ns among 10, %.1f ns among 10,000: %.2f times\n", few, many,
		many / few);
	for (uint32_t n = 1; n <= 16; n *= 2)
		printf("head end, %2u segments: %.1f ns a packet\n", n, push(n, runs));
	return 0;
}
