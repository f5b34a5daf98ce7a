/* Merging: see gro.h. The rules are those of the kernel's inet_gro_receive(), ipv6_gro_receive(),
 * tcp_gro_receive() and udp_gro_receive(), narrowed: no IPv6 extension headers. A segment is merged
 * only when its checksum is right, since the kernel is told to trust the result. */
#include "wire/gro.h"

#include <string.h>
#include "wire/csum.h"
#include "wire/l4.h"

/* What is known of a packet that could be merged. */
struct candidate {
	uint8_t *packet;
	const struct ip_view *v;
	uint32_t header_len; /* IP and transport header */
	uint32_t payload;
	uint8_t flags; /* TCP */
};

void gro_init(struct gro *g, struct tun_tx *out, uint32_t capacity)
{
	memset(g, 0, sizeof(*g));
	g->out = out;
	g->capacity = capacity;
}

void gro_set_merge(struct gro *g, bool tcp, bool udp)
{
	g->merge_tcp = tcp;
	g->merge_udp = udp;
}

void gro_reset(struct gro *g)
{
	g->count = 0;
	g->last = NULL;
	memset(g->flow, 0, sizeof(g->flow));
}

/* TCP flags that a segment in the middle of a superpacket can have; CWR in the first, FIN and PSH
 * in the last. */
static bool tcp_flags_well(uint8_t flags)
{
	return (flags & TCP_ACK) && !(flags & (TCP_SYN | TCP_RST | TCP_URG));
}

/* Whether the packet is of a kind that can be merged at all. */
static bool is_candidate(const struct gro *g, uint8_t *packet, const struct ip_view *v,
	struct candidate *ret)
{
	const uint8_t *l4 = packet + v->l4;
	uint32_t l4_len = v->len - v->l4, header;

	*ret = (struct candidate){.packet = packet, .v = v};
	if (v->options || ip_is_fragment(v))
		return false;
	if (v->proto == IP_PROTO_TCP && g->merge_tcp && l4_len > TCP_HEADER) {
		header = (l4[TCP_OFFSET_AT] >> 4) * 4u;
		ret->flags = l4[TCP_FLAGS_AT];
		if (header < TCP_HEADER || !tcp_flags_well(ret->flags))
			return false;
	} else if (v->proto == IP_PROTO_UDP && g->merge_udp && l4_len > UDP_HEADER) {
		header = UDP_HEADER;
		/* Without a checksum (valid in IPv4, RFC 768) nothing vouches for the payload. */
		if (get_u16(l4 + UDP_LENGTH_AT) != l4_len || get_u16(l4 + UDP_CHECKSUM_AT) == 0)
			return false;
	} else {
		return false;
	}
	ret->header_len = v->l4 + header;
	ret->payload = l4_len - header;
	return l4_len > header;
}

/* The pseudo-header's sum; both addresses stand side by side in the packet. */
static uint64_t pseudo_sum(const uint8_t *packet, uint8_t family, uint8_t proto, uint32_t l4_len)
{
	uint64_t sum = family == IP6 ? csum_add_words(0, packet + IP6_ADDRESSES_AT, 32)
				     : csum_add_words(0, packet + IP4_ADDRESSES_AT, 8);

	return csum_add_u32(csum_add_u16(sum, proto), l4_len);
}

/* Of a packet of the flow. */
static bool checksum_well(const struct gro_flow *f, const uint8_t *packet, uint32_t len)
{
	uint32_t l4_len = len - f->l4;
	uint64_t sum = pseudo_sum(packet, f->family, f->proto, l4_len);

	return csum_finish(csum_add(sum, packet + f->l4, l4_len)) == 0;
}

/* The first packet's checksum is looked at when a second wants to join it. */
static bool head_well(const struct gro *g, struct gro_flow *f)
{
	if (!f->verified) {
		f->open = f->open && checksum_well(f, f->head, g->out[f->frame].iov[0].n);
		f->verified = true;
	}
	return f->open;
}

static inline bool same(const uint8_t *a, const uint8_t *b, size_t at, size_t n)
{
	return memcmp(a + at, b + at, n) == 0;
}

/* Addresses and ports: the flow that a packet with ports belongs to. */
static struct gro_flow *find_flow(struct gro *g, const uint8_t *packet, const struct ip_view *v)
{
	size_t at = v->family == IP4 ? IP4_ADDRESSES_AT : IP6_ADDRESSES_AT;
	size_t n = v->family == IP4 ? 8 : 32;

	for (uint32_t i = 0; i < GRO_FLOWS; i++) {
		struct gro_flow *f = &g->flow[i];

		if (f->head && f->family == v->family && f->proto == v->proto &&
			same(f->head, packet, at, n) &&
			memcmp(f->head + f->l4, packet + v->l4, 4) == 0)
			return f;
	}
	return NULL;
}

