/* Messages of an IKE SA on their way out: sealed, cut for datagrams of some size, and cut smaller
 * when those do not come through. RFC 7383 2.5.1, 2.5.2: the larger size (ike_config.datagram_max)
 * is tried first in each IKE SA, then the least that the family's paths carry, 576 or 1280 bytes,
 * for the rest of the SA. There are no sizes between, and no ICMP is asked for. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"
#include "ike/open_priv.h"

enum cut_sizes {
	LEAST_IP4 = 576,  /* RFC 791: each host takes it */
	LEAST_IP6 = 1280, /* RFC 8200 5 */
};

/* The longest message in a datagram of at most `limit` bytes. */
static size_t message_in(const struct ike_sa *sa, size_t limit)
{
	size_t head = sa->remote.ip.family == IP4 ? IKE_IP4_UDP_LEN : IKE_IP6_UDP_LEN;

	return limit - head - IKE_MARKER_LEN;
}

static size_t message_least(const struct ike_sa *sa)
{
	size_t least = sa->remote.ip.family == IP4 ? LEAST_IP4 : LEAST_IP6;
	size_t limit = sa->ike->config.datagram_max;

	return message_in(sa, limit < least ? limit : least);
}

/* 0: the peer takes no fragments. */
static size_t message_max(const struct ike_sa *sa)
{
	if (!sa->fragments)
		return 0;
	return sa->small ? message_least(sa) : message_in(sa, sa->ike->config.datagram_max);
}

struct ike_header ike_sa_header(const struct ike_sa *sa, uint8_t exchange, uint32_t mid,
	bool response)
{
	return (struct ike_header){
		.spi_i = sa->spi_i,
		.spi_r = sa->spi_r,
		.version = IKE_VERSION,
		.exchange = exchange,
		.flags = (uint8_t)((sa->initiator ? IKE_FLAG_INITIATOR : 0) |
			(response ? IKE_FLAG_RESPONSE : 0)),
		.mid = mid,
	};
}

/* ---- Sealing ---- */
/* RFC 9242 3.3.1: what we send in IKE_INTERMEDIATE is authenticated later, by IKE_AUTH. */
static int seal_int_auth(struct ike_sa *sa, const struct ike_header *h,
	const struct ike_inner *inner)
{
	struct buf plain = {0};
	int err = ike_plain_form(h, inner, &plain);

	if (err == 0)
		err = ike_int_auth_add(&sa->hs->int_auth, &sa->keys, h->flags & IKE_FLAG_RESPONSE,
			buf_view(&plain));
	buf_free_secret(&plain);
	return err;
}

static int sa_seal(struct ike_sa *sa, const struct ike_header *h, struct ike_build *b,
	struct ike_sealed *ret)
{
	struct ike_inner inner;
	int err = ike_build_finish(b);

	if (err < 0)
		return err;
	inner = (struct ike_inner){.first = b->first, .bytes = buf_view(&b->out)};
	if (h->exchange == IKE_INTERMEDIATE && sa->hs) {
		err = seal_int_auth(sa, h, &inner);
		if (err < 0)
			return err;
	}
	return ike_seal(sa->protect, &sa->ike->config.rng, h, &inner, message_max(sa), ret);
}

int ike_sa_seal(struct ike_sa *sa, const struct ike_header *h, struct ike_build *b,
	struct ike_sent *ret)
{
	struct view packet;
	size_t at = 0;
	int err = sa_seal(sa, h, b, &ret->cut);

	if (err < 0)
		return err;
	/* the first packet is the longest */
	if (!sa->fragments || !ike_sealed_next(&ret->cut, &at, &packet) ||
		packet.n <= message_least(sa))
		return 0;
	ret->h = *h;
	ret->first = b->first;
	ret->text = b->out;
	b->out = (struct buf){0};
	return 0;
}

void ike_sent_free(struct ike_sent *s)
{
	ike_sealed_free(&s->cut);
	buf_free_secret(&s->text);
	*s = (struct ike_sent){0};
}

/* ---- Cutting smaller ---- */
bool ike_sent_large(const struct ike_sent *s)
{
	return s->text.n > 0;
}

/* The same message under the same keys. RFC 7383 2.5.2: Total Fragments must grow, so that the peer
 * can tell the sets apart; where it would not (sizes that differ by little), nothing changes. */
static bool cut_smaller(struct ike_sa *sa, struct ike_protect *p, struct ike_sent *s)
{
	const struct ike_inner inner = {.first = s->first, .bytes = buf_view(&s->text)};
	struct ike_sealed cut = {0};
	int err;

	sa->small = true;
	err = ike_seal(p, &sa->ike->config.rng, &s->h, &inner, message_max(sa), &cut);
	if (err < 0) {
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
		ike_sealed_free(&cut);
		return false;
	}
	buf_free_secret(&s->text);
	if (cut.count <= s->cut.count) {
		ike_sealed_free(&cut);
		return false;
	}
	ike_sealed_free(&s->cut);
	s->cut = cut;
	return true;
}

bool ike_sa_request_smaller(struct ike_sa *sa)
{
	return ike_sent_large(&sa->request) && cut_smaller(sa, sa->protect, &sa->request);
}

void ike_sa_request_seen(struct ike_sa *sa, const struct ike_msg *m, const struct ike_datagram *d)
{
	/* all but the last fragment are as long as the peer lets them be */
	if (m->enc.type == IKE_PL_SKF && m->enc.number < m->enc.total &&
		d->data.n <= message_least(sa))
		sa->small = true;
}

void ike_sa_reply_again(struct ike_sa *sa)
{
	struct ike_protect *p = sa->protect_before ? sa->protect_before : sa->protect;

	if (!ike_sent_large(&sa->reply))
		return;
	sa->reply_again++;
	if (sa->small || sa->reply_again >= IKE_REPLIES_LARGE)
		(void)cut_smaller(sa, p, &sa->reply); /* if not now, with the next repetition */
}

/* ---- Sending ---- */
void ike_sa_send_sealed(struct ike_sa *sa, const struct ike_sealed *s, const struct endpoint *local,
	const struct endpoint *remote)
{
	struct view v;
	size_t at = 0;

	while (ike_sealed_next(s, &at, &v))
		ike_send(sa->ike, local, remote, v);
}

void ike_sa_send_once(struct ike_sa *sa, struct ike_build *b)
{
	struct ike_header h = ike_sa_header(sa, IKE_INFORMATIONAL, sa->next_out, false);
	struct ike_sealed s = {0};

	if (sa_seal(sa, &h, b, &s) == 0)
		ike_sa_send_sealed(sa, &s, &sa->local, &sa->remote);
	else
		ike_drop_count(sa->ike, IKE_DROP_NO_MEMORY);
	ike_sealed_free(&s);
}
