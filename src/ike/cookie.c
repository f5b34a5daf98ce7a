/* Cookies of IKE_SA_INIT (RFC 7296 2.6): version | HMAC(secret, Ni | IPi | port | SPIi). The secret
 * changes each minute; the one before is still taken. Nothing is kept for a request. */
#include "ike/sa_priv.h"

#include <errno.h>
#include "base/mem.h"

enum { COOKIE_MAC = 32, COOKIE_LEN = 1 + COOKIE_MAC };

static int cookie_rotate(struct ike *ike, wtime now)
{
	int err;

	if (ike->has_cookie && wtime_before(now, wtime_add(ike->cookie_at, IKE_TIME_COOKIE_SECRET)))
		return 0;
	if (ike->has_cookie)
		memcpy(ike->cookie_secret[1], ike->cookie_secret[0], COOKIE_MAC);
	else if ((err = rng_fill(&ike->config.rng, ike->cookie_secret[1], COOKIE_MAC)) < 0)
		return err;
	err = rng_fill(&ike->config.rng, ike->cookie_secret[0], COOKIE_MAC);
	if (err < 0)
		return err;
	ike->cookie_version++;
	ike->cookie_at = now;
	ike->has_cookie = true;
	return 0;
}

static int cookie_compute(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	uint8_t version, uint8_t ret[static COOKIE_LEN])
{
	unsigned int which = version == ike->cookie_version ? 0 : 1;
	uint8_t fixed[10];
	const struct view data[] = {ike_msg_find(m, IKE_PL_NONCE)->body,
		view_of(d->remote.ip.b, sizeof(d->remote.ip.b)), view_of(fixed, sizeof(fixed))};

	put_u64(fixed, m->h.spi_i);
	put_u16(fixed + 8, d->remote.port);
	ret[0] = version;
	return prf(PRF_HMAC_SHA2_256, view_of(ike->cookie_secret[which], COOKIE_MAC), data,
		sizeof(data) / sizeof(data[0]), ret + 1);
}

bool ike_cookie_check(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now)
{
	uint8_t want[COOKIE_LEN];
	struct ike_notify n;
	uint8_t version;

	if (!ike_msg_notify(m, IKE_N_COOKIE, &n) || cookie_rotate(ike, now) < 0)
		return false;
	if (n.data.n != COOKIE_LEN)
		goto bad;
	version = n.data.p[0];
	if (version != ike->cookie_version && version != (uint8_t)(ike->cookie_version - 1))
		goto bad;
	if (cookie_compute(ike, m, d, version, want) < 0 ||
		!w_equal_secret(want, n.data.p, COOKIE_LEN))
		goto bad;
	return true;
bad:
	ike_drop_count(ike, IKE_DROP_BAD_COOKIE);
	return false;
}

void ike_cookie_demand(struct ike *ike, const struct ike_msg *m, const struct ike_datagram *d,
	wtime now)
{
	uint8_t cookie[COOKIE_LEN];
	struct ike_header h = m->h;
	struct ike_build b;

	if (cookie_rotate(ike, now) < 0 ||
		cookie_compute(ike, m, d, ike->cookie_version, cookie) < 0) {
		ike_drop_count(ike, IKE_DROP_NO_MEMORY);
		return;
	}
	h.version = IKE_VERSION;
	h.flags = IKE_FLAG_RESPONSE;
	ike_build_begin(&b, &h);
	ike_build_status(&b, IKE_N_COOKIE, view_of(cookie, sizeof(cookie)));
	if (ike_build_finish(&b) == 0)
		ike_send(ike, &d->local, &d->remote, buf_view(&b.out));
	ike_build_free(&b);
}
