/* MAC authentication (RFC 8967): keys, packet counters, challenges. A receiver keeps the counters
 * of unicast and multicast packets apart, since one kind may overtake the other. */
#include "babel/babel_priv.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

enum {
	MAC_MAX = 32,
	BLAKE2S_LEN = 16,
	PC_TLV = BABEL_TLV_HEADER + 4 + BABEL_INDEX,
	NONCE_LIFE_US = 30 * 1000000,
	CHALLENGE_GAP_US = 300000,
	COUNTERS_LIFE_US = 300 * 1000000, /* RFC 8967 4.4 */
	PSEUDO = 16 + 2 + 16 + 2,
};

static const uint8_t group[16] = {0xff, 0x02, [13] = 0x01, [15] = 0x06};

static size_t mac_len(const struct babel_key *k)
{
	return k->algorithm == BABEL_MAC_BLAKE2S ? BLAKE2S_LEN : MAC_MAX;
}

size_t babel_mac_overhead(const struct babel_iface *ifc)
{
	size_t n = ifc->c.key_count ? PC_TLV : 0;

	for (int i = 0; i < ifc->c.key_count; i++)
		n += BABEL_TLV_HEADER + mac_len(&ifc->c.key[i]);
	return n;
}

int babel_mac_index(struct babel *b, struct babel_iface *ifc)
{
	uint8_t index[BABEL_INDEX];

	if (rng_fill(&b->c.rng, index, sizeof(index)) < 0)
		return -EIO;
	memcpy(ifc->index, index, sizeof(index));
	ifc->pc = 0;
	return 0;
}

/* RFC 8967 4.1. */
static int compute(const struct babel_key *k, const struct ipaddr *source,
	const struct ipaddr *destination, struct view packet, uint8_t out[static MAC_MAX])
{
	uint8_t pseudo[PSEUDO];
	struct wcur w = wcur_of(pseudo, sizeof(pseudo));
	struct view key = view_of(k->key, k->len);
	struct view data[2];

	wcur_bytes(&w, source->b, 16);
	wcur_u16(&w, BABEL_PORT);
	wcur_bytes(&w, destination->b, 16);
	wcur_u16(&w, BABEL_PORT);
	data[0] = wcur_written(&w);
	data[1] = packet;
	if (k->algorithm == BABEL_MAC_BLAKE2S)
		return mac_blake2s(key, data, 2, out);
	return prf(PRF_HMAC_SHA2_256, key, data, 2, out);
}

bool babel_mac_sign(struct babel *b, struct babel_iface *ifc, struct babel_build *w,
	const struct ipaddr *destination)
{
	uint8_t pc[4], mac[MAC_MAX];
	struct view signed_part;

	w->w.cap += babel_mac_overhead(ifc);
	if (ifc->c.key_count) {
		if (ifc->pc == UINT32_MAX && babel_mac_index(b, ifc) < 0)
			return false;
		put_u32(pc, ++ifc->pc);
		(void)babel_build_bytes(w, BABEL_TLV_PC, view_of(pc, sizeof(pc)),
			view_of(ifc->index, sizeof(ifc->index)));
	}
	babel_build_body_end(w);
	signed_part = wcur_written(&w->w);
	for (int i = 0; i < ifc->c.key_count; i++) {
		const struct babel_key *k = &ifc->c.key[i];

		if (compute(k, &ifc->c.link_local, destination, signed_part, mac) < 0)
			return false;
		(void)babel_build_bytes(w, BABEL_TLV_MAC, (struct view){0},
			view_of(mac, mac_len(k)));
	}
	return !w->w.full;
}

/* One MAC a key, whatever the number of MACs in the packet (RFC 8967 4.3). */
static bool authentic(const struct babel_iface *ifc, const struct babel_datagram *d,
	const struct babel_parsed *p)
{
	struct ipaddr to = d->unicast ? ifc->c.link_local : ipaddr_from(IP6, group);
	bool good = false;

	for (int i = 0; i < ifc->c.key_count; i++) {
		const struct babel_key *k = &ifc->c.key[i];
		struct cur trailer = cur_view(p->trailer);
		uint8_t mac[MAC_MAX];
		struct view v;

		if (compute(k, &d->source, &to, p->signed_part, mac) < 0)
			continue;
		while (babel_trailer_mac(&trailer, &v))
			good |= v.n == mac_len(k) && w_equal_secret(v.p, mac, v.n);
	}
	return good;
}

struct found {
	const struct babel_tlv *pc, *challenge;
	bool answered;
};

/* RFC 8967 4.3, the first pass. Of challenges the last one counts. */
static struct found look(const struct babel_parsed *p, const struct babel_neighbour *n, wtime now)
{
	struct found f = {0};