/* All that the IP header must have in common, addresses aside. */
static bool ip_headers_agree(const struct gro_flow *f, const struct candidate *c)
{
	const uint8_t *a = f->head, *b = c->packet;

	if (f->family == IP6) /* traffic class, flow label; hop limit */
		return same(a, b, 0, 4) && a[IP6_HOP_LIMIT_AT] == b[IP6_HOP_LIMIT_AT];
	return a[IP4_TOS_AT] == b[IP4_TOS_AT] && a[IP4_TTL_AT] == b[IP4_TTL_AT] &&
		same(a, b, IP4_FRAGMENT_AT, 2) && (c->v->dont_fragment || c->v->id == f->next_id);
}

static bool tcp_headers_agree(const struct gro_flow *f, const struct candidate *c)
{
	const uint8_t *a = f->head + f->l4, *b = c->packet + f->l4;
	uint8_t differ = a[TCP_FLAGS_AT] ^ b[TCP_FLAGS_AT];

	return c->header_len == f->header_len && get_u32(b + TCP_SEQ_AT) == f->next_seq &&
		!(c->flags & TCP_CWR) && !(differ & ~(TCP_CWR | TCP_FIN | TCP_PSH)) &&
		same(a, b, TCP_ACK_AT, 4) && a[TCP_OFFSET_AT] == b[TCP_OFFSET_AT] &&
		same(a, b, TCP_WINDOW_AT, 2) && same(a, b, TCP_URGENT_AT, 2) &&
		same(a, b, TCP_HEADER, f->header_len - f->l4 - TCP_HEADER);
}

/* Whether the flow's frame takes that much more. */
static bool has_room(const struct gro *g, const struct gro_flow *f, uint32_t payload)
{
	const struct tun_tx *t = &g->out[f->frame];

	return f->open && payload <= f->size && t->segments < GRO_SEGMENTS_MAX &&
		t->iov_count < TUN_IOV_MAX && t->len + payload <= GRO_LEN_MAX;
}

static bool checksums_well(const struct gro *g, struct gro_flow *f, const struct candidate *c)
{
	return head_well(g, f) && checksum_well(f, c->packet, c->header_len + c->payload);
}

static bool joins(const struct gro *g, struct gro_flow *f, const struct candidate *c)
{
	return has_room(g, f, c->payload) && ip_headers_agree(f, c) &&
		(f->proto == IP_PROTO_UDP || tcp_headers_agree(f, c)) && checksums_well(g, f, c);
}

static void append(struct gro *g, struct gro_flow *f, const struct candidate *c)
{
	struct tun_tx *t = &g->out[f->frame];

	t->iov[t->iov_count++] = (struct wire_iov){.p = c->packet + c->header_len, .n = c->payload};
	t->len += c->payload;
	t->segments++;
	f->next_seq += c->payload;
	f->next_id++;
	f->last_flags = c->flags & (TCP_FIN | TCP_PSH);
	/* A shorter one ends the frame, and so do FIN and PSH. */
	if (c->payload < f->size || f->last_flags)
		f->open = false;
}

static struct gro_flow *take_flow(struct gro *g)
{
	for (uint32_t i = 0; i < GRO_FLOWS; i++) {
		if (!g->flow[i].head)
			return &g->flow[i];
	}
	return &g->flow[g->turn++ % GRO_FLOWS];
}

/* Makes the first packet's header that of the whole frame, when there is more than one packet, and
 * says so in the offload header. */
static void complete_frame(struct tun_tx *t, const struct gro_flow *f)
{
	uint8_t *h = f->head, *l4 = h + f->l4;
	bool v6 = f->family == IP6, tcp = f->proto == IP_PROTO_TCP;
	uint32_t l4_len = t->len - f->l4;
	uint64_t pseudo;

	if (t->segments == 1)
		return;
	pseudo = pseudo_sum(h, f->family, f->proto, l4_len);
	if (v6) {
		put_u16(h + IP6_LENGTH_AT, (uint16_t)(t->len - IP6_HEADER));
	} else {
		put_u16(h + IP4_LENGTH_AT, (uint16_t)t->len);
		ip4_write_checksum(h, IP4_HEADER);
	}
	t->gso = (struct gso){
		.type = (uint8_t)(tcp ? (v6 ? GSO_TCP6 : GSO_TCP4) : (v6 ? GSO_UDP6 : GSO_UDP4)),
		.needs_csum = true,
		.ecn = tcp && (l4[TCP_FLAGS_AT] & TCP_CWR),
		.size = (uint16_t)f->size,
		.hdr_len = (uint16_t)f->header_len,
		.csum_start = f->l4,
		.csum_offset = tcp ? TCP_CHECKSUM_AT : UDP_CHECKSUM_AT,
	};
	if (tcp)
		l4[TCP_FLAGS_AT] |= f->last_flags;
	else
		put_u16(l4 + UDP_LENGTH_AT, (uint16_t)l4_len);
	put_u16(l4 + t->gso.csum_offset, csum_fold(pseudo));
}

