/* Segmentation: see gso.h. As the kernel would do it in tcp_gso_segment() and for UDP_SEGMENT: RFC
 * 9293 (sequence numbers, flags), RFC 768, RFC 3168 6.1.2 (CWR on the first segment only). */
#include "wire/gso.h"

#include <string.h>
#include "wire/csum.h"
#include "wire/l4.h"

static bool is_tcp(uint8_t type)
{
	return type == GSO_TCP4 || type == GSO_TCP6;
}

/* The transport header of a superpacket, found by the packet's own fields. 0 when it is no packet
 * that can be cut. */
static uint32_t l4_header_len(const struct tun_rx *f, const struct ip_view *v)
{
	bool tcp = is_tcp(f->gso.type);
	bool v6 = f->gso.type == GSO_TCP6 || f->gso.type == GSO_UDP6;
	uint32_t len;

	if (v->family != (v6 ? IP6 : IP4) || v->proto != (tcp ? IP_PROTO_TCP : IP_PROTO_UDP) ||
		ip_is_fragment(v) || v->len - v->l4 < (tcp ? TCP_HEADER : UDP_HEADER))
		return 0;
	if (!tcp)
		return UDP_HEADER;
	len = (f->data[v->l4 + TCP_OFFSET_AT] >> 4) * 4u;
	return len < TCP_HEADER || len > v->len - v->l4 ? 0 : len;
}

static enum drop_reason check_superpacket(const struct tun_rx *f, const struct ip_view *v)
{
	uint32_t header = l4_header_len(f, v), payload, field;

	if (f->gso.type > GSO_UDP6 || header == 0 || f->len != v->len || f->gso.size == 0)
		return DROP_BAD_OFFLOAD;
	header += v->l4;
	payload = v->len - header;
	if (header > GSO_HEADER_MAX || payload == 0 || payload > f->gso.size * GSO_SEGMENTS_MAX)
		return DROP_BAD_OFFLOAD;
	field = is_tcp(f->gso.type) ? TCP_CHECKSUM_AT : UDP_CHECKSUM_AT;
	if (f->gso.needs_csum && (f->gso.csum_start != v->l4 || f->gso.csum_offset != field))
		return DROP_BAD_OFFLOAD;
	return DROP_NONE;
}

enum drop_reason gso_check(const struct tun_rx *f, struct ip_view *ret)
{
	struct ip_view v;
	enum drop_reason r = DROP_NONE;

	if (ip_parse(view_of(f->data, f->len), &v) < 0)
		return DROP_BAD_IP;
	if (f->gso.type != GSO_NONE)
		r = check_superpacket(f, &v);
	else if (f->gso.needs_csum &&
		(f->gso.csum_start < v.header_len ||
			(uint32_t)f->gso.csum_start + f->gso.csum_offset + sizeof(uint16_t) >
				v.len))
		r = DROP_BAD_OFFLOAD;
	if (r == DROP_NONE)
		*ret = v;
	return r;
}

/* Makes the header that all segments share, with zeros where they differ, and its sums. */
static void make_template(struct gso_split *s)
{
	struct ip_view *v = &s->view;
	uint8_t *h = s->header, *l4 = h + v->l4;

	memcpy(h, s->packet, s->header_len);
	if (v->family == IP4) {
		put_u16(h + IP4_LENGTH_AT, 0);
		put_u16(h + IP4_ID_AT, 0);
		put_u16(h + IP4_CHECKSUM_AT, 0);
		s->ip_sum = csum_add_words(0, h, v->header_len);
	}
	if (is_tcp(s->type)) {
		s->seq = get_u32(l4 + TCP_SEQ_AT);
		put_u32(l4 + TCP_SEQ_AT, 0);
		put_u16(l4 + TCP_CHECKSUM_AT, 0);
	} else {
		put_u16(l4 + UDP_LENGTH_AT, 0);
		put_u16(l4 + UDP_CHECKSUM_AT, 0);
	}
	s->l4_sum = csum_add(ip_pseudo_sum(&v->src, &v->dst, v->proto, 0), l4,
		s->header_len - v->l4);
}

enum drop_reason gso_split_init(const struct tun_rx *f, struct gso_split *ret)
{
	struct gso_split *s = ret;
	enum drop_reason r = gso_check(f, &s->view);
	uint32_t payload;

