/* Nodes of a simulation: keys, configuration and registry texts, inner packets. */
#include "sim.h"
#include "sim_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "conf/conf.h"

enum { UDP_DISCARD = 9, PAYLOAD = 64, NUMBERS = 1 << 18, EPOCH = 1000000 };

static void organization(const struct sim *s, unsigned int i, char out[static 16])
{
	(void)snprintf(out, 16, "org%u", s->options.one_organization ? 0 : i);
}

static void remarks(const struct sim *s, unsigned int i, struct buf *b)
{
	if (!s->options.srv6 && !s->options.allow)
		return;
	buf_add_str(b, ", \"remarks\": {\"weft\": {");
	if (s->options.srv6)
		buf_printf(b, "\"srv6\": \"fd00:5:%x::/64\"", i + 1);
	if (s->options.allow)
		buf_printf(b, "%s\"allow\": [\"10.66.%u.%u/32\", \"fd00:66::%x/128\"]",
			s->options.srv6 ? ", " : "", i >> 8, i & 255, i + 1);
	buf_add_str(b, "}}");
}

static void registry_text(const struct sim *s, const bool *present, struct buf *b)
{
	buf_add_str(b, "[");
	for (unsigned int i = 0, first = 1; i < s->count; i++) {
		char org[16], addr[ADDR_TEXT];
		const char *p = s->node[i].public_pem;
		struct ipaddr a = sim_underlay(i);

		if (present && !present[i])
			continue;
		organization(s, i, org);
		buf_printf(b, "%s{\"public_key\": \"", first ? "" : ",\n");
		first = 0;
		for (; *p; p++)
			if (*p == '\n')
				buf_add_str(b, "\\n");
			else
				buf_add(b, p, 1);
		buf_printf(b,
			"\", \"organization\": \"%s\", \"nodes\": [{\"common_name\": \"n%u\", "
			"\"endpoints\": "
			"[{\"serial_number\": \"0\", \"address_family\": \"ip4\", \"address\": "
			"\"%s\", "
			"\"port\": 13000}]",
			org, i, ipaddr_format(&a, addr));
		remarks(s, i, b);
		buf_add_str(b, "}]}");
	}
	buf_add_str(b, "]");
}

static void config_text(const struct sim *s, unsigned int i, const char *more, struct buf *b)
{
	char org[16];

	organization(s, i, org);
	buf_printf(b,
		"node: {organization: %s, name: n%u, key: key}\nregistry: registry\n"
		"endpoints: [{serial: \"0\", family: ip4}]\n"
		"tun: {addresses: [10.66.%u.%u/32, \"fd00:66::%x/128\"]}\n%s",
		org, i, i >> 8, i & 255, i + 1, s->options.learn ? "" : "static_routes:\n");
	for (unsigned int k = 0; !s->options.learn && k < s->count; k++)
		if (k != i)
			buf_printf(b,
				"  - {prefix: 10.66.%u.%u/32, node: n%u}\n"
				"  - {prefix: \"fd00:66::%x/128\", node: n%u}\n",
				k >> 8, k & 255, k, k + 1, k);
	buf_add_str(b, more ? more : "");
}

static void parse(const struct sim *s, unsigned int i, const char *more, const bool *present,
	struct node_reload *ret)
{
	struct buf config = {0}, registry = {0};
	struct conf_errors errors = {0};
	struct config *c = NULL;
	struct registry *r = NULL;

	config_text(s, i, more, &config);
	registry_text(s, present, &registry);
	if (config_parse(buf_view(&config), "config", &c, &errors) < 0 ||
		registry_parse(buf_view(&registry), "registry", &r, &errors) < 0 || errors.count) {
		fprintf(stderr, "%s", errors.text.p ? (const char *)errors.text.p : "?");
		abort();
	}
	buf_free(&config);
	buf_free(&registry);
	ret->config = c;
	ret->registry = r;
}

static const char *more_of(const struct sim *s, unsigned int i)
{
	return s->node[i].more ? s->node[i].more : s->options.more_yaml;
}