/* Nothing joins the flow's frame any more; the entry is free. */
static void end_flow(struct gro *g, struct gro_flow *f)
{
	if (f->head)
		complete_frame(&g->out[f->frame], f);
	f->head = NULL;
}

/* A later fragment shows no ports: it may belong to any flow between its hosts. */
static void end_flows_between(struct gro *g, const uint8_t *packet, const struct ip_view *v)
{
	size_t at = v->family == IP4 ? IP4_ADDRESSES_AT : IP6_ADDRESSES_AT;

	for (uint32_t i = 0; i < GRO_FLOWS; i++) {
		struct gro_flow *f = &g->flow[i];

		if (f->head && f->family == v->family &&
			same(f->head, packet, at, v->family == IP4 ? 8 : 32))
			end_flow(g, f);
	}
}

static void begin_flow(struct gro *g, struct gro_flow *f, const struct candidate *c)
{
	const struct ip_view *v = c->v;

	end_flow(g, f);
	*f = (struct gro_flow){
		.head = c->packet,
		.frame = g->count - 1,
		.size = c->payload,
		.header_len = c->header_len,
		.l4 = v->l4,
		.next_id = (uint16_t)(v->id + 1),
		.family = v->family,
		.proto = v->proto,
		.open = true,
	};
	if (v->proto == IP_PROTO_TCP)
		f->next_seq = get_u32(c->packet + v->l4 + TCP_SEQ_AT) + c->payload;
}

bool gro_add(struct gro *g, uint8_t *packet, const struct ip_view *v)
{
	struct candidate c;
	bool candidate = is_candidate(g, packet, v, &c);
	bool ports = (v->proto == IP_PROTO_TCP || v->proto == IP_PROTO_UDP) &&
		v->frag_offset == 0 && v->len - v->l4 >= 4u;
	struct gro_flow *f = ports ? find_flow(g, packet, v) : NULL;
	struct tun_tx *t;

	g->last = f;
	if (candidate && f && joins(g, f, &c)) {
		append(g, f, &c);
		return true;
	}
	if (g->count == g->capacity)
		return false;
	if (f)
		end_flow(g, f);
	else if (v->frag_offset != 0)
		end_flows_between(g, packet, v);
	t = &g->out[g->count++];
	t->gso = (struct gso){0};
	t->iov_count = 1;
	t->iov[0] = (struct wire_iov){.p = packet, .n = v->len};
	t->len = v->len;
	t->segments = 1;
	t->bulk = t->moved = false;
	if (candidate && !(c.flags & (TCP_FIN | TCP_PSH))) {
		g->last = f ? f : take_flow(g);
		begin_flow(g, g->last, &c);
	}
	return true;
}

/* The IP headers are the same but for what differs from packet to packet, and that is right. */
static bool ip_goes_on(const struct gro_flow *f, const uint8_t *b, uint32_t len)
{
	const uint8_t *a = f->head;

	if (f->family == IP6)
		return same(a, b, 0, 4) && get_u16(b + IP6_LENGTH_AT) == len - IP6_HEADER &&
			same(a, b, IP6_LENGTH_AT + 2, 2) && same(a, b, IP6_ADDRESSES_AT, 32);
	return same(a, b, 0, 2) && get_u16(b + IP4_LENGTH_AT) == len &&
		same(a, b, IP4_FRAGMENT_AT, 4) && same(a, b, IP4_ADDRESSES_AT, 8) &&
		(b[IP4_FRAGMENT_AT] & IP4_DONT_FRAGMENT || get_u16(b + IP4_ID_AT) == f->next_id) &&
		csum_finish(csum_add_words(0, b, IP4_HEADER)) == 0;
}

bool gro_join(struct gro *g, uint8_t *packet, uint32_t len)
{
	struct gro_flow *f = g->last;
	struct candidate c = {.packet = packet};
	const uint8_t *l4;

	if (!f || !f->head || len <= f->header_len)
		return false;
	l4 = packet + f->l4;
	c.header_len = f->header_len;
	c.payload = len - f->header_len;
	if (!has_room(g, f, c.payload) || !ip_goes_on(f, packet, len) ||
		!same(f->head + f->l4, l4, 0, 4))
		return false;
	if (f->proto == IP_PROTO_UDP) {
		if (get_u16(l4 + UDP_LENGTH_AT) != len - f->l4 ||
			get_u16(l4 + UDP_CHECKSUM_AT) == 0)
			return false;
	} else {
		c.flags = l4[TCP_FLAGS_AT];
		if (!tcp_headers_agree(f, &c))
			return false;
	}
	if (!checksums_well(g, f, &c))
		return false;
	append(g, f, &c);
	return true;
}

uint32_t gro_finish(struct gro *g)
{
	for (uint32_t i = 0; i < GRO_FLOWS; i++)
		end_flow(g, &g->flow[i]);
	return g->count;
}