	if (r != DROP_NONE)
		return r;
	s->packet = f->data;
	s->type = f->gso.type;
	s->complete = f->gso.type == GSO_NONE && f->gso.needs_csum;
	s->no_csum = false;
	if (s->type == GSO_NONE) {
		s->csum_start = f->gso.csum_start;
		s->csum_at = f->gso.csum_start + f->gso.csum_offset;
		s->segments = 1;
		s->seg_len = s->last_len = s->view.len;
		return DROP_NONE;
	}
	s->header_len = s->view.l4 + l4_header_len(f, &s->view);
	payload = s->view.len - s->header_len;
	s->size = f->gso.size;
	s->segments = (payload + s->size - 1) / s->size;
	s->last_len = s->header_len + payload - (s->segments - 1) * s->size;
	s->seg_len = s->segments > 1 ? s->header_len + s->size : s->last_len;
	s->no_csum = s->type == GSO_UDP4 && !f->gso.needs_csum &&
		get_u16(f->data + s->view.l4 + UDP_CHECKSUM_AT) == 0;
	make_template(s);
	return DROP_NONE;
}

/* RFC 768: a UDP sum of zero is sent as all ones; for others both mean the same. */
static uint16_t never_zero(uint16_t field)
{
	return field ? field : UINT16_MAX;
}

static uint32_t write_plain(const struct gso_split *s, uint8_t *dst)
{
	uint64_t sum;

	if (!s->complete) {
		memcpy(dst, s->packet, s->view.len);
		return s->view.len;
	}
	/* The field holds the pseudo-header's sum already, and is summed with the rest. */
	memcpy(dst, s->packet, s->csum_start);
	sum = csum_copy(0, dst + s->csum_start, s->packet + s->csum_start,
		s->view.len - s->csum_start);
	put_u16(dst + s->csum_at, never_zero(csum_finish(sum)));
	return s->view.len;
}

/* Lengths, ID and checksum of the IP header. */
static void patch_ip(const struct gso_split *s, uint32_t i, uint32_t len, uint8_t *dst)
{
	uint16_t id = (uint16_t)(s->view.id + i);

	if (s->view.family == IP6) {
		put_u16(dst + IP6_LENGTH_AT, (uint16_t)(len - IP6_HEADER));
		return;
	}
	put_u16(dst + IP4_LENGTH_AT, (uint16_t)len);
	put_u16(dst + IP4_ID_AT, id);
	put_u16(dst + IP4_CHECKSUM_AT,
		csum_finish(csum_add_u16(csum_add_u16(s->ip_sum, (uint16_t)len), id)));
}

/* Sequence number and flags of a TCP header; returns sum with what they add to the checksum. */
static uint64_t patch_tcp(const struct gso_split *s, uint32_t i, uint8_t *tcp, uint64_t sum)
{
	uint32_t seq = s->seq + i * s->size;
	uint8_t off = 0;

	if (i > 0)
		off |= TCP_CWR;
	if (i + 1 < s->segments)
		off |= TCP_FIN | TCP_PSH;
	off &= tcp[TCP_FLAGS_AT];
	tcp[TCP_FLAGS_AT] ^= off;
	put_u32(tcp + TCP_SEQ_AT, seq);
	/* Flags stand in the low byte of their word: what is off is taken away again. */
	return csum_add_u16(csum_add_u32(sum, seq), (uint16_t) ~(uint16_t)off);
}

uint32_t gso_split_write(const struct gso_split *s, uint32_t i, uint8_t *dst)
{
	uint32_t len = i + 1 < s->segments ? s->seg_len : s->last_len;
	uint32_t payload = len - s->header_len, l4_len = len - s->view.l4;
	uint8_t *l4 = dst + s->view.l4;
	uint64_t sum = csum_add_u16(s->l4_sum, (uint16_t)l4_len);
	const uint8_t *from;

	if (s->type == GSO_NONE)
		return write_plain(s, dst);
	from = s->packet + s->header_len + (size_t)i * s->size;
	memcpy(dst, s->header, s->header_len);
	patch_ip(s, i, len, dst);
	if (is_tcp(s->type)) {
		sum = patch_tcp(s, i, l4, sum);
		sum = csum_copy(sum, dst + s->header_len, from, payload);
		put_u16(l4 + TCP_CHECKSUM_AT, csum_finish(sum));
		return len;
	}
	put_u16(l4 + UDP_LENGTH_AT, (uint16_t)l4_len);
	sum = csum_copy(csum_add_u16(sum, (uint16_t)l4_len), dst + s->header_len, from, payload);
	if (!s->no_csum)
		put_u16(l4 + UDP_CHECKSUM_AT, never_zero(csum_finish(sum)));
	return len;
}

enum drop_reason gso_complete(struct tun_rx *f)
{
	struct ip_view v;
	enum drop_reason r = gso_check(f, &v);
	uint16_t start = f->gso.csum_start;

	if (r != DROP_NONE || !f->gso.needs_csum)
		return r;
	if (f->gso.type != GSO_NONE)
		return DROP_BAD_OFFLOAD;
	put_u16(f->data + start + f->gso.csum_offset,
		never_zero(csum_finish(csum_add(0, f->data + start, v.len - start))));
	f->gso.needs_csum = false;
	return DROP_NONE;
}