void sim_more(struct sim *s, unsigned int i, const char *more_yaml)
{
	w_free(s->node[i].more);
	s->node[i].more = more_yaml ? w_strdup(more_yaml) : NULL;
	sim_must(!more_yaml || s->node[i].more, "memory");
}

void sim_wall_clock(struct sim *s, unsigned int i, int64_t off_s)
{
	s->node[i].wall_off_s = off_s;
}

void sim_start(struct sim *s, unsigned int i)
{
	struct sim_node *n = &s->node[i];
	struct node_reload files = {0};
	struct buf error = {0};
	struct node_config nc = {
		.rng = rng_seeded_init(&n->rng, s->options.seed * 7919 + i * 131 + n->incarnation),
		.key = n->key,
		.version = "sim",
		.epoch_s = (uint64_t)(EPOCH + s->now.us / W_SEC + n->wall_off_s),
	};

	sim_must(!n->node, "started twice");
	parse(s, i, more_of(s, i), NULL, &files);
	nc.config = files.config;
	nc.registry = files.registry;
	sim_plane_start(s, i);
	sim_must(node_new(&nc, s->now, &n->node, &error) == 0, "node_new");
	buf_free(&error);
	sim_settle(s, i);
}

static int reload(struct sim *s, unsigned int i, struct node_reload *files)
{
	struct buf report = {0};
	int err = node_reload(s->node[i].node, files, s->now, &report);

	if (s->verbose && report.n)
		fprintf(stderr, "%s", (const char *)report.p);
	buf_free(&report);
	sim_settle(s, i);
	return err;
}

int sim_reload(struct sim *s, unsigned int i, const char *more_yaml)
{
	struct node_reload files = {0};

	parse(s, i, more_yaml, NULL, &files);
	return reload(s, i, &files);
}

int sim_reload_registry(struct sim *s, unsigned int i, const bool *present, bool force)
{
	struct node_reload files = {.force = force};

	parse(s, i, more_of(s, i), present, &files);
	return reload(s, i, &files);
}

struct sim *sim_new(const struct sim_options *o)
{
	struct sim *s = w_calloc(1, sizeof(*s));

	sim_must(s != NULL, "memory");
	s->options = *o;
	s->count = o->nodes;
	s->now = (wtime){1000 * W_SEC};
	s->rng = rng_seeded_init(&s->rng_state, o->seed);
	s->verbose = getenv("SIM_VERBOSE") != NULL;
	s->node = w_calloc(s->count, sizeof(*s->node));
	s->path = w_calloc((size_t)s->count * s->count, sizeof(*s->path));
	s->busy = w_calloc((size_t)s->count * s->count, sizeof(*s->busy));
	list_init(&s->flows);
	sim_must(s->node && s->path && s->busy, "memory");
	for (unsigned int i = 0; i < s->count * s->count; i++)
		s->path[i] = o->path;
	for (unsigned int i = 0; i < s->count; i++) {
		struct sim_node *n = &s->node[i];
		uint8_t seed[32] = {(uint8_t)i, (uint8_t)(i >> 8), 1};
		uint8_t pub[ED25519_PUBLIC];

		if (o->one_organization)
			seed[0] = seed[1] = 0;
		list_init(&n->reports);
		list_init(&n->backlog);
		sim_must(ed25519_from_seed(seed, &n->key) == 0, "key");
		ed25519_public(n->key, pub);
		sim_must(ed25519_public_to_pem(pub, &n->public_pem) == 0, "key");
		n->seen_size = (size_t)s->count * NUMBERS / 8;
		n->seen = w_calloc(n->seen_size, 1);
		sim_must(n->seen != NULL, "memory");
	}
	return s;
}

void sim_free(struct sim *s)
{
	struct heap_node *h;

	for (unsigned int i = 0; i < s->count; i++) {
		sim_kill(s, i);
		ed25519_free(s->node[i].key);
		w_free(s->node[i].public_pem);
		w_free(s->node[i].seen);
		w_free(s->node[i].more);
	}
	while ((h = heap_pop(&s->events)))
		w_free(container_of(h, struct sim_event, timer));
	heap_done(&s->events);
	sim_flows_free(s);
	buf_free(&s->reply);
	buf_free(&s->echo);
	w_free(s->path);
	w_free(s->busy);
	w_free(s->node);
	w_free(s);
}

