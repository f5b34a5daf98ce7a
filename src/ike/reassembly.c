/* Fragments put together again (RFC 7383 2.6). One message at a time, bounded in fragments and
 * bytes; only authentic fragments change anything. */
#include <errno.h>
#include "base/mem.h"
#include "ike/open_priv.h"
#include "ike/protect_priv.h"

struct ike_reassembly {
	bool active;
	uint32_t mid;
	uint8_t exchange;
	uint16_t total, have;
	size_t bytes;          /* of text in all parts */
	struct ike_build head; /* the plain form's begin, from fragment 1 */
	struct buf part[IKE_FRAGMENTS_MAX];
	bool present[IKE_FRAGMENTS_MAX];
};

int ike_reassembly_new(struct ike_reassembly **ret)
{
	struct ike_reassembly *r = w_calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*ret = r;
	return 0;
}

void ike_reassembly_clear(struct ike_reassembly *r)
{
	for (unsigned int i = 0; i < IKE_FRAGMENTS_MAX; i++)
		buf_free_secret(&r->part[i]);
	ike_build_free(&r->head);
	*r = (struct ike_reassembly){0};
}

void ike_reassembly_free(struct ike_reassembly *r)
{
	if (!r)
		return;
	ike_reassembly_clear(r);
	w_free(r);
}

/* Is the fragment of the message that is being put together? */
static bool same_message(const struct ike_reassembly *r, const struct ike_msg *m)
{
	return r->active && r->mid == m->h.mid && r->exchange == m->h.exchange;
}

/* What can be said before the ICV was looked at. */
static enum ike_open_result fragment_check(const struct ike_reassembly *r, const struct ike_msg *m)
{
	const struct ike_encrypted *e = &m->enc;

	if (e->number == 0)
		return IKE_OPEN_FRAGMENT_ZERO;
	if (e->number > e->total)
		return IKE_OPEN_FRAGMENT_ABOVE;
	if (e->total > IKE_FRAGMENTS_MAX)
		return IKE_OPEN_FRAGMENT_TOTAL_LIMIT;
	/* RFC 7383 2.5.3: unencrypted payloads go in the first fragment */
	if (e->number > 1 && m->count > 0)
		return IKE_OPEN_FRAGMENT_CLEAR;
	if (r->active && m->h.mid < r->mid)
		return IKE_OPEN_FRAGMENT_OLD;
	if (!same_message(r, m))
		return IKE_OPEN_OK;
	if (e->total < r->total)
		return IKE_OPEN_FRAGMENT_LOWER_TOTAL;
	if (e->total == r->total && r->present[e->number - 1])
		return IKE_OPEN_FRAGMENT_DUPLICATE;
	return IKE_OPEN_OK;
}

/* Keeps an authentic fragment; text is taken over. A new message, or a higher total (the peer
 * fragmented anew, smaller), starts afresh. */
static enum ike_open_result fragment_keep(struct ike_reassembly *r, const struct ike_msg *m,
	struct buf *text)
{
	const struct ike_encrypted *e = &m->enc;
	bool fresh = !same_message(r, m) || e->total > r->total;
	size_t bytes = (fresh ? 0 : r->bytes) + text->n;

	if (e->number == 1)
		bytes += e->aad.n; /* header and clear payloads are kept as well */
	if (bytes > IKE_REASSEMBLY_MAX)
		return IKE_OPEN_FRAGMENT_MEMORY;
	if (fresh)
		ike_reassembly_clear(r);
	if (e->number == 1) {
		ike_plain_begin(&r->head, m);
		if (r->head.out.failed) {
			ike_reassembly_clear(r);
			return IKE_OPEN_NO_MEMORY;
		}
	}
	r->active = true;
	r->mid = m->h.mid;
	r->exchange = m->h.exchange;
	r->total = e->total;
	r->bytes = bytes;
	r->have++;
	r->present[e->number - 1] = true;
	r->part[e->number - 1] = *text;
	*text = (struct buf){0};
	return r->have == r->total ? IKE_OPEN_OK : IKE_OPEN_INCOMPLETE;
}

/* All are there: the plain form, with the parts in order. */
static enum ike_open_result fragments_join(struct ike_reassembly *r, struct ike_opened *ret)
{
	int err;

	for (unsigned int i = 0; i < r->total; i++)
		buf_add(&r->head.out, r->part[i].p, r->part[i].n);
	err = ike_plain_finish(&r->head, ret);
	ike_reassembly_clear(r);
	if (err)
		return err == -ENOMEM ? IKE_OPEN_NO_MEMORY : IKE_OPEN_FRAGMENT_MEMORY;
	return IKE_OPEN_OK;
}

static enum ike_open_result open_fragment(struct ike_protect *p, struct ike_reassembly *r,
	const struct ike_msg *m, struct ike_opened *ret)
{
	enum ike_open_result result = fragment_check(r, m);
	struct buf text = {0};

	if (result)
		return result;
	result = ike_open_packet(p, &m->enc, &text);
	if (result)
		return result;
	result = fragment_keep(r, m, &text);
	buf_free_secret(&text);
	return result == IKE_OPEN_OK ? fragments_join(r, ret) : result;
}

enum ike_open_result ike_open(struct ike_protect *p, struct ike_reassembly *r,
	const struct ike_msg *m, struct ike_opened *ret)
{
	enum ike_open_result result;
	struct buf text = {0};
	struct ike_build b;
	int err;

	if (m->enc.type == IKE_PL_NONE || (m->enc.type == IKE_PL_SKF && !r))
		return IKE_OPEN_NOT_ENCRYPTED;
	if (m->enc.type == IKE_PL_SKF)
		return open_fragment(p, r, m, ret);
	result = ike_open_packet(p, &m->enc, &text);
	if (result)
		return result;
	ike_plain_begin(&b, m);
	buf_add(&b.out, text.p, text.n);
	buf_free_secret(&text);
	err = ike_plain_finish(&b, ret);
	if (err)
		return IKE_OPEN_NO_MEMORY;
	/* the message came whole: what was kept of it, or of an older one, is of no use any more */
	if (r && r->active && r->mid <= m->h.mid)
		ike_reassembly_clear(r);
	return IKE_OPEN_OK;
}