	for (size_t i = 0; i < p->n; i++) {
		const struct babel_tlv *t = &p->tlv[i];

		if (t->type == BABEL_TLV_PC && !f.pc)
			f.pc = t;
		else if (t->type == BABEL_TLV_CHALLENGE)
			f.challenge = t;
		else if (t->type == BABEL_TLV_CHALLENGE_REPLY && n && n->mac.has_nonce &&
			!wtime_due(n->mac.nonce_until, now))
			f.answered |= t->bytes.n == BABEL_INDEX &&
				memcmp(t->bytes.p, n->mac.nonce, BABEL_INDEX) == 0;
	}
	return f;
}

static void challenge(struct babel *b, struct babel_neighbour *n, wtime now)
{
	struct babel_neighbour_mac *m = &n->mac;

	if (!wtime_due(m->challenge_next, now))
		return;
	if (rng_fill(&b->c.rng, m->nonce, sizeof(m->nonce)) < 0)
		return;
	m->has_nonce = m->challenge_due = true;
	m->nonce_until = wtime_add(now, NONCE_LIFE_US);
	m->challenge_next = wtime_add(now, CHALLENGE_GAP_US);
	babel_unicast_flag(b, n, now);
}

static void reply(struct babel *b, struct babel_neighbour *n, struct view nonce, wtime now)
{
	struct babel_neighbour_mac *m = &n->mac;

	if (!wtime_due(m->reply_next, now))
		return;
	m->reply_due = true;
	m->reply_len = (uint8_t)nonce.n;
	if (nonce.n)
		memcpy(m->reply, nonce.p, nonce.n);
	m->reply_next = wtime_add(now, CHALLENGE_GAP_US);
	babel_unicast_flag(b, n, now);
}

void babel_mac_write(struct babel *b, struct babel_neighbour *n, struct babel_build *w, wtime now)
{
	struct babel_neighbour_mac *m = &n->mac;

	(void)b;
	(void)now;
	if (m->reply_due)
		(void)babel_build_bytes(w, BABEL_TLV_CHALLENGE_REPLY, (struct view){0},
			view_of(m->reply, m->reply_len));
	if (m->challenge_due)
		(void)babel_build_bytes(w, BABEL_TLV_CHALLENGE, (struct view){0},
			view_of(m->nonce, sizeof(m->nonce)));
	m->reply_due = m->challenge_due = false;
}

static void set_index(struct babel_neighbour_mac *m, const struct babel_tlv *pc, wtime now)
{
	m->has_index = true;
	m->index_len = (uint8_t)pc->pc.index.n;
	if (m->index_len)
		memcpy(m->index, pc->pc.index.p, m->index_len);
	m->pc_unicast = m->pc_multicast = pc->pc.pc;
	m->has_nonce = false;
	m->accepted = now;
}

/* Index and counter of an authentic packet. */
static bool fresh(struct babel *b, struct babel_neighbour *n, const struct found *f, bool unicast,
	wtime now)
{
	struct babel_neighbour_mac *m = &n->mac;
	uint32_t *last = unicast ? &m->pc_unicast : &m->pc_multicast;

	if (m->has_index && wtime_diff(now, m->accepted) > COUNTERS_LIFE_US)
		m->has_index = false;
	if (f->answered) {
		set_index(m, f->pc, now);
		return true;
	}
	if (!m->has_index || !view_equal(view_of(m->index, m->index_len), f->pc->pc.index)) {
		challenge(b, n, now);
		return false;
	}
	if (f->pc->pc.pc <= *last)
		return false;
	*last = f->pc->pc.pc;
	m->accepted = now;
	return true;
}

bool babel_mac_accept(struct babel *b, struct babel_iface *ifc, const struct babel_datagram *d,
	const struct babel_parsed *p, wtime now)
{
	struct babel_neighbour *n;
	struct found f;
	bool good;

	if (!ifc->c.key_count)
		return true;
	if (!authentic(ifc, d, p)) {
		if (!ifc->c.accept_unsigned)
			babel_drop(b, BABEL_DROP_NOT_AUTHENTIC);
		return ifc->c.accept_unsigned;
	}
	n = babel_neighbour_find(b, ifc, &d->source);
	f = look(p, n, now);
	if (!f.pc) {
		babel_drop(b, BABEL_DROP_NOT_AUTHENTIC);
		return ifc->c.accept_unsigned;
	}
	if (!n)
		n = babel_neighbour_get(b, ifc, &d->source, now);
	if (!n)
		return false;
	/* one that came by multicast is ignored (4.3.1.2) */
	if (f.challenge && d->unicast)
		reply(b, n, f.challenge->bytes, now);
	good = fresh(b, n, &f, d->unicast, now);
	if (!good && !ifc->c.accept_unsigned)
		babel_drop(b, BABEL_DROP_REPLAY);
	return good || ifc->c.accept_unsigned;
}