struct node *sim_node(struct sim *s, unsigned int i)
{
	return s->node[i].node;
}

/* ---- inner packets ---- */

struct ipaddr sim_inner_address(unsigned int i, enum ip_family family)
{
	uint8_t b[16] = {10, 66, (uint8_t)(i >> 8), (uint8_t)i};

	if (family == IP6) {
		put_u32(b, 0xfd000066);
		put_u32(b + 4, 0);
		put_u32(b + 12, i + 1);
	}
	return ipaddr_from(family, b);
}

static uint32_t ones_sum(const uint8_t *p, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < n; i += 2)
		sum += get_u16(p + i);
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void write_udp(uint8_t *udp, const uint8_t *addresses, size_t address_bytes, uint64_t number,
	unsigned int from)
{
	const uint16_t len = 8 + PAYLOAD;

	memset(udp, 0, len);
	put_u16(udp, UDP_DISCARD);
	put_u16(udp + 2, UDP_DISCARD);
	put_u16(udp + 4, len);
	put_u32(udp + 8, from);
	put_u64(udp + 12, number);
	memcpy(udp + 20, SIM_INNER_MARK, sizeof(SIM_INNER_MARK) - 1);
	put_u16(udp + 6, fold(ones_sum(addresses, address_bytes) + 17 + len + ones_sum(udp, len)));
}

uint32_t sim_inner_packet(uint8_t *out, unsigned int from, unsigned int to, enum ip_family family,
	uint64_t number)
{
	const uint16_t len = 8 + PAYLOAD;

	if (family == IP4) {
		const uint8_t ip[20] = {0x45, 0, 0, 20 + 8 + PAYLOAD, 0, 0, 0x40, 0, 64, 17, 0, 0,
			10, 66, (uint8_t)(from >> 8), (uint8_t)from, 10, 66, (uint8_t)(to >> 8),
			(uint8_t)to};

		memcpy(out, ip, sizeof(ip));
		put_u16(out + 10, fold(ones_sum(out, 20)));
		write_udp(out + 20, out + 12, 8, number, from);
		return 20u + len;
	}
	memset(out, 0, 40);
	out[0] = 0x60;
	put_u16(out + 4, len);
	out[6] = 17;
	out[7] = 64;
	put_u32(out + 8, 0xfd000066);
	put_u32(out + 20, from + 1);
	put_u32(out + 24, 0xfd000066);
	put_u32(out + 36, to + 1);
	write_udp(out + 40, out + 8, 32, number, from);
	return 40u + len;
}

void sim_inner_arrived(struct sim_node *n, const uint8_t *frame, uint32_t len)
{
	const uint8_t *udp = frame + (len && frame[0] >> 4 == 4 ? 20 : 40);
	bool is_udp = len > 48 && (frame[0] >> 4 == 4 ? frame[9] : frame[6]) == 17;
	uint64_t bit;

	if (!is_udp || get_u16(udp) != UDP_DISCARD)
		return;
	bit = (uint64_t)get_u32(udp + 8) * NUMBERS + get_u64(udp + 12) % NUMBERS;
	sim_must(bit / 8 < n->seen_size, "a number out of range");
	n->duplicates += (n->seen[bit / 8] >> (bit % 8)) & 1;
	n->seen[bit / 8] |= (uint8_t)(1u << (bit % 8));
	n->delivered++;
}

uint64_t sim_delivered(const struct sim *s, unsigned int i)
{
	return s->node[i].delivered;
}

uint64_t sim_duplicates(const struct sim *s, unsigned int i)
{
	return s->node[i].duplicates;
}

uint64_t sim_sent(const struct sim *s, unsigned int i)
{
	return s->node[i].sent;
}

uint64_t sim_ike_sent(const struct sim *s, unsigned int i)
{
	return s->node[i].ike_sent;
}

uint64_t sim_udp_sent(const struct sim *s, unsigned int i)
{
	return s->node[i].udp_sent;
}
