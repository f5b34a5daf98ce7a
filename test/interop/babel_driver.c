/* The Babel room on UDP sockets of this namespace, for tests: no routes go into the kernel, the
 * tables are written to a file as JSON four times a second. Words on the command line:
 *   STATE-FILE ROUTER-ID-BYTE
 *   dev NAME [cost N] [hello_ms N] [rtt_cost N] [rtt_min_ms N] [rtt_max_ms N] [own4 A] [tunnel]
 *            [sha256 KEY] [blake2s KEY]
 *   prefix P [from S]
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <ifaddrs.h>
#include "babel/babel.h"

enum { DEVICES = 8, STATE_US = 250000, PACKET = 65536, CONTROL = 128 };

struct driver {
	const char *state;
	int sock;
	struct babel *b;
	struct babel_iface_config dev[DEVICES];
	char name[DEVICES][IF_NAMESIZE];
	size_t devices;
	char **word;
	wtime state_at;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static wtime clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (wtime){t.tv_sec * W_SEC + t.tv_nsec / 1000};
}

static int os_random(void *ctx, void *p, size_t n)
{
	(void)ctx;
	return getrandom(p, n, 0) == (ssize_t)n ? 0 : -EIO;
}

static struct ipaddr link_local_of(const char *name)
{
	struct ipaddr found = {0};
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		die("getifaddrs");
	for (struct ifaddrs *it = all; it; it = it->ifa_next) {
		const struct sockaddr_in6 *a = (const void *)it->ifa_addr;

		if (a && a->sin6_family == AF_INET6 && strcmp(it->ifa_name, name) == 0 &&
			IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr))
			found = ipaddr_from(IP6, &a->sin6_addr);
	}
	freeifaddrs(all);
	return found;
}

static const char *next_word(struct driver *d)
{
	if (!*d->word) {
		fprintf(stderr, "a word is missing\n");
		exit(2);
	}
	return *d->word++;
}

static void take_key(struct driver *d, struct babel_iface_config *c, enum babel_mac algorithm)
{
	struct babel_key *k = &c->key[c->key_count++];
	const char *text = next_word(d);

	k->algorithm = algorithm;
	k->len = (uint8_t)strlen(text);
	memcpy(k->key, text, k->len);
}

static void take_dev(struct driver *d)
{
	struct babel_iface_config *c = &d->dev[d->devices];
	char *name = d->name[d->devices++];

	(void)snprintf(name, IF_NAMESIZE, "%s", next_word(d));
	*c = (struct babel_iface_config){.iface = if_nametoindex(name),
		.link_local = link_local_of(name),
		.ipv4 = true,
		.mtu = 1400,
		.hello_us = W_SEC,
		.cost = 96,
		.rtt_min_us = 10 * W_MS,
		.rtt_max_us = 120 * W_MS};
	for (; *d->word;) {
		const char *w = *d->word++;

		if (strcmp(w, "cost") == 0)
			c->cost = (uint16_t)atoi(next_word(d));
		else if (strcmp(w, "hello_ms") == 0)
			c->hello_us = atoi(next_word(d)) * W_MS;
		else if (strcmp(w, "rtt_cost") == 0)
			c->rtt_cost = (uint16_t)atoi(next_word(d));
		else if (strcmp(w, "rtt_min_ms") == 0)
			c->rtt_min_us = atoi(next_word(d)) * W_MS;
		else if (strcmp(w, "rtt_max_ms") == 0)
			c->rtt_max_us = atoi(next_word(d)) * W_MS;
		else if (strcmp(w, "own4") == 0)
			(void)ipaddr_parse(next_word(d), &c->own4);
		else if (strcmp(w, "tunnel") == 0)
			c->tunnel = true;
		else if (strcmp(w, "sha256") == 0)
			take_key(d, c, BABEL_MAC_HMAC_SHA256);
		else if (strcmp(w, "blake2s") == 0)
			take_key(d, c, BABEL_MAC_BLAKE2S);
		else {
			d->word--;
			break;
		}
	}
	if (babel_iface_add(d->b, c, clock_now()) < 0) {
		fprintf(stderr, "%s: refused\n", name);
		exit(2);
	}
}

static void take_prefix(struct driver *d)
{
	struct babel_prefix p = {0};

	if (prefix_parse(next_word(d), &p.destination) < 0)
		exit(2);
	if (*d->word && strcmp(*d->word, "from") == 0) {
		d->word++;
		if (prefix_parse(next_word(d), &p.source) < 0)
			exit(2);
	}
	if (babel_originate(d->b, &p, 0, clock_now()) < 0)
		exit(2);
}

static void open_socket(struct driver *d)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(BABEL_PORT)};
	struct ipv6_mreq m = {0};
	int one = 1, zero = 0;

	d->sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (d->sock < 0)
		die("socket");
	if (setsockopt(d->sock, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0 ||
		setsockopt(d->sock, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one)) < 0 ||
		setsockopt(d->sock, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &one, sizeof(one)) < 0 ||
		setsockopt(d->sock, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof(one)) < 0 ||
		setsockopt(d->sock, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &zero, sizeof(zero)) < 0)
		die("setsockopt");
	if (bind(d->sock, (const struct sockaddr *)&a, sizeof(a)) < 0)
		die("bind");
	m.ipv6mr_multiaddr.s6_addr[0] = 0xff;
	m.ipv6mr_multiaddr.s6_addr[1] = 0x02;
	m.ipv6mr_multiaddr.s6_addr[13] = 0x01;
	m.ipv6mr_multiaddr.s6_addr[15] = 0x06;
	for (size_t i = 0; i < d->devices; i++) {
		m.ipv6mr_interface = d->dev[i].iface;
		if (setsockopt(d->sock, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m, sizeof(m)) < 0)
			die("join");
	}
}

static void send_all(struct driver *d)
{
	struct babel_packet p;
	struct babel_event e;

	while (babel_output(d->b, clock_now(), &p)) {
		struct sockaddr_in6 to = {.sin6_family = AF_INET6,
			.sin6_port = htons(BABEL_PORT),
			.sin6_scope_id = p.iface};

		memcpy(&to.sin6_addr, p.destination.b, 16);
		if (sendto(d->sock, p.data.p, p.data.n, 0, (const struct sockaddr *)&to,
			    sizeof(to)) < 0)
			perror("sendto");
	}
	while (babel_event_next(d->b, &e))
		;
}

static void receive(struct driver *d)
{
	static uint8_t bytes[PACKET];
	char control[CONTROL];
	struct sockaddr_in6 from;
	struct iovec v = {bytes, sizeof(bytes)};
	struct msghdr m = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(d->sock, &m, MSG_DONTWAIT);
	struct babel_datagram in = {.at = clock_now()};

	if (n < 0 || ntohs(from.sin6_port) != BABEL_PORT)
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct in6_pktinfo info;

		if (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_PKTINFO)
			continue;
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		in.iface = info.ipi6_ifindex;
		in.unicast = !IN6_IS_ADDR_MULTICAST(&info.ipi6_addr);
	}
	in.source = ipaddr_from(IP6, &from.sin6_addr);
	in.data = view_of(bytes, (size_t)n);
	babel_input(d->b, &in, clock_now());
}

static void write_routes(struct driver *d, FILE *f)
{
	struct babel_route_info r;
	size_t it = 0, n = 0;

	while (babel_routes(d->b, &it, &r)) {
		char p[PREFIX_TEXT], s[PREFIX_TEXT], via[ADDR_TEXT], hop[ADDR_TEXT];

		fprintf(f,
			"%s{\"prefix\": \"%s\", \"source\": \"%s\", \"metric\": %u, \"own\": %d,"
			" \"selected\": %d, \"neighbour\": \"%s\", \"next_hop\": \"%s\","
			" \"seqno\": %u}\n",
			n++ ? "," : "", prefix_format(&r.prefix.destination, p),
			r.prefix.source.len ? prefix_format(&r.prefix.source, s) : "", r.metric,
			r.own, r.selected, ipaddr_format(&r.neighbour, via),
			ipaddr_format(&r.next_hop, hop), r.seqno);
	}
}

static void write_state(struct driver *d)
{
	struct babel_neighbour_info i;
	struct babel_stats stats;
	char temporary[512], a[ADDR_TEXT];
	size_t it = 0, n = 0;
	FILE *f;

	(void)snprintf(temporary, sizeof(temporary), "%s.new", d->state);
	f = fopen(temporary, "w");
	if (!f)
		die(temporary);
	fprintf(f, "{\"neighbours\": [");
	while (babel_neighbours(d->b, &it, &i))
		fprintf(f,
			"%s{\"address\": \"%s\", \"cost\": %u, \"rxcost\": %u, \"txcost\": %u,"
			" \"rtt_us\": %lld, \"reach\": %u}\n",
			n++ ? "," : "", ipaddr_format(&i.address, a), i.cost, i.rxcost, i.txcost,
			i.has_rtt ? (long long)i.rtt_us : -1, i.reach);
	fprintf(f, "], \"routes\": [");
	write_routes(d, f);
	babel_stats(d->b, &stats);
	fprintf(f, "], \"drops\": {");
	for (int k = 0; k < BABEL_DROP_COUNT; k++)
		fprintf(f, "%s\"%s\": %llu", k ? ", " : "", babel_drop_name(k),
			(unsigned long long)stats.drops[k]);
	fprintf(f, "}}\n");
	if (fclose(f) != 0 || rename(temporary, d->state) < 0)
		die(d->state);
}

static void loop(struct driver *d)
{
	for (;;) {
		wtime now = clock_now();
		wtime at = wtime_min(babel_deadline(d->b), d->state_at);
		int64_t wait = wtime_diff(at, now) / W_MS + 1;
		struct pollfd p = {.fd = d->sock, .events = POLLIN};

		(void)poll(&p, 1, wait < 0 ? 0 : (int)wait);
		if (p.revents & POLLIN)
			receive(d);
		now = clock_now();
		babel_tick(d->b, now);
		send_all(d);
		if (wtime_due(d->state_at, now)) {
			write_state(d);
			d->state_at = wtime_add(now, STATE_US);
		}
	}
}

int main(int argc, char **argv)
{
	struct babel_config c = {.rng = {.fill = os_random}, .transit = true};
	struct driver d = {0};

	if (argc < 3)
		return 2;
	d.state = argv[1];
	memset(c.router_id, atoi(argv[2]), sizeof(c.router_id));
	c.first_seqno = (uint16_t)(time(NULL) / 4);
	if (babel_new(&c, clock_now(), &d.b) < 0)
		return 1;
	d.word = argv + 3;
	while (*d.word) {
		const char *w = *d.word++;

		if (strcmp(w, "dev") == 0 && d.devices < DEVICES)
			take_dev(&d);
		else if (strcmp(w, "prefix") == 0)
			take_prefix(&d);
		else
			return 2;
	}
	open_socket(&d);
	d.state_at = clock_now();
	loop(&d);
}
